"""What the strategies ask, as messages."""

from collections.abc import Sequence
from dataclasses import dataclass

from shaberi_dagster.llm.types import Message
from shaberi_dagster.prompts.library import PromptLibrary, boundary_of

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

    def standard(self, question: str, responses: Sequence[Response]) -> Messages:
        """One better answer from all responses."""
        return self.messages("standard", question, responses)

    def majority_ranking(self, question: str, responses: Sequence[Response]) -> Messages:
        """How well each response agrees with the majority, as JSON."""
        return self.messages("majority_ranking", question, responses)

    def majority_synthesis(self, question: str, responses: Sequence[Response], anchor: str) -> Messages:
        """The majority's answer, from responses that have an alignment.

        Args:
            question: What was asked.
            responses: The best aligned ones.
            anchor: The name of the very best.
        """
        return self.messages("majority_synthesis", question, responses, anchor=anchor)

    def elo_pair(self, question: str, first: str, second: str, *, reasoning: bool) -> Messages:
        """Which of two texts, shown as A and B, is more correct.

        Args:
            question: What was asked.
            first: Shown as A.
            second: Shown as B.
            reasoning: Ask for a reason before the verdict.
        """
        responses = [Response("A", first), Response("B", second)]
        return self.messages("elo_pair", question, responses, reasoning=reasoning)

    def elo_summary(self, question: str, responses: Sequence[Response]) -> Messages:
        """The most accurate answer, from the best rated responses."""
        return self.messages("elo_summary", question, responses)

    def council_critique(self, question: str, response: Response) -> Messages:
        """What is wrong with a response."""
        return self.messages("council_critique", question, [response])

    def council_rebuttal(self, question: str, own: Response, critiques: Sequence[str]) -> Messages:
        """What the author of a response replies to its critics."""
        return self.messages("council_rebuttal", question, [own], texts=critiques, critiques=critiques)

    def council_judgement(
        self, question: str, position: Response, critiques: Sequence[str], rebuttal: str | None
    ) -> Messages:
        """Whether a response can be disproved, as JSON."""
        texts = [*critiques, rebuttal or ""]
        return self.messages(
            "council_judgement", question, [position], texts=texts, critiques=critiques, rebuttal=rebuttal
        )

    def council_pair(self, question: str, first: Response, second: Response) -> Messages:
        """Which of two responses is better, by name."""
        return self.messages("council_pair", question, [first, second])

    def council_summary(self, question: str, ranked: Sequence[Response]) -> Messages:
        """One answer from the best responses of a debate, the best first."""
        return self.messages("council_summary", question, ranked, texts=[one.rebuttal or "" for one in ranked])

    def messages(
        self,
        template: str,
        question: str,
        responses: Sequence[Response],
        *,
        texts: Sequence[str] = (),
        **variables: object,
    ) -> Messages:
        """The message that a template makes of a question and responses.

        Args:
            template: Its name below `consensus/`.
            question: What was asked.
            responses: What the template shows of the candidates.
            texts: Whatever else of somebody else's it shows, so that no text can end its own mark.
            variables: What else it is given, besides `question`, `responses` and `boundary`.
        """
        boundary = boundary_of("\n".join([question, *(one.text for one in responses), *texts]))
        text = self._library.render(
            f"consensus/{template}", question=question, responses=responses, boundary=boundary, **variables
        )
        return (Message("user", text),)
