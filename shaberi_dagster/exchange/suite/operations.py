"""Operations on values of which some are only known to a run, along one path of outcomes."""

import ast
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from shaberi_dagster.exchange.suite.sources import Sources
from shaberi_dagster.exchange.suite.trees import Branch
from shaberi_dagster.exchange.suite.values import (
    SIMPLE,
    Caught,
    External,
    Kind,
    Module,
    Outside,
    RaisedError,
    RefusedError,
    Symbol,
    SymbolicReply,
    SymbolicRows,
    is_known,
    key_of,
    kind_of,
)
from shaberi_dagster.judges.programs import METHODS, OPERATIONS, compiled
from shaberi_dagster.util.identity import sha256_text

_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("split", "rsplit", "splitlines", "partition", "rpartition", "findall", "split_by", "map"), "list"),
    **dict.fromkeys(("float", "int", "round", "len", "sum", "min", "max", "abs", "find", "rfind", "count"), "number"),
    **dict.fromkeys(("subtract", "multiply", "divide", "floordiv", "mod"), "number"),
    **dict.fromkeys(("search", "match", "fullmatch"), "match"),
    **dict.fromkeys(("startswith", "endswith", "isdigit", "isdecimal", "isnumeric", "eq", "ne", "in"), "bool"),
    **dict.fromkeys(("lt", "le", "gt", "ge", "null", "true"), "bool"),
}
_MOST_LENGTH, _MOST_NUMBER = 200_000, 10**15


class Operations:
    """Operations on values, and decisions between outcomes, on one path.

    Args:
        sources: The checkout's.
        branch: Outcomes to take.
        externals: Functions of other packages that are known here, by path.
    """

    def __init__(self, sources: Sources, branch: Branch, externals: Mapping[str, External]) -> None:
        self._sources, self._branch, self._externals = sources, branch, externals
        self._modules: dict[str, Module] = {}
        self._tests: dict[str, bool] = {}
        self._lets: dict[str, str] = {}
        self._present: set[str] = set()
        self._inline: set[str] | None = None
        self._is_request = False
        self._asked = self._depth = 0
        self._place: tuple[str, ast.AST | None] = ("", None)
        self._environment: dict[str, Any] = {}
        self.stop_at: str | None = None

    def refuse(self, reason: str) -> NoReturn:
        """Refuse the construct at hand."""
        path, node = self._place
        source = self._sources.segment(path, node) if node else ""
        raise RefusedError(f"{path}:{getattr(node, 'lineno', 1)}", reason, source)

    def decide(self, test: Any) -> bool:
        """Return whether a test holds on this path."""
        key = key_of(test)
        if key not in self._tests:
            if self._inline is not None:
                self.refuse("a condition within a comprehension over what a run will find")
            self._tests[key] = self._branch.outcome({"if": test}, ("then", "else")) == "then"
        return self._tests[key]

    def truth(self, value: Any) -> bool:
        """Return whether a value counts as true on this path."""
        if isinstance(value, Symbol):
            if value.kind == "match":
                return not self.is_null(value)
            test = value.expression if value.kind == "bool" else {"true": [value.expression]}
            if holds := self.decide(test):
                self._present.add(value.key)
            return holds
        if isinstance(value, Outside):
            self.refuse("a condition on something outside of the checkout")
        return bool(value) if isinstance(value, (*SIMPLE, list, tuple, dict, set, frozenset)) else True

    def is_null(self, value: Any) -> bool:
        """Return whether a value is null on this path."""
        if not isinstance(value, Symbol):
            return value is None
        if not self._may_be_null(value):
            return False
        if null := self.decide({"null": [value.expression]}):
            return null
        self._present.add(value.key)
        return False

    def _may_be_null(self, value: Any) -> bool:
        return value is None or (isinstance(value, Symbol) and value.nullable and value.key not in self._present)

    def _let(self, expression: Any, kind: Kind, nullable: bool, errors: Sequence[str]) -> Symbol:
        """Return the value of an expression that may raise, on a path where it does not; else raise."""
        if self._inline is not None:
            self._inline.update(errors)
            return Symbol(expression, kind, nullable)
        key = key_of(expression)
        name = f"v_{sha256_text(key)[:8]}"
        if key not in self._lets:
            self._lets[key] = self._branch.outcome({"let": name, "be": expression}, ("then", *errors))
        if self._lets[key] != "then":
            raise RaisedError(self._lets[key])
        return Symbol({"value": name}, kind, nullable)

    # --- operations --------------------------------------------------------------------------------------------------

    def apply(self, operation: str, *arguments: Any) -> Any:
        """Return the result of an operation, at once where everything is known."""
        if any(isinstance(argument, (Outside, SymbolicReply, SymbolicRows)) for argument in arguments):
            return Outside("a value from outside")
        if all(map(is_known, arguments)):
            try:
                return self.bounded(OPERATIONS[operation](*arguments))
            except (ValueError, TypeError, AttributeError, IndexError, KeyError, ArithmeticError) as error:
                raise RaisedError(type(error).__name__) from error
        kind, nullable, errors, present = self._rule(operation, arguments)
        expression = {operation: [self.expressed(argument) for argument in arguments]}
        if not errors:
            return Symbol(expression, kind, nullable)
        result = self._let(expression, kind, nullable, errors)
        if self._inline is None:
            self._present.update(argument.key for argument in present if isinstance(argument, Symbol))
        return result

    def bounded(self, value: Any) -> Any:
        """Return a value that is not too large to be part of a prompt."""
        is_large = len(value) > _MOST_LENGTH if isinstance(value, (str, list)) else False
        if is_large or (isinstance(value, int) and abs(value) > _MOST_NUMBER):
            self.refuse("makes something very large")
        return value

    def _rule(self, operation: str, arguments: Sequence[Any]) -> tuple[Kind, bool, list[str], Sequence[Any]]:
        """Return a result's kind, whether it can be null, errors that can occur, and what is not null without them."""
        kind: Kind = _KINDS.get(operation, "text")
        first = arguments[0]
        if operation in {"search", "match", "fullmatch", "findall", "sub", "split_by"}:
            self._check_pattern(first, arguments)
            text = arguments[2 if operation in {"sub", "split_by"} and operation == "sub" else 1]
            if operation == "sub" and not isinstance(arguments[1], str):
                self.refuse("a replacement that is no text")
            return kind, kind == "match", ["TypeError"] if self._may_be_null(text) else [], [text]
        if operation == "group":
            errors = ["AttributeError"] if self._may_be_null(first) else []
            return "text", arguments[1:] not in ((), (0,)), errors, [first]
        if operation in METHODS:
            errors = ["AttributeError"] if self._may_be_null(first) or kind_of(first) != "text" else []
            if any(self._may_be_null(argument) or kind_of(argument) == "any" for argument in _flat(arguments[1:])):
                errors.append("TypeError")
            return kind, False, errors, arguments
        if operation in {"float", "int"}:
            errors = ["ValueError"]
            if kind_of(first) == "number":
                errors.append("OverflowError")
            if self._may_be_null(first) or kind_of(first) not in {"text", "number"}:
                errors.append("TypeError")
            return kind, False, errors, [first]
        if operation == "round":
            errors = ["ValueError", "OverflowError"]
            return kind, False, [*errors, *(["TypeError"] if kind_of(first) != "number" else [])], [first]
        if operation == "str":
            return "text", False, [], []
        if operation in {"len", "sum", "min", "max", "abs"}:
            errors = ["TypeError"] if self._may_be_null(first) or kind_of(first) == "any" else []
            return kind, False, [*errors, *(["ValueError"] if operation in {"min", "max"} else [])], [first]
        if operation == "item":
            container = kind_of(first)
            kind = "text" if container in {"text", "list"} else "any"
            return kind, False, ["IndexError", *(["TypeError"] if self._may_be_null(first) else [])], [first]
        if operation == "slice":
            kind = kind_of(first)
            return kind, False, ["TypeError"] if self._may_be_null(first) or kind == "any" else [], [first]
        if operation in {"add", "subtract", "multiply", "divide", "floordiv", "mod"}:
            kinds = {kind_of(argument) for argument in arguments}
            errors = ["TypeError"] if len(kinds) > 1 or any(map(self._may_be_null, arguments)) else []
            if operation != "add" and kinds != {"number"}:
                self.refuse("arithmetic with something that is no number")
            if operation in {"divide", "floordiv", "mod"}:
                errors.append("ZeroDivisionError")
            return kinds.pop() if len(kinds) == 1 else "any", False, errors, arguments
        if operation in {"lt", "le", "gt", "ge"}:
            mixed = len({kind_of(argument) for argument in arguments}) > 1
            return kind, False, ["TypeError"] if mixed or any(map(self._may_be_null, arguments)) else [], arguments
        if operation == "in":
            container = arguments[1]
            errors = ["TypeError"] if self._may_be_null(container) else []
            if kind_of(container) == "text" and (self._may_be_null(first) or kind_of(first) != "text"):
                errors = ["TypeError"]
            return kind, False, errors, [container]
        return kind, False, [], []

    def _check_pattern(self, pattern: Any, arguments: Sequence[Any]) -> None:
        flags = next((argument for argument in arguments[2:] if isinstance(argument, int)), 0)
        if not isinstance(pattern, str):
            self.refuse("a pattern that a run will find")
        try:
            compiled(pattern, flags)
        except ValueError as error:
            self.refuse(str(error))

    def expressed(self, value: Any) -> Any:
        """Return a value as an expression."""
        if isinstance(value, Symbol):
            return value.expression
        if isinstance(value, SIMPLE):
            return value
        if isinstance(value, (list, tuple)):
            return [self.expressed(item) for item in value]
        if isinstance(value, (set, frozenset)):
            return [self.expressed(item) for item in sorted(value, key=repr)]
        if isinstance(value, Outside) and value.arguments:
            return self.expressed(dict(value.arguments))
        if isinstance(value, Mapping):
            return {"dict": [[self.expressed(key), self.expressed(inner)] for key, inner in value.items()]}
        return self.refuse("a value that is not known here")

    def text(self, parts: Sequence[Any]) -> Any:
        """Join parts to a text."""
        if any(isinstance(part, (Outside, SymbolicReply, Caught)) for part in parts):
            return Outside("a text with something from outside")
        joined: list[Any] = []
        for part in parts:
            inner = (
                part.expression.get("text") if isinstance(part, Symbol) and isinstance(part.expression, dict) else None
            )
            for piece in inner if isinstance(inner, list) else [part.expression if isinstance(part, Symbol) else part]:
                known = isinstance(piece, SIMPLE)
                if not known and not isinstance(piece, dict):
                    self.refuse("a text with something that is neither text nor number")
                if known and joined and isinstance(joined[-1], str):
                    joined[-1] += str(piece)
                elif known:
                    joined.append(str(piece))
                else:
                    joined.append(piece)
        joined = [piece for piece in joined if piece != ""]
        if all(isinstance(piece, str) for piece in joined):
            return self.bounded("".join(joined))
        symbols = [part for part in parts if isinstance(part, Symbol)]
        if len(joined) == 1 and symbols and symbols[0].kind == "text" and not self._may_be_null(symbols[0]):
            return Symbol(joined[0])
        return Symbol({"text": joined})


def _flat(values: Sequence[Any]) -> list[Any]:
    return [inner for value in values for inner in (value if isinstance(value, (list, tuple)) else [value])]
