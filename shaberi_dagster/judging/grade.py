"""Judgements of benchmarks whose answers are right or wrong: by rules, and by a model where the rules cannot tell."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import orjson
import polars as pl
from pydantic import BaseModel, ConfigDict, ValidationError

from shaberi_dagster.benchmarks.questions import Question
from shaberi_dagster.benchmarks.registry import Benchmark, get_benchmark
from shaberi_dagster.deliberation import graded_question
from shaberi_dagster.grading.base import Verdict as RuleVerdict
from shaberi_dagster.grading.registry import GRADERS
from shaberi_dagster.identity import sha256_json
from shaberi_dagster.lake.schemas import JUDGEMENTS
from shaberi_dagster.llm.endpoints import default_max_tokens
from shaberi_dagster.llm.session import CallSession
from shaberi_dagster.llm.thinking import split_thinking
from shaberi_dagster.llm.types import Call, ChatRequest, Message, Sampling
from shaberi_dagster.outcome import Check, Outcome, by_class, complete_check, failures_check, total
from shaberi_dagster.planning import load_questions
from shaberi_dagster.progress import StageProgress
from shaberi_dagster.prompting import boundary_of
from shaberi_dagster.runspec import ModelSpec, RunSpec
from shaberi_dagster.stage import Answered, calling, run_columns
from shaberi_dagster.workspace import Workspace

_KEY = ["benchmark", "judge", "strategy", "question_id", "sample_index"]
_IDENTITY = [*_KEY, "answer_hash", "judge_config_hash"]
_COLUMNS = ["benchmark", "question_set", "question_id", "status", "answer", "answer_hash", "answer_state"]
_MAX_TOKENS = 1024
_JSON = json.JSONDecoder(strict=False)  # finds the end of an object; orjson does not
_LONE_BACKSLASH = re.compile(r'(?<!\\)\\(?!["\\/bfnrtu])')
_MOST_STARTS = 64  # braces that are tried, so that hostile output costs no more than so many readings
_SCHEMA = {
    "type": "object",
    "properties": {
        "extracted": {"type": "string"},
        "verdict": {"type": "string", "enum": ["correct", "incorrect", "no_answer"]},
    },
    "required": ["extracted", "verdict"],
    "additionalProperties": False,
}


class _Reply(BaseModel):
    """What the grading model says."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    extracted: str | None = None
    verdict: Literal["correct", "incorrect", "no_answer"]


@dataclass(frozen=True)
class _Item:
    """One answer, a sample or a consensus, for one judge; `request` is None when no call is needed."""

    benchmark: Benchmark
    judge: str
    answer: Mapping[str, Any]
    config_hash: str
    prompt_hash: str | None
    verdict: RuleVerdict | None
    """What the rule says; None when there is no text to be graded."""
    canonical: str | None
    request: ChatRequest | None

    @property
    def identity(self) -> dict[str, Any]:
        """What a stored judgement must agree with to be the judgement of this item."""
        names = ("question_id", "sample_index", "strategy", "answer_hash")
        return {name: self.answer[name] for name in names} | {
            "benchmark": self.benchmark.name,
            "judge": self.judge,
            "judge_config_hash": self.config_hash,
        }


def grade(spec: RunSpec, benchmarks: Sequence[str], workspace: Workspace) -> list[Outcome]:
    """Grade the run's samples and consensus answers that have no judgement yet.

    The benchmark's rule is one judge. With a grading model there is a second one, `rule:…+MODEL`: the rule where it
    can tell, else the model. An answer that nobody can tell is excluded as `abstained`, which the null policy `zero`
    counts as wrong.

    Args:
        spec: The run; it has an ensemble.
        benchmarks: Some of its benchmarks.
        workspace: Where to read and write.

    Returns:
        One outcome per benchmark.

    Raises:
        EndpointError: The grading model's endpoint refuses us.
        PartitionBusyError: Another process judges this run.
    """
    keys = {"run_id": spec.run_id, "benchmark": benchmarks}
    lake = workspace.lake
    samples = lake.read("answers", keys, [*_COLUMNS, "sample_index"]).with_columns(
        strategy=pl.lit(None, dtype=pl.String)
    )
    decided = lake.read("consensus", keys, [*_COLUMNS, "strategy"]).with_columns(sample_index=pl.lit(0, dtype=pl.Int64))
    answers = pl.concat([samples, decided.select(samples.columns)])
    stored = lake.read("judgements", keys)
    items = [item for name in benchmarks for item in _items(spec, name, answers, workspace)]
    wanted = pl.DataFrame(
        [item.identity for item in items], schema={name: JUDGEMENTS.schema[name] for name in _IDENTITY}
    )
    standing = stored.filter(~pl.col("superseded"), pl.col("status").is_in(["ok", "excluded"])).join(
        wanted, on=_IDENTITY, how="semi", nulls_equal=True
    )
    done = set(standing.select(_KEY).iter_rows())
    pending = [item for item in items if tuple(item.identity[name] for name in _KEY) not in done]
    lines = {
        (item.benchmark.name, item.judge): StageProgress("judgements", item.benchmark.name, item.judge)
        for item in items
    }
    for item in items:
        lines[item.benchmark.name, item.judge].total += 1
    for name, one, *_ in done:
        lines[name, one].done += 1
        lines[name, one].reused += 1
    not_again = set(stored.filter(pl.col("error_class") == "no_score")["request_hash"].drop_nulls())
    with calling(spec.run_id, "judgements", workspace) as stage:
        rows = stage.run(
            pending,
            lambda session, item: _grade_one(spec, session, item),
            line_of=lambda item: lines[item.benchmark.name, item.judge],
            lines=list(lines.values()),
            not_again=not_again,
        )
        fresh = pl.DataFrame(rows, schema=JUDGEMENTS.schema)
        frame = pl.concat([_kept(stored, fresh), fresh])
        stage.commit("judgements", frame, keys, changed=bool(rows))
        costs = stage.costs()
    return [
        _outcome(
            spec,
            name,
            frame.filter(benchmark=name),
            answers.filter(benchmark=name),
            lines=[line for (of, _), line in lines.items() if of == name],
            cost=costs.get(name),
        )
        for name in benchmarks
    ]


def _items(spec: RunSpec, benchmark: str, answers: pl.DataFrame, workspace: Workspace) -> list[_Item]:
    entry = get_benchmark(benchmark)
    rule = GRADERS[entry.grader]
    model = spec.ensemble.grader if spec.ensemble else None
    prompt_hash = workspace.prompts.prompt_hash(entry.judging.primary_template)
    rule_hash = sha256_json({"rule": rule.name, "version": rule.version})
    model_hash = sha256_json(
        {"rule": rule_hash, "model": model and model.model_dump(exclude={"endpoint": {"api_key_variable"}})}
        | {"prompt": prompt_hash}
    )
    questions = {one.question_id: one for one in load_questions(spec, benchmark, workspace).questions}
    items = []
    for row in answers.filter(benchmark=benchmark).iter_rows(named=True):
        question = questions.get(row["question_id"])
        if question is None:
            continue
        verdict, canonical = None, None
        if row["status"] == "ok" and row["answer_state"] == "text":
            asked = graded_question(question)
            verdict = rule.grade(row["answer"], asked)
            canonical = None if verdict.extracted is None else rule.canonical(verdict.extracted)
        items.append(_Item(entry, rule.name, row, rule_hash, None, verdict, canonical, None))
        if model:
            undecided = verdict is not None and verdict.correct is None
            request = _request(entry, model, question, row["answer"], workspace) if undecided else None
            name = f"{rule.name}+{model.model}"
            items.append(_Item(entry, name, row, model_hash, prompt_hash, verdict, canonical, request))
    return items


def _request(
    benchmark: Benchmark, model: ModelSpec, question: Question, answer: str, workspace: Workspace
) -> ChatRequest:
    text = workspace.prompts.render(
        benchmark.judging.primary_template,
        question=question.question,
        reference=question.reference,
        aliases=question.aliases or (),
        answer=answer,
        boundary=boundary_of(answer),
    )
    endpoint = model.endpoint.to_endpoint()
    sampling = Sampling(0.0, default_max_tokens(endpoint) or _MAX_TOKENS, json_schema=orjson.dumps(_SCHEMA).decode())
    return ChatRequest(endpoint, model.model, (Message("user", text),), sampling)


async def _grade_one(spec: RunSpec, session: CallSession, item: _Item) -> tuple[dict[str, Any], list[Answered]]:
    row = (
        run_columns(spec)
        | item.identity
        | {
            "question_set": item.answer["question_set"],
            "judge_prompt_hash": item.prompt_hash,
            "judge_round": 0,
            "created_at": datetime.now(UTC),
            "superseded": False,
        }
    )
    if item.verdict is None:
        return row | _not_graded(item.answer), []
    if item.request is None:
        return row | _by_rule(item.verdict, item.canonical), []
    labels = {"benchmark": item.benchmark.name, "question_id": item.answer["question_id"], "purpose": "grade"}
    call, reused = await session.call(item.request, labels)
    return row | _by_model(call), [(call, reused)]


def _not_graded(answer: Mapping[str, Any]) -> dict[str, Any]:
    if answer["status"] != "ok":
        return {"status": "skipped", "error_class": "no_answer", "error_message": "the answer failed"}
    state = answer["answer_state"]
    return {"status": "excluded", "error_class": "empty_answer", "error_message": f"the answer is {state}"}


def _by_rule(verdict: RuleVerdict, canonical: str | None) -> dict[str, Any]:
    if verdict.correct is None:
        return _abstained(verdict.reason) | {"extracted": canonical}
    return _right(verdict.correct) | {"score_source": "rule", "extracted": canonical}


def _by_model(call: Call) -> dict[str, Any]:
    row = {
        "judge_output": call.content,
        "finish_reason": call.finish_reason,
        "latency_seconds": call.latency_seconds,
        "request_hash": call.request_hash,
        **{f"judge_{name}": value for name, value in vars(call.usage).items()},
    }
    if call.status == "error":
        return row | {"status": "error", "error_class": call.error_class, "error_message": call.error_message}
    reply = read_verdict(split_thinking(call.content or "").answer)
    if reply is None:
        return row | {"status": "error", "error_class": "no_score", "error_message": "no verdict in the output"}
    row |= {"extracted": reply.extracted or None}
    if reply.verdict == "no_answer":
        return row | _abstained("the grading model found no answer")
    return row | _right(reply.verdict == "correct") | {"score_source": "model"}


def _right(correct: bool) -> dict[str, Any]:
    return {"status": "ok", "score": float(correct), "out_of_scale": False}


def _abstained(why: str) -> dict[str, Any]:
    return {"status": "excluded", "error_class": "abstained", "error_message": why}


def read_verdict(output: str) -> _Reply | None:
    """The last JSON object with a verdict in a grading model's output; None when there is none.

    What it extracted may have braces, and LaTeX whose backslashes the model did not escape.
    """
    for text in (output, _LONE_BACKSLASH.sub(r"\\\\", output)):
        starts = [match.start() for match in re.finditer("{", text)][-_MOST_STARTS:]
        for start in reversed(starts):
            try:
                return _Reply.model_validate(_JSON.raw_decode(text, start)[0])
            except (json.JSONDecodeError, RecursionError, ValidationError):
                continue
    return None


def _kept(stored: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
    """The stored rows beside the fresh ones: a replaced verdict stays as superseded, a replaced failure goes."""
    replaced = stored.join(fresh, on=_KEY, how="semi", nulls_equal=True).filter(
        pl.col("superseded") | (pl.col("status") == "ok")
    )
    others = stored.join(fresh, on=_KEY, how="anti", nulls_equal=True)
    return pl.concat([others, replaced.with_columns(superseded=pl.lit(value=True))]).select(stored.columns)


def _outcome(
    spec: RunSpec,
    benchmark: str,
    frame: pl.DataFrame,
    answers: pl.DataFrame,
    *,
    lines: Sequence[StageProgress],
    cost: float | None,
) -> Outcome:
    standing = frame.filter(~pl.col("superseded"))
    outside = standing.filter(~pl.col("score").is_in([0.0, 1.0])).height
    texts = ["strategy", "question_id", "sample_index", "answer_hash"]
    unlike = standing.join(answers, on=texts, how="anti", nulls_equal=True).height
    failed = standing.filter(pl.col("status").is_in(["error", "skipped"])).height
    judges = spec.judge_names(get_benchmark(benchmark).grader)
    planned = (spec.n_planned(benchmark) + spec.n_questions(benchmark) * len(spec.strategies)) * len(judges)
    accuracy = standing.group_by("judge").agg(pl.col("score").fill_null(0).mean()).sort("judge")
    return Outcome(
        run_id=spec.run_id,
        stage="judgements",
        benchmark=benchmark,
        facts={
            "rows": standing.height,
            "planned": planned,
            "superseded_rows": frame.height - standing.height,
            "judges": judges,
            "calls_made": sum(line.calls for line in lines),
            "already_there": sum(line.reused for line in lines),
            "failed": failed,
            "failures_by_class": by_class(standing),
            "accuracy_by_judge": dict(accuracy.iter_rows()),
            "prompt_tokens": total(standing, "judge_prompt_tokens"),
            "completion_tokens": total(standing, "judge_completion_tokens"),
            "cost_usd": cost,
        },
        preview=standing.head(5).select("judge", "strategy", "question_id", "status", "score", "extracted"),
        checks=(
            complete_check(standing.height, planned),
            failures_check(failed, standing.height),
            Check("within_scale", outside == 0, f"{outside} verdicts are neither 0 nor 1", severe=False),
            Check("fresh", unlike == 0, f"{unlike} judgements are stale or orphaned"),
        ),
    )
