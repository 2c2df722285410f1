"""One at a time, on one machine and among hosts that share a database."""

import threading

import pytest

from shaberi_dagster.errors import PartitionBusyError, ShaberiError
from shaberi_dagster.exchange.results.folder import opened_folder
from shaberi_dagster.journal.locks import alone
from shaberi_dagster.journal.postgres import connect, query
from shaberi_dagster.settings import MIRROR_MARK
from tests.postgres import end_other_connections

pytestmark = pytest.mark.integration
_BUSY = "another process is importing"


@pytest.fixture
def hosts(tmp_path, monkeypatch, database):
    """The warehouses of two hosts: mirrors of one store."""
    monkeypatch.setenv("SHABERI_DATABASE_URL", database)
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        (folder / MIRROR_MARK).write_text("s3://bucket/lake\n")
    return folders


def is_free(warehouse, name):
    try:
        with alone(warehouse, name, _BUSY):
            return True
    except PartitionBusyError:
        return False


def test_two_processes_of_a_machine_are_kept_apart_without_a_database(tmp_path):
    with alone(tmp_path, "import"), alone(tmp_path, "promote", _BUSY):
        assert not is_free(tmp_path, "import")
    assert is_free(tmp_path, "import")


def test_two_hosts_are_kept_apart_by_the_database(hosts):
    one, two = hosts
    with alone(one, "import"), alone(two, "promote", _BUSY):
        assert not is_free(two, "import")
    assert is_free(two, "import")


def test_another_host_waits_for_the_first(hosts):
    order, waits = [], threading.Event()

    def second():
        waits.set()
        with alone(hosts[1], "import"):
            order.append("second")

    with alone(hosts[0], "import"):
        other = threading.Thread(target=second)
        other.start()
        waits.wait()
        other.join(0.1)
        order.append("first")
    other.join()
    assert order == ["first", "second"]


def test_a_lock_that_was_lost_is_said_though_the_work_is_done(hosts, database):
    with pytest.raises(ShaberiError, match="connection to the database lost"), alone(hosts[0], "import"):
        end_other_connections(database)


def test_what_went_wrong_inside_is_said_rather_than_the_lost_lock(hosts, database):
    def work():
        with alone(hosts[0], "import"):
            end_other_connections(database)
            raise ValueError("the reason")

    with pytest.raises(ValueError, match="the reason"):
        work()


@pytest.mark.usefixtures("hosts")
def test_the_folder_of_a_run_s_results_has_one_writer_among_all_hosts(tmp_path, database):
    control = connect(database)
    locks = "select count(*) from pg_locks where locktype = 'advisory'"
    with opened_folder(tmp_path / "results", ["model", "tag"]):
        assert query(control, locks) == [(1,)]
    control.close()
