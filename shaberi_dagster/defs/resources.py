"""What assets work with."""

import dagster as dg

from shaberi_dagster.progress import LogReporter
from shaberi_dagster.runspec import CallOptions
from shaberi_dagster.settings import Settings
from shaberi_dagster.workspace import Workspace

COMMAND_TAG = "shaberi/command_id"


class WorkspaceResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The lake and the prompts of this installation, from the environment of the process."""

    def workspace(
        self, log: dg.DagsterLogManager | None = None, options: CallOptions | None = None, spender: str = ""
    ) -> Workspace:
        """The workspace.

        Args:
            log: Gets the progress when there is no terminal.
            options: How calls are made.
            spender: Workspaces with the same one share a budget.
        """
        reporter = LogReporter(log.info) if log else LogReporter(lambda _: None)
        return Workspace(
            Settings.from_environment(),
            default_reporter=reporter,
            options=options or CallOptions(),
            spender=spender,
        )
