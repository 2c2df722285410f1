"""Results of imports and exports as sentences and tables."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from shaberi_dagster.exchange.answer_files import ImportedAnswers
from shaberi_dagster.exchange.shaberi_v1 import RECORD_NAME, Export, Note
from shaberi_dagster.exchange.trees.sums import Reconciliation
from shaberi_dagster.reports.blocks import Block, Column, Document, Heading, Result, Sentences, Table, megabytes
from shaberi_dagster.runs.results.results_tree import ResultsExport

_MOST_SHOWN = 20
_MOST_NAMED = 3
_REMEDY = ": nothing can grade their answers; import a baseline cache that has the texts"
_COUNTS = ("files", "lines", "blank", "imported", "repeated", "quarantined")
_ENTRIES = ("entries", "entries_imported", "entries_repeated", "entries_quarantined")


def results_result(done: ResultsExport) -> Result:
    """Say which runs were exported."""
    runs = done.runs
    files, written, removed, size = (
        sum(getattr(run, name) for run in runs) for name in ("files", "written", "removed", "size")
    )
    what = f"{len(runs):,} runs as {files:,} files ({megabytes(size)}) in {done.folder}"
    lines = [f"{what}: {written:,} written, {files - written:,} unchanged, {removed:,} removed"]
    if done.summaries:
        lines.append(f"{len(done.summaries):,} summaries of multi-runs")
    if unfinished := [run.run_id for run in runs if run.status != "complete"]:
        lines.append(f"{len(unfinished):,} of these runs are not complete, e.g. {unfinished[0]}")
    lines += [f"not exported: {run_id}: {reason}" for run_id, reason in done.failed.items()]
    return Result([Sentences(lines)], document=done.document())


def written_result(files: Sequence[Path]) -> Result:
    """Say which files were written."""
    lines = [f"{file} written" for file in files]
    return Result([Sentences(lines)], document={"files": [str(file) for file in files]})


def tree_result(done: Export) -> Result:
    """Say what was written of a tree in the old suite's format."""
    files, rows = done.files, done.rows
    answers = f"{files['answers']:,} files with {rows['answers']:,} answers"
    judgements = f"{files['judgements']:,} with {rows['judgements']:,} judgements"
    lines = [f"{answers} and {judgements} ({megabytes(done.size)}) in {done.output}"]
    if done.same:
        lines.append(f"{done.same:,} imported files are not there twice: another tree has the same rows")
    lines += _counted("elsewhere, below sources/ or tags/", done.elsewhere)
    lines += _counted("as imported, but odd", done.oddities)
    lines += _counted("not written", done.not_written)
    if len(lines) > 1:
        lines.append(f"{RECORD_NAME} in that folder lists them one by one")
    return Result([Sentences(lines)], document=done.document())


def _counted(title: str, notes: Sequence[Note]) -> Iterator[str]:
    """Yield a line for each sentence that notes have, with an example."""
    by_what: dict[str, list[Note]] = defaultdict(list)
    for note in notes:
        by_what[note.what].append(note)
    for sentence, alike in by_what.items():
        rows = sum(note.rows for note in alike)
        yield f"{title}: {sentence}: {rows:,} rows in {len(alike):,} places, e.g. {alike[0].path}"


def trees_result(counted: Reconciliation, tag: str, *, full: bool = False) -> Result:
    """Say what became of all files that were imported from legacy trees under a tag.

    Args:
        counted: The sums.
        tag: Tag of the runs.
        full: With all sums, not only those by tree.
    """
    document = {
        "tag": tag,
        "files": counted.files.to_dicts(),
        "cells": counted.cells.to_dicts(),
        "outcomes": counted.outcomes.to_dicts(),
        "quarantine": counted.quarantine.to_dicts(),
        "unreadable_files": counted.n_unreadable,
        "not_read": counted.left_out.to_dicts(),
        "discrepancies": counted.discrepancies(),
    }
    return Result([*_of_trees(counted, full=full), Sentences([f"Scores: view-scores --tag {tag}"])], document=document)


def _of_trees(counted: Reconciliation, *, full: bool) -> Iterator[Block]:
    """Yield sums by tree, what could not be read, and whether all sums agree."""
    files, wrong = counted.files, counted.discrepancies()
    keys = ["source", "kind", "status"]
    by_tree = files.group_by(keys).agg(pl.col(*_COUNTS).sum()).sort(keys)
    yield from _titled("Files and their lines, by tree", by_tree)
    if full:
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


def logs_result(report: Mapping[str, Any]) -> Result:
    """Say what became of logs of another tool, a line for each file; see `ImportReport.document`."""
    return Result([Sentences(list(_of_logs(report)))], document=report)


def caches_result(report: Mapping[str, Any], graded: Sequence[Document] | None = None) -> Result:
    """Say what became of caches of the ensemble evaluation, a line for each file.

    Args:
        report: See `ImportReport.document`.
        graded: What rules and a vote made of the imported samples; None: no one asked for that.
    """
    parts = [
        block
        for document in graded or ()
        for block in (Heading("Graded by rules and voted on"), *document.blocks(None))
    ]
    of_graded = {} if graded is None else {"graded": [document.data() for document in graded]}
    return Result([Sentences(list(_of_logs(report, _REMEDY))), *parts], document={**report, **of_graded})


def _of_logs(report: Mapping[str, Any], remedy: str = "") -> Iterator[str]:
    files = report["files"]
    yield from map(_said_of, files)
    total = {name: sum(file[name] for file in files) for name in (*_ENTRIES, "answers", "errors", "judgements")}
    yield (
        f"{len(files):,} files: {_entries(total)}; {total['answers']:,} answers ({total['errors']:,} errors), "
        f"{total['judgements']:,} judgements; {len(report['quarantine']):,} parts quarantined"
    )
    if report["questions_without_text"]:
        yield (
            f"{report['questions_without_text']:,} questions have no text in these files "
            f"({report['questions_with_text']:,} have one){remedy}"
        )
    yield from (f"quarantined: {part['path']} {part['reason']}" for part in report["quarantine"][:_MOST_SHOWN])
    if report["quarantine"]:
        yield 'their text: shaberi sql "select path, reason, raw from legacy_quarantine"'
    yield from (f"sums do not agree: {sentence}" for sentence in report["discrepancies"])


def answers_result(done: ImportedAnswers) -> Result:
    """Say which answers came in, which rows were set aside, and which questions have none."""
    report, quarantined = done.report, done.report.quarantine.to_dicts()
    there = f"{done.n_answered:,} answered questions in run {done.run_id} ({done.n_before:,} were there)"
    lines = [f"{there}; {len(quarantined):,} rows set aside"]
    lines += [
        f"set aside: {row['path']}:{row['source_line'] or ''} {row['reason']}" for row in quarantined[:_MOST_SHOWN]
    ]
    if len(quarantined) > _MOST_SHOWN:
        lines.append('all of them: shaberi sql "select path, source_line, reason, raw from legacy_quarantine"')
    for questions, texts in done.missing.items() if done.n_answered else ():
        if texts:
            named = "; ".join(f"{' '.join(text.split())[:40]}" for text in texts[:_MOST_NAMED])
            lines.append(f"without an answer: {len(texts):,} questions of {questions}, such as {named}")
    lines += [f"sums do not agree: {sentence}" for sentence in report.discrepancies()]
    missing = {questions: len(texts) for questions, texts in done.missing.items()}
    return Result([Sentences(lines)], document={**report.document(), "run_id": done.run_id, "missing": missing})


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
    """Say what became of a cache."""
    if file["status"] != "imported":
        return f"{file['path']}: {file['status']}" + (f": {file['reason']}" if file["reason"] else "")
    answers = f"{file['responses']:,} responses -> {file['answers']:,} answers, {file['errors']:,} of them errors"
    verdicts = f"; {file['verdicts']:,} verdicts -> {file['judgements']:,} judgements" if file["verdicts"] else ""
    return f"{file['path']}: {file['kind']}: {_entries(file)}; {answers}{verdicts}"


def _entries(counts: Mapping[str, int]) -> str:
    """`100 entries (98 imported, 2 quarantined)`; nothing is said of parts that are none."""
    parts = [f"{counts[name]:,} {name.removeprefix('entries_')}" for name in _ENTRIES[1:] if counts[name]]
    return f"{counts['entries']:,} entries ({', '.join(parts) or 'none'})"
