"""Blocks as Markdown, whose source is readable as well."""

from collections.abc import Collection, Iterable, Sequence

from shaberi_dagster.reports.report import Block, Cell, Heading, Sentences
from shaberi_dagster.show.text import markdown_text, pad, width_of


def as_markdown(blocks: Iterable[Block]) -> str:
    """Markdown in which no name means something."""
    return "\n".join(map(_block, blocks))


def markdown_table(titles: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int]) -> str:
    """A table with aligned columns.

    Args:
        titles: One per column.
        rows: As many cells each.
        left: Places of the columns that are aligned on the left; the others are numbers.
    """
    lines = [[markdown_text(cell) for cell in line] for line in (titles, *rows)]
    widths = [max(3, *map(width_of, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * width if index in left else "-" * (width - 1) + ":" for index, width in enumerate(widths)]
    padded = [
        [
            pad(cell, width, "left" if index in left else "right")
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in (lines[0], rule, *lines[1:])
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in padded)


def _block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"**{markdown_text(block.text)}**" + (f" {markdown_text(block.detail)}" if block.detail else "") + "\n"
    if isinstance(block, Sentences):
        return "".join(f"- {markdown_text(line)}\n" for line in block.lines)
    columns = [column for column in block.columns if not column.optional]
    rows = zip(*(map(_cell, column.cells) for column in columns), strict=True)
    left = [index for index, column in enumerate(columns) if column.left]
    table = markdown_table([_cell(column.title) for column in columns], list(rows), left)
    return table + "".join(f"\n{markdown_text(note)}\n" for note in block.notes)


def _cell(cell: Cell) -> str:
    return cell if isinstance(cell, str) else " ".join(cell)
