"""A lake that can only be read: commands that write say so in one line, and those that read go on working."""

import shutil
from pathlib import Path

import pytest

from tests.commands import lake_of, run
from tests.disks import only_to_be_read
from tests.e2e.conftest import Evaluated, target

pytestmark = pytest.mark.e2e


@pytest.fixture
def locked(first_run: Evaluated, tmp_path: Path) -> dict[str, str]:
    """The environment of a copy of the first run."""
    folder = tmp_path / "copy"
    shutil.copytree(first_run.folder, folder)
    return lake_of(folder)


_WRITING = {
    "run-evals": ["--tag", "new"],
    "quick-eval": ["--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--datasets", "gsm8k"],
    "generate-cache": ["--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--datasets", "gsm8k"],
    "import-legacy": ["tree=."],
    "import-ensemble": ["."],
    "reprocess": ["--passes", "lang_mixing"],
    "compact": [],
}


@pytest.mark.parametrize("command", _WRITING)
def test_who_writes_is_refused_in_one_line(command: str, locked: dict[str, str], first_run: Evaluated) -> None:
    options = (
        [*target(first_run.mock, ("judge-a",)), *_WRITING[command]] if command == "run-evals" else _WRITING[command]
    )
    program = [command] if command in {"run-evals", "quick-eval"} else ["shaberi", command]
    asked = first_run.mock.stats()["requests"]
    with only_to_be_read(Path(locked["SHABERI_WAREHOUSE"])):
        complaint = run(program[0], *program[1:], *options, environment=locked).complaint
    assert complaint.startswith(f"{locked['SHABERI_WAREHOUSE']} cannot be written: this command writes into the lake")
    assert first_run.mock.stats()["requests"] == asked


@pytest.mark.parametrize("variable", ["SHABERI_WAREHOUSE", "DAGSTER_HOME"])
def test_a_file_in_the_place_of_a_folder_is_named(variable: str, tmp_path: Path, first_run: Evaluated) -> None:
    file = tmp_path / "file"
    file.write_text("precious", encoding="utf-8")
    finished = run("run-evals", *target(first_run.mock, ("j",)), environment=lake_of(tmp_path) | {variable: str(file)})
    assert (finished.code, finished.err.splitlines()[-1].startswith(f"error: {file} is no folder: ")) == (2, True)
    assert variable in finished.err.splitlines()[-1]


@pytest.mark.long
def test_who_reads_goes_on(locked: dict[str, str], first_run: Evaluated) -> None:
    with only_to_be_read(Path(locked["SHABERI_WAREHOUSE"])):
        run("view-scores", environment=locked).succeeded()
        run("shaberi", "sql", "leaderboard", environment=locked).succeeded()
        run("run-evals", *target(first_run.mock, ("judge-a",)), "--dry-run", environment=locked).succeeded()
