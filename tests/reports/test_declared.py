"""A report that nobody planned is two files: its SQL and its columns. All else is made of them."""

import csv
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from runpy import run_module

import polars as pl
import pytest

from shaberi_dagster import open_lake
from shaberi_dagster.cli.options import call
from shaberi_dagster.lake.catalog import write_catalog
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.reports.declared import REPORTS
from shaberi_dagster.util.errors import ConfigurationError
from tests.viewer.site import served

pytestmark = pytest.mark.integration

_COLUMNS = """
from shaberi_dagster import Column, Report, RunSelection, Table, When

LENGTHS = Report(
    "lengths",
    "Show how long the answers of models are.",
    [
        Table(
            [Column("model"), Column("answers", total=True), Column("mean length", form="{:,.1f}")],
            sql="lengths",
            totals=("answers",),
            remarks=[When("empty", "{empty} answers are empty.")],
        ),
        Table(
            [Column("model"), Column("the longest", "longest"), Column("of", "benchmark"), Column("n", total=True)],
            name="longest",
            sql="longest",
            totals=("n",),
        ),
    ],
    selection=RunSelection,
    verdict=lambda rows: f"{max(rows['rows'], key=lambda row: row['mean_length'])['model']} writes most.",
    examples=["shaberi lengths --model my-model"],
)
"""
_LENGTHS = """
select model, count(*) as answers, avg(length(answer)) as mean_length, count(*) filter (answer = '') as empty
from answers where run_id in (from selected_runs($models, $tags, $sources)) group by model order by model
"""
_LONGEST = """
select model, max(length(answer)) as longest, arg_max(benchmark, length(answer)) as benchmark, count(*) as n
from answers where run_id in (from selected_runs($models, $tags, $sources)) group by model order by model
"""


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake with answers of two models, and a plugin folder with the report."""
    lake = Lake(tmp_path / "warehouse")
    now = datetime(2026, 7, 1, tzinfo=UTC)
    answers = [("a", "tengu", "four"), ("a", "elyza", ""), ("b", "tengu", "x" * 1_200)]
    rows = [
        {"run_id": f"{model}@@t", "model": model, "run_tag": "t", "benchmark": benchmark, "question_id": "q"}
        | {"sample_index": 0, "answer": answer, "status": "ok", "created_at": now}
        for model, benchmark, answer in answers
    ]
    run = {"run_tag": "t", "spec": "{}", "spec_hash": "h", "status": "complete", "created_at": now, "updated_at": now}
    runs = [run | {"run_id": f"{model}@@t", "model": model} for model in "ab"]
    lake.append("answers", pl.DataFrame(rows))
    lake.append("runs", pl.DataFrame(runs))
    write_catalog(lake)
    plugins = tmp_path / "plugins"
    for name, text in (("reports/lengths.py", _COLUMNS), ("sql/reports/lengths.sql", _LENGTHS)):
        (plugins / name).parent.mkdir(parents=True)
        (plugins / name).write_text(text, encoding="utf-8")
    (plugins / "sql/reports/longest.sql").write_text(_LONGEST, encoding="utf-8")
    monkeypatch.setenv("SHABERI_PLUGINS", str(plugins))
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(lake.folder))
    monkeypatch.setenv("COLUMNS", "80")
    return lake.folder


@pytest.fixture
def said(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What `shaberi` prints of this lake."""
    del warehouse

    def run(*arguments: str) -> str:
        app = run_module("shaberi_dagster.cli.shaberi")["app"]  # anew, since it lists what plugin folders have
        call(app, arguments)
        return capsys.readouterr().out

    return run


def test_its_command_shows_the_verdict_first_and_its_tables_in_each_format(said: Callable[..., str]) -> None:
    assert [line.rstrip() for line in said("lengths").splitlines()] == [
        "b writes most.",
        "",
        "model  answers  mean length",
        "a            2          2.0",
        "b            1      1,200.0",
        "total        3",
        "1 answers are empty.",
        "",
        "model  the longest  of     n",
        "a                4  tengu  2",
        "b            1,200  tengu  1",
        "total                      3",
    ]
    data = json.loads(said("lengths", "--format", "json"))
    assert list(data) == ["verdict", "rows", "total", "longest", "longest_total"]
    assert data["longest_total"] == {"n": 3}
    assert (data["rows"][1]["mean_length"], data["total"], data["longest"][0]["longest"]) == (1200.0, {"answers": 3}, 4)
    rows = csv.DictReader(io.StringIO(said("lengths", "--model", "a", "--format", "csv")))
    assert [(row["model"], row["answers"], row["empty"]) for row in rows] == [("a", "2", "1")]
    assert "| b     |       1 |     1,200.0 |" in said("lengths", "--format", "md")


def test_its_help_has_its_sentence_its_options_and_its_examples(said: Callable[..., str]) -> None:
    shown = said("lengths", "--help")
    assert "Show how long the answers of models are." in shown
    assert re.search(r"--model MODEL +Only this model; repeat for several\.", shown)
    assert "  shaberi lengths --model my-model" in shown
    assert re.search(r"^ +lengths +Show how long", said("--help-all"), re.MULTILINE)


def test_the_list_of_commands_runs_no_file_of_a_plugin(said: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "plugins" / "reports" / "hostile.py").write_text('raise SystemExit("it ran")', encoding="utf-8")
    (tmp_path / "plugins" / "reports" / "broken.py").write_text("def", encoding="utf-8")
    shown = said("--help-all")
    assert re.search(r"^ +lengths +Show how long", shown, re.MULTILINE)
    assert re.search(r"^ +broken$", shown.replace(" \n", "\n"), re.MULTILINE)


def test_its_selection_is_that_of_all_reports(said: Callable[..., str]) -> None:
    with pytest.raises(ConfigurationError, match="no model 'c'"):
        said("lengths", "--model", "c")
    assert json.loads(said("lengths", "--tag", "t", "--format", "json"))["total"] == {"answers": 3}
    with pytest.raises(ConfigurationError, match="no tag 'u'"):
        said("lengths", "--tag", "u")


def test_the_library_and_a_page_have_it(warehouse: Path) -> None:
    assert open_lake(warehouse).lengths(models=["b"]).to_dicts() == [
        {"model": "b", "answers": 1, "mean_length": 1200.0, "empty": 0}
    ]
    with served(warehouse) as site:
        page, chosen = site.get("/lengths").text, site.get("/lengths?model=a").text
    assert "b writes most." in page
    assert re.search(r"<td[^>]*>1,200\.0</td>", page)
    assert "a writes most." in chosen
    assert ">b<" not in chosen


def test_a_file_without_its_report_is_a_problem_of_the_plugin(warehouse: Path) -> None:
    (warehouse.parent / "plugins/reports/lost.py").write_text("from math import pi\n", encoding="utf-8")
    (problem,) = REPORTS.problems(run_code=True)
    assert 'has no Report("lost"' in str(problem)


def _add(warehouse: Path, name: str, sql: str) -> None:
    """Add a report with the columns of `lengths`."""
    folder = warehouse.parent / "plugins"
    (folder / f"reports/{name}.py").write_text(_COLUMNS.replace('"lengths"', f'"{name}"'), encoding="utf-8")
    if sql:
        (folder / f"sql/reports/{name}.sql").write_text(sql, encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "sql", "message"),
    [
        ("other", "select mode from answers", 'sql/reports/other.sql: Binder Error: Referenced column "mode"'),
        ("half", "select model from", "sql/reports/half.sql: Parser Error: "),
        ("few", "select 'a' as model", "sql/reports/few.sql has no column answers; it has model"),
        ("lost", "", "neither the project nor a plugin folder has sql/reports/lost.sql"),
    ],
)
def test_what_is_wrong_with_its_statement_is_said_with_the_file(
    said: Callable[..., str], warehouse: Path, name: str, sql: str, message: str
) -> None:
    _add(warehouse, name, sql)
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        said(name)


def test_a_report_without_rows_has_no_verdict(said: Callable[..., str], warehouse: Path) -> None:
    _add(warehouse, "nothing", _LENGTHS.replace("where", "where false and"))
    assert "There is nothing yet." in said("nothing")
    assert "verdict" not in json.loads(said("nothing", "--format", "json"))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "without_tags",
            ("$tags", "null"),
            r"report without_tags: none of its statements has \$tags; they have \$models, ",
        ),
        ("twice", ('name="longest"', 'name="rows"'), r"two of its tables have one name \(rows, rows\)"),
        ("misread", ("['model']}", "['modle']}"), r"reports/misread\.py:\d+: KeyError: 'modle'"),
    ],
)
def test_what_is_wrong_with_its_declaration_is_said(
    said: Callable[..., str], warehouse: Path, name: str, change: tuple[str, str], message: str
) -> None:
    of_both = "select max(length(answer)) as longest, any_value(benchmark) as benchmark, count(*) as n, "
    _add(warehouse, name, _LENGTHS.replace("select ", of_both, 1).replace(*change))
    columns = warehouse.parent / f"plugins/reports/{name}.py"
    declared = columns.read_text(encoding="utf-8").replace('sql="longest"', f'sql="{name}"')
    columns.write_text(declared.replace(*change), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=message):
        said(name)
