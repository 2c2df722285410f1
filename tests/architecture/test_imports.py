"""What import-linter cannot say: packages from outside, wherever they are imported."""

import ast

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
