"""What `shaberi export` does with its options, and what it says about what it wrote."""

import json

import pytest

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.export import export, run_export
from shaberi_dagster.reports.blocks import Document, Sentences
from shaberi_dagster.reports.requests import RunSelection
from shaberi_dagster.util.errors import ConfigurationError
from tests.example_runs import ask, stored_run
from tests.permissions import read_only
from tests.results_tree import assert_valid_tree

pytestmark = pytest.mark.integration


def lines_of(document: Document) -> list[str]:
    return [line for block in document.blocks(None) if isinstance(block, Sentences) for line in block.lines]


def test_without_options_all_runs_go_to_the_folder_of_the_results(workspace, mock, settings, capsys) -> None:
    for tag in ("one", "two"):
        stored_run(workspace, ask(mock, tag=tag))

    code = run_export(settings, RunSelection())

    assert code == FINE
    assert assert_valid_tree(settings.results)["manifest"] == 2
    assert capsys.readouterr().out.startswith("2 runs as ")


def test_the_document_names_each_run_and_its_folder(workspace, mock, settings, tmp_path, capsys) -> None:
    stored_run(workspace, ask(mock, tag="one"))
    stored_run(workspace, ask(mock, tag="two"))

    selection = RunSelection(tags=["two"])
    run_export(settings, selection, output=tmp_path / "there", compact=True, as_json=True)

    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "results"
    assert [run["folder"] for run in document["runs"]] == [str(tmp_path / "there" / "mock-model" / "two")]


def test_a_run_that_cannot_be_written_is_a_failed_part(workspace, mock, settings) -> None:
    stored_run(workspace, ask(mock, tag="one"))
    (settings.results / "mock-model").mkdir(parents=True)
    (settings.results / "mock-model" / "one").write_text("in the way")

    assert run_export(settings, RunSelection()) == FAILED_PARTS


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"output_format": "csv"}, "--format must be one of results, shaberi-v1, requests, ensemble-cache, not 'csv'"),
        ({"output_format": "shaberi-v1"}, "--format shaberi-v1 needs --output"),
        ({"output_format": "results"}, "no lake in"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, arguments, complaint) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        run_export(settings, RunSelection(), **arguments)


def test_the_old_trees_have_no_compact_form(tmp_path) -> None:
    with pytest.raises(ConfigurationError, match="--compact is of --format results"):
        export(output=tmp_path, output_format="shaberi-v1", compact=True)


@pytest.mark.parametrize("output_format", ["results", "shaberi-v1"])
def test_a_bad_place_is_refused_before_anything_is_written(output_format, workspace, mock, settings, tmp_path) -> None:
    stored_run(workspace, ask(mock))
    file, locked, foreign = tmp_path / "file", tmp_path / "locked", tmp_path / "foreign"
    file.write_text("precious", encoding="utf-8")
    locked.mkdir()
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("precious", encoding="utf-8")
    for place, reason in (
        (file, f"{file} is no folder"),
        (file / "below", f"{file} is no folder"),
        (foreign, f"{foreign} is neither empty nor" if output_format == "results" else "nothing to export"),
    ):
        with pytest.raises(ConfigurationError, match=reason):
            run_export(settings, RunSelection(), output=place, output_format=output_format)
    with (
        read_only(locked),
        pytest.raises(ConfigurationError, match=f"{locked} cannot be written"),
    ):
        run_export(settings, RunSelection(), output=locked, output_format=output_format)
    assert sorted(path.name for path in foreign.iterdir()) == ["thesis.tex"]
