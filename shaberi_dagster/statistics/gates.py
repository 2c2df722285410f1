"""The gates `paired` and `fisher`: whether a run got worse than another, tested on counts.

Why the tests are what they are is in docs/design/gates.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from shaberi_dagster.statistics.power import detectable_fisher_drop, detectable_paired_drop
from shaberi_dagster.statistics.significance import fisher_lower_tail, holm, mcnemar_exact

Gate = Literal["paired", "fisher"]
SIGNIFICANCE = 0.10
"""Level of the original gate: at most one false alarm in ten checks."""


@dataclass(frozen=True)
class Tally:
    """Counts of the questions of a dataset that the baseline and the run got right by one strategy.

    A question without a verdict (a failure, or no one can tell) is not right.

    Attributes:
        strategy: The strategy; `single` is one answer as it is.
        benchmark: The dataset; None for all of them.
        n_baseline: Questions of the baseline.
        n_current: Questions of the run.
        baseline_correct: How many of them the baseline got right.
        current_correct: How many of them the run got right.
        baseline_scored: How many of the baseline's have a verdict.
        current_scored: How many of the run's have a verdict.
        losses: Common questions that only the baseline got right; None where questions are not paired.
        gains: Common questions that only the run got right; None likewise.
    """

    strategy: str
    benchmark: str | None
    n_baseline: int
    n_current: int
    baseline_correct: int
    current_correct: int
    baseline_scored: int
    current_scored: int
    losses: int | None = None
    gains: int | None = None

    @property
    def baseline_accuracy(self) -> float | None:
        """Share of the baseline's questions that it got right."""
        return _share(self.baseline_correct, self.n_baseline)

    @property
    def current_accuracy(self) -> float | None:
        """Share of the run's questions that it got right."""
        return _share(self.current_correct, self.n_current)

    @property
    def baseline_scored_accuracy(self) -> float | None:
        """Share of those with a verdict that the baseline got right."""
        return _share(self.baseline_correct, self.baseline_scored)

    @property
    def current_scored_accuracy(self) -> float | None:
        """Share of those with a verdict that the run got right."""
        return _share(self.current_correct, self.current_scored)

    @property
    def delta(self) -> float | None:
        """current_accuracy - baseline_accuracy."""
        return difference(self.current_accuracy, self.baseline_accuracy)

    @property
    def worst(self) -> "Tally":
        """The same questions, had the run lost all that the baseline got right and won none."""
        paired = self.losses is not None
        return replace(
            self,
            current_correct=0,
            losses=self.baseline_correct if paired else None,
            gains=0 if paired else None,
        )

    @property
    def discordant(self) -> int:
        """Common questions that one of them got right."""
        return (self.losses or 0) + (self.gains or 0)


@dataclass(frozen=True)
class GateTest:
    """A test of a gate.

    Attributes:
        tally: What it tests.
        p_value: One-sided; small when the run is worse.
        adjusted_p_value: For all tests of the gate; None when this one could not have failed whatever its discordant
            questions had said, so that it is not one of the gate's tests.
        level: At which it is tested while no other test has failed.
        regressed: Whether the run is shown to be worse.
    """

    tally: Tally
    p_value: float
    adjusted_p_value: float | None
    level: float
    regressed: bool

    @cached_property
    def minimum_detectable_effect(self) -> float | None:
        """The drop of the accuracy that the test sees with probability 0.8 at `level`; None if it sees none.

        Paired questions are taken to change as often as they did here, as many for the better as for the worse.
        """
        tally = self.tally
        accuracy = tally.baseline_accuracy
        if not accuracy or not tally.n_current:
            return None
        if tally.losses is None:
            return detectable_fisher_drop(accuracy, tally.n_baseline, tally.n_current, self.level)
        drop = detectable_paired_drop(tally.n_current, tally.discordant / tally.n_current, self.level)
        return drop if drop is not None and drop <= accuracy else None


def paired_gate(tallies: Sequence[Tally], significance: float = SIGNIFICANCE) -> tuple[GateTest, ...]:
    """McNemar's exact test of each strategy over all datasets, and on each dataset; one-sided: worse.

    Over several datasets the sums of losses and gains are tested, which is exact whatever the datasets' sizes and
    difficulties are. Half of the level is for these pooled tests, which see a drop everywhere, half for the tests of
    single datasets, which see one that breaks; both halves are one family of Holm's method with weights, so that at
    most `significance` of the checks of an equal run fail.

    Tests with too few discordant questions to fail are left out of the family first (Tarone 1990, Biometrics 46:515).
    How many questions are discordant says nothing about their direction, so that this costs no level. With one dataset
    there are only the pooled tests.

    Args:
        tallies: Of each strategy and dataset, with losses and gains.
        significance: Level of all tests together.

    Returns:
        Of each strategy the pooled test, then the datasets.
    """
    pooled = pool(tallies)
    single = tallies if len({tally.benchmark for tally in tallies}) > 1 else ()
    testable = _testable(single, significance / 2)
    share = significance / 2 if testable else significance
    levels = _levels(pooled, share) | _levels(single, significance / 2)
    of_strategy = {head: [tally for tally in single if tally.strategy == head.strategy] for head in pooled}
    order = [tally for head, datasets in of_strategy.items() for tally in (head, *datasets)]
    in_family = {*testable, *_testable(pooled, share)}
    p = {tally: mcnemar_exact(tally.gains or 0, tally.losses or 0, "less") for tally in order}
    family = [tally for tally in order if tally in in_family]
    adjusted = dict(zip(family, holm([p[tally] for tally in family], [levels[tally] for tally in family]), strict=True))
    return tuple(
        GateTest(tally, p[tally], adjusted.get(tally), levels[tally], adjusted.get(tally, 1.0) <= significance)
        for tally in order
    )


def fisher_gate(tallies: Sequence[Tally], significance: float = SIGNIFICANCE) -> tuple[GateTest, ...]:
    """The original gate: Fisher's lower tail for each tally as if its questions were all different, and Holm's method.

    Args:
        tallies: The family: of each strategy over all datasets, or on each dataset.
        significance: Level of all tests together.
    """
    p = [
        fisher_lower_tail(
            tally.baseline_correct,
            tally.n_baseline - tally.baseline_correct,
            tally.current_correct,
            tally.n_current - tally.current_correct,
        )
        for tally in tallies
    ]
    return tuple(
        GateTest(
            tally,
            raw,
            adjusted,
            significance / len(p),
            adjusted <= significance and (tally.delta or 0) < 0,
        )
        for tally, raw, adjusted in zip(tallies, p, holm(p), strict=True)
    )


def could_fail(
    gate: Callable[[Sequence[Tally], float], Sequence[GateTest]],
    tallies: Sequence[Tally],
    significance: float = SIGNIFICANCE,
) -> bool:
    """Return whether there are enough questions for a gate to fail at all: had the run lost all of them, it would.

    Args:
        gate: `paired_gate` or `fisher_gate`.
        tallies: What it tests.
        significance: Its level.
    """
    return any(test.regressed for test in gate([tally.worst for tally in tallies], significance))


def pool(tallies: Sequence[Tally]) -> list[Tally]:
    """The sums over datasets of each strategy, in the order of the strategies."""
    sums = []
    for strategy in dict.fromkeys(tally.strategy for tally in tallies):
        counts = [vars(tally) for tally in tallies if tally.strategy == strategy]
        total: dict[str, Any] = {
            name: None if counts[0][name] is None else sum(tally[name] for tally in counts)
            for name in counts[0].keys() - {"strategy", "benchmark"}
        }
        sums.append(Tally(strategy, None, **total))
    return sums


def _testable(tallies: Sequence[Tally], level: float) -> list[Tally]:
    """The largest part of the tests of which each would fail at level / their number if all its questions were losses.

    It depends on the numbers of discordant questions only.
    """
    by_power = sorted(tallies, key=lambda tally: -tally.discordant)
    counts = [k for k, tally in enumerate(by_power, 1) if 0.5**tally.discordant <= level / k]
    return by_power[: max(counts, default=0)]


def _levels(tallies: Sequence[Tally], level: float) -> dict[Tally, float]:
    """The level of each test while none has failed: shared by those that can."""
    return dict.fromkeys(tallies, level / max(len(_testable(tallies, level)), 1))


def _share(part: int, of: int) -> float | None:
    return part / of if of else None


def difference(first: float | None, second: float | None) -> float | None:
    """First - second; None where one of them is not known."""
    return None if first is None or second is None else first - second
