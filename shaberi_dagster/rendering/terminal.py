"""Blocks on a terminal."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from shaberi_dagster.rendering.document import Block, Cell, Column, Heading, Table
from shaberi_dagster.rendering.text import printable, width_of

GAP = 2
"""Columns of the terminal between two columns of a table."""
NARROWEST = 16
"""To how few columns of the terminal a column that folds gets narrower."""
_STYLES = {"plain": "", "warning": "yellow", "note": "dim"}


def draw(blocks: Iterable[Block], console: Console) -> None:
    """Print blocks, with an empty line between them except after headings. A number is never cut.

    Args:
        blocks: What to print.
        console: Where to; a table whose numbers need more columns than it has takes them.
    """
    previous: Block | None = None
    for block in blocks:
        if previous is not None and not isinstance(previous, Heading):
            console.print()
        for part in _drawn(block, console.width):
            console.print(part, crop=False)
        previous = block


def table_width(table: Table) -> int:
    """The fewest columns of the terminal at which all of a table can be read."""
    return sum(min(_width(one), NARROWEST) if one.folds else _width(one) for one in table.columns) + _gaps(
        table.columns
    )


def lines_of(cell: Cell) -> list[str]:
    """The lines of a cell, made harmless."""
    return [printable(line) for line in ((cell,) if isinstance(cell, str) else cell)]


def _drawn(block: Block, width: int) -> Iterator[RenderableType]:
    if isinstance(block, Table):
        yield _rich_table(block, width)
        yield from (Text(printable(note), style="dim") for note in block.notes)
    elif isinstance(block, Heading):
        yield Text.assemble(
            (printable(block.text), "bold"), *([("  " + printable(block.detail), "dim")] if block.detail else [])
        )
    else:
        yield from (Text(printable(line), style=_STYLES[block.kind]) for line in block.lines)


def _rich_table(table: Table, width: int) -> RichTable:
    columns = list(table.columns)
    widths = list(map(_width, columns))
    if sum(widths) + _gaps(columns) > width:
        columns = [one for one in columns if not one.optional]
        widths = _folded(columns, width)
    drawn = RichTable(box=None, padding=(0, GAP, 0, 0), pad_edge=False, width=max(sum(widths) + _gaps(columns), 1))
    for column, column_width in zip(columns, widths, strict=True):
        drawn.add_column(
            Text("\n".join(lines_of(column.title)), style="bold"),
            width=column_width,
            justify="left" if column.left else "right",
            style=column.style,
            overflow="fold",
            no_wrap=not column.folds,
            vertical="top",
        )
    for index, cells in enumerate(zip(*(column.cells for column in columns), strict=True)):
        drawn.add_row(*(Text("\n".join(lines_of(cell))) for cell in cells), style="bold" if index in table.bold else "")
    return drawn


def _folded(columns: Sequence[Column], width: int) -> list[int]:
    """Widths that fit, as far as columns fold; those on the right first."""
    widths = list(map(_width, columns))
    excess = sum(widths) + _gaps(columns) - width
    for index, column in reversed(list(enumerate(columns))):
        if column.folds and excess > 0:
            narrower = max(widths[index] - excess, min(widths[index], NARROWEST))
            excess -= widths[index] - narrower
            widths[index] = narrower
    return widths


def _width(column: Column) -> int:
    return max(width_of(line) for cell in (column.title, *column.cells) for line in lines_of(cell))


def _gaps(columns: Sequence[Column]) -> int:
    return GAP * (len(columns) - 1)
