"""Judges of adopted sets: each asks and scores as a version of the old suite does."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shaberi_dagster.lake.journal.records import Call
from shaberi_dagster.llm.request import ChatRequest
from shaberi_dagster.llm.types import Message
from shaberi_dagster.tasks.benchmarks.questions import Question
from shaberi_dagster.tasks.benchmarks.registry import Benchmark
from shaberi_dagster.tasks.judges.own import JUDGES, AskModel, ModelJudge
from shaberi_dagster.tasks.judges.sets import ADOPTED, judge_settings
from shaberi_dagster.tasks.judges.spec import JudgeSpec
from shaberi_dagster.tasks.judges.suite_parsers import PARSERS, second_score

_OF_QUESTION = ("question", "reference", "criteria", "category", "upstream_id")
_MOST_REPLY = 50_000
"""Characters of a judge's text that patterns are tried on; the suite's judges write 1,024 tokens."""


class AdoptedJudge(ModelJudge):
    """A judge that asks and scores as an adopted set says."""

    takes_any_score = True  # the suite checks no range

    def __init__(self, spec: JudgeSpec, benchmark: Benchmark) -> None:
        name = spec.prompt or ""
        file = ADOPTED.file(name)
        self.file_sha256 = file.sha256 if file else None  # type: ignore[misc]
        self._settings = judge_settings(name, spec.model, benchmark.name)
        found = ADOPTED.use(name)
        self._judging, self._texts = found.judging, found.benchmarks[benchmark.name]
        self._parse = PARSERS[benchmark.name][self._texts.parser or ""]
        self.most_calls = 2 if self._texts.second_call else 1  # type: ignore[misc]
        super().__init__(spec, benchmark)

    def messages(self, question: Question, answer: str) -> Sequence[Message]:
        """Return what the suite sends first."""
        system = [Message("system", self._settings.system)] if self._settings.system else []
        return [*system, *self._texts.first(self._values(question, answer))]

    async def score(self, question: Question, answer: str, reply: str, ask: AskModel) -> float | None:
        """Return the score that the suite would write; None where it writes null or no row."""
        if len(reply) > _MOST_REPLY:
            return None
        try:
            try:
                score = self._parse(reply)
            except ValueError:
                again = self._texts.second(self._values(question, answer), reply)
                score = second_score(await ask(again)) if again else None
            return None if score is None else float(score)
        except (ValueError, OverflowError):
            return None

    def _values(self, question: Question, answer: str) -> Mapping[str, Any]:
        judged = self._judging.judged(answer) if self._judging else answer
        return {name: getattr(question, name) for name in _OF_QUESTION} | {"answer": judged}

    def _chat(self, messages: Sequence[Message]) -> ChatRequest:
        return replace(super()._chat(messages), model=self._settings.model)

    def _said(self, call: Call) -> str:
        """Return the whole reply: the suite looks for scores in a judge's thinking, too."""
        return call.content or ""


def own_judge(spec: JudgeSpec, benchmark: Benchmark) -> ModelJudge:
    """Return a judge of a plugin folder, by the name behind its model's.

    Raises:
        ConfigurationError: There is no such name, or it does not judge this benchmark.
    """
    name = spec.prompt or ""
    return AdoptedJudge(spec, benchmark) if ADOPTED.file(name) else JUDGES.use(name)(spec, benchmark)
