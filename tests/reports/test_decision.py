import io
import json
from datetime import UTC, datetime

import pytest
from rich.console import Console

from shaberi_dagster.deciding.expected import expected_result
from shaberi_dagster.reports.decision import decision_result
from shaberi_dagster.reports.write import write

pytestmark = pytest.mark.unit


def report(**values):
    decision = {
        "decision_id": "d1", "candidates": ["a@@t", "b@@t"], "judges": ["j"], "question_sets": ["tengu@120"],
        "n_questions": 120, "margin": 0.2, "error": 0.01, "seed": 1, "boundary": "history", "constant": 2.9,
        "n_history": 80, "state": "decided", "best": ["a@@t"], "reason": None, "n_asked": 40, "calls": 160,
        "cost_usd": 0.5, "started_at": datetime(2026, 7, 1, tzinfo=UTC),
    }  # fmt: skip
    looks = (
        {"n_asked": 24, "n_scored": 24, "estimate": 0.4, "lower": -0.1, "upper": 0.9, "verdict": "open"},
        {"n_asked": 40, "n_scored": 40, "estimate": 0.5, "lower": 0.1, "upper": 0.9, "verdict": "A"},
    )
    row = {"class": "p<0.001", "n_pairs": 900, "class_mean_questions": 27.0, "share_wrong": 0.001, "share_equal": 0.0}
    curve = [look | {"a": "a@@t", "b": "b@@t"} for look in looks]
    return {"decision": decision | values, "curve": curve, "calibration": [row]}


def shown(document, output_format="table"):
    console = Console(file=io.StringIO(), width=200)
    write(document, output_format, console)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "a@@t is better"),
        ({"best": ["a@@t", "b@@t"]}, "a@@t and b@@t are equal within the margin"),
        ({"state": "undecided", "best": None, "reason": "no money"}, "not decidable with these questions"),
        ({"candidates": ["a@@t", "b@@t", "c@@t"]}, "a@@t is the best"),
    ],
)
def test_a_decision_ends_with_one_sentence(values, sentence):
    assert shown(decision_result(report(**values))).startswith(sentence)


def test_the_document_has_the_whole_curve():
    data = json.loads(shown(decision_result(report()), "json"))

    assert (data["verdict"], data["calls_saved"], data["cost_saved_usd"]) == ("a@@t is better", 320, 1.0)
    assert [look["verdict"] for look in data["curve"]] == ["open", "A"]
    assert [look["n_asked"] for look in data["pairs"]] == [40]


def test_a_plan_has_a_line_for_each_kind_of_pair():
    expectations = [
        {"pair": "a clear pair", "n_questions": 25, "calls": 100, "calls_most": 150, "cost_usd": 0.25},
        {"pair": "at most", "n_questions": 120, "calls": 480, "calls_most": 480, "cost_usd": None},
    ]
    text = shown(expected_result(expectations, "d1", "history", 80))

    assert "100–150" in text
    assert "0.2500" in text
    assert "unknown" in text
