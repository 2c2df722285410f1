"""Runs against the mock endpoint, for the tests of the stages."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import polars as pl
import pytest

from shaberi_dagster.llm.engine import Engine, RetrySettings
from shaberi_dagster.runs import workspace as runs_workspace
from shaberi_dagster.runs import workspace as workspace_module
from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.spec import CallOptions, RunRequest, RunSpec
from shaberi_dagster.runs.stages.base import StageResult
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES, calling_stage
from shaberi_dagster.runs.stored import store_run
from shaberi_dagster.runs.workspace import EngineThread, Workspace
from tests.mock_endpoint import MockEndpoint


@contextmanager
def own_engine(environment: Mapping[str, str]) -> Iterator[None]:
    """Within this context the process has an engine with these keys, which soon gives up."""
    thread = EngineThread(environment)
    thread.engine = Engine(environment, retry=RetrySettings(transient_attempts=2, first_delay_seconds=0.01))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workspace_module, "_threads", {os.getpid(): thread})
        try:
            yield
        finally:
            thread.close()


@contextmanager
def without_results() -> Iterator[None]:
    """Within this context nothing is written to `results/` after each stage of a few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs_workspace, "write_manifest", lambda *_, **__: None)
        patch.setattr(runs_workspace, "export_runs", lambda *_, **__: SimpleNamespace(failed={}))
        yield


def ask(mock: MockEndpoint, **values: Any) -> RunRequest:
    """A request for a run of `mock-model` on tengu with `judge-a`, both at the mock endpoint."""
    settings: dict[str, Any] = {
        "model": "mock-model",
        "base_url": mock.base_url,
        "judge_models": ["judge-a"],
        "judge_base_url": mock.base_url,
        "benchmarks": ["tengu"],
    }
    return RunRequest(**settings | values)


def stored_run(workspace: Workspace, request: RunRequest) -> RunSpec:
    """The planned and stored run."""
    spec = plan_run(request, workspace)
    store_run(spec, workspace)
    return spec


def reusing(workspace: Workspace) -> Workspace:
    """The workspace of a command with --reuse: replies of other runs from the same address count."""
    return Workspace(workspace.settings, environment={}, options=CallOptions(reuse=True))


def frozen(spec: RunSpec, workspace: Workspace) -> None:
    """Give a run an answer, by which its settings are frozen."""
    (benchmark, *_) = spec.benchmarks
    sample = {"question_set": spec.benchmarks[benchmark].question_set, "question_id": "q", "sample_index": 0}
    run = {"run_id": spec.run_id, "model": spec.model, "run_tag": spec.run_tag, "benchmark": benchmark}
    workspace.lake.append("answers", pl.DataFrame([run | sample | {"status": "ok", "created_at": datetime.now(UTC)}]))


def materialized(
    spec: RunSpec, workspace: Workspace, *stages: str, judges: tuple[str, ...] = ()
) -> dict[str, StageResult]:
    """The outcomes of the stages (all, if none is named) for the run's first benchmark."""
    outcomes = {
        stage: materialize(stage, spec.run_id, list(spec.benchmarks), workspace, judges)
        for stage in stages or STAGE_NAMES
    }
    return {stage: made[0] for stage, made in outcomes.items() if made}


def checks(outcome: StageResult) -> dict[str, bool]:
    """The checks' names and whether they passed."""
    return {check.name: check.passed for check in outcome.checks}


def asked_of(mock: MockEndpoint, model: str) -> int:
    """How many requests for this model the endpoint got."""
    return sum(body["model"] == model for body in mock.bodies)


def write_questions(folder: Path, count: int, benchmark: str = "rakuda") -> Path:
    """A folder with that many questions."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"question": f"質問{number}は何ですか。", "category": "地理"} for number in range(1, count + 1)]
    (folder / f"{benchmark}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return folder


def items_of(stage: str, spec: RunSpec, workspace: Workspace) -> list[Any]:
    """All items that a stage of a run plans, whether they are made or not."""
    planned = calling_stage(stage)(RunPlan(spec, list(spec.benchmarks), workspace))
    return list(planned.items(planned.planned()))


def stages_made(spec: RunSpec, workspace: Workspace, stage: str) -> int:
    """Materialize one stage of all benchmarks of a run; how many calls that made."""
    results = materialize(stage, spec.run_id, list(spec.benchmarks), workspace)
    return sum(result.facts.get("calls_made", 0) for result in results)
