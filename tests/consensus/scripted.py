"""A model that follows a script, asked by the strategies under test, and what it was asked."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from shaberi_dagster.llm.types import Message
from shaberi_dagster.tasks.consensus.base import Candidate, Consensus, Reply, Strategy, Vote
from shaberi_dagster.tasks.consensus.registry import make_strategies
from shaberi_dagster.tasks.prompts.library import PromptLibrary
from shaberi_dagster.util.folders import project_folder

QUESTION = (
    "Which planet is the largest?\n\nOptions:\nA. Mars\nB. Jupiter\n\nRespond with the single best option letter."
)
FAILED = Reply(None, "transient", "503 three times")
Script = Callable[[str, str], str | Reply]

_SHOWN = re.compile(r'<response id="([0-9a-f]+)" name="([^"\n]+)">\n(.*?)\n</response id="\1">', re.DOTALL)


class ScriptedModel:
    """Replies as a script says, from the purpose and the prompt.

    Attributes:
        prompts: The prompt of each call by its purpose, in the order of the calls.
        at_once: The most calls that were open at the same time.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self.prompts: dict[str, str] = {}
        self.at_once = 0
        self._open = 0

    async def ask(self, purpose: str, messages: tuple[Message, ...]) -> Reply:
        assert purpose not in self.prompts, f"{purpose} was asked twice"
        assert [message.role for message in messages] == ["user"]
        self.prompts[purpose] = messages[0].content
        self._open += 1
        self.at_once = max(self.at_once, self._open)
        await asyncio.sleep(0)
        self._open -= 1
        reply = self._script(purpose, messages[0].content)
        return Reply(reply) if isinstance(reply, str) else reply

    def of(self, stage: str) -> list[str]:
        """The purposes of a strategy's stage, such as `elo:pair`."""
        return [purpose for purpose in self.prompts if purpose.startswith(stage + ":")]


def shown(prompt: str) -> list[tuple[str, str]]:
    """Names and texts of the responses in a prompt."""
    return [(name, text) for _, name, text in _SHOWN.findall(prompt)]


def well_behaved(purpose: str, prompt: str) -> str:
    """Prefers what is shown first and finds everything valid."""
    _, stage, *_ = purpose.split(":")
    match stage:
        case "pair":
            return f"Both are fine.\nWINNER: {shown(prompt)[0][0]}"
        case "judgement":
            return '{"isValid": true, "reasoning": "no error"}'
        case "ranking":
            items = ", ".join(f'{{"id": "{name}", "alignment": 50}}' for name, _ in shown(prompt))
            return f'{{"rankings": [{items}]}}'
        case _:
            return f"text of {purpose}"


def candidates(n: int, *, model: str = "m") -> list[Candidate]:
    """`ANS1` … `ANSn`, named as the ensemble names its samples."""
    return [Candidate(model if i == 0 else f"{model}#{i + 1}", f"ANS{i + 1}", i, model) for i in range(n)]


def strategy(name: str, vote: Vote = lambda _: (0, {})) -> Strategy:
    """The strategy with the project's prompts."""
    return make_strategies([name], PromptLibrary(project_folder("prompts")), vote)[0]


def decide(
    name: str, script: Script, among: int | Sequence[Candidate], question: str = QUESTION
) -> tuple[Consensus, ScriptedModel]:
    """What the strategy makes of the candidates with this model."""
    model = ScriptedModel(script)
    usable = candidates(among) if isinstance(among, int) else among
    return run(strategy(name).decide(question, usable, model.ask)), model


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)
