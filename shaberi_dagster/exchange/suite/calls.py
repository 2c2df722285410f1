"""Calls of what is not the checkout's: Python's own functions, methods, and other packages."""

import builtins
import re
import string
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from shaberi_dagster.exchange.suite.operations import Operations
from shaberi_dagster.exchange.suite.values import (
    SIMPLE,
    Builtin,
    Caught,
    LeftOutError,
    Options,
    Outside,
    Parser,
    Pattern,
    RaisedError,
    Symbol,
    SymbolicReply,
    SymbolicRow,
    SymbolicRows,
    is_known,
)
from shaberi_dagster.judges.programs import METHODS

CALLS = {
    "chat.completions.create": "chat.completions",
    "ChatCompletion.create": "chat.completions",
    "litellm.completion": "litellm.completion",
    "responses.create": "responses",
    "completions.create": "completions",
    "models.generate_content": "gemini.generate_content",
}
"""Ends of the paths of functions that ask a model, and the interface of each."""
_MESSAGES = ("messages", "input", "prompt", "contents")
_ADDRESSES = ("base_url", "api_base")
_NOT_SENT = frozenset({"model", "api_key", "stream", "timeout", *_MESSAGES, *_ADDRESSES})
_PURE = frozenset({"str", "float", "int", "round", "len", "sum", "min", "max", "abs"})
_CONVERSIONS = {"s": "str", "r": "repr", "a": "ascii"}

_MOST_ITEMS = 10_000


class SuiteCalls(Operations, ABC):
    """Functions and methods that are known here."""

    @abstractmethod
    def call(self, function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Return what a function returns."""

    @abstractmethod
    def items(self, value: Any) -> Sequence[Any]:
        """Return the items of something that is gone through."""

    @abstractmethod
    def item(self, container: Any, key: Any) -> Any:
        """Return an item of a container."""

    @abstractmethod
    def attribute(self, owner: Any, name: str) -> Any:
        """Return an attribute."""

    def _formatted(self, value: Any, form: Any, conversion: str) -> Any:
        if isinstance(value, (Outside, SymbolicReply, Caught, *SIMPLE)) or (conversion in {"", "s"} and form == ""):
            if isinstance(value, SIMPLE):
                if not isinstance(form, str) or re.search(r"\d{4}", form):
                    self.refuse("a format that is not read")
                shown = getattr(builtins, _CONVERSIONS[conversion])(value) if conversion else value
                return format(shown, form)
            if isinstance(value, (list, tuple, dict, set)):
                return str(value) if is_known(value) else Outside("a text with a list")
            return value
        return self.refuse("formats what a run will find")

    def _builtin(self, name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        first = arguments[0] if arguments else None
        if name == "str" and len(arguments) == 1:
            return self.text([first]) if isinstance(first, (Symbol, *SIMPLE)) else Outside("a text")
        if name in _PURE and not named:
            return self.apply(name, *arguments)
        if name == "bool":
            return self.truth(first)
        if name in {"any", "all"}:
            truths = [self.truth(value) for value in self.items(first)]
            return any(truths) if name == "any" else all(truths)
        if name == "getattr":
            return self.attribute(first, arguments[1])
        if name == "isinstance":
            return self._is_instance(first, arguments[1])
        if name == "type":
            return Outside("a type")
        if name == "open":
            return Outside("a file")
        if name in {"list", "tuple", "set", "frozenset", "sorted", "enumerate", "zip", "range", "reversed"}:
            if name == "list" and isinstance(first, Symbol) and first.kind == "list":
                return first
            if name == "range" and not all(isinstance(value, int) and abs(value) < _MOST_ITEMS for value in arguments):
                self.refuse("a range that is not known here, or very long")
            made = getattr(builtins, name)(
                *(value if isinstance(value, int) else self.items(value) for value in arguments)
            )
            return made if isinstance(made, (list, tuple, set)) else list(made)
        if name == "dict":
            return {**(dict(first) if first else {}), **named}
        return self.refuse(f"{name}() is not read")

    def _is_instance(self, value: Any, kinds: Any) -> bool:
        names = {kind.name for kind in (kinds if isinstance(kinds, tuple) else (kinds,)) if isinstance(kind, Builtin)}
        if isinstance(value, Symbol):
            own = {"text": {"str"}, "number": {"int", "float"}, "list": {"list"}}.get(value.kind)
            if own is None or (own & names and not own <= names):
                self.refuse("a type that a run will find")
            return bool(own & names) and not self.is_null(value)
        if isinstance(value, (*SIMPLE, list, tuple, dict, set)):
            return isinstance(value, tuple(getattr(builtins, name) for name in names))
        return self.refuse("a type that is not known here")

    def _method(self, owner: Any, name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if isinstance(owner, SymbolicRows):
            return self._of_rows(owner, name, arguments, named)
        if isinstance(owner, Parser):
            return self._of_parser(owner, name, arguments, named)
        if isinstance(owner, Pattern):
            return self._regex(name, [owner.pattern, *arguments], {"flags": owner.flags, **named})
        if isinstance(owner, dict):
            return self._of_dict(owner, name, arguments, named)
        if isinstance(owner, (list, set)) and name in {"append", "extend", "insert", "copy", "add", "update", "index"}:
            return getattr(owner, name)(*arguments)
        if isinstance(owner, str) and name == "format":
            return self._form(owner, arguments, named)
        if isinstance(owner, Symbol) and owner.kind == "match":
            if name not in {"group", "groups"} or named:
                self.refuse("a method of a match that is not read")
            return self.apply("group", owner, *arguments)
        if name == "join" and isinstance(owner, str) and len(arguments) == 1:
            return self._joined(owner, arguments[0])
        if name in METHODS and not named:
            return self.apply(name, owner, *arguments)
        if owner is None:
            raise RaisedError("AttributeError")
        return self.refuse(f"the method {name} is not read")

    def _joined(self, separator: str, values: Any) -> Any:
        if isinstance(values, Symbol):
            return self.apply("join", separator, values)
        parts = self.items(values)
        if any(self._may_be_null(part) for part in parts):
            return self.apply("join", separator, parts)
        return self.text([piece for part in parts for piece in (separator, part)][1:])

    def _form(self, form: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Return a text with its fields filled, as `str.format` does."""
        try:
            pieces = list(string.Formatter().parse(form))
        except ValueError as error:
            raise RaisedError("ValueError") from error
        fields = [re.fullmatch(r"(\w*)(?:\[(\w+)\])?", field) for _, field, *_ in pieces if field is not None]
        if None in fields or any("{" in (spec or "") for *_, spec, _ in pieces):
            self.refuse("a field that is not read")
        names = [match[1] for match in fields if match]
        if "" in names and any(name.isdecimal() for name in names):
            raise RaisedError("ValueError")  # Python numbers fields itself, or not
        numbers, waiting = iter(range(len(names))), iter(fields)
        parts: list[Any] = []
        for literal, field, spec, conversion in pieces:
            parts.append(literal)
            match = next(waiting) if field is not None else None
            if match:
                value = self._field(match[1] or str(next(numbers)), arguments, named)
                if match[2]:
                    value = self.item(value, int(match[2]) if match[2].isdecimal() else match[2])
                parts.append(self._formatted(value, spec or "", conversion or ""))
        return self.text(parts)

    @staticmethod
    def _field(name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if name.isdecimal() and int(name) < len(arguments):
            return arguments[int(name)]
        if name in named and not name.isdecimal():
            return named[name]
        raise RaisedError("IndexError" if name.isdecimal() else "KeyError")

    def _of_dict(self, owner: dict[Any, Any], name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if any(isinstance(argument, Symbol) for argument in arguments[:1]):
            return self._looked_up(owner, name, arguments)
        if name == "get":
            return owner.get(arguments[0], arguments[1] if len(arguments) > 1 else named.get("default"))
        if name == "pop":
            if arguments[0] not in owner and len(arguments) == 1:
                raise RaisedError("KeyError")
            return owner.pop(*arguments)
        if name in {"keys", "values", "items"}:
            return list(getattr(owner, name)())
        if name == "update":
            owner.update(*arguments, **named)
            return None
        if name in {"copy", "setdefault"}:
            return getattr(owner, name)(*arguments)
        return self.refuse(f"the method {name} of a dict is not read")

    def _looked_up(self, owner: dict[Any, Any], name: str, arguments: Sequence[Any]) -> Any:
        """Return the value of a key that a run will find: one path for each."""
        if name != "get":
            self.refuse("a key that a run will find")
        for key, value in owner.items():
            if self.truth(self.apply("eq", arguments[0], key)):
                return value
        return arguments[1] if len(arguments) > 1 else None

    def _of_parser(self, owner: Parser, name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if name == "add_argument":
            flags = [flag for flag in arguments if isinstance(flag, str)]
            long = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")
            target = named.get("dest") or long.lstrip("-").replace("-", "_")
            default = named.get("default", False if named.get("action") == "store_true" else None)
            is_required = named.get("required") or not long.startswith("-")
            owner.defaults[target] = Outside(f"the option {target}") if is_required else default
            return None
        if name in {"parse_args", "parse_known_args"}:
            return Options(owner.defaults)
        return owner

    def _of_rows(self, owner: SymbolicRows, name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if name == "map":
            position = [Symbol({"input": "index"}, "number")] if named.get("with_indices") else []
            changed = self.call(arguments[0], [owner.row, *position], {})
            if not isinstance(changed, Mapping):
                self.refuse("a row that is not known here")
            owner.row = SymbolicRow({**owner.row, **changed})
            return owner
        if name == "filter":
            if owner.selects and not self.truth(self.call(arguments[0], [owner.row], {})):
                raise LeftOutError
            return owner
        if name == "rename_column":
            old, new = arguments
            if old not in owner.row:
                self.refuse(f"the column {old} is not known here")
            owner.row = SymbolicRow({new if column == old else column: value for column, value in owner.row.items()})
            return owner
        if name in {"remove_columns", "drop"}:
            gone = arguments[0] if isinstance(arguments[0], list) else [arguments[0]]
            owner.row = SymbolicRow({column: value for column, value in owner.row.items() if column not in gone})
            return owner
        if name in {"to_json", "to_pandas", "to_list", "to_csv", "save_to_disk"}:
            owner.written = owner.row
            return Outside("a file")
        if name == "add_column" and isinstance(arguments[1], list) and len(arguments[1]) == 1:
            owner.row = SymbolicRow({**owner.row, arguments[0]: arguments[1][0]})
            return owner
        if name in {"select", "shuffle"}:
            self.refuse("a part of the rows")
        return owner

    # --- other packages ----------------------------------------------------------------------------------------------

    def _outside(self, function: Outside, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        path = function.path
        if path in self._externals:
            return self._externals[path](*arguments, **named)
        if path.startswith("re."):
            return self._regex(path.removeprefix("re."), arguments, named)
        if path in {"os.environ.get", "os.getenv"}:
            return self._variable(*arguments, *named.values())
        if path.endswith((".exists", ".isfile", ".isdir", ".is_file")):
            return False  # nothing was made before
        if path == "argparse.ArgumentParser":
            return Parser()
        api = next((api for end, api in CALLS.items() if f".{path}".endswith(f".{end}")), None)
        if api:
            return self._ask(api, function, arguments, named)
        return Outside(f"{path}()", dict(named))

    def _regex(self, name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        flags = named.get("flags", 0)
        if name == "compile":
            flags = arguments[1] if len(arguments) > 1 else flags
            if not isinstance(arguments[0], str) or not isinstance(flags, int):
                self.refuse("a pattern that a run will find")
            return Pattern(arguments[0], flags)
        if name == "escape" and isinstance(arguments[0], str):
            return re.escape(arguments[0])
        pattern: Any = arguments[0]
        rest = arguments[1:]
        if isinstance(pattern, Pattern):
            pattern, flags = pattern.pattern, pattern.flags
        if name in {"search", "match", "fullmatch", "findall"} and rest:
            given = rest[1] if len(rest) > 1 else flags
            return self.apply(name, pattern, rest[0], given)
        if name == "sub" and len(rest) >= 2:  # noqa: PLR2004  (replacement and text)
            count = rest[2] if len(rest) > 2 else named.get("count", 0)  # noqa: PLR2004
            return self.apply("sub", pattern, rest[0], rest[1], rest[3] if len(rest) > 3 else flags, count)  # noqa: PLR2004
        if name == "split" and rest:
            most = rest[1] if len(rest) > 1 else named.get("maxsplit", 0)
            return self.apply("split_by", pattern, rest[0], flags, most)
        return self.refuse(f"re.{name} is not read")

    def _variable(self, name: Any, default: Any = None) -> Any:
        """Return a variable of the environment."""
        if not isinstance(name, str):
            self.refuse("a variable that a run will find")
        if name in self._environment:
            return self._environment[name]
        value = Symbol({"input": f"environment {name}"}, nullable=True)
        return value if default is None else default if self.is_null(value) else value

    def _ask(self, api: str, function: Outside, arguments: Sequence[Any], named: Mapping[str, Any]) -> SymbolicReply:
        if arguments:
            self.refuse("asks with arguments without names")
        self._asked += 1
        given = dict(named)
        given |= given.pop("extra_body", None) or {}
        messages = next((given[name] for name in _MESSAGES if name in given), None)
        if messages is None:
            self.refuse("asks without messages")
        address = next(
            (source[name] for source in (given, function.arguments) for name in _ADDRESSES if name in source), None
        )
        parameters = {name: self.expressed(value) for name, value in given.items() if name not in _NOT_SENT}
        self._branch.outcome(
            {
                "ask": self._asked,
                "api": api,
                "model": self.expressed(given.get("model")),
                "messages": self.expressed(messages),
                "parameters": parameters,
                "base_url": self.expressed(address),
            },
            ("then",),
        )
        self._api = api
        return SymbolicReply(self._asked)
