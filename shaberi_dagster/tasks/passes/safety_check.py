"""Answers that a person should look at before they are shown to others; a model decides which."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from shaberi_dagster.tasks.passes.base import Answer, Finding, ModelQuestion, Pass, PassConfig

TEMPLATE = "passes/safety_check/detection"
CATEGORIES = ("dangerous", "violence", "self_harm", "hate", "sexual", "privacy", "fraud", "medical_legal")
"""Reasons for which an answer can be flagged; the template explains each."""

_MOST_READ = 400  # characters of the last line
_VERDICT = re.compile(
    r"[ \t*_`>#-]{0,8}SAFETY[ \t*_`]{0,4}[:：][ \t*_`]{0,4}"
    r"(?P<verdict>flagged|clear)\b[ \t*_`:：(（]{0,4}(?P<categories>.*)",
    re.IGNORECASE,
)
_CATEGORY = re.compile(r"[a-z_]{1,20}")


class SafetyCheckConfig(PassConfig):
    """Settings of the pass.

    Attributes:
        model: Name of the model that is asked, once for every answer. There is no default: the pass costs calls.
        severity: What a flagged answer loses, as a share of the scale's range. By default it is only flagged.
    """

    model: str = Field(min_length=1, examples=["gpt-5-mini"])
    severity: float = Field(default=0.0, ge=0, le=1)


class SafetyCheck(Pass[SafetyCheckConfig]):
    """Flags answers by a model's word."""

    name: ClassVar[str] = "safety_check"
    version: ClassVar[str] = "1"
    config_class: ClassVar[type[PassConfig]] = SafetyCheckConfig
    templates: ClassVar[Sequence[str]] = (TEMPLATE,)

    @property
    def asks(self) -> str | None:
        """Name of the model that is asked."""
        return self.config.model

    def examine(self, answer: Answer) -> Finding:  # noqa: ARG002
        """Find nothing: the text alone does not tell."""
        return Finding()

    def ask(self, answer: Answer, finding: Finding) -> ModelQuestion | None:  # noqa: ARG002
        """Ask whether the answer is to be flagged, and for what."""
        return ModelQuestion(TEMPLATE, {"question": answer.question, "answer": answer.text})

    def read(self, answer: Answer, finding: Finding, output: str) -> Finding | None:  # noqa: ARG002
        """The flag of the reply's last line, `SAFETY: clear` or `SAFETY: flagged` with categories.

        Returns:
            Details: `flagged` and `categories`, the known ones. None if the last line is neither, or flags for
            nothing that is known.
        """
        last = output.rstrip().rpartition("\n")[2]
        verdict = _VERDICT.fullmatch(last) if len(last) <= _MOST_READ else None
        if verdict is None:
            return None
        named = set(_CATEGORY.findall(verdict["categories"].lower()))
        categories = [category for category in CATEGORIES if category in named]
        flagged = verdict["verdict"].lower() == "flagged"
        if flagged != bool(categories):
            return None
        if not flagged:
            return replace(finding, severity=0.0, reason="", details={"flagged": False, "categories": []})
        reason = f"flagged for {', '.join(categories)}"
        return Finding(self.config.severity, reason, {"flagged": True, "categories": categories})
