"""Endpoints that models' names lead to, and the outcome of a check of one."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from shaberi_dagster.lake.files import swap_in
from shaberi_dagster.llm.endpoints import ENDPOINTS, key_state

_CHECKS = "_checked_endpoints.json"


class KnownEndpoint(NamedTuple):
    """An endpoint as it can be used here.

    Attributes:
        name: Before a model's name it leads there: `NAME:MODEL`.
        form: The provider of its calls.
        base_url: Its address.
        models: Patterns of the names that lead there by themselves.
        key: The key's environment variable and its state: ok, not set, or not bound to the address.
        parameters: What its calls do with parameters.
        tried: Calls here that it answered, else the day of a check that it answered; `unverified` where there is
            neither, and its entry is from a page alone.
    """

    name: str
    form: str
    base_url: str
    models: Sequence[str]
    key: str
    parameters: Sequence[str]
    tried: str


def known_endpoints(
    environment: Mapping[str, str], calls: Mapping[str, int], checks: Mapping[str, str]
) -> list[KnownEndpoint]:
    """List the endpoints with an address, by name.

    Args:
        environment: Where keys are read from.
        calls: Number of calls that succeeded, by address.
        checks: The day of the last check that succeeded, by address.

    Raises:
        ConfigurationError: `SHABERI_KEY_HOSTS` cannot be read.
    """
    return [
        KnownEndpoint(
            name=name,
            form=entry.provider,
            base_url=entry.base_url or f"{entry.base_url_variable} is not set",
            models=entry.models,
            key=_key(entry.api_key, entry.base_url or "", environment),
            parameters=_parameters(entry),
            tried=_tried(
                calls.get(entry.base_url or "", 0), checks.get(entry.base_url or ""), unverified=entry.unverified
            ),
        )
        for name, entry in sorted(ENDPOINTS.items())
        if entry.is_somewhere
    ]


def _tried(calls: int, checked: str | None, *, unverified: bool) -> str:
    if calls:
        return f"{calls:,} calls"
    return f"checked {checked}" if checked else "unverified" if unverified else ""


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


class CheckedEndpoint(NamedTuple):
    """The outcome of a tiny call.

    Attributes:
        model: The model that was asked.
        base_url: Its address.
        status: `ok`: it answered; `error`.
        error_message: Why it did not.
        latency_seconds: Duration of the call.
        usage: Its tokens, by name.
        cost_usd: US dollars; None is unknown.
        taken: Parameters that were sent and not refused.
        refused: Parameters that the server refused.
        not_sent: Parameters that the endpoint's entry leaves out.
        loaded: The models in the server's memory; None where it does not tell.
    """

    model: str
    base_url: str
    status: str
    error_message: str | None
    latency_seconds: float
    usage: Mapping[str, int | None]
    cost_usd: float | None
    taken: Sequence[str]
    refused: Sequence[str]
    not_sent: Sequence[str]
    loaded: Sequence[str] | None


def remember_check(warehouse: Path, checked: CheckedEndpoint, now: datetime) -> None:
    """Keep the day on which a server answered a check, beside the lake."""
    days = checks_in(warehouse) | {checked.base_url: f"{now:%Y-%m-%d}"}
    swap_in(warehouse / _CHECKS, json.dumps(days, indent=1).encode())


def checks_in(warehouse: Path) -> dict[str, str]:
    """Read the days on which servers last answered a check, by address."""
    try:
        days = json.loads((warehouse / _CHECKS).read_bytes())
    except (OSError, ValueError):
        return {}
    return days if isinstance(days, dict) else {}
