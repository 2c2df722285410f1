"""What a report is made of when it is shown, and the one place that writes it in a format."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from rich.console import Console

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.show.data import as_csv, as_json

Format = Literal["table", "json", "csv", "md"]
FORMATS: tuple[Format, ...] = get_args(Format)
Cell = str | tuple[str, ...]
"""A text; several lines are a tuple of them, as a line break within a text is no layout."""


class Bar(NamedTuple):
    """An interval with a point in it.

    Attributes:
        lower: One end.
        value: The point.
        upper: The other end.
    """

    lower: float
    value: float
    upper: float


@dataclass(frozen=True)
class DocumentColumn:
    """A column of a table.

    Attributes:
        title: What stands above.
        cells: One per row.
        left: Texts are aligned on the left, numbers on the right.
        folds: Whether its cells may be broken into several lines where the table is too wide; a number never is.
        cuts: Where its cells may be cut, with an ellipsis, if the table is too wide; empty: nowhere.
        narrowest: To how few columns of the terminal it folds or is cut.
        optional: Left out where the table would be too wide, and in Markdown.
        spare: Left out of a terminal where the table would be too wide even then, the first one first; it is said.
        style: Of the terminal, such as bold.
        styles: Of the terminal, one per cell; none: `style` for all.
        bars: What a terminal draws in the place of the cells: the ends of an interval and the point in it.
    """

    title: Cell
    cells: Sequence[Cell]
    left: bool = False
    folds: bool = False
    cuts: Literal["", "middle", "end"] = ""
    narrowest: int = 16
    optional: bool = False
    spare: bool = False
    style: str = ""
    styles: Sequence[str] = ()
    bars: Sequence["Bar | None"] = ()


@dataclass(frozen=True)
class DocumentTable:
    """A table.

    Attributes:
        columns: All with as many cells.
        bold: Which rows are sums or means of others.
        notes: Sentences right below.
    """

    columns: Sequence[DocumentColumn]
    bold: Collection[int] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Heading:
    """What the blocks up to the next heading are about.

    Attributes:
        text: The subject.
        detail: What stands beside it, such as a run's tag.
    """

    text: str
    detail: str = ""


@dataclass(frozen=True)
class Sentences:
    """Sentences, each on a line of its own.

    Attributes:
        texts: One each.
        kind: `plain` says what the numbers mean for the reader, `warning` what does not compare, `note` how they are
            made.
    """

    texts: Sequence[str]
    kind: Literal["plain", "warning", "note"] = "plain"

    @property
    def lines(self) -> list[str]:
        """The sentences as they are written; a warning says that it is one."""
        return [f"Warning: {text}" if self.kind == "warning" else text for text in self.texts]


Block = Heading | DocumentTable | Sentences


@dataclass(frozen=True)
class ColumnOf:
    """How a column is made of rows: `DocumentColumn` without cells, and with a function from a row to its cell."""

    title: Cell
    cell: Callable[[Any], Cell]
    options: Mapping[str, Any] = field(default_factory=dict)

    def of(self, rows: Iterable[Any]) -> DocumentColumn:
        """The column of some rows."""
        return DocumentColumn(self.title, [self.cell(row) for row in rows], **self.options)


def table_of(rows: Sequence[Any], columns: Iterable[ColumnOf], **options: Any) -> DocumentTable:
    """A table with a line for each of some rows.

    Args:
        rows: Whatever the columns understand.
        columns: From left to right.
        options: Of `DocumentTable`.
    """
    return DocumentTable([column.of(rows) for column in columns], **options)


def text(title: Cell, cell: Callable[[Any], Cell], **options: Any) -> ColumnOf:
    """A column of texts, aligned on the left; options are those of `DocumentColumn`."""
    return ColumnOf(title, cell, {"left": True, **options})


def number(title: Cell, cell: Callable[[Any], Cell], **options: Any) -> ColumnOf:
    """A column of numbers, aligned on the right; options are those of `DocumentColumn`."""
    return ColumnOf(title, cell, options)


class Document(ABC):
    """A report in each of the formats."""

    csv_columns: ClassVar[Sequence[str]] = ()
    """Columns of the CSV file; none: those of the first record."""

    @abstractmethod
    def blocks(self, width: int | None) -> Iterable[Block]:
        """What people read.

        Args:
            width: Columns of the terminal, for a document that has another layout where it is narrow; None for a
                document without a width, such as Markdown.
        """

    @abstractmethod
    def records(self) -> Iterable[Mapping[str, Any]]:
        """The lines of the CSV file; a column that a record does not have is empty."""

    @abstractmethod
    def data(self) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        """The JSON document, of plain data; a number that is none becomes null."""


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
        from shaberi_dagster.show.terminal import draw  # noqa: PLC0415  (only people need tables)

        draw(document.blocks(console.width), console)
    elif output_format == "md":
        from shaberi_dagster.show.markdown import as_markdown  # noqa: PLC0415

        console.file.write(as_markdown(document.blocks(None)))
    elif output_format == "csv":
        console.file.write(as_csv(document.records(), document.csv_columns))
    else:
        console.file.write(as_json(document.data()))
