"""`shaberi sql` as a user meets it, and how lightly the reading commands start."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.commands import SCRIPTS, lake_of, run, run_anew
from tests.e2e.conftest import Evaluated

pytestmark = pytest.mark.e2e

_JUDGEMENTS = "select benchmark, count(*) as n from judgements group by 1 order by 1"
_COUNTS = {"elyza": 10, "mt_bench": 12, "rakuda": 10, "tengu": 10}
_HEAVY = {"dagster", "openai", "polars", "deltalake", "pyarrow", "xllamacpp", "huggingface_hub"}


def test_a_select_is_answered_as_a_table_csv_json_and_parquet(first_run: Evaluated, tmp_path: Path) -> None:
    file = tmp_path / "counts.parquet"

    table = first_run.shaberi("sql", _JUDGEMENTS).succeeded().out
    text = first_run.shaberi("sql", _JUDGEMENTS, "--format", "csv").succeeded().out
    first_run.shaberi("sql", _JUDGEMENTS, "--format", "parquet", "--output", file).succeeded()

    lines = [line.split() for line in table.splitlines()]
    assert all([name, str(n)] in lines for name, n in _COUNTS.items())
    assert {row["benchmark"]: int(row["n"]) for row in csv.DictReader(io.StringIO(text))} == _COUNTS
    assert {row["benchmark"]: row["n"] for row in first_run.rows(_JUDGEMENTS)} == _COUNTS
    assert dict(pl.read_parquet(file).iter_rows()) == _COUNTS


def test_a_named_query_takes_parameters(first_run: Evaluated) -> None:
    finished = first_run.shaberi("sql", "hardest_questions", "--param", "benchmark=elyza", "--format", "json")

    rows = json.loads(finished.succeeded().out)
    assert len(rows) == 5
    assert [row["mean_score"] for row in rows] == sorted(row["mean_score"] for row in rows)


def test_without_a_query_the_views_and_queries_are_listed() -> None:
    listed = run_anew("shaberi", "sql").succeeded().out

    assert all(name in listed for name in ("leaderboard_under", "run_statistics", "hardest_questions", "what it tells"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["copy (select 1) to '{folder}/stolen.csv'"], "only one statement that reads"),
        (["attach '{folder}/stolen.duckdb'"], "only one statement that reads"),
        (["set enable_external_access = true"], "only one statement that reads"),
        (["create table mine as select 1"], "only one statement that reads"),
        (["drop view answers"], "only one statement that reads"),
        (["select 1; drop view answers"], "only one statement that reads"),
        (["select sum(range) from range(1000000000000)", "--timeout", "0.2"], "the statement was stopped after 0.2 s"),
        (["nonsense"], "no query or view 'nonsense'; did you mean consensus?"),
        (["leader_board"], "no query or view 'leader_board'; did you mean leaderboard"),
        (["hardest_questions"], "parameters: benchmark"),
        (["hardest_questions", "--param", "elyza"], "--param 'elyza' must be NAME=VALUE"),
        (["select 1", "--format", "xml"], "--format must be one of table, csv, json, parquet, not 'xml'"),
        (["select 1", "--format", "parquet"], "--format parquet needs --output FILE"),
        (["select 1", "--output", "{folder}/no/such/folder.csv"], "cannot be written: No such file or directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_no_reading_of_the_lake_is_refused_in_one_line(
    arguments: list[str], expected: str, first_run: Evaluated, tmp_path: Path
) -> None:
    complaint = first_run.shaberi("sql", *(one.format(folder=tmp_path) for one in arguments)).complaint

    assert expected in complaint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("statement", "said", "place"),
    [
        ("select nonsense from answers", 'SQL: Binder Error: Referenced column "nonsense" not found', "nonsense"),
        ("selekt 1", "SQL: Parser Error", "selekt"),
        ("from read_text('/etc/passwd')", "SQL: Permission Error", "read_text"),
        ("from answer", 'SQL: Catalog Error: Table with name answer does not exist! Did you mean "answers', "answer"),
    ],
)
def test_an_error_of_sql_is_one_line_and_the_place(statement: str, said: str, place: str, first_run: Evaluated) -> None:
    finished = first_run.shaberi("sql", statement)

    line, shown, caret = finished.err.splitlines()
    assert (finished.code, line.startswith(f"error: {said}")) == (2, True)
    assert shown == f"LINE 1: {statement}"
    assert shown.index(place) == caret.index("^")


def test_without_a_lake_it_names_the_folder_and_what_to_do(tmp_path: Path) -> None:
    complaint = run("shaberi", "sql", "from answers").complaint

    assert str(tmp_path / "warehouse") in complaint
    assert "run run-evals first" in complaint


def test_a_reader_that_has_seen_enough_is_no_error(first_run: Evaluated) -> None:
    command = [SCRIPTS / "shaberi", "sql", "select range, repeat('x', 100) from range(200000)", "--format", "csv"]
    environment = os.environ | lake_of(first_run.folder)
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("range,")
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize(
    "command",
    [["view-scores"], ["shaberi", "sql", _JUDGEMENTS], ["shaberi", "sql"]],
    ids=" ".join,
)
def test_reading_commands_import_nothing_heavy_while_the_catalog_is_fresh(
    command: list[str], first_run: Evaluated
) -> None:
    script, *arguments = command
    finished = subprocess.run(
        [sys.executable, "-X", "importtime", SCRIPTS / script, *arguments],
        env=os.environ | lake_of(first_run.folder),
        capture_output=True,
        text=True,
        check=True,
    )

    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in finished.stderr.splitlines()}
    assert "duckdb" in imported
    assert imported & _HEAVY == set()
