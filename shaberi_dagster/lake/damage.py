"""Damaged files of a lake: how they are found, and the line that names them."""

import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from shaberi_dagster.lake.log import LOG, Log, entry_path, has_commits, read_actions
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.util.errors import ShaberiError

CATALOG_NAME = "catalog.duckdb"
_SUMS = "_sums"
_MAGIC = b"PAR1"
_REASON_LENGTH = 120
_NOT_ALLOWED = "you may not read it"
_OF_READERS = {"duckdb", "_duckdb", "polars", "pyarrow", "deltalake", "_internal", "pyo3_runtime"}
_OF_FILES = re.compile(r"parquet|zstd|thrift|snappy|_delta_log|Kernel error", re.IGNORECASE)


@dataclass(frozen=True)
class Damage:
    """A file of a table that cannot be read.

    Attributes:
        table: Its table.
        file: Its path below the lake's folder; of a log the entry that is at fault.
        reason: What is wrong with it.
        holds: The rows in it, as far as the log tells.
        runs: The first and the last of the runs that it has rows of, by name; None where that is unknown.
        is_lost: Whether its content is; otherwise it only may not be read.
    """

    table: str
    file: str
    reason: str
    holds: str = ""
    runs: tuple[str, str] | None = None
    is_lost: bool = True

    @property
    def is_of_log(self) -> bool:
        """Return whether the table's log is damaged, not its rows."""
        return f"/{LOG}" in self.file

    def __str__(self) -> str:
        """The file, its table, what is wrong with it, and what it held."""
        return f"{self.file} of table {self.table} is damaged: {self.reason}" + (f"; {self.holds}" * bool(self.holds))


class DamagedLakeError(ShaberiError):
    """Files of a lake are damaged.

    Args:
        damages: Which.
    """

    def __init__(self, damages: Sequence[Damage]) -> None:
        first, *more = damages
        if not first.is_lost:
            cure = "give yourself read permission"
        elif first.is_of_log:
            cure = "`shaberi doctor --repair` rewrites the log from what is left"
        else:
            cure = "`shaberi doctor --repair` brings its rows back, or has the next run make them again"
        others = f" (and {len(more)} more, see `shaberi doctor`)" if more else ""
        super().__init__(f"{first}{others}; {cure}")
        self.damages = damages


def damage_behind(error: BaseException, folder: Path, *, anyway: bool = False) -> DamagedLakeError | None:
    """The damaged file that is behind an error of a library that reads, if there is one.

    Args:
        error: What was raised.
        folder: The warehouse; it is only looked at where the error may be of a file.
        anyway: Look also where nothing in the error points at a file: a flipped byte can make code fail anywhere.
    """
    chain = causes(error)
    if known := next((link for link in chain if isinstance(link, DamagedLakeError)), None):
        return known
    said = " ".join(
        str(link)
        for link in chain
        if type(link).__module__.partition(".")[0] in _OF_READERS or isinstance(link, FileNotFoundError)
    )
    if not (anyway or _OF_FILES.search(said)):
        return None
    tables = [path.name for path in _table_folders(folder)]
    named = [name for name in tables if f"/{name}/" in said] or tables
    found = list(find_damage(folder, named)) or list(find_damage(folder, named, thorough=True))
    return DamagedLakeError(found) if found else None


def causes(error: BaseException | None) -> list[BaseException]:
    """Return an error and those behind it, each once: an error that is raised twice stands behind itself."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def _table_folders(folder: Path) -> list[Path]:
    return [folder / name for name in TABLES if (folder / name).is_dir()]


def find_damage(folder: Path, tables: Sequence[str] | None = None, *, thorough: bool = False) -> Iterator[Damage]:
    """Look at all active files of a lake.

    Args:
        folder: The warehouse.
        tables: Only these tables.
        thorough: Read each file to its end, compare its checksum, and not only what tells where its rows are.
    """
    import deltalake
    import pyarrow as pa

    known = known_files(folder)
    for path in _table_folders(folder):
        if tables is not None and path.name not in tables:
            continue
        if damage := log_damage(path, known.get(path.name, (-1,))[0]):
            yield damage
            continue
        if not has_commits(path):
            continue  # its making was interrupted; its next reader continues
        try:
            actions = pa.table(deltalake.DeltaTable(path).get_add_actions()).to_pylist()
        except Exception as error:  # noqa: BLE001 - a panic of Rust, too: whatever it is, the log cannot be read
            yield unreadable_log(path, error)
            continue
        sums = _kept_sums(path) if thorough else {}
        for action in actions:
            file = unquote(action["path"])
            if reason := _wrong(path / file, action, sums.get(file), thorough=thorough):
                yield Damage(
                    path.name, f"{path.name}/{file}", reason, _held(action), _runs(action), reason != _NOT_ALLOWED
                )


def keep_sums(path: Path, version: int) -> None:
    """Keep the checksums of files that were just written, for `find_damage`: delta-rs writes none into its files.

    A file without one, since its writer was killed before this, is read to its end instead.

    Args:
        path: The table's folder.
        version: The table's version before; what was added since is looked at.
    """
    entries = takewhile(Path.exists, (entry_path(path, number) for number in count(version + 1)))
    actions = (action for entry in entries for action in read_actions(entry) or ())
    names = [unquote(action["add"]["path"]) for action in actions if "add" in action]
    file = path.parent / _SUMS / path.name
    with suppress(OSError):  # what is committed is committed
        if lines := "".join(f"{_sum_of(path / name)} {name}\n" for name in names):
            file.parent.mkdir(exist_ok=True)
            with file.open("a", encoding="utf-8") as sums:
                sums.write(lines)


def _kept_sums(path: Path) -> dict[str, str]:
    """Map the files of a table to their checksums, as far as they are kept."""
    with suppress(FileNotFoundError):
        lines = (path.parent / _SUMS / path.name).read_text(encoding="utf-8").splitlines()
        return {name: written for written, _, name in (line.partition(" ") for line in lines)}
    return {}


def _sum_of(path: Path) -> str:
    return f"{zlib.crc32(path.read_bytes()):08x}"


def known_files(folder: Path) -> dict[str, tuple[int, list[str]]]:
    """The version of each table that `catalog.duckdb` stands for, and its files; nothing where it cannot be read."""
    import duckdb

    try:
        with duckdb.connect() as connection:
            connection.execute("attach $1 as catalog (read_only)", [str(folder / CATALOG_NAME)])
            ((description,),) = connection.execute("select description from catalog.lake.catalog").fetchall()
            views = dict(
                connection.execute(
                    "select view_name, sql from duckdb_views() where (database_name, schema_name) = ('catalog', 'lake')"
                ).fetchall()
            )
        versions: dict[str, int] = json.loads(description)["versions"]
    except (duckdb.Error, ValueError, KeyError):
        return {}
    files = {name: re.findall(rf"'{name}/((?:[^']|'')+\.parquet)'", views.get(name, "")) for name in versions}
    return {name: (versions[name], [file.replace("''", "'") for file in files[name]]) for name in versions}


def log_damage(path: Path, known: int = -1) -> Damage | None:
    """Find an entry of a table's log that is missing or empty, by names and sizes: delta-rs passes over an empty one.

    Args:
        path: The table's folder.
        known: A version that was there, such as that which the catalog stands for: nothing else would tell that rows
            are missing behind the last entry.
    """
    if not has_commits(path):
        has_rows = next(path.rglob("*.parquet"), None) is not None
        return Damage(path.name, f"{path.name}/{LOG}", "it is missing") if has_rows else None
    log = Log(path)
    first = max(log.checkpoints, default=-1) + 1
    for version in range(first, max(log.entries, default=-1) + 1):
        file = entry_path(path, version)
        # It may have come while the folder was read.
        if not file.exists():
            return Damage(path.name, f"{path.name}/{LOG}/{file.name}", "it is missing")
        if file.stat().st_size == 0:
            return Damage(path.name, f"{path.name}/{LOG}/{file.name}", "it is empty")
    if log.newest < known:
        name = entry_path(path, known).name
        return Damage(path.name, f"{path.name}/{LOG}/{name}", f"it is missing, and {CATALOG_NAME} was made from it")
    return None


def unreadable_log(path: Path, error: Exception) -> Damage:
    """The damage of a log that delta-rs cannot read.

    Args:
        path: The table's folder.
        error: What it says.
    """
    reason = str(error).strip().splitlines()[0].removeprefix("Kernel error: ")[:_REASON_LENGTH]
    for file in Log(path).entries.values():
        name = f"{path.name}/{LOG}/{file.name}"
        if not os.access(file, os.R_OK):
            return Damage(path.name, name, _NOT_ALLOWED, is_lost=False)
        if read_actions(file) is None:
            return Damage(path.name, name, "it is not JSON")
    return Damage(path.name, f"{path.name}/{LOG}", reason)


def _wrong(path: Path, action: dict[str, Any], written: str | None, *, thorough: bool) -> str:
    """Say what is wrong with an active file; "" when nothing is."""
    import pyarrow as pa

    try:
        size = path.stat().st_size
        if size != action["size_bytes"]:
            return f"it has {size:,} of {action['size_bytes']:,} bytes"
        if written and written != _sum_of(path):
            return "its bytes are not those that were written"
        n_rows = rows_of(path, thorough=thorough and not written)
    except FileNotFoundError:
        return "it is missing"
    except PermissionError:
        return _NOT_ALLOWED
    except (OSError, pa.ArrowException) as error:
        return " ".join(str(error).rpartition("': ")[2].split())[:_REASON_LENGTH].rstrip(".: ")
    planned = action["num_records"]
    return "" if planned in {None, n_rows} else f"it has {n_rows:,} of {planned:,} rows"


def rows_of(path: Path, *, thorough: bool) -> int:
    """The number of rows of a Parquet file.

    Args:
        path: The file.
        thorough: Read all of them, with their checksums.

    Raises:
        OSError: It cannot be read; `pyarrow.ArrowException` likewise.
    """
    from pyarrow import parquet as pq

    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise OSError("it does not begin as a Parquet file")
    with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
        if not thorough:
            return int(parquet.metadata.num_rows)
        return sum(parquet.read_row_group(number).num_rows for number in range(parquet.num_row_groups))


def _held(action: dict[str, Any]) -> str:
    """Describe the rows that a file held, as its action in the log tells."""
    values = ", ".join(f"{name} {value}" for name, value in (action.get("partition") or {}).items())
    count, runs = action.get("num_records"), _runs(action)
    rows = f"{count:,} rows" if count is not None else "rows"
    of_runs = (
        "unknown runs" if runs is None else f"run {runs[0]}" if runs[0] == runs[1] else "runs {} to {}".format(*runs)
    )
    return f"it held {rows} of {of_runs}" + (f" ({values})" if values else "")


def _runs(action: dict[str, Any]) -> tuple[str, str] | None:
    first, last = ((action.get(name) or {}).get("run_id") for name in ("min", "max"))
    return (first, last) if first and last else None
