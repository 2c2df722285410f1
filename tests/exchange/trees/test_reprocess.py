"""Passes over imported runs: many at once, and nobody is asked."""

import shutil
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.stages.base import StageResult
from shaberi_dagster.runs.stages.imported import REMADE, add_to_imported, imported_among, reprocess_imported
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.tasks.benchmarks.registry import BENCHMARKS
from shaberi_dagster.tasks.passes.lang_mixing import LangMixing
from shaberi_dagster.util.errors import ConfigurationError
from tests.exchange.trees.trees import LegacyTree, rows_of

pytestmark = pytest.mark.integration

_CLEAN = "日本の首都は東京で、政治と経済の中心です。人口は千四百万人ほどで、世界有数の都市です。"
_LEAK = f"{_CLEAN}东京には大学や博物館も多くあります。"
FIRST, SECOND = "org%5F%5Fmodel@@legacy-tree", "second@@legacy-tree"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a run of two judges with a leaking answer, an empty one that one of them scored, and a clean one;
    two others."""
    folder = tmp_path_factory.mktemp("kept")
    tree = LegacyTree(folder / "tree")
    tree.answers("rakuda", rows_of("rakuda", [_LEAK, "", _CLEAN]))
    tree.judgements("rakuda", rows_of("rakuda", [_LEAK, "", _CLEAN], [7, None, {"score": 9}]), "a")
    tree.judgements("rakuda", rows_of("rakuda", [_LEAK, "", _CLEAN], [1, 2, 8]), "b")
    tree.answers("elyza", rows_of("elyza", [_CLEAN, _CLEAN]), model="second")
    tree.judgements("elyza", rows_of("elyza", [_CLEAN, _CLEAN], [4, 5]), "a", model="second")
    tree.answers("tengu", rows_of("tengu", [_LEAK]), model="unjudged")
    workspace = Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": str(folder / "warehouse")}), environment={})
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    return workspace.settings.warehouse


@pytest.fixture
def imported(kept: Path, workspace: Workspace) -> list[str]:
    """The runs of the kept lake, which are in this test's own."""
    shutil.copytree(kept, workspace.settings.warehouse)
    return workspace.lake.read("runs")["run_id"].sort().to_list()


def _reprocess(
    workspace: Workspace,
    run_ids: list[str],
    *passes: str,
    options: tuple[str, ...] = (),
    stages: tuple[str, ...] = REMADE,
) -> list[StageResult]:
    if passes:
        add_to_imported(run_ids, passes, options, workspace)
    made = [reprocess_imported(stage, run_ids, list(BENCHMARKS), workspace) for stage in stages]
    return [outcome for outcomes in made for outcome in outcomes]


def _baseline(lake: Lake) -> list[pl.DataFrame]:
    keys = {"scores": ["run_id", "judge", "question_id", "sample_index"], "metrics": ["run_id", "judge", "null_policy"]}
    return [lake.read(name).filter(pipeline="baseline").drop("created_at").sort(key) for name, key in keys.items()]


def _scores(lake: Lake, pipeline: str, run_id: str = FIRST) -> list[tuple[str, float | None, float | None]]:
    rows = lake.read("scores", {"run_id": run_id, "pipeline": pipeline})
    return sorted(rows.select("judge", "baseline_score", "score").rows(), key=str)


def _pipelines(lake: Lake, table: str = "scores") -> set[str]:
    return set(lake.read(table)["pipeline"])


def test_passes_lower_scores_beside_those_that_were_imported(workspace: Workspace, imported: list[str]) -> None:
    before = _baseline(workspace.lake)
    runs = workspace.lake.read("runs").sort("run_id")
    outcomes = _reprocess(workspace, imported, "lang_mixing", options=("lang_mixing.minimum_severity=0.5",))
    of_each = {(FIRST, "rakuda"), (SECOND, "elyza")}
    assert {(one.stage, one.run_id, one.benchmark) for one in outcomes} == {
        (stage, *each) for stage in REMADE for each in of_each
    }
    for then, now in zip(before, _baseline(workspace.lake), strict=True):
        assert_frame_equal(then, now, check_exact=True)
    changed = ("spec", "spec_hash", "updated_at")
    assert workspace.lake.read("runs").sort("run_id").drop(changed).equals(runs.drop(changed))
    # The scale of rakuda is 1 to 10: half of it is 4.5, and 1 is the least.
    assert _scores(workspace.lake, "lang_mixing") == [
        ("a", 7.0, 2.5),
        ("a", None, None),
        ("a", None, None),
        ("b", 1.0, 1.0),
        ("b", 2.0, 2.0),
        ("b", 8.0, 8.0),
    ]
    assert _pipelines(workspace.lake) == _pipelines(workspace.lake, "metrics") == {"baseline", "lang_mixing"}
    assert workspace.lake.read("calls").is_empty()


def test_without_passes_the_runs_keep_those_that_they_have_with_their_settings(
    workspace: Workspace, imported: list[str]
) -> None:
    _reprocess(workspace, imported, "repetition", stages=("pass_outputs",))
    _reprocess(workspace, imported, "lang_mixing", "repetition", options=("lang_mixing.minimum_severity=0.5",))
    names = {"baseline", "repetition", "lang_mixing", "lang_mixing,repetition"}
    assert _pipelines(workspace.lake) == names
    before, versions = _scores(workspace.lake, "lang_mixing"), workspace.lake.versions()
    _reprocess(workspace, imported)
    assert (_pipelines(workspace.lake), _scores(workspace.lake, "lang_mixing")) == (names, before)
    assert workspace.lake.versions() == versions


def test_findings_of_an_earlier_version_stand_until_the_runs_are_made_anew(
    workspace: Workspace, imported: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _reprocess(workspace, imported, "lang_mixing", options=("lang_mixing.minimum_severity=0.5",))
    before, versions = _scores(workspace.lake, "lang_mixing"), workspace.lake.versions()
    monkeypatch.setattr(LangMixing, "version", "9")
    _reprocess(workspace, imported, "lang_mixing", options=("lang_mixing.minimum_severity=0.5",))
    assert workspace.lake.versions() == versions
    for stage in ("pass_outputs", "scores"):
        reprocess_imported(stage, imported, list(BENCHMARKS), workspace, again=True)
    assert set(workspace.lake.read("pass_outputs")["pass_version"]) == {"9"}
    assert _scores(workspace.lake, "lang_mixing") == before


@pytest.fixture
def tree(tmp_path: Path) -> LegacyTree:
    root = tmp_path / "tree"
    root.mkdir()
    return LegacyTree(root)


def test_scores_of_answers_without_a_text_stay_as_they_are(workspace: Workspace, tree: LegacyTree) -> None:
    tree.answers("rakuda", rows_of("rakuda", ["", ""]))
    tree.judgements("rakuda", rows_of("rakuda", ["", ""], [1, 1]), "a")
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    _reprocess(workspace, [FIRST], "lang_mixing")
    assert set(workspace.lake.read("pass_outputs")["severity"]) == {0.0}
    assert _scores(workspace.lake, "lang_mixing") == [("a", 1.0, 1.0)] * 2
    versions = workspace.lake.versions()
    _reprocess(workspace, [FIRST])
    assert (_pipelines(workspace.lake), workspace.lake.versions()) == ({"baseline", "lang_mixing"}, versions)


def test_an_error_message_that_was_judged_is_examined_like_any_text(workspace: Workspace, tree: LegacyTree) -> None:
    message = "UNEXPECTED_ERROR: the server did not answer in time"
    tree.answers("rakuda", rows_of("rakuda", [message]))
    tree.judgements("rakuda", rows_of("rakuda", [message], [3]), "a")
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    _reprocess(workspace, [FIRST], "repetition", stages=("pass_outputs", "scores"))
    assert workspace.lake.read("answers")["status"].to_list() == ["error"]
    assert _scores(workspace.lake, "repetition") == [("a", 3.0, 3.0)]


def test_a_pass_that_asks_a_model_is_refused(workspace: Workspace, imported: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="pass safety_check asks a model, which is paid for one"):
        _reprocess(workspace, imported, "safety_check", options=("safety_check.model=guard",))
    assert workspace.lake.read("pass_outputs").is_empty()


@pytest.mark.parametrize("stage", ["answers", "judgements", "consensus"])
def test_what_only_calls_can_make_is_refused(stage: str, workspace: Workspace, imported: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="was imported and cannot be continued: only its pass_outputs, scores"):
        reprocess_imported(stage, imported, ["rakuda"], workspace)


def test_a_run_that_nobody_judged_has_nothing_to_be_lowered(workspace: Workspace, imported: list[str]) -> None:
    assert imported_among([*imported, "other@@run"], workspace.lake) == imported
    assert "unjudged@@legacy-tree" in imported
    assert _reprocess(workspace, ["unjudged@@legacy-tree"], "lang_mixing") == []
    assert _pipelines(workspace.lake) == {"baseline"}
