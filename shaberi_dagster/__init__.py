"""An LLM evaluation lakehouse: evaluations as Dagster assets, Delta tables and SQL.

`open_lake` and `evaluate` are the library; they are loaded when they are used.
"""

from typing import TYPE_CHECKING, Any

from shaberi_dagster.settings import VERSION

if TYPE_CHECKING:
    from shaberi_dagster.api import evaluate, open_lake

__all__ = ["__version__", "evaluate", "open_lake"]
__version__ = VERSION


def __getattr__(name: str) -> Any:
    if name in {"evaluate", "open_lake"}:
        from shaberi_dagster import api  # noqa: PLC0415

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
