"""The public views over rows that a test gives, for what reads nothing but views: no lake is written."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from shaberi_dagster.lake.catalog import define_views
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.lake.store import Lake, conform


class Views:
    """The views of a lake in memory.

    Attributes:
        catalog: A connection to them.
    """

    def __init__(self) -> None:
        self.catalog = duckdb.connect(config={"threads": 1})
        self._filled: set[str] = set()
        with tempfile.TemporaryDirectory() as folder:
            define_views(self.catalog, Lake(Path(folder)))
        self.catalog.execute("set TimeZone = 'UTC'")

    def add(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows of a table; columns that are not there are null."""
        frame = conform(TABLES[table], pl.DataFrame(rows, infer_schema_length=None))
        self.catalog.register("added", frame.to_arrow())
        self.catalog.execute(f"insert into lake._{table} by name from added")
        self.catalog.unregister("added")  # or it would be a view among those that tests list
        self._filled.add(table)

    def fill_metrics(self) -> None:
        """Give metrics the single scores that they are made of."""
        own = "from lake._scores as own where (own.run_id, own.benchmark, own.judge, own.pipeline)"
        own += " = (metrics.run_id, metrics.benchmark, metrics.judge, metrics.pipeline)"
        least = "if(null_policy = 'zero', coalesce(scale_minimum, 0), null)"
        score = f"coalesce(if(null_policy = 'legacy' or not coalesce(out_of_scale, false), score, null), {least})"
        order = "order by question_id, sample_index"
        self.catalog.execute(
            f"update lake._metrics as metrics set question_ids = coalesce((select list(question_id {order}) {own}), []), "
            f"question_scores = coalesce((select list({score} * reported_multiplier {order}) {own}), [])"
        )

    def clear(self) -> None:
        """Have no rows any more."""
        for table in self._filled:
            self.catalog.execute(f"truncate lake._{table}")
        self._filled.clear()
