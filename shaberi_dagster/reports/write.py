"""The formats of a report: Markdown, JSON, CSV, and the one place that writes it in one."""

import csv
import io
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, get_args

from pydantic import TypeAdapter
from rich.console import Console

from shaberi_dagster.reports.blocks import Block, Cell, Column, Document, Heading, Row, Sentences, Table
from shaberi_dagster.reports.terminal import draw
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.text import csv_text, json_safe, markdown_text, pad, printable, truncate, width_of

Format = Literal["table", "json", "csv", "md"]
FORMATS: tuple[Format, ...] = get_args(Format)


def check_format(output_format: str, formats: Collection[str] = FORMATS) -> None:
    """Refuse a format that is not there, before any work is done for it.

    Raises:
        ConfigurationError: It is not one of `formats`.
    """
    if output_format not in formats:
        raise ConfigurationError(f"--format must be one of {', '.join(formats)}, not {output_format!r}")


def write(document: Document, output_format: str, console: Console) -> None:
    """Print a document.

    Args:
        document: What to print.
        output_format: `table` for people, at most as wide as the console where its numbers allow that; `md`: the same
            as Markdown; `csv`: one rectangular table, its texts safe for spreadsheets; `json`: one document.
        console: Where to.

    Raises:
        ConfigurationError: There is no such format.
    """
    check_format(output_format)
    if output_format == "table":
        draw(document.blocks(console.width), console)
    elif output_format == "md":
        console.file.write(as_markdown(document.blocks(None)))
    elif output_format == "csv":
        console.file.write(as_csv(document.records(), document.csv_columns))
    else:
        console.file.write(as_json(document.data()))


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
        if block.kind == "command":
            return "".join(f"```\n{printable(line)}\n```\n" for line in block.lines)
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


def plain(value: Any) -> Any:
    """Return models, dataclasses and all within them as mappings and lists."""
    return TypeAdapter(Any).dump_python(value, mode="json")


def as_json(data: Any) -> str:
    """Write a document of plain data; numbers that are none are null."""
    return json_safe(json.dumps(_finite(data), ensure_ascii=False, indent=2, allow_nan=False)) + "\n"


def as_csv(records: Iterable[Row], columns: Sequence[str] = ()) -> str:
    """Write a rectangular table.

    Args:
        records: One per line. What a record does not have, and None, is empty.
        columns: Which values, in this order; none: all.
    """
    lines = list(records)
    file = io.StringIO()
    names = columns or list(dict.fromkeys(name for line in lines for name in line))
    writer = csv.DictWriter(file, names, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows({name: _csv_cell(value) for name, value in line.items()} for line in lines)
    return file.getvalue()


def _csv_cell(value: Any) -> Any:
    return csv_text(value) if isinstance(value, str) else value if isinstance(value, datetime) else _finite(value)


def _finite(value: Any) -> Any:
    """The value with None in the place of numbers that are none, and times as text."""
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return None if isinstance(value, float) and not math.isfinite(value) else value
