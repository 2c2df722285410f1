"""The hash of a definition's structure: equal for code that does the same in the same way, whatever its prompts say."""

import ast
import hashlib
import re
from collections.abc import Iterator
from typing import Any

_SKIPPED = ("annotation", "returns", "decorator_list", "type_comment", "type_params", "ctx", "kind")
_PROSE = re.compile(r"\s|[^\x00-\x7f]")
_TELLS = re.compile(r"(^|[._])(print|log\w*)\b")


def structure(definition: ast.AST) -> str:
    """Return the hash of a definition; it is the same in all versions of Python.

    Annotations, decorators, docstrings, what is printed or logged, the elements of lists of texts and prose (texts
    with white space or beyond ASCII) do not count; prose that is compared, looked up or given to a method does.
    """
    return hashlib.sha256(repr(_flat(definition, set(_deciding(definition)))).encode()).hexdigest()


def _flat(node: Any, deciding: set[int]) -> Any:
    """Return a node as nested lists and texts."""
    match node:
        case list():
            return [_flat(part, deciding) for part in node if not _tells(part)]
        case ast.Constant() if _is_prose(node, deciding):
            return "…"
        case ast.JoinedStr() if any(_is_prose(part, deciding) for part in node.values):
            return [_flat(part, deciding) for part in node.values if isinstance(part, ast.FormattedValue)]
        case ast.List() if node.elts and all(isinstance(getattr(element, "value", None), str) for element in node.elts):
            return "[str]"
        case ast.Raise(exc=ast.Call(func=error)):
            return ["raise", _flat(error, deciding)]
        case ast.AST():
            fields = ((name, value) for name, value in ast.iter_fields(node) if name not in _SKIPPED)
            parts = [(name, _flat(value, deciding)) for name, value in fields if value is not None]
            return [type(node).__name__, *parts]
    return repr(node)


def _deciding(definition: ast.AST) -> Iterator[int]:
    """Yield the ids of nodes whose prose counts."""
    for node in ast.walk(definition):
        is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        is_pattern = is_method and ast.unparse(node.func).startswith("re.")  # type: ignore[attr-defined]
        if isinstance(node, (ast.Compare, ast.Subscript)) or is_pattern:
            yield from map(id, ast.walk(node))
        if is_method:
            for argument in (node.func.value, *node.args):  # type: ignore[attr-defined]
                yield from map(id, (argument, *getattr(argument, "elts", ())))


def _is_prose(node: ast.AST, deciding: set[int]) -> bool:
    value = getattr(node, "value", None)
    return isinstance(value, str) and _PROSE.search(value) is not None and id(node) not in deciding


def _tells(node: Any) -> bool:
    """Return whether a statement is a text, prints or logs."""
    if not isinstance(node, ast.Expr):
        return False
    value = node.value
    is_call = isinstance(value, ast.Call) and _TELLS.search(ast.unparse(value.func)) is not None
    return isinstance(value, ast.Constant) or is_call
