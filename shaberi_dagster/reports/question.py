"""One question: what it is, what models answered, what judges said of that, and what passes found.

The library has it as frames, the terminal and the browser as samples of runs; both are of the same statements.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.reports.named_queries import known_names
from shaberi_dagster.reports.reading import fetch, fetch_frame
from shaberi_dagster.reports.requests import BASELINE
from shaberi_dagster.util.names import check_known

if TYPE_CHECKING:
    import polars as pl

_PLACE = ("benchmark", "question_set", "question_id", "position")


@dataclass(frozen=True)
class ShownQuestion:
    """What models are asked.

    Attributes:
        benchmark: The benchmark.
        question_set: The version of its questions in which it has this place.
        question_id: sha256 of its text; answers to it count in whatever set they were asked.
        position: Its place in the set, from 1.
        n_questions: Questions of the set.
        category: The source's category; None where it has none.
        question: The text.
        reference: A right answer, for judges; None where there is none.
        criteria: What judges are to look at; None where there are none.
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


@dataclass(frozen=True)
class QuestionReport(ShownQuestion):
    """A question with everything that the lake has on it.

    Attributes:
        answers: One row per sample: the fields of `ShownAnswer`, but for its judgements.
        judgements: One row per judged answer and judge: the fields of `ShownJudgement`, but for its deltas.
    """

    answers: "pl.DataFrame"
    judgements: "pl.DataFrame"


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


class ShownFinding(NamedTuple):
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
class ShownJudgement:
    """What a judge said of an answer.

    Attributes:
        question_id: sha256 of the question's text.
        run_id: The run.
        model: Its model.
        run_tag: Its tag.
        sample_index: Which of the run's samples.
        strategy: The strategy whose answer it is; None for a sample.
        judge: Who.
        score: On the judge's own scale, None without one.
        out_of_scale: Whether the score is outside of the scale.
        score_source: How the score was found in the output.
        judge_output: What the judge wrote, or its beginning.
        judge_output_length: Characters of all of it.
        fallback_output: Of the call that extracted the score, if one was made.
        status: ok, error, excluded or skipped.
        error_class: Why there is no score.
        error_message: One line about it.
        prompt_tokens: Tokens sent; None is unknown.
        completion_tokens: Tokens received.
        judge_prompt_hash: The judge's templates.
        request_hash: The call.
        answer_hash: sha256 of what was judged; that of a sample's answer now, unless it is stale.
        created_at: When.
        deltas: What each pass added.
    """

    question_id: str
    run_id: str
    model: str
    run_tag: str
    sample_index: int
    strategy: str | None
    judge: str
    score: float | None
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
    answer_hash: str | None
    created_at: datetime
    deltas: tuple[Delta, ...]


@dataclass(frozen=True)
class ShownAnswer:
    """One sample of one run.

    Attributes:
        question_id: sha256 of the question's text.
        run_id: The run.
        model: Its model.
        run_tag: Its tag.
        question_set: The set in which it was asked.
        sample_index: Which of the run's samples.
        answer: The text that is judged, or its beginning; None without one.
        answer_length: Characters of all of it.
        answer_hash: sha256 of all of it.
        thinking: What was thought before, or its beginning.
        thinking_length: Characters of all of it.
        status: ok, error, excluded or skipped.
        error_class: Why there is none.
        error_message: One line about it.
        finish_reason: How it ended, as the endpoint says.
        ending: How it ended, as it is known from all that was recorded; None where that is not known.
        prompt_tokens: Tokens sent; None is unknown.
        completion_tokens: Tokens received.
        reasoning_tokens: Of these hidden reasoning.
        latency_seconds: How long it took.
        cost_usd: What the call cost in US dollars; None is unknown, or another run has paid.
        prompt_hash: The templates of the prompt.
        request_hash: The call.
        not_recorded: What of an imported answer was never recorded.
        created_at: When.
        findings: What passes found.
        judgements: Of this sample, by judge.
    """

    question_id: str
    run_id: str
    model: str
    run_tag: str
    question_set: str
    sample_index: int
    answer: str | None
    answer_length: int
    answer_hash: str | None
    thinking: str | None
    thinking_length: int
    status: str
    error_class: str | None
    error_message: str | None
    finish_reason: str | None
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
    findings: tuple[ShownFinding, ...]
    judgements: tuple[ShownJudgement, ...]


class RunAnswers(NamedTuple):
    """What a run made of a question.

    Attributes:
        samples: Its answers; none where it was not asked.
        consensus: What judges said of the answers of its strategies.
    """

    samples: tuple[ShownAnswer, ...]
    consensus: tuple[ShownJudgement, ...]


def find_question(catalog: duckdb.DuckDBPyConnection, **place: str | int | None) -> ShownQuestion | None:
    """A question by any of benchmark, question_set, question_id and position; of several sets in the largest."""
    found = fetch(catalog, "question", **dict.fromkeys(_PLACE) | place)
    return ShownQuestion(**found[0]) if found else None


def question_at(
    catalog: duckdb.DuckDBPyConnection, position: int, *, benchmark: str | None = None, question_set: str | None = None
) -> ShownQuestion:
    """The question at a place, from 1, of a set.

    Args:
        catalog: The public views.
        position: The place.
        benchmark: Whose; None where the set says it.
        question_set: The set; None is the benchmark's largest.

    Raises:
        ConfigurationError: The lake has no such question.
    """
    found = find_question(catalog, benchmark=benchmark, question_set=question_set, position=position)
    if found is None:
        for what, name in {"benchmark": benchmark, "question set": question_set}.items():
            check_known(what, [] if name is None else [name], known_names(catalog, what))
        raise ConfigurationError(f"the lake has no question {position} of {question_set or benchmark}")
    return found


def read_question(
    catalog: duckdb.DuckDBPyConnection,
    benchmark: str,
    position: int,
    *,
    question_set: str | None = None,
    models: Sequence[str] = (),
) -> QuestionReport:
    """One question of a benchmark, with all that was answered and judged.

    Args:
        catalog: The public views.
        benchmark: Its name.
        position: The question's place in the set, from 1.
        question_set: Which version; None is the largest.
        models: Only their answers; none means all.

    Raises:
        ConfigurationError: The lake has no such question.
    """
    question = question_at(catalog, position, benchmark=benchmark, question_set=question_set)
    check_known("model", models, known_names(catalog, "model"))
    which = {
        "benchmark": benchmark,
        "question_ids": [question.question_id],
        "run_ids": None,
        "models": list(models) or None,
    }
    return QuestionReport(
        **vars(question),
        answers=fetch_frame(catalog, "question_answers", **which, most=None),
        judgements=fetch_frame(catalog, "question_judgements", **which, most=None, judges=None),
    )


def read_answers(
    catalog: duckdb.DuckDBPyConnection,
    benchmark: str,
    question_ids: Sequence[str],
    run_ids: Sequence[str],
    *,
    judges: Sequence[str] = (),
    pipeline: str = BASELINE,
    most: int | None = None,
) -> Mapping[tuple[str, str], RunAnswers]:
    """What some runs made of some questions, by question id and run id; many are read almost as fast as one.

    Args:
        catalog: The public views.
        benchmark: The questions' benchmark.
        question_ids: The questions.
        run_ids: The runs.
        judges: Only these; none means all.
        pipeline: Passes in order, or baseline.
        most: Characters of a text that are read; None: all.
    """
    which = {"benchmark": benchmark, "question_ids": list(question_ids), "run_ids": list(run_ids)}
    texts = {"models": None, "most": most}
    added = fetch(catalog, "question_deltas", **which, pipeline=pipeline) if pipeline != BASELINE else []
    deltas = {(*_sample(row), row["strategy"], row["judge"]): tuple(map(_delta, row["deltas"])) for row in added}
    own: defaultdict[tuple[str, str, int], list[ShownJudgement]] = defaultdict(list)
    consensus: defaultdict[tuple[str, str], list[ShownJudgement]] = defaultdict(list)
    for row in fetch(catalog, "question_judgements", **which, **texts, judges=list(judges) or None):
        judgement = ShownJudgement(**row, deltas=deltas.get((*_sample(row), row["strategy"], row["judge"]), ()))
        (own[_sample(row)] if row["strategy"] is None else consensus[_sample(row)[:2]]).append(judgement)
    samples: defaultdict[tuple[str, str], list[ShownAnswer]] = defaultdict(list)
    for row in fetch(catalog, "question_answers", **which, **texts):
        findings = tuple(map(_finding, row.pop("findings")))
        samples[_sample(row)[:2]].append(ShownAnswer(**row, findings=findings, judgements=tuple(own[_sample(row)])))
    return {of: RunAnswers(tuple(samples[of]), tuple(consensus[of])) for of in product(question_ids, run_ids)}


def _sample(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["question_id"], row["run_id"], row["sample_index"]


def _delta(one: Mapping[str, Any]) -> Delta:
    return Delta(one["pass"], one["delta"], one["reason"] or "")


def _finding(row: Mapping[str, Any]) -> ShownFinding:
    spans = json.loads(row["details"] or "{}").get("spans", [])
    return ShownFinding(row["pass"], row["severity"], row["reason"] or "", tuple(Span(*span[:3]) for span in spans))
