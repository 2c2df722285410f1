"""The calls that a stage need not make: they are paid for, in the lake or in the journal of another run."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from shaberi_dagster.journal.records import Call
from shaberi_dagster.runs.workspace import Workspace


class PaidCalls:
    """Finished calls for a stage of one run; with the option `fresh` only those of this run.

    Args:
        run_id: The run.
        stage: The stage's name.
        workspace: Its lake and journals are read.
        known: Reads those of the lake by request hash; where it gives None they are looked up one by one.
        unusable: Request hashes whose calls brought no result.
        is_usable: Whether a call may answer a request of the stage.
    """

    def __init__(
        self,
        run_id: str,
        stage: str,
        workspace: Workspace,
        known: Callable[[], Mapping[str, Call] | None],
        *,
        unusable: AbstractSet[str],
        is_usable: Callable[[Call], bool],
    ) -> None:
        self._run_id, self._workspace = run_id, workspace
        self._unusable, self._is_usable = unusable, is_usable
        self._version = self._version_now()  # before they are read
        self._known = known()
        others = workspace.journals.others(run_id, stage)
        self._journals = None if workspace.options.fresh else others
        self._ended = others.ended
        self._missing: set[str] = set()
        self._later: dict[str, Call] = {}

    def find(self, request_hashes: Sequence[str]) -> dict[str, Call]:
        """The paid calls among these."""
        wanted = set(request_hashes) - self._unusable
        # Calls move from journals to the lake, so whoever looks there first can miss none.
        journaled = self._in_journals(wanted)
        self._follow_ended()
        wanted -= journaled.keys()
        if self._known is None:
            stored = self._read(wanted)
        else:
            stored = {name: self._known[name] for name in wanted if name in self._known}
        self._missing |= wanted - stored.keys()
        return stored | journaled

    def news(self, request_hashes: Sequence[str]) -> dict[str, Call]:
        """Return the calls that others have paid for since; what is missing is not looked for again.

        Costs next to nothing unless something new stands in a journal or in the lake.
        """
        wanted = set(request_hashes) - self._unusable
        journaled = self._in_journals(wanted)
        if self._follow_ended() or self._workspace.lake.has_version("calls", self._version + 1):
            self._version = self._version_now()
            self._later |= self._read(self._missing | wanted)
        self._missing -= wanted
        return {name: self._later.pop(name) for name in wanted & self._later.keys()} | journaled

    def _in_journals(self, wanted: set[str]) -> dict[str, Call]:
        return self._usable(self._journals.find(wanted)) if self._journals else {}

    def _follow_ended(self) -> bool:
        """See in the lake what other hosts have put there, if journals of theirs have ended; whether they have."""
        if self._journals is None or self._journals.ended == self._ended:
            return False
        self._ended = self._journals.ended
        self._workspace.lake.refresh()
        return True

    def _read(self, wanted: set[str]) -> dict[str, Call]:
        return self._usable(self._workspace.paid_calls(self._run_id, sorted(wanted)))

    def _usable(self, calls: dict[str, Call]) -> dict[str, Call]:
        return {name: call for name, call in calls.items() if self._is_usable(call)}

    def _version_now(self) -> int:
        lake = self._workspace.lake
        return lake.delta("calls").version() if lake.exists("calls") else -1
