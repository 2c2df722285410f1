"""What `shaberi import-ensemble` says about what it imported."""

import polars as pl
import pytest

from shaberi_dagster.exchange.outcomes import caches_result
from shaberi_dagster.exchange.reporting import FileCounts, ImportReport
from shaberi_dagster.lake.schemas import LEGACY_QUARANTINE
from shaberi_dagster.reports.blocks import Sentences

unit = pytest.mark.unit


def _said(*files: FileCounts, **more: object) -> list[str]:
    values = {"questions_with_text": 0, "questions_without_text": 0} | more
    quarantine = pl.DataFrame(schema=LEGACY_QUARANTINE.schema)
    done = ImportReport(files, ["run"], quarantine=quarantine, changed=True, **values)
    (said,) = caches_result(done.document()).blocks(None)
    assert isinstance(said, Sentences)
    return said.lines


@unit
def test_sums_that_do_not_agree_are_said() -> None:
    lost = FileCounts("a.json", "ensemble", "imported", entries=3, entries_imported=2, responses=10, answers=9)

    assert _said(lost)[-2:] == [
        "sums do not agree: a.json: 3 entries, 2 accounted for",
        "sums do not agree: a.json: 10 responses, 9 accounted for",
    ]
