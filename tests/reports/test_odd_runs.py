"""A run whose rows contradict each other is left out of reports by name, and the rest stands."""

import math

import polars as pl
import pytest

from shaberi_dagster.cli.options import call
from shaberi_dagster.cli.shaberi import app as shaberi
from shaberi_dagster.cli.view_scores import app as view_scores
from shaberi_dagster.lake.catalog import write_catalog
from shaberi_dagster.lake.store import Lake
from tests.reports.test_score_reading import metric, models_judged, stored
from tests.viewer.site import served

pytestmark = pytest.mark.integration

_ODD_METRICS = {
    "more questions than scores": {"question_ids": ["q0", "q1", "q2"], "question_scores": [1.0, 2.0]},
    "scores far out of the scale": {"question_ids": ["q0", "q1"], "question_scores": [1e200, -1e200]},
    "a mean without end": {"score": 1e308},
    "scores that are no numbers": {"question_ids": ["q0", "q1"], "question_scores": [math.nan, math.inf]},
}
_ODD_RUNS = {"settings that are none": {"spec": "[]"}, "replies of nothing": {"reused_replies": "[1]"}}


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """Fills a lake with two good models and the runs of an odd one, and says what commands say of it."""
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(tmp_path))

    def fill(given, state):
        metrics, scores = models_judged({"m": [1.0, 2.0, 3.0], "n": [7.0, 8.0, 9.0]}, "ab")
        odd = [{"base_tag": "t", "run_number": number} for number in (1, 2)]
        metrics += [
            metric("odd", f"t-run{one['run_number']}", judge=judge, **one) | given for one in odd for judge in "ab"
        ]
        runs = [stored("m"), stored("n"), *(stored("odd", f"t-run{one['run_number']}", **one) | state for one in odd)]
        lake = Lake(tmp_path)
        asked = {
            "benchmark": "tengu",
            "question_set": "tengu@5",
            "question_set_sha256": "",
            "created_at": runs[0]["created_at"],
        }
        questions = [asked | {"question_id": f"q{place}", "position": place + 1, "question": "?"} for place in range(5)]
        for table, rows in {"metrics": metrics, "scores": scores, "runs": runs, "questions": questions}.items():
            lake.append(table, pl.DataFrame(rows, infer_schema_length=None))
        write_catalog(lake)

    def say(app, *arguments):
        return call(app, arguments), capsys.readouterr().out

    return fill, say


@pytest.mark.parametrize(("given", "state"), [
    *(pytest.param(given, {}, id=name) for name, given in _ODD_METRICS.items()),
    *(pytest.param({}, state, id=name) for name, state in _ODD_RUNS.items()),
])  # fmt: skip
def test_an_odd_run_is_left_out_and_named(given, state, said, tmp_path):
    fill, say = said
    fill(given, state)

    for by in ("model", "judge", "run"):
        code, text = say(view_scores, "--by", by)
        assert code == 0
        assert "left out: odd@@t-run1: " in text
    assert say(shaberi, "compare", "m", "n")[0] == 0
    with served(tmp_path) as site:
        page = site.get("/")
    assert page.status == 200
    assert "left out: odd@@t-run1: " in page.text
