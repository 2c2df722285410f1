"""Runs that no server of Dagster launched: with their job, on the timeline and the Jobs page, and readable."""

from collections.abc import Callable

import dagster as dg
import pytest

from shaberi_dagster.defs.jobs import EVALUATE, Materialization, run_in_process
from shaberi_dagster.defs.run_records import LOCATION
from shaberi_dagster.runs.spec import RunSpec

pytestmark = pytest.mark.integration


def test_the_run_of_a_command_stands_with_its_job(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance
) -> None:
    spec = registered(model="org/model", tag="july", benchmarks=["elyza"])

    run_in_process(Materialization(spec.run_id, ["elyza"], stages=["scores"]), instance)

    (run,) = instance.get_runs(dg.RunsFilter(tags={".dagster/repository": f"__repository__@{LOCATION}"}))
    assert run.status == dg.DagsterRunStatus.SUCCESS
    assert (run.remote_job_origin.location_name, run.remote_job_origin.job_name) == (LOCATION, EVALUATE)
    assert run.remote_job_origin.repository_origin.repository_name == "__repository__"


def test_a_run_has_its_model_and_tag_as_people_write_them(
    registered: Callable[..., RunSpec], instance: dg.DagsterInstance
) -> None:
    spec = registered(model="org/a__b", tag="july", benchmarks=["elyza"])

    run_in_process(Materialization(spec.run_id, ["elyza"], stages=["scores"]), instance)

    (run,) = instance.get_runs(dg.RunsFilter(tags={"shaberi/model": "org/a__b", "shaberi/run_tag": "july"}))
    assert run.tags["dagster/partition"] == spec.run_id
