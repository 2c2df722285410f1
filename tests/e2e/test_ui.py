"""`shaberi ui` in a real browser: the graph, launching from the UI alone, and seeing what was started elsewhere.

With SHABERI_SCREENSHOTS=docs/images the pictures of the documentation are taken anew.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import dagster as dg
import pytest
import yaml
from playwright.sync_api import BrowserContext, Locator, Page, ViewportSize, expect

from shaberi_dagster.defs.execution import key_of, open_instance, run_of
from shaberi_dagster.defs.imports import IMPORT
from shaberi_dagster.defs.jobs import register
from shaberi_dagster.lake.journal.files import JOURNAL_FOLDER
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.spec import RunRequest
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from tests.browser import running_browser
from tests.commands import run
from tests.exchange.trees.trees import FOLDERS, LegacyTree, rows_of
from tests.mock_endpoint import MockEndpoint, content_for, running_mock
from tests.running_ui import UiServer, running_ui

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.long]

_TESTS = Path(__file__).resolve().parents[1]
_LOCATION = "shaberi_dagster.definitions"
# A window knows nothing of the ones before; what spins and glides while something is awaited takes a core.
_FORGET_AND_STAND_STILL = """
    localStorage.clear();
    addEventListener("DOMContentLoaded", () => document.head.append(Object.assign(document.createElement("style"),
        {textContent: "* {animation: none !important; transition: none !important}"})))
"""
# As the browser's back and forward do. To load the application anew takes as much as four other pages.
_GO = """
    path => {
        history.pushState(null, "", path);
        dispatchEvent(new PopStateEvent("popstate"));
    }
"""
_VIEWPORT: ViewportSize = {"width": 1500, "height": 950}
_CLICK_MILLISECONDS = 120_000
_RUNS = """query { runsOrError { ... on Runs { results {
    runId jobName status tags { key value } repositoryOrigin { repositoryLocationName } } } } }"""


@dataclass
class Ui:
    """The running server, its lake, and a browser."""

    server: UiServer
    mock: MockEndpoint
    context: BrowserContext

    @property
    def settings(self) -> Settings:
        return Settings.from_environment(self.server.environment)

    @contextmanager
    def page(self, path: str, *, anew: bool = False) -> Iterator[Page]:
        """The application at a path, in one window for all tests; what goes wrong is shown with a screenshot and the
        server's log, and the next test has another window.

        A page of what was made since the window was loaded, a partition or a run, is to be loaded anew.
        """
        window = next(iter(self.context.pages), None)
        page = window or self.context.new_page()
        try:
            page.set_viewport_size(_VIEWPORT)
            if window and not anew:
                page.evaluate(_GO, path)
            else:
                page.goto(self.server.url + path)
            yield page
        except Exception as error:
            picture = self.server.log.with_name(f"failure-{time.time():.0f}.png")
            page.screenshot(path=picture)
            page.close()
            raise AssertionError(f"{error}\nscreenshot: {picture}\n{self.log_tail()}") from error

    def log_tail(self) -> str:
        return "server log:\n" + self.server.said()[-3000:]

    def runs(self, **wanted: str) -> list[dict[str, Any]]:
        """Dagster's runs with these tags (`__` for a slash; `job` is the job's name), newest first."""
        tags = {name.replace("__", "/"): value for name, value in wanted.items()}
        return [
            run
            for run in self.server.ask(_RUNS)["results"]
            if tags.items() <= {"job": run["jobName"], **{tag["key"]: tag["value"] for tag in run["tags"]}}.items()
        ]

    def wait_for_status(self, status: str, **wanted: str) -> dict[str, Any]:
        """The newest run with these tags when it has the status; a run that ends otherwise is an error."""

        def found() -> dict[str, Any] | None:
            newest = next(iter(self.runs(**wanted)), None)
            if newest and newest["status"] != status:
                assert newest["status"] not in {"FAILURE", "SUCCESS", "CANCELED"}, newest
                return None
            return newest

        return self.server.wait_for(found)

    def rows(self, table: str, key: str) -> list[dict[str, Any]]:
        return list(Lake(self.settings.warehouse).read(table, {"run_id": run_of(key)}).iter_rows(named=True))

    def request(self, **changes: Any) -> dict[str, Any]:
        """A small run on the mock endpoint."""
        urls = {"base_url": self.mock.base_url, "judge_base_url": self.mock.base_url}
        return urls | {"model": "model", "judge_models": ["judge"], "limit": 2} | changes

    def register(self, **changes: Any) -> str:
        """A run that is registered, with nothing made of it yet."""
        request = RunRequest.model_validate(self.request(**changes))
        with open_instance(self.settings.dagster_home) as instance:
            return key_of(register(request, Workspace(self.settings, environment={}), instance).run_id)


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """One server for all tests of this file, ready when its code location is loaded."""
    opened_once = f"{_TESTS / 'opened_once'}:{_TESTS.parent}"
    expect.set_options(timeout=_CLICK_MILLISECONDS)
    with (
        running_mock() as mock,
        running_browser() as browser,
        running_ui(tmp_path_factory.mktemp("ui"), PYTHONPATH=opened_once) as server,
    ):
        context = browser.new_context(reduced_motion="reduce")
        context.set_default_timeout(_CLICK_MILLISECONDS)
        context.add_init_script(_FORGET_AND_STAND_STILL)
        yield Ui(server, mock, context)


@pytest.fixture(scope="module")
def command_line_run(ui: Ui) -> str:
    """The run of a `run-evals` command on the instance that the server shows."""
    urls = ("--base-url", ui.mock.base_url, "--judge-base-url", ui.mock.base_url)
    options = ("--judge-model", "judge", "--benchmark", "elyza", "--limit", "2")
    run("run-evals", "--model", "typed", *options, *urls, environment=ui.server.environment).succeeded()
    return "typed@@default"


@pytest.fixture(autouse=True)
def an_answering_endpoint(ui: Ui) -> Iterator[None]:
    """A test that lets the endpoint hang does so for itself."""
    yield
    ui.mock.options.script, ui.mock.options.p_hang = None, 0.0


def test_the_graph_shows_every_stage(ui: Ui, command_line_run: str) -> None:
    with ui.page(f"/locations/{_LOCATION}/asset-groups/evaluation/list") as page:
        for stage in ["questions", *STAGE_NAMES]:
            expect(page.get_by_text(stage, exact=True).first).to_be_visible()
    if folder := os.environ.get("SHABERI_SCREENSHOTS"):
        with ui.page(f"/locations/{_LOCATION}/asset-groups/evaluation") as page:
            _take_picture(page, Path(folder) / "asset-graph.png")
    assert ui.rows("metrics", command_line_run)


def test_a_registered_run_is_materialized_by_clicking_and_shows_its_metadata(ui: Ui) -> None:
    key = ui.register(model="org/model", tag="clicked", benchmarks=["elyza"])

    with ui.page(f"/locations/{_LOCATION}/jobs/evaluate", anew=True) as page:
        page.get_by_role("button", name="Materialize all").click()
        page.get_by_text("Select a partition or create one").click()
        page.keyboard.type(key)
        page.get_by_text(key, exact=True).filter(visible=True).first.click()
        page.get_by_text("Launch runs to materialize").click()
        page.get_by_role("button", name="Launch 1 run").click()
        ui.server.wait_for(lambda: ui.runs(dagster__partition=key))
    ui.wait_for_status("SUCCESS", dagster__partition=key)

    assert [row["status"] for row in ui.rows("runs", key)] == ["complete"]
    at_the_run = urlencode({"view": "partitions", "partition": key})
    with ui.page(f"/assets/judgements?{at_the_run}", anew=True) as page:
        metadata = page.locator("table").filter(has_text="prompt_tokens")
        for name in ("planned", "failures_by_class", "completion_tokens", "score_sources"):
            expect(metadata.get_by_text(f"elyza: {name}", exact=True)).to_be_visible()
        expect(page.get_by_text("FINAL SCORE").first).to_be_visible()  # the preview
        expect(metadata.get_by_role("columnheader", name="question", exact=True)).to_be_visible()
        expect(metadata.get_by_text("elyza: mean_score", exact=True)).to_be_visible()
        expect(metadata.get_by_text(re.compile(r"^1 [▁-█·]{5} 5, mean [\d.]+ \(n 2\)$"))).to_be_visible()
        page.set_viewport_size({"width": 1300, "height": 1400})
        _take_part(page, "ui-judgements.png")
    with ui.page(f"/assets/metrics?{at_the_run}") as page:
        command = "inspect-output --model org/model --tag clicked --benchmark elyza"
        expect(page.get_by_text(command)).to_be_visible()
    with ui.page("/assets/judgements") as page:
        expect(page.get_by_text("Row count").first).to_be_visible()
        expect(page.get_by_text("The score as given, never clamped").first).to_be_visible()  # a column's meaning
    with ui.page("/assets/judgements?view=checks") as page:
        for check in ("complete", "few_failures", "fresh", "within_scale"):
            expect(page.get_by_text(check, exact=True).first).to_be_visible()


def test_a_new_run_is_started_from_the_launchpad_alone(ui: Ui) -> None:
    asked = ui.request(model="launched", tag="july", benchmarks=["elyza", "rakuda"], judge_models=["judge", "second"])

    with ui.page(f"/locations/{_LOCATION}/jobs/new_run/playground") as page:
        # A search field is a CodeMirror too.
        editor = page.locator(".CodeMirror").filter(has_text="evaluate_new_run")
        for example in ("model: my-model", "base_url: http://localhost:8000/v1", "gpt-5.1"):
            expect(editor).to_contain_text(example)
        expect(page.get_by_text("No errors")).to_be_visible()
        _take_part(page, "ui-new-run.png")
        _enter_config(editor, "evaluate_new_run", asked | {"benchmarks": ["elyzza"]})
        expect(page.get_by_text(re.compile("not in enum type benchmarks got elyzza"))).to_be_visible()
        expect(page.get_by_role("button", name="Launch Run")).to_be_disabled()
        _enter_config(editor, "evaluate_new_run", asked)
        page.get_by_role("button", name="Launch Run").click()
        (launched,) = ui.server.wait_for(lambda: ui.runs(job="new_run"))
    ui.wait_for_status("SUCCESS", dagster__partition="launched@@july")
    with ui.page(f"/runs/{launched['runId']}", anew=True) as page:
        page.locator("a").filter(has_text="/assets/metrics?").first.wait_for()
        with page.context.expect_page() as opened:
            page.locator("a").filter(has_text="started_by").first.click()
        expect(opened.value.get_by_text("shaberi/model: launched")).to_be_visible()
        opened.value.close()

    judged = {(row["benchmark"], row["judge"]) for row in ui.rows("judgements", "launched@@july")}
    assert judged == {(name, judge) for name in ("elyza", "rakuda") for judge in ("judge", "second")}
    with ui.page("/assets/metrics?view=partitions&partition=launched%40%40july") as page:
        expect(page.get_by_text("launched@@july", exact=True).filter(visible=True).first).to_be_visible()
        expect(page.get_by_text("rakuda: n_scored", exact=True).filter(visible=True).first).to_be_visible()


def test_a_run_started_in_the_command_line_is_on_the_runs_page(ui: Ui, command_line_run: str) -> None:
    made = ui.wait_for_status("SUCCESS", shaberi__command="run-evals", dagster__partition=command_line_run)

    with ui.page("/runs") as page:
        row = page.locator("tr, [data-index]").filter(has_text=made["runId"][:8]).first
        expect(row).to_contain_text("evaluate")
        expect(row).to_contain_text("Success")
        expect(row).to_contain_text(command_line_run)


def test_a_run_started_in_the_command_line_is_on_the_jobs_page(ui: Ui, command_line_run: str) -> None:
    made = ui.wait_for_status("SUCCESS", shaberi__command="run-evals", dagster__partition=command_line_run)

    with ui.page(f"/locations/{_LOCATION}/jobs/evaluate/runs") as page:
        expect(page.get_by_text(made["runId"][:8])).to_be_visible()


def test_a_file_in_the_folder_of_run_specs_is_evaluated_without_a_click(ui: Ui) -> None:
    path = ui.settings.run_specs / "night.yaml"
    path.write_text(yaml.safe_dump(ui.request(model="dropped", benchmarks=["tengu"])), encoding="utf-8")

    made = ui.wait_for_status("SUCCESS", dagster__partition="dropped@@default")

    assert {tag["key"]: tag["value"] for tag in made["tags"]}["dagster/sensor_name"] == "run_spec_folder"
    assert [row["status"] for row in ui.rows("runs", "dropped@@default")] == ["complete"]
    assert len(ui.rows("scores", "dropped@@default")) == 2


def test_a_terminated_run_is_canceled_and_its_finished_calls_are_kept(ui: Ui) -> None:
    key = ui.register(model="stopped", benchmarks=["mt_bench"], limit=3)
    already = ui.mock.stats()["answered"]

    def answer_one(body: dict[str, Any], _: int) -> str:
        ui.mock.options.p_hang = 1.0
        return content_for(body)

    ui.mock.options.script = answer_one
    at_the_run = urlencode({"view": "partitions", "partition": key})
    with ui.page(f"/assets/answers?{at_the_run}", anew=True) as page:
        page.get_by_role("button", name="Materialize").first.click()
        page.get_by_text("Launch runs to materialize").or_(page.get_by_text("Launch 1 run")).first.wait_for()
        page.get_by_role("button", name="Launch 1 run").click()
        stopped = ui.wait_for_status("STARTED", dagster__partition=key)
        ui.server.wait_for(lambda: ui.mock.stats()["answered"] == already + 1 and ui.mock.stats()["in_flight"] == 2)
    with ui.page(f"/runs/{stopped['runId']}", anew=True) as page:
        page.get_by_role("button", name="Terminate").click()
        page.get_by_role("dialog").or_(page.locator(".bp5-dialog, .bp4-dialog")).first.get_by_role(
            "button", name="Terminate"
        ).click()
        ui.server.wait_for(lambda: ui.runs(dagster__partition=key)[0]["status"] == "CANCELED")

    journal = ui.settings.warehouse / JOURNAL_FOLDER / f"{key}.answers.jsonl"
    assert journal.read_text(encoding="utf-8").count('"request_hash"') == 1


def test_a_legacy_tree_is_a_partition_that_is_added_and_imported_by_clicking(ui: Ui, tmp_path: Path) -> None:
    tree = LegacyTree(tmp_path / "attic")
    tree.answers("elyza", rows_of("elyza", ["一", "二"]), model="old__model")
    tree.judgements("elyza", rows_of("elyza", ["一", "二"], [3, 4]), "a", model="old__model")
    tree.answers("tengu", b'{"Answer": "no question"}\n', model="old__model")
    key = "old__model@@legacy-attic"

    with ui.page(f"/assets/{IMPORT}") as page:
        page.get_by_role("button", name="Materialize").first.click()
        page.get_by_text("Add a partition").click()
        page.get_by_role("dialog").last.get_by_role("textbox").last.fill("attic")
        page.get_by_role("button", name="Save").click()
        page.get_by_text("Config", exact=True).click()
        page.get_by_text("Add config").click()
        _enter_config(page.locator(".CodeMirror"), IMPORT, {"trees": [f"attic={tree.root}"]})
        page.get_by_role("button", name="Save config").click()
        page.get_by_role("button", name="Launch 1 run").click()
        ui.server.wait_for(lambda: ui.runs(dagster__partition="attic"))
    ui.wait_for_status("SUCCESS", dagster__partition="attic")

    with ui.page(f"/assets/{IMPORT}?{urlencode({'view': 'partitions', 'partition': 'attic'})}", anew=True) as page:
        for name, value in (("files", "3"), ("lines", "5"), ("quarantined lines", "1")):
            named = page.get_by_role("cell", name=name, exact=True)
            expect(named.locator("xpath=following-sibling::td[1]")).to_have_text(value)
        files = page.locator("table table").filter(has_text="repeated")
        expect(files.get_by_role("row").filter(has_text="judgements")).to_contain_text(FOLDERS["elyza"])
        quarantine = page.locator("table table").filter(has_text="source_line")
        expect(quarantine.get_by_role("row").filter(has_text=FOLDERS["tengu"])).to_contain_text("has no 'Question'")
    with ui.page(f"/assets/{IMPORT}?view=checks") as page:
        for check, result in (("reconciled", "Succeeded"), ("nothing_quarantined", "Failed")):
            # The name stands there twice: what is visible of it, and all of it.
            listed = page.locator("div").filter(has_text=re.compile(rf"^({check})+{result}$"))
            expect(listed.first).to_be_visible()
        expect(page.get_by_text("1 lines quarantined, 0 files not read")).to_be_visible()
    with open_instance(ui.settings.dagster_home) as instance:
        ui.server.wait_for(lambda: key in instance.get_materialized_partitions(dg.AssetKey("answers")))
    with ui.page(f"/assets/answers?{urlencode({'view': 'partitions', 'partition': key})}", anew=True) as page:
        expect(page.get_by_text(key, exact=True).filter(visible=True).first).to_be_visible()
        expect(page.get_by_text("Materialized", exact=True)).to_be_visible()


def _enter_config(editor: Locator, op: str, config: dict[str, Any]) -> None:
    """Type the config of an op into an editor, over what stands there."""
    text = yaml.safe_dump({"ops": {op: {"config": config}}}, default_flow_style=None, width=1000)
    editor.click()
    editor.page.keyboard.press("Control+A")
    editor.page.keyboard.insert_text(text)
    expect(editor).to_contain_text(text.splitlines()[-1].strip())


def _take_part(part: Page | Locator, name: str) -> None:
    """A picture of the documentation, if it is wanted."""
    if folder := os.environ.get("SHABERI_SCREENSHOTS"):
        part.screenshot(path=Path(folder) / name)


def _take_picture(page: Page, path: Path) -> None:
    """The whole graph without the side bars."""
    page.set_viewport_size({"width": 1500, "height": 640})
    page.get_by_role("button", name="Hide navigation").click()
    page.mouse.dblclick(700, 620)  # an empty spot: fit the graph into the window
    page.wait_for_timeout(3_000)  # it glides into its place
    expect(page.get_by_text("Loading…").or_(page.get_by_text("Loading..."))).to_have_count(0)
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=path)
    page.close()  # the next one has its navigation
