"""Commands in this process that make their stages without a Dagster run, which takes as long as all stages do."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
import pytest

from shaberi_dagster.defs import execution, jobs, partitions, reprocess
from shaberi_dagster.defs.jobs import Materialization
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES
from shaberi_dagster.runs.workspace import Workspace


@contextmanager
def stages_alone() -> Iterator[None]:
    """Within this context stages are made one after the other, as the assets of a run make them.

    What a command makes by another job than that of a run, as imports, is on an instance in memory.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "open_instance", lambda *_: dg.DagsterInstance.ephemeral())
        patch.setattr(partitions, "add_partition", lambda *_: None)
        for module in (jobs, reprocess):
            patch.setattr(module, "run_in_process", _make)
        yield


def _make(wanted: Materialization, instance: dg.DagsterInstance, workspace: Workspace) -> None:
    del instance
    again = {"judgements": wanted.reprocess, "pass_outputs": wanted.reexamine}
    for stage in (one for one in STAGE_NAMES if one in wanted.stages):
        judges = wanted.judges if stage == "judgements" else ()
        materialize(stage, wanted.run_id, wanted.benchmarks, workspace, judges, reprocess=again.get(stage, False))
