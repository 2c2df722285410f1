"""What all stages that make calls share: the journal, the engine, progress, and the commit to the lake."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import polars as pl

from shaberi_dagster.lake.catalog import write_catalog
from shaberi_dagster.lake.schemas import CALLS, LIMIT_CHANGES
from shaberi_dagster.lake.store import Keys
from shaberi_dagster.llm.journal import Journal
from shaberi_dagster.llm.limiter import Limiter
from shaberi_dagster.llm.session import CallSession
from shaberi_dagster.llm.types import Call, ChatRequest, Endpoint
from shaberi_dagster.llm.workers import run_all
from shaberi_dagster.progress import StageProgress
from shaberi_dagster.runspec import RunSpec
from shaberi_dagster.workspace import EngineThread, Workspace


class Item(Protocol):
    """One row to make."""

    @property
    def request(self) -> ChatRequest | None:
        """Its first request; None when it needs no call."""
        ...


ItemT = TypeVar("ItemT", bound=Item)
# Many more workers than any endpoint's limit: neither those that back off nor the queue of a slow endpoint may keep a
# fast one waiting.
_FEWEST_WORKERS, _WORKERS_PER_SLOT = 256, 4

Answered = tuple[Call, bool]  # a call, and whether it was paid for before
Work = Callable[[CallSession, ItemT], Awaitable[tuple[dict[str, Any], list[Answered]]]]


class CallingStage:
    """One stage of one run while it makes calls; from `calling`.

    Args:
        run_id: The run.
        name: The stage.
        workspace: Where to read and write.
        journal: Open journal of this run and stage.
    """

    def __init__(self, run_id: str, name: str, workspace: Workspace, journal: Journal) -> None:
        self.run_id, self.name, self._workspace, self._journal = run_id, name, workspace, journal

    def run(
        self,
        items: Sequence[ItemT],
        work: Work[ItemT],
        *,
        line_of: Callable[[ItemT], StageProgress],
        lines: Sequence[StageProgress],
        not_again: AbstractSet[str] = frozenset(),
        models: AbstractSet[tuple[Endpoint, str]] = frozenset(),
        paid: Mapping[str, Call] | None = None,
    ) -> list[dict[str, Any]]:
        """Work on all items on the process's engine.

        Args:
            items: What to work on; nothing is started when there is none.
            work: Makes one item's row and says which calls that took.
            line_of: The progress line of an item.
            lines: All progress lines.
            not_again: Request hashes of paid calls that were of no use: they are made again.
            models: Further models that may be asked, beside those of the items' first requests.
            paid: All paid calls by request hash, where the requests are not known beforehand; None looks them up.

        Returns:
            The rows, in the order in which they were finished.
        """
        reporter = self._workspace.reporter
        for line in lines:
            reporter.changed(line)
        if not items:
            return []
        thread = self._workspace.engine_thread()
        return thread.run(self._work_on(items, work, line_of, thread, not_again=not_again, models=models, paid=paid))

    async def _work_on(
        self,
        items: Sequence[ItemT],
        work: Work[ItemT],
        line_of: Callable[[ItemT], StageProgress],
        thread: EngineThread,
        *,
        not_again: AbstractSet[str],
        models: AbstractSet[tuple[Endpoint, str]],
        paid: Mapping[str, Call] | None,
    ) -> list[dict[str, Any]]:
        reporter = self._workspace.reporter

        def lookup(request_hashes: Sequence[str]) -> dict[str, Call]:
            wanted = [name for name in request_hashes if name not in not_again]
            if paid is None:
                return self._workspace.paid_calls(self.run_id, wanted)
            return {name: paid[name] for name in wanted if name in paid}

        engine, budget = thread.engine, self._workspace.budget
        session = CallSession(engine, self._journal, self.name, lookup, budget)
        requests = [item.request for item in items if item.request]
        session.prefetch([request.request_hash for request in requests])
        unpaid = {(request.endpoint, request.model) for request in session.unpaid(requests)}
        for endpoint, model in unpaid | models:
            budget.check(model, endpoint.base_url)
            if budget.objection() is None:
                await engine.check(endpoint, model)
        asked = {request.endpoint for request in requests} | {endpoint for endpoint, _ in models}
        limiters = {endpoint: engine.limiter(endpoint) for endpoint in asked}
        refused_before = budget.refused

        async def one(item: ItemT) -> dict[str, Any]:
            row, calls = await work(session, item)
            line = line_of(item)
            if item.request:
                line.limit = limiters[item.request.endpoint].limit
            _count(line, row, calls)
            reporter.changed(line)
            self._record_limits(limiters, settled=True)
            return row

        workers = max([_FEWEST_WORKERS, *(_WORKERS_PER_SLOT * limiter.most for limiter in limiters.values())])
        rows = [row async for row in run_all(items, one, workers=workers)]
        self._record_limits(limiters, settled=False)
        if refused := budget.refused - refused_before:
            reporter.note(f"{budget.objection()}: {refused} calls of {self.name} were not made")
        return rows

    def _record_limits(self, limiters: Mapping[Endpoint, Limiter], *, settled: bool) -> None:
        for endpoint, limiter in limiters.items():
            for change in limiter.take_changes(settled=settled):
                self._journal.append_limit_change(endpoint.base_url, change)

    def commit(self, table: str, frame: pl.DataFrame, keys: Keys, *, changed: bool) -> None:
        """Put the journal's calls and the stage's rows into the lake, then end the journal.

        Args:
            table: The stage's table.
            frame: All its rows under `keys`.
            keys: What they replace.
            changed: False when `frame` is what is there already.
        """
        lake = self._workspace.lake
        calls = pl.DataFrame(
            [record | {"run_id": self.run_id} | self._cost(record) for record in self._journal.records],
            schema_overrides=CALLS.schema,
            infer_schema_length=None,
        )
        limits = pl.DataFrame(
            [record | {"run_id": self.run_id, "stage": self.name} for record in self._journal.limit_changes],
            schema=LIMIT_CHANGES.schema,
        )
        if limits.height and not lake.committed("limit_changes", self._journal.journal_id):
            lake.append("limit_changes", limits, transaction=self._journal.journal_id)
        if calls.height:
            # Before the calls: whoever finds them in the lake takes the commit for done.
            self._workspace.record_prices(calls.select("model", "base_url").unique().iter_rows())
            lake.append("calls", calls.select(CALLS.schema.keys()), transaction=self._journal.journal_id)
        if changed:
            lake.replace(table, frame, keys)
            write_catalog(lake)
        self._journal.remove()

    def _cost(self, record: Mapping[str, Any]) -> dict[str, Any]:
        cost = self._workspace.prices.cost(record)
        return {"cost_usd": cost and cost.usd, "price_source": cost and cost.source}

    def costs(self) -> dict[str, float | None]:
        """What the run's calls of this stage cost so far by benchmark, in US dollars; None where a price is unknown."""
        keys = {"run_id": self.run_id, "stage": self.name, "status": "ok"}
        calls = self._workspace.lake.read("calls", keys, ["benchmark", "cost_usd"])
        summed = calls.group_by("benchmark").agg(
            pl.when(pl.col("cost_usd").has_nulls()).then(None).otherwise(pl.col("cost_usd").sum()).alias("cost_usd")
        )
        return dict(summed.iter_rows())


def _count(line: StageProgress, row: Mapping[str, Any], calls: Sequence[Answered]) -> None:
    """Count an item that is done."""
    line.done += 1
    line.failed += row["status"] == "error"
    line.reused += bool(calls) and all(reused for _, reused in calls)
    for call, reused in calls:
        if not reused and call.attempts:
            line.calls += 1
            line.prompt_tokens += call.usage.prompt_tokens or 0
            line.completion_tokens += call.usage.completion_tokens or 0


@contextmanager
def calling(run_id: str, name: str, workspace: Workspace) -> Iterator[CallingStage]:
    """The stage with its journal open: finished calls of an interrupted attempt are there again.

    Raises:
        PartitionBusyError: Another process has the journal.
    """
    path = workspace.journal_path(run_id, name)
    journal = Journal.open(path, run_id, name)
    try:
        if workspace.lake.committed("calls", journal.journal_id):
            # Killed between the commit and the end of the journal: these calls are in the lake.
            journal.remove()
            journal = Journal.open(path, run_id, name)
        if journal.corrupt_lines:
            aside = path.with_name(f"{path.name}.corrupt")
            workspace.reporter.note(
                f"{journal.corrupt_lines} unreadable lines of the journal were set aside in {aside}"
            )
        yield CallingStage(run_id, name, workspace, journal)
    finally:
        journal.close()


def run_columns(spec: RunSpec) -> dict[str, Any]:
    """The columns that every row of a run has."""
    return {"run_id": spec.run_id, "model": spec.model, "run_tag": spec.run_tag}
