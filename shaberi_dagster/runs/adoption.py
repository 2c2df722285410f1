"""Requests with `preset`: an adopted set says what they leave open."""

from dataclasses import replace
from typing import Any

from shaberi_dagster.llm.parameters import as_settings
from shaberi_dagster.llm.request import Endpoint
from shaberi_dagster.runs.spec import RunRequest, RunSpec
from shaberi_dagster.tasks.benchmarks.registry import parse_benchmarks
from shaberi_dagster.tasks.judges.sets import ADOPTED, AdoptedSet, answer_settings, judge_settings
from shaberi_dagster.tasks.judges.spec import judge_defaults


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
    judged = bool(request.judge_models or (stored and stored.judges))
    filled: dict[str, Any] = {"benchmarks": _benchmarks(request, found, stored, judged=judged)}
    if judged:
        filled["judge_prompt"] = request.preset
    if stored is None or stored.origin == "own":
        filled |= _answers(request)
    own = {name: value for name, value in filled.items() if getattr(request, name) in (None, ["all"])}
    if request.parameters:
        own["parameters"] = [*filled.get("parameters", ()), *request.parameters]
    return request.model_copy(update=own)


def _benchmarks(request: RunRequest, found: AdoptedSet, stored: RunSpec | None, *, judged: bool) -> list[str]:
    """Return the benchmarks that are asked for; without a word, or with `all`, those that the set can judge."""
    if request.benchmarks in (None, ["all"]):
        is_whole = stored is None or (stored.origin == "own" and request.benchmarks is not None)
        usable = [name for name in found.benchmarks if found.judges(name) or not judged]
        return [name for name in usable if is_whole or (stored and name in stored.benchmarks)]
    names = [benchmark.name for benchmark in parse_benchmarks(",".join(request.benchmarks or ()))]
    if missing := [name for name in names if name not in found.benchmarks]:
        raise found.lacking(request.preset or "", f"has no {', '.join(missing)}")
    return names


def _answers(request: RunRequest) -> dict[str, Any]:
    """Return how answers are asked for."""
    settings = answer_settings(request.preset or "", request.model)
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
    settings = judge_settings(name, model)
    parameters = dict(settings.parameters)
    if settings.api == "responses" and endpoint.name == "openai":
        endpoint = replace(endpoint, name="openai_responses")
        # Which this project leaves out for models that may refuse it.
        parameters["extra_body"] = {"temperature": settings.temperature}
    usual = judge_defaults(endpoint)
    given = {"temperature": settings.temperature, "max_tokens": settings.max_tokens, "parameters": parameters}
    return usual | {word: value for word, value in given.items() if value is not None}, endpoint


def left_out(request: RunRequest, benchmark: str) -> tuple[int, ...]:
    """Return the positions of the questions of a benchmark that a request's adopted set leaves out."""
    entry = ADOPTED.use(request.preset).benchmarks.get(benchmark) if request.preset else None
    return entry.left_out if entry else ()
