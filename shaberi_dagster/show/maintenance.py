"""What was done to a lake as a whole, as it is shown: compaction, a copy."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from shaberi_dagster.lake.copying import Copied
from shaberi_dagster.reports.figures import megabytes
from shaberi_dagster.reports.report import Block, Document, Sentences


@dataclass(frozen=True)
class CompactionDocument(Document):
    """How many files compaction has left.

    Attributes:
        counts: For each table, as `Lake.compact` counts them.
    """

    counts: Mapping[str, Mapping[str, int]]

    def blocks(self, width: int | None) -> Iterator[Block]:
        """A line for each table."""
        del width
        yield Sentences(
            [
                f"{table}: {one['files_before']} files -> {one['files_after']}, {one['files_deleted']} deleted"
                for table, one in self.counts.items()
            ]
        )

    def records(self) -> Iterable[Mapping[str, Any]]:
        """A line for each table."""
        return ({"table": table, **one} for table, one in self.counts.items())

    def data(self) -> Mapping[str, Any]:
        """The counts of each table."""
        return {table: dict(one) for table, one in self.counts.items()}


@dataclass(frozen=True)
class CopyDocument(Document):
    """What a copy of a lake has.

    Attributes:
        copied: What was copied.
        target: Where it is.
    """

    copied: Copied
    target: str

    def blocks(self, width: int | None) -> Iterator[Block]:
        """One line."""
        del width
        copied = self.copied
        rows = f"{sum(copied.rows.values()):,} rows of {len(copied.rows)} tables"
        files = f"{copied.files:,} files ({megabytes(copied.size)})"
        yield Sentences([f"{rows}, {files}, are the same in {self.target}"])

    def records(self) -> Iterable[Mapping[str, Any]]:
        """A line for each table."""
        return ({"table": table, "rows": n} for table, n in self.copied.rows.items())

    def data(self) -> Mapping[str, Any]:
        """All that was counted."""
        return asdict(self.copied) | {"target": self.target}
