"""Resources of assets and jobs."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import dagster as dg
from pydantic import PrivateAttr

from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.progress import LogReporter

_of_the_command: ContextVar[Workspace | None] = ContextVar("workspace", default=None)


@contextmanager
def working_in(workspace: Workspace) -> Iterator[None]:
    """Within this context Dagster runs of this process work in a workspace that is there."""
    token, reporter = _of_the_command.set(workspace), workspace.default_reporter
    try:
        yield
    finally:
        _of_the_command.reset(token)
        workspace.default_reporter = reporter


class WorkspaceResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The workspace of a Dagster run: that of the command that started it, or a new one of the environment.

    Dagster ends it before the run's last event, whether the run succeeded, failed or was terminated.
    """

    _workspace: Workspace | None = PrivateAttr(default=None)

    def workspace(self, log: dg.DagsterLogManager | None = None, options: CallOptions | None = None) -> Workspace:
        """The workspace.

        Args:
            log: Gets the progress when there is no terminal.
            options: How calls are made from now on; the budget is that of the first ones.
        """
        made = _of_the_command.get()
        if made is None:
            made = self._workspace = self._workspace or Workspace(Settings.from_environment())
        made.default_reporter = LogReporter(log.info if log else lambda _: None)
        made.options = options or made.options
        made.lake.refresh()
        return made

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Publish what the Dagster run changed; sensors have no run and leave that to those they ask for."""
        if context.run is not None:
            self.workspace(context.log).publish()
