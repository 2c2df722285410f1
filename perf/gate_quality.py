"""How good the regression gates are: false alarms and power in simulated evaluations, as Markdown.

Ten datasets and five strategies; the baseline and the current run answer the same questions. The gates are those of
`shaberi_dagster.statistics.gates`. Everything is seeded, so that two runs print the same. Part of its
output is in docs/design/gates.md.
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import special

from shaberi_dagster.statistics.gates import Tally, fisher_gate, paired_gate, pool

_SEED = 20_260_219
_AT_ONCE = 200
_QUANTILES = 4000
_SAMPLES = 5
STRATEGIES = ("single", "plurality", "standard", "majority", "elo")
ACCURACIES = (0.95, 0.92, 0.90, 0.85, 0.75, 0.70, 0.60, 0.50, 0.40, 0.25)
"""Of the datasets: from arithmetic to questions for experts, 68 % on average."""
MEASURED, PESSIMISTIC = 0.8, 0.6
"""Intraclass correlation of two answers to a question: of real caches (`--corpus` measures it), and a lower one."""

_Floats = npt.NDArray[np.float64]
_Right = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Scenario:
    """What is simulated.

    Attributes:
        n: Questions of a dataset.
        drop: How much lower the current accuracy is.
        correlation: Intraclass correlation of two answers to a question.
        broken: The only dataset that drops; None for all of them.
        copies: How often a strategy other than single and plurality answers as plurality does; else it takes one of
            the samples.
    """

    n: int
    drop: float = 0.0
    correlation: float = MEASURED
    broken: int | None = None
    copies: float = 0.8


@dataclass(frozen=True)
class Alarms:
    """Shares of simulated checks that failed.

    Attributes:
        paired: The gate `paired`.
        fisher: The gate `fisher`, pooled over datasets.
        fisher_datasets: The gate `fisher`, on each dataset.
    """

    paired: float
    fisher: float
    fisher_datasets: float


def alarms(scenario: Scenario, repeats: int, seed: int = _SEED, significance: float = 0.1) -> Alarms:
    """How often each gate fails."""
    generator = np.random.default_rng(seed)
    found = np.zeros(3)
    for start in range(0, repeats, _AT_ONCE):
        count = min(_AT_ONCE, repeats - start)
        baseline, current = _runs(generator, scenario, count)
        counts = [
            one.sum(axis=-1).tolist() for one in (baseline, current, baseline & ~current, current & ~baseline)
        ]  # each repeats x strategies x datasets
        for repeat in range(count):
            tallies = [
                Tally(strategy, str(dataset), scenario.n, scenario.n, right, now, scenario.n, scenario.n, losses, gains)
                for s, strategy in enumerate(STRATEGIES)
                for dataset, (right, now, losses, gains) in enumerate(
                    zip(*(one[repeat][s] for one in counts), strict=True)
                )
            ]
            found += [
                any(test.regressed for test in tests)
                for tests in (
                    paired_gate(tallies, significance),
                    fisher_gate(pool(tallies), significance),
                    fisher_gate(tallies, significance),
                )
            ]
    return Alarms(*(float(share) for share in found / repeats))


def _runs(generator: np.random.Generator, scenario: Scenario, repeats: int) -> tuple[_Right, _Right]:
    """What baseline and current run get right: repeats x strategies x datasets x questions.

    A question has a place among the questions of its dataset; its chance to be answered right is that quantile of a
    Beta distribution, in which the dataset's accuracy is the mean. The current run has the same questions in the same
    order of difficulty.
    """
    shape = (repeats, len(STRATEGIES), len(ACCURACIES), scenario.n)
    runs = np.empty(shape, dtype=bool), np.empty(shape, dtype=bool)
    for dataset, accuracy in enumerate(ACCURACIES):
        places = generator.integers(0, _QUANTILES, (repeats, scenario.n))
        drop = scenario.drop if scenario.broken in {None, dataset} else 0.0
        for right, share in zip(runs, (accuracy, accuracy - drop), strict=True):
            chance = _chances(share, scenario.correlation)[places]
            right[:, :, dataset] = _answers(generator, chance, scenario.copies)
    return runs


def _chances(accuracy: float, correlation: float) -> _Floats:
    concentration = 1 / correlation - 1
    quantiles = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    chances: _Floats = special.betaincinv(accuracy * concentration, (1 - accuracy) * concentration, quantiles)
    return chances


def _answers(generator: np.random.Generator, chance: _Floats, copies: float) -> _Right:
    """Repeats x strategies x questions: single is a sample of its own, the others share five."""
    samples = generator.random((_SAMPLES, *chance.shape)) < chance
    plurality = samples.sum(axis=0) > _SAMPLES // 2
    right = [generator.random(chance.shape) < chance, plurality]
    for _ in STRATEGIES[2:]:
        some = np.take_along_axis(samples, generator.integers(0, _SAMPLES, (1, *chance.shape)), axis=0)[0]
        right.append(np.where(generator.random(chance.shape) < copies, plurality, some))
    return np.stack(right, axis=1)


def measured_correlation(corpus: Path) -> list[tuple[str, int, float, float, float]]:
    """Of the cached samples with a verdict: dataset, questions, accuracy, churn and intraclass correlation.

    Churn is how often two answers to a question differ in being right: 2 k (n - k) / (n (n - 1)) for k right ones of
    n, averaged over questions. Between questions of equal difficulty it would be 2 p (1 - p); the correlation is one
    minus their ratio, and that of all datasets the ratio of the sums.
    """
    by_dataset = defaultdict(list)
    with (corpus / "golden" / "majority_vote_per_question.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["n_checked_correct"] and int(row["n_ok"]) > 1:
                by_dataset[row["dataset"]].append((int(row["n_checked_correct"]), int(row["n_ok"])))
    found, churns, independents = [], [], []
    for dataset, counts in by_dataset.items():
        right, n = np.array(counts, dtype=np.float64).T
        accuracy = float((right / n).mean())
        churn = float((2 * right * (n - right) / (n * (n - 1))).mean())
        independent = 2 * accuracy * (1 - accuracy)
        found.append((dataset, len(counts), accuracy, churn, 1 - churn / independent))
        churns.append(churn)
        independents.append(independent)
    total = sum(row[1] for row in found)
    mean = float(np.mean([row[2] for row in found]))
    return [*found, ("all", total, mean, float(np.mean(churns)), 1 - sum(churns) / sum(independents))]


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    _say(f"\n### {title}\n")
    _say("| " + " | ".join(columns) + " |")
    _say("|" + "---|" * len(columns))
    for row in rows:
        _say("| " + " | ".join(map(str, row)) + " |")


def _rows(scenarios: Iterable[tuple[str, Scenario]], repeats: int) -> Iterable[Sequence[object]]:
    for what, scenario in scenarios:
        shares = vars(alarms(scenario, repeats)).values()
        yield [scenario.correlation, scenario.n, what, *(f"{100 * share:.1f}" for share in shares)]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2000, help="simulated checks of each kind")
    parser.add_argument("--corpus", type=Path, help="folder of real data: measure the correlation of its samples")
    options = parser.parse_args()
    if options.corpus:
        rows = [
            (name, n, *(f"{value:.3f}" for value in values))
            for name, n, *values in measured_correlation(options.corpus)
        ]
        _table("Cached samples", ("dataset", "questions", "accuracy", "churn", "correlation"), rows)
    columns = ("correlation", "n a dataset", "current run", "paired", "Fisher, pooled", "Fisher, datasets")
    sizes = [(correlation, n) for correlation in (MEASURED, PESSIMISTIC) for n in (30, 100)]
    everywhere = [
        (f"{100 * drop:.0f} points lower" if drop else "equal", Scenario(n, drop, correlation))
        for correlation, n in sizes
        for drop in (0.0, 0.05, 0.1, 0.15)
    ]
    _table("Checks that fail, %", columns, _rows(everywhere, options.repeats))
    others = [
        (what, Scenario(n, correlation=correlation, **changes))
        for correlation, n in sizes
        for what, changes in (
            ("equal, strategies without a common answer", {"copies": 0.0}),
            ("30 points lower on one dataset", {"drop": 0.3, "broken": 3}),
        )
    ]
    _table("Checks that fail, %: other cases", columns, _rows(others, options.repeats))


if __name__ == "__main__":
    main()
