"""The progress of a run, while it works and afterwards: what is there, on its way and failed, and the cost.

What stages have committed is in the lake; what they are about to commit is in their journals, which are read while
somebody else writes them, without their lock.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from math import floor
from operator import itemgetter
from pathlib import Path
from typing import Any

from shaberi_dagster.lake.journal.backends import journals_of
from shaberi_dagster.lake.journal.tally import RECENT, CostOf, FinishedCall, JournalTally, ScoreOf
from shaberi_dagster.lake.statements import Catalog, fetch
from shaberi_dagster.reports.blocks import Row, Rows, grouped
from shaberi_dagster.reports.declared.cost import TOKENS
from shaberi_dagster.reports.reading import read_costs
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.tasks.judges.spec import JudgeSpec
from shaberi_dagster.util.errors import ConfigurationError

_tallies: dict[tuple[Path, str, str], JournalTally] = {}


def read_run(catalog: Catalog, warehouse: Path, run_id: str, now: datetime, cost_of: CostOf = lambda _: None) -> Row:
    """Read a run as it is now.

    Args:
        catalog: The public views.
        warehouse: The lake whose journals are read.
        run_id: The run, or its MODEL@@TAG.
        now: The time.
        cost_of: What calls cost that are not committed yet.

    Returns:
        run: its row of the view `runs`; spec: its settings; parts: its benchmarks, rows of the statement `run_parts`
        with the `state` of each, in which calls that have a reply but are not committed yet count as answers and
        judgements; live: something of it is on its way, as there is a journal; stages that have a journal, with the
        calls in it that have a reply; calls_per_minute: how many of these ended in the last two minutes, per minute
        (None when none did); minutes_left for the rest at this pace (None where that is not known); tokens of calls
        that are not committed yet; cost_usd of all calls so far, and calls_without_price that are not in it; failures:
        rows with stage, benchmark, judge, status, error_class, n, message; failed_calls of the journals, by class;
        limits: calls at once that each endpoint was asked for, as the number changed; scores: how often each judge gave
        each score, by judge and benchmark, also as it is read in calls that are not committed yet.

    Raises:
        ConfigurationError: The lake has no such run.
    """
    found = fetch(catalog, "runs", run_id=run_id)
    if not found:
        raise ConfigurationError(f"the lake has no run {run_id!r}")
    run, *_ = found
    run_id = run["run_id"]
    states = json.loads(run["status_by_benchmark"] or "{}")
    spec = json.loads(run["spec"])
    # Of several that differ in their prompt the last.
    judges = {judge["model"]: JudgeSpec.model_validate(judge) for judge in spec.get("judges") or ()}
    tallies = _follow_journals(warehouse, run_id, cost_of, partial(_score_of, judges))
    calls = sum((tally.calls for tally in tallies), Counter[tuple[str, str]]())
    parts = fetch(catalog, "run_parts", run_id=run_id)
    for part in parts:
        benchmark, n_answers, n_judgements = part["benchmark"], part["n_answers"], part["n_judgements"]
        part["state"] = states.get(benchmark, run["status"])
        most = part["n_planned_judgements"] or n_judgements
        part["n_answers"] = min(n_answers + calls[benchmark, "answer"], part["n_planned_answers"] or 0)
        part["n_judgements"] = min(n_judgements + calls[benchmark, "judge"], most)
    costs = TOKENS.summed(read_costs(catalog, [run_id]))
    recent = [at for tally in tallies for at in tally.recent if at > now - RECENT]
    committed = fetch(catalog, "run_limits", run_id=run_id)
    limits = [(row["created_at"].astimezone(UTC), row["base_url"], row["limit_after"]) for row in committed]
    limits += [change for tally in tallies for change in tally.limits]
    per_minute = len(recent) / (RECENT.total_seconds() / 60) if recent else None
    left = sum(
        max(part[f"n_planned_{rows}"] - part[f"n_{rows}"] - part[f"n_failed_{rows}"], 0)
        for part in parts
        for rows in ("answers", "judgements")
    )
    return {
        "run": run,
        "spec": spec,
        "parts": parts,
        "live": bool(tallies),
        "stages": {tally.stage: tally.calls.total() for tally in tallies},
        "calls_per_minute": per_minute,
        "minutes_left": left / per_minute if per_minute and left else None,
        "tokens": sum(tally.tokens for tally in tallies),
        "cost_usd": (costs["cost_usd"] or 0) + sum(tally.cost_usd for tally in tallies),
        "calls_without_price": (costs["calls_without_price"] or 0) + sum(tally.n_without_price for tally in tallies),
        "failures": fetch(catalog, "run_failures", run_id=run_id),
        "failed_calls": sum((tally.failures for tally in tallies), Counter[str]()),
        "limits": {url: [limit for *_, limit in changes] for url, changes in grouped(sorted(limits), itemgetter(1))},
        "scores": _scores(fetch(catalog, "run_scores", run_id=run_id), tallies, judges),
    }


def _score_of(judges: Mapping[str, JudgeSpec], call: FinishedCall) -> int | None:
    """Read the score in a judge's reply before it is committed: without the answer, which may hold one itself."""
    if call["purpose"] not in {"judge", "fallback"} or call["benchmark"] not in ALL_BENCHMARKS:
        return None
    from shaberi_dagster.tasks.judges.llm import parsed_score

    judge = judges.get(call["model"])
    benchmark = ALL_BENCHMARKS[call["benchmark"]]
    found = parsed_score(call["content"], call["finish_reason"], benchmark, judge, "") if judge else None
    return floor(found.score) if found else None


def _scores(rows: Rows, tallies: Sequence[JournalTally], judges: Mapping[str, JudgeSpec]) -> Row:
    """Count how often each judge gave each score, by judge and benchmark: committed, and on its way."""
    counts = Counter({(row["judge"], row["benchmark"], row["score"]): row["n"] for row in rows})
    for tally in tallies:
        counts.update({(judges[model].name, name, score): n for (model, name, score), n in tally.scores.items()})
    found: dict[Any, dict[int, int]] = {}
    for (judge, benchmark, score), n in sorted(counts.items()):
        found.setdefault((judge, benchmark), {})[score] = n
    return found


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
