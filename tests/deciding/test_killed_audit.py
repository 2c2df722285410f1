"""An audit that is killed: the same command goes on, and what was answered is not asked again."""

import signal

import pytest

from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from tests.commands import lake_of, run, started
from tests.deciding.auditing import AUDITOR, answering, graded
from tests.example_runs import asked_of, own_engine

pytestmark = [pytest.mark.e2e]
_SIZE, _AT_ONCE = 60, 4


@pytest.mark.long
def test_a_killed_audit_pays_for_nothing_twice(mock, tmp_path):
    environment = lake_of(tmp_path)
    mock.options.script = answering()
    with own_engine({}):
        workspace = Workspace(Settings.from_environment(environment), environment={})
        graded(workspace, mock, {"gsm8k": _SIZE})
    mock.options.latency = 0.2
    where = ("--judge-model", AUDITOR, "--judge-base-url", mock.base_url, "--concurrency", str(_AT_ONCE))

    def answered():
        return sum(counts["answered"] for counts in mock.stats()["keys"].values()) - _SIZE

    audit = ("shaberi", "graders", "audit", str(_SIZE), *where)
    with started(*audit, environment=environment) as killed:
        killed.wait_until(lambda: answered() >= _SIZE // 4)
        killed.send(signal.SIGKILL)
        assert killed.finished().code == -signal.SIGKILL
    mock.options.latency = 0.0
    done = run(*audit, environment=environment).succeeded()

    assert f"0 of {_SIZE}, at most" in done.out
    assert asked_of(mock, AUDITOR) <= _SIZE + _AT_ONCE, "only what was under way is asked again"
    assert len(Lake(workspace.settings.warehouse).read("audits")) == _SIZE
