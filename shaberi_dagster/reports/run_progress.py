"""The progress of a run, while it works and afterwards: what is there, on its way and failed, and the cost.

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
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb

from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.journal.backends import journals_of
from shaberi_dagster.journal.base import News
from shaberi_dagster.judges.spec import JudgeSpec
from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.reports.declared.cost import TOKENS
from shaberi_dagster.reports.reading import read_costs
from shaberi_dagster.reports.report import Row
from shaberi_dagster.reports.scores import grouped

_RECENT = timedelta(minutes=2)
FinishedCall = Mapping[str, Any]
"""A finished call as its journal has it."""
CostOf = Callable[[FinishedCall], float | None]
"""The cost of a call in US dollars; None is unknown."""
ScoreOf = Callable[[FinishedCall], int | None]
"""The score in the reply of a call; None where there is none."""


@dataclass
class JournalTally:
    """Counts of the calls in a journal, as it grows.

    Attributes:
        stage: The stage that writes it.
        calls: Calls with a reply, by benchmark and purpose.
        failures: Calls that failed, by class.
        tokens: Tokens of these calls, sent and received, as far as they are known.
        cost_usd: Cost of those of them whose price is known.
        n_without_price: The others.
        scores: Counts of each score (a whole number of the judge's scale) that was read in these calls, by the model
            that judged and the benchmark.
        limits: Calls at once that endpoints are asked for, as the number changed: when, address, number.
        recent: Times at which calls of the last two minutes ended.
        place: The end of what is counted.
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
    place: tuple[Any, ...] | None = None

    def add(self, news: News, cost_of: CostOf, score_of: ScoreOf) -> None:
        """Count what was written since."""
        self.place, calls = news.place, []
        for record in news.records:
            with suppress(ValueError, KeyError, TypeError):  # whoever opens the journal sets such records aside
                calls += self._count(record)
        for call in calls:
            cost, score = cost_of(call), score_of(call)
            self.cost_usd += cost or 0
            self.n_without_price += cost is None
            if score is not None:
                self.scores[call["model"], call["benchmark"], score] += 1

    def _count(self, record: Mapping[str, Any]) -> list[FinishedCall]:
        """Count a record; return the call with a reply, if it is one."""
        if "request_hash" not in record and "limit_before" not in record:
            return []
        at = datetime.fromisoformat(record["created_at"])
        if "limit_before" in record:
            self.limits.append((at, record["base_url"], record["limit_after"]))
            return []
        if record["status"] != "ok":
            self.failures[record["error_class"] or "error"] += 1
            return []
        self.calls[record["benchmark"] or "", record["purpose"]] += 1
        self.recent = [*(before for before in self.recent if before > at - _RECENT), at]
        self.tokens += (record["prompt_tokens"] or 0) + (record["completion_tokens"] or 0)
        return [record]


@dataclass(frozen=True)
class RunProgress:
    """The progress of a run.

    Attributes:
        run: Its row of the view `runs`.
        spec: Its settings.
        parts: Its benchmarks: rows of the statement `run_parts` with the `state` of each; calls that have a reply but
            are not committed yet count in them as answers and judgements.
        live: Something of it is on its way: there is a journal.
        stages: Stages that have a journal, with the calls in it that have a reply.
        calls_per_minute: Of these, how many ended in the last two minutes, per minute; None when none did.
        tokens: Tokens of calls that are not committed yet.
        cost_usd: Known cost of all calls so far.
        calls_without_price: Those that are not in it.
        failures: Failures: rows with stage, benchmark, judge, status, error_class, n, message.
        failed_calls: Failed calls of the journals, by class.
        limits: Calls at once that each endpoint was asked for, as the number changed.
        scores: How often each judge gave each score, by judge and benchmark; also as it is read in calls that are not
            committed yet.
    """

    run: Mapping[str, Any]
    spec: Mapping[str, Any]
    parts: Sequence[Row]
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
        """The minutes that the rest takes at the present pace; None where that is not known."""
        left = sum(
            max(part[f"n_planned_{rows}"] - part[f"n_{rows}"] - part[f"n_failed_{rows}"], 0)
            for part in self.parts
            for rows in ("answers", "judgements")
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
    """Read a run as it is now.

    Args:
        catalog: The public views.
        warehouse: The lake whose journals are read.
        run_id: The run, or its MODEL@@TAG.
        now: The time.
        cost_of: What calls cost that are not committed yet.

    Raises:
        ConfigurationError: The lake has no such run.
    """
    found = fetch(catalog, "run_list", text=None, run_id=run_id)
    if not found:
        raise ConfigurationError(f"the lake has no run {run_id!r}")
    run, *_ = found
    run_id = run["run_id"]
    states = json.loads(run["status_by_benchmark"] or "{}")
    spec = json.loads(run["spec"])
    judges = _judges_by_model(spec)
    tallies = _follow_journals(warehouse, run_id, cost_of, partial(_score_of, judges))
    answering, judging = _calls_of(tallies, "answer"), _calls_of(tallies, "judge")
    parts = fetch(catalog, "run_parts", run_id=run_id)
    for part in parts:
        benchmark, n_answers, n_judgements = part["benchmark"], part["n_answers"], part["n_judgements"]
        part["state"] = states.get(benchmark, run["status"])
        part["n_answers"] = min(n_answers + answering[benchmark], part["n_planned_answers"] or 0)
        part["n_judgements"] = min(n_judgements + judging[benchmark], part["n_planned_judgements"] or n_judgements)
    costs = TOKENS.summed(read_costs(catalog, [run_id]))
    recent = [at for tally in tallies for at in tally.recent if at > now - _RECENT]
    committed = fetch(catalog, "run_limits", run_id=run_id)
    limits = [(row["created_at"].astimezone(UTC), row["base_url"], row["limit_after"]) for row in committed]
    limits += [change for tally in tallies for change in tally.limits]
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
        limits={url: [limit for *_, limit in changes] for url, changes in grouped(sorted(limits), itemgetter(1))},
        scores=scores,
    )


_JudgesByModel = Mapping[str, JudgeSpec]
"""Judges by the model that is asked; of several that differ in their prompt the last."""


def _judges_by_model(spec: Mapping[str, Any]) -> _JudgesByModel:
    return {judge["model"]: JudgeSpec.model_validate(judge) for judge in spec.get("judges") or ()}


def _score_of(judges: _JudgesByModel, call: FinishedCall) -> int | None:
    """Read the score in a judge's reply before it is committed: without the answer, which may hold one itself."""
    if call["purpose"] not in {"judge", "fallback"} or call["benchmark"] not in ALL_BENCHMARKS:
        return None
    from shaberi_dagster.judges.llm import parsed_score

    judge = judges.get(call["model"])
    benchmark = ALL_BENCHMARKS[call["benchmark"]]
    found = parsed_score(call["content"], call["finish_reason"], benchmark, judge, "") if judge else None
    return floor(found.score) if found else None


def _scores(
    rows: Sequence[Mapping[str, Any]], tallies: Sequence[JournalTally], judges: _JudgesByModel
) -> dict[tuple[str, str], dict[int, int]]:
    """Count how often each judge gave each score: committed, and on its way."""
    counts = Counter({(row["judge"], row["benchmark"], row["score"]): row["n"] for row in rows})
    for tally in tallies:
        counts.update({(judges[model].name, name, score): n for (model, name, score), n in tally.scores.items()})
    return {
        key: {score: n for (_, _, score), n in of_judge}
        for key, of_judge in grouped(sorted(counts.items()), lambda one: one[0][:2])
    }


def _follow_journals(warehouse: Path, run_id: str, cost_of: CostOf, score_of: ScoreOf) -> list[JournalTally]:
    journals, found = journals_of(warehouse), []
    for stage in journals.stages(run_id):
        key = warehouse, run_id, stage
        tally = _tallies.pop(key, None) or JournalTally(stage)
        news = journals.news(run_id, stage, tally.place)
        if news is None:  # it is gone
            continue
        if news.restarted:  # another journal in its place
            tally = JournalTally(stage)
        tally.add(news, cost_of, score_of)
        _tallies[key] = tally
        found.append(tally)
    return found


def _calls_of(tallies: Sequence[JournalTally], purpose: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for tally in tallies:
        counts.update({benchmark: n for (benchmark, of_call), n in tally.calls.items() if of_call == purpose})
    return counts
