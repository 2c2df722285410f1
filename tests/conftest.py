"""Which tests can run here, and where the fixtures are that all of them share."""

import gc
import os
import shutil
from collections.abc import Generator

import pytest

IN_CI = os.environ.get("CI") == "true"
BROWSER = os.environ.get("SHABERI_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")


def pytest_configure(config: pytest.Config) -> None:
    """Import the fixtures, unless this process only hands tests out to workers: they take it three seconds."""
    if not config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        config.pluginmanager.import_plugin("tests.fixtures")


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

    It is frozen, and the callback by which Hypothesis times the collector keeps what its module refers to.
    """
    gc.unfreeze()
    gc.callbacks.clear()
