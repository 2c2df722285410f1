"""Plugins that `shaberi doctor` looks at: it runs their code only if it is told to."""

from pathlib import Path

import pytest

from tests.commands import lake_of, run, run_without_dagster
from tests.e2e.conftest import target
from tests.mock_endpoint import MockEndpoint

pytestmark = pytest.mark.e2e
_CODE = """\
from pathlib import Path
Path({ran!r}).touch()
from shaberi_dagster import {base}


class Mine({base}):
    name = "{name}"
"""
_KINDS = {
    "passes": ("Pass", "mine"),
    "judges": ("Grader", "rule:mine"),
    "strategies": ("Strategy", "mine"),
}


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """What the plugins write when they are run."""
    return tmp_path / "ran"


@pytest.fixture
def environment(tmp_path: Path, ran: Path) -> dict[str, str]:
    folder = tmp_path / "mine"
    for kind, (base, name) in _KINDS.items():
        put(folder / kind / "mine.py", _CODE.format(ran=str(ran), base=base, name=name))
    put(
        folder / "benchmarks" / "own.yaml",
        "title: Own\ndescription: Own.\nscale_minimum: 0\nscale_maximum: 1\nreader: own_rows.read\n",
    )
    put(folder / "benchmarks" / "own_rows.py", f"from pathlib import Path\nPath({str(ran)!r}).touch()\n")
    put(folder / "benchmarks" / "own.jsonl", '{"question": "?"}\n')
    return lake_of(tmp_path) | {"SHABERI_PLUGINS": str(folder)}


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_the_doctor_parses_plugins_and_runs_them_only_when_it_is_told_to(
    environment: dict[str, str], ran: Path
) -> None:
    parsed = run("shaberi", "doctor", environment=environment).succeeded().out
    assert not ran.exists()
    for noun, name in (("pass", "mine"), ("rule", "rule:mine"), ("strategy", "mine")):
        assert f"ok    plugins: {noun}: {name} (parsed, not run: --plugins runs them)" in parsed

    told = run("shaberi", "doctor", "--plugins", environment=environment)
    assert ran.exists()
    assert (told.code, "Mine lacks " in told.out) == (3, True)


@pytest.mark.long
def test_commands_that_read_run_no_plugin(
    environment: dict[str, str], ran: Path, mock: MockEndpoint, tmp_path: Path
) -> None:
    run_without_dagster("run-evals", *target(mock, ("judge",)), "--limit", "1", environment=environment).succeeded()
    for command in (
        ["view-scores"],
        ["inspect-output"],
        ["run-evals", *target(mock, ("judge",)), "--dry-run"],
        ["run-evals", "--help"],
        ["shaberi", "sql"],
        ["shaberi", "sql", "leaderboard"],
        ["shaberi", "cost"],
        ["shaberi", "report", "--html", str(tmp_path / "report.html")],
        ["shaberi", "export", "--output", str(tmp_path / "out")],
    ):
        run(command[0], *command[1:], environment=environment).succeeded()
        assert not ran.exists(), command


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("passes/mine.py", "def :", "mine.py:1: SyntaxError"),
        ("passes/mine.py", "return 1", "mine.py:1: SyntaxError"),
        ("passes/mine.py", "x = 1\0", "mine.py: SyntaxError"),
        ("passes/mine.py", "(" * 3000, "mine.py:1: SyntaxError"),
        ("passes/mine.py", "class Mine:\n    name = 'other'\n", 'mine.py: has no class with name = "mine"'),
        ("judges/mine.py", "class Mine:\n    name = 'mine'\n", 'mine.py: has no class with name = "rule:mine"'),
        ("benchmarks/own_rows.py", "def read(", "own_rows.py:1: SyntaxError"),
        ("prompts/judging/own.jinja", "\n{% if %}", "own.jinja:2: "),
        ("benchmarks/own.yaml", "title: 5\n", "own.yaml:1: "),
        ("sql/queries/own.sql", "select from where", "own.sql: is no statement"),
    ],
)
def test_what_is_broken_is_found_without_running_it(
    environment: dict[str, str], ran: Path, file: str, text: str, complaint: str
) -> None:
    put(Path(environment["SHABERI_PLUGINS"]) / file, text)
    told = run("shaberi", "doctor", environment=environment)
    assert (told.code, [complaint in line for line in told.out.splitlines() if line.startswith("FAIL")]) == (3, [True])
    assert not ran.exists()


@pytest.mark.parametrize(
    "text",
    [
        "from elsewhere import Mine\n",
        "class Mine:\n    name: str = 'mine'\n",
        "def make(called):\n    class Mine:\n        name = called\n    return Mine\nMine = make('mine')\n",
    ],
    ids=["imported", "annotated", "made"],
)
def test_what_its_text_cannot_tell_is_no_fault(environment: dict[str, str], text: str) -> None:
    put(Path(environment["SHABERI_PLUGINS"]) / "passes" / "mine.py", text)
    run("shaberi", "doctor", environment=environment).succeeded()
