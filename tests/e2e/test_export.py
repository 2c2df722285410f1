"""`shaberi export` as a user meets it."""

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Evaluated

pytestmark = pytest.mark.e2e

_FILES = 4 + 2 * 4  # of four benchmarks: the answers, and the judgements of two judges


def test_a_run_is_exported_as_the_old_suite_wrote_it(first_run: Evaluated, tmp_path: Path) -> None:
    output = tmp_path / "export"

    said = first_run.shaberi("export", "--format", "shaberi-v1", "--output", output).succeeded()

    files = sorted(path.relative_to(output).as_posix() for path in output.rglob("*.json") if path.parent != output)
    assert len(files) == _FILES
    assert "data/judgements/judge_judge-b/yuzuai__rakuda-questions/org__model.json" in files
    assert said.out == f"4 files with 21 answers and 8 with 42 judgements ({_size(output):.1f} MB) in {output}\n"
    assert said.err.splitlines()[-1] == "export shaberi-v1 1/1, 0 failed"


def test_what_was_exported_is_one_json_document(first_run: Evaluated, tmp_path: Path) -> None:
    said = first_run.shaberi(
        "export", "--format", "shaberi-v1", "--output", tmp_path, "--model", "org/model", "--json"
    ).succeeded()

    assert json.loads(said.out)["files"] == {"answers": 4, "judgements": 8}


def test_what_cannot_be_exported_is_one_line(first_run: Evaluated, tmp_path: Path) -> None:
    (tmp_path / "precious.json").write_text("{}", encoding="utf-8")

    assert (
        "name another folder" in first_run.shaberi("export", "--format", "shaberi-v1", "--output", tmp_path).complaint
    )
    assert (
        "must be one of results, shaberi-v1"
        in first_run.shaberi("export", "--output", tmp_path, "--format", "x").complaint
    )
    missing = first_run.shaberi(
        "export", "--format", "shaberi-v1", "--output", tmp_path / "new", "--tag", "never"
    ).complaint
    assert missing.startswith("nothing to export")


def _size(output: Path) -> float:
    return sum(path.stat().st_size for path in (output / "data").rglob("*.json")) / 1e6
