"""How good the intervals and tests are: their coverage, false alarms and power in simulated evaluations, as Markdown.

Scores are drawn with the frequencies that real judges gave to real models; everything is seeded, so that two runs print
the same. docs/design/statistics.md sums its output up.

With --links SCORES (Parquet: judge, model, benchmark, question_id and score on the reported scale): coverage of the
interval of a link, and how often the link is granted. Both rounds of a judge are made of a real one: a score is the
stored one in one round, and in the other it differs as often as scores of the judge did that judged the same 3,200
answers twice (gpt-4.1: 4 % of ELYZA's, 15 % of Tengu's, 27 % of MT-Bench's, 29 % of Rakuda's). The offset moves some
scores of the new round by one step. Models and questions may also have offsets of their own, which are no part of the
truth.
"""

import argparse
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from shaberi_dagster.statistics.intervals import (
    Interval,
    clustered_mean_interval,
    mean_interval,
    mean_of_estimates,
    paired_proportions_interval,
    wilson_interval,
)
from shaberi_dagster.statistics.linking import Offset, offsets
from shaberi_dagster.statistics.power import fisher_power, mcnemar_power
from shaberi_dagster.statistics.significance import (
    fisher_lower_tail,
    holm,
    mcnemar_exact,
    sign_flip_test,
)
from shaberi_dagster.statistics.ties import compare_pairs

_SEED = 20_251_121
_SIZES = (20, 40, 60, 100, 120)
_SHARE, _CHURN = 0.7, 0.17

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Population:
    """Scores that some judge gives to some model on some benchmark.

    Attributes:
        counts: How often each score was given, from 0 on.
        bounds: Ends of the scale.
    """

    counts: tuple[int, ...]
    bounds: tuple[float, float]

    @property
    def shares(self) -> _Floats:
        """Probability of each score."""
        return np.array(self.counts) / sum(self.counts)

    @property
    def mean(self) -> float:
        """The true mean."""
        return float(self.shares @ np.arange(len(self.counts)))

    def sample(self, generator: np.random.Generator, shape: tuple[int, ...]) -> _Floats:
        """Scores of independent questions."""
        return generator.choice(len(self.counts), p=self.shares, size=shape).astype(np.float64)

    def at(self, quantile: _Floats) -> _Floats:
        """The scores at quantiles of the population, for scores that depend on each other."""
        return np.searchsorted(np.cumsum(self.shares)[:-1], quantile, side="right").astype(np.float64)


POPULATIONS = {
    "0-10, strong model (71 % tens)": Population((3, 2, 3, 1, 3, 3, 4, 4, 3, 9, 85), (0, 10)),
    "0-10, middling": Population((0, 10, 10, 6, 8, 6, 8, 7, 10, 15, 40), (0, 10)),
    "0-10, weak (37 % zeros)": Population((43, 22, 4, 1, 1, 4, 7, 5, 6, 4, 18), (0, 10)),
    "1-10, narrow": Population((0, 0, 0, 2, 3, 0, 3, 8, 18, 5, 1), (1, 10)),
    "1-10, strong, 6 % ones": Population((0, 4, 0, 1, 0, 1, 0, 2, 3, 14, 35), (1, 10)),
    "1-10, strong, 8 % ones": Population((0, 3, 0, 0, 0, 0, 1, 1, 0, 11, 24), (1, 10)),
    "1-5, strong": Population((0, 2, 2, 13, 15, 68), (1, 5)),
    "1-5, weak": Population((0, 50, 19, 8, 17, 6), (1, 5)),
    "0/1, 90 % right": Population((1, 9), (0, 1)),
}


def _covered(intervals: Iterable[Interval | None], truth: float) -> str:
    inside = [one is not None and one.lower <= truth <= one.upper for one in intervals]
    return f"{100 * np.mean(inside):.1f}"


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    _say(f"\n### {title}\n")
    _say("| " + " | ".join(columns) + " |")
    _say("|" + "---|" * len(columns))
    for row in rows:
        _say("| " + " | ".join(map(str, row)) + " |")


def coverage_of_means(generator: np.random.Generator, repeats: int) -> None:
    """One score per question."""

    def row(name: str, population: Population) -> list[str]:
        cells = [name]
        for n in _SIZES:
            samples = population.sample(generator, (repeats, n)).tolist()
            bounded = [mean_interval(sample, population.bounds) for sample in samples]
            plain = [mean_interval(sample) for sample in samples]
            cells.append(
                " / ".join(_covered((e and e.interval for e in found), population.mean) for found in (bounded, plain))
            )
        return cells

    columns = ("scores", *(f"n = {n}" for n in _SIZES))
    _table("Mean, % covered: bounded interval / t interval", columns, (row(*item) for item in POPULATIONS.items()))


def coverage_of_clusters(generator: np.random.Generator, repeats: int, samples: int = 5) -> None:
    """Several samples of each question, correlated by the question's difficulty."""

    def row(name: str, population: Population) -> list[str]:
        cells = [name]
        for n in _SIZES:
            latent = math.sqrt(0.7) * generator.normal(size=(repeats, n, 1)) + math.sqrt(0.3) * generator.normal(
                size=(repeats, n, samples)
            )
            scores = population.at(special.ndtr(latent)).reshape(repeats, -1).tolist()
            questions = np.repeat(np.arange(n), samples).tolist()
            clustered = [clustered_mean_interval(one, questions, population.bounds) for one in scores]
            ignored = [mean_interval(one, population.bounds) for one in scores]
            cells.append(
                " / ".join(
                    _covered((e and e.interval for e in found), population.mean) for found in (clustered, ignored)
                )
            )
        return cells

    columns = ("scores", *(f"{n} questions" for n in _SIZES))
    chosen = {name: POPULATIONS[name] for name in list(POPULATIONS)[:5]}
    title = (
        f"Mean of {samples} samples a question (correlation of quantiles 0.7), % covered: clustered / clusters ignored"
    )
    _table(title, columns, (row(*item) for item in chosen.items()))


def _pairs(
    generator: np.random.Generator, population: Population, shape: tuple[int, ...], shift: float = 0.0
) -> tuple[_Floats, _Floats]:
    """Scores of two systems on the same questions; `shift` moves the first's quantiles."""
    common = math.sqrt(0.6) * generator.normal(size=shape)
    own = math.sqrt(0.4) * generator.normal(size=(2, *shape))
    return population.at(special.ndtr(common + own[0] + shift)), population.at(special.ndtr(common + own[1]))


def coverage_of_differences(generator: np.random.Generator, repeats: int) -> None:
    """Paired scores, with and without a difference, and the mean of four benchmarks."""
    chosen = {name: POPULATIONS[name] for name in list(POPULATIONS)[:8]}

    def true_difference(population: Population, shift: float) -> float:
        cumulative = np.cumsum(population.shares)[:-1]
        return float(np.sum(cumulative - special.ndtr(special.ndtri(cumulative) - shift)))

    def row(name: str, population: Population) -> list[str]:
        cells = [name]
        for n in _SIZES:
            found = []
            for shift in (0.0, 0.4):
                a, b = _pairs(generator, population, (repeats, n), shift)
                estimates = map(mean_interval, (a - b).tolist())
                found.append(_covered((e and e.interval for e in estimates), true_difference(population, shift)))
            cells.append(" / ".join(found))
        return cells

    columns = ("scores", *(f"n = {n}" for n in _SIZES))
    title = "Paired mean difference, % covered: equal systems / the first better by 0.4 sd of the quantiles"
    _table(title, columns, (row(*item) for item in chosen.items()))

    sizes = {"1-5, strong": 100, "0-10, middling": 120, "1-10, strong, 6 % ones": 60, "1-10, narrow": 40}
    truth = float(np.mean([true_difference(POPULATIONS[name], 0.4) for name in sizes]))
    parts = [_pairs(generator, POPULATIONS[name], (repeats, n), 0.4) for name, n in sizes.items()]
    intervals = []
    for i in range(repeats):
        estimates = [mean_interval((a[i] - b[i]).tolist()) for a, b in parts]
        intervals.append(mean_of_estimates([one for one in estimates if one]).interval)
    _say(
        f"\nMean difference over four benchmarks (100, 120, 60, 40 questions): {_covered(intervals, truth)} % covered."
    )


def coverage_of_proportions(generator: np.random.Generator, repeats: int) -> None:
    """Wilson's and Tango's intervals."""

    def wilson_row(share: float) -> list[object]:
        found = []
        for n in (*_SIZES, 300):
            counts = generator.binomial(n, share, repeats)
            found.append(_covered((wilson_interval(int(k), n) for k in counts), share))
        return [share, *found]

    columns = ("share", *(f"n = {n}" for n in (*_SIZES, 300)))
    _table("Wilson's interval of a proportion, % covered", columns, map(wilson_row, (0.5, 0.7, 0.9, 0.95)))

    def tango_row(only_first: float, only_second: float) -> list[object]:
        found = []
        for n in (*_SIZES, 300):
            counts = generator.multinomial(n, [only_first, only_second, 1 - only_first - only_second], repeats)
            intervals = (paired_proportions_interval(int(b), int(c), n) for b, c, _ in counts)
            found.append(_covered(intervals, only_first - only_second))
        return [f"{only_first} / {only_second}", *found]

    columns = ("only first / only second right", *columns[1:])
    shares = ((0.05, 0.05), (0.1, 0.1), (0.15, 0.05), (0.02, 0.1), (0.3, 0.1))
    _table("Tango's interval of a paired difference, % covered", columns, (tango_row(*pair) for pair in shares))


def tests_of_scores(generator: np.random.Generator, repeats: int) -> None:
    """The sign-flip test: false positives and power, beside the t test's."""

    def rejected(a: _Floats, b: _Floats) -> tuple[float, float]:
        differences = a - b
        flips = [sign_flip_test(one.tolist()).p_value <= 0.05 for one in differences]  # noqa: PLR2004
        error = differences.std(axis=1, ddof=1) / math.sqrt(differences.shape[1])
        t = np.abs(differences.mean(axis=1)) / np.where(error > 0, error, np.inf)
        return float(np.mean(flips)), float(np.mean(t > special.stdtrit(differences.shape[1] - 1, 0.975)))

    def row(name: str, population: Population, shift: float) -> list[str]:
        found = (rejected(*_pairs(generator, population, (repeats, n), shift)) for n in _SIZES)
        return [name, *(f"{100 * flip:.1f} / {100 * t:.1f}" for flip, t in found)]

    columns = ("scores", *(f"n = {n}" for n in _SIZES))
    chosen = {name: POPULATIONS[name] for name in list(POPULATIONS)[:8]}
    for title, shift in (("equal systems", 0.0), ("the first better by 0.4 sd of the quantiles", 0.4)):
        rows = (row(name, population, shift) for name, population in chosen.items())
        _table(f"Differences found at 0.05, % (sign-flip test / t test): {title}", columns, rows)


def tests_of_many_runs(generator: np.random.Generator, repeats: int) -> None:
    """How often some of equal runs, or some benchmark of two equal systems, is said to differ."""
    population, benchmarks = POPULATIONS["0-10, middling"], ["a"] * 40 + ["b"] * 60

    def ties_row(n_runs: int) -> list[object]:
        wrong = []
        for _ in range(repeats):
            latent = math.sqrt(0.6) * generator.normal(size=100) + math.sqrt(0.4) * generator.normal(size=(n_runs, 100))
            scores = population.at(special.ndtr(latent))[:, :, None]
            adjusted = compare_pairs(scores, benchmarks).adjusted_p_values
            wrong.append(bool((adjusted <= 0.05).any()))  # noqa: PLR2004
        return [n_runs, f"{100 * np.mean(wrong):.1f}"]

    _table("Equal runs of which some pair is said to differ, % of 0.05", ("runs", "%"), map(ties_row, (2, 5, 20, 50)))

    found = []
    for _ in range(repeats):
        p_values = []
        for name, n in zip(list(POPULATIONS)[:4], (100, 120, 60, 40), strict=True):
            a, b = _pairs(generator, POPULATIONS[name], (n,))
            p_values.append(sign_flip_test((a - b).tolist()).p_value)
        found.append(min(holm(p_values)) <= 0.05)  # noqa: PLR2004
    _say(f"\nSome of four benchmarks of two equal systems said to differ (Holm, 0.05): {100 * np.mean(found):.1f} %.")


def regression_gates(generator: np.random.Generator, repeats: int, alpha: float = 0.1) -> None:
    """Ten datasets, the same questions again: false alarms and power of the paired and of Fisher's gate.

    A question's chance to be answered right is Beta distributed, such that 70 % are right and two answers of the same
    system disagree on 17 % of the questions (42 % if questions were all equally hard); a regression lowers all chances
    by the same factor.
    """
    concentration = _CHURN / (2 * _SHARE * (1 - _SHARE) - _CHURN)
    a, b = _SHARE * concentration, (1 - _SHARE) * concentration

    def alarms(n: int, drop: float) -> list[float]:
        found = {"paired pooled": 0, "paired datasets": 0, "Fisher pooled": 0, "Fisher datasets": 0}
        for _ in range(repeats):
            chance = generator.beta(a, b, (10, n))
            baseline = generator.random((10, n)) < chance
            current = generator.random((10, n)) < chance * (1 - drop / _SHARE)
            gains, losses = (current & ~baseline).sum(axis=1), (baseline & ~current).sum(axis=1)
            pairs = [(int(gain), int(loss)) for gain, loss in zip(gains, losses, strict=True)]
            right = [(int(x), int(y)) for x, y in zip(baseline.sum(axis=1), current.sum(axis=1), strict=True)]
            total = sum(x for x, _ in right), sum(y for _, y in right)
            fisher = [fisher_lower_tail(x, n - x, y, n - y) for x, y in right]
            found["paired pooled"] += mcnemar_exact(int(gains.sum()), int(losses.sum()), "less") <= alpha
            found["paired datasets"] += min(holm([mcnemar_exact(*pair, "less") for pair in pairs])) <= alpha
            found["Fisher pooled"] += (
                fisher_lower_tail(total[0], 10 * n - total[0], total[1], 10 * n - total[1]) <= alpha
            )
            found["Fisher datasets"] += min(holm(fisher)) <= alpha
        return [count / repeats for count in found.values()]

    rows = [
        [n, f"{100 * drop:.0f} points", *(f"{100 * share:.1f}" for share in alarms(n, drop))]
        for n in (30, 100)
        for drop in (0.0, 0.05, 0.1, 0.15)
    ]
    columns = (
        "n a dataset",
        "drop",
        "paired, pooled",
        "paired, any dataset (Holm)",
        "Fisher, pooled",
        "Fisher, any dataset (Holm)",
    )
    _table(f"Alarms over ten datasets at {alpha}, %", columns, rows)

    exact = [
        [
            n,
            f"{100 * drop:.0f} points",
            f"{100 * mcnemar_power(drop, n, _CHURN, alpha):.1f}",
            f"{100 * fisher_power(_SHARE, drop, n, n, alpha):.1f}",
        ]
        for n in (30, 100)
        for drop in (0.05, 0.1, 0.15)
    ]
    _table(
        f"One dataset at {alpha}, %, by formula", ("n", "drop", "McNemar, churn 0.17", "Fisher, baseline 0.7"), exact
    )


_PARTS: dict[str, tuple[Callable[[np.random.Generator, int], None], int]] = {
    "means": (coverage_of_means, 4),
    "clusters": (coverage_of_clusters, 1),
    "differences": (coverage_of_differences, 2),
    "proportions": (coverage_of_proportions, 4),
    "scores": (tests_of_scores, 1),
    "many": (tests_of_many_runs, 1),
    "gates": (regression_gates, 1),
}


CHANGED: Mapping[str, float] = {"elyza": 0.04, "tengu": 0.15, "mt_bench": 0.27, "rakuda": 0.29}
"""Share of scores that a second round changes."""
_STEP: Mapping[str, float] = {"elyza": 2.0, "tengu": 1.0, "mt_bench": 1.0, "rakuda": 1.0}
_TWO_STEPS, _SEED_OF_LINKS, _MARGIN = 0.15, 20_261_127, 0.2
_JUDGE_OF_LINKS = "gpt-4.1-2025-04-14"
_FEWEST_QUESTIONS = 300


@dataclass(frozen=True)
class Design:
    """A simulated link.

    Attributes:
        offset: The true one.
        n_models: Models.
        n_questions: Questions of each.
        of_models: Standard deviation of the models' own offsets.
        of_questions: Standard deviation of the questions'.
    """

    offset: float
    n_models: int
    n_questions: int
    of_models: float = 0.0
    of_questions: float = 0.0


DESIGNS = [
    *(Design(offset, n_models, 100) for n_models in (8, 5) for offset in (0.0, 0.1, 0.3)),
    *(Design(offset, 8, 100, 0.1, 0.3) for offset in (0.0, 0.3)),
]


def simulated(history: pl.DataFrame, design: Design, generator: np.random.Generator) -> list[Offset]:
    """Return the offsets that a link finds, of models drawn from a history."""
    sizes = history.group_by("model").len().filter(pl.col("len") >= _FEWEST_QUESTIONS)["model"].sort().to_list()
    models = generator.choice(sizes, design.n_models, replace=False).tolist()
    of_models = dict(zip(models, generator.normal(0, design.of_models, len(models)), strict=True))
    of_questions: dict[str, float] = defaultdict(lambda: float(generator.normal(0, design.of_questions)))
    each, parts = design.n_questions // len(CHANGED), []
    chosen = history.filter(pl.col("model").is_in(models)).sort("model", "benchmark", "question_id")
    for (model, benchmark), rows in chosen.partition_by(
        "model", "benchmark", as_dict=True, maintain_order=True
    ).items():
        drawn = rows[np.sort(generator.permutation(rows.height)[:each])]
        own = [of_models[model] + of_questions[question] for question in drawn["question_id"]]
        old, new = _rounds(drawn["score"].to_numpy().astype(np.float64), benchmark, design.offset, generator)
        part = drawn.select("benchmark", "model", "question_id").with_columns(old=old, new=new + np.array(own))
        parts.append(part)
    return offsets(pl.concat(parts).sort("benchmark", maintain_order=True))


def _rounds(scores: _Floats, benchmark: str, offset: float, generator: np.random.Generator) -> tuple[_Floats, _Floats]:
    """Make two rounds of a judge from one, of which the second is higher by an offset on average."""
    step, n = _STEP[benchmark], len(scores)
    sizes = step * np.where(generator.random(n) < _TWO_STEPS, 2, 1) * generator.choice([-1, 1], n)
    changes = np.where(generator.random(n) < CHANGED[benchmark], sizes, 0)
    in_new = generator.integers(2, size=n) == 1  # neither round is the true one
    return scores + changes * ~in_new, scores + changes * in_new + step * (generator.random(n) < offset / step)


def _row(design: Design, found: Sequence[Sequence[Offset]]) -> str:
    """A line of the table: per cent covered and granted, by benchmark."""
    covered, granted, counts = Counter[str](), Counter[str](), Counter[str]()
    for offset in (offset for offsets_of_link in found for offset in offsets_of_link):
        if offset.interval:
            counts[offset.benchmark] += 1
            covered[offset.benchmark] += offset.interval.lower <= design.offset <= offset.interval.upper
            granted[offset.benchmark] += offset.is_granted(_MARGIN)
    slopes = [link[-1].slope_interval for link in found]
    straight = np.mean([bool(slope and slope.lower <= 1 <= slope.upper) for slope in slopes])
    cells = [f"{100 * share[name] / counts[name]:.1f}" for share in (covered, granted) for name in counts]
    about = (design.offset, design.n_models, design.n_questions, design.of_models, design.of_questions)
    return f"| {' | '.join(map(str, about))} | {' | '.join(cells)} | {100 * straight:.1f} |"


def _links(history: pl.DataFrame, repeats: int) -> None:
    names = ["elyza", "mt_bench", "rakuda", "tengu", "overall"]
    titles = ["offset", "models", "questions", "sd of models", "sd of questions"]
    titles += [f"{what} {name}" for what in ("covered", "granted") for name in names] + ["slope 1 covered"]
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")  # noqa: T201
    for design in DESIGNS:
        generator = np.random.default_rng(_SEED_OF_LINKS)
        print(_row(design, [simulated(history, design, generator) for _ in range(repeats)]), flush=True)  # noqa: T201


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*_PARTS, []], help="which tables; none: all")
    parser.add_argument("--repeats", type=int, default=2000, help="simulated evaluations (intervals: up to 4 times)")
    parser.add_argument("--links", type=Path, metavar="SCORES", help="links between rounds of these scores instead")
    options = parser.parse_args()
    if options.links:
        _links(pl.read_parquet(options.links).filter(judge=_JUDGE_OF_LINKS), options.repeats)
        return
    for name in options.parts or _PARTS:
        simulate, factor = _PARTS[name]
        simulate(np.random.default_rng(_SEED), factor * options.repeats)


if __name__ == "__main__":
    main()
