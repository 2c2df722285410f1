"""Tables of new lakes, made without doing again what one process has done once."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from shaberi_dagster.lake import store

_FIRST = "_delta_log/00000000000000000000.json"


def make_tables_once() -> None:
    """In this process, each table is made once by delta-rs, in 4 ms; those of other lakes begin with the same commit."""
    table = store._LocalTable
    create = table.create
    commits: dict[tuple[str, pa.Schema], bytes] = {}

    def kept(place: Path | str, schema: pa.Schema, *, name: str, **options: Any) -> store.DeltaTable:
        if not isinstance(place, Path):  # in a store
            return create(place, schema, name=name, **options)
        first, made = place / _FIRST, commits.get((name, schema))
        if made is None:
            created = create(place, schema, name=name, **options)
            commits[name, schema] = first.read_bytes()
            return created
        first.parent.mkdir(parents=True, exist_ok=True)
        own = first.with_name(f"{os.getpid()}.tmp")
        own.write_bytes(made)
        if not first.exists():
            own.rename(first)
        return table(place)

    table.create = kept  # type: ignore[method-assign, assignment]
