import asyncio
import threading
from typing import Any

import pytest

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.exchange.installation import Installation
from shaberi_dagster.journal.files import FileJournals
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.runs.workspace import EngineThread, Workspace, reporting_to
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.progress import LogReporter

pytestmark = pytest.mark.integration


def test_workspaces_of_one_spender_share_a_budget(settings: Settings) -> None:
    options = CallOptions(max_tokens_total=10)
    first, second, other = (Installation(settings, options=options, spender=name) for name in ("x", "x", "y"))
    assert first.budget is second.budget
    assert first.budget is not other.budget
    assert first.budget.max_tokens == 10


def test_every_run_and_stage_has_a_journal_of_its_own_whose_name_a_file_system_takes(workspace: Workspace) -> None:
    long = "m" * 200 + "@@" + "t" * 99
    runs = ["m@@t", "m@@u", long + "a", long + "b"]
    journals = FileJournals(workspace.settings.warehouse)
    paths = {journals.path(run, stage) for run in runs for stage in ("answers", "judgements")}
    assert len(paths) == 8
    for path in paths:
        path.parent.mkdir(exist_ok=True, parents=True)
        path.with_name(path.name + ".corrupt").touch()
    assert journals.path("m@@t", "answers").name == "m@@t.answers.jsonl"


def test_a_reporter_is_told_within_its_context_only(workspace: Workspace) -> None:
    told: list[str] = []
    reporter = LogReporter(told.append)
    with reporting_to(reporter):
        assert workspace.reporter is reporter
        workspace.reporter.note("inside")
    workspace.reporter.note("outside")
    assert told == ["inside"]


def test_the_engines_thread_runs_coroutines_and_hands_on_their_errors() -> None:
    thread = EngineThread({})

    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError("x")

    assert thread.run(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(KeyError):
        thread.run(fails())
    thread.close()
    assert "llm-engine" not in {one.name for one in threading.enumerate() if one is thread._thread}


def test_an_interrupt_cancels_the_work_and_waits_for_its_clean_up(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = EngineThread({})
    done = threading.Event()

    async def works() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            done.set()

    class Interrupted:
        def __init__(self, future: Any) -> None:
            self._future = future

        def result(self) -> None:
            raise KeyboardInterrupt

        def cancel(self) -> None:
            self._future.cancel()

    original = asyncio.run_coroutine_threadsafe

    def interrupted(work: Any, loop: Any) -> Any:
        future = original(work, loop)
        original(asyncio.sleep(0.05), loop).result()  # the work has begun
        return Interrupted(future)

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        thread.run(works())
    assert done.is_set()
    monkeypatch.undo()
    thread.close()


def test_a_process_has_one_engine(settings: Settings) -> None:
    assert Installation(settings).engine_thread() is Installation(settings).engine_thread()


def test_templates_are_not_taken_from_elsewhere_where_the_users_folder_is_missing(tmp_path: Any) -> None:
    settings = Settings.from_environment({"SHABERI_PROMPTS": str(tmp_path / "promts")})
    with pytest.raises(ConfigurationError, match="promts is no folder: SHABERI_PROMPTS names one"):
        Installation(settings).prompts.variants  # noqa: B018


def test_folders_are_where_the_environment_says(tmp_path: Any) -> None:
    own = Settings.from_environment({"SHABERI_WAREHOUSE": str(tmp_path / "w"), "SHABERI_DATASETS": "questions"})
    assert own.warehouse == tmp_path / "w"
    assert own.dagster_home == tmp_path / ".dagster"
    assert own.datasets is not None
    assert own.datasets.is_absolute()
    assert own.run_specs == tmp_path / "runspecs"
    empty = Settings.from_environment({"SHABERI_DATASETS": "", "DAGSTER_HOME": ""})
    assert empty.datasets is None
    assert (empty.warehouse.name, empty.dagster_home.name) == ("warehouse", ".dagster")
    assert (empty.prompts / "README.md").is_file()
    assert (empty.sql / "views").is_dir()
