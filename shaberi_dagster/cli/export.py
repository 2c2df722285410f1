"""`shaberi export`: the lake as files, and what is to be known about them."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.options import AsJson
from shaberi_dagster.cli.output import say
from shaberi_dagster.reports.requests import ALL_RUNS, RunSelection
from shaberi_dagster.runs.option import option
from shaberi_dagster.runs.results.formats import CACHES, FORMATS, REQUESTS, RESULTS
from shaberi_dagster.settings import Settings, check_writable
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.live import reporter_for
from shaberi_dagster.util.permissions import user_umask

EPILOG = """Examples:
  shaberi export                                           all runs, into results/
  shaberi export --model my-model --tag july --compact
  shaberi export --format shaberi-v1 --output export --source shisa    one imported tree, exactly as it was
  shaberi export --format requests --model my-model --benchmark elyza --output requests.jsonl

results: a folder MODEL/TAG for each run with manifest.json and JSON Lines; only what has changed is written. With
shaberi-v1, where several files would have one place, the first one gets it; the others are below sources/TREE or
tags/TAG.

Exit codes: 0 fine, 2 usage or configuration error, 3 some runs could not be exported, 130 interrupted."""
NOWHERE = "http://localhost:8000/v1"
"""Address in the plan of calls that are not made here; their lines have none."""
_ELSEWHERE = "name another folder with --output"


def export(
    *,
    selection: RunSelection = ALL_RUNS,
    output: Annotated[
        Path | None,
        option("how", "Folder to write; none: SHABERI_RESULTS. shaberi-v1 needs one of its own", metavar="FOLDER"),
    ] = None,
    output_format: Annotated[
        str,
        option(
            "how",
            "results: a folder for each run; shaberi-v1: trees of the old suite; requests: calls that another "
            "tool is to make, as OpenAI's batches; ensemble-cache: caches of the ensemble evaluation",
            name="--format",
            metavar="FORMAT",
        ),
    ] = RESULTS,
    compact: Annotated[bool, option("how", "results: no whole texts in normalized/, but a pointer to them")] = False,
    benchmarks: Annotated[
        list[str] | None,
        option(
            "how",
            "requests: what is to be answered; default: the four of Shaberi",
            name="--benchmark",
            known="benchmarks",
            commas=True,
        ),
    ] = None,
    config: Annotated[Path | None, option("how", "requests: a request file with parameters and questions")] = None,
    as_json: AsJson = False,
) -> int:
    """Write runs as files that other tools read."""
    if compact and output_format != RESULTS:
        raise ConfigurationError(f"--compact is of --format {RESULTS}")
    if (benchmarks or config) and output_format != REQUESTS:
        raise ConfigurationError(f"--benchmark and --config are of --format {REQUESTS}")
    with user_umask() if output else nullcontext():
        if output_format == REQUESTS:
            return export_requests(selection, output, benchmarks, config)
        settings = Settings.from_environment()
        return run_export(settings, selection, output_format, output, compact=compact, as_json=as_json)


def export_requests(
    selection: RunSelection, file: Path | None, benchmarks: Sequence[str] | None, config: Path | None
) -> int:
    """Write the calls for answers of one model, to a file or stdout.

    Raises:
        ConfigurationError: Not one model is named, or its run cannot be planned.
    """
    from shaberi_dagster.cli import output
    from shaberi_dagster.exchange import answer_files
    from shaberi_dagster.runs import request_file
    from shaberi_dagster.runs.workspace import Workspace

    asked = dict(request_file.read_values(config)) if config else {}
    if selection.models:
        asked["model"] = selection.models[0]
    if selection.tags:
        asked["tag"] = selection.tags[0]
    if len(selection.models) > 1 or len(selection.tags) > 1 or "model" not in asked:
        raise ConfigurationError(f"--format {REQUESTS} needs one model and tag: name it with --model")
    asked |= {"benchmarks": benchmarks} if benchmarks else {}
    request, _ = request_file.request_from({"base_url": NOWHERE} | asked)
    lines = answer_files.requests_of(request, Workspace(Settings.from_environment()))
    if file is None:
        sys.stdout.flush()
        sys.stdout.buffer.writelines(lines)
        return FINE
    with output.opened(file, "wb") as target:
        target.writelines(lines)
    return FINE


def run_export(
    settings: Settings,
    selection: RunSelection,
    output_format: str = RESULTS,
    output: Path | None = None,
    *,
    compact: bool = False,
    as_json: bool = False,
) -> int:
    """Export and say on stdout what was written, with the progress on stderr.

    Returns:
        The exit code: `FAILED_PARTS` when a run could not be exported.

    Raises:
        ConfigurationError: There is no such format, no lake, nothing to export, or the folder has other files.
    """
    from shaberi_dagster.exchange import cache_files, outcomes, shaberi_v1
    from shaberi_dagster.lake import store
    from shaberi_dagster.reports import write
    from shaberi_dagster.runs.results import results_tree

    write.check_format(output_format, FORMATS)
    lake, reporter = store.Lake(settings.warehouse), reporter_for(sys.stderr)
    if output_format == RESULTS:
        folder = output or settings.results
        check_writable(folder, _ELSEWHERE)
        if output:
            results_tree.check_place(folder)
            folder.mkdir(parents=True, exist_ok=True)
        with reporter.watching():
            done = results_tree.export_runs(lake, folder, compact=compact, changed=reporter.changed, **vars(selection))
        say(outcomes.results_result(done), as_json=as_json)
        return FAILED_PARTS if done.failed else FINE
    if output is None:
        raise ConfigurationError(f"--format {output_format} needs --output, the folder to write")
    check_writable(output, _ELSEWHERE)
    if output_format == CACHES:
        say(outcomes.written_result(cache_files.export_caches(lake, output, selection)), as_json=as_json)
        return FINE
    with reporter.watching():
        tree = shaberi_v1.export(lake, output, selection, changed=reporter.changed)
    say(outcomes.tree_result(tree), as_json=as_json)
    return FINE
