"""How many Dagster runs, of all processes, may call an endpoint at the same time."""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import dagster as dg

from shaberi_dagster.lake.journal.locks import slot
from shaberi_dagster.llm.endpoints import EMBEDDED_URL
from shaberi_dagster.runs.stages.ordered import CALLING_NAMES, stage_named
from shaberi_dagster.runs.stored import stored_spec
from shaberi_dagster.runs.workspace import Workspace


@contextmanager
def endpoint_slots(
    stage: str, run_id: str, workspace: Workspace, context: dg.AssetExecutionContext, judges: Sequence[str] = ()
) -> Iterator[None]:
    """Within this context the process has a slot of each endpoint that the stage calls; waits for them.

    `dagster.yaml` says how many slots there are (`concurrency.pools.default_limit`; without it there is no limit). The
    embedded model is inside each process and has no slots.

    Args:
        stage: One of `stages.ordered.STAGE_NAMES`.
        run_id: A registered run.
        workspace: Where the run is read; its reporter gets a note of a wait, once for each endpoint.
        context: Of the op.
        judges: For `judgements`: only these; none named means all of the run's.

    Raises:
        ConfigurationError: There is no such run.
    """
    limit = context.instance.global_op_concurrency_default_limit
    with ExitStack() as stack:
        if limit and stage in CALLING_NAMES:
            endpoints = stage_named(stage).model_endpoints(stored_spec(run_id, workspace), judges)
            # All runs take them in the same order, so that none waits for one that waits for it.
            for url in sorted({endpoint.base_url for endpoint, _ in endpoints} - {EMBEDDED_URL}):
                said = f"waiting: {limit} other runs call {url} (concurrency in dagster.yaml)"
                name = "endpoint-" + re.sub(r"[^\w.-]+", "_", url.partition("://")[2])
                home = Path(context.instance.root_directory)
                stack.enter_context(slot(home, name, limit, partial(workspace.reporter.note, said), shared="dagster"))
        yield
