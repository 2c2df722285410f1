"""Modules that are loaded when they are first used, for those that cost start-up time."""

from importlib import import_module
from types import ModuleType
from typing import Any


class _LazyModule(ModuleType):
    """The module of a name, which is imported when one of its attributes is first asked for."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


def lazy(name: str) -> Any:
    """Return a module that is imported at its first use; `import_module` lets only one thread import it.

    With its types: import it under `TYPE_CHECKING`, else set the same name to `lazy("its.name")`.

    Args:
        name: Its full name, written out, so that tests which count imports find it.
    """
    return _LazyModule(name)
