"""Scores of runs with their denominators and uncertainty, statistics over runs, judges, replies, tokens.

Plain rows from whatever query; names in them are untrusted. Every number says what it is over: how many samples were
planned and scored, how many failed, which question set, which null policy, which pass pipeline.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist, fmean
from typing import Any, Literal, NamedTuple, TypeVar

from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.reports.figures import are_apart, is_number, signed
from shaberi_dagster.reports.undecided import Undecided, says_wrong
from shaberi_dagster.statistics.intervals import CONFIDENCE, Estimate, Interval, mean_of_estimates

T = TypeVar("T")
K = TypeVar("K")
OVERALL = "overall"
MEAN_OF = "mean of "
USUAL = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
"""Standard errors that half of a 95 % interval is wide."""
_ROUNDING = 0.005  # of what is shown
_NOT_SHOWN = {"over_questions", "over_decided", "judge_prompt", "link", "audit"}


def undecided_parts(rows: "Iterable[ScoreRow]") -> list[Undecided]:
    """Return what of scores is undecided."""
    return [(row.benchmark, row.judge, row.n_undecided, row.n_planned) for row in rows]


class RowLink(NamedTuple):
    """A granted link, by which a score stands among imported ones.

    Attributes:
        judge: The judge of those.
        judge_prompt: The name of its prompts there.
        offset: How much higher scores of this benchmark are than those.
        error: Standard error of the offset.
        mean_offset: The same of the mean of the benchmarks.
        mean_error: Its standard error.
    """

    judge: str
    judge_prompt: str | None
    offset: float
    error: float
    mean_offset: float
    mean_error: float


class RowAudit(NamedTuple):
    """Effect of a rule's errors on a score, as audits of its verdicts measured them.

    Attributes:
        shift: Score without these errors less the score, on the reported scale.
        down: How far below it the shift may be (95 %).
        up: How far above.
        sentence: How often the rule is wrong.
    """

    shift: float
    down: float
    up: float
    sentence: str


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
        score: Mean on the reported scale (ELYZA ×2); None when there is none under the policy. What a rule could not
            decide is wrong in it.
        sd_questions: Standard deviation over questions on the same scale; None when not defined.
        n_planned: Samples planned.
        n_scored: Samples with a score.
        n_failed: Samples that ended without one.
        n_excluded: Samples left out for a reason, such as empty answers.
        n_out_of_scale: Scores outside of the scale, which count as they are.
        n_asked: Questions that were asked, where that is fewer than the set has; None: all of them.
        over_questions: The score with its 95 % interval over questions: how general it is. None when not known.
        n_categories: Categories of these questions; those without one are in one of their own. 0 without single scores.
        over_categories: How many times as wide the interval is when categories are sampled, too; None below ten.
        baseline_score: The score without passes; None without a pipeline.
        leniency: What the judge gives beyond its peers; None when it shares no answers with any.
        judge_prompt_hash: The judge's templates; None when not recorded.
        judge_config_hash: The judge's settings and templates.
        pipeline_hash: The passes with their settings; None for baseline.
        base_tag: What the tags of the multi-run that it is one of have in common, else its tag.
        run_number: Its number among them; None for a run that is no part of a multi-run.
        source: The tree that an imported run is of; None for a run of our own.
        judge_prompt: The name of the judge's prompts, as `judge_prompt_of` in SQL makes it: trees that do not record
            theirs have prompts of their own.
        link: The link by which it is ranked among imported scores; None: it is ranked by itself.
        audit: What audits say of the rule that made it; None without one.
        score_upper: The score without what a rule could not decide; None where that is nothing, or all.
        n_undecided: Samples that a rule could not decide.
        over_decided: Likewise with its interval; None where all is decided.
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
    judge_prompt: str | None = None
    link: RowLink | None = None
    audit: RowAudit | None = None
    score_upper: float | None = None
    n_undecided: int = 0
    over_decided: Estimate | None = None

    def columns(self) -> dict[str, Any]:
        """Return the fields that tables and documents have."""
        return {name: value for name, value in self._asdict().items() if name not in _NOT_SHOWN}

    @property
    def upper(self) -> float | None:
        """The upper end of the score; where nothing is decided, all could be right."""
        if not self.n_undecided or self.score is None:
            return self.score
        return 1.0 if self.score_upper is None else self.score_upper

    @property
    def is_open(self) -> bool:
        """Whether its rule left answers undecided, and cannot say wrong."""
        return self.n_undecided > 0 and not says_wrong(self.judge)

    @property
    def ranked_judge(self) -> str:
        """The judge among whose scores it is ranked."""
        return self.link.judge if self.link else self.judge

    @property
    def ranked_prompt(self) -> str | None:
        """The name of the prompts of those."""
        return self.link.judge_prompt if self.link else self.judge_prompt

    @property
    def asked(self) -> str:
        """The questions that were asked: `elyza@100`, or `elyza@100, 10 asked`."""
        return self.question_set if self.n_asked is None else f"{self.question_set}, {self.n_asked} asked"

    @property
    def adjusted_score(self) -> float | None:
        """The score less the judge's leniency."""
        return less(self.score, self.leniency)

    @property
    def change(self) -> float | None:
        """The change that passes made."""
        return less(self.score, self.baseline_score)


class JudgeScores(NamedTuple):
    """The scores of a judge on a benchmark, each with its question and, if some are, whether a rule left it undecided.

    A score is None where it gave none.
    """

    benchmark: str
    judge: str
    questions: Sequence[str | int]
    scores: Sequence[float | None]
    undecided: Sequence[bool] = ()

    @property
    def decided(self) -> "JudgeScores":
        """The same without what a rule could not decide."""
        if not any(self.undecided):
            return self
        kept = [place for place, undecided in enumerate(self.undecided) if not undecided]
        return self._replace(
            questions=[self.questions[place] for place in kept],
            scores=[self.scores[place] for place in kept],
            undecided=(),
        )


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


class Counts:
    """Counts of samples over several scores.

    Attributes:
        rows: The scores, in the benchmarks' order.
    """

    rows: tuple[ScoreRow, ...]

    @property
    def n_planned(self) -> int:
        """Samples planned."""
        return sum(row.n_planned for row in self.rows)

    @property
    def n_scored(self) -> int:
        """Samples with a score."""
        return sum(row.n_scored for row in self.rows)

    @property
    def n_failed(self) -> int:
        """Samples that ended without a score."""
        return sum(row.n_failed for row in self.rows)

    @property
    def n_excluded(self) -> int:
        """Samples left out for a reason."""
        return sum(row.n_excluded for row in self.rows)

    @property
    def n_undecided(self) -> int:
        """Samples that a rule could not decide."""
        return sum(row.n_undecided for row in self.rows)

    @property
    def n_out_of_scale(self) -> int:
        """Scores outside of their scale, which count as they are."""
        return sum(row.n_out_of_scale for row in self.rows)


@dataclass(frozen=True)
class RunMean(Counts):
    """The unweighted mean over the benchmarks that have a score; under the policy strict, over all or none.

    Attributes:
        model: The evaluated model.
        run_tag: Its run.
        judge: The judge.
        rows: The benchmarks' rows, in the benchmarks' order.
    """

    model: str
    run_tag: str
    judge: str
    rows: tuple[ScoreRow, ...]

    @property
    def _scored(self) -> list[ScoreRow]:
        scored = [row for row in self.rows if is_number(row.score)]
        strict = any(row.null_policy == "strict" for row in self.rows)
        return [] if strict and len(scored) < len(self.rows) else scored

    @property
    def asked(self) -> tuple[str, ...]:
        """The questions that were asked, benchmark by benchmark: only means over the same compare."""
        return tuple(row.asked for row in self.rows)

    @property
    def score(self) -> float | None:
        """The mean; None without any score."""
        return mean_of([row.score for row in self._scored])

    @property
    def upper(self) -> float | None:
        """The mean of the upper ends."""
        return mean_of([row.upper for row in self._scored])

    @property
    def baseline_score(self) -> float | None:
        """The mean without passes of the same benchmarks; None when one is not known."""
        return mean_of([row.baseline_score for row in self._scored])

    @property
    def adjusted_score(self) -> float | None:
        """The mean less the judge's leniency; None when one is not known."""
        return mean_of([row.adjusted_score for row in self._scored])

    @property
    def change(self) -> float | None:
        """The change that passes made to the mean."""
        return less(self.score, self.baseline_score)

    @cached_property
    def over_questions(self) -> Estimate | None:
        """The mean with its interval over questions; None when that of a benchmark is not known."""
        lower = mean_estimate([row.over_questions for row in self._scored])
        return spanned(lower, mean_estimate([row.over_decided or row.over_questions for row in self._scored]))

    @property
    def n_benchmarks(self) -> int:
        """Number of benchmarks that it is over."""
        return len(self._scored)

    @property
    def label(self) -> str:
        """For example `mean of 4`."""
        return f"{MEAN_OF}{self.n_benchmarks}"


def mean_estimate(estimates: Sequence[Estimate | None]) -> Estimate | None:
    """The mean of estimates; None without any, or when one is not known."""
    known = [estimate for estimate in estimates if estimate]
    return mean_of_estimates(known) if known and len(known) == len(estimates) else None


def spanned(lower: Estimate | None, upper: Estimate | None) -> Estimate | None:
    """Return the lower end of a score, where two ends are shown with an interval that is of both."""
    if not (lower and upper and are_apart(lower.value, upper.value)):
        return lower
    return replace(lower, interval=Interval(lower.interval.lower, max(lower.interval.upper, upper.interval.upper)))


def with_error(value: float, interval: Interval, down: float, up: float) -> Interval:
    """Return an interval around a value with one more uncertainty: the root of the sum of both squares (MOVER)."""
    return Interval(value - math.hypot(value - interval.lower, down), value + math.hypot(interval.upper - value, up))


def moved(estimate: Estimate, shift: float, down: float, up: float) -> Estimate:
    """Return an estimate with a shift that may be lower by `down` or higher by `up`; within its scale if it has one."""
    wider = with_error(estimate.value, estimate.interval, down, up)
    value, lower, upper = (end + shift for end in (estimate.value, wider.lower, wider.upper))
    if estimate.ends:
        value, lower, upper = (min(max(end, estimate.ends[0]), estimate.ends[1]) for end in (value, lower, upper))
    error = math.hypot(estimate.standard_error, (down + up) / 2 / USUAL)
    return replace(estimate, value=value, interval=Interval(lower, upper), standard_error=error)


def interval_columns(estimate: Estimate | None) -> dict[str, Any]:
    """Return the columns of an estimate: its 95 % interval over questions, and their number."""
    return {
        "ci_questions_lower": estimate and estimate.interval.lower,
        "ci_questions_upper": estimate and estimate.interval.upper,
        "n_questions": estimate and estimate.n,
    }


def less(score: float | None, other: float | None) -> float | None:
    """The difference of two numbers; None when one is not known."""
    return score - other if is_number(score) and is_number(other) else None


def is_apart(difference: float, of_means: float) -> bool:
    """Return whether a paired difference is not that of two means, by more than the rounding of what is shown."""
    return abs(difference - of_means) > _ROUNDING and signed(difference) != signed(of_means)


def mean_of(values: Sequence[float | None]) -> float | None:
    """The mean; None without values, or when one is not known."""
    known = [value for value in values if is_number(value)]
    return fmean(known) if known and len(known) == len(values) else None


def benchmark_order() -> Callable[[str], tuple[bool, int, str]]:
    """Return a key to sort names of benchmarks by: the registry's order, unknown ones after them, overall last."""
    places = {name: place for place, name in enumerate(ALL_BENCHMARKS)}
    return lambda benchmark: (benchmark == OVERALL, places.get(benchmark, len(places)), benchmark)


def grouped(rows: Iterable[T], key: Callable[[T], K]) -> list[tuple[K, list[T]]]:
    """Rows by key, in the order in which keys appear first."""
    groups: dict[K, list[T]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.items())
