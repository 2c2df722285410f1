"""Passes and reprocessing as a user meets them."""

import json
from pathlib import Path

import pytest

from tests.commands import lake_of, run, run_without_dagster
from tests.e2e.conftest import MODEL, Evaluated, target
from tests.exchange.trees.trees import LegacyTree, rows_of
from tests.mock_endpoint import MockEndpoint, running_mock

pytestmark = [pytest.mark.e2e, pytest.mark.long]

_LOWER = ("--passes", "lang_mixing,repetition", "--pass-option", "lang_mixing.minimum_severity=0.5")
_BASELINE = "select * exclude (created_at) from lake.scores where pipeline = 'baseline' order by all"
_PIPELINES = "select distinct pipeline from lake.metrics order by 1"


def _pipelines(evaluated: Evaluated) -> list[str]:
    return [row["pipeline"] for row in evaluated.rows(_PIPELINES)]


def test_passes_are_applied_to_stored_runs_beside_the_scores_that_were_there(evaluated: Evaluated) -> None:
    before = evaluated.rows(_BASELINE)
    assert len(before) == 42
    finished = evaluated.shaberi("reprocess", "--tag", "default", "--model", MODEL, *_LOWER).succeeded()
    assert "1 runs made again, 0 of them imported; no call was made" in finished.err
    assert evaluated.asked == []
    assert evaluated.rows(_BASELINE) == before
    assert _pipelines(evaluated) == ["baseline", "lang_mixing", "lang_mixing,repetition"]
    for pipeline in ("lang_mixing", "lang_mixing,repetition", "baseline"):
        shown = json.loads(evaluated.view_scores("--passes", pipeline, "--format", "json").succeeded().out)
        assert shown, pipeline


def test_stored_outputs_are_read_again_without_asking_anybody(evaluated: Evaluated) -> None:
    finished = evaluated.run_evals("--reprocess", *_LOWER, in_dagster=True).succeeded()
    assert evaluated.asked == []
    assert "0 of 42 stored outputs give another score than before" in finished.err
    assert _pipelines(evaluated) == ["baseline", "lang_mixing", "lang_mixing,repetition"]
    (counts,) = evaluated.rows("select count(*) as rows, count(*) filter (superseded) as old from lake.judgements")
    assert counts == {"rows": 42, "old": 0}


def test_reprocessing_needs_no_server(tmp_path: Path) -> None:
    with running_mock() as mock:
        first = (*target(mock, ("judge-a",)), "--benchmark", "rakuda", "--limit", "2")
        run_without_dagster("run-evals", *first, environment=lake_of(tmp_path)).succeeded()
    run_without_dagster("run-evals", *first, "--reprocess", *_LOWER, environment=lake_of(tmp_path)).succeeded()
    run("shaberi", "reprocess", environment=lake_of(tmp_path)).succeeded()


def test_an_imported_history_takes_passes(tmp_path: Path) -> None:
    tree = LegacyTree(tmp_path / "tree")
    leak = "日本の首都は東京です。东京には大学や博物館も多くあります。"
    tree.answers("rakuda", rows_of("rakuda", [leak]))
    tree.judgements("rakuda", rows_of("rakuda", [leak], [8]), "a")
    place = lake_of(tmp_path)
    run_without_dagster("shaberi", "import-legacy", f"tree={tree.root}", environment=place).succeeded()
    finished = run("shaberi", "reprocess", "--tag", "legacy", *_LOWER, environment=place).succeeded()
    assert "1 runs made again, 1 of them imported; no call was made" in finished.err
    sql = "select pipeline, score from lake.metrics where null_policy = 'strict' order by 1"
    shown = run("shaberi", "sql", sql, "--format", "json", environment=place).succeeded()
    assert [(row["pipeline"], row["score"]) for row in json.loads(shown.out)] == [
        ("baseline", 8.0),
        ("lang_mixing", 3.5),
        ("lang_mixing,repetition", 3.5),
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--passes", "lang_mixing", "--pass-option", "lang_mixing.nothing=1"), "pass lang_mixing: nothing"),
        (("--pass-option", "lang_mixing.minimum_severity=1"), "pass option"),
        (("--tag", "defualt"), "no tag 'defualt'; did you mean default?"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    arguments: tuple[str, ...], complaint: str, evaluated: Evaluated
) -> None:
    assert complaint in evaluated.shaberi("reprocess", *arguments).complaint


def test_rejudging_and_reprocessing_exclude_each_other(tmp_path: Path, mock: MockEndpoint) -> None:
    finished = run("run-evals", *target(mock), "--rejudge", "--reprocess", environment=lake_of(tmp_path))
    assert "leave one out" in finished.complaint
