import csv
import io
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from shaberi_dagster.cli import query
from shaberi_dagster.cli.query import list_queries, run_sql
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.catalog import describe_sql, view_files, view_name, write_catalog
from shaberi_dagster.lake.store import Lake

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("lake")]

# Clears the screen, rings, writes right to left, hides; and what a table or CSV could stumble over.
HOSTILE = 'a\x1b[2J\x07\u202eb\u200b,"c"\nd [red]e[/red] [/nothing]'


@pytest.fixture
def lake(settings) -> Lake:
    lake = Lake(settings.warehouse)
    row = {
        "run_id": "m@@t",
        "model": "m",
        "run_tag": "t",
        "benchmark": "tengu",
        "question_id": "q",
        "sample_index": 0,
        "answer": HOSTILE,
        "status": "ok",
        "created_at": datetime(2026, 7, 1, 12, 30, tzinfo=UTC),
    }
    lake.append("answers", pl.DataFrame([row]))
    write_catalog(lake)
    return lake


@pytest.fixture
def ask(settings, capsys):
    def asked(sql, *parameters, output_format="json", output=None):
        run_sql(settings, sql, parameters, output_format, output)
        out = capsys.readouterr().out
        return json.loads(out) if output_format == "json" and output is None else out

    return asked


class Terminal(io.StringIO):
    def isatty(self):
        return True


def steers(text):
    return [char for char in text if char in "\x1b\x07\u202e\u200b"]


def test_json_has_numbers_times_and_nulls(ask):
    (row,) = ask(
        "select 1 as a, 1.5 as b, 2.5::double as c, null as d, created_at, [1, 2] as e, true as f from answers"
    )

    assert row == {"a": 1, "b": 1.5, "c": 2.5, "d": None, "created_at": "2026-07-01T12:30:00Z", "e": [1, 2], "f": True}


def test_json_means_the_exact_text_and_steers_nothing(settings, capsys):
    run_sql(settings, "select answer from answers", [], "json", None)
    out = capsys.readouterr().out

    assert json.loads(out) == [{"answer": HOSTILE}]
    assert steers(out) == []


def test_a_table_shows_what_would_steer_the_terminal(ask):
    out = ask('select answer, answer as "[bold]\x1b[2J[/x]" from answers', output_format="table")

    assert steers(out) == []
    assert "a␛[2J␇‹U+202E›b" in out
    assert "[red]e[/red] [/nothing]" in out
    assert "[bold]␛[2J[/x]" in out


def test_a_table_in_a_pipe_is_never_cut(ask):
    assert "x" * 3000 in ask("select repeat('x', 3000) as long", output_format="table")


def test_csv_in_a_file_or_pipe_is_the_exact_text(ask, tmp_path):
    file = tmp_path / "answers.csv"

    piped = ask("select answer, null as nothing from answers", output_format="csv")
    ask("select answer, null as nothing from answers", output_format="csv", output=file)

    for text in (piped, file.read_bytes().decode()):
        assert list(csv.DictReader(io.StringIO(text, newline=""))) == [{"answer": HOSTILE, "nothing": ""}]


def test_csv_on_a_terminal_steers_nothing(settings, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)

    run_sql(settings, 'select answer, [answer] as "\x1b[2J" from answers', [], "csv", None)

    assert steers(terminal.getvalue()) == []
    assert "a␛[2J␇" in terminal.getvalue()


def test_parquet_keeps_types_and_text(ask, tmp_path):
    file = tmp_path / "answers.parquet"

    ask("select answer, sample_index, created_at from answers", output_format="parquet", output=file)

    frame = pl.read_parquet(file)
    assert frame.rows() == [(HOSTILE, 0, datetime(2026, 7, 1, 12, 30, tzinfo=UTC))]
    assert frame.schema["sample_index"] == pl.Int64


def test_parameters_are_values_never_sql(ask):
    assert ask("select $x as x, count(*) as n from answers where sample_index < $n", "x=a' or 1=1 --", "n=1") == [
        {"x": "a' or 1=1 --", "n": 1}
    ]
    assert ask("select $x as x", "x=a=b") == [{"x": "a=b"}]


@pytest.mark.parametrize("parameter", ["x", "=1", ""])
def test_a_parameter_needs_a_name_and_a_value(parameter, ask):
    with pytest.raises(ConfigurationError, match="must be NAME=VALUE"):
        ask("select 1", parameter)


@pytest.mark.parametrize("name", sorted(path.stem for path in Path("sql/queries").resolve().glob("*.sql")))
def test_each_named_query_runs_on_a_lake_without_results(name, ask):
    parameters = ["benchmark=tengu"] if name == "hardest_questions" else []

    assert ask(name, *parameters) == []


def test_an_error_while_rows_are_fetched_is_an_sql_error(ask):
    with pytest.raises(ConfigurationError, match="SQL: Conversion Error"):
        ask("select answer::integer from answers")


def test_views_and_queries_are_listed_with_their_descriptions(settings, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    list_queries(settings)
    out = capsys.readouterr().out

    queries = sorted((settings.sql / "queries").glob("*.sql"))
    assert queries
    for name, path in [(view_name(path), path) for path in view_files()] + [(path.stem, path) for path in queries]:
        (line,) = (line for line in out.splitlines() if f"│ {name} " in line)
        assert describe_sql(path) in line


def test_a_table_of_parquet_or_nothing_is_refused_before_the_query_runs(ask, monkeypatch):
    monkeypatch.setattr(query, "open_catalog", None)

    with pytest.raises(ConfigurationError, match="needs --output"):
        ask("select 1", output_format="parquet")
    with pytest.raises(ConfigurationError, match="--format must be one of"):
        ask("select 1", output_format="xml")
