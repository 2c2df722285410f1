"""The door of the code location: `dagster dev -m shaberi_dagster.definitions`."""

from shaberi_dagster.defs.code_location import defs

__all__ = ["defs"]
