"""The judgements stage: one row for each answer and judge."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl

from shaberi_dagster.benchmarks.questions import Question
from shaberi_dagster.benchmarks.registry import Benchmark, get_benchmark
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.judging.parse import ParsedScore, is_out_of_scale, parse_score
from shaberi_dagster.lake.schemas import JUDGEMENTS
from shaberi_dagster.llm.session import CallSession
from shaberi_dagster.llm.thinking import split_thinking
from shaberi_dagster.llm.types import Call, ChatRequest, Sampling, ScoreLine
from shaberi_dagster.outcome import Check, Outcome, by_class, complete_check, failures_check, total
from shaberi_dagster.planning import load_questions
from shaberi_dagster.progress import StageProgress
from shaberi_dagster.prompting import (
    PromptLibrary,
    fallback_messages,
    fallback_prompt_hash,
    judge_messages,
    judge_prompt_hash,
)
from shaberi_dagster.runspec import JudgeSpec, RunSpec
from shaberi_dagster.stage import Answered, calling, run_columns
from shaberi_dagster.workspace import Workspace

_KEY = ["benchmark", "judge", "question_id", "sample_index"]
_FOUND = ("status", "error_class", "score", "score_source")
"""What an output says, as far as the parser understands it."""


@dataclass(frozen=True)
class JudgementItem:
    """One answer for one judge; `request` is None when the answer is not sent to a judge."""

    benchmark: Benchmark
    judge: JudgeSpec
    question: Question
    answer: dict[str, Any]
    prompt_hash: str
    config_hash: str
    request: ChatRequest | None

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Benchmark, judge, question and sample index, as in the table."""
        return self.benchmark.name, self.judge.name, self.answer["question_id"], self.answer["sample_index"]

    @property
    def round(self) -> int:
        """How often the judge was asked to judge this benchmark anew."""
        return self.judge.rounds.get(self.benchmark.name, 0)

    @property
    def identity(self) -> dict[str, Any]:
        """What a stored judgement must agree with to be the judgement of this item."""
        return {
            "benchmark": self.benchmark.name,
            "judge": self.judge.name,
            "question_id": self.answer["question_id"],
            "sample_index": self.answer["sample_index"],
            "answer_hash": self.answer["answer_hash"],
            "judge_config_hash": self.config_hash,
            "judge_round": self.round,
        }


def judge(spec: RunSpec, benchmarks: Sequence[str], workspace: Workspace, judges: Sequence[str] = ()) -> list[Outcome]:
    """Make the judgements that the run still lacks and store them.

    A judgement stands as long as the answer text, the judge's settings and prompt, and the round are the same;
    else it is made anew and the old one is kept as superseded. Failures are tried again.

    Args:
        spec: The run.
        benchmarks: Some of its benchmarks.
        workspace: Where to read and write.
        judges: Only these of the run's judges; none named means all.

    Returns:
        One outcome per benchmark.

    Raises:
        ConfigurationError: A judge is not one of the run's.
        EndpointError: A judge's endpoint refuses us.
        PartitionBusyError: Another process judges this run.
    """
    chosen = chosen_judges(spec, judges)
    names = [one.name for one in chosen]
    keys = {"run_id": spec.run_id, "benchmark": benchmarks}
    answers = workspace.lake.read("answers", keys)
    stored = workspace.lake.read("judgements", keys)
    items = [item for name in benchmarks for item in judgement_items(spec, name, answers, chosen, workspace)]
    done = standing_judgements(stored, items)
    pending = [item for item in items if item.key not in done]
    lines = {
        (name, one): StageProgress("judgements", name, one, total=spec.n_planned(name))
        for name in benchmarks
        for one in names
    }
    for name, one, _, _ in done:
        lines[name, one].done += 1
        lines[name, one].reused += 1
    with calling(spec.run_id, "judgements", workspace) as stage:
        rows = stage.run(
            pending,
            lambda session, item: _judge_one(spec, session, item, workspace),
            line_of=lambda item: lines[item.benchmark.name, item.judge.name],
            lines=list(lines.values()),
            not_again=without_score(stored),
        )
        fresh = pl.DataFrame(rows, schema=JUDGEMENTS.schema)
        frame = pl.concat([_kept(stored, fresh), fresh])
        stage.commit("judgements", frame, keys, changed=bool(rows))
        costs = stage.costs()
    return [
        _outcome(
            spec, name, frame.filter(benchmark=name), answers.filter(benchmark=name), lines=lines, cost=costs.get(name)
        )
        for name in benchmarks
    ]


def reparse(spec: RunSpec, benchmarks: Sequence[str], workspace: Workspace) -> list[Outcome]:
    """Find the scores in the judges' stored outputs again, by today's parser; no call is made.

    A score that comes out otherwise is a new judgement, and the old one stays as superseded.

    Args:
        spec: The run.
        benchmarks: Some of its benchmarks.
        workspace: Where to read and write.

    Returns:
        One outcome per benchmark.
    """
    keys = {"run_id": spec.run_id, "benchmark": benchmarks}
    answers = workspace.lake.read("answers", keys)
    stored = workspace.lake.read("judgements", keys)
    items = [item for name in benchmarks for item in judgement_items(spec, name, answers, spec.judges, workspace)]
    by_key = {item.key: item for item in items}
    with_output = stored.filter(~pl.col("superseded"), pl.col("judge_output").is_not_null())
    calls = _calls_of(with_output, workspace)
    lines = {
        (name, one.name): StageProgress("judgements", name, one.name) for name in benchmarks for one in spec.judges
    }
    rows = []
    for row in with_output.iter_rows(named=True):
        item = by_key.get(tuple(row[name] for name in _KEY))
        first = calls.get((row["request_hash"], row["judge_output"]))
        second = calls.get((row["fallback_request_hash"], row["fallback_output"]))
        if item is None or first is None or item.answer["answer_hash"] != row["answer_hash"]:
            continue
        line = lines[item.benchmark.name, item.judge.name]
        line.total += 1
        line.done += 1
        line.reused += 1
        parsed = _parsed(first, item)
        if parsed is None and second is None and row["fallback_request_hash"] is not None:
            continue  # that call failed, which says more than that there is no score
        if parsed is not None or second is None:
            again = _judged(first, None, parsed, item)
        else:
            again = _judged(first, second, _parsed(second, item), item)
        again = dict.fromkeys((*_FOUND, "error_message", "out_of_scale")) | again
        if any(again[name] != row[name] for name in _FOUND):
            rows.append(row | again | {"created_at": datetime.now(UTC)})
    for line in lines.values():
        workspace.reporter.changed(line)
    with calling(spec.run_id, "judgements", workspace) as stage:
        fresh = pl.DataFrame(rows, schema=JUDGEMENTS.schema)
        frame = pl.concat([_kept(stored, fresh), fresh])
        stage.commit("judgements", frame, keys, changed=bool(rows))
        costs = stage.costs()
    workspace.reporter.note(f"{len(rows)} of {with_output.height} stored outputs give another score than before")
    return [
        _outcome(
            spec, name, frame.filter(benchmark=name), answers.filter(benchmark=name), lines=lines, cost=costs.get(name)
        )
        for name in benchmarks
    ]


def _calls_of(judgements: pl.DataFrame, workspace: Workspace) -> dict[tuple[str, str], Call]:
    """The calls that made these rows, by request and output: others may have made the same request later."""
    hashes = pl.concat([judgements["request_hash"], judgements["fallback_request_hash"]]).drop_nulls().unique()
    rows = workspace.lake.read("calls", {"status": "ok", "request_hash": hashes}) if len(hashes) else pl.DataFrame()
    return {(row["request_hash"], row["content"]): Call.from_record(row) for row in rows.iter_rows(named=True)}


def chosen_judges(spec: RunSpec, judges: Sequence[str]) -> list[JudgeSpec]:
    """The named judges of the run; all of them when none is named.

    Raises:
        ConfigurationError: One is not a judge of the run.
    """
    known = {one.name: one for one in spec.judges}
    if unknown := [name for name in judges if name not in known]:
        raise ConfigurationError(f"judge {unknown[0]!r} is not one of run {spec.run_id}: {', '.join(known)}")
    return [known[name] for name in judges or known]


def judgement_items(
    spec: RunSpec, benchmark: str, answers: pl.DataFrame, judges: Sequence[JudgeSpec], workspace: Workspace
) -> list[JudgementItem]:
    """One item for each of the judges and each of the run's answers to a benchmark.

    Args:
        spec: The run.
        benchmark: One of its benchmarks.
        answers: Rows of the run's answers: benchmark, question_id, sample_index, status, answer, answer_state and
            answer_hash are needed here.
        judges: Some of the run's judges.
        workspace: Where questions and prompts are.
    """
    entry = get_benchmark(benchmark)
    questions = {question.question_id: question for question in load_questions(spec, benchmark, workspace).questions}
    rows = [row for row in answers.filter(benchmark=benchmark).iter_rows(named=True) if row["question_id"] in questions]
    items = []
    for one in judges:
        prompts = workspace.prompts.variant(one.prompt)
        prompt_hash = judge_prompt_hash(prompts, entry)
        config_hash = one.config_hash(prompt_hash, fallback_prompt_hash(prompts, entry))
        for row in rows:
            question = questions[row["question_id"]]
            request = _request(entry, one, question, row, prompts)
            items.append(JudgementItem(entry, one, question, row, prompt_hash, config_hash, request))
    return items


def standing_judgements(stored: pl.DataFrame, items: Sequence[JudgementItem]) -> set[tuple[str, str, str, int]]:
    """The keys of the items whose stored judgement is still theirs and is no failure."""
    wanted = pl.DataFrame(
        [item.identity for item in items],
        schema={name: JUDGEMENTS.schema[name] for name in [*_KEY, "answer_hash", "judge_config_hash", "judge_round"]},
    )
    standing = stored.filter(~pl.col("superseded"), pl.col("status").is_in(["ok", "excluded"])).join(
        wanted, on=wanted.columns, how="semi", nulls_equal=True
    )
    return set(standing.select(_KEY).iter_rows())


def _request(
    benchmark: Benchmark, judge: JudgeSpec, question: Question, answer: dict[str, Any], prompts: PromptLibrary
) -> ChatRequest | None:
    if answer["status"] != "ok" or answer["answer_state"] != "text":
        return None
    messages = judge_messages(prompts, benchmark, question, answer["answer"])
    return _chat(benchmark, judge, messages)


def _chat(benchmark: Benchmark, judge: JudgeSpec, messages: Any) -> ChatRequest:
    rounds = judge.rounds.get(benchmark.name, 0)
    score_line = ScoreLine("FINAL SCORE: ", benchmark.scale_minimum, benchmark.scale_maximum)
    return ChatRequest(
        judge.endpoint.to_endpoint(),
        judge.model,
        messages,
        Sampling(judge.temperature, judge.max_tokens, last_line=score_line),
        replicate=f"round{rounds}" if rounds else "",
    )


async def _judge_one(
    spec: RunSpec, session: CallSession, item: JudgementItem, workspace: Workspace
) -> tuple[dict[str, Any], list[Answered]]:
    if item.request is None:
        return _row(spec, item) | _not_judged(item.answer), []
    labels = {"benchmark": item.benchmark.name, "question_id": item.question.question_id}
    first, reused = await session.call(item.request, labels | {"purpose": "judge"})
    calls: list[Answered] = [(first, reused)]
    if first.status == "error":
        return _row(spec, item) | _judged(first, None, None, item), calls
    parsed = _parsed(first, item)
    if parsed is not None or not _verdict(first).strip():
        return _row(spec, item) | _judged(first, None, parsed, item), calls
    prompts = workspace.prompts.variant(item.judge.prompt)
    messages = fallback_messages(prompts, item.benchmark, _verdict(first))
    request = _chat(item.benchmark, item.judge, messages)
    second, again = await session.call(request, labels | {"purpose": "fallback"}, lookup=reused)
    calls.append((second, again))
    return _row(spec, item) | _judged(first, second, _parsed(second, item), item), calls


def _verdict(call: Call) -> str:
    """What a judge says when it has thought: a score in its thinking is not yet its score."""
    return split_thinking(call.content or "").answer


def _parsed(call: Call, item: JudgementItem) -> ParsedScore | None:
    if call.content is None:
        return None
    return parse_score(
        _verdict(call),
        legacy_forms=item.benchmark.judging.legacy_score_forms,
        answer=item.answer["answer"],
        finish_reason=call.finish_reason,
        rounding=item.judge.score_rounding,
    )


def _row(spec: RunSpec, item: JudgementItem) -> dict[str, Any]:
    return (
        run_columns(spec)
        | item.identity
        | {
            "question_set": item.answer["question_set"],
            "judge_prompt_hash": item.prompt_hash,
            "judge_model": item.judge.model if item.judge.prompt else None,
            "request_hash": item.request.request_hash if item.request else None,
            "created_at": datetime.now(UTC),
            "superseded": False,
        }
    )


def _not_judged(answer: dict[str, Any]) -> dict[str, Any]:
    if answer["status"] != "ok":
        return {"status": "skipped", "error_class": "no_answer", "error_message": "the answer failed"}
    return {
        "status": "excluded",
        "error_class": "empty_answer",
        "error_message": f"the answer is {answer['answer_state']}",
    }


def _judged(first: Call, second: Call | None, parsed: ParsedScore | None, item: JudgementItem) -> dict[str, Any]:
    last = second or first
    row = {
        "judge_output": first.content,
        "fallback_output": second.content if second else None,
        "fallback_request_hash": second.request_hash if second else None,
        "finish_reason": first.finish_reason,
        "latency_seconds": first.latency_seconds + (second.latency_seconds if second else 0.0),
        **_usage(first, second),
    }
    if parsed is not None:
        low, high = item.benchmark.scale_minimum, item.benchmark.scale_maximum
        return row | {
            "status": "ok",
            "score": parsed.score,
            "score_source": "fallback" if second else parsed.source,
            "out_of_scale": is_out_of_scale(parsed.score, low, high),
        }
    if last.status == "error":
        return row | {"status": "error", "error_class": last.error_class, "error_message": last.error_message}
    if not _verdict(first).strip():
        return row | {"status": "error", "error_class": "empty_output", "error_message": "the judge wrote nothing"}
    return row | {"status": "error", "error_class": "no_score", "error_message": "no score in the judge's output"}


def _usage(first: Call, second: Call | None) -> dict[str, int | None]:
    """Tokens of both calls; unknown if one of them is unknown."""
    calls = [call for call in (first, second) if call is not None]

    def summed(name: str) -> int | None:
        values = [getattr(call.usage, name) for call in calls]
        return None if None in values else sum(values)

    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")
    return {f"judge_{name}": summed(name) for name in names}


def without_score(stored: pl.DataFrame) -> set[str]:
    """The calls that brought no score; asking again means making them again."""
    failed = stored.filter(pl.col("error_class").is_in(["no_score", "empty_output"]))
    return set(pl.concat([failed["request_hash"], failed["fallback_request_hash"]]).drop_nulls())


def _kept(stored: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
    """The stored rows beside the fresh ones: a replaced score stays as superseded, a replaced failure goes."""
    replaced = stored.join(fresh, on=_KEY, how="semi").filter(pl.col("superseded") | (pl.col("status") == "ok"))
    return pl.concat(
        [stored.join(fresh, on=_KEY, how="anti"), replaced.with_columns(superseded=pl.lit(value=True))]
    ).select(stored.columns)


def _outcome(
    spec: RunSpec,
    benchmark: str,
    frame: pl.DataFrame,
    answers: pl.DataFrame,
    *,
    lines: dict[tuple[str, str], StageProgress],
    cost: float | None,
) -> Outcome:
    own = [line for (name, _), line in lines.items() if name == benchmark]
    standing = frame.filter(~pl.col("superseded"))
    failed = standing.filter(pl.col("status").is_in(["error", "skipped"])).height
    planned = spec.n_planned(benchmark) * len(spec.judges)
    scored = standing.filter(pl.col("score").is_not_null())
    outside = int(scored["out_of_scale"].sum())
    texts = answers.select("question_id", "sample_index", current=pl.col("answer_hash"))
    matched = standing.join(texts, on=["question_id", "sample_index"], how="left", nulls_equal=True)
    unlike = matched.filter(pl.col("answer_hash").ne_missing(pl.col("current"))).height
    return Outcome(
        run_id=spec.run_id,
        stage="judgements",
        benchmark=benchmark,
        facts={
            "rows": standing.height,
            "planned": planned,
            "superseded_rows": frame.height - standing.height,
            "judges": [one.name for one in spec.judges],
            "calls_made": sum(line.calls for line in own),
            "already_there": sum(line.reused for line in own),
            "failed": failed,
            "failures_by_class": by_class(standing),
            "mean_score": scored["score"].mean(),
            "score_sources": dict(scored.group_by("score_source").len().iter_rows()),
            "truncated": standing.filter(pl.col("finish_reason") == "length").height,
            "prompt_tokens": total(standing, "judge_prompt_tokens"),
            "completion_tokens": total(standing, "judge_completion_tokens"),
            "cost_usd": cost,
        },
        preview=standing.head(5).select("judge", "question_id", "status", "score", "judge_output"),
        scores={str(name): part["score"].to_list() for (name,), part in scored.group_by("judge")},
        checks=(
            complete_check(standing.height, planned),
            failures_check(failed, standing.height),
            Check(
                "within_scale", outside == 0, f"{outside} of {scored.height} scores are outside the scale", severe=False
            ),
            Check("fresh", unlike == 0, f"{unlike} judgements are stale or orphaned"),
        ),
    )
