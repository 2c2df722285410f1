"""Statistics of an audit: how often the verdicts of rules are wrong, and by how much that moves a score."""

import math
from dataclasses import dataclass

from shaberi_dagster.statistics.intervals import Interval, exact_interval


@dataclass(frozen=True)
class AuditSums:
    """Sums over audited verdicts, each with the inverse of its inclusion probability as its weight.

    Attributes:
        n: Verdicts.
        weight: Sum of their weights.
        heaviest: The largest weight.
        false_rights: Weight of those that said right of an answer that is not.
        false_wrongs: Weight of those that said wrong of an answer that is right.
        unsettled: Weight of those among both that no person has settled.
    """

    n: int
    weight: float
    heaviest: float
    false_rights: float
    false_wrongs: float
    unsettled: float

    @property
    def share_wrong(self) -> float:
        """Estimated share of wrong verdicts (Horvitz and Thompson 1952, over the estimated number of verdicts)."""
        return (self.false_rights + self.false_wrongs) / self.weight

    @property
    def interval(self) -> Interval:
        """Interval of the share of wrong verdicts; what is unsettled counts for its upper end alone."""
        wrong = self.false_rights + self.false_wrongs
        return Interval(self._exact(wrong - self.unsettled).lower, self._exact(wrong).upper)

    @property
    def shift(self) -> tuple[float, Interval]:
        """Share of false wrongs less that of false rights, and its interval.

        The interval is made of those of both shares (MOVER: Zou and Donner 2008, Statistics in Medicine 27:1693).
        """
        up, down = self.false_wrongs / self.weight, self.false_rights / self.weight
        ups, downs = self._exact(self.false_wrongs), self._exact(self.false_rights)
        lower = up - down - math.hypot(up - ups.lower, downs.upper - down)
        upper = up - down + math.hypot(ups.upper - up, down - downs.lower)
        return up - down, Interval(lower, upper)

    def _exact(self, weight: float) -> Interval:
        """Return the exact interval of a share: of n verdicts where all have the same weight.

        Else of as many as there would be, had each the largest weight: the variance of a weighted share is at most
        share x heaviest / weight, which is that of so many verdicts.
        """
        effective_n = self.weight / self.heaviest
        return exact_interval(min(weight / self.heaviest, effective_n), effective_n)
