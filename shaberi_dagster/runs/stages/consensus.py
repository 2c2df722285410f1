"""The consensus answers of a run: one row for each question and strategy."""

import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, ClassVar

import orjson
import polars as pl

from shaberi_dagster.lake.journal.records import Call, usage_columns
from shaberi_dagster.llm.request import CallMaker, ChatRequest, ModelEndpoint
from shaberi_dagster.llm.thinking import answer_of, answer_state
from shaberi_dagster.llm.types import CallRange, Message, Sampling
from shaberi_dagster.runs.plan import BenchmarkPlan, RunPlan
from shaberi_dagster.runs.prompts_used import UsedPrompt, used_prompt
from shaberi_dagster.runs.spec import SINGLE, ModelSpec, RunSpec
from shaberi_dagster.runs.stages.answers import Answers
from shaberi_dagster.runs.stages.base import RUN_COLUMNS, UNMADE, Caller, Item, RowStage, StageResult
from shaberi_dagster.tasks.benchmarks.questions import Question
from shaberi_dagster.tasks.consensus.base import Candidate, Reply, Strategy, Vote, candidates_of
from shaberi_dagster.tasks.consensus.plurality import Plurality
from shaberi_dagster.tasks.consensus.prompts import template_names
from shaberi_dagster.tasks.consensus.registry import STRATEGIES, make_strategies
from shaberi_dagster.tasks.judges.rule import graded_question
from shaberi_dagster.tasks.judges.rules.base import Grader
from shaberi_dagster.tasks.judges.rules.plurality import plurality
from shaberi_dagster.tasks.judges.rules.registry import GRADERS
from shaberi_dagster.util.identity import sha256_json, sha256_text

_NO_CALL = CallRange(0, 0)
_SAMPLE = ("benchmark", "question_id", "sample_index", "answer_hash")
_TEXTS = ("status", "error_class", "error_message", "answer", "answer_state", "answer_model")
Sample = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ConsensusItem(Item):
    """A question for a strategy; `strategy` is None for the single answer."""

    question: Question
    samples: Sequence[Sample]
    strategy: Strategy | None
    max_tokens: int

    @property
    def n_candidates(self) -> int:
        """Samples with a text."""
        return sum(row["answer_state"] == "text" for row in self.samples)


class ConsensusAnswers(RowStage[ConsensusItem]):
    """Lets every strategy make one answer of the samples of each question.

    A consensus stands as long as the samples, the strategy with its prompts, and the model that it asks are the same.
    """

    name = "consensus"
    needs = (Answers,)
    continues_imported = True
    checks: ClassVar[Mapping[str, str]] = {
        "complete": "Each strategy has a row for each question.",
        "few_failures": "At most 5 % of them failed.",
    }
    key = ("run_id", "benchmark", "question_id", "strategy")
    identity = (*("strategy_file_hash", "strategy_prompt_hash", "consensus_model", "candidates_hash"),)
    label = "strategy"
    tokens_of = "consensus"
    result_columns = ("benchmark", "status", "error_class", "consensus_prompt_tokens", "consensus_completion_tokens")

    @classmethod
    def is_needed(cls, spec: RunSpec, benchmarks: Sequence[str]) -> bool:
        """Return whether a strategy makes answers of their samples."""
        return any(spec.benchmarks[name].has_consensus for name in benchmarks if name in spec.benchmarks)

    @classmethod
    def model_endpoints(cls, spec: RunSpec, judges: Sequence[str] = ()) -> Sequence[ModelEndpoint]:  # noqa: ARG003
        """Return the model that makes the strategies' calls, if one of them makes any."""
        model = spec.consensus or (spec.itself if spec.endpoint else None)
        strategies = (STRATEGIES.use(name) for name in spec.strategies if name != SINGLE)
        return [(model.endpoint, model.model)] if model and any(strategy.templates for strategy in strategies) else []

    @classmethod
    def prompts(cls, plan: RunPlan) -> Iterator[UsedPrompt]:
        """Yield the prompts of the strategies; most have none."""
        library = plan.workspace.prompts
        names = dict.fromkeys(name for entry in plan.names for name in plan.spec.benchmarks[entry].strategies)
        for strategy in make_strategies([name for name in names if name != SINGLE], library, lambda _: (0, {})):
            if strategy.templates:
                templates = template_names(*strategy.templates)
                yield used_prompt(library, f"strategy:{strategy.name}", templates, name=f"consensus-{strategy.name}")

    @classmethod
    def n_rows(cls, spec: RunSpec, benchmark: str, judges: Sequence[str] = ()) -> int:  # noqa: ARG003
        """Count the answers that strategies make."""
        return spec.n_questions(benchmark) * len(spec.benchmarks[benchmark].strategies)

    def planned(self) -> pl.DataFrame:
        """Return a row for each strategy and question, the single answer first."""
        hashes = self.rows.read(Answers.name, self.keys, [*_SAMPLE]).sort("question_id", "sample_index")
        own = hashes.group_by("benchmark", "question_id").agg("sample_index", "answer_hash")
        found = {
            (name, question_id): dict(zip(indices, answers, strict=True))
            for name, question_id, indices, answers in own.iter_rows()
        }
        rows = [
            self._identity(plan, question, strategy, found.get((plan.name, question.question_id), {}))
            for plan in self.plan.benchmarks.values()
            for strategy in self._strategies(plan)
            for question in plan.asked
        ]
        texts = dict.fromkeys((*self.key, *self.identity), pl.String())
        return pl.DataFrame(rows, schema=texts | {"strategy_version": pl.Int64()})

    def items(self, pending: pl.DataFrame) -> Iterator[ConsensusItem]:
        """In the order in which the samples of a question are read completely."""
        wanted: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in pending.iter_rows(named=True):
            wanted.setdefault((row["benchmark"], row["question_id"]), []).append(row)
        for (benchmark, question_id), samples in self._samples():
            one = self.plan.benchmarks[benchmark]
            for row in wanted.pop((benchmark, question_id), ()):
                yield self._item(one, one.questions[question_id], samples, row)
        for (benchmark, question_id), rows in wanted.items():  # none of its samples is there
            one = self.plan.benchmarks[benchmark]
            yield from (self._item(one, one.questions[question_id], (), row) for row in rows)

    async def make(self, item: ConsensusItem, make_call: CallMaker) -> dict[str, Any]:
        """Make the strategy's answer of the samples."""
        row = {**item.columns, "n_candidates": item.n_candidates, "created_at": datetime.now(UTC)}
        if item.strategy is None:
            return row | _single(item.samples)
        calls: list[Call] = []
        fresh, started = False, time.monotonic()

        async def call_model(purpose: str, messages: tuple[Message, ...]) -> Reply:
            nonlocal fresh
            request = ChatRequest(
                self._consensus.endpoint,
                self._consensus.model,
                messages,
                Sampling(None, item.max_tokens),
                replicate=purpose,  # critics are asked with equal messages, and each has a reply of its own
            )
            call, reused = await make_call(request, purpose, lookup=True)
            fresh |= not reused
            calls.append(call)
            if call.status == "error":
                return Reply(None, call.error_class, call.error_message)
            return Reply(answer_of(call))

        candidates = candidates_of(
            (sample["sample_index"], sample["answer_model"] or item.columns["model"], sample["answer"])
            for sample in item.samples
        )
        outcome = await item.strategy.decide(item.question.question, candidates, call_model)
        answer, text = {}, outcome.text
        if text is not None:
            answer = {"answer": text, "answer_hash": sha256_text(text), "answer_state": answer_state(text)}
        return row | {
            "status": outcome.status,
            "error_class": outcome.error_class,
            "error_message": outcome.error_message,
            "winner": outcome.winner,
            "details": orjson.dumps(dict(outcome.details)).decode(),
            "calls": len(calls),
            "latency_seconds": time.monotonic() - started if fresh else None,
            **answer,
            **usage_columns("consensus", calls),
        }

    def result(self, benchmark: str, rows: pl.DataFrame) -> StageResult:
        """Rows, failures, tokens and cost."""
        planned = self.n_rows(self.plan.spec, benchmark)
        preview = self.preview(benchmark, "strategy", "question_id", "status", "answer")
        strategies = list(self.plan.spec.benchmarks[benchmark].strategies)
        return self.described(benchmark, rows, planned, preview=preview, first={"strategies": strategies}, then={})

    def caller(self, columns: Mapping[str, Any]) -> Caller | None:
        """The strategy, if it makes calls."""
        if (columns["benchmark"], columns["strategy"]) not in self._calling:
            return None
        most = _max_tokens(self.plan.benchmarks[columns["benchmark"]])
        return Caller(columns["strategy"], self._consensus.model, self._consensus.endpoint, most)

    def estimate_prompt(self, item: ConsensusItem) -> tuple[str, int]:
        """The question and the candidates."""
        return item.question.question, len(self.plan.spec.benchmarks[item.columns["benchmark"]].shared)

    def possible_endpoints(self, pending: pl.DataFrame) -> AbstractSet[ModelEndpoint]:
        """The model that makes the strategies' calls, if one of them may make any."""
        texts = self.rows.read(Answers.name, self.keys, [*_SAMPLE, "answer_state"]).filter(answer_state="text")
        for plan in self.plan.benchmarks.values():
            shared = texts.filter(pl.col("sample_index").is_in(list(plan.settings.shared)), benchmark=plan.name)
            candidates = shared.group_by("question_id").agg(candidates=pl.len())
            kinds = pending.filter(benchmark=plan.name).join(candidates, on="question_id")
            strategies = {strategy.name: strategy for strategy in self._strategies(plan) if strategy}
            for name, count in kinds.select("strategy", "candidates").unique().iter_rows():
                if name in strategies and strategies[name].n_calls(count).high:
                    return {(self._consensus.endpoint, self._consensus.model)}
        return frozenset()

    def known_calls(self) -> Mapping[str, Call]:
        """The paid consensus calls on these benchmarks to this model; a strategy's requests follow from its replies.

        Those that brought no text are of no use: where one made a consensus fail, it is made again.
        """
        if not self._calling:
            return {}
        keys: dict[str, str | Sequence[str]] = {
            "stage": self.name,
            "status": "ok",
            "benchmark": self.benchmarks,
            "model": self._consensus.model,
        }
        rows = self.workspace.lake.read("calls", keys).sort("created_at").iter_rows(named=True)
        calls = ((row["run_id"], Call.from_record(row)) for row in rows)
        counted = (call for run_id, call in calls if self.sharing.counts(run_id, call))
        return {call.request_hash: call for call in counted if self.is_usable(call)}

    def is_usable(self, call: Call) -> bool:
        """Return whether the call brought a text."""
        return bool(answer_of(call).strip())

    def _strategies(self, plan: BenchmarkPlan, vote: Vote = lambda _: (0, {})) -> list[Strategy | None]:
        """The strategies of a benchmark; None is the single answer."""
        names = [name for name in plan.settings.strategies if name != SINGLE]
        made = {strategy.name: strategy for strategy in make_strategies(names, self.workspace.prompts, vote)}
        return [made.get(name) for name in plan.settings.strategies]

    @property
    def _consensus(self) -> ModelSpec:
        """Makes the calls, if a strategy takes any."""
        return self.plan.spec.consensus or self.plan.spec.itself

    @cached_property
    def _calling(self) -> set[tuple[str, str]]:
        """The benchmarks and strategies that may take a call."""
        return {
            (plan.name, strategy.name)
            for plan in self.plan.benchmarks.values()
            for strategy in self._strategies(plan)
            if strategy and strategy.n_calls(len(plan.settings.shared)).high
        }

    def _identity(
        self,
        one: BenchmarkPlan,
        question: Question,
        strategy: Strategy | None,
        hashes: Mapping[int, str | None],
    ) -> dict[str, Any]:
        asking = strategy if strategy and strategy.templates else None
        # Plurality counts what the benchmark's rule reads, so another version of the rule may elect another answer.
        grader = _grader(one) if isinstance(strategy, Plurality) else None
        used = [part for part in (grader, strategy) if part]
        candidates = [answer for index, answer in hashes.items() if index in _candidates(one, strategy)]
        return {
            "run_id": self.run_ids[0],
            "benchmark": one.name,
            "question_id": question.question_id,
            "strategy": strategy.name if strategy else SINGLE,
            "strategy_version": max((part.version for part in used), default=1),
            "strategy_file_hash": next((part.file_sha256 for part in used), None),
            "strategy_prompt_hash": asking.prompt_hash if asking else None,
            "consensus_model": self._consensus.model if asking else None,
            "candidates_hash": sha256_json(candidates),
        }

    def _samples(self) -> Iterator[tuple[tuple[str, str], list[Sample]]]:
        """The samples of each question, by index, as soon as the last of them is read."""
        counts = self.rows.read(Answers.name, self.keys, [*_SAMPLE]).group_by("benchmark", "question_id").len()
        missing = {(benchmark, question_id): count for benchmark, question_id, count in counts.iter_rows()}
        found: dict[tuple[str, str], list[Sample]] = {}
        for block in self.rows.blocks(Answers.name, self.keys, (*_SAMPLE, *_TEXTS)):
            for row in block.iter_rows(named=True):
                key = row["benchmark"], row["question_id"]
                found.setdefault(key, []).append(row)
                if len(found[key]) == missing[key]:
                    yield key, sorted(found.pop(key), key=lambda sample: sample["sample_index"])

    def _item(
        self, one: BenchmarkPlan, question: Question, samples: Sequence[Sample], row: dict[str, Any]
    ) -> ConsensusItem:
        spec = self.plan.spec
        strategies = {strategy.name: strategy for strategy in self._strategies(one, _vote(one, question)) if strategy}
        strategy = strategies.get(row["strategy"])
        own = [sample for sample in samples if sample["sample_index"] in _candidates(one, strategy)]
        n_candidates = sum(sample["status"] == UNMADE or sample["answer_state"] == "text" for sample in own)
        whose = {name: getattr(spec, name) for name in RUN_COLUMNS} | {"question_set": one.settings.question_set}
        return ConsensusItem(
            columns=whose | row,
            request=None,
            calls=strategy.n_calls(n_candidates) if strategy else _NO_CALL,
            inputs_missing=any(sample["status"] == UNMADE for sample in own),
            question=question,
            samples=own,
            strategy=strategy,
            max_tokens=_max_tokens(one),
        )


def _candidates(plan: BenchmarkPlan, strategy: Strategy | None) -> range:
    """Sample indices that a strategy is given; the single answer is sample 0."""
    return plan.settings.shared if strategy else range(1)


def _max_tokens(plan: BenchmarkPlan) -> int:
    """Return the most tokens of a strategy's reply: those of an answer."""
    most = plan.settings.max_tokens
    return plan.benchmark.generation.sampling.max_tokens if most is None else most


def _grader(plan: BenchmarkPlan) -> Grader | None:
    return GRADERS.use(plan.benchmark.grader) if plan.benchmark.has_rule else None


def _vote(plan: BenchmarkPlan, question: Question) -> Vote:
    """Plurality among what the benchmark's rule reads in the candidates' answers; without a rule, among the texts."""
    grader, graded = _grader(plan), graded_question(question)

    def read(text: str) -> str | None:
        if grader is None:
            return " ".join(unicodedata.normalize("NFKC", text).split())
        extracted = grader.extract(text, graded)
        return None if extracted is None else grader.canonical(extracted)

    def vote(candidates: Sequence[Candidate]) -> tuple[int, Mapping[str, Any]]:
        votes = [read(candidate.text) for candidate in candidates]
        elected = plurality(votes)
        # Texts themselves are with the samples.
        told = votes if grader else [vote and sha256_text(vote) for vote in votes]
        return elected.winner, {"votes": told, "largest_share": elected.share, "decided": elected.decided}

    return vote


def _single(samples: Sequence[Sample]) -> dict[str, Any]:
    """The single answer as it is, its failure included."""
    if not samples:
        return {"status": "error", "error_class": "no_answer", "error_message": "there is no sample", "calls": 0}
    (row,) = samples
    names = ("status", "error_class", "error_message", "answer", "answer_hash", "answer_state")
    no_call = {"winner": 0, "details": "{}", "calls": 0} | usage_columns("consensus", [])
    return {name: row[name] for name in names} | no_call
