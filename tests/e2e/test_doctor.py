"""`shaberi doctor` as a user meets it."""

import re
from pathlib import Path

import pytest

from shaberi_dagster.lake.formats import FORMAT
from tests.commands import lake_of, run, run_anew
from tests.e2e.conftest import Evaluated

pytestmark = [pytest.mark.e2e, pytest.mark.long]


def test_a_new_installation_is_fine_and_its_lake_empty() -> None:
    finished = run_anew("shaberi", "doctor").succeeded()

    assert "ok    lake: empty; run run-evals" in finished.out
    assert "ok    Dagster instance" in finished.out
    assert "FAIL" not in finished.out


def test_a_lake_in_order_is_fine_and_keys_are_only_said_to_be_set(evaluated: Evaluated) -> None:
    keys = {"OPENAI_API_KEY": "sk-canary-0123456789", "SHABERI_KEY_HOSTS": "MY_KEY=gpu.example:8001,localhost"}
    environment = lake_of(evaluated.folder) | keys
    finished = run("shaberi", "doctor", environment=environment).succeeded()

    assert f"ok    lake format: {FORMAT}\n" in finished.out
    assert re.search(r"^ok    tables: .*\bjudgements\b", finished.out, re.MULTILINE)
    assert "ok    stale judgements: none" in finished.out
    assert "ok    journals: none left over" in finished.out
    assert "ok    OPENAI_API_KEY: set, bound to https://api.openai.com\n" in finished.out
    assert re.search(r"^ok    keys that are not set: .*\bSHABERI_API_KEY\b.*\bMY_KEY\b", finished.out, re.MULTILINE)
    assert "canary" not in finished.out + finished.err


def test_a_missing_file_of_a_table_is_found(evaluated: Evaluated) -> None:
    victim = next((evaluated.folder / "warehouse" / "answers").rglob("*.parquet"))
    victim.unlink()

    finished = evaluated.shaberi("doctor")

    assert finished.code == 3
    assert f"FAIL  table answers: answers/benchmark={victim.parent.name.removeprefix('benchmark=')}/" in finished.out
    assert "is damaged: it is missing; it held 5 rows of run " in finished.out
    assert "Traceback" not in finished.err


def test_a_folder_without_prompts_is_found(tmp_path: Path) -> None:
    finished = run("shaberi", "doctor", environment={"SHABERI_PROMPTS": tmp_path})

    assert finished.code == 3
    assert f"FAIL  prompts: 0 templates in {tmp_path}" in finished.out


def test_the_format_of_an_older_and_of_a_newer_lake_is_told(evaluated: Evaluated) -> None:
    file = evaluated.folder / "warehouse" / "_format.json"
    file.unlink()
    older = evaluated.shaberi("doctor")
    assert older.code == 3
    assert "was made before 1.0 (format 1): export it with the version of the tag before-1.0" in older.out

    file.write_text('{"format": 99}', encoding="utf-8")
    newer = evaluated.shaberi("doctor")
    assert newer.code == 3
    assert "FAIL  lake format: the lake in" in newer.out
    assert f"has format 99 and this program knows only {FORMAT}" in newer.out
