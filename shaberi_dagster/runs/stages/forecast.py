"""Forecasts of the calls, tokens and cost of an evaluation, before any call is made.

A forecast is the plan of the stages themselves. Items whose calls are all paid for are made, though not stored, so that
the stage after them is planned over the very rows that it will find; where a call would be needed, it is counted, and
what hangs on its reply is counted from the fewest to the most calls that it can take.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from statistics import fmean
from typing import Any, NoReturn

import polars as pl

from shaberi_dagster.lake.journal.records import Call
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.lake.store import Keys, Lake
from shaberi_dagster.llm.prices import PriceList
from shaberi_dagster.llm.request import ChatRequest
from shaberi_dagster.llm.types import Message
from shaberi_dagster.runs.forecast import NO_CALL, Forecast, sum_if_known
from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stages.answers import Answers
from shaberi_dagster.runs.stages.base import UNMADE, Caller, Item, RowStage
from shaberi_dagster.runs.stages.ordered import CALLING_STAGES
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.util.errors import ShaberiError

TEMPLATE = "template (upper bound)"

_WIDE = re.compile("[\u2e80-\U0003ffff]")  # from the CJK radicals on: kana, kanji, hangul, full-width forms, emoji
_TOKENS_OF_WIDE = 0.8
_TOKENS_OF_NARROW = 0.25
_TOKENS_OF_MESSAGE = 4  # role and delimiters
_TURNS = 50  # of the event loop, after which a strategy that only waits for replies is seen to wait

_OTHER_MODELS = ", other models"
_OTHER_BENCHMARKS = ", other benchmarks"

_TOKEN_COLUMNS = ["prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens"]
_CALL_COLUMNS = ["stage", "benchmark", "question_id", "purpose", "model", *_TOKEN_COLUMNS]


def forecast(
    specs: Sequence[RunSpec],
    benchmarks: Sequence[str],
    stages: Sequence[str],
    workspace: Workspace,
    *,
    now: datetime,
    judges: Sequence[str] = (),
    answers: "pl.DataFrame | None" = None,
) -> list[Forecast]:
    """Forecast the calls of some stages of runs; nothing is changed and no call is made.

    Calls are exact for what follows from what is there: what rows stand, calls in the lake and calls in the journal
    of an interrupted attempt are found as the stages find them. Answers that no one has paid for yet are taken to
    have a text, and no two of them the same.

    Tokens are averages over the finished calls in the lake, of the most specific kind there is: of the same
    stage, benchmark and model; of the same stage and benchmark; of the same stage and model; and of these only
    those for the same questions, if each of them was asked. Without any, prompt tokens are those of the rendered
    prompts (see `rough_tokens`) and completion tokens the limit of the sampling.

    Args:
        specs: The runs, planned or stored.
        benchmarks: Some of their benchmarks.
        stages: Some stages, in any order; those that make no call are left out.
        workspace: Where to read; with the option `fresh` what other runs paid for is not used.
        now: The date of the prices.
        judges: Only these of the runs' judges; none named means all.
        answers: Answers that the runs will have been given when they begin.

    Returns:
        One for each run, stage, benchmark, and model, judge, strategy or pass that makes calls.

    Raises:
        ConfigurationError: A judge is not one of the run's, or its questions or prompts are not what they were.
    """
    history = _History(workspace.lake.read("calls", {"status": "ok"}, _CALL_COLUMNS))
    counted: set[tuple[str, str]] = set()
    estimates = []
    for spec in specs:
        rows = Foreseen(workspace)
        if answers is not None:
            rows.overlays[Answers.name] = list(Answers.key), answers.filter(run_id=spec.run_id)
        own = [name for name in benchmarks if name in spec.benchmarks]
        plan = RunPlan(spec, own, workspace, judges)
        for kind in (kind for kind in CALLING_STAGES if kind.name in stages and kind.is_needed(spec, own)):
            stage = kind(plan, rows)
            if stage.has_callers:
                groups = asyncio.run(_foresee(stage, rows, counted))
                estimates += [_estimate(plan, history, now, kind.name, *key, group) for key, group in groups.items()]
    return estimates


@dataclass
class _Group:
    """Missing rows and calls of one caller for one benchmark.

    Attributes:
        planned: Rows that there will be.
        there: Those that stand.
        low: Fewest calls.
        high: Most calls.
        prompts: For each item with calls: its question, and the prompt: what is known of it, and how many answers
            are in it beside that.
    """

    planned: int = 0
    there: int = 0
    low: int = 0
    high: int = 0
    prompts: list[tuple[str, Sequence[Message], int]] = field(default_factory=list)


_Groups = dict[tuple[str, Caller], _Group]


class Foreseen(Lake):
    """The rows as they would be: stored ones, those that need no further call, and a mark for each of the others.

    Attributes:
        overlays: By table: the columns that tell rows apart, and the rows that are not stored. Nothing can be written.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace.settings.warehouse)
        self.overlays: dict[str, tuple[list[str], pl.DataFrame]] = {}

    def writing(self, table: str) -> NoReturn:
        """Refuse to write.

        Raises:
            ShaberiError: Always.
        """
        raise ShaberiError(f"{table} would be written")

    def read(self, table: str, keys: Keys | None = None, columns: list[str] | None = None) -> pl.DataFrame:
        """Read rows as they would be."""
        return pl.concat(self.blocks(table, keys, columns))

    def blocks(
        self, table: str, keys: Keys | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[pl.DataFrame]:
        """Read rows as they would be, some hundred at a time."""
        if table not in self.overlays:
            yield self.scan(table, keys, columns).collect()
            return
        key, overlay = self.overlays[table]
        wanted = columns or overlay.columns
        stored = self.scan(table, keys, list(dict.fromkeys((*wanted, *key)))).collect()
        yield stored.join(overlay, on=key, how="anti", nulls_equal=True).select(wanted)
        yield overlay.select(wanted)


class _Replay:
    """`CallMaker` that has only the calls which are paid for; who needs another one waits for ever.

    Args:
        stage: Whose calls.
        stored: Its stored rows.
    """

    def __init__(self, stage: RowStage[Any], stored: pl.DataFrame) -> None:
        (run_id,) = stage.run_ids
        self._journal = stage.workspace.journals.finished_calls(run_id, stage.name)
        self._paid = stage.paid_calls(stored)
        self._found: dict[str, Call] = {}
        self.needed: list[ChatRequest] = []
        self.replies = 0

    def prefetch(self, requests: Iterable[ChatRequest]) -> None:
        """Look many requests up at once."""
        known = self._journal.keys() | self._found.keys()
        self._found |= self._paid.find(
            [request.request_hash for request in requests if request.request_hash not in known]
        )

    async def __call__(self, request: ChatRequest, purpose: str, *, lookup: bool = False) -> tuple[Call, bool]:  # noqa: ARG002
        if lookup:
            self.prefetch([request])
        call = self._paid_call(request)
        if call is None:
            self.needed.append(request)
            await asyncio.get_running_loop().create_future()
            raise AssertionError("a forecast makes no calls")
        self.replies += 1
        return call, True

    def lacks(self, request: ChatRequest) -> bool:
        """Return whether a request that was looked up is not paid for; then it is needed."""
        if self._paid_call(request):
            return False
        self.needed.append(request)
        return True

    def _paid_call(self, request: ChatRequest) -> Call | None:
        return self._journal.get(request.request_hash) or self._found.get(request.request_hash)


async def _foresee(stage: RowStage[Any], rows: Foreseen, counted: set[tuple[str, str]]) -> _Groups:
    """Count the calls of a stage, and let the next one see its rows."""
    survey = stage.survey()
    groups: _Groups = {}
    for row in survey.planned.iter_rows(named=True):
        if caller := stage.caller(row):
            groups.setdefault((row["benchmark"], caller), _Group()).planned += 1
    for row in survey.standing.iter_rows(named=True):
        if caller := stage.caller(row):
            groups[row["benchmark"], caller].there += 1
    items, (run_id,) = list(stage.items(survey.pending)), stage.run_ids
    replay = _Replay(stage, survey.stored)
    replay.prefetch(item.request for item in items if item.request)
    made = []
    for item in items:
        finished = None if item.inputs_missing else await _made(stage, item, replay)
        made.append(finished or {**item.columns, "status": UNMADE})
        caller = stage.caller(item.columns)
        if finished is not None or caller is None:
            continue
        group, (low, high) = groups[item.columns["benchmark"], caller], item.calls
        if not item.inputs_missing:
            # The runs of a command pay once for all of them where calls are shared.
            shared = stage.sharing.may_take
            fresh = {
                ("" if shared(request.model, request.endpoint.base_url) else run_id, request.request_hash)
                for request in replay.needed
            } - counted
            counted |= fresh
            later = [max(total - replay.replies - len(replay.needed), 0) if fresh else 0 for total in (low, high)]
            low, high = (len(fresh) + more for more in later)
        group.low += low
        group.high += high
        if high:
            known = replay.needed[0].messages if replay.needed and not item.inputs_missing else None
            text, answers = ("", 0) if known else stage.estimate_prompt(item)
            group.prompts.append((item.columns["question_id"], known or (Message("user", text),), answers))
    rows.overlays[stage.name] = list(stage.key), pl.DataFrame(made, schema=TABLES[stage.name].schema)
    return groups


async def _made(stage: RowStage[Any], item: Item, replay: _Replay) -> dict[str, Any] | None:
    """The row of an item; None when it needs a call, and then `replay` has the calls that it needs by now."""
    replay.needed, replay.replies = [], 0
    if item.request and replay.lacks(item.request):
        return None
    making = asyncio.ensure_future(stage.make(item, replay))
    seen = -1
    while not making.done() and seen != (seen := replay.replies + len(replay.needed)):
        for _ in range(_TURNS):
            await asyncio.sleep(0)
            if making.done():
                break
    if making.done():
        return making.result()
    making.cancel()
    await asyncio.wait([making])
    return None


def _estimate(  # noqa: PLR0917
    plan: RunPlan, history: "_History", now: datetime, stage: str, benchmark: str, caller: Caller, group: _Group
) -> Forecast:
    """Return the expected tokens and cost of the calls of a group, at the prices of a day."""
    question_ids = {question_id for question_id, *_ in group.prompts}
    past = history.find(stage, benchmark, caller.model, question_ids) if group.high else None
    falls_back = caller.falls_back and group.low > 0
    n_calls, n_fallback = (group.low if falls_back else group.high), None if falls_back else 0.0
    fallback = _Average()
    if past:
        average, basis = past.average, past.basis
        if falls_back:
            fallback, n_fallback = past.fallback, group.low * past.fallback_share
    elif group.high:
        answer = _answer_tokens(plan.spec, history, benchmark, question_ids)
        prompt = fmean(rough_tokens(messages) + n * answer for _, messages, n in group.prompts)
        average, basis = _Average(prompt, caller.max_tokens), TEMPLATE
    else:
        average, basis = _Average(), NO_CALL
    parts = [(n_calls, average), (n_fallback or 0.0, fallback)]
    settings, prices = plan.spec.benchmarks[benchmark], plan.workspace.prices
    return Forecast(
        run_id=plan.spec.run_id,
        benchmark=benchmark,
        question_set=settings.question_set,
        source=settings.source,
        stage=stage,
        model=caller.name,
        rows_planned=group.planned,
        rows_there=group.there,
        calls=group.low,
        calls_most=group.high,
        fallback_calls=n_fallback,
        prompt_tokens=round(sum(n * average.prompt for n, average in parts)),
        completion_tokens=round(sum(n * min(average.completion, caller.max_tokens) for n, average in parts)),
        cost_usd=sum_if_known(_cost(prices, now, caller, n, average) for n, average in parts),
        basis=basis,
        upper_bound=bool(group.high) and past is None,
    )


def _answer_tokens(spec: RunSpec, history: "_History", benchmark: str, question_ids: AbstractSet[str]) -> float:
    """Tokens of an answer that is not there yet, as others will see it: without the model's reasoning."""
    if spec.endpoint is None:
        return 0.0  # it was imported, or a part of what was: all its answers are there
    most = spec.benchmarks[benchmark].sampling.max_tokens
    past = history.find(Answers.name, benchmark, spec.model, question_ids)
    return min(past.average.completion - past.average.reasoning, most) if past else most


def _cost(prices: PriceList, now: datetime, caller: Caller, n_calls: float, average: "_Average") -> float | None:
    """The list price of that many average calls."""
    if not n_calls:
        return 0.0
    facts = {"model": caller.model, "base_url": caller.endpoint.base_url, "created_at": now}
    prompt, completion = round(average.prompt), round(min(average.completion, caller.max_tokens))
    tokens = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "cached_tokens": round(average.cached),
    }
    each = prices.cost(facts | tokens)
    return None if each is None else n_calls * each.usd


def rough_tokens(messages: Iterable[Message]) -> float:
    """About how many tokens a prompt is, without a tokenizer: 0.8 for a CJK character, 1/4 for any other.

    Measured on the questions, references and rubrics of the four benchmarks, on model answers and on the prompts here,
    per kind of text: -17 to +14 % against o200k (GPT-4o and later), -7 to +27 % against Qwen, -13 to +17 % against
    Mistral's Tekken; English prose -6 to +3 %. Vocabularies with few Japanese words need more: 1.4 times as much
    with cl100k (GPT-4), 2.2 times with SmolLM2.

    Args:
        messages: Rendered messages; each counts 4 tokens more for its role and delimiters.
    """
    tokens = 0.0
    for message in messages:
        wide = len(_WIDE.findall(message.content))
        narrow = len(message.content) - wide
        tokens += _TOKENS_OF_MESSAGE + _TOKENS_OF_WIDE * wide + _TOKENS_OF_NARROW * narrow
    return tokens


@dataclass(frozen=True)
class _Average:
    """Tokens of an average call."""

    prompt: float = 0.0
    completion: float = 0.0
    cached: float = 0.0
    reasoning: float = 0.0


@dataclass(frozen=True)
class _Past:
    """Finished calls that tell what the next ones will be like."""

    basis: str
    average: _Average
    fallback_share: float
    fallback: _Average


class _History:
    """Averages over the finished calls in the lake whose tokens are known."""

    def __init__(self, calls: pl.DataFrame) -> None:
        known = calls.filter(pl.col("prompt_tokens").is_not_null(), pl.col("completion_tokens").is_not_null())
        names = ("stage", "benchmark", "model", "question_id")
        self._sums = known.group_by(*names, is_fallback=pl.col("purpose").eq_missing("fallback")).agg(
            pl.len(), pl.col(_TOKEN_COLUMNS).sum()
        )

    def find(self, stage: str, benchmark: str, model: str, question_ids: AbstractSet[str]) -> _Past | None:
        if self._sums.is_empty():
            return None
        for scope, keys in (
            ("", {"benchmark": benchmark, "model": model}),
            (_OTHER_MODELS, {"benchmark": benchmark}),
            (_OTHER_BENCHMARKS, {"model": model}),
        ):
            found = self._sums.filter(stage=stage, **keys)
            same = found.filter(pl.col("question_id").is_in(question_ids))
            if same["question_id"].n_unique() == len(question_ids):
                found = same
            first, fallback = found.filter(~pl.col("is_fallback")), found.filter("is_fallback")
            if n_calls := int(first["len"].sum()):
                own = scope != _OTHER_MODELS  # whether prompts are cached is the model's own
                share = int(fallback["len"].sum()) / n_calls
                basis = f"history: {n_calls:,} call{'s' if n_calls > 1 else ''}{scope}"
                return _Past(basis, _average(first, cached=own), share, _average(fallback, cached=own))
        return None


def _average(sums: pl.DataFrame, *, cached: bool) -> _Average:
    n_calls = int(sums["len"].sum())
    if not n_calls:
        return _Average()
    prompt, completion, from_cache, reasoning = (float(sums[name].sum()) / n_calls for name in _TOKEN_COLUMNS)
    return _Average(prompt, completion, from_cache if cached else 0.0, reasoning)
