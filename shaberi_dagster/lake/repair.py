"""The repair of a damaged lake: rows that an earlier version still has come back, other files are put aside.

Nothing is deleted: damaged files and logs go to `_damaged/`, beside a JSON file that tells what they held. A file that
is moved and whose removal is not committed yet is found as missing, so a repair that was killed is done again.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from shaberi_dagster.lake.connections import connected
from shaberi_dagster.lake.damage import (
    CATALOG_NAME,
    Damage,
    find_damage,
    known_files,
    log_damage,
    rows_of,
)
from shaberi_dagster.lake.files import swap_in
from shaberi_dagster.lake.journal.locks import exclusive_lock
from shaberi_dagster.lake.log import LOG, Actions, Log, entry_path, read_actions
from shaberi_dagster.lake.mirror import Mirror
from shaberi_dagster.lake.schemas import TABLES, LakeTable
from shaberi_dagster.lake.statements import quoted
from shaberi_dagster.lake.store import Lake, arrow_schema, create_table, retry_conflicts, says_disk_trouble
from shaberi_dagster.lake.writer import added, commit_files, new_part, new_parts, removed
from shaberi_dagster.settings import check_writable
from shaberi_dagster.util.errors import ShaberiError

ASIDE = "_damaged"
_BATCH_ROWS = 16_384


@dataclass(frozen=True)
class Repair:
    """The repair of a damaged file.

    Attributes:
        damage: The file.
        done: One sentence.
        rows_lost: How many rows it held that did not come back; None where that is unknown.
        is_repaired: Whether the table can be read again.
    """

    damage: Damage
    done: str
    rows_lost: int | None = 0
    is_repaired: bool = True


def repair(folder: Path) -> Iterator[Repair]:
    """Repair all damaged files of a lake, which are read to their ends to be found.

    Args:
        folder: The warehouse; for a mirror what is damaged in it comes from the store again.

    Raises:
        ConfigurationError: The lake can only be read.
        ShaberiError: The disk is full, or the store cannot be reached.
    """
    check_writable(folder, "the repair writes into the lake")
    try:
        yield from _repairs(folder, Mirror.of(folder))
    except OSError as error:
        raise ShaberiError(
            f"the lake in {folder} cannot be repaired: {error.strerror or error}; then run it again"
        ) from error


def _repairs(folder: Path, mirror: Mirror | None) -> Iterator[Repair]:
    with exclusive_lock(folder, "repair"):
        for damage in list(find_damage(folder, thorough=True)):
            if damage.is_of_log:
                yield _repair_log(folder, damage, mirror)
        for damage in list(find_damage(folder, thorough=True)):
            if damage.is_of_log:
                continue  # which was told
            if not damage.is_lost:
                yield Repair(damage, "give yourself read permission; nothing was changed", None, is_repaired=False)
            elif mirror and _is_fetched(mirror, damage):
                yield Repair(damage, f"fetched again from {mirror.uri}")
            else:
                yield _repair_file(Lake(folder), damage)


def _is_fetched(mirror: Mirror, damage: Damage) -> bool:
    with suppress(ShaberiError):
        mirror.fetch(damage.file)
    return damage.file not in {found.file for found in find_damage(mirror.folder, [damage.table], thorough=True)}


def _repair_file(lake: Lake, damage: Damage) -> Repair:
    """Bring back what an earlier version has of a file's rows, and put the file aside."""
    table, name = TABLES[damage.table], damage.file.partition("/")[2]
    action = next((found for found in _actions(lake.delta(table.name)) if unquote(found["path"]) == name), None)
    if action is None:
        return Repair(damage, "the table does not need it any more")
    _put_aside(lake.folder, damage, {"action": action})
    n_restored = _replace(lake, table.name, name, action)
    n_lost = None if action["num_records"] is None else action["num_records"] - n_restored
    if n_lost == 0:
        done = f"all {n_restored:,} rows came back from an earlier version"
    elif n_restored:
        done = f"{n_restored:,} of its {action['num_records']:,} rows came back from an earlier version"
    else:
        done = "no earlier version has its rows"
    return Repair(damage, f"{done}; the file is in {ASIDE}/", n_lost)


@says_disk_trouble
@retry_conflicts
def _replace(lake: Lake, table: str, name: str, action: dict[str, Any]) -> int:
    """Commit the removal of a file, with new ones that have what earlier versions still have of its rows.

    Returns:
        How many rows that is.
    """
    folder, schema = lake.path(table), TABLES[table]
    values = dict(action.get("partition") or {})
    n_rows = 0
    with new_parts(folder) as parts:
        for rows in _earlier_rows(folder, schema, name, values):
            if not parts:
                parts.append(new_part(folder, schema, values))
            parts[0].add(rows)
            n_rows += rows.num_rows
        for part in parts:
            part.writer.close()
        with lake.writing(table) as delta:
            _check_active(delta, name)
            commit_files(lake, delta, table, parts, [removed(name, action["size_bytes"], values)])
    return n_rows


def _check_active(delta: DeltaTable, name: str) -> None:
    if name not in {unquote(action["path"]) for action in _actions(delta)}:
        raise ShaberiError(f"{name} was replaced by another command meanwhile: run the same command again")


def _earlier_rows(folder: Path, table: LakeTable, name: str, values: dict[str, str]) -> Iterator[pa.Table]:
    """Read the rows of a file that the files before it still have.

    The commit that added it took files away and rewrote those of their rows that it did not replace (all of them, if it
    only put files together): they are in the files of its partition that it added.
    """
    commit = _commit_of(folder, name)
    if commit is None:
        return
    before = [folder / unquote(action["path"]) for action in _of(commit, "remove", values)]
    new = _of(commit, "add", values)
    beside = [folder / unquote(action["path"]) for action in new if unquote(action["path"]) != name]
    try:
        for path in (*before, *beside):
            rows_of(path, thorough=True)
    except (OSError, pa.ArrowException):
        return
    if not before:
        return
    (information,) = [action["commitInfo"] for action in commit if "commitInfo" in action][:1] or [{}]
    is_rewrite = any(action.get("dataChange", True) for action in new)
    replaced = str(information.get("operationParameters", {}).get("predicate") or "true") if is_rewrite else "false"
    if table.name == "runs":
        replaced = "false"  # an older state of a run is better than none: its next stage renews it
    with connected() as connection:
        connection.execute("set TimeZone = 'UTC'")
        connection.register("no_rows", table.schema.to_frame())
        found = f"select * from ({_stored(before)}) where ({replaced}) is not true"
        if beside:
            found += f" except all ({_stored(beside)})"
        if table.name == "runs" and beside:
            found = f"from ({found}) anti join ({_stored(beside)}) using (run_id)"
        for batch in connection.sql(found).to_arrow_reader(_BATCH_ROWS):
            yield pa.Table.from_batches([batch])


def _stored(files: list[Path]) -> str:
    paths = ", ".join(quoted(str(path)) for path in files)
    return (
        "from no_rows union all by name from read_parquet("
        f"[{paths}], union_by_name=true, hive_partitioning=true, hive_types_autocast=false)"
    )


def _commit_of(folder: Path, name: str) -> Actions | None:
    """Find the last commit that added a file, if the log still has its entry."""
    for entry in reversed(Log(folder).entries.values()):
        actions = read_actions(entry) or []
        if any(unquote(action["add"]["path"]) == name for action in actions if "add" in action):
            return actions
    return None


def _of(commit: Actions, kind: str, values: dict[str, str]) -> list[dict[str, Any]]:
    """List the actions of one kind on files of a partition."""
    named = [action[kind] for action in commit if kind in action]
    return [file for file in named if dict(file.get("partitionValues") or {}) == values]


def _actions(delta: DeltaTable) -> list[dict[str, Any]]:
    return list(pa.table(delta.get_add_actions()).to_pylist())


def _put_aside(folder: Path, damage: Damage, more: dict[str, Any]) -> None:
    """Move a damaged file, with a JSON beside it that tells what it held."""
    place = folder / ASIDE / damage.file
    told = asdict(damage) | more | {"moved_at": datetime.now(UTC)}
    swap_in(place.with_name(f"{place.name}.json"), json.dumps(told, default=str, ensure_ascii=False, indent=1).encode())
    with suppress(FileNotFoundError):
        (folder / damage.file).replace(place)


def _repair_log(folder: Path, damage: Damage, mirror: Mirror | None) -> Repair:
    """Write a checkpoint of what the log says without its damaged entries, if that is certain."""
    if mirror:
        mirror.fetch_log(damage.table)
        if any(found.is_of_log for found in find_damage(folder, [damage.table])):
            return Repair(damage, f"the log in {mirror.uri} is damaged; nothing was changed", None, is_repaired=False)
        return Repair(damage, f"fetched again from {mirror.uri}")
    path = folder / damage.table
    log = path / LOG
    with tempfile.TemporaryDirectory(prefix=".log-", dir=folder) as scratch:
        source = next((told for told in _certain(path, Path(scratch)) if told), None)
        if source is None and _can_be_opened(path):  # it only ends too early
            kept = folder / ASIDE / CATALOG_NAME
            kept.parent.mkdir(exist_ok=True)
            (folder / CATALOG_NAME).replace(kept)
            return Repair(damage, "files of that version are gone: the version before is the newest now", None)
        if source is None:
            return Repair(
                damage,
                "neither a checkpoint nor the catalog tells what was in it: put it back from a backup; "
                "nothing was changed",
                None,
                is_repaired=False,
            )
        version, made = source
        kept = folder / ASIDE / damage.table / f"{LOG}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
        if log.is_dir():
            shutil.copytree(log, kept)
        checkpoint = next(made.glob("*.checkpoint.parquet"))
        last = json.loads((made / "_last_checkpoint").read_bytes()) | {"version": version}
        entry = entry_path(path, version)
        if read_actions(entry) is None:
            information = {"commitInfo": {"timestamp": time.time_ns() // 1_000_000, "operation": "REPAIR"}}
            swap_in(entry, json.dumps(information).encode())
        swap_in(log / f"{version:020}.checkpoint.parquet", checkpoint.read_bytes(), durable=True)
        swap_in(log / "_last_checkpoint", json.dumps(last).encode(), durable=True)
    return Repair(damage, f"the log was rewritten at version {version}; the one before is in {ASIDE}/")


def _can_be_opened(path: Path) -> bool:
    try:
        return log_damage(path) is None and DeltaTable(path).version() >= 0
    except (DeltaError, OSError):
        return False


def _certain(path: Path, scratch: Path) -> Iterator[tuple[int, Path] | None]:
    """Yield ways to know a table's newest version for certain: that version, and a folder with a checkpoint of it."""
    log = Log(path)
    known, files = known_files(path.parent).get(path.name, (-1, []))
    newest = max(log.newest, known)
    for base in sorted({*log.checkpoints, -1, known}, reverse=True):
        needed = [entry_path(path, version) for version in range(base + 1, newest + 1)]
        if any(read_actions(file) is None for file in needed):
            continue
        if base == known:
            yield _from_catalog(path, files, needed, scratch / CATALOG_NAME, newest)
        yield _replayed(scratch / f"from-{base}", [*log.checkpoints.get(base, []), *needed], newest)


def _replayed(scratch: Path, entries: list[Path], version: int) -> tuple[int, Path] | None:
    """Have delta-rs make a checkpoint of entries of a log, put into another folder."""
    (scratch / LOG).mkdir(parents=True, exist_ok=True)
    for entry in entries:
        shutil.copyfile(entry, scratch / LOG / entry.name)
    try:
        delta = DeltaTable(scratch)
        delta.create_checkpoint()
    except (DeltaError, OSError):
        return None
    for number, checkpoints in Log(scratch).checkpoints.items():
        for checkpoint in checkpoints if number != delta.version() else ():
            checkpoint.unlink()
    return version, scratch / LOG


def _from_catalog(
    path: Path, files: list[str], entries: list[Path], scratch: Path, version: int
) -> tuple[int, Path] | None:
    """Have a log of the files that the catalog names, with the entries after it."""
    table = TABLES[path.name]
    try:
        actions = [_action(path, table, name) for name in files]
    except (OSError, pa.ArrowException):
        return None
    scratch.mkdir(parents=True)
    delta = create_table(scratch, table)
    delta.create_write_transaction(list(actions), "append", arrow_schema(table), list(table.partition_by))
    first = delta.version() + 1
    for number, entry in enumerate(entries, first):
        shutil.copyfile(entry, scratch / LOG / f"{number:020}.json")
    return _replayed(scratch, [], version)


def _action(path: Path, table: LakeTable, name: str) -> AddAction:
    """Name a file whose own action is lost as a part of the table."""
    rows_of(path / name, thorough=False)
    run_ids: set[str] = set()
    if "run_id" in table.names:
        run_ids = {*pq.read_table(path / name, columns=["run_id"])["run_id"].to_pylist()} - {None}
    folders = [part.partition("=") for part in name.split("/")[:-1]]
    return added(path, name, {column: unquote(value) for column, _, value in folders}, run_ids)
