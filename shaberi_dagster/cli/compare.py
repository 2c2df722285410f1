"""`shaberi compare`: two models or runs over the questions that both were asked, judge by judge."""

import csv
import io
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shaberi_dagster.benchmarks.registry import BENCHMARKS, parse_benchmarks
from shaberi_dagster.cli.command import FINE, Debug
from shaberi_dagster.cli.sameness import QUESTIONS, differences, listed, read_settings
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.rendering.markdown import markdown_table
from shaberi_dagster.rendering.text import csv_text, json_safe, markdown_text, printable, width_of
from shaberi_dagster.settings import Settings

if TYPE_CHECKING:
    import duckdb
    import polars as pl

    from shaberi_dagster.statistics.comparison import Difference

COMPARE_EPILOG = """Examples:

\b
  shaberi compare my-model other-model
  shaberi compare my-model my-model-v2 --tag july --judge gpt-5.1
  shaberi compare my-model@@july my-model@@august            two runs of one model
  shaberi compare my-model other-model --benchmark tengu,elyza --format md

Of a multi-run (tags TAG-run1, TAG-run2, ...) name TAG: the scores of a question are averaged over its runs first. The
difference is A - B with its 95 % interval over questions; p is of the paired sign-flip test, Holm's adjustment is over
the benchmarks. `tied` means that no difference is shown, not that there is none."""

FORMATS = ("table", "json", "csv", "md")
_POLICIES = {
    "legacy": "samples without a score are left out",
    "zero": "a sample without a score counts as the scale's minimum",
    "strict": "refused unless every sample of a common question has a score",
}
_BAR_WIDTH, _GAP = 25, 2


@dataclass(frozen=True)
class Side:
    """What stands on one side of a comparison.

    Attributes:
        name: A or B.
        model: Its model.
        run_tags: Its runs, in order of their numbers; several are averaged per question.
        run_ids: Their identities.
    """

    name: str
    model: str
    run_tags: tuple[str, ...]
    run_ids: tuple[str, ...]

    def __str__(self) -> str:
        tags = ", ".join(self.run_tags)
        return f"{self.name} = {self.model}  {tags}" + (
            f"  (mean of {len(self.run_tags)} runs)" if self.several else ""
        )

    @property
    def several(self) -> bool:
        """Whether it is a multi-run."""
        return len(self.run_tags) > 1


@dataclass(frozen=True)
class Row:
    """One benchmark, or the mean of them.

    Attributes:
        difference: The statistics.
        only_a: Questions that only A was asked, or judged on.
        only_b: Questions that only B was.
        without_score_a: Questions of both that have no score of A.
        without_score_b: Questions of both that have no score of B.
    """

    difference: "Difference"
    only_a: int
    only_b: int
    without_score_a: int
    without_score_b: int

    @property
    def left_out(self) -> str:
        """What of it does not count, in words; empty when everything does."""
        counts = {
            "only A has": self.only_a,
            "only B has": self.only_b,
            "without a score of A": self.without_score_a,
            "without a score of B": self.without_score_b,
        }
        return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


@dataclass(frozen=True)
class Section:
    """The comparison by one judge, or by the mean of several.

    Attributes:
        judges: One judge; several for their mean, which is over questions that each of them scored for both.
        rows: The benchmarks, and overall at the end if they are several.
    """

    judges: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        """Who judged."""
        if len(self.judges) == 1:
            return f"judge {self.judges[0]}"
        return f"mean of {len(self.judges)} judges: {', '.join(self.judges)}"


@dataclass(frozen=True)
class Report:
    """Everything that is printed.

    Attributes:
        a: One side.
        b: The other.
        pipeline: Pass pipeline of the scores.
        null_policy: What a missing score counts as.
        sections: The mean of the judges first, if there are several.
        warnings: What is not the same on both sides.
    """

    a: Side
    b: Side
    pipeline: str
    null_policy: str
    sections: tuple[Section, ...]
    warnings: tuple[str, ...]

    @property
    def notes(self) -> list[str]:
        """What the numbers are."""
        policy = f"Null policy {self.null_policy}: {_POLICIES[self.null_policy]}."
        return [
            f"A - B is on the reported scale, over common questions (n). {policy} Pass pipeline: {self.pipeline}.",
            "CI: interval over questions. p: paired sign-flip test, two-sided. Holm p: adjusted for all benchmarks.",
            "MDE: the difference that would be seen with probability 0.8 at level 0.05.",
            "Overall is the unweighted mean of the benchmarks.",
        ]


def compare(  # noqa: PLR0917
    a: Annotated[str, typer.Argument(metavar="A", help="Model, or MODEL@@TAG for a run.")],
    b: Annotated[str, typer.Argument(metavar="B", help="What to compare it with.")],
    tag: Annotated[
        str | None, typer.Option(help="Tag or base tag of the runs; not needed where a model has one.")
    ] = None,
    judge: Annotated[list[str] | None, typer.Option(help="Only this judge; repeat for several.")] = None,
    benchmark: Annotated[str, typer.Option(help="Benchmarks, separated by commas, or all.")] = "all",
    passes: Annotated[str, typer.Option(help="Pass pipeline, e.g. lang_mixing,repetition.")] = "baseline",
    null_policy: Annotated[str, typer.Option(help="legacy, zero or strict.")] = "legacy",
    question_set: Annotated[
        list[str] | None,
        typer.Option(help="Over the questions of this set only, e.g. tengu@115; repeat for several benchmarks."),
    ] = None,
    output_format: Annotated[str, typer.Option("--format", help="table, json, csv or md.")] = "table",
    debug: Debug = False,
) -> int:
    """Compare two models or runs question by question: is one better, or are they tied?"""
    del debug
    run_compare(
        Settings.from_environment(),
        a,
        b,
        tag=tag,
        judges=judge or (),
        benchmarks=benchmark,
        pipeline=passes,
        null_policy=null_policy,
        question_sets=question_set or (),
        output_format=output_format,
    )
    return FINE


def run_compare(
    settings: Settings,
    a: str,
    b: str,
    *,
    tag: str | None = None,
    judges: Sequence[str] = (),
    benchmarks: str = "all",
    pipeline: str = "baseline",
    null_policy: str = "legacy",
    question_sets: Sequence[str] = (),
    output_format: str = "table",
) -> None:
    """Print a comparison on stdout.

    Args:
        settings: Where the lake is.
        a: A model, MODEL@@TAG or a run id; TAG can be the base tag of a multi-run.
        b: Likewise.
        tag: For those that are named by model only.
        judges: Only these judges; none means all that both have.
        benchmarks: Names separated by commas, or all.
        pipeline: Passes in order, or baseline.
        null_policy: legacy, zero or strict.
        question_sets: Of these sets' benchmarks only their questions, whatever set the runs were asked.
        output_format: One of `FORMATS`.

    Raises:
        ConfigurationError: There is no such run or several could be meant, runs of one side do not go together, or
            nothing is common to both.
    """
    _check("--null-policy", null_policy, tuple(_POLICIES))
    _check("--format", output_format, FORMATS)
    chosen = None if benchmarks == "all" else [one.name for one in parse_benchmarks(benchmarks)]
    from shaberi_dagster.lake.catalog import open_catalog  # noqa: PLC0415  (DuckDB only when it is needed)

    with open_catalog(settings.warehouse) as catalog:
        side_a, side_b = _side(catalog, "A", a, tag), _side(catalog, "B", b, tag)
        if set(side_a.run_ids) & set(side_b.run_ids):
            raise ConfigurationError(f"A and B are the same: {side_a.run_ids[0]}")
        _check_question_sets(catalog, question_sets)
        scores = _paired_scores(
            catalog,
            side_a,
            side_b,
            judges=list(judges) or None,
            benchmarks=chosen,
            pipeline=pipeline,
            null_policy=null_policy,
            question_sets=list(question_sets),
        )
        sections = _sections(scores, null_policy)
        if not sections:
            raise ConfigurationError(_nothing_in_common(catalog, side_a, side_b, pipeline))
        shared = {judge for section in sections for judge in section.judges}
        names = set(scores["benchmark_name"].to_list())
        warnings = (
            *_unlike(catalog, side_a, side_b, benchmarks=names, judges=shared, pipeline=pipeline),
            *_left_out(catalog, side_a, side_b, sections, pipeline),
        )
    report = Report(side_a, side_b, pipeline, null_policy, tuple(sections), warnings)
    _write(report, output_format)


# --- what is compared ------------------------------------------------------------------------------------------------


def _side(catalog: "duckdb.DuckDBPyConnection", name: str, text: str, tag: str | None) -> Side:
    """The runs that a model, a run or a base tag stands for."""
    runs = _fetch(
        catalog,
        "select distinct run_id, model, run_tag, base_tag, run_number from metrics order by run_number, run_tag",
    )
    model, _, own_tag = text.rpartition("@@")
    if not any(run["model"] == text for run in runs) and model:
        tag = own_tag
        known = [run for run in runs if model in {run["model"], run["run_id"].rpartition("@@")[0]}]
    else:
        model = text
        known = [run for run in runs if run["model"] == text]
    if not known:
        raise ConfigurationError(f'no scores of model {model!r}; `shaberi sql "from coverage"` lists what there is')
    tags = ", ".join(sorted({run["run_tag"] for run in known}))
    exact = [run for run in known if run["run_tag"] == tag]
    # A run without a number is no part of the multi-run that was made under the same tag.
    numbered = [run for run in known if run["base_tag"] == tag and run["run_number"] is not None]
    if tag is None:
        bases = {run["base_tag"] for run in known}
        if len(bases) > 1:
            raise ConfigurationError(f"{model} has several runs: name one as {model}@@TAG, or give --tag; tags: {tags}")
        numbered = [run for run in known if run["run_number"] is not None]
        exact = known
    found = numbered or exact
    if not found:
        raise ConfigurationError(f"{model} has no scored run with tag {tag!r}; tags: {tags}")
    return Side(name, found[0]["model"], tuple(run["run_tag"] for run in found), tuple(run["run_id"] for run in found))


_PAIRED = """
with scales as (
    select benchmark, max(scale_minimum * reported_multiplier) as minimum
    from metrics
    group by benchmark
),
chosen as (
    select distinct benchmark, question_set, question_id
    from questions
    where list_contains($question_sets, question_set)
),
own as (
    select
        list_contains($first, run_id) as is_a, judge, benchmark, question_id, score,
        coalesce(chosen.question_set, reported_scores.question_set) as question_set,
        case when $null_policy = 'zero' then coalesce(score, minimum) else score end as counted
    from reported_scores
    join scales using (benchmark)
    left join chosen using (benchmark, question_id)
    where list_contains($run_ids, run_id)
      and pipeline = $pipeline
      and strategy is null
      and ($judges is null or list_contains($judges, judge))
      and ($benchmarks is null or list_contains($benchmarks, benchmark))
      and (chosen.question_id is not null or benchmark not in (select benchmark from chosen))
),
by_question as (
    select
        is_a, judge, benchmark, question_set, question_id,
        avg(counted) as score, count(*) as n_samples, count(*) - count(score) as n_missing
    from own
    group by all
),
paired as (
    select
        judge, benchmark, question_set, question_id,
        a.score as score_a, b.score as score_b,
        a.n_samples as samples_a, b.n_samples as samples_b,
        coalesce(a.n_missing, 0) as missing_a, coalesce(b.n_missing, 0) as missing_b
    from (from by_question where is_a) as a
    full join (from by_question where not is_a) as b using (judge, benchmark, question_set, question_id)
),
-- What a judge judged of both; other judges and sets have nothing to compare.
shared as (
    from paired
    qualify count(*) filter (score_a is not null and score_b is not null)
        over (partition by judge, benchmark, question_set) > 0
),
of_all_judges as (
    select
        null as judge, benchmark, question_set, question_id,
        case when count(score_a) = n_judges then avg(score_a order by judge) end as score_a,
        case when count(score_b) = n_judges then avg(score_b order by judge) end as score_b,
        min(samples_a) as samples_a, min(samples_b) as samples_b,
        max(missing_a) as missing_a, max(missing_b) as missing_b
    from shared
    join (
        select benchmark, question_set, count(distinct judge) as n_judges from shared group by all
    ) using (benchmark, question_set)
    group by benchmark, question_set, question_id, n_judges
)
select
    judge, question_set as benchmark, benchmark as benchmark_name, question_id,
    score_a, score_b, samples_a, samples_b, missing_a, missing_b
from (from shared union all by name from of_all_judges)
order by
    judge is not null, judge, coalesce(list_position($order, benchmark_name), 1000), benchmark_name, benchmark,
    question_id
"""


def _paired_scores(
    catalog: "duckdb.DuckDBPyConnection", side_a: Side, side_b: Side, **choices: object
) -> "pl.DataFrame":
    """One row per judge (null: the mean over judges), question set and question that one of them has."""
    import polars as pl  # noqa: PLC0415  (only when it is needed)

    from shaberi_dagster.lake.catalog import run_query  # noqa: PLC0415

    parameters = {"first": list(side_a.run_ids), "run_ids": [*side_a.run_ids, *side_b.run_ids], "order": [*BENCHMARKS]}
    rows = run_query(catalog, _PAIRED, parameters | choices).fetchall()
    texts, counts = pl.String(), pl.Int64()
    schema: dict[str, pl.DataType] = dict.fromkeys(("judge", "benchmark", "benchmark_name", "question_id"), texts)
    schema |= dict.fromkeys(("score_a", "score_b"), pl.Float64())
    schema |= dict.fromkeys(("samples_a", "samples_b", "missing_a", "missing_b"), counts)
    return pl.DataFrame(rows, schema=schema, orient="row")


def _sections(scores: "pl.DataFrame", null_policy: str) -> list[Section]:
    parts = {part["judge"][0]: part for part in scores.partition_by("judge", maintain_order=True)}
    judges = tuple(judge for judge in parts if judge is not None)
    if len(judges) == 1:
        parts.pop(None)
    sections = []
    for judge, part in parts.items():
        rows = _rows(part, null_policy)
        sections += [Section((judge,) if judge is not None else judges, rows)] if rows else []
    return sections


def _rows(scores: "pl.DataFrame", null_policy: str) -> tuple[Row, ...]:
    from shaberi_dagster.statistics.comparison import compare as compare_scores  # noqa: PLC0415  (polars and SciPy)

    missing = {}
    for (name,), part in scores.partition_by("benchmark", as_dict=True, maintain_order=True).items():
        has_a, has_b = part["samples_a"].is_not_null(), part["samples_b"].is_not_null()
        both = has_a & has_b
        if null_policy == "strict":
            _refuse_missing(str(name), [int((part[f"missing_{side}"] * both).sum()) for side in "ab"])
        missing[name] = [
            int(count.sum())
            for count in (
                has_a & ~has_b,
                has_b & ~has_a,
                both & part["score_a"].is_null(),
                both & part["score_b"].is_null(),
            )
        ]
    if (scores["score_a"].is_null() | scores["score_b"].is_null()).all():
        return ()
    comparison = compare_scores(scores)
    rows = [Row(row, *missing[row.benchmark]) for row in comparison.benchmarks]
    if comparison.overall:
        totals = (sum(counts) for counts in zip(*missing.values(), strict=True))
        rows.append(Row(comparison.overall, *totals))
    return tuple(rows)


def _refuse_missing(name: str, missing: Sequence[int]) -> None:
    if any(missing):
        raise ConfigurationError(
            f"strict: on common questions of {name}, {missing[0]} scores of A and {missing[1]} of B are missing; "
            "choose --null-policy legacy or zero, or finish the runs"
        )


# --- what is not the same --------------------------------------------------------------------------------------------


def _check_question_sets(catalog: "duckdb.DuckDBPyConnection", question_sets: Sequence[str]) -> None:
    if not question_sets:
        return
    known = {row["question_set"]: row["benchmark"] for row in _fetch(catalog, _SETS)}
    if unknown := sorted(set(question_sets) - known.keys()):
        raise ConfigurationError(f"the lake has no question set {unknown[0]!r}; it has {', '.join(sorted(known))}")
    chosen = [known[name] for name in question_sets]
    if len(set(chosen)) < len(chosen):
        raise ConfigurationError("--question-set: one set per benchmark")


_SETS = "select distinct benchmark, question_set from questions"


def _unlike(
    catalog: "duckdb.DuckDBPyConnection",
    side_a: Side,
    side_b: Side,
    *,
    benchmarks: Iterable[str],
    judges: Iterable[str],
    pipeline: str,
) -> list[str]:
    """How the scores of both sides were made differently.

    Raises:
        ConfigurationError: Those of the runs of one side were.
    """
    run_ids = [*side_a.run_ids, *side_b.run_ids]
    settings = read_settings(catalog, run_ids, benchmarks, judges, pipeline)
    for side in (side_a, side_b):
        if unlike := differences(settings, {tag: [run] for tag, run in zip(side.run_tags, side.run_ids, strict=True)}):
            raise ConfigurationError(
                f"the runs of {side.name} cannot be averaged: {unlike[0]}; name one run as {side.model}@@TAG"
            )
    # Only common questions count.
    return differences(settings, {"A": side_a.run_ids, "B": side_b.run_ids}, ignored=QUESTIONS)


_CELLS = """
select list_contains($first, run_id) as is_a, judge, benchmark, question_set
from metrics
where list_contains($run_ids, run_id)
  and pipeline = $pipeline
  and strategy is null
  and null_policy = 'legacy'
  and n_scored > 0
"""


def _left_out(
    catalog: "duckdb.DuckDBPyConnection", side_a: Side, side_b: Side, sections: Sequence[Section], pipeline: str
) -> list[str]:
    """Judges that have only a part of the compared question sets of both."""
    compared = {
        section.judges[0]: {row.difference.benchmark for row in section.rows if row.difference.benchmark != "overall"}
        for section in sections
        if len(section.judges) == 1
    }
    everything = set().union(*compared.values())
    warnings = [
        f"judge {judge} has only {', '.join(sorted(sets))} of both"
        for judge, sets in compared.items()
        if sets < everything
    ]
    cells = _cells(catalog, side_a, side_b, pipeline)
    asked = {
        side: {(row["benchmark"], row["question_set"]) for row in cells if row["is_a"] is side}
        for side in (True, False)
    }
    for benchmark in sorted({name for name, _ in asked[True]} & {name for name, _ in asked[False]}):
        first, second = ({one for name, one in asked[side] if name == benchmark} for side in (True, False))
        if not first & second and not (first | second) & everything:
            warnings.append(
                f"{benchmark}: A was asked {listed(first)}, B {listed(second)}: not compared "
                f"(--question-set {min(first | second)} compares the questions that both have of it)"
            )
    return warnings


def _nothing_in_common(catalog: "duckdb.DuckDBPyConnection", side_a: Side, side_b: Side, pipeline: str) -> str:
    cells = _cells(catalog, side_a, side_b, pipeline)
    said = []
    for side, is_a in ((side_a, True), (side_b, False)):
        had = {f"{row['question_set']} by {row['judge']}" for row in cells if row["is_a"] is is_a}
        said.append(f"{side.name} has {listed(had) or 'no scores'}")
    return f"no question has a score of both by the same judge: {'; '.join(said)} (pipeline {pipeline})"


def _cells(catalog: "duckdb.DuckDBPyConnection", side_a: Side, side_b: Side, pipeline: str) -> list[dict[str, Any]]:
    run_ids = [*side_a.run_ids, *side_b.run_ids]
    return _fetch(catalog, _CELLS, first=list(side_a.run_ids), run_ids=run_ids, pipeline=pipeline)


def _check(option: str, value: str, values: Sequence[str]) -> None:
    if value not in values:
        raise ConfigurationError(f"{option} must be one of {', '.join(values)}, not {value!r}")


def _fetch(catalog: "duckdb.DuckDBPyConnection", sql: str, **values: object) -> list[dict[str, Any]]:
    from shaberi_dagster.lake.catalog import run_query  # noqa: PLC0415  (DuckDB only when it is needed)

    result = run_query(catalog, sql, values)
    names = [column[0] for column in result.description or []]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


# --- how it is shown -------------------------------------------------------------------------------------------------

_TITLES = ("question set", "n", "A", "B", "A - B", "95 % CI", "p", "Holm p", "MDE", "A is")


def _write(report: Report, output_format: str) -> None:
    if output_format == "table":
        console = Console()
        for part in _as_table(report, console.width):
            console.print(part, crop=False, soft_wrap=isinstance(part, Text))
    else:
        sys.stdout.write({"json": as_json, "csv": as_csv, "md": as_markdown}[output_format](report))


def _as_table(report: Report, width: int) -> Iterable[Table | Text]:
    for side in (report.a, report.b):
        yield Text(printable(str(side)), style="bold")
    for section in report.sections:
        yield Text()
        yield Text(printable(section.title), style="bold")
        yield _table(section, width)
        for sentence in _sentences(section):
            yield Text(printable(sentence))
    yield Text()
    for warning in report.warnings:
        yield Text(f"Warning: {printable(warning)}.", style="yellow")
    for note in report.notes:
        yield Text(printable(note), style="dim")


def _table(section: Section, width: int) -> Table:
    """A number is never cut; the bars are there if they fit."""
    reach = max((abs(end) for row in section.rows for end in _ends(row)), default=0.0)
    lines = [_TITLES, *map(_cells_of, section.rows)]
    widths = [max(map(width_of, column)) for column in zip(*lines, strict=True)]
    needed = sum(widths) + _GAP * (len(widths) - 1)
    bars = [("",), *((_bar(row, reach),) for row in section.rows)]
    if needed + _GAP + _BAR_WIDTH <= width:
        lines = [(*line, *bar) for line, bar in zip(lines, bars, strict=True)]
        widths, needed = [*widths, _BAR_WIDTH], needed + _GAP + _BAR_WIDTH
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, width=needed)
    for title, column_width in zip(lines[0], widths, strict=True):
        left = title in {_TITLES[0], _TITLES[-1], ""}
        justify: Literal["left", "right"] = "left" if left else "right"
        table.add_column(Text(title, style="bold"), width=column_width, justify=justify, no_wrap=True)
    for line in lines[1:]:
        table.add_row(*map(Text, line))
    return table


def _cells_of(row: Row) -> tuple[str, ...]:
    one = row.difference
    interval = one.interval
    return (
        printable(one.benchmark),
        str(one.n),
        f"{one.mean_a:.2f}",
        f"{one.mean_b:.2f}",
        f"{one.difference:+.2f}",
        f"{interval.lower:+.2f} to {interval.upper:+.2f}" if interval else "-",
        _p(one.p_value),
        _p(one.adjusted_p_value) if one.benchmark != "overall" else "",
        "-" if one.minimum_detectable_effect is None else f"{one.minimum_detectable_effect:.2f}",
        one.verdict,
    )


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else "<0.0001"  # noqa: PLR2004


def _ends(row: Row) -> tuple[float, ...]:
    interval = row.difference.interval
    return (interval.lower, interval.upper) if interval else ()


def _bar(row: Row, reach: float) -> str:
    """The interval around zero, in ASCII: box characters are two columns wide in Japanese terminals."""
    ends = _ends(row)
    if not ends or not reach:
        return ""
    lower, middle, upper = (_place(value, reach) for value in (ends[0], row.difference.difference, ends[1]))
    bar = ["-" if lower <= place <= upper else " " for place in range(_BAR_WIDTH)]
    bar[_place(0, reach)] = "|"
    bar[middle] = "o"
    return "".join(bar)


def _place(value: float, reach: float) -> int:
    return round((value / reach + 1) / 2 * (_BAR_WIDTH - 1))


def _sentences(section: Section) -> list[str]:
    """What the numbers say, in plain words; the last row is what the section is about."""
    row = section.rows[-1]
    one = row.difference
    where = "overall" if one.benchmark == "overall" else f"on {one.benchmark}"
    seen = one.minimum_detectable_effect
    power = f"a difference below {seen:.2f} could easily have been missed" if seen is not None else ""
    said = {
        "better": f"A is better {where}, by {one.difference:.2f} over {one.n} questions.",
        "worse": f"A is worse {where}, by {-one.difference:.2f} over {one.n} questions.",
        "tied": f"Tied {where}: {power} with {one.n} questions."
        if power
        else f"Tied {where}: the scores of all {one.n} questions are the same.",
        "too few": f"Too few {where}: {one.n} questions cannot show a difference.",
    }
    left_out = [
        f"Left out of {row.difference.benchmark}: {row.left_out}."
        for row in section.rows
        if row.left_out and row.difference.benchmark != "overall"
    ]
    return [said[one.verdict], *left_out]


def as_json(report: Report) -> str:
    """One document; what is not defined is null."""
    document = {
        "a": _side_fields(report.a),
        "b": _side_fields(report.b),
        "null_policy": report.null_policy,
        "pipeline": report.pipeline,
        "comparisons": [
            {"judges": list(section.judges), "rows": [_fields(row) for row in section.rows]}
            for section in report.sections
        ],
        "warnings": list(report.warnings),
        "notes": report.notes,
    }
    return json_safe(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)) + "\n"


def _side_fields(side: Side) -> dict[str, object]:
    return {"model": side.model, "run_tags": list(side.run_tags), "run_ids": list(side.run_ids)}


def _fields(row: Row) -> dict[str, Any]:
    fields = asdict(row.difference)
    interval = fields.pop("interval") or {"lower": None, "upper": None}
    left_out = {name: value for name, value in asdict(row).items() if name != "difference"}
    return {"question_set": fields.pop("benchmark"), **fields, **interval, **left_out}


def as_csv(report: Report) -> str:
    """One table; `judge` is empty for the mean over `n_judges` judges. Texts are safe for spreadsheets."""
    named = {
        "model_a": report.a.model,
        "tags_a": " ".join(report.a.run_tags),
        "model_b": report.b.model,
        "tags_b": " ".join(report.b.run_tags),
        "null_policy": report.null_policy,
        "pipeline": report.pipeline,
    }
    rows = [
        {"judge": section.judges[0] if len(section.judges) == 1 else "", "n_judges": len(section.judges)}
        | _fields(row)
        | named
        for section in report.sections
        for row in section.rows
    ]
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: csv_text(value) if isinstance(value, str) else value for name, value in row.items()} for row in rows
    )
    return file.getvalue()


def as_markdown(report: Report) -> str:
    """A table for each judge, with what it says, what was left out and what the numbers are."""
    parts = ["".join(f"- {markdown_text(str(side))}\n" for side in (report.a, report.b))]
    for section in report.sections:
        table = markdown_table(_TITLES, list(map(_cells_of, section.rows)), left=(0, len(_TITLES) - 1))
        parts.append(f"**{markdown_text(section.title)}**\n\n{table}")
        parts.append(markdown_text(" ".join(_sentences(section))) + "\n")
    parts.append("".join(f"- Warning: {markdown_text(warning)}.\n" for warning in report.warnings))
    parts.append("".join(f"- {markdown_text(note)}\n" for note in report.notes))
    return "\n".join(part for part in parts if part)
