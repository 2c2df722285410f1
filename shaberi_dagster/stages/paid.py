"""The calls that a stage need not make: they are paid for, in the lake or in the journal of another run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from shaberi_dagster.journal.records import Call

if TYPE_CHECKING:
    from shaberi_dagster.stages.base import Stage


class PaidCalls:
    """Finds paid calls for a stage of one run; with the option `fresh` only those of this run.

    Args:
        stage: Which stage.
        stored: Its stored rows: calls that brought no result to them are of no use.
    """

    def __init__(self, stage: "Stage[Any]", stored: pl.DataFrame) -> None:
        self._stage, self._workspace, (self._run_id,) = stage, stage.workspace, stage.run_ids
        self._of_no_use = stage.of_no_use(stored)
        self._version = self._version_now()
        self._paid = stage.paid()
        others = self._workspace.journals.others(self._run_id, stage.name)
        self._journals = None if self._workspace.options.fresh else others
        self._ended = others.ended
        self._missing: set[str] = set()
        self._later: dict[str, Call] = {}

    def find(self, request_hashes: Sequence[str]) -> dict[str, Call]:
        """The paid calls among these."""
        wanted = set(request_hashes) - self._of_no_use
        # Calls move from journals to the lake, so whoever looks there first can miss none.
        journaled = self._in_journals(wanted)
        self._follow_ended()
        wanted -= journaled.keys()
        if self._paid is None:
            stored = self._read(wanted)
        else:
            stored = {name: self._paid[name] for name in wanted if name in self._paid}
        self._missing |= wanted - stored.keys()
        return stored | journaled

    def news(self, request_hashes: Sequence[str]) -> dict[str, Call]:
        """Those of these that others have paid for since; they are not looked for again, but made if they are missing.

        Costs next to nothing unless something new stands in a journal or in the lake.
        """
        wanted = set(request_hashes) - self._of_no_use
        journaled = self._in_journals(wanted)
        if self._follow_ended() or self._workspace.lake.has_version("calls", self._version + 1):
            self._version = self._version_now()
            self._later |= self._read(self._missing | wanted)
        self._missing -= wanted
        return {name: self._later.pop(name) for name in wanted & self._later.keys()} | journaled

    def _in_journals(self, wanted: set[str]) -> dict[str, Call]:
        return self._of_use(self._journals.find(wanted)) if self._journals else {}

    def _follow_ended(self) -> bool:
        """See in the lake what other hosts have put there, if journals of theirs have ended; whether they have."""
        if self._journals is None or self._journals.ended == self._ended:
            return False
        self._ended = self._journals.ended
        self._workspace.lake.refresh()
        return True

    def _read(self, wanted: set[str]) -> dict[str, Call]:
        return self._of_use(self._workspace.paid_calls(self._run_id, sorted(wanted)))

    def _of_use(self, calls: dict[str, Call]) -> dict[str, Call]:
        return {name: call for name, call in calls.items() if self._stage.is_of_use(call)}

    def _version_now(self) -> int:
        lake = self._workspace.lake
        return lake.delta("calls").version() if lake.exists("calls") else -1
