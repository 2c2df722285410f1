"""A lake that was made once and is kept: later code must find in it all that was paid for, and nothing to be redone.

`make.py` shows how it was made and `commands.py` what is in it. When a test here fails, users would pay again for what
they have, or lose what a killed process had paid for. The kept files are never made anew to please later code.
"""

import shutil
import socket
import tarfile
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest

from shaberi_dagster.lake.catalog import connect
from shaberi_dagster.lake.journal.files import JOURNAL_FOLDER
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.util.identity import sha256_json
from tests.archives import extract
from tests.example_runs import without_results
from tests.kept_lake import endpoint
from tests.kept_lake.commands import RUNS, Command, KeptRun, run
from tests.kept_lake.contents import (
    ARCHIVE,
    asked,
    calls_by_stage,
    plans_of,
    read_golden,
    rows_of,
    run_ids_of,
    specs_of,
    workspace_of,
)
from tests.kept_lake.endpoint import PortTakenError, kept_endpoint
from tests.mock_endpoint import MockEndpoint

# Where many tests run, each waits for the port until another process has done with it.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

_COMPLETE = [pytest.param(kept, id=kept.model) for kept in RUNS if kept.complete]
_UNFINISHED = [pytest.param(kept, id=kept.model) for kept in RUNS if not kept.complete]
_ON_THE_KEPT_INSTANCE = {"kept-judged", "kept-killed-rejudging"}
golden = cache(read_golden)


def _unpacked(folder: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        extract(archive, folder)
    return folder


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kept lake with its Dagster instance, prompts and questions, as it was made. No test may change it."""
    return _unpacked(tmp_path_factory.mktemp("pristine"))


@pytest.fixture(scope="module")
def folder(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy for all commands: each is about runs of its own."""
    return shutil.copytree(pristine, tmp_path_factory.mktemp("commands") / "kept")


@pytest.fixture
def mock() -> Iterator[MockEndpoint]:
    """The endpoint that the lake's calls were made to."""
    with kept_endpoint() as running:
        yield running


def _run(kept: KeptRun, command: Command, folder: Path) -> int:
    with without_results():
        return run(command, folder, own_instance=kept.model in _ON_THE_KEPT_INSTANCE)


def _rows(folder: Path) -> dict[str, list[list[Any]]]:
    workspace = workspace_of(folder)
    return {table: rows_of(workspace, table, columns) for table, columns in golden()["columns"].items()}


def _about(run_ids: Collection[str], rows: dict[str, list[list[Any]]]) -> dict[str, list[list[Any]]]:
    """Without the rows of other runs."""
    columns = golden()["columns"]
    return {
        table: [row for row in own if "run_id" not in columns[table] or row[columns[table].index("run_id")] in run_ids]
        for table, own in rows.items()
    }


def test_all_hashes_and_numbers_are_read_as_they_were_written(pristine: Path) -> None:
    assert _rows(pristine) == golden()["rows"]
    assert calls_by_stage(workspace_of(pristine)) == golden()["calls_by_stage"]


def test_a_stored_spec_says_the_same_in_the_words_of_today(pristine: Path) -> None:
    workspace = workspace_of(pristine)
    stored = {row[0]: row[1:] for row in workspace.lake.read("runs", None, ["run_id", "spec", "spec_hash"]).iter_rows()}
    for run_id, spec in specs_of(workspace).items():
        text, spec_hash = stored[run_id]
        assert sha256_json(orjson.loads(text)) == spec_hash
        assert spec.run_id == run_id
        assert RunSpec.read(spec.model_dump_json()) == spec


def test_sql_says_of_a_stored_spec_what_is_read_from_it(pristine: Path) -> None:
    workspace = workspace_of(pristine)
    with connect(workspace.lake) as connection:
        rows = connection.sql("select run_id, benchmark, samples, single, strategies from run_benchmarks").fetchall()
    specs = specs_of(workspace)
    assert {(run_id, benchmark): tuple(told) for run_id, benchmark, *told in rows if run_id in specs} == {
        (run_id, name): (one.samples, one.single, list(one.strategies))
        for run_id, spec in specs.items()
        for name, one in spec.benchmarks.items()
    }


def test_what_stands_and_what_is_pending_is_what_it_was(pristine: Path) -> None:
    plans = plans_of(workspace_of(pristine))
    assert plans.keys() == golden()["plans"].keys()
    for run_id, stages in golden()["plans"].items():
        assert plans[run_id] == stages, run_id


@pytest.mark.long
@pytest.mark.parametrize("kept", _COMPLETE)
def test_the_command_of_a_complete_run_asks_nobody_and_changes_nothing(
    kept: KeptRun, folder: Path, mock: MockEndpoint
) -> None:
    for command in kept.again:
        assert _run(kept, command, folder) == 0
        assert asked(mock) == [], command
    print(f"{mock.stats().get('model_lists', 0)} times the endpoint was asked for its models")  # noqa: T201
    run_ids = run_ids_of(workspace_of(folder), kept.model)
    assert _about(run_ids, _rows(folder)) == _about(run_ids, golden()["rows"])


@pytest.mark.long
@pytest.mark.parametrize("kept", _UNFINISHED)
def test_an_unfinished_run_asks_exactly_for_what_nobody_has_paid_for(
    kept: KeptRun, folder: Path, mock: MockEndpoint
) -> None:
    workspace, expected = workspace_of(folder), golden()["caught_up"][kept.model]
    (run_id,) = run_ids_of(workspace, kept.model)
    before, journaled = _calls(workspace, run_id), _journaled(workspace, run_id)

    with _without_journals_of_others(workspace, run_id):
        assert [_run(kept, command, folder) for command in kept.again] == expected["exit_codes"]

    assert asked(mock) == expected["asked"]
    after = _calls(workspace, run_id)
    assert before <= after
    made = Counter({name: attempts for name, attempts in (after - before).items() if name not in journaled})
    assert made.total() == len(mock.bodies)
    assert all(after[name] == 1 for name in journaled)
    foreseen = [
        (name, place)
        for stage in golden()["plans"][run_id].values()
        for *_, calls in stage["pending"]
        for name, _, place in calls
    ]
    assert {name for name, place in foreseen if place == "nowhere"} <= made.keys()
    assert made.keys().isdisjoint(name for name, place in foreseen if place != "nowhere")
    for table, rows in expected["rows"].items():
        columns = golden()["columns"][table]
        made_now = rows_of(workspace, table, columns, {"run_id": run_id})
        assert _without_rule_versions(made_now, columns) == _without_rule_versions(rows, columns), table
    assert not list((folder / "warehouse" / JOURNAL_FOLDER).glob(f"{run_id}.*"))


def test_a_port_that_another_program_has_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setattr(endpoint, "PORT", port)
        monkeypatch.setattr(endpoint, "_LOCK", tmp_path / "lock")
        with pytest.raises(PortTakenError, match=f"needs port {port} of 127.0.0.1"), kept_endpoint():
            pass


def _without_rule_versions(rows: list[list[Any]], columns: list[str]) -> list[list[Any]]:
    """What is graded now is graded by the rules of today: their version is in these columns of it, as it must be."""
    versioned = {"judge_config_hash": ("judge", "rule:"), "strategy_version": ("strategy", "plurality")}
    masked = [[*row] for row in rows]
    for column, (whose, prefix) in versioned.items():
        if column in columns:
            for row in masked:
                if str(row[columns.index(whose)]).startswith(prefix):
                    row[columns.index(column)] = None
    return masked


def _calls(workspace: Workspace, run_id: str) -> Counter[str]:
    """How many requests each of the run's calls in the lake took, by request hash."""
    attempts: Counter[str] = Counter()
    for name, number in workspace.lake.read("calls", {"run_id": run_id}, ["request_hash", "attempts"]).iter_rows():
        attempts[name] += number
    return attempts


@contextmanager
def _without_journals_of_others(workspace: Workspace, run_id: str) -> Iterator[None]:
    """What they have paid for counts for this run since then, so it would ask for less."""
    journals = (workspace.settings.warehouse / JOURNAL_FOLDER).glob("*.jsonl")
    others = [path for path in journals if not path.name.startswith(f"{run_id}.")]
    aside = [path.rename(path.with_suffix(".aside")) for path in others]
    yield
    for path, there in zip(others, aside, strict=True):
        there.rename(path)


def _journaled(workspace: Workspace, run_id: str) -> set[str]:
    """What the run's journals have."""
    stages = golden()["plans"][run_id]
    return {name for stage in stages for name in workspace.journals.finished_calls(run_id, stage)}
