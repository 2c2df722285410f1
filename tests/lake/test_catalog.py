import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import polars as pl
import pytest

from shaberi_dagster.lake import views as views_module
from shaberi_dagster.lake.catalog import (
    CATALOG_NAME,
    connect,
    open_catalog,
    run_query,
    write_catalog,
)
from shaberi_dagster.lake.schemas import TABLES, LakeColumn
from shaberi_dagster.lake.statements import default_parameters, describe_sql, parameter_kinds
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.lake.views import View, columns_file, public_views, read_meanings, view_files
from shaberi_dagster.util.errors import ConfigurationError

pytestmark = pytest.mark.integration

_FILLED = ("prompt_generations",)
"""Views of what the project knows, also where a lake has nothing."""
_MACROS = {
    "leaderboard_under": "leaderboard_under('legacy')",
    "cost_at": "cost_at(null)",
    "run_statistics_of": "run_statistics_of(3)",
    "multi_judge_leaderboard_of": "multi_judge_leaderboard_of(['m'], tags := ['t'], policy := 'strict')",
    "judge_agreement_of": "judge_agreement_of('score_patterns')",
    "judge_leniency_of": "judge_leniency_of('score_patterns')",
    "judge_prompt_of": "(select judge_prompt_of('j', null, source) as judge_prompt from runs)",
    "prompt_generation_of": "(select prompt_generation_of('j', source) as known from runs)",
    "evidence_of": "evidence_of('scores')",
    "imported_runs": "imported_runs(['legacy'], null)",
    "named_runs": "named_runs('m@@july')",
    "selected_runs": "selected_runs(['m'], ['july'], null)",
}
_ADDED = {"judgements": {"prompt_generation": "VARCHAR", "generation_certainty": "VARCHAR"}}
"""Columns of the views of tables that no table has."""
_LEFT_OUT = {"metrics": {"question_ids", "question_scores", "undecided"}}
"""Columns of tables that their views have not."""
_TYPES = {
    pl.String(): "VARCHAR",
    pl.Int64(): "BIGINT",
    pl.Float64(): "DOUBLE",
    pl.Boolean(): "BOOLEAN",
    pl.Datetime("us", "UTC"): "TIMESTAMP WITH TIME ZONE",
    pl.List(pl.String()): "VARCHAR[]",
    pl.List(pl.Int64()): "BIGINT[]",
    pl.List(pl.Float64()): "DOUBLE[]",
}


def _answers(run: str, count: int = 2) -> pl.DataFrame:
    rows = [
        {
            "question_id": f"q{number}",
            "sample_index": 0,
            "answer": "答え",
            "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        }
        for number in range(count)
    ]
    run_columns = {"run_id": run, "model": "m", "run_tag": "t", "benchmark": "elyza", "status": "ok"}
    return pl.DataFrame([row | run_columns for row in rows])


def _count(connection: duckdb.DuckDBPyConnection, view: str = "answers") -> int:
    row = run_query(connection, f"select count(*) from {view}").fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture(scope="module")
def two_answers(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with two answers and its catalog, which no test changes."""
    lake = Lake(tmp_path_factory.mktemp("shared") / "warehouse")
    lake.append("answers", _answers("a"))
    write_catalog(lake)
    return lake


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake without rows and its catalog, which no test changes."""
    lake = Lake(tmp_path_factory.mktemp("empty") / "warehouse")
    lake.widen("runs")
    write_catalog(lake)
    return lake


@pytest.fixture(scope="module")
def catalog(two_answers: Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    with open_catalog(two_answers.folder) as connection:
        yield connection


@pytest.fixture(scope="module")
def empty_catalog(empty: Lake) -> Iterator[duckdb.DuckDBPyConnection]:
    with open_catalog(empty.folder) as connection:
        yield connection


def _shown(table: str) -> list[LakeColumn]:
    """The columns that a table's public view has."""
    return [column for column in TABLES[table].columns if column.name not in _LEFT_OUT.get(table, ())]


def _is_rewritten(lake: Lake) -> bool:
    """Whether opening the catalog writes its file anew."""
    before = (lake.folder / CATALOG_NAME).stat().st_ino
    open_catalog(lake.folder).close()
    return (lake.folder / CATALOG_NAME).stat().st_ino != before


def test_a_folder_without_a_lake_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no lake in"):
        open_catalog(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="file is no folder: SHABERI_WAREHOUSE"):
        open_catalog(tmp_path / "file")


@pytest.mark.parametrize("name", TABLES)
def test_the_views_of_an_empty_lake_have_the_tables_columns_and_types(
    name: str, empty_catalog: duckdb.DuckDBPyConnection
) -> None:
    described = run_query(empty_catalog, f"describe {name}").fetchall()
    types = {column.name: _TYPES.get(column.type) for column in _shown(name)}
    if "deltas" in types:
        types["deltas"] = 'STRUCT(pass VARCHAR, "version" VARCHAR, delta DOUBLE, reason VARCHAR)[]'
    assert {row[0]: row[1] for row in described} == types | _ADDED.get(name, {})


@pytest.mark.parametrize("view", public_views(), ids=lambda view: view.name)
def test_each_view_is_described_and_can_be_selected_on_an_empty_lake(
    view: View, empty_catalog: duckdb.DuckDBPyConnection
) -> None:
    name = view.name
    rows = run_query(empty_catalog, f"select * from {_MACROS.get(name, name)}").fetchall()
    assert bool(rows) is (name in _FILLED)
    source = (
        "duckdb_functions() where function_name"
        if name in _MACROS
        else "duckdb_views() where schema_name = 'main' and view_name"
    )
    comments = run_query(empty_catalog, f"select comment from {source} = $name", {"name": name}).fetchall()
    assert comments == [(view.description,)]
    assert len(view.description) > 20


def test_every_column_of_the_lake_has_a_description_that_sql_shows(catalog: duckdb.DuckDBPyConnection) -> None:
    shown = run_query(catalog, "select table_name, column_name, comment from duckdb_columns() where not internal")
    comments = {(table, column): comment for table, column, comment in shown.fetchall()}
    for name in TABLES:
        for column in _shown(name):
            assert comments[name, column.name] == column.description


def test_each_column_of_each_view_says_what_it_means(catalog: duckdb.DuckDBPyConnection) -> None:
    shown = run_query(
        catalog,
        "select table_name, column_name, comment from duckdb_columns() "
        "where not internal and (database_name, schema_name) = (current_database(), 'main')",
    ).fetchall()
    assert len(shown) > 900
    assert [(view, column) for view, column, comment in shown if not comment] == []
    names = {name for view, column, _ in shown for name in (column, f"{view}.{column}")}
    assert set(read_meanings(columns_file())) <= names


@pytest.mark.parametrize(
    "sql",
    [
        "copy (select 1) to '{folder}/x.csv'",
        "explain analyze copy (select 1) to '{folder}/x.csv'",
        "EXPLAIN /* */ ANALYZE copy (select 1) to '{folder}/x.csv'",
        "explain (analyze) copy (select 1) to '{folder}/x.csv'",
        "explain copy (select 1) to '{folder}/x.csv'",
        "export database '{folder}/x'",
        "attach '{folder}/x.duckdb'",
        "detach catalog",
        "use memory",
        "install httpfs",
        "load httpfs",
        "set threads = 1",
        "set lock_configuration = false",
        "reset all",
        "pragma enable_profiling",
        "call enable_logging()",
        "create table x as select 1",
        "create temp table x as select 1",
        "create view x as select 1",
        "create macro x() as 1",
        "insert into lake.catalog values ('x')",
        "delete from lake.catalog",
        "update lake.catalog set description = ''",
        "drop view answers",
        "comment on view answers is 'x'",
        "begin",
        "checkpoint",
        "select 1; select 2",
        "select 1; drop view answers",
        "",
        ";",
        "-- nothing",
        "selekt",
        "select * from nowhere",
        "from query('copy (select 1) to ''{folder}/x.csv''')",
        "select * from read_csv('/etc/passwd')",
        "select * from read_text('/etc/passwd')",
        "select * from read_blob('{folder}/../outside.txt')",
        "select * from glob('/*')",
        "from '/etc/passwd'",
        "select * from read_parquet('https://example.com/x.parquet')",
        "select * from sqlite_scan('/etc/passwd', 'x')",
        "with x as (copy (select 1) to '{folder}/x.csv') from x",
        "with x as (copy (select 1) to '{folder}/x.csv') select 1 where false",
        "explain analyze with x as (copy (select 1) to '{folder}/x.csv') from x",
        "/* explain */ explain analyze with x as (copy (select 1) to '{folder}/x.csv') from x",
        "from query('with x as (copy (select 1) to ''{folder}/x.csv'') from x')",
        "select * from (from system.main.\"QUERY\"('select 1'))",
        "from json_execute_serialized_sql(json_serialize_sql('select 1'))",
        "with x as (insert into lake.catalog values ('x') returning *) from x",
        "with x as (delete from lake.catalog returning *) select 1",
        "copy (pivot answers on model using count(*)) to '{folder}/x.csv'",
        "create table x as (pivot answers on model using count(*))",
        "copy answers from '/etc/passwd'",
        "copy from database catalog to memory",
        "import database '{folder}/x'",
        "merge into lake.catalog using answers on true when matched then delete",
        "alter table lake.catalog add column x integer",
        "truncate lake.catalog",
        "vacuum",
        "analyze",
        "update extensions",
        "create secret (type s3)",
        "set variable x = 1",
        "prepare x as select 1",
        "call pragma_version()",
        "from enable_logging(storage='file', storage_path='{folder}/x.csv')",
        "from enable_profiling(format='json', save_location='{folder}/x.json')",
        "from read_duckdb('{folder}/../outside.txt')",
        "select * from read_json('/etc/passwd')",
        "select * from parquet_metadata('/etc/passwd')",
        "select * from sniff_csv('/etc/passwd')",
        "from read_text('.tmp/x')",
        "from read_text('{folder}/../.tmp/x')",
        "select $x",
    ],
)
def test_what_writes_or_reads_elsewhere_is_refused(
    sql: str, catalog: duckdb.DuckDBPyConnection, two_answers: Lake
) -> None:
    lake = two_answers
    (lake.folder.parent / "outside.txt").write_text("secret", encoding="utf-8")
    before = sorted(lake.folder.rglob("*"))
    with pytest.raises(ConfigurationError):
        run_query(catalog, sql.format(folder=lake.folder)).fetchall()
    assert sorted(lake.folder.rglob("*")) == before
    assert _count(catalog) == 2


@pytest.mark.parametrize(
    "sql",
    [
        "select 1",
        "-- why\nselect 1;",
        "values (1)",
        "with x as (select 1) from x",
        "from answers",
        "describe answers",
        "summarize answers",
        "show tables",
        "explain select * from answers",
        "EXPLAIN ANALYZE select * from answers",
        "explain\nfrom answers",
        "with recursive n as (select 1 as i union all select i + 1 from n where i < 3) from n",
        "with x as materialized (from answers) select count(*) from x, x as y",
        "from answers pivot (count(*) for question_id in ('q0', 'q1'))",
        'select \'a text with "type":"COPY_QUERY_NODE" and "function_name":"query"\' as copy',
        "select " + " + ".join(["1"] * 900),
        "select 1 except select 2",
        "from query_table('answers')",
    ],
)
def test_what_only_reads_is_run(sql: str, catalog: duckdb.DuckDBPyConnection) -> None:
    assert run_query(catalog, sql).fetchall()


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        (None, "missing x, y; unknown none"),
        ({"x": 1}, "missing y; unknown none"),
        ({"x": 1, "y": 2, "z": 3}, "missing none; unknown z"),
    ],
)
def test_parameters_must_be_those_of_the_statement(
    parameters: dict[str, object] | None, complaint: str, catalog: duckdb.DuckDBPyConnection
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        run_query(catalog, "select $x, $y", parameters)


def test_only_the_warehouse_may_be_read(catalog: duckdb.DuckDBPyConnection, two_answers: Lake) -> None:
    allowed = run_query(catalog, "select unnest(current_setting('allowed_directories'))").fetchall()
    assert {Path(folder).relative_to(two_answers.folder) for (folder,) in allowed} == {Path(), Path("_spill")}


def test_the_header_of_a_file_declares_parameters_and_that_is_no_part_of_its_description(tmp_path: Path) -> None:
    file = tmp_path / "query.sql"
    file.write_text(
        "-- What it tells,\n-- $e: in two lines.\n-- $f: judge model\n-- $a: tags = 1\n-- $b = null\n-- $c = x = y\n"
        "select 1;\n-- $d = 2\n"
    )
    assert describe_sql(file) == "What it tells, $e: in two lines."
    assert default_parameters(file) == {"a": "1", "b": None, "c": "x = y"}
    assert parameter_kinds(file) == {"f": "judge model", "a": "tags"}


def test_values_of_parameters_are_never_sql(catalog: duckdb.DuckDBPyConnection) -> None:
    rows = run_query(catalog, "select $x, count(*) from answers where run_id = $x", {"x": "' or 1=1 --"}).fetchall()
    assert rows == [("' or 1=1 --", 0)]


def test_the_catalog_is_written_anew_when_a_table_has_a_newer_version(lake: Lake) -> None:
    lake.append("answers", _answers("a"))
    open_catalog(lake.folder).close()
    assert not _is_rewritten(lake)
    lake.append("answers", _answers("b", 5))
    assert _is_rewritten(lake)
    with open_catalog(lake.folder) as connection:
        assert _count(connection) == 7
    assert not _is_rewritten(lake)


def test_a_connection_is_used_again_until_something_was_committed(lake: Lake) -> None:
    lake.append("answers", _answers("a"))
    first = open_catalog(lake.folder)
    assert open_catalog(lake.folder, first) is first
    lake.append("answers", _answers("b", 5))
    with open_catalog(lake.folder, first) as second:
        assert _count(second) == 7
    with pytest.raises(duckdb.ConnectionException):
        first.execute("select 1")


def test_a_table_that_is_there_no_more_is_empty(lake: Lake) -> None:
    lake.append("answers", _answers("a"))
    lake.widen("runs")
    write_catalog(lake)
    shutil.rmtree(lake.path("answers"))
    with open_catalog(lake.folder) as connection:
        assert _count(connection) == 0


def test_the_catalog_is_written_anew_when_the_warehouse_has_moved(lake: Lake) -> None:
    lake.append("answers", _answers("a"))
    open_catalog(lake.folder).close()
    moved = lake.folder.with_name("moved house")
    shutil.move(lake.folder, moved)
    with open_catalog(moved) as connection:
        assert _count(connection) == 2


def test_the_catalog_is_written_anew_when_a_view_changed(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.append("answers", _answers("a"))
    own = tmp_path / "sql" / "views"
    shutil.copytree(view_files()["leaderboard"].parent, own)
    monkeypatch.setattr(views_module, "project_folder", lambda name: tmp_path / name)
    open_catalog(lake.folder).close()
    assert not _is_rewritten(lake)
    view = own / "10_prompts.sql"
    later = view.stat().st_mtime_ns + int(timedelta(seconds=1).total_seconds() * 1e9)
    view.write_text("-- Only the columns that a test needs.\ncreate view prompts as select 42 as n;", encoding="utf-8")
    os.utime(view, ns=(later, later))
    with open_catalog(lake.folder) as connection:
        assert run_query(connection, "from prompts").fetchall() == [(42,)]


def test_a_catalog_that_is_no_catalog_is_written_anew(lake: Lake) -> None:
    lake.append("answers", _answers("a"))
    with duckdb.connect(str(lake.folder / CATALOG_NAME)) as other:
        other.execute("create table x as select 1")
    with open_catalog(lake.folder) as connection:
        assert _count(connection) == 2


def test_a_catalog_file_that_is_broken_is_written_anew(lake: Lake) -> None:
    lake.append("answers", _answers("a"))
    (lake.folder / CATALOG_NAME).write_bytes(b"no database")
    with open_catalog(lake.folder) as connection:
        assert _count(connection) == 2


def test_a_reader_goes_on_while_the_catalog_is_swapped_and_a_new_one_sees_the_new(lake: Lake) -> None:
    lake.append("answers", _answers("a"))
    with open_catalog(lake.folder) as old:
        assert _count(old) == 2
        lake.replace("answers", _answers("a", 5), {"run_id": "a"})
        write_catalog(lake)
        assert _count(old) == 2
        with open_catalog(lake.folder) as new:
            assert _count(new) == 5
            assert _count(old) == 2
        assert _count(old) == 2


@pytest.mark.parametrize(
    "view",
    [
        "leaderboard",
        "leaderboard_under('zero')",
        "run_statistics",
        "multi_judge_leaderboard_of(['m'])",
        "runs_of_model",
    ],
)
def test_the_leaderboard_reads_the_metrics_and_no_text(view: str, lake: Lake) -> None:
    """No other table's files are touched: they may be gone."""
    answers = _answers("a").with_columns(judge=pl.lit("j"), superseded=pl.lit(value=False))
    lake.append("answers", _answers("a"))
    lake.append("judgements", answers.drop("answer"))
    metrics = {"run_id": "a", "model": "m", "run_tag": "t", "base_tag": "t", "benchmark": "elyza", "judge": "j"}
    metrics |= {"question_set": "elyza@5", "pipeline": "baseline", "created_at": datetime.now(UTC), "score": 7.5}
    metrics |= {"n_planned": 2, "n_scored": 2, "n_failed": 0, "n_excluded": 0}
    policies = pl.DataFrame({"null_policy": ["legacy", "zero", "strict"]})
    lake.append("metrics", pl.DataFrame([metrics]).join(policies, how="cross"))
    with open_catalog(lake.folder) as connection:
        plan = str(run_query(connection, f"explain analyze select * from {view}").fetchall())
        assert "judgements" not in plan
        for name in ("answers", "judgements"):
            for path in lake.path(name).rglob("*.parquet"):
                path.unlink()
        assert run_query(connection, f"from {view}").fetchall()


def test_stages_see_the_versions_of_now(lake: Lake) -> None:
    for count in (1, 4):
        lake.replace("answers", _answers("a", count), {"run_id": "a"})
        with connect(lake) as connection:
            assert connection.execute("select count(*) from answers").fetchone() == (count,)
