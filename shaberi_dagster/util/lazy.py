"""Imports that are put off until what they import is used, for modules that cost start-up time."""

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from threading import Lock
from types import ModuleType, SimpleNamespace
from typing import Any

_python: Any = builtins
_one_at_a_time = Lock()


class _LazyModule(ModuleType):
    """The module of a name, which is imported when one of its attributes is first asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


@contextmanager
def lazily(importer: str) -> Iterator[None]:
    """Put off the imports within this context, as `lazy import` does from Python 3.15 on (PEP 810).

    They are of whole modules, `import module` or `from package import module`. Nothing is imported within the context,
    so that it takes no time; at the first use `import_module` lets only one thread import a module.

    Args:
        importer: `__name__` of the module in which they stand; the imports of other threads are as always.
    """

    def put_off(
        name: str,
        variables: Mapping[str, Any] | None = None,
        local: Mapping[str, Any] | None = None,
        parts: Sequence[str] | None = None,
        level: int = 0,
    ) -> Any:
        if not variables or variables.get("__name__") != importer:
            return eager(name, variables, local, parts or (), level)
        if parts:
            return SimpleNamespace(**{part: _LazyModule(f"{name}.{part}") for part in parts})
        return _LazyModule(name)

    with _one_at_a_time:
        eager, _python.__import__ = _python.__import__, put_off
        try:
            yield
        finally:
            _python.__import__ = eager


def handed_out(variables: dict[str, Any]) -> Callable[[str], Any]:
    """Return a `__getattr__` of a module that imports at their first use what `lazily` has put off there.

    Args:
        variables: `globals()` of the module. In it nothing can stand for a class or a function, so that they are taken
            out: the module only hands them out.
    """
    places = {name: value.__name__ for name, value in variables.items() if isinstance(value, _LazyModule)}
    for name in places:
        del variables[name]

    def found(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {variables['__name__']!r} has no attribute {name!r}")
        module, _, attribute = places[name].rpartition(".")
        return getattr(import_module(module), attribute)

    return found
