"""The scores of runs, read from the lake with everything that says how far they hold."""

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from math import ceil
from operator import itemgetter
from typing import TYPE_CHECKING

import orjson

from shaberi_dagster.lake.queries import known_names
from shaberi_dagster.lake.statements import Catalog, fetch, once
from shaberi_dagster.reports.audited import corrected, with_audits
from shaberi_dagster.reports.blocks import Row, Rows, ends_of, grouped, is_number, listed
from shaberi_dagster.reports.linked import widened, with_links
from shaberi_dagster.reports.ranking import read_standings, with_ties
from shaberi_dagster.reports.reading import benchmarks_in, check_passes, read_costs, reported_scales
from shaberi_dagster.reports.requests import BASELINE, ScoreSelection
from shaberi_dagster.reports.rows import (
    ROW_COLUMNS,
    benchmark_order,
    interval_columns,
    mean_row,
    score_row,
    spanned,
    subtract_or_none,
)
from shaberi_dagster.reports.settings import differences, read_settings
from shaberi_dagster.reports.single_scores import FEWEST_CATEGORIES, SingleScores, cell_of
from shaberi_dagster.statistics.intervals import margin_of_error
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS, Benchmark
from shaberi_dagster.util.errors import ConfigurationError, SqlError
from shaberi_dagster.util.folders import plugin_folders
from shaberi_dagster.util.names import check_known

if TYPE_CHECKING:
    import polars as pl

    from shaberi_dagster.reports.ensemble import StrategyScore

_RANKING_COLUMNS = (
    *("rank", "model", "tag", "n_runs", "mean", "mean_upper", "ci_questions_lower", "ci_questions_upper"),
    *("n_planned", "n_scored", "n_failed", "n_undecided", "n_excluded", "against_best", "difference"),
    *("difference_lower", "difference_upper", "n_common_questions", "why_withheld"),
)
MOST_RUNS = 200
"""With more runs there are intervals and ties of ranked lines only, and no leniencies and agreements: these would take
seconds."""


@dataclass(frozen=True)
class ScoreReport:
    """The scores of some runs with all that is printed of them.

    Attributes:
        policy: The null policy of all rows.
        pipeline: The pass pipeline of all rows.
        rows: One per run, judge and benchmark (`rows.py`).
        tokens: The rows of `sql/reports/cost.sql`, one per run, stage and benchmark.
        statistics: Aggregates over repeated runs, `overall` for each run's mean over benchmarks: rows of
            `run_statistics.sql`. margin_of_error is half the width of the 95 % interval of the mean between runs, which
            says how stable it is; the interval over questions is of all runs' samples; n_shared of the n_replies are
            the reply to another one's call, which no spread between runs comes from. Empty when none were asked for.
        judge_pairs: Agreement of the judges, when there are several: rows of `judge_pairs.sql`.
        unfinished: Benchmarks of runs that are not complete: rows of `unfinished.sql`, with state (`partial`,
            `running`, or `error: ` and why) and, of the part that failed, who (`answers` or `judge NAME`; empty when
            nothing is there), n_planned, n_failed and classes: the count of each class of failure.
        replies: Fate of the replies, by run, judge and benchmark: rows of `ledger.sql`; empty for very many runs.
        over: The source of other questions: questions, or categories where there are ten or more.
        remarks: Further facts, one sentence each.
        left_out: Runs whose rows cannot be read, one sentence each.
        reused: Whose replies runs use, one sentence each.
        benchmarks: The known benchmarks, gone ones of plugins included.
        rankings: One line for each model and base tag, among those that compare (`ranking.py`).
        not_ranked: Runs that have less than those: model, tag, why, and score, the mean of what they have.
        strategies: Each strategy of runs that have some, by each judge, without passes; empty for very many runs.
    """

    policy: str
    pipeline: str
    rows: Rows
    tokens: Rows = ()
    statistics: Rows = ()
    judge_pairs: Rows = ()
    unfinished: Rows = ()
    replies: Rows = ()
    over: str = "questions"
    remarks: Sequence[str] = ()
    left_out: Sequence[str] = ()
    reused: Sequence[str] = ()
    benchmarks: Mapping[str, Benchmark] = field(default_factory=lambda: ALL_BENCHMARKS)
    rankings: Rows = ()
    not_ranked: Rows = ()
    strategies: "Sequence[StrategyScore]" = ()

    @cached_property
    def is_large(self) -> bool:
        """True if there are more than `MOST_RUNS` runs."""
        return len({row["run_id"] for row in self.rows}) > MOST_RUNS

    @cached_property
    def means(self) -> list[Row]:
        """The means of each run and judge with their `rows`, those that were asked most first.

        Of those that were asked the same the best is first, those without a score are last.
        """
        order = benchmark_order()
        of_runs = [
            sorted(rows, key=lambda row: order(row["benchmark"]))
            for _, rows in grouped(self.rows, itemgetter("model", "run_tag", "judge"))
        ]
        means = [{**mean_row(rows), "rows": rows} for rows in of_runs]
        groups = [group for _, group in grouped(means, lambda mean: tuple(mean["asked"]))]
        groups.sort(
            key=lambda group: max(sum(row["n_planned"] for row in mean["rows"]) for mean in group), reverse=True
        )
        for group in groups:
            group.sort(key=lambda mean: -math.inf if mean["mean"] is None else mean["mean"], reverse=True)
        return [*chain(*groups)]

    @property
    def ranking_frame(self) -> "pl.DataFrame":
        """A row for each model and base tag: ranking, rank, model, tag, n_runs, mean, lower, upper and counts.

        `ranking` says over which judges and question sets the mean is: only rows with the same compare. How a line is
        beside the best: against_best, the difference with its interval over n_common questions, why_withheld.
        """
        import polars as pl

        renamed = {"ci_questions_lower": "lower", "ci_questions_upper": "upper", "n_common_questions": "n_common"}
        rows = [
            {"ranking": f"{', '.join(ranking['judges'])} on {', '.join(ranking['asked'])}"}
            | {renamed.get(name, name): row[name] for name in _RANKING_COLUMNS}
            for ranking in self.rankings
            for row in ranking["standings"]
        ]
        # A lake of one model has nothing to compare: its columns are empty, and of the same types.
        types: dict[str, pl.DataType] = dict.fromkeys(("against_best", "why_withheld"), pl.String())
        types |= dict.fromkeys(("lower", "upper", "difference", "difference_lower", "difference_upper"), pl.Float64())
        types |= dict.fromkeys(("rank", "n_common"), pl.Int64())
        return pl.DataFrame(rows, schema_overrides=types if rows else None, infer_schema_length=None)

    @property
    def frame(self) -> "pl.DataFrame":
        """A row for each run, judge and benchmark: `ROW_COLUMNS`, lower and upper end of the interval."""
        import polars as pl

        rows = [
            {**{name: row[name] for name in ROW_COLUMNS}, **ends_of(row["estimate"] and row["estimate"].interval)}
            for row in self.rows
        ]
        return pl.DataFrame(rows, infer_schema_length=None)


def reuse_remarks(catalog: Catalog, run_ids: Sequence[str]) -> list[str]:
    """Say of each of these runs how many replies of which other runs it uses."""
    return [
        reuse_remark(f"{row['model']} {row['run_tag']}", row["reused_replies"], f" of {row['n_answers'] or 0:,}")
        for row in fetch(catalog, "reused_replies", run_ids=list(run_ids))
    ]


def reuse_remark(run: str, reused: str, of_answers: str = "") -> str:
    """Say how many replies of which other runs a run uses: `m july: 12 of 40 answers are replies of run m@@june`.

    Args:
        run: The run.
        reused: Column `reused_replies` of the table `runs`.
        of_answers: How many answers the run has.
    """
    by_stage: Mapping[str, Mapping[str, int]] = orjson.loads(reused)
    counts = [
        f"{n:,}{of_answers if stage == 'answers' else ''} {stage.replace('_', ' ')} are replies of run {other}"
        for stage, by_run in by_stage.items()
        for other, n in by_run.items()
    ]
    return f"{run}: {listed(counts)}."


def _with_interval(single: SingleScores, row: Row) -> Row:
    """Return a row with the interval of its score, and how much wider it is if categories are a sample as well."""
    if not single.of([row]):
        return row
    n_categories, wider = single.n_categories(row), None
    estimate = widened(single.estimate([row], "questions"), row["link"]["error"] if row["link"] else 0.0)
    upper = corrected(single.estimate([row], decided=True), row["audit"]) if row["n_undecided"] else None
    wide = single.estimate([row], "categories") if n_categories >= FEWEST_CATEGORIES else None
    if estimate and wide:
        wider = (wide.interval.upper - wide.interval.lower) / (estimate.interval.upper - estimate.interval.lower)
        estimate = wide if single.over == "categories" else estimate
    return {
        **row,
        "estimate": spanned(corrected(estimate, row["audit"]), upper),
        "decided": upper,
        "n_categories": n_categories,
        "over_categories": wider,
    }


# --- judges ----------------------------------------------------------------------------------------------------------


def _with_judges(catalog: Catalog, report: ScoreReport) -> ScoreReport:
    """Return the report with what several judges have in common: their leniency and agreement.

    A remark says of each benchmark with several groups of judges that share no answers which judges compare.
    """
    judges = sorted({row["judge"] for row in report.rows})
    if len(judges) == 1 or report.is_large:
        return report
    run_ids = sorted({row["run_id"] for row in report.rows})
    found = fetch(catalog, "leniency", run_ids=run_ids, pipeline=report.pipeline, null_policy=report.policy)
    groups = sorted({(row["benchmark"], ", ".join(row["connected_judges"])) for row in found})
    remarks = [
        f"Adjusted scores of {benchmark} compare only within judges that share answers: "
        f"{' | '.join(judges for _, judges in of_benchmark)}."
        for benchmark, of_benchmark in grouped(groups, itemgetter(0))
        if len(of_benchmark) > 1
    ]
    leniency = {cell_of(row): row["leniency"] for row in found}
    own = ((row, leniency.get(cell_of(row))) for row in report.rows)
    rows = [{**row, "leniency": more, "adjusted_score": subtract_or_none(row["score"], more)} for row, more in own]
    pairs = fetch(catalog, "judge_pairs", judges=judges)
    return replace(report, rows=rows, judge_pairs=pairs, remarks=[*report.remarks, *remarks])


# --- what is not the same, and what is not there ---------------------------------------------------------------------

_MOST_NAMES = 3
_UNKNOWN = "not recorded"
_KEPT_APART = "such runs are ranked apart"


def version_remarks(rows: Rows) -> list[str]:
    """Judges that judged the shown runs with different prompts or settings, and passes that had different ones."""
    remarks = []
    for judge, of_judge in grouped(rows, itemgetter("judge")):
        if prompts := _versions(of_judge, "judge_prompt"):
            remarks.append(f"Judge {judge} judged with different prompts: {prompts}; {_KEPT_APART}.")
        elif settings := _versions(of_judge, "judge_config_hash"):
            remarks.append(f"Judge {judge} judged with different settings: {settings}.")
    if passes := _versions(rows, "pipeline_hash"):
        remarks.append(f"The passes {rows[0]['pipeline']} had different settings or versions: {passes}; {_KEPT_APART}.")
    return remarks


def _versions(rows: Rows, name: str) -> str:
    """Name the versions where there are several: `tengu: one of model july, another of model august`."""
    known = [row for row in rows if is_number(row["score"])]
    if len(set(map(itemgetter("benchmark", name), known))) == len({row["benchmark"] for row in known}):
        return ""
    found: dict[str, list[str]] = {}
    words = ("one", "another")
    for benchmark, of_benchmark in grouped(known, itemgetter("benchmark")):
        by_version = grouped(of_benchmark, lambda row: row[name] or _UNKNOWN)
        if len(by_version) > 1:
            parts = (
                f"{f'one that is {version}' if version.startswith(_UNKNOWN) else words[place > 0]} of {_names(ones)}"
                for place, (version, ones) in enumerate(by_version)
            )
            found.setdefault(", ".join(parts), []).append(benchmark)
    return "; ".join(f"{', '.join(benchmarks)}: {parts}" for parts, benchmarks in found.items())


def _names(rows: Rows) -> str:
    return listed(dict.fromkeys(f"{row['model']} {row['run_tag']}" for row in rows), _MOST_NAMES)


_ALL_RUNS = 1_000_000
_OF_ODD_ROWS = (ArithmeticError, AttributeError, LookupError, SqlError, TypeError, ValueError)
"""Errors that contradictory rows of a run cause."""


def read_scores(catalog: Catalog, selection: ScoreSelection, *, top: int = 0) -> ScoreReport:
    """The selected scores with their uncertainty, statistics, judges, replies and tokens.

    Args:
        catalog: The public views, at the time that is selected.
        selection: What to read.
        top: Of very many runs so many lines (`lines_at`) get intervals and say how they are beside the best; 0: all.

    Raises:
        ConfigurationError: Nothing is selected, or runs that are to be put into one aggregate are not alike.
    """
    return _without_odd_runs(catalog, selection, lambda chosen: _read_scores(catalog, chosen, top))


def _read_scores(catalog: Catalog, selection: ScoreSelection, top: int) -> ScoreReport:
    ranked, single = _read_ranked(catalog, selection, top)
    run_ids = sorted({row["run_id"] for row in ranked.rows})
    replies: Rows = ()
    if not (ranked.is_large or selection.of_other_questions):
        judges = list(selection.judges) or None
        replies = fetch(catalog, "ledger", run_ids=run_ids, judges=judges, pipeline=selection.pipeline)
    remarks = list(ranked.remarks)
    strategies: Sequence[StrategyScore] = ()
    if ranked.is_large:
        which = "the shown lines" if top else "ranked lines"
        what = f"intervals and ties of {which} only, no" if selection.has_single_scores else "no intervals, ties,"
        remarks.append(f"More than {MOST_RUNS} runs: {what} leniency and agreement.")
    of_strategies = () if ranked.is_large else fetch(catalog, "strategy_scores", run_ids=run_ids)
    if with_strategies := sorted({row["run_id"] for row in of_strategies if row["strategy"] != "samples"}):
        from shaberi_dagster.reports import ensemble

        found = ensemble.read_strategy_scores(catalog, with_strategies)
        strategies = [score for score in found if not selection.judges or score.judge in selection.judges]
    report = replace(
        ranked,
        remarks=remarks,
        tokens=read_costs(catalog, run_ids),
        unfinished=fetch(catalog, "unfinished", **selection.of_runs, judges=list(selection.judges) or None),
        replies=replies,
        strategies=strategies,
    )
    if selection.of_other_questions:
        return report
    if selection.tags or selection.runs:
        report = _with_statistics(catalog, report, selection, single)
    return _with_judges(catalog, report)


def read_rankings(catalog: Catalog, selection: ScoreSelection, *, top: int = 0) -> ScoreReport:
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
    catalog: Catalog, selection: ScoreSelection, read: Callable[[ScoreSelection], ScoreReport]
) -> ScoreReport:
    """Read scores; where that fails, those of the runs that can be read, and say which are left out."""
    try:
        return read(selection)
    except _OF_ODD_ROWS:
        runs = {row["run_id"]: row for row in _read_rows(catalog, selection)}

        def problem(run_ids: Sequence[str]) -> str:
            rows = [runs[run_id] for run_id in run_ids]
            benchmarks, judges = ({row[name] for row in rows} for name in ("benchmark", "judge"))
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
        return replace(rest, left_out=[f"left out: {row['model']}@@{row['run_tag']}: {why}" for row, why in named])


def _odd_runs(run_ids: Sequence[str], problem: Callable[[Sequence[str]], str]) -> dict[str, str]:
    """Find the runs that cannot be read, each with its problem, by halves."""
    why = problem(run_ids)
    if not why or len(run_ids) == 1:
        return dict.fromkeys(run_ids, why) if why else {}
    middle = len(run_ids) // 2
    return _odd_runs(run_ids[:middle], problem) | _odd_runs(run_ids[middle:], problem)


def _read_ranked(catalog: Catalog, selection: ScoreSelection, top: int) -> tuple[ScoreReport, SingleScores]:
    selection.check()
    rows = with_links(catalog, _read_rows(catalog, selection))
    _check_names(catalog, selection, rows)
    if not rows:
        raise ConfigurationError(_nothing(catalog, selection))
    run_ids = sorted({row["run_id"] for row in rows})
    report = ScoreReport(
        policy=selection.null_policy,
        pipeline=selection.pipeline,
        rows=rows,
        over=selection.over,
        benchmarks=benchmarks_in(catalog),
        reused=reuse_remarks(catalog, run_ids),
    )
    remarks = [*_remarks(selection), *version_remarks(rows)]
    runs = {f"{run['model']} {run['run_tag']}": run for run in fetch(catalog, "runs", run_ids=run_ids)}
    remarks += [
        f"Not sent for {name}, as its endpoint's file says: {', '.join(run['not_sent'])}."
        for name, run in runs.items()
        if run["not_sent"]
    ]
    remarks += _renamed({name: run["spec"] for name, run in runs.items()})
    scales = reported_scales(report.benchmarks)
    single = SingleScores(catalog, selection.question_sets, scales, selection.over)
    rows = with_audits(catalog, rows, scales)
    if selection.has_single_scores and not report.is_large:
        single.load(rows)
        rows = [_with_interval(single, row) for row in rows]
    rankings, not_ranked = read_standings(catalog, rows)
    if selection.has_single_scores:
        rankings = with_ties(single, rankings, top if report.is_large else 0)
    not_ranked += _without_passes(catalog, selection, rows)
    return replace(report, rows=rows, remarks=remarks, rankings=rankings, not_ranked=not_ranked), single


def _renamed(specs: Mapping[str, str]) -> list[str]:
    """Say which parameters of runs an endpoint's file renames; one that is gone says nothing."""
    found: list[str] = []
    if any((folder / "endpoints").is_dir() for folder in plugin_folders()):
        from shaberi_dagster.runs import spec, stored

        for name, text in specs.items():
            with suppress(ConfigurationError):
                said = stored.parameters_in_words(spec.RunSpec.read(text))
                found += [f"{name}, {one}, as its endpoint's file says." for one in said if " is sent as " in one]
    return found


def _check_names(catalog: Catalog, selection: ScoreSelection, rows: Rows) -> None:
    """Refuse a name that found nothing because there is no such name, also beside others that found something."""
    check_known("source", selection.sources, known_names(catalog, "source"), where="--source")
    asked = (
        ("model or run", selection.models, ("model",)),
        ("tag or base tag", selection.tags, ("run_tag", "base_tag")),
        ("judge or planned judge", selection.judges, ("judge",)),
    )
    for kind, names, columns in asked:
        seen = {row[column] for row in rows for column in columns}
        if missing := [name for name in names if name not in seen]:
            check_known(kind.partition(" ")[0], missing, known_names(catalog, kind, missing))


def _read_rows(catalog: Catalog, selection: ScoreSelection) -> list[Row]:
    """From the roll-up, unless scores over other questions or of objects are asked for."""
    chosen = {**selection.of_runs, "judges": list(selection.judges) or None, "pipeline": selection.pipeline}
    if selection.of_other_questions:
        if selection.runs:
            raise ConfigurationError("--runs is over the runs' own question sets: leave it out, or the other choices")
        known = {row["question_set"] for row in fetch(catalog, "question_sets")}
        check_known("question set", selection.question_sets, known, where="--question-set")
        chosen |= {"question_set": ",".join(selection.question_sets) or None, "policy": selection.null_policy}
        found = fetch(catalog, "scores_over", **chosen, object_scores=selection.object_scores)
    else:
        found = fetch(catalog, "scores", **chosen, null_policy=selection.null_policy)
    return [score_row(row) for row in found if row["run_id"] not in selection.without]


def _nothing(catalog: Catalog, selection: ScoreSelection) -> str:
    """Say why there is nothing to show.

    Raises:
        ConfigurationError: A pass that is asked for does not exist.
    """
    check_passes(selection.pipeline)
    if selection.as_of and not known_names(catalog, "model"):
        return f"no scores match: the lake had none as of {selection.as_of.isoformat()}"
    if selection.runs:
        return "no scores match: --runs is of runs that were made together, as by `run-evals --runs 3`"
    choices = fetch(catalog, "score_choices", **selection.of_runs, without_strategies=True)
    there = [row["name"] for row in choices if row["kind"] == "passes"]
    if not there or selection.pipeline in there:
        return 'no scores match; `shaberi sql "select run_id, status from runs"` lists the runs'
    return (
        f"no run has scores under the passes {selection.pipeline}: run {_makes_passes(selection)}; "
        f"there are {', '.join(there)}"
    )


def _makes_passes(selection: ScoreSelection) -> str:
    tags = [part for tag in selection.tags for part in ("--tag", tag)]
    return f"`{shlex.join(['shaberi', 'reprocess', '--passes', selection.pipeline, *tags])}`"


def _remarks(selection: ScoreSelection) -> Iterator[str]:
    if selection.question_sets:
        names = ", ".join(selection.question_sets)
        yield f"Over {names}: only these questions, and runs that were asked all of them."
    if selection.object_scores == "recovered":
        yield "Objects in place of scores count as the number inside of them."
    if selection.as_of:
        yield f"As of {selection.as_of.isoformat()}."


def _without_passes(catalog: Catalog, selection: ScoreSelection, rows: Rows) -> Iterator[Row]:
    """Name the runs that would be ranked, had they scores under the passes."""
    if selection.pipeline == BASELINE:
        return
    there = {row["run_id"] for row in rows}
    why = f"no scores under {selection.pipeline}; {_makes_passes(selection)} makes them"
    of_all = _read_rows(catalog, replace(selection, pipeline=BASELINE))
    for model, tag in dict.fromkeys((row["model"], row["run_tag"]) for row in of_all if row["run_id"] not in there):
        yield {"model": model, "tag": tag, "why": why, "score": None}


def _with_statistics(
    catalog: Catalog, report: ScoreReport, selection: ScoreSelection, single: SingleScores
) -> ScoreReport:
    """The report with statistics over the runs of multi-runs, when the selection names base tags.

    Raises:
        ConfigurationError: Runs of one aggregate are not alike, and they are to be.
    """
    # A run without a number is no part of the multi-run that was made under the same tag.
    several = {(row["model"], row["base_tag"]) for row in report.rows if row["run_number"] is not None}
    rows = [
        row
        for row in report.rows
        if (row["run_tag"] not in selection.tags or selection.runs)
        and (row["run_number"] is not None or (row["model"], row["base_tag"]) not in several)
    ]
    groups = dict(grouped(rows, itemgetter("model", "base_tag")))
    estimates: dict[tuple[str, ...], Row] = {}
    remarks = list(report.remarks)
    for (model, base_tag), of_tag in list(groups.items()):
        unlike = _unlike(catalog, of_tag, selection.pipeline)
        if unlike and selection.aggregate:
            raise ConfigurationError(f"the runs of {model} {base_tag} cannot be put into one aggregate: {unlike}")
        if unlike:
            remarks.append(f"No statistics over the runs of {model} {base_tag}, which differ: {unlike}.")
            del groups[model, base_tag]
    run_ids = {key: sorted({row["run_id"] for row in of_tag}) for key, of_tag in groups.items()}
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
    of_judges = grouped(chain(*groups.values()), itemgetter("model", "base_tag", "judge"))
    if (
        selection.has_single_scores and not report.is_large
    ):  # over all samples of the runs, benchmark by benchmark and overall
        estimates = {key: single.estimates(of_judge) for key, of_judge in of_judges}
    for row in statistics:
        of_judge = estimates.get((row["model"], row["base_tag"], row["judge"]), {})
        row.update(interval_columns(of_judge.get(row["benchmark"])))
    return replace(report, statistics=statistics, remarks=remarks)


def _unlike(catalog: Catalog, rows: Rows, pipeline: str) -> str:
    """Say which settings are not the same for all runs of an aggregate; empty when all are."""
    runs = {row["run_tag"]: [row["run_id"]] for row in rows}
    if len(runs) == 1:
        return ""
    run_ids = [run_id for (run_id,) in runs.values()]
    benchmarks, judges = ({row[name] for row in rows} for name in ("benchmark", "judge"))
    return "; ".join(differences(read_settings(catalog, run_ids, benchmarks, judges, pipeline), runs))


LINES = 30
"""Number of lines of a page."""


def read_leaderboard(catalog: Catalog, selection: ScoreSelection, *, name: str = "", page: int = 1) -> Row:
    """A page of the leaderboard.

    Args:
        catalog: The public views.
        selection: What to read.
        name: Only models with this in their names, in whatever case; places stay as they are.
        page: Which one, from 1.

    Returns:
        report: all scores; shown: rankings with the lines of them that are on this page; not_ranked: what has less than
        those that are ranked, on the last page; page, and n_pages.

    Raises:
        ConfigurationError: Nothing is selected.
    """
    report = once(catalog, "leaderboard", selection, lambda: read_rankings(catalog, selection))

    def named(rows: Rows) -> list[Row]:
        return [row for row in rows if name.casefold() in row["model"].casefold()]

    lines = [(place, line) for place, ranking in enumerate(report.rankings) for line in named(ranking["standings"])]
    n_pages = max(ceil(len(lines) / LINES), 1)
    shown = [
        {**report.rankings[place], "standings": [line for _, line in group]}
        for place, group in grouped(lines[(page - 1) * LINES : page * LINES], itemgetter(0))
    ]
    not_ranked = named(report.not_ranked) if page == n_pages else []
    return {"report": report, "shown": shown, "not_ranked": not_ranked, "page": page, "n_pages": n_pages}
