"""The notebooks as scripts, and as apps in a real browser."""

import importlib.util
import os
import re
import runpy
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from tests.browser import running_browser
from tests.inspected import made
from tests.sizes import FULL

pytestmark = pytest.mark.e2e

_ROOT = Path(__file__).resolve().parents[2]
_FOLDER = _ROOT / "notebooks"
# What each shows of the small lake, as an app: its title, and words beside it.
_SHOWN = {
    "leaderboard": ("Leaderboard", "How judges use their scale"),
    "disagreements": ("Where two runs differ", "By question"),
    "judges": ("Judges", "Agreement on the answers that both scored"),
    "history": ("Over time", "alpha"),
}
_LOADED_MILLISECONDS = 60_000


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("small") / "warehouse").folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real trees."""
    folder = tmp_path_factory.mktemp("whole") / "warehouse"
    workspace = Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": str(folder)}), environment={})
    trees = Path(os.environ["SHABERI_CORPUS"]) / "legacy" / "mini"
    import_trees(ImportRequest({name: trees / name for name in ("shisa", "umiyuki", "lightblue")}), workspace)
    return folder


def _outputs(name: str) -> str:
    """What its cells show, as HTML."""
    spec = importlib.util.spec_from_file_location(name, _FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    outputs, _ = module.app.run()
    return "\n".join(one.text for one in outputs if one is not None)


def test_every_notebook_is_tested() -> None:
    assert {path.stem for path in _FOLDER.glob("*.py")} == set(_SHOWN)


@pytest.mark.long
def test_each_runs_as_a_script(small: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(small))
    for name in _SHOWN:
        runpy.run_path(str(_FOLDER / f"{name}.py"), run_name="__main__")
    assert capfd.readouterr().err == ""


@pytest.mark.corpus
@pytest.mark.parametrize("name", _SHOWN)
def test_it_shows_plots_of_the_corpus(name: str, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(whole))
    shown = _outputs(name)
    assert _SHOWN[name][0] in shown
    assert "vega" in shown
    assert not re.search(r"\b[1-9]\.\d{6}", shown), "numbers for people are rounded"


@pytest.fixture(scope="module")
def apps(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of the whole folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "marimo", "run", _FOLDER, "--headless", "--no-token", "--host", "127.0.0.1"]
    environment = os.environ | {"SHABERI_WAREHOUSE": str(small), "PYTHONPATH": str(_ROOT)}
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*command, "--port", str(port)], env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        try:
            _wait_for(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()


def _wait_for(port: int) -> None:
    for _ in range(600):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with running_browser() as browser:
        yield browser.new_page(viewport={"width": 1300, "height": 2400})


@pytest.mark.acceptance
@pytest.mark.long
@pytest.mark.browser
@pytest.mark.parametrize("name", _SHOWN if FULL else ["leaderboard"])
def test_it_is_an_app_in_a_browser(name: str, apps: str, page: Page) -> None:
    title, words = _SHOWN[name]
    page.goto(f"{apps}/?file={name}.py")
    expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible(timeout=_LOADED_MILLISECONDS)
    expect(page.get_by_text(words).first).to_be_visible(timeout=_LOADED_MILLISECONDS)
    expect(page.locator("marimo-vega, .vega-embed").first).to_be_visible(timeout=_LOADED_MILLISECONDS)
    if folder := os.environ.get("SHABERI_SCREENSHOTS"):
        page.wait_for_timeout(2000)
        page.screenshot(path=Path(folder) / f"notebook-{name}.png", full_page=True)
