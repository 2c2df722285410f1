"""The report on judges that were asked several times about each answer."""

import json
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from shaberi_dagster import open_lake
from shaberi_dagster.cli.options import call
from shaberi_dagster.cli.shaberi import app
from shaberi_dagster.lake.catalog import write_catalog
from shaberi_dagster.lake.store import Lake

pytestmark = pytest.mark.integration
_NOW = datetime(2026, 7, 1, tzinfo=UTC)


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Judgements of a judge that wavers, of one that does not, and of one that was asked once."""
    lake = Lake(tmp_path / "warehouse")
    scores: dict[str, list[list[float] | None]] = {
        "firm": [[3, 3], [5, 5]],
        "moody": [[2, 4], [4, 4]],
        "once": [None, None],
    }
    rows = [
        {"run_id": "m@@t", "model": "m", "run_tag": "t", "benchmark": "tengu", "question_set": "tengu@2"}
        | {"question_id": f"q{number}", "sample_index": 0, "answer_hash": f"a{number}", "judge": judge, "score": 4.0}
        | {"judge_config_hash": judge, "request_hash": f"{judge}{number}", "status": "ok", "superseded": False}
        | {"sample_scores": given, "created_at": _NOW}
        for judge, of_judge in scores.items()
        for number, given in enumerate(of_judge)
    ]
    run = {"run_id": "m@@t", "model": "m", "run_tag": "t", "spec": "{}", "spec_hash": "h", "status": "complete"}
    lake.append("judgements", pl.DataFrame(rows, infer_schema_length=None))
    lake.append("runs", pl.DataFrame([run | {"created_at": _NOW, "updated_at": _NOW}]))
    write_catalog(lake)
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(lake.folder))
    return lake.folder


def test_the_spread_within_answers_stands_beside_that_between_them(
    warehouse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(app, ["consistency", "--format", "json"])
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"] == "firm gives 100% of answers the same score each time, more than the other judges."
    told = {row["judge"]: (row["answers"], row["times"], row["within"], row["alike_share"]) for row in data["rows"]}
    assert told == {"firm": (2, 2.0, 0.0, 1.0), "moody": (2, 2.0, 1.0, 0.5)}
    assert open_lake(warehouse).consistency(tags=["t"]).height == 2
