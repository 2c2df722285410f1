"""What a journal in a database does when its connection or the server fails it."""

import subprocess
import time

import pytest

from shaberi_dagster.lake.journal.postgres import connect, query
from shaberi_dagster.lake.journal.tables import DatabaseJournals
from shaberi_dagster.util.errors import ShaberiError
from tests.postgres import PASSWORD, POSTGRES, end_other_connections

pytestmark = pytest.mark.integration


@pytest.fixture
def journals(database):
    return DatabaseJournals(database, "s3://bucket/lake")


def test_lakes_of_one_database_know_nothing_of_each_other(database, journals, finished):
    other = DatabaseJournals(database, "/srv/another")
    with journals.open("m@@t", "answers") as journal, other.open("m@@t", "answers") as of_other:
        journal.append(finished("a"), {})
        journal.check()
        assert len(of_other.calls) == 0
        assert other.others("m@@u", "answers").find(["a"]) == []
        assert [call for _, call in journals.others("m@@u", "answers").find(["a"])] == [finished("a")]


def test_calls_are_written_half_a_second_later_without_anyone_asking(journals, finished):
    with journals.open("m@@t", "answers") as journal:
        journal.append(finished("a"), {})
        assert journals.finished_calls("m@@t", "answers") == {}
        assert journal.calls["a"] == finished("a")
        _wait_until(lambda: journals.finished_calls("m@@t", "answers") == {"a": finished("a")})
        journal.append(finished("b"), {})
        _wait_until(lambda: len(journals.finished_calls("m@@t", "answers")) == 2)
        assert journal.calls["a"] == finished("a")


def test_who_has_lost_the_connection_writes_no_more_and_says_so(database, journals, finished):
    journal = journals.open("m@@t", "answers")
    journal.append(finished("a"), {})
    journal.check()
    end_other_connections(database)
    with pytest.raises(ShaberiError, match="run the same command again, finished calls are kept") as error:
        journal.check()
    assert PASSWORD not in str(error.value)
    with pytest.raises(ShaberiError, match="connection to the database lost"):
        journal.append(finished("b"), {})
    with journals.open("m@@t", "answers") as next_one:
        assert set(next_one.calls) == {"a"}
    journal.close()


def test_the_writer_notices_a_lost_connection_by_itself(database, journals, finished):
    journal = journals.open("m@@t", "answers")
    end_other_connections(database)
    journal.append(finished("a"), {})
    _wait_until(lambda: journal.trouble is not None)
    with pytest.raises(ShaberiError, match="cannot be written"):
        journal.close()


def test_what_a_full_server_refused_is_written_when_there_is_room_again(database, journals, finished):
    with journals.open("m@@t", "answers") as journal:
        control = connect(database)
        query(control, "alter table shaberi_journal_records add constraint no_room check (id < 0) not valid")
        journal.append(finished("a"), {})
        _wait_until(lambda: journal.trouble is not None)
        journal.append(finished("b"), {})
        query(control, "alter table shaberi_journal_records drop constraint no_room")
    assert set(journals.finished_calls("m@@t", "answers")) == {"a", "b"}


def test_a_reader_connects_again(database, journals):
    assert journals.unfinished() == []
    end_other_connections(database)
    assert journals.unfinished() == []


def test_who_looks_for_calls_is_told_that_a_journal_has_ended(journals):
    others = journals.others("m@@b", "answers")
    others.find([])
    before = others.ended
    with journals.open("m@@a", "answers") as journal:
        others.find([])
        assert others.ended == before
        journal.remove()
    others.find([])
    assert others.ended != before


def test_a_restored_database_has_all_that_was_written_under_another_lake_s_name_too(
    tmp_path, postgres, database, journals, finished
):
    with journals.open("m@@t", "answers") as journal:
        journal.append(finished("a"), {})
        journal.check()
        dumped = [POSTGRES / "pg_dump", "--format=custom", f"--file={tmp_path / 'dump'}", database]
        subprocess.run(dumped, check=True)
    control = connect(postgres)
    query(control, "create database restored")
    url = postgres.replace("/postgres", "/restored")
    try:
        subprocess.run([POSTGRES / "pg_restore", "--no-owner", f"--dbname={url}", tmp_path / "dump"], check=True)
        restored = connect(url)
        query(restored, "update shaberi_journals set lake = 's3://bucket/restored' where lake = 's3://bucket/lake'")
        restored.close()
        with DatabaseJournals(url, "s3://bucket/restored").open("m@@t", "answers") as again:
            assert dict(again.calls) == {"a": finished("a")}
            again.append(finished("b"), {})
            again.check()
            assert [record["request_hash"] for record in again.records] == ["a", "b"]
    finally:
        query(control, "drop database restored with (force)")
        control.close()


def _wait_until(condition):
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)
