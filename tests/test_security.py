"""The page of security: every promise names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

_ROOT = Path(__file__).resolve().parent.parent
_PAGE = (_ROOT / "docs" / "security.md").read_text(encoding="utf-8")
_TEST = re.compile(r"`((?:tests/)?[\w/]+\.py)::(\w+)`")
_PROMISES = [line for line in _PAGE.splitlines() if line.startswith("- ")]


@cache
def _tests_of(path: str) -> frozenset[str]:
    module = ast.parse((_ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef))


def test_there_are_promises() -> None:
    assert len(_PROMISES) > 20


@pytest.mark.parametrize("promise", _PROMISES, ids=lambda promise: promise[2:60])
def test_each_promise_names_tests_that_exist(promise: str) -> None:
    named = _TEST.findall(promise)
    assert named
    assert [f"{path}::{test}" for path, test in named if test not in _tests_of(path)] == []
