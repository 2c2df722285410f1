import fcntl
import shutil
from pathlib import Path

import orjson
import polars as pl
import pytest

from shaberi_dagster.exchange.trees import importing, reading
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees, named_trees, reconcile_lake
from shaberi_dagster.lake.catalog import open_catalog, run_query
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError, PartitionBusyError, ShaberiError
from shaberi_dagster.util.progress import LogReporter
from tests.commands import lake_of
from tests.exchange.trees.trees import LegacyTree, rows_of

pytestmark = pytest.mark.integration

RUN_ROWS = ("answers", "judgements", "scores", "metrics", "legacy_repeats", "runs")
ROWS = ("answers", "judgements", "scores", "metrics", "legacy_quarantine", "legacy_repeats")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with a tree of two models, two judges, and everything that can be odd about a row, and with its lake."""
    folder = tmp_path_factory.mktemp("made")
    tree = LegacyTree(folder / "tree")
    tree.answers("rakuda", rows_of("rakuda", ["一", "", None, "四", "五"]))
    tree.judgements("rakuda", rows_of("rakuda", ["一", "", "", "四", "五"], [7, 2, None, {"score": 9}, 11]), "a")
    tree.judgements("rakuda", rows_of("rakuda", ["一", "", "", "四", "五"], [6, 1, 1, 8, 10]), "b")
    tree.answers("elyza", rows_of("elyza", ["一", "二"]), model="second")
    tree.judgements("elyza", rows_of("elyza", ["一", "二"], [4, 5]), "a", model="second")
    tree.judgements("elyza", rows_of("elyza", ["other", "二"], [1, 2]), "b", model="second")
    run(Workspace(Settings.from_environment(lake_of(folder)), environment={}), tree)
    return folder


@pytest.fixture
def full(made, tmp_path) -> LegacyTree:
    """The tree."""
    return LegacyTree(shutil.copytree(made / "tree", tmp_path / "tree"))


@pytest.fixture
def imported(made, full, workspace) -> LegacyTree:
    """The tree, which is imported into this test's lake."""
    shutil.copytree(made / "warehouse", workspace.settings.warehouse)
    return full


@pytest.fixture
def reports(workspace):
    """What was said."""
    lines: list[str] = []
    workspace.default_reporter = LogReporter(lines.append)
    return lines


def run(workspace, tree, **values):
    trees = values.pop("trees", None) or {"tree": tree.root}
    return import_trees(ImportRequest(trees, **values), workspace)


def elsewhere(tmp_path) -> Workspace:
    """Another lake."""
    return Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": str(tmp_path / "elsewhere")}), environment={})


def contents(lake: Lake) -> dict[str, pl.DataFrame]:
    """What the tables say, without times, where trees were, and the last digits of floats (of the order of sums)."""
    frames = {name: lake.read(name) for name in (*ROWS, "runs", "questions", "legacy_files")}
    left_out = ["created_at", "updated_at", "imported_at", "judged_at", "root"]
    return {
        name: frame.drop(left_out, strict=False).with_columns(pl.col(pl.Float64).round(9))
        for name, frame in frames.items()
    }


def assert_same(one: dict[str, pl.DataFrame], other: dict[str, pl.DataFrame]) -> None:
    for name, frame in one.items():
        assert frame.hash_rows().sort().equals(other[name].hash_rows().sort()), name


def test_a_tree_becomes_runs_with_scores_and_metrics(workspace, full):
    result = run(workspace, full)
    assert (result.models_read, result.models_there) == (2, 0)
    assert set(workspace.lake.read("legacy_files")["root"]) == {str(full.root)}
    runs = workspace.lake.read("runs").sort("run_id")
    assert runs.select("run_id", "status").rows() == [
        ("org%5F%5Fmodel@@legacy-tree", "partial"),
        ("second@@legacy-tree", "complete"),
        ("second@@legacy-tree-gen2", "complete"),
    ]
    metrics = workspace.lake.read("metrics").filter(null_policy="legacy").sort("run_id", "judge")
    columns = ("run_id", "benchmark", "judge", "score", "n_planned", "n_scored", "n_failed")
    assert metrics.select(columns).rows() == [
        ("org%5F%5Fmodel@@legacy-tree", "rakuda", "a", pytest.approx(20 / 3), 5, 3, 2),
        ("org%5F%5Fmodel@@legacy-tree", "rakuda", "b", pytest.approx(26 / 5), 5, 5, 0),
        ("second@@legacy-tree", "elyza", "a", 9.0, 2, 2, 0),
        ("second@@legacy-tree-gen2", "elyza", "b", 3.0, 2, 2, 0),
    ]


def test_sums_agree_and_come_from_the_lake(workspace, full):
    result = run(workspace, full)
    assert result.reconciliation.discrepancies() == []
    assert reconcile_lake(Lake(workspace.settings.warehouse)).outcomes.equals(result.reconciliation.outcomes)
    lake = workspace.lake
    lake.replace("judgements", lake.read("judgements").head(-1), {"run_id": lake.read("runs")["run_id"].to_list()})
    assert reconcile_lake(lake).discrepancies() == ["judgements: 14 by file, 13 by row"]


def test_a_tree_imported_by_parts_is_the_tree_imported_at_once(workspace, full, made):
    run(workspace, full, models="second")
    assert set(workspace.lake.read("answers")["model"]) == {"second"}
    assert run(workspace, full, models="[!s]*").models_read == 1
    assert_same(contents(workspace.lake), contents(Lake(made / "warehouse")))


@pytest.mark.long
def test_an_import_that_was_stopped_goes_on_and_doubles_nothing(workspace, full, monkeypatch, tmp_path):
    """Stopped just before each of the commits of a step."""
    full.answers("tengu", b"{\n", model="second")
    run(workspace, full)
    whole = contents(workspace.lake)

    def stopping(write, table):
        def stopped(lake, name, *arguments, **options):
            if name == table:
                raise KeyboardInterrupt
            return write(lake, name, *arguments, **options)

        return stopped

    for table in ("answers", "judgements", "scores", "metrics", "legacy_quarantine", "legacy_files"):
        stopped = elsewhere(tmp_path / table)
        with monkeypatch.context() as patch:
            for method in ("append", "replace"):
                patch.setattr(Lake, method, stopping(getattr(Lake, method), table))
            with pytest.raises(KeyboardInterrupt):
                run(stopped, full)
        assert run(stopped, full).models_read == 2, table
        assert_same(contents(stopped.lake), whole)


@pytest.fixture
def one_model_a_step(monkeypatch):
    monkeypatch.setattr(importing, "_COMMIT_BYTES", 1)
    monkeypatch.setattr(reading, "_PART_BYTES", 1)


@pytest.mark.usefixtures("one_model_a_step")
def test_a_step_that_cannot_be_written_ends_the_import_and_those_before_stand(workspace, full, monkeypatch, made):
    replaced = Lake.replace

    def full_disk(lake, name, frame, keys):
        if name == "legacy_files" and set(frame["model"]) == {"org__model", "second"}:
            raise ShaberiError("the disk is full")
        replaced(lake, name, frame, keys)

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "replace", full_disk)
        with pytest.raises(ShaberiError, match="the disk is full"):
            run(workspace, full)
    assert set(workspace.lake.read("legacy_files")["model"]) == {"org__model"}
    assert run(workspace, full).models_read == 1
    assert_same(contents(workspace.lake), contents(Lake(made / "warehouse")))


@pytest.mark.usefixtures("imported")
def test_bytes_that_two_trees_share_are_read_once_and_are_a_run_of_each(workspace, tmp_path):
    other = LegacyTree(tmp_path / "other")
    other.answers("elyza", rows_of("elyza", ["一", "二"]), model="second")
    before = contents(workspace.lake)
    result = run(workspace, None, trees={"other": other.root})
    assert (result.models_read, result.bytes_read) == (1, 0)
    after = contents(workspace.lake)
    of_before = pl.col("run_id").is_in(before["runs"]["run_id"].implode())
    assert_same({name: before[name] for name in RUN_ROWS}, {name: after[name].filter(of_before) for name in RUN_ROWS})
    assert after["runs"].filter(~of_before).select("run_id", "source").rows() == [("second@@legacy-other", "other")]
    assert after["answers"].filter(~of_before)["answer"].to_list() == ["一", "二"]
    assert reconcile_lake(workspace.lake).discrepancies() == []


def test_a_second_tree_adds_to_the_first_as_if_both_had_been_named(workspace, imported, tmp_path):
    other = LegacyTree(tmp_path / "other")
    other.answers("rakuda", rows_of("rakuda", ["older"]))
    other.judgements("rakuda", rows_of("rakuda", ["一", "", "", "四", "五"], [7, 3, None, {"score": 9}, 11]), "a")
    other.answers("elyza", rows_of("elyza", ["一", "二"]), model="second")
    run(workspace, None, trees={"other": other.root})
    both = elsewhere(tmp_path)
    run(both, None, trees={"tree": imported.root, "other": other.root})
    assert_same(contents(workspace.lake), contents(both.lake))
    assert reconcile_lake(workspace.lake).discrepancies() == []


def test_the_numbers_of_a_tree_do_not_depend_on_the_order_of_trees(workspace, full, tmp_path):
    other = LegacyTree(tmp_path / "other")
    other.answers("rakuda", rows_of("rakuda", ["older"]))
    other.judgements("rakuda", rows_of("rakuda", ["一", "", "", "四", "五"], [3, 3, 3, 3, 3]), "a")
    trees = {"tree": full.root, "other": other.root}
    numbers = []
    for place, names in ((workspace, ("tree", "other")), (elsewhere(tmp_path), ("other", "tree"))):
        run(place, None, trees={name: trees[name] for name in names})
        with open_catalog(place.settings.warehouse) as catalog:
            sql = "select source, model, judge, benchmark, round(score, 9), n_planned, n_scored from scores_by_source"
            numbers.append(sorted(run_query(catalog, sql).fetchall()))
    assert numbers[0] == numbers[1]
    assert len(numbers[0]) == 5


def test_a_judges_files_are_in_one_run_with_the_answers_that_others_share(workspace, tree):
    """Rakuda was judged as it is stored, ELYZA was not: the judge's average needs both."""
    tree.answers("rakuda", rows_of("rakuda", ["一", "二"]))
    tree.answers("elyza", rows_of("elyza", ["一", "二"]))
    for judge, elyza in (("a", ["一", "二"]), ("b", ["older", "二"])):
        tree.judgements("rakuda", rows_of("rakuda", ["一", "二"], [7, 8]), judge)
        tree.judgements("elyza", rows_of("elyza", elyza, [4, 5]), judge)
    run(workspace, tree)
    judged = workspace.lake.read("judgements").group_by("run_tag", "judge").agg(pl.col("benchmark").unique().sort())
    assert set(judged.select("run_tag", "judge").rows()) == {("legacy-tree", "a"), ("legacy-tree-gen2", "b")}
    assert set(judged["benchmark"].list.join(" ")) == {"elyza rakuda"}


def test_more_judgements_join_the_run_and_read_nothing_else(workspace, imported):
    before = contents(workspace.lake)
    file = imported.judgements("rakuda", rows_of("rakuda", ["一", "", "", "四", "五"], [1, 2, 3, 4, 5]), "c")
    result = run(workspace, imported)
    assert (result.models_read, result.bytes_read) == (1, file.stat().st_size)
    after = contents(workspace.lake)
    assert set(after["runs"]["run_id"]) == set(before["runs"]["run_id"])
    of_judges = ("judgements", "scores", "metrics")
    assert_same(
        {name: before[name] for name in of_judges}, {n: after[n].filter(pl.col("judge") != "c") for n in of_judges}
    )
    assert_same({"answers": before["answers"]}, after)
    assert after["metrics"].filter(judge="c", null_policy="legacy")["score"].to_list() == [3.0]
    assert reconcile_lake(workspace.lake).discrepancies() == []


def test_a_file_that_was_changed_supersedes_its_earlier_rows(workspace, imported, reports):
    imported.judgements("rakuda", rows_of("rakuda", ["一"], [3]), "b")
    assert run(workspace, imported).models_read == 1
    judged = workspace.lake.read("judgements", {"judge": "b", "benchmark": "rakuda"})
    assert judged.filter(~pl.col("superseded"))["score"].to_list() == [3.0]
    old = judged.filter("superseded")
    assert sorted(old["score"].to_list()) == [1.0, 1.0, 6.0, 8.0, 10.0]
    assert old["superseded_at"].null_count() == 0
    assert workspace.lake.read("metrics", {"judge": "b", "benchmark": "rakuda"})["n_scored"].to_list() == [1, 1, 1]
    assert reconcile_lake(workspace.lake).discrepancies() == []
    assert any("1 files have changed since they were imported" in line for line in reports)
    before = workspace.lake.versions()
    run(workspace, imported)
    assert workspace.lake.versions() == before


def test_changed_answers_are_another_run_and_the_old_one_stands_outside_of_leaderboards(workspace, imported):
    before = contents(workspace.lake)
    imported.answers("elyza", rows_of("elyza", ["new", "二"]), model="second")
    imported.judgements("elyza", rows_of("elyza", ["new", "二"], [2, 2]), "a", model="second")
    run(workspace, imported)
    runs = workspace.lake.read("runs", {"model": "second"}).sort("run_id")
    assert runs.select("run_tag", "superseded_by").rows() == [
        ("legacy-tree", "second@@legacy-tree-gen3"),
        ("legacy-tree-gen2", None),
        ("legacy-tree-gen3", None),
    ]
    assert_same(
        {"answers": before["answers"].filter(run_tag="legacy-tree", model="second")},
        {"answers": contents(workspace.lake)["answers"].filter(run_tag="legacy-tree", model="second")},
    )
    with open_catalog(workspace.settings.warehouse) as catalog:
        sql = "select run_tag, judge, score from leaderboard where model = 'second' order by all"
        assert run_query(catalog, sql).fetchall() == [("legacy-tree-gen2", "b", 3.0), ("legacy-tree-gen3", "a", 4.0)]
    assert reconcile_lake(workspace.lake).discrepancies() == []
    versions = workspace.lake.versions()
    run(workspace, imported)
    assert workspace.lake.versions() == versions


def test_answers_that_come_back_are_their_run_again(workspace, imported):
    before = contents(workspace.lake)["runs"]
    imported.answers("elyza", rows_of("elyza", ["new", "二"]), model="second")
    run(workspace, imported)
    assert workspace.lake.read("runs", {"run_id": "second@@legacy-tree"})["superseded_by"].to_list() == [
        "second@@legacy-tree-gen3"
    ]
    imported.answers("elyza", rows_of("elyza", ["一", "二"]), model="second")
    run(workspace, imported)
    after = contents(workspace.lake)["runs"]
    assert_same({"runs": before}, {"runs": after.filter(pl.col("run_id").is_in(before["run_id"].implode()))})
    assert after.filter(run_id="second@@legacy-tree-gen3")["superseded_by"].to_list() == ["second@@legacy-tree"]


def test_what_others_added_to_an_imported_run_survives(workspace, imported):
    lake = workspace.lake
    own = lake.read("judgements", {"run_id": "second@@legacy-tree"}).with_columns(
        judge=pl.lit("mine"), source_sha256=pl.lit(None, pl.String), source_line=pl.lit(None, pl.Int64)
    )
    lake.append("judgements", own)
    imported.judgements("elyza", rows_of("elyza", ["一", "二"], [1, 1]), "a", model="second")
    imported.judgements("elyza", rows_of("elyza", ["一", "二"], [2, 2]), "c", model="second")
    run(workspace, imported)
    assert_same({"own": own}, {"own": lake.read("judgements", {"judge": "mine"})})
    scores = lake.read("metrics", {"run_id": "second@@legacy-tree"}).filter(null_policy="legacy").sort("judge")
    assert scores.select("judge", "score").rows() == [("a", 2.0), ("c", 4.0), ("mine", 9.0)]


def test_a_run_that_was_not_imported_is_never_overwritten(workspace, imported):
    row = workspace.lake.read("runs", {"run_id": "second@@legacy-tree"}).with_columns(
        spec=pl.lit("{}"), run_tag=pl.lit("own-tree"), run_id=pl.lit("second@@own-tree")
    )
    workspace.lake.append("runs", row)
    with pytest.raises(ConfigurationError, match="run second@@own-tree is there and was not imported"):
        run(workspace, imported, tag="own")


def test_a_model_without_any_row_is_accounted_for(workspace, tree):
    tree.answers("rakuda", b"[]\n")
    result = run(workspace, tree)
    assert workspace.lake.read("runs").is_empty()
    assert result.reconciliation.quarantine.height == 1
    assert run(workspace, tree).models_read == 0


@pytest.mark.usefixtures("imported")
def test_the_spec_of_an_imported_run_says_what_is_known(workspace):
    spec = orjson.loads(workspace.lake.read("runs", {"run_id": "org%5F%5Fmodel@@legacy-tree"})["spec"].item())
    assert (spec["version"], spec["origin"], spec["endpoint"], spec["judges"]) == (2, "imported", None, [])
    known = spec["imported"]
    assert (known["display_name"], known["source"]) == ("org/model", "tree")
    assert [judge["judge"] for judge in known["judges"]] == ["a", "b"]
    assert known["not_recorded"] == "settings, tokens, times, finish_reason"
    rakuda = spec["benchmarks"]["rakuda"]
    assert (rakuda["n_questions"], rakuda["imported_samples"], rakuda["imported_judges"]) == (5, 5, ["a", "b"])
    assert (rakuda["judges"], rakuda["temperature"], rakuda["source"]) == ([], None, "legacy tree")


def test_repeated_questions_are_planned_as_often_as_they_are_there(workspace, tree):
    rows = rows_of("rakuda", ["一", "二"])
    tree.answers("rakuda", [rows[0], *rows])
    tree.judgements("rakuda", rows_of("rakuda", ["一"], [8]) + rows_of("rakuda", ["一", "二"], [9, 1]), "a")
    run(workspace, tree)
    (row,) = workspace.lake.read("metrics").filter(null_policy="strict").to_dicts()
    assert (row["n_planned"], row["n_scored"], row["score"]) == (3, 3, 6.0)


def test_two_imports_at_once_are_refused(workspace, imported):
    lock = workspace.settings.warehouse / "_locks" / "legacy_import.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(PartitionBusyError, match="another process is importing"):
            run(workspace, imported)


def test_of_several_trees_none_is_imported_if_one_has_no_legacy_files(workspace, full, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ConfigurationError, match=rf"no legacy files in {empty}: a tree has"):
        run(workspace, None, trees={"tree": full.root, "empty": empty})
    assert workspace.lake.read("answers").is_empty()


def test_trees_are_named_by_their_folders_or_as_asked(tmp_path, monkeypatch):
    for name in ("one", "two", "a=b"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert named_trees(["one", "other=two"]) == {"one": tmp_path / "one", "other": tmp_path / "two"}
    assert named_trees(["a=b"]) == {"a=b": tmp_path / "a=b"}
    assert named_trees(["."]) == {tmp_path.name: tmp_path}


@pytest.mark.parametrize(
    ("trees", "message"),
    [(["one", "other/one"], "two legacy trees have the name 'one'"), (["gone"], "trees: no folder 'gone'")],
)
def test_trees_that_cannot_be_told_apart_or_found_are_refused(tmp_path, monkeypatch, trees, message):
    (tmp_path / "other" / "one").mkdir(parents=True)
    (tmp_path / "one").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=message):
        named_trees(trees)


def test_the_same_command_again_changes_nothing(workspace, imported):
    before, versions = contents(workspace.lake), workspace.lake.versions()
    again = run(workspace, imported)
    assert (again.models_read, again.models_there, again.runs.height) == (0, 2, 0)
    assert_same(before, contents(workspace.lake))
    changed = {name for name, version in workspace.lake.versions().items() if version != versions[name]}
    assert changed <= {"legacy_files"}


@pytest.mark.usefixtures("one_model_a_step")
def test_several_steps_make_the_same_lake(workspace, full, made):
    run(workspace, full)
    assert_same(contents(workspace.lake), contents(Lake(made / "warehouse")))
