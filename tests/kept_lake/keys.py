"""What the planner of the day says of a stored run: what stands, what is pending, and what was paid for already.

The one module of the kept lake that knows how stages plan. A planner that works otherwise needs another
`standing_and_pending`, which must say the same.
"""

import asyncio
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Any

import polars as pl

from shaberi_dagster import deliberation, examination
from shaberi_dagster.generation.stage import answer_items, standing_answers
from shaberi_dagster.judging import grade
from shaberi_dagster.judging.stage import judgement_items, standing_judgements, without_score
from shaberi_dagster.lake.schemas import CONSENSUS, JUDGEMENTS
from shaberi_dagster.llm.endpoints import request_body
from shaberi_dagster.llm.journal import finished_calls
from shaberi_dagster.llm.types import Call, ChatRequest, Usage
from shaberi_dagster.passes.pipeline import distinct_passes
from shaberi_dagster.runspec import RunSpec
from shaberi_dagster.workspace import Workspace
from tests.kept_lake.endpoint import body_sha256

Key = tuple[Any, ...]
Pending = tuple[Key, list[ChatRequest]]


def stages_with_rows(spec: RunSpec) -> list[str]:
    """The stages whose rows can be pending."""
    if spec.ensemble:
        return ["answers", "consensus", "judgements"]
    return ["answers", "judgements", *(["pass_outputs"] if spec.passes else [])]


def standing_and_pending(workspace: Workspace, spec: RunSpec, stage: str) -> dict[str, list[Any]]:
    """Which rows of a stage stand, and which would be made now.

    Args:
        workspace: Its lake and its journals are read.
        spec: A stored run.
        stage: One of `stages_with_rows`.

    Returns:
        `standing`: the keys of rows that stay. `pending`: the keys of rows to be made, each with the calls that can be
        foreseen (those that need no other call's reply): request hash, hash of the body that is sent, and where its
        reply is: `journal`, `lake`, or `nowhere`, which means that it is asked for.
    """
    planned = {
        "answers": _answers,
        "consensus": _consensus,
        "judgements": _grades if spec.ensemble else _judgements,
        "pass_outputs": _pass_outputs,
    }
    standing, pending, of_no_use, paid = planned[stage](workspace, spec)
    journaled = finished_calls(workspace.journal_path(spec.run_id, stage)).keys()
    hashes = [request.request_hash for _, requests in pending for request in requests]
    if paid is None:
        paid = workspace.paid_calls(spec.run_id, hashes).keys() - of_no_use

    def call(request: ChatRequest) -> list[str]:
        name = request.request_hash
        place = "journal" if name in journaled else "lake" if name in paid else "nowhere"
        return [name, body_sha256(request_body(request)), place]

    return {
        "standing": _sorted(standing),
        "pending": _sorted((*key, [call(request) for request in requests]) for key, requests in pending),
    }


_Plan = tuple[Iterable[Key], list[Pending], AbstractSet[str], AbstractSet[str] | None]
"""Standing keys, pending keys with their calls, calls of no use, and the calls paid for if that is not a question of
the request hash alone."""


def _answers(workspace: Workspace, spec: RunSpec) -> _Plan:
    items = [item for name in spec.benchmarks for item in answer_items(spec, name, workspace)]
    kept = standing_answers(workspace.lake.read("answers", {"run_id": spec.run_id}), items)
    done = set(kept.select("benchmark", "question_id", "sample_index").iter_rows())
    return done, [(item.key, [item.request]) for item in items if item.key not in done], set(), None


def _judgements(workspace: Workspace, spec: RunSpec) -> _Plan:
    answers, stored = (workspace.lake.read(table, {"run_id": spec.run_id}) for table in ("answers", "judgements"))
    items = [item for name in spec.benchmarks for item in judgement_items(spec, name, answers, spec.judges, workspace)]
    done = standing_judgements(stored, items)
    pending = [(item.key, [item.request] if item.request else []) for item in items if item.key not in done]
    return done, pending, without_score(stored), None


def _grades(workspace: Workspace, spec: RunSpec) -> _Plan:
    keys, lake = {"run_id": spec.run_id}, workspace.lake
    samples = lake.read("answers", keys, [*grade._COLUMNS, "sample_index"]).with_columns(
        strategy=pl.lit(None, dtype=pl.String)
    )
    decided = lake.read("consensus", keys, [*grade._COLUMNS, "strategy"]).with_columns(
        sample_index=pl.lit(0, dtype=pl.Int64)
    )
    answers = pl.concat([samples, decided.select(samples.columns)])
    stored = lake.read("judgements", keys)
    items = [item for name in spec.benchmarks for item in grade._items(spec, name, answers, workspace)]
    wanted = _frame([item.identity for item in items], JUDGEMENTS.schema, grade._IDENTITY)
    standing = stored.filter(~pl.col("superseded"), pl.col("status").is_in(["ok", "excluded"])).join(
        wanted, on=grade._IDENTITY, how="semi", nulls_equal=True
    )
    done = set(standing.select(grade._KEY).iter_rows())
    keyed = [(tuple(item.identity[name] for name in grade._KEY), item) for item in items]
    pending = [(key, [item.request] if item.request else []) for key, item in keyed if key not in done]
    return done, pending, set(stored.filter(pl.col("error_class") == "no_score")["request_hash"].drop_nulls()), None


def _consensus(workspace: Workspace, spec: RunSpec) -> _Plan:
    ensemble = spec.ensemble
    assert ensemble is not None
    answers = workspace.lake.read("answers", {"run_id": spec.run_id}, deliberation._ANSWER_COLUMNS)
    items = [item for name in spec.benchmarks for item in deliberation._items(spec, ensemble, name, answers, workspace)]
    stored = workspace.lake.read("consensus", {"run_id": spec.run_id})
    wanted = _frame([item.identity for item in items], CONSENSUS.schema, deliberation._IDENTITY)
    kept = stored.filter(status="ok").join(wanted, on=deliberation._IDENTITY, how="semi", nulls_equal=True)
    done = set(kept.select(deliberation._KEY).iter_rows())
    keyed = [(tuple(item.identity[name] for name in deliberation._KEY), item) for item in items]
    pending = []
    for key, item in keyed:
        if key not in done:
            session = _Unanswered()
            asyncio.run(deliberation._decide_one(spec, ensemble, session, item))
            pending.append((key, session.requests))
    return done, pending, set(), deliberation._paid(spec, ensemble, list(spec.benchmarks), workspace).keys()


class _Unanswered:
    """A session in which every call fails, so that a strategy asks no more than what it asks at first."""

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []

    async def call(self, request: ChatRequest, _: Mapping[str, str | None], *, lookup: bool) -> tuple[Call, bool]:
        assert lookup
        self.requests.append(request)
        names = (request.request_hash, request.model, request.endpoint.base_url)
        failed = ("error", "permanent", "not asked", None, None, None)
        return Call(*names, *failed, Usage(), attempts=0, latency_seconds=0.0, created_at=datetime.now(UTC)), False


def _pass_outputs(workspace: Workspace, spec: RunSpec) -> _Plan:
    pipelines = examination.passes_of(spec)
    endpoints = {
        made.config_hash: one.endpoint
        for passes, pipeline in zip(pipelines, spec.passes, strict=True)
        for made, one in zip(passes, pipeline, strict=True)
        if one.endpoint
    }
    work = examination._Examination([spec.run_id], distinct_passes(pipelines), workspace, endpoints)
    wanted = pl.DataFrame(
        list(work._prompt_hashes.items()),
        schema={"pass_config_hash": pl.String, "pass_prompt_hash": pl.String},
        orient="row",
    )
    done: list[Key] = []
    pending: list[Pending] = []
    of_no_use: set[str] = set()
    names = [name for name in examination._KEY if name not in {"run_id", "strategy"}]
    for benchmark in spec.benchmarks:
        keys = {"run_id": spec.run_id, "benchmark": benchmark}
        stored = workspace.lake.read("pass_outputs", keys)
        answers = workspace.lake.read("answers", keys, examination._ANSWER_COLUMNS).filter(
            pl.col("answer").is_not_null()
        )
        planned = answers.with_columns(strategy=pl.lit(None, dtype=pl.String)).join(wanted, how="cross")
        kept = stored.filter(status="ok").join(planned, on=examination._STANDING, how="semi", nulls_equal=True)
        missing = planned.join(kept, on=examination._KEY, how="anti", nulls_equal=True)
        done += kept.select(names).iter_rows()
        pending += [
            (tuple(item.row[name] for name in names), [item.request] if item.request else [])
            for item in work._items(benchmark, missing)
        ]
        of_no_use |= set(stored.filter(error_class="no_verdict")["request_hash"])
    return done, pending, of_no_use, None


def _frame(identities: list[dict[str, Any]], schema: Mapping[str, pl.DataType], names: list[str]) -> pl.DataFrame:
    return pl.DataFrame(identities, schema={name: schema[name] for name in names})


def _sorted(keys: Iterable[Key]) -> list[list[Any]]:
    """As lists in a fixed order, nulls first."""
    return sorted(map(list, keys), key=lambda key: [(value is not None, str(value)) for value in key])
