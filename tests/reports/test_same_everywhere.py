"""The same question has the same numbers, order, ties and words wherever it is asked, in random lakes."""

import csv
import gc
import html
import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlencode

import pytest
from rich.console import Console

from shaberi_dagster import open_lake
from shaberi_dagster.cli.options import call
from shaberi_dagster.cli.shaberi import app as shaberi
from shaberi_dagster.cli.view_scores import app as view_scores
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.reports.blocks import both_ends, decimals, p_value, percent, points, signed
from shaberi_dagster.reports.comparison import names_of, row_verdict
from shaberi_dagster.reports.gate import check_regression, gate_result
from shaberi_dagster.reports.questions import GridRequest, read_question_grid
from shaberi_dagster.reports.write import write
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.util.errors import ConfigurationError
from tests.random_lakes import BASELINE, make_lake
from tests.sizes import size
from tests.viewer.site import Site, served

pytestmark = [pytest.mark.integration, pytest.mark.acceptance]

_AGAINST_BEST = {"best": "best", "tied": "no difference shown", "below": "below", "withheld": "no verdict"}
Row = dict[str, str]


@dataclass(frozen=True)
class RandomLake:
    """A lake, its pages, and what commands say of it."""

    site: Site
    ensembles: Sequence[str]
    random: Random

    @cached_property
    def library(self) -> Any:
        return open_lake(self.site.warehouse)

    def say(self, app: Any, *arguments: str) -> str:
        """The output of a command."""
        out = io.StringIO()
        with redirect_stdout(out):
            call(app, list(arguments))
        return out.getvalue()

    def page(self, path: str, **query: Any) -> str:
        return self.site.get(f"{path}?{urlencode(query, doseq=True)}").text


@pytest.fixture(params=range(size(2, 200)), ids=lambda seed: f"seed {seed}")
def lake(request: pytest.FixtureRequest, workspace: Workspace, tmp_path: Path) -> Iterator[RandomLake]:
    random = Random(request.param)
    ensembles = make_lake(random, workspace, tmp_path / "trees")
    with served(workspace.settings.warehouse) as site:
        yield RandomLake(site, ensembles, random)
    gc.collect()  # hundreds of lakes: what is left of the server keeps a database's threads until then


@pytest.mark.long
def test_the_same_question_has_the_same_answer_everywhere(lake: RandomLake, tmp_path: Path) -> None:
    _check_scores(lake)
    _check_rankings(lake, tmp_path / "report.html")
    _check_ranking_of_sql(lake)
    _check_comparison(lake, tmp_path / "compared.html")
    _check_gate(lake)
    _check_questions(lake)


def _text(markup: str) -> str:
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", markup)).split())


def _html_tables(page: str) -> list[list[Row]]:
    tables = []
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        lines = [
            [_text(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", line, re.DOTALL)]
            for line in re.findall(r"<tr.*?</tr>", table, re.DOTALL)
        ]
        tables.append([dict(zip(lines[0], line, strict=False)) for line in lines[1:]])
    return tables


def _md_tables(text: str) -> list[list[Row]]:
    tables = []
    for table in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        lines = [[cell.strip().replace("\\", "") for cell in line[1:-1].split("|")] for line in table.splitlines()]
        tables.append([dict(zip(lines[0], line, strict=True)) for line in lines[2:]])
    return tables


def _with(tables: Sequence[list[Row]], *columns: str) -> list[list[Row]]:
    return [table for table in tables if table and set(columns) <= table[0].keys()]


def _near(found: Any, expected: Any) -> None:
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True)


def _shown(rank: int | None, dash: str = "-") -> str:
    """A rank as tables show it; pages have another dash where there is none."""
    return dash if rank is None else str(rank)


def _check_rankings(lake: RandomLake, file: Path) -> None:
    policy = lake.random.choice(["legacy", "zero"])
    sources = [row["source"] for row in lake.library.sql("select distinct source from runs order by 1").to_dicts()]
    source = lake.random.choice([None, *filter(None, sources)])
    options = ["--null-policy", policy, *(["--source", source] if source else [])]

    report = lake.library.scores(null_policy=policy, sources=[source] if source else [])
    document = json.loads(lake.say(view_scores, *options, "--format", "json"))
    shown = _with(
        _md_tables(lake.say(view_scores, *options, "--by", "judge", "--format", "md")), "#", "model", "mean", "n/N"
    )

    assert len(document["rankings"]) == len(shown) == len(report.rankings)
    for ranking, as_json, as_md in zip(report.rankings, document["rankings"], shown, strict=True):
        assert (as_json["asked"], as_json["judges"]) == (list(ranking["asked"]), list(ranking["judges"]))
        lines = zip(ranking["standings"], as_json["standings"], as_md, strict=True)
        for one, data, cells in lines:
            assert (data["rank"], data["model"], data["tag"]) == (one["rank"], one["model"], one["tag"])
            _near(data["mean"], one["mean"])
            assert data["against_best"] == one["against_best"]
            assert (cells["#"], cells["model"], cells["mean"]) == (
                _shown(one["rank"]),
                one["model"],
                decimals(one["mean"]),
            )
            assert cells.get("tag", one["tag"]) == one["tag"]
            assert (cells["n/N"], cells["failed"]) == (f"{one['n_scored']}/{one['n_planned']}", str(one["n_failed"]))
    assert [(one["model"], one["tag"]) for one in document["not_ranked"]] == [
        (one["model"], one["tag"]) for one in report.not_ranked
    ]
    if not source:
        lake.say(shaberi, "report", "--html", str(file))
        pages = [lake.page("/", policy=policy)]
        if policy == "legacy":
            pages.append(re.split(r'<section[^>]* id="page-2"', file.read_text(encoding="utf-8"))[0])
        for page in pages:
            boards = _with(_html_tables(page), "#", "model", "mean", "n/N")
            for ranking, board in zip(report.rankings, boards, strict=True):
                for one, cells in zip(ranking["standings"], board, strict=True):
                    assert (cells["#"], cells["model"], cells["mean"]) == (
                        _shown(one["rank"], "–"),
                        one["model"],
                        decimals(one["mean"]),
                    )
                    assert cells["n/N"].split()[0] == f"{one['n_scored']}/{one['n_planned']}"
                    if one["against_best"]:
                        assert cells["against #1"].startswith(_AGAINST_BEST[one["against_best"]])
                        if one["difference_lower"] is not None:
                            assert f" {signed(one['difference'])} (" in cells["against #1"]


def _check_scores(lake: RandomLake) -> None:
    policy = lake.random.choice(["legacy", "zero", "strict"])
    rows = lake.library.scores(null_policy=policy).frame.to_dicts()
    document = json.loads(lake.say(view_scores, "--null-policy", policy, "--format", "json"))
    text = lake.say(view_scores, "--null-policy", policy, "--format", "csv", "--table", "scores")
    of_csv = list(csv.DictReader(io.StringIO(text)))
    found = lake.library.sql(
        f"from leaderboard_under('{policy}') where pipeline = 'baseline' and strategy is null"
    ).to_dicts()

    def keyed(listed: Sequence[Any]) -> dict[tuple[str, ...], tuple[Any, ...]]:
        names = ("run_id", "judge", "question_set")
        counts = ("n_planned", "n_scored", "n_failed", "n_excluded")
        made = {
            tuple(row[name] for name in names): (
                float(row["score"]) if row["score"] not in {None, ""} else None,
                *(int(row[name]) for name in counts),
            )
            for row in listed
        }
        assert len(made) == len(listed)
        return made

    expected = keyed(rows)
    for listed in (document["rows"], of_csv, found):
        others = keyed(listed)
        assert others.keys() == expected.keys()
        for key, values in expected.items():
            _near([value or 0 for value in others[key]], [value or 0 for value in values])
            assert (others[key][0] is None) == (values[0] is None)


def _check_ranking_of_sql(lake: RandomLake) -> None:
    for ranking in lake.library.scores().rankings:
        means = {(one["model"], one["tag"]): one["mean"] for one in ranking["standings"]}
        models, tags = zip(*means, strict=True)
        lines = lake.library.sql("multi_judge", judges=",".join(ranking["judges"])).to_dicts()
        found = [[row for row in lines if row["asked"] == [*ranking["asked"]]]]
        if len(set(tags)) == 1:
            lines = lake.library.sql("compare_models", models=",".join(models), run_tags=tags[0]).to_dicts()
            alike = {"question_sets": [*ranking["asked"]], "judges": [*ranking["judges"]]}
            found.append([row for row in lines if alike.items() <= row.items()])
        for listed in found:
            of_sql = {(row["model"], row["run_tag"]): row["score"] for row in listed}
            if of_sql.keys() >= means.keys():
                _near([of_sql[line] for line in means], list(means.values()))
                in_order = [of_sql[line] for line in of_sql if line in means]
                assert in_order == sorted(in_order, reverse=True)


def _check_comparison(lake: RandomLake, file: Path) -> None:
    ranked = [one for ranking in lake.library.scores().rankings for one in ranking["standings"]]
    if len(ranked) < 2:
        return
    a, b = (f"{one['model']}@@{one['tag']}" for one in lake.random.sample(ranked, 2))
    try:
        report = lake.library.compare(a, b)
    except ConfigurationError as error:
        why = str(error)
        with pytest.raises(ConfigurationError, match=re.escape(why)):
            lake.say(shaberi, "compare", a, b)
        report = None
    if report is None:
        assert why in html.unescape(lake.page("/compare", m=[a, b]))
        return
    document = json.loads(lake.say(shaberi, "compare", a, b, "--format", "json"))
    of_csv = list(csv.DictReader(io.StringIO(lake.say(shaberi, "compare", a, b, "--format", "csv"))))
    of_md = _md_tables(lake.say(shaberi, "compare", a, b, "--notes", "--format", "md", "--html", str(file)))
    pages = [lake.page("/compare", m=[a, b]), file.read_text(encoding="utf-8")]
    shown = [
        [row for table in _with(tables, "A - B", "question set") for row in table]
        for tables in (of_md, *map(_html_tables, pages))
    ]
    rows = [row for section in report.sections for row in section["rows"]]
    data = [row for section in document["comparisons"] for row in section["rows"]]
    assert document["comparable"] == (not report.reasons)
    for row, as_json, as_csv, frame, *cells in zip(rows, data, of_csv, report.frame.to_dicts(), *shown, strict=True):
        for numbers in (as_json, as_csv, frame):
            assert numbers["verdict"] == row["verdict"]
            for name in ("n", "difference", "mean_a", "mean_b", "p_value"):
                _near(None if numbers[name] in {"", None} else float(numbers[name]), row[name])
        for cell in cells:
            assert (cell["question set"], cell["n"]) == (row["question_set"], str(row["n"]))
            assert (cell["A"], cell["B"]) == (decimals(row["mean_a"]), decimals(row["mean_b"]))
            assert (cell["A - B"], cell["p"]) == (signed(row["difference"]), p_value(row["p_value"]))
            assert cell["better"] == row_verdict(names_of(report), row)


def _check_questions(lake: RandomLake) -> None:
    answered = "select distinct run_id from scores where run_id in (select run_id from answers) order by 1"
    run_ids = lake.library.sql(answered)["run_id"].to_list()
    run_ids = lake.random.sample(run_ids, min(lake.random.randint(1, 3), len(run_ids)))
    with open_catalog(lake.site.warehouse) as catalog:
        grid = read_question_grid(catalog, GridRequest(run_ids, sort="position"))["rows"]
    names = ("question_set", "position")
    frame = lake.library.questions(run_ids)
    listed = {tuple(row[name] for name in names): row for row in frame.to_dicts()}
    for row in grid:
        one = listed[tuple(row[name] for name in names)]
        assert [one[run_id] for run_id in run_ids] == row["scores"]
        assert (one["difference"], one["disagreement"]) == (row["difference"], row["disagreement"])
        alike = [score is None for score in row["scores"]]
        assert all(alike) or not any(alike)


def _check_gate(lake: RandomLake) -> None:
    if not lake.ensembles:
        return
    before, after = lake.ensembles
    accuracies = {
        (row["run_id"], row["benchmark"], row["strategy"]): row["accuracy"]
        for row in lake.library.sql("from ensemble_results").to_dicts()
    }
    legacy, scores = (
        {
            (row["run_id"], row["benchmark"], row["strategy"]): row["score"]
            for row in lake.library.sql(f"from leaderboard_under('{policy}') where strategy is not null").to_dicts()
        }
        for policy in ("legacy", "zero")
    )
    for key in legacy.keys() & accuracies:
        _near(accuracies[key], legacy[key])
    with open_catalog(lake.site.warehouse) as catalog:
        failures_count = lake.random.random() < 0.5
        report = check_regression(catalog, after, BASELINE, failures_count=failures_count)
    shown = {}
    for output_format in ("json", "md", "csv"):
        write(gate_result(report), output_format, Console(file=(out := io.StringIO()), width=200))
        shown[output_format] = out.getvalue()
    data, of_md = json.loads(shown["json"]), _with(_md_tables(shown["md"]), "dataset", "before", "now")
    of_csv = list(csv.DictReader(io.StringIO(shown["csv"])))

    assert (data["result"], data["passed"]) == (report.result, report.result == "passed")
    assert f"Gate {report.verdict}." in shown["md"].replace("\\", "")
    for test, as_json, as_csv, cells in zip(report.tests, data["tests"], of_csv, of_md[0], strict=True):
        one = test.tally
        if one.benchmark and failures_count:  # else it is over the questions that both sides answered
            for run_id, accuracy in ((before, one.baseline_accuracy), (after, one.current_accuracy)):
                key = (run_id, one.benchmark, one.strategy)
                _near(scores[key], accuracy)
        for numbers in (as_json, as_csv):
            _near(float(numbers["current_accuracy"]), one.current_accuracy)
            _near(float(numbers["p_value"]), test.p_value)
        assert (cells["before"], cells["now"]) == (
            both_ends(one.baseline_accuracy, one.baseline_scored_accuracy, "share"),
            both_ends(one.current_accuracy, one.current_scored_accuracy, "share"),
        )
        assert cells["change"] == points(one.delta)
    page = lake.page("/ensemble", run=after)
    for key, accuracy in accuracies.items():
        if key[0] == after and key[2] != "samples":
            assert f"{percent(accuracy)}" in page
