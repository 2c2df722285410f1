"""Python runs this first where the folder is in PYTHONPATH: Dagster's servers and runs, as in `tests/migrations.py`.

The runs that a server starts are forked from a process that has their imports behind it.
"""

import multiprocessing
import sys
from typing import Any

_get_context = multiprocessing.get_context


def _forking(method: str | None = None) -> Any:
    return _get_context("forkserver" if method == "spawn" else method)


# Scripts are Dagster's helpers, which copy what a run prints and open nothing.
if not any(argument.endswith(".py") for argument in sys.orig_argv):
    from tests.migrations import open_databases_once, read_migrations_once

    read_migrations_once()
    open_databases_once()
    multiprocessing.get_context = _forking  # type: ignore[assignment]
    multiprocessing.set_forkserver_preload(["dagster._grpc.server", "shaberi_dagster.definitions"])
