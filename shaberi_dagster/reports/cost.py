"""What runs cost, by stage and benchmark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from shaberi_dagster.reports.named_queries import known_names
from shaberi_dagster.reports.reading import fetch, fetch_frame
from shaberi_dagster.reports.requests import runs_chosen
from shaberi_dagster.reports.scores import TokenRow, grouped
from shaberi_dagster.util.names import check_known

if TYPE_CHECKING:
    import polars as pl


class CostSum(NamedTuple):
    """Sums of what is known; None where nothing is.

    Attributes:
        calls: Finished calls.
        prompt_tokens: Tokens sent.
        completion_tokens: Tokens received.
        cost_usd: US dollars.
        calls_without_price: Calls whose cost is not in the sum.
    """

    calls: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    calls_without_price: int

    @classmethod
    def of(cls, rows: Sequence[TokenRow]) -> "CostSum":
        """The sum of some rows."""

        def known(name: str) -> list[Any]:
            return [value for row in rows if (value := getattr(row, name)) is not None]

        sent, received, costs = map(known, ("prompt_tokens", "completion_tokens", "cost_usd"))
        return cls(
            sum(row.calls for row in rows),
            sum(sent) if sent else None,
            sum(received) if received else None,
            math.fsum(costs) if costs else None,
            sum(row.calls_without_price for row in rows),
        )


@dataclass(frozen=True)
class CostReport:
    """What runs cost.

    Attributes:
        rows: One per run, stage and benchmark.
    """

    rows: Sequence[TokenRow]

    @property
    def total(self) -> CostSum:
        """The sum of all."""
        return CostSum.of(self.rows)

    @property
    def by_run(self) -> list[tuple[tuple[str, str], CostSum, list[TokenRow]]]:
        """Model and tag of each run, its sum and its rows."""
        groups = grouped(self.rows, lambda row: (row.model, row.run_tag))
        return [(run, CostSum.of(own), own) for run, own in groups]


def read_cost(
    catalog: duckdb.DuckDBPyConnection,
    *,
    run_ids: Sequence[str] | None = None,
    models: Sequence[str] = (),
    tags: Sequence[str] = (),
    sources: Sequence[str] = (),
) -> CostReport:
    """What runs cost.

    Args:
        catalog: The public views.
        run_ids: Only these runs; None means all.
        models: Only these; none means all.
        tags: Only runs with one of these tags, base tags or tags of their import; none means all.
        sources: Only runs imported from these trees; none means all, and the runs of our own.

    Raises:
        ConfigurationError: The lake has no such model, tag or tree.
    """
    _check_chosen(catalog, models, tags, sources)
    found = fetch(catalog, "cost", run_ids=run_ids, **runs_chosen(models, tags, sources))
    return CostReport([TokenRow(**row | {"benchmark": row["benchmark"] or ""}) for row in found])


def cost_frame(
    catalog: duckdb.DuckDBPyConnection, models: Sequence[str], tags: Sequence[str], sources: Sequence[str]
) -> "pl.DataFrame":
    """Read the same as a frame; benchmark is null where calls were made for none."""
    _check_chosen(catalog, models, tags, sources)
    return fetch_frame(catalog, "cost", run_ids=None, **runs_chosen(models, tags, sources))


def _check_chosen(
    catalog: duckdb.DuckDBPyConnection, models: Sequence[str], tags: Sequence[str], sources: Sequence[str]
) -> None:
    check_known("model", models, known_names(catalog, "model") if models else ())
    check_known("tag", tags, known_names(catalog, "tag or base tag") if tags else ())
    check_known("source", sources, known_names(catalog, "source") if sources else ())
