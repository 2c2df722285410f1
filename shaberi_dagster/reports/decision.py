"""A decision between models as it is stored: its outcome, its curve, and its cost."""

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.reports.report import Row
from shaberi_dagster.statistics.calibration import error_of_pair


@dataclass(frozen=True)
class DecisionReport:
    """A decision.

    Attributes:
        decision: The columns of the table `decisions`.
        curve: The looks in order: of the candidates `a` and `b` the questions asked (`n_asked`) and those with a score
            of both (`n_scored`), the `estimate` of A - B over all questions with the ends of its interval, null without
            a question, and the `verdict` A, B, equal or open.
        calibration: One row per class of pairs, of the table `decision_calibrations`; none without enough history.
    """

    decision: Row
    curve: Sequence[Row]
    calibration: Sequence[Row]

    @property
    def last_looks(self) -> list[Row]:
        """The last look at each pair."""
        return list({(look["a"], look["b"]): look for look in self.curve}.values())

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        state, best = self.decision["state"], self.decision["best"]
        if state != "decided":
            return "not decidable with these questions" if state == "undecided" else "not decided yet"
        if len(best) > 1:
            return f"{' and '.join(best)} are equal within the margin"
        return f"{best[0]} is {'better' if len(self.decision['candidates']) == 2 else 'the best'}"  # noqa: PLR2004

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
        """The cost of these calls; None is unknown."""
        cost = self.decision["cost_usd"]
        return None if cost is None or (share := self._rest) is None else cost * share

    @property
    def _rest(self) -> float | None:
        """Questions not asked for each that was."""
        asked = self.decision["n_asked"]
        return self.n_saved / asked if asked and self.decision["calls"] else None


def read_decision(catalog: duckdb.DuckDBPyConnection, decision_id: str) -> DecisionReport:
    """Read a stored decision.

    Raises:
        ConfigurationError: There is none with this identity.
    """
    rows = fetch(catalog, "decision", decision_id=decision_id)
    if not rows:
        raise ConfigurationError(f'no decision {decision_id}; `shaberi sql "from decisions"` lists what there is')
    (own,) = rows
    about = {name: own[name] for name in ("judges", "question_sets", "margin")}
    about["error"] = error_of_pair(own["error"], len(own["candidates"]))
    return DecisionReport(
        own,
        fetch(catalog, "decision_looks", decision_id=decision_id),
        fetch(catalog, "decision_calibration", **about),
    )
