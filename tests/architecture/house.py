"""The structure of the package, read from its source: rooms, floors, circles, lines of code.

A room is a package below `shaberi_dagster`, or a module at its root. Every import counts: those at the top, those inside
functions and of types only, and modules named in a string that something loads later.
"""

import ast
import io
import sys
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

NAME = "shaberi_dagster"
ROOT = Path(__file__).parents[2] / NAME
DOOR = f"{NAME}.definitions"
"""The module that other processes load by its name, as Dagster stores it: no import of this process."""
Graph = Mapping[str, Collection[str]]
"""Each node with those that it needs."""


class Place(StrEnum):
    """The place in a file where an import stands."""

    TOP = "top"
    FUNCTION = "function"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class Import:
    """One import of a module of the package by another."""

    importer: str
    imported: str
    place: Place
    line: int


@cache
def paths() -> Mapping[str, Path]:
    """Return the file of each module of the package."""
    parts = {path: path.relative_to(ROOT.parent).with_suffix("").parts for path in sorted(ROOT.rglob("*.py"))}
    return {".".join(part for part in names if part != "__init__"): path for path, names in parts.items()}


@cache
def modules() -> Mapping[str, ast.Module]:
    """Parse every module of the package, by its dotted name."""
    return {name: ast.parse(path.read_text(encoding="utf-8"), str(path)) for name, path in paths().items()}


def _module_of(name: str) -> str | None:
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return name or None


@cache
def imports_in_functions(module: str) -> Collection[ast.Import | ast.ImportFrom]:
    """Return the import statements inside the functions of a module."""
    functions = (node for node in _nodes(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    within = (node for function in functions for node in ast.walk(function))
    return {node for node in within if isinstance(node, ast.Import | ast.ImportFrom)}


@cache
def _nodes(module: str) -> list[ast.AST]:
    return list(ast.walk(modules()[module]))


def _docstrings(nodes: Iterable[ast.AST]) -> Iterator[ast.Constant]:
    """Yield the strings that stand as statements: docstrings of modules, classes, functions and attributes."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


@cache
def imports() -> tuple[Import, ...]:
    """List the imports within the package."""
    return tuple(found for name in modules() for found in _imports_of(name))


def _imports_of(importer: str) -> Iterator[Import]:
    docstrings = set(_docstrings(_nodes(importer)))
    for node in _nodes(importer):
        place = Place.FUNCTION if node in imports_in_functions(importer) else Place.TOP
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom(module=str(module)):
                names = [f"{module}.{alias.name}" for alias in node.names]
            case ast.Constant(value=str(text)) if (
                text.startswith(f"{NAME}.") and text != DOOR and node not in docstrings
            ):
                names, place = [text.partition(":")[0]], Place.STRING
            case _:
                continue
        for name in names:
            imported = _module_of(name)
            if imported is not None and imported != importer:
                yield Import(importer, imported, place, node.lineno)


def room(module: str) -> str:
    """Return the room of a module: the first part of its name below the package."""
    return module.split(".")[1] if "." in module else "__init__"


def rooms() -> list[str]:
    """List the packages below the package, and the modules at its root."""
    return sorted({room(module) for module in modules()})


def packages() -> list[str]:
    """List the packages below the package."""
    return sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


def root_modules() -> list[str]:
    """List the modules at the package's root."""
    return sorted(path.stem for path in ROOT.glob("*.py"))


def needs_of_rooms() -> Graph:
    """Map each room to the rooms that it imports."""
    pairs = {(room(found.importer), room(found.imported)) for found in imports()}
    return {name: {needed for needing, needed in pairs if needing == name != needed} for name in rooms()}


def needs_of_modules() -> Graph:
    """Map each module to the modules that it imports."""
    pairs = {(found.importer, found.imported) for found in imports()}
    return {name: {needed for needing, needed in pairs if needing == name} for name in modules()}


def _components(graph: Graph) -> Mapping[str, int]:
    names = sorted(graph)
    matrix = np.array([[needed in graph[name] for needed in names] for name in names], dtype=np.int8)
    _, labels = connected_components(csr_array(matrix), directed=True, connection="strong")
    return dict(zip(names, labels.tolist(), strict=True))


def circles(graph: Graph) -> list[list[str]]:
    """List the groups of nodes that need one another."""
    label = _components(graph)
    groups = [[name for name in graph if label[name] == number] for number in sorted(set(label.values()))]
    return [group for group in groups if len(group) > 1]


def floors(graph: Graph) -> Mapping[str, int]:
    """Map each node to its floor: one above the highest of those that it needs. A circle shares a floor."""
    label = _components(graph)
    below = {
        number: {label[needed] for name in graph if label[name] == number for needed in graph[name]} - {number}
        for number in set(label.values())
    }

    @cache
    def floor(number: int) -> int:
        return 1 + max(map(floor, below[number]), default=0)

    return {name: floor(label[name]) for name in graph}


def lines_of_code(*rooms_in: str) -> int:
    """Count the lines of the package's Python, or of some rooms, that are neither blank nor comment nor docstring."""
    return sum(len(lines_in(path)) for name, path in paths().items() if not rooms_in or room(name) in rooms_in)


@cache
def lines_in(path: Path) -> Collection[int]:
    """Return the numbers of a file's lines of code."""
    source = path.read_text(encoding="utf-8")
    idle = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in idle
        for line in range(token.start[0], token.end[0] + 1)
    }
    for text in _docstrings(ast.walk(ast.parse(source))):
        lines -= set(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return lines


def nodes_of(*kinds: type[ast.AST]) -> list[ast.AST]:
    """List the nodes of some kinds in the package."""
    return [node for name in modules() for node in _nodes(name) if isinstance(node, kinds)]


def modules_with_private_names() -> list[str]:
    """List the modules that import a private module or name of a library."""
    return sorted(name for name in modules() if any(map(_is_private, _nodes(name))))


def _is_private(node: ast.AST) -> bool:
    match node:
        case ast.Import():
            names = [alias.name for alias in node.names]
        case ast.ImportFrom(module=str(module)):
            names = [f"{module}.{alias.name}" for alias in node.names]
        case _:
            return False
    foreign = (name.split(".") for name in names)
    return any(
        part.startswith("_") and not part.startswith("__") and parts[0] not in {NAME, *sys.stdlib_module_names}
        for parts in foreign
        for part in parts
    )
