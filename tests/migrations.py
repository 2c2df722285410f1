"""Dagster's databases, made without reading its migrations from the disk again for each of them."""

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
