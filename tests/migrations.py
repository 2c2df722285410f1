"""Dagster's databases, made and opened without doing again what one process has done once."""

from typing import Any

from alembic.script import ScriptDirectory


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


def make_engines_once() -> None:
    """In this process, each database has one engine, which keeps its statements; Dagster makes one for each event."""
    # Not for those who need no Dagster.
    from dagster._core.storage.event_log.sqlite import sqlite_event_log  # noqa: PLC0415
    from dagster._core.storage.runs.sqlite import sqlite_run_storage  # noqa: PLC0415
    from dagster._core.storage.schedules.sqlite import sqlite_schedule_storage  # noqa: PLC0415

    create = sqlite_event_log.create_engine
    engines: dict[str, Any] = {}

    def kept(url: str, **options: Any) -> Any:
        if url not in engines:
            engines[url] = create(url, **options)
        return engines[url]

    for storage in (sqlite_event_log, sqlite_run_storage, sqlite_schedule_storage):
        storage.create_engine = kept
