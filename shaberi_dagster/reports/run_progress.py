"""A run while it works, and afterwards: what is there, what is on its way, what failed, what it costs.

What stages have committed is in the lake; what they are about to commit is in their journals, which are read while
somebody else writes them, without their lock.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from math import floor
from pathlib import Path
from typing import Any

import duckdb

from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.journal.backends import journals_of
from shaberi_dagster.journal.base import Journals, News
from shaberi_dagster.judges.spec import JudgeSpec
from shaberi_dagster.reports.declared.cost import TOKENS
from shaberi_dagster.reports.reading import fetch
from shaberi_dagster.reports.scores import grouped

_RECENT = timedelta(minutes=2)
FinishedCall = Mapping[str, Any]
"""A finished call as its journal has it."""
CostOf = Callable[[FinishedCall], float | None]
"""What a call cost in US dollars; None is unknown."""


@dataclass
class JournalTally:
    """What a journal says, counted as it grows.

    Attributes:
        stage: The stage that writes it.
        calls: Calls with a reply, by benchmark and purpose.
        failures: Calls that failed, by class.
        tokens: Tokens of these calls, sent and received, as far as they are known.
        cost_usd: What those of them cost whose price is known.
        n_without_price: The others.
        scores: How often which score (a whole number of the judge's scale) was read in these calls, by the model that
            judged and the benchmark.
        limits: Calls at once that endpoints are asked for, as the number changed: when, address, number.
        last_call_at: When the last call ended.
    """

    stage: str
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    cost_usd: float = 0.0
    n_without_price: int = 0
    scores: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    limits: list[tuple[datetime, str, int]] = field(default_factory=list)
    recent: list[datetime] = field(default_factory=list)
    _unread: list[FinishedCall] = field(default_factory=list)
    last_call_at: datetime | None = None
    _place: tuple[Any, ...] | None = None

    def follow(self, journals: Journals, run_id: str) -> "JournalTally | None":
        """The tally with what was written since; of a journal that took its place a new one, None where it is gone."""
        news = journals.news(run_id, self.stage, self._place)
        if news is None:
            return None
        tally = JournalTally(self.stage) if news.anew else self
        return tally.with_news(news)

    def with_news(self, news: News) -> "JournalTally":
        """This tally, with what was written since."""
        self._place = news.place
        for record in news.records:
            with suppress(ValueError, KeyError, TypeError):  # whoever opens the journal sets such records aside
                self._count(record)
        return self

    def _count(self, record: Mapping[str, Any]) -> None:
        if "limit_before" in record:
            at = datetime.fromisoformat(record["created_at"])
            self.limits.append((at, record["base_url"], record["limit_after"]))
        elif "request_hash" in record:
            self.last_call_at = datetime.fromisoformat(record["created_at"])
            if record["status"] != "ok":
                self.failures[record["error_class"] or "error"] += 1
                return
            self.calls[record["benchmark"] or "", record["purpose"]] += 1
            self.recent = [*(at for at in self.recent if at > self.last_call_at - _RECENT), self.last_call_at]
            self.tokens += (record["prompt_tokens"] or 0) + (record["completion_tokens"] or 0)
            self._unread.append(record)

    def read_calls(self, cost_of: CostOf, score_of: Callable[[FinishedCall], int | None]) -> None:
        """Count cost and scores of the calls that came since."""
        for call in self._unread:
            if (cost := cost_of(call)) is None:
                self.n_without_price += 1
            else:
                self.cost_usd += cost
            if (score := score_of(call)) is not None:
                self.scores[call["model"], call["benchmark"], score] += 1
        self._unread.clear()


@dataclass(frozen=True)
class BenchmarkProgress:
    """One benchmark of a run.

    Attributes:
        benchmark: The benchmark.
        state: Of its answers and judgements, in the run's words.
        n_planned_answers: Answers planned.
        n_answers: Those that are there, or whose call has a reply.
        n_failed_answers: Those that ended without one.
        n_planned_judgements: Judgements planned; 0 where the run does not say who judges.
        n_judgements: Those that are there, or whose call has a reply.
        n_failed_judgements: Those that ended without a score.
        n_out_of_scale: Scores outside of the scale.
    """

    benchmark: str
    state: str
    n_planned_answers: int
    n_answers: int
    n_failed_answers: int
    n_planned_judgements: int
    n_judgements: int
    n_failed_judgements: int
    n_out_of_scale: int


@dataclass(frozen=True)
class RunProgress:
    """A run.

    Attributes:
        run: Its row of the view `runs`.
        spec: Its settings.
        parts: Its benchmarks.
        live: Whether something of it is on its way: there is a journal.
        stages: Stages that have a journal, with the calls in it that have a reply.
        calls_per_minute: Of these, how many ended in the last two minutes, per minute; None when none did.
        tokens: Tokens of calls that are not committed yet.
        cost_usd: Known cost of all calls so far.
        calls_without_price: Those that are not in it.
        failures: What failed: rows with stage, benchmark, judge, status, error_class, n, message.
        failed_calls: Failed calls of the journals, by class.
        limits: Calls at once that each endpoint was asked for, as the number changed.
        scores: How often each judge gave each score, by judge and benchmark; also as it is read in calls that are not
            committed yet.
    """

    run: Mapping[str, Any]
    spec: Mapping[str, Any]
    parts: tuple[BenchmarkProgress, ...]
    live: bool
    stages: Mapping[str, int]
    calls_per_minute: float | None
    tokens: int
    cost_usd: float
    calls_without_price: int
    failures: Sequence[Mapping[str, Any]]
    failed_calls: Mapping[str, int]
    limits: Mapping[str, Sequence[int]]
    scores: Mapping[tuple[str, str], Mapping[int, int]]

    @property
    def minutes_left(self) -> float | None:
        """How long what is planned takes at the present pace; None where that is not known."""
        left = sum(
            max(part.n_planned_answers - part.n_answers - part.n_failed_answers, 0)
            + max(part.n_planned_judgements - part.n_judgements - part.n_failed_judgements, 0)
            for part in self.parts
        )
        return left / self.calls_per_minute if self.calls_per_minute and left else None


_tallies: dict[tuple[Path, str, str], JournalTally] = {}


def read_run(
    catalog: duckdb.DuckDBPyConnection,
    warehouse: Path,
    run_id: str,
    now: datetime,
    cost_of: CostOf = lambda _: None,
) -> RunProgress:
    """A run as it is now.

    Args:
        catalog: The public views.
        warehouse: The lake whose journals are read.
        run_id: The run.
        now: The time.
        cost_of: What calls cost that are not committed yet.

    Raises:
        ConfigurationError: The lake has no such run.
    """
    found = fetch(catalog, "run_list", text=None, run_id=run_id)
    if not found:
        raise ConfigurationError(f"the lake has no run {run_id!r}")
    (run,) = found
    states = json.loads(run["status_by_benchmark"] or "{}")
    tallies = _follow_journals(warehouse, run_id)
    answering, judging = _calls_of(tallies, "answer"), _calls_of(tallies, "judge")
    parts = tuple(
        BenchmarkProgress(
            **{name: value for name, value in row.items() if name not in {"question_set", "n_answers", "n_judgements"}},
            state=states.get(row["benchmark"], run["status"]),
            n_answers=min(row["n_answers"] + answering[row["benchmark"]], row["n_planned_answers"] or 0),
            n_judgements=min(
                row["n_judgements"] + judging[row["benchmark"]], row["n_planned_judgements"] or row["n_judgements"]
            ),
        )
        for row in fetch(catalog, "run_parts", run_id=run_id)
    )
    costs = TOKENS.summed(fetch(catalog, "cost", run_ids=[run_id]))
    recent = [at for tally in tallies for at in tally.recent if at > now - _RECENT]
    committed = fetch(catalog, "run_limits", run_id=run_id)
    limits = [(row["created_at"].astimezone(UTC), row["base_url"], row["limit_after"]) for row in committed]
    limits += [one for tally in tallies for one in tally.limits]
    spec = json.loads(run["spec"])
    judges = _judges_by_model(spec) if tallies else {}
    for tally in tallies:
        tally.read_calls(cost_of, partial(_score_of, judges))
    scores = _scores(fetch(catalog, "run_scores", run_id=run_id), tallies, judges)
    failed: Counter[str] = Counter()
    for tally in tallies:
        failed += tally.failures
    return RunProgress(
        run=run,
        spec=spec,
        parts=parts,
        live=bool(tallies),
        stages={tally.stage: tally.calls.total() for tally in tallies},
        calls_per_minute=len(recent) / (_RECENT.total_seconds() / 60) if recent else None,
        tokens=sum(tally.tokens for tally in tallies),
        cost_usd=(costs["cost_usd"] or 0) + sum(tally.cost_usd for tally in tallies),
        calls_without_price=(costs["calls_without_price"] or 0) + sum(tally.n_without_price for tally in tallies),
        failures=fetch(catalog, "run_failures", run_id=run_id),
        failed_calls=failed,
        limits={url: [one[2] for one in own] for url, own in grouped(sorted(limits), lambda one: one[1])},
        scores=scores,
    )


_JudgesByModel = Mapping[str, JudgeSpec]
"""Judges by the model that is asked; of several that differ in their prompt the last."""


def _judges_by_model(spec: Mapping[str, Any]) -> _JudgesByModel:
    return {one["model"]: JudgeSpec.model_validate(one) for one in spec.get("judges") or ()}


def _score_of(judges: _JudgesByModel, call: FinishedCall) -> int | None:
    """The score in a judge's reply, before it is committed: without the answer, which may hold one itself."""
    if call["purpose"] not in {"judge", "fallback"} or call["benchmark"] not in ALL_BENCHMARKS:
        return None
    from shaberi_dagster.judges.llm import parsed_score  # noqa: PLC0415  (only while a run works)

    judge = judges.get(call["model"])
    benchmark = ALL_BENCHMARKS[call["benchmark"]]
    found = parsed_score(call["content"], call["finish_reason"], benchmark, judge, "") if judge else None
    return floor(found.score) if found else None


def _scores(
    rows: Sequence[Mapping[str, Any]], tallies: Sequence[JournalTally], judges: _JudgesByModel
) -> dict[tuple[str, str], dict[int, int]]:
    """How often each judge gave each score: committed, and on its way."""
    counts = Counter({(row["judge"], row["benchmark"], row["score"]): row["n"] for row in rows})
    for tally in tallies:
        counts.update({(judges[model].name, name, score): n for (model, name, score), n in tally.scores.items()})
    return {
        key: {score: n for (_, _, score), n in own}
        for key, own in grouped(sorted(counts.items()), lambda one: one[0][:2])
    }


def _follow_journals(warehouse: Path, run_id: str) -> list[JournalTally]:
    journals, found = journals_of(warehouse), []
    for stage in journals.stages(run_id):
        key = warehouse, run_id, stage
        tally = _tallies.pop(key, JournalTally(stage)).follow(journals, run_id)
        if tally:
            _tallies[key] = tally
            found.append(tally)
    return found


def _calls_of(tallies: Sequence[JournalTally], purpose: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for tally in tallies:
        counts.update({benchmark: n for (benchmark, what), n in tally.calls.items() if what == purpose})
    return counts
