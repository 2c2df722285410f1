"""What assets work with."""

import dagster as dg

from shaberi_dagster.progress import LogReporter
from shaberi_dagster.settings import Settings
from shaberi_dagster.workspace import Workspace


class WorkspaceResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The lake and the prompts of this installation, from the environment of the process."""

    def workspace(self, log: dg.DagsterLogManager | None = None) -> Workspace:
        """The workspace; without a terminal, progress goes to the run's log."""
        reporter = LogReporter(log.info) if log else LogReporter(lambda _: None)
        return Workspace(Settings.from_environment(), default_reporter=reporter)
