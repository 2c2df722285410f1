"""The upgrade to format 5: scores tell the call that they rest on, when it was judged, and if they are out of scale."""

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from perf.history import Size, write_history
from shaberi_dagster.exchange.installation import Installation
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.lake.formats import FORMAT, stored_format
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.workspace import Workspace
from tests.example_runs import ask, materialized, own_engine, stored_run, without_results
from tests.exchange.trees.trees import LegacyTree, rows_of
from tests.mock_endpoint import MockEndpoint
from tests.older_lakes import as_format_4
from tests.sizes import size

pytestmark = pytest.mark.integration

_ROOT = Path(__file__).parents[2]
_MODELS = size(12, 552)  # 484,588 judgements and some more
_KILLS = size(4, 20)
_SECONDS = 60
_UPGRADE = """
from shaberi_dagster.settings import Settings
from shaberi_dagster.exchange.installation import Installation
Installation(Settings.from_environment(), environment={}).lake.widen("runs")
"""


def _scores(lake: Lake) -> pl.DataFrame:
    rows = Lake(lake.folder).read("scores").drop("created_at", "deltas")
    return rows.sort("run_id", "benchmark", "judge", "question_id", "sample_index")


def _upgraded(workspace: Workspace) -> Lake:
    Installation(workspace.settings, environment={}).lake.widen("runs")
    assert stored_format(workspace.settings.warehouse) == FORMAT
    return Lake(workspace.settings.warehouse)


def test_scores_of_a_run_get_the_calls_that_they_rest_on(workspace: Workspace, mock: MockEndpoint) -> None:
    with own_engine({}), without_results():
        spec = stored_run(workspace, ask(mock))
        materialized(spec, workspace)
        before = _scores(workspace.lake)
        assert before["call_hash"].null_count() == 0
        as_format_4(workspace.lake)
        assert _scores(workspace.lake)["call_hash"].null_count() == before.height
        after = _scores(_upgraded(workspace))
    assert after.equals(before)


def test_metrics_of_imported_runs_leave_scores_outside_of_the_scale_out(tree: LegacyTree, workspace: Workspace) -> None:
    tree.answers("rakuda", rows_of("rakuda", ["一", "二"]))
    tree.judgements("rakuda", rows_of("rakuda", ["一", "二"], [5, 11]))
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    scores, metrics = _scores(workspace.lake), workspace.lake.read("metrics").sort("null_policy")
    formerly = metrics.with_columns(score=pl.lit(8.0), n_scored=pl.lit(2), n_failed=pl.lit(0))
    workspace.lake.replace("metrics", formerly, {"null_policy": ["legacy", "zero", "strict"]})
    as_format_4(workspace.lake)
    lake = _upgraded(workspace)
    assert _scores(lake).equals(scores)
    made = ["created_at"]
    assert lake.read("metrics").sort("null_policy").drop(made).equals(metrics.drop(made))
    columns = ("null_policy", "score", "n_scored", "n_out_of_scale")
    assert metrics.select(columns).rows() == [("legacy", 8.0, 2, 1), ("strict", None, 1, 1), ("zero", 3.0, 1, 1)]


@pytest.fixture
def tree(tmp_path: Path) -> LegacyTree:
    return LegacyTree(tmp_path / "tree")


def _as_imported(folder: Path) -> None:
    """Let all runs of a lake be of a tree."""
    lake = Lake(folder)
    runs = lake.read("runs").with_columns(source=pl.lit("tree"), import_tag=pl.lit("legacy"))
    lake.replace("runs", runs, {"run_id": runs["run_id"].to_list()})


def _figures(folder: Path) -> list[tuple[object, ...]]:
    with open_catalog(folder) as catalog:
        return [
            *catalog.execute("from leaderboard order by all").fetchall(),
            *catalog.execute(
                "select * replace (round(difficulty, 9) as difficulty, round(sd, 9) as sd, "
                "round(discrimination, 9) as discrimination) from question_statistics order by all"
            ).fetchall(),
        ]


@pytest.mark.long
@pytest.mark.acceptance
@pytest.mark.timeout(size(300, 1800))
def test_an_upgrade_that_is_killed_again_and_again_goes_on_and_changes_no_figure(workspace: Workspace) -> None:
    folder = workspace.settings.warehouse
    write_history(folder, Size(_MODELS, seed=1))
    _as_imported(folder)
    as_format_4(Lake(folder))
    figures = _figures(folder)
    environment = os.environ | {"SHABERI_WAREHOUSE": str(folder)}
    command = [sys.executable, "-c", _UPGRADE]
    whole, former = folder.with_name("whole"), folder.with_name("former")
    for copy in (whole, former):
        shutil.copytree(folder, copy)
    started = time.monotonic()
    subprocess.run(command, cwd=_ROOT, env=environment | {"SHABERI_WAREHOUSE": str(whole)}, check=True)
    seconds = time.monotonic() - started
    n_judgements = Lake(whole).read("judgements", columns=["judge"]).height
    assert seconds <= _SECONDS, f"{n_judgements:,} judgements"
    moments = random.Random(1)
    n_killed = 0
    while n_killed < _KILLS:
        process = subprocess.Popen(command, cwd=_ROOT, env=environment)
        try:
            assert process.wait(moments.uniform(0, seconds / 2)) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            n_killed += 1
        else:  # it had come to its end: the next one begins anew
            shutil.rmtree(folder)
            shutil.copytree(former, folder)
    subprocess.run(command, cwd=_ROOT, env=environment, check=True)
    assert stored_format(folder) == FORMAT
    scores = _scores(Lake(folder))
    assert scores.equals(_scores(Lake(whole)))
    assert scores["judged_at"].null_count() == 0
    assert _figures(folder) == figures
    assert Lake(folder).read("calls").is_empty(), "nothing is paid"
