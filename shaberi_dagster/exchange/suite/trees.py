"""Trees of all outcomes: what is read is walked once for each path, and becomes a program (`judges.programs`)."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shaberi_dagster.exchange.suite.values import LeftOutError, RaisedError, RefusedError, key_of

_MOST_PATHS = 2_000


class Branch:
    """The outcomes that one walk takes, and the questions that it met.

    Args:
        chosen: Numbers of outcomes of its first questions; all others take the first outcome.
    """

    def __init__(self, chosen: Sequence[int] = ()) -> None:
        self._chosen = chosen
        self.met: list[tuple[dict[str, Any], tuple[str, ...], int]] = []

    def outcome(self, question: dict[str, Any], outcomes: tuple[str, ...]) -> str:
        """Take an outcome of a question."""
        number = self._chosen[len(self.met)] if len(self.met) < len(self._chosen) else 0
        self.met.append((question, outcomes, number))
        return outcomes[number]


Reader = Callable[[Branch], Any]
"""Reads what is wanted along one path, and returns its value as an expression."""


def read_program(read: Reader, requests: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Read along every path, and return the tree of all outcomes.

    Args:
        read: What is read.
        requests: Programs that this one calls, by key.
    """
    root: dict[str, Any] = {}
    waiting: list[list[int]] = [[]]
    walked = 0
    while waiting:
        chosen = waiting.pop()
        walked += 1
        if walked > _MOST_PATHS:
            return {"refused": f"more than {_MOST_PATHS} paths"}
        path = Branch(chosen)
        leaf = _leaf(path, read)
        taken = [number for *_, number in path.met]
        for place in range(len(chosen), len(path.met)):
            outcomes = path.met[place][1]
            waiting.extend([*taken[:place], other] for other in range(1, len(outcomes)))
        _grow(root, path, leaf)
    return _Sharing(requests).shared(root)


def _leaf(path: Branch, read: Reader) -> dict[str, Any]:
    try:
        return {"return": read(path)}
    except RaisedError as error:
        return {"raise": error.name}
    except LeftOutError:
        return {"raise": "LeftOut"}
    except RefusedError as error:
        return {"refused": str(error)}
    except RecursionError:
        return {"refused": "calls or expressions lie too deep within each other"}


def _grow(root: dict[str, Any], path: Branch, leaf: dict[str, Any]) -> None:
    """Add what one walk found to the tree."""
    node = root
    for question, outcomes, number in path.met:
        node.setdefault("question", question)
        node.setdefault("outcomes", outcomes)
        node = node.setdefault(outcomes[number], {})
    node["leaf"] = leaf


class _Sharing:
    """Makes a tree small: without questions that change nothing, and with equal parts as one."""

    def __init__(self, requests: Mapping[str, dict[str, Any]]) -> None:
        self._requests = requests
        self._known: dict[Any, dict[str, Any]] = {}
        self._used: dict[int, frozenset[str]] = {}

    def shared(self, node: dict[str, Any]) -> dict[str, Any]:
        """Return the program of a tree as walks have grown it."""
        if "leaf" in node:
            return self._made(node["leaf"], {})
        question = node["question"]
        inner = {outcome: self.shared(node[outcome]) for outcome in node["outcomes"]}
        first, *others = inner.values()
        has_effect = "ask" in question or "call" in question
        is_idle = not has_effect and all(other is first for other in others)
        if is_idle and question.get("let") not in self._used[id(first)]:
            return first
        return self._made(question, inner)

    def _made(self, question: dict[str, Any], inner: dict[str, dict[str, Any]]) -> dict[str, Any]:
        text = key_of(question)
        identity = (text, *((name, id(part)) for name, part in inner.items()))
        if identity not in self._known:
            made: dict[str, Any] = {**question, **{name: inner[name] for name in ("then", "else") if name in inner}}
            if "call" in made:
                made["call"] = self._requests[made["call"]]
            if errors := {name: part for name, part in inner.items() if name not in {"then", "else"}}:
                made["except"] = errors
            self._known[identity] = made
            of_parts = [self._used[id(part)] for part in inner.values()]
            self._used[id(made)] = frozenset(_VALUE.findall(text)).union(*of_parts)
        return self._known[identity]


_VALUE = re.compile(r"\bv_[0-9a-f]{8}\b")
