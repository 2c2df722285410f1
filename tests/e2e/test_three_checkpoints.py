"""Which of my three checkpoints is best, is it real, and on which questions does it lose?

One command and two clicks in a real browser, from a lake of own runs and from imported ones.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.workspace import Workspace
from tests.browser import running_browser
from tests.commands import started
from tests.deciding.deciding import judging
from tests.example_runs import ask, own_engine, stored_run, write_questions
from tests.mock_endpoint import MockEndpoint
from tests.viewer.site import make_lake

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.long]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as running:
        yield running


@contextmanager
def first_page(browser: Browser) -> Iterator[Page]:
    """What `shaberi view` opens."""
    with started("shaberi", "view", "--no-open", "--port", "0") as server:
        server.wait_until_it_says("\n")
        (url,) = re.findall(r"^(http://\S+)", server.err)
        with browser.new_page() as page:
            page.goto(url)
            yield page


def two_clicks(page: Page, best: str, verdict: str) -> list[tuple[float, float]]:
    """The scores of the best and the next one on the questions where the best loses."""
    lines = page.locator("tbody tr")
    expect(lines.nth(0).locator("td.name")).to_have_text(best)
    expect(lines.nth(0).locator("td.verdict")).to_contain_text("best")
    expect(lines.nth(1).locator("td.verdict")).to_contain_text(verdict)

    page.get_by_role("button", name="questions of the chosen models").first.click()
    page.get_by_label("where A loses").check()

    expect(page).to_have_url(re.compile("flag=loses"))
    rows = [one.locator("td").all_inner_texts() for one in page.locator("tbody tr").all()]
    return [(float(cells[3]), float(cells[4])) for cells in rows]


def test_from_own_runs(workspace: Workspace, mock: MockEndpoint, browser: Browser, tmp_path: Path) -> None:
    mock.options.script = judging({"step-1000": -2.0, "step-3000": 2.0})
    questions = str(write_questions(tmp_path / "questions", 12))
    with own_engine({}):
        for model in ("step-1000", "step-2000", "step-3000"):
            spec = stored_run(workspace, ask(mock, model=model, benchmarks=["rakuda"], questions=questions))
            for stage in ("answers", "judgements", "scores", "metrics"):
                materialize(stage, spec.run_id, ["rakuda"], workspace)

    with first_page(browser) as page:
        lost = two_clicks(page, "step-3000", "below")

    assert all(best < other for best, other in lost)
    assert len(lost) < 6


def test_from_imported_runs(workspace: Workspace, browser: Browser, tmp_path: Path) -> None:
    make_lake(workspace, tmp_path / "tree")

    with first_page(browser) as page:
        assert two_clicks(page, "best", "no difference shown") == []
        expect(page.get_by_text(re.compile(r"^0 of \d+ questions\."))).to_be_visible()


@pytest.mark.corpus
def test_from_the_imported_history(corpus: Path, workspace: Workspace, browser: Browser) -> None:
    import_trees(ImportRequest({"history": corpus / "legacy" / "mini"}), workspace)

    with first_page(browser) as page:
        page.get_by_role("button", name="questions of the chosen models").first.click()
        page.get_by_label("where A loses").check()
        expect(page).to_have_url(re.compile("flag=loses"))
        expect(page.locator("h1")).to_contain_text("Questions of ")
