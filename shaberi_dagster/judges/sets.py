"""Adopted sets: what a version of the old suite sends and how it scores, as files of plugin folders."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.judges.programs import Node, ProgramCall, RefusedProgramError, SuiteError, run
from shaberi_dagster.llm.request import Endpoint
from shaberi_dagster.plugins.discovery import Kind, PluginFile, read_yaml
from shaberi_dagster.util.models import Frozen

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_ROUTES = ("hosted_vllm/", "openai/", "gemini/")
"""What litellm takes off a model's name."""
_WITHOUT_ADDRESS = frozenset({"openai", "openai_responses", "gemini"})
"""Endpoints that the suite knows by the names of their models."""
_ANY = "?"
_QUESTION_ALONE = [{"role": "user", "content": _ANY}]
_SHOWN_OF_COMMIT = 7
_INPUTS = ("question", "reference", "criteria", "category", "upstream_id", "answer")


class AdoptedBenchmark(Frozen):
    """A benchmark of an adopted set.

    Attributes:
        dataset: The suite's name for it.
        left_out: 1-based positions of the questions that are not asked.
        judge: Program of a judgement (`judges.programs`).
    """

    dataset: str
    left_out: tuple[int, ...] = ()
    judge: dict[str, Any]


class AdoptedSet(Frozen):
    """A version of the old suite: `MODEL+NAME` judges as it does, `run-evals --preset NAME` asks as it does.

    Attributes:
        source: Name of the repository.
        commit: What was read; None for a folder without git.
        generation: Which judge prompts it has: `J1`, `J2`, `J3`, or None for others.
        refused: What could not be read, with file and line.
        benchmarks: By our names.
        answers: Program of an answer; None where it could not be read.
    """

    source: str
    commit: str | None = None
    generation: str | None = None
    refused: tuple[str, ...] = ()
    benchmarks: dict[str, AdoptedBenchmark]
    answers: dict[str, Any] | None = None

    @property
    def description(self) -> str:
        """Say where it is from and what it has."""
        commit = f" at {self.commit[:_SHOWN_OF_COMMIT]}" if self.commit else ""
        prompts = f"judge prompts {self.generation}" if self.generation else "judge prompts of no known generation"
        parts = [*self.benchmarks, *(["answers"] if self.answers else [])]
        lacking = f"; {len(self.refused)} refused" if self.refused else ""
        return f"{self.source}{commit}, {prompts}: {', '.join(parts)}{lacking}"


class CallSettings(Frozen):
    """A call as a suite makes it, in this project's words.

    Attributes:
        api: The interface.
        model: The model's name there.
        system: The system message; "" where none is sent.
        asks_question: Whether nothing but that and the question as it is stands in the messages.
        temperature: None where the server's default is used.
        max_tokens: None where there is no limit.
        frequency_penalty: 0 where none is sent.
        parameters: All others; null for those that this project would send and the suite does not.
    """

    api: str
    model: str
    system: str
    asks_question: bool
    temperature: float | None
    max_tokens: int | None
    frequency_penalty: float = 0.0
    parameters: dict[str, Any] = Field(default_factory=dict)


def _read(file: PluginFile) -> AdoptedSet:
    return read_yaml(file, AdoptedSet.model_validate)


ADOPTED = Kind("adopted set", "adopted", ".yaml", {}, read=_read)
"""The adopted sets of plugin folders."""


def adopted_sets() -> Mapping[str, AdoptedSet]:
    """Map names to the adopted sets that can be read."""
    return {name: ADOPTED[name] for name in ADOPTED}


def first_call(program: Node, inputs: Mapping[str, Any]) -> ProgramCall | None:
    """Return the first call of a program; None when it makes none.

    Raises:
        SuiteError: The suite's code would have raised before.
        RefusedProgramError: The path that it takes was not adopted.
    """
    try:
        return next(run(program, inputs))
    except StopIteration:
        return None


def judge_settings(name: str, model: str, endpoint: Endpoint, benchmark: str | None = None) -> CallSettings:
    """Return how an adopted set asks a judge.

    Args:
        name: The set.
        model: The judge's model.
        endpoint: Where it is served.
        benchmark: What is judged; None for any of the set's, which differ in their prompts alone.

    Raises:
        ConfigurationError: There is no such set, or it does not judge this benchmark or with this model.
    """
    found = ADOPTED.use(name)
    benchmark = benchmark or next(iter(found.benchmarks), "any benchmark")
    if benchmark not in found.benchmarks:
        raise ConfigurationError(f"the adopted set {name} does not judge {benchmark}: {_has(found)}")
    return _settings(name, found.benchmarks[benchmark].judge, model, endpoint)


def answer_settings(name: str, model: str, endpoint: Endpoint) -> CallSettings:
    """Return how an adopted set asks a model for answers; the arguments are as in `judge_settings`.

    Raises:
        ConfigurationError: There is no such set, or it does not ask this model.
    """
    found = ADOPTED.use(name)
    if found.answers is None:
        raise ConfigurationError(f"the adopted set {name} does not say how answers are asked for: {_has(found)}")
    settings = _settings(name, found.answers, model, endpoint)
    if not settings.asks_question:
        raise ConfigurationError(
            f"the adopted set {name} asks {model} over {settings.api} with something else than a system message and "
            "the question, which this project does not send: leave --preset out"
        )
    return settings


def kept_answer(name: str, model: str, endpoint: Endpoint, content: str) -> str:
    """Return what an adopted set keeps of a model's reply; the first arguments are as in `judge_settings`.

    Raises:
        ConfigurationError: There is no such set, or it does not ask this model.
    """
    walk = run(ADOPTED.use(name).answers or {}, {"question": _ANY, **of_model(model, endpoint)})
    try:
        next(walk)
        walk.send(content)
    except StopIteration as done:
        return str(done.value["stored"] or "")
    except (SuiteError, RefusedProgramError) as error:
        raise ConfigurationError(f"the adopted set {name} does not ask {model}: {error}") from error
    raise ConfigurationError(f"the adopted set {name} asks {model} more than once")


def of_model(model: str, endpoint: Endpoint) -> dict[str, Any]:
    """Return the inputs of programs that say which model is asked, and where.

    An address that is not the model's own is one that the suite's user would have set, and such a server needs no key.
    """
    if endpoint.name in _WITHOUT_ADDRESS:
        return {"model": model, "environment OPENAI_API_KEY": "set"}
    return {"model": model, "environment OPENAI_BASE_URL": endpoint.base_url}


def most_calls(program: Node) -> int:
    """Return the most calls that a program makes."""
    return _depth(program, {})


def _depth(node: Node, known: dict[int, int]) -> int:
    """Return the most calls on a path from a node on."""
    if id(node) not in known:
        after = [node[name] for name in ("then", "else") if name in node] + list(node.get("except", {}).values())
        own = 1 if "ask" in node else _depth(node["call"], known) if "call" in node else 0
        known[id(node)] = own + max((_depth(part, known) for part in after), default=0)
    return known[id(node)]


def _has(found: AdoptedSet) -> str:
    refused = "".join(f"; {reason}" for reason in found.refused[:3])
    return f"it has {', '.join(found.benchmarks) or 'no benchmark'}{refused}"


def _settings(name: str, program: Node, model: str, endpoint: Endpoint) -> CallSettings:
    inputs = {**dict.fromkeys(_INPUTS, _ANY), "position": 1, "index": 0, **of_model(model, endpoint)}
    try:
        asked = first_call(program, inputs)
    except (SuiteError, RefusedProgramError) as error:
        raise ConfigurationError(f"the adopted set {name} does not ask {model}: {error}") from error
    if asked is None:
        raise ConfigurationError(f"the adopted set {name} asks nobody")
    return read_call(asked)


def read_call(asked: ProgramCall) -> CallSettings:
    """Return a call in this project's words."""
    own = dict(asked.parameters)
    limit = next((own.pop(word) for word in _LIMITS if own.get(word) is not None), None)
    temperature, penalty = own.pop("temperature", None), own.pop("frequency_penalty", None) or 0.0
    if isinstance(effort := own.get("reasoning"), dict) and effort.keys() == {"effort"}:
        own["reasoning_effort"] = own.pop("reasoning")["effort"]
    own |= {word: None for word, value in (("temperature", temperature), ("max_tokens", limit)) if value is None}
    model = str(asked.model)
    for route in _ROUTES if asked.api.startswith("litellm") else ():
        model = model.removeprefix(route)
    messages = asked.messages if isinstance(asked.messages, list) else []
    system = next((message["content"] for message in messages if message["role"] == "system"), "")
    return CallSettings(
        api=asked.api,
        model=model,
        system=system,
        asks_question=[message for message in messages if message["role"] != "system"] == _QUESTION_ALONE,
        temperature=temperature,
        max_tokens=limit,
        frequency_penalty=penalty,
        parameters=own,
    )
