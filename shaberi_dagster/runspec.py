"""What a run is asked to be (`RunRequest`), what it is (`RunSpec`), and how calls are made for it (`CallOptions`)."""

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.identity import run_id_of, sha256_json
from shaberi_dagster.llm.limiter import LimiterSettings
from shaberi_dagster.llm.types import Endpoint

_RUN_NUMBER = re.compile(r"(?P<base>.+)-run(?P<number>[1-9]\d*)")


class RunRequest(BaseModel):
    """What a user asks for, in the command line, the launchpad or a YAML file.

    None means: as the stored run has it, else the benchmark's default.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Annotated[str, Field(description="Model to evaluate, e.g. gpt-5.1 or embedded/smollm2-135m")]
    tag: Annotated[str, Field(description="Run tag: one model can have many runs")] = "default"
    benchmarks: Annotated[list[str], Field(description="Benchmark names, or all")] = ["all"]
    judge_models: Annotated[
        list[str] | None, Field(description="Judge models; none: the run's own, else the embedded model")
    ] = None
    passes: Annotated[list[str] | None, Field(description="Score-modifying passes, in order")] = None
    base_url: Annotated[str | None, Field(description="OpenAI-compatible endpoint of the model, up to /v1")] = None
    judge_base_url: Annotated[str | None, Field(description="Endpoint of the judges, up to /v1")] = None
    api_key_variable: Annotated[
        str | None, Field(description="Environment variable with the key of base_url (default SHABERI_API_KEY)")
    ] = None
    judge_api_key_variable: Annotated[
        str | None, Field(description="Environment variable with the key of judge_base_url")
    ] = None
    temperature: Annotated[float | None, Field(ge=0, le=2, description="Sampling temperature of answers")] = None
    max_tokens: Annotated[int | None, Field(ge=1, description="Most completion tokens of an answer")] = None
    frequency_penalty: Annotated[float | None, Field(ge=-2, le=2, description="Frequency penalty of answers")] = None
    judge_temperature: Annotated[float | None, Field(ge=0, le=2, description="Sampling temperature of judges")] = None
    judge_max_tokens: Annotated[int | None, Field(ge=1, description="Most completion tokens of a judgement")] = None
    score_rounding: Annotated[
        Literal["none", "legacy"] | None, Field(description="legacy rounds scores half to even")
    ] = None
    limit: Annotated[
        int | None, Field(ge=1, description="Only the first N questions of each benchmark; none: all of them")
    ] = None
    questions: Annotated[
        str | None, Field(description="Question source: starter, hub, or a folder with JSONL or Parquet files")
    ] = None
    question_sets: Annotated[
        list[str] | None, Field(description="Versions other than the default, e.g. mt_bench@80")
    ] = None


class CallOptions(BaseModel):
    """How the calls of one command or launch are made; no part of what a run is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    concurrency: Annotated[
        int | None, Field(ge=1, description="Calls at once to each endpoint, fixed; none: the limiter finds out")
    ] = None
    limiter: Annotated[
        Literal["adaptive", "aimd"],
        Field(description="adaptive finds what the server takes; aimd adds one and halves"),
    ] = "adaptive"
    initial_concurrency: Annotated[int, Field(ge=1, description="Calls at once in the beginning")] = 40
    min_concurrency: Annotated[int, Field(ge=1, description="Never fewer calls at once")] = 1
    max_concurrency: Annotated[int, Field(ge=1, description="Never more calls at once")] = 60
    limiter_cooldown: Annotated[
        float, Field(ge=0, description="Seconds between two changes of the same kind by the limiter aimd")
    ] = 2.0
    fresh: Annotated[bool, Field(description="Do not use the replies that other runs have paid for")] = False
    max_cost: Annotated[
        float | None, Field(ge=0, description="Make no further call when this many US dollars are spent")
    ] = None
    max_tokens_total: Annotated[
        int | None, Field(ge=0, description="Make no further call when this many tokens are sent and received")
    ] = None

    @property
    def limiter_settings(self) -> LimiterSettings:
        """As the call engine knows them; an initial limit outside of the bounds is moved to the nearest.

        Raises:
            ConfigurationError: The bounds exclude each other.
        """
        least, most = self.min_concurrency, self.max_concurrency
        if least > most:
            raise ConfigurationError(f"the least concurrency ({least}) is above the greatest ({most})")
        initial = min(max(self.initial_concurrency, least), most)
        return LimiterSettings(self.limiter, initial, least, most, self.limiter_cooldown, self.concurrency)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EndpointSpec(_Frozen):
    """Where a model is served; the key itself is never part of it."""

    name: str
    base_url: str
    api_key_variable: str | None

    def to_endpoint(self) -> Endpoint:
        """As the call engine knows it."""
        return Endpoint(self.name, self.base_url, self.api_key_variable)


class BenchmarkSpec(_Frozen):
    """Which questions of a benchmark a run answers, and how."""

    question_set: str
    question_set_sha256: str
    n_questions: int
    source: str
    source_revision: str | None
    prompt_hash: str
    temperature: float
    max_tokens: int
    frequency_penalty: float
    samples: int = 1


class JudgeSpec(_Frozen):
    """One judge and its settings."""

    model: str
    endpoint: EndpointSpec
    temperature: float
    max_tokens: int
    score_rounding: Literal["none", "legacy"]
    rounds: dict[str, int] = {}
    """How often each benchmark was judged anew (`--rejudge`); missing is 0."""

    def config_hash(self, *prompt_hashes: str) -> str:
        """Identity of everything that makes this judge's scores what they are, for one benchmark's prompts."""
        settings = self.model_dump(exclude={"rounds": True, "endpoint": {"api_key_variable"}})
        return sha256_json(settings | {"prompt_hashes": prompt_hashes})


class RunSpec(_Frozen):
    """The frozen settings of a run: stored before its first call.

    Endpoint, questions, prompts and sampling settings are the run's identity and never change.
    Benchmarks, judges and passes can be added, and the limit can be widened.
    """

    model: str
    run_tag: str
    endpoint: EndpointSpec
    benchmarks: dict[str, BenchmarkSpec]
    judges: tuple[JudgeSpec, ...]
    passes: tuple[str, ...] = ()
    limit: int | None = None

    @property
    def run_id(self) -> str:
        """Partition key of the run."""
        return run_id_of(self.model, self.run_tag)

    @property
    def base_tag(self) -> str:
        """The tag without `-runN`."""
        match = _RUN_NUMBER.fullmatch(self.run_tag)
        return match["base"] if match else self.run_tag

    @property
    def run_number(self) -> int | None:
        """N of `-runN`."""
        match = _RUN_NUMBER.fullmatch(self.run_tag)
        return int(match["number"]) if match else None

    @property
    def spec_hash(self) -> str:
        """sha256 of the spec."""
        return sha256_json(self.model_dump(mode="json"))

    def n_planned(self, benchmark: str) -> int:
        """Samples planned for a benchmark."""
        settings = self.benchmarks[benchmark]
        return min(settings.n_questions, self.limit or settings.n_questions) * settings.samples
