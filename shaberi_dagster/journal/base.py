"""The journal: every finished call of a stage is kept before it is in the lake.

There are two backends: files, of one machine (`journal_files`), and a PostgreSQL database that several hosts share
(`journal_database`). Whoever has a stage's journal open is the only one who works on that stage of the run.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, Self

from shaberi_dagster.errors import ShaberiError
from shaberi_dagster.journal.records import Call, LimitChange


class Claims(Protocol):
    """Claims to requests: among all processes of a lake one at a time makes a call."""

    def of(self, request_hash: str) -> AbstractAsyncContextManager[None]:
        """Within this context nobody else has the claim to the request; waits until it is free.

        Whoever gets it afterwards finds the call in the journals.
        """
        ...


class Journal(Protocol):
    """The finished calls of one stage of one run, while somebody works on it; a context manager that closes it.

    Its records are lines of JSON: calls with their labels, flat, and changes of limits.

    Attributes:
        journal_id: Identity of this journal, new for each new one of the stage.
        note: What is to be said about its opening; "" for nothing.
        trouble: Why it cannot be written any more; only what is under way should be written then.
    """

    journal_id: str
    note: str
    trouble: ShaberiError | None

    @property
    def calls(self) -> Mapping[str, Call]:
        """The `ok` calls by request hash, each read when asked for, so that memory stays flat."""
        ...

    @property
    def records(self) -> Iterator[dict[str, Any]]:
        """All calls in the order of their end, errors included: flat rows with labels, `created_at` a datetime."""
        ...

    @property
    def limit_changes(self) -> Iterator[dict[str, Any]]:
        """What `append_limit_change` wrote, `created_at` a datetime."""
        ...

    def append_limit_change(self, base_url: str, change: LimitChange) -> None:
        """Write how the limit of an endpoint moved.

        Raises:
            ShaberiError: It could not be written.
        """

    def append(self, call: Call, labels: Mapping[str, str | None]) -> None:
        """Write one finished call.

        Args:
            call: The call.
            labels: Further columns of its row (stage, benchmark, question_id, …).

        Raises:
            ShaberiError: It could not be written; the journal is as it was before.
            ValueError: A label has the name of a column of the call.
        """

    def claims(self) -> AbstractContextManager[Claims | None]:
        """The claims of whoever has it open; None where the system has no such locks."""
        ...

    def check(self) -> None:
        """Make sure that nobody else can have taken the stage over meanwhile.

        Raises:
            ShaberiError: Somebody can.
        """

    def close(self) -> None:
        """Make all records durable and let others open it. Closing twice is fine.

        Raises:
            ShaberiError: The last records may not be durable.
        """

    def remove(self) -> None:
        """Close it and delete it: its calls are stored elsewhere now."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class OtherJournals(Protocol):
    """All journals of a lake but one.

    Attributes:
        ended: A number that changes when a journal has ended whose calls may be in the lake of another host only.
    """

    ended: int

    def find(self, request_hashes: Iterable[str]) -> dict[str, Call]:
        """Those of these calls that stand there now, only `ok` ones."""
        ...


@dataclass(frozen=True)
class News:
    """What a journal has to say to somebody who looks on.

    Attributes:
        place: Where to go on the next time.
        records: What was written since the last time, as it was written.
        anew: Whether it is another journal than the last time.
    """

    place: tuple[Any, ...]
    records: Iterable[dict[str, Any]]
    anew: bool


class Journals(Protocol):
    """All journals of a lake."""

    def open(self, run_id: str, stage: str) -> Journal:
        """Open the journal of a stage, or begin one.

        Raises:
            PartitionBusyError: Another process has it open.
            ShaberiError: It belongs to another run or stage, or cannot be written.
        """
        ...

    def stages(self, run_id: str) -> list[str]:
        """The stages of a run that have a journal: they were interrupted, or somebody is at work."""
        ...

    def unfinished(self) -> list[str]:
        """All journals that there are, as `run.stage`."""
        ...

    def finished_calls(self, run_id: str, stage: str) -> dict[str, Call]:
        """The `ok` calls of a journal by request hash, even while somebody writes it; none where there is none."""
        ...

    def others(self, run_id: str, stage: str) -> OtherJournals:
        """All journals but that of this stage."""
        ...

    def news(self, run_id: str, stage: str, since: tuple[Any, ...] | None) -> News | None:
        """What was written since a place, even while somebody writes it.

        Args:
            run_id: The run.
            stage: The stage.
            since: The place of the last news; None from the beginning.

        Returns:
            The news; None where there is no journal.
        """
        ...


def record_of(call: Call, labels: Mapping[str, str | None]) -> dict[str, Any]:
    """What is written of a finished call.

    Raises:
        ValueError: A label has the name of a column of the call.
    """
    record = call.to_record()
    if taken := record.keys() & labels.keys():
        raise ValueError(f"labels {sorted(taken)} are columns of the call")
    return record | dict(labels)


def record_of_change(base_url: str, change: LimitChange) -> dict[str, Any]:
    """What is written of a limit that moved."""
    return {
        "base_url": base_url,
        "limit_before": change.before,
        "limit_after": change.after,
        "cause": change.cause,
        "created_at": change.at.isoformat(),
    }


def dated(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record as it is read: its time is one."""
    return {**record, "created_at": datetime.fromisoformat(record["created_at"])}
