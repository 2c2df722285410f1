"""How it is shown what became of everything that was to be imported."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from shaberi_dagster.exchange.legacy.reconcile import Reconciliation
from shaberi_dagster.reports.report import Block, Column, Document, Heading, Sentences, Table
from shaberi_dagster.show.ensemble import EnsembleDocument

_MOST_SHOWN = 20
_COUNTS = ("files", "lines", "blank", "imported", "repeated", "quarantined")
_ENTRIES = ("entries", "entries_imported", "entries_repeated", "entries_quarantined")


@dataclass(frozen=True)
class ImportDocument(Document):
    """What became of all files that were imported from legacy trees under a tag.

    Attributes:
        counted: The sums.
        tag: Tag of the runs.
        full: With all sums, not only those by tree.
    """

    counted: Reconciliation
    tag: str
    full: bool = False

    def blocks(self, width: int | None) -> Iterator[Block]:
        """Sums by tree, what could not be read, and a line that says whether all sums agree."""
        del width
        counted, files, wrong = self.counted, self.counted.files, self.counted.discrepancies()
        keys = ["source", "kind", "status"]
        by_tree = files.group_by(keys).agg(pl.col(*_COUNTS).sum()).sort(keys)
        yield from _titled("Files and their lines, by tree", by_tree)
        if self.full:
            yield from _titled("By judge and dataset folder", files)
            yield from _titled("Judgements by judge and benchmark", counted.cells)
            yield from _titled("Rows by outcome", counted.outcomes)
        if counted.quarantine.height:
            yield from _titled("Lines that could not become rows", counted.quarantine.head(_MOST_SHOWN))
        if counted.left_out.height:
            yield from _titled("Files and folders that were not read", counted.left_out.head(_MOST_SHOWN))
        sums = ", ".join(f"{int(files[name].sum()):,} {name}" for name in ("imported", "repeated", "blank"))
        sums = f"{int(files['lines'].sum()):,} lines: {sums}, {counted.quarantine.height:,} quarantined"
        yield Sentences([f"{sums}; {'sums do not agree' if wrong else 'all sums agree'}."])
        if counted.quarantine.height:
            sql = "select path, source_line, reason, raw from lake.legacy_quarantine"
            yield Sentences([f'Their text: shaberi sql "{sql}"'], "note")
        problems = [f"sums do not agree: {sentence}" for sentence in wrong]
        if counted.left_out.height:
            problems.append(f"{counted.left_out.height:,} files or folders were not read, or not to their end.")
        if problems:
            yield Sentences(problems, "warning")

    def records(self) -> Iterable[Mapping[str, Any]]:
        """Files and lines by source, kind, judge, dataset and status."""
        return self.counted.files.to_dicts()

    def data(self) -> Mapping[str, Any]:
        """All sums."""
        counted = self.counted
        return {
            "tag": self.tag,
            "files": counted.files.to_dicts(),
            "cells": counted.cells.to_dicts(),
            "outcomes": counted.outcomes.to_dicts(),
            "quarantine": counted.quarantine.to_dicts(),
            "unreadable_files": counted.n_unreadable,
            "not_read": counted.left_out.to_dicts(),
            "discrepancies": counted.discrepancies(),
        }


@dataclass(frozen=True)
class CachesDocument(Document):
    """What became of caches of the ensemble evaluation.

    Attributes:
        report: See `EnsembleImport.document`.
        graded: What rules and a vote made of the imported samples; None: nobody asked for that.
    """

    report: Mapping[str, Any]
    graded: Sequence[EnsembleDocument] | None = None

    def blocks(self, width: int | None) -> Iterator[Block]:
        """A line for each file, and what is to be known of all of them."""
        yield Sentences(list(self._lines()))
        for document in self.graded or ():
            yield Heading("Graded by rules and voted on")
            yield from document.blocks(width)

    def records(self) -> Iterable[Mapping[str, Any]]:
        """The files."""
        files: list[Mapping[str, Any]] = self.report["files"]
        return files

    def data(self) -> Mapping[str, Any]:
        """The report, with what was graded if that was asked for."""
        graded = {} if self.graded is None else {"graded": [document.data() for document in self.graded]}
        return {**self.report, **graded}

    def _lines(self) -> Iterator[str]:
        report, files = self.report, self.report["files"]
        yield from map(_said_of, files)
        total = {name: sum(file[name] for file in files) for name in (*_ENTRIES, "answers", "errors", "judgements")}
        yield (
            f"{len(files):,} files: {_entries(total)}; {total['answers']:,} answers ({total['errors']:,} errors), "
            f"{total['judgements']:,} judgements; {len(report['quarantine']):,} parts quarantined"
        )
        if report["questions_without_text"]:
            yield (
                f"{report['questions_without_text']:,} questions have ids made from those of the caches, which do not "
                f"have their texts ({report['questions_with_text']:,} have): import a baseline cache with them, and "
                "the ids become those of the texts"
            )
        yield from (f"quarantined: {one['path']} {one['reason']}" for one in report["quarantine"][:_MOST_SHOWN])
        if report["quarantine"]:
            yield 'their text: shaberi sql "select path, reason, raw from legacy_quarantine"'
        yield from (f"sums do not agree: {sentence}" for sentence in report["discrepancies"])


def _titled(title: str, frame: pl.DataFrame) -> Iterator[Block]:
    """A frame with its numbers aligned; columns that say nothing are left out."""
    yield Heading(title)
    yield Table(
        [
            Column(
                column.name.replace("_", " "),
                cells=[_cell(value) for value in column],
                left=not column.dtype.is_numeric(),
                folds=not column.dtype.is_numeric(),
            )
            for column in frame
            if column.null_count() < frame.height
        ]
    )


def _cell(value: object) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return "yes"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _said_of(file: Mapping[str, Any]) -> str:
    """What became of a cache."""
    if file["status"] != "imported":
        return f"{file['path']}: {file['status']}" + (f": {file['reason']}" if file["reason"] else "")
    answers = f"{file['responses']:,} responses -> {file['answers']:,} answers, {file['errors']:,} of them errors"
    verdicts = f"; {file['verdicts']:,} verdicts -> {file['judgements']:,} judgements" if file["verdicts"] else ""
    return f"{file['path']}: {file['kind']}: {_entries(file)}; {answers}{verdicts}"


def _entries(counts: Mapping[str, int]) -> str:
    """`100 entries (98 imported, 2 quarantined)`; nothing is said of parts that are none."""
    parts = [f"{counts[name]:,} {name.removeprefix('entries_')}" for name in _ENTRIES[1:] if counts[name]]
    return f"{counts['entries']:,} entries ({', '.join(parts) or 'none'})"
