"""One question and what some models made of it: answers, judgements, and what passes found, side by side."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import duckdb

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.reports.comparison import Side
from shaberi_dagster.reports.question_grid import GridRequest, GridRow, read_rows, read_sides
from shaberi_dagster.reports.reading import fetch
from shaberi_dagster.reports.scores import grouped

MOST_CHARACTERS = 20_000
"""So much of a text is read; all of it is in `read_text`."""


class Delta(NamedTuple):
    """What a pass added to a score, on the judge's own scale."""

    name: str
    delta: float
    reason: str


class Span(NamedTuple):
    """A passage that a pass found: code points from start to end, and what it is."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True)
class Finding:
    """What a pass found in an answer.

    Attributes:
        name: The pass.
        severity: What it costs, as a share of the scale's range.
        reason: What was found, in one line; empty when nothing was.
        spans: Where.
    """

    name: str
    severity: float
    reason: str
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Judgement:
    """What a judge said of an answer.

    Attributes:
        judge: Who.
        score: On the judge's own scale, None without one.
        passed_score: The score after the passes; None without one.
        deltas: What each pass added.
        out_of_scale: Whether the score is outside of the scale.
        score_source: How the score was found in the output.
        judge_output: The beginning of what the judge wrote.
        judge_output_length: Characters of all of it.
        fallback_output: Of the call that extracted the score, if one was made.
        status: ok, error, excluded or skipped.
        error_class: Why there is no score.
        error_message: One line about it.
        prompt_tokens: Tokens sent; None is unknown.
        completion_tokens: Tokens received.
        judge_prompt_hash: The judge's templates.
        request_hash: The call.
        stale: Whether it judges another text than the answer that stands now.
        created_at: When.
    """

    judge: str
    score: float | None
    passed_score: float | None
    deltas: tuple[Delta, ...]
    out_of_scale: bool
    score_source: str | None
    judge_output: str | None
    judge_output_length: int
    fallback_output: str | None
    status: str
    error_class: str | None
    error_message: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    judge_prompt_hash: str | None
    request_hash: str | None
    stale: bool
    created_at: datetime


@dataclass(frozen=True)
class Answer:
    """One sample of one run.

    Attributes:
        run_id: The run.
        run_tag: Its tag.
        sample_index: Which of the run's samples.
        answer: The beginning of the text that is judged; None without one.
        answer_length: Characters of all of it.
        thinking: The beginning of what was thought before.
        thinking_length: Characters of all of it.
        status: ok, error, excluded or skipped.
        error_class: Why there is none.
        error_message: One line about it.
        ending: How it ended; None where that is not known.
        prompt_tokens: Tokens sent; None is unknown.
        completion_tokens: Tokens received.
        reasoning_tokens: Of these hidden reasoning.
        latency_seconds: How long it took.
        cost_usd: What the call cost in US dollars; None is unknown, or another run has paid.
        prompt_hash: The templates of the prompt.
        request_hash: The call.
        not_recorded: What of an imported answer was never recorded.
        created_at: When.
        judgements: By judge.
        findings: What passes found.
    """

    run_id: str
    run_tag: str
    sample_index: int
    answer: str | None
    answer_length: int
    thinking: str | None
    thinking_length: int
    status: str
    error_class: str | None
    error_message: str | None
    ending: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    reasoning_tokens: int | None
    latency_seconds: float | None
    cost_usd: float | None
    prompt_hash: str | None
    request_hash: str | None
    not_recorded: str | None
    created_at: datetime
    judgements: tuple[Judgement, ...] = field(default=())
    findings: tuple[Finding, ...] = field(default=())


@dataclass(frozen=True)
class SideBySide:
    """One question with what some models made of it.

    Attributes:
        question_set: The version of the questions in which it has this place.
        benchmark: The benchmark.
        question_id: sha256 of its text.
        position: Its place, from 1.
        n_questions: Questions of the set.
        category: The source's category; None where it has none.
        question: What models are asked.
        reference: A right answer, for judges; None where there is none.
        criteria: What judges are to look at; None where there are none.
        sides: The models.
        scores: The question's scores, as in the grid of questions; None when no model was asked it.
        answers: Those of each side.
    """

    benchmark: str
    question_set: str
    question_id: str
    position: int
    n_questions: int
    category: str | None
    question: str
    reference: str | None
    criteria: str | None
    sides: tuple[Side, ...]
    scores: GridRow | None
    answers: tuple[tuple[Answer, ...], ...]


def read_side_by_side(
    catalog: duckdb.DuckDBPyConnection, question_set: str, position: int, request: GridRequest
) -> SideBySide:
    """One question with what some models made of it.

    Args:
        catalog: The public views.
        question_set: The version of the questions.
        position: The question's place in it, from 1.
        request: Which models, judges and passes.

    Raises:
        ConfigurationError: The lake has no such question or model.
    """
    sizes = {row["question_set"]: row for row in fetch(catalog, "question_sets")}
    if question_set not in sizes:
        raise ConfigurationError(f"the lake has no question set {question_set}")
    benchmark = sizes[question_set]["benchmark"]
    found = fetch(catalog, "question", benchmark=benchmark, position=position, question_set=question_set)
    if not found:
        raise ConfigurationError(f"the lake has no question {position} of {question_set}")
    (question,) = found
    sides = read_sides(catalog, request.models)
    run_ids = [run_id for side in sides for run_id in side.run_ids]
    rows = read_rows(catalog, sides, request, benchmark=benchmark, question_id=question["question_id"])
    answers = _read_answers(catalog, benchmark, question["question_id"], run_ids, request)
    return SideBySide(
        **question,
        n_questions=sizes[question_set]["n_questions"],
        sides=sides,
        scores=next((row for row in rows if row.question_set == question_set), rows[0] if rows else None),
        answers=tuple(tuple(answer for run_id in side.run_ids for answer in answers.get(run_id, ())) for side in sides),
    )


def _read_answers(
    catalog: duckdb.DuckDBPyConnection, benchmark: str, question_id: str, run_ids: Sequence[str], request: GridRequest
) -> Mapping[str, Sequence[Answer]]:
    """By run."""
    which = {"benchmark": benchmark, "question_id": question_id, "run_ids": list(run_ids)}
    judgements = _by_sample(
        fetch(
            catalog,
            "side_judgements",
            **which,
            most=MOST_CHARACTERS,
            pipeline=request.pipeline,
            judges=list(request.judges) or None,
        )
    )
    findings = _by_sample(fetch(catalog, "side_findings", **which))
    answers = [
        Answer(
            **row,
            judgements=tuple(map(_judgement, judgements.get((row["run_id"], row["sample_index"]), ()))),
            findings=tuple(map(_finding, findings.get((row["run_id"], row["sample_index"]), ()))),
        )
        for row in fetch(catalog, "side_answers", **which, most=MOST_CHARACTERS)
    ]
    return dict(grouped(answers, lambda answer: answer.run_id))


def _by_sample(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    return dict(grouped(rows, lambda row: (row.pop("run_id"), row.pop("sample_index"))))


def _judgement(row: dict[str, Any]) -> Judgement:
    deltas = tuple(Delta(one["pass"], one["delta"], one["reason"] or "") for one in row["deltas"])
    return Judgement(**row | {"deltas": deltas})


def _finding(row: dict[str, Any]) -> Finding:
    spans = json.loads(row["details"] or "{}").get("spans", [])
    return Finding(row["pass"], row["severity"], row["reason"] or "", tuple(Span(*span[:3]) for span in spans))
