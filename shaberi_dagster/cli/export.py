"""`shaberi export`: the lake as files, and what is to be known about them."""

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.export.results_tree import MANIFEST, RESULTS, ResultsExport, export_runs
from shaberi_dagster.export.shaberi_v1 import FORMAT, RECORD_NAME, Export, Note, Selection, export
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.rendering.live import reporter_for
from shaberi_dagster.rendering.text import json_safe, printable
from shaberi_dagster.settings import Settings, check_writable

FORMATS = (RESULTS, FORMAT)
_ELSEWHERE = "name another folder with --output"


def run_export(
    settings: Settings,
    output: Path | None,
    output_format: str,
    selection: Selection,
    *,
    compact: bool = False,
    as_json: bool = False,
) -> int:
    """Export and say on stdout what was written, with the progress on stderr.

    Args:
        settings: Where the lake is, and the results.
        output: The folder; None is that of the results.
        output_format: One of `FORMATS`.
        selection: What to export.
        compact: Without the long texts in the normalized files of the results.
        as_json: One JSON document instead of sentences.

    Returns:
        The exit code: `FAILED_PARTS` when a run could not be exported.

    Raises:
        ConfigurationError: There is no such format, no lake, nothing to export, or the folder has other files.
    """
    if output_format not in FORMATS:
        raise ConfigurationError(f"--format must be one of {', '.join(FORMATS)}, not {output_format!r}")
    lake, reporter = Lake(settings.warehouse), reporter_for(sys.stderr)
    if output_format == RESULTS:
        if selection.sources:
            raise ConfigurationError(f"--source goes with --format {FORMAT}: runs are chosen by --model and --tag")
        folder = output or settings.results
        check_writable(folder, _ELSEWHERE)
        if output and output.is_dir() and any(output.iterdir()) and not any(output.glob(f"*/*/{MANIFEST}")):
            raise ConfigurationError(f"--output {output} is neither empty nor a folder of results: name another one")
        with reporter.watching():
            done = export_runs(
                lake, folder, models=selection.models, tags=selection.tags, compact=compact, changed=reporter.changed
            )
        _say(done.document(), results_summary(done), as_json=as_json)
        return FAILED_PARTS if done.failed else FINE
    if output is None:
        raise ConfigurationError(f"--format {FORMAT} needs --output, the folder to write")
    if compact:
        raise ConfigurationError(f"--compact goes with --format {RESULTS}")
    check_writable(output, _ELSEWHERE)
    with reporter.watching():
        tree = export(lake, output, selection, changed=reporter.changed)
    _say(tree.document(), summary(tree), as_json=as_json)
    return FINE


def _say(document: dict[str, Any], lines: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print(json_safe(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()))  # noqa: T201
        return
    for line in lines:
        print(printable(line))  # noqa: T201


def results_summary(done: ResultsExport) -> list[str]:
    """What was written of the results, in a few lines."""
    files = sum(run.files for run in done.runs)
    written, removed = (sum(getattr(run, name) for run in done.runs) for name in ("written", "removed"))
    size = sum(run.size for run in done.runs)
    what = f"{len(done.runs):,} runs as {files:,} files ({size / 1e6:,.1f} MB) in {done.folder}"
    lines = [f"{what}: {written:,} written, {files - written:,} unchanged, {removed:,} removed"]
    if done.summaries:
        lines.append(f"{len(done.summaries):,} summaries of multi-runs")
    unfinished = [run.run_id for run in done.runs if run.status != "complete"]
    if unfinished:
        lines.append(f"{len(unfinished):,} of these runs are not complete, e.g. {unfinished[0]}")
    return lines + [f"not exported: {run_id}: {reason}" for run_id, reason in done.failed.items()]


def summary(done: Export) -> list[str]:
    """What was written, in a few lines."""
    files, rows = done.files, done.rows
    answers = f"{files['answers']:,} files with {rows['answers']:,} answers"
    judgements = f"{files['judgements']:,} with {rows['judgements']:,} judgements"
    lines = [f"{answers} and {judgements} ({done.size / 1e6:,.1f} MB) in {done.output}"]
    if done.same:
        lines.append(f"{done.same:,} imported files are not there twice: another tree has the same rows")
    lines += _counted("elsewhere, below sources/ or tags/", done.elsewhere)
    lines += _counted("as imported, but odd", done.oddities)
    lines += _counted("not written", done.not_written)
    if len(lines) > 1:
        lines.append(f"{RECORD_NAME} in that folder lists them one by one")
    return lines


def _counted(title: str, notes: Sequence[Note]) -> list[str]:
    """One line for each thing there is to say, with an example."""
    by_what: dict[str, list[Note]] = defaultdict(list)
    for note in notes:
        by_what[note.what].append(note)
    return [
        f"{title}: {what}: {sum(note.rows for note in those):,} rows in {len(those):,} places, e.g. {those[0].path}"
        for what, those in by_what.items()
    ]
