"""The consensus stage: what each strategy makes of a run's samples."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import polars as pl

from shaberi_dagster.benchmarks.questions import Question
from shaberi_dagster.benchmarks.registry import get_benchmark
from shaberi_dagster.consensus.base import Candidate, Reply, Strategy, candidates_of, decide_all
from shaberi_dagster.consensus.plurality import Vote
from shaberi_dagster.consensus.registry import make_strategies
from shaberi_dagster.grading.base import GradedQuestion
from shaberi_dagster.grading.plurality import plurality
from shaberi_dagster.grading.registry import GRADERS
from shaberi_dagster.identity import sha256_json, sha256_text
from shaberi_dagster.lake.schemas import CONSENSUS
from shaberi_dagster.llm.session import CallSession
from shaberi_dagster.llm.thinking import answer_state, split_thinking
from shaberi_dagster.llm.types import Call, ChatRequest, Message, Sampling
from shaberi_dagster.outcome import Outcome, by_class, complete_check, failures_check, total
from shaberi_dagster.planning import load_questions
from shaberi_dagster.progress import StageProgress
from shaberi_dagster.runspec import SINGLE, EnsembleSpec, RunSpec
from shaberi_dagster.stage import Answered, calling, run_columns
from shaberi_dagster.workspace import Workspace

_KEY = ["benchmark", "question_id", "strategy"]
_IDENTITY = [*_KEY, "strategy_version", "strategy_prompt_hash", "consensus_model", "candidates_hash"]
_ANSWER_COLUMNS = [
    *("benchmark", "question_set", "question_id", "sample_index", "status", "error_class", "error_message"),
    *("answer", "answer_hash", "answer_state", "answer_model"),
]


@dataclass(frozen=True)
class _Item:
    """One question for one strategy; `strategy` is None for the single answer."""

    benchmark: str
    question: Question
    samples: Sequence[Mapping[str, Any]]
    strategy: Strategy | None
    model: str
    request: ChatRequest | None = None

    @property
    def n_candidates(self) -> int:
        """Samples with a text."""
        return sum(row["answer_state"] == "text" for row in self.samples)

    @property
    def calls(self) -> bool:
        """Whether it takes calls."""
        return self.strategy is not None and self.strategy.n_calls(self.n_candidates).high > 0

    @property
    def identity(self) -> dict[str, Any]:
        """What a stored consensus must agree with to be the one of this item."""
        return {
            "benchmark": self.benchmark,
            "question_id": self.question.question_id,
            "strategy": self.strategy.name if self.strategy else SINGLE,
            "strategy_version": self.strategy.version if self.strategy else 1,
            "strategy_prompt_hash": self.strategy.prompt_hash if self.strategy and self.strategy.templates else None,
            "consensus_model": self.model if self.strategy and self.strategy.templates else None,
            "candidates_hash": sha256_json([row["answer_hash"] for row in self.samples]),
        }


def decide(spec: RunSpec, benchmarks: Sequence[str], workspace: Workspace) -> list[Outcome]:
    """Make the consensus of every strategy that the run still lacks.

    A consensus stands as long as the samples, the strategy with its prompts, and the model that it asks are the
    same. Failures are tried again.

    Args:
        spec: The run; it has an ensemble.
        benchmarks: Some of its benchmarks.
        workspace: Where to read and write.

    Returns:
        One outcome per benchmark.

    Raises:
        EndpointError: The endpoint refuses us.
        PartitionBusyError: Another process works on this run.
    """
    ensemble = spec.ensemble
    if ensemble is None:
        return []
    keys = {"run_id": spec.run_id, "benchmark": benchmarks}
    answers = workspace.lake.read("answers", keys, _ANSWER_COLUMNS)
    items = [item for name in benchmarks for item in _items(spec, ensemble, name, answers, workspace)]
    stored = workspace.lake.read("consensus", keys)
    wanted = pl.DataFrame(
        [item.identity for item in items], schema={name: CONSENSUS.schema[name] for name in _IDENTITY}
    )
    kept = stored.filter(status="ok").join(wanted, on=_IDENTITY, how="semi", nulls_equal=True)
    done = set(kept.select(_KEY).iter_rows())
    pending = [item for item in items if tuple(item.identity[name] for name in _KEY) not in done]
    lines = {
        (name, strategy): StageProgress("consensus", name, strategy, total=spec.n_questions(name))
        for name in benchmarks
        for strategy in spec.strategies
    }
    for name, _, strategy in done:
        lines[name, strategy].done += 1
        lines[name, strategy].reused += 1
    endpoint = ensemble.consensus.endpoint.to_endpoint()
    calls = any(item.calls for item in pending)
    with calling(spec.run_id, "consensus", workspace) as stage:
        rows = stage.run(
            pending,
            lambda session, item: _decide_one(spec, ensemble, session, item),
            line_of=lambda item: lines[item.benchmark, item.identity["strategy"]],
            lines=list(lines.values()),
            models={(endpoint, ensemble.consensus.model)} if calls else set(),
            paid=_paid(spec, ensemble, benchmarks, workspace) if calls else None,
        )
        frame = pl.concat([kept, pl.DataFrame(rows, schema=CONSENSUS.schema)])
        stage.commit("consensus", frame, keys, changed=bool(rows) or kept.height < stored.height)
        costs = stage.costs()
    return [
        _outcome(
            spec, name, frame.filter(benchmark=name), [lines[name, one] for one in spec.strategies], costs.get(name)
        )
        for name in benchmarks
    ]


def _items(
    spec: RunSpec, ensemble: EnsembleSpec, benchmark: str, answers: pl.DataFrame, workspace: Workspace
) -> list[_Item]:
    samples = (
        answers.filter(benchmark=benchmark)
        .sort("question_id", "sample_index")
        .partition_by("question_id", as_dict=True)
    )
    items = []
    for question in load_questions(spec, benchmark, workspace).questions[: spec.limit]:
        frame = samples.get((question.question_id,))
        own = frame.to_dicts() if frame is not None else []
        strategies = make_strategies(ensemble.strategies, workspace.prompts, _vote(benchmark, question))
        shared = [row for row in own if row["sample_index"] in ensemble.shared]
        model = ensemble.consensus.model
        items.append(_Item(benchmark, question, [row for row in own if row["sample_index"] == 0], None, model))
        items += [_Item(benchmark, question, shared, one, model) for one in strategies]
    return items


def graded_question(question: Question) -> GradedQuestion:
    """A question as graders know it."""
    return GradedQuestion(
        text=question.question,
        reference=question.reference or "",
        options=question.options or (),
        aliases=question.aliases or (),
    )


def _vote(benchmark: str, question: Question) -> Vote:
    """Plurality among what the benchmark's grader reads in the candidates' answers."""

    def vote(candidates: Sequence[Candidate]) -> tuple[int, Mapping[str, Any]]:
        grader, item = GRADERS[get_benchmark(benchmark).grader], graded_question(question)
        extracted = [grader.extract(one.text, item) for one in candidates]
        votes = [None if one is None else grader.canonical(one) for one in extracted]
        elected = plurality(votes)
        return elected.winner, {"votes": votes, "largest_share": elected.share, "decided": elected.decided}

    return vote


def _paid(spec: RunSpec, ensemble: EnsembleSpec, benchmarks: Sequence[str], workspace: Workspace) -> dict[str, Call]:
    """The paid consensus calls on these benchmarks to this model; a strategy's requests follow from its replies.

    Those that brought no text are of no use: where one made a consensus fail, it is made again.
    """
    keys: dict[str, Any] = {
        "stage": "consensus",
        "status": "ok",
        "benchmark": list(benchmarks),
        "model": ensemble.consensus.model,
    }
    if workspace.options.fresh:
        keys["run_id"] = spec.run_id
    rows = workspace.lake.read("calls", keys).sort("created_at")
    calls = (Call.from_record(row) for row in rows.iter_rows(named=True))
    return {call.request_hash: call for call in calls if _said(call).strip()}


def _said(call: Call) -> str:
    """What the model says when it has thought."""
    return split_thinking(call.content or "").answer


async def _decide_one(
    spec: RunSpec, ensemble: EnsembleSpec, session: CallSession, item: _Item
) -> tuple[dict[str, Any], list[Answered]]:
    row = (
        run_columns(spec)
        | item.identity
        | {
            "question_set": spec.benchmarks[item.benchmark].question_set,
            "n_candidates": item.n_candidates,
            "created_at": datetime.now(UTC),
        }
    )
    if item.strategy is None:
        return row | _single(item.samples), []
    answered: list[Answered] = []
    started = time.monotonic()

    async def ask(purpose: str, messages: tuple[Message, ...]) -> Reply:
        request = ChatRequest(
            ensemble.consensus.endpoint.to_endpoint(),
            ensemble.consensus.model,
            messages,
            Sampling(None, spec.benchmarks[item.benchmark].max_tokens),
            replicate=purpose,  # critics are asked with equal messages, and each has a reply of its own
        )
        labels = {"benchmark": item.benchmark, "question_id": item.question.question_id, "purpose": purpose}
        call, reused = await session.call(request, labels, lookup=True)
        answered.append((call, reused))
        if call.status == "error":
            return Reply(None, call.error_class, call.error_message)
        return Reply(_said(call))

    candidates = candidates_of(
        (one["sample_index"], one["answer_model"] or spec.model, one["answer"]) for one in item.samples
    )
    (outcome,) = (await decide_all(item.question.question, candidates, [item.strategy], ask)).values()
    seconds = time.monotonic() - started if any(not reused for _, reused in answered) else None
    return row | {
        "status": outcome.status,
        "error_class": outcome.error_class,
        "error_message": outcome.error_message,
        "winner": outcome.winner,
        "details": orjson.dumps(dict(outcome.details)).decode(),
        "calls": len(answered),
        "latency_seconds": seconds,
        **_answer(outcome.text),
        **_tokens([call for call, _ in answered]),
    }, answered


def _single(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The single answer as it is, its failure included."""
    if not samples:
        return {"status": "error", "error_class": "no_answer", "error_message": "there is no sample", "calls": 0}
    (row,) = samples
    names = ("status", "error_class", "error_message", "answer", "answer_hash", "answer_state")
    return {name: row[name] for name in names} | {"winner": 0, "details": "{}", "calls": 0, **_tokens([])}


def _answer(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    return {"answer": text, "answer_hash": sha256_text(text), "answer_state": answer_state(text)}


def _tokens(calls: Sequence[Call]) -> dict[str, int | None]:
    """Tokens of the calls together; unknown if one of them is unknown."""
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")
    values = {name: [getattr(call.usage, name) for call in calls] for name in names}
    return {f"consensus_{name}": None if None in known else sum(known) for name, known in values.items()}


def _outcome(
    spec: RunSpec, benchmark: str, frame: pl.DataFrame, lines: Sequence[StageProgress], cost: float | None
) -> Outcome:
    failed = frame.filter(pl.col("status") != "ok").height
    planned = spec.n_questions(benchmark) * len(spec.strategies)
    return Outcome(
        run_id=spec.run_id,
        stage="consensus",
        benchmark=benchmark,
        facts={
            "rows": frame.height,
            "planned": planned,
            "strategies": list(spec.strategies),
            "calls_made": sum(line.calls for line in lines),
            "already_there": sum(line.reused for line in lines),
            "failed": failed,
            "failures_by_class": by_class(frame),
            "prompt_tokens": total(frame, "consensus_prompt_tokens"),
            "completion_tokens": total(frame, "consensus_completion_tokens"),
            "cost_usd": cost,
        },
        preview=frame.head(5).select("strategy", "question_id", "status", "answer"),
        checks=(complete_check(frame.height, planned), failures_check(failed, planned)),
    )
