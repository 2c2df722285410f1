"""The catalog and `results/`: written once, whatever a command or Dagster run was about and however it ended."""

import errno
import json
import os

import polars as pl
import pytest

from shaberi_dagster.lake.catalog import CATALOG_NAME
from shaberi_dagster.runs import workspace as runs_workspace
from shaberi_dagster.runs.results.results_tree import is_exported
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.util.errors import EndpointError, PartitionBusyError
from tests.example_runs import ask, materialized, stored_run
from tests.results_tree import assert_valid_tree, problems

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine")]


def manifest_of(spec, workspace):
    path = workspace.settings.results / "mock-model" / spec.run_tag / "manifest.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    assert problems("manifest", content) == []
    return content


def test_what_is_within_something_larger_is_left_to_it(workspace, mock, written):
    with workspace.published_at_the_end():
        with workspace.published_at_the_end():
            materialized(stored_run(workspace, ask(mock)), workspace, "answers")
        workspace.publish()
        assert written == {}

    assert written == {"catalog": 1, "mock-model@@default": 1}


@pytest.mark.parametrize("stage", ["answers", "judgements"])
def test_an_interrupt_publishes_what_is_there(stage, workspace, mock, written, monkeypatch):
    spec = stored_run(workspace, ask(mock))

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("shaberi_dagster.runs.stages.judgements.Judgements.materialize", interrupted)
    if stage == "answers":
        monkeypatch.setattr("shaberi_dagster.runs.stages.answers.Answers.materialize", interrupted)
    with pytest.raises(KeyboardInterrupt), workspace.published_at_the_end():
        materialized(spec, workspace)

    assert written == {"catalog": 1, spec.run_id: 1}
    content = manifest_of(spec, workspace)
    assert content["status"] == "partial"
    assert content["benchmarks"]["tengu"]["incomplete_parts"][-1] == "judgements judge-a"
    assert assert_valid_tree(workspace.settings.results)["answer"] == (5 if stage == "judgements" else 0)


@pytest.mark.parametrize("stage", ["judgements", "pass_outputs"])
def test_a_stage_that_fails_is_published(stage, workspace, mock, written):
    guard = {"passes": ["safety_check"], "pass_options": ["safety_check.model=guard"]}
    spec = stored_run(workspace, ask(mock, **(guard if stage == "pass_outputs" else {})))

    materialized(spec, workspace, "answers")
    mock.options.key = "changed"
    with pytest.raises(EndpointError), workspace.published_at_the_end():
        materialize(stage, spec.run_id, ["tengu"], workspace)

    assert written == {"catalog": 1, spec.run_id: 1}
    content = manifest_of(spec, workspace)
    assert content["status"] == "error"
    assert "refuses us" in content["benchmarks"]["tengu"]["error"]
    assert assert_valid_tree(workspace.settings.results)["answer"] == 5


def test_a_run_that_another_process_works_on_is_published_by_that(workspace, mock, written):
    spec = stored_run(workspace, ask(mock))
    with (
        workspace.journals.open(spec.run_id, "answers"),
        pytest.raises(PartitionBusyError),
        workspace.published_at_the_end(),
    ):
        materialize("answers", spec.run_id, ["tengu"], workspace)

    assert written == {"catalog": 1}


def test_a_process_that_was_killed_leaves_a_manifest_that_says_running(workspace, mock):
    spec = stored_run(workspace, ask(mock))
    materialized(spec, workspace)  # and nothing is published

    assert manifest_of(spec, workspace)["status"] == "running"
    assert not is_exported(workspace.lake, spec.run_id, workspace.settings.results)
    assert not (workspace.settings.warehouse / CATALOG_NAME).exists()


def test_a_full_disk_is_told_and_keeps_what_was_there(workspace, mock, monkeypatch):
    with workspace.published_at_the_end():
        spec = stored_run(workspace, ask(mock))
        materialized(spec, workspace)
    notes = []
    workspace.default_reporter.note = notes.append
    root = workspace.settings.results
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    workspace.lake.replace("answers", workspace.lake.read("answers").head(1), {"run_id": spec.run_id})
    workspace.unpublished[spec.run_id] = {}

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    workspace.publish()

    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    (note,) = notes
    assert "No space left on device; `shaberi export` writes them" in note


def test_what_is_odd_in_the_lake_stops_nobody_and_no_other_run(workspace, mock):
    for tag in ("odd", "sane"):
        workspace.unpublished[stored_run(workspace, ask(mock, tag=tag)).run_id] = {}
    row = workspace.lake.read("runs", {"run_tag": "odd"}).with_columns(spec=pl.lit("[]"))
    workspace.lake.replace("runs", row, {"run_tag": "odd"})
    notes = []
    workspace.default_reporter.note = notes.append

    workspace.publish()

    assert len(notes) == 1
    assert "the results of run mock-model@@odd in" in notes[0]
    assert [path.name for path in workspace.settings.results.glob("*/*/artifacts")] == ["artifacts"]


def test_a_catalog_that_cannot_be_written_is_told_and_the_results_are_there(workspace, mock, monkeypatch):
    def fails(_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(runs_workspace, "refresh_catalog", fails)
    notes = []
    workspace.default_reporter.note = notes.append
    workspace.unpublished[stored_run(workspace, ask(mock)).run_id] = {}

    workspace.publish()

    place = workspace.settings.warehouse
    assert notes == [f"the catalog of {place} could not be written: Read-only file system; its next reader tries again"]
    assert assert_valid_tree(workspace.settings.results)["manifest"] == 1
