"""The request of a decision; light, so that help and usage errors are quick."""

from typing import Annotated

from pydantic import Field

from shaberi_dagster.runs.option import FLAT, option
from shaberi_dagster.runs.spec import BaseUrl, JudgeBaseUrl, JudgeKeyVariable, KeyVariable, Limit, Questions, RunRequest
from shaberi_dagster.util.models import Frozen

Candidates = Annotated[
    list[str], Field(description="Two or more (of --sweep one will do), or MODEL@@TAG for runs that are there")
]


@FLAT
class DecisionSettings(Frozen):
    """How some models are compared for a decision."""

    judge_models: Annotated[
        list[str] | None,
        Field(description="Judges; a question's score is their mean"),
        option("what", name="--judge", metavar="MODEL", known="judges"),
    ] = None
    benchmarks: Annotated[
        list[str] | None,
        Field(description="Names, or all; default: all"),
        option("what", name=("--benchmark", "--benchmarks"), known="benchmarks", commas=True),
    ] = None
    tag: Annotated[
        str | None, Field(description="Tag of the runs of which this asks a part"), option("what", known="runs")
    ] = None
    sweep: Annotated[
        list[str] | None,
        Field(description="Each value of a setting is a candidate, as of `run-evals --sweep`"),
        option("what", metavar="NAME=VALUE,VALUE"),
    ] = None
    questions: Questions = None
    limit: Limit = None
    samples: Annotated[int | None, Field(ge=1, description="Answers to each question; default: 1"), option("what")] = (
        None
    )
    strategies: Annotated[
        list[str] | None,
        Field(description="Each of each model is a candidate"),
        option("what", name="--strategy", known="strategies"),
    ] = None
    margin: Annotated[
        float | None, Field(gt=0, description="Up to it models are equal; default: 2 % of the scale"), option("how")
    ] = None
    error: Annotated[
        float, Field(gt=0, lt=0.5, description="Share of decisions that may be wrong in any pair"), option("how")
    ] = 0.01
    base_url: BaseUrl = None
    judge_base_url: JudgeBaseUrl = None
    api_key_variable: KeyVariable = None
    judge_api_key_variable: JudgeKeyVariable = None
    seed: Annotated[
        int | None,
        Field(ge=0, description="Rotates the order; default: it follows from what is decided"),
        option("advanced"),
    ] = None


USUAL_SETTINGS = DecisionSettings()


class DecisionRequest(DecisionSettings):
    """The decision that a user asks for in the command line or the launchpad."""

    candidates: Candidates

    def swept_run(self, name: str) -> tuple[str, str]:
        """Return the model of a candidate, and the tag to which a sweep adds its values."""
        model, _, tag = name.rpartition("@@")
        return (model, tag) if model else (name, self.tag or "default")

    def run_request(self, model: str, tag: str) -> RunRequest:
        """Return the request of the evaluation of which a decision about a model asks a part."""
        settings = {name: getattr(self, name) for name in _OF_RUNS}
        settings["limit"] = self.limit or "all"  # a limited run is asked further
        return RunRequest(model=model, tag=tag, **settings)


_OF_RUNS = sorted(DecisionRequest.model_fields.keys() & RunRequest.model_fields.keys() - {"tag"})
"""Settings that a request shares with the runs."""
