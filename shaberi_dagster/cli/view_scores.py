"""`view-scores`: the scores of runs, with their denominators."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import duckdb
import typer
from rich.console import Console

from shaberi_dagster.cli.command import FINE, Debug, run_command
from shaberi_dagster.cli.score_table import (
    OUTPUT_FORMATS,
    RunStatistic,
    ScoreReport,
    ScoreRow,
    TokenRow,
    write_scores,
)
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.catalog import open_as_of, open_catalog, run_query
from shaberi_dagster.settings import Settings, project_folder

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
_ALL_RUNS = 1_000_000
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
    """

    models: Sequence[str] = ()
    tags: Sequence[str] = ()
    judges: Sequence[str] = ()
    runs: int | None = None
    pipeline: str = "baseline"
    null_policy: str = "legacy"
    question_sets: Sequence[str] = ()
    object_scores: str = "none"
    as_of: datetime | None = None


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
    passes: Annotated[str, typer.Option(help="Pass pipeline, e.g. lang_mixing,repetition.")] = "baseline",
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
        model or [], tag or [], judge or [], runs, passes, null_policy, question_set or [], object_scores, _time(as_of)
    )
    show(Settings.from_environment().warehouse, selection, output_format)
    return FINE


def show(warehouse: Path, selection: Selection, output_format: str) -> None:
    """Print the selected scores on stdout.

    Raises:
        ConfigurationError: There is no lake, no such run, or no such policy or format.
    """
    _check("--null-policy", selection.null_policy, POLICIES)
    _check("--object-scores", selection.object_scores, OBJECT_SCORES)
    if output_format not in OUTPUT_FORMATS:
        raise ConfigurationError(f"--format must be one of {', '.join(OUTPUT_FORMATS)}, not {output_format!r}")
    with open_as_of(warehouse, selection.as_of) if selection.as_of else open_catalog(warehouse) as catalog:
        report = read_scores(catalog, selection)
    write_scores(report, output_format, Console())


_ROWS = """
select model, run_tag, judge, benchmark, question_set, pipeline, null_policy, score, sd_questions,
       n_planned, n_scored, n_failed, n_excluded, run_id, base_tag
from {source}
where {where}
order by model, run_tag, judge, benchmark
"""
_OVER = "leaderboard_over"

_TOKENS = """
select model, run_tag, stage, sum(calls)::bigint as calls,
       case when sum(calls_without_usage) = 0 then sum(prompt_tokens)::bigint end as prompt_tokens,
       case when sum(calls_without_usage) = 0 then sum(completion_tokens)::bigint end as completion_tokens,
       case when sum(calls_without_price) = 0 then sum(cost_usd) end as cost_usd
from token_usage
where list_contains($run_ids, run_id)
group by all
order by model, run_tag, stage
"""
_STATISTICS = """
select model, base_tag, judge, benchmark, n_runs, mean, sd, minimum, maximum, values_by_run
from run_statistics_of($first_runs)
where {where} and list_contains($base_tags, base_tag)
order by model, base_tag, judge, benchmark = 'overall', benchmark
"""


def read_scores(catalog: duckdb.DuckDBPyConnection, selection: Selection) -> ScoreReport:
    """The selected scores with their statistics and tokens.

    Raises:
        ConfigurationError: Nothing is selected.
    """
    chosen = _chosen(selection)
    own = _Filter(list(chosen.clauses), dict(chosen.values))
    if selection.tags:
        own.add("(list_contains($tags, run_tag) or list_contains($tags, base_tag))", tags=list(selection.tags))
    if selection.runs:
        own.add("run_number <= $first_runs", first_runs=selection.runs)
    source, choices = _source(catalog, selection)
    rows = _fetch(catalog, _ROWS.format(source=source, where=own.sql), own.values | choices)
    if not rows:
        raise ConfigurationError('no scores match; `shaberi sql "select run_id, status from runs"` lists the runs')
    run_ids = sorted({row.pop("run_id") for row in rows})
    base_tags = {row.pop("base_tag") for row in rows if row["run_tag"] not in selection.tags or selection.runs}
    return ScoreReport(
        policy=selection.null_policy,
        pipeline=selection.pipeline,
        rows=[ScoreRow(**{name: value for name, value in row.items() if name != "base_tag"}) for row in rows],
        statistics=_statistics(catalog, chosen, sorted(base_tags), selection)
        if (selection.tags or selection.runs) and not choices
        else [],
        remarks=_remarks(selection),
        tokens=[TokenRow(**row) for row in _fetch(catalog, _TOKENS, {"run_ids": run_ids})],
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


def _statistics(
    catalog: duckdb.DuckDBPyConnection, chosen: _Filter, base_tags: list[str], selection: Selection
) -> list[RunStatistic]:
    """Statistics over the runs of multi-runs, when the selection names base tags."""
    values = chosen.values | {"first_runs": selection.runs or _ALL_RUNS, "base_tags": base_tags}
    rows = _fetch(catalog, _STATISTICS.format(where=chosen.sql), values)
    return [
        RunStatistic(
            **{name: value for name, value in row.items() if name != "values_by_run"},
            margin_of_error=margin_of_error(row["sd"], row["n_runs"]),
            values=tuple(row["values_by_run"]),
        )
        for row in rows
    ]


def margin_of_error(sd: float | None, n: int) -> float | None:
    """Half the width of the 95 % confidence interval of a mean: t(0.975, n-1) x sd / sqrt(n).

    Args:
        sd: Sample standard deviation (ddof 1), None for one value.
        n: Number of values.

    Returns:
        None when it is not defined.
    """
    if sd is None or n < 2:  # noqa: PLR2004
        return None
    from scipy.special import stdtrit  # noqa: PLC0415  (costs start-up time that single runs need not pay)

    t: float = stdtrit(n - 1, 0.975)
    return float(t) * sd / math.sqrt(n)


def _chosen(selection: Selection) -> _Filter:
    chosen = _Filter()
    chosen.add("null_policy = $null_policy", null_policy=selection.null_policy)
    chosen.add("pipeline = $pipeline", pipeline=selection.pipeline)
    if selection.models:
        chosen.add("list_contains($models, model)", models=list(selection.models))
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


def _fetch(catalog: duckdb.DuckDBPyConnection, sql: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    result = run_query(catalog, sql, values)
    names = [column[0] for column in result.description or []]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def main() -> None:
    """Entry point."""
    run_command(app)
