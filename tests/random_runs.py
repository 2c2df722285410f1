"""Random runs of every kind, half made: their rows stand in frames instead of a lake, so that hundreds are quick."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import polars as pl

from shaberi_dagster.lake.journal.records import Call, Usage
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.lake.store import Keys
from shaberi_dagster.llm.request import ChatRequest
from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.planning import judged_again, plan_run
from shaberi_dagster.runs.questions import load_questions
from shaberi_dagster.runs.spec import RunRequest, RunSpec
from shaberi_dagster.runs.stages.base import RowStage
from shaberi_dagster.runs.stages.ordered import CALLING_NAMES, calling_stage
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.tasks.consensus.registry import DEFAULT_STRATEGIES
from shaberi_dagster.util.identity import sha256_text

_NOW = datetime(2026, 11, 20, tzinfo=UTC)


class FrameLake:
    """As much of a `Lake` as plans and forecasts read."""

    def __init__(self) -> None:
        self.frames = {name: table.schema.to_frame() for name, table in TABLES.items()}

    def read(self, table: str, keys: Keys | None = None, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Rows that match."""
        frame = self.frames[table]
        for name, values in (keys or {}).items():
            frame = frame.filter(pl.col(name).is_in([values] if isinstance(values, str) else list(values)))
        return frame.select(columns) if columns is not None else frame

    def exists(self, _: str) -> bool:
        """Frames have no versions to ask for."""
        return False

    def blocks(self, table: str, keys: Keys, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """All at once."""
        yield self.read(table, keys, columns)

    def add(self, table: str, rows: Sequence[dict[str, Any]]) -> None:
        """Store rows."""
        self.frames[table] = pl.concat([self.frames[table], pl.DataFrame(rows, schema=TABLES[table].schema)])


def on_frames(workspace: Workspace) -> Workspace:
    """The workspace with an empty lake of frames."""
    own = Workspace(workspace.settings, environment={})
    own.__dict__["lake"] = FrameLake()
    return own


def random_request(random: Random, place: Callable[[], str]) -> RunRequest:
    """What a user might ask for.

    Args:
        random: Decides.
        place: Gives the address of a server.
    """
    tag = random.choice(["t", "t-run2"])
    settings: dict[str, Any] = {"model": "m", "tag": tag, "base_url": place(), "limit": random.choice([1, 2, None])}
    settings |= {"temperature": random.choice([None, 0.7]), "judge_base_url": place()}
    if random.random() < 0.5:
        settings |= {
            "samples": random.randint(4, 5),  # with one of its own three are left, which the strategies need
            "single": random.choice(["own", "first"]),
            "sample_models": random.choice([None, ["m"], ["m", "n"]]),
            "strategies": random.sample(DEFAULT_STRATEGIES, random.randint(1, 5)),
            "consensus_model": random.choice([None, "decider"]),
        }
    asking = ["safety_check.model=guard"]
    passes = random.choice([None, ["lang_mixing"], ["safety_check", "repetition"]])
    judges = ["j", "k", "j+strict", "gpt-5.1", "embedded/smollm2-135m"]
    return RunRequest(
        **settings,
        benchmarks=random.sample(list(ALL_BENCHMARKS), random.randint(1, 2)),
        judge_models=random.choice([["embedded/smollm2-135m"], random.sample(judges, random.randint(1, 3))]),
        judge_temperature=random.choice([None, 0.3]),
        grader_model=random.choice([None, "grader", "m"]),
        passes=passes,
        pass_options=asking if passes and "safety_check" in passes else None,
    )


def half_made(request: RunRequest, random: Random, workspace: Workspace) -> RunSpec:
    """Store a run whose rows were made, failed, were superseded, or are missing; some calls are paid for without a row.

    Some rows have the identity of today, others that of former times.

    Args:
        request: The run.
        random: Decides.
        workspace: From `on_frames`.
    """
    lake: Any = workspace.lake
    spec = plan_run(request, workspace)
    for _ in range(random.randint(0, 2)):
        spec = judged_again(spec, [random.choice([*spec.judges]).name] if spec.judges else [], list(spec.benchmarks))
    run = {"run_id": spec.run_id, "model": spec.model, "run_tag": spec.run_tag}
    lake.add("runs", [run | {"spec": spec.model_dump_json(), "spec_hash": spec.spec_hash}])
    for name in spec.benchmarks:
        found = load_questions(spec, name, workspace)
        of_set = {"benchmark": name, "question_set": found.name, "question_set_sha256": found.sha256}
        lake.add("questions", [vars(one) | of_set | {"source": found.source} for one in found.questions])
    plan = RunPlan(spec, list(spec.benchmarks), workspace)
    for name in CALLING_NAMES:
        if (name == "consensus" and not spec.has_consensus) or (name == "pass_outputs" and not spec.passes):
            continue
        stage = calling_stage(name)(plan)
        planned = stage.planned()
        rows = [row for one in planned.iter_rows(named=True) for row in _made(stage, one, random)]
        lake.add(name, [run | row for row in rows])
        _pay(stage, planned, random)
    return spec


def _made(stage: RowStage[Any], planned: dict[str, Any], random: Random) -> Iterator[dict[str, Any]]:
    """The rows that there are of a planned one."""
    text = f"text {random.random()}"
    row = planned | {"created_at": _NOW, "status": "ok", "superseded": False} | _texts(stage.name, text)
    old = row | {"created_at": _NOW - timedelta(days=1)}
    failed = {"status": "error", "error_class": "no_score", "answer_state": None}
    if stage.supersedes and random.random() < 0.2:
        yield old | {"superseded": True} | random.choice([{}, failed])
    match random.choice(["ok"] * 6 + ["error", "missing", "unlike"]):
        case "ok":
            yield row
        case "error":
            yield row | failed
        case "unlike":
            yield row | {random.choice(stage.identity): None}


def _texts(stage: str, text: str) -> dict[str, Any]:
    if stage == "judgements":
        return {"score": 3.0, "judge_output": text}
    answer = {"answer": text, "answer_hash": sha256_text(text), "answer_state": "text"}
    return {"severity": 0.0} if stage == "pass_outputs" else answer


def _pay(stage: RowStage[Any], planned: pl.DataFrame, random: Random) -> None:
    """Let some calls have been made: those in the lake, and in the journal those of a process that was killed."""
    lake: Any = stage.workspace.lake
    items = stage.items(planned) if stage.name != "consensus" else iter(())
    requests = [item.request for item in items if item.request and random.random() < 0.3]
    labels = {"run_id": stage.run_ids[0], "stage": stage.name, "benchmark": stage.benchmarks[0]}
    lake.add("calls", [vars(call) | vars(call.usage) | labels for call in map(_reply, requests[::2])])
    if requests[1::2]:
        with stage.workspace.journals.open(stage.run_ids[0], stage.name) as journal:
            for request in requests[1::2]:
                journal.append(_reply(request), {"benchmark": stage.benchmarks[0]})


def _reply(request: ChatRequest) -> Call:
    return Call(
        request_hash=request.request_hash,
        model=request.model,
        base_url=request.endpoint.base_url,
        status="ok",
        error_class=None,
        error_message=None,
        content="FINAL SCORE: 3",
        reasoning=None,
        finish_reason="stop",
        usage=Usage(1, 1),
        attempts=1,
        latency_seconds=0.0,
        created_at=_NOW,
    )
