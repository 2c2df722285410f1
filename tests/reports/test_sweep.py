"""A sweep: a run for each value of a setting, and the cheapest that is not shown to be worse."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from shaberi_dagster.reports.declared.sweep import sweep_result
from shaberi_dagster.runs.spec import RunRequest
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError
from tests.commands import run, run_without_dagster
from tests.mock_endpoint import completion, running_mock
from tests.viewer.site import served

pytestmark = pytest.mark.integration

_SCORES = {"low": 3, "medium": 8, "high": 8}
_TOKENS = {"low": 10, "medium": 20, "high": 40}


def _thinks(body: dict[str, Any], _: int) -> Any:
    text = body["messages"][-1]["content"]
    if "FINAL SCORE" not in text:
        effort = body["reasoning_effort"]
        usage = {"prompt_tokens": 5, "completion_tokens": _TOKENS[effort]}
        return completion(body, f"答え effort {effort}") | {"usage": usage}
    effort = (re.search(r"effort (\w+)", text) or [""])[1]
    return f"よい。\nFINAL SCORE: {_SCORES[effort] - (len(text) % 2)}"


@pytest.mark.long
def test_each_value_is_a_run_and_the_cheapest_good_one_is_named() -> None:
    with running_mock(script=_thinks) as mock:
        place = ("--base-url", mock.base_url, "--judge-base-url", mock.base_url, "--judge-model", "j")
        command = ("run-evals", "--model", "m", *place, "--benchmark", "rakuda,tengu", "--tag", "t")
        swept = run(*command, "--sweep", "reasoning_effort=low,medium,high")
        asked = mock.stats()["requests"]
        again = run_without_dagster(*command, "--sweep", "reasoning_effort=low,medium,high", "--json")
        assert mock.stats()["requests"] == asked

    assert "Cheapest setting that is not shown to be worse than the best: t-medium (200 completion tokens" in " ".join(
        swept.out.split()
    )
    (ranking,) = json.loads(again.out)["rankings"]
    assert {row["tag"]: row["completion_tokens"] for row in ranking["settings"]} == {
        "t-low": 100,
        "t-medium": 200,
        "t-high": 400,
    }
    assert ranking["cheapest"]["tag"] == "t-medium"
    against = {row["tag"]: row["against_best"] for row in ranking["settings"]}
    assert against["t-low"] == "below"
    assert {against["t-medium"], against["t-high"]} == {"best", "tied"}
    assert "shaberi view '/sweep?model=m'" in swept.err
    rows = list(csv.DictReader(io.StringIO(run("shaberi", "sweep", "--model", "m", "--format", "csv").out)))
    assert min((row["tag"], row["completion_tokens"]) for row in rows) == ("t-high", "400")


@pytest.mark.long
def test_its_page_and_a_file_to_send_draw_score_against_cost(tmp_path: Path) -> None:
    with running_mock(script=_thinks) as mock:
        place = ("--base-url", mock.base_url, "--judge-base-url", mock.base_url, "--judge-model", "j")
        run_without_dagster(
            "run-evals", "--model", "m", *place, "--benchmark", "rakuda", "--sweep", "reasoning_effort=low,high"
        )
    file = tmp_path / "report.html"
    run("shaberi", "report", "--html", file, "--tag", "default-low", "--tag", "default-high").succeeded()
    with served(Settings.from_environment().warehouse) as site:
        page, single = site.get("/sweep?model=m").text, site.get("/sweep?tag=default-low").text

    for text in (page, file.read_text(encoding="utf-8")):
        (label,) = re.findall(r'<svg class="curve"[^>]*aria-label="(score against [^"]*)"', text)
        assert re.fullmatch(r"score against completion tokens: default-high \S+ for 200, default-low \S+ for 50", label)
        points = dict(re.findall(r"<title>(default-\w+): .*?</title>.*?<circle cx=\"([\d.]+)\"", text))
        assert points == {"default-high": "520.0", "default-low": "160.0"}
    assert "score against" not in single


def test_combinations_have_tags_of_their_own_and_other_names_are_parameters() -> None:
    request = RunRequest(model="m", tag="t", parameters=["min_p=0.1"])

    swept = request.swept(["model=a,b", "top_k=5,10", "temperature=0,0.5"])

    assert [(one.model, one.tag, one.temperature, one.parameters) for one in swept][:2] == [
        ("a", "t-5-0", 0.0, ["min_p=0.1", "top_k=5"]),
        ("a", "t-5-0.5", 0.5, ["min_p=0.1", "top_k=5"]),
    ]
    assert len({(one.model, one.tag) for one in swept}) == 8


@pytest.mark.parametrize("sweep", ["reasoning_effort", "reasoning_effort=", "=low", "reasoning_effort=low,low"])
def test_what_is_no_sweep_says_how_one_is_written(sweep: str) -> None:
    with pytest.raises(ConfigurationError, match="write it as NAME=VALUE,VALUE"):
        RunRequest(model="m").swept([sweep])


def test_without_scores_there_is_nothing_to_name() -> None:
    assert sweep_result([]).data() == {"rankings": []}


def test_what_is_swept_wins_over_settings_of_some_benchmarks() -> None:
    request = RunRequest(model="m", settings=[{"benchmarks": ["elyza"], "temperature": 0.7}])

    assert [asked.settings[-1].temperature for asked in request.swept(["temperature=0,0.5"])] == [0, 0.5]
