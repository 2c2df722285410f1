"""Concurrency pools: how many Dagster runs, of all processes, may call an endpoint at the same time.

A stage is one op for all judges, so only the op at work knows its endpoints: it claims a slot of each one's pool
from Dagster's own storage, where the UI and `dagster instance concurrency` see it.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from dagster._core.storage.event_log import SqlEventLogStorage
from dagster._utils.concurrency import ConcurrencyKeyInfo

from shaberi_dagster.defs.execution import at_the_instance, close_dead_runs
from shaberi_dagster.llm.endpoints import EMBEDDED_URL
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stored import stored_spec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.stages.ordered import CALLING_NAMES, stage_named

_POLL_SECONDS = 2.0
_PARTITION = "dagster/partition"


def pool_name(base_url: str) -> str:
    """The pool of an endpoint, such as `endpoint_api.openai.com_v1`; a base URL has no key in it."""
    return "endpoint_" + re.sub(r"[^\w.-]+", "_", base_url.partition("://")[2])


def pools_of(stage: str, spec: RunSpec, judges: Sequence[str] = ()) -> list[str]:
    """The pools of the endpoints that a stage of a run calls, in the order in which all runs claim them.

    The embedded model is inside each process and has none.

    Args:
        stage: One of `stages.ordered.STAGE_NAMES`.
        spec: The run.
        judges: For `judgements`: only these; none named means all of the run's.
    """
    endpoints = [model.endpoint for model in stage_named(stage).models(spec, judges)]
    return sorted({pool_name(endpoint.base_url) for endpoint in endpoints if endpoint.base_url != EMBEDDED_URL})


@contextmanager
def endpoint_slots(
    stage: str, run_id: str, workspace: Workspace, context: dg.AssetExecutionContext, judges: Sequence[str] = ()
) -> Iterator[None]:
    """Within this context the Dagster run has a slot of each pool that the stage needs; waits for them.

    An endpoint whose pool has no limit, and no default limit either, is not capped.

    Args:
        stage: One of `stages.ordered.STAGE_NAMES`, which is also the name of its op.
        run_id: A registered run.
        workspace: Where the run is read; its reporter is told of a wait, once for each pool.
        context: Of the op.
        judges: As for `pools_of`.

    Raises:
        ConfigurationError: There is no such run.
    """
    instance, dagster_run_id = context.instance, context.run.run_id
    storage = instance.event_log_storage
    if stage not in CALLING_NAMES or not storage.supports_global_concurrency_limits:
        yield
        return
    try:
        for pool in pools_of(stage, stored_spec(run_id, workspace), judges):
            _wait_for_slot(pool, dagster_run_id, stage, instance, workspace.reporter.note)
        yield
    finally:
        storage.free_concurrency_slot_for_step(dagster_run_id, stage)


def add_pools(spec: RunSpec, instance: dg.DagsterInstance) -> None:
    """Make the pools of all endpoints that a run calls, so that its stages find them."""
    if instance.event_log_storage.supports_global_concurrency_limits:
        for pool in {pool for stage in CALLING_NAMES for pool in pools_of(stage, spec)}:
            _limit(pool, instance)


def try_claim(pool: str, dagster_run_id: str, step: str, instance: dg.DagsterInstance) -> bool:
    """Claim a slot of a pool with a limit, or stay in its queue."""
    storage = instance.event_log_storage
    # Two processes that claim at the same moment would both get the last slot.
    with at_the_instance(Path(instance.root_directory), "pools"):
        claim = storage.claim_concurrency_slot(pool, dagster_run_id, step)
        # A slot that came free between Dagster's look at the slots and our entry in the queue is given to nobody.
        if isinstance(storage, SqlEventLogStorage) and not claim.is_assigned and storage.has_unassigned_slots(pool):
            storage.assign_pending_steps([pool])
    return bool(claim.is_claimed)


def _wait_for_slot(
    pool: str, dagster_run_id: str, step: str, instance: dg.DagsterInstance, note: Callable[[str], object]
) -> None:
    told = False
    while (limit := _limit(pool, instance)) is not None and not try_claim(pool, dagster_run_id, step, instance):
        holders = [run for run in _holders(pool, instance) if run.run_id != dagster_run_id]
        if len(holders) >= limit and not told:
            told = True
            names = ", ".join(f"Dagster run {run.run_id[:8]} of {run.tags.get(_PARTITION, '?')}" for run in holders)
            note(f"waiting for a slot of pool {pool} ({len(holders)} of {limit} taken{names and f', by {names}'})")
        time.sleep(_POLL_SECONDS)


def _limit(pool: str, instance: dg.DagsterInstance) -> int | None:
    """The pool's limit, which may be changed at any time; without one of its own it is given the default limit."""
    storage, default = instance.event_log_storage, instance.global_op_concurrency_default_limit

    def is_outdated(info: ConcurrencyKeyInfo) -> bool:
        return info.using_default_limit and info.slot_count != (default or 0)

    if is_outdated(info := storage.get_concurrency_info(pool)):
        with at_the_instance(Path(instance.root_directory), "pools"):  # two that make a pool at the same moment collide
            if is_outdated(info := storage.get_concurrency_info(pool)):
                storage.initialize_concurrency_limit_to_default(pool)
                return default
    return info.limit


def _holders(pool: str, instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """The Dagster runs that have its slots; those that died or ended have none any more."""
    close_dead_runs(instance)
    info = instance.event_log_storage.get_concurrency_info(pool)
    ids = info.active_run_ids | info.assigned_run_ids
    runs = instance.get_runs(dg.RunsFilter(run_ids=list(ids))) if ids else []
    living = [run for run in runs if not run.is_finished]
    for ended in ids - {run.run_id for run in living}:
        instance.event_log_storage.free_concurrency_slots_for_run(ended)
    return living
