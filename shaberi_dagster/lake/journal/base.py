"""The journal: every finished call of a stage is kept before it is in the lake.

There are two backends: files, of one machine (`files`), and a PostgreSQL database that several hosts share (`tables`).
Both keep the same records, lines of JSON. The process that has a stage's journal open alone works on that stage of
the run.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, Self

import orjson

from shaberi_dagster.lake.journal.records import Call, LimitChange
from shaberi_dagster.util.errors import ShaberiError

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 0.5
Record = dict[str, Any]


class Claims(Protocol):
    """Claims to requests: among all processes of a lake one at a time makes a call."""

    def of(self, request_hash: str) -> AbstractAsyncContextManager[None]:
        """Within this context no one else has the claim to the request; waits until it is free.

        The next process finds the call in the journals.
        """
        ...


class Journal(ABC):
    """The finished calls of one stage of one run, while somebody works on it; a context manager that closes it.

    Its records are flat: calls with their labels, and changes of limits.

    Attributes:
        journal_id: Identity of this journal, new for each new one of the stage.
        note: What is to be said about its opening; "" for nothing.
        trouble: Why it cannot be written any more; only what is under way should be written then.
    """

    journal_id: str
    note: str = ""
    trouble: ShaberiError | None = None

    @property
    @abstractmethod
    def calls(self) -> Mapping[str, Call]:
        """The `ok` calls by request hash, each read when asked for, so that memory stays flat."""

    @property
    def records(self) -> Iterator[Record]:
        """The calls in the order of their end, errors included: flat rows with labels, `created_at` a datetime."""
        return (_dated(record) for record in self._records() if "request_hash" in record)

    @property
    def limit_changes(self) -> Iterator[Record]:
        """The changes of limits in order, `created_at` a datetime."""
        return (_dated(record) for record in self._records() if "limit_before" in record)

    def append_limit_change(self, base_url: str, change: LimitChange) -> None:
        """Write how the limit of an endpoint moved.

        Raises:
            ShaberiError: It could not be written.
        """
        self._append(
            {
                "base_url": base_url,
                "limit_before": change.before,
                "limit_after": change.after,
                "cause": change.cause,
                "created_at": change.at.isoformat(),
            },
            None,
        )

    def append(self, call: Call, labels: Mapping[str, str | None]) -> None:
        """Write one finished call.

        Args:
            call: The call.
            labels: Further columns of its row (stage, benchmark, question_id, …).

        Raises:
            ShaberiError: It could not be written; the journal is as it was before.
            ValueError: A label has the name of a column of the call.
        """
        record = call.to_record()
        if taken := record.keys() & labels.keys():
            raise ValueError(f"labels {sorted(taken)} are columns of the call")
        self._append(record | dict(labels), call if call.status == "ok" else None)

    @abstractmethod
    def claims(self) -> AbstractContextManager[Claims | None]:
        """Enter the claims of the process that has it open; None where the system has no such locks."""

    @abstractmethod
    def check(self) -> None:
        """Make sure that no one else can have taken the stage over meanwhile.

        Raises:
            ShaberiError: Somebody can.
        """

    @abstractmethod
    def close(self) -> None:
        """Make all records durable and let others open it. Closing twice is fine.

        Raises:
            ShaberiError: The last records may not be durable.
        """

    @abstractmethod
    def remove(self) -> None:
        """Close it and delete it: its calls are stored elsewhere now."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _append(self, record: Record, call: Call | None) -> None:
        """Write a record; `call` is the one that it is of, if it is `ok`."""

    @abstractmethod
    def _records(self) -> Iterator[Record]:
        """Read all that is written, in order."""


class Calls(Mapping[str, Call]):
    """Calls by request hash, each read when asked for.

    Args:
        names: The hashes, which may become more.
        read: Reads the call of one of them.
    """

    def __init__(self, names: Collection[str], read: Callable[[str], Call]) -> None:
        self._names, self._read = names, read

    def __getitem__(self, request_hash: str) -> Call:
        if request_hash not in self._names:
            raise KeyError(request_hash)
        return self._read(request_hash)

    def __contains__(self, request_hash: object) -> bool:
        return request_hash in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class OtherJournals(Protocol):
    """The journals of a lake but for one.

    Attributes:
        ended: A number that changes when a journal has ended whose calls may be in the lake of another host only.
    """

    ended: int

    def find(self, request_hashes: Iterable[str]) -> list[tuple[str, Call]]:
        """Find the `ok` calls among these requests that stand there now, each with its run."""
        ...


@dataclass(frozen=True)
class News:
    """New records of a journal, for somebody who looks on.

    Attributes:
        place: Where to go on the next time.
        records: What was written since the last time, `created_at` as text.
        restarted: Whether it is another journal than the last time.
    """

    place: tuple[Any, ...]
    records: Iterable[Record]
    restarted: bool


class Journals(ABC):
    """The journals of a lake."""

    @abstractmethod
    def open(self, run_id: str, stage: str) -> Journal:
        """Open the journal of a stage, or begin one.

        Raises:
            PartitionBusyError: Another process has it open.
            ShaberiError: It belongs to another run or stage, or cannot be written.
        """

    @abstractmethod
    def stages(self, run_id: str) -> list[str]:
        """List the stages of a run that have a journal: they were interrupted, or somebody is at work."""

    @abstractmethod
    def unfinished(self) -> list[str]:
        """List all journals, as `run.stage`."""

    @abstractmethod
    def others(self, run_id: str, stage: str) -> OtherJournals:
        """Find all journals but that of this stage."""

    def finished_calls(self, run_id: str, stage: str) -> dict[str, Call]:
        """Read the `ok` calls of a journal by request hash, even while somebody writes it; none without one."""
        news = self.news(run_id, stage, None)
        calls = {}
        for record in news.records if news else ():
            with suppress(ValueError, KeyError, TypeError):  # not a call
                if record.get("status") == "ok":
                    calls[record["request_hash"]] = Call.from_record(record)
        return calls

    def news(self, run_id: str, stage: str, since: tuple[Any, ...] | None) -> News | None:
        """Read what was written since a place, even while somebody writes it.

        Args:
            run_id: The run.
            stage: The stage.
            since: The place of the last news; None from the beginning.

        Returns:
            The news; None where there is no journal.
        """
        identity = self._identity(run_id, stage)
        if identity is None:
            return None
        restarted = since is None or since[0] != identity
        end = 0 if since is None or restarted else since[1]
        records = []
        for place, line in self._lines_after(run_id, stage, identity, end):
            end = place
            with suppress(ValueError):  # opening it sets such lines aside
                records.append(decoded(line))
        return News((identity, end), records, restarted)

    @abstractmethod
    def _identity(self, run_id: str, stage: str) -> str | None:
        """Identify the journal that a stage has now; None where it has none."""

    @abstractmethod
    def _lines_after(self, run_id: str, stage: str, identity: str, end: int) -> Iterator[tuple[int, bytes | str]]:
        """Read what was written after a place: each line with the place where it ends."""


def decoded(line: bytes | str) -> Record:
    """Read a record.

    Raises:
        ValueError: It is not valid.
    """
    record = orjson.loads(line)
    if not isinstance(record, dict):
        raise ValueError("not an object")  # noqa: TRY004
    return record


def pauses() -> Iterator[float]:
    """Yield the seconds to wait before each new try to get a lock: longer and longer, half a second at most."""
    pause = _FIRST_PAUSE_SECONDS
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _dated(record: Record) -> Record:
    return {**record, "created_at": datetime.fromisoformat(record["created_at"])}
