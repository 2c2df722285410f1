"""The request of a link between imported and new scores of a judge; light, so that help and usage errors are quick."""

from typing import Annotated

from pydantic import Field

from shaberi_dagster.runs.option import FLAT, option
from shaberi_dagster.runs.spec import (
    JudgeBaseUrl,
    JudgeKeyVariable,
    JudgeMaxTokens,
    JudgeTemperature,
    RunRequest,
    ScoreRounding,
)
from shaberi_dagster.util.models import Frozen


@FLAT
class LinkRequest(Frozen):
    """The link that a user asks for in the command line or the launchpad."""

    judge: Annotated[
        str, Field(description="Whose imported scores are linked"), option("what", metavar="JUDGE", known="judges")
    ]
    preset: Annotated[
        str,
        Field(description="Prompt set that it judges with now: the judge JUDGE+NAME"),
        option("what", metavar="NAME"),
    ]
    models: Annotated[
        list[str] | None,
        Field(description="Five or more whose stored answers are judged again; default: eight at random"),
        option("what", known="models", commas=True),
    ] = None
    questions: Annotated[
        int, Field(ge=1, description="Answers of each model, dealt to the benchmarks"), option("what")
    ] = 100
    benchmarks: Annotated[
        list[str] | None,
        Field(description="Names; default: all that the judge has judged of all of these models"),
        option("what", name=("--benchmark", "--benchmarks"), known="benchmarks", commas=True),
    ] = None
    source: Annotated[
        str | None,
        Field(description="Tree of the imported scores, where the judge has some in several"),
        option("what"),
    ] = None
    margin: Annotated[
        float,
        Field(gt=0, description="Granted where the offset is shown to be smaller, on the reported scale"),
        option("how"),
    ] = 0.2
    judge_model: Annotated[
        str | None,
        Field(description="Name of the same judge at its endpoint; default: JUDGE"),
        option("how", metavar="MODEL"),
    ] = None
    judge_base_url: JudgeBaseUrl = None
    judge_api_key_variable: JudgeKeyVariable = None
    judge_temperature: JudgeTemperature = None
    judge_max_tokens: JudgeMaxTokens = None
    score_rounding: ScoreRounding = None
    seed: Annotated[
        int | None,
        Field(ge=0, description="Of the sample; default: it follows from judge and prompt set"),
        option("advanced"),
    ] = None

    def run_request(self, model: str, tag: str, benchmarks: list[str]) -> RunRequest:
        """Return the request by which the new judge would judge all stored answers of an imported run."""
        same = {name: getattr(self, name) for name in _OF_RUNS}
        judges = [self.judge_model or self.judge]
        return RunRequest(
            model=model, tag=tag, benchmarks=benchmarks, judge_models=judges, judge_prompt=self.preset, **same
        )


_OF_RUNS = (*("judge_base_url", "judge_api_key_variable"), *("judge_temperature", "judge_max_tokens", "score_rounding"))
"""Settings that a request shares with the runs."""
