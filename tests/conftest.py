"""Which tests can run here, and the fixtures that all of them share."""

import atexit
import gc
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from shaberi_dagster.settings import Settings
from tests.once import arrange, close_databases, watch_imports
from tests.postgres import database, postgres  # noqa: F401  (fixtures)

# A test of one function starts in a second: what takes time is imported where a fixture needs it.
if TYPE_CHECKING:
    from shaberi_dagster.runs.workspace import Workspace
    from tests.mock_endpoint import MockEndpoint
    from tests.views import Views

watch_imports()
# A busy machine is slow, and no fault of what is tested.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("patient")
# A shell that starts all this in the background has it ignore what tests send to themselves and to their processes.
signal.signal(signal.SIGINT, signal.default_int_handler)

IN_CI = os.environ.get("CI") == "true"
BROWSER = os.environ.get("SHABERI_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while modules are imported and tests collected, nor ever among them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs the corpus or a browser where they are not; in CI they must be there.

    What takes long comes first, in one piece: other workers steal from the end.
    """
    items.sort(key=lambda item: not item.get_closest_marker("e2e"))
    left_out = []
    if not os.environ.get("SHABERI_CORPUS"):
        left_out.append("corpus")
    if not BROWSER:
        left_out.append("browser")
    if left_out and IN_CI:
        pytest.exit(f"CI has no {' and no '.join(left_out)}: these tests must run there", returncode=1)
    deselected = [item for item in items if any(item.get_closest_marker(name) for name in left_out)]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in deselected]


def pytest_unconfigure() -> None:
    """Let all that was loaded be freed; DuckDB's bindings count what is not as leaked, at length.

    It is frozen, the callback by which Hypothesis times the collector keeps what its module refers to, and what
    the collector does not see through (it seems, errors of pydantic) keeps frames that have ended.
    """
    gc.unfreeze()
    gc.callbacks.clear()
    for one in gc.get_objects():
        if isinstance(one, FrameType):
            with suppress(RuntimeError):  # it is at work
                one.clear()


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test touches the developer's lake, instance or keys."""
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(tmp_path / "warehouse"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    for name in (
        "DATASETS",
        "RUN_SPECS",
        "PROMPTS",
        "PRICES",
        "RESULTS",
        "API_KEY",
        "KEY_HOSTS",
        "USER",
        "PLUGINS",
        "DATABASE_URL",
    ):
        monkeypatch.delenv(f"SHABERI_{name}", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    arrange()
    yield
    close_databases()


@pytest.fixture
def settings() -> Settings:
    """The settings of this test's own folders."""
    return Settings.from_environment()


@pytest.fixture
def workspace(settings: Settings) -> "Iterator[Workspace]":
    """An empty lake, the project's prompts, and an environment without keys, of which no later test's engine reads."""
    from shaberi_dagster.runs.workspace import Workspace, _threads

    own = Workspace(settings, environment={})
    yield own
    thread = _threads.get(os.getpid())
    if thread and thread.engine._environment is own.environment:
        atexit.unregister(_threads.pop(os.getpid()).close)
        thread.close()


@pytest.fixture
def engine() -> Iterator[None]:
    """All calls of a test in this process are made by one engine, which has no keys."""
    from tests.example_runs import own_engine

    with own_engine({}):
        yield


@pytest.fixture(scope="module")
def results_left_out() -> Iterator[None]:
    """What is written to `results/` is looked at elsewhere."""
    from tests.example_runs import without_results

    with without_results():
        yield


@pytest.fixture
def mock() -> "Iterator[MockEndpoint]":
    """A real HTTP endpoint that answers and judges like a model."""
    from tests.mock_endpoint import running_mock

    with running_mock() as running:
        yield running


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the catalog, each run's files and each summary were written in this process."""
    from shaberi_dagster.lake import catalog
    from shaberi_dagster.runs.results import results_tree

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


@pytest.fixture(scope="session")
def views_of_all_tests() -> "Iterator[Views]":
    from tests.views import Views

    views = Views()
    yield views
    views.catalog.close()


@pytest.fixture
def views(views_of_all_tests: "Views") -> "Iterator[Views]":
    """The public views without rows."""
    yield views_of_all_tests
    views_of_all_tests.clear()


@pytest.fixture
def corpus() -> Path:
    """The folder of real data."""
    return Path(os.environ["SHABERI_CORPUS"])
