"""Endpoints that models' names lead to, and what one of them takes."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from shaberi_dagster.llm.checking import EndpointCheck
from shaberi_dagster.llm.endpoints import ENDPOINTS, key_state
from shaberi_dagster.llm.prices import Cost
from shaberi_dagster.reports.report import Result, Sentences, table_of, text


class KnownEndpoint(NamedTuple):
    """An endpoint as it can be used here.

    Attributes:
        name: Before a model's name it leads there: `NAME:MODEL`.
        form: The provider of its calls.
        base_url: Its address.
        models: Patterns of the names that lead there by themselves.
        key: The key's environment variable and its state: ok, not set, or not bound to the address.
        parameters: What its calls do with parameters.
        tried: Calls here that it answered; `unverified` where there are none and its entry is from a page alone.
    """

    name: str
    form: str
    base_url: str
    models: Sequence[str]
    key: str
    parameters: Sequence[str]
    tried: str


def known_endpoints(environment: Mapping[str, str], calls: Mapping[str, int]) -> list[KnownEndpoint]:
    """List the endpoints with an address, by name.

    Args:
        environment: Where keys are read from.
        calls: Number of calls that succeeded, by address.

    Raises:
        ConfigurationError: `SHABERI_KEY_HOSTS` cannot be read.
    """
    return [
        KnownEndpoint(
            name=name,
            form=entry.provider,
            base_url=entry.base_url,
            models=entry.models,
            key=_key(entry.api_key, entry.base_url, environment),
            parameters=_parameters(entry),
            tried=_tried(calls.get(entry.base_url, 0), unverified=entry.unverified),
        )
        for name, entry in sorted(ENDPOINTS.items())
        if entry.base_url
    ]


def _tried(calls: int, *, unverified: bool) -> str:
    return f"{calls:,} calls" if calls else "unverified" if unverified else ""


def _key(variable: str | None, base_url: str, environment: Mapping[str, str]) -> str:
    return f"{variable}: {key_state(variable, base_url, environment)}" if variable else "none"


def _parameters(entry: Any) -> list[str]:
    """Say what the rules of an entry do."""
    said = []
    for rule in entry.rules:
        of_models = "" if rule.models == ("*",) else f" ({', '.join(rule.models)})"
        renamed = rule.rename | ({"max_tokens": rule.max_tokens} if rule.max_tokens else {})
        said += [f"{name} as {other}{of_models}" for name, other in renamed.items()]
        said += [f"{name} left out{of_models}" for name in sorted(rule.drop)]
        said += [f"{name} {low:g} to {high:g}{of_models}" for name, (low, high) in rule.limits.items()]
        said += [f"{name} {'|'.join(values)}{of_models}" for name, values in rule.instead.items()]
    return said


def check_result(checked: EndpointCheck, cost: Cost | None) -> Result:
    """Say how a check ended."""
    call = checked.call
    usage = vars(call.usage)
    answered = call.status == "ok"
    how = f"answered in {call.latency_seconds:.2f} s." if answered else f"did not answer: {call.error_message}"
    lines = [f"{call.model} at {call.base_url} {how}"]
    if answered:
        tokens = f"{usage['prompt_tokens']} prompt and {usage['completion_tokens']} completion tokens"
        lines.append(f"Cost: {'unknown' if cost is None else f'{cost.usd:.6f} USD'} for {tokens}.")
    said = (("taken", checked.taken), ("refused", checked.refused), ("left out by its entry", checked.not_sent))
    lines += [f"Parameters {state}: {', '.join(names)}." for state, names in said if names]
    document = {
        "model": call.model,
        "base_url": call.base_url,
        "status": call.status,
        "error_message": call.error_message,
        "latency_seconds": call.latency_seconds,
        "cost_usd": cost.usd if cost else None,
        "usage": usage,
        "parameters": {"taken": checked.taken, "refused": checked.refused, "not_sent": checked.not_sent},
    }
    return Result([Sentences(lines)], document=document)


def endpoints_result(endpoints: Sequence[KnownEndpoint]) -> Result:
    """List endpoints."""
    columns = [
        text("endpoint", lambda endpoint: endpoint.name),
        text("form", lambda endpoint: endpoint.form, folds=True),
        text("address", lambda endpoint: endpoint.base_url, folds=True),
        text("models", lambda endpoint: " ".join(endpoint.models) or f"{endpoint.name}:MODEL", folds=True),
        text("key", lambda endpoint: endpoint.key, folds=True),
        text("tried", lambda endpoint: endpoint.tried),
        text("parameters", lambda endpoint: ", ".join(endpoint.parameters), folds=True),
    ]
    note = (
        "NAME:MODEL asks a model of an endpoint; a file endpoints/NAME.yaml in a plugin folder adds one "
        "(docs/extending.md). What is said of providers is from their pages, which the files name with their date; "
        "`shaberi endpoints check NAME:MODEL` asks one."
    )
    return Result(
        [table_of(endpoints, columns), Sentences([note])],
        document={"endpoints": [endpoint._asdict() for endpoint in endpoints]},
    )
