"""What `view-scores` shows on a terminal, and what its tables have in common with those in Markdown."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.cli.score_report import (
    MEAN_OF,
    OVERALL,
    POLICIES,
    JudgeMean,
    RunMean,
    RunStatistic,
    ScoreReport,
    ScoreRow,
    TokenRow,
    Unfinished,
    benchmark_order,
    grouped,
    is_number,
    less,
)
from shaberi_dagster.rendering.text import printable, width_of
from shaberi_dagster.statistics.intervals import Estimate

NOTHING = "-"
_UNKNOWN = "unknown"
_NARROWEST_NAME = 16
_GAP = 2
_MOST_UNFINISHED = 10
Titles = tuple[str, ...]
Line = tuple[str, ...]


def as_table(report: ScoreReport, width: int) -> RenderableType:
    """A report for a terminal.

    Several runs or judges are one row each with a column per benchmark; where that does not fit, and for a single
    run, each benchmark is a row. Names fold; a number is never cut, a table that needs more columns takes them.

    Args:
        report: What to show.
        width: Columns of the terminal.
    """
    parts: list[RenderableType] = []
    for (model, base_tag), rows in grouped(report.statistics, lambda row: (row.model, row.base_tag)):
        parts += [_heading(model, base_tag), _lines_table(*statistics_lines(report, rows), width), ""]
    if not report.rows:
        parts += ["No scores.", ""]
    elif len({(row.model, row.run_tag) for row in report.rows}) == 1 or _grid_width(report) > width:
        for (model, run_tag), means in grouped(report.means, lambda mean: (mean.model, mean.run_tag)):
            parts += [_heading(model, run_tag), _lines_table(*detail_lines(report, means), width), ""]
    else:
        parts += [_grid(report, width), ""]
    if report.judge_means:
        parts += [Text(judges_title(report), style="bold"), _plain_table(*judge_lines(report), width, n_names=2), ""]
    if report.judge_pairs:
        parts += [Text(PAIRS_TITLE, style="bold"), _plain_table(*pair_lines(report), width, n_names=2), ""]
    parts += [Text(note, style="dim") for note in notes(report)]
    if report.tokens:
        parts += ["", _token_table(report.tokens, width), Text(price_note(report.tokens), style="dim")]
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


def _lines_table(titles: Titles, lines: Sequence[Line], width: int) -> Table:
    """Lines that begin with what was asked and the judge; lines of means are bold."""
    columns = [
        _Column(title, list(cells), left=index <= 1, flexible=index == 1)
        for index, (title, cells) in enumerate(zip(titles, zip(*lines, strict=True), strict=True))
    ]
    return _table(columns, width, bold=[line[0].startswith(MEAN_OF) for line in lines])


def _plain_table(titles: Titles, lines: Sequence[Line], width: int, n_names: int) -> Table:
    columns = [
        _Column(title, list(cells), left=index < n_names, flexible=index == 0)
        for index, (title, cells) in enumerate(zip(titles, zip(*lines, strict=True), strict=True))
    ]
    return _table(columns, width)


def _heading(model: str, tag: str) -> Text:
    return Text.assemble((printable(model), "bold"), "  ", (printable(tag), "dim"))


# --- scores ----------------------------------------------------------------------------------------------------------


def _grid_columns(report: ScoreReport) -> list[_Column]:
    names = [
        f"{printable(mean.model)}\n{printable(mean.run_tag)}\njudge {printable(mean.judge)}" for mean in report.means
    ]
    columns = [_Column("model, tag, judge", names, left=True, flexible=True)]
    for key in _benchmark_columns(report.rows):
        cells = [_grid_cell([row for row in mean.rows if _column_key(row) == key]) for mean in report.means]
        columns.append(_Column("\n".join(map(printable, key)), cells))
    columns.append(_Column("mean", list(map(_grid_mean, report.means)), style="bold"))
    if report.ties:
        columns.append(_Column(_TIE_TITLE, list(map(_against_best, report.means))))
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
    cells = [
        [decimals(row.score), *_if_known(_interval(row.over_questions)), *_if_known(_signed(row.change)), _counts(row)]
        for row in rows
    ]
    return "\n".join("\n".join(lines) for lines in cells) or NOTHING


def _grid_mean(mean: RunMean) -> str:
    interval, change = _mean_interval(mean), _signed(less(mean.mean, mean.baseline_mean))
    return "\n".join([decimals(mean.mean), *_if_known(interval), *_if_known(change), mean.label])


def _if_known(cell: str) -> list[str]:
    return [] if cell == NOTHING else [cell]


def _counts(row: ScoreRow) -> str:
    parts = [f"{row.n_scored}/{row.n_planned}"]
    parts += [f"{row.n_failed} failed"] if row.n_failed else []
    parts += [f"{row.n_excluded} excluded"] if row.n_excluded else []
    return "\n".join(parts)


_QUESTIONS_TITLE = "95 % CI\nover\nquestions"
_TIE_TITLE = "against\nbest"
_LENIENCY_TITLE = "adjusted\nfor\nleniency"


def detail_lines(report: ScoreReport, means: Sequence[RunMean]) -> tuple[Titles, list[Line]]:
    """A line for each benchmark and one for the mean, with their titles; columns are there where there is something."""
    rows = report.rows
    columns: list[tuple[str, Callable[[ScoreRow], str], Callable[[RunMean], str]]] = [
        ("question set", _question_set, lambda mean: mean.label),
        ("judge", lambda row: printable(row.judge), lambda mean: printable(mean.judge)),
        ("score", lambda row: decimals(row.score), lambda mean: decimals(mean.mean)),
    ]
    # Either of them says how questions differ; narrow terminals have no room for both.
    if any(row.over_questions for row in rows):
        columns.append((_QUESTIONS_TITLE, lambda row: _interval(row.over_questions), _mean_interval))
    else:
        columns.append(("sd over\nquestions", lambda row: decimals(row.sd_questions), lambda _: ""))
    if any(row.baseline_score is not None for row in rows):
        columns += [
            ("baseline", lambda row: decimals(row.baseline_score), lambda mean: decimals(mean.baseline_mean)),
            ("change", lambda row: _signed(row.change), lambda mean: _signed(less(mean.mean, mean.baseline_mean))),
        ]
    if any(row.leniency is not None for row in rows):
        columns.append(
            (_LENIENCY_TITLE, lambda row: decimals(row.adjusted_score), lambda mean: decimals(mean.adjusted_mean))
        )
    columns += [
        ("scored", lambda row: f"{row.n_scored}/{row.n_planned}", _scored),
        ("failed", lambda row: str(row.n_failed), lambda mean: str(mean.n_failed)),
        ("excluded", lambda row: str(row.n_excluded), lambda mean: str(sum(row.n_excluded for row in mean.rows))),
    ]
    if report.ties:
        columns.append((_TIE_TITLE, lambda _: "", _against_best))
    lines = []
    for mean in means:
        lines += [tuple(of_row(row) for _, of_row, _ in columns) for row in mean.rows]
        lines.append(tuple(of_mean(mean) for _, _, of_mean in columns))
    return tuple(title for title, _, _ in columns), lines


def _mean_interval(mean: RunMean) -> str:
    return _interval(mean.over_questions)


def _question_set(row: ScoreRow) -> str:
    named = row.question_set.startswith(row.benchmark)
    return printable(row.question_set if named else f"{row.benchmark} ({row.question_set})")


def _scored(mean: RunMean) -> str:
    return f"{sum(row.n_scored for row in mean.rows)}/{sum(row.n_planned for row in mean.rows)}"


def _against_best(mean: RunMean) -> str:
    return mean.tie.against_best if mean.tie else NOTHING


def _column_key(row: ScoreRow) -> tuple[str, str]:
    """Benchmark and version of its question set, without the benchmark's name in both."""
    return row.benchmark, row.question_set.removeprefix(row.benchmark)


def _benchmark_columns(rows: Sequence[ScoreRow]) -> list[tuple[str, str]]:
    return list(
        dict.fromkeys(
            _column_key(row) for row in sorted(rows, key=lambda row: (benchmark_order(row), row.question_set))
        )
    )


# --- statistics over runs, and judges --------------------------------------------------------------------------------

PAIRS_TITLE = "Agreement of these judges on all answers of the lake that both scored"
_PAIRS_TITLES = ("judge a", "judge b", "answers", "Pearson", "Spearman", "equal", "a - b")


def statistics_lines(report: ScoreReport, statistics: Sequence[RunStatistic]) -> tuple[Titles, list[Line]]:
    """A line for each benchmark and overall, judge by judge, of some of the report's statistics."""
    columns: list[tuple[str, Callable[[RunStatistic], str]]] = [
        ("judge", lambda row: printable(row.judge)),
        ("mean", lambda row: decimals(row.mean)),
        ("sd\nbetween\nruns", lambda row: decimals(row.sd)),
        (
            "95 % CI\nbetween\nruns",
            lambda row: f"±{decimals(row.margin_of_error)}" if is_number(row.margin_of_error) else NOTHING,
        ),
        (
            "range\nover runs",
            lambda row: f"{decimals(row.minimum)}–{decimals(row.maximum)}" if row.n_runs > 1 else NOTHING,
        ),
        ("runs", lambda row: str(row.n_runs)),
    ]
    if any(row.over_questions for row in report.statistics):
        columns.insert(4, (_QUESTIONS_TITLE, lambda row: _interval(row.over_questions)))
    lines = []
    for _, group in grouped(statistics, lambda row: row.judge):
        overall = f"{MEAN_OF}{sum(row.benchmark != OVERALL for row in group)}"
        for row in sorted(group, key=benchmark_order):
            name = overall if row.benchmark == OVERALL else printable(row.benchmark)
            lines.append((name, *(cell(row) for _, cell in columns)))
    return ("benchmark", *(title for title, _ in columns)), lines


def judges_title(report: ScoreReport) -> str:
    """Over which judges the means are."""
    own = [one for one in report.judge_means if one.benchmark != OVERALL and one.score is not None]
    by_set = dict.fromkeys((printable(one.question_sets[0]), ", ".join(map(printable, one.judges))) for one in own)
    judges = {names for _, names in by_set}
    if not judges:
        return "Mean over judges: no judge is shared by all compared runs"
    if len(judges) == 1:
        return f"Mean over the judges that all compared runs share: {judges.pop()}"
    return f"Mean over the judges that all compared runs share: {'; '.join(f'{name} {who}' for name, who in by_set)}"


def judge_lines(report: ScoreReport) -> tuple[Titles, list[Line]]:
    """A line for each run: its means over judges by question set, overall, and adjusted for leniency."""
    own = [one for one in report.judge_means if one.benchmark != OVERALL]
    place = {row.question_set: benchmark_order(row) for row in report.rows}
    sets = sorted({one.question_sets[0] for one in own}, key=lambda name: (place[name], name))
    by_run = {(one.model, one.run_tag, one.question_sets[0]): one for one in own}
    lines = []
    for one in report.judge_means:
        if one.benchmark == OVERALL:
            means = [by_run.get((one.model, one.run_tag, name)) for name in sets]
            lines.append((printable(one.model), printable(one.run_tag), *map(_judge_mean, means), *_overall_cells(one)))
    titles = ("model", "run tag", *map(printable, sets), "mean", "of", _LENIENCY_TITLE, "scored", "failed", "excluded")
    return titles, lines


def _judge_mean(one: JudgeMean | None) -> str:
    return decimals(one.score) if one else NOTHING


def _overall_cells(one: JudgeMean) -> Line:
    counts = f"{one.n_scored}/{one.n_planned}", str(one.n_failed), str(one.n_excluded)
    return decimals(one.score), str(len(one.question_sets)), decimals(one.adjusted_score), *counts


def pair_lines(report: ScoreReport) -> tuple[Titles, list[Line]]:
    """A line for each two judges."""
    lines: list[Line] = [
        (
            printable(one.judge_a),
            printable(one.judge_b),
            f"{one.n:,}",
            decimals(one.pearson),
            decimals(one.spearman),
            f"{one.exact_share:.0%}",
            _signed(one.mean_difference),
        )
        for one in report.judge_pairs
    ]
    return _PAIRS_TITLES, lines


# --- tokens ----------------------------------------------------------------------------------------------------------

_TOKEN_NAMES = ("run", "stage", "benchmark")
_MOST_TOKEN_LINES = 40


def _token_table(tokens: Sequence[TokenRow], width: int) -> Table:
    """A line for each run, stage and benchmark; where that would be too many, for each run and stage."""
    columns = token_columns(tokens, by_benchmark=len(tokens) <= _MOST_TOKEN_LINES)
    shown = [
        _Column(title, list(cells), left=title in _TOKEN_NAMES, flexible=title == "run") for title, *cells in columns
    ]
    n_lines = len(shown[0].cells)
    return _table(shown, width, bold=[index == n_lines - 1 for index in range(n_lines)])


def token_columns(tokens: Sequence[TokenRow], *, by_benchmark: bool = True) -> list[tuple[str, ...]]:
    """Columns from their title to their total; runs are named when there are several."""
    several = len({(row.model, row.run_tag) for row in tokens}) > 1
    lines = grouped(tokens, lambda row: (row.model, row.run_tag, row.stage, row.benchmark if by_benchmark else ""))
    groups = [rows for _, rows in lines] + [list(tokens)]
    firsts = [rows[0] for rows in groups[:-1]]
    columns = []
    if several:
        columns.append(("run", *(f"{printable(row.model)} {printable(row.run_tag)}" for row in firsts), "total"))
    columns.append(("stage", *(printable(row.stage) for row in firsts), "" if several else "total"))
    if by_benchmark:
        columns.append(("benchmark", *(printable(row.benchmark) for row in firsts), ""))
    columns.append(("calls", *(f"{sum(row.calls for row in rows):,}" for rows in groups)))
    columns += [_tokens_column(groups, "prompt_tokens"), _tokens_column(groups, "completion_tokens")]
    # Few endpoints tell these; a call without them is no call without usage.
    columns += [
        _tokens_column(groups, name)
        for name in ("cached_tokens", "reasoning_tokens")
        if any(getattr(row, name) for row in tokens)
    ]
    costs = [
        _sum_of([row.cost_usd for row in rows], sum(row.calls_without_price for row in rows), lambda usd: f"{usd:,.4f}")
        for rows in groups
    ]
    return [*columns, ("cost in USD", *costs)]


def _tokens_column(groups: Sequence[Sequence[TokenRow]], name: str) -> tuple[str, ...]:
    cells = [
        _sum_of(
            [getattr(row, name) for row in rows],
            sum(row.calls_without_usage for row in rows),
            lambda number: f"{number:,.0f}",
        )
        for rows in groups
    ]
    return (name.replace("_", " "), *cells)


def _sum_of(values: Sequence[float | None], n_unknown: int, written: Callable[[float], str]) -> str:
    """The sum of what is known, and whether something is not."""
    known = [value for value in values if is_number(value)]
    if not known:
        return _UNKNOWN if n_unknown else NOTHING
    return written(math.fsum(known)) + (f" + {_UNKNOWN}" if n_unknown else "")


def price_note(tokens: Sequence[TokenRow]) -> str:
    """Where the prices are from, of which dates they are, and how many calls are not in the sum."""
    sources = sorted({source for row in tokens for source in row.price_sources})
    first, last = min(row.first_day for row in tokens), max(row.last_day for row in tokens)
    dates = first if first == last else f"{first} to {last}"
    unknown = sum(row.calls_without_price for row in tokens)
    note = f"Prices: {', '.join(map(printable, sources))}, at each call's date" if sources else "Prices: none is known"
    note += f" ({dates})" if dates else ""
    if unknown:
        note += f"; {unknown:,} call{'s' if unknown > 1 else ''} of unknown price or tokens are not in the sum"
    return f"{note}."


# --- notes -----------------------------------------------------------------------------------------------------------


def notes(report: ScoreReport) -> list[str]:
    """What the numbers are, what does not compare, and what is not finished."""
    policy = printable(report.policy)
    meaning = POLICIES.get(report.policy)
    present = {row.benchmark for row in report.rows} | {row.benchmark for row in report.statistics}
    scales = [_scale(name) for name in ALL_BENCHMARKS if name in present]
    said = [
        f"Null policy {policy}: {meaning}." if meaning else f"Null policy {policy}.",
        f"Pass pipeline: {printable(report.pipeline)}.",
        *([f"Scales: {'; '.join(scales)}."] if scales else []),
        "Means over benchmarks are unweighted.",
        *_uncertainty_notes(report),
        *map(printable, report.remarks),
    ]
    sets = {_column_key(row) for row in report.rows}
    mixed = sorted(name for name in present if sum(key[0] == name for key in sets) > 1)
    if mixed:
        said.append(f"Scores over different question sets are not comparable: {', '.join(map(printable, mixed))}.")
    return said + _unfinished_notes(report.unfinished)


def _uncertainty_notes(report: ScoreReport) -> list[str]:
    said = []
    if any(row.over_questions for row in report.rows):
        said.append(
            "95 % CI over questions (a–b): how general a score is, samples of a question as one, within the scale."
        )
    if any(is_number(row.margin_of_error) for row in report.statistics):
        said.append("95 % CI between runs (±): how stable a score is when the same is asked again.")
    if any(row.baseline_score is not None for row in report.rows):
        said.append("Signed numbers are the change from baseline, the scores without passes.")
    if report.ties:
        said.append(
            "Against best: tied means that no difference from the judge's best run is shown, below that one is. Paired "
            "t test of the mean over benchmarks on common questions, Holm's adjustment for all pairs, level 0.05."
        )
    if any(row.leniency is not None for row in report.rows):
        said.append(
            "Adjusted for leniency: less what the judge gives beyond the other judges of the same answers, by least "
            "squares; over all judges of a run, so that runs with different judges compare."
        )
    return said


def _unfinished_notes(unfinished: Sequence[Unfinished]) -> list[str]:
    """A line for each run that has something that is not complete."""
    runs = grouped(unfinished, lambda one: (one.model, one.run_tag))
    lines = []
    for (model, run_tag), own in runs[:_MOST_UNFINISHED]:
        parts = []
        for (benchmark, state), ones in grouped(own, lambda one: (one.benchmark, one.state)):
            failures = "; ".join(filter(None, map(str, ones)))
            parts.append(f"{benchmark} {state}: {failures}" if failures else f"{benchmark} {state}")
        lines.append(printable(f"Not complete: {model} {run_tag}: {'. '.join(parts)}."))
    if len(runs) > _MOST_UNFINISHED:
        lines.append(f"Not complete: {len(runs) - _MOST_UNFINISHED} more runs; `shaberi sql failures` tells why.")
    return lines


def _scale(name: str) -> str:
    benchmark = ALL_BENCHMARKS[name]
    scale = f"{name} {benchmark.scale_minimum}-{benchmark.scale_maximum}"
    factor = benchmark.reported_multiplier
    return f"{scale}, reported ×{factor:g}" if factor != 1 else scale


# --- numbers ---------------------------------------------------------------------------------------------------------


def decimals(value: float | None) -> str:
    """Two decimals."""
    return f"{value:.2f}" if is_number(value) else NOTHING


def _signed(value: float | None) -> str:
    return f"{value:+.2f}" if is_number(value) else NOTHING


def _interval(estimate: Estimate | None) -> str:
    return f"{decimals(estimate.interval.lower)}–{decimals(estimate.interval.upper)}" if estimate else NOTHING
