"""What `shaberi import-legacy` does: import in this process, then show what became of every file and line."""

import json
import sys
from collections.abc import Sequence

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.lake.compaction import surplus_files
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.legacy.importing import named_trees, reconcile_lake
from shaberi_dagster.legacy.reconcile import Reconciliation
from shaberi_dagster.rendering.live import reporter_for
from shaberi_dagster.rendering.text import json_safe, printable
from shaberi_dagster.runs.workspace import reporting_to
from shaberi_dagster.settings import Settings

_MOST_LINES_SHOWN = 20
_MANY_FILES = 100  # over a thousand small ones a leaderboard takes ten times as long
_COUNTS = ("files", "lines", "blank", "imported", "repeated", "quarantined")


def import_trees(settings: Settings, trees: Sequence[str], tag: str, models: str, *, log_runs: bool) -> None:
    """Materialize the import of each tree in this process, on the instance that the UI shows.

    Args:
        settings: Where the lake and the instance are.
        trees: `NAME=FOLDER` or `FOLDER`.
        tag: Tag of the runs.
        models: Pattern of file names.
        log_runs: Whether the runs become materialized partitions.

    Raises:
        ConfigurationError: A tree is no folder, or there is nothing to import.
    """
    named = named_trees(trees)
    # The UI shows folders; a relative one would mean another folder there.
    asked = [f"{name}={folder}" for name, folder in named.items()]
    reporter = reporter_for(sys.stderr)
    with reporting_to(reporter):
        from shaberi_dagster.definitions import run_job  # noqa: PLC0415
        from shaberi_dagster.defs.execution import close_dead_runs, open_instance  # noqa: PLC0415
        from shaberi_dagster.defs.legacy import TREES_NAME  # noqa: PLC0415
        from shaberi_dagster.defs.options import IMPORT, IMPORT_JOB  # noqa: PLC0415

        instance = open_instance(settings.dagster_home)
        close_dead_runs(instance)
        instance.add_dynamic_partitions(TREES_NAME, list(named))
        tags = {"shaberi/command": "import-legacy"}
        config = {"trees": asked, "tag": tag, "models": models, "log_runs": log_runs}
        for name in named:
            run_job(IMPORT_JOB, instance, ops={IMPORT: {"config": config}}, partition_key=name, tags=tags)
        if (surplus := surplus_files(Lake(settings.warehouse))) >= _MANY_FILES:
            reporter.note(f"the lake has {surplus:,} files more than it needs: `shaberi compact` puts them together")


def show_report(settings: Settings, tag: str, *, full: bool, as_json: bool) -> int:
    """Print what became of all files that were imported under a tag.

    Args:
        settings: Where the lake is.
        tag: Tag of the runs.
        full: With all sums, not only those by tree.
        as_json: As one document, which always has all of them.

    Returns:
        `FAILED_PARTS` when lines or files were not read, or sums do not agree.

    Raises:
        ConfigurationError: Nothing was imported under that tag.
    """
    counted = reconcile_lake(Lake(settings.warehouse), tag)
    wrong = counted.discrepancies()
    if as_json:
        sys.stdout.write(_as_json(counted, tag))
    else:
        _print(counted, Console(width=None if sys.stdout.isatty() else 1000), full=full)
    for sentence in wrong:
        print(f"sums do not agree: {sentence}", file=sys.stderr)  # noqa: T201
    return FAILED_PARTS if wrong or counted.quarantine.height or counted.left_out.height else FINE


def _as_json(counted: Reconciliation, tag: str) -> str:
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
    return json_safe(json.dumps(document, ensure_ascii=False, indent=2)) + "\n"


def _print(counted: Reconciliation, console: Console, *, full: bool) -> None:
    files = counted.files
    keys = ["source", "kind", "status"]
    by_tree = files.group_by(keys).agg(pl.col(*_COUNTS).sum()).sort(keys)
    # What is not read has no lines.
    _table(console, "Files and their lines, by tree", by_tree)
    if full:
        _table(console, "By judge and dataset folder", files)
        _table(console, "Judgements by judge and benchmark", counted.cells)
        _table(console, "Rows by outcome", counted.outcomes)
    if counted.quarantine.height:
        _table(console, "Lines that could not become rows", counted.quarantine.head(_MOST_LINES_SHOWN))
    if counted.left_out.height:
        _table(console, "Files and folders that were not read", counted.left_out.head(_MOST_LINES_SHOWN))
    lines, left_out = int(files["lines"].sum()), counted.quarantine.height
    console.print(
        Text(f"{lines:,} lines: {int(files['imported'].sum()):,} imported, {int(files['repeated'].sum()):,} repeated, ")
        + Text(f"{int(files['blank'].sum()):,} blank, ")
        + Text(f"{left_out:,} quarantined", style="bold red" if left_out else "")
        + Text("; all sums agree." if not counted.discrepancies() else "; sums do not agree.")
    )
    if left_out:
        console.print('Their text: shaberi sql "select path, source_line, reason, raw from lake.legacy_quarantine"')
    if counted.left_out.height:
        console.print(
            Text(f"{counted.left_out.height:,} files or folders were not read, or not to their end.", style="bold red")
        )


def _table(console: Console, title: str, frame: pl.DataFrame) -> None:
    """A frame with its numbers aligned; columns that say nothing are left out."""
    shown = [column for column in frame.columns if frame[column].null_count() < frame.height]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title_justify="left", title=Text(title, style="bold"))
    for name in shown:
        number = frame.schema[name].is_numeric()
        table.add_column(Text(name.replace("_", " ")), justify="right" if number else "left", overflow="fold")
    for row in frame.select(shown).iter_rows():
        table.add_row(*(Text(_cell(value)) for value in row))
    console.print(table)
    console.print()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:,}" if isinstance(value, int) else printable(str(value))
