"""What tests do once a process, arranged when the library that it is about is imported, and not before."""

import sys
from collections.abc import Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _BeforeDagster(MetaPathFinder):
    """Finds nothing; when Dagster is asked for it changes what Dagster takes for its own."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname == "dagster":
            sys.meta_path.remove(self)
            from tests.migrations import open_databases_once, read_migrations_once

            read_migrations_once()
            open_databases_once()
        return None


def watch_imports() -> None:
    """Have databases opened once as soon as Dagster is imported."""
    sys.meta_path.insert(0, _BeforeDagster())


def arrange() -> None:
    """Have the jobs and tables of the libraries that are there by now made once."""
    if "dagster" in sys.modules:
        _jobs()
    if "shaberi_dagster.lake.store" in sys.modules:
        _tables()


def close_databases() -> None:
    """Close the databases that are kept open."""
    if migrations := sys.modules.get("tests.migrations"):
        migrations.close_databases()


@cache
def _jobs() -> None:
    from tests.migrations import make_jobs_once

    make_jobs_once()


@cache
def _tables() -> None:
    from tests.tables import make_tables_once

    make_tables_once()
