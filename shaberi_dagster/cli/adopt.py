"""`shaberi adopt`: the old suite's prompts, parameters and score parsers, read from a checkout of it."""

from pathlib import Path
from typing import Annotated

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.output import say, tell
from shaberi_dagster.reports.blocks import Result, Sentences
from shaberi_dagster.runs.option import option
from shaberi_dagster.settings import Settings

EPILOG = """Examples:
  shaberi adopt ../shaberi
  shaberi adopt ../shaberi --commit 23ffa1e --name old
  run-evals --preset old --model my-model --base-url http://localhost:8000/v1 --judge-model gpt-4.1-2025-04-14"""


def adopt(
    path: Annotated[Path, option("what", "A checkout: a git repository or a folder", metavar="PATH")],
    /,
    *,
    commit: Annotated[str | None, option("what", "Hash, tag or branch; default: HEAD", metavar="COMMIT")] = None,
    name: Annotated[str | None, option("what", "Of the set; default: of repository and commit", metavar="NAME")] = None,
) -> int:
    """Adopt the old suite's prompts, parameters and score parsers from a checkout. Runs none of its code."""
    from shaberi_dagster.exchange.suite import writing
    from shaberi_dagster.runs.workspace import Workspace
    from shaberi_dagster.tasks.judges import own

    settings = Settings.from_environment()
    taken = {*own.JUDGES, *Workspace(settings).prompts.variants}
    adoption = writing.adopt(path, commit, name, settings.plugins[0], taken)
    say(Result([Sentences(adoption.sentences)]))
    if not adoption.refusals:
        return FINE
    tell(adoption.refusals)
    return FAILED_PARTS
