"""What `shaberi import-ensemble` says about what it imported."""

import json
from pathlib import Path

import jsonschema
import polars as pl
import pytest

from shaberi_dagster.cli.command import FINE
from shaberi_dagster.cli.import_ensemble import ImportEnsemble, import_ensemble
from shaberi_dagster.exchange.outcomes import caches_result
from shaberi_dagster.exchange.reporting import FileCounts, ImportReport
from shaberi_dagster.lake.schemas import LEGACY_QUARANTINE
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.reports.report import Sentences
from shaberi_dagster.settings import Settings
from tests.exchange.caches import baseline, ensemble, response, result, write

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "schemas" / "quick-eval.schema.json"

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


@unit
def test_a_file_that_was_not_imported_is_one_line_with_its_reason() -> None:
    files = [
        FileCounts("a.json", "unknown", "unreadable", "is not JSON"),
        FileCounts("b.json", "ensemble", "duplicate"),
    ]

    assert _said(*files)[:2] == ["a.json: unreadable: is not JSON", "b.json: duplicate"]


@unit
def test_questions_without_a_text_are_explained() -> None:
    (_, explanation) = _said(questions_with_text=1, questions_without_text=2)

    assert explanation.startswith("2 questions have no text")
    assert all(word in explanation for word in ("grade", "quick-eval", "starter set", "--questions", "baseline cache"))


@pytest.mark.long
@pytest.mark.integration
def test_imported_samples_are_graded_and_voted_on_without_a_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {"a": ["4", "4", "5"], "b": ["5", "4", "4"], "c": ["4", "5", "5"]}
    entries = {name: [response(f"The answer is {one}.") for one in texts] for name, texts in said.items()}
    write(tmp_path / "caches" / "ensemble" / "ensemble.json", ensemble(entries))
    judged = [result(name, response(f"The answer is {texts[0]}.")) for name, texts in said.items()]
    write(tmp_path / "caches" / "baselines" / "baseline.json", baseline(*judged))
    settings = Settings.from_environment()

    for _ in range(2):  # the same command again changes nothing
        assert import_ensemble(ImportEnsemble(paths=[tmp_path / "caches"], as_json=True, grade=True)) == FINE
        report = json.loads(capsys.readouterr().out)
        (graded,) = report["graded"]
        jsonschema.validate(graded, json.loads(SCHEMA.read_text(encoding="utf-8")))
        found = {one["strategy"]: (one["n_correct"], one["n_planned"]) for one in graded["benchmarks"][0]["results"]}
        assert found == {"single": (2, 3), "plurality": (2, 3), "samples": (5, 9)}
        assert (graded["run_tag"], graded["status"], graded["calls_made"]) == ("legacy-3x-t0.7", "complete", {})

    lake = Lake(settings.warehouse)
    assert lake.read("calls").is_empty()
    assert lake.read("judgements", {"judge": "rule:numeric"})["run_tag"].unique().to_list() == ["legacy-3x-t0.7"]
    assert lake.read("answers").group_by("run_tag").len().sort("run_tag").rows() == [
        ("legacy-3x-t0.7", 9),
        ("legacy-baseline", 3),
    ]
