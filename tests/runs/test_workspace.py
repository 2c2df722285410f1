import asyncio
import threading
from typing import Any

import pytest

from shaberi_dagster.lake.journal.files import FileJournals
from shaberi_dagster.runs.workspace import EngineThread, Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError

pytestmark = pytest.mark.integration


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


def test_templates_are_not_taken_from_elsewhere_where_the_users_folder_is_missing(tmp_path: Any) -> None:
    settings = Settings.from_environment({"SHABERI_PROMPTS": str(tmp_path / "promts")})
    with pytest.raises(ConfigurationError, match="promts is no folder: SHABERI_PROMPTS names one"):
        Workspace(settings).prompts.variants  # noqa: B018
