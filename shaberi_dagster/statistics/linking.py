"""Statistics of a link: how far scores of the same answers moved between two judge prompts, and how sure that is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from shaberi_dagster.statistics.comparison import OVERALL
from shaberi_dagster.statistics.intervals import Interval, t_quantile
from shaberi_dagster.statistics.power import POWER

FEWEST_MODELS = 5
"""Models that a link takes: its interval has a degree of freedom less than it has models."""
_BISECTIONS = 30
_QUANTILES = (np.arange(400) + 0.5) / 400

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Offset:
    """The difference new - old of the scores of some answers, on one benchmark or overall.

    Attributes:
        benchmark: Its name; `overall` for the unweighted mean of the benchmarks.
        n: Answers with both scores.
        n_models: Models that they are of.
        offset: Mean of the differences.
        interval: Of the offset of any answers of any such models; None with fewer than two models.
        standard_error: Of the offset: models and questions are clusters.
        slope: New scores for each old point, both with the same error (orthogonal regression, Deming 1943); None
            where old scores do not vary.
        slope_interval: By leaving out one model after the other.
        spread: Standard deviation of the differences within a benchmark.
        share_equal: Share of answers whose two scores are the same.
    """

    benchmark: str
    n: int
    n_models: int
    offset: float
    interval: Interval | None
    standard_error: float
    slope: float | None
    slope_interval: Interval | None
    spread: float
    share_equal: float

    def is_granted(self, margin: float) -> bool:
        """Return whether the offset is shown to be smaller than a margin."""
        return self.interval is not None and -margin < self.interval.lower and self.interval.upper < margin


def offsets(scores: "pl.DataFrame") -> list[Offset]:
    """Estimate the offsets of some benchmarks, and their unweighted mean at the end if they are several.

    Args:
        scores: A row of each answer: benchmark, model, question_id, old and new score on the reported scale.
    """
    parts = scores.partition_by("benchmark", maintain_order=True)
    found = [_offset(part["benchmark"][0], part) for part in parts]
    return [*found, _offset(OVERALL, scores)] if len(parts) > 1 else found


def _offset(name: str, scores: "pl.DataFrame") -> Offset:
    old, new = (scores[side].to_numpy().astype(np.float64) for side in ("old", "new"))
    benchmarks = _numbers(scores["benchmark"].to_list())
    models = _numbers(scores["model"].to_list())
    questions = _numbers(list(zip(scores["benchmark"], scores["question_id"], strict=True)))
    differences = new - old
    sizes = np.bincount(benchmarks)
    weights = 1 / (len(sizes) * sizes[benchmarks])
    means = np.bincount(benchmarks, differences) / sizes
    residuals = differences - means[benchmarks]
    offset, n_models = float(means.mean()), int(models.max()) + 1
    error, free = clustered_error(residuals * weights, models, questions)
    slope = _slope(old, new, benchmarks, weights)
    others = [models != model for model in range(n_models)] if n_models > 1 else []
    left_out = [_slope(old[rest], new[rest], benchmarks[rest], weights[rest]) for rest in others]
    jackknife_error = float(np.sqrt((n_models - 1) * np.array(left_out, dtype=np.float64).var())) if left_out else 0.0
    return Offset(
        benchmark=name,
        n=len(old),
        n_models=n_models,
        offset=offset,
        interval=_around(offset, t_quantile(free) * error) if n_models > 1 else None,
        standard_error=error,
        slope=slope,
        slope_interval=_around(slope, t_quantile(n_models - 1) * jackknife_error)
        if slope and left_out and None not in left_out
        else None,
        spread=float(np.sqrt(np.mean(np.bincount(benchmarks, residuals**2) / np.maximum(sizes - 1, 1)))),
        share_equal=float(np.mean(np.bincount(benchmarks, differences == 0) / sizes)),
    )


def _numbers(values: Sequence[object]) -> npt.NDArray[np.int64]:
    places: dict[object, int] = {}
    return np.array([places.setdefault(value, len(places)) for value in values])


def clustered_error(
    residuals: _Floats, models: npt.NDArray[np.int64], questions: npt.NDArray[np.int64]
) -> tuple[float, float]:
    """Return the standard error of a sum whose terms are clustered in two ways, and its degrees of freedom.

    The variance is that between models and what questions add to that of single terms (Cameron, Gelbach and Miller
    2011), which is nothing where it comes out negative. Its degrees of freedom are Satterthwaite's (1946); models that
    happen to differ by less than their terms do are not taken for a reason to be surer.

    Args:
        residuals: Of the terms, weights included.
        models: The model of each, as a number from 0.
        questions: The question of each, as a number from 0.
    """
    of_terms = float((residuals**2).sum())
    by_question = np.bincount(questions, residuals)
    of_questions = max(float((by_question**2).sum()) - of_terms, 0.0)
    n_models, n_questions = int(models.max()) + 1, len(by_question)
    of_models = float((np.bincount(models, residuals) ** 2).sum()) * n_models / max(n_models - 1, 1)
    least = max(of_models, of_terms)
    if not least:
        return 0.0, n_models - 1
    uncertainty = least**2 / max(n_models - 1, 1) + of_questions**2 / max(n_questions - 1, 1)
    return math.sqrt(of_models + of_questions), (least + of_questions) ** 2 / uncertainty


def _slope(old: _Floats, new: _Floats, benchmarks: npt.NDArray[np.int64], weights: _Floats) -> float | None:
    """Return the slope of the orthogonal regression within benchmarks; None where old and new do not vary together."""
    totals = np.bincount(benchmarks, weights)
    x, y = (values - (np.bincount(benchmarks, weights * values) / totals)[benchmarks] for values in (old, new))
    xx, yy, xy = (float((weights * product).sum()) for product in (x * x, y * y, x * y))
    return (yy - xx + math.hypot(yy - xx, 2 * xy)) / (2 * xy) if xy > 0 else None


def _around(value: float, reach: float) -> Interval:
    return Interval(value - reach, value + reach)


def chance_granted(error: float, n_models: int, margin: float, offset: float = 0.0) -> float:
    """Return the probability that the interval of an offset lies within the margin.

    The estimate is normal and its variance, independent of it, chi-squared with a degree of freedom less than models.

    Args:
        error: The true standard error.
        n_models: Models in the link.
        margin: Offsets below it do not matter.
        offset: The true one.
    """
    from scipy import special, stats

    if not error:
        return float(abs(offset) < margin)
    free = n_models - 1
    errors = error * np.sqrt(stats.chi2.ppf(_QUANTILES, free) / free)
    room = margin - t_quantile(free) * errors
    inside = special.ndtr((room - offset) / error) - special.ndtr((-room - offset) / error)
    return float(np.where(room > 0, inside, 0.0).mean())


def planned_error(spreads: Mapping[str, float], sizes: Mapping[str, int], n_models: int) -> float:
    """Return the standard error that a link will have where answers differ by nothing but the judge's own noise.

    Args:
        spreads: Standard deviation of new - old by benchmark.
        sizes: Questions of each model, by benchmark.
        n_models: Models in the link.
    """
    variances = [spreads[name] ** 2 / (n_models * size) for name, size in sizes.items()]
    return math.sqrt(math.fsum(variances)) / len(sizes)


def error_needed(n_models: int, margin: float, offset: float = 0.0) -> float | None:
    """Return the largest standard error with which an offset is granted with probability `POWER`; None if none is.

    Args:
        n_models: Models in the link.
        margin: Offsets below it do not matter.
        offset: The true one.
    """
    if abs(offset) >= margin:
        return None
    low, high = 0.0, margin
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        is_enough = chance_granted(middle, n_models, margin, offset) >= POWER
        low, high = (middle, high) if is_enough else (low, middle)
    return low or None
