"""Scores of runs with their denominators and uncertainty, statistics over runs, judges, replies, tokens.

Plain rows from whatever query; names in them are untrusted. Every number says what it is over: how many samples were
planned and scored, how many failed, which question set, which null policy, which pass pipeline.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Literal, NamedTuple, TypeVar

from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS, RULE
from shaberi_dagster.reports.figures import is_number
from shaberi_dagster.statistics.intervals import Estimate, Interval, mean_of_estimates

T = TypeVar("T")
K = TypeVar("K")
OVERALL = "overall"
MEAN_OF = "mean of "
_ROUNDING = 0.005  # of what is shown


class ScoreRow(NamedTuple):
    """The score of one run on one benchmark by one judge.

    Attributes:
        run_id: The run.
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
        n_out_of_scale: Scores outside of the scale, which count as they are.
        n_asked: Questions that were asked, where that is fewer than the set has; None: all of them.
        over_questions: The score with its 95 % interval over questions: how general it is. None when not known.
        n_categories: Categories of these questions; 0 where they have none.
        over_categories: How many times as wide the interval is when categories are sampled, too; None below ten.
        baseline_score: The score without passes; None without a pipeline.
        leniency: What the judge gives beyond its peers; None when it shares no answers with any.
        judge_prompt_hash: The judge's templates; None when not recorded.
        judge_config_hash: The judge's settings and templates.
        pipeline_hash: The passes with their settings; None for baseline.
        base_tag: What the tags of the multi-run that it is one of have in common, else its tag.
        run_number: Its number among them; None for a run that is no part of a multi-run.
        source: The tree that an imported run is of; None for a run of our own.
    """

    run_id: str
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
    n_out_of_scale: int = 0
    n_asked: int | None = None
    over_questions: Estimate | None = None
    n_categories: int = 0
    over_categories: float | None = None
    baseline_score: float | None = None
    leniency: float | None = None
    judge_prompt_hash: str | None = None
    judge_config_hash: str | None = None
    pipeline_hash: str | None = None
    base_tag: str = ""
    run_number: int | None = None
    source: str | None = None

    @property
    def judge_prompt(self) -> str | None:
        """What tells the judge's prompts apart: where none is recorded, each tree may have its own. Rules have none."""
        is_unknown = self.judge_prompt_hash is None and self.source and not self.judge.startswith(RULE)
        return f"not recorded in {self.source}" if is_unknown else self.judge_prompt_hash

    @property
    def asked(self) -> str:
        """What was asked: `elyza@100`, or `elyza@100, 10 asked`."""
        return self.question_set if self.n_asked is None else f"{self.question_set}, {self.n_asked} asked"

    @property
    def adjusted_score(self) -> float | None:
        """The score less the judge's leniency."""
        return less(self.score, self.leniency)

    @property
    def change(self) -> float | None:
        """What the passes changed."""
        return less(self.score, self.baseline_score)


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
        margin_of_error: Half the width of the 95 % confidence interval of the mean between runs, which is how stable
            it is; None for one run.
        minimum: Lowest score of a run.
        maximum: Highest score of a run.
        values: The runs' scores in the order of the runs.
        over_questions: The mean of all runs' samples with its 95 % interval over questions; None when not known.
        n_replies: Replies (answers and judgements) that these runs rest on.
        n_shared: Those of them that are the reply to another one's call, which no spread between runs comes from.
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
    over_questions: Estimate | None = None
    n_replies: int = 0
    n_shared: int = 0


@dataclass(frozen=True)
class JudgeMean:
    """A run's mean over judges on one benchmark, or overall.

    Attributes:
        model: The evaluated model.
        run_tag: Its run.
        benchmark: The benchmark; `overall` for the mean over benchmarks.
        question_sets: The version of its questions; overall those of all benchmarks.
        judges: Over whose means it is: the judges that all compared runs share.
        score: The mean; None when the runs share no judge.
        adjusted_score: The mean of the scores of all its judges whose leniency is known, each less that; None when
            there is none for one of the question sets.
        n_planned: Samples planned, of all these judges.
        n_scored: Those with a score.
        n_failed: Those that ended without one.
        n_excluded: Those left out for a reason.
        asked: What the runs that it is compared with were asked, too.
    """

    model: str
    run_tag: str
    benchmark: str
    question_sets: Sequence[str]
    judges: Sequence[str]
    score: float | None
    adjusted_score: float | None
    n_planned: int
    n_scored: int
    n_failed: int
    n_excluded: int
    asked: tuple[str, ...] = ()


@dataclass(frozen=True)
class JudgePair:
    """How far two judges agree on the answers of the lake that both scored.

    Attributes:
        judge_a: One.
        judge_b: The other.
        n: Answers.
        pearson: Correlation; None when one of them gave one score only.
        spearman: Rank correlation.
        exact_share: Share of equal scores.
        mean_difference: Mean of a's score - b's, on the reported scale.
    """

    judge_a: str
    judge_b: str
    n: int
    pearson: float | None
    spearman: float | None
    exact_share: float
    mean_difference: float


@dataclass(frozen=True)
class Replies:
    """What became of the replies of one run on one benchmark by one judge.

    Attributes:
        run_id: The run.
        model: The evaluated model.
        run_tag: Its run.
        judge: Who scored.
        benchmark: The benchmark.
        n_answers: Answers asked for.
        n_refused: Those that the endpoint calls a refusal, with a text (which is judged) or without.
        n_filtered: Those that a filter of the endpoint kept back.
        n_truncated: Those that the token limit cut off.
        n_empty: Those without a text.
        n_out_of_scale: Scores outside of the scale: those that count, and those that are failures for that.
        n_retried: Calls, of any stage, that took more than one request.
        legacy: The score under the null policy legacy.
        zero: Under zero.
        strict: Under strict; None as soon as one is missing.
    """

    run_id: str
    model: str
    run_tag: str
    judge: str
    benchmark: str
    n_answers: int
    n_refused: int
    n_filtered: int
    n_truncated: int
    n_empty: int
    n_out_of_scale: int
    n_retried: int
    legacy: float | None
    zero: float | None
    strict: float | None


@dataclass(frozen=True)
class Unfinished:
    """A benchmark of a run that is not complete.

    Attributes:
        model: The evaluated model.
        run_tag: Its run.
        benchmark: The benchmark.
        state: `partial`, `running`, or `error: ` and why.
        who: Whose part failed: `answers` or `judge NAME`; empty when nothing of it is there.
        n_planned: Samples planned for that part.
        n_failed: Those that failed.
        classes: How many of each class of failure.
    """

    model: str
    run_tag: str
    benchmark: str
    state: str
    who: str = ""
    n_planned: int = 0
    n_failed: int = 0
    classes: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        failed = f"{self.who}: {self.n_failed} of {self.n_planned} failed"
        named = ", ".join(f"{name} {count}" for name, count in self.classes.items())
        return f"{failed} ({named})" if self.who else ""


@dataclass(frozen=True)
class Tie:
    """A run beside the best of those that can be compared with it.

    Attributes:
        against_best: `best`: the one with the highest mean that none is shown to be better than; `tied`: no difference
            from it is shown; `below`: it differs at level 0.05; `withheld`: there is no verdict.
        n_runs: Runs that were compared: by the same judge with the same prompt, over what was asked of all of them.
        n_common: Questions on which a judge scored both it and the best.
        p_value: Of the difference from the best: of two runs that of `shaberi compare`, of more Holm's adjusted one;
            None for the best.
        difference: Its mean less that of the best over these questions, on each by the judges that scored both; None
            for the best.
        interval: Of the difference; 0 is outside of it exactly where p_value is at most 0.05.
        of_means: The difference of the two means, each over all that it has.
        why: Why there is no verdict; empty where there is one.
    """

    against_best: Literal["best", "tied", "below", "withheld"]
    n_runs: int
    n_common: int
    p_value: float | None
    difference: float | None = None
    interval: Interval | None = None
    of_means: float = 0.0
    why: str = ""


@dataclass(frozen=True)
class RunMean:
    """The unweighted mean over the benchmarks that have a score; under the policy strict, over all or none.

    Attributes:
        model: The evaluated model.
        run_tag: Its run.
        judge: Who scored.
        rows: The benchmarks' rows, in the benchmarks' order.
        tie: How it is beside the best; None when it was not compared.
    """

    model: str
    run_tag: str
    judge: str
    rows: tuple[ScoreRow, ...]
    tie: Tie | None = None

    @property
    def _scored(self) -> list[ScoreRow]:
        scored = [row for row in self.rows if is_number(row.score)]
        strict = any(row.null_policy == "strict" for row in self.rows)
        return [] if strict and len(scored) < len(self.rows) else scored

    @property
    def asked(self) -> tuple[str, ...]:
        """What was asked, benchmark by benchmark: only means over the same compare."""
        return tuple(row.asked for row in self.rows)

    @property
    def mean(self) -> float | None:
        """The mean; None without any score."""
        return mean_of([row.score for row in self._scored])

    @property
    def baseline_mean(self) -> float | None:
        """The mean without passes of the same benchmarks; None when one is not known."""
        return mean_of([row.baseline_score for row in self._scored])

    @property
    def adjusted_mean(self) -> float | None:
        """The mean less the judge's leniency; None when one is not known."""
        return mean_of([row.adjusted_score for row in self._scored])

    @cached_property
    def over_questions(self) -> Estimate | None:
        """The mean with its interval over questions; None when that of a benchmark is not known."""
        estimates = [row.over_questions for row in self._scored if row.over_questions]
        return mean_of_estimates(estimates) if estimates and len(estimates) == self.n_benchmarks else None

    @property
    def n_benchmarks(self) -> int:
        """Over how many benchmarks it is."""
        return len(self._scored)

    @property
    def label(self) -> str:
        """For example `mean of 4`."""
        return f"{MEAN_OF}{self.n_benchmarks}"

    @property
    def n_failed(self) -> int:
        """Failed samples of all benchmarks."""
        return sum(row.n_failed for row in self.rows)

    @property
    def n_out_of_scale(self) -> int:
        """Scores outside of their scales."""
        return sum(row.n_out_of_scale for row in self.rows)


def less(score: float | None, other: float | None) -> float | None:
    """The difference of two numbers; None when one is not known."""
    return score - other if is_number(score) and is_number(other) else None


def is_apart(difference: float, of_means: float) -> bool:
    """Return whether a paired difference is not that of two means, by more than the rounding of what is shown."""
    return abs(difference - of_means) > _ROUNDING


def mean_of(values: Sequence[float | None]) -> float | None:
    """The mean; None without values, or when one is not known."""
    known = [value for value in values if is_number(value)]
    return fmean(known) if known and len(known) == len(values) else None


def benchmark_order() -> Callable[[ScoreRow | RunStatistic], tuple[bool, int, str]]:
    """A key to sort by: benchmarks in the registry's order, unknown ones after them, overall last."""
    places = {name: place for place, name in enumerate(ALL_BENCHMARKS)}
    return lambda row: (row.benchmark == OVERALL, places.get(row.benchmark, len(places)), row.benchmark)


def grouped(rows: Iterable[T], key: Callable[[T], K]) -> list[tuple[K, list[T]]]:
    """Rows by key, in the order in which keys appear first."""
    groups: dict[K, list[T]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.items())
