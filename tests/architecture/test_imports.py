"""What import-linter cannot say: packages from outside, wherever they are imported."""

import ast
from importlib import import_module
from importlib.util import find_spec

import pytest

from tests.architecture import house


@pytest.mark.unit
def test_dagster_is_imported_in_defs_only() -> None:
    importing = {
        house.room(module)
        for module, tree in house.modules().items()
        for node in ast.walk(tree)
        for name in _imported(node)
        if name.partition(".")[0].startswith("dagster")
    }
    assert importing == {"defs"}


def _imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom(module=str(module)):
            return [module]
        case _:
            return []


@pytest.mark.integration
def test_scripts_import_what_is_there() -> None:
    """Nothing checks the types of scripts beside the package, and some are run once a year."""
    scripts = [path for folder in ("perf", "notebooks", "docs") for path in (house.ROOT.parent / folder).glob("*.py")]
    missing = [
        f"{path.name}: {node.module}.{alias.name}"
        for path in scripts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in {house.NAME, "tests", "perf"}
        for alias in node.names
        if not hasattr(import_module(str(node.module)), alias.name) and find_spec(f"{node.module}.{alias.name}") is None
    ]
    assert len(scripts) > 15
    assert missing == []
