"""How a version of the old suite asks: the parameters of its answers and of its judges, as an adopted set has them."""

import re
from typing import Any

from pydantic import Field

from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.models import Frozen


class CallSettings(Frozen):
    """A call as a suite makes it, in this project's words.

    Attributes:
        api: The interface.
        model: The model's name there.
        system: The system message; "" where none is sent.
        temperature: Of the samples.
        max_tokens: None where there is no limit.
        frequency_penalty: 0 where none is sent.
        parameters: All others; null for those that this project would send and the suite does not.
    """

    api: str
    model: str
    system: str = ""
    temperature: float
    max_tokens: int | None
    frequency_penalty: float = 0.0
    parameters: dict[str, Any] = Field(default_factory=dict)


class AdoptedAnswers(Frozen):
    """How answers are asked for.

    Attributes:
        api: The interface.
        system: The system message; "" where none is sent.
        temperature: Of all models but those of the next one.
        temperature_of_gpt_5: Of models of OpenAI that begin so; None where it is the same.
        max_tokens: The limit; None where none is sent.
        max_tokens_of_thinking_models: That of `thinking_models`; None where it is the same.
        thinking_models: Those with a limit of their own, whose thinking is taken off.
        thinking_ends: Ends of thinking. What is kept of such a model's reply follows the first of them that it has.
        openai_names: How the names of models of OpenAI begin.
        frequency_penalty: The command's default, sent to models that are neither OpenAI's nor Google's.
        parameters_of_others: What else is sent to these; None where nothing is, and no penalty either.
        only_gpt: Whether other models than gpt are asked with the bare question.
    """

    api: str = "chat.completions"
    system: str = ""
    temperature: float = 0.2
    temperature_of_gpt_5: float | None = None
    max_tokens: int | None = None
    max_tokens_of_thinking_models: int | None = None
    thinking_models: tuple[str, ...] = ()
    thinking_ends: tuple[str, ...] = ()
    openai_names: tuple[str, ...] = ()
    frequency_penalty: float = 0.0
    parameters_of_others: dict[str, Any] | None = None
    only_gpt: bool = False

    def settings(self, model: str) -> CallSettings:
        """Return how a model is asked.

        Raises:
            ConfigurationError: It is asked with nothing but the bare question.
        """
        if self.only_gpt and "gpt" not in model:
            raise ConfigurationError("it sends the bare question, which this project does not: leave --preset out")
        limit, temperature = self.max_tokens, self.temperature
        if self.max_tokens_of_thinking_models is not None and model in self.thinking_models:
            limit = self.max_tokens_of_thinking_models
        is_openai = model.startswith(self.openai_names)
        if self.temperature_of_gpt_5 is not None and is_openai and model.startswith("gpt-5"):
            temperature = self.temperature_of_gpt_5
        is_google = bool(self.openai_names) and model.startswith("gemini")  # told apart since OpenAI's are
        others = None if is_openai or is_google else self.parameters_of_others
        return CallSettings(
            api=self.api,
            model=model,
            system=self.system,
            temperature=temperature,
            max_tokens=limit,
            frequency_penalty=0.0 if others is None else self.frequency_penalty,
            parameters=_unlimited(limit) | (others or {}),
        )

    def kept(self, model: str, reply: str) -> str:
        """Return what is kept of a model's reply."""
        for end in self.thinking_ends if model in self.thinking_models else ():
            if end in reply:
                return reply.split(end)[1].strip()
        return reply


class JudgeRule(Frozen):
    """How judges are asked whose names have a text.

    Attributes:
        contains: The text; "" for any name.
        starts: How the name begins; "" for any.
        any_case: Whether upper and lower case are the same.
        api: The interface.
        model: The model's name there; None where it is the judge's.
        models: The same by the second piece of the judge's name at hyphens; another piece is refused.
        system: The system message; "" where none is sent.
        max_tokens: The limit; None where none is sent.
        parameters: All others.
    """

    contains: str = ""
    starts: str = ""
    any_case: bool = False
    api: str = "chat.completions"
    model: str | None = None
    models: dict[str, str] = Field(default_factory=dict)
    system: str = ""
    max_tokens: int | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)

    def fits(self, judge: str) -> bool:
        """Return whether a judge is asked so."""
        return judge.startswith(self.starts) and self.contains in (judge.lower() if self.any_case else judge)

    def settings(self, judge: str) -> CallSettings | None:
        """Return how a judge is asked; None for one that it does not know."""
        model = self.models.get((*judge.split("-"), "")[1]) if self.models else self.model or judge
        if model is None:
            return None
        return CallSettings(
            api=self.api,
            model=model,
            system=self.system,
            temperature=0,
            max_tokens=self.max_tokens,
            parameters=_unlimited(self.max_tokens) | self.parameters,
        )


_THINKING = re.compile(r"<(think|thinking|reason)>.*?</(think|thinking|reason)>", re.DOTALL | re.IGNORECASE)
_THINKING_END = re.compile("</(think|thinking|reason)>", re.IGNORECASE)


class AdoptedJudging(Frozen):
    """How judges are asked.

    Attributes:
        removes_thinking: Whether answers lose their thinking before they are judged.
        rules: By the judge's name; the first that fits decides.
    """

    removes_thinking: bool = False
    rules: tuple[JudgeRule, ...]

    def settings(self, model: str) -> CallSettings:
        """Return how a judge is asked.

        Raises:
            ConfigurationError: It asks no judge of that name.
        """
        rule = next((rule for rule in self.rules if rule.fits(model)), None)
        settings = rule.settings(model) if rule else None
        if settings is None:
            raise ConfigurationError("it has no rule for a judge of that name")
        return settings

    def judged(self, answer: str) -> str:
        """Return what judges see of an answer."""
        if not self.removes_thinking:
            return answer
        # Nothing is looked for behind the last end, so thousands of beginnings without one take no time.
        last = max((end.end() for end in _THINKING_END.finditer(answer)), default=0)
        return _THINKING.sub("", answer[:last]) + answer[last:]


def _unlimited(limit: int | None) -> dict[str, Any]:
    """Return what keeps this project from sending its own limit where the suite has none."""
    return {"max_tokens": None} if limit is None else {}
