"""The tests' own way to run commands: as processes that differ from a shell's only in their start."""

from pathlib import Path

import pytest

from tests.commands import make_programs, run, run_anew

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    "arguments",
    [("shaberi", "--help"), ("shaberi", "sql", "from answers"), ("view-scores", "--nonsense"), ("run-evals",)],
    ids=" ".join,
)
def test_a_command_ends_as_it_does_when_a_shell_starts_it(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = {"SHABERI_WAREHOUSE": "評価"}

    finished = run(*arguments, environment=own)

    command, *rest = arguments
    program = make_programs(tmp_path / "programs") / "bin" / command
    assert finished == run_anew(*arguments, environment=own) == run_anew(str(program), *rest, environment=own)
