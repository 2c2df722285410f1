import errno
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from shaberi_dagster.errors import ConfigurationError, ShaberiError
from shaberi_dagster.exchange.installation import Installation
from shaberi_dagster.lake import catalog as catalog_module
from shaberi_dagster.lake import upgrades
from shaberi_dagster.lake.catalog import open_as_of, open_catalog
from shaberi_dagster.lake.compaction import compact_lake
from shaberi_dagster.lake.formats import FORMAT, FORMAT_NAME, check_format, stored_format
from shaberi_dagster.lake.store import Lake, Step
from shaberi_dagster.lake.upgrades import bring_up_to_date
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from tests.commands import run
from tests.example_runs import ask, materialized, own_engine, stored_run, without_results
from tests.mock_endpoint import MockEndpoint
from tests.older_lakes import as_format_1, as_format_2

pytestmark = pytest.mark.integration

_ROOT = Path(__file__).parents[2]
_AT = datetime(2026, 1, 2, tzinfo=UTC)
_LATER = "needs what no program knows yet"


def _judgements(run: str) -> pl.DataFrame:
    names = {"run_id": run, "model": "m", "run_tag": "t", "benchmark": "tengu", "judge": "j", "judge_prompt_hash": "p"}
    rows = [{"question_id": f"q{number}", "sample_index": 0, "score": 5.0, "superseded": False} for number in range(3)]
    return pl.DataFrame([names | {"status": "ok", "created_at": _AT} | row for row in rows])


@pytest.fixture
def older(settings: Settings) -> Lake:
    """A lake of format 1 with three judgements."""
    lake = Lake(settings.warehouse)
    lake.append("judgements", _judgements("a"))
    return as_format_1(lake)


def _newer(folder: Path) -> None:
    (folder / FORMAT_NAME).write_text(json.dumps({"format": FORMAT + 1, "kept": _LATER}), encoding="utf-8")


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_a_new_lake_has_todays_format_before_its_first_table(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "warehouse")
    assert stored_format(lake.folder) is None
    assert not lake.folder.exists(), "looking changes nothing"
    lake.append("judgements", _judgements("a"))
    assert stored_format(lake.folder) == FORMAT
    assert json.loads((lake.folder / FORMAT_NAME).read_text(encoding="utf-8")) == {"format": FORMAT}
    assert [path.name for path in lake.folder.iterdir() if path.name.startswith(FORMAT_NAME)] == [FORMAT_NAME]


def test_a_lake_with_tables_and_without_a_number_is_the_first_format(older: Lake) -> None:
    assert stored_format(older.folder) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "2"}', '{"format": 0}', '{"format": null}'])
def test_a_broken_number_is_refused_and_told(text: str, older: Lake) -> None:
    (older.folder / FORMAT_NAME).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=rf"{FORMAT_NAME} does not tell the lake's format: write"):
        check_format(older.folder)


def test_an_older_lake_is_read_without_being_touched(older: Lake) -> None:
    before = _files(older.folder)
    frame = older.read("judgements")
    assert frame["superseded_at"].to_list() == [None] * 3
    assert older.read("prompts").is_empty()
    with open_as_of(older.folder, datetime.now(UTC)) as connection:
        assert connection.sql("select count(*), count(superseded_at) from judgements").fetchall() == [(3, 0)]
    assert _files(older.folder) == before
    with open_catalog(older.folder) as connection:
        assert connection.execute("select count(*), count(superseded_at) from judgements").fetchall() == [(3, 0)]
        assert connection.execute("select count(*) from prompts").fetchall() == [(0,)]
    assert _files(older.folder) - before == {"catalog.duckdb"}
    assert stored_format(older.folder) == 1


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EPERM])
def test_an_older_lake_in_a_folder_that_cannot_be_written_is_read(
    number: int, older: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _files(older.folder)

    def refused(**_: Any) -> Iterator[str]:
        raise OSError(number, "no")

    monkeypatch.setattr(catalog_module.tempfile, "TemporaryDirectory", refused)
    with open_catalog(older.folder) as connection:
        assert connection.execute("select count(*) from judgements").fetchall() == [(3,)]
        with pytest.raises(Exception, match="disabled by configuration"):
            connection.execute("copy (select 1) to '/tmp/x.csv'")
    assert _files(older.folder) == before


def test_a_full_disk_is_not_taken_for_a_folder_that_is_only_to_be_read(
    older: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: Any) -> Iterator[str]:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(catalog_module.tempfile, "TemporaryDirectory", refused)
    with pytest.raises(OSError, match="no space"):
        open_catalog(older.folder)


def test_the_first_that_writes_upgrades_the_lake_and_keeps_its_rows(older: Lake, workspace: Workspace) -> None:
    workspace.lake.append("judgements", _judgements("b"))
    assert stored_format(older.folder) == FORMAT
    rows = workspace.lake.read("judgements")
    assert sorted(rows["run_id"]) == ["a"] * 3 + ["b"] * 3
    fields = [field.name for field in workspace.lake.delta("runs").schema().fields]
    assert "created_by" in fields
    assert workspace.lake.exists("prompts")
    with open_catalog(older.folder) as connection:
        assert connection.execute("select count(*) from judgements").fetchall() == [(6,)]


def test_compacting_upgrades_and_so_does_a_command(older: Lake) -> None:
    run("shaberi", "compact", environment={"SHABERI_WAREHOUSE": older.folder}).succeeded()
    assert stored_format(older.folder) == FORMAT


def test_a_lake_that_is_only_for_reading_refuses_to_write_an_older_one(older: Lake) -> None:
    before = _files(older.folder)
    with pytest.raises(ConfigurationError, match=rf"has format 1, today's is {FORMAT}: `shaberi compact` upgrades it"):
        older.append("judgements", _judgements("b"))
    with pytest.raises(ConfigurationError, match="has format 1"):
        compact_lake(older)
    assert _files(older.folder) == before


def test_steps_are_taken_in_order_and_one_that_was_killed_is_taken_again(
    older: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrades, "FORMAT", 4)
    taken: list[int] = []

    def step(number: int, *, killed: bool = False) -> Step:
        def one(lake: Lake) -> None:
            taken.append(number)
            lake.widen("prompts")
            if killed:
                raise KeyboardInterrupt

        return one

    with pytest.raises(KeyboardInterrupt):
        bring_up_to_date(older.folder, {1: step(1), 2: step(2, killed=True), 3: step(3)})
    assert (taken, stored_format(older.folder)) == ([1, 2], 2)
    assert bring_up_to_date(older.folder, {1: step(1), 2: step(2), 3: step(3)}) == [3, 4]
    assert (taken, stored_format(older.folder)) == ([1, 2, 2, 3], 4)
    assert bring_up_to_date(older.folder, {}) == []


def test_of_several_at_once_one_upgrades_and_the_others_wait(older: Lake) -> None:
    running, most, taken = 0, 0, 0

    def step(lake: Lake) -> None:
        nonlocal running, most, taken
        running, taken = running + 1, taken + 1
        most = max(most, running)
        lake.widen("prompts")
        running -= 1

    done: list[list[int]] = []
    threads = [
        threading.Thread(
            target=lambda: done.append(bring_up_to_date(older.folder, dict.fromkeys(range(1, FORMAT), step)))
        )
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, taken) == (1, FORMAT - 1)
    assert sorted(done) == [[], [], [], [], [], list(range(2, FORMAT + 1))]


_WRITER = """
import sys
from pathlib import Path
import polars as pl
from shaberi_dagster.exchange.installation import Installation
from shaberi_dagster.settings import Settings
lake = Installation(Settings.from_environment(), environment={}).lake
rows = lake.read("judgements", {"run_id": "a"})
print("ready", flush=True)
sys.stdin.readline()
lake.append("judgements", rows.with_columns(run_id=pl.lit(sys.argv[1])))
"""


@pytest.mark.long
def test_two_processes_that_write_an_older_lake_at_once_both_succeed(older: Lake) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, name], cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in ("b", "c")
    ]
    for writer in writers:
        assert writer.stdout
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    assert stored_format(older.folder) == FORMAT
    counts = Lake(older.folder).read("judgements").group_by("run_id").len().sort("run_id").rows()
    assert counts == [("a", 3), ("b", 3), ("c", 3)]


def test_a_newer_lake_is_refused_by_all_ways_in(older: Lake, workspace: Workspace) -> None:
    lake = workspace.lake
    _newer(older.folder)
    message = rf"has format {FORMAT + 1} and this program knows only {FORMAT}: update shaberi-dagster"
    for way in (
        lambda: open_catalog(older.folder),
        lambda: open_as_of(older.folder, datetime.now(UTC)),
        lambda: Lake(older.folder),
        lambda: lake.append("judgements", _judgements("b")),  # opened before it was upgraded by another program
        lambda: bring_up_to_date(older.folder, {}),
    ):
        with pytest.raises(ConfigurationError, match=message):
            way()


@pytest.mark.e2e
@pytest.mark.parametrize(
    "command",
    [
        ("shaberi", "sql", "select 1"),
        ("view-scores",),
        ("shaberi", "compact"),
        ("shaberi", "export"),
        ("run-evals", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"),
    ],
    ids=lambda command: "-".join(command[:2]),
)
def test_a_command_on_a_newer_lake_says_so_in_one_line(command: tuple[str, ...], older: Lake) -> None:
    _newer(older.folder)
    before = _files(older.folder)
    finished = run(*command, environment={"SHABERI_WAREHOUSE": older.folder})
    assert finished.code == 2
    (line,) = finished.err.splitlines()
    assert line.startswith(f"error: the lake in {older.folder} has format {FORMAT + 1}")
    assert "Traceback" not in finished.err
    assert _files(older.folder) == before


def test_a_folder_that_cannot_be_written_is_told(older: Lake) -> None:
    def refused(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    lake = Lake(older.folder, upgrade=refused)
    with pytest.raises(ShaberiError, match=r"the lake in .* cannot be written: Permission denied"):
        lake.append("judgements", _judgements("b"))


def test_the_upgrade_records_the_prompts_of_old_rows_that_todays_templates_still_make(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    with own_engine({}), without_results():
        spec = stored_run(workspace, ask(mock))
        materialized(spec, workspace, "answers", "judgements")
        recorded = workspace.lake.read("prompts").drop("created_at")
        foreign = workspace.lake.read("judgements").with_columns(
            run_id=pl.lit("other"), judge_prompt_hash=pl.lit("f" * 64), judge_config_hash=pl.lit("f" * 64)
        )
        workspace.lake.append("judgements", foreign)
        as_format_1(workspace.lake)
        later = Installation(workspace.settings, environment={})
        later.lake.append("judgements", _judgements("z"))
    again = later.lake.read("prompts").drop("created_at")
    order = ["prompt_hash", "position"]
    assert again.sort(order).equals(recorded.sort(order)), "the fallback too, and nothing that no row has"
    purposes = sorted(again["purpose"].unique())
    assert purposes == ["generation", "judging fallback", "judging primary"]
    created = later.lake.read("runs")["created_by"].to_list()
    assert created == [None], "nobody knows any more"


def test_the_upgrade_does_without_templates_that_are_broken(
    older: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHABERI_PROMPTS", str(tmp_path / "none"))
    Installation(Settings.from_environment(), environment={}).lake.append("judgements", _judgements("b"))
    assert stored_format(older.folder) == FORMAT


@pytest.mark.long
def test_judgements_from_before_and_after_the_upgrade_have_one_judge_in_all_views(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    with own_engine({}), without_results():
        spec = stored_run(workspace, ask(mock, tag="t-run1", limit=1))
        materialized(spec, workspace)
        as_format_2(workspace.lake, spec)
        later = Installation(workspace.settings, environment={})
        materialized(stored_run(later, ask(mock, tag="t-run1", limit=2)), later)
        materialized(stored_run(later, ask(mock, tag="t-run2", limit=2)), later)
    judgements = later.lake.read("judgements")
    assert (judgements.height, judgements["judge_config_hash"].n_unique()) == (4, 2)
    with open_catalog(later.lake.folder) as catalog:
        for table in ("judgements", "scores", "metrics"):
            rows = catalog.execute(f"select count(distinct judge_config_hash) from {table}").fetchall()
            assert rows == [(1,)], table
        assert catalog.execute("from stale").fetchall() == []
        assert catalog.execute("select n_judge_configs from drift").fetchall() == [(1,)]
        statistics = "select n_runs from run_statistics where benchmark = 'tengu' and null_policy = 'legacy'"
        assert catalog.execute(statistics).fetchall() == [(2,)]
