"""Journals that are files: every finished call of a stage is on disk before anyone sees it."""

import contextlib
import errno
import fcntl
import os
import socket
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import orjson

from shaberi_dagster.lake.journal.base import Calls, Journal, Journals, Record, decoded
from shaberi_dagster.lake.journal.claims import AVAILABLE, FileClaims
from shaberi_dagster.lake.journal.locks import LOCKS_FOLDER
from shaberi_dagster.lake.journal.records import Call, check_types
from shaberi_dagster.util.errors import PartitionBusyError, ShaberiError
from shaberi_dagster.util.identity import sha256_text

JOURNAL_FOLDER = "_journal"
_SUFFIX = ".jsonl"
_LONGEST_RUN_ID = 150
_SYNC_SECONDS = 0.5
_ROOM_BYTES = 1 << 20  # for the replies that are under way when the disk is full
_CREATE_ATTEMPTS = 10


class FileJournals(Journals):
    """The journals of the lake in a folder, each a file, for processes of one machine.

    Args:
        warehouse: The folder.
    """

    def __init__(self, warehouse: Path) -> None:
        self._folder = warehouse / JOURNAL_FOLDER

    def path(self, run_id: str, stage: str) -> Path:
        """The file of a stage of a run."""
        return self._folder / f"{_file_name(run_id)}.{stage}{_SUFFIX}"

    def open(self, run_id: str, stage: str) -> "FileJournal":
        """Open the journal of a stage, or begin one."""
        return FileJournal.open(self.path(run_id, stage), run_id, stage)

    def stages(self, run_id: str) -> list[str]:
        """List the stages of a run that have a journal."""
        names = (name.rpartition(".") for name in self.unfinished())
        return [stage for run, _, stage in names if run == _file_name(run_id)]

    def unfinished(self) -> list[str]:
        """List all journals, as `run.stage`; of a long `run` a part stands for the whole."""
        return sorted(path.name.removesuffix(_SUFFIX) for path in self._folder.glob(f"*{_SUFFIX}"))

    def others(self, run_id: str, stage: str) -> "OtherFiles":
        """Find all journals but that of this stage."""
        return OtherFiles(self.path(run_id, stage))

    def _identity(self, run_id: str, stage: str) -> str | None:
        with contextlib.suppress(FileNotFoundError):
            return str(_header(self.path(run_id, stage)).get("journal_id", ""))
        return None

    def _lines_after(self, run_id: str, stage: str, identity: str, end: int) -> Iterator[tuple[int, bytes]]:  # noqa: ARG002
        with contextlib.suppress(FileNotFoundError):  # it was removed just now
            for offset, line in _lines(self.path(run_id, stage), end):
                yield offset + len(line) + 1, line


def _file_name(run_id: str) -> str:
    """Name a run in names of files, which have 255 bytes at most."""
    return run_id if len(run_id) <= _LONGEST_RUN_ID else f"{run_id[:_LONGEST_RUN_ID]}-{sha256_text(run_id)}"


class FileJournal(Journal):
    """An append-only JSONL file of the finished calls of one stage of one run.

    The first line is the header; each opening adds a line that says who opened it; the others are calls with
    their labels, flat. One `os.write` per record makes it survive the process; a thread that calls `fdatasync`
    every half second while there is something new makes it survive the machine. `flock` keeps a second process out.
    A file beside it holds room on the disk: when that is full, it goes, and the replies under way are still written.

    Attributes:
        path: The file.
        run_id: The run it belongs to.
        stage: The stage it belongs to.
        note: How many lines were complete but unreadable at opening, and are in `<file>.corrupt` now.
        trouble: What a full or broken disk says.
    """

    def __init__(self, path: Path, descriptor: int, run_id: str, stage: str) -> None:
        self.path, self.run_id, self.stage = path, run_id, stage
        self._descriptor: int | None = descriptor
        self._offsets: dict[str, int] = {}
        self._lock = threading.Lock()
        self._unsynced, self._closing = threading.Event(), threading.Event()
        self._broken: OSError | None = None
        self._syncer: threading.Thread | None = None
        self._room = path.with_suffix(".room")

    @classmethod
    def open(cls, path: Path, run_id: str, stage: str) -> "FileJournal":
        """Open the journal, or begin one; what a killed process left half written is cut off.

        Raises:
            PartitionBusyError: Another process has it open.
            ShaberiError: It belongs to another run or stage, or cannot be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = _locked(path)
        except OSError as error:
            raise ShaberiError(f"journal {path} cannot be opened: {error.strerror}") from error
        journal = cls(path, descriptor, run_id, stage)
        try:
            journal._recover()
            _hold_room(journal._room)
        except BaseException:
            os.close(descriptor)
            raise
        return journal

    @property
    def calls(self) -> Mapping[str, Call]:
        """The `ok` calls by request hash, each read when asked for."""
        return Calls(self._offsets, lambda request_hash: _call_at(self.path, self._offsets[request_hash]))

    def claims(self) -> AbstractContextManager[FileClaims | None]:
        """Enter the claims of the process that has it open; None where the system has no such locks."""
        return FileClaims(self.path.parent.parent / LOCKS_FOLDER / "calls.lock") if AVAILABLE else nullcontext()

    def check(self) -> None:
        """Make sure that no one else has taken the stage over: the lock lasts as long as the file is open."""
        self._open_descriptor()

    def close(self) -> None:
        """Make all records durable and let others open it."""
        self._closing.set()
        self._unsynced.set()
        self._room.unlink(missing_ok=True)
        if self._syncer is not None:
            self._syncer.join()
        with self._lock:
            if self._descriptor is None:
                return
            descriptor, self._descriptor = self._descriptor, None
        try:
            if self._syncer is not None:
                os.fdatasync(descriptor)
        except OSError as error:
            raise self._failed(error) from error
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Close it and delete it."""
        self._room.unlink(missing_ok=True)  # first: without the journal no one would look for it
        self.path.unlink(missing_ok=True)  # still locked, so no one can have opened this very file
        self.close()
        _sync_folder(self.path.parent)

    def _append(self, record: Record, call: Call | None) -> None:
        offset = self._write(record)
        if call:
            self._offsets[call.request_hash] = offset
        if self._syncer is None:
            self._syncer = threading.Thread(target=self._sync_for_ever, name="journal-sync", daemon=True)
            self._syncer.start()
        self._unsynced.set()

    def _records(self) -> Iterator[Record]:
        return (decoded(line) for _, line in _lines(self.path))

    def _recover(self) -> None:
        """Read what is there, repair its end, and say who is here."""
        descriptor = self._open_descriptor()
        size, end = os.fstat(descriptor).st_size, 0
        header: Record | None = None
        unreadable = 0
        for offset, line in _lines(self.path):
            end = offset + len(line) + 1
            try:
                record = decoded(line)
                check_types(record)
                if "journal_id" in record:
                    header = {name: record[name] for name in ("journal_id", "run_id", "stage")}
                elif record.get("status") == "ok":
                    self._offsets[Call.from_record(record).request_hash] = offset
            except (ValueError, KeyError, TypeError):
                self._set_aside(offset, line)
                unreadable += 1
        if unreadable:
            self.note = f"{unreadable} unreadable lines of the journal were set aside in {self._aside}"
        if end < size:
            os.ftruncate(descriptor, end)
        if header is None:
            header = {
                "journal_id": uuid.uuid4().hex,
                "run_id": self.run_id,
                "stage": self.stage,
                "created_at": datetime.now(UTC).isoformat(),
            }
            self._write(header)
        if (header["run_id"], header["stage"]) != (self.run_id, self.stage):
            raise ShaberiError(
                f"journal {self.path} belongs to {header['stage']} of run {header['run_id']}: move it away"
            )
        self.journal_id = header["journal_id"]
        self._write({"opened_by": os.getpid(), "host": socket.gethostname(), "at": datetime.now(UTC).isoformat()})
        os.fdatasync(descriptor)
        _sync_folder(self.path.parent)

    @property
    def _aside(self) -> Path:
        return self.path.with_name(f"{self.path.name}.corrupt")

    def _set_aside(self, offset: int, line: bytes) -> None:
        """Copy an unreadable line to `<file>.corrupt`, durably, and blank it here."""
        with self._aside.open("ab") as corrupt:
            corrupt.write(line + b"\n")
            corrupt.flush()
            os.fsync(corrupt.fileno())
        with self.path.open("r+b") as own:  # not our descriptor: it can only append
            own.seek(offset)
            own.write(b" " * len(line))

    def _write(self, record: Record) -> int:
        """Append one line with one write; returns its offset."""
        line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        with self._lock:
            descriptor = self._open_descriptor()
            if self._broken is not None:
                raise self._failed(self._broken)
            offset = os.fstat(descriptor).st_size
            try:
                self._write_line(descriptor, line, offset)
            except OSError as error:
                self.trouble = self._failed(error)
                self._room.unlink(missing_ok=True)
                try:
                    self._write_line(descriptor, line, offset)
                except OSError:
                    raise self.trouble from error
            return offset

    def _write_line(self, descriptor: int, line: bytes, offset: int) -> None:
        """Write all of a line or nothing."""
        try:
            _write_whole(descriptor, line)
        except OSError as error:
            try:
                os.ftruncate(descriptor, offset)
            except OSError:
                self._broken = error  # half a record stands there: nothing may follow it
            raise

    def _sync_for_ever(self) -> None:
        while not self._closing.is_set():
            self._unsynced.wait()
            self._unsynced.clear()
            try:
                os.fdatasync(self._open_descriptor())
            except OSError as error:
                self._broken = error
                return
            self._closing.wait(_SYNC_SECONDS)

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise ShaberiError(f"journal {self.path} is closed")
        return self._descriptor

    def _failed(self, error: OSError) -> ShaberiError:
        return ShaberiError(
            f"journal {self.path} cannot be written: {error.strerror}; "
            "free space or repair the disk, and run the same command again: finished calls are kept"
        )


class OtherFiles:
    """The `ok` calls in all journals of a folder but one, as far as they are written.

    Args:
        own: The journal that is left out.

    Attributes:
        ended: Always the same: the calls of those that end are in the lake of this machine.
    """

    ended = 0

    def __init__(self, own: Path) -> None:
        self._own = own
        self._followed: dict[str, _Followed] = {}

    def find(self, request_hashes: Iterable[str]) -> list[tuple[str, Call]]:
        """Find the `ok` calls among these requests that stand there now, each with its run."""
        self._follow()
        return [
            (journal.run_id, call)
            for name in (request_hashes if self._followed else ())
            for journal in self._followed.values()
            if (call := journal.read(name))
        ]

    def _follow(self) -> None:
        """Read what is new."""
        still_there = {}
        with contextlib.suppress(FileNotFoundError), os.scandir(self._own.parent) as entries:
            for entry in entries:
                if entry.name.endswith(self._own.suffix) and entry.name != self._own.name:
                    with contextlib.suppress(FileNotFoundError):  # it was removed just now
                        still_there[entry.name] = self._followed_to_its_end(entry)
        self._followed = still_there

    def _followed_to_its_end(self, entry: os.DirEntry[str]) -> "_Followed":
        journal = self._followed.get(entry.name)
        if journal is None or entry.stat().st_size != journal.end:
            path = Path(entry.path)
            header = _header(path)
            identity = header.get("journal_id", "")
            if journal is None or journal.identity != identity:
                journal = _Followed(path, identity, header.get("run_id", ""))
            journal.follow()
        return journal


@dataclass
class _Followed:
    """A journal that another process may be writing."""

    path: Path
    identity: str
    run_id: str
    end: int = 0
    offsets: dict[str, int] = field(default_factory=dict)

    def follow(self) -> None:
        for offset, line in _lines(self.path, self.end):
            self.end = offset + len(line) + 1
            with contextlib.suppress(ValueError, KeyError, TypeError):  # not readable, or not a call
                record = decoded(line)
                if record.get("status") == "ok":
                    self.offsets[record["request_hash"]] = offset

    def read(self, request_hash: str) -> Call | None:
        offset = self.offsets.get(request_hash)
        if offset is None:
            return None
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            call = _call_at(self.path, offset)
            # Else it is another file by now.
            return call if call.request_hash == request_hash else None
        return None


def _locked(path: Path) -> int:
    """A descriptor of the file at `path`, with the lock on it."""
    for _ in range(_CREATE_ATTEMPTS):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Between open and lock the former owner may have removed the file that we opened.
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise PartitionBusyError(_busy_message(path)) from None
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise PartitionBusyError(f"journal {path} is being removed by another process: try again")


def _busy_message(path: Path) -> str:
    run = owner = "another process"
    with contextlib.suppress(OSError, ValueError, KeyError):
        for _, line in _lines(path):
            record = decoded(line)
            if "journal_id" in record:
                run = f"{record['stage']} of run {record['run_id']}"
            elif "opened_by" in record:
                owner = f"process {record['opened_by']} on {record['host']} since {record['at'][:19]}Z"
    return f"{run} is being worked on by {owner} (journal {path}): wait for it or stop it"


def _header(path: Path) -> Record:
    """The first record of a journal; empty before it stands."""
    with contextlib.suppress(StopIteration, ValueError):
        return decoded(next(_lines(path))[1])
    return {}


def _call_at(path: Path, offset: int) -> Call:
    with path.open("rb") as file:
        file.seek(offset)
        return Call.from_record(orjson.loads(file.readline()))


def _lines(path: Path, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """Offset and content of each complete, non-blank line, from the offset of a line on."""
    with path.open("rb") as file:
        file.seek(offset)
        for line in file:
            if line.endswith(b"\n") and not line.isspace():
                yield offset, line[:-1]
            offset += len(line)


def _hold_room(path: Path) -> None:
    with contextlib.suppress(OSError, AttributeError), path.open("wb") as file:  # macOS has no such call
        os.posix_fallocate(file.fileno(), 0, _ROOM_BYTES)


def _write_whole(descriptor: int, line: bytes) -> None:
    if os.write(descriptor, line) < len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
