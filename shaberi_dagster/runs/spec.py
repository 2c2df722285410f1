"""What a run is asked to be (`RunRequest`), what it is (`RunSpec`), and how calls are made for it (`CallOptions`)."""

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.identity import run_id_of, sha256_json
from shaberi_dagster.llm.endpoints import endpoint_name
from shaberi_dagster.llm.limiter import LimiterSettings
from shaberi_dagster.llm.types import Endpoint

SINGLE = "single"
"""The strategy of no consensus: one answer as it is."""
RULE = "rule:"
_RUN_NUMBER = re.compile(r"(?P<base>.+)-run(?P<number>[1-9]\d*)")


def judge_name(model: str, prompt: str | None) -> str:
    """The name of a judge: its model, and the variant of its prompt if it has one."""
    return f"{model}+{prompt}" if prompt else model


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
    judge_prompt: Annotated[
        str | None, Field(description="Variant of the judge prompt; these judges are then named MODEL+VARIANT")
    ] = None
    passes: Annotated[list[str] | None, Field(description="One more pipeline of score-modifying passes, in order")] = (
        None
    )
    pass_options: Annotated[list[str] | None, Field(description="Settings of these passes, as NAME.SETTING=VALUE")] = (
        None
    )
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
    ensemble: Annotated[
        int | None, Field(ge=2, description="Samples of a question that consensus strategies share; none: no ensemble")
    ] = None
    ensemble_models: Annotated[
        list[str] | None, Field(description="Models that these samples come from in turn; none: the model itself")
    ] = None
    strategies: Annotated[list[str] | None, Field(description="Consensus strategies; none: all")] = None
    consensus_model: Annotated[str | None, Field(description="Makes the strategies' calls; none: the model")] = None
    grader_model: Annotated[str | None, Field(description="Grades what the rules cannot tell; none: nobody does")] = (
        None
    )
    single: Annotated[
        Literal["own", "first"], Field(description="The single answer: a sample of its own, or the ensemble's first")
    ] = "own"
    sample: Annotated[int | None, Field(ge=1, description="A seeded sample of so many questions; none: all")] = None
    sample_order: Annotated[
        Literal["pinned", "mulberry32"], Field(description="pinned, or the original ensemble evaluation's order")
    ] = "pinned"
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
    # Left out of JSON when there are none: hashes from before there were any stay the same.
    earlier: Annotated[tuple[str, ...], Field(exclude_if=lambda earlier: not earlier)] = ()
    """Other addresses that it had: what was made there is still the run's."""

    def to_endpoint(self) -> Endpoint:
        """As the call engine knows it."""
        return Endpoint(self.name, self.base_url, self.api_key_variable, self.earlier)

    def moved_from(self, before: "EndpointSpec") -> "EndpointSpec":
        """This one in the place of another, whose addresses it remembers."""
        addresses = dict.fromkeys((*before.earlier, before.base_url))
        return self.model_copy(update={"earlier": tuple(one for one in addresses if one != self.base_url)})

    @property
    def places(self) -> list[dict[str, str]]:
        """Name and address, as identities had them once: of the present address, then of each earlier one."""
        present = {"name": self.name, "base_url": self.base_url}
        return [present, *({"name": endpoint_name(one), "base_url": one} for one in self.earlier)]


class SampleSpec(_Frozen):
    """Which part of a larger set a run's questions are."""

    of: str
    size: int
    order: Literal["pinned", "mulberry32"]


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
    sample: SampleSpec | None = None
    """None when its set was taken as it is."""


class JudgeSpec(_Frozen):
    """One judge and its settings."""

    model: str
    # Left out of JSON when there is none: hashes from before there were variants stay the same.
    prompt: Annotated[str | None, Field(exclude_if=lambda prompt: prompt is None)] = None
    """Variant of its prompts; None is the prompts as they are."""
    endpoint: EndpointSpec
    temperature: float
    max_tokens: int
    score_rounding: Literal["none", "legacy"]
    rounds: dict[str, int] = {}
    """How often each benchmark was judged anew (`--rejudge`); missing is 0."""

    @property
    def name(self) -> str:
        """What it is called wherever it is not called upon: judges that differ in their prompt are two."""
        return judge_name(self.model, self.prompt)

    def config_hash(self, *prompt_hashes: str) -> str:
        """Identity of everything that makes this judge's scores what they are, for one benchmark's prompts."""
        return sha256_json(self._settings | {"prompt_hashes": prompt_hashes})

    def former_config_hashes(self, *prompt_hashes: str) -> list[str]:
        """The same as it was when the address was part of it, at each address of the endpoint."""
        settings = self._settings | {"prompt_hashes": prompt_hashes}
        return [sha256_json(settings | {"endpoint": place}) for place in self.endpoint.places]

    @property
    def _settings(self) -> dict[str, Any]:
        return self.model_dump(exclude={"rounds", "endpoint"})


class PassSpec(_Frozen):
    """One pass of a pipeline with its settings."""

    name: str
    config: dict[str, JsonValue]
    endpoint: EndpointSpec | None = None
    """Of the model that it asks; None when it asks none."""


class ModelSpec(_Frozen):
    """A model and where it is served."""

    model: str
    endpoint: EndpointSpec


class EnsembleSpec(_Frozen):
    """Several samples of each question, and what is made of them.

    The single answer is sample 0. It is a sample of its own, and the strategies share samples 1 to N, unless `single`
    is `first`: then they share samples 0 to N-1.
    """

    size: int
    single: Literal["own", "first"]
    members: tuple[ModelSpec, ...]
    """Whose samples they are, in turn."""
    strategies: tuple[str, ...]
    consensus: ModelSpec
    """Makes the strategies' calls."""
    grader: ModelSpec | None
    """Grades what the rules cannot tell."""

    @property
    def shared(self) -> range:
        """Sample indices that the strategies share."""
        first = 1 if self.single == "own" else 0
        return range(first, first + self.size)

    def member(self, sample_index: int) -> ModelSpec | None:
        """Whose sample it is; None for the single answer, which is the run's own model's."""
        if sample_index not in self.shared:
            return None
        return self.members[(sample_index - self.shared.start) % len(self.members)]


class RunSpec(_Frozen):
    """The settings of a run: stored before its first call, and frozen by the first one that succeeds.

    Questions, prompts and sampling settings are the run's identity and never change.
    Benchmarks, judges and passes can be added, the limit can be widened, and servers may move to other addresses.
    """

    model: str
    run_tag: str
    endpoint: EndpointSpec
    benchmarks: dict[str, BenchmarkSpec]
    judges: tuple[JudgeSpec, ...]
    passes: tuple[tuple[PassSpec, ...], ...] = ()
    """Pipelines; the first passes of one are a pipeline too."""
    ensemble: EnsembleSpec | None = None
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

    def n_questions(self, benchmark: str) -> int:
        """Questions planned for a benchmark, which is what each strategy answers."""
        all_of_them = self.benchmarks[benchmark].n_questions
        return min(all_of_them, self.limit or all_of_them)

    def n_planned(self, benchmark: str) -> int:
        """Samples planned for a benchmark."""
        return self.n_questions(benchmark) * self.benchmarks[benchmark].samples

    def n_answers(self, benchmark: str) -> int:
        """Answers planned for a benchmark that are judged: its samples, and what each strategy makes of them."""
        return self.n_planned(benchmark) + self.n_questions(benchmark) * len(self.strategies)

    @property
    def strategies(self) -> tuple[str, ...]:
        """Consensus strategies, the single answer as the first; none without an ensemble."""
        return (SINGLE, *self.ensemble.strategies) if self.ensemble else ()

    def judge_names(self, rule: str) -> list[str]:
        """Whose judgements a benchmark has.

        Args:
            rule: The benchmark's grader; `llm_judge` where judges score.
        """
        if not rule.startswith(RULE):
            return [judge.name for judge in self.judges]
        grader = self.ensemble.grader if self.ensemble else None
        return [rule, *([f"{rule}+{grader.model}"] if grader else [])]
