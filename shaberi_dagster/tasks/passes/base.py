"""The base of passes, which modify scores.

A pass looks at an answer, finds faults and says how much of the scale they cost (`examine`); then it turns that into
deltas of each judgement's score (`apply`). The first half is the expensive one and knows no judge, so it is done once
an answer, stored in `pass_outputs`, and reused by every pipeline and judge. The second half is arithmetic over frames.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import polars as pl
from pydantic import AfterValidator

from shaberi_dagster.util.identity import sha256_json
from shaberi_dagster.util.models import Frozen

APPLY_KEYS = ("run_id", "benchmark", "question_id", "sample_index", "strategy")
"""Columns that join findings and judgements; `strategy` is null for a plain sample."""


def _check_curve(points: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    shares = [share for share, _ in points]
    if not points or shares != sorted(set(shares)) or not all(0 <= value <= 1 for point in points for value in point):
        raise ValueError("needs pairs of numbers from 0 to 1 whose shares rise")
    return points


Curve = Annotated[tuple[tuple[float, float], ...], AfterValidator(_check_curve)]
"""Severity by the share of a text that is at fault: points `(share, severity)`, linear between, constant outside."""


def severity_at(share: float, curve: Curve) -> float:
    """Read the severity of a share off a curve."""
    after = bisect_right(curve, (share, 1.0))
    if after in {0, len(curve)}:
        return curve[min(after, len(curve) - 1)][1]
    (left, low), (right, high) = curve[after - 1], curve[after]
    return low + (high - low) * (share - left) / (right - left)


class PassConfig(Frozen):
    """Settings of a pass; all that changes what it finds is here: its hash says which findings they are."""


@dataclass(frozen=True)
class Answer:
    """An answer with all that a pass may look at.

    Attributes:
        benchmark: The benchmark's name.
        question_id: sha256 of the question.
        question: Its text.
        category: The source's category, if it has any.
        reference: A reference answer, if there is one.
        criteria: Per-question criteria, if there are some.
        text: The text that was judged.
        truncated: Whether the token limit cut it; None is unknown.
    """

    benchmark: str
    question_id: str
    question: str
    category: str | None
    reference: str | None
    criteria: str | None
    text: str
    truncated: bool | None


@dataclass(frozen=True)
class Finding:
    """The result of a pass on one answer.

    Attributes:
        severity: The share of the scale's range that a score loses for it, 0 (nothing) to 1.
        reason: One line for people, without text of the answer's own; "" when nothing was found.
        details: Measures by name, and `spans`: `[start, end, kind]` each, in code points of the text. JSON only.
    """

    severity: float = 0.0
    reason: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelQuestion:
    """A question that a pass asks a model about one answer.

    Attributes:
        template: Name of the prompt, such as `passes/lang_mixing/detection`.
        variables: What it is rendered with, besides `boundary`.
    """

    template: str
    variables: Mapping[str, object]


ConfigT = TypeVar("ConfigT", bound=PassConfig)


class Pass(ABC, Generic[ConfigT]):
    """A pass with its settings; deterministic: the same answer and settings give the same finding.

    Args:
        config: Its settings.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    """Raised whenever the code finds something else than before; a column of what it found, no part of its identity."""
    file_sha256: ClassVar[str | None] = None
    """Hash of a plugin's own file, whose every change may change what it does; None for the project's."""
    config_class: ClassVar[type[PassConfig]]
    templates: ClassVar[Sequence[str]] = ()
    """The prompts that it asks with."""

    def __init__(self, config: ConfigT) -> None:
        self.config = config

    @property
    def config_hash(self) -> str:
        """Identity of a pass and its settings: name, settings, and a plugin's file."""
        own = {"name": self.name, "config": self.config.model_dump(mode="json")}
        return sha256_json(own | ({"file": self.file_sha256} if self.file_sha256 else {}))

    @property
    def asks(self) -> str | None:
        """The model that it asks; None when the text alone decides."""
        return None

    @abstractmethod
    def examine(self, answer: Answer) -> Finding:
        """Examine the text alone; no call is made here."""

    def ask(self, answer: Answer, finding: Finding) -> ModelQuestion | None:  # noqa: ARG002
        """Say what a model has to decide, for passes that need one; None when the finding stands as it is."""
        return None

    def read(self, answer: Answer, finding: Finding, output: str) -> Finding | None:
        """The finding with a model's reply to `ask`; None when the reply says nothing usable."""
        raise NotImplementedError(f"pass {self.name} asks no model")

    def apply(self, findings: pl.DataFrame, judgements: pl.DataFrame) -> pl.DataFrame:
        """Deltas of the scores: severity times the scale's range, but never below the scale's minimum.

        Args:
            findings: `APPLY_KEYS`, severity, reason.
            judgements: `APPLY_KEYS`, judge, score (after the passes before this one), scale_minimum, scale_maximum.

        Returns:
            The rows of `judgements` that have a score and a finding with another severity than 0: `APPLY_KEYS`,
            judge, delta, reason.
        """
        asked = -pl.col("severity") * (pl.col("scale_maximum") - pl.col("scale_minimum"))
        # A score that is below the scale already (such things were recorded) is not lowered further.
        floor = pl.min_horizontal(pl.col("scale_minimum") - pl.col("score"), pl.lit(0.0))
        floored = pl.format("{} (floored at {}, from {})", "reason", "scale_minimum", asked.round(3))
        return (
            judgements.join(findings.filter(pl.col("severity") != 0), on=APPLY_KEYS, nulls_equal=True)
            .filter(pl.col("score").is_not_null())
            .select(
                *APPLY_KEYS,
                "judge",
                delta=pl.max_horizontal(asked, floor),
                reason=pl.when(asked < floor).then(floored).otherwise("reason"),
            )
        )
