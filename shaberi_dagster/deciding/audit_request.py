"""The request of an audit of rule verdicts; light, so that help and usage errors are quick."""

from typing import Annotated

from pydantic import Field

from shaberi_dagster.runs.option import Option
from shaberi_dagster.runs.spec import JudgeBaseUrl, JudgeKeyVariable
from shaberi_dagster.util.models import Frozen


class AuditRequest(Frozen):
    """The audit that a user asks for in the command line or the launchpad."""

    audit: Annotated[
        int | None,
        Field(ge=1, description="Have N verdicts of rules, drawn at random, graded again by a model"),
        Option("what", metavar="N"),
    ] = None
    judge_model: Annotated[
        str | None, Field(description="The model that grades them"), Option("what", metavar="MODEL")
    ] = None
    models: Annotated[list[str] | None, Field(description="Of these models; default: all")] = None
    tags: Annotated[list[str] | None, Field(description="Of runs with these tags; default: all")] = None
    sources: Annotated[list[str] | None, Field(description="Of runs of these imported trees; default: all")] = None
    benchmarks: Annotated[
        list[str] | None,
        Field(description="Draw from these; default: all, evenly"),
        Option("what", ("--benchmark", "--benchmarks"), known="benchmarks"),
    ] = None
    judge_base_url: JudgeBaseUrl = None
    judge_api_key_variable: JudgeKeyVariable = None

    @property
    def is_asked(self) -> bool:
        """True if anything of an audit is asked for."""
        return bool(self.audit or self.judge_model or self.judge_base_url)
