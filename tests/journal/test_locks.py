"""One at a time, on one machine and among hosts that share a database."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from shaberi_dagster.lake.journal.locks import exclusive_lock, slot
from shaberi_dagster.lake.journal.postgres import connect, query
from shaberi_dagster.runs.results.folder import opened_folder
from shaberi_dagster.settings import MIRROR_MARK
from shaberi_dagster.util.errors import PartitionBusyError, ShaberiError
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
        with exclusive_lock(warehouse, name, _BUSY):
            return True
    except PartitionBusyError:
        return False


def test_two_processes_of_a_machine_are_kept_apart_without_a_database(tmp_path):
    with exclusive_lock(tmp_path, "import"), exclusive_lock(tmp_path, "promote", _BUSY):
        assert not is_free(tmp_path, "import")
    assert is_free(tmp_path, "import")


def test_two_hosts_are_kept_apart_by_the_database(hosts):
    one, two = hosts
    with exclusive_lock(one, "import"), exclusive_lock(two, "promote", _BUSY):
        assert not is_free(two, "import")
    assert is_free(two, "import")


def test_another_host_waits_for_the_first(hosts):
    order, waits = [], threading.Event()

    def second():
        waits.set()
        with exclusive_lock(hosts[1], "import"):
            order.append("second")

    with exclusive_lock(hosts[0], "import"):
        other = threading.Thread(target=second)
        other.start()
        waits.wait()
        other.join(0.1)
        order.append("first")
    other.join()
    assert order == ["first", "second"]


def test_a_lock_that_was_lost_is_said_though_the_work_is_done(hosts, database):
    with pytest.raises(ShaberiError, match="connection to the database lost"), exclusive_lock(hosts[0], "import"):
        end_other_connections(database)


def test_what_went_wrong_inside_is_said_rather_than_the_lost_lock(hosts, database):
    def work():
        with exclusive_lock(hosts[0], "import"):
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


def test_never_more_are_in_a_slot_than_the_limit_and_each_that_waits_is_told_once(tmp_path, monkeypatch):
    monkeypatch.setattr("shaberi_dagster.lake.journal.locks._POLL_SECONDS", 0.01)
    inside, most, waited = [], [], []

    def work(number):
        with slot(tmp_path, "endpoint", 3, lambda: waited.append(number)):
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.05)
            inside.remove(number)

    with ThreadPoolExecutor(12) as threads:
        list(threads.map(work, range(12)))
    assert (max(most), len(waited)) == (3, len(set(waited)))


def test_the_slot_of_a_killed_process_is_free(tmp_path):
    code = (
        "import sys; from pathlib import Path; from shaberi_dagster.lake.journal.locks import slot\n"
        "with slot(Path(sys.argv[1]), 'endpoint', 1, lambda: None): print('in', flush=True); input()"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"in\n"
    assert not is_free(tmp_path, "endpoint-0")
    holder.kill()
    holder.communicate()
    with slot(tmp_path, "endpoint", 1, lambda: pytest.fail("it waits")):
        assert not is_free(tmp_path, "endpoint-0")


def test_hosts_share_the_slots_of_their_database(hosts):
    one, two = hosts
    second = slot(two, "endpoint", 1, _give_up, shared="dagster")
    with slot(one, "endpoint", 1, _give_up, shared="dagster"), pytest.raises(TimeoutError), second:
        pytest.fail("both are in it")


def _give_up():
    raise TimeoutError
