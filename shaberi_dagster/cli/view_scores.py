"""`view-scores`: the scores of runs, with their denominators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import duckdb
import typer
from rich.console import Console

from shaberi_dagster.cli.command import FINE, Debug, run_command
from shaberi_dagster.cli.score_files import OUTPUT_FORMATS, write_scores
from shaberi_dagster.cli.score_report import RunStatistic, ScoreReport, ScoreRow, TokenRow, grouped
from shaberi_dagster.cli.score_statistics import (
    MOST_RUNS,
    SamplesByRow,
    fetch,
    judge_remarks,
    over_questions,
    read_judge_means,
    read_judge_pairs,
    read_samples,
    read_ties,
    read_unfinished,
    version_remarks,
    with_intervals,
    with_leniency,
)
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.catalog import open_as_of, open_catalog, run_query
from shaberi_dagster.reports.sameness import differences, read_settings
from shaberi_dagster.settings import Settings, project_folder
from shaberi_dagster.statistics.intervals import margin_of_error

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
_ALL_RUNS = 1_000_000
_BASELINE = "baseline"
POLICIES = ("legacy", "zero", "strict")
OBJECT_SCORES = ("none", "recovered")

_EPILOG = """Examples:

\b
  view-scores
  view-scores --tag july --null-policy zero
  view-scores --model my-model --runs 3 --format md
  view-scores --judge gpt-5.1 --format csv > scores.csv
  view-scores --tag legacy --question-set tengu@115       as the published tables have it
  view-scores --as-of 2026-07-01T12:00                    what this showed then

A missing score is left out under the policy legacy, counts as the scale's minimum under zero, and leaves the
mean undefined under strict."""


@dataclass(frozen=True)
class Selection:
    """Which runs to show, and how missing scores count.

    Attributes:
        models: Only these models; none means all.
        tags: Only runs with one of these tags or base tags; none means all.
        judges: Only these judges; none means all.
        runs: Only multi-runs, of their runs the first so many; None for no statistics asked.
        pipeline: Passes in order, or baseline.
        null_policy: One of `POLICIES`.
        question_sets: Of these sets' benchmarks only the runs that were asked all their questions, over those.
        object_scores: One of `OBJECT_SCORES`: what an object in place of a score counts as (imported runs).
        as_of: What the lake had at that time; None is now.
        aggregate: Runs that cannot be put into one aggregate are an error, not a remark.
    """

    models: Sequence[str] = ()
    tags: Sequence[str] = ()
    judges: Sequence[str] = ()
    runs: int | None = None
    pipeline: str = _BASELINE
    null_policy: str = "legacy"
    question_sets: Sequence[str] = ()
    object_scores: str = "none"
    as_of: datetime | None = None
    aggregate: bool = False


@dataclass
class _Filter:
    """A WHERE clause with bound values."""

    clauses: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)

    def add(self, clause: str, **values: Any) -> None:
        self.clauses.append(clause)
        self.values |= values

    @property
    def sql(self) -> str:
        return " and ".join(self.clauses) or "true"


@app.command(epilog=_EPILOG)
def view_scores(  # noqa: PLR0917
    model: Annotated[list[str] | None, typer.Option(help="Only this model; repeat for several.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="Only runs with this tag or base tag; repeat for several.")
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="Statistics over runs 1 to N of multi-runs.")] = None,
    judge: Annotated[list[str] | None, typer.Option(help="Only this judge; repeat for several.")] = None,
    passes: Annotated[str, typer.Option(help="Pass pipeline, e.g. lang_mixing,repetition.")] = _BASELINE,
    null_policy: Annotated[str, typer.Option(help="legacy, zero or strict.")] = "legacy",
    question_set: Annotated[
        list[str] | None,
        typer.Option(help="Over the questions of this set only, e.g. tengu@115; repeat for several benchmarks."),
    ] = None,
    object_scores: Annotated[
        str, typer.Option(help="Imported objects in place of scores: none, or recovered (the number inside).")
    ] = "none",
    as_of: Annotated[
        str | None, typer.Option(help="What the lake had then: 2026-07-01 or 2026-07-01T12:00+09:00 (default: local).")
    ] = None,
    output_format: Annotated[str, typer.Option("--format", help="table, json, csv or md.")] = "table",
    debug: Debug = False,
) -> int:
    """Show scores on the reported scale, with how many samples they stand for."""
    del debug
    selection = Selection(
        models=model or [],
        tags=tag or [],
        judges=judge or [],
        runs=runs,
        pipeline=",".join(name.strip() for name in passes.split(",")),
        null_policy=null_policy,
        question_sets=question_set or [],
        object_scores=object_scores,
        as_of=_time(as_of),
        aggregate=runs is not None,
    )
    show(Settings.from_environment().warehouse, selection, output_format)
    return FINE


def show(warehouse: Path, selection: Selection, output_format: str) -> None:
    """Print the selected scores on stdout.

    Raises:
        ConfigurationError: There is no lake, no such run, or no such policy or format; or the runs that are to be put
            into one aggregate are not alike.
    """
    _check("--null-policy", selection.null_policy, POLICIES)
    _check("--object-scores", selection.object_scores, OBJECT_SCORES)
    if output_format not in OUTPUT_FORMATS:
        raise ConfigurationError(f"--format must be one of {', '.join(OUTPUT_FORMATS)}, not {output_format!r}")
    with open_as_of(warehouse, selection.as_of) if selection.as_of else open_catalog(warehouse) as catalog:
        report = read_scores(catalog, selection)
    write_scores(report, output_format, Console())


_ROWS = """
with own as (
    from {source}
    where strategy is null
),
baselines as (
    select run_id, judge, benchmark, question_set, null_policy, score as baseline_score
    from own
    where pipeline = 'baseline' and $pipeline <> 'baseline'
),
versions as (
    select run_id, judge, benchmark, pipeline, null_policy, judge_prompt_hash, judge_config_hash, pipeline_hash
    from metrics
    where strategy is null
)
select
    run_id, model, run_tag, judge, benchmark, question_set, pipeline, null_policy, score, sd_questions,
    n_planned, n_scored, n_failed, n_excluded, baseline_score,
    versions.judge_prompt_hash, versions.judge_config_hash, versions.pipeline_hash, base_tag, run_number
from (from own where {where}) as scored
left join baselines using (run_id, judge, benchmark, question_set, null_policy)
left join versions using (run_id, judge, benchmark, pipeline, null_policy)
order by model, run_tag, judge, benchmark
"""
_OVER = "leaderboard_over"

_TOKENS = """
select model, run_tag, stage, coalesce(benchmark, '') as benchmark, sum(calls)::bigint as calls,
       sum(prompt_tokens)::bigint as prompt_tokens, sum(completion_tokens)::bigint as completion_tokens,
       sum(cached_tokens)::bigint as cached_tokens, sum(reasoning_tokens)::bigint as reasoning_tokens,
       sum(calls_without_usage)::bigint as calls_without_usage,
       sum(cost_usd::decimal(38, 12))::double as cost_usd, sum(calls_without_price)::bigint as calls_without_price,
       list_sort(list_distinct(flatten(list(price_sources)))) as price_sources,
       strftime(min(first_call_at), '%Y-%m-%d') as first_day, strftime(max(last_call_at), '%Y-%m-%d') as last_day
from token_usage
where list_contains($run_ids, run_id)
group by all
order by model, run_tag, stage, benchmark
"""
_STATISTICS = """
select model, base_tag, judge, benchmark, n_runs, mean, sd, minimum, maximum, values_by_run
from run_statistics_of($first_runs)
where strategy is null
  and {where}
  and list_contains($base_tags, base_tag)
order by model, base_tag, judge, benchmark = 'overall', benchmark
"""


def read_scores(catalog: duckdb.DuckDBPyConnection, selection: Selection) -> ScoreReport:
    """The selected scores with their uncertainty, statistics, judges and tokens.

    Raises:
        ConfigurationError: Nothing is selected, or runs that are to be put into one aggregate are not alike.
    """
    chosen, runs = _chosen(selection), _runs(selection)
    source, choices = _source(catalog, selection)
    where = _Filter([*chosen.clauses, *runs.clauses], chosen.values | runs.values)
    found = fetch(catalog, _ROWS.format(source=source, where=where.sql), **where.values, **choices)
    if not found:
        raise ConfigurationError(_nothing(catalog, selection, runs))
    base_tags = {row["run_id"]: (row.pop("base_tag"), row.pop("run_number")) for row in found}
    rows = [ScoreRow(**row) for row in found]
    remarks = _remarks(selection) + version_remarks(rows)
    samples: SamplesByRow = {}
    if len(base_tags) > MOST_RUNS:
        remarks.append(f"More than {MOST_RUNS} runs: without intervals over questions, ties, leniency and agreement.")
    elif selection.object_scores == "none":
        samples = read_samples(catalog, rows, selection.question_sets)
        rows = [replace(row, over_questions=over_questions(row, samples)) for row in rows]
    report = ScoreReport(
        policy=selection.null_policy,
        pipeline=selection.pipeline,
        rows=rows,
        tokens=[TokenRow(**row) for row in fetch(catalog, _TOKENS, run_ids=sorted(base_tags))],
        ties=read_ties(rows, samples),
        unfinished=read_unfinished(catalog, runs.sql, runs.values, selection.judges),
        remarks=remarks,
    )
    if choices:
        return report
    if selection.tags or selection.runs:
        report = _with_statistics(catalog, report, selection, base_tags, samples)
    return _with_judges(catalog, report)


def _with_judges(catalog: duckdb.DuckDBPyConnection, report: ScoreReport) -> ScoreReport:
    """The report with what several judges have in common."""
    judges = sorted({row.judge for row in report.rows})
    if len(judges) == 1:
        return report
    few = len({row.run_id for row in report.rows}) <= MOST_RUNS
    rows, connected = with_leniency(catalog, report.rows) if few else (report.rows, {})
    means = read_judge_means(catalog, rows)
    return replace(
        report,
        rows=rows,
        judge_means=means,
        judge_pairs=read_judge_pairs(catalog, judges) if few else [],
        remarks=[*report.remarks, *judge_remarks(rows, means, connected)],
    )


def _nothing(catalog: duckdb.DuckDBPyConnection, selection: Selection, runs: _Filter) -> str:
    """Why there is nothing to show."""
    sql = f"select distinct pipeline from metrics where strategy is null and {runs.sql} order by all"
    there = [row["pipeline"] for row in fetch(catalog, sql, **runs.values)]
    if not there or selection.pipeline in there:
        return 'no scores match; `shaberi sql "select run_id, status from runs"` lists the runs'
    options = "".join(f" --tag {tag}" for tag in selection.tags)
    return (
        f"no run has scores under the passes {selection.pipeline}: run `shaberi reprocess --passes {selection.pipeline}"
        f"{options}`; there are {', '.join(there)}"
    )


def _source(catalog: duckdb.DuckDBPyConnection, selection: Selection) -> tuple[str, dict[str, str | None]]:
    """What to select from: the roll-up, unless scores over other questions or of objects are asked for.

    Returns:
        SQL, and the values of its parameters.
    """
    if not selection.question_sets and selection.object_scores == "none":
        return "metrics", {}
    if selection.runs:
        raise ConfigurationError("--runs is over the runs' own question sets: leave it out, or the other choices")
    known = {name for (name,) in run_query(catalog, "select distinct question_set from questions").fetchall()}
    if unknown := sorted(set(selection.question_sets) - known):
        raise ConfigurationError(f"the lake has no question set {unknown[0]!r}; it has {', '.join(sorted(known))}")
    query = (project_folder("sql") / "queries" / f"{_OVER}.sql").read_text(encoding="utf-8")
    choices = {
        "question_set": ",".join(selection.question_sets) or None,
        "policy": selection.null_policy,
        "object_scores": selection.object_scores,
    }
    return f"({query.rstrip().removesuffix(';')})", choices


def _remarks(selection: Selection) -> list[str]:
    remarks = []
    if selection.question_sets:
        names = ", ".join(selection.question_sets)
        remarks.append(f"Over {names}: only runs that were asked all of these questions, and only these questions.")
    if selection.object_scores == "recovered":
        remarks.append("Objects in place of scores count as the number inside of them.")
    if selection.as_of:
        remarks.append(f"As of {selection.as_of.isoformat()}.")
    return remarks


def _with_statistics(
    catalog: duckdb.DuckDBPyConnection,
    report: ScoreReport,
    selection: Selection,
    base_tags: Mapping[str, tuple[str, int | None]],
    samples: SamplesByRow,
) -> ScoreReport:
    """The report with statistics over the runs of multi-runs, when the selection names base tags.

    Raises:
        ConfigurationError: Runs of one aggregate are not alike, and they are to be.
    """
    # A run without a number is no part of the multi-run that was made under the same tag.
    several = {(row.model, base_tags[row.run_id][0]) for row in report.rows if base_tags[row.run_id][1] is not None}
    rows = [
        row
        for row in report.rows
        if (row.run_tag not in selection.tags or selection.runs)
        and (base_tags[row.run_id][1] is not None or (row.model, base_tags[row.run_id][0]) not in several)
    ]
    groups = dict(grouped(rows, lambda row: (row.model, base_tags[row.run_id][0])))
    remarks = list(report.remarks)
    for (model, base_tag), own in list(groups.items()):
        unlike = _unlike(catalog, own, selection.pipeline)
        if unlike and selection.aggregate:
            raise ConfigurationError(f"the runs of {model} {base_tag} cannot be put into one aggregate: {unlike}")
        if unlike:
            remarks.append(f"No statistics over the runs of {model} {base_tag}, which differ: {unlike}.")
            del groups[model, base_tag]
    chosen = _chosen(selection)
    values = {"first_runs": selection.runs or _ALL_RUNS, "base_tags": sorted({tag for _, tag in groups})}
    statistics = [
        RunStatistic(
            **{name: value for name, value in row.items() if name != "values_by_run"},
            margin_of_error=margin_of_error(row["sd"], row["n_runs"]),
            values=tuple(row["values_by_run"]),
        )
        for row in fetch(catalog, _STATISTICS.format(where=chosen.sql), **chosen.values, **values)
        if (row["model"], row["base_tag"]) in groups
    ]
    run_ids = {key: sorted({row.run_id for row in own}) for key, own in groups.items()}
    return replace(report, statistics=with_intervals(statistics, samples, run_ids), remarks=remarks)


def _unlike(catalog: duckdb.DuckDBPyConnection, rows: Sequence[ScoreRow], pipeline: str) -> str:
    """What is not the same for all runs of an aggregate; empty when everything is."""
    runs = {row.run_tag: [row.run_id] for row in rows}
    if len(runs) == 1:
        return ""
    run_ids = [run_id for (run_id,) in runs.values()]
    benchmarks, judges = {row.benchmark for row in rows}, {row.judge for row in rows}
    return "; ".join(differences(read_settings(catalog, run_ids, benchmarks, judges, pipeline), runs))


def _runs(selection: Selection) -> _Filter:
    """Which runs are meant; a condition on runs and metrics alike."""
    runs = _Filter()
    if selection.models:
        runs.add("list_contains($models, model)", models=list(selection.models))
    if selection.tags:
        runs.add("(list_contains($tags, run_tag) or list_contains($tags, base_tag))", tags=list(selection.tags))
    if selection.runs:
        runs.add("run_number <= $most_runs", most_runs=selection.runs)
    return runs


def _chosen(selection: Selection) -> _Filter:
    """Which of their scores are."""
    chosen = _Filter()
    chosen.add("null_policy = $null_policy", null_policy=selection.null_policy)
    chosen.add("pipeline = $pipeline", pipeline=selection.pipeline)
    if selection.judges:
        chosen.add("list_contains($judges, judge)", judges=list(selection.judges))
    return chosen


def _check(option: str, value: str, values: Sequence[str]) -> None:
    if value not in values:
        raise ConfigurationError(f"{option} must be one of {', '.join(values)}, not {value!r}")


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ConfigurationError(f"--as-of must be a time such as 2026-07-01T12:00, not {text!r}") from None


def main() -> None:
    """Entry point."""
    run_command(app)
