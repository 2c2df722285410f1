"""Assets of what is done beside evaluations (imports, exports, decisions), each made of one declaration."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import dagster as dg

from shaberi_dagster.defs.assets import OWNERS
from shaberi_dagster.defs.interrupts import canceled_when_interrupted
from shaberi_dagster.defs.metadata import column_schema


def operation(
    key: str | Sequence[str], *, table: str | None = None, checks: Mapping[str, str] | None = None, **declared: Any
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Make an asset of a function that returns its `dg.MaterializeResult`; an interrupt cancels its Dagster run.

    Args:
        key: Of the asset.
        table: The lake's table that it fills, whose columns the UI shows.
        checks: Descriptions of its checks by name.
        declared: As for `dg.asset`.
    """
    metadata = {"dagster/table_name": table, "dagster/column_schema": column_schema(table)} if table else None
    specs = [dg.AssetCheckSpec(name, asset=key, description=text) for name, text in (checks or {}).items()]

    def made(function: Callable[..., Any]) -> dg.AssetsDefinition:
        @wraps(function)
        def body(context: dg.AssetExecutionContext, *given: Any, **named: Any) -> Any:
            with canceled_when_interrupted(context):
                return function(context, *given, **named)

        declare: Any = dg.asset(key=key, owners=OWNERS, metadata=metadata, check_specs=specs, **declared)
        asset: dg.AssetsDefinition = declare(body)
        return asset

    return made


def import_checks(discrepancies: Sequence[str], left_out: Mapping[str, int]) -> list[dg.AssetCheckResult]:
    """Report whether an import has everything that its files had.

    Args:
        discrepancies: Sums of files and lake that do not agree.
        left_out: What could not be read, by what is said of it ("lines quarantined").
    """
    return [
        dg.AssetCheckResult(
            check_name="reconciled",
            passed=not discrepancies,
            description="; ".join(discrepancies) or "all sums agree",
        ),
        dg.AssetCheckResult(
            check_name="nothing_quarantined",
            passed=not any(left_out.values()),
            severity=dg.AssetCheckSeverity.WARN,
            description=", ".join(f"{count:,} {reason}" for reason, count in left_out.items()),
        ),
    ]
