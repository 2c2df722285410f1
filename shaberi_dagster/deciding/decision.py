"""A decision from its first look to its last: questions are asked in rounds, until what is known suffices."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations
from typing import Any, Literal

import numpy as np
import polars as pl

from shaberi_dagster.deciding.candidates import (
    CandidateScores,
    Contender,
    Pool,
    find_candidates,
    find_pool,
)
from shaberi_dagster.deciding.history import Past, calibrated, outside, past_scores
from shaberi_dagster.deciding.request import DecisionRequest
from shaberi_dagster.lake.schemas import DECISION_LOOKS, DECISIONS
from shaberi_dagster.reports.rows import cannot_tell
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.statistics.calibration import Calibration, error_of_pair
from shaberi_dagster.statistics.sequential import (
    Anytime,
    Floats,
    History,
    Indices,
    Order,
    looks,
    mean_differences,
)
from shaberi_dagster.util.identity import sha256_json

Verdict = Literal["A", "B", "equal", "open"]
State = Literal["running", "decided", "undecided"]
_MOST_MISSING = 0.1
"""Share of the questions without a score of both in the end: their scores could decide otherwise."""
_MOST_FAILING = 0.5
"""Share of the questions that were asked: then something else is wrong than a question."""


@dataclass(frozen=True)
class Look:
    """Estimate and interval of a pair after some questions.

    Attributes:
        a: One candidate, by its place.
        b: The other.
        n_asked: Questions asked.
        n_scored: Of these, with a score of both.
        estimate: A - B over all questions.
        lower: Lower end of its interval.
        upper: Upper end.
        verdict: What is decided.
    """

    a: int
    b: int
    n_asked: int
    n_scored: int
    estimate: float
    lower: float
    upper: float
    verdict: Verdict


@dataclass(frozen=True)
class Boundary:
    """Rule that tells when a pair is decided: a judge's calibrated history, or bets that need none.

    Attributes:
        weights: The weight of each question.
        margin: Differences up to it are practically equal.
        order: Of the questions.
        history: What past models say; None: bets decide.
        calibration: The certainty that the history needs; also where it cannot be calibrated, and bets decide.
        bets: The bets.
    """

    weights: Floats
    margin: float
    order: Order
    history: History | None
    calibration: Calibration | None
    bets: Anytime

    @property
    def name(self) -> Literal["history", "anytime"]:
        """The kind of rule."""
        return "history" if self.history else "anytime"

    def look(
        self, scores_a: Floats, scores_b: Floats, n_asked: int, since: int | None = None
    ) -> tuple[float, float, float, Verdict]:
        """Return the estimate, the ends of its interval, and what is decided after some questions.

        Args:
            scores_a: Of one pair, shape (questions,); NaN: no score.
            scores_b: Likewise.
            n_asked: How many of the order count.
            since: From how many on bets decide, since a candidate is outside of the history; None: it is not.
        """
        differences = np.full(len(self.weights), np.nan)
        asked = self.order.questions[:n_asked]
        differences[asked] = (scores_a - scores_b)[asked]
        nothing = np.zeros_like(differences)
        if since is None and self.history and self.calibration and self.calibration.constant:
            curve = self.history.curve(differences[None], nothing[None], self.order, [n_asked])
            better, equal = curve.decided(self.calibration.constant, self.margin)
            estimate = float(curve.estimates[0, 0])
            reach = self.calibration.constant * float(curve.spreads[0, 0])
            return (
                estimate,
                estimate - reach,
                estimate + reach,
                _verdict(int(np.sign(estimate)) if better[0, 0] else 0, is_equal=bool(equal[0, 0])),
            )
        since = since or 0
        signs, equals = self.bets.decided(
            differences[None], nothing[None], self.order, [n_asked], self.margin, since=since
        )
        estimate = float(mean_differences(differences, nothing, self.weights))
        lower, upper = self.bets.interval(differences, self.order, n_asked, since)
        return estimate, lower, upper, _verdict(int(signs[0, 0]), is_equal=bool(equals[0, 0]))


def _verdict(sign: int, *, is_equal: bool) -> Verdict:
    if is_equal:
        return "equal"
    return {1: "A", -1: "B"}.get(sign, "open")  # type: ignore[return-value]


@dataclass(frozen=True)
class Decision:
    """A decision to be made; `decide` brings it to its end.

    Attributes:
        request: What was asked for.
        candidates: Those that it is between.
        pool: The questions.
        boundary: The rule that tells when a pair is decided.
        past: Scores of past models, without the candidates.
        n_history: Past models of the judges.
        seed: Of the order.
        started_at: When it was first asked for.
    """

    request: DecisionRequest
    candidates: tuple[Contender, ...]
    pool: Pool
    boundary: Boundary
    past: Floats
    n_history: int
    seed: int
    started_at: datetime

    @property
    def decision_id(self) -> str:
        """The identity of the decision."""
        return decision_id(self.request, self.candidates, self.pool, self.boundary.margin)

    @property
    def looks(self) -> list[int]:
        """The numbers of questions after which one looks."""
        return looks(len(self.pool.questions))


def decision_id(request: DecisionRequest, candidates: Sequence[Contender], pool: Pool, margin: float) -> str:
    """Return the identity of a decision: its candidates, judges and questions, and how sure it has to be."""
    return sha256_json(
        {
            "candidates": [candidate.name for candidate in candidates],
            "judges": {name: list(judges) for name, judges in pool.judges.items()},
            "questions": sha256_json([list(question) for question in pool.questions]),
            "margin": margin,
            "error": request.error,
            "seed": request.seed,
        }
    )[:16]


def prepare(request: DecisionRequest, workspace: Workspace) -> Decision:
    """Make everything ready up to the first question; of the lake only a calibration may be written.

    Raises:
        ConfigurationError: What is asked for cannot be decided.
    """
    candidates = tuple(find_candidates(request, workspace))
    pool = find_pool(candidates, request, workspace)
    margin = pool.margin if request.margin is None else request.margin
    identity = decision_id(request, candidates, pool, margin)
    stored = workspace.lake.read("decisions", {"decision_id": identity}, ["started_at"])
    seed = int(identity[:12], 16) if request.seed is None else request.seed
    # Replays are between answers of models: strategies on the same samples are alike in other ways.
    plain = all(candidate.strategy is None for candidate in candidates)
    past = past_scores(pool, workspace.lake) if plain else Past.none(pool)
    error = error_of_pair(request.error, len(candidates))
    calibration = calibrated(pool, past, margin, error, workspace)
    others = past.without({candidate.spec.model for candidate in candidates})
    rng = np.random.default_rng(seed)
    bets = Anytime(pool.weights, pool.highest, error)
    history = None
    if calibration and calibration.holds:
        history = History.of(others.scores, pool.weights)
    order = history.order(rng) if history else bets.order(rng)
    return Decision(
        request,
        candidates,
        pool,
        Boundary(pool.weights, margin, order, history, calibration, bets),
        others.scores,
        len(past.models),
        seed,
        stored["started_at"][0] if stored.height else datetime.now(UTC),
    )


def decide(
    decision: Decision, workspace: Workspace, after_round: Callable[[Sequence[Look]], object] = lambda _: None
) -> None:
    """Ask and look until the best are known, or until it cannot be told; what is stored already is not asked again.

    Args:
        decision: From `prepare`.
        workspace: Where to read and write, and how calls are made.
        after_round: Called with the looks of each round.

    Raises:
        ConfigurationError: It would send a key where it does not belong.
        EndpointError: An endpoint cannot be reached or refuses us; the same decision continues where it was.
    """
    scores = CandidateScores(decision.candidates, decision.pool, workspace)
    contest = Contest(decision.boundary, decision.past, len(decision.candidates), decision.seed)
    record = _Record(decision, contest, workspace)
    scores.check_keys()
    record.state("running", 0)
    for n_asked in _rounds(decision, scores):
        scores.ask(contest.boundary.order.questions[:n_asked], contest.alive)
        known, decided = scores.known()
        found = contest.look(known, n_asked, decided)
        record.add(found)
        after_round(found)
        is_undecided = (~np.isnan(known) & np.isnan(decided))[contest.alive]
        reason = _hindrance(decision, workspace, found, n_asked, float(is_undecided.mean()))
        if contest.is_decided:
            record.state("decided", n_asked)
            return
        if reason:
            record.state("undecided", n_asked, reason)
            return
        record.state("running", n_asked)


class Contest:
    """The pairs of some candidates while questions are asked: those still in, and what is decided.

    Args:
        boundary: The rule that tells when a pair is decided.
        past: Scores of past models, shape (models, questions).
        n_candidates: The number of candidates.
        seed: The seed of what is drawn on the way.

    Attributes:
        boundary: Its order changes where bets begin on the way.
        alive: Places of the candidates that are not shown to be worse than another.
        verdicts: Verdicts on the pairs that are decided.
        beyond: By the place of a candidate outside of the history, in what it is outside.
    """

    def __init__(self, boundary: Boundary, past: Floats, n_candidates: int, seed: int) -> None:
        self.boundary, self._past, self._seed = boundary, past, seed
        self.alive = list(range(n_candidates))
        self.verdicts: dict[tuple[int, int], Verdict] = {}
        self.beyond: dict[int, list[str]] = {}
        self._since: dict[int, int] = {}

    @property
    def is_decided(self) -> bool:
        """Return whether all that are left are equal, or one is left."""
        return all(pair in self.verdicts for pair in combinations(self.alive, 2))

    def look(self, known: Floats, n_asked: int, decided: Floats | None = None) -> list[Look]:
        """Decide what can be decided after some questions of the order.

        Args:
            known: Scores, shape (candidates, questions); NaN: no score.
            n_asked: Questions asked.
            decided: The same without what a rule could not decide, which is wrong in `known`; a verdict has to hold
                for both. None: all is decided.
        """
        if self.boundary.history and n_asked < len(self.boundary.weights):
            self._find_outsiders(known, n_asked)
        open_pairs = [pair for pair in combinations(self.alive, 2) if pair not in self.verdicts]
        found = [self._look(known, pair, n_asked) for pair in open_pairs]
        if decided is not None and np.isnan(decided).sum() > np.isnan(known).sum():
            found = [
                look
                if look.verdict == self._verdict(decided, (look.a, look.b), n_asked)
                else replace(look, verdict="open")
                for look in found
            ]
        self.verdicts |= {(look.a, look.b): look.verdict for look in found if look.verdict != "open"}
        beaten = {b if verdict == "A" else a for (a, b), verdict in self.verdicts.items() if verdict in {"A", "B"}}
        self.alive = [candidate for candidate in self.alive if candidate not in beaten]
        return found

    def _find_outsiders(self, known: Floats, n_asked: int) -> None:
        """Have bets decide from here on about candidates that the history does not hold: their order is random."""
        scores = np.full_like(known, np.nan)
        asked = self.boundary.order.questions[:n_asked]
        scores[:, asked] = known[:, asked]
        for candidate in self.alive:
            if candidate not in self._since and (beyond := outside(self._past, scores[candidate])):
                if not self._since:
                    rng = np.random.default_rng([self._seed, n_asked])
                    order = self.boundary.bets.reordered(self.boundary.order, n_asked, rng)
                    self.boundary = replace(self.boundary, order=order)
                self._since[candidate], self.beyond[candidate] = n_asked, beyond

    def _verdict(self, decided: Floats, pair: tuple[int, int], n_asked: int) -> Verdict:
        """Return the verdict over what rules decided; "open" where that is nothing."""
        a, b = pair
        if np.isnan(decided[a] - decided[b])[self.boundary.order.questions[:n_asked]].all():
            return "open"
        return self.boundary.look(decided[a], decided[b], n_asked, self._since_of(pair))[-1]

    def _since_of(self, pair: tuple[int, int]) -> int | None:
        return min((self._since[candidate] for candidate in pair if candidate in self._since), default=None)

    def _look(self, known: Floats, pair: tuple[int, int], n_asked: int) -> Look:
        a, b = pair
        asked: Indices = self.boundary.order.questions[:n_asked]
        n_scored = int((~np.isnan(known[a, asked] - known[b, asked])).sum())
        estimate, lower, upper, verdict = self.boundary.look(known[a], known[b], n_asked, self._since_of(pair))
        look = Look(a, b, n_asked, n_scored, estimate, lower, upper, verdict)
        missing = 1 - n_scored / n_asked
        ended = n_asked == len(self.boundary.weights)
        unsure = n_scored == 0 or missing > (_MOST_MISSING if ended else _MOST_FAILING)
        return replace(look, verdict="open") if unsure else look


def _rounds(decision: Decision, scores: CandidateScores) -> Iterator[int]:
    """Return the looks; only the last one where nothing has to be asked."""
    order = decision.boundary.order.questions
    if not scores.unasked(order):
        yield len(order)
    else:
        yield from decision.looks


def _hindrance(
    decision: Decision, workspace: Workspace, found: Sequence[Look], n_asked: int, undecided: float
) -> str | None:
    """Say why nothing more can be known; None if more can."""
    if objection := workspace.budget.objection():
        return objection
    failing = [look for look in found if 1 - look.n_scored / n_asked > _MOST_FAILING]
    if failing:
        return f"of {n_asked} questions only {min(look.n_scored for look in failing)} have a score of both"
    if n_asked == len(decision.pool.questions) and undecided:
        return cannot_tell(undecided, 1)
    if n_asked == len(decision.pool.questions):
        return "too many questions have no score of both"
    return None


class _Record:
    """Record of a decision while it is made."""

    def __init__(self, decision: Decision, contest: Contest, workspace: Workspace) -> None:
        self._decision, self._contest, self._workspace = decision, contest, workspace
        self._looks: list[dict[str, Any]] = []
        keys = {"decision_id": decision.decision_id}
        self._stored = workspace.lake.read("decision_looks", keys)  # of the time before

    def add(self, found: Sequence[Look]) -> None:
        names = [candidate.name for candidate in self._decision.candidates]
        shared = {"decision_id": self._decision.decision_id, "created_at": datetime.now(UTC)}
        self._looks += [vars(look) | {"a": names[look.a], "b": names[look.b]} | shared for look in found]
        frame = pl.DataFrame(self._looks, schema=DECISION_LOOKS.schema)
        frame = frame.with_columns(pl.col("estimate", "lower", "upper").fill_nan(None))
        before = self._stored.filter(pl.col("n_asked") < frame["n_asked"].min())
        frame = pl.concat([before.select(frame.columns), frame])
        self._workspace.lake.replace("decision_looks", frame, {"decision_id": self._decision.decision_id})

    def state(self, state: State, n_asked: int, reason: str | None = None) -> None:
        decision, boundary = self._decision, self._decision.boundary
        names = [candidate.name for candidate in decision.candidates]
        calls, cost = self._spent()
        row = {
            "decision_id": decision.decision_id,
            "candidates": names,
            "run_ids": [candidate.partial_run_id for candidate in decision.candidates],
            "judges": decision.pool.panel,
            "question_sets": list(decision.pool.question_sets),
            "n_questions": len(decision.pool.questions),
            "margin": boundary.margin,
            "error": decision.request.error,
            "seed": decision.seed,
            "boundary": boundary.name,
            "constant": boundary.calibration.constant if boundary.history and boundary.calibration else None,
            "n_history": decision.n_history,
            "state": state,
            "outside": [f"{names[place]}: {', '.join(beyond)}" for place, beyond in self._contest.beyond.items()],
            "best": [names[place] for place in self._contest.alive] if state == "decided" else None,
            "reason": reason,
            "n_asked": n_asked,
            "calls": calls,
            "cost_usd": cost,
            "started_at": decision.started_at,
            "updated_at": datetime.now(UTC),
        }
        frame = pl.DataFrame([row], schema=DECISIONS.schema)
        self._workspace.lake.replace("decisions", frame, {"decision_id": decision.decision_id})

    def _spent(self) -> tuple[int, float | None]:
        """Count calls since the decision was first asked for, and their cost if that is known."""
        runs = sorted({candidate.partial_run_id for candidate in self._decision.candidates})
        rows = self._workspace.lake.read("calls", {"run_id": runs}, ["created_at", "cost_usd", "status"])
        made = rows.filter(pl.col("created_at") >= self._decision.started_at)
        costs = made.filter(status="ok")["cost_usd"]
        return made.height, None if costs.has_nulls() else float(costs.sum())
