"""The base of judges: an answer to a question in, the columns of a judgement out, all calls through `make_call`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shaberi_dagster.llm.request import CallMaker, ChatRequest, ModelEndpoint
from shaberi_dagster.llm.types import CallRange
from shaberi_dagster.tasks.benchmarks.questions import Question


@dataclass(frozen=True)
class Case:
    """An answer before a judge.

    Attributes:
        question: What was asked.
        answer: The row of the answer, a sample or a consensus: `status`, `answer`, `answer_state` and, by rules,
            `truncated` are looked at.
        request: The first call; None when none is needed.
        calls: How many calls it takes.
        finding: What the judge found out before any call.
    """

    question: Question
    answer: Mapping[str, Any]
    request: ChatRequest | None
    calls: CallRange
    finding: Any = None


class Judge(ABC):
    """Turns an answer into a verdict.

    Attributes:
        name: What its judgements are called by.
        prompt_hash: Version of the prompts that it asks with; None when it calls no model.
        config_hash: Identity of everything that makes its verdicts what they are; not where it is asked.
        older_config_hashes: What it was with earlier versions of a rule; what these judged stands until it is judged
            again.
        round: How often it was asked to judge this benchmark again.
        samples: How often it is asked about each answer.
        model: The model that it asks, where it has another name; else None.
        model_endpoint: Where it asks which model; None when it calls no model.
        max_tokens: Most completion tokens of a call.
        of_unmade: Calls that an answer with a text takes which is not there yet.
    """

    name: str
    prompt_hash: str | None
    config_hash: str
    older_config_hashes: Sequence[str] = ()
    round: int = 0
    samples: int = 1
    model: str | None = None
    model_endpoint: ModelEndpoint | None = None
    max_tokens: int = 0
    of_unmade: CallRange

    @abstractmethod
    def request_for(self, question: Question, text: str) -> ChatRequest | None:
        """The first call about an answer with this text; None when no model is called."""

    def case(self, question: Question, answer: Mapping[str, Any]) -> Case:
        """The case of an answer that has a text: a model is asked about every one."""
        return Case(question, answer, self.request_for(question, answer["answer"]), self.of_unmade)

    @abstractmethod
    async def judge(self, case: Case, make_call: CallMaker) -> dict[str, Any]:
        """The columns of the judgement: status, score and how it came about."""


def not_judged(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the judgement of an answer without a text."""
    if answer["status"] != "ok":
        return {"status": "skipped", "error_class": "no_answer", "error_message": "the answer failed"}
    state = answer["answer_state"]
    return {"status": "excluded", "error_class": "empty_answer", "error_message": f"the answer is {state}"}


def failure(error_class: str | None, message: str | None) -> dict[str, Any]:
    """The columns of a judgement that failed."""
    return {"status": "error", "error_class": error_class, "error_message": message}
