"""Dagster's databases and jobs, made and opened without doing again what one process has done once."""

import os
import sys
from collections.abc import Sequence
from typing import Any

import sqlalchemy
from alembic.script import ScriptDirectory
from sqlalchemy.pool import NullPool, QueuePool

_engines: dict[tuple[int, str], sqlalchemy.Engine] = {}
"""By the process, since one that was forked shares no connection with the other, and by the database."""


def read_migrations_once() -> None:
    """In this process, each folder of migrations is read once; a new instance reads three of them, six times in all."""
    read = ScriptDirectory.from_config
    folders: dict[str | None, ScriptDirectory] = {}

    def kept(config: Any) -> ScriptDirectory:
        place = config.get_main_option("script_location")
        if place not in folders:
            folders[place] = read(config)
        return folders[place]

    ScriptDirectory.from_config = staticmethod(kept)  # type: ignore[method-assign]


def open_databases_once(*, servers: bool = False) -> None:
    """In this process, each file is opened once and waits for no disk; Dagster opens one anew for each event.

    To be called before Dagster is imported, which takes SQLAlchemy's function for its own.

    Args:
        servers: Whether databases of PostgreSQL are opened once as well.
    """
    assert "dagster" not in sys.modules
    create = sqlalchemy.create_engine

    def kept(url: str, **options: Any) -> sqlalchemy.Engine:
        if options.get("poolclass") is NullPool and "mode=memory" in url:
            return create(url, **options | {"poolclass": QueuePool, "connect_args": {"check_same_thread": False}})
        is_file, is_server = url.startswith("sqlite:////"), servers and url.startswith("postgresql://")
        if options.get("poolclass") is not NullPool or not (is_file or is_server):
            return create(url, **options)
        key = os.getpid(), url
        if key not in _engines:
            engine = create(url, **options | {"poolclass": QueuePool, "max_overflow": -1})
            if is_file:
                sqlalchemy.event.listen(
                    engine, "connect", lambda connection, _: connection.execute("pragma synchronous = off")
                )
            engine.dispose = lambda *_: None  # type: ignore[assignment, method-assign]
            _engines[key] = engine
        return _engines[key]

    sqlalchemy.create_engine = kept


def close_databases() -> None:
    """Close those that `open_databases_once` has kept open."""
    for engine in _engines.values():
        engine.pool.dispose()
    _engines.clear()


def make_jobs_once() -> None:
    """In this process, a job is narrowed to some of its assets once; Dagster does it, and describes it, for each run."""
    from dagster import AssetKey, JobDefinition

    narrow = JobDefinition.as_ephemeral_job
    made: dict[tuple[JobDefinition, frozenset[AssetKey]], JobDefinition] = {}

    def kept(job: JobDefinition, asset_selection: Sequence[AssetKey], **others: Any) -> JobDefinition:
        assert not any(others.values())
        key = job, frozenset(asset_selection)
        if key not in made:
            made[key] = narrow(job, asset_selection=asset_selection, **others)
        return made[key]

    JobDefinition.as_ephemeral_job = kept  # type: ignore[method-assign, assignment]
