"""The pages of `shaberi view` in a real browser: clicks, keys, narrow and dark, and texts that try to do something.

With SHABERI_SCREENSHOTS=docs/images those pictures of the documentation are taken anew that perf/view.py does not take.
"""

import os
import re
import tarfile
import time
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from perf.history import Size, write_history
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.reports import scores as score_reports
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.viewer.html import about_lake, write_html
from shaberi_dagster.viewer.requests import FileRequest
from shaberi_dagster.viewer.web.pages import Source
from tests.archives import extract
from tests.browser import running_browser
from tests.exchange.trees.trees import LegacyTree, questions_of, rows_of
from tests.kept_lake.contents import ARCHIVE, workspace_of
from tests.viewer.site import make_lake, served
from tests.viewer.test_pages_of_decisions import OWN, look, write

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.long]

_PAGES = (
    "/",
    "/questions?m=best&m=hostile",
    "/compare?m=best&m=hostile",
    "/model?model=hostile",
    "/runs",
    "/judges",
    "/ensemble",
    "/decisions",
    "/cost",
    "/search?q=script",
    "/search?q=alert&what=judgements",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    place = tmp_path_factory.mktemp("view")
    workspace = Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": str(place / "warehouse")}), environment={})
    make_lake(workspace, place / "tree")
    with served(place / "warehouse") as running:
        yield running


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Runs with passes, calls and prompts, some of which were killed, and a decision that is being made."""
    folder = tmp_path_factory.mktemp("kept")
    with tarfile.open(ARCHIVE) as archive:
        extract(archive, folder)
    write(workspace_of(folder).lake, OWN, look(24, 0.8, -0.4, 2.0))
    with served(folder / "warehouse") as running:
        yield running


@pytest.fixture(scope="module")
def browser():
    with running_browser() as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_stays_open(browser):
    """Pages of earlier tests would go on following runs; on a busy machine the next one takes its time."""
    expect.set_options(timeout=30_000)
    yield
    for context in browser.contexts:
        context.close()


def opened(browser: Browser, address: str, width: int = 1600, own: str = "http://127.0.0.1", **look) -> Page:
    """A page in a fresh profile; what it does that it must not is in `page.wrongs`."""
    page = browser.new_context(viewport={"width": width, "height": 900}, **look).new_page()
    page.wrongs = []
    page.on("dialog", lambda dialog: (page.wrongs.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: page.wrongs.append(str(error)))
    page.on("console", lambda message: page.wrongs.append(message.text))
    page.on("request", lambda request: None if request.url.startswith(own) else page.wrongs.append(request.url))
    page.goto(address)
    return page


def test_from_the_leaderboard_two_clicks_lead_to_the_answers_and_back(browser, site):
    page = opened(browser, site.url)
    expect(page.get_by_text("no difference shown")).to_be_visible()

    page.get_by_role("button", name="questions of the chosen models").click()
    expect(page).to_have_url(re.compile(r"/questions\?m=best%40%40legacy-tree&m=second%40%40legacy-tree$"))
    page.locator("a[data-row]").first.click()

    expect(page.get_by_role("heading", name=re.compile("A best"))).to_be_visible()
    expect(page.get_by_role("heading", name=re.compile("B second"))).to_be_visible()
    expect(page.locator("#B .score")).to_have_text("3.50")
    page.locator("summary").get_by_text("judge-a").first.click()
    expect(page.get_by_text("judge-a says of best")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Questions of best · second")).to_be_visible()
    page.get_by_role("link", name="compare").click()
    expect(page.get_by_role("cell", name="too few").or_(page.get_by_text("no difference shown")).first).to_be_visible()
    assert page.wrongs == []


def test_an_address_holds_all_that_a_page_shows(browser, site):
    page = opened(browser, site.url + "/questions?m=best&m=hostile")
    page.locator("select[name=judge]").select_option("judge-b")
    expect(page).to_have_url(re.compile("judge=judge-b"))
    page.get_by_label("out of scale").check()
    expect(page).to_have_url(re.compile("flag=out-of-scale"))
    page.get_by_role("link", name="#").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    shown = page.locator("main").inner_text()

    assert opened(browser, page.url).locator("main").inner_text() == shown


def test_what_is_chosen_while_the_script_is_on_its_way_is_not_lost(browser, site):
    page = opened(browser, site.url)
    page.route("**/viewer.js", lambda route: (time.sleep(1), route.continue_()))
    page.goto(site.url + "/questions?m=best&m=hostile", wait_until="commit")
    page.get_by_label("out of scale").check()
    expect(page).to_have_url(re.compile("flag=out-of-scale"))


def press(page, key):
    page.wait_for_load_state("load")  # before that nobody listens
    page.keyboard.press(key)


def test_keys_walk_through_rows_questions_and_ways_to_look(browser, site):
    page = opened(browser, site.url + "/questions?m=best&m=second")
    press(page, "j")
    press(page, "j")
    press(page, "k")
    press(page, "Enter")
    expect(page.get_by_role("heading", name="question 5")).to_be_visible()
    press(page, "j")
    expect(page.get_by_role("heading", name="question 2")).to_be_visible()
    press(page, "r")
    expect(page.locator("pre.answer").first).to_contain_text("## よい回答")
    press(page, "d")
    expect(page.locator("ins").first).to_be_visible()
    press(page, "g")
    expect(page.get_by_text("judge-b says of second")).to_be_visible()
    press(page, "2")
    expect(page.get_by_role("heading", name=re.compile("B second"))).to_have_count(0)
    press(page, "?")
    expect(page.get_by_role("dialog")).to_contain_text("next question")
    press(page, "Escape")
    press(page, "/")
    page.keyboard.type("jr?")  # in a field, keys are letters
    expect(page.get_by_role("searchbox")).to_have_value("jr?")
    assert page.wrongs == []


def test_keys_tick_what_is_chosen_and_filter_and_u_goes_back_where_no_list_is(browser, site):
    page = opened(browser, site.url)
    first = page.locator("table.ranking input[name=m]").first
    expect(first).to_be_checked()
    press(page, "1")
    expect(first).not_to_be_checked()
    press(page, "1")
    expect(first).to_be_checked()
    press(page, "o")
    expect(page.get_by_role("heading", name="Questions of best · second")).to_be_visible()
    press(page, "l")
    expect(page).to_have_url(re.compile("flag=loses"))
    press(page, "l")
    expect(page).not_to_have_url(re.compile("flag=loses"))
    press(page, "c")
    expect(page).to_have_url(re.compile("/compare"))
    press(page, "u")
    expect(page).to_have_url(re.compile("/questions"))


def test_chosen_models_stay_so_on_other_pages_and_in_the_address(browser, site, monkeypatch):
    monkeypatch.setattr(score_reports, "LINES", 2)
    page = opened(browser, site.url + "/?policy=legacy&text=e")  # an address of which no page is kept
    models = [one.get_attribute("value") for one in page.locator("table.ranking input[name=m]").all()]
    press(page, "2")
    expect(page.locator("[data-chosen]").first).to_have_text(f"1 chosen: {models[0]}")
    press(page, "n")
    expect(page.locator("h1")).to_have_text("Leaderboard, page 2")
    expect(page.locator("table.ranking input[name=m]:checked")).to_have_count(0)
    press(page, "1")
    expect(page.locator("[data-chosen]").first).to_contain_text(f"2 chosen: {models[0]} · ")
    press(page, "p")
    expect(page.locator("table.ranking input[name=m]:checked")).to_have_count(1)
    expect(page.locator("[data-chosen]").first).to_contain_text("2 chosen: ")
    address = page.url
    press(page, "c")
    expect(page).to_have_url(re.compile(r"/compare\?.*m=.*&m="))
    page.goto(address)
    expect(page.locator("[data-chosen]").first).to_contain_text("2 chosen: ")


def test_a_key_that_is_held_asks_for_its_page_once(browser, site):
    page = opened(browser, site.url + "/questions?m=best&m=second&sort=position")
    press(page, "o")
    expect(page.get_by_text("1 of 5", exact=True)).to_be_visible()
    page.wait_for_load_state("load")
    clicks = page.evaluate(
        "() => { let n = 0; document.addEventListener('click', () => n++);"
        "for (let i = 0; i < 3; i++) document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'j', bubbles: true}));"
        "return n }"
    )
    assert clicks == 1
    expect(page.get_by_text("2 of 5", exact=True)).to_be_visible()
    press(page, "j")
    expect(page.get_by_text("3 of 5", exact=True)).to_be_visible()


@pytest.fixture(scope="module")
def losing(tmp_path_factory):
    """Two models on all sets of questions; the better one loses on twelve questions."""
    place = tmp_path_factory.mktemp("losing")
    workspace = Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": str(place / "warehouse")}), environment={})
    tree = LegacyTree(place / "tree")
    for benchmark, judge in product(("tengu", "mt_bench", "rakuda"), ("judge-a", "judge-b")):
        answers = [f"{benchmark} {number}" for number in range(len(questions_of(benchmark)))]
        losses = [number < 4 for number in range(len(answers))]
        better = [3 if loses else 10 for loses in losses]
        other = [5 - number % 2 if loses else 1 for number, loses in enumerate(losses)]
        for model, scores in (("better", better), ("other", other)):
            tree.judgements(benchmark, rows_of(benchmark, answers, scores), judge, model=model)
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    with served(place / "warehouse") as running:
        yield running


def test_the_main_path_is_walked_with_the_keyboard_alone(browser, losing):
    """Which is best, is it real, where does it lose, ten losses in a row, back, and send the page."""
    page = opened(browser, losing.url, permissions=["clipboard-read", "clipboard-write"])
    expect(page.locator("tbody tr").first).to_contain_text("better")
    expect(page.locator("[data-chosen]")).to_contain_text("2 chosen: better@@legacy-tree · other@@legacy-tree")
    press(page, "c")
    expect(page.locator("p.verdict").first).to_contain_text(re.compile("overall"))
    expect(page.locator("svg.difference").first).to_be_visible()
    press(page, "l")
    expect(page.get_by_text("12 of 16 questions.")).to_be_visible()
    listed = [row.get_attribute("href") for row in page.locator("a[data-row]").all()]
    press(page, "j")
    press(page, "Enter")
    expect(page.get_by_text("1 of 12", exact=True)).to_be_visible()
    press(page, "g")
    for number in range(1, 11):
        expect(page.get_by_text(f"{number} of 12", exact=True)).to_be_visible()
        expect(page.locator("details.judge[open]").first).to_be_visible()
        scores = [float(score) for score in page.locator(".card > .score").all_inner_texts()]
        assert scores[0] < scores[1]
        assert page.url.startswith(losing.url + listed[number - 1])
        if number < 10:
            press(page, "j")
    press(page, "u")
    expect(page.get_by_text("12 of 16 questions.")).to_be_visible()
    question = [re.compile("^" + re.escape(address.partition("&m=")[0]) + "&m=") for address in listed]
    expect(page.locator("a[data-row]:focus")).to_have_attribute("href", question[9])
    press(page, "j")
    expect(page.locator("a[data-row]:focus")).to_have_attribute("href", question[10])
    press(page, "Enter")
    expect(page.get_by_text("11 of 12", exact=True)).to_be_visible()
    expect(page.locator("details.judge[open]").first).to_be_visible()
    press(page, "u")
    expect(page.locator("a[data-row]:focus")).to_have_attribute("href", question[10])
    press(page, "y")
    expect(page.get_by_role("button", name="copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    assert page.wrongs == []


def test_chosen_models_and_keys_are_at_hand_on_every_page(browser, losing):
    page = opened(browser, losing.url, 1000)
    page.set_viewport_size({"width": 1000, "height": 345})
    expect(page.get_by_role("button", name="questions of the chosen models")).to_be_in_viewport()
    page.set_viewport_size({"width": 1200, "height": 420})
    expect(page.get_by_role("banner").get_by_role("button", name="keys: ?")).to_be_in_viewport()
    press(page, "?")
    expect(page.get_by_text("In a list j and k go to")).to_be_in_viewport(ratio=1)
    press(page, "Escape")
    press(page, "j")
    press(page, "x")
    expect(page.locator("[data-chosen]")).to_contain_text("1 chosen: other")
    press(page, "Tab")
    for path in (*_PAGES[3:], "/nowhere", "/questions?m=better", "/run?run=better@@legacy-tree"):
        page.goto(losing.url + path.replace("hostile", "better"))
        press(page, "?")
        expect(page.get_by_role("dialog")).to_contain_text("copy the address")
        press(page, "Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
    page.goto(losing.url + "/runs")
    press(page, "Tab")
    expect(page.get_by_role("link", name="skip to the content")).to_be_focused()
    press(page, "Enter")
    press(page, "Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_losses_are_read_without_a_script(browser, losing):
    page = opened(browser, losing.url + "/questions?m=better&m=other&flag=loses", java_script_enabled=False)
    page.locator("a[data-row]").nth(1).click()
    page.get_by_role("link", name="judges' texts").click()
    page.get_by_role("link", name="next question").click()
    expect(page.get_by_text("3 of 12")).to_be_visible()
    expect(page.locator("details.judge[open]").first).to_be_visible()
    page.get_by_role("link", name="back to the list").click()
    expect(page.locator("tr:target a[data-row]")).to_be_in_viewport()
    page.locator("tr:target a[data-row]").click()
    expect(page.locator("details.judge[open]").first).to_be_visible()


def test_pages_are_readable_narrow_and_wide_light_and_dark(browser, site):
    page = opened(browser, "about:blank")
    for path in ("/", "/questions?m=best&m=hostile", "/judges"):
        page.goto(site.url + path)
        for width, scheme in product((390, 1600), ("light", "dark")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            paper, ink = page.evaluate(
                "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
            )
            brightness = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (paper, ink)]
            assert (brightness[0] > brightness[1]) == (scheme == "light")
            assert abs(brightness[0] - brightness[1]) > 400


def test_hostile_texts_execute_nothing_and_request_nothing(browser, site):
    addresses = list(_PAGES)
    first = opened(browser, site.url + "/questions?m=hostile&sort=position")
    for link in first.locator("a[data-row]").all():
        address = link.get_attribute("href")
        addresses += [f"{address}&view={view}" for view in ("rendered", "raw", "diff", "reference")]
    assert len(addresses) == len(_PAGES) + 4 * 5

    page = opened(browser, "about:blank")
    for address in addresses:
        page.goto(site.url + address)
        page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        assert page.wrongs == [], address
        assert page.evaluate("document.querySelectorAll('main img, main iframe, main style, main script').length") == 0
    page.wait_for_load_state("networkidle")
    assert page.wrongs == []


def test_a_script_that_got_into_a_page_would_not_run(browser, site):
    """The policy holds by itself, whatever a template does."""
    page = opened(browser, site.url)
    failures = []
    page.on("requestfailed", lambda request: failures.append((request.url, request.failure)))

    page.evaluate(
        "document.querySelector('main').innerHTML = '<img src=http://elsewhere.invalid/x onerror=window.ran=1>'"
        "+ '<a href=\"javascript:window.ran=1\">x</a><iframe src=http://elsewhere.invalid></iframe>'"
    )
    page.locator("main a").click()
    page.wait_for_timeout(300)

    assert page.evaluate("window.ran") is None
    assert failures == [("http://elsewhere.invalid/x", "csp")]


def test_prompts_and_calls_are_a_key_and_a_click_from_a_run(browser, kept):
    page = opened(browser, kept.url + "/runs?text=kept-passes")
    press(page, "j")
    press(page, "Enter")
    expect(page.get_by_role("heading", name="kept-passes default")).to_be_visible()
    press(page, "o")
    expect(page.get_by_role("heading", name="Questions of kept-passes")).to_be_visible()
    press(page, "o")
    expect(page.get_by_role("link", name="prompts and calls")).to_be_visible()
    press(page, "p")
    expect(page).to_have_url(re.compile("open=prompt"))
    for name in ("prompt", "call"):
        page.get_by_role("link", name=re.compile(f"^{name} ")).first.click()
        expect(page.get_by_role("heading", level=1)).to_contain_text(name.capitalize())
        page.go_back()
    assert page.wrongs == []


def test_a_run_at_work_is_followed(browser, kept):
    run_id = "kept-killed-answers@@default"
    page = opened(browser, f"{kept.url}/run?run={run_id}")
    expect(page.get_by_text("3 calls of answers")).to_be_visible()

    journal = kept.warehouse / "_journal" / f"{run_id}.answers.jsonl"
    *_, call, half = journal.read_text(encoding="utf-8").splitlines()
    assert '"purpose":"answer"' not in half  # the run was killed while it wrote
    with journal.open("a", encoding="utf-8") as file:
        file.write("\n" + re.sub('"request_hash":"[^"]*"', '"request_hash":"new"', call) + "\n")

    expect(page.get_by_text("4 calls of answers")).to_be_visible(timeout=30_000)
    assert page.wrongs == []


def test_a_search_shows_that_it_works_until_its_page_is_there(browser, site):
    page = opened(browser, site.url)
    page.evaluate(
        "new MutationObserver(() => sessionStorage.setItem('seen', document.body.className))"
        ".observe(document.body, { attributes: true })"
    )
    press(page, "/")
    page.keyboard.type("回答")
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="Search: 回答")).to_be_visible()
    assert page.evaluate("sessionStorage.getItem('seen')") == "busy"
    expect(page.locator("body.busy")).to_have_count(0)
    assert page.wrongs == []


def test_hits_of_a_search_are_read_with_the_keyboard(browser, site):
    page = opened(browser, site.url + "/search?q=alert&what=judgements")
    hits = [row.get_attribute("href") for row in page.locator("a[data-row]").all()]
    press(page, "j")
    press(page, "Enter")
    for place in range(1, 4):
        expect(page.get_by_text(f"{place} of {len(hits)}")).to_be_visible()
        assert page.url.endswith(hits[place - 1])
        press(page, "j")
    press(page, "u")
    expect(page.get_by_role("heading", name="Search: alert")).to_be_visible()
    assert page.wrongs == []


def test_a_leaderboard_of_four_benchmarks_fits_and_narrower_its_models_stay_in_sight(browser, tmp_path):
    write_history(tmp_path / "warehouse", Size(models=30, seed=1))
    with served(tmp_path / "warehouse") as running:
        page = opened(browser, running.url, 1280)
        tables = page.locator(".wide:has(table.ranking)")
        assert tables.count()
        assert all(box.evaluate("box => box.scrollWidth <= box.clientWidth") for box in tables.all())
        page.set_viewport_size({"width": 700, "height": 900})
        table = tables.first
        table.evaluate("box => box.scrollLeft = box.scrollWidth")
        assert table.evaluate("box => box.scrollLeft") > 100
        assert table.locator("td.name").first.bounding_box()["x"] >= table.bounding_box()["x"]


def test_a_decision_is_followed_until_it_is_made(browser, kept):
    page = opened(browser, kept.url + "/decisions", 390)
    page.get_by_role("link", name="new@@t").click()
    expect(page.get_by_role("heading", name="not decided yet")).to_be_visible()
    expect(page.locator("svg.curve circle")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

    decided = OWN | {"state": "decided", "best": ["new@@t"], "n_asked": 48}
    write(Lake(kept.warehouse), decided, look(24, 0.8, -0.4, 2.0), look(48, 1.1, 0.3, 1.9, "A"))

    expect(page.get_by_role("heading", name="new@@t is better").first).to_be_visible(timeout=30_000)
    expect(page.locator("svg.curve circle")).to_have_count(2)
    assert page.wrongs == []


@pytest.mark.skipif("SHABERI_SCREENSHOTS" not in os.environ, reason="only when pictures are wanted")
def test_pictures_for_the_documentation(browser, site, kept):
    folder = Path(os.environ["SHABERI_SCREENSHOTS"])
    names = ["step-3000@@july", "step-2000@@july"]
    pair = {"a": names[0], "b": names[1]}
    ends = [("open", 2.4), ("open", 1.2), ("open", 0.8), ("A", 0.6)]
    curve = [look(24 * n, 0.7, 0.7 - reach, 0.7 + reach, said) | pair for n, (said, reach) in enumerate(ends, 1)]
    decided = OWN | {"candidates": names, "state": "decided", "n_asked": 96, "calls": 384}
    write(Lake(kept.warehouse), decided | {"best": names[:1]}, *curve)
    start = opened(browser, site.url + "/questions?m=best&m=second")
    question = start.locator("a[data-row]").first.get_attribute("href")
    for name, where, path, scheme in (
        ("side-by-side", site, f"{question}&view=diff", "dark"),
        ("decision", kept, "/decision?decision=d1", "light"),
    ):
        page = opened(browser, where.url + path, 1100, color_scheme=scheme)
        page.set_viewport_size({"width": 1100, "height": 620})
        page.screenshot(path=folder / f"view-{name}.png")


def test_the_file_is_drawn_without_a_server_and_asks_nobody_for_anything(browser, site, tmp_path):
    with open_catalog(site.warehouse) as catalog:
        source = Source(catalog, site.warehouse)
        text = write_html(source, about_lake(source, FileRequest(["best", "hostile"])), datetime.now(UTC))
    file = tmp_path / "report.html"
    file.write_text(text, encoding="utf-8")

    page = opened(browser, file.as_uri(), own=file.as_uri())

    expect(page.locator("#scores[data-drawn='3']")).to_be_attached()
    page.get_by_role("link", name="all scores").click()
    page.locator("#scores select[name=judge]").select_option("judge-b")
    page.locator("canvas").hover(position={"x": 5, "y": 5})
    expect(page.locator("#scores output")).to_contain_text("best legacy-tree: question 1 of tengu@5")
    page.get_by_role("link", name="Questions of best · hostile").first.click()
    page.keyboard.press("j")
    expect(page.locator("a[data-row][href^='#']:focus")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator("section:target")).to_contain_text("1 of 5")
    page.keyboard.press("j")
    expect(page.locator("section:target")).to_contain_text("2 of 5")
    page.keyboard.press("j")
    expect(page.locator("section:target")).to_contain_text("3 of 5")
    page.keyboard.press("u")
    expect(page.locator("section:target h1")).to_have_text("Questions of best · hostile")
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    page.get_by_role("contentinfo").get_by_role("button", name="keys: ?").click()
    expect(page.get_by_role("dialog")).to_contain_text("next question")
    expect(page.get_by_role("dialog")).not_to_contain_text("take A away")  # which the file cannot do
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Comparison").click()
    page.wait_for_load_state("networkidle")
    assert page.wrongs == []
    assert page.evaluate("document.querySelectorAll('main img, main iframe, main style, main script').length") == 0
