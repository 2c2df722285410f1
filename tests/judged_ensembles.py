"""Runs of ensembles whose verdicts a test chooses, in a real lake."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
import polars as pl

from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.questions import load_questions
from shaberi_dagster.runs.spec import RunRequest, RunSpec
from shaberi_dagster.runs.stored import store_run
from shaberi_dagster.runs.workspace import Workspace

Verdicts = Mapping[str, Sequence[Any]]
"""Strategy to what is right, question by question; None is a failure. Of `samples` each question has a list."""


SIZE = 20
"""Questions of a dataset, where a test does not say otherwise."""


def right(count: int, size: int = SIZE, first: int = 0) -> list[bool | None]:
    """So many right answers among the questions, from `first` on."""
    return [first <= number < first + count for number in range(size)]


def same(count: int, strategies: Sequence[str] = ("single", "plurality", "elo")) -> dict[str, list[bool | None]]:
    """Each strategy gets the first so many right."""
    return {name: right(count) for name in strategies}


def judged_ensemble(workspace: Workspace, verdicts: Mapping[str, Verdicts], **request: Any) -> RunSpec:
    """A complete run with these verdicts: dataset (none with options) to strategy to question.

    Datasets have as many questions as the longest of them, each its own; shorter verdicts leave rows out.
    """
    strategies = list(
        dict.fromkeys(name for one in verdicts.values() for name in one if name not in {"single", "samples"})
    )
    size = max(len(one) for of_dataset in verdicts.values() for one in of_dataset.values())
    folder = workspace.settings.warehouse.parent / f"questions-{size}"
    folder.mkdir(parents=True, exist_ok=True)
    for name in verdicts:
        rows = [{"question": f"{name} {number}", "reference": "1"} for number in range(size)]
        (folder / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    asked = {
        "model": "m",
        "base_url": "http://127.0.0.1:9/v1",
        "benchmarks": list(verdicts),
        "samples": 3,
        "single": "own",
        "strategies": strategies,
        "questions": str(folder),
    }
    spec = plan_run(RunRequest.model_validate(asked | request), workspace)
    store_run(spec, workspace)
    _score(workspace, spec, verdicts)
    states = orjson.dumps(dict.fromkeys(verdicts, "complete")).decode()
    stored = workspace.lake.read("runs", {"run_id": spec.run_id})
    done = stored.with_columns(status=pl.lit("complete"), status_by_benchmark=pl.lit(states))
    workspace.lake.replace("runs", done, {"run_id": spec.run_id})
    return spec


def _score(workspace: Workspace, spec: RunSpec, verdicts: Mapping[str, Verdicts]) -> None:
    rows, answers = [], []
    for name, of_dataset in verdicts.items():
        questions = load_questions(spec, name, workspace)
        for judge in spec.benchmarks[name].judges:
            own = {"run_id": spec.run_id, "model": spec.model, "run_tag": spec.run_tag, "benchmark": name}
            own |= {"question_set": questions.name, "judge": judge, "judge_config_hash": f"settings of {judge}"}
            own |= {"sample_index": 0, "pipeline": "baseline", "created_at": datetime.now(UTC)}
            rows += [
                own | {"strategy": strategy, "question_id": question.question_id, "answer_hash": "a"} | _verdict(right)
                for strategy, given in of_dataset.items()
                if strategy != "samples"
                for question, right in zip(questions.questions, given, strict=False)
            ]
            samples = [
                own | {"question_id": question.question_id, "sample_index": index, "answer_hash": "a"} | _verdict(right)
                for question, given in zip(questions.questions, of_dataset.get("samples", ()), strict=False)
                for index, right in enumerate(given, 1)
            ]
            rows += [one | {"strategy": None} for one in samples]
        of_answer = (
            "run_id",
            "model",
            "run_tag",
            "benchmark",
            "question_set",
            "question_id",
            "sample_index",
            "created_at",
        )
        answers += [
            {column: one[column] for column in of_answer}
            | {"answer_model": spec.sampled(name, one["sample_index"]).model, "status": "ok"}
            for one in samples
        ]
    workspace.lake.append("scores", pl.DataFrame(rows, infer_schema_length=None))
    if answers:
        workspace.lake.append("answers", pl.DataFrame(answers, infer_schema_length=None))


def _verdict(right: bool | str | None) -> dict[str, Any]:
    """Right, wrong, or the class of a failure."""
    if isinstance(right, bool):
        return {"status": "ok", "error_class": None, "baseline_score": float(right), "score": float(right)}
    return {"status": "error", "error_class": right or "timeout", "baseline_score": None, "score": None}
