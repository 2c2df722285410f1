"""Requests with `preset`: an adopted set says what they leave open."""

from dataclasses import replace
from typing import Any

from shaberi_dagster.benchmarks.questions import QuestionSet, content_sha256, known_sets, set_name_of
from shaberi_dagster.benchmarks.registry import parse_benchmarks
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.judges.sets import ADOPTED, AdoptedSet, answer_settings, judge_settings
from shaberi_dagster.judges.spec import judge_defaults
from shaberi_dagster.llm.endpoints import resolve_endpoint
from shaberi_dagster.llm.parameters import as_settings
from shaberi_dagster.llm.request import Endpoint
from shaberi_dagster.runs.spec import RunRequest, RunSpec


def with_preset(request: RunRequest, stored: RunSpec | None = None) -> RunRequest:
    """Return a request with what its adopted set says; what the request says itself stays.

    Args:
        request: With or without one.
        stored: The run that it continues; answers of an imported one are not asked for.

    Raises:
        ConfigurationError: There is no such set, or it cannot ask this model or these benchmarks.
    """
    if request.preset is None:
        return request
    found = ADOPTED.use(request.preset)
    filled: dict[str, Any] = {"benchmarks": _benchmarks(request, found)}
    if request.judge_models or (stored and stored.judges):
        filled["judge_prompt"] = request.preset
    if stored is None or stored.origin == "own":
        filled |= _answers(request)
    own = {name: value for name, value in filled.items() if getattr(request, name) in (None, ["all"])}
    if request.parameters:
        own["parameters"] = [*filled.get("parameters", ()), *request.parameters]
    return request.model_copy(update=own)


def _benchmarks(request: RunRequest, found: AdoptedSet) -> list[str]:
    """Return the benchmarks that are asked for; without a word, or with `all`, those of the set."""
    if request.benchmarks in (None, ["all"]):
        return list(found.benchmarks)
    names = [benchmark.name for benchmark in parse_benchmarks(",".join(request.benchmarks or ()))]
    if missing := [name for name in names if name not in found.benchmarks]:
        reasons = "".join(f"; {reason}" for reason in found.refused[:3])
        raise ConfigurationError(
            f"the adopted set {request.preset} has no {', '.join(missing)}: "
            f"it has {', '.join(found.benchmarks)}{reasons}"
        )
    return names


def _answers(request: RunRequest) -> dict[str, Any]:
    """Return how answers are asked for."""
    endpoint = resolve_endpoint(request.model, request.base_url, request.api_key_variable)
    settings = answer_settings(request.preset or "", request.model, endpoint)
    return {
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
        "frequency_penalty": settings.frequency_penalty,
        "system_prompt": settings.system,
        "parameters": as_settings(settings.parameters),
    }


def adopted_defaults(name: str, model: str, endpoint: Endpoint) -> tuple[dict[str, Any], Endpoint]:
    """Return the settings of a judge of an adopted set for which none were given, and where it is asked.

    A model that the suite asks over OpenAI's Responses interface is asked there.

    Args:
        name: The set.
        model: The judge's model.
        endpoint: Where it is served.
    """
    settings = judge_settings(name, model, endpoint)
    parameters = dict(settings.parameters)
    if settings.frequency_penalty:
        parameters["frequency_penalty"] = settings.frequency_penalty
    if settings.api == "responses" and endpoint.name == "openai":
        endpoint = replace(endpoint, name="openai_responses")
        if settings.temperature is not None:  # which this project leaves out for models that may refuse it
            parameters["extra_body"] = {"temperature": settings.temperature}
    usual = judge_defaults(endpoint)
    given = {"temperature": settings.temperature, "max_tokens": settings.max_tokens, "parameters": parameters}
    return usual | {word: value for word, value in given.items() if value is not None}, endpoint


def without_left_out(request: RunRequest, questions: QuestionSet) -> QuestionSet:
    """Return a question set without the questions that a request's adopted set leaves out.

    Raises:
        ConfigurationError: What remains is no registered set, so it would not be found again.
    """
    entry = ADOPTED.use(request.preset).benchmarks.get(questions.benchmark) if request.preset else None
    left_out = entry.left_out if entry else ()
    kept = tuple(question for question in questions.questions if question.position not in left_out)
    if len(kept) == len(questions.questions):
        return questions
    sha256 = content_sha256(kept)
    name = set_name_of(questions.benchmark, len(kept), sha256)
    if name not in known_sets():
        raise ConfigurationError(
            f"the adopted set {request.preset} leaves out questions {', '.join(map(str, left_out))} of "
            f"{questions.benchmark}, and {questions.name} without them is no registered set: "
            "give a file that lacks them"
        )
    return replace(questions, name=name, sha256=sha256, questions=kept)
