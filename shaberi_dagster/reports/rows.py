"""Scores of runs as rows, with their denominators and uncertainty; what a rule could not decide of them.

A row is one of `scores.sql`: the score of a run on a benchmark by a judge, on the reported scale (ELYZA ×2). score is
None where the null policy gives none, and what a rule could not decide is wrong in it. score_upper leaves that
out (None where it is nothing, or all), and `upper` is the end that is shown. n_asked is None where the whole question
set was asked; `asked` says both: `elyza@100, 10 asked`. Later steps add

- estimate, decided: the score with its 95 % interval over questions, and the same of what is decided; None not known;
- n_categories, over_categories: categories of these questions, and how many times as wide the interval is when
  categories are sampled, too (None below ten);
- leniency, adjusted_score: what the judge gives beyond its peers, and the score less that;
- link: the granted link by which it is ranked among imported scores, with the judge and prompts of these in
  ranked_judge and ranked_prompt;
- audit, audit_sentence: what a rule's errors do to the score (shift, and how far below and above that may be), and how
  often it is wrong.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple

from shaberi_dagster.reports.blocks import (
    Row,
    Rows,
    are_apart,
    decimals,
    ends_of,
    is_number,
    listed,
    signed,
    whole_percent,
)
from shaberi_dagster.statistics.intervals import Estimate, Interval, mean_of_estimates
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.tasks.judges.rules.registry import GRADERS

OVERALL = "overall"
MEAN_OF = "mean of "
_ROUNDING = 0.005  # of what is shown
_LATER = ("estimate", "decided", "over_categories", "leniency", "adjusted_score", "link", "audit", "audit_sentence")
ROW_COLUMNS = (
    *("run_id", "model", "run_tag", "judge", "benchmark", "question_set", "pipeline", "null_policy", "score"),
    *("sd_questions", "n_planned", "n_scored", "n_failed", "n_excluded", "n_out_of_scale", "n_asked", "n_categories"),
    *("over_categories", "baseline_score", "leniency", "judge_prompt_hash", "judge_config_hash", "pipeline_hash"),
    *("base_tag", "run_number", "source", "score_upper", "n_undecided"),
)
"""The values of a row that documents have."""
COUNTS = ("n_planned", "n_scored", "n_failed", "n_undecided", "n_excluded", "n_out_of_scale")


def score_row(found: Row) -> Row:
    """Return a row of `scores.sql` with what follows from it, and without what later steps add."""
    score, n_asked = found["score"], found["n_asked"]
    decided = 1.0 if found["score_upper"] is None else found["score_upper"]  # nothing decided: all could be right
    return {
        **found,
        "asked": found["question_set"] if n_asked is None else f"{found['question_set']}, {n_asked} asked",
        "upper": decided if found["n_undecided"] and score is not None else score,
        "change": subtract_or_none(score, found["baseline_score"]),
        "ranked_judge": found["judge"],
        "ranked_prompt": found["judge_prompt"],
        "n_categories": 0,
        **dict.fromkeys(_LATER),
    }


def is_open(row: Row) -> bool:
    """Return whether a score's rule left answers undecided, and cannot say wrong."""
    return row["n_undecided"] > 0 and not says_wrong(row["judge"])


def says_wrong(judge: str) -> bool:
    """Return whether a judge finds answers wrong; a rule that only knows what is right leaves others undecided."""
    return judge not in GRADERS or GRADERS.use(judge).says_wrong


def cannot_tell(n_undecided: float, n: float) -> str:
    """Say why there is no verdict where both ends of scores give another one."""
    return f"cannot tell: {whole_percent(n_undecided / n if n else 0.0)} undecided"


def undecided_sentences(rows: Iterable[Row]) -> Iterator[str]:
    """Say what undecided answers count as, and how to have them graded; nothing where all are decided.

    Args:
        rows: Each has a benchmark, a judge of it and n_undecided.
    """
    found = [row for row in rows if row["n_undecided"]]
    if not found:
        return
    yield "Undecided answers are wrong at the lower end of a score, and left out at the upper one."
    if alone := sorted({row["judge"] for row in found if row["judge"] in GRADERS}):
        command = "run-evals --model MODEL --tag TAG --rejudge --judge-model JUDGE"
        yield f"`{command}` grades what {listed(alone)} left undecided."
    if only_right := sorted({row["benchmark"] for row in found if not says_wrong(row["judge"])}):
        yield f"{', '.join(only_right)}: the rule cannot say wrong here."


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


def shared_sentence(row: Row) -> str:
    """Say of how many n_replies of a benchmark n_shared are the reply to another one's call, without a full stop."""
    n, n_shared = f"{row['n_replies']:,}", f"{row['n_shared']:,}"
    replies = f"replies (answers and judgements) of {row['benchmark']}"
    return f"{n_shared} of the {n} {replies} are the reply to another one's call"


def categories_sentence(benchmark: str, n_categories: int, over_categories: float, how: str = "") -> str:
    """Say how many times as wide an interval is when the questions' categories are a sample as well."""
    wider = f"{decimals(over_categories)} times as wide{how} (--over categories)"
    return f"{benchmark} has {n_categories} categories: if they are a sample as well, the interval is {wider}."


def mean_row(rows: Rows) -> Row:
    """Return the unweighted mean of a run by a judge over the benchmarks that have a score.

    Under the policy strict it is over all or none. Ends, baseline and adjusted means are None when one is not known.

    Args:
        rows: The benchmarks' rows, in the benchmarks' order; only means over the same `asked` compare.
    """
    scored = [row for row in rows if is_number(row["score"])]
    if any(row["null_policy"] == "strict" for row in rows) and len(scored) < len(rows):
        scored = []
    estimates, decided = ([row[name] or row["estimate"] for row in scored] for name in ("estimate", "decided"))
    sides = ("score", "upper", "baseline_score", "adjusted_score")
    mean, upper, baseline, adjusted = (mean_of([row[name] for row in scored]) for name in sides)
    estimate = spanned(mean_estimate(estimates), mean_estimate(decided))
    return {
        **{name: rows[0][name] for name in ("model", "run_tag", "judge")},
        "mean": mean,
        "mean_upper": upper,
        "n_benchmarks": len(scored),
        "baseline_mean": baseline,
        **interval_columns(estimate),
        "adjusted_mean": adjusted,
        "asked": [row["asked"] for row in rows],
        **sums_of(rows, ("n_undecided", "n_out_of_scale")),
    }


def sums_of(rows: Rows, names: Sequence[str]) -> Row:
    """Return the sums of some values of rows."""
    return {name: sum(row[name] for row in rows) for name in names}


def mean_estimate(estimates: Sequence[Estimate | None]) -> Estimate | None:
    """The mean of estimates; None without any, or when one is not known."""
    known = [estimate for estimate in estimates if estimate]
    return mean_of_estimates(known) if known and len(known) == len(estimates) else None


def spanned(lower: Estimate | None, upper: Estimate | None) -> Estimate | None:
    """Return the lower end of a score, where two ends are shown with an interval that is of both."""
    if not (lower and upper and are_apart(lower.value, upper.value)):
        return lower
    return replace(lower, interval=Interval(lower.interval.lower, max(lower.interval.upper, upper.interval.upper)))


def interval_columns(estimate: Estimate | None) -> dict[str, Any]:
    """Return the columns of an estimate: its 95 % interval over questions, and their number."""
    return {**ends_of(estimate.interval if estimate else None, "ci_questions_"), "n_questions": estimate and estimate.n}


def subtract_or_none(score: float | None, other: float | None) -> float | None:
    """The difference of two numbers; None when one is not known."""
    return score - other if is_number(score) and is_number(other) else None


def differs_after_rounding(difference: float, of_means: float) -> bool:
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
