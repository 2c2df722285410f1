"""An LLM evaluation lakehouse: evaluations as Dagster assets, Delta tables and SQL.

`open_lake` and `evaluate` are the library, the other names are for plugins; each is loaded when it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shaberi_dagster.api import evaluate, open_lake
    from shaberi_dagster.reports.report import Column, Report, Table, When
    from shaberi_dagster.reports.requests import RunSelection

    __version__: str

__all__ = ["Column", "Report", "RunSelection", "Table", "When", "__version__", "evaluate", "open_lake"]
_PLACES = {
    "__version__": ("shaberi_dagster.settings", "VERSION"),
    "evaluate": ("shaberi_dagster.api", "evaluate"),
    "open_lake": ("shaberi_dagster.api", "open_lake"),
    **{name: ("shaberi_dagster.reports.report", name) for name in ("Column", "Report", "Table", "When")},
    "RunSelection": ("shaberi_dagster.reports.requests", "RunSelection"),
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)
