"""The report of several samples: does a consensus of them beat one answer, per benchmark and over all of them?

The numbers come from the SQL views `ensemble_*`; intervals and tests are added here. Failed calls are left out, as the
null policy legacy does. What a rule could not decide is wrong in the accuracy, and left out of its upper end.
Differences are over answers of both, and a verdict holds at both ends.

A `QuickReport` is the JSON document of `quick-eval` as it is written and read (docs/schemas/quick-eval.schema.json):
the types of its fields say what a document of unknown origin may hold. Fields with a default are newer than others.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from statistics import fmean, stdev
from typing import Annotated, Any, Final, Literal

import numpy as np
import polars as pl
from pydantic import AfterValidator, BaseModel, Field

from shaberi_dagster.lake.connections import read_frame
from shaberi_dagster.lake.statements import Catalog, fetch, fetch_frame
from shaberi_dagster.reports.audited import rule_sentences
from shaberi_dagster.reports.blocks import (
    NOTHING,
    Block,
    Heading,
    Result,
    Row,
    Rows,
    Sentences,
    Table,
    are_apart,
    between,
    counted,
    ends_of,
    grouped,
    interval_of,
    listed,
    number,
    points,
    signed,
    sum_of_known,
    text,
    whole_percent,
)
from shaberi_dagster.reports.gate import GateReport, gate_result
from shaberi_dagster.reports.reading import benchmarks_in, reported_scales
from shaberi_dagster.reports.rows import cannot_tell, mean_estimate, mean_of, says_wrong, undecided_sentences
from shaberi_dagster.reports.write import plain
from shaberi_dagster.runs.spec import SINGLE, RunSpec
from shaberi_dagster.statistics.intervals import (
    Estimate,
    Interval,
    clustered_mean_interval,
    mean_interval,
    paired_proportions_interval,
    wilson_interval,
)
from shaberi_dagster.statistics.missing import unequal_missing
from shaberi_dagster.statistics.power import ALPHA, questions_needed
from shaberi_dagster.statistics.significance import (
    holm,
    mcnemar_exact,
    sign_flip_intervals,
    sign_flip_test,
)
from shaberi_dagster.tasks.benchmarks.questions import CACHES
from shaberi_dagster.util.errors import ConfigurationError

SAMPLES = "samples"
"""The name of the shared samples among strategies."""
FORMAT: Final = "shaberi-quick-eval/1"
POLICY = (
    "What a rule could not decide is wrong in accuracy; accuracy_scored leaves it out. Failed calls are in neither."
)
CONFIDENCE = 0.95
_LARGEST_SCORE = 1e6


def _has_room(ends: Interval) -> Interval:
    if not all(abs(end) <= _LARGEST_SCORE for end in (ends.lower, ends.upper)):
        raise ValueError("an end of the interval is no score")
    return ends


# Numbers for which a table has room.
Count = Annotated[int, Field(ge=0, le=10**12)]
Amount = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Difference = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]
Score = Annotated[float, Field(ge=-_LARGEST_SCORE, le=_LARGEST_SCORE, allow_inf_nan=False)]
Ends = Annotated[Interval, AfterValidator(_has_room)]


@dataclass(frozen=True, kw_only=True)
class StrategyResult:
    """A strategy on one benchmark, or on all questions of several.

    Attributes:
        strategy: Its name; `single` is the answer without a consensus, `samples` are all shared samples.
        n_planned: Answers planned: one per question, of `samples` one per question and sample.
        n_scored: Answers found right or wrong.
        n_failed: Answers without a verdict, since a call failed.
        n_undecided: Answers that the rule could not decide, empty ones included.
        n_excluded: 0; in older documents what n_undecided is.
        n_unreadable: Of n_failed those whose grading model wrote something in which no verdict could be read.
        n_correct: Right answers.
        accuracy: n_correct / (n_scored + n_undecided); None without any.
        interval: Its 95 % interval: Wilson's; of `samples`, of which those of one question belong together, of the
            same form with a standard error over questions. Where the upper end is shown as well it is of both.
        accuracy_scored: n_correct / n_scored, the upper end.
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
    n_planned: Annotated[Count, Field(ge=1)]
    n_scored: Count
    n_failed: Count
    n_undecided: Count = 0
    n_excluded: Count
    n_unreadable: Count = 0
    n_correct: Count
    accuracy: Share | None
    interval: Ends | None
    accuracy_scored: Share | None
    n_against_single: Count = 0
    delta: Difference | None
    delta_interval: Ends | None
    n_gained: Count | None
    n_lost: Count | None
    p_value: Share | None
    calls: Count
    prompt_tokens: Count | None
    completion_tokens: Count | None
    cost_usd: Amount | None
    calls_without_cost: Count
    seconds: Amount | None


@dataclass(frozen=True, kw_only=True)
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
            number of strategies leaves; 0 where it is shown, None for others, or where it takes more than a million.
        why_withheld: Why there is no verdict: one side lacks more answers, or undecided ones would change it; empty
            where there is one.
        n_decided: Questions of which both have an answer that is decided.
        difference_decided: The difference over these; None without any.
    """

    strategy: str
    reference: str
    n_questions: Count
    n_only_strategy: Count
    n_only_reference: Count
    difference: Score | None
    interval: Ends | None
    p_value: Share | None
    adjusted_p_value: Share | None
    n_more: Count | None
    why_withheld: str = ""
    n_decided: Count = 0
    difference_decided: Score | None = None


@dataclass(frozen=True)
class MeanResult:
    """A strategy over benchmarks, each with the same weight.

    Attributes:
        strategy: Its name.
        accuracy: Unweighted mean of the benchmarks' accuracies; None where one is not known.
        accuracy_scored: The same of their upper ends.
        interval: Its 95 % interval (t); None where a benchmark has fewer than two questions, or nothing differs.
        delta: Mean of the benchmarks' deltas.
        delta_interval: Its 95 % interval, paired by question.
    """

    strategy: str
    accuracy: Share | None
    interval: Ends | None
    delta: Difference | None
    delta_interval: Ends | None
    accuracy_scored: Share | None = None


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The findings on one benchmark, or on all questions of several.

    Attributes:
        results: One for each strategy, `single` first, `samples` last.
        against: Each strategy against the samples, against `single`, and against the best member of several.
        members: A row for each model of an ensemble of several, the best first: its shared samples, those without a
            verdict and the right ones, and their accuracy with its interval, in which samples of one question belong
            together. None of one model.
        oracle: The ceiling of choosing among the samples, None without them: n_questions planned, n_samples shared by a
            question, n_any_correct (questions that at least one of them answers right), n_all_correct (that all do),
            the accuracy n_any_correct / n_questions, and its Wilson interval.
        agreement: A row for each class of questions, from no agreement (0: nothing is read) to full agreement: the
            upper end of the share of samples that give the most frequent answer, how often that is right, and Wilson's
            interval.
        complementarity: A row for each pair of strategies or of members (`kind`): questions that both, only `a`, only
            `b`, and neither get right.
    """

    results: tuple[StrategyResult, ...]
    against: tuple[Against, ...] = ()
    members: tuple[Row, ...] = ()
    oracle: Row | None = None
    agreement: tuple[Row, ...] = ()
    complementarity: tuple[Row, ...] = ()

    def result(self, strategy: str) -> StrategyResult | None:
        """Return the result of a strategy, if it has one."""
        return next((result for result in self.results if result.strategy == strategy), None)

    def effort(self, *strategies: str) -> dict[str, Any]:
        """Sum the effort of strategies that there are, per question; that of their samples is not in it.

        Args:
            strategies: `samples` is one of them.

        Returns:
            calls; tokens, sent and received, and the calls' seconds added up (None is unknown); cost_usd, as far as it
            is known; calls_without_cost, which are not in it.
        """
        parts = [result for result in self.results if result.strategy in strategies]
        n = self.results[0].n_planned
        amounts = {name: [getattr(part, name) for part in parts] for name in ("calls", *_USED)}
        amounts["tokens"] = amounts.pop("prompt_tokens") + amounts.pop("completion_tokens")
        sums = {name: sum_of_known(values) for name, values in amounts.items()}
        per_question = {name: None if known is None else known / n for name, known in sums.items()}
        return {**per_question, "calls_without_cost": sum(part.calls_without_cost for part in parts)}


class QuestionSample(BaseModel):
    """The part of a larger set that questions are: so many (`size`) of it in an order, with a seed beside the usual."""

    of: str
    size: Count
    order: str
    seed: Count | None = None


@dataclass(frozen=True, kw_only=True)
class _Questions:
    """The questions of a benchmark, and how they were asked and judged.

    Attributes:
        benchmark: Its name.
        question_set: The version of its questions.
        question_set_sha256: The set's content.
        n_questions: Questions planned.
        sample: The part of a larger set that it is; None for a whole set.
        temperature: Of samples; None where it was not sent, or is not known.
        max_tokens: Of samples; None likewise.
        prompt_hash: The template; None where it is not known.
        judge: Who graded: the rule, with the grading model if there is one.
    """

    benchmark: str
    question_set: str
    question_set_sha256: str
    n_questions: Count
    sample: QuestionSample | None
    temperature: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)] | None
    max_tokens: Count | None
    prompt_hash: str | None
    judge: str | None


@dataclass(frozen=True, kw_only=True)
class BenchmarkReport(Findings, _Questions):
    """A benchmark that rules grade, with the findings on it."""


@dataclass(frozen=True)
class OverallFindings:
    """The benchmarks that rules grade, taken together.

    Attributes:
        benchmarks: Their names.
        pooled: All their questions together, each with the same weight.
        mean_of_benchmarks: The benchmarks with the same weight each.
    """

    benchmarks: tuple[str, ...]
    pooled: Findings
    mean_of_benchmarks: tuple[MeanResult, ...]


@dataclass(frozen=True, kw_only=True)
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
        score: Accuracy where a rule grades, in which what it could not decide is wrong, else the mean of the scored
            answers on the reported scale; None without any.
        score_upper: The same without what a rule could not decide.
        interval: Its 95 % interval over questions, of both ends where both are shown; None for fewer than two.
        n_planned: Answers planned; of `samples` one per question and shared sample.
        n_scored: Answers with a score.
        n_failed: Answers without one, since a call failed.
        n_undecided: Answers that a rule could not decide.
        n_excluded: Answers that are empty.
        against: The paired difference from the mean of the shared samples; None for `single` and `samples`.
        calls: Calls of the strategy itself, without those of its samples; reused ones are counted. None is unknown.
        cost_usd: Cost of these calls, as far as it is known.
        calls_without_cost: Calls that are not in it.
    """

    run_id: str = ""
    model: str = ""
    run_tag: str = ""
    benchmark: str
    question_set: str
    judge: str
    strategy: str
    score: Score | None
    score_upper: Score | None = None
    interval: Ends | None = None
    n_planned: Count
    n_scored: Count
    n_failed: Count
    n_undecided: Count = 0
    n_excluded: Count
    against: Against | None = None
    calls: Count | None = None
    cost_usd: Amount | None = None
    calls_without_cost: Count = 0


@dataclass(frozen=True)
class EnsembleSettings:
    """The models of a run's benchmarks; the run may have other benchmarks that were made otherwise.

    Attributes:
        ensemble: Shared samples of a question.
        members: The models that they come from, in turn.
        single: The single answer: a sample of its `own`, or the `first` of the shared ones.
        consensus_model: The model that strategies ask.
        judge_model: The model that grades what rules cannot tell; None: no one does.
        base_url: Endpoint of the model.
        imported: Whether the questions, and so the samples, came with an import.
    """

    ensemble: Count
    members: tuple[str, ...]
    single: str | None
    consensus_model: str
    judge_model: str | None
    base_url: str
    imported: bool = False


@dataclass(frozen=True, kw_only=True)
class QuickReport:
    """The report of one run.

    Attributes:
        format: Name and version of the document.
        run_id: The run.
        model: The evaluated model.
        run_tag: Its run.
        status: `complete`, or what its first other benchmark is.
        policy: The meaning of missing verdicts.
        settings: The models.
        calls_made: Calls that this command made, by stage.
        benchmarks: One for each that rules grade.
        overall: All of them.
        judged: The benchmarks that LLMs judge.
        audits: How often the rules are wrong, a sentence for each benchmark with an audit and one for the others.
    """

    format: Literal["shaberi-quick-eval/1"] = FORMAT
    run_id: str
    model: str
    run_tag: str
    status: str
    policy: str = POLICY
    settings: EnsembleSettings
    calls_made: Mapping[str, Count]
    benchmarks: tuple[BenchmarkReport, ...]
    overall: OverallFindings
    judged: tuple[StrategyScore, ...] = ()
    audits: tuple[str, ...] = ()

    @property
    def strategies(self) -> list[str]:
        """The strategies beyond the single answer that rules graded."""
        names = (result.strategy for result in self.overall.pooled.results)
        return [name for name in names if name not in {SINGLE, SAMPLES}]

    @property
    def graders(self) -> list[str]:
        """The models that grade what rules cannot tell, by the names of the judges."""
        names = [benchmark.judge.partition("+")[2] for benchmark in self.benchmarks if benchmark.judge]
        return list(dict.fromkeys(filter(None, names))) or [*filter(None, [self.settings.judge_model])]


# ------------------------------------------------------------------------------------------------ from the lake


_BothEnds = tuple[Interval | None, Interval | None]

_VIEWS = ("results", "questions", "oracle", "agreement", "complementarity")
_COUNTS = (
    *("n_planned", "n_scored", "n_failed", "n_undecided", "n_excluded", "n_unreadable"),
    *("n_correct", "n_against_single"),
)
_OF_STRATEGY = (
    *("run_id", "model", "run_tag", "benchmark", "question_set", "judge", "strategy", "score", "score_upper"),
    *("n_planned", "n_scored", "n_failed", "n_undecided", "n_excluded", "cost_usd"),
)
_USED = ("prompt_tokens", "completion_tokens", "cost_usd", "seconds")


def read_report(
    catalog: Catalog,
    spec: RunSpec,
    benchmarks: Sequence[str],
    strategies: Sequence[str],
    *,
    status: str,
    calls_made: Mapping[str, int],
) -> QuickReport:
    """Read the report of a run that was evaluated.

    Args:
        catalog: The public views.
        spec: The run.
        benchmarks: Some of its benchmarks.
        strategies: Some of its strategies; the single answer and the samples are always there.
        status: State of the run on these benchmarks.
        calls_made: Calls that were made for it now, by stage.
    """
    graded = [name for name in benchmarks if spec.benchmark(name).has_rule]
    shown = [SINGLE, *strategies]
    of_run = "where run_id = $run_id and list_contains($benchmarks, benchmark) order by all"
    chosen = {"run_id": spec.run_id, "benchmarks": graded}
    views = {view: read_frame(catalog, f"from ensemble_{view} {of_run}", chosen) for view in _VIEWS}
    answers = fetch_frame(catalog, "ensemble_answers", run_ids=[spec.run_id], benchmarks=graded, strategies=shown)
    (run,) = fetch(catalog, "runs", run_ids=[spec.run_id])
    not_sent = dict.fromkeys(run["not_sent"] or ())
    reports = []
    for name in graded:
        settings, sample = spec.benchmarks[name], spec.benchmarks[name].sample
        of_benchmark = {view: rows.filter(benchmark=name) for view, rows in views.items()}
        reports.append(
            BenchmarkReport(
                benchmark=name,
                question_set=settings.question_set,
                question_set_sha256=settings.question_set_sha256,
                n_questions=spec.n_questions(name),
                sample=QuestionSample(**sample.model_dump()) if sample else None,
                temperature=None if "temperature" in not_sent else settings.temperature,
                max_tokens=None if "max_tokens" in not_sent else settings.max_tokens,
                prompt_hash=settings.prompt_hash,
                judge=next(iter(of_benchmark["results"]["judge"]), None),
                **_findings(of_benchmark, answers.filter(benchmark=name), shown),
            )
        )
    pooled = Findings(**_findings(views, answers, shown))
    means = tuple(_mean(result.strategy, reports, answers) for result in pooled.results)
    judged = [name for name in benchmarks if name not in graded]
    first = spec.benchmarks[benchmarks[0]]
    judges = (spec.judge(name) for benchmark in graded for name in spec.benchmarks[benchmark].judges)
    return QuickReport(
        run_id=spec.run_id,
        model=spec.model,
        run_tag=spec.run_tag,
        status=status,
        settings=EnsembleSettings(
            ensemble=len(first.shared),
            members=tuple(spec.sampled_models),
            single=first.single,
            consensus_model=spec.consensus_model,
            judge_model=next((judge.name for judge in judges if judge), None),
            base_url=spec.endpoint.base_url if spec.endpoint else spec.origin,
            imported=first.source == CACHES,
        ),
        calls_made=dict(calls_made),
        benchmarks=tuple(reports),
        overall=OverallFindings(tuple(graded), pooled, means),
        judged=tuple(
            score
            for score in read_strategy_scores(catalog, [spec.run_id])
            if score.benchmark in judged and score.strategy in {*shown, SAMPLES}
        ),
        audits=tuple(rule_sentences(catalog, graded)),
    )


def read_stored_report(catalog: Catalog, run_id: str) -> QuickReport:
    """Read the report of a run with strategies as it stands in the lake.

    Args:
        catalog: The public views.
        run_id: The run.

    Raises:
        ConfigurationError: There is no such run, or it has no strategies.
    """
    found = fetch(catalog, "runs", run_ids=[run_id])
    spec = RunSpec.read(found[0]["spec"]) if found else None
    strategies = {row["strategy"] for row in fetch(catalog, "strategy_scores", run_ids=[run_id])} - {SAMPLES}
    if spec is None or not strategies:
        raise ConfigurationError(f"no consensus of run {run_id!r}")
    wanted = [name for name in spec.strategies if name != SINGLE and name in strategies]
    benchmarks = [name for name, settings in spec.benchmarks.items() if settings.strategies]
    return read_report(catalog, spec, benchmarks, wanted, status=found[0]["status"], calls_made={})


def read_strategy_scores(catalog: Catalog, run_ids: Sequence[str]) -> tuple[StrategyScore, ...]:
    """Read the score of each strategy of some runs by each judge, without passes; none of runs without a strategy.

    Args:
        catalog: The public views.
        run_ids: The runs.
    """
    rows = fetch(catalog, "strategy_scores", run_ids=run_ids)
    if not rows:
        return ()
    answers = fetch_frame(catalog, "ensemble_answers", run_ids=run_ids)
    of_judges = answers.partition_by("run_id", "benchmark", "judge", as_dict=True)
    scales = reported_scales(benchmarks_in(catalog))
    found = []
    for (run_id, benchmark, judge), of_judge in grouped(rows, itemgetter("run_id", "benchmark", "judge")):
        given, scale = of_judges[run_id, benchmark, judge], scales[benchmark]
        against = {pair.strategy: pair for pair in _against(given, (), scale) if pair.reference == SAMPLES}
        for row in of_judge:
            name = row["strategy"]
            of_rule = row["n_correct"] is not None and name != SAMPLES
            ends = _wilson(row) if of_rule else _estimates(_of_strategy(given, name), scale)
            found.append(
                StrategyScore(
                    interval=_spanned(ends, row["score"], row["score_upper"]),
                    against=against.get(name),
                    calls=row["calls"] or 0,
                    calls_without_cost=row["calls_without_cost"] or 0,
                    **{column: row[column] for column in _OF_STRATEGY},
                )
            )
    return tuple(found)


# ---------------------------------------------------------------------------------------- of one or more benchmarks


def _findings(views: Mapping[str, pl.DataFrame], answers: pl.DataFrame, strategies: Sequence[str]) -> dict[str, Any]:
    """Make the fields of `Findings`; every question has the same weight.

    Args:
        views: Rows of each of the views, of the benchmarks that it is about.
        answers: Their answers.
        strategies: The strategies that are asked for.
    """
    results = [views["results"].filter(strategy=name) for name in (*strategies, SAMPLES)]
    members = _members(answers)
    levels = views["agreement"].group_by("agreement").agg(pl.sum("n_questions", "n_correct")).sort("agreement")
    is_shown = (pl.col("kind") == "member") | pl.all_horizontal(pl.col("a", "b").is_in(strategies))
    pairs = views["complementarity"].filter(is_shown).group_by("kind", "a", "b", maintain_order=True)
    return {
        "results": tuple(_result(rows, answers) for rows in results if rows.height),
        "against": _against(answers, members),
        "members": members,
        "oracle": _oracle(views["oracle"]),
        "agreement": tuple(
            row
            | {"accuracy": row["n_correct"] / row["n_questions"]}
            | {"interval": wilson_interval(row["n_correct"], row["n_questions"])}
            for row in levels.iter_rows(named=True)
        ),
        "complementarity": tuple(
            pairs.agg(pl.sum("n_both", "n_only_a", "n_only_b", "n_neither")).iter_rows(named=True)
        ),
    }


def _result(rows: pl.DataFrame, answers: pl.DataFrame) -> StrategyResult:
    """Sum what a strategy got right, benchmark by benchmark."""
    counts = (*_COUNTS, "n_gained", "n_lost", "calls", "calls_without_cost")
    strategy, sums = rows["strategy"][0], rows.select(pl.sum(*counts)).row(0, named=True)
    used = {name: sum_of_known(rows[name].to_list()) for name in _USED}
    accuracy, upper = (_share(sums["n_correct"], n) for n in (sums["n_scored"] + sums["n_undecided"], sums["n_scored"]))
    ends = _estimates(_of_strategy(answers, SAMPLES)) if strategy == SAMPLES else _wilson(sums)
    n_compared = sums["n_against_single"]
    gained, lost = sums.pop("n_gained"), sums.pop("n_lost")
    compared = strategy not in {SINGLE, SAMPLES} and not rows["n_gained"].has_nulls()
    deltas = rows.select("n_against_single", "delta").drop_nulls("delta").rows()
    return StrategyResult(
        strategy=strategy,
        **sums | used,
        accuracy=accuracy,
        interval=_spanned(ends, accuracy, upper),
        accuracy_scored=upper,
        delta=sum(delta * (weight / n_compared) for weight, delta in deltas) if deltas else None,
        delta_interval=paired_proportions_interval(gained, lost, n_compared) if compared else None,
        n_gained=gained if compared else None,
        n_lost=lost if compared else None,
        p_value=mcnemar_exact(gained, lost) if compared else None,
    )


def _share(part: int, n: int) -> float | None:
    return part / n if n else None


def _of_strategy(answers: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the answers of a strategy, or all samples, to which no call failed."""
    is_own = pl.col("strategy").is_null() if name == SAMPLES else pl.col("strategy") == name
    return answers.filter(is_own, pl.col("answered"))


def _wilson(counts: Row) -> _BothEnds:
    """Return the intervals of both ends of an accuracy."""
    correct, n_scored = counts["n_correct"], counts["n_scored"]
    return wilson_interval(correct, n_scored + counts["n_undecided"]), wilson_interval(correct, n_scored)


def _estimates(answers: pl.DataFrame, scale: tuple[float, float] = (0, 1)) -> _BothEnds:
    """Return the intervals of both ends of a mean, in which answers to one question belong together."""
    lower, upper = (
        clustered_mean_interval(
            part["score"].to_list(), list(part.select("benchmark", "question_id").iter_rows()), scale
        )
        for part in (answers, answers.filter(~pl.col("undecided")))
    )
    return lower.interval if lower else None, upper.interval if upper else None


def _spanned(ends: _BothEnds, score: float | None, score_upper: float | None) -> Interval | None:
    """Return the interval of the lower end; of both ends where both are shown."""
    lower, upper = ends
    if lower and upper and are_apart(score, score_upper):
        return Interval(lower.lower, max(lower.upper, upper.upper))
    return lower


def _oracle(rows: pl.DataFrame) -> Row | None:
    if rows.is_empty():
        return None
    counts = (pl.sum("n_questions"), pl.max("n_samples"), pl.sum("n_any_correct", "n_all_correct"))
    sums = rows.select(*counts).row(0, named=True)
    n, n_any = sums["n_questions"], sums["n_any_correct"]
    return {**sums, "accuracy": n_any / n, "interval": wilson_interval(n_any, n)}


def _members(answers: pl.DataFrame) -> tuple[Row, ...]:
    """Make the members of an ensemble of several models, the best first; none of one model."""
    samples = answers.filter(pl.col("strategy").is_null() & pl.col("model").is_not_null())
    members: list[Row] = []
    for (model,), of_model in samples.partition_by("model", as_dict=True).items():
        answered = of_model.filter("answered")
        n, n_undecided = answered.height, int(answered["undecided"].sum())
        correct = answered.filter(score=1).height
        accuracy, upper = _share(correct, n), _share(correct, n - n_undecided)
        member = {"model": model, "n_planned": of_model.height, "n_failed": of_model.height - n}
        member |= {"n_undecided": n_undecided, "n_correct": correct, "accuracy": accuracy, "accuracy_scored": upper}
        members.append(member | {"interval": _spanned(_estimates(answered), accuracy, upper)})
    members.sort(key=lambda member: (-(member["accuracy"] or 0), member["model"]))
    return tuple(members) if len(members) > 1 else ()


def _against(answers: pl.DataFrame, members: Rows, scale: tuple[float, float] = (0, 1)) -> tuple[Against, ...]:
    """Compare each strategy with each reference on the same questions; p is adjusted within a reference."""
    samples = answers.filter(pl.col("strategy").is_null())
    references = {SAMPLES: samples, SINGLE: answers.filter(strategy=SINGLE)}
    if members:
        references[members[0]["model"]] = samples.filter(model=members[0]["model"])
    strategies = [name for name in answers["strategy"].drop_nulls().unique(maintain_order=True) if name != SINGLE]
    shares = {name: _shares(answers.filter(strategy=name)) for name in strategies}
    return tuple(
        pair
        for name, rows in references.items()
        if rows.height
        for pair in _against_reference(shares, name, _shares(rows), scale[1] - scale[0])
    )


def _shares(answers: pl.DataFrame) -> pl.DataFrame:
    """Average each question over its answers (the share of right ones): `share`, null where all calls failed.

    `decided` is that of the answers that the rule could decide, of `n`, of which `n_undecided` are not.
    """
    answered, undecided = pl.col("answered"), pl.col("undecided")
    return answers.group_by("benchmark", "question_id").agg(
        share=pl.col("score").filter(answered).mean(),
        decided=pl.col("score").filter(answered & ~undecided).mean(),
        n_undecided=(answered & undecided).sum(),
        n=answered.sum(),
    )


def _against_reference(
    strategies: Mapping[str, pl.DataFrame], reference: str, shares: pl.DataFrame, width: float
) -> Iterable[Against]:
    both = {
        name: of_strategy.join(shares, on=["benchmark", "question_id"], how="full", suffix="_reference")
        for name, of_strategy in strategies.items()
    }
    differences, p, adjusted = _tests(both, "share")
    decided, _, adjusted_decided = _tests(both, "decided")
    for name, rows in both.items():
        values = differences[name]
        has, reference_has = rows["share"].is_not_null(), rows["share_reference"].is_not_null()
        lacks, only = ~has & reference_has, has & ~reference_has
        why = unequal_missing(
            lacks.cast(pl.Float64).to_list(),
            only.cast(pl.Float64).to_list(),
            n_scores=rows.height,
            sides=("its", "the other side's"),
            noun="answers",
        )
        if not why and _sign(values, adjusted.get(name)) != _sign(decided[name], adjusted_decided.get(name)):
            sums = rows.select(pl.sum("n_undecided", "n_undecided_reference", "n", "n_reference")).row(0)
            why = cannot_tell(sum(sums[:2]), sum(sums[2:]))
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
            n_decided=len(decided[name]),
            difference_decided=fmean(decided[name]) if decided[name] else None,
        )


def _tests(
    both: Mapping[str, pl.DataFrame], share: str
) -> tuple[dict[str, list[float]], dict[str, float], dict[str, float]]:
    """Test the differences of strategies from a reference.

    Returns:
        By strategy the differences, p, and p adjusted for all of them.
    """
    differences = {
        name: (rows[share] - rows[f"{share}_reference"]).drop_nulls().sort().to_list() for name, rows in both.items()
    }
    p = {name: sign_flip_test(values).p_value for name, values in differences.items() if values}
    return differences, p, dict(zip(p, holm(list(p.values())), strict=True))


def _sign(differences: Sequence[float], p_value: float | None) -> int:
    """Return whether a difference is shown: 1 or -1, or 0 where none is."""
    return int(np.sign(fmean(differences))) if p_value is not None and p_value <= ALPHA else 0


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


def _mean(strategy: str, reports: Sequence[BenchmarkReport], answers: pl.DataFrame) -> MeanResult:
    """Average a strategy over benchmarks."""
    found = [result for report in reports if (result := report.result(strategy))]
    given = (
        _of_strategy(answers, strategy)
        .group_by("benchmark", "question_id", maintain_order=True)
        .agg(share=pl.col("score").mean(), decided=pl.col("score").filter(~pl.col("undecided")).mean())
    )
    parts = [given.filter(benchmark=report.benchmark) for report in reports]
    lower, upper = (
        _mean_interval([mean_interval(part[end].drop_nulls().to_list(), (0, 1)) for part in parts])
        for end in ("share", "decided")
    )
    accuracy, accuracy_scored = (
        mean_of([getattr(result, end) for result in found]) for end in ("accuracy", "accuracy_scored")
    )
    return MeanResult(
        strategy=strategy,
        accuracy=accuracy,
        accuracy_scored=accuracy_scored,
        interval=_spanned((lower, upper), accuracy, accuracy_scored),
        delta=mean_of([result.delta for result in found]),
        delta_interval=_mean_interval([_delta_estimate(result) for result in found]),
    )


def _mean_interval(estimates: Sequence[Estimate | None]) -> Interval | None:
    estimate = mean_estimate(estimates)
    return estimate.interval if estimate else None


def _delta_estimate(result: StrategyResult) -> Estimate | None:
    """Estimate the delta from what is gained and lost: which questions they are makes no difference."""
    if result.n_gained is None or result.n_lost is None:
        return None
    n_alike = result.n_against_single - result.n_gained - result.n_lost
    return mean_interval([1.0] * result.n_gained + [0.0] * n_alike + [-1.0] * result.n_lost, (-1, 1))


Name = Callable[[str], str]
"""A way to write names and other texts of unknown origin in a sentence."""
_POOLED, _MEAN = "pooled", "mean"
_UNREAD = (
    "in none of {:,} answers could be read what they answer, so that each counts as wrong: "
    "inspect-output shows them, and --judge-model names a model that grades what rules cannot"
)


def ensemble_result(report: QuickReport, gate: GateReport | None = None, *, notes: bool = True) -> Result:
    """Say what a gate found, which strategies gain, and the tables that this rests on.

    docs/schemas/quick-eval.schema.json describes the document.

    Args:
        report: The report.
        gate: What the gate found.
        notes: With all tables and how they are made; else a line for each strategy, over all benchmarks.
    """
    pooled = report.overall.pooled
    n_undecided = sum(result.n_undecided for result in pooled.results)
    n_scored = sum(result.n_scored for result in pooled.results)
    unread = [_UNREAD.format(n_undecided)] if n_undecided and not n_scored else []
    of_gate = gate_result(gate, notes=notes) if gate else Result([])
    more = [*(f"{sentence}." for sentence in report.audits), *_contents(report)] if notes else [_MORE]
    tables = _graded(report) if notes else _briefly(pooled)
    said: list[Block] = [
        *of_gate.said[:1],
        Heading(report.model, report.run_tag),
        Sentences(unread, "warning"),
        Sentences(list(verdicts(pooled))),
        *(tables if report.benchmarks else ()),
        *strategy_blocks(report.judged),
        Sentences([*making(report), *more], "note"),
        *of_gate.said[1:],
    ]
    return Result(said, document=plain(report) | {"gate": of_gate.document})


# --- sentences -------------------------------------------------------------------------------------------------------


def verdicts(findings: Findings, name: Name = str) -> Iterator[str]:
    """Say which strategies are better or worse than the samples that they are made of, and what is left out.

    Args:
        findings: The differences.
        name: Writes the name of a strategy, and other texts of unknown origin.
    """
    compared = [pair for pair in findings.against if pair.reference == SAMPLES]
    open_pairs, unmet = [], []
    for pair in compared:
        if pair.difference is None:
            unmet.append(name(pair.strategy))
        elif pair.why_withheld:
            difference = f"{points(pair.difference)} points"
            yield f"No verdict on {name(pair.strategy)}: {difference}, but {name(pair.why_withheld)}."
        elif pair.n_more == 0:
            word = "better" if pair.difference > 0 else "worse"
            by = f"{points(pair.difference)} points ({between(pair.interval, 'points')})"
            yield f"{name(pair.strategy)} is {word} than the mean of its samples: {by}."
        else:
            open_pairs.append(name(pair.strategy))
        if parts := list(left_out(pair)):
            yield f"{name(pair.strategy)}: {'; '.join(parts)}."
    if open_pairs:
        yield f"Not shown to differ from the mean of the samples: {listed(open_pairs)}."
    if unmet:
        yield f"No question has both a sample and an answer of {listed(unmet)}."


def _briefly(findings: Findings) -> Iterator[Block]:
    """Show a line for each strategy, over all benchmarks."""
    against = {pair.strategy: pair for pair in findings.against if pair.reference == SAMPLES}
    rows = [
        vars(result)
        | {name: pair and getattr(pair, name) for name in ("difference", "adjusted_p_value", "n_more")}
        | {"gain": pair and pair.interval, "calls_each": findings.effort(result.strategy)["calls"]}
        for result in findings.results
        for pair in [against.get(result.strategy)]
    ]
    yield _BRIEF.of(rows)


def making(report: QuickReport, name: Name = str) -> Iterator[str]:
    """Say how samples, consensus and verdicts were made."""
    settings = report.settings
    members = ", ".join(map(name, dict.fromkeys(settings.members)))
    yield (
        f"{settings.ensemble} shared{' imported' * settings.imported} samples of {members}; the single answer is "
        f"{'a sample of its own' if settings.single == 'own' else 'the first of them'}; "
        f"consensus by {name(settings.consensus_model)}."
    )
    if report.benchmarks:
        graders = ", ".join(map(name, report.graders))
        yield f"Graded by rules{f', and by {graders} what they cannot tell' if graders else ' alone'}."


def _contents(report: QuickReport) -> Iterator[str]:
    sets = [*(part.question_set for part in report.benchmarks), *(score.question_set for score in report.judged)]
    yield f"Question sets: {', '.join(dict.fromkeys(sets))}."
    made = ", ".join(f"{n:,} {stage}" for stage, n in report.calls_made.items() if n)
    yield f"Calls made now: {made or 'none'}; everything else was there."


# --- tables ----------------------------------------------------------------------------------------------------------


_ACCURACY = (
    number("accuracy", upper="accuracy_scored", form="share"),
    number("95 % CI", ends="interval", form="share"),
)


def _right(row: Row) -> str:
    return f"{row['n_correct']}/{row['n_planned'] - row['n_failed']}" if "n_correct" in row else ""


_RIGHT = number("right", _right)
_ACCURACIES = Table(
    [
        text("benchmark"),
        text("strategy"),
        *_ACCURACY,
        _RIGHT,
        number("failed", "n_failed"),
        number(
            ("unde-", "cided"),
            lambda row: whole_percent(row["n_undecided"] / row["n_planned"]) if row["n_planned"] else "",
        ),
    ],
    notes=["Failed calls are left out."],
)
_BRIEF = Table(
    [
        text("strategy"),
        *_ACCURACY,
        number("+/-", "difference", form="points", null=""),
        number("95 % CI", ends="gain", form="points", null=""),
        number("Holm p", "adjusted_p_value", form="p", null=""),
        _RIGHT,
        number(("more", "questions"), "n_more", null="", spare=True),
        number(("calls a", "question"), "calls_each", form="{:,.1f}", spare=True),
    ],
    notes=["+/-: difference from the mean of the shared samples, in points."],
)
_MORE = "--notes: each benchmark, members, agreement, pairs, costs, and how the numbers are made."
_DIFFERENCES = Table(
    [
        text("benchmark"),
        text("strategy"),
        text("against", "reference", folds=True),
        number("n", "n_questions"),
        number("left out", lambda row: str(row["n_only_strategy"] + row["n_only_reference"]), optional=True),
        number("+/-", "difference", form="points"),
        number("95 % CI", ends="interval", form="points"),
        number("p", "p_value", form="p", optional=True),
        number("Holm p", "adjusted_p_value", form="p"),
        number(("more", "questions"), "n_more"),
    ],
    notes=["samples: the mean of all shared samples, less noisy than one answer. n: questions to which both have one."],
)


def cost_cell(row: Row) -> str:
    """Write what calls cost, with a + where it does not have all of them."""
    return NOTHING if row["cost_usd"] is None else f"{row['cost_usd']:.2g}{'+' * bool(row['calls_without_cost'])}"


EFFORT = {
    "calls": number("calls", form="{:,.1f}"),
    "tokens": number("tokens", form="{:,.0f}"),
    "seconds": number("s", "seconds", form="{:,.1f}"),
    "cost_usd": number("US$", cost_cell),
}
"""The columns of an effort, by its names."""
_EFFORTS = Table(
    [text("per question", "benchmark"), text("strategy"), *EFFORT.values()],
    notes=["Of the strategy alone: its samples come on top. +: not all calls have a cost."],
)
_MEMBERS = Table(
    [text("benchmark"), text("member", "model", folds=True), *_ACCURACY, _RIGHT, number("failed", "n_failed")]
)
_ORACLES = Table(
    [
        text("benchmark"),
        number("oracle", "accuracy", form="share"),
        _ACCURACY[1],
        number("any right", "n_any_correct"),
        number("all right", "n_all_correct"),
        number("questions", "n_questions"),
        number("samples", "n_samples"),
    ]
)
_AGREEMENT = Table(
    [
        text("agreement", lambda row: f"up to {row['agreement']:.0%}" if row["agreement"] else "none read"),
        number("accuracy", form="share"),
        _ACCURACY[1],
        number("right", "n_correct"),
        number("questions", "n_questions"),
    ]
)
_IN_PAIRS = Table(
    [
        text("A", "a", folds=True),
        text("B", "b", folds=True),
        number("both", "n_both"),
        number("only A", "n_only_a"),
        number("only B", "n_only_b"),
        number("neither", "n_neither"),
    ]
)


def _graded(report: QuickReport) -> Iterator[Block]:
    """Show the benchmarks that rules grade, each and all together."""
    pooled = report.overall.pooled
    parts: dict[str, Findings] = {part.benchmark: part for part in report.benchmarks}
    if len(parts) > 1:
        parts[_POOLED] = pooled
    yield _accuracies(report, parts)
    n_strategies = sum(pair.reference == SAMPLES for pair in pooled.against)
    strategies = f"{n_strategies} strateg{'y' if n_strategies == 1 else 'ies'}"
    notes = [
        *_DIFFERENCES.notes,
        f"Sign-flip test and its interval, by question; Holm p: adjusted for {strategies}.",
        "more questions: about how many show a difference of this size 8 times of 10.",
        *(["The best member was found by the same questions, which flatters it."] if pooled.members else []),
    ]
    yield replace(_DIFFERENCES, notes=notes).of(_rows(parts, lambda part: map(vars, part.against)))
    yield _EFFORTS.of(
        _rows(parts, lambda part: ({"strategy": row.strategy, **part.effort(row.strategy)} for row in part.results))
    )
    if pooled.members:
        yield Heading("Members", "by their shared samples; strategies are compared with the best")
        yield _MEMBERS.of(_rows(parts, lambda part: part.members))
    yield Heading("Oracle", "at least one shared sample is right")
    yield _ORACLES.of(_rows(parts, lambda part: [part.oracle] if part.oracle else []))
    if pooled.agreement:
        yield Heading("Agreement", "the most frequent answer of the samples, by the share that gives it")
        yield _AGREEMENT.of(pooled.agreement)
    for kind, title in (("strategy", "Strategies in pairs"), ("member", "Members in pairs")):
        if pairs := [pair for pair in pooled.complementarity if pair["kind"] == kind]:
            pairs.sort(key=lambda pair: (SINGLE not in {pair["a"], pair["b"]}, pair["a"], pair["b"]))
            yield Heading(title, "questions that both, one, or neither gets right")
            yield _IN_PAIRS.of(pairs)


def _rows(parts: Mapping[str, Findings], rows_of: Callable[[Findings], Iterable[Row]]) -> list[dict[str, Any]]:
    """Make rows of findings, with the benchmark's name."""
    return [{"benchmark": name, **row} for name, part in parts.items() for row in rows_of(part)]


def _accuracies(report: QuickReport, parts: Mapping[str, Findings]) -> Table:
    is_open = {part.benchmark for part in report.benchmarks if part.judge and not says_wrong(part.judge)}
    rows = [
        row | {"is_open": row["benchmark"] in is_open and row["n_undecided"] > 0}
        for row in _rows(parts, lambda part: map(vars, part.results))
    ]
    notes = [*_ACCURACIES.notes]
    if _POOLED in parts:
        counts = dict.fromkeys(("n_failed", "n_undecided", "n_planned"), "")
        rows = [*rows, *({"benchmark": _MEAN} | vars(mean) | counts for mean in report.overall.mean_of_benchmarks)]
        notes.append(
            f"pooled: over all questions; mean: of the {len(report.benchmarks)} benchmarks, each with the same weight."
        )
    notes += undecided_sentences(
        {"benchmark": part.benchmark, "judge": part.judge or "", "n_undecided": result.n_undecided}
        for part in report.benchmarks
        for result in part.results
    )
    if unreadable := sum(result.n_unreadable for result in report.overall.pooled.results):
        notes.append(
            f"{counted(unreadable, 'answer')} of those that failed: the grading model's verdict could not be read."
        )
    return replace(_ACCURACIES, notes=notes).of(rows)


# --- strategies by judge ----------------------------------------------------------------------------------------------


def strategy_blocks(strategies: Sequence[StrategyScore]) -> Iterator[Block]:
    """Show the strategies of each run, benchmark by benchmark and judge by judge, with their gain over the samples."""
    for (model, run_tag), of_run in grouped(strategies, lambda strategy: (strategy.model, strategy.run_tag)):
        yield Heading("Strategies", f"{model} {run_tag}")
        table = strategies_table(of_run)
        notes = [
            f"{score.strategy} on {score.benchmark} by {score.judge}: {'; '.join(found)}."
            for score in of_run
            if (found := doubts(score))
        ]
        yield replace(table, notes=[*table.notes, *notes])


def strategies_table(strategies: Sequence[StrategyScore]) -> Table:
    """Show a line for each strategy, benchmark and judge, with its gain over the samples."""
    return _STRATEGIES.of([*map(strategy_row, strategies)])


def strategy_row(score: StrategyScore) -> dict[str, Any]:
    """Return a score with its difference from the mean of its samples in the same row."""
    against = score.against
    return {
        **vars(score),
        **ends_of(score.interval, "ci_questions_"),
        "difference": against and against.difference,
        **ends_of(against.interval if against else None, "difference_"),
        "n_common_questions": against and against.n_questions,
        "why_withheld": against and against.why_withheld,
    }


_STRATEGIES = Table(
    [
        text("benchmark"),
        text("judge", folds=True),
        text("strategy"),
        number("score", "score", upper="score_upper", form="score"),
        number("95 % CI", ends="ci_questions_", form="score"),
        number("scored", lambda row: f"{row['n_scored']}/{row['n_planned']}"),
        number("+/-", lambda row: signed(row["difference"]) if row["against"] else ""),
        number("95 % CI", lambda row: between(interval_of(row, "difference_"), "difference") if row["against"] else ""),
        number("n", "n_common_questions", form="{}", null=""),
        number("calls", spare=True),
        number("US$", cost_cell, spare=True),
    ],
    notes=[
        "Without passes.",
        "+/-: against the mean of the shared samples, on n questions that both have; interval of a sign-flip test.",
    ],
)


def doubts(strategy: StrategyScore) -> list[str]:
    """Say why there is no verdict on a strategy, and which questions its comparison with the samples leaves out."""
    against = strategy.against
    if against is None:
        return []
    why = [f"no verdict, since {against.why_withheld}"] if against.why_withheld else []
    return [*why, *left_out(against)]


def left_out(against: Any) -> Iterator[str]:
    """Say which questions of a comparison with samples count for neither: an answer that failed is no gain."""
    if against.n_only_strategy:
        yield f"{counted(against.n_only_strategy, 'question')} left out, to which the samples have no answer"
    if against.n_only_reference:
        yield f"{counted(against.n_only_reference, 'question')} left out, to which it has no answer"
