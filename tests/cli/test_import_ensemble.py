"""What `shaberi import-ensemble` says about what it imported."""

import polars as pl
import pytest

from shaberi_dagster.cli.import_ensemble import summary
from shaberi_dagster.lake.schemas import LEGACY_QUARANTINE
from shaberi_dagster.legacy.ensemble import EnsembleImport, FileCounts

pytestmark = pytest.mark.unit


def _said(*files: FileCounts, **more: object) -> list[str]:
    values = {"questions_with_text": 0, "questions_without_text": 0} | more
    quarantine = pl.DataFrame(schema=LEGACY_QUARANTINE.schema)
    return summary(EnsembleImport(files, ["run"], quarantine=quarantine, changed=True, **values).document())


def test_sums_that_do_not_agree_are_said() -> None:
    lost = FileCounts("a.json", "ensemble", "imported", entries=3, entries_imported=2, responses=10, answers=9)

    assert _said(lost)[-2:] == [
        "sums do not agree: a.json: 3 entries, 2 accounted for",
        "sums do not agree: a.json: 10 responses, 9 accounted for",
    ]


def test_a_file_that_was_not_imported_is_one_line_with_its_reason() -> None:
    files = [
        FileCounts("a.json", "unknown", "unreadable", "is not JSON"),
        FileCounts("b.json", "ensemble", "duplicate"),
    ]

    assert _said(*files)[:2] == ["a.json: unreadable: is not JSON", "b.json: duplicate"]


def test_questions_without_a_text_are_explained() -> None:
    (_, explanation) = _said(questions_with_text=1, questions_without_text=2)

    assert explanation.startswith("2 questions have ids made from those of the caches")
