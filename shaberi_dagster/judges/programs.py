"""Small programs as data: decision trees over named inputs that make calls to models and return a value.

An adopted set says in them what its suite sends and how it scores. A program is made of plain values, so that a YAML
file can hold it. Its nodes are

- `if` TEST, `then`, `else`;
- `let` NAME `be` EXPRESSION, `then`, and `except` with a node for each class of error that the expression may raise;
- `let` NAME `call` PROGRAM, `then` and `except`: the same with the value of another program;
- `ask` NUMBER with `api`, `model`, `messages`, `parameters`, `base_url`, `then`;
- `return` EXPRESSION, `raise` CLASS, or `refused` REASON.

An expression is a constant, a list of expressions, or a mapping of one operation to its arguments.
"""

import operator
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any

Node = Mapping[str, Any]
_MOST_TEXT = 1_000_000
"""Characters of a text that a pattern of an adopted set is tried on."""
_MOST_PATTERN = 1_000
METHODS = (
    *("strip", "lstrip", "rstrip", "lower", "upper", "casefold", "startswith", "endswith", "replace", "split"),
    *("rsplit", "splitlines", "join", "removeprefix", "removesuffix", "partition", "rpartition", "find", "rfind"),
    *("count", "isdigit", "isdecimal", "isnumeric"),
)
"""Methods of texts that expressions can use."""
_ERRORS = (ValueError, TypeError, AttributeError, IndexError, KeyError, ZeroDivisionError, OverflowError)


class SuiteError(Exception):
    """A program ended as its suite would with an uncaught error, named by its class."""


class RefusedProgramError(Exception):
    """A program came to a place that was not adopted; the message names file and line."""


@dataclass(frozen=True)
class ProgramCall:
    """A call that a program makes.

    Attributes:
        api: Name of the interface, such as `chat.completions`.
        model: The model's name there.
        messages: Texts with their roles, or one text.
        parameters: All others by name.
        base_url: Address, where the suite names one.
    """

    api: str
    model: Any
    messages: Any
    parameters: Mapping[str, Any]
    base_url: Any = None


def run(program: Node, inputs: Mapping[str, Any]) -> Generator[ProgramCall, str | None, Any]:
    """Follow a program: it yields each call, is sent its reply, and returns its value.

    Args:
        program: The root.
        inputs: Values by name; a name that is missing is null.

    Raises:
        SuiteError: The suite's code would have raised.
        RefusedProgramError: The path that it takes was not adopted.
    """
    return (yield from _run(program, {"inputs": inputs}))


def _run(node: Node, scope: dict[str, Any]) -> Generator[ProgramCall, str | None, Any]:
    while True:
        if "if" in node:
            node = node["then" if evaluate(node["if"], scope) else "else"]
        elif "let" in node:
            try:
                scope[node["let"]] = (
                    (yield from _run(node["call"], dict(scope))) if "call" in node else evaluate(node["be"], scope)
                )
            except (*_ERRORS, SuiteError) as error:
                name = str(error) if isinstance(error, SuiteError) else type(error).__name__
                if name not in node.get("except", {}):
                    raise SuiteError(name) from error
                node = node["except"][name]
            else:
                node = node["then"]
        elif "ask" in node:
            of_call = {name: evaluate(node.get(name), scope) for name in ("model", "messages", "base_url")}
            parameters = {name: evaluate(value, scope) for name, value in node["parameters"].items()}
            scope[f"reply {node['ask']}"] = yield ProgramCall(node["api"], parameters=parameters, **of_call)
            node = node["then"]
        elif "return" in node:
            return evaluate(node["return"], scope)
        elif "raise" in node:
            raise SuiteError(node["raise"])
        else:
            raise RefusedProgramError(node["refused"])


def nodes(program: Node, *, with_calls: bool = True) -> Iterator[Node]:
    """Yield every node of a program once.

    Args:
        program: The root.
        with_calls: Also those of the programs that it calls.
    """
    following = ("else", "then", "call") if with_calls else ("else", "then")
    waiting, seen = [program], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        waiting.extend(node[name] for name in following if name in node)
        waiting.extend(node.get("except", {}).values())


def evaluate(expression: Any, scope: Mapping[str, Any]) -> Any:
    """Return the value of an expression.

    Args:
        expression: As in a program.
        scope: Values by name; `inputs` has those from outside.
    """
    if isinstance(expression, list):
        return [evaluate(part, scope) for part in expression]
    if not isinstance(expression, dict):
        return expression
    ((operation, arguments),) = expression.items()
    if operation in _NAMES_OF:
        return _NAMES_OF[operation](arguments, scope)
    return OPERATIONS[operation](*(evaluate(argument, scope) for argument in arguments))


@cache
def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a pattern of an adopted set.

    Raises:
        ValueError: It is none, or could take more than polynomial time: a repetition within another one, or a choice
            between alternatives that is repeated without end.
    """
    if len(pattern) > _MOST_PATTERN:
        raise ValueError(f"a pattern has more than {_MOST_PATTERN} characters")
    try:
        parsed = _parser.parse(pattern, flags)
        _check_repeats(parsed, within=False)
        return re.compile(pattern, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern!r} is no pattern: {error}") from error


def _check_repeats(parsed: Sequence[Any], *, within: bool) -> None:
    """Refuse repetitions that hold others, or choices."""
    for kind, content in parsed:
        repeats = kind in _REPEATS
        if within and (repeats or kind in {_constants.BRANCH, _constants.GROUPREF}):
            raise ValueError("a pattern repeats what itself repeats or has alternatives")
        inner = within or (repeats and content[1] > _FEW)
        for part in _parts(content):
            _check_repeats(part, within=inner)


_FEW = 1
_CONSUMING = {_constants.LITERAL, _constants.IN, _constants.SUBPATTERN, _constants.BRANCH, _constants.ANY}
"""Parts of patterns that take characters, and nothing else."""
_REPEATS = {_constants.MAX_REPEAT, _constants.MIN_REPEAT, getattr(_constants, "POSSESSIVE_REPEAT", None)}


def _parts(content: Any) -> list[Any]:
    """Return the parsed parts within the content of a node, however deep they lie."""
    if isinstance(content, _parser.SubPattern):
        return [content]
    if isinstance(content, (tuple, list)):
        return [part for inner in content for part in _parts(inner)]
    return []


def _mapped(arguments: Sequence[Any], scope: Mapping[str, Any]) -> list[Any]:
    items, form = arguments
    return [evaluate(form, {**scope, "item": item}) for item in evaluate(items, scope)]


_NAMES_OF: Mapping[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "input": lambda name, scope: scope["inputs"].get(name),
    "value": lambda name, scope: scope[name],
    "reply": lambda number, scope: scope[f"reply {number}"],
    "dict": lambda pairs, scope: {evaluate(key, scope): evaluate(value, scope) for key, value in pairs},
    "map": _mapped,
}
"""Operations on names and parts, not on values."""


def _method(name: str) -> Callable[..., Any]:
    def call(receiver: Any, *arguments: Any) -> Any:
        given = [
            tuple(argument) if isinstance(argument, list) and name != "join" else argument for argument in arguments
        ]
        return getattr(receiver, name)(*given)

    return call


def _matched(function: str) -> Callable[..., Any]:
    def match(pattern: str, text: Any, flags: int = 0) -> Any:
        return getattr(compiled(pattern, flags), function)(_capped(text))

    return match


def _capped(text: Any) -> Any:
    return text[:_MOST_TEXT] if isinstance(text, str) else text


def _substituted(pattern: str, new: str, text: Any, flags: int = 0, count: int = 0) -> str:
    """Return a text with matches replaced.

    A match ends with what the pattern ends with, so nothing is looked for behind the last of these: a text with
    thousands of beginnings and no end takes no time.
    """
    whole, ending = compiled(pattern, flags), _ending(pattern, flags)
    if ending is None or not isinstance(text, str):
        return whole.sub(new, text, count=count)
    last, found = 0, ending.search(text)
    while found:
        last = max(last, found.end())
        found = ending.search(text, found.start() + 1)
    return whole.sub(new, text[:last], count=count) + text[last:]


@cache
def _ending(pattern: str, flags: int) -> re.Pattern[str] | None:
    """Return the pattern of what follows the last endless repetition; None where that may be nothing."""
    parsed = _parser.parse(pattern, flags)
    repeats = [number for number, (kind, _) in enumerate(parsed) if kind in _REPEATS]
    if not repeats or _kinds(parsed) - _REPEATS - _CONSUMING:
        return None
    ending = parsed[repeats[-1] + 1 :]
    return _compiler.compile(ending, parsed.state.flags) if len(ending) and ending.getwidth()[0] else None


def _kinds(parsed: Sequence[Any]) -> set[Any]:
    """Return the kinds of all parts of a pattern, inner ones included."""
    inner = [part for _, content in parsed for part in _parts(content)]
    return {kind for kind, _ in parsed}.union(*map(_kinds, inner))


def _either(first: Any, second: Any) -> Any:
    return first or second


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    **{name: _method(name) for name in METHODS},
    **{name: _matched(name) for name in ("search", "match", "fullmatch", "findall")},
    "sub": _substituted,
    "split_by": lambda pattern, text, flags=0, most=0: compiled(pattern, flags).split(_capped(text), maxsplit=most),
    "group": lambda match, *groups: match.group(*groups),
    "text": lambda *parts: "".join(map(str, parts)),
    **{function.__name__: function for function in (str, float, int, round, len, sum, min, max, abs)},
    "item": operator.getitem,
    "slice": lambda value, start, stop, step: value[start:stop:step],
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "floordiv", "mod")},
    "in": lambda value, container: value in container,
    "null": lambda value: value is None,
    "true": bool,
    "or": _either,
}
"""What expressions can do, by name."""
