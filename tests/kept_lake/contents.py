"""What is in a lake, as far as it decides what stands, what is paid for, and what the scores are."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from shaberi_dagster.lake.schemas import METRICS, SCORES
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from tests.kept_lake.commands import environment_of
from tests.kept_lake.endpoint import body_sha256
from tests.kept_lake.keys import stages_with_rows, standing_and_pending
from tests.mock_endpoint import MockEndpoint

KEPT = Path(__file__).parent
ARCHIVE, GOLDEN = KEPT / "kept_lake.tar.xz", KEPT / "golden.json"

_SAMPLE = ("run_id", "benchmark", "question_set", "question_id", "sample_index")
_OUTCOME = ("status", "error_class")
COLUMNS: dict[str, tuple[str, ...]] = {
    "runs": ("run_id", "base_tag", "run_number", "spec_hash", "status", "status_by_benchmark"),
    "questions": ("benchmark", "question_set", "question_set_sha256", "position", "question_id"),
    "answers": (
        *(*_SAMPLE, "prompt_hash", "request_hash", "answer_hash", "answer_model", "answer_state", "truncated"),
        *_OUTCOME,
    ),
    "consensus": (
        *("run_id", "benchmark", "question_set", "question_id", "strategy", "strategy_version"),
        *("strategy_prompt_hash", "candidates_hash", "consensus_model", "answer_hash", "winner", "calls", *_OUTCOME),
    ),
    "judgements": (
        *(*_SAMPLE, "strategy", "judge", "judge_round", "superseded", "judge_config_hash", "judge_prompt_hash"),
        *("request_hash", "fallback_request_hash", "answer_hash", "judge_model", "score", "score_source", *_OUTCOME),
    ),
    "pass_outputs": (
        *(*_SAMPLE, "strategy", "pass", "pass_version", "pass_config_hash", "pass_prompt_hash", "request_hash"),
        *("answer_hash", "severity", *_OUTCOME),
    ),
    "scores": tuple(name for name in SCORES.schema if name != "created_at"),
    "metrics": tuple(name for name in METRICS.schema if name != "created_at"),
    "calls": ("run_id", "stage", "purpose", "benchmark", "question_id", "model", "base_url", "request_hash", "status"),
    "legacy_files": ("source", "path", "sha256", "status", "lines", "imported", "repeated", "quarantined"),
}
"""The columns of each table that must never come out otherwise, as they were when the lake was made."""


def workspace_of(folder: Path) -> Workspace:
    """The workspace of the lake in a folder."""
    return Workspace(Settings.from_environment(environment_of(folder)), environment={})


def rows_of(
    workspace: Workspace, table: str, columns: Sequence[str], keys: dict[str, Any] | None = None
) -> list[list[Any]]:
    """Some columns of a table's rows, in a fixed order."""
    frame = workspace.lake.read(table, keys, list(columns))
    return as_json(sorted(frame.rows(), key=lambda row: [(value is not None, str(value)) for value in row]))


def specs_of(workspace: Workspace) -> dict[str, RunSpec]:
    """The specs of all runs that have one, by run."""
    stored = workspace.lake.read("runs", None, ["run_id", "spec"]).sort("run_id")
    specs = {run_id: RunSpec.read(spec) for run_id, spec in stored.iter_rows()}
    return {run_id: spec for run_id, spec in specs.items() if spec.origin == "own"}


def plans_of(workspace: Workspace) -> dict[str, dict[str, Any]]:
    """What stands and what is pending, by run and stage."""
    return {
        run_id: {stage: standing_and_pending(workspace, spec, stage) for stage in stages_with_rows(spec)}
        for run_id, spec in specs_of(workspace).items()
    }


def calls_by_stage(workspace: Workspace) -> dict[str, dict[str, int]]:
    """How many calls the lake has, by run and stage."""
    counted = workspace.lake.read("calls", None, ["run_id", "stage"]).group_by("run_id", "stage").len()
    by_run: dict[str, dict[str, int]] = {}
    for run_id, stage, number in counted.sort("run_id", "stage").iter_rows():
        by_run.setdefault(run_id, {})[stage] = number
    return by_run


def run_ids_of(workspace: Workspace, model: str) -> list[str]:
    """The runs of a model."""
    return workspace.lake.read("runs", {"model": model}, ["run_id"])["run_id"].sort().to_list()


def asked(mock: MockEndpoint) -> list[list[Any]]:
    """What the endpoint was asked: model, hash of the body, and how often."""
    bodies = Counter((body["model"], body_sha256(body)) for body in mock.bodies)
    return sorted([model, name, number] for (model, name), number in bodies.items())


def as_json(value: Any) -> Any:
    """The value as it comes back from a file."""
    return orjson.loads(orjson.dumps(value))


def read_golden() -> dict[str, Any]:
    """What the code that made the lake said of it."""
    golden: dict[str, Any] = orjson.loads(GOLDEN.read_bytes())
    return golden


def as_lines(value: Any, depth: int) -> str:
    """JSON with a line for each thing down to a depth, so that a difference can be read."""
    if depth == 0 or not isinstance(value, dict | list) or not value:
        return orjson.dumps(value).decode()
    if isinstance(value, dict):
        inside = [f"{orjson.dumps(name).decode()}: {as_lines(one, depth - 1)}" for name, one in value.items()]
        return "{\n" + ",\n".join(inside) + "\n}"
    return "[\n" + ",\n".join(as_lines(one, depth - 1) for one in value) + "\n]"
