"""Python runs this first where the folder is in PYTHONPATH: Dagster's servers and runs, as in `tests/migrations.py`."""

import sys

# Scripts are Dagster's helpers, which copy what a run prints and open nothing.
if not any(argument.endswith(".py") for argument in sys.orig_argv):
    from tests.migrations import open_databases_once, read_migrations_once

    read_migrations_once()
    open_databases_once()
