"""A pass: it looks for a fault in answers, and lowers the scores of those that have it.

Use it with `run-evals … --passes example`, or on stored runs with `shaberi reprocess --passes example`; its settings
are given as `--pass-option example.severity=0.5`.
"""

from pydantic import Field

from shaberi_dagster import Answer, Finding, Pass, PassConfig


class ExampleConfig(PassConfig):
    """Settings: whatever changes what the pass finds."""

    most_characters: int = Field(default=2000, ge=1)
    severity: float = Field(default=0.1, ge=0, le=1)
    """The share of the scale's range that an answer loses."""


class Example(Pass[ExampleConfig]):
    """Answers that are too long."""

    name = "example"
    version = "1"
    config_class = ExampleConfig

    def examine(self, answer: Answer) -> Finding:
        """What is wrong with one answer; a severity of 0 is nothing."""
        length = len(answer.text)
        if length <= self.config.most_characters:
            return Finding()
        return Finding(self.config.severity, f"{length} characters", {"characters": length})
