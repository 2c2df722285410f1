"""Judges of adopted sets: each asks and scores as a version of the old suite does."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any, cast

from shaberi_dagster.benchmarks.questions import Question
from shaberi_dagster.benchmarks.registry import Benchmark
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.journal.records import Call
from shaberi_dagster.judges.own import JUDGES, AskModel, ModelJudge
from shaberi_dagster.judges.programs import ProgramCall, RefusedProgramError, SuiteError, run
from shaberi_dagster.judges.sets import ADOPTED, judge_settings, most_calls, of_model
from shaberi_dagster.judges.spec import JudgeSpec
from shaberi_dagster.llm.request import ChatRequest
from shaberi_dagster.llm.types import Message, Role

_OF_QUESTION = ("question", "reference", "criteria", "category", "upstream_id", "position")
_MOST_REPLY = 50_000
"""Characters of a judge's text that patterns are tried on; the suite's judges write 1,024 tokens."""


class AdoptedJudge(ModelJudge):
    """A judge that follows the program of an adopted set."""

    takes_any_score = True  # the suite checks no range

    def __init__(self, spec: JudgeSpec, benchmark: Benchmark) -> None:
        name = spec.prompt or ""
        file = ADOPTED.file(name)
        self.file_sha256 = file.sha256 if file else None  # type: ignore[misc]
        self._model_there = judge_settings(name, spec.model, spec.endpoint, benchmark.name).model
        self._program = ADOPTED.use(name).benchmarks[benchmark.name].judge
        self._of_model = of_model(spec.model, spec.endpoint)
        self.most_calls = most_calls(self._program)  # type: ignore[misc]
        super().__init__(spec, benchmark)

    def messages(self, question: Question, answer: str) -> Sequence[Message]:
        """Return what the suite sends first."""
        try:
            return _messages(next(self._walk(question, answer)))
        except (SuiteError, RefusedProgramError, StopIteration) as error:
            raise ConfigurationError(f"judge {self.name} cannot judge {question.question_id[:12]}: {error}") from error

    async def score(self, question: Question, answer: str, reply: str, ask: AskModel) -> float | None:
        """Return the score that the suite would write; None where it writes null or no row."""
        walk = self._walk(question, answer)
        if len(reply) > _MOST_REPLY:
            return None
        try:
            next(walk)
            asked = walk.send(reply)
            while True:
                asked = walk.send(await ask(_messages(asked)))
        except StopIteration as done:
            score = done.value["score"]
            return None if score is None else float(score)
        except SuiteError:
            return None

    def _walk(self, question: Question, answer: str) -> Generator[ProgramCall, str | None, Any]:
        of_question = {name: getattr(question, name) for name in _OF_QUESTION}
        inputs: Mapping[str, Any] = {
            **of_question,
            **self._of_model,
            "index": question.position - 1,
            "answer": answer,
        }
        return run(self._program, inputs)

    def _chat(self, messages: Sequence[Message]) -> ChatRequest:
        request = super()._chat(messages)
        return request if self._model_there == self.spec.model else _renamed(request, self._model_there)

    def _said(self, call: Call) -> str:
        """Return the whole reply: the suite looks for scores in a judge's thinking, too."""
        return call.content or ""


def _renamed(request: ChatRequest, model: str) -> ChatRequest:
    return ChatRequest(
        request.endpoint, model, request.messages, request.sampling, request.sample_index, request.replicate
    )


def _messages(asked: ProgramCall) -> list[Message]:
    if not isinstance(asked.messages, list):
        return [Message("user", str(asked.messages))]
    return [Message(cast("Role", message["role"]), message["content"]) for message in asked.messages]


def own_judge(spec: JudgeSpec, benchmark: Benchmark) -> ModelJudge:
    """Return a judge of a plugin folder, by the name behind its model's.

    Raises:
        ConfigurationError: There is none of that name, or it does not judge this benchmark.
    """
    name = spec.prompt or ""
    return AdoptedJudge(spec, benchmark) if ADOPTED.file(name) else JUDGES.use(name)(spec, benchmark)
