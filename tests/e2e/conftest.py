"""A run that was evaluated once for all tests, of which each test gets a copy of its own."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shaberi_dagster import open_lake
from tests.commands import Finished, lake_of, run, run_without_dagster
from tests.mock_endpoint import MockEndpoint, running_mock

MODEL, JUDGES = "org/model", ("judge-a", "judge-b")


@dataclass(frozen=True)
class Evaluated:
    """What `run-evals` made: its outputs, its lake, and the endpoint it asked."""

    first: Finished
    mock: MockEndpoint
    folder: Path

    def run_evals(self, *arguments: str | Path, judges: tuple[str, ...] = (), in_dagster: bool = False) -> Finished:
        """The command for this run, at the same endpoint, in this copy of the lake."""
        self.mock.bodies.clear()
        command = run if in_dagster else run_without_dagster
        return command("run-evals", *target(self.mock, judges), *arguments, environment=lake_of(self.folder))

    def shaberi(self, *arguments: str | Path) -> Finished:
        """`shaberi` on this copy of the lake."""
        return run("shaberi", *arguments, environment=lake_of(self.folder))

    def view_scores(self, *arguments: str) -> Finished:
        """`view-scores` on this copy of the lake."""
        return run("view-scores", *arguments, environment=lake_of(self.folder))

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """What a statement or a named query says of this copy of the lake."""
        return open_lake(self.folder / "warehouse").sql(sql).to_dicts()

    @property
    def asked(self) -> list[str]:
        """The models that the last command asked, one for each request."""
        return [body["model"] for body in self.mock.bodies]


def target(mock: MockEndpoint, judges: tuple[str, ...] = ()) -> list[str]:
    """The options for the model and some judges at the mock endpoint."""
    named = [part for name in judges for part in ("--judge-model", name)]
    return ["--model", MODEL, "--base-url", mock.base_url, "--judge-base-url", mock.base_url, *named]


@pytest.fixture(scope="session")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluated]:
    """All four benchmarks, judged by two judges. No test may change it."""
    folder = tmp_path_factory.mktemp("first")
    with running_mock() as mock:
        finished = run("run-evals", *target(mock, JUDGES), environment=lake_of(folder))
        yield Evaluated(finished, mock, folder)


@pytest.fixture
def evaluated(first_run: Evaluated, tmp_path: Path) -> Evaluated:
    """A copy that the test may change."""
    folder = tmp_path / "copy"
    shutil.copytree(first_run.folder, folder)
    first_run.mock.bodies.clear()
    return Evaluated(first_run.first, first_run.mock, folder)
