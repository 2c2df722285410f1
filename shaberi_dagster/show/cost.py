"""How the cost of runs is shown."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from shaberi_dagster.reports.cost import CostReport
from shaberi_dagster.reports.report import Block, Document, Sentences
from shaberi_dagster.reports.scores import TokenRow
from shaberi_dagster.show.tokens import token_table


@dataclass(frozen=True)
class CostDocument(Document):
    """What runs cost: a line for each run, stage and benchmark, and the total."""

    report: CostReport

    csv_columns: ClassVar = [field.name for field in fields(TokenRow)]

    def blocks(self, width: int | None) -> Iterator[Block]:
        """One table."""
        if self.report.rows:
            yield token_table(self.report.rows, whole=width is None)
        else:
            yield Sentences(["No call was made for these runs: imported ones do not say what they cost."])

    def records(self) -> Iterable[Mapping[str, Any]]:
        """A line for each run, stage and benchmark."""
        return (asdict(row) | {"price_sources": ", ".join(row.price_sources)} for row in self.report.rows)

    def data(self) -> Mapping[str, Any]:
        """All rows, and their sum."""
        return {"rows": [asdict(row) for row in self.report.rows], "total": self.report.total._asdict()}
