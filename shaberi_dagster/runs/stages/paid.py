"""The calls that a stage need not make: its run's own, and those replies of other runs that count for it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import orjson

from shaberi_dagster.lake.journal.records import Call
from shaberi_dagster.llm.endpoints import is_providers
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.util.identity import PARTIAL_TAG, run_id_of

_DATED = re.compile(r".*[-@](?:19|20)\d\d-?[01]\d-?[0-3]\d")
_ALIAS = re.compile(r"preview|latest|exp(?:erimental)?\b")


class Sharing:
    """Rule that says which finished calls count for a stage of a run.

    Calls of the run itself, and of the part of it that decisions asked, always count. A call of another run counts in
    three cases: a sample that both runs share (`generate-cache`, `quick-eval`; an imported one is no call,
    see `Answers`), a provider's dated model, or any with the option `reuse`; always from an address where the run is
    now. A server of one's own may serve other weights under the same name tomorrow.

    Args:
        spec: The run; None for calls that are no run's.
        run_id: Whose calls are its own.
        addresses: Where it calls models now.
        workspace: Its lake says which runs share their samples.
        of_samples: Whether the stage makes samples.
    """

    def __init__(
        self, spec: RunSpec | None, run_id: str, addresses: AbstractSet[str], workspace: Workspace, *, of_samples: bool
    ) -> None:
        self._own, self._addresses, self._workspace = {run_id}, addresses, workspace
        if spec:
            tag = spec.run_tag
            twin = tag.removeprefix(PARTIAL_TAG) if spec.is_partial else PARTIAL_TAG + tag
            self._own.add(run_id_of(spec.model, twin))
        options = workspace.options
        self._all, self._dated = options.reuse, not options.fresh
        self.of_samples = bool(spec and spec.shares_samples and of_samples and not options.fresh)
        self._sharing: dict[str, bool] = {}

    def may_take(self, model: str, base_url: str) -> bool:
        """Return whether a call of another run may count for a request to a model."""
        return self._all or self.of_samples or (self._dated and is_dated(model, base_url))

    def counts(self, run_id: str, call: Call) -> bool:
        """Return whether a call of a run counts."""
        if run_id in self._own:
            return True
        if call.base_url not in self._addresses:
            return False
        return self._all or (self._dated and is_dated(call.model, call.base_url)) or self._shares(run_id)

    def _shares(self, run_id: str) -> bool:
        if self.of_samples and run_id not in self._sharing:
            specs = self._workspace.lake.read("runs", {"run_id": run_id}, ["spec"])["spec"]
            self._sharing[run_id] = any(orjson.loads(spec).get("shares_samples", False) for spec in specs)
        return self.of_samples and self._sharing[run_id]


def is_dated(model: str, base_url: str) -> bool:
    """Return whether a provider serves these weights for good: a model whose name ends with a date, and no preview."""
    return bool(_DATED.fullmatch(model)) and not _ALIAS.search(model) and is_providers(base_url)


class PaidCalls:
    """Finished calls for a stage of one run.

    Args:
        run_id: The run.
        stage: The stage's name.
        workspace: Its lake and journals are read.
        known: Reads those of the lake by request hash; where it gives None they are looked up one by one.
        unusable: Request hashes whose calls brought no result.
        is_usable: Whether a call may answer a request of the stage.
        sharing: Which calls of other runs count.
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
        sharing: Sharing,
    ) -> None:
        self._workspace, self._sharing = workspace, sharing
        self._unusable, self._is_usable = unusable, is_usable
        self._version = self._version_now()  # before they are read
        self._known = known()
        self._journals = workspace.journals.others(run_id, stage)
        self._ended = self._journals.ended
        self._missing: set[str] = set()
        self._later: dict[str, Call] = {}

    def find(self, request_hashes: Sequence[str]) -> dict[str, Call]:
        """The paid calls among these."""
        wanted = set(request_hashes) - self._unusable
        # Calls move from journals to the lake, so looking there first misses none.
        journaled = self._usable(self._journals.find(wanted))
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
        journaled = self._usable(self._journals.find(wanted))
        if self._follow_ended() or self._workspace.lake.has_version("calls", self._version + 1):
            self._version = self._version_now()
            self._later |= self._read(self._missing | wanted)
        self._missing -= wanted
        return {name: self._later.pop(name) for name in wanted & self._later.keys()} | journaled

    def _follow_ended(self) -> bool:
        """See in the lake what other hosts have put there, if their journals have ended; whether they have."""
        if self._journals.ended == self._ended:
            return False
        self._ended = self._journals.ended
        self._workspace.lake.refresh()
        return True

    def _read(self, wanted: set[str]) -> dict[str, Call]:
        if not wanted:
            return {}
        rows = self._workspace.lake.read("calls", {"status": "ok", "request_hash": sorted(wanted)}).sort("created_at")
        return self._usable((row["run_id"], Call.from_record(row)) for row in rows.iter_rows(named=True))

    def _usable(self, calls: Iterable[tuple[str, Call]]) -> dict[str, Call]:
        counted = (call for run_id, call in calls if self._sharing.counts(run_id, call))
        return {call.request_hash: call for call in counted if self._is_usable(call)}

    def _version_now(self) -> int:
        lake = self._workspace.lake
        return lake.delta("calls").version() if lake.exists("calls") else -1
