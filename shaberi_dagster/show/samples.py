"""How the samples of a run are shown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from shaberi_dagster.reports.report import Block, Document, Sentences
from shaberi_dagster.reports.samples import Samples


@dataclass(frozen=True)
class SamplesDocument(Document):
    """The samples of a run in each of the formats.

    Attributes:
        samples: By benchmark.
    """

    samples: Sequence[Samples]

    def blocks(self, width: int | None) -> Iterator[Block]:
        """A line for each benchmark."""
        del width
        yield Sentences([_line(one) for one in self.samples])

    def records(self) -> Iterable[Mapping[str, Any]]:
        """A line for each benchmark."""
        return (asdict(one) | {"failed": one.failed} for one in self.samples)

    def data(self) -> Sequence[Mapping[str, Any]]:
        """A list of all benchmarks."""
        return list(self.records())


def _line(one: Samples) -> str:
    there = f"{one.made} of {one.planned} samples of {one.n_questions} questions"
    return f"{one.benchmark} ({one.question_set}): {there}" + (f", {one.failed} failed" if one.failed else "")
