"""What an evaluation would still take: calls, tokens and money, before any call is made."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import fmean

import polars as pl

from shaberi_dagster.benchmarks.questions import Question
from shaberi_dagster.benchmarks.registry import get_benchmark
from shaberi_dagster.generation.stage import AnswerItem, answer_items, answer_row, standing_answers
from shaberi_dagster.judging.stage import chosen_judges, judgement_items, standing_judgements, without_score
from shaberi_dagster.lake.schemas import ANSWERS
from shaberi_dagster.llm.journal import finished_calls
from shaberi_dagster.llm.types import Call, ChatRequest, Message
from shaberi_dagster.prompting import judge_messages
from shaberi_dagster.runspec import EndpointSpec, JudgeSpec, RunSpec
from shaberi_dagster.workspace import Workspace

CALLING_STAGES = ("answers", "judgements")
ALL_STAGES = "all"
NO_CALL = "no call"
TEMPLATE = "template (upper bound)"

_WIDE = re.compile("[\u2e80-\U0003ffff]")  # from the CJK radicals on: kana, kanji, hangul, full-width forms, emoji
_TOKENS_OF_WIDE = 0.8
_TOKENS_OF_NARROW = 0.25
_TOKENS_OF_MESSAGE = 4  # role and delimiters

_OTHER_MODELS = ", other models"
_OTHER_BENCHMARKS = ", other benchmarks"

_ANSWER_COLUMNS = [
    *("benchmark", "question_id", "sample_index", "status", "request_hash"),
    *("answer", "answer_hash", "answer_state"),
]
_JUDGEMENT_COLUMNS = [
    *("benchmark", "judge", "question_id", "sample_index", "answer_hash", "judge_config_hash", "judge_round"),
    *("superseded", "status", "error_class", "request_hash", "fallback_request_hash"),
]
_TOKEN_COLUMNS = ["prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens"]
_CALL_COLUMNS = ["request_hash", "run_id", "stage", "benchmark", "question_id", "purpose", "model", *_TOKEN_COLUMNS]


@dataclass(frozen=True)
class Estimate:
    """What one model has yet to do in one stage for one benchmark of one run.

    Attributes:
        run_id: The run.
        benchmark: The benchmark.
        question_set: The version of its questions.
        source: Where the questions come from.
        stage: `answers` or `judgements`.
        model: The model that is asked; a judge by its name.
        rows_planned: Rows that the stage will have.
        rows_there: Those that stand already.
        calls: Calls to be made if none fails; the other missing rows are paid for already, or need no call.
        fallback_calls: Further calls expected, for judgements without a score in the agreed form, at their past
            share; None where there is no history, and then none is in the other numbers.
        prompt_tokens: Expected tokens sent by all these calls.
        completion_tokens: Expected tokens received.
        cost_usd: Expected list price in US dollars; None is unknown.
        basis: What the expectation rests on: `history: N calls`, `template (upper bound)`, or `no call`.
        upper_bound: Whether completion tokens (and what follows from them) are the most there can be.
    """

    run_id: str
    benchmark: str
    question_set: str
    source: str
    stage: str
    model: str
    rows_planned: int
    rows_there: int
    calls: int
    fallback_calls: float | None
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    basis: str
    upper_bound: bool


@dataclass(frozen=True)
class Total:
    """The sum over estimates; None where a part is unknown.

    Attributes:
        stage: A stage, or `all`.
        rows_planned: As in `Estimate`, like all that follow.
    """

    stage: str
    rows_planned: int
    rows_there: int
    calls: int
    fallback_calls: float | None
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    upper_bound: bool


def estimate_calls(
    specs: Iterable[RunSpec],
    benchmarks: Sequence[str],
    stages: Sequence[str],
    workspace: Workspace,
    *,
    now: datetime,
    judges: Sequence[str] = (),
) -> list[Estimate]:
    """What the runs would still take, in the order given. Nothing is called and nothing is written.

    The numbers of calls are exact as long as no call fails and what is not yet there is judged without a fallback:
    rows that stand, calls in the lake and calls in the journal of an interrupted attempt are found as the stages find
    them. Answers that nobody has paid for yet are taken to be judged, each by a call of its own.

    Tokens are averages over the finished calls in the lake, of the most specific kind there is: of the same
    stage, benchmark and model; of the same stage and benchmark; of the same stage and model; and of these only
    those for the same questions, if each of them was asked. Without any, prompt tokens are those of the rendered
    prompts (see `rough_tokens`) and completion tokens the limit of the sampling.

    Args:
        specs: The runs, planned or stored.
        benchmarks: Some of their benchmarks.
        stages: Some of `CALLING_STAGES`; others make no call.
        workspace: Where to read; with the option `fresh` what other runs paid for is not used.
        now: The date of the prices.
        judges: Only these of the runs' judges; none named means all.

    Raises:
        ConfigurationError: A judge is not one of the run's, or its questions or prompts are not what they were.
    """
    estimator = _Estimator(workspace, now)
    return [one for spec in specs for one in estimator.run(spec, benchmarks, stages, judges)]


def totals(estimates: Sequence[Estimate]) -> list[Total]:
    """One for each stage and one over all."""
    stages = [stage for stage in CALLING_STAGES if any(one.stage == stage for one in estimates)]
    return [
        *(_total(stage, [one for one in estimates if one.stage == stage]) for stage in stages),
        _total(ALL_STAGES, estimates),
    ]


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

    n_calls: int
    scope: str
    average: _Average
    fallback_share: float
    fallback: _Average

    @property
    def basis(self) -> str:
        return f"history: {self.n_calls:,} call{'s' if self.n_calls > 1 else ''}{self.scope}"


@dataclass(frozen=True)
class _Asked:
    """Who is asked, and for how much at most."""

    name: str
    model: str
    endpoint: EndpointSpec
    max_tokens: int


@dataclass(frozen=True)
class _NewCall:
    """A call to be made; what its prompt is counted to is only needed where no history tells."""

    question_id: str
    prompt_tokens: Callable[[], float]


class _History:
    """Averages over the finished calls in the lake whose tokens are known."""

    def __init__(self, calls: pl.DataFrame) -> None:
        known = calls.filter(pl.col("prompt_tokens").is_not_null(), pl.col("completion_tokens").is_not_null())
        names = ("stage", "benchmark", "model", "question_id")
        self._sums = known.group_by(*names, is_fallback=pl.col("purpose").eq_missing("fallback")).agg(
            pl.len(), pl.col(_TOKEN_COLUMNS).sum()
        )

    def find(self, stage: str, benchmark: str, model: str, question_ids: AbstractSet[str]) -> _Past | None:
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
                return _Past(n_calls, scope, _average(first, cached=own), share, _average(fallback, cached=own))
        return None


class _Estimator:
    def __init__(self, workspace: Workspace, now: datetime) -> None:
        self._workspace, self._now = workspace, now
        self._calls = workspace.lake.read("calls", {"status": "ok"}, _CALL_COLUMNS)
        self._history = _History(self._calls)
        self._journals: dict[Path, dict[str, Call]] = {}
        self._counted: set[tuple[str, str]] = set()

    def run(
        self, spec: RunSpec, benchmarks: Sequence[str], stages: Sequence[str], judges: Sequence[str]
    ) -> Iterator[Estimate]:
        keys = {"run_id": spec.run_id, "benchmark": benchmarks}
        stored = self._workspace.lake.read("answers", keys, _ANSWER_COLUMNS)
        judged = self._workspace.lake.read("judgements", keys, _JUDGEMENT_COLUMNS)
        for name in benchmarks:
            answers, missing = stored.filter(benchmark=name), list[AnswerItem]()
            if "answers" in stages:
                estimate, answers, missing = self._answers(spec, name, answers)
                yield estimate
            if "judgements" in stages:
                for judge in chosen_judges(spec, judges):
                    yield self._judgements(
                        spec, name, judge, answers=answers, missing=missing, stored=judged.filter(benchmark=name)
                    )

    def _answers(
        self, spec: RunSpec, benchmark: str, stored: pl.DataFrame
    ) -> tuple[Estimate, pl.DataFrame, list[AnswerItem]]:
        """The estimate, the answers that are there or paid for, and those that are neither."""
        items = answer_items(spec, benchmark, self._workspace)
        kept = standing_answers(stored, items)
        done = set(kept.select("benchmark", "question_id", "sample_index").iter_rows())
        pending = [item for item in items if item.key not in done]
        paid = self._paid_calls(spec, "answers", [item.request.request_hash for item in pending])
        made = [
            answer_row(spec, item, paid[item.request.request_hash])
            for item in pending
            if item.request.request_hash in paid
        ]
        missing = [item for item in pending if item.request.request_hash not in paid]
        calls = self._new_calls(spec, [(item.question.question_id, item.request) for item in missing])
        estimate = self._estimate(
            spec, benchmark, "answers", self._answering(spec, benchmark), n_there=kept.height, calls=calls
        )
        rows = pl.DataFrame(made, schema=ANSWERS.schema).select(_ANSWER_COLUMNS)
        return estimate, pl.concat([kept, rows]), missing

    def _judgements(
        self,
        spec: RunSpec,
        benchmark: str,
        judge: JudgeSpec,
        *,
        answers: pl.DataFrame,
        missing: Sequence[AnswerItem],
        stored: pl.DataFrame,
    ) -> Estimate:
        items = judgement_items(spec, benchmark, answers, [judge], self._workspace)
        done = standing_judgements(stored, items)
        pending = [
            (item.answer["question_id"], item.request) for item in items if item.request and item.key not in done
        ]
        request_hashes = {request.request_hash for _, request in pending}
        paid = self._paid(spec, "judgements", request_hashes, not_again=without_score(stored))
        calls = self._new_calls(spec, [one for one in pending if one[1].request_hash not in paid])
        answer_tokens = self._answer_tokens(spec, benchmark, missing)
        prompts = self._workspace.prompts.variant(judge.prompt)

        def prompt_tokens(question: Question) -> float:
            messages = judge_messages(prompts, get_benchmark(benchmark), question, "")
            return rough_tokens(messages) + answer_tokens

        calls += [_NewCall(item.question.question_id, partial(prompt_tokens, item.question)) for item in missing]
        asked = _Asked(judge.name, judge.model, judge.endpoint, judge.max_tokens)
        return self._estimate(spec, benchmark, "judgements", asked, n_there=len(done), calls=calls)

    def _estimate(
        self,
        spec: RunSpec,
        benchmark: str,
        stage: str,
        asked: _Asked,
        *,
        n_there: int,
        calls: Sequence[_NewCall],
    ) -> Estimate:
        n_calls = len(calls)
        question_ids = {call.question_id for call in calls}
        past = self._history.find(stage, benchmark, asked.model, question_ids) if calls else None
        fallback, n_fallback = _Average(), None if stage == "judgements" and n_calls else 0.0
        if past:
            average, basis = past.average, past.basis
            fallback, n_fallback = past.fallback, n_calls * past.fallback_share
        elif n_calls:
            average, basis = _Average(fmean(call.prompt_tokens() for call in calls), asked.max_tokens), TEMPLATE
        else:
            average, basis = _Average(), NO_CALL
        parts = [(n_calls, average), (n_fallback or 0.0, fallback)]
        settings = spec.benchmarks[benchmark]
        return Estimate(
            run_id=spec.run_id,
            benchmark=benchmark,
            question_set=settings.question_set,
            source=settings.source,
            stage=stage,
            model=asked.name,
            rows_planned=spec.n_planned(benchmark),
            rows_there=n_there,
            calls=n_calls,
            fallback_calls=n_fallback,
            prompt_tokens=round(sum(n * each.prompt for n, each in parts)),
            completion_tokens=round(sum(n * min(each.completion, asked.max_tokens) for n, each in parts)),
            cost_usd=_sum_of([self._cost(asked, n, each) for n, each in parts]),
            basis=basis,
            upper_bound=bool(n_calls) and past is None,
        )

    def _cost(self, asked: _Asked, n_calls: float, average: _Average) -> float | None:
        """The list price of that many average calls."""
        if not n_calls:
            return 0.0
        each = self._workspace.prices.cost(
            {
                "model": asked.model,
                "base_url": asked.endpoint.base_url,
                "prompt_tokens": round(average.prompt),
                "completion_tokens": round(min(average.completion, asked.max_tokens)),
                "cached_tokens": round(average.cached),
                "created_at": self._now,
            }
        )
        return None if each is None else n_calls * each.usd

    def _answering(self, spec: RunSpec, benchmark: str) -> _Asked:
        return _Asked(spec.model, spec.model, spec.endpoint, spec.benchmarks[benchmark].max_tokens)

    def _answer_tokens(self, spec: RunSpec, benchmark: str, missing: Sequence[AnswerItem]) -> float:
        """Tokens of an answer that is not there yet, as a judge will see it: without the model's reasoning."""
        asked, question_ids = self._answering(spec, benchmark), {item.question.question_id for item in missing}
        past = self._history.find("answers", benchmark, asked.model, question_ids)
        return min(past.average.completion - past.average.reasoning, asked.max_tokens) if past else asked.max_tokens

    def _paid(
        self, spec: RunSpec, stage: str, request_hashes: AbstractSet[str], not_again: AbstractSet[str] = frozenset()
    ) -> set[str]:
        """Those of the requests that the stage will find paid for: in its journal, or in the lake."""
        found = self._calls.filter(pl.col("request_hash").is_in(request_hashes - not_again))
        if self._workspace.options.fresh:
            found = found.filter(run_id=spec.run_id)
        return set(found["request_hash"]) | (request_hashes & self._journal(spec, stage).keys())

    def _paid_calls(self, spec: RunSpec, stage: str, request_hashes: Sequence[str]) -> dict[str, Call]:
        journal = self._journal(spec, stage)
        paid = self._paid(spec, stage, set(request_hashes))
        in_lake = self._workspace.paid_calls(spec.run_id, list(paid - journal.keys()))
        return in_lake | {name: journal[name] for name in paid & journal.keys()}

    def _new_calls(self, spec: RunSpec, requests: Iterable[tuple[str, ChatRequest]]) -> list[_NewCall]:
        """The calls for these questions and requests; none for a request that something before them also makes."""
        payer = spec.run_id if self._workspace.options.fresh else ""
        found = {(payer, request.request_hash): (question_id, request) for question_id, request in requests}
        first = [one for key, one in found.items() if key not in self._counted]
        self._counted |= found.keys()
        return [_NewCall(question_id, partial(rough_tokens, request.messages)) for question_id, request in first]

    def _journal(self, spec: RunSpec, stage: str) -> Mapping[str, Call]:
        path = self._workspace.journal_path(spec.run_id, stage)
        if path not in self._journals:
            self._journals[path] = finished_calls(path)
        return self._journals[path]


def _average(sums: pl.DataFrame, *, cached: bool) -> _Average:
    n_calls = int(sums["len"].sum())
    if not n_calls:
        return _Average()
    prompt, completion, from_cache, reasoning = (float(sums[name].sum()) / n_calls for name in _TOKEN_COLUMNS)
    return _Average(prompt, completion, from_cache if cached else 0.0, reasoning)


def _total(stage: str, estimates: Sequence[Estimate]) -> Total:
    return Total(
        stage=stage,
        rows_planned=sum(one.rows_planned for one in estimates),
        rows_there=sum(one.rows_there for one in estimates),
        calls=sum(one.calls for one in estimates),
        fallback_calls=_sum_of([one.fallback_calls for one in estimates]),
        prompt_tokens=sum(one.prompt_tokens for one in estimates),
        completion_tokens=sum(one.completion_tokens for one in estimates),
        cost_usd=_sum_of([one.cost_usd for one in estimates]),
        upper_bound=any(one.upper_bound for one in estimates),
    )


def _sum_of(values: Sequence[float | None]) -> float | None:
    """The sum, None when one of them is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
