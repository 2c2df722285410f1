"""A judge and its settings, as a run records them."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from shaberi_dagster.llm.endpoints import default_max_tokens
from shaberi_dagster.llm.parameters import sent
from shaberi_dagster.llm.request import Endpoint
from shaberi_dagster.llm.types import Sampling
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS, JudgingDefaults
from shaberi_dagster.util.identity import sha256_json
from shaberi_dagster.util.models import Frozen

Rounding = Literal["none", "legacy"]


def judge_name(model: str, prompt: str | None) -> str:
    """The name of a judge: its model, and the variant of its prompt if it has one."""
    return f"{model}+{prompt}" if prompt else model


class JudgeSpec(Frozen):
    """A judge and its settings."""

    model: str
    prompt: str | None = None
    """Variant of its prompts; None is the prompts as they are."""
    endpoint: Endpoint
    temperature: float
    max_tokens: int
    score_rounding: Rounding
    parameters: dict[str, JsonValue] = {}  # noqa: RUF012  (pydantic copies it)
    """All other parameters by name, the system prompt among them."""
    samples: Annotated[int, Field(ge=1)] = 1
    """Number of times that it is asked about each answer."""
    rounds: dict[str, int] = {}  # noqa: RUF012  (pydantic copies it)
    """Number of times each benchmark was judged again (`--rejudge`); missing is 0."""

    @property
    def name(self) -> str:
        """The judge's name in tables and reports: judges that differ in their prompt are two."""
        return judge_name(self.model, self.prompt)

    def config_hash(self, *prompt_hashes: str) -> str:
        """Identity of everything that makes this judge's scores what they are, for one benchmark's prompts.

        Made of what is set, so that a setting that is added later changes no hash.
        """
        return sha256_json(self._settings | {"prompt_hashes": prompt_hashes})

    @property
    def sampling(self) -> Sampling:
        """Sampling parameters of its calls."""
        return Sampling(self.temperature, self.max_tokens, parameters=sent(self.parameters))

    @property
    def _settings(self) -> dict[str, Any]:
        return self.model_dump(exclude={"rounds", "endpoint"}, exclude_defaults=True)


def judge_defaults(endpoint: Endpoint) -> dict[str, Any]:
    """Settings of a judge for which none were given."""
    sampling = JudgingDefaults.sampling
    return {
        "temperature": sampling.temperature,
        "max_tokens": default_max_tokens(endpoint) or sampling.max_tokens,
        "score_rounding": "none",
        "parameters": {},
        "samples": 1,
    }


def judge_names(benchmark: str, models: Sequence[str]) -> list[str]:
    """List the names of these judges where they judge a benchmark; a rule judges without any of them, too."""
    entry = ALL_BENCHMARKS.get(benchmark)
    if entry is None or not entry.has_rule:
        return list(models)
    return [entry.grader, *(f"{entry.grader}+{model}" for model in models)]
