"""Commands are wiring: what they find out, do and say stands below them."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shaberi_dagster import cli
from shaberi_dagster.cli import shaberi

pytestmark = pytest.mark.unit

_FOLDER = Path(cli.__file__).parent
_HOW_COMMANDS_START = {
    "start.py",
    "interrupts.py",
    "command.py",
    "options.py",
    "declared.py",
    "output.py",
}
_COMMANDS = sorted(path for path in _FOLDER.glob("*.py") if path.name not in _HOW_COMMANDS_START)
_WORK = {"polars", "duckdb", "numpy", "pyarrow", "orjson", "subprocess", "socket", "shutil"}
_PRINTING = {"print", "echo", "secho", "write", "write_text", "write_bytes"}


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def _outside_of_complaints(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those of errors that are raised, whose texts stand where they are raised."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.Raise):
            yield node
            yield from _outside_of_complaints(node)


@pytest.mark.parametrize("path", _COMMANDS, ids=lambda path: path.stem)
def test_a_command_neither_computes_nor_formats_nor_prints_by_itself(path: Path) -> None:
    tree = _parsed(path)

    assert sorted({*_imported(tree)} & _WORK) == []
    for node in _outside_of_complaints(tree):
        where = f"{path.name}:{getattr(node, 'lineno', 0)}"
        assert not isinstance(node, ast.JoinedStr), f"{where} puts a text together"
        assert not isinstance(node, ast.For | ast.While), f"{where} goes through something"
        if isinstance(node, ast.BinOp):
            assert isinstance(node.op, ast.BitOr | ast.Add), f"{where} computes"
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            assert name not in _PRINTING, f"{where} prints"


def test_a_command_is_announced_by_the_first_line_of_its_help() -> None:
    commands = shaberi.app.resolved_commands()

    lines = {name: line for under in shaberi.COMMANDS.values() for name, line in under.items()}
    assert lines.keys() <= commands.keys()
    said = {name: commands[name].default_command.__doc__ for name in lines if commands[name].default_command}
    assert said == {name: lines[name] for name in said}


def test_a_command_loads_the_module_of_no_other_command() -> None:
    code = """
import sys
from shaberi_dagster.cli.shaberi import app
from shaberi_dagster.cli.options import call
for arguments in (["--help"], ["cost", "--help"]):
    call(app, arguments)
names = {name.removeprefix("shaberi_dagster.cli.") for name in sys.modules if name.startswith("shaberi_dagster.cli.")}
print(*sorted(names), file=sys.stderr)
sys.exit(bool({"dagster", "httpx2", "polars"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)

    assert done.stderr.split() == ["declared", "options", "output", "shaberi"]


def test_an_option_stands_in_one_place_only() -> None:
    seen: dict[str, set[str]] = {}
    for path in (one for one in _FOLDER.parent.rglob("*.py") if one.parent.name != "defs"):
        for node in ast.walk(_parsed(path)):
            if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"Field", "option"}):
                continue
            said = (
                next((one.value for one in node.keywords if one.arg == "description"), None) or [*node.args, None][-1]
            )
            if isinstance(said, ast.Constant) and isinstance(said.value, str):
                seen.setdefault(said.value, set()).add(f"{path.name}:{node.lineno}")

    assert {said: places for said, places in seen.items() if len(places) > 1} == {}
