"""A rule judge: it reads an answer, and says right, wrong, or that it cannot tell.

A benchmark names it in its YAML file: `grader: rule:example`, with the scale 0 to 1 and `required: [reference]`.
"""

from shaberi_dagster import GradedQuestion, Grader


class Example(Grader):
    """The answer's last line is compared with the reference."""

    name = "rule:example"
    version = 1

    def extract(self, answer: str, item: GradedQuestion) -> str | None:  # noqa: ARG002
        """What the answer finally says; None if that is not clear, and then a judge model may be asked."""
        lines = answer.strip().splitlines()
        return lines[-1] if lines else None

    def canonical(self, extracted: str) -> str:
        """One spelling for all that mean the same."""
        return extracted.strip(" 。.").casefold()
