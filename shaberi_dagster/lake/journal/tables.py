"""Journals in a PostgreSQL database that several hosts share.

A stage at work has one connection of its own: it carries the lock of the stage, the claims to requests, and what is
written. So a process without the locks can write no more, and says so. Records are those of files, a line of JSON each;
they are written together every half second, and a claim is freed only after the call that it was for is written.
"""

import asyncio
import os
import socket
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import orjson

from shaberi_dagster.lake.journal import postgres as database
from shaberi_dagster.lake.journal.base import Calls, Claims, Journal, Journals, Record, decoded, pauses
from shaberi_dagster.lake.journal.records import Call
from shaberi_dagster.settings import database_label
from shaberi_dagster.util.errors import PartitionBusyError, ShaberiError

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection  # noqa: N812

_BATCH_SECONDS = 0.5
_BATCH_RECORDS = 500
_READ_RECORDS = 500
_TABLES = """
create table if not exists shaberi_journals (
    journal_id text primary key,
    lake text not null,
    run_id text not null,
    stage text not null,
    created_at timestamptz not null default now(),
    opened_by text not null,
    opened_at timestamptz not null default now(),
    unique (lake, run_id, stage)
);
create table if not exists shaberi_journal_records (
    id bigint generated always as identity primary key,
    journal_id text not null references shaberi_journals on delete cascade,
    request_hash text,  -- of a call that is ok, else null
    record text not null
);
create index if not exists shaberi_journal_records_in_order on shaberi_journal_records (journal_id, id);
create index if not exists shaberi_journal_records_by_request on shaberi_journal_records (request_hash)
    where request_hash is not null;
create sequence if not exists shaberi_journals_ended;
"""
_OPEN = """
insert into shaberi_journals (journal_id, lake, run_id, stage, opened_by) values (%s, %s, %s, %s, %s)
on conflict (lake, run_id, stage) do update set opened_by = excluded.opened_by, opened_at = now()
returning journal_id
"""
_OWNER = """
select opened_by, to_char(opened_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
from shaberi_journals where (lake, run_id, stage) = (%s, %s, %s)
"""
_APPEND = """
insert into shaberi_journal_records (journal_id, request_hash, record) select %s, * from unnest(%s::text[], %s::text[])
"""
_AFTER = "select id, record from shaberi_journal_records where journal_id = %s and id > %s order by id limit %s"
_CALL = """
select record from shaberi_journal_records where journal_id = %s and request_hash = %s order by id desc limit 1
"""
# The number comes first: a journal that ends after it was read is still there when the calls are.
_FIND = """
select ended.last_value + ended.is_called::int, found.run_id, found.record
from shaberi_journals_ended as ended left join (
    select run_id, record from shaberi_journal_records join shaberi_journals using (journal_id)
    where lake = %s and (run_id, stage) <> (%s, %s) and request_hash = any(%s)
) as found on true
"""


class DatabaseJournals(Journals):
    """The journals of one lake in a database. What it reads goes through one connection.

    Args:
        url: The database.
        lake: The lake's name in it.
    """

    def __init__(self, url: str, lake: str) -> None:
        self._url, self._lake = url, lake
        self._lock = threading.Lock()
        self._reading: Connection | None = None
        self._process = 0

    def open(self, run_id: str, stage: str) -> "DatabaseJournal":
        """Open the journal of a stage, or begin one."""
        connection = self._connected()
        try:
            return DatabaseJournal(connection, database_label(self._url), self._lake, run_id, stage)
        except BaseException:
            connection.close()
            raise

    def stages(self, run_id: str) -> list[str]:
        """List the stages of a run that have a journal."""
        statement = "select stage from shaberi_journals where (lake, run_id) = (%s, %s) order by stage"
        return [stage for (stage,) in self.query(statement, self._lake, run_id)]

    def unfinished(self) -> list[str]:
        """List all journals, as `run.stage`."""
        statement = "select run_id || '.' || stage from shaberi_journals where lake = %s order by 1"
        return [name for (name,) in self.query(statement, self._lake)]

    def others(self, run_id: str, stage: str) -> "OthersInDatabase":
        """Find all journals but that of this stage."""
        return OthersInDatabase(self, self._lake, run_id, stage)

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a reading statement; a lost connection is made again.

        Raises:
            ShaberiError: The database cannot be reached, or refuses.
        """
        with self._lock:
            # A forked child must not use its parent's connection.
            if self._reading is not None and not self._reading.closed and self._process == os.getpid():
                try:
                    return database.query(self._reading, statement, *values)
                except ShaberiError:
                    if not self._reading.closed:
                        raise
            self._reading, self._process = self._connected(), os.getpid()
            return database.query(self._reading, statement, *values)

    def _identity(self, run_id: str, stage: str) -> str | None:
        statement = "select journal_id from shaberi_journals where (lake, run_id, stage) = (%s, %s, %s)"
        rows = self.query(statement, self._lake, run_id, stage)
        return str(rows[0][0]) if rows else None

    def _lines_after(self, run_id: str, stage: str, identity: str, end: int) -> Iterator[tuple[int, str]]:  # noqa: ARG002
        return _lines(self.query, identity, end)

    def _connected(self) -> "Connection":
        connection = database.connect(self._url)
        if database.query(connection, "select to_regclass('shaberi_journals_ended')") == [(None,)]:
            database.create_tables(connection, _TABLES)
        return connection


class OthersInDatabase:
    """The journals of a lake but for one.

    Attributes:
        ended: How many journals of all lakes of the database have ended, as of the last `find`.
    """

    def __init__(self, journals: DatabaseJournals, lake: str, run_id: str, stage: str) -> None:
        self._journals, self._own = journals, (lake, run_id, stage)
        self.ended = 0

    def find(self, request_hashes: Iterable[str]) -> list[tuple[str, Call]]:
        """Find the `ok` calls among these requests that stand there now, each with its run."""
        rows = self._journals.query(_FIND, *self._own, list(request_hashes))
        self.ended = rows[0][0]
        return [(run_id, Call.from_record(orjson.loads(record))) for _, run_id, record in rows if record is not None]


class DatabaseJournal(Journal):
    """The journal of one stage of one run, open; and the claims of the process that works on it.

    Args:
        connection: Its own.
        label: The database's name.
        lake: The lake's name.
        run_id: The run.
        stage: The stage.

    Attributes:
        trouble: Why the last batch could not be written.

    Raises:
        PartitionBusyError: Another process has it open.
    """

    def __init__(self, connection: "Connection", label: str, lake: str, run_id: str, stage: str) -> None:
        self._connection, self._label, self._lake, self._own = connection, label, lake, (lake, run_id, stage)
        if not database.try_lock(connection, "journal", *self._own):
            owner, since = next(iter(database.query(connection, _OWNER, *self._own)), ("another process", "just now"))
            raise PartitionBusyError(
                f"{stage} of run {run_id} is being worked on by {owner} since {since} (journal in {label}): "
                "wait for it or stop it"
            )
        me = f"process {os.getpid()} on {socket.gethostname()}"
        ((self.journal_id,),) = database.query(connection, _OPEN, uuid.uuid4().hex, *self._own, me)
        stored = "select distinct request_hash from shaberi_journal_records where journal_id = %s"
        self._known = {name for (name,) in database.query(connection, stored, self.journal_id) if name}
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._lines: list[tuple[str | None, str]] = []
        self._unwritten: dict[str, Call] = {}
        self._claimed: set[str] = set()
        self._to_free: set[str] = set()
        self._closed = False
        self._something, self._full = threading.Event(), threading.Event()
        self._writer = threading.Thread(target=self._write_for_ever, name="journal-writer", daemon=True)
        self._writer.start()

    @property
    def calls(self) -> Mapping[str, Call]:
        """The `ok` calls by request hash, each read when asked for."""
        return Calls(self._known, self._read)

    def claims(self) -> AbstractContextManager[Claims]:
        """Enter the claims of the process that has it open, which are on the same connection."""
        return nullcontext(self)

    @asynccontextmanager
    async def of(self, request_hash: str) -> AsyncIterator[None]:
        """Hold the claim to a request within this context."""
        for pause in pauses():
            if self._claim(request_hash):
                break
            await asyncio.sleep(pause)  # a lock that is waited for in the database would stop all other calls
        try:
            yield
        finally:
            with self._lock:
                self._claimed.discard(request_hash)
                self._to_free.add(request_hash)
            self._something.set()

    def check(self) -> None:
        """Make sure that no one else has taken the stage over: the lock lasts as long as the connection."""
        self._flush()
        self._query("select 1")

    def close(self) -> None:
        """Make all records durable and let others open it."""
        if self._closed:
            return
        self._closed = True
        self._something.set()
        self._full.set()
        self._writer.join()
        try:
            self._flush()
        finally:
            with suppress(ShaberiError):  # the server notices the end of a connection only later
                database.query(self._connection, "select pg_advisory_unlock_all()")
            self._connection.close()

    def remove(self) -> None:
        """Close it and delete it."""
        self._flush()
        # First that one has ended: a reader that finds its calls no more knows that they are in the lake.
        self._query("select nextval('shaberi_journals_ended')")
        self._query("delete from shaberi_journals where journal_id = %s", self.journal_id)
        self.close()

    def _append(self, record: Record, call: Call | None) -> None:
        line = orjson.dumps(record).decode()
        with self._lock:
            if self._closed:
                raise ShaberiError(f"journal of {self._own[2]} of run {self._own[1]} is closed")
            if self.trouble is not None and self._connection.closed:
                raise self.trouble
            self._lines.append((call.request_hash if call else None, line))
            if call:
                self._unwritten[call.request_hash] = call
                self._known.add(call.request_hash)
            if len(self._lines) >= _BATCH_RECORDS:
                self._full.set()
        self._something.set()

    def _claim(self, request_hash: str) -> bool:
        with self._lock:
            if request_hash in self._claimed:
                return False
            if request_hash in self._to_free:  # it is still ours
                self._to_free.discard(request_hash)
                self._claimed.add(request_hash)
                return True
        # The database would give us a lock that we have once more; but only one of us asks at a time.
        ((taken,),) = self._query("select pg_try_advisory_lock(%s)", self._key(request_hash))
        if taken:
            with self._lock:
                self._claimed.add(request_hash)
        return bool(taken)

    def _write_for_ever(self) -> None:
        while not self._closed and self.trouble is None:
            self._something.wait()
            self._full.wait(_BATCH_SECONDS)
            self._something.clear()
            self._full.clear()
            try:
                self._flush()
            except ShaberiError:  # kept as `trouble`
                return

    def _flush(self) -> None:
        """Write what is appended, then free the claims that were to be freed.

        Raises:
            ShaberiError: It cannot be written, and is kept to be tried again.
        """
        with self._writing:
            with self._lock:
                lines, freed = list(self._lines), list(self._to_free)
            if lines:
                names, records = zip(*lines, strict=True)
                self._query(_APPEND, self.journal_id, list(names), list(records))
            with self._lock:
                del self._lines[: len(lines)]
                written = {name for name, _ in lines if name}
                for name in written - {name for name, _ in self._lines if name}:
                    del self._unwritten[name]
                freed = [name for name in freed if name in self._to_free]
                self._to_free.difference_update(freed)
            if freed:
                keys = [self._key(name) for name in freed]
                self._query("select pg_advisory_unlock(key) from unnest(%s) as key", keys)

    def _records(self) -> Iterator[Record]:
        self._flush()
        return (decoded(line) for _, line in _lines(self._query, self.journal_id))

    def _read(self, request_hash: str) -> Call:
        if call := self._unwritten.get(request_hash):
            return call
        ((line,),) = self._query(_CALL, self.journal_id, request_hash)
        return Call.from_record(orjson.loads(line))

    def _key(self, request_hash: str) -> int:
        return database.lock_key("call", self._lake, request_hash)

    def _query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement.

        Raises:
            ShaberiError: It is refused, or the connection lost; kept as `trouble`.
        """
        try:
            return database.query(self._connection, statement, *values)
        except ShaberiError as error:
            self.trouble = ShaberiError(
                f"journal in {self._label} cannot be written: {error}; "
                "run the same command again, finished calls are kept but for those of the last half second"
            )
            raise self.trouble from error


def _lines(query: Callable[..., list[tuple[Any, ...]]], journal_id: str, after: int = 0) -> Iterator[tuple[int, str]]:
    """Number and content of each record, some hundred at a time."""
    while rows := query(_AFTER, journal_id, after, _READ_RECORDS):
        yield from rows
        after = rows[-1][0]
