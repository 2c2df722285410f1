"""The pages of `shaberi view` over a small lake, as a browser gets them."""

import re
import shutil
import subprocess
import sys
from contextlib import closing
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest

from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.reports.blocks import signed
from shaberi_dagster.reports.comparison import compare as read_comparison
from shaberi_dagster.reports.comparison import names_of, verdict
from shaberi_dagster.reports.questions import GridRequest, read_question_grid
from shaberi_dagster.reports.requests import ComparisonRequest, ScoreSelection
from shaberi_dagster.reports.scores import read_rankings
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.viewer.web import pages
from shaberi_dagster.viewer.web.address import PageAddress
from shaberi_dagster.viewer.web.pages import PAGES, Source
from shaberi_dagster.viewer.web.templates import render
from tests.exchange.trees.trees import LegacyTree, questions_of, rows_of
from tests.viewer.site import LONG, Reply, make_lake, served

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    place = tmp_path_factory.mktemp("view")
    workspace = Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": str(place / "warehouse")}), environment={})
    make_lake(workspace, place / "tree")
    return place / "warehouse"


@pytest.fixture(scope="module")
def site(warehouse):
    with served(warehouse) as running:
        yield running


def rows_of_table(page, number=0):
    """The cells of a table's rows, as text."""
    body = re.findall(r"<tbody>(.*?)</tbody>", page.text, re.DOTALL)[number]
    return [
        [re.sub(r"<[^>]*>|\s+", " ", cell).strip() for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)]
        for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL)
    ]


def test_the_leaderboard_ranks_and_says_what_the_best_differs_from(site):
    page = site.get("/")

    rows = [(cells[1], cells[2], cells[4], cells[6].split("  ")[0]) for cells in rows_of_table(page)]
    assert rows == [
        ("1", "best", "8.70", "best"),
        ("1", "second", "7.40", "no difference shown"),
        ("3", "hostile", "3.28", "below"),
    ]
    assert re.search(r'below\s+<span[^>]*title="over 5 questions, p [^"]+">-5\.\d\d \(-[\d.]+ to -[\d.]+\)<', page.text)
    assert [cells[8] for cells in rows_of_table(page)] == ["10/10", "10/10", "9/10  1 out of scale"]
    assert "Mean of 2 judges" in page.text
    assert 'aria-label="8.70, 95 % interval 4.73–9.80"' in page.text


ANSWERS = [f"answer {number}" for number in range(len(questions_of("tengu")))]


def test_a_verdict_that_is_withheld_can_be_had_anyway_by_a_link(tmp_path):
    workspace = Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": str(tmp_path / "warehouse")}), environment={})
    for name, own in (("one", 9), ("other", 4)):
        tree = LegacyTree(tmp_path / name)
        tree.judgements("tengu", rows_of("tengu", ANSWERS, [own] * len(ANSWERS)), "j", model=name)
        import_trees(ImportRequest({name: tree.root}), workspace)
    with served(workspace.settings.warehouse) as site:
        withheld = site.get("/compare?m=one&m=other")
        (link,) = re.findall(r'href="([^"]*)">give the verdict anyway', withheld.text)
        given = site.get(link.replace("&amp;", "&"))
        leaderboard = site.get("/")
    assert "no verdict" in withheld.text
    assert "The verdict is given anyway" in given.text
    assert "withhold the verdict" in given.text
    assert "no verdict" not in given.text
    assert leaderboard.text.count("<tbody>") == 2


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two models that two judges scored on enough questions for intervals, and their comparison."""
    place = tmp_path_factory.mktemp("pair")
    workspace = Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": str(place / "warehouse")}), environment={})
    answers = [f"answer {number}" for number in range(6)]
    tree = LegacyTree(place / "tree")
    for (name, low), judge in product({"one": 5, "other": 4}.items(), ("judge-a", "judge-b")):
        own = [low + number * len(judge + name) % 4 for number in range(6)]
        tree.judgements("mt_bench", rows_of("mt_bench", answers, own), judge, model=name)
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    with open_catalog(workspace.settings.warehouse) as catalog:
        report = read_comparison(catalog, ComparisonRequest("one", "other"))
    with served(workspace.settings.warehouse) as running:
        yield report, running.get("/compare?m=one&m=other").text


def test_a_comparison_begins_with_its_verdict_and_a_picture_of_each_benchmark(pair):
    report, page = pair
    sections = report.sections
    pictured, folded = page.split("<details>")

    said = pictured.index(verdict(names_of(report), sections[0]))
    assert said < pictured.index("<svg") < pictured.index("<figcaption>judge-a")
    drawn = re.findall(r'<svg class="difference (\w*)".*?aria-label="([^"]*)"', pictured)
    assert drawn == [
        (
            row["verdict"] if row["verdict"] in {"better", "worse"} else "",
            f"{signed(row['difference'])}, {signed(row['lower'])} to {signed(row['upper'])}",
        )
        for section in sections
        for row in section["rows"]
    ]
    assert "Holm p" in folded
    assert "Holm p" not in pictured


def test_the_margin_of_equality_is_drawn_to_the_scale_of_the_interval(pair):
    _, page = pair
    found = re.search(
        r'<svg class="difference[^>]*aria-label="([-+.\d]+), ([-+.\d]+) to ([-+.\d]+)"><rect class="margin" x="([\d.]+)" '
        r'width="([\d.]+)".*?<line x1="([\d.]+)" x2="([\d.]+)" y1="12".*?<line class="dot" x1="([\d.]+)"',
        page,
    )
    difference, lower, upper, left, width, begins, ends, middle = map(float, found.groups())
    per_point = width / 0.4  # from -0.2 to +0.2

    assert [begins, ends, middle] == pytest.approx(
        [left + (0.2 + value) * per_point for value in (lower, upper, difference)], abs=0.5 + 0.005 * per_point
    )


def test_a_model_alone_is_chosen_and_compared_with_nobody(site):
    page = site.get("/?model=best").text
    assert re.findall(r'name="m" value="([^"]*)"[^>]*( checked)', page) == [("best@@legacy-tree", " checked")]
    assert "questions of the chosen models" in page
    assert [words in page for words in ("against #1", "compare the chosen models")] == [False, False]


@pytest.mark.parametrize("name", ["a__b@@legacy-tree", "a%5F%5Fb@@legacy-tree", "a%255F%255Fb@@legacy-tree"])
def test_a_run_is_found_by_its_id_and_by_its_model_and_tag(name, tmp_path):
    workspace = Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": str(tmp_path / "warehouse")}), environment={})
    tree = LegacyTree(tmp_path / "tree")
    tree.judgements("tengu", rows_of("tengu", ["a", "b"], [9, 9]), "judge-a", model="a__b")
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    with served(workspace.settings.warehouse) as site:
        page = site.get(f"/run?run={name}")

    assert (page.status, "<h1>a__b legacy-tree</h1>" in page.text) == (200, True)


def test_what_imported_runs_cost_is_not_said(site):
    run, cost = site.get("/run?run=best@@legacy-tree").text, site.get("/cost").text
    assert "history of the model" in run
    assert "$" not in run
    assert "imported ones do not say what they cost" in cost
    assert "0 calls" not in cost


@pytest.mark.parametrize(
    ("choice", "models"),
    [
        ("?text=SEC", ["second"]),
        ("?judge=judge-a", ["best", "second", "hostile"]),
        ("?tag=legacy&model=best", ["best"]),
    ],
)
def test_the_leaderboard_is_narrowed_by_its_address(choice, models, site):
    page = site.get(f"/{choice}&passes=baseline")
    assert ([cells[2] for cells in rows_of_table(page)], "--passes baseline</code>" in page.text) == (models, True)


def test_missing_scores_count_as_the_address_says(site):
    means = {
        policy: {cells[2]: float(cells[4]) for cells in rows_of_table(site.get(f"/?policy={policy}&set=tengu@5"))}
        for policy in ("legacy", "zero")
    }
    assert means["zero"]["best"] == means["legacy"]["best"] == 8.70
    assert means["zero"]["hostile"] < means["legacy"]["hostile"] == 3.28


def test_score_distributions_of_all_judges_have_one_scale(site):
    page = site.get("/judges").text
    plots = re.findall(r'aria-label="score distribution of (judge-.): ([^"]*)">(.*?)</svg>', page, re.DOTALL)
    shares = {judge: dict(part.rsplit(" ", 1) for part in said.split(", ")) for judge, said, _ in plots}
    heights = [list(map(float, re.findall(r'height="([\d.]+)" fill', drawn))) for *_, drawn in plots]

    assert list(shares) == ["judge-a", "judge-b"]
    assert list(shares["judge-a"]) == list(shares["judge-b"])
    assert (shares["judge-a"]["9"], shares["judge-a"]["12"], shares["judge-b"]["12"]) == ("42.9%", "0.0%", "6.7%")
    assert max(heights[0]) == 44
    assert max(heights[1]) == pytest.approx(44 * (5 / 15) / (6 / 14), abs=0.1)


def test_questions_are_sorted_by_the_difference_and_have_the_numbers_of_compare(site, warehouse):
    page = site.get("/questions?m=best&m=second")

    rows = rows_of_table(page)
    assert [row[5] for row in rows] == sorted((row[5] for row in rows), key=float, reverse=True)
    assert rows[0][3:6] == ["8.50", "3.50", "+5.00"]
    with open_catalog(warehouse) as catalog:
        grid = read_question_grid(catalog, GridRequest(["best", "second"]))
        (section, *_) = read_comparison(catalog, ComparisonRequest("best", "second")).sections
    shown = [row["scores"][0] - row["scores"][1] for row in grid["rows"]]
    assert section["rows"][0]["difference"] == pytest.approx(sum(shown) / len(shown))


def test_a_score_that_one_model_lacks_leaves_its_judge_out_of_that_question(site):
    rows = rows_of_table(site.get("/questions?m=best&m=hostile&sort=position"))

    assert rows[3][3:5] == ["9.00", "2.00"]  # judge-b alone scored both
    assert "1 without a score" in rows[3][-1]


@pytest.mark.parametrize(
    ("choice", "n"),
    [("flag=disagreement", 2), ("flag=out-of-scale", 1), ("flag=failed", 1), ("set=tengu", 0), ("text=zzz", 0)],
)
def test_questions_are_filtered_by_what_went_wrong_and_by_text(choice, n, site):
    page = site.get(f"/questions?m=hostile&m=second&{choice}")

    assert (page.status, len(rows_of_table(page))) == (200, n)


def test_answers_stand_side_by_side_rendered_raw_or_as_a_difference(site):
    address = "/question?set={}&position=2&m=best&m=second"
    question_set = the_set(site)
    address = address.format(question_set)

    rendered = site.get(address).text
    assert "<h2>よい回答</h2>" in rendered
    assert "judge-a" in rendered
    assert "judge-b says of second" in rendered
    assert "## よい回答" in site.get(address + "&view=raw").text
    assert "<del>" in site.get(address + "&view=diff").text
    assert site.get(address.replace("position=2", "position=999")).status == 404


def test_a_page_whose_statements_take_too_long_is_stopped_and_says_so(warehouse, monkeypatch):
    endless = "select count(*) from range(10000000) a, range(100000) b where a.range * b.range % 7 = 3"
    monkeypatch.setitem(PAGES, "/endless", lambda source, _: source.catalog.execute(endless).fetchall())
    with served(warehouse, seconds=0.2) as running:
        page = running.get("/endless")
    assert page.status == 503
    assert "the page was stopped after 0.2 s: ask for less of the lake" in page.text


def test_a_long_text_is_cut_with_a_link_to_all_of_it(site):
    question_set = the_set(site)
    page = site.get(f"/question?set={question_set}&position=4&m=hostile")

    assert len(page.text) < 200_000
    (link,) = re.findall(r'href="(/text[^"]*what=answer[^"]*)"', page.text)
    whole = site.get(link.replace("&amp;", "&"))
    assert whole.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert whole.text.count("ア") == LONG


def the_set(site):
    """The one question set of the lake."""
    found = re.findall(r"/question\?set=([^&]*)&amp;position", site.get("/questions?m=hostile").text)
    (name,) = set(found)
    return name


class Tags(HTMLParser):
    """All tags, attributes and addresses of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes = set(), {}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value)


@pytest.mark.parametrize("position", range(1, 6))
@pytest.mark.parametrize("view", ["", "raw", "diff", "reference"])
def test_no_text_of_a_model_becomes_a_tag_an_attribute_or_an_address(view, position, site):
    question_set = the_set(site)

    page = Tags(site.get(f"/question?set={question_set}&position={position}&m=best&m=hostile&view={view}").text)

    assert page.tags.isdisjoint({"img", "iframe", "style", "template", "object", "embed", "base"})
    assert not {name for name in page.attributes if name.startswith("on") or name in {"style", "srcdoc", "autofocus"}}
    assert page.attributes["src"] == {"/static/viewer.js"}
    assert {address for address in page.attributes["href"] if address[0] != "/"} == {"#content"}


def test_characters_that_hide_or_turn_a_text_around_are_visible(site):
    question_set = the_set(site)

    text = site.get(f"/question?set={question_set}&position=4&m=hostile&view=raw").text

    assert "‹U+202E›gnp.txt‹U+2066› ␛[31m ‹U+200B›" in text
    assert not set(text) & set("\u202e\u2066\u200b\x1b")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("/questions", "choose one to 5 models, not 0"),
        ("/questions?m=best&m=best@@legacy", "the same model is chosen twice"),
        ("/questions?m=nobody", "no scores of model &#39;nobody&#39;"),
        ("/questions?m=best&sort=size", "sort must be one of"),
        ("/questions?m=best&page=x", "page must be a number"),
        ("/question?set=tengu&position=1&m=best&sort=A", "question set"),
        ("/compare?m=best", "choose two models or more"),
        ("/run?run=none", "the lake has no run"),
        ("/search?q=x", "two characters or more"),
        ("/search?q=" + quote("回答" * 30_000), "search for at most 1,000 characters, not 60,000"),
        ("/call?hash=0", "no such call"),
        ("/prompt?hash=0", "does not have the text of this prompt"),
        ("/nowhere", "no such page"),
        ("/?policy=nice", "must be one of"),
        ("/text?what=answer", "no such text"),
    ],
)
def test_what_is_not_there_is_said(address, message, site):
    page = site.get(address)

    assert page.status == 404
    assert message in page.text


def test_search_finds_answers_whatever_their_case_and_links_to_them(site):
    page = site.get("/search?q=SCRIPT%3Ealert")

    ((question, score, excerpt),) = rows_of_table(page)
    assert ("hostile" in question, score) == (True, "1.50")
    assert '<mark title="found">script&gt;alert</mark>' in page.text
    assert "(1)&lt;/script&gt;&lt;img src=x" in excerpt
    assert question.startswith("tengu@")
    assert rows_of_table(site.get("/search?q=says+of+second&what=judgements"))


def linked(page, key):
    """The address to which a key of a page leads."""
    (address,) = re.findall(rf'href="([^"]*)" data-key="{key}"', page.text)
    return address.replace("&amp;", "&")


def test_a_hit_is_marked_where_it_stands_and_leads_back_to_the_search(site):
    page = site.get("/search?q=says+of+second&what=judgements")
    links = [link.replace("&amp;", "&") for link in re.findall(r'<a data-row href="([^"]*)"', page.text)]
    hit = site.get(links[0])
    back = linked(hit, "u")

    assert hit.text.count('<mark title="found">says of second</mark>') == 2
    assert '<details class="judge" open>' in hit.text
    assert back.startswith("/search?q=says%20of%20second&what=judgements&open=judge#")
    assert f'<tr id="{back.partition("#")[2]}">' in page.text
    assert 'href="/run?run=second@@legacy-tree"' in page.text


@pytest.mark.parametrize(
    "asked", ["q=says+of+second&what=judgements", "q=alert", "q=%E3%81%A0%E3%81%95&what=questions"]
)
def test_the_hits_of_a_search_are_read_one_after_another(asked, site):
    found = re.findall(r'<a data-row href="([^"]*)"', site.get(f"/search?{asked}").text)
    hits = [link.replace("&amp;", "&") for link in found]
    walked, page = [hits[0]], site.get(hits[0])
    assert f"1 of {len(hits)}" in page.text
    while 'data-key="j"' in page.text:
        walked.append(linked(page, "j"))
        page = site.get(walked[-1])
    assert walked == hits
    assert len(hits) > 1
    assert linked(page, "k") == hits[-2]


def test_a_question_that_is_found_opens_with_the_best_two_models(site):
    text = quote(questions_of("tengu")[0].question[:4])
    (found, *_) = re.findall(r'<a data-row href="([^"]*)"', site.get(f"/search?q={text}&what=questions").text)
    question = site.get(found.replace("&amp;", "&"))

    assert [name in question.text for name in ("A</b> best", "B</b> second")] == [True, True]


def test_questions_are_read_in_the_order_of_the_list_that_they_were_opened_from(site):
    grid = site.get("/questions?m=second&m=best&flag=loses")
    links = [link.replace("&amp;", "&") for link in re.findall(r'<a data-row href="([^"]*)"', grid.text)]
    walked, page = [links[0]], site.get(links[0])
    assert "1 of 3" in page.text
    while 'data-key="j"' in page.text:
        walked.append(linked(page, "j"))
        page = site.get(walked[-1])
    back = linked(page, "u")

    assert walked == links
    assert "3 of 3" in page.text
    assert linked(page, "k") == links[1]
    assert back.partition("#")[0] == "/questions?m=second&m=best&flag=loses"
    assert f'<tr id="{back.partition("#")[2]}">' in grid.text


def test_a_list_of_one_question_set_is_walked_and_returned_to(site):
    question_set = the_set(site)
    grid = site.get(f"/questions?m=best&set={question_set}&sort=position")
    (first, *_) = re.findall(r'<a data-row href="([^"]*)"', grid.text)
    page = site.get(first.replace("&amp;", "&"))

    assert linked(page, "u").partition("#")[0] == f"/questions?m=best&set={question_set}&sort=position"
    assert f"set={question_set}&position=2&" in linked(page, "j")


def test_a_question_that_its_list_has_not_leads_to_the_first_one(site):
    question_set = the_set(site)
    page = site.get(f"/question?set={question_set}&position=1&m=second&m=best&flag=loses&sort=position")

    assert "not in the list of 3" in page.text
    assert "position=2" in linked(page, "j")


def test_without_a_list_questions_follow_each_other_in_their_set(site):
    page = site.get(f"/question?set={the_set(site)}&position=2&m=best")

    assert [re.findall("position=([0-9])", linked(page, key)) for key in "kj"] == [["1"], ["3"]]
    assert linked(page, "u") == "/questions?m=best"


@pytest.mark.parametrize("sort", ["A", "B", "difference"])
def test_a_model_is_taken_away_with_the_order_and_the_filter_that_need_it(sort, site):
    question = f"/question?set={the_set(site)}&position=2&m=second&m=best&flag=loses&flag=failed&sort={sort}"
    for page in (question, f"/questions?m=second&m=best&flag=loses&flag=failed&sort={sort}"):
        left = linked(site.get(page), "2")
        assert (site.get(left).status, "loses" in left, "flag=failed" in left) == (200, False, True)


@pytest.mark.parametrize("odd", ["flag=nice", "of=none&sort=A", "sort=A&category=none", "q=%2B(", "open=all&view=none"])
def test_a_question_opens_whatever_its_list_is_said_to_be(odd, site):
    assert site.get(f"/question?set={the_set(site)}&position=2&m=best&{odd}").status == 200


def test_what_is_unfolded_stays_so_from_question_to_question(site):
    page = site.get(f"/question?set={the_set(site)}&position=2&m=best&open=judge")

    assert '<details class="judge" open>' in page.text
    assert "open=judge" in linked(page, "j")
    assert '<details class="judge">' in site.get(linked_by(page, "judge")).text


@pytest.mark.parametrize("opened_from", ["/questions?m=best&m=second", "/search?q=alert", "/questions?m=best"])
def test_what_is_unfolded_stays_so_from_a_question_to_its_list_and_on(opened_from, site):
    question = site.get(rows_linked(site.get(opened_from))[1])
    unfolded = site.get(linked_by(question, "judge"))
    again = site.get(linked(unfolded, "u").partition("#")[0])

    assert '<details class="judge" open>' in site.get(rows_linked(again)[0]).text
    assert '<details class="judge" open>' in site.get(linked(unfolded, "k")).text


def test_how_a_question_is_shown_stays_so_while_its_list_is_filtered(site):
    page = site.get("/questions?m=best&m=second&view=raw&open=judge&open=prompt")

    for name, value in (("view", "raw"), ("open", "judge"), ("open", "prompt")):
        assert f'<input type="hidden" name="{name}" value="{value}">' in page.text


def test_without_a_list_what_is_unfolded_stays_so_in_all_questions(site):
    page = site.get(f"/question?set={the_set(site)}&position=2&m=best&view=raw&open=judge")

    assert linked(page, "u") == "/questions?m=best&view=raw&open=judge"


def rows_linked(page):
    """The addresses of the rows of a list."""
    return [link.replace("&amp;", "&") for link in re.findall(r'<a data-row href="([^"]*)"', page.text)]


def linked_by(page, part):
    (address,) = re.findall(rf'href="([^"]*)" data-unfold="{part}"', page.text)
    return address.replace("&amp;", "&")


def test_a_page_shows_what_the_lake_has_when_it_is_asked_for(warehouse, tmp_path):
    place = Path(shutil.copytree(warehouse, tmp_path / "warehouse"))
    workspace = Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": str(place)}), environment={})
    tree = LegacyTree(tmp_path / "later")
    tree.judgements("tengu", rows_of("tengu", ["a", "b"], [9, 9]), "judge-a", model="later")
    with served(place) as site:
        before = site.get("/runs").text
        assert site.get("/runs").text == before

        import_trees(ImportRequest({"later": tree.root}, tag="other"), workspace)

        assert "later" not in before
        assert "later" in site.get("/runs").text


# --- who may read ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_only_reading_is_allowed(method, site):
    assert site.get("/", method).status == 405


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.evil"])
def test_a_page_is_only_made_for_the_names_of_this_machine(host, site):
    """A site that points its own name at this machine reads nothing."""
    assert site.get("/", Host=host).status == 421
    assert site.get("/static/viewer.js", Host=host).status == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:2", "[::1]:3"])
def test_this_machine_is_known_under_all_its_names(host, site):
    assert site.get("/runs", Host=host).status == 200


@pytest.mark.parametrize("address", ["/", "/static/viewer.css", "/nowhere", "/text"])
def test_every_reply_tells_the_browser_to_load_nothing_from_elsewhere(address, site):
    headers = site.get(address).headers

    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize("path", ["/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd"])
def test_no_other_file_is_served(path, site):
    assert site.get(path).status == 404


def test_other_machines_need_the_token_once(warehouse):
    with served(warehouse, token="the-secret-token", host="0.0.0.0") as site:
        assert site.get("/", Host="192.0.2.1").status == 403
        assert site.get("/?token=wrong").status == 403
        assert site.get("/", Cookie=f"shaberi_token_{site.port}=wrong; a=b").status == 403
        opened = site.get("/runs?token=the-secret-token&text=a%26b", Host="192.0.2.1")
        assert (opened.status, opened.headers["Location"]) == (303, "/runs?text=a%26b")
        cookie = opened.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert site.get("/runs", Host="192.0.2.1", Cookie=cookie.split(";")[0]).status == 200


def test_the_pages_do_not_load_dagster():
    code = "import sys, shaberi_dagster.viewer.web.server; print(sorted(n for n in sys.modules if n == 'dagster'))"

    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout == "[]\n"


def test_of_very_many_judgements_how_scores_go_with_length_is_a_click_away(site, warehouse, monkeypatch):
    at_once = site.get("/judges").text
    monkeypatch.setattr(pages, "_MOST_LENGTHS", 10)
    with closing(open_catalog(warehouse)) as catalog:
        addresses = PageAddress("/judges"), PageAddress("/judges", (("lengths", "yes"),))
        without, asked = (
            render(PAGES["/judges"](Source(catalog, warehouse), address), address) for address in addresses
        )

    assert [">length bias</th>" in page for page in (without, asked)] == [False, True]
    assert 'href="/judges?lengths=yes"' in without
    assert rows_of_table(Reply(200, None, asked)) == rows_of_table(Reply(200, None, at_once))
    assert [cells[6] for cells in rows_of_table(Reply(200, None, asked))] == ["-0.46", "-0.23"]


def test_without_decisions_it_is_said_how_to_make_one(site):
    missing = site.get("/decision?decision=none")

    assert "No decision yet: shaberi decide" in site.get("/decisions").text
    assert (missing.status, "no decision none" in missing.text) == (404, True)


def test_where_the_first_model_loses_can_be_asked_for(warehouse):
    with open_catalog(warehouse) as catalog:
        lost = read_question_grid(catalog, GridRequest(["second", "best"], flags=["loses"]))["rows"]
        alone = read_question_grid(catalog, GridRequest(["second"], flags=["loses"]))["rows"]

    assert {row["position"]: row["scores"] for row in lost} == {2: [8.0, 9.0], 3: [8.0, 8.5], 5: [3.5, 8.5]}
    assert not alone


def test_comparisons_of_several_models_say_what_their_ranking_says(tmp_path):
    workspace = Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": str(tmp_path / "warehouse")}), environment={})
    tree, answers = LegacyTree(tmp_path / "tree"), [f"{number}" for number in range(len(questions_of("tengu")))]
    scores = {"low": [2, 4, 3], "middle": [5, 7, 6], "high": [8, 6, 9]}
    for model, own in scores.items():
        rows = rows_of("tengu", answers, [own[number % 3] for number in range(len(answers))])
        tree.judgements("tengu", rows, "judge-a", model=model)
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    warehouse = workspace.settings.warehouse
    with open_catalog(warehouse) as catalog:
        shown = PAGES["/compare"](
            Source(catalog, warehouse), PageAddress("/compare", tuple(("m", one) for one in scores))
        )
        (ranking,) = read_rankings(catalog, ScoreSelection(models=list(scores))).rankings

    lines = {line["model"]: line for line in ranking["standings"]}
    assert not shown.values["alone"]
    assert [{a, b} for a, b, *_ in shown.values["pairs"]] == [{"low", "high"}, {"middle", "high"}]
    for a, b, report, *_ in shown.values["pairs"]:
        row, line = report.sections[0]["rows"][-1], lines[({a, b} - {"high"}).pop()]
        assert (row["difference"], row["lower"]) == (line["difference"], line["difference_lower"])
        assert (row["upper"], row["verdict"]) == (
            line["difference_upper"],
            {"below": "worse", "tied": "tied"}[line["against_best"]],
        )
