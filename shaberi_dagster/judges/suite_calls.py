"""How the generations of the old suite ask: parameters of answers (`G0` to `G16`) and of judges (`K0` to `K5`)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.util.models import Frozen


class CallSettings(Frozen):
    """A call as a suite makes it, in this project's words.

    Attributes:
        api: The interface.
        model: The model's name there.
        system: The system message; "" where none is sent.
        temperature: None where the server's default is used.
        max_tokens: None where there is no limit.
        frequency_penalty: 0 where none is sent.
        parameters: All others; null for those that this project would send and the suite does not.
    """

    api: str = "chat.completions"
    model: str
    system: str = ""
    temperature: float | None = 0
    max_tokens: int | None
    frequency_penalty: float = 0.0
    parameters: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True)
class _Answering:
    """How a generation asks for answers.

    Attributes:
        api: The interface.
        temperature: Of all models.
        limit: Most tokens.
        thinking_limit: Most tokens of the models in its list.
        of_others: Parameters of models without a name of OpenAI or Google; with them goes the frequency penalty.
        only_gpt: Whether others are asked with the bare question.
        of_gpt_5: Temperature of gpt-5.
        ends: Ends of thinking; of a listed model's reply that is kept which follows the first one that it has.
    """

    api: str = "chat.completions"
    temperature: float = 0.2
    limit: int | None = 2048
    thinking_limit: int | None = None
    of_others: Mapping[str, Any] | None = None
    only_gpt: bool = False
    of_gpt_5: float = 0.2
    ends: tuple[str, ...] = ()


_LITELLM = "litellm.completion"
_MIN_P: Mapping[str, Any] = {"min_p": 0.1}
_ENDS = ("</think>", "</reasoning>")
_G4 = _Answering(_LITELLM, of_others=_MIN_P)
_G6 = _Answering(_LITELLM, thinking_limit=32000, of_others=_MIN_P, ends=_ENDS[:1])
_G10 = _Answering(_LITELLM, limit=30000, of_others=_MIN_P)
_G13 = _Answering(limit=6000, thinking_limit=30000, of_others={})
_G15 = _Answering(limit=6000, thinking_limit=30000, of_others={}, of_gpt_5=1, ends=_ENDS)
ANSWERING: Mapping[str, _Answering] = {
    "G0": _Answering(temperature=0, limit=None, only_gpt=True),
    "G1": _Answering(temperature=0, limit=None),
    **dict.fromkeys(("G2", "G3"), _Answering(temperature=0)),
    "G4b": _Answering(_LITELLM),
    "G4u": _Answering(_LITELLM, limit=1500, of_others=_MIN_P),
    **dict.fromkeys(("G4", "G5"), _G4),
    **dict.fromkeys(("G6", "G7"), _G6),
    "G8": _Answering(_LITELLM, thinking_limit=32000, of_others=_MIN_P, ends=_ENDS),
    "G9": _Answering(_LITELLM, thinking_limit=30000, of_others=_MIN_P, ends=_ENDS),
    **dict.fromkeys(("G10", "G11"), _G10),
    "G12": _Answering(_LITELLM, limit=6000, thinking_limit=30000, of_others=_MIN_P),
    **dict.fromkeys(("G13", "G14"), _G13),
    **dict.fromkeys(("G15", "G16"), _G15),
}
"""How answers are asked for, by generation."""


def _one_of(known: Mapping[str, Any]) -> AfterValidator:
    def check(era: str) -> str:
        if era not in known:
            raise ValueError(f"{era!r} is none of {', '.join(known)}")
        return era

    return AfterValidator(check)


class AdoptedAnswers(Frozen):
    """How a version of the suite asks for answers.

    Attributes:
        era: Its generation of parameters.
        system: The system message; "" where none is sent.
        frequency_penalty: The command's default.
        openai_names: How the names begin of models that get neither penalty nor `min_p`.
        thinking_models: Models with a limit of their own, whose thinking is taken off.
    """

    era: Annotated[str, _one_of(ANSWERING)]
    system: str = ""
    frequency_penalty: float = 0.0
    openai_names: tuple[str, ...] = ()
    thinking_models: tuple[str, ...] = ()

    def settings(self, model: str) -> CallSettings:
        """Return how a model is asked.

        Raises:
            ConfigurationError: It is asked with nothing but the bare question.
        """
        era = ANSWERING[self.era]
        if era.only_gpt and "gpt" not in model:
            raise ConfigurationError(
                f"it asks {model} over completions with the bare question, which this project does not send: "
                "leave --preset out"
            )
        limit = era.thinking_limit if era.thinking_limit and model in self.thinking_models else era.limit
        is_other = era.of_others is not None and not self._has_own_name(model)
        parameters = {} if limit is not None else {"max_tokens": None}
        return CallSettings(
            api=era.api,
            model=model,
            system=self.system,
            temperature=era.of_gpt_5 if self._is_gpt_5(model) else era.temperature,
            max_tokens=limit,
            frequency_penalty=self.frequency_penalty if is_other else 0.0,
            parameters=parameters | dict(era.of_others or {} if is_other else {}),
        )

    def kept(self, model: str, reply: str) -> str:
        """Return what is kept of a model's reply."""
        for end in ANSWERING[self.era].ends if model in self.thinking_models else ():
            if end in reply:
                return reply.split(end)[1].strip()
        return reply

    def _has_own_name(self, model: str) -> bool:
        return bool(self.openai_names) and model.startswith((*self.openai_names, "gemini"))

    def _is_gpt_5(self, model: str) -> bool:
        return model.startswith("gpt-5") and model.startswith(self.openai_names)


_LIMIT = 1024
_FIRST_JUDGES = {
    "tulu405": "Llama-3.1-Tulu-3-405B-FP8-Dynamic",
    "llama33": "meta-llama/Llama-3.3-70B-Instruct",
    "athenev2": "Nexusflow/Athene-V2-Chat",
}
_SECOND_JUDGES = {
    "tulu405": "shisa-ai/Llama-3.1-Tulu-3-405B-FP8-Dynamic",
    "llama33": "llama-3.3-70b-ray",
    "athenev2": "athene-v2",
}
_OWN_JUDGES: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("K0", "K1", "K2", "K2u"), {}),
    "K3": _FIRST_JUDGES,
    **dict.fromkeys(("K4", "K5"), _SECOND_JUDGES),
}
"""Models of the judges that are called `llmjudge-…`, by generation."""
_UNBLOCKED = [
    {"category": f"HARM_CATEGORY_{harm}", "threshold": "BLOCK_NONE"}
    for harm in ("HARASSMENT", "HATE_SPEECH", "SEXUALLY_EXPLICIT", "DANGEROUS_CONTENT")
]
_THINKING = re.compile(r"<(think|thinking|reason)>.*?</(think|thinking|reason)>", re.DOTALL | re.IGNORECASE)
_THINKING_END = re.compile("</(think|thinking|reason)>", re.IGNORECASE)


class AdoptedJudging(Frozen):
    """How a version of the suite asks judges.

    Attributes:
        era: Its generation of parameters.
        system: The system message of Gemini judges, where one is sent.
        removes_thinking: Whether answers lose their thinking before they are judged.
    """

    era: Annotated[str, _one_of(_OWN_JUDGES)]
    system: str = ""
    removes_thinking: bool = False

    def settings(self, model: str) -> CallSettings:
        """Return how a judge is asked.

        Raises:
            ConfigurationError: It asks no judge of that name.
        """
        is_newest = self.era == "K5"
        name = model.lower() if is_newest else model
        limit = None if self.era in {"K0", "K1"} else _LIMIT
        usual = CallSettings(model=model, max_tokens=limit, parameters={} if limit else {"max_tokens": None})
        if is_newest and "gemini" in name:
            return usual
        if is_newest and model.startswith("gpt-5.1"):
            return usual.model_copy(update={"api": "responses", "parameters": {"reasoning_effort": "none"}})
        if "gpt" in name or self.era == "K0":
            return usual
        if self.era == "K2u" and "gemini" in name:
            own = {"top_p": 0.95, "safety_settings": _UNBLOCKED}
            renamed = {"api": _LITELLM, "model": "gemini-1.5-flash", "system": self.system, "parameters": own}
            return usual.model_copy(update=renamed)
        there = _OWN_JUDGES[self.era].get((*model.split("-"), "")[1]) if "llmjudge" in model else None
        if there is None:
            raise ConfigurationError(f"it asks no judge that is called {model}")
        return usual.model_copy(update={"model": there})

    def judged(self, answer: str) -> str:
        """Return what judges see of an answer."""
        if not self.removes_thinking:
            return answer
        # Nothing is looked for behind the last end, so thousands of beginnings without one take no time.
        last = max((end.end() for end in _THINKING_END.finditer(answer)), default=0)
        return _THINKING.sub("", answer[:last]) + answer[last:]
