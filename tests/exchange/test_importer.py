"""An importer of another tool's logs is one class; listing, quarantine, runs, sums and the report are the base's."""

import re
from pathlib import Path
from typing import Any

import pytest

from shaberi_dagster.exchange.importer import Importer
from shaberi_dagster.exchange.logs import import_logs
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.reports.requests import ScoreSelection
from shaberi_dagster.reports.scores import read_scores
from shaberi_dagster.util.errors import ConfigurationError
from tests.commands import run
from tests.exchange.trees.trees import questions_of

pytestmark = pytest.mark.integration


def _source() -> str:
    """Return the importer that docs/extending.md shows: a line has the model, the question, its answer and points."""
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
    (found,) = (
        text
        for text in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        if "class ArenaLog" in text
    )
    return found


def _example() -> type[Importer]:
    names: dict[str, Any] = {}
    exec(_source(), names)
    importer: type[Importer] = names["ArenaLog"]
    return importer


ArenaLog = _example()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    first, second = (question.question.replace("\n", " ") for question in questions_of("tengu")[:2])
    path = tmp_path / "logs" / "july.arena"
    path.parent.mkdir()
    lines = [
        f"alpha | {first} | one | 8",
        f"alpha | {second} | two | 6",
        f"beta | {first} | three | 3",
        f"beta | {second} | four | many",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_two_runs_come_in_and_a_bad_line_is_set_aside_with_its_reason(workspace, log):
    done = import_logs(ArenaLog(), [log.parent], workspace)

    assert done.runs == ["alpha@@arena", "beta@@arena"]
    assert done.discrepancies() == []
    (counts,) = done.files
    assert (counts.entries, counts.entries_imported, counts.entries_quarantined) == (4, 3, 1)
    ((path, line, reason),) = done.quarantine.select("path", "source_line", "reason").iter_rows()
    assert (path, line) == ("july.arena", 4)
    assert reason == "is no line of an arena: could not convert string to float: 'many'"
    assert workspace.lake.read("legacy_quarantine")["raw"][0].endswith("| four | many")


def test_a_second_import_changes_nothing(workspace, log):
    first = import_logs(ArenaLog(), [log.parent], workspace)
    before = workspace.lake.versions()

    again = import_logs(ArenaLog(), [log.parent], workspace)

    assert (first.changed, again.changed) == (True, False)
    assert workspace.lake.versions() == before
    assert (again.runs, again.discrepancies()) == (first.runs, [])
    assert (again.questions_with_text, again.questions_without_text) == (2, 0)
    assert again.quarantine.equals(first.quarantine)
    (counts,) = again.files
    assert (counts.status, counts.entries, counts.entries_repeated) == ("imported", 4, 3)


def test_a_log_that_has_grown_adds_what_is_new(workspace, log):
    import_logs(ArenaLog(), [log], workspace)
    log.write_text(log.read_text(encoding="utf-8").replace("many", "5"), encoding="utf-8")

    done = import_logs(ArenaLog(), [log], workspace)

    (counts,) = done.files
    assert (counts.entries_imported, counts.entries_repeated, counts.entries_quarantined) == (1, 3, 0)
    assert done.quarantine.is_empty()
    assert workspace.lake.read("answers", {"model": "beta"})["answer"].sort().to_list() == ["four", "three"]


def test_imported_runs_are_among_the_scores(workspace, log):
    import_logs(ArenaLog(), [log], workspace)

    with open_catalog(workspace.settings.warehouse) as catalog:
        rows = read_scores(catalog, ScoreSelection()).rows
    scores = {
        (row["model"], row["run_tag"], row["benchmark"], row["judge"]): (row["score"], row["n_scored"]) for row in rows
    }
    assert scores == {
        ("alpha", "arena", "tengu", "gpt-judge"): (7.0, 2),
        ("beta", "arena", "tengu", "gpt-judge"): (3.0, 1),
    }


def test_a_folder_without_a_log_is_refused(workspace, tmp_path):
    (tmp_path / "notes.txt").write_text("nothing", encoding="utf-8")

    with pytest.raises(ConfigurationError, match="no arena log in"):
        import_logs(ArenaLog(), [tmp_path], workspace)


def test_the_command_imports_a_log_in_a_format_of_a_plugin_folder(log, tmp_path, monkeypatch):
    plugins = tmp_path / "plugins"
    monkeypatch.setenv("SHABERI_PLUGINS", str(plugins))
    (plugins / "importers").mkdir(parents=True)
    (plugins / "importers" / "arena.py").write_text(_source(), encoding="utf-8")
    broken = _source().replace('name = "arena"', 'name = "broken"').replace(" | ", " / ", 1)
    (plugins / "importers" / "broken.py").write_text(broken.replace("ValueError", "KeyError"), encoding="utf-8")

    done, again = (run("shaberi", "import-logs", "arena", log) for _ in range(2))
    shown = run("shaberi", "sql", "select model, score::integer as score from scores order by all").succeeded().out
    unknown, failing = (run("shaberi", "import-logs", name, log) for name in ("arenas", "broken"))

    assert (done.code, again.code) == (3, 3)
    assert "july.arena is no line of an arena: could not convert string to float: 'many'" in done.out
    assert "4 entries (3 imported, 1 quarantined); 3 answers" in done.out
    assert "4 entries (3 repeated, 1 quarantined); 3 answers" in again.out
    assert [line.split() for line in shown.splitlines()][1:] == [["alpha", "6"], ["alpha", "8"], ["beta", "3"]]
    assert "unknown importer 'arenas'; did you mean arena?" in unknown.err
    assert "importers/broken.py:12: ValueError: not enough values to unpack" in failing.err
