"""The viewer's pages as one file to send."""

import base64
import hashlib
import io
import re
from datetime import UTC, datetime

import polars as pl
import pytest
from cyclopts import CycloptsError

from shaberi_dagster.cli.shaberi import app
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.viewer.html import about_lake, write_html
from shaberi_dagster.viewer.requests import FileRequest
from shaberi_dagster.viewer.web.pages import Source
from shaberi_dagster.viewer.web.templates import STATIC
from tests.invoked import invoke
from tests.viewer.site import make_lake

pytestmark = pytest.mark.integration

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    place = tmp_path_factory.mktemp("html")
    workspace = Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": str(place / "warehouse")}), environment={})
    make_lake(workspace, place / "tree")
    return place / "warehouse"


def written(warehouse, **request):
    with open_catalog(warehouse) as catalog:
        source = Source(catalog, warehouse)
        return write_html(source, about_lake(source, FileRequest(**request)), NOW)


def scores_in(text):
    (encoded,) = re.findall(r'<script type="text/plain" id="parquet">([^<]*)</script>', text)
    return pl.read_parquet(io.BytesIO(base64.b64decode(encoded)))


def titles(text):
    return re.findall(r"<h1>(.*?)</h1>", text)


def test_the_file_has_the_pages_of_the_best_two_and_the_questions_that_differ_most(warehouse):
    text = written(warehouse, n_questions=2)

    summary, leaderboard, questions, comparison, first, second = titles(text)
    assert summary.startswith("best is better than hostile by ")
    assert (leaderboard, questions, comparison) == ("Leaderboard", "Questions of best · second", "Comparison")
    assert re.fullmatch(r"tengu@5\S* question 5", first)
    assert first != second
    folded = [*re.findall(r'<details class="page"><summary>(.*?)</summary>', text)]
    assert folded == [leaderboard, questions, comparison, first, second, "All scores"]
    assert "judge-b says of second" in text
    assert "2026-11-22 12:00 UTC" in text


def test_links_lead_to_what_is_in_the_file_and_to_nothing_else(warehouse):
    text = written(warehouse, models=["best", "hostile"], n_questions=5)

    places = {*re.findall(r'<section class="page" id="([^"]*)"', text), "scores"}
    links = re.findall(r' (?:href|src|action|formaction)="([^"]*)"', text)
    assert {link[1:] for link in links} <= places
    assert len(places) == 10
    assert {f"page-{number}" for number in range(10 - 1)} <= {link[1:] for link in links}


def test_all_scores_are_in_it_as_parquet(warehouse):
    text = written(warehouse)

    scores = scores_in(text)
    own = scores.filter(model="hostile", judge="judge-a")
    assert own["scores"].to_list() == [[1, 2, 3, 5]]
    assert own["positions"].to_list() == [[1, 2, 3, 5]]
    assert scores.height == 6


def test_only_its_own_scripts_may_run(warehouse):
    text = written(warehouse)

    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = {base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts}
    assert policy.startswith("default-src &#39;none&#39;; ")
    assert hashes == set(re.findall(r"sha256-([^&]*)&#39;", policy.split("script-src")[1]))
    assert "unsafe" not in policy


def test_the_command_writes_the_file_and_says_what_it_cannot(warehouse, tmp_path, monkeypatch):
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(warehouse))
    target = tmp_path / "deep" / "report.html"
    arguments = ["report", "--html", str(target), "--model", "best", "--model", "second", "--judge", "judge-b"]

    assert invoke(app, arguments).exit_code == 0
    assert "Judge judge-b" in target.read_text(encoding="utf-8")
    with pytest.raises(ConfigurationError, match="two to 5 models"):
        written(warehouse, models=["best"])
    with pytest.raises(CycloptsError, match="deep is a folder: name a file"):
        invoke(app, [*arguments[:2], str(target.parent), *arguments[3:]])
    with pytest.raises(ConfigurationError, match="--html"):
        invoke(app, ["report"])


def test_a_comparison_is_a_file_with_the_questions_and_answers_of_both(warehouse, tmp_path, monkeypatch):
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(warehouse))
    target = tmp_path / "deep" / "compared.html"
    arguments = ["compare", "best", "second", "--tag", "legacy", "--judge", "judge-b", "--null-policy", "zero"]

    told = invoke(app, [*arguments, "--html", str(target)])

    assert re.search(r"compared\.html \(in a new folder\): 0\.\d MB", told.stderr)
    text = target.read_text(encoding="utf-8")
    comparison, questions, *answers = titles(text)
    assert (comparison, questions) == ("Comparison", "Questions of best · second")
    assert len(answers) == 5
    assert "judge judge-b" in text
    assert "Null policy zero" in text
    assert set(scores_in(text)["model"]) == {"best", "second"}
    links = re.findall(r'href="#([^"]*)"[^>]*>(questions where|compare<)', text)
    assert set(links) == {("page-0", "compare<"), ("page-1", "questions where")}


def test_vendored_scripts_are_what_their_list_says_and_small():
    vendored = STATIC / "vendor"
    listed = dict(
        re.findall(r"^\| `([^`]*)` .* `([0-9a-f]{64})` \|$", (vendored / "LICENSES.md").read_text(), re.MULTILINE)
    )

    assert listed == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in vendored.glob("*.js")}
    assert sum(path.stat().st_size for path in STATIC.rglob("*.js")) <= 600_000
