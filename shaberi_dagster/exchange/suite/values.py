"""Values that a reader of the suite's source knows: plain ones, and those that only a run will have."""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

Kind = Literal["text", "number", "list", "match", "bool", "any"]


class RefusedError(Exception):
    """A construct that is not read.

    Args:
        place: File and line.
        reason: What it is.
        source: The text that stands there.
    """

    def __init__(self, place: str, reason: str, source: str = "") -> None:
        shown = " ".join(source.split())
        shown = f": {shown[:117]}..." if len(shown) > _MOST_SHOWN else f": {shown}" if shown else ""
        super().__init__(f"{place}: {reason}{shown}")


_MOST_SHOWN = 120


class RaisedError(Exception):
    """The code that is read raises an error, named by its class."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True)
class Symbol:
    """A value that only a run will have.

    Attributes:
        expression: How it is computed, in the words of `judges.programs`.
        kind: What it is when it is not null.
        nullable: Whether it can be null.
    """

    expression: Any
    kind: Kind = "text"
    nullable: bool = False

    @property
    def key(self) -> str:
        """Text that equal symbols share."""
        return key_of(self.expression)


def key_of(expression: Any) -> str:
    """Return a text that equal expressions share."""
    return orjson.dumps(expression, option=orjson.OPT_SORT_KEYS).decode()


@dataclass
class Module:
    """A file of the checkout, as far as it has been read."""

    path: str
    names: dict[str, Any] = field(default_factory=dict)


@dataclass
class Scope:
    """Names of a function or of a module's top level."""

    module: Module
    names: dict[str, Any]
    parent: "Scope | None" = None
    local: frozenset[str] = frozenset()
    shared: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Closure:
    """A function or lambda of the checkout, with the scope around it."""

    node: ast.FunctionDef | ast.Lambda
    scope: Scope
    defaults: tuple[Any, ...]
    keyword_defaults: Mapping[str, Any]


@dataclass(frozen=True)
class Builtin:
    """A function of Python's own, by name."""

    name: str


@dataclass(frozen=True)
class Bound:
    """A method of a value, not yet called."""

    receiver: Any
    name: str


@dataclass(frozen=True)
class Outside:
    """Anything of another package, by its dotted path; with the arguments of the call that made it.

    Attributes:
        path: Such as `openai.OpenAI().chat`.
        arguments: Keyword arguments of the last call on the way.
    """

    path: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SymbolicReply:
    """A part of what a model replied; every text in it is the reply's."""

    number: int


@dataclass(frozen=True)
class Pattern:
    """A compiled regular expression."""

    pattern: str
    flags: int


@dataclass(frozen=True)
class Caught:
    """An error that an `except` has caught."""

    name: str


@dataclass(frozen=True)
class Broken:
    """A name whose definition could not be read; using it is refused."""

    reason: str


@dataclass
class Parser:
    """An `argparse` parser: defaults by option."""

    defaults: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """Options of a command line at the defaults of its parser."""

    values: Mapping[str, Any]


class SymbolicRow(dict[str, Any]):
    """A row by its columns."""


@dataclass
class SymbolicRows:
    """The rows of a data set, seen as any one of them.

    Attributes:
        row: Its columns.
        selects: Whether filters count; else every row stays.
        written: The row as it was when it was written to a file.
    """

    row: SymbolicRow
    selects: bool = False
    written: SymbolicRow | None = None


External = Callable[..., Any]


class LeftOutError(Exception):
    """The row is one that the suite leaves out."""


SIMPLE = (str, int, float, bool, type(None))
"""Types of values that are expressions as they are."""


def is_known(value: Any) -> bool:
    """Return whether nothing in a value is left to a run."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(is_known, value))
    if isinstance(value, Mapping):
        return all(map(is_known, value.values()))
    return isinstance(value, SIMPLE)


def kind_of(value: Any) -> Kind:
    """Return what a value is where it is not null."""
    if isinstance(value, Symbol):
        return value.kind
    if isinstance(value, str):
        return "text"
    if isinstance(value, (int, float)):
        return "number"
    return "list" if isinstance(value, (list, tuple, set, frozenset)) else "any"
