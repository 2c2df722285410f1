"""The pages of decisions: a list, and each with its curve while it is made and afterwards."""

from datetime import UTC, datetime

import polars as pl
import pytest

from shaberi_dagster.lake.schemas import DECISION_LOOKS, DECISIONS
from tests.viewer.site import served

pytestmark = pytest.mark.integration

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
OWN = {
    "decision_id": "d1", "candidates": ["new@@t", "<b>old</b>@@t"], "run_ids": ["new@@t", "old@@t"], "judges": ["judge"],
    "question_sets": ["tengu@120"], "n_questions": 120, "margin": 0.2, "error": 0.01, "seed": 1, "boundary": "anytime",
    "n_history": 3, "state": "running", "n_asked": 24, "calls": 96, "cost_usd": 0.5, "started_at": NOW, "updated_at": NOW,
}  # fmt: skip


def look(n_asked, estimate, lower, upper, verdict="open"):
    pair = {"decision_id": "d1", "a": OWN["candidates"][0], "b": OWN["candidates"][1], "n_scored": n_asked}
    return pair | {
        "n_asked": n_asked, "estimate": estimate, "lower": lower, "upper": upper, "verdict": verdict, "created_at": NOW,
    }  # fmt: skip


def write(lake, decision, *looks):
    lake.replace("decisions", pl.DataFrame([decision], schema=DECISIONS.schema), {"decision_id": "d1"})
    lake.replace("decision_looks", pl.DataFrame(looks, schema=DECISION_LOOKS.schema), {"decision_id": "d1"})


def test_a_decision_is_followed_with_its_curve_until_it_is_made(workspace):
    write(workspace.lake, OWN, look(24, 0.8, -0.4, 2.0))
    with served(workspace.settings.warehouse) as site:
        listed, going_on = site.get("/decisions").text, site.get("/decision?decision=d1").text
        write(
            workspace.lake,
            OWN | {"state": "decided", "best": ["new@@t"], "n_asked": 48},
            look(24, 0.8, -0.4, 2.0),
            look(48, 1.1, 0.3, 1.9, "A"),
        )
        made = site.get("/decision?decision=d1").text

    assert 'href="/decision?decision=d1">new@@t · &lt;b&gt;old&lt;/b&gt;@@t</a>' in listed
    assert "not decided yet" in listed
    assert "<main data-live>" in going_on
    assert '<progress max="120" value="24"></progress> 24 of 120 questions asked' in going_on
    assert "after 24 questions +0.80, interval -0.40 to +2.00" in going_on
    assert going_on.count("<circle") == 1
    assert "<main>" in made
    assert "<h1>new@@t is better</h1>" in made
    assert made.count("<circle") == 2
    assert "decided: the first is better" in made
    assert "Not asked: 72 questions" in made
