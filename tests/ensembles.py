"""Runs of an ensemble against the mock endpoint: the model, the one that decides and the one that grades have own names."""

from collections.abc import Callable
from functools import cache
from typing import Any

from shaberi_dagster.runs.spec import RunRequest, RunSpec
from shaberi_dagster.runs.stages.base import StageResult
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.benchmarks.questions import Question, load_question_set
from shaberi_dagster.tasks.benchmarks.registry import get_benchmark
from shaberi_dagster.tasks.consensus.registry import DEFAULT_STRATEGIES
from tests.example_runs import ask
from tests.mock_endpoint import MockEndpoint, Scripted

MODEL, DECIDER, GRADER = "mock-model", "decider", "grader"
Says = Callable[[dict[str, Any]], Scripted] | str
SAMPLES, STRATEGIES = 6, 6
"""Answers of a question by an ensemble of 5 with a single answer of its own, and the strategies with `single`."""


@cache
def starter_questions(benchmark: str) -> tuple[Question, ...]:
    return load_question_set(get_benchmark(benchmark), "starter").questions


def prompt_of(body: dict[str, Any]) -> str:
    """All that was said to the model."""
    return "\n".join(str(message["content"]) for message in body["messages"])


def question_in(body: dict[str, Any], benchmark: str = "gsm8k") -> Question:
    """The starter question that a prompt is about."""
    return next(one for one in starter_questions(benchmark) if one.question in prompt_of(body))


def truth(body: dict[str, Any]) -> str:
    """The right answer to a question of gsm8k."""
    return f"The answer is {question_in(body).reference}."


def scripted(**says: Says) -> Callable[[dict[str, Any], int], Scripted]:
    """A script with what each model says; those that are not named tell the truth."""

    def script(body: dict[str, Any], _: int) -> Scripted:
        said = says.get(body["model"].replace("-", "_"), truth)
        return said(body) if callable(said) else said

    return script


def ask_ensemble(mock: MockEndpoint, **values: Any) -> RunRequest:
    """A request for 3 questions of gsm8k and 5 samples, all models at the mock endpoint."""
    settings: dict[str, Any] = {
        "model": MODEL,
        "judge_models": None,
        "benchmarks": ["gsm8k"],
        "samples": 5,
        "single": "own",
        "strategies": list(DEFAULT_STRATEGIES),
        "consensus_model": DECIDER,
        "sample": 3,
    }
    return ask(mock, **settings | values)


def ensemble_stages(spec: RunSpec, workspace: Workspace, *stages: str) -> dict[str, StageResult]:
    """The outcomes of the stages (all, if none is named) for the run's first benchmark."""
    (name, *_) = spec.benchmarks
    return {stage: materialize(stage, spec.run_id, [name], workspace)[0] for stage in stages or STAGE_NAMES}
