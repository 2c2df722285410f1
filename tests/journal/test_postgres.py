"""Connections to PostgreSQL, and the locks that end with them."""

import threading

import pytest

from shaberi_dagster.lake.journal.postgres import connect, create_tables, locked, query, try_lock, unlock
from shaberi_dagster.settings import database_label, database_url
from shaberi_dagster.util.errors import ConfigurationError, ShaberiError
from tests.postgres import PASSWORD

pytestmark = pytest.mark.integration


def test_without_the_setting_there_is_no_database():
    assert database_url({}) is None
    assert database_url({"SHABERI_DATABASE_URL": ""}) is None


def test_the_label_of_a_database_has_no_password():
    assert database_label("postgresql://me:secret@db:5432/evals?sslmode=require") == "postgresql://db:5432/evals"
    assert database_label("me:secret@db") == "unreadable"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://me:secret@127.0.0.1:1/evals", "postgresql://127.0.0.1:1/evals cannot be reached"),
        ("me:secret@db", "must be like postgresql://user:password@host:port/name"),
        ("postgresql://me:secret@db:port/evals", "must be like postgresql://|cannot be reached"),
    ],
)
def test_a_database_that_is_not_there_is_one_line_without_a_password(url, words):
    with pytest.raises(ConfigurationError, match=words) as error:
        connect(url)
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_refused_password_is_not_shown(database):
    with pytest.raises(ConfigurationError, match="password authentication failed") as error:
        connect(database.replace(PASSWORD, "another-one"))
    assert "another-one" not in str(error.value)


def test_a_lock_is_one_connection_s_and_ends_with_it(database):
    first, second = connect(database), connect(database)
    assert try_lock(first, "run", "answers")
    assert not try_lock(second, "run", "answers")
    assert try_lock(second, "run", "judgements")
    first.close()
    with locked(second, "run", "answers"):  # waits until the server has noticed
        third = connect(database)
        assert not try_lock(third, "run", "answers")
    assert try_lock(third, "run", "answers")
    unlock(third, "run", "answers")
    assert try_lock(second, "run", "answers")


def test_a_lost_connection_is_an_error_of_one_line(database):
    connection, other = connect(database), connect(database)
    query(other, "select pg_terminate_backend(%s)", connection.info.backend_pid)
    with pytest.raises(ShaberiError, match=r"connection to the database lost: .*terminat") as error:
        query(connection, "select 1")
    assert PASSWORD not in str(error.value)
    assert "\n" not in str(error.value)


def test_tables_are_made_by_many_at_once(database):
    failures = []

    def create():
        try:
            create_tables(connect(database), "create table if not exists some_calls (n int)")
        except ShaberiError as error:
            failures.append(error)

    makers = [threading.Thread(target=create) for _ in range(8)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert not failures
    assert query(connect(database), "select * from some_calls") == []
