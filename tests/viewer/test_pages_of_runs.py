"""The pages over the kept lake: runs with passes, calls, ensembles, and some that were killed."""

import re
import tarfile

import polars as pl
import pytest

from shaberi_dagster.lake.compaction import compact_lake
from tests.archives import extract
from tests.kept_lake.contents import ARCHIVE, workspace_of
from tests.viewer.site import served

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    with tarfile.open(ARCHIVE) as archive:
        extract(archive, folder)
    compact_lake(workspace_of(folder).lake)  # whoever writes first brings the lake up to date
    return folder


@pytest.fixture(scope="module")
def site(folder):
    with served(folder / "warehouse") as running:
        yield running


def test_what_passes_took_off_and_where_stands_beside_the_answer(site):
    page = site.get("/question?set=rakuda@3-98bbfce6&position=1&m=kept-passes&passes=lang_mixing&view=raw").text

    assert '<mark title="simplified_chinese">' in page
    assert "lang_mixing -1.80" in page
    assert "78.4% of the letters" in page
    (score,) = re.findall(r'<span class="score [^"]*">([^<]*)</span>', page)
    assert score == "2.20"


def test_the_leaderboard_after_passes_has_the_runs_that_took_them_with_their_lower_means(site):
    def means(address: str) -> dict[str, str]:
        return dict(
            re.findall(r'href="/model\?[^"]*model=([^"&]*)".*?<b>([\d.]+)</b>', site.get(address).text, re.DOTALL)
        )

    assert means("/")["kept-passes"] == "3.33"
    assert means("/?passes=lang_mixing") == {"kept-passes": "2.73"}


def test_the_call_behind_an_answer_is_one_click_away(site):
    page = site.get("/question?set=rakuda@3-98bbfce6&position=1&m=kept-passes").text

    (*_, link) = re.findall(r'href="(/call\?hash=[^"]*)"', page)

    call = site.get(link.replace("&amp;", "&")).text
    assert "answer of answers" in call
    assert "kept-passes@@default" in call


def test_the_prompt_behind_an_answer_is_one_click_away(site):
    page = site.get("/question?set=rakuda@3-98bbfce6&position=1&m=kept-passes").text

    (link, *_) = re.findall(r'href="(/prompt\?hash=[^"]*)"', page)

    prompt = site.get(link.replace("&amp;", "&")).text
    assert "<h1>Prompt rakuda-primary v1</h1>" in prompt
    assert "{{ answer" in prompt


def test_a_killed_run_says_what_is_on_its_way_and_its_page_follows_it(site):
    page = site.get("/run?run=kept-killed-answers@@default").text

    assert "<main data-live>" in page
    assert "3 calls of answers not committed yet" in page
    assert '<progress max="3" value="1"></progress> 1/3' in page
    assert "<main>" in site.get("/run?run=kept-passes@@default").text


def test_a_run_lists_its_failures_with_their_messages(site):
    page = site.get("/run?run=kept-failing@@default").text

    assert "<h2>Failures</h2>" in page
    assert re.search(r"<progress [^>]*></progress> 4/5", page)


def test_a_run_at_work_shows_its_cost_against_what_may_be_spent(folder, site):
    run_id = "kept-killed-answers@@default"
    lake = workspace_of(folder).lake
    row = lake.read("runs", {"run_id": run_id})
    lake.replace("runs", row.with_columns(max_cost_usd=pl.lit(5.0)), {"run_id": run_id})

    page = site.get(f"/run?run={run_id}").text

    assert re.search(r"cost so far \$[\d.]+ of at most \$5.00 <progress max=\"5.0\"", page)
    assert "of at most" not in site.get("/run?run=kept-passes@@default").text


def test_what_a_model_thought_is_folded_beside_its_answer(site):
    pages = [site.get(f"/question?set=elyza@2-239d71d5&position={place}&m=kept-judged").text for place in (1, 2)]

    (folded,) = [match for page in pages for match in re.findall(r'<details class="thinking"[^>]*>.*?</pre>', page)]
    assert (
        folded
        == '<details class="thinking"><summary>thinking, 8 characters</summary><pre class="body">まず考えます。2</pre>'
    )
