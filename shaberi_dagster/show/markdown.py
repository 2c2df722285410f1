"""Blocks as Markdown, whose source is readable as well, and tables for a comment on GitHub."""

from collections.abc import Iterable

from shaberi_dagster.reports.report import Block, Cell, Column, Heading, Sentences, Table
from shaberi_dagster.show.text import markdown_text, pad, printable, truncate, width_of

_NAME_WIDTH = 60
# Inside a code span and a table cell two characters still mean something.
_CODE_SUBSTITUTES = str.maketrans({"`": "ˋ", "|": "¦"})


class Markdown(str):
    """A text that is Markdown already: nothing in it is escaped."""

    __slots__ = ()


def as_markdown(blocks: Iterable[Block]) -> str:
    """Return Markdown in which no name means something."""
    return "\n".join(map(_block, blocks))


def code(text: str, width: int = _NAME_WIDTH) -> Markdown:
    """Return a text of unknown origin as a code span on one line, for a table as well."""
    shown = truncate(printable(text.replace("\n", " ")).translate(_CODE_SUBSTITUTES), width).strip()
    return Markdown(f"`{shown or '?'}`")


def comment_table(table: Table) -> str:
    """Return a table for a comment on GitHub, without blanks that only align it.

    Texts stand in code spans, where nothing is markup, a link or a mention.
    """
    columns = table.columns
    lines = [
        [_inline(column.title) for column in columns],
        [":--" if column.left else "--:" for column in columns],
        *zip(*([_in_code(cell, column) for cell in column.cells] for column in columns), strict=True),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + _notes(table)


def _in_code(cell: Cell, column: Column) -> str:
    lines = (cell,) if isinstance(cell, str) else cell
    return "<br>".join(
        code(line) if column.left and line and not isinstance(line, Markdown) else _inline(line) for line in lines
    )


def _inline(cell: Cell) -> str:
    line = cell if isinstance(cell, str) else " ".join(cell)
    return line if isinstance(line, Markdown) else markdown_text(line)


def _block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"**{markdown_text(block.text)}**" + (f" {markdown_text(block.detail)}" if block.detail else "") + "\n"
    if isinstance(block, Sentences):
        return "".join(f"- {markdown_text(line)}\n" for line in block.lines)
    return _table(block) + _notes(block)


def _table(table: Table) -> str:
    columns = []
    for column in table.columns:
        if not column.optional:
            cells = [_inline(cell) for cell in (column.title, *column.cells)]
            width = max(3, *map(width_of, cells))
            rule = "-" * width if column.left else "-" * (width - 1) + ":"
            columns.append(
                [pad(cell, width, "left" if column.left else "right") for cell in (cells[0], rule, *cells[1:])]
            )
    return "".join(f"| {' | '.join(line)} |\n" for line in zip(*columns, strict=True))


def _notes(table: Table) -> str:
    return "".join(f"\n{_inline(note)}\n" for note in table.notes)
