import json
import shutil

import polars as pl
import pytest

from shaberi_dagster.cli.shaberi import app
from shaberi_dagster.deciding.promotion import promote
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.reports.gate import check_regression
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError
from tests import invoked
from tests.commands import lake_of
from tests.judged_ensembles import judged_ensemble

pytestmark = pytest.mark.integration

VERDICTS = {"gsm8k": {"single": [True] * 6 + [False] * 4, "elo": [True] * 8 + [False] * 2}}


def invoke(*arguments):
    """What the command prints; what it raises is raised."""
    return invoked.invoke(app, ["baseline", *arguments]).stdout


def judged(folder, *runs):
    """The runs with these models and tags, and the lake that has them."""
    own = Workspace(Settings.from_environment(lake_of(folder)), environment={})
    return [judged_ensemble(own, VERDICTS, model=model, tag=tag) for model, tag in runs], own.settings.warehouse


@pytest.fixture(scope="module")
def one_run(tmp_path_factory):
    return judged(tmp_path_factory.mktemp("one"), ("org/モデル", "july"))


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    return judged(tmp_path_factory.mktemp("two"), ("m", "july"), ("m", "june"))


@pytest.fixture
def run(one_run, workspace):
    """A run, which this test's lake has."""
    (spec,), lake = one_run
    shutil.copytree(lake, workspace.settings.warehouse)
    return spec


def test_a_pooled_baseline_is_one_that_the_gate_compares_sums_with(workspace, run, tmp_path):
    sums = {"single": {"correct": 9, "total": 10}, "ensemble": {"elo": {"correct": 10, "total": 10}}}
    for name, datasets in (("quick-eval", ["gsm8k"]), ("more", ["gsm8k", "arc"])):
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps({"model": "google:small", "datasets": datasets, **sums}), encoding="utf-8")
        assert "10 questions, 2 strategies" in invoke("import", str(file))
    with open_catalog(workspace.settings.warehouse) as catalog:
        report, more = (check_regression(catalog, run.run_id, name) for name in ("quick-eval", "more"))
    tallies = {test.tally.strategy: (test.tally.baseline_correct, test.tally.current_correct) for test in report.tests}
    assert (report.gate, tallies) == ("fisher", {"single": (9, 6), "elo": (10, 8)})
    assert [round(test.p_value, 4) for test in report.tests] == [0.1517, 0.2368]
    assert more.result == "inconclusive"
    assert more.doubts[0] == "the baseline has only sums, over 2 datasets, and this run lacks arc"
    with pytest.raises(ConfigurationError, match="exists and is never changed"):
        invoke("import", str(file))
    file.write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="is no pooled baseline"):
        invoke("import", str(file), "--name", "other")


@pytest.mark.parametrize(
    "named",
    [
        ["org/モデル@@july"],
        ["org__%E3%83%A2%E3%83%87%E3%83%AB@@july"],
        ["--model", "org/モデル"],
        ["--model", "org/モデル", "--tag", "july"],
    ],
)
def test_a_run_is_promoted_by_any_of_its_names(workspace, run, named):
    said = invoke("promote", "main", *named, "--note", "before")

    assert said == f"baseline main: {run.run_id}, 1 dataset, 10 questions, 2 strategies with single\n"
    rows = workspace.lake.read("baselines")
    assert rows.select("name", "run_id", "note").unique().rows() == [("main", run.run_id, "before")]
    assert rows.group_by("strategy").agg(pl.col("correct").sum()).sort("strategy").rows() == [("elo", 8), ("single", 6)]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "name the run: MODEL@@TAG, or --model MODEL --tag TAG"),
        (["m@@july", "--model", "m"], "name the run"),
        (["m@@july", "--tag", "july"], "--tag goes with --model"),
        (["july"], "'july' is no run: name it as MODEL@@TAG"),
        (["m@@august"], "no run 'm@@august'; the lake has m@@july and m@@june"),
        (["--model", "x"], "no model 'x'; the lake has m"),
        (["--model", "m"], "m has several runs: give --tag, one of july, june"),
    ],
)
def test_a_run_that_is_not_clear_is_refused_in_one_line(two_runs, monkeypatch, arguments, complaint):
    _, lake = two_runs
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(lake))
    with pytest.raises(ConfigurationError, match=f"^{complaint}") as refused:
        invoke("promote", "main", *arguments)
    assert "\n" not in str(refused.value)
    assert Lake(lake).read("baselines").is_empty()


def test_baselines_are_listed_with_what_they_got_right(workspace, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    promote(workspace.lake, run.run_id, "main", "a \x1b[31mred\u202e note")
    promote(workspace.lake, run.run_id, "other")

    shown = invoke("list")
    assert "main   org__%E3%83%A2%E3%83%87%E3%83%AB@@july  gsm8k            10  single 60.0%, elo 80.0%" in shown
    assert "a ␛[31mred‹U+202E› note" in shown
    document = invoke("list", "--json")
    assert "\u202e" not in document
    first, second = json.loads(document)
    assert (first["name"], second["name"], second["note"]) == ("main", "other", None)
    assert first["accuracy"] == {"single": 0.6, "elo": 0.8}
    assert first["note"] == "a \x1b[31mred\u202e note"
    assert (first["datasets"], first["n_questions"], first["model"]) == (["gsm8k"], 10, "org/モデル")
