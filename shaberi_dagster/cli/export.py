"""`shaberi export`: the lake as files, and what is to be known about them."""

import sys
from pathlib import Path

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.output import say
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.export.results_tree import MANIFEST, RESULTS, export_runs
from shaberi_dagster.export.shaberi_v1 import FORMAT, ExportSelection, export
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.rendering.exports import ResultsDocument, TreeDocument
from shaberi_dagster.rendering.live import reporter_for
from shaberi_dagster.settings import Settings, check_writable

FORMATS = (RESULTS, FORMAT)
_ELSEWHERE = "name another folder with --output"


def run_export(
    settings: Settings,
    output: Path | None,
    output_format: str,
    selection: ExportSelection,
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
        say(ResultsDocument(done), as_json=as_json)
        return FAILED_PARTS if done.failed else FINE
    if output is None:
        raise ConfigurationError(f"--format {FORMAT} needs --output, the folder to write")
    if compact:
        raise ConfigurationError(f"--compact goes with --format {RESULTS}")
    check_writable(output, _ELSEWHERE)
    with reporter.watching():
        tree = export(lake, output, selection, changed=reporter.changed)
    say(TreeDocument(tree), as_json=as_json)
    return FINE
