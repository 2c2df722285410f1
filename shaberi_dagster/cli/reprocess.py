"""What `shaberi reprocess` does: make stored runs anew in this process, without any call."""

import sys
from collections.abc import Sequence

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.catalog import logged_versions
from shaberi_dagster.passes.registry import make_pipeline
from shaberi_dagster.rendering.live import reporter_for
from shaberi_dagster.runs.workspace import reporting_to
from shaberi_dagster.settings import Settings


def reprocess_runs(
    settings: Settings, passes: Sequence[str], options: Sequence[str], models: Sequence[str], tags: Sequence[str]
) -> None:
    """Parse stored outputs again, apply passes, derive scores and metrics.

    Args:
        settings: Where the lake and the instance are.
        passes: One more pipeline; none: those there are.
        options: Settings of the passes, `NAME.SETTING=VALUE`.
        models: Only these; none means all.
        tags: Only runs with these tags or base tags; none means all.

    Raises:
        ConfigurationError: There is no such run or pass.
    """
    make_pipeline(passes, options)  # a wrong name is said before anything is started
    if not logged_versions(settings.warehouse):
        raise ConfigurationError(f"no lake in {settings.warehouse}: run run-evals first, or set SHABERI_WAREHOUSE")
    reporter = reporter_for(sys.stderr)
    with reporting_to(reporter):
        from shaberi_dagster.definitions import run_job  # noqa: PLC0415
        from shaberi_dagster.defs.execution import close_dead_runs, open_instance  # noqa: PLC0415
        from shaberi_dagster.defs.options import REPROCESS, REPROCESS_JOB  # noqa: PLC0415

        instance = open_instance(settings.dagster_home)
        close_dead_runs(instance)
        config = {"passes": list(passes), "pass_options": list(options), "models": list(models), "tags": list(tags)}
        done = run_job(
            REPROCESS_JOB, instance, ops={REPROCESS: {"config": config}}, tags={"shaberi/command": "reprocess"}
        ).output_for_node(REPROCESS)
        reporter.note(f"{done['runs']} runs made anew, {done['imported']} of them imported; no call was made")
