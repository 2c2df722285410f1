"""What `view-scores` prints: scores with their denominators, statistics over runs, and tokens.

Plain rows come in, from whatever query; names in them are untrusted. Every number says what it is over: how many
samples were planned and scored, how many failed, which question set, which null policy, which pass pipeline.
"""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, Literal, TypeGuard, TypeVar, get_args

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from shaberi_dagster.benchmarks.registry import BENCHMARKS
from shaberi_dagster.cli.text import json_safe, pad, printable, width_of

OutputFormat = Literal["table", "json", "csv", "md"]
OUTPUT_FORMATS: tuple[OutputFormat, ...] = get_args(OutputFormat)

T = TypeVar("T")
K = TypeVar("K")
_OVERALL = "overall"
_MEAN_OF = "mean of "
_NOTHING = "-"
_UNKNOWN = "unknown"
_NARROWEST_NAME = 16
_GAP = 2
_POLICIES = {
    "legacy": "samples without a score are left out",
    "zero": "a sample without a score counts as the scale's minimum",
    "strict": "no score unless every planned sample has one",
}
# Spreadsheets run a cell that starts with one of these; the full-width ones too, in Japanese settings.
_FORMULA_STARTS = tuple("=+-@＝＋－＠")
_MARKDOWN_SPECIAL = re.compile(r"([\\`*\[\]<>|~&])")


@dataclass(frozen=True)
class ScoreRow:
    """The score of one run on one benchmark by one judge.

    Attributes:
        model: The evaluated model.
        run_tag: Its run.
        judge: Who scored.
        benchmark: The benchmark.
        question_set: The version of its questions, such as `tengu@120`.
        pipeline: The pass pipeline; `baseline` without passes.
        null_policy: `legacy`, `zero` or `strict`.
        score: Mean on the reported scale (ELYZA ×2); None when there is none under the policy.
        sd_questions: Standard deviation over questions on the same scale; None when not defined.
        n_planned: Samples planned.
        n_scored: Samples with a score.
        n_failed: Samples that ended without one.
        n_excluded: Samples left out for a reason, such as empty answers.
    """

    model: str
    run_tag: str
    judge: str
    benchmark: str
    question_set: str
    pipeline: str
    null_policy: str
    score: float | None
    sd_questions: float | None
    n_planned: int
    n_scored: int
    n_failed: int
    n_excluded: int


@dataclass(frozen=True)
class TokenRow:
    """Tokens of one stage of one run; None is unknown.

    Attributes:
        model: The evaluated model.
        run_tag: Its run.
        stage: `answers`, `judgements`, …
        calls: Finished calls.
        prompt_tokens: Tokens sent.
        completion_tokens: Tokens received.
        cost_usd: Estimated cost in US dollars.
    """

    model: str
    run_tag: str
    stage: str
    calls: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None


@dataclass(frozen=True)
class RunStatistic:
    """Scores of the runs of one base tag on one benchmark by one judge.

    Attributes:
        model: The evaluated model.
        base_tag: What the runs' tags have in common.
        judge: Who scored.
        benchmark: The benchmark; `overall` for each run's mean over benchmarks.
        n_runs: Number of runs.
        mean: Mean of the runs' scores.
        sd: Sample standard deviation between runs; None for one run.
        margin_of_error: Half the width of the 95 % confidence interval of the mean; None for one run.
        minimum: Lowest score of a run.
        maximum: Highest score of a run.
        values: The runs' scores in the order of the runs.
    """

    model: str
    base_tag: str
    judge: str
    benchmark: str
    n_runs: int
    mean: float
    sd: float | None
    margin_of_error: float | None
    minimum: float
    maximum: float
    values: Sequence[float]


@dataclass(frozen=True)
class ScoreReport:
    """Everything that is printed.

    Attributes:
        policy: The null policy of all rows.
        pipeline: The pass pipeline of all rows.
        rows: One per run, judge and benchmark.
        tokens: One per run and stage.
        statistics: Aggregates over repeated runs; empty when none were asked for.
        remarks: What else was chosen, one sentence each.
    """

    policy: str
    pipeline: str
    rows: Sequence[ScoreRow]
    tokens: Sequence[TokenRow] = ()
    statistics: Sequence[RunStatistic] = ()
    remarks: Sequence[str] = ()

    @cached_property
    def means(self) -> list["RunMean"]:
        """One per run and judge, best first, those without a score last."""
        groups: dict[tuple[str, str, str], list[ScoreRow]] = {}
        for row in self.rows:
            groups.setdefault((row.model, row.run_tag, row.judge), []).append(row)
        means = [RunMean(*key, tuple(sorted(rows, key=_benchmark_order))) for key, rows in groups.items()]
        return sorted(means, key=lambda one: -math.inf if one.mean is None else one.mean, reverse=True)


@dataclass(frozen=True)
class RunMean:
    """The unweighted mean over the benchmarks that have a score.

    Attributes:
        model: The evaluated model.
        run_tag: Its run.
        judge: Who scored.
        rows: The benchmarks' rows, in the benchmarks' order.
    """

    model: str
    run_tag: str
    judge: str
    rows: tuple[ScoreRow, ...]

    @property
    def _scores(self) -> list[float]:
        return [row.score for row in self.rows if _is_number(row.score)]

    @property
    def mean(self) -> float | None:
        """The mean; None without any score."""
        return fmean(self._scores) if self._scores else None

    @property
    def n_benchmarks(self) -> int:
        """Over how many benchmarks it is."""
        return len(self._scores)

    @property
    def label(self) -> str:
        """For example `mean of 4`."""
        return f"{_MEAN_OF}{self.n_benchmarks}"

    @property
    def n_failed(self) -> int:
        """Failed samples of all benchmarks."""
        return sum(row.n_failed for row in self.rows)


def write_scores(report: ScoreReport, output_format: OutputFormat, console: Console) -> None:
    """Print a report.

    Args:
        report: What to print.
        output_format: `table` for people; `json`: one document; `csv`: one rectangular table; `md`: Markdown.
        console: Where to; its width is the table's.
    """
    if output_format == "table":
        console.print(as_table(report, console.width), crop=False)
    else:
        writers: Mapping[str, Callable[[ScoreReport], str]] = {"json": as_json, "csv": as_csv, "md": as_markdown}
        console.file.write(writers[output_format](report))


# --- for people ------------------------------------------------------------------------------------------------------


def as_table(report: ScoreReport, width: int) -> RenderableType:
    """A report for a terminal.

    Several runs or judges are one row each with a column per benchmark; where that does not fit, and for a single
    run, each benchmark is a row. Names fold; a number is never cut, a table that needs more columns takes them.

    Args:
        report: What to show.
        width: Columns of the terminal.
    """
    parts: list[RenderableType] = []
    for (model, base_tag), rows in _grouped(report.statistics, lambda row: (row.model, row.base_tag)):
        parts += [_heading(model, base_tag), _statistics_table(rows, width), ""]
    if not report.rows:
        parts += ["No scores.", ""]
    elif len({(row.model, row.run_tag) for row in report.rows}) == 1 or _grid_width(report) > width:
        for (model, run_tag), means in _grouped(report.means, lambda mean: (mean.model, mean.run_tag)):
            parts += [_heading(model, run_tag), _detail_table(means, width), ""]
    else:
        parts += [_grid(report, width), ""]
    parts += [Text(note, style="dim") for note in _notes(report)]
    if report.tokens:
        parts += ["", _token_table(report.tokens, width)]
    return Group(*parts)


@dataclass(frozen=True)
class _Column:
    """A column of a table; its title and cells may have several lines. Only a flexible one folds."""

    title: str
    cells: list[str]
    style: str = ""
    left: bool = False
    flexible: bool = False

    @property
    def width(self) -> int:
        return max(width_of(line) for cell in (self.title, *self.cells) for line in cell.split("\n"))


def _table(columns: list[_Column], width: int, bold: Sequence[bool] = ()) -> Table:
    excess = _width(columns) - width
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
    for column in columns:
        least = min(_NARROWEST_NAME, column.width)
        table.add_column(
            Text(column.title, style="bold"),
            width=max(column.width - max(excess, 0), least) if column.flexible else column.width,
            justify="left" if column.left else "right",
            style=column.style,
            overflow="fold",
            no_wrap=not column.flexible,
            vertical="top",
        )
    for index, cells in enumerate(zip(*(column.cells for column in columns), strict=True)):
        table.add_row(*map(Text, cells), style="bold" if bold and bold[index] else "")
    table.width = max(sum(column.width or 0 for column in table.columns) + _GAP * (len(columns) - 1), 1)
    return table


def _width(columns: list[_Column]) -> int:
    return sum(column.width for column in columns) + _GAP * (len(columns) - 1)


def _heading(model: str, tag: str) -> Text:
    return Text.assemble((printable(model), "bold"), "  ", (printable(tag), "dim"))


def _grid_columns(report: ScoreReport) -> list[_Column]:
    names = [
        f"{printable(mean.model)}\n{printable(mean.run_tag)}\njudge {printable(mean.judge)}" for mean in report.means
    ]
    columns = [_Column("model, tag, judge", names, left=True, flexible=True)]
    for key in _benchmark_columns(report.rows):
        cells = [_grid_cell([row for row in mean.rows if _column_key(row) == key]) for mean in report.means]
        columns.append(_Column("\n".join(map(printable, key)), cells))
    columns.append(_Column("mean", [f"{_decimals(mean.mean)}\n{mean.label}" for mean in report.means], style="bold"))
    columns.append(_Column("failed", [str(mean.n_failed) for mean in report.means]))
    return columns


def _grid(report: ScoreReport, width: int) -> Table:
    columns = _grid_columns(report)
    for index in range(len(report.means) - 1):  # a blank line between runs
        columns[0].cells[index] += "\n"
    return _table(columns, width)


def _grid_width(report: ScoreReport) -> int:
    """The least width at which the grid's names can still be read."""
    names, *numbers = _grid_columns(report)
    return _width([names, *numbers]) - names.width + min(names.width, _NARROWEST_NAME)


def _grid_cell(rows: list[ScoreRow]) -> str:
    return "\n".join(f"{_decimals(row.score)}\n{_counts(row)}" for row in rows) or _NOTHING


def _counts(row: ScoreRow) -> str:
    parts = [f"{row.n_scored}/{row.n_planned}"]
    parts += [f"{row.n_failed} failed"] if row.n_failed else []
    parts += [f"{row.n_excluded} excluded"] if row.n_excluded else []
    return "\n".join(parts)


_DETAIL_TITLES = ("question set", "judge", "score", "sd over\nquestions", "scored", "failed", "excluded")


def _detail_table(means: list[RunMean], width: int) -> Table:
    lines = [line for mean in means for line in _detail_lines(mean)]
    return _lines_table(_DETAIL_TITLES, lines, width)


def _lines_table(titles: Sequence[str], lines: list[tuple[str, ...]], width: int) -> Table:
    """Lines that begin with what was asked and the judge; lines of means are bold."""
    columns = [
        _Column(title, list(cells), left=index <= 1, flexible=index == 1)
        for index, (title, cells) in enumerate(zip(titles, zip(*lines, strict=True), strict=True))
    ]
    return _table(columns, width, bold=[line[0].startswith(_MEAN_OF) for line in lines])


def _detail_lines(mean: RunMean) -> list[tuple[str, ...]]:
    scored, planned = sum(row.n_scored for row in mean.rows), sum(row.n_planned for row in mean.rows)
    excluded = sum(row.n_excluded for row in mean.rows)
    total = (f"{scored}/{planned}", str(mean.n_failed), str(excluded))
    judge = printable(mean.judge)
    return [*map(_detail_cells, mean.rows), (mean.label, judge, _decimals(mean.mean), "", *total)]


def _detail_cells(row: ScoreRow) -> tuple[str, ...]:
    named = row.question_set.startswith(row.benchmark)
    return (
        printable(row.question_set if named else f"{row.benchmark} ({row.question_set})"),
        printable(row.judge),
        _decimals(row.score),
        _decimals(row.sd_questions),
        f"{row.n_scored}/{row.n_planned}",
        str(row.n_failed),
        str(row.n_excluded),
    )


_STATISTICS_TITLES = (
    "benchmark",
    "judge",
    "mean",
    "sd between\nruns",
    "95 % CI\nbetween runs",
    "range over\nruns",
    "runs",
)


def _statistics_table(statistics: list[RunStatistic], width: int) -> Table:
    return _lines_table(_STATISTICS_TITLES, _statistics_lines(statistics), width)


def _statistics_lines(statistics: list[RunStatistic]) -> list[tuple[str, ...]]:
    lines = []
    for _, group in _grouped(statistics, lambda row: row.judge):
        ordered = sorted(group, key=_benchmark_order)
        n_benchmarks = sum(row.benchmark != _OVERALL for row in group)
        lines += [_statistics_cells(row, n_benchmarks) for row in ordered]
    return lines


def _statistics_cells(row: RunStatistic, n_benchmarks: int) -> tuple[str, ...]:
    several = row.n_runs > 1
    return (
        f"{_MEAN_OF}{n_benchmarks}" if row.benchmark == _OVERALL else printable(row.benchmark),
        printable(row.judge),
        _decimals(row.mean),
        _decimals(row.sd),
        f"±{_decimals(row.margin_of_error)}" if _is_number(row.margin_of_error) else _NOTHING,
        f"{_decimals(row.minimum)}–{_decimals(row.maximum)}" if several else _NOTHING,
        str(row.n_runs),
    )


_TOKEN_TITLES = ("stage", "calls", "prompt tokens", "completion tokens", "cost in USD")


def _token_table(tokens: Sequence[TokenRow], width: int) -> Table:
    columns = [
        _Column(title, list(cells), left=title == "stage")
        for title, cells in zip(_TOKEN_TITLES, zip(*_token_lines(tokens), strict=True), strict=True)
    ]
    return _table(columns, width)


def _token_lines(tokens: Sequence[TokenRow]) -> list[tuple[str, ...]]:
    return [
        (
            printable(stage),
            f"{sum(row.calls for row in rows):,}",
            _sum_of([row.prompt_tokens for row in rows], lambda number: f"{number:,.0f}"),
            _sum_of([row.completion_tokens for row in rows], lambda number: f"{number:,.0f}"),
            _sum_of([row.cost_usd for row in rows], lambda number: f"{number:.4f}"),
        )
        for stage, rows in _grouped(tokens, lambda row: row.stage)
    ]


def _sum_of(values: Sequence[float | None], written: Callable[[float], str]) -> str:
    """The sum of what is known, and whether something is not."""
    known = [value for value in values if _is_number(value)]
    if not known:
        return _UNKNOWN
    return written(sum(known)) + ("" if len(known) == len(values) else f" + {_UNKNOWN}")


def _notes(report: ScoreReport) -> list[str]:
    policy = printable(report.policy)
    meaning = _POLICIES.get(report.policy)
    present = {row.benchmark for row in report.rows} | {row.benchmark for row in report.statistics}
    scales = [_scale(name) for name in BENCHMARKS if name in present]
    notes = [
        f"Null policy {policy}: {meaning}." if meaning else f"Null policy {policy}.",
        f"Pass pipeline: {printable(report.pipeline)}.",
        *([f"Scales: {'; '.join(scales)}."] if scales else []),
        "Means over benchmarks are unweighted.",
        *map(printable, report.remarks),
    ]
    sets = {_column_key(row) for row in report.rows}
    mixed = sorted(name for name in present if sum(key[0] == name for key in sets) > 1)
    if mixed:
        notes.append(f"Scores over different question sets are not comparable: {', '.join(map(printable, mixed))}.")
    return notes


def _scale(name: str) -> str:
    benchmark = BENCHMARKS[name]
    scale = f"{name} {benchmark.scale_minimum}-{benchmark.scale_maximum}"
    factor = benchmark.reported_multiplier
    return f"{scale}, reported ×{factor:g}" if factor != 1 else scale


# --- for programs ----------------------------------------------------------------------------------------------------


def as_json(report: ScoreReport) -> str:
    """One document: policy, pipeline, rows, means, statistics, tokens and remarks; what is not known is null."""
    document = {
        "policy": report.policy,
        "pipeline": report.pipeline,
        "rows": [asdict(row) for row in report.rows],
        "means": [
            {
                "model": mean.model,
                "run_tag": mean.run_tag,
                "judge": mean.judge,
                "mean": mean.mean,
                "n_benchmarks": mean.n_benchmarks,
            }
            for mean in report.means
        ],
        "statistics": [asdict(row) for row in report.statistics],
        "tokens": [asdict(row) for row in report.tokens],
        "remarks": list(report.remarks),
    }
    return json_safe(json.dumps(_finite(document), ensure_ascii=False, indent=2, allow_nan=False)) + "\n"


_CSV_COLUMNS = (
    *("row", "model", "run_tag", "judge", "benchmark", "question_set", "pipeline", "null_policy", "score"),
    *("sd_questions", "n_planned", "n_scored", "n_failed", "n_excluded"),
    *("n_runs", "sd_runs", "margin_of_error", "minimum", "maximum", "values"),
)


def as_csv(report: ScoreReport) -> str:
    """One table: `row` is `score`, or `statistic` for aggregates over runs (then `run_tag` is the base tag).

    Texts are made printable, and one that a spreadsheet would run as a formula gets a `'` in front, which
    spreadsheets hide; the names we accept may start with `=` or `@`, so `json` is the format to read back.
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, _CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({"row": "score"} | _csv_cells(asdict(row)) for row in report.rows)
    for statistic in report.statistics:
        cells = asdict(statistic)
        cells |= {"run_tag": cells.pop("base_tag"), "score": cells.pop("mean"), "sd_runs": cells.pop("sd")}
        cells |= {"values": " ".join(map(repr, statistic.values))}
        cells |= {"pipeline": report.pipeline, "null_policy": report.policy}
        writer.writerow({"row": "statistic"} | _csv_cells(cells))
    return file.getvalue()


def as_markdown(report: ScoreReport) -> str:
    """The same rows as Markdown tables, with the notes and the tokens below."""
    parts = []
    if report.statistics:
        lines = [
            (printable(model), printable(tag), *line)
            for (model, tag), rows in _grouped(report.statistics, lambda row: (row.model, row.base_tag))
            for line in _statistics_lines(rows)
        ]
        parts.append(_markdown_table(("model", "base tag", *_STATISTICS_TITLES), lines, n_names=4))
    rows = [
        (printable(mean.model), printable(mean.run_tag), *line) for mean in report.means for line in _detail_lines(mean)
    ]
    parts.append(_markdown_table(("model", "run tag", *_DETAIL_TITLES), rows, n_names=4))
    parts.append("\n".join(f"- {_markdown_text(note)}" for note in _notes(report)) + "\n")
    if report.tokens:
        parts.append(_markdown_table(_TOKEN_TITLES, _token_lines(report.tokens), n_names=1))
    return "\n".join(parts)


def _markdown_table(titles: Sequence[str], rows: Sequence[tuple[str, ...]], n_names: int) -> str:
    lines = [[_markdown_text(cell) for cell in line] for line in (titles, *rows)]
    widths = [max(3, *map(width_of, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * width if index < n_names else "-" * (width - 1) + ":" for index, width in enumerate(widths)]
    return "".join(
        "| "
        + " | ".join(
            pad(cell, width, "left" if index < n_names else "right")
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        + " |\n"
        for line in (lines[0], rule, *lines[1:])
    )


def _markdown_text(text: str) -> str:
    return _MARKDOWN_SPECIAL.sub(r"\\\1", text.replace("\n", " "))


def _csv_cells(cells: dict[str, Any]) -> dict[str, Any]:
    return {name: _csv_text(value) if isinstance(value, str) else _finite(value) for name, value in cells.items()}


def _csv_text(text: str) -> str:
    text = printable(text)
    return f"'{text}" if text.lstrip().startswith(_FORMULA_STARTS) else text


# --- both ------------------------------------------------------------------------------------------------------------


def _finite(value: Any) -> Any:
    """The value with None in the place of numbers that are none."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _is_number(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _decimals(value: float | None) -> str:
    return f"{value:.2f}" if _is_number(value) else _NOTHING


def _benchmark_order(row: ScoreRow | RunStatistic) -> tuple[bool, int, str]:
    known = list(BENCHMARKS)
    return (
        row.benchmark == _OVERALL,
        known.index(row.benchmark) if row.benchmark in known else len(known),
        row.benchmark,
    )


def _column_key(row: ScoreRow) -> tuple[str, str]:
    """Benchmark and version of its question set, without the benchmark's name in both."""
    return row.benchmark, row.question_set.removeprefix(row.benchmark)


def _benchmark_columns(rows: Sequence[ScoreRow]) -> list[tuple[str, str]]:
    return list(
        dict.fromkeys(
            _column_key(row) for row in sorted(rows, key=lambda row: (_benchmark_order(row), row.question_set))
        )
    )


def _grouped(rows: Iterable[T], key: Callable[[T], K]) -> list[tuple[K, list[T]]]:
    """Rows by key, in the order in which keys appear first."""
    groups: dict[K, list[T]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.items())
