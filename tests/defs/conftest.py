"""What the tests of the Dagster side share: an instance, and runs registered on the mock endpoint."""

from collections.abc import Callable, Iterator

import dagster as dg
import pytest

from shaberi_dagster.defs.jobs import register
from shaberi_dagster.runs.spec import RunRequest, RunSpec
from shaberi_dagster.runs.workspace import Workspace
from tests.mock_endpoint import MockEndpoint


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance in memory."""
    with dg.DagsterInstance.ephemeral() as opened:
        yield opened


@pytest.fixture
def registered(workspace: Workspace, instance: dg.DagsterInstance, mock: MockEndpoint) -> Callable[..., RunSpec]:
    """Registers a run on the mock endpoint: three questions a benchmark, unless the request says otherwise."""

    def make(**request: object) -> RunSpec:
        defaults = {"model": "model", "judge_models": ["judge"], "limit": 3}
        urls = {"base_url": mock.base_url, "judge_base_url": mock.base_url}
        return register(RunRequest.model_validate(urls | defaults | request), workspace, instance)

    return make
