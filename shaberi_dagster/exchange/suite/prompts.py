"""Reading of the functions that make prompts: texts with fields, as templates."""

import ast
from collections.abc import Mapping
from typing import Any

_NULLABLE = frozenset({"{criteria}", "{category}", "{upstream_id}"})
_SHOWN = 80


class RefusedError(Exception):
    """Something of the suite's source is not read; the message names file and line."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")


def refused(path: str, node: ast.stmt | ast.expr, reason: str) -> RefusedError:
    """Return the error of a node, with its line and its text."""
    return RefusedError(f"{path}:{node.lineno}", f"{reason}: {' '.join(ast.unparse(node).split())[:_SHOWN]}")


def escaped(text: str) -> str:
    """Return a text as a template without fields."""
    return text.replace("{", "{{").replace("}", "}}")


class PromptReader:
    """Reads functions that assign texts to names and return one.

    Args:
        path: Their file.
        helpers: Behaviours of known helpers by name; the one there is takes off thinking.
    """

    def __init__(self, path: str, helpers: Mapping[str, str]) -> None:
        self._path, self._helpers = path, helpers

    def text(self, function: ast.FunctionDef, row: Mapping[str, str | None]) -> str:
        """Return the template of a function's result.

        Args:
            function: With the row as its argument.
            row: Templates by column; None is null.

        Raises:
            RefusedError: It does something else.
        """
        names: dict[str, Any] = {argument.arg: row for argument in function.args.args[:1]}
        for statement in function.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    names[name] = self._value(value, names)
                case ast.Return(value=ast.expr() as value):
                    return self.value_text(value, names)
                case ast.Expr(value=ast.Constant()):
                    pass
                case _:
                    raise refused(self._path, statement, "is not read as a prompt")
        raise refused(self._path, function, "is not read as a prompt")

    def value_text(self, node: ast.expr, names: Mapping[str, Any]) -> str:
        """Return the template of an expression that is a text."""
        value = self._value(node, names)
        if not isinstance(value, str):
            raise refused(self._path, node, "is not read as a prompt")
        return value

    def _value(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        match node:
            case ast.Constant(value=str() as text):
                return escaped(text)
            case ast.Constant(value=None):
                return None
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=column)):
                row = names.get(name)
                if isinstance(row, Mapping) and column in row:
                    return row[column]
            case ast.Compare(left=left, ops=[(ast.Is() | ast.IsNot()) as test], comparators=[ast.Constant(value=None)]):
                tested = self._value(left, names)
                if not isinstance(tested, str) or tested not in _NULLABLE:  # others are never null, or read both ways
                    return (tested is None) == isinstance(test, ast.Is)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                holds = self._value(test, names)
                if isinstance(holds, bool):
                    return self._value(body if holds else orelse, names)
            case ast.JoinedStr(values=parts):
                return "".join(self.value_text(part, names) for part in parts)
            case ast.FormattedValue(value=inner, conversion=-1, format_spec=None):
                value = self._value(inner, names)
                if value is None or isinstance(value, str):
                    return "None" if value is None else value
            case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if self._helpers.get(name):
                text = self.value_text(inner, names)
                if text == "{answer}":
                    return "{answer_after_thinking}"
                if "{" not in text.replace("{{", ""):
                    before, end, after = text.partition("</think>")
                    return (after if end else before).strip()
        raise refused(self._path, node, "is not read as a prompt")
