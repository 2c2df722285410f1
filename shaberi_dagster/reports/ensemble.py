"""Whether a consensus of several samples beats them: every strategy, per benchmark and over all of them.

The numbers come from the SQL views `ensemble_*`; intervals and tests are added here. Where rules grade, a failure or an
abstention counts as wrong, and the figure over scored answers stands beside it. Differences are over answers of both.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from operator import itemgetter
from statistics import fmean, stdev
from typing import Any, Literal

import duckdb
import polars as pl

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.catalog import run_query
from shaberi_dagster.reports.reading import benchmarks_in, fetch, reported_scales
from shaberi_dagster.reports.scores import grouped
from shaberi_dagster.reports.uncertainty import unequal_missing
from shaberi_dagster.runs.spec import SINGLE, RunSpec
from shaberi_dagster.statistics.intervals import (
    Estimate,
    Interval,
    clustered_mean_interval,
    mean_interval,
    mean_of_estimates,
    paired_proportions_interval,
    wilson_interval,
)
from shaberi_dagster.statistics.power import ALPHA, questions_needed
from shaberi_dagster.statistics.significance import (
    holm,
    mcnemar_exact,
    sign_flip_intervals,
    sign_flip_test,
    stratified_mcnemar,
)

SAMPLES = "samples"
CONFIDENCE = 0.95


@dataclass(frozen=True)
class StrategyResult:
    """One strategy on one benchmark, or on all questions of several.

    Attributes:
        strategy: Its name; `single` is the answer without a consensus, `samples` are all shared samples.
        n_planned: Answers planned: one per question, of `samples` one per question and sample.
        n_scored: Answers found right or wrong.
        n_failed: Answers without a verdict, since a call failed.
        n_excluded: Answers in which nothing could be read, or that are empty.
        n_unreadable: Of n_failed those whose grading model wrote something in which no verdict could be read.
        n_correct: Right answers.
        accuracy: n_correct / n_planned.
        interval: Its 95 % interval: Wilson's; of `samples`, of which those of one question belong together, of the
            same form with a standard error over questions.
        accuracy_scored: n_correct / n_scored.
        n_against_single: Questions to which both it and `single` have an answer; delta and what follows are over them.
        delta: Accuracy less that of `single`.
        delta_interval: Its 95 % interval, paired by question; None for `single` and `samples`.
        n_gained: Questions that this strategy gets right and `single` does not.
        n_lost: The other way round.
        p_value: McNemar's exact test of the two, two-sided, not adjusted for the number of strategies.
        calls: Calls of the strategy itself, without those of its samples; reused ones are counted.
        prompt_tokens: Tokens sent by these calls; None is unknown.
        completion_tokens: Tokens received.
        cost_usd: What they cost, as far as it is known.
        calls_without_cost: Calls that are not in it: no price is known, or another run has paid.
        seconds: Their duration, waiting included, added up over questions, which are worked on at the same time.
    """

    strategy: str
    n_planned: int
    n_scored: int
    n_failed: int
    n_excluded: int
    n_unreadable: int
    n_correct: int
    accuracy: float
    interval: Interval | None
    accuracy_scored: float | None
    n_against_single: int
    delta: float | None
    delta_interval: Interval | None
    n_gained: int | None
    n_lost: int | None
    p_value: float | None
    calls: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    calls_without_cost: int
    seconds: float | None


@dataclass(frozen=True)
class Against:
    """A strategy against a reference, on the questions to which both have an answer.

    A question to which a call failed on one side says nothing about which is better: it is left out and counted.

    Attributes:
        strategy: The strategy.
        reference: `samples` (of each question the share of shared samples that are right: a sample's noise is averaged
            out), `single`, or the model of a member.
        n_questions: Questions to which both have an answer; one in which nothing could be read is wrong.
        n_only_strategy: Those to which the reference has none, since its calls failed.
        n_only_reference: Those to which the strategy has none.
        difference: Accuracy of the strategy less that of the reference, on the `n_questions`; None without any. Where
            LLMs judge it is of scores on the reported scale.
        interval: The differences that the test does not refuse at 95 %, and where all questions differ by the same, the
            interval of a mean on a scale; None where there are too few questions.
        p_value: Of the sign-flip test, two-sided; against `single` it is McNemar's exact one.
        adjusted_p_value: By Holm's method for all strategies that are compared with this reference.
        n_more: About how many more such questions show a difference of this size 8 times of 10, at the level that the
            number of strategies leaves; 0 where it is shown, None where it is none, or takes more than a million.
        why_withheld: Why there is no verdict: one side lacks more answers; empty where there is one.
    """

    strategy: str
    reference: str
    n_questions: int
    n_only_strategy: int
    n_only_reference: int
    difference: float | None
    interval: Interval | None
    p_value: float | None
    adjusted_p_value: float | None
    n_more: int | None
    why_withheld: str = ""


@dataclass(frozen=True)
class Member:
    """A model of an ensemble of several, by its shared samples.

    Attributes:
        model: The model.
        n_planned: Its samples.
        n_failed: Those without a verdict, since a call failed.
        n_correct: The right ones.
        accuracy: n_correct / n_planned.
        interval: Its 95 % interval, of which the samples of one question belong together.
    """

    model: str
    n_planned: int
    n_failed: int
    n_correct: int
    accuracy: float
    interval: Interval | None


@dataclass(frozen=True)
class MeanResult:
    """One strategy over benchmarks, each with the same weight.

    Attributes:
        strategy: Its name.
        accuracy: Unweighted mean of the benchmarks' accuracies.
        interval: Its 95 % interval (t); None where a benchmark has fewer than two questions, or nothing differs.
        delta: Mean of the benchmarks' deltas.
        delta_interval: Its 95 % interval, paired by question.
    """

    strategy: str
    accuracy: float
    interval: Interval | None
    delta: float | None
    delta_interval: Interval | None


@dataclass(frozen=True)
class Agreement:
    """Questions whose samples agree that far.

    Attributes:
        agreement: Upper end of the class, of the share of samples that give the most frequent answer; 0: none is read.
        n_questions: Questions in the class.
        n_correct: Those whose most frequent answer is right.
        accuracy: n_correct / n_questions.
        interval: Its 95 % interval (Wilson).
    """

    agreement: float
    n_questions: int
    n_correct: int
    accuracy: float
    interval: Interval | None


@dataclass(frozen=True)
class Oracle:
    """How far choosing among the samples could go.

    Attributes:
        n_questions: Questions planned.
        n_samples: Shared samples of a question.
        n_any_correct: Questions that at least one sample answers right.
        n_all_correct: Questions that all samples answer right.
        accuracy: n_any_correct / n_questions.
        interval: Its 95 % interval (Wilson).
    """

    n_questions: int
    n_samples: int
    n_any_correct: int
    n_all_correct: int
    accuracy: float
    interval: Interval | None


@dataclass(frozen=True)
class Pair:
    """Two strategies, or two models that the samples come from, on the same questions.

    Attributes:
        kind: `strategy` or `member`.
        a: One of them.
        b: The other one.
        n_both: Questions that both get right.
        n_only_a: Questions that only `a` gets right.
        n_only_b: Questions that only `b` gets right.
        n_neither: Questions that neither gets right.
    """

    kind: Literal["strategy", "member"]
    a: str
    b: str
    n_both: int
    n_only_a: int
    n_only_b: int
    n_neither: int


@dataclass(frozen=True)
class BenchmarkReport:
    """One benchmark, or all questions of several.

    Attributes:
        benchmark: Its name; None for all together.
        question_set: Its set; None for all together.
        question_set_sha256: The set's content.
        judge: Who graded: the rule, with the grading model if there is one.
        results: One for each strategy, `single` first, `samples` last.
        against: Each strategy against the samples, against `single`, and against the best member of several.
        members: Of an ensemble of several models, the best first; else none.
        oracle: The ceiling; None without samples.
        agreement: From no agreement to full agreement.
        pairs: Of strategies and members.
    """

    benchmark: str | None
    question_set: str | None
    question_set_sha256: str | None
    judge: str | None
    results: tuple[StrategyResult, ...]
    against: tuple[Against, ...]
    members: tuple[Member, ...]
    oracle: Oracle | None
    agreement: tuple[Agreement, ...]
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class StrategyScore:
    """Score of one strategy of a run on one benchmark by one judge, and its gain over the samples it is made of.

    Attributes:
        run_id: The run.
        model: The evaluated model.
        run_tag: Its run.
        benchmark: The benchmark.
        question_set: The version of its questions.
        judge: The LLM, or the rule with its grading model if there is one.
        strategy: Its name; `single` is the answer without a consensus, `samples` are all shared samples.
        score: Accuracy over planned answers where a rule grades, else the mean of the scored answers on the reported
            scale; None without any.
        interval: Its 95 % interval over questions; None for fewer than two.
        n_planned: Answers planned; of `samples` one per question and shared sample.
        n_scored: Answers with a score.
        n_failed: Answers without one, since a call failed.
        n_excluded: Answers that are empty, or in which a rule could read nothing.
        against: The paired difference from the mean of the shared samples; None for `single` and `samples`.
        calls: Calls of the strategy itself, without those of its samples; reused ones are counted.
        cost_usd: Cost of these calls, as far as it is known.
        calls_without_cost: Calls that are not in it.
    """

    run_id: str
    model: str
    run_tag: str
    benchmark: str
    question_set: str
    judge: str
    strategy: str
    score: float | None
    interval: Interval | None
    n_planned: int
    n_scored: int
    n_failed: int
    n_excluded: int
    against: Against | None
    calls: int
    cost_usd: float | None
    calls_without_cost: int


@dataclass(frozen=True)
class QuickReport:
    """What one run says.

    Attributes:
        spec: The run.
        names: Its benchmarks that the report is about.
        status: `complete`, or what its first other benchmark is.
        benchmarks: One for each that rules grade.
        pooled: All their questions together.
        means: Those benchmarks with the same weight each.
        judged: The benchmarks that LLMs judge.
        calls_made: Calls that this command made, by stage.
        not_sent: Parameters that the endpoint was not sent.
    """

    spec: RunSpec
    names: tuple[str, ...]
    status: str
    benchmarks: tuple[BenchmarkReport, ...]
    pooled: BenchmarkReport
    means: tuple[MeanResult, ...]
    judged: tuple[StrategyScore, ...]
    calls_made: Mapping[str, int]
    not_sent: Sequence[str]


# ------------------------------------------------------------------------------------------------ from the lake


def read_report(
    catalog: duckdb.DuckDBPyConnection,
    spec: RunSpec,
    benchmarks: Sequence[str],
    strategies: Sequence[str],
    *,
    status: str,
    calls_made: Mapping[str, int],
) -> QuickReport:
    """The report of a run that was evaluated.

    Args:
        catalog: The public views.
        spec: The run.
        benchmarks: Some of its benchmarks.
        strategies: Some of its strategies; the single answer and the samples are always there.
        status: State of the run on these benchmarks.
        calls_made: Calls that were made for it now, by stage.
    """
    graded = [name for name in benchmarks if spec.benchmark(name).has_rule]
    reader = _Reader(catalog, spec, graded, [SINGLE, *strategies])
    reports = [reader.benchmark(name) for name in graded]
    pooled = _pooled(reports, reader.answers, [share for name in graded for share in reader.shares(name)])
    means = tuple(_mean(name.strategy, reports, reader) for name in pooled.results)
    shown = {SINGLE, *strategies, SAMPLES}
    judged = tuple(
        one
        for one in read_strategy_scores(catalog, [spec.run_id])
        if one.benchmark in benchmarks and one.benchmark not in graded and one.strategy in shown
    )
    not_sent = fetch(catalog, "run", run_id=spec.run_id)[0]["not_sent"] or ()
    return QuickReport(
        spec, tuple(benchmarks), status, tuple(reports), pooled, means, judged, dict(calls_made), not_sent
    )


def read_stored_report(catalog: duckdb.DuckDBPyConnection, run_id: str) -> QuickReport:
    """The report of a run with strategies as it stands in the lake.

    Args:
        catalog: The public views.
        run_id: The run.

    Raises:
        ConfigurationError: There is no such run, or it has no strategies.
    """
    found = fetch(catalog, "run", run_id=run_id)
    spec = RunSpec.read(found[0]["spec"]) if found else None
    strategies = {row["strategy"] for row in fetch(catalog, "ensemble_strategies", run_ids=[run_id])}
    if spec is None or not strategies:
        raise ConfigurationError(f"no consensus of run {run_id!r}")
    wanted = [name for name in spec.strategies if name != SINGLE and name in strategies]
    benchmarks = [name for name, one in spec.benchmarks.items() if one.strategies]
    return read_report(catalog, spec, benchmarks, wanted, status=found[0]["status"], calls_made={})


def read_strategy_scores(catalog: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> tuple[StrategyScore, ...]:
    """Read the score of each strategy of some runs by each judge, without passes; none of runs without a strategy.

    Args:
        catalog: The public views.
        run_ids: The runs.
    """
    rows = fetch(catalog, "strategy_scores", run_ids=run_ids)
    if not rows:
        return ()
    answers = _answers(catalog, run_ids=run_ids, benchmarks=None, strategies=None)
    of_judges = answers.partition_by("run_id", "benchmark", "judge", as_dict=True)
    scales = reported_scales(benchmarks_in(catalog))
    found = []
    for (run_id, benchmark, judge), of_judge in grouped(rows, itemgetter("run_id", "benchmark", "judge")):
        given, scale = of_judges[run_id, benchmark, judge], scales[benchmark]
        against = {one.strategy: one for one in _against(given, (), scale) if one.reference == SAMPLES}
        for row in of_judge:
            name = row["strategy"]
            own = given.filter(pl.col("strategy").is_null() if name == SAMPLES else pl.col("strategy") == name)
            scored = own.drop_nulls("score")
            estimate = clustered_mean_interval(scored["score"].to_list(), scored["question_id"].to_list(), scale)
            interval = estimate.interval if estimate else None
            if row["n_correct"] is not None and name != SAMPLES:
                interval = wilson_interval(row["n_correct"], row["n_planned"])
            found.append(
                StrategyScore(
                    interval=interval,
                    against=against.get(name),
                    calls=row["calls"] or 0,
                    calls_without_cost=row["calls_without_cost"] or 0,
                    **{column: row[column] for column in _OF_STRATEGY},
                )
            )
    return tuple(found)


def _answers(catalog: duckdb.DuckDBPyConnection, **chosen: Any) -> pl.DataFrame:
    names = ("run_id", "benchmark", "judge", "question_id", "strategy", "model")
    schema = {**dict.fromkeys(names, pl.String()), "answered": pl.Boolean(), "score": pl.Float64()}
    return pl.DataFrame(fetch(catalog, "ensemble_answers", **chosen), schema)


class _Reader:
    """The views, for one run; each is asked once for all benchmarks that rules grade.

    Args:
        catalog: The public views.
        spec: The run.
        graded: Those benchmarks.
        strategies: Which of the run's strategies.
    """

    def __init__(
        self, catalog: duckdb.DuckDBPyConnection, spec: RunSpec, graded: Sequence[str], strategies: Sequence[str]
    ) -> None:
        self._catalog, self._spec, self._graded, self._strategies = catalog, spec, list(graded), list(strategies)
        self._views: dict[str, list[dict[str, Any]]] = {}

    def benchmark(self, name: str) -> BenchmarkReport:
        settings = self._spec.benchmarks[name]
        rows = {row["strategy"]: row for row in self._rows("results", name)}
        shares = self.shares(name)
        oracle = self._rows("oracle", name)
        answers = self.answers.filter(benchmark=name)
        members = _members(answers)
        return BenchmarkReport(
            benchmark=name,
            question_set=settings.question_set,
            question_set_sha256=settings.question_set_sha256,
            judge=next((row["judge"] for row in rows.values()), None),
            results=tuple(_result(rows[one], shares) for one in [*self._strategies, SAMPLES] if one in rows),
            against=_against(answers, members),
            members=members,
            oracle=_oracle(oracle) if oracle else None,
            agreement=_agreement(self._rows("agreement", name)),
            pairs=_pairs(row for row in self._rows("complementarity", name) if self._is_asked_for(row)),
        )

    @cached_property
    def answers(self) -> pl.DataFrame:
        """The strategies' answers and the shared samples.

        Columns: run_id, benchmark, judge, question_id, strategy (null: a sample), model (of a sample), answered (no
        call failed), score (1 for a right answer, else 0).
        """
        run_ids = [self._spec.run_id]
        return _answers(self._catalog, run_ids=run_ids, benchmarks=self._graded, strategies=self._strategies)

    def shares(self, name: str) -> list[tuple[int, int]]:
        """For each question how many of its shared samples are right, and how many there are."""
        return [(row["n_correct"], row["n_samples"]) for row in self._rows("questions", name)]

    def _is_asked_for(self, row: Mapping[str, Any]) -> bool:
        return row["kind"] == "member" or {row["a"], row["b"]} <= set(self._strategies)

    def _rows(self, view: str, benchmark: str) -> list[dict[str, Any]]:
        if view not in self._views:
            sql = f"""
                from ensemble_{view} where run_id = $run_id and list_contains($benchmarks, benchmark) order by all
            """
            of_run: dict[str, object] = {"run_id": self._spec.run_id, "benchmarks": self._graded}
            result = run_query(self._catalog, sql, of_run)
            names = [column[0] for column in result.description or []]
            self._views[view] = [dict(zip(names, row, strict=True)) for row in result.fetchall()]
        return [row for row in self._views[view] if row["benchmark"] == benchmark]


_COUNTS = ("n_planned", "n_scored", "n_failed", "n_excluded", "n_unreadable", "n_correct", "n_against_single")
_OF_STRATEGY = (
    *("run_id", "model", "run_tag", "benchmark", "question_set", "judge", "strategy", "score"),
    *("n_planned", "n_scored", "n_failed", "n_excluded", "cost_usd"),
)
_USED = ("prompt_tokens", "completion_tokens", "cost_usd", "seconds")


def _result(row: Mapping[str, Any], shares: Sequence[tuple[int, int]]) -> StrategyResult:
    n, correct = row["n_planned"], row["n_correct"]
    compared = row["strategy"] not in {SINGLE, SAMPLES} and row["n_gained"] is not None
    gained, lost = row["n_gained"] or 0, row["n_lost"] or 0
    return StrategyResult(
        strategy=row["strategy"],
        **{name: row[name] for name in _COUNTS},
        accuracy=correct / n,
        interval=_samples_interval(shares) if row["strategy"] == SAMPLES else wilson_interval(correct, n),
        accuracy_scored=correct / row["n_scored"] if row["n_scored"] else None,
        delta=row["delta"],
        delta_interval=paired_proportions_interval(gained, lost, row["n_against_single"]) if compared else None,
        n_gained=gained if compared else None,
        n_lost=lost if compared else None,
        p_value=row.get("p_value", mcnemar_exact(gained, lost)) if compared else None,
        calls=row["calls"] or 0,
        calls_without_cost=row["calls_without_cost"] or 0,
        **{name: row[name] for name in _USED},
    )


def _samples_interval(shares: Sequence[tuple[int, int]]) -> Interval | None:
    values = [float(k < correct) for correct, n in shares for k in range(n)]
    questions = [question for question, (_, n) in enumerate(shares) for _ in range(n)]
    estimate = clustered_mean_interval(values, questions, bounds=(0, 1))
    return estimate.interval if estimate else None


def _oracle(rows: Sequence[Mapping[str, Any]]) -> Oracle:
    n, n_any, n_all = (sum(row[name] for row in rows) for name in ("n_questions", "n_any_correct", "n_all_correct"))
    n_samples = max(row["n_samples"] for row in rows)
    return Oracle(n, n_samples, n_any, n_all, n_any / n, wilson_interval(n_any, n))


def _agreement(rows: Iterable[Mapping[str, Any]]) -> tuple[Agreement, ...]:
    counts: dict[float, tuple[int, int]] = {}
    for row in rows:
        n, correct = counts.get(row["agreement"], (0, 0))
        counts[row["agreement"]] = (n + row["n_questions"], correct + row["n_correct"])
    return tuple(
        Agreement(agreement, n, correct, correct / n, wilson_interval(correct, n))
        for agreement, (n, correct) in sorted(counts.items())
    )


def _pairs(rows: Iterable[Mapping[str, Any]]) -> tuple[Pair, ...]:
    names = ("n_both", "n_only_a", "n_only_b", "n_neither")
    counts: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        sums = counts.setdefault((row["kind"], row["a"], row["b"]), [0] * len(names))
        counts[row["kind"], row["a"], row["b"]] = [one + row[name] for one, name in zip(sums, names, strict=True)]
    return tuple(Pair(*key, *values) for key, values in counts.items())


def _members(answers: pl.DataFrame) -> tuple[Member, ...]:
    """The models of the shared samples, where they are several."""
    samples = answers.filter(pl.col("strategy").is_null() & pl.col("model").is_not_null())
    if samples["model"].n_unique() < 2:  # noqa: PLR2004
        return ()
    members = [_member(str(model), own) for (model,), own in samples.partition_by("model", as_dict=True).items()]
    return tuple(sorted(members, key=lambda one: (-one.accuracy, one.model)))


def _member(model: str, samples: pl.DataFrame) -> Member:
    questions = list(samples.select("benchmark", "question_id").iter_rows())
    estimate = clustered_mean_interval(samples["score"].to_list(), questions, bounds=(0, 1))
    n, correct = samples.height, samples.filter(score=1).height
    return Member(
        model=model,
        n_planned=n,
        n_failed=samples.filter(~pl.col("answered")).height,
        n_correct=correct,
        accuracy=correct / n,
        interval=estimate.interval if estimate else None,
    )


def _against(
    answers: pl.DataFrame, members: Sequence[Member], scale: tuple[float, float] = (0, 1)
) -> tuple[Against, ...]:
    """Compare each strategy with each reference on the same questions; p is adjusted within a reference."""
    samples = answers.filter(pl.col("strategy").is_null())
    references = {SAMPLES: samples, SINGLE: answers.filter(strategy=SINGLE)}
    if members:
        references[members[0].model] = samples.filter(model=members[0].model)
    strategies = [one for one in answers["strategy"].drop_nulls().unique(maintain_order=True) if one != SINGLE]
    shares = {one: _shares(answers.filter(strategy=one)) for one in strategies}
    return tuple(
        one
        for name, rows in references.items()
        if rows.height
        for one in _against_reference(shares, name, _shares(rows), scale[1] - scale[0])
    )


def _shares(answers: pl.DataFrame) -> pl.DataFrame:
    """Of each question the mean score (the share of right ones) of the answers; null where all calls failed."""
    mean = pl.col("score").filter(pl.col("answered")).mean()
    return answers.group_by("benchmark", "question_id").agg(mean.alias("share"))


def _against_reference(
    strategies: Mapping[str, pl.DataFrame], reference: str, shares: pl.DataFrame, width: float
) -> Iterable[Against]:
    both = {
        name: own.join(shares, on=["benchmark", "question_id"], how="full", suffix="_reference")
        for name, own in strategies.items()
    }
    differences = {
        name: (rows["share"] - rows["share_reference"]).drop_nulls().sort().to_list() for name, rows in both.items()
    }
    p = {name: sign_flip_test(values).p_value for name, values in differences.items() if values}
    adjusted = dict(zip(p, holm(list(p.values())), strict=True))
    for name, rows in both.items():
        values = differences[name]
        lacks, only = (
            rows["share"].is_null() & rows["share_reference"].is_not_null(),
            rows["share"].is_not_null() & rows["share_reference"].is_null(),
        )
        why = unequal_missing(
            lacks.cast(pl.Float64).to_list(),
            only.cast(pl.Float64).to_list(),
            n_scores=rows.height,
            sides=("its", "the other side's"),
            noun="answers",
        )
        yield Against(
            strategy=name,
            reference=reference,
            n_questions=len(values),
            n_only_strategy=int(only.sum()),
            n_only_reference=int(lacks.sum()),
            difference=fmean(values) if values else None,
            interval=_interval(values, width),
            p_value=p.get(name),
            adjusted_p_value=adjusted.get(name),
            n_more=None if why else _more_questions(values, adjusted.get(name, 1.0), ALPHA / len(strategies)),
            why_withheld=why,
        )


def _interval(differences: Sequence[float], width: float) -> Interval | None:
    if len(set(differences)) > 1:
        return sign_flip_intervals(differences, [CONFIDENCE])[0]
    estimate = mean_interval(differences, bounds=(-width, width))
    return estimate.interval if estimate else None


def _more_questions(differences: Sequence[float], p_value: float, level: float) -> int | None:
    if p_value <= ALPHA:
        return 0
    if len(differences) < 2:  # noqa: PLR2004
        return None
    needed = questions_needed(fmean(differences), stdev(differences), level)
    return None if needed is None else max(needed - len(differences), 1)


def _pooled(
    reports: Sequence[BenchmarkReport], answers: pl.DataFrame, shares: Sequence[tuple[int, int]]
) -> BenchmarkReport:
    """All questions together, each with the same weight."""
    by_strategy: dict[str, list[StrategyResult]] = {}
    for report in reports:
        for result in report.results:
            by_strategy.setdefault(result.strategy, []).append(result)
    oracles = [asdict(one.oracle) for one in reports if one.oracle]
    members = _members(answers)
    return BenchmarkReport(
        benchmark=None,
        question_set=None,
        question_set_sha256=None,
        judge=None,
        results=tuple(_result(_summed(results), shares) for results in by_strategy.values()),
        against=_against(answers, members),
        members=members,
        oracle=_oracle(oracles) if oracles else None,
        agreement=_agreement(asdict(one) for report in reports for one in report.agreement),
        pairs=_pairs(asdict(one) for report in reports for one in report.pairs),
    )


def _summed(results: Sequence[StrategyResult]) -> dict[str, Any]:
    sums: dict[str, Any] = {name: sum(getattr(one, name) for one in results) for name in (*_COUNTS, "calls")}
    pairs = [(one.n_gained, one.n_lost) for one in results if one.n_gained is not None and one.n_lost is not None]
    compared = len(pairs) == len(results)
    deltas = [(one.n_against_single, one.delta) for one in results if one.delta is not None]
    return sums | {
        "strategy": results[0].strategy,
        "delta": sum(n * delta for n, delta in deltas) / sums["n_against_single"] if deltas else None,
        "n_gained": sum(gained for gained, _ in pairs) if compared else None,
        "n_lost": sum(lost for _, lost in pairs) if compared else None,
        "p_value": stratified_mcnemar(pairs) if compared else None,
        "calls_without_cost": sum(one.calls_without_cost for one in results),
        **{name: _sum_of_known([getattr(one, name) for one in results]) for name in _USED},
    }


def _sum_of_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _mean(strategy: str, reports: Sequence[BenchmarkReport], reader: _Reader) -> MeanResult:
    own = [(report, one) for report in reports for one in report.results if one.strategy == strategy]
    if strategy == SAMPLES:
        values = [[correct / n for correct, n in reader.shares(report.benchmark or "")] for report, _ in own]
    else:
        values = [_zeros_and_ones(one.n_correct, one.n_planned) for _, one in own]
    accuracies = [mean_interval(of_benchmark, (0, 1)) for of_benchmark in values]
    deltas = [_delta_estimate(one) for _, one in own]
    known = [one.delta for _, one in own if one.delta is not None]
    return MeanResult(
        strategy=strategy,
        accuracy=fmean(one.accuracy for _, one in own),
        interval=_mean_interval(accuracies),
        delta=fmean(known) if len(known) == len(own) else None,
        delta_interval=_mean_interval(deltas),
    )


def _mean_interval(estimates: Sequence[Estimate | None]) -> Interval | None:
    known = [one for one in estimates if one is not None]
    return mean_of_estimates(known).interval if known and len(known) == len(estimates) else None


def _delta_estimate(result: StrategyResult) -> Estimate | None:
    """From what is gained and lost: which questions they are makes no difference."""
    if result.n_gained is None or result.n_lost is None:
        return None
    gained, lost = (_zeros_and_ones(n, result.n_against_single) for n in (result.n_gained, result.n_lost))
    return mean_interval([one - other for one, other in zip(gained, reversed(lost), strict=True)], (-1, 1))


def _zeros_and_ones(ones: int, n: int) -> list[float]:
    return [1.0] * ones + [0.0] * (n - ones)
