"""Tables and sentences: what a report says, and how its numbers look.

`Column`s say where values are in a row and how they look; renderers (`terminal.py`, `write.py`, pages) draw the blocks.
A declared report is a `Report` in `reports/declared/NAME.py`, or in a plugin folder's `reports/`, beside its SQL in
`sql/reports/`. Its command, its page and its method of the library are made of that. Light: help reads declarations.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeGuard, TypeVar

from shaberi_dagster.statistics.intervals import Interval

if TYPE_CHECKING:
    from shaberi_dagster.lake.statements import Catalog

T = TypeVar("T")
K = TypeVar("K")
Row = Mapping[str, Any]
Rows = Sequence[Row]
Cell = str | tuple[str, ...]
"""A text; several lines are a tuple of them, as a line break within a text is no layout."""
NOTHING = "-"
"""The cell of what is not known, or not there."""
UNKNOWN = "unknown"
_MOST_LINES, _LARGEST = 40, 1e4


Bar = tuple[float, float, float]
"""An interval with a point in it: its lower end, the point, and its upper end."""


@dataclass(frozen=True)
class Column:
    """A column of a table: where its values are, and how they look.

    Attributes:
        title: What stands above.
        value: The name of its value in a row, or a function from a row to a cell; none: the title with underscores.
        cells: One per row; `of` makes them.
        form: Of its numbers: that of `written`, or a format.
        ends: An interval: `{ends}lower` and `{ends}upper` are its ends in a row, or `ends` is the name of one.
        upper: The name of the upper end of a score, which is shown where it is apart; `is_open` of a row says that
            it has none.
        null: What stands for a missing value.
        unknown: The name of a count of what is missing in a value; where there is some, the cell says so.
        total: The last line has its sum.
        where: Whether it says something of some rows; else it is left out.
        left: Texts are aligned on the left, numbers on the right; None: by the values.
        folds: Whether its cells may be broken into several lines where the table is too wide; a number never is.
        cuts: Where its cells may be cut, with an ellipsis, if the table is too wide; empty: nowhere.
        narrowest: To how few columns of the terminal it folds or is cut.
        optional: Left out where the table would be too wide, and in Markdown.
        spare: Left out of a terminal where the table would be too wide even then, the first one first; it is said.
        styles: Of the terminal, such as bold, one per cell; none: as it is.
        bars: What a terminal draws in the place of the cells: the ends of an interval and the point in it.
        mark: Makes the style of a row's cell.
        bar: Makes the bar of a row.
    """

    title: Cell
    value: str | Callable[[Any], Cell] = ""
    cells: Sequence[Cell] = ()
    form: str = "{:,}"
    ends: str | None = None
    upper: str = ""
    null: str = NOTHING
    unknown: str = ""
    total: bool = False
    where: Callable[[Sequence[Any]], bool] | None = None
    left: bool | None = None
    folds: bool = False
    cuts: Literal["", "middle", "end"] = ""
    narrowest: int = 16
    optional: bool = False
    spare: bool = False
    styles: Sequence[str] = ()
    bars: Sequence[Bar | None] = ()
    mark: Callable[[Any], str] | None = None
    bar: "Callable[[Any], Bar | None] | None" = None

    @property
    def name(self) -> str:
        """The name of its value in a row."""
        if self.ends is not None:
            return f"{self.ends}lower"
        return self.value if isinstance(self.value, str) and self.value else str(self.title).replace(" ", "_")

    def of(self, rows: Sequence[Any], more: Sequence[Cell] = ()) -> "Column":
        """Return the column with the cells of some rows, and more below them."""
        styles = [*map(self.mark, rows)] if self.mark else self.styles
        bars = [*map(self.bar, rows)] if self.bar else self.bars
        cells, left = map(self.value if callable(self.value) else self.cell, rows), self.left
        if left is None:
            left = not (callable(self.value) or any(isinstance(row[self.name], int | float) for row in rows))
        return replace(self, cells=[*cells, *more], left=left, styles=styles, bars=bars)

    def cell(self, row: Row) -> str:
        """Return how the value of a row looks."""
        if self.ends is not None:
            return between(row[self.ends] if self.ends in row else interval_of(row, self.ends), self.form)
        if self.upper:
            return both_ends(row[self.name], row[self.upper], self.form, is_open=row.get("is_open", False))
        value, missing = row[self.name], self.unknown and row[self.unknown]
        if value is None or value != value:  # noqa: PLR0124  (not a number)
            return UNKNOWN if missing else self.null
        return f"{self._written(value)} + {UNKNOWN}" if missing else self._written(value)

    def _written(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, datetime):
            return f"{value:%Y-%m-%d %H:%M}"
        if self.form in _FORMS:
            return written(value, self.form)
        if isinstance(value, int | float):
            return self.form.format(settled(value) if "." in self.form else value)
        return ", ".join(map(str, value))


def settled(value: float) -> float:
    """Return a number that formats round half up, whatever the order in which it was summed."""
    return round(value, 9) + math.copysign(1e-12, value) if 0 < abs(value) < _LARGEST and value % 1 else value


def text(title: Cell, value: str | Callable[[Any], Cell] = "", **options: Any) -> Column:
    """Return a column of texts, aligned on the left; options are those of `Column`."""
    return Column(title, value, **{"left": True, **options})


def number(title: Cell, value: str | Callable[[Any], Cell] = "", **options: Any) -> Column:
    """Return a column of numbers, aligned on the right; options are those of `Column`."""
    return Column(title, value, **{"left": False, **options})


def several(*names: str) -> Callable[[Rows], bool]:
    """Return a test whether rows differ in one of some values."""
    return lambda rows: len({tuple(row[name] for name in names) for row in rows}) > 1


def known(name: str) -> Callable[[Rows], bool]:
    """Return a test whether some row has a value, and not only nothing of it."""
    return lambda rows: any(row[name] for row in rows)


def grouped(rows: Iterable[T], key: Callable[[T], K]) -> list[tuple[K, list[T]]]:
    """Rows by key, in the order in which keys appear first."""
    groups: dict[K, list[T]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.items())


def table_of(rows: Sequence[Any], columns: Iterable[Column], **options: Any) -> "Table":
    """Return a table with a line for each of some rows; options are those of `Table`."""
    return Table(list(columns), **options).of(rows)


@dataclass(frozen=True)
class When:
    """A sentence of rows of which some count is not 0.

    Attributes:
        name: The count, which is summed over the rows.
        sentence: `{name}` in it is the sum.
    """

    name: str
    sentence: str

    def __call__(self, rows: Rows) -> str:
        """Return the sentence, or nothing."""
        count = sum(row[self.name] or 0 for row in rows)
        return self.sentence.format(**{self.name: f"{count:,}"}) if count else ""


class Plot(NamedTuple):
    """A picture of a table's rows, each a point.

    Attributes:
        x: The title of what goes from left to right.
        y: The title of what goes upwards.
        points: At least two: label, x (from 0), y, and the ends of what y may be: lower, upper; None is not known.
        form: Of numbers from left to right.
    """

    x: str
    y: str
    points: Rows
    form: str


@dataclass(frozen=True)
class Table:
    """A table: a declared one has columns without cells until `of` makes them of rows.

    Attributes:
        columns: From left to right, all with as many cells.
        bold: Which rows are sums or means of others.
        notes: Sentences right below.
        remarks: Make more of them of the rows, such as `When`; an empty one is left out.
        name: The key of its rows in JSON.
        sql: The statement of `sql/reports/` whose rows it has.
        totals: Values that the document in JSON sums, under `total` or for a table with a name under `{name}_total`.
        brief: A terminal has one line for rows that are alike in these values, where there are more than 40.
        rows: What it was made of.
        plot: What pages draw above it.
        derive: Makes a row of each row of its statement, for what SQL cannot say.
    """

    columns: Sequence[Column]
    bold: Collection[int] = ()
    notes: Sequence[str] = ()
    remarks: Sequence[Callable[[Sequence[Any]], str]] = ()
    name: str = "rows"
    sql: str = ""
    totals: Sequence[str] = ()
    brief: Sequence[str] = ()
    rows: Sequence[Any] = ()
    plot: Plot | None = None
    derive: Callable[[Row], Row] | None = None

    def of(self, rows: Sequence[Any], *, brief: bool = False) -> "Table":
        """Return the table of some rows, with their total if it has one.

        Args:
            rows: Whatever the columns understand.
            brief: With few lines, for a terminal.
        """
        columns = [column for column in self.columns if column.where is None or column.where(rows)]
        lines, bold = rows, self.bold
        if brief and self.brief and len(rows) > _MOST_LINES:
            lines = [dict(alike[0]) | self.summed(alike) for _, alike in grouped(rows, itemgetter(*self.brief))]
            columns = [
                column for column in columns if column.total or callable(column.value) or column.name in self.brief
            ]
        below: list[list[str]] = [[] for _ in columns]
        if total := self.summed(rows):
            bold = [len(lines)]
            below = [["total"], *([column.cell(total) if column.total else ""] for column in columns[1:])]
        columns = [column.of(lines, more) for column, more in zip(columns, below, strict=True)]
        notes = [*self.notes, *filter(None, (remark(rows) for remark in self.remarks))]
        return replace(self, columns=columns, bold=bold, notes=notes, remarks=(), rows=rows)

    def summed(self, rows: Rows) -> dict[str, Any]:
        """Return the sums of what is known in some rows; None where nothing is."""
        shown = [name for column in self.columns if column.total for name in (column.name, column.unknown) if name]
        return {name: sum_of_known([row[name] for row in rows]) for name in (*self.totals, *shown)}


def sum_of_known(values: Iterable[float | None]) -> float | None:
    """Return the sum of the values that are known; None without any."""
    numbers = [value for value in values if value is not None]
    if not numbers:
        return None
    return math.fsum(numbers) if any(isinstance(value, float) for value in numbers) else sum(numbers)


@dataclass(frozen=True)
class Heading:
    """The subject of the blocks up to the next heading.

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
        kind: `verdict` is what the report is for, `plain` says what the numbers mean for the reader, `warning` what
            does not compare, `note` how they are made, `command` what people copy, which is not broken.
    """

    texts: Sequence[str]
    kind: Literal["verdict", "plain", "warning", "note", "command"] = "plain"

    @property
    def lines(self) -> list[str]:
        """The sentences as they are written; a warning says that it is one."""
        return [f"Warning: {text}" if self.kind == "warning" else text for text in self.texts]


Block = Heading | Table | Sentences


class Document(ABC):
    """A report that has been read, for renderers."""

    @property
    def csv_columns(self) -> Sequence[str]:
        """Columns of the CSV file; none: those of all records."""
        return ()

    @abstractmethod
    def blocks(self, width: int | None) -> Iterable[Block]:
        """Yield the blocks that people read.

        Args:
            width: Columns of the terminal, for a document that has another layout where it is narrow; None for a
                document without a width, such as Markdown.
        """

    @abstractmethod
    def records(self) -> Iterable[Row]:
        """The lines of the CSV file; a column that a record does not have is empty."""

    @abstractmethod
    def data(self) -> Row | Rows:
        """The JSON document, of plain data; a number that is NaN becomes null."""


@dataclass(frozen=True)
class Result(Document):
    """Tables and sentences with the rows that they were made of.

    Attributes:
        said: What people read, in order; no sentences are nothing.
        rows: The lines of the CSV file.
        document: The JSON document; None: the rows.
        csv_columns: Of the CSV file; none: those of all rows.
    """

    said: Sequence[Block]
    rows: Rows = ()
    document: Row | Rows | None = None
    csv_columns: Sequence[str] = ()

    def blocks(self, width: int | None) -> Iterable[Block]:
        """Return tables and sentences, on a terminal with short tables."""
        brief = width is not None
        said = (block for block in self.said if not isinstance(block, Sentences) or block.texts)
        return [
            block.of(block.rows, brief=True) if brief and isinstance(block, Table) and block.brief else block
            for block in said
        ]

    def records(self) -> Iterable[Row]:
        """Return the rows; lists in them as texts."""
        return (
            {
                name: ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
                for name, value in row.items()
            }
            for row in self.rows
        )

    def data(self) -> Row | Rows:
        """Return the whole document."""
        return self.rows if self.document is None else self.document


@dataclass(frozen=True)
class NoSelection:
    """The selection of a report that is always of everything."""


@dataclass(frozen=True)
class Report:
    """The declaration of a report.

    Attributes:
        name: Its command, the path of its page, and its method of the library.
        title: An imperative sentence: the help of its command.
        tables: With the names of their statements; CSV has the rows of the first.
        selection: A dataclass or pydantic model: options of the command, parameters of the page and of the statements.
        verdict: The sentence that stands first, of the rows of each table by its name; none without rows.
        empty: What is said where the first table has no rows.
        examples: Command lines.
        more: What the help says below them.
        lead: Makes what stands before the tables.
        read: Reads what no statement can say, instead of the tables.
    """

    name: str
    title: str
    tables: Sequence[Table] = ()
    selection: type[Any] = NoSelection
    verdict: Callable[[Mapping[str, Rows]], str] | None = None
    empty: str = "There is nothing yet."
    examples: Sequence[str] = ()
    more: str = ""
    lead: Callable[[Mapping[str, Rows]], Sequence[Block]] | None = None
    read: "Callable[[Catalog, Any], Document] | None" = None

    @property
    def heading(self) -> str:
        """The heading of its page."""
        return self.name.replace("_", " ").capitalize()

    @property
    def epilog(self) -> str:
        """The end of its help."""
        examples = "".join(f"\n  {example}" for example in self.examples)
        return f"Examples:{examples}\n\n{self.more}".rstrip() if examples else self.more

    def result(self, rows: Mapping[str, Rows], csv_columns: Sequence[str]) -> Result:
        """Return what is said of rows.

        Args:
            rows: Those of each table by its name.
            csv_columns: Names of the values in rows of the first.
        """
        first = rows[self.tables[0].name]
        verdict = [self.verdict(rows)] if self.verdict and first else []
        said: list[Block] = [
            Sentences(verdict, "verdict"),
            *(self.lead(rows) if self.lead and first else []),
            *(table.of(rows[table.name]) for table in self.tables if rows[table.name]),
            Sentences([] if first else [self.empty]),
        ]
        document: dict[str, Any] = {"verdict": verdict[0]} if verdict else {}
        for table in self.tables:
            document[table.name] = rows[table.name]
            if table.totals:
                sums = table.summed(rows[table.name])
                of_table = "total" if table.name == Table.name else f"{table.name}_total"
                document[of_table] = {name: sums[name] for name in table.totals}
        return Result(said, first, document, csv_columns)


_SMALLEST_P, _SMALLEST_SHARE = 0.001, 0.005
_FORMS = {
    "score": (1, "z.2f", ""),
    "difference": (1, "+z.2f", ""),
    "share": (100, ".1f", "%"),
    "points": (100, "+z.1f", ""),
    "p": (1, ".3f", ""),
}
"""What a number is multiplied by, its digits, and its unit."""
_SIGNED = ("difference", "points")
_MOST_LISTED = 5
NO_INTERVAL = "CI -: fewer than two questions have a score."
APART = 0.02
"""From how far on the ends of a score are both shown."""


def is_number(value: float | None) -> TypeGuard[float]:
    """Return whether a value is a finite number."""
    return value is not None and math.isfinite(value)


def written(value: float | None, form: str) -> str:
    """Write a number in one of the forms `score`, `difference`, `share`, `points` and `p`; a p is never 0."""
    if not is_number(value):
        return NOTHING
    if form == "p" and value < _SMALLEST_P:
        return f"<{_SMALLEST_P}"
    factor, digits, unit = _FORMS[form]
    return f"{settled(factor * value):{digits}}{unit}"


decimals, signed = partial(written, form="score"), partial(written, form="difference")
percent, points = partial(written, form="share"), partial(written, form="points")
p_value = partial(written, form="p")


def both_ends(lower: float | None, upper: float | None, form: str = "score", *, is_open: bool = False) -> str:
    """Write a score; both of its ends where undecided answers set them apart by `APART` or more.

    Args:
        lower: One end.
        upper: The other one.
        form: Of both.
        is_open: There is no upper one: the rule cannot say wrong.
    """
    if is_open:
        return f"{written(lower, form)}+"
    if is_number(lower) and is_number(upper) and upper - lower >= APART:
        return between(Interval(lower, upper), form)
    return written(lower, form)


def between(ends: Interval | None, form: str = "score") -> str:
    """Write both ends of an interval."""
    if ends is None:
        return NOTHING
    lower, upper = written(ends.lower, form), written(ends.upper, form)
    return f"{lower} to {upper}" if form in _SIGNED else f"{lower.removesuffix('%')}–{upper}"


def are_apart(lower: float | None, upper: float | None) -> bool:
    """Return whether two ends of a score are shown as two."""
    return is_number(lower) and is_number(upper) and upper - lower >= APART


def interval_of(row: Row, name: str = "") -> Interval | None:
    """Return the interval whose ends a row has as `{name}lower` and `{name}upper`; None where they are not known."""
    lower, upper = row[f"{name}lower"], row[f"{name}upper"]
    return None if lower is None else Interval(lower, upper)


def ends_of(interval: Interval | None, name: str = "") -> Row:
    """Return the ends of an interval as values of a row: the opposite of `interval_of`."""
    return {f"{name}lower": interval and interval.lower, f"{name}upper": interval and interval.upper}


def counted(n: int, noun: str) -> str:
    """Write a number with its noun: `1 question`, `2,000 questions`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def listed(names: Iterable[str], most: int = _MOST_LISTED) -> str:
    """Write the first few names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def whole_percent(share: float) -> str:
    """Write a share as a whole percentage; what is above 0 is at least `<1 %`."""
    return f"{settled(100 * share):.0f} %" if share == 0 or share >= _SMALLEST_SHARE else "<1 %"


def megabytes(size: int) -> str:
    """Write a number of bytes as people read it: `1,234.5 MB`."""
    return f"{size / 1e6:,.1f} MB"
