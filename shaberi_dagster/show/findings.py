"""How it is shown whether everything is in place."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from shaberi_dagster.reports.findings import CheckResult
from shaberi_dagster.reports.report import Block, Document, Sentences


@dataclass(frozen=True)
class FindingsDocument(Document):
    """Findings in each of the formats.

    Attributes:
        findings: In the order in which they were made.
    """

    findings: Sequence[CheckResult]

    def blocks(self, width: int | None) -> Iterator[Block]:
        """A line for each."""
        del width
        yield Sentences([f"{'ok  ' if one.fine else 'FAIL'}  {one.what}: {one.detail}" for one in self.findings])

    def records(self) -> Iterable[Mapping[str, Any]]:
        """A line for each."""
        return map(asdict, self.findings)

    def data(self) -> Sequence[Mapping[str, Any]]:
        """A list of all."""
        return list(self.records())
