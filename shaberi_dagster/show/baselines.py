"""How baselines are shown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shaberi_dagster.reports.figures import counted, percent
from shaberi_dagster.reports.report import Block, Document, Sentences, number, table_of, text


@dataclass(frozen=True)
class BaselineDocument(Document):
    """Baselines in each of the formats.

    Attributes:
        baselines: From `reports.verdicts.baselines`.
    """

    baselines: Sequence[Mapping[str, Any]]

    def blocks(self, width: int | None) -> Iterable[Block]:
        """A line for each."""
        del width
        if not self.baselines:
            yield Sentences(["no baselines; `shaberi baseline promote NAME --model MODEL` makes one"])
            return
        columns = [
            text("name", lambda one: one["name"]),
            text("run", lambda one: one["run_id"], folds=True),
            text("datasets", lambda one: ", ".join(one["datasets"]), folds=True),
            number("questions", lambda one: f"{one['n_questions']:,}"),
            text("right", lambda one: ", ".join(f"{name} {percent(share)}" for name, share in one["accuracy"].items())),
            text("promoted", lambda one: f"{one['promoted_at']:%Y-%m-%d %H:%M}"),
            text("note", lambda one: one["note"] or "", folds=True),
        ]
        yield table_of(self.baselines, columns)

    def records(self) -> Iterable[Mapping[str, Any]]:
        """A line for each, with its time as text."""
        return ({**one, "promoted_at": str(one["promoted_at"])} for one in self.baselines)

    def data(self) -> Sequence[Mapping[str, Any]]:
        """A list of all."""
        return list(self.records())


@dataclass(frozen=True)
class PromotionDocument(Document):
    """What a new baseline has.

    Attributes:
        baseline: From `reports.verdicts.baselines`.
    """

    baseline: Mapping[str, Any]

    def blocks(self, width: int | None) -> Iterable[Block]:
        """One line."""
        del width
        one = self.baseline
        covers = f"{counted(len(one['datasets']), 'dataset')}, {counted(one['n_questions'], 'question')}"
        strategies = f"{len(one['strategies'])} strategies with single"
        yield Sentences([f"baseline {one['name']}: {one['run_id']}, {covers}, {strategies}"])

    def records(self) -> Iterable[Mapping[str, Any]]:
        """One line."""
        return BaselineDocument([self.baseline]).records()

    def data(self) -> Mapping[str, Any]:
        """As `shaberi baseline list` has it."""
        return BaselineDocument([self.baseline]).data()[0]
