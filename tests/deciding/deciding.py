"""Models of a known strength at the mock endpoint, and what is asked of them."""

import hashlib
import re
from dataclasses import dataclass

import numpy as np
import polars as pl

from shaberi_dagster.deciding.decision import decide, prepare
from shaberi_dagster.deciding.request import DecisionRequest
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.identity import run_id_of, sha256_text
from tests.example_runs import write_questions
from tests.mock_endpoint import running_mock

N_QUESTIONS = 32
"""Where a test does not say otherwise."""
_ANSWER = re.compile(r"answer of (\S+) to (\d+)")
_QUESTION = re.compile(r"質問(\d+)は")


def noise(*parts):
    """A number between -1 and 1 that the parts fix."""
    return int.from_bytes(hashlib.sha256("\0".join(map(str, parts)).encode()).digest()[:4], "big") / 2**31 - 1


def score_of(model, number, strength=0.0, seed=0):
    """What a judge gives: the question's difficulty, the model's own luck, and its strength."""
    value = 6 + 2 * noise("difficulty", number) + noise(seed, model, number) + strength
    return round(min(max(value, 0), 10), 1)


def judging(strengths, seed=0):
    """A script for the mock endpoint: models answer, judges score by the strength of who answered."""

    def script(body, _):
        prompt = "\n".join(str(message["content"]) for message in body["messages"])
        if "FINAL SCORE" in prompt:
            model, number = _ANSWER.findall(prompt)[-1]
            return f"FINAL SCORE: {score_of(model, number, strengths.get(model, 0.0), seed)}"
        return f"answer of {body['model']} to {_QUESTION.findall(prompt)[-1]}"

    return script


def request(mock, tmp_path, *candidates, n=N_QUESTIONS, **values):
    """A decision by judge-a on n questions."""
    folder = write_questions(tmp_path / f"questions{n}", n)
    own = {"judge_models": ["judge-a"], "benchmarks": ["rakuda"], "base_url": mock.base_url}
    own |= {"judge_base_url": mock.base_url, "questions": str(folder)}
    return DecisionRequest(candidates=list(candidates), **(own | values))


def decided(asked, workspace, told=lambda _: None):
    """The stored row and curve of a decision."""
    decision = prepare(asked, workspace)
    decide(decision, workspace, told)
    keys = {"decision_id": decision.decision_id}
    (row,) = workspace.lake.read("decisions", keys).rows(named=True)
    return row, workspace.lake.read("decision_looks", keys).sort("n_asked")


def remember(workspace, judge="judge-a", models=80, n=N_QUESTIONS, seed=1):
    """Scores of past models by a judge, some of which are alike."""
    rng = np.random.default_rng(seed)
    loads = np.random.default_rng(3).normal(0.6, 0.5, (3, n))
    scores = np.clip(6.5 + rng.normal(size=(models, 3)) @ loads + 0.5 * rng.normal(size=(models, n)), 0, 10)
    rows = []
    for number, own in enumerate(scores):
        model = f"fam{'abcdefghij'[number % 10] * 2}-{number}"
        run = {"run_id": run_id_of(model, "t"), "model": model, "run_tag": "t", "benchmark": "rakuda"}
        rows += [
            run
            | {
                "question_set": f"rakuda@{n}",
                "question_id": sha256_text(f"質問{question + 1}は何ですか。"),
                "sample_index": 0,
                "judge": judge,
                "status": "ok",
                "pipeline": "baseline",
                "score": float(score),
            }
            for question, score in enumerate(own)
        ]
    frame = pl.DataFrame(rows).with_columns(created_at=pl.lit("2026-07-01T00:00:00Z").str.to_datetime(time_zone="UTC"))
    workspace.lake.append("scores", frame)


@dataclass(frozen=True)
class Try:
    """How a decision between two models ended, of which one is 0.5 better.

    Attributes:
        best: Who was found to be the best.
        n_asked: Questions asked.
        requests: Calls that the server counted.
        calls: Calls that the decision counted.
    """

    best: list[str] | None
    n_asked: int
    requests: int
    calls: int

    @property
    def is_right(self):
        """Whether the better one was found."""
        return self.best is not None and [name.split("@@")[0] for name in self.best] == ["better"]


def one_try(folder, seed, n=120):
    """A decision at a real endpoint and on a new lake, with a history of 80 models of the judge."""
    settings = Settings.from_environment(
        {"SHABERI_WAREHOUSE": str(folder / "warehouse"), "DAGSTER_HOME": str(folder / "dagster")}
    )
    workspace = Workspace(settings, environment={})
    remember(workspace, n=n, seed=seed)
    with running_mock(script=judging({"better": 0.5}, seed)) as mock:
        row, _ = decided(request(mock, folder, "worse", "better", n=n), workspace)
        return Try(row["best"], row["n_asked"], mock.stats()["requests"], row["calls"])
