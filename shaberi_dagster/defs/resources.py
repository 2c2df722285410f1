"""Resources of assets and jobs."""

import dagster as dg
from pydantic import PrivateAttr

from shaberi_dagster.defs.run_records import complete_record
from shaberi_dagster.exchange.installation import Installation
from shaberi_dagster.exchange.publishing import publish
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.runs.workspace import Unpublished, Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.progress import LogReporter

COMMAND_TAG = "shaberi/command_id"


class WorkspaceResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The lake and the prompts of this installation, from the environment of the process.

    Each Dagster run has one of its own, and Dagster ends it before the run's last event, whether the run succeeded,
    failed or was terminated.
    """

    _unpublished: Unpublished = PrivateAttr(default_factory=dict)
    _workspaces: list[Workspace] = PrivateAttr(default_factory=list)

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
        made = Installation(
            Settings.from_environment(),
            default_reporter=reporter,
            options=options or CallOptions(),
            spender=spender,
            unpublished=self._unpublished,
        )
        self._workspaces.append(made)  # so that the next one finds its lake open
        return made

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Let the Dagster run stand with its job and with readable names; sensors have no run."""
        if context.run is not None and context.instance is not None:
            complete_record(context.run, context.instance)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Publish what the Dagster run changed; sensors have no run and leave that to those they ask for."""
        if context.run is not None:
            publish(self.workspace(context.log))
