"""Imports that are put off until what they import is used, for modules that cost start-up time."""

import builtins
import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from threading import Lock, RLock
from types import ModuleType, SimpleNamespace
from typing import Any

_python: Any = builtins
_one_at_a_time = Lock()
_filling = RLock()


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


@contextmanager
def loading() -> Iterator[None]:
    """Load libraries within this context: imports leave no garbage, so none is looked for now, nor later among them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


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


class _UnfilledPackage(ModuleType):
    """A package whose modules can be imported at once, and whose `__init__` runs when a name of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        with _filling:
            if isinstance(self, _UnfilledPackage):  # no other thread has filled it meanwhile
                loader = None if name.startswith("__") else self.__dict__.pop("__loader__", None)
                if loader is None:  # such a name fills nothing, nor does one that is asked for while it is filled
                    raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
                try:
                    loader.exec_module(self)
                finally:
                    self.__loader__ = loader
                self.__class__ = ModuleType  # type: ignore[assignment]
        return getattr(self, name)


def fill_later(*packages: str) -> None:
    """Put off the `__init__` of packages that a library imports, although what we use of it needs none of their names.

    For a library that imports all of itself: the classes of every answer that its server can give, say.

    Args:
        packages: Of each the parent comes before it, or is a package of the top that need not be imported yet.
    """
    for name in packages:
        parent, _, child = name.rpartition(".")
        above = sys.modules.get(parent)
        parent_spec = above.__spec__ if above else find_spec(parent)
        spec = parent_spec and PathFinder.find_spec(name, parent_spec.submodule_search_locations)
        if name in sys.modules or not spec or not spec.loader:
            continue
        package = _UnfilledPackage(name)
        package.__spec__, package.__loader__, package.__file__ = spec, spec.loader, spec.origin
        package.__package__, package.__path__ = name, spec.submodule_search_locations or []
        sys.modules[name] = package
        if above:
            setattr(above, child, package)
