"""A cluster of real processes, killed at random; in full size as `perf/cluster.py` does."""

import shutil

import pytest

from perf.cluster import commit_concurrently, evaluate_on_cluster
from tests.sizes import FULL, size

pytestmark = [pytest.mark.integration, pytest.mark.acceptance, pytest.mark.long]


@pytest.mark.skipif(not FULL, reason="a minute and more: its parts have quicker tests")
@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server")
def test_runs_of_killed_workers_go_on_elsewhere_complete_and_repeat_only_what_was_in_flight() -> None:
    outcome = evaluate_on_cluster(
        workers=4, runs=16, questions=320, killed=20 * ["worker"], failing=0.05, latency=0.5, compared=True
    )

    assert len(outcome.kills) == 20
    assert outcome.violations == []


def test_commits_of_several_hosts_to_one_store_are_all_there() -> None:
    found = commit_concurrently(runs=size(4, 50), processes=size(2, 4))

    assert found["rows"] == found["expected"]
