"""Partial evaluation of the suite's source: its functions are read over symbolic rows, and become programs as data.

Nothing of the checkout is run. Its syntax trees are walked here, with constants as they are and rows, models and
replies as symbols. Wherever the walk depends on a symbol it is repeated for each outcome, so that a tree of all
outcomes remains (`judges.programs`). What is not known here is refused with file and line, for the paths that reach it.
"""

import ast
import builtins
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import PurePosixPath
from typing import Any, NoReturn

from shaberi_dagster.exchange.suite.values import (
    Bound,
    Broken,
    Builtin,
    Caught,
    Closure,
    External,
    Kind,
    Module,
    Options,
    Outside,
    Parser,
    Pattern,
    RaisedError,
    RefusedError,
    Reply,
    Row,
    Rows,
    Scope,
    Symbol,
    key_of,
)
from shaberi_dagster.judges.programs import METHODS, OPERATIONS, compiled, nodes
from shaberi_dagster.util.identity import sha256_text

_MOST_DEPTH, _MOST_ROUNDS, _MOST_STEPS, _MOST_PATHS = 60, 50, 100_000, 2_000
_CALLS = {
    "chat.completions.create": "chat.completions",
    "ChatCompletion.create": "chat.completions",
    "litellm.completion": "litellm.completion",
    "responses.create": "responses",
    "completions.create": "completions",
    "models.generate_content": "gemini.generate_content",
}
"""Ends of the paths of functions that ask a model, and the interface of each."""
_ASKING = frozenset(path.rpartition(".")[2] for path in _CALLS)
_DOING = (ast.Raise, ast.Global, ast.Nonlocal, ast.Delete, ast.Await, ast.Yield, ast.YieldFrom)
_MESSAGES = ("messages", "input", "prompt", "contents")
_ADDRESSES = ("base_url", "api_base")
_NOT_SENT = frozenset({"model", "api_key", "stream", "timeout", *_MESSAGES, *_ADDRESSES})
_PURE = frozenset({"str", "float", "int", "round", "len", "sum", "min", "max", "abs"})
_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("split", "rsplit", "splitlines", "partition", "rpartition", "findall", "split_by", "map"), "list"),
    **dict.fromkeys(("float", "int", "round", "len", "sum", "min", "max", "abs", "find", "rfind", "count"), "number"),
    **dict.fromkeys(("subtract", "multiply", "divide", "floordiv", "mod"), "number"),
    **dict.fromkeys(("search", "match", "fullmatch"), "match"),
    **dict.fromkeys(("startswith", "endswith", "isdigit", "isdecimal", "isnumeric", "eq", "ne", "in"), "bool"),
    **dict.fromkeys(("lt", "le", "gt", "ge", "null", "true"), "bool"),
}
_CONVERSIONS = {"s": "str", "r": "repr", "a": "ascii"}
_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
}
_COMPARED: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}
_SIMPLE = (str, int, float, bool, type(None))


class _ReturnedError(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class _BreakError(Exception):
    pass


class _ContinueError(Exception):
    pass


class LeftOutError(Exception):
    """The row is one that the suite leaves out."""


class Sources:
    """The Python files of a checkout.

    Args:
        files: Texts by path.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        self.texts, self.trees, self.unreadable = files, dict[str, ast.Module](), dict[str, str]()
        self.stored: dict[int, frozenset[str]] = {}
        self.only_tells: dict[int, bool] = {}
        self.requests: dict[str, dict[str, Any]] = {}
        for path, text in sorted(files.items(), key=lambda item: (item[0].count("/"), item[0])):
            try:
                self.trees[path] = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                line = getattr(error, "lineno", None)
                self.unreadable[path] = f"{path}{f':{line}' if line else ''}: does not parse"

    def path_of(self, name: str, importer: str, level: int) -> str | None:
        """Return the path of a module that a file imports; None when it is another package's."""
        folder = PurePosixPath(importer).parent
        for _ in range(level - 1):
            folder = folder.parent
        inner = name.replace(".", "/")
        starts = [folder] if level else [folder, PurePosixPath()]
        for start in starts:
            for tail in (f"{inner}.py", f"{inner}/__init__.py") if inner else ("__init__.py",):
                path = str(start / tail)
                if path in self.texts:
                    return path
        return None

    def segment(self, path: str, node: ast.AST) -> str:
        """Return the text of a node."""
        return ast.get_source_segment(self.texts[path], node) or ""


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


class Walk:
    """One walk over the sources along a path.

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
        self._asked = self._depth = self._steps = 0
        self._place = ("", None)  # type: tuple[str, ast.AST | None]
        self._environment: dict[str, Any] = {}
        self.stop_at: str | None = None

    # --- modules -----------------------------------------------------------------------------------------------------

    def module(self, path: str) -> Module:
        """Return a file's names, defined as its top level defines them."""
        if path not in self._modules:
            if path in self._sources.unreadable:
                raise RefusedError(path, "the file does not parse")
            module = self._modules[path] = Module(path, {"__name__": PurePosixPath(path).stem, "__file__": path})
            before = self._place
            for statement in self._sources.trees[path].body:
                self._define(statement, Scope(module, module.names))
            self._place = before
        return self._modules[path]

    def run_command(self, path: str) -> None:
        """Read what a file does as a command, up to its first call of a function of its own.

        So far it reads options, and tells other modules of them.
        """
        module = self.module(path)
        self.stop_at = path
        try:
            for statement in self._sources.trees[path].body:
                if isinstance(statement, ast.If) and _is_guard(statement):
                    self._run(statement.body, Scope(module, module.names))
        except _ReturnedError:
            pass
        self.stop_at = None

    def _define(self, statement: ast.stmt, scope: Scope) -> None:
        """Do a statement of a top level; names of one that is refused are broken."""
        try:
            self._execute(statement, scope)
        except (RefusedError, RaisedError) as error:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    scope.names[node.id] = Broken(str(error))

    def _import(self, name: str, scope: Scope, level: int) -> Any:
        path = self._sources.path_of(name, scope.module.path, level)
        if path:
            return self.module(path)
        if level:
            self.refuse("imports what is not in the checkout")
        return Outside(name)

    # --- questions ---------------------------------------------------------------------------------------------------

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
        return bool(value) if isinstance(value, (*_SIMPLE, list, tuple, dict, set, frozenset)) else True

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
        if any(isinstance(argument, (Outside, Reply)) for argument in arguments):
            return Outside("a value from outside")
        if all(map(_is_known, arguments)):
            try:
                return OPERATIONS[operation](*arguments)
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
            errors = ["AttributeError"] if self._may_be_null(first) or _kind(first) != "text" else []
            if any(self._may_be_null(argument) or _kind(argument) == "any" for argument in _flat(arguments[1:])):
                errors.append("TypeError")
            return kind, False, errors, arguments
        if operation in {"float", "int"}:
            errors = ["ValueError"]
            if _kind(first) == "number":
                errors.append("OverflowError")
            if self._may_be_null(first) or _kind(first) not in {"text", "number"}:
                errors.append("TypeError")
            return kind, False, errors, [first]
        if operation == "round":
            errors = ["ValueError", "OverflowError"]
            return kind, False, [*errors, *(["TypeError"] if _kind(first) != "number" else [])], [first]
        if operation == "str":
            return "text", False, [], []
        if operation in {"len", "sum", "min", "max", "abs"}:
            errors = ["TypeError"] if self._may_be_null(first) or _kind(first) == "any" else []
            return kind, False, [*errors, *(["ValueError"] if operation in {"min", "max"} else [])], [first]
        if operation == "item":
            container = _kind(first)
            kind = "text" if container in {"text", "list"} else "any"
            return kind, False, ["IndexError", *(["TypeError"] if self._may_be_null(first) else [])], [first]
        if operation == "slice":
            kind = _kind(first)
            return kind, False, ["TypeError"] if self._may_be_null(first) or kind == "any" else [], [first]
        if operation in {"add", "subtract", "multiply", "divide", "floordiv", "mod"}:
            kinds = {_kind(argument) for argument in arguments}
            errors = ["TypeError"] if len(kinds) > 1 or any(map(self._may_be_null, arguments)) else []
            if operation != "add" and kinds != {"number"}:
                self.refuse("arithmetic with something that is no number")
            if operation in {"divide", "floordiv", "mod"}:
                errors.append("ZeroDivisionError")
            return kinds.pop() if len(kinds) == 1 else "any", False, errors, arguments
        if operation in {"lt", "le", "gt", "ge"}:
            mixed = len({_kind(argument) for argument in arguments}) > 1
            return kind, False, ["TypeError"] if mixed or any(map(self._may_be_null, arguments)) else [], arguments
        if operation == "in":
            container = arguments[1]
            errors = ["TypeError"] if self._may_be_null(container) else []
            if _kind(container) == "text" and (self._may_be_null(first) or _kind(first) != "text"):
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
        if isinstance(value, _SIMPLE):
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
        if any(isinstance(part, (Outside, Reply, Caught)) for part in parts):
            return Outside("a text with something from outside")
        joined: list[Any] = []
        for part in parts:
            inner = (
                part.expression.get("text") if isinstance(part, Symbol) and isinstance(part.expression, dict) else None
            )
            for piece in inner if isinstance(inner, list) else [part.expression if isinstance(part, Symbol) else part]:
                known = isinstance(piece, _SIMPLE)
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
            return "".join(joined)
        symbols = [part for part in parts if isinstance(part, Symbol)]
        if len(joined) == 1 and symbols and symbols[0].kind == "text" and not self._may_be_null(symbols[0]):
            return Symbol(joined[0])
        return Symbol({"text": joined})

    # --- statements --------------------------------------------------------------------------------------------------

    def _run(self, statements: Sequence[ast.stmt], scope: Scope) -> None:
        for statement in statements:
            self._execute(statement, scope)

    def _execute(self, statement: ast.stmt, scope: Scope) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            self.refuse("takes too many steps")
        self._place = (scope.module.path, statement)
        if isinstance(statement, ast.Pass):
            return
        if isinstance(statement, (ast.Break, ast.Continue)):
            raise _BreakError if isinstance(statement, ast.Break) else _ContinueError
        handler = getattr(self, f"_do_{type(statement).__name__}", None)
        if handler is None:
            self.refuse(f"{type(statement).__name__} is not read")
        handler(statement, scope)

    def _do_Expr(self, statement: ast.Expr, scope: Scope) -> None:
        if isinstance(statement.value, ast.Constant):
            return
        if isinstance(statement.value, ast.Call) and isinstance(statement.value.func, ast.Name):
            function = self.value(statement.value.func, scope)
            known, number = self._sources.only_tells, id(getattr(function, "node", None))
            if isinstance(function, Closure) and number not in known:
                known[number] = self._only_tells(function, set())
            if isinstance(function, Closure) and known[number]:
                self._sequence([*statement.value.args, *(word.value for word in statement.value.keywords)], scope)
                return
        self.value(statement.value, scope)

    def _only_tells(self, function: Closure, seen: set[int]) -> bool:
        """Return whether a function whose value nobody takes does nothing but compute and print."""
        if id(function.node) in seen:
            return True
        seen.add(id(function.node))
        for node in ast.walk(function.node):
            if isinstance(node, _DOING) or (
                isinstance(getattr(node, "ctx", None), ast.Store) and not isinstance(node, ast.Name)
            ):
                return False
            if isinstance(node, ast.Attribute) and node.attr in _ASKING:
                return False
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                called = function.scope.module.names.get(node.func.id)
                if isinstance(called, Closure) and not self._only_tells(called, seen):
                    return False
                if isinstance(called, (Broken, Outside)):
                    return False
        return True

    def _do_Assign(self, statement: ast.Assign, scope: Scope) -> None:
        value = self.value(statement.value, scope)
        for target in statement.targets:
            self._assign(target, value, scope)

    def _do_AnnAssign(self, statement: ast.AnnAssign, scope: Scope) -> None:
        if statement.value is not None:
            self._assign(statement.target, self.value(statement.value, scope), scope)

    def _do_AugAssign(self, statement: ast.AugAssign, scope: Scope) -> None:
        target = statement.target
        read: ast.expr = ast.copy_location(
            ast.Name(target.id, ast.Load()) if isinstance(target, ast.Name) else target, statement
        )
        self._assign(
            target, self._binary(statement.op, self.value(read, scope), self.value(statement.value, scope)), scope
        )

    def _do_If(self, statement: ast.If, scope: Scope) -> None:
        self._run(statement.body if self.truth(self.value(statement.test, scope)) else statement.orelse, scope)

    def _do_For(self, statement: ast.For, scope: Scope) -> None:
        items = self.items(self.value(statement.iter, scope))
        for item in items:
            self._assign(statement.target, item, scope)
            try:
                self._run(statement.body, scope)
            except _ContinueError:
                continue
            except _BreakError:
                return
        self._run(statement.orelse, scope)

    def _do_While(self, statement: ast.While, scope: Scope) -> None:
        for _ in range(_MOST_ROUNDS):
            if not self.truth(self.value(statement.test, scope)):
                self._run(statement.orelse, scope)
                return
            try:
                self._run(statement.body, scope)
            except _ContinueError:
                continue
            except _BreakError:
                return
        self._place = (scope.module.path, statement)
        self.refuse("goes round too often")

    def _do_Return(self, statement: ast.Return, scope: Scope) -> None:
        raise _ReturnedError(self.value(statement.value, scope) if statement.value else None)

    def _do_Raise(self, statement: ast.Raise, scope: Scope) -> None:
        if statement.exc is None:
            caught = scope.names.get("except")
            raise RaisedError(caught.name if isinstance(caught, Caught) else "Exception")
        raised = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
        value = self.value(raised, scope)
        if isinstance(value, (Caught, Builtin)):
            raise RaisedError(value.name)
        raise RaisedError("Exception")

    def _do_Assert(self, statement: ast.Assert, scope: Scope) -> None:
        if not self.truth(self.value(statement.test, scope)):
            raise RaisedError("AssertionError")

    def _do_Try(self, statement: ast.Try, scope: Scope) -> None:
        try:
            try:
                self._run(statement.body, scope)
            except RaisedError as error:
                handler = next((one for one in statement.handlers if self._catches(one, error.name, scope)), None)
                if handler is None:
                    raise
                caught = Caught(error.name)
                scope.names["except"] = caught
                if handler.name:
                    scope.names[handler.name] = caught
                self._run(handler.body, scope)
            else:
                self._run(statement.orelse, scope)
        finally:
            if statement.finalbody:
                self._run(statement.finalbody, scope)

    def _catches(self, handler: ast.ExceptHandler, name: str, scope: Scope) -> bool:
        if handler.type is None:
            return True
        value = self.value(handler.type, scope)
        raised = getattr(builtins, name, Exception)
        for caught in value if isinstance(value, tuple) else (value,):
            known = getattr(builtins, caught.name, None) if isinstance(caught, Builtin) else None
            if isinstance(known, type) and issubclass(raised, known):
                return True
        return False

    def _do_With(self, statement: ast.With, scope: Scope) -> None:
        for item in statement.items:
            value = self.value(item.context_expr, scope)
            if not isinstance(value, Outside):
                self.refuse("a context that is not known here")
            if item.optional_vars:
                self._assign(item.optional_vars, value, scope)
        self._run(statement.body, scope)

    def _do_Import(self, statement: ast.Import, scope: Scope) -> None:
        for alias in statement.names:
            whole = self._import(alias.name, scope, 0)
            if alias.asname is None and "." in alias.name:
                whole = self._import(alias.name.partition(".")[0], scope, 0)
            self._bind(alias.asname or alias.name.partition(".")[0], whole, scope)

    def _do_ImportFrom(self, statement: ast.ImportFrom, scope: Scope) -> None:
        source = self._import(statement.module or "", scope, statement.level)
        for alias in statement.names:
            if alias.name == "*":
                if isinstance(source, Module):
                    scope.names.update(source.names)
                continue
            if isinstance(source, Module) and alias.name not in source.names:
                inner = f"{statement.module}.{alias.name}" if statement.module else alias.name
                value = self._import(inner, scope, statement.level)
            else:
                value = self._attribute(source, alias.name)
            self._bind(alias.asname or alias.name, value, scope)

    def _do_FunctionDef(self, statement: ast.FunctionDef, scope: Scope) -> None:
        for decorator in statement.decorator_list:
            if not isinstance(self.value(decorator, scope), Outside):
                self._bind(statement.name, Broken(f"{scope.module.path}:{statement.lineno}: has a decorator"), scope)
                return
        self._bind(statement.name, self._closure(statement, scope), scope)

    def _do_ClassDef(self, statement: ast.ClassDef, scope: Scope) -> None:
        place = f"{scope.module.path}:{statement.lineno}"
        self._bind(statement.name, Broken(f"{place}: classes are not read"), scope)

    def _do_Global(self, statement: ast.Global, scope: Scope) -> None:
        scope.shared.update(statement.names)

    def _do_Delete(self, statement: ast.Delete, scope: Scope) -> None:
        for target in statement.targets:
            container = self.value(target.value, scope) if isinstance(target, ast.Subscript) else scope.names
            key = self.value(target.slice, scope) if isinstance(target, ast.Subscript) else getattr(target, "id", None)
            if not isinstance(container, dict) or not isinstance(key, str) or key not in container:
                self.refuse("deletes what is not known here")
            del container[key]

    # --- names -------------------------------------------------------------------------------------------------------

    def _bind(self, name: str, value: Any, scope: Scope) -> None:
        (scope.module.names if name in scope.shared else scope.names)[name] = value

    def _assign(self, target: ast.expr, value: Any, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id, value, scope)
        elif isinstance(target, (ast.Tuple, ast.List)):
            values = list(self.items(value))
            if len(values) != len(target.elts) or any(isinstance(part, ast.Starred) for part in target.elts):
                self.refuse("takes apart what has another length")
            for part, item in zip(target.elts, values, strict=True):
                self._assign(part, item, scope)
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value, scope)
            if isinstance(owner, Module):
                owner.names[target.attr] = value
            elif not isinstance(owner, Outside):
                self.refuse("sets an attribute")
        elif isinstance(target, ast.Subscript):
            container, key = self.value(target.value, scope), self.value(target.slice, scope)
            if isinstance(container, Outside) and container.path == "os.environ":
                self._environment[key] = value
            elif isinstance(container, Symbol) or isinstance(key, Symbol):
                self.refuse("sets an item that a run will find")
            elif isinstance(container, (dict, list)):
                container[key] = value
            elif not isinstance(container, Outside):
                self.refuse("sets an item")
        else:
            self.refuse("assigns to something else than a name")

    def _closure(self, node: ast.FunctionDef | ast.Lambda, scope: Scope) -> Closure:
        arguments = node.args
        defaults = tuple(self.value(default, scope) for default in arguments.defaults)
        of_keywords = {
            argument.arg: self.value(default, scope)
            for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if default is not None
        }
        return Closure(node, scope, defaults, of_keywords)

    # --- expressions -------------------------------------------------------------------------------------------------

    def value(self, node: ast.expr, scope: Scope) -> Any:
        """Return the value of an expression."""
        handler = getattr(self, f"_of_{type(node).__name__}", None)
        if handler is None:
            self._place = (scope.module.path, node)
            self.refuse(f"{type(node).__name__} is not read")
        return handler(node, scope)

    def _of_Constant(self, node: ast.Constant, _: Scope) -> Any:
        if not isinstance(node.value, _SIMPLE):
            self.refuse("a constant that is neither text nor number")
        return node.value

    def _of_Name(self, node: ast.Name, scope: Scope) -> Any:
        around: Scope | None = scope
        while around is not None:
            if node.id in around.names and node.id not in around.shared:
                return self._usable(around.names[node.id])
            if node.id in around.local and node.id not in around.shared:
                raise RaisedError("UnboundLocalError")
            around = around.parent
        if node.id in scope.module.names:
            return self._usable(scope.module.names[node.id])
        if hasattr(builtins, node.id):
            return Builtin(node.id)
        raise RaisedError("NameError")

    def _usable(self, value: Any) -> Any:
        if isinstance(value, Broken):
            raise RefusedError(value.reason, "is used")
        return value

    def _of_JoinedStr(self, node: ast.JoinedStr, scope: Scope) -> Any:
        return self.text([self._piece(part, scope) for part in node.values])

    def _piece(self, part: ast.expr, scope: Scope) -> Any:
        if not isinstance(part, ast.FormattedValue):
            return self.value(part, scope)
        value = self.value(part.value, scope)
        form = self.value(part.format_spec, scope) if part.format_spec else ""
        return self._formatted(value, form, {-1: "", 115: "s", 114: "r", 97: "a"}[part.conversion])

    def _formatted(self, value: Any, form: Any, conversion: str) -> Any:
        if isinstance(value, (Outside, Reply, Caught, *_SIMPLE)) or (conversion in {"", "s"} and form == ""):
            if isinstance(value, _SIMPLE):
                shown = getattr(builtins, _CONVERSIONS[conversion])(value) if conversion else value
                return format(shown, form)
            if isinstance(value, (list, tuple, dict, set)):
                return str(value) if _is_known(value) else Outside("a text with a list")
            return value
        return self.refuse("formats what a run will find")

    def _of_BinOp(self, node: ast.BinOp, scope: Scope) -> Any:
        return self._binary(node.op, self.value(node.left, scope), self.value(node.right, scope))

    def _binary(self, operator: ast.operator, left: Any, right: Any) -> Any:
        if isinstance(operator, ast.BitOr) and all(
            isinstance(side, int) or (isinstance(side, Outside) and _flag(side.path) is not None)
            for side in (left, right)
        ):
            return _flag_value(left) | _flag_value(right)
        if isinstance(operator, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return left + right
        if isinstance(operator, ast.BitOr) and isinstance(left, dict) and isinstance(right, dict):
            return left | right
        if isinstance(operator, ast.BitOr):
            return Outside("a type")  # annotations
        if isinstance(operator, ast.Mod) and isinstance(left, str):
            return self._percent(left, right)
        operation = _BINARY.get(type(operator))
        if operation is None:
            self.refuse("an operator that is not read")
        is_text = operation == "add" and _kind(left) == _kind(right) == "text"
        if is_text and not (self._may_be_null(left) or self._may_be_null(right)):
            return self.text([left, right])
        if operation == "multiply" and {_kind(left), _kind(right)} != {"number"}:
            self.refuse("repeats a text")
        return self.apply(operation, left, right)

    def _percent(self, form: str, value: Any) -> Any:
        values = list(value) if isinstance(value, tuple) else [value]
        pieces = re.split(r"(%[sd%])", form)
        if "%" in "".join(pieces[::2]) or sum(piece in {"%s", "%d"} for piece in pieces) != len(values):
            self.refuse("a form of % that is not read")
        return self.text(
            ["%" if piece == "%%" else values.pop(0) if piece in {"%s", "%d"} else piece for piece in pieces]
        )

    def _of_BoolOp(self, node: ast.BoolOp, scope: Scope) -> Any:
        is_or, (*parts, last) = isinstance(node.op, ast.Or), node.values
        for number, part in enumerate(parts):
            value = self.value(part, scope)
            ends_empty = number == len(parts) - 1 and isinstance(last, ast.Constant) and last.value == ""
            if is_or and ends_empty and isinstance(value, Symbol) and value.kind == "text":
                return Symbol({"or": [value.expression, ""]}) if self._may_be_null(value) else value
            if self.truth(value) is is_or:
                return value
        return self.value(last, scope)

    def _of_UnaryOp(self, node: ast.UnaryOp, scope: Scope) -> Any:
        value = self.value(node.operand, scope)
        if isinstance(node.op, ast.Not):
            return not self.truth(value)
        if isinstance(node.op, ast.USub) and isinstance(value, (int, float)):
            return -value
        return self.refuse("a sign that is not read")

    def _of_Compare(self, node: ast.Compare, scope: Scope) -> Any:
        left = self.value(node.left, scope)
        for operator, part in zip(node.ops, node.comparators, strict=True):
            right = self.value(part, scope)
            if not self._compared(operator, left, right):
                return False
            left = right
        return True

    def _compared(self, operator: ast.cmpop, left: Any, right: Any) -> bool:
        if isinstance(operator, (ast.In, ast.NotIn)):
            return self._contained(left, right) is isinstance(operator, ast.In)
        positive = isinstance(operator, (ast.Is, ast.Eq))
        if isinstance(operator, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)) and (left is None or right is None):
            return self.is_null(right if left is None else left) is positive
        if isinstance(operator, (ast.Is, ast.IsNot)):
            if isinstance(left, bool) or isinstance(right, bool):
                return (left is right) is positive
            self.refuse("an identity that is not read")
        return self.truth(self.apply(_COMPARED[type(operator)], left, right))

    def _contained(self, value: Any, container: Any) -> bool:
        if isinstance(container, dict):
            container = list(container)
        if isinstance(container, Outside) and container.path == "os.environ":
            return not self.is_null(self._variable(value))
        return self.truth(self.apply("in", value, container))

    def _of_IfExp(self, node: ast.IfExp, scope: Scope) -> Any:
        return self.value(node.body if self.truth(self.value(node.test, scope)) else node.orelse, scope)

    def _of_List(self, node: ast.List, scope: Scope) -> Any:
        return self._sequence(node.elts, scope)

    def _of_Tuple(self, node: ast.Tuple, scope: Scope) -> Any:
        return tuple(self._sequence(node.elts, scope))

    def _of_Set(self, node: ast.Set, scope: Scope) -> Any:
        return set(self._sequence(node.elts, scope))

    def _sequence(self, parts: Sequence[ast.expr], scope: Scope) -> list[Any]:
        values: list[Any] = []
        for part in parts:
            if isinstance(part, ast.Starred):
                values.extend(self.items(self.value(part.value, scope)))
            else:
                values.append(self.value(part, scope))
        return values

    def _of_Dict(self, node: ast.Dict, scope: Scope) -> Any:
        values: dict[Any, Any] = {}
        for key, part in zip(node.keys, node.values, strict=True):
            value = self.value(part, scope)
            if key is None and isinstance(value, Mapping):
                values.update(value)
            elif key is None:
                self.refuse("unpacks what is no dict")
            else:
                name = self.value(key, scope)
                if isinstance(name, (Symbol, Outside)):
                    self.refuse("a key that a run will find")
                values[name] = value
        return values

    def _of_Subscript(self, node: ast.Subscript, scope: Scope) -> Any:
        container = self.value(node.value, scope)
        if isinstance(container, Builtin):
            return Outside("a type")  # annotations
        if isinstance(node.slice, ast.Slice):
            parts = (node.slice.lower, node.slice.upper, node.slice.step)
            return self.apply("slice", container, *(self.value(part, scope) if part else None for part in parts))
        return self.item(container, self.value(node.slice, scope))

    def item(self, container: Any, key: Any) -> Any:
        """Return an item of a container."""
        if isinstance(container, (dict, list, tuple)):
            if isinstance(key, Symbol):
                self.refuse("an item whose key a run will find")
            try:
                return container[key]
            except (KeyError, IndexError, TypeError) as error:
                if isinstance(container, Row):
                    self.refuse(f"the column {key} is not known here")
                raise RaisedError(type(error).__name__) from error
        if isinstance(container, Outside) and container.path == "os.environ":
            value = self._variable(key)
            if self.is_null(value):
                raise RaisedError("KeyError")
            return value
        if isinstance(container, Reply) and isinstance(key, str):
            return self._attribute(container, key)
        if isinstance(container, (Reply, Rows)):
            return container
        if isinstance(container, Outside):
            return Outside(f"{container.path}[]")
        if isinstance(container, Symbol) and container.kind == "match":
            return self.apply("group", container, key)
        return self.apply("item", container, key)

    def _of_Attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        return self._attribute(self.value(node.value, scope), node.attr)

    def _attribute(self, owner: Any, name: str) -> Any:
        if isinstance(owner, Module):
            if name not in owner.names:
                self.refuse(f"{owner.path} has no {name}")
            return self._usable(owner.names[name])
        if isinstance(owner, Outside):
            path = f"{owner.path}.{name}"
            flag = _flag(path)
            return flag if flag is not None else Outside(path, owner.arguments)
        if isinstance(owner, Options):
            if name not in owner.values:
                self.refuse(f"no option {name}")
            return owner.values[name]
        if isinstance(owner, Reply):
            is_text = name in {"content", "text", "output_text"}
            number = owner.number
            return Symbol({"reply": number}, nullable=True) if is_text and not self._holds_parts(name) else owner
        if isinstance(owner, Rows) and name == "column_names":
            return list(owner.row)
        if isinstance(owner, Pattern) and name == "pattern":
            return owner.pattern
        return Bound(owner, name)

    def _holds_parts(self, name: str) -> bool:
        """Return whether an attribute `content` is a list of parts, as in replies of the Responses interface."""
        return name == "content" and self._api == "responses"

    _api = ""

    def _of_Lambda(self, node: ast.Lambda, scope: Scope) -> Any:
        return self._closure(node, scope)

    def _of_NamedExpr(self, node: ast.NamedExpr, scope: Scope) -> Any:
        value = self.value(node.value, scope)
        self._assign(node.target, value, scope)
        return value

    def _of_ListComp(self, node: ast.ListComp, scope: Scope) -> Any:
        return self._comprehended(node.elt, node.generators, scope)

    def _of_SetComp(self, node: ast.SetComp, scope: Scope) -> Any:
        return set(self._comprehended(node.elt, node.generators, scope))

    def _of_GeneratorExp(self, node: ast.GeneratorExp, scope: Scope) -> Any:
        return self._comprehended(node.elt, node.generators, scope)

    def _of_DictComp(self, node: ast.DictComp, scope: Scope) -> Any:
        pair = ast.copy_location(ast.Tuple([node.key, node.value], ast.Load()), node)
        return dict(self._comprehended(pair, node.generators, scope))

    def _comprehended(self, form: ast.expr, generators: Sequence[ast.comprehension], scope: Scope) -> Any:
        inner = Scope(scope.module, {}, scope)
        source = self.value(generators[0].iter, scope)
        if isinstance(source, Symbol):
            return self._mapped(source, form, generators, inner)
        return list(self._passes(form, generators, inner))

    def _passes(self, form: ast.expr, generators: Sequence[ast.comprehension], scope: Scope) -> Iterator[Any]:
        if not generators:
            yield self.value(form, scope)
            return
        first, *rest = generators
        for item in self.items(self.value(first.iter, scope)):
            self._assign(first.target, item, scope)
            if all(self.truth(self.value(test, scope)) for test in first.ifs):
                yield from self._passes(form, rest, scope)

    def _mapped(self, source: Symbol, form: ast.expr, generators: Sequence[ast.comprehension], scope: Scope) -> Any:
        """Return a comprehension over a list that a run will find."""
        (only, *others) = generators
        if others or only.ifs or source.kind != "list" or self._inline is not None:
            self.refuse("a comprehension that is not read")
        self._assign(only.target, Symbol({"value": "item"}), scope)
        self._inline = set()
        try:
            made = self.value(form, scope)
            expression = self.expressed(made)
            errors = sorted(self._inline)
        finally:
            self._inline = None
        if expression == {"value": "item"}:
            return source
        whole = {"map": [source.expression, expression]}
        return self._let(whole, "list", False, errors) if errors else Symbol(whole, "list")

    def items(self, value: Any) -> Sequence[Any]:
        """Return the items of something that is gone through."""
        if isinstance(value, (list, tuple, dict, str)):
            return list(value)
        if isinstance(value, (set, frozenset)):
            return sorted(value, key=repr)
        if isinstance(value, Reply):
            return [value]
        return self.refuse("goes through what a run will find")

    # --- calls -------------------------------------------------------------------------------------------------------

    def _of_Call(self, node: ast.Call, scope: Scope) -> Any:
        quantifier = node.func.id if isinstance(node.func, ast.Name) and node.func.id in {"any", "all"} else None
        if quantifier and len(node.args) == 1 and isinstance(node.args[0], (ast.GeneratorExp, ast.ListComp)):
            return self._quantified(quantifier == "any", node.args[0], scope)
        function = self.value(node.func, scope)
        if function == Builtin("print") or (isinstance(function, Outside) and function.path.startswith("logging.")):
            with suppress(RefusedError):  # what is told is no part of what is sent
                self._sequence(node.args, scope)
            return None
        arguments = self._sequence(node.args, scope)
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, scope)
            if keyword.arg is not None:
                named[keyword.arg] = value
            elif isinstance(value, Mapping):
                named.update(value)
            else:
                self._place = (scope.module.path, node)
                self.refuse("unpacks what is not known here")
        before = self._place
        self._place = (scope.module.path, node)
        result = self.call(function, arguments, named)
        self._place = before
        return result

    def _quantified(self, is_any: bool, node: ast.GeneratorExp | ast.ListComp, scope: Scope) -> bool:
        """Return `any` or `all` of a comprehension, which stops where the outcome is known."""
        inner = Scope(scope.module, {}, scope)
        for value in self._passes(node.elt, node.generators, inner):
            if self.truth(value) is is_any:
                return is_any
        return not is_any

    def call(self, function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Return what a function returns."""
        if isinstance(function, Closure):
            return self._called(function, arguments, named)
        if isinstance(function, Builtin):
            return self._builtin(function.name, arguments, named)
        if isinstance(function, Bound):
            return self._method(function.receiver, function.name, arguments, named)
        if isinstance(function, Outside):
            return self._outside(function, arguments, named)
        return self.refuse("calls what is not known here")

    def _called(self, function: Closure, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if self._depth >= _MOST_DEPTH:
            self.refuse("calls go too deep")
        node, module = function.node, function.scope.module
        if self.stop_at == module.path and (self._depth or not _reads_options(node)):
            raise _ReturnedError(None)
        outer = None if function.scope.names is module.names else function.scope
        given = self._given(function, arguments, named)
        if not self._is_request and isinstance(node, ast.FunctionDef) and any(map(_are_messages, given.values())):
            return self._requested(function, given)
        stored = self._sources.stored
        if id(node) not in stored:
            stored[id(node)] = _stored(node.body if isinstance(node, ast.FunctionDef) else [])
        scope = Scope(module, given, outer, stored[id(node)])
        before, self._depth = self._place, self._depth + 1
        try:
            if isinstance(node, ast.Lambda):
                return self.value(node.body, scope)
            self._run(node.body, scope)
        except _ReturnedError as returned:
            return returned.value
        finally:
            self._place, self._depth = before, self._depth - 1
        return None

    def _requested(self, function: Closure, given: Mapping[str, Any]) -> Symbol:
        """Return what a function that is given messages returns; it is read as a program of its own."""
        name = getattr(function.node, "name", "")
        values = {of_name: self.expressed(value) for of_name, value in given.items()}
        key = key_of([function.scope.module.path, name, values])
        known = self._sources.requests
        if key not in known:

            def read(walk: Walk) -> Any:
                walk.begin_request()
                # A walk may change lists and dicts; the next one begins with them as they were.
                return walk.call(walk.module(function.scope.module.path).names[name], [], deepcopy(dict(given)))

            known[key] = read_program(self._sources, read, lambda: self._externals)
        errors = sorted({node["raise"] for node in nodes(known[key]) if "raise" in node})
        let = f"v_{sha256_text(key)[:8]}"
        if key not in self._lets:
            self._lets[key] = self._branch.outcome({"let": let, "call": key}, ("then", *errors))
        if self._lets[key] != "then":
            raise RaisedError(self._lets[key])
        return Symbol({"value": let}, nullable=True)

    def begin_request(self) -> None:
        """Read functions that are given messages as part of this walk."""
        self._is_request = True

    def _given(self, function: Closure, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return a function's parameters by name."""
        form, given, rest = function.node.args, list(arguments), dict(named)
        names = [argument.arg for argument in (*form.posonlyargs, *form.args)]
        values = dict(zip(names[len(names) - len(function.defaults) :], function.defaults, strict=True))
        values |= function.keyword_defaults
        values |= dict(zip(names, given, strict=False))
        known = {*names, *(argument.arg for argument in form.kwonlyargs)}
        values |= {name: rest.pop(name) for name in list(rest) if name in known}
        if form.vararg:
            values[form.vararg.arg] = tuple(given[len(names) :])
        if form.kwarg:
            values[form.kwarg.arg] = rest
        too_many = (len(given) > len(names) and not form.vararg) or (rest and not form.kwarg)
        if too_many or known - values.keys():
            raise RaisedError("TypeError")
        return values

    def _builtin(self, name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        first = arguments[0] if arguments else None
        if name == "str" and len(arguments) == 1:
            return self.text([first]) if isinstance(first, (Symbol, *_SIMPLE)) else Outside("a text")
        if name in _PURE and not named:
            return self.apply(name, *arguments)
        if name == "bool":
            return self.truth(first)
        if name in {"any", "all"}:
            truths = [self.truth(value) for value in self.items(first)]
            return any(truths) if name == "any" else all(truths)
        if name == "getattr":
            return self._attribute(first, arguments[1])
        if name == "isinstance":
            return self._is_instance(first, arguments[1])
        if name == "type":
            return Outside("a type")
        if name == "open":
            return Outside("a file")
        if name in {"list", "tuple", "set", "frozenset", "sorted", "enumerate", "zip", "range", "reversed"}:
            if name == "list" and isinstance(first, Symbol) and first.kind == "list":
                return first
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
        if isinstance(value, (*_SIMPLE, list, tuple, dict, set)):
            return isinstance(value, tuple(getattr(builtins, name) for name in names))
        return self.refuse("a type that is not known here")

    def _method(self, owner: Any, name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if isinstance(owner, Rows):
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

    def _of_rows(self, owner: Rows, name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if name == "map":
            position = [Symbol({"input": "index"}, "number")] if named.get("with_indices") else []
            changed = self.call(arguments[0], [owner.row, *position], {})
            if not isinstance(changed, Mapping):
                self.refuse("a row that is not known here")
            owner.row = Row({**owner.row, **changed})
            return owner
        if name == "filter":
            if owner.selects and not self.truth(self.call(arguments[0], [owner.row], {})):
                raise LeftOutError
            return owner
        if name == "rename_column":
            old, new = arguments
            if old not in owner.row:
                self.refuse(f"the column {old} is not known here")
            owner.row = Row({new if column == old else column: value for column, value in owner.row.items()})
            return owner
        if name in {"remove_columns", "drop"}:
            gone = arguments[0] if isinstance(arguments[0], list) else [arguments[0]]
            owner.row = Row({column: value for column, value in owner.row.items() if column not in gone})
            return owner
        if name in {"to_json", "to_pandas", "to_list", "to_csv", "save_to_disk"}:
            owner.written = owner.row
            return Outside("a file")
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
        if path == "os.path.exists":
            return False
        if path == "argparse.ArgumentParser":
            return Parser()
        api = next((api for end, api in _CALLS.items() if f".{path}".endswith(f".{end}")), None)
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
        if name.endswith("KEY") or "TOKEN" in name.replace("MAX_TOKENS", ""):
            return "key"  # it is there, and no part of anything
        value = Symbol({"input": f"environment {name}"}, nullable=True)
        return value if default is None else default if self.is_null(value) else value

    def _ask(self, api: str, function: Outside, arguments: Sequence[Any], named: Mapping[str, Any]) -> Reply:
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
        return Reply(self._asked)


def _is_guard(statement: ast.If) -> bool:
    """Return whether a statement is `if __name__ == "__main__"`."""
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test))


def _reads_options(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Attribute) and inner.attr == "add_argument" for inner in ast.walk(node))


def _stored(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """Return the names that a function assigns."""
    return frozenset(
        node.id
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )


def _flag(path: str) -> int | None:
    name = path.removeprefix("re.")
    flag = getattr(re, name, None) if path.startswith("re.") and name.isupper() else None
    return int(flag) if isinstance(flag, re.RegexFlag) else None


def _flag_value(side: Any) -> int:
    return side if isinstance(side, int) else _flag(side.path) or 0


def _is_known(value: Any) -> bool:
    """Return whether nothing in a value is left to a run."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(_is_known, value))
    if isinstance(value, Mapping):
        return all(map(_is_known, value.values()))
    return isinstance(value, _SIMPLE)


def _kind(value: Any) -> Kind:
    if isinstance(value, Symbol):
        return value.kind
    if isinstance(value, str):
        return "text"
    if isinstance(value, (int, float)):
        return "number"
    return "list" if isinstance(value, (list, tuple, set, frozenset)) else "any"


def _flat(values: Sequence[Any]) -> list[Any]:
    return [inner for value in values for inner in (value if isinstance(value, (list, tuple)) else [value])]


# --- trees -----------------------------------------------------------------------------------------------------------

Reader = Callable[[Walk], Any]
"""Reads what is wanted on one walk, and returns its value."""


def read_program(sources: Sources, reader: Reader, externals: Callable[[], Mapping[str, External]]) -> dict[str, Any]:
    """Walk the sources along every path, and return the tree of all outcomes.

    Args:
        sources: The checkout's.
        reader: What is read.
        externals: Makes the functions of other packages that are known, anew for each walk.
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
        leaf = _leaf(Walk(sources, path, externals()), reader)
        taken = [number for *_, number in path.met]
        for place in range(len(chosen), len(path.met)):
            outcomes = path.met[place][1]
            waiting.extend([*taken[:place], other] for other in range(1, len(outcomes)))
        _grow(root, path, leaf)
    return _Sharing(sources).shared(root)


def _leaf(walk: Walk, reader: Reader) -> dict[str, Any]:
    try:
        return {"return": walk.expressed(reader(walk))}
    except RaisedError as error:
        return {"raise": error.name}
    except LeftOutError:
        return {"raise": "LeftOut"}
    except RefusedError as error:
        return {"refused": str(error)}
    except _ReturnedError:
        return {"refused": "ends outside of a function"}


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

    def __init__(self, sources: Sources) -> None:
        self._requests = sources.requests
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


def _are_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) and "role" in item for item in value)
