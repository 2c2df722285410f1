"""Base of the stages: survey what is stored, make what is missing, commit it, and describe the result.

A stage says what its rows are (`planned`), how one is made (`items`, `make`) and what there is to say of them
(`result`). A stored row is up to date if its key and identity match a planned one (`with_current_identity` maps former
values) and its status is a result; the others are pending. `survey` finds them, `materialize` makes them, and
`forecast` foresees their calls.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import polars as pl

from shaberi_dagster.lake.journal.records import Call
from shaberi_dagster.lake.schemas import CALLS, LIMIT_CHANGES, TABLES
from shaberi_dagster.lake.store import Keys, Lake
from shaberi_dagster.lake.writer import RowWriter
from shaberi_dagster.llm.limiter import Limiter
from shaberi_dagster.llm.prices import PriceList
from shaberi_dagster.llm.request import CallMaker, ChatRequest, Endpoint, ModelEndpoint
from shaberi_dagster.llm.session import CallSession, Outcome
from shaberi_dagster.llm.types import CallRange
from shaberi_dagster.llm.workers import run_all
from shaberi_dagster.plugins.discovery import PluginError
from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.prompts_used import UsedPrompt
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stages.paid import PaidCalls, Sharing
from shaberi_dagster.util.checks import Check
from shaberi_dagster.util.errors import EndpointError, ShaberiError
from shaberi_dagster.util.identity import RUN_NUMBER
from shaberi_dagster.util.portions import portions
from shaberi_dagster.util.progress import StageProgress


@dataclass(frozen=True)
class StageResult:
    """Result of a stage for one benchmark of one run.

    Attributes:
        run_id: The run.
        stage: The stage's name.
        benchmark: The benchmark.
        facts: Plain numbers and texts, by name.
        preview: A few rows of text for readers.
        scores: The scores to plot, by judge.
        checks: One for each of the stage's.
    """

    run_id: str
    stage: str
    benchmark: str
    facts: dict[str, Any]
    preview: pl.DataFrame
    scores: dict[str, list[float]] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()


MOST_FAILURES = 0.05


def failures_check(failed: int, total: int) -> Check:
    """`few_failures`, which only warns: what failed is tried again by the next materialisation."""
    passed = failed <= MOST_FAILURES * total
    return Check("few_failures", passed, f"{failed} of {total} failed", severe=False)


def complete_check(rows: int, planned: int) -> Check:
    """`complete`."""
    return Check("complete", rows == planned, f"{rows} of {planned} planned rows")


def by_class(frame: pl.DataFrame) -> dict[str, int]:
    """Count the rows of each failure or exclusion class."""
    counts = frame.filter(pl.col("status") != "ok").group_by("error_class").len().sort("len", descending=True)
    return {str(name): count for name, count in counts.iter_rows()}


UNMADE = "unmade"
"""Status of a row that a dry run knows to be missing; no stored row has it."""
RUN_COLUMNS = ("run_id", "model", "run_tag")
"""Columns of every row of a run."""
_TOKENS = ("prompt_tokens", "completion_tokens")
# Many more workers than any endpoint's limit: neither those that back off nor the queue of a slow endpoint may keep a
# fast one waiting.
_FEWEST_WORKERS, _WORKERS_PER_SLOT = 256, 4
_BLOCK_BYTES, _LEAST_BYTES = 2 << 20, 4 << 10  # of items whose paid calls are looked up together: at most 512


@dataclass(frozen=True)
class Caller:
    """On whose behalf calls are made, and whom they ask.

    Attributes:
        name: The model, judge, strategy or pass.
        model: The model that is asked.
        endpoint: Where it is served.
        max_tokens: Most completion tokens of a call.
        falls_back: Whether a reply that is not understood takes a second call.
    """

    name: str
    model: str
    endpoint: Endpoint
    max_tokens: int
    falls_back: bool = False


@dataclass(frozen=True, kw_only=True)
class Item:
    """A row to make.

    Attributes:
        columns: Its key and identity, and whose row it is.
        request: Its first call; None when it needs none, or when only its making tells.
        calls: How many calls it takes if none is paid for yet.
        inputs_missing: Whether rows that it is made of are missing; only in a dry run.
        failure: What was raised when it was prepared, so that it cannot be made.
    """

    columns: Mapping[str, Any]
    request: ChatRequest | None
    calls: CallRange
    inputs_missing: bool = False
    failure: Exception | None = None


ItemT = TypeVar("ItemT", bound=Item)


@dataclass(frozen=True)
class Survey:
    """Stored and missing rows of a stage.

    Attributes:
        planned: One row an item: key and identity.
        stored: The stored rows, superseded ones included: key, identity, status, error class, requests.
        standing: Those of the stored rows that are the results of items.
        pending: The planned rows without one.
        outdated: Keys of the stored rows that do not stand, and go or are superseded.
    """

    planned: pl.DataFrame
    stored: pl.DataFrame
    standing: pl.DataFrame
    pending: pl.DataFrame
    outdated: pl.DataFrame

    @property
    def is_done(self) -> bool:
        """True if there is nothing to make and nothing to put away."""
        return self.pending.is_empty() and self.outdated.is_empty()


class Stage(ABC):
    """A stage of a run; `stages.ordered` lists them.

    Args:
        plan: The run, the benchmarks that are worked on, and the judges that are asked.
        rows: What the stages before have made; by default what is in the lake.

    Attributes:
        name: The stage, and the table that it makes.
        needs: The stages whose rows its own are made of.
        makes_calls: Whether it may make calls; else SQL derives its rows.
        continues_imported: Whether imported runs go on with it, as other runs do.
        kinds: What makes its rows, as Dagster's UI shows it.
        checks: What must be true of its rows, by the name of the check.
        graded_checks: Further ones where rules grade answers as right or wrong, made on request alone.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[type["Stage"], ...]] = ()
    makes_calls: ClassVar[bool]
    continues_imported: ClassVar[bool] = False
    kinds: ClassVar[frozenset[str]]
    checks: ClassVar[Mapping[str, str]]
    graded_checks: ClassVar[Mapping[str, str]] = {}

    def __init__(self, plan: RunPlan, rows: Lake | None = None) -> None:
        self.plan, self.workspace = plan, plan.workspace
        self.run_ids, self.benchmarks = [plan.spec.run_id], plan.names
        self.rows = rows or self.workspace.lake

    @classmethod
    def is_needed(cls, spec: RunSpec, benchmarks: Sequence[str]) -> bool:  # noqa: ARG003
        """Return whether some benchmarks of a run have rows of it."""
        return True

    @classmethod
    def model_endpoints(cls, spec: RunSpec, judges: Sequence[str] = ()) -> Sequence[ModelEndpoint]:  # noqa: ARG003
        """Return the models that it calls for a run; of the judges only these, none named means all."""
        return ()

    @classmethod
    def prompts(cls, plan: RunPlan) -> Iterable[UsedPrompt]:  # noqa: ARG003
        """Yield the prompts that it uses for a run.

        Raises:
            PromptError: A template or a variant is missing or broken.
        """
        return ()

    @classmethod
    def n_rows(cls, spec: RunSpec, benchmark: str, judges: Sequence[str] = ()) -> int:  # noqa: ARG003
        """Count the rows of a benchmark that calls are made for, as far as that is known before any is made."""
        return 0

    @abstractmethod
    def materialize(self) -> list[StageResult]:
        """Make what is missing and store it.

        Returns:
            One result per benchmark.
        """

    def remake(self) -> list[StageResult]:
        """Make its rows again of what is stored, without any call; then what is missing."""
        return self.materialize()


class RowStage(Stage, Generic[ItemT]):
    """A stage that makes its rows one by one, most of them by calls.

    Attributes:
        key: Columns that tell its rows apart.
        identity: Columns in which a stored row must agree with what is planned, or it stands no more.
        final_statuses: Statuses that are results; other rows are made again.
        tokens_of: Prefix of the columns with the tokens of its calls.
        label: The column by which progress is shown within a benchmark; "" for none.
        supersedes: Whether replaced rows are kept as superseded.
        makes_samples: Whether its rows are samples, which `generate-cache` and `quick-eval` share.
        result_columns: Columns that `result` needs.
        lines: Progress by benchmark and label.
    """

    makes_calls = True
    kinds = frozenset({"openai", "deltalake"})
    key: ClassVar[tuple[str, ...]]
    identity: ClassVar[tuple[str, ...]]
    final_statuses: ClassVar[tuple[str, ...]] = ("ok",)
    tokens_of: ClassVar[str]
    label: ClassVar[str] = ""
    supersedes: ClassVar[bool] = False
    makes_samples: ClassVar[bool] = False
    result_columns: ClassVar[tuple[str, ...]]

    def __init__(self, plan: RunPlan, rows: Lake | None = None) -> None:
        super().__init__(plan, rows)
        self.lines: dict[tuple[str, str], StageProgress] = {}

    @property
    def keys(self) -> Keys:
        """Keys of all its rows."""
        return {"run_id": self.run_ids, "benchmark": self.benchmarks}

    @abstractmethod
    def planned(self) -> pl.DataFrame:
        """Return key and identity of every row that there should be."""

    @abstractmethod
    def items(self, pending: pl.DataFrame) -> Iterator[ItemT]:
        """Yield the items of pending rows one by one, so that their texts need not all be in memory."""

    @abstractmethod
    async def make(self, item: ItemT, make_call: CallMaker) -> dict[str, Any]:
        """Make the row of an item."""

    def failed_row(self, item: ItemT, error: Exception) -> dict[str, Any]:
        """Return the row of an item whose judge, parser or pass raised; other rows are made.

        Raises:
            ShaberiError: The error is of the stage, not of one row.
        """
        if isinstance(error, ShaberiError) and not isinstance(error, PluginError):
            raise error
        raised = error.__cause__ or error
        message = " ".join("".join(filter(str.isprintable, part)) for part in str(error).split())
        row = {"status": "error", "error_class": type(raised).__name__, "error_message": message}
        current = {"superseded": False} if self.supersedes else {}
        return {**item.columns, **row, **current, "created_at": datetime.now(UTC)}

    @abstractmethod
    def result(self, benchmark: str, rows: pl.DataFrame) -> StageResult:
        """Describe the rows of a benchmark.

        Args:
            benchmark: Which one.
            rows: The columns `result_columns` of all its rows.
        """

    @abstractmethod
    def caller(self, columns: Mapping[str, Any]) -> Caller | None:
        """Return the caller of a planned row; None when it takes no call, whatever comes."""

    def estimate_prompt(self, item: ItemT) -> tuple[str, int]:  # noqa: ARG002
        """Return the known text of a prompt that cannot be rendered yet, and the number of answers in it."""
        return "", 0

    @property
    def has_callers(self) -> bool:
        """True if it makes calls at all."""
        return True

    def with_current_identity(self, stored: pl.DataFrame) -> pl.DataFrame:
        """Return stored rows with the planned identities in the place of former ones that mean the same."""
        return stored

    def possible_endpoints(self, pending: pl.DataFrame) -> AbstractSet[ModelEndpoint]:  # noqa: ARG002
        """Return the endpoints that these rows may call, beside those of their first requests."""
        return frozenset()

    def known_calls(self) -> Mapping[str, Call] | None:
        """Return paid calls in the lake by request hash, if requests are not known beforehand; None looks them up."""
        return None

    def is_usable(self, call: Call) -> bool:  # noqa: ARG002
        """Return whether a paid call may answer a request of this stage."""
        return True

    def unusable_calls(self, stored: pl.DataFrame) -> AbstractSet[str]:  # noqa: ARG002
        """Return request hashes of calls that brought no result: they are made again."""
        return frozenset()

    def paid_calls(self, stored: pl.DataFrame) -> PaidCalls:
        """Return the calls that it need not make.

        Args:
            stored: Its stored rows, superseded ones included.
        """
        (run_id,) = self.run_ids
        return PaidCalls(
            run_id,
            self.name,
            self.workspace,
            self.known_calls,
            unusable=self.unusable_calls(stored),
            is_usable=self.is_usable,
            sharing=self.sharing,
        )

    @cached_property
    def sharing(self) -> Sharing:
        """Which calls of other runs count for it."""
        spec, (run_id,) = self.plan.spec, self.run_ids
        addresses = {endpoint.base_url for endpoint, _ in self.model_endpoints(spec)}
        return Sharing(spec, run_id, addresses, self.workspace, of_samples=self.makes_samples)

    def superseded_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that are kept, as superseded, of those that are replaced."""
        return rows.clear()

    def survey(self) -> Survey:
        """See what stands and what is missing; nothing is changed."""
        planned, schema = self.planned(), TABLES[self.name].schema
        columns = dict.fromkeys((*self.key, *self.identity, *_OF_STORED))
        stored = self.workspace.lake.read(self.name, self.keys, [column for column in columns if column in schema])
        current = stored.filter(~pl.col("superseded")) if self.supersedes else stored
        key, whole = list(self.key), [*self.key, *self.identity]
        results = self.with_current_identity(current.filter(pl.col("status").is_in(self.final_statuses)))
        standing = results.join(planned, on=whole, how="semi", nulls_equal=True)
        pending = planned.join(standing, on=key, how="anti", nulls_equal=True, maintain_order="left")
        outdated = current.join(standing, on=key, how="anti", nulls_equal=True)
        if self.supersedes:
            outdated = outdated.join(pending, on=key, how="semi", nulls_equal=True)
        return Survey(planned, stored, standing, pending, outdated.select(key))

    def materialize(self) -> list[StageResult]:
        """Make what is missing and store it.

        Rows that stand stay as they are; failures are tried again.

        Returns:
            One result per benchmark.

        Raises:
            ConfigurationError: The run cannot go on as it was made.
            EndpointError: No endpoint that is needed can be reached, or each refuses us.
            PartitionBusyError: Another process works on this stage of the run.
        """
        lake = self.workspace.lake
        versions, survey = lake.versions(), self.survey()
        self._begin(survey)
        journaled = self.workspace.journals.stages(self.run_ids[0]) if self.has_callers else ()
        if survey.is_done and self.name not in journaled:
            return self.results()
        with ExitStack() as stack:
            calls = stack.enter_context(JournaledCalls(self)) if self.has_callers else None
            if calls and lake.versions() != versions:
                survey = self.survey()  # another process was at work until now
            writer = stack.enter_context(RowWriter(lake, self.name))
            if calls is None:
                asyncio.run(self._make_alone(survey, writer))
            elif survey.pending.height:
                self.workspace.engine_thread().run(calls.make(survey, writer))
            if calls:
                calls.commit()
            writer.commit(survey.outdated, self.superseded_rows)
            if calls:
                calls.journal.remove()  # all that is in it is in the lake
        return self.results()

    def results(self) -> list[StageResult]:
        """Describe each benchmark as it is stored now."""
        rows = self.workspace.lake.read(self.name, self.keys, list(self.result_columns))
        return [self.result(name, rows.filter(benchmark=name)) for name in self.benchmarks]

    def preview(self, benchmark: str, *columns: str) -> pl.DataFrame:
        """Return a few of its rows."""
        keys = {"run_id": self.run_ids, "benchmark": benchmark}
        return self.workspace.lake.scan(self.name, keys, columns).head(5).collect()

    def described(
        self,
        benchmark: str,
        rows: pl.DataFrame,
        planned: int,
        *,
        preview: pl.DataFrame,
        first: Mapping[str, Any],
        then: Mapping[str, Any],
        n_tried: int | None = None,
    ) -> StageResult:
        """Describe rows by what all such stages say of them; an unknown cost is None.

        Args:
            benchmark: Which one.
            rows: Its rows.
            planned: Rows that there should be.
            preview: A few rows of text for readers.
            first: The stage's facts that come before failures.
            then: Those that come after failures.
            n_tried: Rows of which a few may have failed; None: those planned.
        """
        own = [line for (name, _), line in self.lines.items() if name == benchmark]
        failed = rows.filter(~pl.col("status").is_in(self.final_statuses)).height
        cost = None
        if self.has_callers:
            keys = {"run_id": self.run_ids, "stage": self.name, "status": "ok"}
            # The same for all benchmarks.
            calls = self.workspace.lake.read("calls", keys, ["benchmark", "cost_usd"])
            costs = calls.filter(benchmark=benchmark)["cost_usd"]
            cost = None if costs.is_empty() or costs.has_nulls() else float(costs.sum())
        tokens = {kind: rows[f"{self.tokens_of}_{kind}"].drop_nulls() for kind in _TOKENS}
        facts = {
            "rows": rows.height,
            "planned": planned,
            **first,
            "failed": failed,
            "failures_by_class": by_class(rows),
            **then,
            **{kind: int(known.sum()) if len(known) else None for kind, known in tokens.items()},
            "calls_made": sum(line.calls for line in own),
            "already_there": sum(line.reused for line in own),
            "cost_usd": cost,
        }
        tried = planned if n_tried is None else n_tried
        checks = complete_check(rows.height, planned), failures_check(failed, tried)
        return StageResult(self.run_ids[0], self.name, benchmark, facts, preview, checks=checks)

    def line_of(self, columns: Mapping[str, Any]) -> StageProgress:
        """Return the progress line of a row."""
        return self.lines[columns["benchmark"], columns[self.label] if self.label else ""]

    def _begin(self, survey: Survey) -> None:
        """Show how far it is."""
        by = ["benchmark", self.label] if self.label else ["benchmark"]
        counts = survey.planned.group_by(by, maintain_order=True).agg(total=pl.len())
        there = survey.standing.group_by(by).agg(there=pl.len())
        self.lines = {(name, ""): StageProgress(self.name, name) for name in self.benchmarks if not self.label}
        for row in counts.join(there, on=by, how="left", maintain_order="left").fill_null(0).iter_rows(named=True):
            key = row["benchmark"], row[self.label] if self.label else ""
            self.lines[key] = StageProgress(self.name, *key, total=row["total"], done=row["there"], reused=row["there"])
        numbered = RUN_NUMBER.fullmatch(self.run_ids[0])
        for line in self.lines.values():
            line.label = f"{line.label} run {numbered['number']}".strip() if numbered else line.label
            self.workspace.reporter.changed(line)

    async def _make_alone(self, survey: Survey, writer: RowWriter) -> None:
        """Make rows that take no call."""
        for item in self.items(survey.pending):
            try:
                row = await _made(self, item, _nobody)
            except Exception as error:  # noqa: BLE001 - raised again unless it is of this row
                row = self.failed_row(item, error)
            writer.add(row)
            line = self.line_of(item.columns)
            line.done += 1
            self.workspace.reporter.changed(line)


class JournaledCalls(Generic[ItemT]):
    """A stage while it makes calls: its journal is open, finished calls of an interrupted attempt are there again.

    Attributes:
        journal: The journal.

    Raises:
        PartitionBusyError: Another process has the journal.
    """

    def __init__(self, stage: RowStage[ItemT]) -> None:
        self._stage, self._workspace = stage, stage.workspace
        (self._run_id,) = stage.run_ids
        self._limiters: dict[Endpoint, Limiter] = {}
        self._checked = set[ModelEndpoint]()
        self._not_there: dict[ModelEndpoint, EndpointError] = {}

    def __enter__(self) -> "JournaledCalls[ItemT]":
        self.journal = self._workspace.journals.open(self._run_id, self._stage.name)
        try:
            self._workspace.lake.refresh()  # its last user may be another host
            if self._workspace.lake.committed("calls", self.journal.journal_id):
                # Killed between the commit and the end of the journal: these calls are in the lake.
                self.journal.remove()
                self.journal = self._workspace.journals.open(self._run_id, self._stage.name)
        except BaseException:
            self.journal.close()
            raise
        if self.journal.note:
            self._workspace.reporter.note(self.journal.note)
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.close()

    async def make(self, survey: Survey, writer: RowWriter) -> None:
        """Make all pending rows; on the loop of the process's engine.

        Raises:
            EndpointError: No endpoint that is needed can be reached, or each refuses us.
            ShaberiError: The journal or the table could not be written.
        """
        stage, workspace = self._stage, self._workspace
        budget, reporter = workspace.budget, workspace.reporter
        self._engine = workspace.engine_thread().engine
        paid = stage.paid_calls(survey.stored)
        refused_before = budget.refused
        with self.journal.claims() as claims:
            session = CallSession(
                self._engine,
                self.journal,
                stage.name,
                paid.find,
                budget,
                claims=claims,
                may_take=stage.sharing.may_take,
                news=paid.news,
                tell=reporter.note,
            )
            self._stopping = session.stopping
            await self._check(stage.possible_endpoints(survey.pending))

            def row_of(work: tuple[ItemT, list[Outcome]]) -> Coroutine[Any, Any, dict[str, Any]]:
                item, outcomes = work
                labels = {name: item.columns[name] for name in ("benchmark", "question_id")}

                def make_call(
                    request: ChatRequest, purpose: str, *, lookup: bool = False
                ) -> Coroutine[Any, Any, tuple[Call, bool]]:
                    return session.call(request, labels | {"purpose": purpose}, lookup=lookup, outcomes=outcomes)

                return _made(stage, item, make_call)

            def failed(work: tuple[ItemT, list[Outcome]], error: Exception) -> dict[str, Any]:
                return stage.failed_row(work[0], error)

            limits = workspace.options.limiter_settings
            workers = max(_FEWEST_WORKERS, _WORKERS_PER_SLOT * (limits.fixed or limits.maximum))
            items = self._prepared(stage.items(survey.pending), session)
            async for (item, outcomes), row in run_all(items, row_of, workers=workers, failed=failed):
                self._show(item, row, outcomes)
                if session.trouble is None:
                    self._record_limits(settled=True)
                    try:
                        writer.add(row)
                    except ShaberiError as error:
                        session.trouble = error
            session.end()
        self._record_limits(settled=False)
        if self._not_there and self._not_there.keys() == self._checked:
            raise next(iter(self._not_there.values()))
        if refused := budget.refused - refused_before:
            reporter.note(f"{budget.objection()}: {refused} calls of {stage.name} were not made")
        for sentence in filter(None, (str(session.stopping), *session.noticed)):
            reporter.note(f"{stage.name}: {sentence}")

    def _show(self, item: ItemT, row: Mapping[str, Any], outcomes: Sequence[Outcome]) -> None:
        line = self._stage.line_of(item.columns)
        if outcomes:
            line.limit = self._engine.limiter(outcomes[-1][0].endpoint).limit
        _count(line, row, outcomes, self._workspace.prices)
        self._workspace.reporter.changed(line)

    async def _prepared(
        self, items: Iterator[ItemT], session: CallSession
    ) -> AsyncIterator[tuple[ItemT, list[Outcome]]]:
        """The items, each with room for its calls; of a block paid calls are looked up and endpoints checked first."""
        for block in portions(items, _size, _BLOCK_BYTES):
            requests = [item.request for item in block if item.request]
            session.prefetch(requests)
            for request in requests:
                self._limiters.setdefault(request.endpoint, self._engine.limiter(request.endpoint))
            await self._check({(request.endpoint, request.model) for request in session.unpaid(requests)})
            for item in block:
                if session.trouble:
                    return
                yield item, []

    async def _check(self, endpoints: AbstractSet[ModelEndpoint]) -> None:
        budget = self._workspace.budget
        for endpoint, model in sorted(endpoints - self._checked, key=lambda one: (one[0].base_url, one[1])):
            if budget.objection() is None:
                try:
                    await self._engine.check(endpoint, model)
                except EndpointError as error:  # others may be there
                    self._not_there[endpoint, model] = error
                    self._stopping.stop(model, endpoint.base_url, str(error))
            self._checked.add((endpoint, model))
            self._limiters.setdefault(endpoint, self._engine.limiter(endpoint))

    def _record_limits(self, *, settled: bool) -> None:
        for endpoint, limiter in self._limiters.items():
            for change in limiter.take_changes(settled=settled):
                self.journal.append_limit_change(endpoint.base_url, change)

    def commit(self) -> None:
        """Put the journal's calls into the lake, with their prices.

        Raises:
            ShaberiError: They could not be put there, or somebody else may have the stage by now.
        """
        lake, journal = self._workspace.lake, self.journal
        limits = pl.DataFrame(
            [record | {"run_id": self._run_id, "stage": self._stage.name} for record in journal.limit_changes],
            schema=LIMIT_CHANGES.schema,
        )
        if limits.height and not lake.committed("limit_changes", journal.journal_id):
            lake.append("limit_changes", limits, transaction=journal.journal_id)
        called: set[tuple[str, str]] = set()
        with RowWriter(lake, "calls") as writer:
            for record in journal.records:
                called.add((record["model"], record["base_url"]))
                cost = self._workspace.prices.cost(record)
                priced = {"run_id": self._run_id, "cost_usd": cost and cost.usd, "price_source": cost and cost.source}
                writer.add({name: (record | priced).get(name) for name in CALLS.schema})
            # Before the calls: a reader that finds them in the lake takes the commit for done.
            self._workspace.record_prices(called)
            writer.commit(transaction=journal.journal_id)
        journal.check()


def _made(stage: RowStage[ItemT], item: ItemT, make_call: CallMaker) -> Coroutine[Any, Any, dict[str, Any]]:
    return _raised(item.failure) if item.failure else stage.make(item, make_call)


async def _raised(error: Exception) -> dict[str, Any]:
    raise error


async def _nobody(request: ChatRequest, purpose: str, *, lookup: bool = False) -> tuple[Call, bool]:  # noqa: ARG001
    raise AssertionError(f"a stage that makes no calls calls {request.model}")


_OF_STORED = (
    *("status", "error_class", "superseded", "request_hash", "fallback_request_hash", "pass_version", "created_at"),
)


def _size(item: Item) -> int:
    """Return about how much memory the texts of an item take."""
    messages = item.request.messages if item.request else ()
    return sum((len(message.content) for message in messages), _LEAST_BYTES)


def _count(line: StageProgress, row: Mapping[str, Any], outcomes: Sequence[Outcome], prices: PriceList) -> None:
    """Count an item that is done."""
    line.done += 1
    if row["status"] == "error":
        line.failed += 1
        line.failures[row["error_class"]] += 1
    line.reused += bool(outcomes) and all(reused for _, _, reused in outcomes)
    for _, call, reused in outcomes:
        if reused or not call.attempts:
            continue
        line.calls += 1
        line.prompt_tokens += call.usage.prompt_tokens or 0
        line.completion_tokens += call.usage.completion_tokens or 0
        if call.status == "ok" or call.usage.prompt_tokens:
            cost = prices.cost(call.to_record())
            line.cost_usd += cost.usd if cost else 0.0
            line.unpriced += cost is None
