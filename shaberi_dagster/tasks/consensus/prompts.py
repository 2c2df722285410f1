"""The prompts of the strategies, as messages."""

from collections.abc import Sequence
from dataclasses import dataclass

from shaberi_dagster.llm.types import Message
from shaberi_dagster.tasks.prompts.library import PromptLibrary, boundary_of

Messages = tuple[Message, ...]


@dataclass(frozen=True)
class Response:
    """A candidate as a prompt shows it.

    Attributes:
        name: What the prompt calls it.
        text: The candidate's answer.
        alignment: How well it agrees with the majority, 0 to 100; only for `majority_synthesis`.
        rebuttal: What it replied to its critics, None if it did not; only for `council_summary`.
    """

    name: str
    text: str
    alignment: float | None = None
    rebuttal: str | None = None


def template_names(*templates: str) -> tuple[str, ...]:
    """The names in the library of what strategies call `elo_pair` and the like."""
    return tuple(f"consensus/{name}" for name in templates)


class ConsensusPrompts:
    """The templates under `consensus/`. Every call is one user message.

    All texts in a prompt stand between marks with one id, which derives from the hash of all of them together: so none
    can end its own mark or open another's.

    Args:
        library: Where the templates are.
    """

    def __init__(self, library: PromptLibrary) -> None:
        self._library = library

    def prompt_hash(self, *templates: str) -> str:
        """The version of the templates and of all they include."""
        return self._library.prompt_hash(*template_names(*templates))

    def council_summary(self, question: str, ranked: Sequence[Response]) -> Messages:
        """Ask for one answer from the best responses of a debate, the best first."""
        return self.messages(
            "council_summary", question, ranked, texts=[response.rebuttal or "" for response in ranked]
        )

    def messages(
        self,
        template: str,
        question: str,
        responses: Sequence[Response],
        *,
        texts: Sequence[str] = (),
        **variables: object,
    ) -> Messages:
        """Render a template with a question and responses into a message.

        Args:
            template: Its name below `consensus/`.
            question: What was asked.
            responses: What the template shows of the candidates.
            texts: Whatever else of somebody else's it shows, so that no text can end its own mark.
            variables: What else it is given, besides `question`, `responses` and `boundary`.
        """
        boundary = boundary_of("\n".join([question, *(response.text for response in responses), *texts]))
        text = self._library.render(
            f"consensus/{template}", question=question, responses=responses, boundary=boundary, **variables
        )
        return (Message("user", text),)
