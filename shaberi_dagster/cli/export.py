"""`shaberi export`: the lake as files, and what is to be known about them."""

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import orjson

from shaberi_dagster.cli.live import reporter_for
from shaberi_dagster.cli.text import json_safe, printable
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.export.shaberi_v1 import FORMAT, RECORD_NAME, Export, Note, Selection, export
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.settings import Settings

FORMATS = (FORMAT,)


def run_export(settings: Settings, output: Path, output_format: str, selection: Selection, *, as_json: bool) -> None:
    """Export and say on stdout what was written, with the progress on stderr.

    Args:
        settings: Where the lake is.
        output: The folder.
        output_format: One of `FORMATS`.
        selection: What to export.
        as_json: One JSON document instead of sentences.

    Raises:
        ConfigurationError: There is no such format, no lake, nothing to export, or the folder has other files.
    """
    if output_format not in FORMATS:
        raise ConfigurationError(f"--format must be one of {', '.join(FORMATS)}, not {output_format!r}")
    reporter = reporter_for(sys.stderr)
    with reporter.watching():
        done = export(Lake(settings.warehouse), output, selection, changed=reporter.changed)
    if as_json:
        print(json_safe(orjson.dumps(done.document(), option=orjson.OPT_INDENT_2).decode()))  # noqa: T201
        return
    for line in summary(done):
        print(printable(line))  # noqa: T201


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
