"""Endpoints that models' names lead to, and the outcome of a check, as they are shown."""

from collections.abc import Sequence

from shaberi_dagster.reports.report import Result, Sentences, table_of, text
from shaberi_dagster.runs.known_endpoints import CheckedEndpoint, KnownEndpoint


def check_result(checked: CheckedEndpoint) -> Result:
    """Say how a check ended."""
    answered, usage = checked.status == "ok", checked.usage
    how = f"answered in {checked.latency_seconds:.2f} s." if answered else f"did not answer: {checked.error_message}"
    lines = [f"{checked.model} at {checked.base_url} {how}"]
    if answered:
        tokens = f"{usage['prompt_tokens']} prompt and {usage['completion_tokens']} completion tokens"
        cost = "unknown" if checked.cost_usd is None else f"{checked.cost_usd:.6f} USD"
        lines.append(f"Cost: {cost} for {tokens}.")
    said = (("taken", checked.taken), ("refused", checked.refused), ("left out by its entry", checked.not_sent))
    lines += [f"Parameters {state}: {', '.join(names)}." for state, names in said if names]
    if checked.loaded is not None:
        lines.append(f"In its memory: {', '.join(checked.loaded) or 'no model'}.")
    parameters = {name: getattr(checked, name) for name in ("taken", "refused", "not_sent")}
    document = {name: value for name, value in checked._asdict().items() if name not in parameters}
    return Result([Sentences(lines)], document={**document, "parameters": parameters})


def endpoints_result(endpoints: Sequence[KnownEndpoint]) -> Result:
    """List endpoints."""
    columns = [
        text("endpoint", lambda endpoint: endpoint.name),
        text("form", lambda endpoint: endpoint.form, folds=True, narrowest=9),
        text("address", lambda endpoint: endpoint.base_url, folds=True, narrowest=9),
        text("models", lambda endpoint: " ".join(endpoint.models) or f"{endpoint.name}:MODEL", folds=True, narrowest=9),
        text("key", lambda endpoint: endpoint.key, folds=True, narrowest=9),
        text("tried", lambda endpoint: endpoint.tried),
        text("parameters", lambda endpoint: ", ".join(endpoint.parameters), folds=True, narrowest=9),
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
