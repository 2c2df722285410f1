"""The answers stage: one row for each sample of each question."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl

from shaberi_dagster.benchmarks.questions import Question
from shaberi_dagster.benchmarks.registry import get_benchmark
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.identity import sha256_text
from shaberi_dagster.lake.schemas import ANSWERS
from shaberi_dagster.llm.session import CallSession
from shaberi_dagster.llm.thinking import answer_state, split_thinking
from shaberi_dagster.llm.types import Call, ChatRequest, Sampling
from shaberi_dagster.outcome import Outcome, by_class, complete_check, failures_check, total
from shaberi_dagster.planning import load_questions
from shaberi_dagster.progress import StageProgress
from shaberi_dagster.prompting import generation_messages, generation_prompt_hash
from shaberi_dagster.runspec import RunSpec
from shaberi_dagster.stage import Answered, calling, run_columns
from shaberi_dagster.workspace import Workspace


@dataclass(frozen=True)
class AnswerItem:
    """One answer that the run plans, with the request that makes it."""

    benchmark: str
    question: Question
    sample_index: int
    request: ChatRequest

    @property
    def key(self) -> tuple[str, str, int]:
        """Benchmark, question and sample index, as in the table."""
        return self.benchmark, self.question.question_id, self.sample_index


def answer(spec: RunSpec, benchmarks: Sequence[str], workspace: Workspace) -> list[Outcome]:
    """Make the answers that the run still lacks and store them.

    Rows that are there and `ok` stay as they are; failures are tried again.

    Args:
        spec: The run.
        benchmarks: Some of its benchmarks.
        workspace: Where to read and write.

    Returns:
        One outcome per benchmark.

    Raises:
        ConfigurationError: The generation prompt is not the one that the run was made with.
        EndpointError: The endpoint refuses us.
        PartitionBusyError: Another process answers for this run.
    """
    items = [item for name in benchmarks for item in answer_items(spec, name, workspace)]
    stored = workspace.lake.read("answers", {"run_id": spec.run_id, "benchmark": benchmarks})
    kept = standing_answers(stored, items)
    done = set(kept.select("benchmark", "question_id", "sample_index").iter_rows())
    pending = [item for item in items if item.key not in done]
    lines = {
        name: StageProgress("answers", name, total=sum(item.benchmark == name for item in items)) for name in benchmarks
    }
    for name, _, _ in done:
        lines[name].done += 1
        lines[name].reused += 1
    with calling(spec.run_id, "answers", workspace) as stage:
        rows = stage.run(
            pending,
            lambda session, item: _answer_one(spec, session, item),
            line_of=lambda item: lines[item.benchmark],
            lines=list(lines.values()),
        )
        fresh = pl.DataFrame(rows, schema=ANSWERS.schema)
        frame = pl.concat([kept, fresh])
        stage.commit("answers", frame, {"run_id": spec.run_id, "benchmark": benchmarks}, changed=bool(rows))
        costs = stage.costs()
    return [_outcome(spec, name, frame.filter(benchmark=name), lines[name], costs.get(name)) for name in benchmarks]


def answer_items(spec: RunSpec, benchmark: str, workspace: Workspace) -> list[AnswerItem]:
    """All answers that the run plans for a benchmark.

    Raises:
        ConfigurationError: The generation prompt is not the one that the run was made with.
    """
    entry, settings = get_benchmark(benchmark), spec.benchmarks[benchmark]
    if generation_prompt_hash(workspace.prompts, entry) != settings.prompt_hash:
        raise ConfigurationError(
            f"the generation prompt of {benchmark} has changed since run {spec.run_id} was made: give another --tag"
        )
    members = [spec.ensemble and spec.ensemble.member(index) for index in range(settings.samples)]
    sampling = Sampling(settings.temperature, settings.max_tokens, settings.frequency_penalty)
    questions = load_questions(spec, benchmark, workspace).questions[: spec.limit]
    return [
        AnswerItem(
            benchmark,
            question,
            index,
            ChatRequest(
                (members[index] or spec).endpoint.to_endpoint(),
                (members[index] or spec).model,
                generation_messages(workspace.prompts, entry, question),
                sampling,
                sample_index=index,
                # Runs of one multi-run are independent samples; other equal requests are paid for once.
                replicate="" if spec.run_number is None else f"run{spec.run_number}",
            ),
        )
        for question in questions
        for index in range(settings.samples)
    ]


def standing_answers(stored: pl.DataFrame, items: Sequence[AnswerItem]) -> pl.DataFrame:
    """The stored rows that stay as they are: `ok`, and made by the request of one of the items."""
    return stored.filter(
        pl.col("status") == "ok", pl.col("request_hash").is_in([item.request.request_hash for item in items])
    )


async def _answer_one(spec: RunSpec, session: CallSession, item: AnswerItem) -> tuple[dict[str, Any], list[Answered]]:
    labels = {"benchmark": item.benchmark, "question_id": item.question.question_id, "purpose": "answer"}
    answered = await session.call(item.request, labels)
    return answer_row(spec, item, answered[0]), [answered]


def answer_row(spec: RunSpec, item: AnswerItem, call: Call) -> dict[str, Any]:
    """The row of the item that the call answered."""
    settings = spec.benchmarks[item.benchmark]
    row = run_columns(spec) | {
        "benchmark": item.benchmark,
        "question_set": settings.question_set,
        "question_id": item.question.question_id,
        "sample_index": item.sample_index,
        "status": call.status,
        "error_class": call.error_class,
        "error_message": call.error_message,
        "finish_reason": call.finish_reason,
        "prompt_hash": settings.prompt_hash,
        "request_hash": call.request_hash,
        "answer_model": item.request.model,
        "answer_prompt_tokens": call.usage.prompt_tokens,
        "answer_completion_tokens": call.usage.completion_tokens,
        "answer_cached_tokens": call.usage.cached_tokens,
        "answer_reasoning_tokens": call.usage.reasoning_tokens,
        "latency_seconds": call.latency_seconds,
        "created_at": datetime.now(UTC),
    }
    if call.content is None:
        return row
    split = split_thinking(call.content)
    thinking = [text for text in (call.reasoning, split.thinking) if text]
    return row | {
        "answer": split.answer,
        "answer_hash": sha256_text(split.answer),
        "answer_state": answer_state(split.answer),
        "truncated": call.finish_reason == "length",
        "thinking": "\n\n".join(thinking) or None,
    }


def _outcome(spec: RunSpec, benchmark: str, frame: pl.DataFrame, line: StageProgress, cost: float | None) -> Outcome:
    planned, failed = spec.n_planned(benchmark), frame.filter(pl.col("status") == "error").height
    return Outcome(
        run_id=spec.run_id,
        stage="answers",
        benchmark=benchmark,
        facts={
            "rows": frame.height,
            "planned": planned,
            "question_set": spec.benchmarks[benchmark].question_set,
            "calls_made": line.calls,
            "already_there": line.reused,
            "failed": failed,
            "failures_by_class": by_class(frame),
            "empty": frame.filter(pl.col("answer_state").is_in(["empty", "whitespace"])).height,
            "truncated": int(frame["truncated"].sum()),
            "prompt_tokens": total(frame, "answer_prompt_tokens"),
            "completion_tokens": total(frame, "answer_completion_tokens"),
            "cost_usd": cost,
        },
        preview=frame.head(5).select("question_id", "status", "answer"),
        checks=(complete_check(frame.height, planned), failures_check(failed, planned)),
    )
