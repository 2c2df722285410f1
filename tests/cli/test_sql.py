import csv
import io
import json
import re
import shutil
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from rich.cells import cell_len

from shaberi_dagster import open_lake
from shaberi_dagster.cli.sql import run_sql
from shaberi_dagster.lake.catalog import open_catalog, run_query, write_catalog
from shaberi_dagster.lake.queries import QUERIES
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.reports import sql_rows as rendered_rows
from shaberi_dagster.settings import Settings
from shaberi_dagster.tasks.benchmarks.files import read_rows
from shaberi_dagster.util.errors import ConfigurationError

pytestmark = pytest.mark.integration

# Clears the screen, rings, writes right to left, hides; and what a table or CSV could stumble over.
HOSTILE = 'a\x1b[2J\x07\u202eb\u200b,"c"\nd [red]e[/red] [/nothing]'


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> Lake:
    """One answer, for all tests that only read."""
    lake = Lake(tmp_path_factory.mktemp("lake"))
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
def settings(lake, request) -> Settings:
    names = [name for name in ("own_history", "history") if name in request.fixturenames]
    read = request.getfixturevalue(names[0]) if names else lake
    return replace(Settings.from_environment(), warehouse=read.folder)


@pytest.fixture
def own_history(history, tmp_path) -> Lake:
    """A copy of `history` that a test may change."""
    return Lake(shutil.copytree(history.folder, tmp_path / "history"))


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


@pytest.fixture
def on_terminal(settings, monkeypatch):
    def asked(sql, width=80, **options):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setenv("COLUMNS", str(width))
        run_sql(settings, sql, [], "table", None, **options)
        return re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines()

    return asked


def test_a_table_fits_its_terminal_with_whole_numbers_and_cut_texts(on_terminal):
    text = "日本語の長い答え" * 20
    lines = on_terminal(f"select '{text}' as answer, 12345.5 as number, '{text}' as again from range(2)")
    assert {cell_len(line) for line in lines[1:]} == {80}
    assert lines[1].count("…") == 2
    assert " 12345.5 " in lines[1]


def test_columns_that_do_not_fit_are_counted_and_named(on_terminal):
    columns = ", ".join(f"'{'x' * 30}' as c{number}" for number in range(12))
    lines = on_terminal(f"select {columns}")
    assert max(map(cell_len, lines)) <= 80
    assert "3 columns not shown (--vertical): c9, c10, c11." in lines


@pytest.fixture
def few_rows_at_once(monkeypatch):
    """A result of thousands of rows is read in portions."""
    monkeypatch.setattr(rendered_rows, "_AT_ONCE", 500)


@pytest.mark.usefixtures("few_rows_at_once")
def test_a_terminal_gets_the_first_hundred_rows_and_the_count_of_the_others(on_terminal):
    query = "select range as n from range(1_250)"
    lines = on_terminal(query)
    assert (len(lines), lines[-1]) == (102, "1,150 rows not shown (--rows).")
    assert on_terminal(query, most_rows=3)[-2:] == ["2", "1,247 rows not shown (--rows)."]


@pytest.mark.usefixtures("few_rows_at_once")
def test_a_pipe_gets_all_rows_unless_fewer_are_asked_for(settings, ask, capsys):
    query = "select range as n from range(1_250)"
    assert len(ask(query, output_format="table").splitlines()) == 1_251
    assert len(ask(query)) == 1_250
    run_sql(settings, query, [], "csv", None, most_rows=2)
    assert capsys.readouterr() == ("n\r\n0\r\n1\r\n", "1,248 rows not shown (--rows)\n")


def test_vertical_shows_each_row_as_lines_with_whole_texts(on_terminal):
    lines = on_terminal("select answer, status from answers", vertical=True)
    text = "\n".join(line.rstrip() for line in lines)
    assert 'answer  a␛[2J␇‹U+202E›b‹U+200B›,"c"\n        d [red]e[/red] [/nothing]\nstatus  ok' in text


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", " +1", "＝A1", "-a", "@x"])
def test_csv_steers_no_spreadsheet_and_opens_there(ask, tmp_path, text):
    file = tmp_path / "a.csv"
    ask(f"select '{text}' as \"{text}\", '琵琶湖' as b, -1.5 as c", output_format="csv", output=file)
    assert file.read_bytes().startswith(b"\xef\xbb\xbf")
    assert list(read_rows(file)) == [(1, {f"'{text}": f"'{text}", "b": "琵琶湖", "c": "-1.5"})]


def test_csv_in_a_file_or_pipe_is_the_exact_text(ask, tmp_path):
    file = tmp_path / "answers.csv"

    piped = ask("select answer, null as nothing from answers", output_format="csv")
    ask("select answer, null as nothing from answers", output_format="csv", output=file)

    for text in (piped, file.read_bytes().decode("utf-8-sig")):
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


# A hash may begin like the position of another question, and have no letter among its first digits.
_QUESTION_IDS = [each + "0" * (64 - len(each)) for each in ("2a7f3b1c9", "3c4d5e6f7", "123456789a")]


@pytest.fixture(scope="module")
def history(tmp_path_factory) -> Lake:
    """Two models, two judges, three questions."""
    lake, created = Lake(tmp_path_factory.mktemp("history")), {"created_at": datetime(2026, 7, 1, tzinfo=UTC)}
    answers, judgements, metrics, calls, runs = [], [], [], [], []
    for model in ("one", "two"):
        run = {"run_id": f"{model}@@t", "model": model, "run_tag": "t", **created}
        runs.append(run | {"spec": "{}", "spec_hash": "x", "status": "complete", "updated_at": created["created_at"]})
        runs[-1]["source"] = "shisa" if model == "two" else None
        calls.append({"run_id": f"{model}@@t", "stage": "answers", "model": model, "request_hash": model, **created})
        for number in range(3):
            sample = run | {"benchmark": "tengu", "question_set": "tengu@3", "question_id": _QUESTION_IDS[number]}
            sample |= {"sample_index": 0, "answer_hash": f"{model}{number}", "status": "ok"}
            answers.append(sample | {"answer": f"{model} says {number}", "answer_state": "text"})
            judgements += [
                sample
                | {
                    "judge": judge,
                    "score": score,
                    "superseded": False,
                    "judge_prompt_hash": "p",
                    "judge_output": f"{judge} finds {number}",
                }
                for judge, score in [("j", number + 1.0), ("k", 3.0)]
            ]
        metrics += [
            run
            | {"benchmark": "tengu", "question_set": "tengu@3", "judge": judge, "pipeline": pipeline, "base_tag": "t"}
            | {"null_policy": policy, "score": score, "n_planned": 3, "n_scored": 3, "n_failed": 0, "n_excluded": 0}
            | {"reported_multiplier": 1.0, "judge_prompt_hash": "p"}
            for judge in "jk"
            for policy in ("legacy", "zero")
            for pipeline, score in (("baseline", 2.0), ("lang_mixing", 1.5))
        ]
    questions = [
        {
            "benchmark": "tengu",
            "question_set": "tengu@3",
            "question_set_sha256": "x",
            "question_id": _QUESTION_IDS[number],
        }
        | {"position": number + 1, "category": f"c{number % 2}", "question": f"question {number}", **created}
        for number in range(3)
    ]
    for table, rows in {"runs": runs, "questions": questions, "answers": answers, "metrics": metrics}.items():
        lake.append(table, pl.DataFrame(rows))
    lake.append("judgements", pl.DataFrame(judgements))
    lake.append(
        "scores", pl.DataFrame(judgements).drop("superseded", "judge_output").with_columns(pipeline=pl.lit("baseline"))
    )
    lake.append("calls", pl.DataFrame(calls).with_columns(base_url=pl.lit("u"), status=pl.lit("ok")))
    write_catalog(lake)
    return lake


_QUERIES = sorted(path.stem for path in Path("sql/queries").resolve().glob("*.sql"))
_VALUES = {"model": "one", "models": "one,two", "judge": "j", "benchmark": "tengu", "question": "2"}
_VALUES |= {"first": "one@@t", "second": "two@@t", "judge_a": "j", "judge_b": "k"}


def given(name, values):
    query = QUERIES[name]
    return [f"{one}={values[one]}" for one in query.parameters if one not in query.defaults]


@pytest.mark.parametrize("name", _QUERIES)
def test_each_named_query_runs_on_a_lake_without_results(name, settings):
    query = QUERIES[name]
    values = query.bound({one: _VALUES[one] for one in query.parameters if one not in query.defaults})

    with open_catalog(settings.warehouse) as connection:
        found = run_query(connection, query.sql, dict(values)).fetchall()

    assert len(found) == (name == "coverage_matrix")  # the fixture's one answer


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize("name", sorted(set(_QUERIES) - {"failures", "differing_scores", "shared_answers"}))
def test_each_named_query_finds_something_with_its_defaults(name, ask):
    assert ask(name, *given(name, _VALUES))


@pytest.mark.usefixtures("history")
def test_a_drill_down_has_the_answer_and_what_all_judges_wrote(ask):
    for question in ("2", _QUESTION_IDS[1], _QUESTION_IDS[1][:8], "3c"):
        rows = ask("answer_and_judgements", "model=one", "benchmark=tengu", f"question={question}")
        assert [(row["what"], row["judge"], row["score"], row["text"]) for row in rows] == [
            ("answer", None, None, "one says 1"),
            ("judgement", "j", 2.0, "j finds 1"),
            ("judgement", "k", 3.0, "k finds 1"),
        ]


@pytest.mark.usefixtures("history")
def test_a_default_can_be_replaced_also_by_nothing_found(ask):
    assert len(ask("hardest_questions", "benchmark=tengu", "limit=2")) == 2
    assert ask("pass_effects", "judge=j", "pipeline=baseline") == []


_UNKNOWN = [
    ("runs_of_one_model", ["model=twwo"], "--param model: no model 'twwo'; did you mean two?"),
    ("compare_models", ["models=one,three"], "--param models: no model 'three'; the lake has one and two"),
    ("compare_models", ["models=one, two"], "--param models: no model ' two'; did you mean two?"),
    ("hardest_questions", ["benchmark=tengu", "judge=x"], "--param judge: no judge 'x'; the lake has j and k"),
    ("compare_runs", ["first=one@@t", "second=t"], "--param second: no run 't'; did you mean one@@t or two@@t?"),
    ("leaderboard_of_judge", ["judge=j", "policy=none"], "no null policy 'none'; the lake has legacy, strict and zero"),
    ("leaderboard_over", ["object_scores=recover"], "no object scores 'recover'; did you mean recovered?"),
    ("hardest_questions", ["benchmark=overall"], "--param benchmark: no benchmark 'overall'; the lake has tengu"),
]
# Numbers, dates, a question's place or hash, and a part of a judge's name.
_FREE = {"limit", "since", "price_date", "question", "not_judges"}


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(("name", "parameters", "complaint"), _UNKNOWN)
def test_a_name_that_the_lake_has_not_is_an_error_with_what_may_be_meant(name, parameters, complaint, ask):
    with pytest.raises(ConfigurationError) as caught:
        ask(name, *parameters)
    assert complaint in str(caught.value)


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, parameter) for name in _QUERIES for parameter in QUERIES[name].parameters if parameter not in _FREE],
)
def test_no_parameter_takes_a_name_that_there_is_not(name, parameter, settings):
    values = {one: _VALUES[one] for one in QUERIES[name].parameters if one not in QUERIES[name].defaults}

    with pytest.raises(ConfigurationError, match=rf"--param {parameter}: no [a-z ]+ 'qqq'; "):
        open_lake(settings.warehouse).sql(name, **values | {parameter: "qqq"})


@pytest.mark.usefixtures("history")
def test_the_sum_of_all_benchmarks_is_one_by_name(ask):
    assert [row["benchmark"] for row in ask("prompt_ab", "judge_a=j", "judge_b=k", "benchmark=overall")] == ["overall"]


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("question", "texts"),
    [("1", {"one says 0"}), ("12", set()), ("1234567", set()), ("12345678", {"one says 2"}), ("", set())],
)
def test_a_number_is_a_position_and_a_longer_one_the_beginning_of_a_hash(question, texts, ask):
    rows = ask("answer_and_judgements", "model=one", "benchmark=tengu", f"question={question}")

    assert {row["text"] for row in rows if row["what"] == "answer"} == texts


def test_questions_without_categories_are_told_apart_by_what_they_tell(ask, own_history):
    plain = own_history.read("questions").with_columns(category=pl.lit(None, dtype=pl.String))
    own_history.replace("questions", plain, {"benchmark": "tengu"})

    rows = ask("most_discriminating_questions", "benchmark=tengu", "judge=j")

    assert [(row["position"], row["category"], row["n_runs"]) for row in rows] == [(n, None, 2) for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        (
            [],
            "query answer_and_judgements needs --param benchmark=… --param model=… --param question=…; parameters: benchmark, model, question, run_tag=null",
        ),
        (["benchmark=a", "model=b"], "needs --param question=…; parameters: "),
        (["nonsense=1"], "has no parameter nonsense; parameters: benchmark, model, question, run_tag=null"),
    ],
)
def test_a_wrong_or_missing_parameter_is_told_with_all_there_are(parameters, complaint, ask):
    with pytest.raises(ConfigurationError) as caught:
        ask("answer_and_judgements", *parameters)
    assert complaint in str(caught.value)


def test_in_tables_and_csv_a_map_is_a_column_for_each_key(ask):
    sql = (
        "select 1 as a, map {'x': 2, 'a': 3} as m union all select 2, map {'y': 4} union all select 3, null order by 1"
    )

    assert list(csv.reader(io.StringIO(ask(sql, output_format="csv")))) == [
        ["a", "x", "m.a", "y"],
        ["1", "2", "3", ""],
        ["2", "", "", "4"],
        ["3", "", "", ""],
    ]
    assert ask(sql)[0] == {"a": 1, "m": {"x": 2, "a": 3}}


@pytest.mark.usefixtures("history")
def test_the_coverage_matrix_has_a_column_for_each_judge(ask):
    out = ask("coverage_matrix", "model=one", output_format="csv")

    assert list(csv.DictReader(io.StringIO(out))) == [
        {"model": "one", "run_tag": "t", "benchmark": "tengu", "question_set": "tengu@3", "n_answers": "3"}
        | {"j": "3/3", "k": "3/3"}
    ]


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [("select answer from answers", []), ("tokens_by_stage", []), ("-- why\nselect $x;", ["x=1"])],
)
def test_explain_shows_the_plan_with_times(sql, parameters, settings, capsys, tmp_path):
    run_sql(settings, sql, parameters, "table", None, explain=True)
    run_sql(settings, sql, parameters, "json", tmp_path / "plan.txt", explain=True)

    for plan in (capsys.readouterr().out, (tmp_path / "plan.txt").read_text()):
        assert "Total Time" in plan
        assert steers(plan) == []


@pytest.mark.parametrize(
    "sql", ["copy (select 1) to '{}/x.csv'", "explain analyze select 1", "begin", "select 1; select 2"]
)
def test_explain_runs_nothing_but_one_select(sql, settings, tmp_path):
    with pytest.raises(ConfigurationError):
        run_sql(settings, sql.format(tmp_path), [], "table", None, explain=True)
    assert not (tmp_path / "x.csv").exists()


def test_an_error_while_rows_are_fetched_is_an_sql_error(ask):
    with pytest.raises(ConfigurationError, match="SQL: Conversion Error"):
        ask("select answer::integer from answers")


_ENDLESS = "select count(*) from range(10000000) a, range(100000) b where a.range * b.range % 7 = 3"


def test_a_statement_is_stopped_when_its_time_is_over(settings):
    with pytest.raises(ConfigurationError, match=r"^the statement was stopped after 0\.2 s: give it a longer timeout$"):
        run_sql(settings, _ENDLESS, [], "table", None, timeout=0.2)
    with pytest.raises(ConfigurationError, match=r"stopped after 0\.2 s"):
        open_lake(settings.warehouse).sql(_ENDLESS, timeout=0.2)


def test_a_statement_within_its_time_is_not_touched(settings, capsys):
    run_sql(settings, "select 1 as one", [], "json", None, timeout=60)

    assert json.loads(capsys.readouterr().out) == [{"one": 1}]
    assert [timer for timer in threading.enumerate() if isinstance(timer, threading.Timer)] == []
