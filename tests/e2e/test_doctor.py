"""`shaberi doctor` as a user meets it."""

from pathlib import Path

import pytest

from tests.commands import lake_of, run
from tests.e2e.conftest import Evaluated

pytestmark = pytest.mark.e2e


def test_a_new_installation_is_fine_and_its_lake_empty() -> None:
    finished = run("shaberi", "doctor").succeeded()

    assert "ok    lake: empty; run run-evals" in finished.out
    assert "ok    Dagster instance" in finished.out
    assert "FAIL" not in finished.out


def test_a_lake_in_order_is_fine_and_keys_are_only_said_to_be_set(evaluated: Evaluated) -> None:
    environment = lake_of(evaluated.folder) | {"OPENAI_API_KEY": "sk-canary-0123456789"}
    finished = run("shaberi", "doctor", environment=environment).succeeded()

    assert "ok    table judgements: version" in finished.out
    assert "ok    stale judgements: 0 rows" in finished.out
    assert "ok    journals: none left over" in finished.out
    assert "ok    OPENAI_API_KEY: set" in finished.out
    assert "ok    SHABERI_API_KEY: not set" in finished.out
    assert "canary" not in finished.out + finished.err


def test_a_missing_file_of_a_table_is_found(evaluated: Evaluated) -> None:
    victim = next((evaluated.folder / "warehouse" / "answers").rglob("*.parquet"))
    victim.unlink()

    finished = evaluated.shaberi("doctor")

    assert finished.code == 3
    assert "FAIL  table answers: version" in finished.out
    assert "1 files missing" in finished.out
    assert "Traceback" not in finished.err


def test_a_folder_without_prompts_is_found(tmp_path: Path) -> None:
    finished = run("shaberi", "doctor", environment={"SHABERI_PROMPTS": tmp_path})

    assert finished.code == 3
    assert f"FAIL  prompts: 0 templates in {tmp_path}" in finished.out
