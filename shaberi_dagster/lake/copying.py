"""A whole lake in another place: from a folder to object storage, back, or to another folder."""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from shaberi_dagster.lake.formats import check_format, unfinished_copy, write_format
from shaberi_dagster.lake.log import LOG
from shaberi_dagster.lake.mirror import Mirror
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError, ShaberiError
from shaberi_dagster.util.permissions import make_folder

_TOGETHER = 64


@dataclass(frozen=True)
class Copied:
    """The extent of a copy.

    Attributes:
        rows: How many rows each table has, in both places the same ones.
        files: How many files.
        size: Their bytes.
    """

    rows: Mapping[str, int]
    files: int
    size: int


def copy_lake(source: str, target: str, changed: Callable[[int, int], object] = lambda *_: None) -> Copied:
    """Copy a lake with its history, then read both row by row.

    Args:
        source: A warehouse, as in `SHABERI_WAREHOUSE`.
        target: Another one, in which there is no lake yet, or such a copy that was not finished.
        changed: Told how many files are copied, and of how many.

    Returns:
        What was copied.

    Raises:
        ConfigurationError: There is no lake to be copied, one stands in the way, or the store cannot be used.
        ShaberiError: A store cannot be reached, or the copy is not the same; then it must be thrown away.
    """
    lake = Lake(_folder(source))
    folder = _folder(target)
    if check_format(lake.folder) is None:
        raise ConfigurationError(f"no lake in {source}")
    store = Mirror.of(folder)
    if store and not store.is_empty():
        store.pull()
    _check_target(lake, folder, source, target, store)
    if store:
        store.check_conditions()
    names = _names(lake)
    make_folder(folder)
    write_format(folder, copied_from=source)
    for first in range(0, len(names), _TOGETHER):
        some = names[first : first + _TOGETHER]
        for name in some:
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(lake.folder / name, place)
        if store:
            store.push(some)
        changed(first + len(some), len(names))
    size = sum((folder / name).stat().st_size for name in names)
    write_format(folder)
    try:
        with tempfile.TemporaryDirectory() as elsewhere:
            copy = Lake(_folder(target, Path(elsewhere)))
            rows = {table: _compared(lake, copy, table) for table in lake.versions()}
    except BaseException:  # also an interrupt: what was not compared is no lake yet
        write_format(folder, copied_from=source)
        raise
    return Copied(rows, len(names), size)


def _check_target(lake: Lake, folder: Path, source: str, target: str, store: Mirror | None) -> None:
    """Refuse a place with anything but an unfinished copy of the same lake.

    Raises:
        ConfigurationError: Something is there, or the place is within the lake.
    """
    if unfinished_copy(folder) != source:
        if check_format(folder) is not None or (store and not store.is_empty()):
            raise ConfigurationError(f"{target} has a lake already: name another place")
        if not store and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigurationError(f"{target} is no empty folder: name another place")
    if not store and lake.folder in folder.parents:
        raise ConfigurationError(f"{target} is in {source}: name a place beside it")


def _folder(warehouse: str, mirrors: Path | None = None) -> Path:
    """The folder of a warehouse; that of a store is its mirror, of which another one can be had."""
    environment = os.environ | {"SHABERI_WAREHOUSE": warehouse}
    return Settings.from_environment(environment | ({"SHABERI_MIRRORS": str(mirrors)} if mirrors else {})).warehouse


def _names(lake: Lake) -> list[str]:
    """The lake's files below its folder, those that name others after them."""
    tables = [lake.path(table) for table in lake.versions()]
    logs = [path for table in tables for path in sorted((table / LOG).iterdir())]
    data = [path for table in tables for path in sorted(table.rglob("*.parquet")) if path.parent.name != LOG]
    return [path.relative_to(lake.folder).as_posix() for path in (*data, *logs)]


def _compared(lake: Lake, copy: Lake, table: str) -> int:
    """Count the rows of a table.

    Raises:
        ShaberiError: The copy has other ones.
    """
    rows, copied = lake.read(table), copy.read(table)
    is_same_version = lake.delta(table).version() == copy.delta(table).version()
    if not is_same_version or not rows.hash_rows().sort().equals(copied.hash_rows().sort()):
        raise ShaberiError(f"the copy of {table} is not the same: write nothing meanwhile, and copy it again")
    return rows.height
