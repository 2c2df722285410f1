"""How it is shown what an export wrote."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shaberi_dagster.exchange.results.results_tree import ResultsExport
from shaberi_dagster.exchange.results.shaberi_v1 import RECORD_NAME, Export, Note
from shaberi_dagster.reports.figures import megabytes
from shaberi_dagster.reports.report import Block, Document, Sentences


@dataclass(frozen=True)
class ResultsDocument(Document):
    """What was written of the results.

    Attributes:
        done: The runs and their files.
    """

    done: ResultsExport

    def blocks(self, width: int | None) -> Iterator[Block]:
        """A few lines."""
        del width
        yield Sentences(list(self._lines()))

    def records(self) -> Iterable[Mapping[str, Any]]:
        """The runs."""
        runs: list[Mapping[str, Any]] = self.data()["runs"]
        return runs

    def data(self) -> Mapping[str, Any]:
        """All of it."""
        return self.done.document()

    def _lines(self) -> Iterator[str]:
        runs = self.done.runs
        files, written, removed, size = (
            sum(getattr(run, name) for run in runs) for name in ("files", "written", "removed", "size")
        )
        what = f"{len(runs):,} runs as {files:,} files ({megabytes(size)}) in {self.done.folder}"
        yield f"{what}: {written:,} written, {files - written:,} unchanged, {removed:,} removed"
        if self.done.summaries:
            yield f"{len(self.done.summaries):,} summaries of multi-runs"
        if unfinished := [run.run_id for run in runs if run.status != "complete"]:
            yield f"{len(unfinished):,} of these runs are not complete, e.g. {unfinished[0]}"
        yield from (f"not exported: {run_id}: {reason}" for run_id, reason in self.done.failed.items())


@dataclass(frozen=True)
class TreeDocument(Document):
    """What was written of a tree in the old suite's format.

    Attributes:
        done: The files, and what is to be known about them.
    """

    done: Export

    def blocks(self, width: int | None) -> Iterator[Block]:
        """A few lines."""
        del width
        yield Sentences(list(self._lines()))

    def records(self) -> Iterable[Mapping[str, Any]]:
        """The notes, each with what it is about."""
        titles = ("elsewhere", "oddities", "not_written")
        return ({"about": title, **note._asdict()} for title in titles for note in getattr(self.done, title))

    def data(self) -> Mapping[str, Any]:
        """All of it."""
        return self.done.document()

    def _lines(self) -> Iterator[str]:
        done, files, rows = self.done, self.done.files, self.done.rows
        answers = f"{files['answers']:,} files with {rows['answers']:,} answers"
        judgements = f"{files['judgements']:,} with {rows['judgements']:,} judgements"
        yield f"{answers} and {judgements} ({megabytes(done.size)}) in {done.output}"
        if done.same:
            yield f"{done.same:,} imported files are not there twice: another tree has the same rows"
        yield from _counted("elsewhere, below sources/ or tags/", done.elsewhere)
        yield from _counted("as imported, but odd", done.oddities)
        yield from _counted("not written", done.not_written)
        if done.same or done.elsewhere or done.oddities or done.not_written:
            yield f"{RECORD_NAME} in that folder lists them one by one"


@dataclass(frozen=True)
class FilesDocument(Document):
    """Files that were written.

    Attributes:
        paths: Where they are.
    """

    paths: Sequence[Path]

    def blocks(self, width: int | None) -> Iterator[Block]:
        """A line for each."""
        del width
        yield Sentences([str(path) for path in self.paths])

    def records(self) -> Iterable[Mapping[str, Any]]:
        """A line for each."""
        return ({"path": str(path)} for path in self.paths)

    def data(self) -> Sequence[Mapping[str, Any]]:
        """A list of all."""
        return list(self.records())


def _counted(title: str, notes: Sequence[Note]) -> Iterator[str]:
    """One line for each thing there is to say, with an example."""
    by_what: dict[str, list[Note]] = defaultdict(list)
    for note in notes:
        by_what[note.what].append(note)
    for what, those in by_what.items():
        rows = sum(note.rows for note in those)
        yield f"{title}: {what}: {rows:,} rows in {len(those):,} places, e.g. {those[0].path}"
