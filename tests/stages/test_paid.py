"""Which finished calls count for a run: its own, and those of others in three cases."""

from datetime import UTC, datetime
from itertools import product
from typing import Any

import polars as pl
import pytest

from shaberi_dagster.lake.journal.records import Call, Usage
from shaberi_dagster.llm.endpoints import resolve_endpoint
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.spec import CallOptions, RunRequest, RunSpec
from shaberi_dagster.runs.stages.paid import PaidCalls, Sharing, is_dated
from shaberi_dagster.runs.stored import store_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings

pytestmark = pytest.mark.integration

_URL, _OTHER = "http://localhost:8000/v1", "http://localhost:9000/v1"
_OPENAI = resolve_endpoint("gpt-5.1").base_url
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _call(model: str = "m", base_url: str = _URL, request_hash: str = "h", content: str = "text") -> Call:
    return Call(request_hash, model, base_url, "ok", None, None, content, None, "stop", Usage(3), 1, 0.1, _NOW)


def _stored(workspace: Workspace, tag: str, **request: Any) -> RunSpec:
    place = {"base_url": _URL, "judge_base_url": _URL, "judge_models": ["j"], "benchmarks": ["rakuda"]}
    spec = plan_run(RunRequest.model_validate(place | {"model": "m", "tag": tag} | request), workspace)
    store_run(spec, workspace)
    return spec


def _sharing(
    spec: RunSpec, workspace: Workspace, *, of_samples: bool = True, addresses: set[str] | None = None
) -> Sharing:
    return Sharing(spec, spec.run_id, addresses or {_URL, _OPENAI}, workspace, of_samples=of_samples)


@pytest.mark.parametrize(
    ("fresh", "reuse", "shares", "of_samples"),
    [case for case in product([False, True], repeat=4) if not case[0] or not case[1]],
)
def test_replies_of_other_runs_count_in_three_cases(
    fresh: bool, reuse: bool, shares: bool, of_samples: bool, settings: Settings
) -> None:
    workspace = Workspace(settings, options=CallOptions(fresh=fresh, reuse=reuse))
    own = _stored(workspace, "own", shares_samples=shares)
    _stored(workspace, "sharing", shares_samples=True)
    _stored(workspace, "apart")
    sharing = _sharing(own, workspace, of_samples=of_samples)
    samples = reuse or (shares and of_samples and not fresh)

    assert sharing.counts("m@@own", _call(base_url=_OTHER)), "its own, wherever the server was"
    assert sharing.counts("m@@decide-own", _call(base_url=_OTHER)), "what decisions asked of it"
    assert sharing.counts("m@@sharing", _call()) == samples
    assert sharing.counts("m@@apart", _call()) == reuse
    assert not sharing.counts("m@@sharing", _call(base_url=_OTHER))
    dated = _call("gpt-5.1-2025-11-13", _OPENAI)
    assert sharing.counts("x@@y", dated) == (not fresh)
    assert sharing.may_take(dated.model, dated.base_url) == (not fresh)
    assert sharing.may_take("m", _URL) == samples
    elsewhere = _sharing(own, workspace, addresses={_OTHER})
    assert not elsewhere.counts("x@@y", dated), "from another address than the run's"


@pytest.mark.parametrize(
    ("model", "base_url", "dated"),
    [
        ("gpt-5.1-2025-11-13", _OPENAI, True),
        ("gpt-4.1-mini-2025-04-14", _OPENAI, True),
        ("claude-sonnet-4-5-20250929", _OPENAI, True),
        ("gpt-5.1", _OPENAI, False),
        ("gpt-4-0125-preview", _OPENAI, False),
        ("gemini-2.5-flash-preview-2025-09-25", _OPENAI, False),
        ("chatgpt-4o-latest", _OPENAI, False),
        ("qwen3-30b-2507", _OPENAI, False),
        ("my-model-2025-11-13", _URL, False),
    ],
)
def test_a_dated_model_of_a_provider_keeps_its_weights(model: str, base_url: str, dated: bool) -> None:
    assert is_dated(model, base_url) == dated


def test_calls_are_found_in_the_lake_by_their_request_and_failures_never(workspace: Workspace) -> None:
    spec = _stored(workspace, "own")
    calls = [_call(request_hash="a"), _call(request_hash="b", content=""), _call(request_hash="c")]
    rows = [call.to_record() | {"run_id": spec.run_id, "stage": "answers", "created_at": _NOW} for call in calls]
    rows[2] |= {"status": "error", "error_class": "transient", "content": None}
    workspace.lake.append("calls", pl.DataFrame(rows))
    sharing = _sharing(spec, workspace)
    paid = PaidCalls(
        spec.run_id, "answers", workspace, lambda: None, unusable={"x"}, is_usable=lambda _: True, sharing=sharing
    )
    found = paid.find(["a", "b", "c", "d"])
    assert {name: (call.content, call.usage.prompt_tokens) for name, call in found.items()} == {
        "a": ("text", 3),
        "b": ("", 3),
    }


def test_fresh_and_reuse_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="leave one out"):
        CallOptions(fresh=True, reuse=True)
