import io
import json
from datetime import UTC, datetime

import pytest
from rich.console import Console

from shaberi_dagster.deciding.expected import Expectation, expected_result
from shaberi_dagster.reports.decision import DecisionReport, StoredLook
from shaberi_dagster.show.decision import decision_result
from shaberi_dagster.show.formats import write

pytestmark = pytest.mark.unit


def report(**values):
    decision = {
        "decision_id": "d1", "candidates": ["a@@t", "b@@t"], "judges": ["j"], "question_sets": ["tengu@120"],
        "n_questions": 120, "margin": 0.2, "error": 0.01, "seed": 1, "boundary": "history", "constant": 2.9,
        "n_history": 80, "state": "decided", "best": ["a@@t"], "reason": None, "n_asked": 40, "calls": 160,
        "cost_usd": 0.5, "started_at": datetime(2026, 7, 1, tzinfo=UTC),
    }  # fmt: skip
    looks = (
        StoredLook(24, "a@@t", "b@@t", 24, 0.4, -0.1, 0.9, "open"),
        StoredLook(40, "a@@t", "b@@t", 40, 0.5, 0.1, 0.9, "A"),
    )
    row = {"class": "p<0.001", "n_pairs": 900, "class_mean_questions": 27.0, "share_wrong": 0.001, "share_equal": 0.0}
    return DecisionReport(decision | values, looks, (row,))


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


def test_it_shows_the_estimate_what_it_took_and_what_it_saved():
    text = shown(decision_result(report(), ("run-evals --model a",)))

    assert "+0.50" in text
    assert "+0.10 to +0.90" in text
    assert "40 questions of 120 were needed, with 160 calls ($0.5000)." in text
    assert "Not asked: 80 questions, which saved about 320 calls ($1.0000)." in text
    assert "paying only for the rest: run-evals --model a" in text
    assert "shaberi compare` is about questions of the kind" in text
    assert "0.1%" in text


def test_it_says_when_the_history_does_not_suffice():
    text = shown(decision_result(report(boundary="anytime", constant=None)))

    assert "does not suffice to calibrate" in text


def test_the_document_has_the_whole_curve():
    data = json.loads(shown(decision_result(report()), "json"))

    assert (data["verdict"], data["calls_saved"], data["cost_saved_usd"]) == ("a@@t is better", 320, 1.0)
    assert [look["verdict"] for look in data["curve"]] == ["open", "A"]
    assert [look["n_asked"] for look in data["pairs"]] == [40]


def test_a_plan_has_a_line_for_each_kind_of_pair():
    expectations = (Expectation("a clear pair", 25, 100, 150, 0.25), Expectation("at most", 120, 480, 480, None))
    text = shown(expected_result(expectations, "d1", "history", 80))

    assert "100–150" in text
    assert "0.2500" in text
    assert "unknown" in text
