"""The scores of runs, read from the lake with everything that says how far they hold."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.reports.named_queries import known_names
from shaberi_dagster.reports.reading import benchmarks_in, check_passes, fetch, fetch_as, reported_scales
from shaberi_dagster.reports.requests import ScoreSelection
from shaberi_dagster.reports.sameness import differences, read_settings
from shaberi_dagster.reports.score_report import MOST_RUNS, ScoreReport
from shaberi_dagster.reports.scores import Replies, RunStatistic, ScoreRow, grouped
from shaberi_dagster.reports.standings import read_standings, with_intervals_in
from shaberi_dagster.reports.uncertainty import (
    SamplesByRow,
    judge_remarks,
    read_judge_means,
    read_judge_pairs,
    read_samples,
    read_ties,
    read_unfinished,
    version_remarks,
    with_interval,
    with_intervals_over_runs,
    with_leniency,
)
from shaberi_dagster.statistics.intervals import margin_of_error
from shaberi_dagster.util.names import check_known

if TYPE_CHECKING:
    from shaberi_dagster.reports.ensemble import StrategyScore

_ALL_RUNS = 1_000_000


def read_scores(catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection) -> ScoreReport:
    """The selected scores with their uncertainty, statistics, judges, replies and tokens.

    Args:
        catalog: The public views, at the time that is selected.
        selection: What to read.

    Raises:
        ConfigurationError: Nothing is selected, or runs that are to be put into one aggregate are not alike.
    """
    ranked, samples = _ranked(catalog, selection)
    run_ids = sorted({row.run_id for row in ranked.rows})
    replies: list[Replies] = []
    if not (ranked.is_large or selection.of_other_questions):
        judges = list(selection.judges) or None
        ledger = fetch(catalog, "ledger", run_ids=run_ids, judges=judges, pipeline=selection.pipeline)
        replies = [Replies(**row) for row in ledger]
    rankings, remarks = ranked.rankings, list(ranked.remarks)
    if ranked.is_large:
        intervals = "intervals of ranked lines only, no" if selection.has_sums else "no intervals,"
        remarks.append(f"More than {MOST_RUNS} runs: {intervals} ties, leniency and agreement.")
    if ranked.is_large and selection.has_sums:
        rankings = with_intervals_in(catalog, rankings, selection.question_sets, reported_scales(ranked.benchmarks))
    report = replace(
        ranked,
        rankings=rankings,
        remarks=remarks,
        tokens=fetch(catalog, "cost", run_ids=run_ids),
        ties=read_ties(ranked.rows, samples),
        unfinished=read_unfinished(catalog, selection.of_runs, selection.judges),
        replies=replies,
        strategies=() if ranked.is_large else _strategies(catalog, run_ids, selection.judges),
    )
    if selection.of_other_questions:
        return report
    if selection.tags or selection.runs:
        report = _with_statistics(catalog, report, selection, samples)
    return _with_judges(catalog, report)


def _strategies(
    catalog: duckdb.DuckDBPyConnection, run_ids: Sequence[str], judges: Sequence[str]
) -> Sequence["StrategyScore"]:
    """Read the scores of strategies, if the runs have any."""
    found = {row["run_id"] for row in fetch(catalog, "ensemble_strategies", run_ids=run_ids)}
    if not found:
        return ()
    from shaberi_dagster.reports.ensemble import read_strategy_scores  # noqa: PLC0415  (polars, for few)

    every = read_strategy_scores(catalog, sorted(found))
    return [one for one in every if not judges or one.judge in judges]


def read_rankings(catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection) -> ScoreReport:
    """The selected scores and who is best, without statistics over runs, judges, replies and tokens.

    Of more than `MOST_RUNS` runs rankings have no intervals and ties: `standings.with_ties` reads those of some lines.

    Args:
        catalog: The public views, at the time that is selected.
        selection: What to read.

    Raises:
        ConfigurationError: Nothing is selected.
    """
    return _ranked(catalog, selection)[0]


def _ranked(catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection) -> tuple[ScoreReport, SamplesByRow]:
    selection.check()
    rows = _read_rows(catalog, selection)
    _check_names(catalog, selection, rows)
    if not rows:
        raise ConfigurationError(_nothing(catalog, selection))
    report = ScoreReport(
        policy=selection.null_policy,
        pipeline=selection.pipeline,
        rows=rows,
        over=selection.over,
        benchmarks=benchmarks_in(catalog),
    )
    remarks = _remarks(selection) + version_remarks(rows)
    samples: SamplesByRow = {}
    if not report.is_large and selection.object_scores == "none":
        samples = read_samples(catalog, rows, selection.question_sets)
        rows = [with_interval(row, samples, selection.over) for row in rows]
    rankings, not_ranked = read_standings(catalog, rows, samples, selection.over)
    return replace(report, rows=rows, remarks=remarks, rankings=rankings, not_ranked=not_ranked), samples


def _check_names(catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection, rows: Sequence[ScoreRow]) -> None:
    """Refuse a name that found nothing because there is no such name, also beside others that found something."""
    check_known("source", selection.sources, known_names(catalog, "source"), where="--source")
    asked = (
        ("model", selection.models, ("model",)),
        ("tag or base tag", selection.tags, ("run_tag", "base_tag")),
        ("judge or planned judge", selection.judges, ("judge",)),
    )
    for kind, names, columns in asked:
        if not names:
            continue
        seen = {getattr(row, column) for row in rows for column in columns}
        if missing := [name for name in names if name not in seen]:
            check_known(kind.partition(" ")[0], missing, known_names(catalog, kind))


def _read_rows(catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection) -> list[ScoreRow]:
    """From the roll-up, unless scores over other questions or of objects are asked for."""
    chosen = {**selection.of_runs, "judges": list(selection.judges) or None, "pipeline": selection.pipeline}
    if not selection.of_other_questions:
        return fetch_as(ScoreRow, catalog, "scores", **chosen, null_policy=selection.null_policy)
    if selection.runs:
        raise ConfigurationError("--runs is over the runs' own question sets: leave it out, or the other choices")
    known = {row["question_set"] for row in fetch(catalog, "question_sets")}
    check_known("question set", selection.question_sets, known, where="--question-set")
    return fetch_as(
        ScoreRow,
        catalog,
        "scores_over",
        **chosen,
        question_set=",".join(selection.question_sets) or None,
        policy=selection.null_policy,
        object_scores=selection.object_scores,
    )


def _with_judges(catalog: duckdb.DuckDBPyConnection, report: ScoreReport) -> ScoreReport:
    """The report with what several judges have in common."""
    judges = sorted({row.judge for row in report.rows})
    if len(judges) == 1:
        return report
    rows, connected = (report.rows, {}) if report.is_large else with_leniency(catalog, report.rows)
    means = read_judge_means(catalog, rows)
    return replace(
        report,
        rows=rows,
        judge_means=means,
        judge_pairs=[] if report.is_large else read_judge_pairs(catalog, judges),
        remarks=[*report.remarks, *judge_remarks(rows, means, connected)],
    )


def _nothing(catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection) -> str:
    """Why there is nothing to show.

    Raises:
        ConfigurationError: A pass that is asked for is none.
    """
    check_passes(selection.pipeline)
    there = [row["pipeline"] for row in fetch(catalog, "pipelines", **selection.of_runs)]
    if not there or selection.pipeline in there:
        return 'no scores match; `shaberi sql "select run_id, status from runs"` lists the runs'
    options = "".join(f" --tag {tag}" for tag in selection.tags)
    return (
        f"no run has scores under the passes {selection.pipeline}: run `shaberi reprocess --passes {selection.pipeline}"
        f"{options}`; there are {', '.join(there)}"
    )


def _remarks(selection: ScoreSelection) -> list[str]:
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
    selection: ScoreSelection,
    samples: SamplesByRow,
) -> ScoreReport:
    """The report with statistics over the runs of multi-runs, when the selection names base tags.

    Raises:
        ConfigurationError: Runs of one aggregate are not alike, and they are to be.
    """
    # A run without a number is no part of the multi-run that was made under the same tag.
    several = {(row.model, row.base_tag) for row in report.rows if row.run_number is not None}
    rows = [
        row
        for row in report.rows
        if (row.run_tag not in selection.tags or selection.runs)
        and (row.run_number is not None or (row.model, row.base_tag) not in several)
    ]
    groups = dict(grouped(rows, lambda row: (row.model, row.base_tag)))
    remarks = list(report.remarks)
    for (model, base_tag), own in list(groups.items()):
        unlike = _unlike(catalog, own, selection.pipeline)
        if unlike and selection.aggregate:
            raise ConfigurationError(f"the runs of {model} {base_tag} cannot be put into one aggregate: {unlike}")
        if unlike:
            remarks.append(f"No statistics over the runs of {model} {base_tag}, which differ: {unlike}.")
            del groups[model, base_tag]
    run_ids = {key: sorted({row.run_id for row in own}) for key, own in groups.items()}
    shared = {
        (*key, row["benchmark"]): {"n_replies": row["n_replies"], "n_shared": row["n_shared"]}
        for key, own in run_ids.items()
        if len(own) > 1
        for row in fetch(catalog, "shared_replies", run_ids=own, judges=list(selection.judges) or None)
    }
    statistics = [
        RunStatistic(
            **{name: value for name, value in row.items() if name != "values_by_run"},
            margin_of_error=margin_of_error(row["sd"], row["n_runs"]),
            values=tuple(row["values_by_run"]),
            **shared.get((row["model"], row["base_tag"], row["benchmark"]), {}),
        )
        for row in fetch(
            catalog,
            "run_statistics",
            first_runs=selection.runs or _ALL_RUNS,
            base_tags=sorted({tag for _, tag in groups}),
            null_policy=selection.null_policy,
            pipeline=selection.pipeline,
            judges=list(selection.judges) or None,
        )
        if (row["model"], row["base_tag"]) in groups
    ]
    return replace(
        report, statistics=with_intervals_over_runs(statistics, samples, run_ids, selection.over), remarks=remarks
    )


def _unlike(catalog: duckdb.DuckDBPyConnection, rows: Sequence[ScoreRow], pipeline: str) -> str:
    """What is not the same for all runs of an aggregate; empty when everything is."""
    runs = {row.run_tag: [row.run_id] for row in rows}
    if len(runs) == 1:
        return ""
    run_ids = [run_id for (run_id,) in runs.values()]
    benchmarks, judges = {row.benchmark for row in rows}, {row.judge for row in rows}
    return "; ".join(differences(read_settings(catalog, run_ids, benchmarks, judges, pipeline), runs))
