"""Whoever reads a command's output may go at any moment: the work is done all the same, and the exit code tells of it."""

import os
import subprocess
from pathlib import Path

import pytest
from aiohttp import web

from shaberi_dagster import open_lake
from shaberi_dagster.lake.store import Lake
from tests.commands import SCRIPTS, lake_of, make_programs
from tests.deciding.deciding import judging
from tests.e2e.conftest import MODEL, Evaluated, target
from tests.example_runs import write_questions
from tests.exchange.caches import ensemble, response, write
from tests.exchange.trees.trees import LegacyTree, rows_of
from tests.mock_endpoint import running_mock
from tests.sizes import some

pytestmark = [pytest.mark.e2e, pytest.mark.long]
_PIPES = {
    "both, at once": "2>&1 | true",
    "both, after a line": "2>&1 | head -1",
    "both, after four lines": "2>&1 | head -4",
    "stdout": "2> /dev/null | true",
    "stdout, after a line": "2> /dev/null | head -1",
    "stderr": "2>&1 > /dev/null | true",
}
_MAIN = [_PIPES["both, at once"], _PIPES["stdout, after a line"]]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_programs(tmp_path_factory.mktemp("programs") / "programs") / "bin"


def code_into(pipe: str, folder: Path, *command: str | Path) -> int:
    """The exit code of a command whose output goes through a pipe of the shell."""
    shell = ["bash", "-c", f'"$@" {pipe}; exit ${{PIPESTATUS[0]}}', "bash", *command]
    return subprocess.run(shell, env=os.environ | lake_of(folder), stdout=subprocess.DEVNULL, check=False).returncode


def count(folder: Path, sql: str) -> int:
    ((number,),) = open_lake(folder / "warehouse").sql(sql).rows()
    return int(number)


def n_files(folder: Path) -> int:
    """How many files the table of judgements has."""
    return len(Lake(folder / "warehouse").delta("judgements").file_uris())


@pytest.mark.acceptance
@pytest.mark.parametrize("pipe", some(_PIPES.values(), 2))
def test_runs_are_evaluated_and_reprocessed_in_full(
    pipe: str, programs: Path, evaluated: Evaluated, tmp_path: Path
) -> None:
    asked = [*target(evaluated.mock, ("judge-a",)), "--tag", "more", "--limit", "3"]
    assert code_into(pipe, evaluated.folder, programs / "run-evals", *asked) == 0
    assert count(evaluated.folder, "select count(*) from judgements where run_tag = 'more' and status = 'ok'") == 12

    assert code_into(pipe, evaluated.folder, programs / "shaberi", "reprocess", "--passes", "repetition") == 0
    made = "select count(distinct run_tag) from lake.metrics where pipeline = 'repetition'"
    assert count(evaluated.folder, made) == 2

    assert code_into(pipe, evaluated.folder, programs / "shaberi", "export", "--output", tmp_path / "out") == 0
    assert len(list((tmp_path / "out").rglob("manifest.json"))) == 2
    quick = ["--model", "m", "--datasets", "gsm8k", "--sample", "2", "--ensemble", "2", "--strategy", "plurality"]
    where = ["--base-url", evaluated.mock.base_url]
    assert code_into(pipe, evaluated.folder, programs / "quick-eval", *quick, *where) == 0
    assert count(evaluated.folder, "select count(*) from answers where benchmark = 'gsm8k' and model = 'm'") >= 4

    before = n_files(evaluated.folder)
    assert code_into(pipe, evaluated.folder, programs / "shaberi", "compact") == 0
    assert n_files(evaluated.folder) < before


@pytest.mark.parametrize("pipe", _MAIN)
def test_other_work_is_done_in_full(pipe: str, programs: Path, tmp_path: Path) -> None:
    tree = LegacyTree(tmp_path / "shisa")
    tree.answers("rakuda", rows_of("rakuda", ["一", "二", "三"]))
    tree.judgements("rakuda", rows_of("rakuda", ["一", "二", "三"], [7, 8, 9]), "a")
    write(tmp_path / "cache" / "ensemble.json", ensemble({"q-1": [response("a"), response("b")]}))
    questions = write_questions(tmp_path / "questions", 48)
    with running_mock(script=judging({"strong": 2.0})) as mock:
        where = ["--base-url", mock.base_url, "--judge-base-url", mock.base_url, "--questions", questions]
        shaberi = programs / "shaberi"
        asked = ["--judge", "judge-a", "--benchmark", "rakuda", *where]

        assert code_into(pipe, tmp_path, shaberi, "import-legacy", tree.root) == 0
        assert count(tmp_path, "select count(*) from judgements where judge = 'a'") == 3
        assert code_into(pipe, tmp_path, shaberi, "import-ensemble", tmp_path / "cache") == 0
        assert count(tmp_path, "select count(*) from answers where benchmark <> 'rakuda'") == 2
        assert code_into(pipe, tmp_path, shaberi, "decide", "weak", "strong", *asked) == 0
        assert count(tmp_path, "select count(*) from decisions where state = 'decided'") > 0


@pytest.mark.parametrize("pipe", _MAIN)
def test_a_failure_is_a_failure_whoever_reads_of_it(pipe: str, programs: Path, tmp_path: Path) -> None:
    refused = {"error": {"message": "no memory"}}
    with running_mock(
        script=lambda body, _: web.json_response(refused, status=400) if body["model"] == "judge" else "an answer"
    ) as mock:
        asked = [*target(mock, ("judge",)), "--benchmark", "rakuda", "--limit", "1"]
        assert code_into(pipe, tmp_path, programs / "run-evals", *asked) == 3
    assert code_into(pipe, tmp_path, programs / "shaberi", "reprocess", "--passes", "no-such") == 2


@pytest.mark.parametrize("pipe", _MAIN)
@pytest.mark.parametrize(
    "command",
    [
        ["shaberi", "sql", "select * from range(300000)", "--format", "csv"],
        ["shaberi", "sql", "select * from range(3000)"],
        ["inspect-output", "--plain"],
        ["view-scores"],
        ["shaberi", "cost"],
        ["shaberi", "doctor"],
    ],
    ids=" ".join,
)
def test_commands_that_read_end_quietly(
    command: list[str], pipe: str, programs: Path, evaluated: Evaluated, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    quiet = pipe.replace("2> /dev/null", f"2> {told}")
    assert code_into(quiet, evaluated.folder, programs / command[0], *command[1:]) == 0
    assert not told.exists() or "Error" not in told.read_text("utf-8")


def test_the_installed_command_does_so_too(evaluated: Evaluated) -> None:
    reprocess = [SCRIPTS / "shaberi", "reprocess", "--model", MODEL, "--passes", "repetition"]
    assert code_into("2>&1 | true", evaluated.folder, *reprocess) == 0
    made = "select count(distinct run_tag) from lake.metrics where pipeline = 'repetition'"
    assert count(evaluated.folder, made) == 1
