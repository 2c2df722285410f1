"""Plain data as text: JSON and CSV that steer neither a terminal nor a spreadsheet."""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from shaberi_dagster.show.text import csv_text, json_safe


@cache
def _anything() -> TypeAdapter[Any]:
    """Make it when it is needed: it takes a few milliseconds."""
    return TypeAdapter(Any)


def plain(value: Any) -> Any:
    """Return models, dataclasses and all within them as mappings and lists."""
    return _anything().dump_python(value, mode="json")


def as_json(data: Any) -> str:
    """Write a document of plain data; numbers that are none are null."""
    return json_safe(json.dumps(_finite(data), ensure_ascii=False, indent=2, allow_nan=False)) + "\n"


def as_csv(records: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> str:
    """Write a rectangular table.

    Args:
        records: One per line. What a record does not have, and None, is empty.
        columns: Which values, in this order; none: those of the first record.
    """
    lines = list(records)
    file = io.StringIO()
    writer = csv.DictWriter(
        file, columns or list(lines[0] if lines else ()), lineterminator="\n", extrasaction="ignore"
    )
    writer.writeheader()
    writer.writerows({name: _csv_cell(value) for name, value in line.items()} for line in lines)
    return file.getvalue()


def _csv_cell(value: Any) -> Any:
    return csv_text(value) if isinstance(value, str) else value if isinstance(value, datetime) else _finite(value)


def _finite(value: Any) -> Any:
    """The value with None in the place of numbers that are none, and times as text."""
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return None if isinstance(value, float) and not math.isfinite(value) else value
