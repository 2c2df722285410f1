"""How often intervals of means and differences hold the truth, in resampled evaluations of a real history, as Markdown.

A run is one judge's scores of one model on several benchmarks. They are taken for the truth; evaluations of some size
draw questions from them with replacement. Models are halved at random by name: methods were chosen on the first half,
so the second half is reported. The file has the columns judge, model, benchmark, question_id and score (on the
reported scale).
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.statistics.intervals import Estimate, Interval, mean_interval, mean_of_estimates
from shaberi_dagster.statistics.significance import sign_flip_intervals

_SEED = 20_261_122
_FEW = {"elyza": 5, "tengu": 5, "mt_bench": 6, "rakuda": 5}
_SIZES: Mapping[str, Mapping[str, int]] = {"5 / 5 / 6 / 5": _FEW, "10 each": dict.fromkeys(_FEW, 10), "full size": {}}
_LEAST_COVERED = 0.85
_ROUNDING = 1e-9

_Floats = npt.NDArray[np.float64]
_Run = Mapping[str, Mapping[str, float]]
"""Of each benchmark the scores by question."""


@dataclass
class Tally:
    """What became of the intervals of one run."""

    covered: int = 0
    n: int = 0
    width: float = 0.0
    outside: int = 0
    without_width: int = 0

    def add(self, interval: Interval, truth: float, ends: tuple[float, float]) -> None:
        """Count one interval."""
        self.n += 1
        self.covered += interval.lower - _ROUNDING <= truth <= interval.upper + _ROUNDING
        self.width += interval.upper - interval.lower
        self.outside += interval.lower < ends[0] - _ROUNDING or interval.upper > ends[1] + _ROUNDING
        self.without_width += interval.upper - interval.lower < _ROUNDING


def runs_of(history: pl.DataFrame, *, chosen_on: bool) -> Iterator[tuple[str, _Run]]:
    """The judge and the scores by benchmark of each run of one half of the models."""
    models = sorted(history["model"].unique())
    order = np.random.default_rng(1).permutation(len(models))
    half = order[: len(models) // 2] if chosen_on else order[len(models) // 2 :]
    own = history.filter(pl.col("model").is_in([models[index] for index in half]))
    for (judge, _), part in own.sort("judge", "model").partition_by("judge", "model", as_dict=True).items():
        by_benchmark = part.partition_by("benchmark", as_dict=True)
        run = {
            str(name): dict(zip(one["question_id"], one["score"].cast(float), strict=True))
            for (name,), one in sorted(by_benchmark.items())
        }
        if len(run) == len(_FEW):
            yield str(judge), run


def scale(benchmark: str, scores: _Floats) -> tuple[float, float]:
    """The ends of the reported scale, and of scores beyond it."""
    known = ALL_BENCHMARKS[benchmark]
    low, high = (end * known.reported_multiplier for end in (known.scale_minimum, known.scale_maximum))
    return min(low, float(scores.min())), max(high, float(scores.max()))


def means(run: _Run, sizes: Mapping[str, int], repeats: int, generator: np.random.Generator) -> tuple[Tally, Tally]:
    """The interval of the mean of benchmarks as it is, and the t interval of raw standard errors."""
    bounded, raw = Tally(), Tally()
    whole = {name: np.array(list(scores.values())) for name, scores in run.items()}
    truth = float(np.mean([scores.mean() for scores in whole.values()]))
    scales = {name: scale(name, scores) for name, scores in whole.items()}
    ends = tuple(float(np.mean([own[end] for own in scales.values()])) for end in (0, 1))
    for _ in range(repeats):
        drawn = {
            name: generator.choice(scores, sizes.get(name, scores.size)).tolist() for name, scores in whole.items()
        }
        bounded.add(
            _mean([mean_interval(values, scales[name]) for name, values in drawn.items()]), truth, (ends[0], ends[1])
        )
        raw.add(_mean([mean_interval(values) for values in drawn.values()]), truth, (ends[0], ends[1]))
    return bounded, raw


def _mean(estimates: Sequence[Estimate | None]) -> Interval:
    return mean_of_estimates([one for one in estimates if one is not None]).interval


def differences(
    first: _Run, second: _Run, sizes: Mapping[str, int], repeats: int, generator: np.random.Generator
) -> tuple[Tally, Tally]:
    """The interval of the sign-flip test of the mean difference over benchmarks, and the t interval."""
    flipped, raw = Tally(), Tally()
    paired = {
        name: np.array(
            [scores[question] - second[name][question] for question in sorted(scores.keys() & second[name].keys())]
        )
        for name, scores in first.items()
    }
    truth = float(np.mean([values.mean() for values in paired.values()]))
    for _ in range(repeats):
        drawn = {name: generator.choice(values, sizes.get(name, values.size)) for name, values in paired.items()}
        strata = [name for name, values in drawn.items() for _ in values]
        (interval,) = sign_flip_intervals(np.concatenate(list(drawn.values())).tolist(), [0.95], strata)
        if interval:
            flipped.add(interval, truth, (-10, 10))
        raw.add(_mean([mean_interval(values.tolist()) for values in drawn.values()]), truth, (-10, 10))
    return flipped, raw


def row(name: str, tallies: Sequence[Tally]) -> str:
    """A line of a table."""
    shares = np.array([one.covered / one.n for one in tallies])
    n = sum(one.n for one in tallies)
    return (
        f"| {name} | {100 * shares.mean():.1f} | {100 * shares.min():.1f} | {sum(shares < _LEAST_COVERED)} "
        f"| {np.mean([one.width / one.n for one in tallies]):.2f} | {sum(one.outside for one in tallies) / n:.1%} "
        f"| {sum(one.without_width for one in tallies) / n:.1%} |"
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("history", type=Path, help="Parquet file of scores")
    parser.add_argument("--repeats", type=int, default=500, help="evaluations of each run and size")
    parser.add_argument("--pairs", type=int, default=100, help="pairs of runs whose difference is resampled")
    parser.add_argument("--chosen-on", action="store_true", help="the half of the models that methods were chosen on")
    arguments = parser.parse_args()
    runs = list(runs_of(pl.read_parquet(arguments.history), chosen_on=arguments.chosen_on))
    titles = (
        "| interval, questions | % covered | least of a run | runs below 85 | width | outside the scale | no width |"
    )
    print(f"{len(runs)} runs, {arguments.repeats} evaluations each\n\n{titles}\n|---|---|---|---|---|---|---|")  # noqa: T201
    for name, sizes in _SIZES.items():
        generator = np.random.default_rng(_SEED)
        found = [means(run, sizes, arguments.repeats, generator) for _, run in runs]
        for kind, tallies in zip(("bounded", "raw t"), zip(*found, strict=True), strict=True):
            print(row(f"mean, {kind}, {name}", tallies), flush=True)  # noqa: T201
    generator = np.random.default_rng(_SEED)
    places = [sorted(generator.choice(len(runs), 2, replace=False)) for _ in range(20 * arguments.pairs)]
    pairs = [(runs[a][1], runs[b][1]) for a, b in places if runs[a][0] == runs[b][0]][: arguments.pairs]
    for name, sizes in list(_SIZES.items())[1:]:
        found = [differences(*pair, sizes, max(arguments.repeats // 5, 1), generator) for pair in pairs]
        for kind, tallies in zip(("sign-flip", "raw t"), zip(*found, strict=True), strict=True):
            print(row(f"difference ({len(pairs)} pairs), {kind}, {name}", tallies), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
