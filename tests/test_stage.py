"""What the stages that call share."""

from dataclasses import replace

import pytest

from shaberi_dagster.llm.journal import Journal
from shaberi_dagster.progress import LogReporter
from shaberi_dagster.stage import calling
from shaberi_dagster.workspace import Workspace

pytestmark = pytest.mark.unit


def test_unreadable_lines_of_a_journal_are_set_aside_and_said(workspace: Workspace) -> None:
    path = workspace.journal_path("m@@t", "answers")
    Journal.open(path, "m@@t", "answers").close()
    with path.open("ab") as file:
        file.write(b"\xff not a record\n")
    said: list[str] = []
    with calling("m@@t", "answers", replace(workspace, default_reporter=LogReporter(said.append))):
        pass
    assert len(said) == 1
    assert said[0].startswith("1 unreadable lines of the journal were set aside in ")
    assert path.with_name(path.name + ".corrupt").read_bytes() == b"\xff not a record\n"
