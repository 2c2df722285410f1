"""Judges of plugins: each asks a model in its own words, as often as it needs, and says the score."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from numbers import Real
from typing import Any, ClassVar

from shaberi_dagster.lake.journal.records import Call, usage_columns
from shaberi_dagster.llm.parameters import with_system_prompt
from shaberi_dagster.llm.request import CallMaker, ChatRequest
from shaberi_dagster.llm.thinking import answer_of
from shaberi_dagster.llm.types import CallRange, Message
from shaberi_dagster.plugins.discovery import PluginRegistry, class_in, running
from shaberi_dagster.tasks.benchmarks.questions import Question
from shaberi_dagster.tasks.benchmarks.registry import Benchmark
from shaberi_dagster.tasks.judges.base import Case, Judge, failure
from shaberi_dagster.tasks.judges.sets import ADOPTED
from shaberi_dagster.tasks.judges.spec import JudgeSpec
from shaberi_dagster.util.identity import sha256_json

AskModel = Callable[[Sequence[Message]], Awaitable[str]]
"""Asks the judge's model once more and returns its reply, without its thinking."""


class _FailedCallError(Exception):
    """A further call brought no reply."""


class ModelJudge(Judge):
    """A judge that asks a model first for a judgement, and then whatever else it wants to know.

    Attributes:
        file_sha256: Hash of the plugin's file: after a change its judgements are made again.
        most_calls: Most calls for one answer; the dry run counts with them.
        takes_any_score: Whether scores out of scale count, flagged, as imported ones do.
        spec: The model that it asks, and its settings.
        benchmark: What it judges.
    """

    file_sha256: ClassVar[str | None] = None
    most_calls: ClassVar[int] = 1
    takes_any_score: ClassVar[bool] = False

    def __init__(self, spec: JudgeSpec, benchmark: Benchmark) -> None:
        self.spec, self.benchmark = spec, benchmark
        self.name, self.model = spec.name, spec.model
        self.prompt_hash = sha256_json({"judge": spec.prompt, "file": self.file_sha256})
        self.config_hash = spec.config_hash(self.prompt_hash)
        self.round = spec.rounds.get(benchmark.name, 0)
        self.model_endpoint, self.max_tokens = (spec.endpoint, spec.model), spec.max_tokens
        self.samples = spec.samples
        self.of_unmade = CallRange(spec.samples, spec.samples * self.most_calls)

    @abstractmethod
    def messages(self, question: Question, answer: str) -> Sequence[Message]:
        """Return what the model gets first about an answer."""

    @abstractmethod
    async def score(self, question: Question, answer: str, reply: str, ask: AskModel) -> float | None:
        """Return the score on the benchmark's scale; None without one.

        Args:
            question: What was asked.
            answer: What is judged.
            reply: What the model said first, without its thinking.
            ask: Asks it once more.
        """

    def request_for(self, question: Question, text: str) -> ChatRequest:
        """The first call about an answer."""
        with running(self):
            return self._chat(self.messages(question, text))

    async def judge(self, case: Case, make_call: CallMaker) -> dict[str, Any]:
        """The score that the plugin finds, and all calls that it took."""
        assert case.request is not None  # noqa: S101  (every text is judged)
        first, reused = await make_call(case.request, "judge")
        calls = [first]
        if first.status == "error":
            return self._row(calls) | failure(first.error_class, first.error_message)

        async def ask(messages: Sequence[Message]) -> str:
            call, _ = await make_call(self._chat(messages), "judge", lookup=reused)
            calls.append(call)
            if call.status == "error":
                raise _FailedCallError
            return self._said(call)

        try:
            with running(self, _FailedCallError):
                score = await self.score(case.question, case.answer["answer"], self._said(first), ask)
                if score is not None and not isinstance(score, Real):
                    raise TypeError(f"score() returned {score!r}, which is no number")
        except _FailedCallError:
            return self._row(calls) | failure(calls[-1].error_class, calls[-1].error_message)
        low, high = self.benchmark.scale_minimum, self.benchmark.scale_maximum
        if score is None:
            return self._row(calls) | failure("no_score", "the judge found no score")
        if not low <= score <= high and not self.takes_any_score:
            message = f"the judge gave {score:g}, and the scale is {low} to {high}"
            return self._row(calls) | failure("out_of_scale", message) | {"out_of_scale": True}
        verdict = {"score": score, "score_source": "judge", "out_of_scale": not low <= score <= high}
        return self._row(calls) | {"status": "ok"} | verdict

    def _said(self, call: Call) -> str:
        """Return what scores are looked for in: a reply without its thinking."""
        return answer_of(call)

    def _chat(self, messages: Sequence[Message]) -> ChatRequest:
        spec, replicate = self.spec, f"round{self.round}" if self.round else ""
        told = with_system_prompt(tuple(messages), spec.parameters)
        return ChatRequest(spec.endpoint, spec.model, told, spec.sampling, replicate=replicate)

    @staticmethod
    def _row(calls: Sequence[Call]) -> dict[str, Any]:
        return {
            "request_hash": calls[0].request_hash,
            "judge_output": "\n\n".join(call.content for call in calls if call.content is not None) or None,
            "finish_reason": calls[0].finish_reason,
            "latency_seconds": sum(call.latency_seconds for call in calls),
            **usage_columns("judge", calls),
        }


JUDGES = PluginRegistry("judge", "llm_judges", ".py", {}, read=class_in(ModelJudge))
"""The class of each judge of plugin folders; `MODEL+NAME` is such a judge that asks a model."""


def is_own(name: str | None) -> bool:
    """Return whether a plugin folder has a judge or an adopted set of that name; nothing is run."""
    return name is not None and any(kind.file(name) for kind in (JUDGES, ADOPTED))
