"""`shaberi import-legacy` as a user meets it."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from shaberi_dagster.lake.store import Lake
from shaberi_dagster.lake.writer import RowWriter
from tests.commands import Finished, lake_of, run, run_anew
from tests.exchange.trees.trees import LegacyTree, lines_of, rows_of

pytestmark = [pytest.mark.e2e, pytest.mark.long]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> LegacyTree:
    made = LegacyTree(tmp_path_factory.mktemp("trees") / "shisa")
    made.answers("rakuda", rows_of("rakuda", ["一", "二", "三", "四", "五"]))
    made.judgements("rakuda", rows_of("rakuda", ["一", "二", "三", "四", "五"], [7, 8, None, {"score": 4}, 9]), "a")
    made.answers("elyza", rows_of("elyza", ["一"]), model="second")
    return made


def shaberi(folder: Path, *arguments: str | Path) -> Finished:
    return run("shaberi", *arguments, environment=lake_of(folder))


@pytest.fixture(scope="module")
def first_import(tree: LegacyTree, tmp_path_factory: pytest.TempPathFactory) -> tuple[Finished, Path]:
    """What importing the tree said, and the folder with its lake. No test may change it."""
    folder = tmp_path_factory.mktemp("first")
    return shaberi(folder, "import-legacy", tree.root).succeeded(), folder


@pytest.fixture
def imported(first_import: tuple[Finished, Path], tmp_path: Path) -> Path:
    """A copy that the test may change."""
    return shutil.copytree(first_import[1], tmp_path / "copy")


def test_a_tree_is_imported_shown_and_not_imported_twice(
    tree: LegacyTree, first_import: tuple[Finished, Path], imported: Path
) -> None:
    first, _ = first_import
    assert "11 lines: 11 imported, 0 repeated, 0 blank, 0 quarantined; all sums agree." in first.out
    assert "2 models: 0 already there, 2 to read" in first.err

    # The installed script, as what libraries say at the end of a process is no part of what it prints.
    again = run_anew("shaberi", "import-legacy", tree.root, "--json", environment=lake_of(imported)).succeeded()
    assert "2 already there, 0 to read" in again.err
    document = json.loads(again.out)
    assert {row["source"] for row in document["files"]} == {"shisa"}
    assert document["cells"][0]["rows"] == 5
    assert (document["quarantine"], document["discrepancies"]) == ([], [])

    scores = run("view-scores", "--tag", "legacy", "--format", "json", environment=lake_of(imported)).succeeded()
    (row,) = json.loads(scores.out)["rows"]
    assert (row["model"], row["judge"], row["score"], row["n_scored"]) == ("org__model", "a", 8.0, 3)
    arguments = ("--object-scores", "recovered", "--format", "json")
    recovered = run("view-scores", *arguments, environment=lake_of(imported)).succeeded()
    assert json.loads(recovered.out)["rows"][0]["score"] == 7.0


def test_where_there_are_many_small_files_compaction_is_suggested_until_it_was_done(
    tree: LegacyTree, tmp_path: Path
) -> None:
    run_of = {"model": "m", "run_tag": "t", "benchmark": "tengu", "question_id": "q", "sample_index": 0, "status": "ok"}
    for table, pipeline in (("judgements", {}), ("scores", {"pipeline": "baseline"})):
        for run_id in ("a@@t", "b@@t"):
            with RowWriter(Lake(tmp_path / "warehouse"), table) as rows:
                for judge in range(50):
                    row = run_of | pipeline | {"run_id": run_id, "judge": f"judge-{judge}"}
                    rows.add(row | {"created_at": datetime.now(UTC)})
                rows.commit()
    suggestion = "the lake has 100 files more than it needs: `shaberi compact` puts them together"

    assert suggestion in shaberi(tmp_path, "import-legacy", tree.root).succeeded().err
    assert "scores: 101 files -> 51" in shaberi(tmp_path, "compact").succeeded().out
    assert "shaberi compact" not in shaberi(tmp_path, "import-legacy", tree.root).succeeded().err


def test_lines_that_cannot_be_read_are_counted_and_exit_with_3(tmp_path: Path) -> None:
    tree = LegacyTree(tmp_path / "tree")
    tree.answers("rakuda", lines_of(rows_of("rakuda", ["一"])) + b"\x1b[31m{\n")

    finished = shaberi(tmp_path, "import-legacy", tree.root)

    assert finished.code == 3, finished.err
    assert "1 imported, 0 repeated, 0 blank, 1 quarantined" in finished.out
    assert "is not JSON" in finished.out
    sql = "select source_line, raw from lake.legacy_quarantine"
    assert json.loads(shaberi(tmp_path, "sql", sql, "--format", "json").succeeded().out) == [
        {"source_line": 2, "raw": "\x1b[31m{"}
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a legacy tree (FOLDER or NAME=FOLDER), or give --report for earlier imports"),
        (["gone"], "trees: no folder 'gone': name an existing one, as FOLDER or NAME=FOLDER"),
    ],
)
def test_a_command_without_a_tree_is_refused_in_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    assert shaberi(tmp_path, "import-legacy", *arguments).complaint == message
