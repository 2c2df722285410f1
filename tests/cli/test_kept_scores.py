"""What `view-scores` prints is kept until something that decides it has changed."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shaberi_dagster import api
from shaberi_dagster.cli.view_scores import show_scores
from shaberi_dagster.errors import ShaberiError
from shaberi_dagster.exchange.installation import Installation
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.reports.requests import ScoreSelection
from shaberi_dagster.settings import Settings
from tests.commands import lake_of
from tests.exchange.trees.trees import LegacyTree, rows_of

pytestmark = pytest.mark.integration


def _import(place: Path, warehouse: Path, model: str) -> None:
    tree = LegacyTree(place / f"tree-of-{model}")
    tree.answers("rakuda", rows_of("rakuda", ["一", "二", "三"]), model=model)
    tree.judgements("rakuda", rows_of("rakuda", ["一", "二", "三"], [7, 8, 9]), "judge-a", model=model)
    own = Installation(Settings.from_environment(lake_of(warehouse.parent)), environment={})
    import_trees(ImportRequest({model: tree.root}), own)


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake with one imported model, and caches of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHABERI_MIRRORS", str(tmp_path / "caches"))
    _import(tmp_path, tmp_path / "warehouse", "first")
    return tmp_path / "warehouse"


@pytest.fixture
def shown(warehouse: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Shows scores, and says whether they were read for it."""
    read = []
    scores = api.LakeReader.scores
    monkeypatch.setattr(api.LakeReader, "scores", lambda *args, **own: read.append(1) or scores(*args, **own))  # type: ignore[func-returns-value]

    def show(output_format: str = "table", *, is_read: bool, **selection: str) -> str:
        read.clear()
        show_scores(warehouse, ScoreSelection(**selection), output_format)  # type: ignore[arg-type]
        assert bool(read) == is_read
        return capsys.readouterr().out

    return show


def test_the_same_question_of_the_same_lake_is_printed_again(shown: Callable[..., str]) -> None:
    text = shown(is_read=True)
    assert "first" in text
    assert shown(is_read=False) == text
    assert shown(null_policy="zero", is_read=True) != text
    assert shown("csv", is_read=True) != text
    assert shown(is_read=False) == text


def test_another_lake_terminal_or_plugin_is_read_for(
    shown: Callable[..., str], warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shown(is_read=True)
    _import(tmp_path, warehouse, "second")
    assert "second" in shown(is_read=True)
    monkeypatch.setenv("COLUMNS", "60")
    assert shown(is_read=True) != text
    (tmp_path / "plugins" / "benchmarks").mkdir(parents=True)
    (tmp_path / "plugins" / "to-nowhere").symlink_to("nowhere")
    (tmp_path / "plugins" / "itself").symlink_to(".")
    shown(is_read=False)
    (tmp_path / "plugins" / "benchmarks" / "mine.yaml").write_text("title: Mine\n", encoding="utf-8")
    shown(is_read=True)
    shown(is_read=False)
    file = next(warehouse.glob("metrics/**/*.parquet"))
    os.utime(file, ns=(0, 0))
    shown(is_read=True)


def test_what_is_kept_and_damaged_is_not_shown(shown: Callable[..., str], tmp_path: Path) -> None:
    text = shown(is_read=True)
    (kept,) = (tmp_path / "caches").glob("view-scores-*")
    content = kept.read_bytes()
    kept.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert shown(is_read=True) == text


def test_scores_of_a_mirror_are_always_read(
    shown: Callable[..., str], warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise ShaberiError("s3://team/lake cannot be reached")

    shown(is_read=True)
    (warehouse / "_mirror").write_text("s3://team/lake\n", encoding="utf-8")
    monkeypatch.setattr(api.LakeReader, "scores", unreachable)
    with pytest.raises(ShaberiError, match="cannot be reached"):
        shown(is_read=True)
