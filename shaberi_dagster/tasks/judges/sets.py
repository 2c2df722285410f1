"""Adopted sets: what a version of the old suite sends and how it scores, as files of plugin folders."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, model_validator

from shaberi_dagster.llm.types import Message, Role
from shaberi_dagster.plugins.discovery import PluginError, PluginFile, PluginRegistry, read_yaml
from shaberi_dagster.tasks.judges.suite_calls import AdoptedAnswers, AdoptedJudging, CallSettings
from shaberi_dagster.tasks.judges.suite_parsers import PARSERS
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.models import Frozen

FORMAT: Final = 2
_SHOWN_OF_COMMIT = 7
_FIELDS = (
    "question",
    "reference",
    "criteria",
    "category",
    "upstream_id",
    "answer",
    "answer_after_thinking",
    "judgement",
)


def _checked_template(text: str) -> str:
    try:
        text.format_map(dict.fromkeys(_FIELDS, ""))
    except (ValueError, LookupError, AttributeError) as error:
        raise ValueError(f"is no text with the fields {', '.join(_FIELDS)} in braces: {error}") from error
    return text


Template = Annotated[str, AfterValidator(_checked_template)]
"""A text with fields in braces; braces themselves are doubled."""


class AdoptedMessage(Frozen):
    """A message to a judge."""

    role: Role
    content: Template


class AdoptedBenchmark(Frozen):
    """A benchmark of an adopted set.

    Attributes:
        dataset: The suite's name for it.
        left_out: 1-based positions of the questions that are not asked.
        parser: Id of its score parser (`judges.suite_parsers`); None where the suite's is not known.
        messages: What judges are sent.
        without_reference: The last of them for questions without a reference, where that differs.
        second_call: What a judge is sent whose text has no score; None where it is not asked again.
    """

    dataset: str
    left_out: tuple[int, ...] = ()
    parser: str | None = None
    messages: tuple[AdoptedMessage, ...]
    without_reference: Template | None = None
    second_call: Template | None = None

    def first(self, values: Mapping[str, Any]) -> list[Message]:
        """Return the messages about an answer."""
        texts = [message.content for message in self.messages]
        if values["reference"] is None and self.without_reference is not None:
            texts[-1] = self.without_reference
        ends_thinking, answer = "</think>", str(values["answer"])
        after = answer.partition(ends_thinking)[2] if ends_thinking in answer else answer
        shown = {name: str(value) for name, value in values.items()} | {"answer_after_thinking": after.strip()}
        roles = (message.role for message in self.messages)
        return [Message(role, text.format_map(shown)) for role, text in zip(roles, texts, strict=True)]

    def second(self, values: Mapping[str, Any], reply: str) -> list[Message] | None:
        """Return the messages after a reply without a score; None where there are none."""
        if self.second_call is None or not reply.strip():
            return None
        shown = {name: str(value or "") for name, value in values.items()} | {"judgement": reply.strip()}
        return [Message("user", self.second_call.format_map(shown))]


class AdoptedSet(Frozen):
    """A version of the old suite: `MODEL+NAME` judges as it does, `run-evals --preset NAME` asks as it does.

    Attributes:
        format: Of its file.
        source: Name of the repository.
        commit: What was read; None for a folder without git.
        generation: Which judge prompts it has: `J1`, `J2`, `J3`, or None for others.
        refused: What could not be read or is not known, with file and line.
        benchmarks: By our names.
        judging: How judges are asked; None where that is not known.
        answers: How answers are asked for; None where that is not known.
    """

    format: Literal[2]
    source: str
    commit: str | None = None
    generation: str | None = None
    refused: tuple[str, ...] = ()
    benchmarks: dict[str, AdoptedBenchmark]
    judging: AdoptedJudging | None = None
    answers: AdoptedAnswers | None = None

    @model_validator(mode="after")
    def _has_parsers(self) -> "AdoptedSet":
        for name, read in self.benchmarks.items():
            known = PARSERS.get(name, {})
            if read.parser is not None and read.parser not in known:
                raise ValueError(f"{name} has no parser {read.parser!r}: its parsers are {', '.join(known)}")
        return self

    @property
    def description(self) -> str:
        """Say where it is from and what it has."""
        commit = f" at {self.commit[:_SHOWN_OF_COMMIT]}" if self.commit else ""
        prompts = f"judge prompts {self.generation}" if self.generation else "judge prompts of no known generation"
        judged = [name if self.judges(name) else f"{name} (prompts alone)" for name in self.benchmarks]
        parts = [*judged, *(["answers"] if self.answers else [])]
        lacking = f"; {len(self.refused)} refused" if self.refused else ""
        return f"{self.source}{commit}, {prompts}: {', '.join(parts)}{lacking}"

    def judges(self, benchmark: str) -> bool:
        """Return whether it can judge a benchmark: its calls and its parser are known."""
        return self.judging is not None and self.benchmarks[benchmark].parser is not None

    def lacking(self, name: str, what: str) -> ConfigurationError:
        """Return the error of a set, by its name, that does not do something."""
        reasons = "".join(f"; {reason}" for reason in self.refused[:3])
        has = ", ".join(self.benchmarks) or "no benchmark"
        return ConfigurationError(f"the adopted set {name} {what}: it has {has}{reasons}")


def _read(file: PluginFile) -> AdoptedSet:
    def check_format(values: Mapping[str, Any]) -> None:
        if "format" not in values:
            commit = f" --commit {values['commit']}" if values.get("commit") else ""
            command = f"shaberi adopt PATH{commit} --name {file.name}"
            source = values.get("source", "the suite")
            reason = f"an earlier version wrote it: adopt it again, `{command}` (PATH is a checkout of {source})"
            raise PluginError(file.path, None, reason)

    return read_yaml(file, AdoptedSet.model_validate, check_format)


ADOPTED = PluginRegistry("adopted set", "adopted", ".yaml", {}, read=_read)
"""The adopted sets of plugin folders."""


def judge_settings(name: str, model: str, benchmark: str | None = None) -> CallSettings:
    """Return how an adopted set asks a judge.

    Args:
        name: The set.
        model: The judge's model.
        benchmark: What is judged; None for any of the set's, which differ in their prompts alone.

    Raises:
        ConfigurationError: There is no such set, or it does not judge this benchmark or with this model.
    """
    found = ADOPTED.use(name)
    if found.judging is None:
        raise found.lacking(name, "does not say how judges are asked")
    if benchmark is not None and (benchmark not in found.benchmarks or not found.judges(benchmark)):
        raise found.lacking(name, f"does not judge {benchmark}")
    return _of(name, model, found.judging)


def answer_settings(name: str, model: str) -> CallSettings:
    """Return how an adopted set asks a model for answers.

    Raises:
        ConfigurationError: There is no such set, or it does not ask this model.
    """
    found = ADOPTED.use(name)
    if found.answers is None:
        raise found.lacking(name, "does not say how answers are asked for")
    return _of(name, model, found.answers)


def _of(name: str, model: str, calls: AdoptedAnswers | AdoptedJudging) -> CallSettings:
    try:
        return calls.settings(model)
    except ConfigurationError as error:
        raise ConfigurationError(f"the adopted set {name} does not ask {model}: {error}") from error


def kept_answer(name: str, model: str, content: str) -> str:
    """Return what an adopted set keeps of a model's reply."""
    answers = ADOPTED.use(name).answers
    return answers.kept(model, content) if answers else content
