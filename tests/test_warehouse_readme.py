"""The lines with which warehouse/README.md says that any client reads the lake."""

import re
import shlex
from pathlib import Path

import duckdb
import pytest

from shaberi_dagster.lake.schemas import TABLES
from tests.commands import SCRIPTS, Finished, run, run_without_dagster
from tests.mock_endpoint import running_mock

pytestmark = pytest.mark.e2e

_README = (Path(__file__).resolve().parent.parent / "warehouse" / "README.md").read_text(encoding="utf-8")
_BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", _README, re.MULTILINE | re.DOTALL)
_PYTHON = [text for language, text in _BLOCKS if language == "python"]
_SHELL = [text for language, text in _BLOCKS if language == "sh"]
_N_JUDGEMENTS = 2 * 2


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lake in `warehouse/`, in which one judgement was replaced."""
    folder = tmp_path_factory.mktemp("checkout")
    places = {"SHABERI_WAREHOUSE": folder / "warehouse", "DAGSTER_HOME": folder / ".dagster"}
    with running_mock() as mock:
        urls = ["--base-url", mock.base_url, "--judge-base-url", mock.base_url]
        options = ["--model", "m", *urls, "--limit", "1", "--judge-model", "a"]
        for more in (["--benchmark", "elyza,tengu", "--judge-model", "b"], ["--benchmark", "elyza", "--rejudge"]):
            made = run_without_dagster("run-evals", *options, *more, environment=places)
            made.succeeded()
    return folder


@pytest.mark.long
@pytest.mark.parametrize("code", _PYTHON, ids=lambda code: re.findall(r"(?:import|from) (\w+)", code)[0])
def test_the_python_lines_read_the_lake(
    code: str, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(checkout)
    exec(code, {})

    printed = capsys.readouterr()
    assert printed.err == ""
    expected = {"duckdb": "tengu", "polars": "tengu", "deltalake": "2"}
    assert expected[next(name for name in expected if name in code)] in printed.out


def test_there_are_lines_for_duckdb_polars_and_arrow() -> None:
    assert [name for code in _PYTHON for name in ("duckdb", "polars", "deltalake") if f"{name}" in code] == [
        "duckdb",
        "polars",
        "deltalake",
    ]


def test_the_shell_line_of_the_project_reads_the_lake(checkout: Path) -> None:
    command, *arguments = shlex.split(_SHELL[0])
    assert command == "shaberi"

    finished: Finished = run(command, *arguments, environment={"SHABERI_WAREHOUSE": checkout / "warehouse"}).succeeded()

    assert ["tengu", "2"] in [line.split() for line in finished.out.splitlines()]
    assert (SCRIPTS / command).is_file()


def test_the_arguments_of_the_duckdb_command_line_work_in_its_library(checkout: Path) -> None:
    command, flag, path, sql = shlex.split(_SHELL[1])
    assert (command, flag) == ("duckdb", "-readonly")

    with duckdb.connect(str(checkout / path), read_only=True) as lake:
        assert len(lake.sql(sql).fetchall()) == _N_JUDGEMENTS


def test_the_page_names_every_table_and_what_lies_beside_them(checkout: Path) -> None:
    layout = next(text for language, text in _BLOCKS if language == "text")

    there = {path.name for path in (checkout / "warehouse").iterdir()}
    beside = {"catalog.duckdb", "_format.json", "_journal", "_locks", "_sums"}
    assert beside | {"runs", "answers", "judgements", "scores", "metrics", "calls"} <= there <= beside | set(TABLES)
    assert [name for name in beside | set(TABLES) if name not in layout] == []
