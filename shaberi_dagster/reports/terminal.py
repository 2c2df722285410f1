"""Blocks on a terminal."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from shaberi_dagster.reports.blocks import Bar, Block, Cell, Column, Heading, Sentences, Table
from shaberi_dagster.util.text import pad, printable, truncate, truncate_apart, width_of

BAR_WIDTH = 9
"""Columns of the terminal that a bar takes."""
_FEWEST_LINES = 3
"""From how many lines on a column of equal values is a sentence where there is no room for it."""
_STYLES = {"verdict": "bold", "plain": "", "warning": "yellow", "note": "dim", "command": ""}


def draw(blocks: Iterable[Block], console: Console) -> None:
    """Print blocks, with an empty line between them except after headings and before commands. No number is cut.

    Args:
        blocks: What to print.
        console: Where to; a table whose numbers need more columns than it has takes them.
    """
    previous: Block | None = None
    for block in blocks:
        is_command = isinstance(block, Sentences) and block.kind == "command"
        if previous and not isinstance(previous, Heading) and not is_command:
            console.print()
        for part in _drawn(block, console):
            console.print(part, crop=False, soft_wrap=is_command)
        previous = block


def table_width(table: Table) -> int:
    """The fewest columns of the terminal at which all of a table can be read."""
    return _fewest(_without_equal(table.columns)[0])


def lines_of(cell: Cell) -> list[str]:
    """The lines of a cell, made harmless."""
    return [printable(line) for line in ((cell,) if isinstance(cell, str) else cell)]


def _drawn(block: Block, console: Console) -> Iterator[RenderableType]:
    if isinstance(block, Table):
        is_terminal, most = console.is_terminal, console.width
        drawn = [_with_bars(column) if is_terminal and any(column.bars) else column for column in block.columns]
        columns, notes = _with_room(drawn, most)
        if not is_terminal and _fewest(columns) > most and any(column.cuts for column in columns):
            most = sum(map(_width, drawn)) + 2 * (len(drawn) - 1)  # what does not fit anyway is whole
            columns, notes = drawn, []
        yield _rich_table(columns, block.bold, most)
        yield from (Text(printable(note), style="dim") for note in [*block.notes, *notes])
    elif isinstance(block, Heading):
        yield Text.assemble(
            (printable(block.text), "bold"), *([("  " + printable(block.detail), "dim")] if block.detail else [])
        )
    else:
        yield from (Text(printable(line), style=_STYLES[block.kind]) for line in block.lines)


def _with_room(columns: Sequence[Column], width: int) -> tuple[Sequence[Column], list[str]]:
    """The columns for which there is room, and sentences on the others: equal values, and what is not shown."""
    if sum(map(_width, columns)) + 2 * (len(columns) - 1) <= width:
        return columns, []
    columns = [column for column in columns if not column.optional]
    without: list[str] = []
    if _fewest(columns) > width:
        columns = [column if column.left else replace(column, title=_broken(column)) for column in columns]
    columns, equal = _without_equal(columns, width)
    notes = [f"In each line: {', '.join(equal)}."] if equal else []
    while _fewest(columns) > width and (spare := next((one for one in reversed(columns) if one.spare), None)):
        columns = [column for column in columns if column is not spare]
        without.insert(0, _named(spare))
    return columns, [*notes, *([f"Not shown for want of room: {', '.join(without)}."] if without else [])]


def _without_equal(columns: Sequence[Column], width: int = 0) -> tuple[Sequence[Column], list[str]]:
    """The columns, and as title and value those of equal cells that are left out until the others fit uncut."""
    shown, said = list(columns), []
    for column in columns[1:]:  # the first one says what a line is
        if sum(map(_width, shown)) + len(shown) - 1 <= width:
            break
        if len(column.cells) >= _FEWEST_LINES and len(set(column.cells)) == 1 and column.left is not True:
            shown = [other for other in shown if other is not column]
            said.append(f"{_named(column)} {' '.join(lines_of(column.cells[0]))}")
    return shown, said


def _named(column: Column) -> str:
    return " ".join(lines_of(column.title))


def _fewest(columns: Sequence[Column]) -> int:
    """The fewest columns of the terminal at which all can be read."""
    return sum(map(_narrowest, columns)) + len(columns) - 1


def _broken(column: Column) -> Cell:
    """The title of a column broken at its blanks, where it is wider than the cells."""
    room = max((width_of(line) for cell in column.cells for line in lines_of(cell)), default=0)
    lines = lines_of(column.title)
    return tuple(part for line in lines for part in (line.split(" ") if width_of(line) > room else [line]))


def _rich_table(columns: Sequence[Column], bold: Collection[int], most: int) -> RichTable:
    gap = 2 if _fewest(columns) + len(columns) - 1 <= most else 1
    widths = _shrunk(columns, most - gap * (len(columns) - 1))
    drawn = RichTable(
        box=None, padding=(0, gap, 0, 0), pad_edge=False, width=max(sum(widths) + gap * (len(columns) - 1), 1)
    )
    for column, width in zip(columns, widths, strict=True):
        drawn.add_column(
            Text("\n".join(_title(column, width)), style="bold"),
            width=width,
            justify="left" if column.left else "right",
            overflow="fold",
            no_wrap=not column.folds,
            vertical="top",
        )
    shown = [_fitting(column, width) for column, width in zip(columns, widths, strict=True)]
    for index in range(max((len(column.cells) for column in columns), default=0)):
        cells = [
            Text(of_column[index], style=column.styles[index] if column.styles else "")
            for column, of_column in zip(columns, shown, strict=True)
        ]
        drawn.add_row(*cells, style="bold" if index in bold else "")
    return drawn


def _fitting(column: Column, width: int) -> list[str]:
    """The cells of a column, cut to its width where it may be."""
    cells = list(map(lines_of, column.cells))
    if column.cuts:
        names = [line for lines in cells for line in lines]
        cut = dict(zip(names, truncate_apart(names, width, column.cuts), strict=True))
        cells = [[cut[line] for line in lines] for lines in cells]
    return ["\n".join(lines) for lines in cells]


def _title(column: Column, width: int) -> list[str]:
    lines = lines_of(column.title)
    return [truncate(line, width, column.cuts) for line in lines] if column.cuts else lines


def _with_bars(column: Column) -> Column:
    """The column with its intervals drawn on one axis, whose ends are below the title."""
    known = [bar for bar in column.bars if bar]
    low, high = min(lower for lower, *_ in known), max(upper for *_, upper in known)
    ends = f"{low:.1f}", f"{high:.1f}"
    title = *lines_of(column.title), ends[0] + pad(ends[1], BAR_WIDTH - len(ends[0]), "right")
    cells = [_bar(bar, low, high) if bar else "" for bar in column.bars]
    return Column(title, cells=cells, left=True, styles=column.styles)


def _bar(bar: Bar, low: float, high: float) -> str:
    lower, value, upper = (
        round((place - low) / (high - low) * (BAR_WIDTH - 1)) if high > low else BAR_WIDTH // 2 for place in bar
    )
    line = "".join("─" if lower <= place <= upper else " " for place in range(BAR_WIDTH))
    return f"{line[:value]}●{line[value + 1 :]}"


def _shrunk(columns: Sequence[Column], width: int) -> list[int]:
    """Widths that fit, as far as columns fold or are cut; the widest first."""
    widths = list(map(_width, columns))
    fewest = list(map(_narrowest, columns))
    for _ in range(max(sum(widths) - width, 0)):
        spare = [index for index, column in enumerate(columns) if widths[index] > fewest[index]]
        if not spare:
            break
        widths[max(spare, key=lambda index: widths[index])] -= 1
    return widths


def _narrowest(column: Column) -> int:
    return min(_width(column), column.narrowest) if column.folds or column.cuts else _width(column)


def _width(column: Column) -> int:
    return max(map(_cell_width, (column.title, *column.cells)))


@lru_cache(maxsize=8192)
def _cell_width(cell: Cell) -> int:
    """Return the width of the widest line of a cell, which is asked for at each way to fit a table."""
    return max(map(width_of, lines_of(cell)), default=0)
