"""Reports of imports of other tools' logs: counts of every file, and sums that must agree with the rows of the lake."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl


class FileCounts(NamedTuple):
    """Counts of a file: entries, responses and verdicts, each imported, repeated or quarantined.

    Attributes:
        path: The file.
        kind: What it is.
        status: imported, duplicate, unknown or unreadable.
        reason: Why it was not imported.
        entries: Entries in all.
        entries_imported: Those that became rows.
        entries_repeated: Those whose rows were in the lake.
        entries_quarantined: Those that could not become rows.
        responses: Responses of the imported entries.
        answers: Rows they became.
        errors: How many of those say an error.
        responses_quarantined: Responses that could not become rows.
        verdicts: Verdicts of the imported entries.
        judgements: Rows they became.
        verdicts_quarantined: Verdicts that could not become rows.
    """

    path: str
    kind: str
    status: str
    reason: str | None = None
    entries: int = 0
    entries_imported: int = 0
    entries_repeated: int = 0
    entries_quarantined: int = 0
    responses: int = 0
    answers: int = 0
    errors: int = 0
    responses_quarantined: int = 0
    verdicts: int = 0
    judgements: int = 0
    verdicts_quarantined: int = 0


@dataclass(frozen=True)
class ImportReport:
    """Outcome of an import.

    Attributes:
        files: What became of each file, in the order of their paths.
        runs: The runs that the files are parts of.
        questions_with_text: Questions of these runs whose text is known, over all benchmarks.
        questions_without_text: The others; their ids are made from the source's ids.
        quarantine: Rows of `legacy_quarantine`.
        changed: Whether anything was written.
    """

    files: Sequence[FileCounts]
    runs: Sequence[str]
    questions_with_text: int
    questions_without_text: int
    quarantine: pl.DataFrame
    changed: bool

    @property
    def n_unreadable(self) -> int:
        """The number of files that could not be read at all."""
        return sum(file.status == "unreadable" for file in self.files)

    def document(self) -> dict[str, Any]:
        """It as plain values for JSON; of what is quarantined where it is and why."""
        return {
            "files": [file._asdict() for file in self.files],
            "runs": list(self.runs),
            "questions_with_text": self.questions_with_text,
            "questions_without_text": self.questions_without_text,
            "quarantine": self.quarantine.select("source", "path", "source_line", "reason").to_dicts(),
            "unreadable_files": self.n_unreadable,
            "discrepancies": self.discrepancies(),
            "changed": self.changed,
        }

    def discrepancies(self) -> list[str]:
        """Sums that do not agree, one sentence each; none is as it must be."""
        found = []
        for file in self.files:
            sums = {
                "entries": (file.entries, file.entries_imported + file.entries_repeated + file.entries_quarantined),
                "responses": (file.responses, file.answers + file.responses_quarantined),
                "verdicts": (file.verdicts, file.judgements + file.verdicts_quarantined),
            }
            found += [
                f"{file.path}: {there:,} {unit}, {became:,} accounted for"
                for unit, (there, became) in sums.items()
                if there != became
            ]
        return found
