"""Partial evaluation of the suite's source: its functions are read over symbolic rows, and become programs as data.

Nothing of the checkout is run. Its syntax trees are walked here, with constants as they are and rows, models and
replies as symbols. Wherever the walk depends on a symbol it is repeated for each outcome, so that a tree of all
outcomes remains (`trees`). What is not known here is refused with file and line, for the paths that reach it.
"""

import ast
import builtins
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import PurePosixPath
from typing import Any

from shaberi_dagster.exchange.suite.calls import CALLS, SuiteCalls
from shaberi_dagster.exchange.suite.sources import Sources
from shaberi_dagster.exchange.suite.trees import Branch, read_program
from shaberi_dagster.exchange.suite.values import (
    SIMPLE,
    Bound,
    Broken,
    Builtin,
    Caught,
    Closure,
    External,
    Module,
    Options,
    Outside,
    Pattern,
    RaisedError,
    RefusedError,
    Scope,
    Symbol,
    SymbolicReply,
    SymbolicRow,
    SymbolicRows,
    key_of,
    kind_of,
)
from shaberi_dagster.judges.programs import nodes
from shaberi_dagster.util.identity import sha256_text

_MOST_DEPTH, _MOST_ROUNDS, _MOST_STEPS = 60, 50, 1_500_000
_ASKING = frozenset(path.rpartition(".")[2] for path in CALLS)
_DOING = (ast.Raise, ast.Global, ast.Nonlocal, ast.Delete, ast.Await, ast.Yield, ast.YieldFrom)
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


class _ReturnedError(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class _BreakError(Exception):
    pass


class _ContinueError(Exception):
    pass


class SuiteWalk(SuiteCalls):
    """One walk over the sources along a path.

    Args:
        sources: The checkout's.
        branch: Outcomes to take.
        externals: Functions of other packages that are known here, by path.
    """

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

    def named(self, path: str, name: str) -> Any:
        """Return what a file's top level calls by a name."""
        return self.attribute(self.module(path), name)

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
            inner = ast.walk(statement)
            names = [node.id for node in inner if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
            if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                names = [statement.name]
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                names = [alias.asname or alias.name for alias in statement.names]
            scope.names.update(dict.fromkeys(names, Broken(str(error))))

    def _import(self, name: str, scope: Scope, level: int) -> Any:
        path = self._sources.path_of(name, scope.module.path, level)
        if path:
            return self.module(path)
        if level:
            self.refuse("imports what is not in the checkout")
        return Outside(name)

    # --- statements --------------------------------------------------------------------------------------------------

    def _run(self, statements: Sequence[ast.stmt], scope: Scope) -> None:
        for statement in statements:
            self._execute(statement, scope)

    def _execute(self, statement: ast.stmt, scope: Scope) -> None:
        self._place = (scope.module.path, statement)
        self._sources.steps += 1
        if self._sources.steps > _MOST_STEPS:
            self.refuse("the checkout takes too many steps to read")
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
                handler = next((tried for tried in statement.handlers if self._catches(tried, error.name, scope)), None)
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
                value = self.attribute(source, alias.name)
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
        if not isinstance(node.value, SIMPLE):
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

    def _of_BinOp(self, node: ast.BinOp, scope: Scope) -> Any:
        return self._binary(node.op, self.value(node.left, scope), self.value(node.right, scope))

    def _binary(self, operator: ast.operator, left: Any, right: Any) -> Any:
        if isinstance(operator, ast.BitOr):
            both = (left, right)
            is_known = any(all(isinstance(side, kind) for side in both) for kind in (int, dict))
            return left | right if is_known else Outside("a type")  # annotations
        if isinstance(operator, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return self.bounded(left + right)
        if isinstance(operator, ast.Mod) and isinstance(left, str):
            return self._percent(left, right)
        operation = _BINARY.get(type(operator))
        if operation is None:
            self.refuse("an operator that is not read")
        is_text = operation == "add" and kind_of(left) == kind_of(right) == "text"
        if is_text and not (self._may_be_null(left) or self._may_be_null(right)):
            return self.text([left, right])
        if operation == "multiply" and {kind_of(left), kind_of(right)} != {"number"}:
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
                if isinstance(container, SymbolicRow):
                    self.refuse(f"the column {key} is not known here")
                raise RaisedError(type(error).__name__) from error
        if isinstance(container, Outside) and container.path == "os.environ":
            value = self._variable(key)
            if self.is_null(value):
                raise RaisedError("KeyError")
            return value
        if isinstance(container, SymbolicReply) and isinstance(key, str):
            return self.attribute(container, key)
        if isinstance(container, (SymbolicReply, SymbolicRows)):
            return container
        if isinstance(container, Outside):
            return Outside(f"{container.path}[]")
        if isinstance(container, Symbol) and container.kind == "match":
            return self.apply("group", container, key)
        return self.apply("item", container, key)

    def _of_Attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        return self.attribute(self.value(node.value, scope), node.attr)

    def attribute(self, owner: Any, name: str) -> Any:
        """Return an attribute."""
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
        if isinstance(owner, SymbolicReply):
            is_text = name in {"content", "text", "output_text"}
            number = owner.number
            return Symbol({"reply": number}, nullable=True) if is_text and not self._holds_parts(name) else owner
        if isinstance(owner, SymbolicRows) and name == "column_names":
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
        if isinstance(value, SymbolicReply):
            return [value]
        if isinstance(value, SymbolicRows):
            return [value.row]
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

            def read(walk: SuiteWalk) -> Any:
                walk.begin_request()
                # A walk may change lists and dicts; the next one begins with them as they were.
                return walk.call(walk.module(function.scope.module.path).names[name], [], deepcopy(dict(given)))

            known[key] = read_source(self._sources, read, lambda: self._externals)
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


def _are_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) and "role" in item for item in value)


Reader = Callable[[SuiteWalk], Any]
"""Reads what is wanted on one walk, and returns its value."""


def read_source(sources: Sources, reader: Reader, externals: Callable[[], Mapping[str, External]]) -> dict[str, Any]:
    """Read the sources along every path, and return the program of all outcomes.

    Args:
        sources: The checkout's.
        reader: What is read.
        externals: Makes the functions of other packages that are known, anew for each walk.
    """

    def along(branch: Branch) -> Any:
        walk = SuiteWalk(sources, branch, externals())
        return walk.expressed(reader(walk))

    return read_program(along, sources.requests)
