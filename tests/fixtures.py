"""Fixtures that all tests share."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from shaberi_dagster.export import results_tree
from shaberi_dagster.lake import catalog
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from tests.migrations import close_databases, make_jobs_once, open_databases_once, read_migrations_once
from tests.mock_endpoint import MockEndpoint, running_mock
from tests.postgres import database, postgres  # noqa: F401  (fixtures)
from tests.tables import make_tables_once
from tests.views import views, views_of_all_tests  # noqa: F401  (fixtures)

read_migrations_once()
open_databases_once()
make_jobs_once()
make_tables_once()


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test touches the developer's lake, instance or keys."""
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(tmp_path / "warehouse"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    for name in ("DATASETS", "RUN_SPECS", "PROMPTS", "PRICES", "RESULTS", "API_KEY", "USER", "PLUGINS", "DATABASE_URL"):
        monkeypatch.delenv(f"SHABERI_{name}", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    yield
    close_databases()


@pytest.fixture
def settings() -> Settings:
    """The settings of this test's own folders."""
    return Settings.from_environment()


@pytest.fixture
def workspace(settings: Settings) -> Workspace:
    """An empty lake, the project's prompts, and an environment without keys."""
    return Workspace(settings, environment={})


@pytest.fixture
def mock() -> Iterator[MockEndpoint]:
    """A real HTTP endpoint that answers and judges like a model."""
    with running_mock() as running:
        yield running


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the catalog, each run's files and each summary were written in this process."""
    counts: Counter[str] = Counter()

    def count(module: ModuleType, name: str, label: Callable[..., str]) -> None:
        function = getattr(module, name)

        def counting(*args: Any, **options: Any) -> Any:
            counts[label(*args)] += 1
            return function(*args, **options)

        monkeypatch.setattr(module, name, counting)

    count(catalog, "write_catalog", lambda *_: "catalog")
    count(results_tree, "export_run", lambda _, run_id, *__: run_id)
    count(results_tree, "export_summary", lambda _, model, base_tag, *__: f"summary of {model} {base_tag}")
    return counts


@pytest.fixture
def corpus() -> Path:
    """The folder of real data."""
    return Path(os.environ["SHABERI_CORPUS"])
