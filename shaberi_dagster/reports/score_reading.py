"""The scores of runs, read from the lake with everything that says how far they hold."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

import duckdb

from shaberi_dagster.errors import ConfigurationError, SqlError
from shaberi_dagster.lake.statements import fetch, fetch_as
from shaberi_dagster.reports.audited import with_audits
from shaberi_dagster.reports.linked import with_links
from shaberi_dagster.reports.named_queries import known_names
from shaberi_dagster.reports.reading import benchmarks_in, check_passes, read_costs, reported_scales
from shaberi_dagster.reports.report import Row
from shaberi_dagster.reports.requests import BASELINE, ScoreSelection
from shaberi_dagster.reports.reuse import reuse_remarks
from shaberi_dagster.reports.score_report import MOST_RUNS, ScoreReport
from shaberi_dagster.reports.score_settings import differences, read_settings
from shaberi_dagster.reports.scores import ScoreRow, grouped, interval_columns
from shaberi_dagster.reports.single_scores import SingleScores
from shaberi_dagster.reports.standings import read_standings, with_ties
from shaberi_dagster.reports.uncertainty import (
    leniency_remarks,
    version_remarks,
    with_intervals,
    with_leniency,
)
from shaberi_dagster.settings import plugin_folders
from shaberi_dagster.statistics.intervals import Estimate, margin_of_error
from shaberi_dagster.util.names import check_known

if TYPE_CHECKING:
    from shaberi_dagster.reports import ensemble


_ALL_RUNS = 1_000_000
_OF_ODD_ROWS = (ArithmeticError, AttributeError, LookupError, SqlError, TypeError, ValueError)
"""Errors that contradictory rows of a run cause."""


def read_scores(catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection, *, top: int = 0) -> ScoreReport:
    """The selected scores with their uncertainty, statistics, judges, replies and tokens.

    Args:
        catalog: The public views, at the time that is selected.
        selection: What to read.
        top: Of very many runs so many lines (`lines_at`) get intervals and say how they are beside the best; 0: all.

    Raises:
        ConfigurationError: Nothing is selected, or runs that are to be put into one aggregate are not alike.
    """
    return _without_odd_runs(catalog, selection, lambda chosen: _read_scores(catalog, chosen, top))


def _read_scores(catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection, top: int) -> ScoreReport:
    ranked, single = _read_ranked(catalog, selection, top)
    run_ids = sorted({row.run_id for row in ranked.rows})
    replies: Sequence[Row] = ()
    if not (ranked.is_large or selection.of_other_questions):
        judges = list(selection.judges) or None
        replies = fetch(catalog, "ledger", run_ids=run_ids, judges=judges, pipeline=selection.pipeline)
    remarks = list(ranked.remarks)
    if ranked.is_large:
        remarks.append(f"More than {MOST_RUNS} runs: {_read_of_many(selection, top)}.")
    report = replace(
        ranked,
        remarks=remarks,
        tokens=read_costs(catalog, run_ids),
        unfinished=fetch(catalog, "unfinished", **selection.of_runs, judges=list(selection.judges) or None),
        replies=replies,
        strategies=() if ranked.is_large else _strategies(catalog, run_ids, selection.judges),
    )
    if selection.of_other_questions:
        return report
    if selection.tags or selection.runs:
        report = _with_statistics(catalog, report, selection, single)
    return _with_judges(catalog, report)


def _read_of_many(selection: ScoreSelection, top: int) -> str:
    """Say what is read of very many runs."""
    if not selection.has_single_scores:
        return "no intervals, ties, leniency and agreement"
    ties = "intervals and ties of the shown lines only" if top else "intervals and ties of ranked lines only"
    return f"{ties}, no leniency and agreement"


def _strategies(
    catalog: duckdb.DuckDBPyConnection, run_ids: Sequence[str], judges: Sequence[str]
) -> Sequence["ensemble.StrategyScore"]:
    """Read the scores of strategies, if the runs have any."""
    found = {row["run_id"] for row in fetch(catalog, "ensemble_strategies", run_ids=run_ids)}
    if not found:
        return ()
    from shaberi_dagster.reports import ensemble

    scores = ensemble.read_strategy_scores(catalog, sorted(found))
    return [score for score in scores if not judges or score.judge in judges]


def read_rankings(catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection, *, top: int = 0) -> ScoreReport:
    """The selected scores and who is best, without statistics over runs, judges, replies and tokens.

    Args:
        catalog: The public views, at the time that is selected.
        selection: What to read.
        top: As for `read_scores`.

    Raises:
        ConfigurationError: Nothing is selected.
    """
    return _without_odd_runs(catalog, selection, lambda chosen: _read_ranked(catalog, chosen, top)[0])


def _without_odd_runs(
    catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection, read: Callable[[ScoreSelection], ScoreReport]
) -> ScoreReport:
    """Read scores; where that fails, those of the runs that can be read, and say which are left out."""
    try:
        return read(selection)
    except _OF_ODD_ROWS:
        runs = {row.run_id: row for row in _read_rows(catalog, selection)}

        def problem(run_ids: Sequence[str]) -> str:
            rows = [runs[run_id] for run_id in run_ids]
            benchmarks, judges = {row.benchmark for row in rows}, {row.judge for row in rows}
            try:
                read(replace(selection, without=selection.without | (runs.keys() - set(run_ids))))
                read_settings(catalog, run_ids, benchmarks, judges, selection.pipeline)
            except _OF_ODD_ROWS as error:
                return f"{type(error).__name__}: {error}".partition("\n")[0]
            return ""

        odd = _odd_runs(list(runs), problem)
        if not odd or len(odd) == len(runs):
            raise
        rest = read(replace(selection, without=selection.without | odd.keys()))
        named = ((runs[run_id], why) for run_id, why in odd.items())
        return replace(rest, left_out=[f"left out: {row.model}@@{row.run_tag}: {why}" for row, why in named])


def _odd_runs(run_ids: Sequence[str], problem: Callable[[Sequence[str]], str]) -> dict[str, str]:
    """Find the runs that cannot be read, each with its problem, by halves."""
    why = problem(run_ids)
    if not why or len(run_ids) == 1:
        return dict.fromkeys(run_ids, why) if why else {}
    middle = len(run_ids) // 2
    return _odd_runs(run_ids[:middle], problem) | _odd_runs(run_ids[middle:], problem)


def _read_ranked(
    catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection, top: int
) -> tuple[ScoreReport, SingleScores]:
    selection.check()
    rows = with_links(catalog, _read_rows(catalog, selection))
    _check_names(catalog, selection, rows)
    if not rows:
        raise ConfigurationError(_nothing(catalog, selection))
    report = ScoreReport(
        policy=selection.null_policy,
        pipeline=selection.pipeline,
        rows=rows,
        over=selection.over,
        benchmarks=benchmarks_in(catalog),
        reused=reuse_remarks(catalog, sorted({row.run_id for row in rows})),
    )
    remarks = [*_remarks(selection), *version_remarks(rows)]
    names = {row.run_id: f"{row.model} {row.run_tag}" for row in rows}
    specs = fetch(catalog, "run_specs", run_ids=sorted(names))
    remarks += [
        f"Not sent for {names[spec['run_id']]}, as its endpoint's file says: {', '.join(spec['not_sent'])}."
        for spec in specs
        if spec["not_sent"]
    ]
    remarks += _renamed({names[row["run_id"]]: row["spec"] for row in specs})
    scales = reported_scales(report.benchmarks)
    single = SingleScores(catalog, selection.question_sets, scales, selection.over)
    rows = with_audits(catalog, rows, scales)
    if _has_intervals(report, selection):
        rows = with_intervals(single, rows)
    rankings, not_ranked = read_standings(catalog, rows)
    if selection.has_single_scores:
        rankings = with_ties(single, rankings, top if report.is_large else 0)
    not_ranked += _without_passes(catalog, selection, rows)
    return replace(report, rows=rows, remarks=remarks, rankings=rankings, not_ranked=not_ranked), single


def _has_intervals(report: ScoreReport, selection: ScoreSelection) -> bool:
    return selection.has_single_scores and not report.is_large


def _renamed(specs: Mapping[str, str]) -> list[str]:
    """Say which parameters of runs an endpoint's file renames; one that is gone says nothing."""
    found: list[str] = []
    if not any((folder / "endpoints").is_dir() for folder in plugin_folders()):
        return found
    from shaberi_dagster.runs import spec, stored

    for name, text in specs.items():
        with suppress(ConfigurationError):
            said = stored.parameters_in_words(spec.RunSpec.read(text), only_renamed=True)
            found += [f"{name}, {sentence}, as its endpoint's file says." for sentence in said]
    return found


def _check_names(catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection, rows: Sequence[ScoreRow]) -> None:
    """Refuse a name that found nothing because there is no such name, also beside others that found something."""
    check_known("source", selection.sources, known_names(catalog, "source"), where="--source")
    asked = (
        ("model or run", selection.models, ("model",)),
        ("tag or base tag", selection.tags, ("run_tag", "base_tag")),
        ("judge or planned judge", selection.judges, ("judge",)),
    )
    for kind, names, columns in asked:
        if not names:
            continue
        seen = {getattr(row, column) for row in rows for column in columns}
        if missing := [name for name in names if name not in seen]:
            check_known(kind.partition(" ")[0], missing, known_names(catalog, kind, missing))


def _read_rows(catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection) -> list[ScoreRow]:
    """From the roll-up, unless scores over other questions or of objects are asked for."""
    return [row for row in _read_all_rows(catalog, selection) if row.run_id not in selection.without]


def _read_all_rows(catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection) -> list[ScoreRow]:
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
    return replace(
        report,
        rows=rows,
        judge_pairs=[] if report.is_large else fetch(catalog, "judge_pairs", judges=judges),
        remarks=[*report.remarks, *leniency_remarks(connected)],
    )


def _nothing(catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection) -> str:
    """Say why there is nothing to show.

    Raises:
        ConfigurationError: A pass that is asked for is none.
    """
    check_passes(selection.pipeline)
    if selection.as_of and not known_names(catalog, "model"):
        return f"no scores match: the lake had none as of {selection.as_of.isoformat()}"
    if selection.runs:
        return "no scores match: --runs is of runs that were made together, as by `run-evals --runs 3`"
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


def _without_passes(
    catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection, rows: Sequence[ScoreRow]
) -> Iterator[Row]:
    """Name the runs that would be ranked, had they scores under the passes."""
    if selection.pipeline == BASELINE:
        return
    there = {row.run_id for row in rows}
    why = f"no scores under {selection.pipeline}; `shaberi reprocess --passes {selection.pipeline}` makes them"
    of_all = _read_rows(catalog, replace(selection, pipeline=BASELINE))
    for model, tag in dict.fromkeys((row.model, row.run_tag) for row in of_all if row.run_id not in there):
        yield {"model": model, "tag": tag, "why": why, "score": None}


def _with_statistics(
    catalog: duckdb.DuckDBPyConnection,
    report: ScoreReport,
    selection: ScoreSelection,
    single: SingleScores,
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
    for (model, base_tag), of_tag in list(groups.items()):
        unlike = _unlike(catalog, of_tag, selection.pipeline)
        if unlike and selection.aggregate:
            raise ConfigurationError(f"the runs of {model} {base_tag} cannot be put into one aggregate: {unlike}")
        if unlike:
            remarks.append(f"No statistics over the runs of {model} {base_tag}, which differ: {unlike}.")
            del groups[model, base_tag]
    run_ids = {key: sorted({row.run_id for row in of_tag}) for key, of_tag in groups.items()}
    shared = {
        (*key, row["benchmark"]): {"n_replies": row["n_replies"], "n_shared": row["n_shared"]}
        for key, ids in run_ids.items()
        if len(ids) > 1
        for row in fetch(catalog, "shared_replies", run_ids=ids, judges=list(selection.judges) or None)
    }
    statistics = [
        {
            "values": row.pop("values_by_run"),
            **row,
            "margin_of_error": margin_of_error(row["sd"], row["n_runs"]),
            **shared.get((row["model"], row["base_tag"], row["benchmark"]), {"n_replies": 0, "n_shared": 0}),
        }
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
    estimates = _over_runs(single, groups) if _has_intervals(report, selection) else {}
    for row in statistics:
        of_runs = estimates.get((row["model"], row["base_tag"], row["judge"]), {})
        row.update(interval_columns(of_runs.get(row["benchmark"])))
    return replace(report, statistics=statistics, remarks=remarks)


def _over_runs(
    single: SingleScores, groups: Mapping[tuple[str, str], Sequence[ScoreRow]]
) -> dict[tuple[str, str, str], Mapping[str, Estimate | None]]:
    """Estimate scores over all samples of the runs of base tags, benchmark by benchmark and overall, for each judge."""
    return {
        (*key, judge): single.estimates(of_judge)
        for key, rows in groups.items()
        for judge, of_judge in grouped(rows, attrgetter("judge"))
    }


def _unlike(catalog: duckdb.DuckDBPyConnection, rows: Sequence[ScoreRow], pipeline: str) -> str:
    """Say which settings are not the same for all runs of an aggregate; empty when all are."""
    runs = {row.run_tag: [row.run_id] for row in rows}
    if len(runs) == 1:
        return ""
    run_ids = [run_id for (run_id,) in runs.values()]
    benchmarks, judges = {row.benchmark for row in rows}, {row.judge for row in rows}
    return "; ".join(differences(read_settings(catalog, run_ids, benchmarks, judges, pipeline), runs))
