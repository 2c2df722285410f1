"""Endpoints that models' names lead to, and the outcome of a check of one."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from shaberi_dagster.lake.files import swap_in
from shaberi_dagster.llm.endpoints import ENDPOINTS, key_state

_CHECKS = "_checked_endpoints.json"


def known_endpoints(
    environment: Mapping[str, str], calls: Mapping[str, int], checks: Mapping[str, str]
) -> list[dict[str, Any]]:
    """List the endpoints with an address, by name.

    Args:
        environment: Where keys are read from.
        calls: Number of calls that succeeded, by address.
        checks: The day of the last check that succeeded, by address.

    Returns:
        Of each `name`, `form` (the provider of its calls), `base_url`, `models` (patterns of the names that lead there
        by themselves), `key` (its variable and state: ok, not set, or not bound to the address), `parameters` (what its
        calls do with them) and `tried`: calls that it answered, else the day of a check that it answered, else
        `unverified` where its entry is from a page alone.

    Raises:
        ConfigurationError: `SHABERI_KEY_HOSTS` cannot be read.
    """
    return [
        {
            "name": name,
            "form": entry.provider,
            "base_url": entry.base_url or f"{entry.base_url_variable} is not set",
            "models": entry.models,
            "key": f"{entry.api_key}: {key_state(entry.api_key, entry.base_url or '', environment)}"
            if entry.api_key
            else "none",
            "parameters": _parameters(entry),
            "tried": _tried(
                calls.get(entry.base_url or "", 0), checks.get(entry.base_url or ""), unverified=entry.unverified
            ),
        }
        for name, entry in sorted(ENDPOINTS.items())
        if entry.is_somewhere
    ]


def _tried(calls: int, checked: str | None, *, unverified: bool) -> str:
    if calls:
        return f"{calls:,} calls"
    return f"checked {checked}" if checked else "unverified" if unverified else ""


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


def remember_check(warehouse: Path, base_url: str, now: datetime) -> None:
    """Keep the day on which a server answered a check, beside the lake."""
    days = checks_in(warehouse) | {base_url: f"{now:%Y-%m-%d}"}
    swap_in(warehouse / _CHECKS, json.dumps(days, indent=1).encode())


def checks_in(warehouse: Path) -> dict[str, str]:
    """Read the days on which servers last answered a check, by address."""
    try:
        days = json.loads((warehouse / _CHECKS).read_bytes())
    except (OSError, ValueError):
        return {}
    return days if isinstance(days, dict) else {}
