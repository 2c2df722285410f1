"""What the planner of the day says of a stored run: what stands, what is pending, and what was paid for already.

The one module of the kept lake that knows how stages plan. A planner that works otherwise needs another
`standing_and_pending`, which must say the same.
"""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from shaberi_dagster.lake.journal.records import Call, Usage
from shaberi_dagster.llm.endpoints import request_body
from shaberi_dagster.llm.request import ChatRequest
from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stages.base import Item, RowStage
from shaberi_dagster.runs.stages.ordered import calling_stage
from shaberi_dagster.runs.workspace import Workspace
from tests.kept_lake.endpoint import body_sha256

Key = tuple[Any, ...]
_KEYS = {
    "answers": ("benchmark", "question_id", "sample_index"),
    "consensus": ("benchmark", "question_id", "strategy"),
    "judgements": ("benchmark", "judge", "question_id", "sample_index"),
    "pass_outputs": ("benchmark", "question_id", "sample_index", "pass_config_hash"),
}
_KEY_OF_GRADES = ("benchmark", "judge", "strategy", "question_id", "sample_index")


def stages_with_rows(spec: RunSpec) -> list[str]:
    """The stages whose rows can be pending."""
    if spec.has_consensus:
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
    work = calling_stage(stage)(RunPlan(spec, list(spec.benchmarks), workspace))
    survey = work.survey()
    key = list(_KEY_OF_GRADES if spec.has_consensus and stage == "judgements" else _KEYS[stage])
    pending = [
        (tuple(item.columns[name] for name in key), _first_requests(work, item)) for item in work.items(survey.pending)
    ]
    hashes = [request.request_hash for _, requests in pending for request in requests]
    journaled, paid = workspace.journals.finished_calls(spec.run_id, stage).keys(), work.known_calls()
    if paid is None:
        paid = work.paid_calls(survey.stored).find(hashes)

    def call(request: ChatRequest) -> list[str]:
        name = request.request_hash
        place = "journal" if name in journaled else "lake" if name in paid else "nowhere"
        return [request.request_hash, body_sha256(request_body(request)), place]

    return {
        "standing": _sorted(survey.standing.select(key).iter_rows()),
        "pending": _sorted((*key, [call(request) for request in requests]) for key, requests in pending),
    }


def _first_requests(work: RowStage[Any], item: Item) -> list[ChatRequest]:
    """The calls that need no other call's reply: what is asked where every call fails."""
    if work.name != "consensus":
        return [item.request] if item.request else []
    requests: list[ChatRequest] = []

    async def fails(request: ChatRequest, purpose: str, *, lookup: bool = False) -> tuple[Call, bool]:
        assert lookup, purpose
        requests.append(request)
        names = (request.request_hash, request.model, request.endpoint.base_url)
        failed = ("error", "permanent", "not asked", None, None, None)
        return Call(*names, *failed, Usage(), attempts=0, latency_seconds=0.0, created_at=datetime.now(UTC)), False

    asyncio.run(work.make(item, fails))
    return requests


def _sorted(keys: Iterable[Key]) -> list[list[Any]]:
    """As lists in a fixed order, nulls first."""
    return sorted(map(list, keys), key=lambda key: [(value is not None, str(value)) for value in key])
