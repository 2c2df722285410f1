"""The base of strategies: candidates in, one consensus out, and all calls through `ask`."""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

from shaberi_dagster.llm.types import CallRange, Message
from shaberi_dagster.tasks.consensus.prompts import ConsensusPrompts
from shaberi_dagster.util.errors import ShaberiError

T = TypeVar("T")
_MAX_MESSAGE = 300  # characters of an unexpected error that are kept


@dataclass(frozen=True)
class Candidate:
    """A usable answer to the question.

    Attributes:
        label: Its name in results and in the compatible strategies' prompts: `model`, `model#2`, …
        text: The answer.
        sample_index: Its index among the question's samples, unique among the candidates.
        model: The model that wrote it.
    """

    label: str
    text: str
    sample_index: int
    model: str


Vote = Callable[[Sequence[Candidate]], tuple[int, Mapping[str, Any]]]
"""Position of the elected one among the candidates, and details of the vote; what counts as the same answer is the
business of the benchmark's rule."""


@dataclass(frozen=True)
class Reply:
    """The outcome of a call.

    Attributes:
        text: What the model says, without its thinking; None when the call failed.
        error_class: Why it failed; None when it did not.
        error_message: One line, without secrets.
    """

    text: str | None
    error_class: str | None = None
    error_message: str | None = None


Ask = Callable[[str, tuple[Message, ...]], Coroutine[Any, Any, Reply]]
"""Makes one call. The first argument is its purpose, such as `elo:pair:0-1:forward`: unique among all calls for a
question, and independent of the order in which calls end. It has to be part of the call's identity, since a council's
critics are asked with equal messages and each must have a reply of its own."""


@dataclass(frozen=True)
class Consensus:
    """The answer that a strategy made of the candidates, or why there is no answer.

    Attributes:
        status: `ok`: there is a text; `error`: a call that it needs failed; `skipped`: it was not tried.
        text: The answer, exactly as it came; None unless `ok`.
        error_class: None for `ok`.
        error_message: One line; None for `ok`.
        details: Ratings, votes, debate; JSON only. What was said in it is in the rows of the calls.
        winner: Sample index of the candidate that came first; None where none did, or not alone.
    """

    status: Literal["ok", "error", "skipped"]
    text: str | None = None
    error_class: str | None = None
    error_message: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    winner: int | None = None

    @classmethod
    def of(cls, stage: str, reply: Reply, details: Mapping[str, Any], winner: int | None = None) -> "Consensus":
        """Make a consensus of the last call: its text, or a failure if the call failed or the text is blank."""
        if reply.text is None:
            return cls("error", None, reply.error_class, f"{stage}: {reply.error_message}", details)
        if not reply.text.strip():
            return cls("error", None, "empty_output", f"{stage}: the model wrote nothing", details)
        return cls("ok", reply.text, details=details, winner=winner)


class StageFailedError(Exception):
    """Every call of a stage failed, so there is nothing to go on with."""

    def __init__(self, stage: str, reply: Reply) -> None:
        super().__init__(stage)
        self.stage, self.reply = stage, reply


class Strategy(ABC):
    """A way to one answer from several.

    Args:
        prompts: The prompts.
        vote: Elects a candidate by what the benchmark's rule reads in them.

    Attributes:
        name: Its name, the first word of its calls' purposes.
        version: Grows when the same replies would be made something else of; with `prompt_hash` it says whether a
            stored consensus still stands.
        minimum: Fewest candidates with which it is tried.
        templates: The prompt templates it uses.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    file_sha256: ClassVar[str | None] = None
    """Hash of a plugin's own file, whose every change may be one of what it does; None for the project's."""
    minimum: ClassVar[int]
    templates: ClassVar[tuple[str, ...]] = ()

    def __init__(self, prompts: ConsensusPrompts, vote: Vote) -> None:
        self.prompts, self.vote = prompts, vote

    @property
    def prompt_hash(self) -> str:
        """The version of its prompts."""
        return self.prompts.prompt_hash(*self.templates)

    async def decide(self, question: str, candidates: Sequence[Candidate], ask: Ask) -> Consensus:
        """The consensus of the candidates; their order does not matter, blank ones do not count.

        Args:
            question: What was asked, with the options and the demands on the form of the answer.
            candidates: The answers.
            ask: Makes the calls.

        Returns:
            The consensus; what goes wrong in a strategy is a failure of it alone.

        Raises:
            ValueError: Two candidates have the same sample index.
            ShaberiError: Something that has to stop all work, such as an endpoint that refuses us.
        """
        usable = sorted(
            (candidate for candidate in candidates if candidate.text.strip()),
            key=lambda candidate: candidate.sample_index,
        )
        counts = Counter(candidate.sample_index for candidate in usable)
        twice = [index for index, times in counts.items() if times > 1]
        if twice:
            raise ValueError(f"two candidates have the sample index {twice[0]}")
        if len(usable) < self.minimum:
            reason = f"{self.name} needs {self.minimum} usable samples, there are {len(usable)}"
            return Consensus("skipped", error_class="too_few_samples", error_message=reason)
        try:
            return await self._decide(question, usable, ask)
        except StageFailedError as failed:
            reply = failed.reply
            return Consensus("error", None, reply.error_class, f"{failed.stage}: {reply.error_message}")
        except ShaberiError:
            raise
        except Exception as error:  # noqa: BLE001  (of a plugin, or our own fault: it stays in this strategy)
            message = " ".join(f"{type(error).__name__}: {error}".split())[:_MAX_MESSAGE]
            return Consensus("error", error_class="internal", error_message=message)

    def n_calls(self, n: int) -> CallRange:
        """Count the calls that `n` usable candidates take; none when they are too few."""
        return self._n_calls(n) if n >= self.minimum else CallRange(0, 0)

    @abstractmethod
    def _n_calls(self, n: int) -> CallRange:
        """The same as `n_calls`, of enough."""

    @abstractmethod
    async def _decide(self, question: str, candidates: Sequence[Candidate], ask: Ask) -> Consensus:
        """The same as `decide`, of enough usable candidates in the order of their sample indices."""


def candidates_of(samples: Iterable[tuple[int, str, str | None]]) -> list[Candidate]:
    """The usable ones among a question's samples, named by their model and, from its second sample on, a number.

    A failed sample keeps its number, so the names of the others do not depend on it.

    Args:
        samples: Sample index, model, and the answer's text or None when it failed.
    """
    seen = Counter[str]()
    usable = []
    for sample_index, model, text in sorted(samples, key=lambda sample: sample[0]):
        seen[model] += 1
        label = model if seen[model] == 1 else f"{model}#{seen[model]}"
        if text is not None and text.strip():
            usable.append(Candidate(label, text, sample_index, model))
    return usable


def anonymous_names(candidates: Sequence[Candidate]) -> dict[int, str]:
    """A name for each candidate, by sample index, that says nothing of its model and is no prefix of another.

    They are not single letters, which a question's options may be called by.
    """
    indices = [candidate.sample_index for candidate in candidates]
    width = max(len(str(index + 1)) for index in indices)
    return {index: f"R{index + 1:0{width}d}" for index in indices}


async def ask_all(
    ask: Ask, stage: str, calls: Mapping[str, tuple[Message, ...]], *, needed: bool = True
) -> dict[str, Reply]:
    """Make all calls of a stage at the same time.

    Args:
        ask: Makes a call.
        stage: The stage's name, for the error.
        calls: Messages by purpose.
        needed: Whether there is no going on when all of them fail.

    Returns:
        Replies by purpose, failed ones included.

    Raises:
        StageFailedError: The stage is needed, there were calls, and all of them failed.
    """
    replies = await together(ask(purpose, messages) for purpose, messages in calls.items())
    if needed and replies and all(reply.text is None for reply in replies):
        raise StageFailedError(stage, replies[0])
    return dict(zip(calls, replies, strict=True))


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all, in their order; the first exception ends the others and is raised by itself."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in work]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]
