"""Request for a run (`RunRequest`), its frozen settings (`RunSpec`), and options of its calls (`CallOptions`)."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from typing import Annotated, Any, Literal, Self, TypeVar

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from shaberi_dagster.llm.keys import check_variable
from shaberi_dagster.llm.limiter import LimitAlgorithm, LimiterSettings
from shaberi_dagster.llm.parameters import NAMED, as_settings, sent
from shaberi_dagster.llm.request import Endpoint
from shaberi_dagster.llm.types import Sampling
from shaberi_dagster.runs.option import FLAT, NO_OPTION, option
from shaberi_dagster.tasks.benchmarks.registry import (
    DEFAULT_SEED,
    RULE,
    Benchmark,
    JudgingDefaults,
    SampleOrder,
    get_benchmark,
)
from shaberi_dagster.tasks.judges.spec import JudgeSpec, Rounding
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import RUN_NUMBER, run_id_of, sha256_json
from shaberi_dagster.util.models import Frozen
from shaberi_dagster.util.names import message_of

SettingsT = TypeVar("SettingsT", bound=BaseModel)
_SHA256_LENGTH, _SHOWN_LENGTH = 64, 12


@dataclass(frozen=True, slots=True)
class Mark:
    """What a later request may change of a field.

    Attributes:
        stays: It never changes: another value contradicts what is stored.
        moves: The latest value counts, such as an address.
        unset: The value that None stands for.
        together: Puts a stored and an asked value of another kind together.
    """

    stays: bool = False
    moves: bool = False
    unset: Any = None
    together: Callable[[Any, Any], Any] | None = None


def _grown(before: Any, now: Any) -> Any:
    if isinstance(before, Mapping):
        return now | {key: widened(value, now[key]) if key in now else value for key, value in before.items()}
    return tuple({getattr(value, "name", value): value for value in (*before, *now)}.values())


IDENTITY, GROWS, MOVES = Mark(stays=True), Mark(together=_grown), Mark(moves=True)
"""`GROWS`: more may come: new keys of a mapping, new elements of a tuple; one of the same name is replaced."""


def contradictions(stored: BaseModel, asked: BaseModel | None, of: str = "") -> list[str]:
    """Say in words which fields cannot be what is asked.

    Args:
        stored: The settings as they are.
        asked: The settings as somebody wants them; None has none of them.
        of: Whose fields they are, as the words begin.
    """
    found: list[str] = []
    for name, field in type(stored).model_fields.items():
        before: Any = getattr(stored, name)
        now: Any = getattr(asked, name, None)
        for mark in (mark for mark in field.metadata if isinstance(mark, Mark)):
            if mark.stays:
                before, now = (mark.unset if value is None else value for value in (before, now))
                if before != now:
                    found.append(f"{of}{name.replace('_', ' ')} {_in_words(before)}, not {_in_words(now)}")
            elif mark is GROWS and isinstance(before, Mapping):
                for key in (key for key in before if key in now):
                    found += contradictions(before[key], now[key], f"{key} ")
            elif mark.moves and isinstance(before, BaseModel):
                found += contradictions(before, now, of)
    return found


def widened(stored: SettingsT, asked: SettingsT) -> SettingsT:
    """Return the stored settings with what is added to them, and with the latest of what may move."""
    update: dict[str, Any] = {}
    for name, field in type(stored).model_fields.items():
        before, now = getattr(stored, name), getattr(asked, name)
        for mark in (mark for mark in field.metadata if isinstance(mark, Mark)):
            if mark.moves:
                update[name] = now
            elif mark.together:
                update[name] = mark.together(before, now)
    return stored.model_copy(update=update)


def _in_words(value: Any) -> str:
    text = str(value.model_dump() if isinstance(value, BaseModel) else value)
    return text[:_SHOWN_LENGTH] if len(text) == _SHA256_LENGTH else text


NOBODY = "none"
"""The judge that stands for none."""
SINGLE = "single"
"""The strategy of no consensus: one answer as it is."""
TREE = "legacy tree"
"""`source` of question sets that imported runs have."""


BaseUrl = Annotated[str | None, Field(description="Endpoint of the model, up to /v1"), option("how", metavar="URL")]
JudgeBaseUrl = Annotated[
    str | None, Field(description="Endpoint of the judges, up to /v1"), option("how", metavar="URL")
]


def _limit(value: Any) -> Any:
    """Return a number of questions, `all` or None."""
    if value in ("all", None):
        return value
    if isinstance(value, bool) or not re.fullmatch(r"[+]?0*[1-9]\d*", str(value).strip()):
        raise ValueError(f"a whole number from 1, or all, not {value!r}")
    return int(value)


Limit = Annotated[
    Annotated[int, Field(ge=1)] | Literal["all"] | None,
    BeforeValidator(_limit),
    Field(description="The first N questions; default: the run's, or all"),
    option("what", metavar="N|all"),
]
KeyVariable = Annotated[
    str | None,
    AfterValidator(check_variable),
    Field(description="Environment variable with the key of the endpoint (default SHABERI_API_KEY)"),
    option("advanced"),
]
JudgeKeyVariable = Annotated[
    str | None,
    AfterValidator(check_variable),
    Field(description="Environment variable with the key of the judges' endpoint"),
    option("advanced"),
]
JudgeTemperature = Annotated[float | None, Field(ge=0, le=2, description="Of judges; default: 0"), option("advanced")]
JudgeMaxTokens = Annotated[
    int | None, Field(ge=1, description="Most tokens of a judgement; default: 4096"), option("advanced")
]
ScoreRounding = Annotated[
    Rounding | None,
    Field(description="none keeps decimals, as without a word; legacy rounds half to even"),
    option("as the original"),
]
JudgePrompt = Annotated[
    str | None,
    Field(description="Variant of the judge prompt: a judge of its own, named MODEL+VARIANT"),
    option("advanced"),
]
ConsensusModel = Annotated[
    str | None,
    Field(description="Makes the strategies' calls; default: the model"),
    option("advanced", metavar="MODEL", known="models"),
]
Questions = Annotated[
    str | None, Field(description="starter, hub or a folder (SHABERI_DATASETS)"), option("what", metavar="SOURCE")
]
QuestionSets = Annotated[
    list[str] | None,
    Field(description="Versions of question sets other than the default, e.g. mt_bench@80, gpqa@unshuffled"),
    option("advanced", name="--question-set", metavar="SET"),
]


TopP = Annotated[
    float | None, Field(gt=0, le=1, description="Nucleus sampling; default: the server's"), option("advanced")
]
Seed = Annotated[int | None, Field(description="Seed of sampling, where a server takes one"), option("advanced")]
Stop = Annotated[list[str] | None, Field(description="A text that ends the reply"), option("advanced", metavar="TEXT")]
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def _no_misspelt_effort(word: str | None) -> str | None:
    """Refuse a word that is almost one of those that servers know; some servers have others."""
    if word and word not in _EFFORTS and (alike := get_close_matches(word.lower(), _EFFORTS, 1)):
        raise ValueError(f"did you mean {alike[0]}? As a parameter (reasoning_effort={word}) it goes as it is")
    return word


ReasoningEffort = Annotated[
    str | None,
    AfterValidator(_no_misspelt_effort),
    Field(description="low, medium or high: how much it thinks"),
    option("how", metavar="WORD"),
]
Thinking = Annotated[
    Literal["on", "off"] | None,
    Field(description="Switch thinking, in the form that the server takes"),
    option("advanced"),
]
SystemPrompt = Annotated[
    str | None,
    Field(description="The system message, in the place of the prompt's own; empty: none"),
    option("advanced", metavar="TEXT"),
]
ParameterList = Annotated[
    list[str] | None,
    BeforeValidator(as_settings),
    Field(description="Any other parameter"),
    option("how", name="--param", metavar="KEY=VALUE"),
]


class ModelSettings(BaseModel):
    """Parameters of the answers of some benchmarks and models, in a request file.

    Attributes:
        benchmarks: Names; none: all.
        models: Patterns of models' names, such as `qwen3-*`; none: all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    benchmarks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    max_tokens: Annotated[int | None, Field(ge=1)] = None
    frequency_penalty: Annotated[float | None, Field(ge=-2, le=2)] = None
    top_p: TopP = None
    seed: Seed = None
    stop: Stop = None
    reasoning_effort: ReasoningEffort = None
    thinking: Thinking = None
    system_prompt: SystemPrompt = None
    parameters: ParameterList = None


@FLAT
class RunRequest(BaseModel):
    """A user's request, from the command line, the launchpad or a YAML file.

    None means: as the stored run has it, else the benchmark's default.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Annotated[str, Field(description="Model to evaluate, e.g. gpt-5.1"), option("what", known="models")]
    tag: Annotated[str, Field(description="The same tag continues a run"), option("what", known="runs")] = "default"
    benchmarks: Annotated[
        list[str] | None,
        Field(description="Names, or all; default: the run's own, else all"),
        option("what", name="--benchmark", known="benchmarks", commas=True),
    ] = None
    judge_models: Annotated[
        list[str] | None,
        Field(description="Who judges; default: the run's own"),
        option("what", name="--judge-model", metavar="MODEL", known="judges"),
    ] = None
    judge_prompt: JudgePrompt = None
    preset: Annotated[
        str | None,
        Field(description="Ask, judge and score as an adopted set of the old suite does (shaberi adopt)"),
        option("as the original", metavar="NAME"),
    ] = None
    passes: Annotated[
        list[str] | None,
        Field(description="Score modifiers to apply, comma separated"),
        option("what", known="passes", commas=True),
    ] = None
    pass_options: Annotated[
        list[str] | None,
        Field(description="Settings of these passes, as NAME.SETTING=VALUE"),
        option("advanced", name="--pass-option", metavar="NAME.SETTING=VALUE"),
    ] = None
    base_url: BaseUrl = None
    judge_base_url: JudgeBaseUrl = None
    api_key_variable: KeyVariable = None
    judge_api_key_variable: JudgeKeyVariable = None
    temperature: Annotated[
        float | None, Field(ge=0, le=2, description="Of answers; default: 0.2, where rules grade 0.7"), option("how")
    ] = None
    max_tokens: Annotated[
        int | None, Field(ge=1, description="Most tokens of an answer; default: 6000"), option("how")
    ] = None
    frequency_penalty: Annotated[
        float | None,
        Field(ge=-2, le=2, description="Of answers; default: 0"),
        option("advanced", name=("--frequency-penalty", "-fp")),
    ] = None
    top_p: TopP = None
    seed: Seed = None
    stop: Stop = None
    reasoning_effort: ReasoningEffort = None
    thinking: Thinking = None
    system_prompt: SystemPrompt = None
    parameters: ParameterList = None
    settings: Annotated[
        tuple[ModelSettings, ...],
        Field(description="Parameters of some benchmarks and models; they win over the others, options over all"),
        NO_OPTION,
    ] = ()
    judge_temperature: JudgeTemperature = None
    judge_reasoning_effort: Annotated[ReasoningEffort, option("advanced")] = None
    judge_parameters: Annotated[
        list[str] | None,
        BeforeValidator(as_settings),
        Field(description="One more parameter of a judge, or without JUDGE: of all"),
        option("advanced", name="--judge-param", metavar="[JUDGE:]KEY=VALUE"),
    ] = None
    judge_max_tokens: JudgeMaxTokens = None
    judge_samples: Annotated[
        int | None,
        Field(ge=1, description="Times that each judge is asked about an answer; the score is the mean (default: 1)"),
        option("advanced"),
    ] = None
    score_rounding: ScoreRounding = None
    samples: Annotated[int | None, Field(ge=1, description="Answers to each question (default: 1)"), option("what")] = (
        None
    )
    sample_models: Annotated[
        list[str] | None,
        Field(description="Models that the samples come from in turn; default: the model itself"),
        option("advanced", metavar="MODELS", known="models", commas=True),
    ] = None
    strategies: Annotated[
        list[str] | None,
        Field(description="Make a consensus of the samples; default: none"),
        option("what", name=("--strategy", "--strategies"), known="strategies", commas=True),
    ] = None
    single: Annotated[
        Literal["own", "first"] | None,
        Field(description="What strategies are compared with: one more sample of its own, or the first of the samples"),
        option("advanced"),
    ] = None
    consensus_model: ConsensusModel = None
    grader_model: Annotated[
        str | None,
        Field(description="Grades what rules cannot tell where no judge is named; default: no model"),
        NO_OPTION,
    ] = None
    sample: Annotated[
        int | None, Field(ge=1, description="A seeded sample of so many of the questions"), option("what")
    ] = None
    sample_seed: Annotated[
        int | None,
        Field(ge=0, description="Which sample, each a question set of its own; default: the run's own, else 42"),
        option("advanced"),
    ] = None
    sample_order: Annotated[
        SampleOrder,
        Field(description="How a sample is chosen: pinned, or in the original ensemble evaluation's seeded order"),
        option("as the original"),
    ] = "pinned"
    limit: Limit = None
    questions: Questions = None
    question_sets: QuestionSets = None
    shares_samples: Annotated[
        bool, Field(description="Samples count for other such runs at the same address"), NO_OPTION
    ] = False

    def swept(self, sweeps: Sequence[str]) -> "list[RunRequest]":
        """Return a request for each combination of values, whose tags have them at their ends.

        Args:
            sweeps: `NAME=VALUE,VALUE`: a field of the request, or any other parameter.

        Raises:
            ConfigurationError: One is not written so, or has a value twice.
        """
        axes = [_axis(sweep) for sweep in sweeps]
        requests = []
        for values in product(*axes):
            fields = {name: value for name, value in values if name in _SWEPT}
            others = [f"{name}={value}" for name, value in values if name not in _SWEPT]
            named = [value for name, value in values if name != "model"]
            tag = "-".join([self.tag, *(re.sub(r"[^A-Za-z0-9._+-]+", "_", value) for value in named)])
            swept = fields | ({"parameters": others} if others else {})
            asked = overridden(self.model_dump(exclude_unset=True), swept) | {"tag": tag}
            try:
                requests.append(RunRequest.model_validate(asked))
            except ValidationError as error:
                first = error.errors()[0]
                raise ConfigurationError(f"--sweep {'.'.join(map(str, first['loc']))}: {message_of(first)}") from error
        return requests


_OF_SOME = ModelSettings.model_fields.keys() - {"benchmarks", "models"}


def overridden(request: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request with those of options, which win over its settings of benchmarks and models, too.

    Args:
        request: Fields of a `RunRequest`.
        options: Others; parameters are added to those of the request.
    """
    merged = {**request, **options}
    for name in {"parameters", "judge_parameters"} & options.keys():
        merged[name] = [*(as_settings(request.get(name)) or ()), *options[name]]
    if (settings := request.get("settings")) and (last := {name: options[name] for name in _OF_SOME & options.keys()}):
        merged["settings"] = [*settings, last]
    return merged


_SWEPT = frozenset({"model", "temperature", "max_tokens", "frequency_penalty", *NAMED} - {"stop"})
"""Fields of a request that a sweep can set; other names are parameters of the server."""


def _axis(sweep: str) -> list[tuple[str, str]]:
    """Return the name with each of its values."""
    name, separator, text = sweep.partition("=")
    values = [value.strip() for value in text.split(",") if value.strip()]
    if not separator or not name or not values or len(set(values)) < len(values):
        raise ConfigurationError(f"--sweep {sweep}: write it as NAME=VALUE,VALUE, such as reasoning_effort=low,high")
    return [(name.strip(), value) for value in values]


@FLAT
class CallOptions(BaseModel):
    """Options of the calls of one command or launch; they are no part of a run's identity."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    concurrency: Annotated[
        int | None, Field(ge=1, description="Calls at once to an endpoint; default: it finds out"), option("budget")
    ] = None
    limiter: Annotated[
        LimitAlgorithm,
        Field(description="adaptive finds what the server takes; aimd adds one and halves"),
        option("advanced"),
    ] = "adaptive"
    max_concurrency: Annotated[int, Field(ge=1, description="Never more calls at once"), option("advanced")] = 60
    call_deadline: Annotated[
        float,
        Field(gt=0, description="Seconds that a call may take from its first attempt, waiting included"),
        option("advanced"),
    ] = 1800.0
    fresh: Annotated[
        bool, Field(description="Use no reply of another run: no shared sample, no dated model's"), option("advanced")
    ] = False
    reuse: Annotated[
        bool,
        Field(description="Use replies of other runs from the same address, as no evidence of their own"),
        option("advanced"),
    ] = False
    max_cost: Annotated[
        float | None, Field(ge=0, description="No further call when so many USD are spent"), option("budget")
    ] = None
    max_tokens_total: Annotated[
        int | None, Field(ge=0, description="No further call after so many tokens, in and out"), option("budget")
    ] = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.fresh and self.reuse:
            raise ValueError("--fresh uses no reply of another run and --reuse all there are: leave one out")
        return self

    @property
    def limiter_settings(self) -> LimiterSettings:
        """Settings for the call engine's limiters."""
        most = self.max_concurrency
        return LimiterSettings(self.limiter, min(LimiterSettings.initial, most), maximum=most, fixed=self.concurrency)


USUAL_CALLS = CallOptions()
"""Calls of a command without options of calls."""


def _first_known(stored: str | None, asked: str | None) -> str | None:
    return stored or asked


def _wider(*limits: int | None) -> int | None:
    """Return the highest limit; None: there is no limit."""
    return None if None in limits else max((limit for limit in limits if limit is not None), default=None)


class SampleSpec(Frozen):
    """A sample of a larger question set."""

    of: str
    size: int
    order: SampleOrder
    seed: int = DEFAULT_SEED


class PluginSpec(Frozen):
    """A file of a plugin folder as a run last used it."""

    kind: str
    name: str
    version: str | None
    sha256: str


class PluginEntry(Frozen):
    """The scale and grader of a plugin's benchmark, kept with the run for when its file is gone."""

    title: str
    scale_minimum: Annotated[int, IDENTITY]
    scale_maximum: Annotated[int, IDENTITY]
    reported_multiplier: Annotated[float, IDENTITY]
    grader: Annotated[str, IDENTITY]

    @classmethod
    def of(cls, benchmark: Benchmark) -> "PluginEntry | None":
        """That of a benchmark; None for the project's, which stay."""
        if benchmark.file is None or benchmark.file.is_own:
            return None
        return cls(**{name: getattr(benchmark, name) for name in cls.model_fields})


class BenchmarkSpec(Frozen):
    """Settings of a benchmark in a run: its questions, sampling, strategies and judges.

    The single answer is sample 0. It is a sample of its own, and the strategies share the others, or (`first`) it is
    the first of those that they share.
    """

    question_set: Annotated[str, IDENTITY]
    question_set_sha256: Annotated[str, IDENTITY]
    n_questions: int
    source: str
    source_revision: str | None
    prompt_hash: Annotated[str | None, IDENTITY]
    temperature: Annotated[float | None, IDENTITY]
    max_tokens: Annotated[int | None, IDENTITY]
    frequency_penalty: Annotated[float | None, IDENTITY]
    """Parameters of its answers; None where they are not known, as in imported runs."""
    parameters: Annotated[dict[str, JsonValue], IDENTITY] = {}  # noqa: RUF012  (pydantic copies it)
    """All other parameters of its answers by name, the system prompt among them."""
    sample: Annotated[SampleSpec | None, IDENTITY] = None
    """None when its set was taken as it is."""
    left_out: Annotated[tuple[int, ...], IDENTITY] = ()
    """Positions of its source's questions that an adopted set leaves out."""
    kept_by: Annotated[str | None, IDENTITY] = None
    """The adopted set that says what is kept of replies; None splits thinking off by this project's rule."""
    samples: Annotated[int, IDENTITY] = 1
    """Answers to each question, the single one included."""
    single: Annotated[Literal["own", "first"] | None, Mark(stays=True, unset="first", together=_first_known)] = None
    """None when no strategy is compared with it; it is the first as soon as there are any."""
    strategies: Annotated[tuple[str, ...], GROWS] = ()
    """Each makes one more answer to each question; `single`, the single answer as it is, is the first."""
    judges: Annotated[tuple[str, ...], GROWS] = ()
    """Names; rules before those that leave to a model what the rule cannot tell."""
    entry: Annotated[PluginEntry | None, MOVES] = None
    """Definition of a plugin's benchmark."""
    imported_judges: Annotated[tuple[str, ...], IDENTITY] = ()
    """Whose judgements were imported; `judges` are those that the run has here."""
    imported_samples: Annotated[int | None, IDENTITY] = None
    """Samples in all: each question's, and one more for each row that repeats a question. None: not imported."""
    question_texts: Annotated[Literal["known", "some known", "unknown"], IDENTITY] = "known"
    """False where the texts of its questions are unknown: no one can judge its answers."""
    limit: Annotated[int | None, Mark(together=_wider)] = None
    """Only the first so many of its questions; None: all."""
    asked: tuple[str, ...] | None = None
    """Identities of the questions that a decision has asked so far; None: the run is of no decision."""

    @property
    def all_judges(self) -> tuple[str, ...]:
        """Whose judgements it has or is to have."""
        return tuple(dict.fromkeys((*self.imported_judges, *self.judges)))

    @property
    def sampling(self) -> Sampling:
        """Sampling parameters of its answers.

        Raises:
            ConfigurationError: It is not known.
        """
        if self.temperature is None or self.max_tokens is None or self.frequency_penalty is None:
            raise ConfigurationError(f"{self.question_set} was imported: how its answers were asked for is not known")
        return Sampling(self.temperature, self.max_tokens, self.frequency_penalty, parameters=sent(self.parameters))

    @property
    def shared(self) -> range:
        """Sample indices that the strategies share."""
        return range(self.single == "own", self.samples)

    @property
    def has_consensus(self) -> bool:
        """True if a strategy makes answers of the samples."""
        return bool(self.strategies)


class PassSpec(Frozen):
    """A pass of a pipeline with its settings."""

    name: str
    config: dict[str, JsonValue]
    endpoint: Endpoint | None = None
    """Endpoint of the model that it asks; None when it asks none."""
    config_hash: str | None = None
    """Hash by which `pass_outputs` knows a plugin's pass, kept with the run for when its file is gone."""

    def __eq__(self, other: object) -> bool:
        """Compare all but `config_hash`, which follows from the rest and the plugin."""
        return isinstance(other, PassSpec) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def _content(self) -> dict[str, Any]:
        return dict(self) | {"config_hash": None}


def pipeline_name(pipeline: Sequence[PassSpec]) -> str:
    """Return the name of a pipeline of passes, as tables of scores have it."""
    return ",".join(settings.name for settings in pipeline)


class ModelSpec(Frozen):
    """A model and where it is served."""

    model: str
    endpoint: Endpoint


class ImportedJudge(Frozen):
    """A judge of another system, as far as its settings are known."""

    judge: str
    model: str
    prompt_version: str | None
    prompt_version_source: str
    temperature: float | None
    max_tokens: int | None
    config_hash: str


class ImportedSpec(Frozen):
    """Recorded facts of an imported run.

    Attributes:
        form: What it was imported from: a legacy tree, caches of the ensemble evaluation, or another tool's log.
        display_name: The model's likely name; `RunSpec.model` is that of its files.
        generation: Which of the runs that the tree has of the model.
        source: The tree; the parts of caches may come from several folders.
        judges: Who judged there, as far as their settings are known.
        not_recorded: What the files do not say.
    """

    form: Literal["tree", "caches", "log"] = "tree"
    display_name: str
    generation: int
    source: str
    judges: tuple[ImportedJudge, ...]
    not_recorded: str


class RunSpec(Frozen):
    """The settings of a run: stored before its first call, and frozen by the first one that succeeds.

    Questions, prompts and sampling settings are the run's identity and never change.
    Benchmarks, strategies, judges and passes can be added, the limit can be widened, and servers may move to other
    addresses; each field is marked accordingly (`IDENTITY`, `GROWS`, `MOVES`). The answers of an imported run are all
    there are; judges and passes can be added to it.
    """

    version: Literal[2] = 2
    origin: Literal["own", "imported"] = "own"
    imported: ImportedSpec | None = None
    model: Annotated[str, IDENTITY]
    run_tag: Annotated[str, IDENTITY]
    endpoint: Annotated[Endpoint | None, MOVES]
    """Endpoint that serves the model; None when unknown."""
    benchmarks: Annotated[dict[str, BenchmarkSpec], GROWS]
    judges: Annotated[tuple[JudgeSpec, ...], GROWS]
    """Models that judge, or decide what a rule cannot tell; which of them a benchmark has, it says itself."""
    passes: tuple[tuple[PassSpec, ...], ...] = ()
    """Pipelines; the first passes of one are a pipeline too."""
    members: Annotated[tuple[ModelSpec, ...], MOVES] = ()
    """Whose samples the shared ones are, in turn; none: the model's own."""
    consensus: Annotated[ModelSpec | None, MOVES] = None
    """Makes the strategies' calls; None is the model itself."""
    shares_samples: bool = False
    """Whether other runs of `quick-eval` and `generate-cache` may use its samples, and it theirs."""
    added_pipelines: tuple[str, ...] = ()
    """Pipelines of passes that were added to stored answers, as names joined by commas; others belong to the run."""
    plugins: tuple[PluginSpec, ...] = ()
    """Plugin files that it uses."""

    @classmethod
    def read(cls, stored: str | Mapping[str, Any]) -> "RunSpec":
        """The spec as the lake has it, as JSON or as plain data.

        Raises:
            pydantic.ValidationError: It is not valid.
        """
        return cls.model_validate(orjson.loads(stored) if isinstance(stored, str) else stored)

    @property
    def run_id(self) -> str:
        """Partition key of the run."""
        return run_id_of(self.model, self.run_tag)

    @property
    def base_tag(self) -> str:
        """The tag without `-runN`."""
        match = self._numbered
        return match["base"] if match else self.run_tag

    @property
    def run_number(self) -> int | None:
        """N of `-runN`."""
        match = self._numbered
        return int(match["number"]) if match else None

    @property
    def _numbered(self) -> re.Match[str] | None:
        return None if self.origin == "imported" else RUN_NUMBER.fullmatch(self.run_tag)

    @property
    def limit(self) -> int | None:
        """The highest limit of its benchmarks; None where one has none."""
        return _wider(*(settings.limit for settings in self.benchmarks.values()))

    @property
    def is_partial(self) -> bool:
        """True if the run has only questions that decisions asked: it is no evaluation and has no scores."""
        return any(settings.asked is not None for settings in self.benchmarks.values())

    @property
    def spec_hash(self) -> str:
        """sha256 of the spec."""
        return sha256_json(self.model_dump(mode="json"))

    @property
    def itself(self) -> ModelSpec:
        """The model of the run, and where it is served.

        Raises:
            ConfigurationError: That is not known.
        """
        if self.endpoint is None:
            raise ConfigurationError(f"run {self.run_id} was imported: where its model is served is not known")
        return ModelSpec(model=self.model, endpoint=self.endpoint)

    @property
    def sampled_models(self) -> list[str]:
        """Whose samples the strategies share, in turn."""
        return [member.model for member in self.members] or [self.model]

    @property
    def consensus_model(self) -> str:
        """Name of the model that makes the strategies' calls, if they take any."""
        return self.consensus.model if self.consensus else self.model

    @property
    def has_consensus(self) -> bool:
        """True if a strategy makes answers of the samples of one of its benchmarks."""
        return any(settings.has_consensus for settings in self.benchmarks.values())

    @property
    def strategies(self) -> list[str]:
        """The strategies of all benchmarks, the single answer first."""
        return list(dict.fromkeys(name for settings in self.benchmarks.values() for name in settings.strategies))

    def sampled(self, benchmark: str, sample_index: int) -> ModelSpec:
        """Whose sample it is."""
        shared = self.benchmarks[benchmark].shared
        if not self.members or sample_index not in shared:
            return self.itself
        return self.members[(sample_index - shared.start) % len(self.members)]

    def benchmark(self, name: str) -> Benchmark:
        """Return one of its benchmarks for reports, also one of a plugin that is gone.

        Raises:
            ConfigurationError: There is no such name.
        """
        entry = self.benchmarks[name].entry if name in self.benchmarks else None
        if entry is None:
            return get_benchmark(name)
        return Benchmark(name=name, description="", judging=JudgingDefaults(""), **dict(entry))

    def n_questions(self, benchmark: str) -> int:
        """Questions planned for a benchmark, which is what each strategy answers."""
        own = self.benchmarks[benchmark]
        all_of_them = own.n_questions if own.asked is None else len(own.asked)
        return min(all_of_them, own.limit or all_of_them)

    def n_planned(self, benchmark: str) -> int:
        """Samples planned for a benchmark."""
        own = self.benchmarks[benchmark]
        return own.imported_samples or self.n_questions(benchmark) * own.samples

    def n_answers(self, benchmark: str) -> int:
        """Answers planned for a benchmark that are judged: its samples, and what each strategy makes of them."""
        return self.n_planned(benchmark) + self.n_questions(benchmark) * len(self.benchmarks[benchmark].strategies)

    def is_made_here(self, benchmark: str) -> bool:
        """Return whether answers or judgements of a benchmark are made here, so that some can be missing."""
        return self.origin == "own" or bool(self.benchmarks[benchmark].judges)

    def judge(self, name: str) -> JudgeSpec | None:
        """The settings of a judge; None of a rule alone."""
        model = _of_rule(name) if name.startswith(RULE) else name
        return next((judge for judge in self.judges if judge.name == model), None)

    def chosen_judges(self, benchmark: str, names: Sequence[str]) -> list[str]:
        """Select a benchmark's judges by name, or by the name of the model that a rule leaves undecided answers to.

        Args:
            benchmark: One of the run's.
            names: None named means all.
        """
        own = self.benchmarks[benchmark].judges
        return [name for name in own if not names or name in names or _of_rule(name) in names]


def _of_rule(name: str) -> str | None:
    """Whom a rule leaves something to."""
    return name.partition("+")[2] or None if name.startswith(RULE) else None
