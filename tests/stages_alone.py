"""Commands in this process that make their stages without a Dagster run, which takes as long as all stages do."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dagster as dg
import pytest

from shaberi_dagster.defs import execution, jobs, partitions, reprocess
from shaberi_dagster.defs.options import stage_config
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES
from shaberi_dagster.runs.workspace import Workspace

ELYZA_OPS = stage_config(CallOptions(), STAGE_NAMES, ["elyza"])
"""All stages of a benchmark."""


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


def _make(run_id: str, ops: Mapping[str, Any], *, workspace: Workspace, **_: object) -> None:
    for stage in (one for one in STAGE_NAMES if one in ops):
        given = {"judges": (), "reprocess": False} | ops[stage]["config"]
        materialize(stage, run_id, given["benchmarks"], workspace, given["judges"], reprocess=given["reprocess"])
