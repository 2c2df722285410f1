"""`shaberi sql` as a user meets it, and how lightly the reading commands start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import SCRIPTS, lake_of
from tests.e2e.conftest import Evaluated

pytestmark = pytest.mark.e2e

_JUDGEMENTS = "select benchmark, count(*) as n from judgements group by 1 order by 1"
_HEAVY = {"dagster", "openai", "polars", "deltalake", "pyarrow", "xllamacpp", "huggingface_hub"}


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
