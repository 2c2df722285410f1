"""The formats of a report, and the one place that writes it in one."""

from collections.abc import Collection
from typing import Literal, get_args

from rich.console import Console

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.reports.report import Document
from shaberi_dagster.show.data import as_csv, as_json
from shaberi_dagster.show.markdown import as_markdown
from shaberi_dagster.show.terminal import draw

Format = Literal["table", "json", "csv", "md"]
FORMATS: tuple[Format, ...] = get_args(Format)


def check_format(output_format: str, formats: Collection[str] = FORMATS) -> None:
    """Refuse a format that is not there, before any work is done for it.

    Raises:
        ConfigurationError: It is none of `formats`.
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
