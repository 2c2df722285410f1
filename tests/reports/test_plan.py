import io
import json
import re
from dataclasses import asdict
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from shaberi_dagster.reports.operations import plan_result
from shaberi_dagster.reports.write import write
from shaberi_dagster.runs.forecast import Forecast

pytestmark = pytest.mark.unit

JAPANESE = "株式会社例/日本語大規模言語モデル-70B-指示調整済み"
HOSTILE = "[bold]\x1b[31m\u202e"
WIDE = 200


def estimate(**fields: Any) -> Forecast:
    usual = {
        "run_id": "org__model@@default",
        "benchmark": "elyza",
        "question_set": "elyza@100",
        "source": "starter",
        "stage": "answers",
        "model": "org/model",
        "rows_planned": 100,
        "rows_there": 20,
        "calls": 80,
        "fallback_calls": 0.0,
        "prompt_tokens": 12_345,
        "completion_tokens": 678_901,
        "cost_usd": 1.5,
        "basis": "history: 1,280 calls, other benchmarks",
        "upper_bound": False,
    }
    return Forecast(**{"calls_most": (usual | fields)["calls"]} | usual | fields)


def judgement(**fields: Any) -> Forecast:
    return estimate(**{"stage": "judgements", "model": "gpt-5.1", "fallback_calls": 3.2} | fields)


BOUND = {"basis": "template (upper bound)", "upper_bound": True, "fallback_calls": None}


def printed(*estimates: Forecast, width: int = WIDE, as_json: bool = False) -> str:
    file = io.StringIO()
    write(plan_result(estimates), "json" if as_json else "table", Console(file=file, width=width))
    return file.getvalue()


def cells(text: str, *names: str) -> list[str]:
    """The cells of the line that begins with these names, after them."""
    lines = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    (line,) = (line for line in lines if line[: len(names)] == list(names))
    return line[len(names) :]


def test_an_unknown_cost_is_said_and_not_added_as_nothing():
    text = printed(judgement(cost_usd=None))
    assert cells(text, "all")[4] == "unknown"
    assert "no list price" in text

    partly = printed(judgement(cost_usd=None), judgement(model="gpt-4.1"))
    assert cells(partly, "all")[4] == "1.5000 +"
    assert "no list price" not in printed(judgement())


@pytest.mark.parametrize(
    ("estimates", "basis", "said", "not_said"),
    [
        ([judgement()], "history", "What is paid for and retries", "Without history"),
        ([judgement(**BOUND)], "template (upper bound)", "not counted without history", "nothing"),
        ([judgement(), judgement(**BOUND)], "history + template (upper bound)", "Without history", "nothing"),
        ([judgement(calls=0, fallback_calls=0.0, basis="no call")], "no call", "What is paid for", "Fallback calls ("),
    ],
    ids=["measured", "bound", "both", "nothing to do"],
)
def test_the_notes_and_the_totals_say_what_is_measured_and_what_is_an_upper_bound(
    estimates: list[Forecast], basis: str, said: str, not_said: str
):
    text = printed(*estimates, width=1000)
    assert cells(text, "all")[-1] == basis
    assert said in text
    assert not_said not in text


@pytest.mark.parametrize("width", [80, 120, WIDE])
def test_columns_are_aligned_under_japanese_names_and_no_number_is_cut(width: int):
    text = printed(judgement(model=JAPANESE), judgement(), width=width)
    numbers = [line for line in text.splitlines() if "678,901" in line]
    ends = {cell_len(line[: line.index("678,901") + len("678,901")]) for line in numbers}
    assert len(numbers) == 2
    assert len(ends) == 1
    assert text.count("20/100") == 2
    assert text.count("1.5000") == 2
    table = text[: text.index("What is paid for")]
    assert max(map(cell_len, table.splitlines())) <= max(width, 88)
    assert JAPANESE in text or width < WIDE


def test_names_are_shown_as_they_are_and_cannot_steer_the_terminal():
    text = printed(judgement(model=HOSTILE, run_id=HOSTILE))
    assert "[bold]␛[31m‹U+202E›" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert json.loads(printed(judgement(model=HOSTILE), as_json=True))["rows"][0]["model"] == HOSTILE
    assert "\u202e" not in printed(judgement(model=HOSTILE), as_json=True)


def test_json_is_the_same_plan_with_null_for_unknown():
    estimates = [estimate(), judgement(cost_usd=None, **BOUND)]
    document = json.loads(printed(*estimates, as_json=True))

    assert document["rows"] == [asdict(one) for one in estimates]
    assert [total["stage"] for total in document["totals"]] == ["answers", "judgements", "all"]
    assert document["totals"][-1] == {
        "stage": "all",
        "rows_planned": 200,
        "rows_there": 40,
        "calls": 160,
        "calls_most": 160,
        "fallback_calls": None,
        "prompt_tokens": 24_690,
        "completion_tokens": 1_357_802,
        "cost_usd": None,
        "upper_bound": True,
    }
    assert all(note in printed(*estimates, width=1000) for note in document["notes"])


@pytest.mark.parametrize("form", ["table", "json", "csv", "md"])
def test_a_command_that_has_nothing_to_make_has_a_plan_of_no_calls(form):
    out = io.StringIO()
    write(plan_result([]), form, Console(file=out, width=80))
    assert "NaN" not in out.getvalue()
