"""An LLM evaluation lakehouse: evaluations as Dagster assets, Delta tables and SQL.

`open_lake` and `evaluate` are the library, the other names are for plugins; each is loaded when it is used.
"""

from typing import TYPE_CHECKING, Any

from shaberi_dagster.settings import VERSION

if TYPE_CHECKING:
    from shaberi_dagster.api import evaluate, open_lake
    from shaberi_dagster.reports.report import Column, Report, Table, When
    from shaberi_dagster.reports.requests import RunSelection

__all__ = ["Column", "Report", "RunSelection", "Table", "When", "__version__", "evaluate", "open_lake"]
__version__ = VERSION


def __getattr__(name: str) -> Any:
    if name in {"evaluate", "open_lake"}:
        from shaberi_dagster import api  # noqa: PLC0415

        return getattr(api, name)
    if name in __all__:
        from shaberi_dagster.reports import report, requests  # noqa: PLC0415

        return getattr(report, name, None) or getattr(requests, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
