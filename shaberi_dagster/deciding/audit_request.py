"""The request of an audit of rule verdicts; light, so that help and usage errors are quick."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field

from shaberi_dagster.runs.option import FLAT, NO_OPTION, option
from shaberi_dagster.runs.spec import JudgeBaseUrl, JudgeKeyVariable, RunSpec
from shaberi_dagster.tasks.benchmarks.registry import get_benchmark
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.models import Frozen


@FLAT
class AuditRequest(Frozen):
    """The audit that a user asks for in the command line or the launchpad."""

    audit: Annotated[int | None, Field(ge=1, description="How many verdicts an audit draws"), NO_OPTION] = None
    judge_model: Annotated[
        str | None, Field(description="The model that grades them"), option("what", metavar="MODEL")
    ] = None
    share: Annotated[
        float | None,
        Field(gt=0, le=1, description="Instead of N: this share of the verdicts of each benchmark"),
        NO_OPTION,
    ] = None
    models: Annotated[list[str] | None, Field(description="Of these models; default: all"), NO_OPTION] = None
    tags: Annotated[list[str] | None, Field(description="Of runs with these tags; default: all"), NO_OPTION] = None
    sources: Annotated[
        list[str] | None, Field(description="Of runs of these imported trees; default: all"), NO_OPTION
    ] = None
    benchmarks: Annotated[
        list[str] | None,
        Field(description="Draw from these; default: all, evenly"),
        option("what", name=("--benchmark", "--benchmarks"), known="benchmarks", commas=True),
    ] = None
    judge_base_url: JudgeBaseUrl = None
    judge_api_key_variable: JudgeKeyVariable = None

    @property
    def in_plan(self) -> str:
        """Sentence for a plan, which knows no verdicts of which a share could be drawn."""
        return f"Not in the plan: the audit asks {self.judge_model} about {self.share:.1%} of what rules decide."

    @classmethod
    def of_runs(cls, share: float | None, specs: Sequence[RunSpec], benchmarks: Sequence[str]) -> Self | None:
        """Return the audit of a share of what rules say of some runs, by the first of their judges; None without one.

        Raises:
            ConfigurationError: They have no judge that is a model, or no benchmark that a rule grades.
        """
        if share is None:
            return None
        ruled = [name for name in benchmarks if get_benchmark(name).has_rule]
        if not (specs[0].judges and ruled):
            raise ConfigurationError("--audit takes benchmarks that rules grade, and a model: --judge-model names it")
        judge = specs[0].judges[0]
        return cls(
            share=share,
            judge_model=judge.model,
            models=list(dict.fromkeys(spec.model for spec in specs)),
            tags=[spec.run_tag for spec in specs],
            benchmarks=ruled,
            judge_base_url=judge.endpoint.base_url,
            judge_api_key_variable=judge.endpoint.api_key_variable,
        )


ANY_AUDIT = AuditRequest()
"""The request of an audit whose runs and number of verdicts are still to be named."""
