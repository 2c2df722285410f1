"""Tags of imported runs: what one selects does not depend on the order of imports."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from shaberi_dagster.exchange.trees import runs
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.reports.comparison import compare
from shaberi_dagster.reports.questions import read_runs
from shaberi_dagster.reports.requests import ComparisonRequest, ScoreSelection
from shaberi_dagster.reports.scores import read_scores
from shaberi_dagster.runs.results.results_tree import export_runs
from shaberi_dagster.runs.selection import chosen_runs
from shaberi_dagster.runs.stored import find_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError
from tests.exchange.trees.trees import LegacyTree, rows_of

pytestmark = pytest.mark.integration

_TREES = {"shisa": ("shared", "only-shisa"), "fork": ("shared", "only-fork")}
_TEXTS = ("一", "二", "三")


@pytest.fixture
def trees(tmp_path: Path) -> dict[str, Path]:
    """Two trees that have one model in common."""
    for source, models in _TREES.items():
        tree = LegacyTree(tmp_path / source)
        for model in models:
            tree.answers("rakuda", rows_of("rakuda", _TEXTS), model=model)
            tree.judgements("rakuda", rows_of("rakuda", _TEXTS, [5, 6, len(source)]), "a", model=model)
    return {source: tmp_path / source for source in _TREES}


@pytest.fixture
def imported(trees: dict[str, Path], tmp_path: Path) -> Callable[[Iterable[str]], Workspace]:
    """Import trees, one after the other."""

    def imported(sources: Iterable[str]) -> Workspace:
        sources = list(sources)
        folder = tmp_path / "-".join(sources) / "warehouse"
        workspace = Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": str(folder)}), environment={})
        for source in sources:
            import_trees(ImportRequest({source: trees[source]}), workspace)
        return workspace

    return imported


@pytest.fixture
def of_before(imported: Callable[[Iterable[str]], Workspace], monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A lake in which the runs of the first tree have the tag without its name, and those of the second have it."""
    monkeypatch.setattr(runs, "tag_of_tree", lambda tag, source: tag if source == "shisa" else f"{tag}-{source}")
    workspace = imported(["shisa", "fork"])
    monkeypatch.undo()
    return workspace


def _selected(workspace: Workspace, **chosen: tuple[str, ...]) -> set[str]:
    with open_catalog(workspace.settings.warehouse) as catalog:
        rows = read_scores(catalog, ScoreSelection(**chosen)).rows  # type: ignore[arg-type]
        inspected = {run_id for run in read_runs(catalog, **chosen) for run_id in run["run_ids"]}
    found = {row["run_id"] for row in rows}
    assert (
        inspected
        == found
        == set(chosen_runs(workspace.lake, (), chosen.get("tags", ()), chosen.get("sources", ()))["run_id"])
    )
    return found


@pytest.mark.long
def test_the_order_of_imports_changes_no_run_and_no_selection(imported: Callable[[Iterable[str]], Workspace]) -> None:
    one, other = imported(["shisa", "fork"]), imported(["fork", "shisa"])
    expected = {f"{model}@@legacy-{source}" for source, models in _TREES.items() for model in models}
    for workspace in (one, other):
        assert set(workspace.lake.read("runs")["run_id"]) == expected
        assert _selected(workspace, tags=("legacy",)) == expected
        assert _selected(workspace, sources=("shisa",)) == {"shared@@legacy-shisa", "only-shisa@@legacy-shisa"}
        assert _selected(workspace, tags=("legacy-fork",)) == {"shared@@legacy-fork", "only-fork@@legacy-fork"}


def test_stored_runs_keep_their_tags_and_the_bare_tag_selects_all_trees(
    of_before: Workspace, trees: dict[str, Path]
) -> None:
    expected = {"shared@@legacy", "only-shisa@@legacy", "shared@@legacy-fork", "only-fork@@legacy-fork"}
    import_trees(ImportRequest(trees), of_before)  # again
    assert set(of_before.lake.read("runs")["run_id"]) == expected
    assert _selected(of_before, tags=("legacy",)) == expected
    assert _selected(of_before, tags=("legacy",), sources=("fork",)) == {
        "shared@@legacy-fork",
        "only-fork@@legacy-fork",
    }


def test_where_one_run_is_meant_a_bare_tag_of_several_trees_is_refused_with_their_runs(
    of_before: Workspace, imported: Callable[[Iterable[str]], Workspace]
) -> None:
    for workspace, first in ((of_before, "legacy"), (imported(["fork", "shisa"]), "legacy-fork")):
        with open_catalog(workspace.settings.warehouse) as catalog:
            refusal = f"imported under the tag 'legacy' from several trees: name one of shared@@{first}"
            with pytest.raises(ConfigurationError, match=refusal):
                compare(catalog, ComparisonRequest("shared", "only-shisa", tag="legacy"))
            of_one = ComparisonRequest("shared", "only-shisa", tag="legacy", sources=("shisa",))
            assert compare(catalog, of_one).a.run_ids[0].startswith("shared@@legacy")
            named = compare(catalog, ComparisonRequest("shared@@legacy-fork", "only-shisa", tag="legacy"))
            assert named.a.run_ids == ("shared@@legacy-fork",)


def test_a_run_to_go_on_with_is_found_by_the_tag_of_its_import(imported: Callable[[Iterable[str]], Workspace]) -> None:
    lake = imported(["shisa", "fork"]).lake
    (found, named) = (find_run(lake, "only-fork", tag) for tag in ("legacy", "legacy-fork"))
    assert found is not None
    assert found == named
    assert find_run(lake, "only-fork", "july") is None
    with pytest.raises(ConfigurationError, match="by its tag, legacy-fork or legacy-shisa"):
        find_run(lake, "shared", "legacy")


def test_a_tree_that_is_not_there_is_refused_with_those_that_are(
    imported: Callable[[Iterable[str]], Workspace], tmp_path: Path
) -> None:
    workspace = imported(["shisa"])
    with open_catalog(workspace.settings.warehouse) as catalog:
        for way in (
            lambda: read_scores(catalog, ScoreSelection(sources=("shiza",))),
            lambda: read_runs(catalog, sources=("shiza",)),
            lambda: compare(catalog, ComparisonRequest("shared", "only-shisa", sources=("shiza",))),
            lambda: export_runs(workspace.lake, tmp_path / "results", sources=("shiza",)),
        ):
            with pytest.raises(ConfigurationError, match="no source 'shiza'; did you mean shisa"):
                way()
