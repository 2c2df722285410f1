"""A decision between models as it is stored: what it came to, its curve, and what it cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.reports.reading import fetch
from shaberi_dagster.statistics.calibration import error_of_pair


@dataclass(frozen=True)
class StoredLook:
    """What was known of a pair after some questions.

    Attributes:
        n_asked: Questions asked.
        a: One candidate.
        b: The other.
        n_scored: Questions with a score of both.
        estimate: A - B over all questions; None without a question.
        lower: Lower end of its interval.
        upper: Upper end.
        verdict: A, B, equal or open.
    """

    n_asked: int
    a: str
    b: str
    n_scored: int
    estimate: float | None
    lower: float | None
    upper: float | None
    verdict: str


@dataclass(frozen=True)
class DecisionReport:
    """A decision.

    Attributes:
        decision: The columns of the table `decisions`.
        curve: All looks, in order.
        calibration: One row per class of pairs, of the table `decision_calibrations`; none without enough history.
    """

    decision: Mapping[str, Any]
    curve: tuple[StoredLook, ...]
    calibration: tuple[Mapping[str, Any], ...]

    @property
    def last_looks(self) -> list[StoredLook]:
        """The last one of each pair."""
        return list({(one.a, one.b): one for one in self.curve}.values())

    @property
    def verdict(self) -> str:
        """What it came to, in words."""
        own = self.decision
        if own["state"] != "decided":
            return "not decidable with these questions" if own["state"] == "undecided" else "not decided yet"
        best = own["best"]
        if len(best) > 1:
            return f"{' and '.join(best)} are equal within the margin"
        return f"{best[0]} is {'better' if len(own['candidates']) == 2 else 'the best'}"  # noqa: PLR2004

    @property
    def n_saved(self) -> int:
        """Questions that were not needed."""
        return int(self.decision["n_questions"] - (self.decision["n_asked"] or 0))

    @property
    def calls_saved(self) -> int | None:
        """Calls that the other questions would have taken, at the calls of those that were asked; None is unknown."""
        return None if (share := self._rest) is None else round(self.decision["calls"] * share)

    @property
    def cost_saved_usd(self) -> float | None:
        """What these would have cost; None is unknown."""
        cost = self.decision["cost_usd"]
        return None if cost is None or (share := self._rest) is None else cost * share

    @property
    def _rest(self) -> float | None:
        """Questions not asked for each that was."""
        asked = self.decision["n_asked"]
        return self.n_saved / asked if asked and self.decision["calls"] else None


def read_decision(catalog: duckdb.DuckDBPyConnection, decision_id: str) -> DecisionReport:
    """A stored decision.

    Args:
        catalog: The public views.
        decision_id: Which one.

    Raises:
        ConfigurationError: There is none.
    """
    rows = fetch(catalog, "decision", decision_id=decision_id)
    if not rows:
        raise ConfigurationError(f'no decision {decision_id}; `shaberi sql "from decisions"` lists what there is')
    (own,) = rows
    about = {name: own[name] for name in ("judges", "question_sets", "margin")}
    about["error"] = error_of_pair(own["error"], len(own["candidates"]))
    looks = fetch(catalog, "decision_looks", decision_id=decision_id)
    return DecisionReport(
        own,
        tuple(StoredLook(**{name: row[name] for name in StoredLook.__dataclass_fields__}) for row in looks),
        tuple(fetch(catalog, "decision_calibration", **about)),
    )
