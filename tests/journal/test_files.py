"""What a journal that is a file keeps, through kills, full disks and second processes."""

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from shaberi_dagster.lake.journal import files as journal_files
from shaberi_dagster.lake.journal.files import FileJournal, OtherFiles
from shaberi_dagster.util.errors import ShaberiError

pytestmark = pytest.mark.unit


@pytest.fixture
def path(tmp_path):
    return tmp_path / "_journal" / "m@@t.answers.jsonl"


def opened(path):
    return FileJournal.open(path, "m@@t", "answers")


def test_a_torn_end_is_cut_off(path, finished):
    with opened(path) as journal:
        journal.append(finished("a"), {})
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(whole.splitlines()[-1][:-20])
    with opened(path) as journal:
        journal.append(finished("b"), {})
        assert set(journal.calls) == {"a", "b"}
        assert journal.note == ""
    assert all(orjson.loads(line) for line in path.read_bytes().splitlines())


@pytest.mark.parametrize("length", [0, 1, 30])
def test_a_torn_header_begins_a_new_journal(path, finished, length):
    with opened(path):
        pass
    path.write_bytes(path.read_bytes()[:length])
    with opened(path) as journal:
        journal.append(finished("a"), {})
        first = journal.journal_id
    with opened(path) as journal:
        assert (journal.journal_id, set(journal.calls)) == (first, {"a"})


@pytest.mark.parametrize("damage", [b"\x00garbage\xff", b"[1]", b'{"status":"ok","request_hash":"x"}'])
def test_an_unreadable_line_is_kept_aside_and_the_others_are_read(path, finished, damage):
    with opened(path) as journal:
        journal.append(finished("a"), {})
    with path.open("ab") as file:
        file.write(damage + b"\n")
    for expected in (True, False):  # found once, then it is out of the way
        with opened(path) as journal:
            assert ("unreadable lines" in journal.note) == expected
            journal.append(finished(f"b{expected:d}"), {})
            assert next(journal.records)["request_hash"] == "a"
    assert path.with_name(path.name + ".corrupt").read_bytes() == damage + b"\n"
    with opened(path) as journal:
        assert set(journal.calls) == {"a", "b0", "b1"}


def test_a_journal_of_another_stage_is_not_taken_over(path):
    with opened(path):
        pass
    with pytest.raises(ShaberiError, match="belongs to answers of run m@@t"):
        FileJournal.open(path, "m@@t", "judgements")
    with opened(path):
        pass  # and the failed attempt left no lock


def test_a_second_process_is_refused_at_once(path):
    code = (
        "import sys; from pathlib import Path; from shaberi_dagster.lake.journal.files import FileJournal\n"
        "try: FileJournal.open(Path(sys.argv[1]), 'm@@t', 'answers')\n"
        "except Exception as error: print(type(error).__name__)"
    )
    with opened(path):
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout == "PartitionBusyError\n"


def test_what_was_appended_survives_kill_9(path):
    code = (
        "import os, signal, sys; from datetime import UTC, datetime; from pathlib import Path\n"
        "from shaberi_dagster.lake.journal.files import FileJournal\n"
        "from shaberi_dagster.lake.journal.records import Call, Usage\n"
        "journal = FileJournal.open(Path(sys.argv[1]), 'm@@t', 'answers')\n"
        "for i in range(50):\n"
        "    journal.append(Call(str(i), 'm', 'u', 'ok', None, None, 'x' * 9999, None, 'stop', Usage(), 1, 0.1,"
        " datetime.now(UTC)), {})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, path], check=False).returncode == -9
    with opened(path) as journal:
        assert set(journal.calls) == {str(i) for i in range(50)}


@pytest.mark.parametrize("steps", range(3))
def test_however_far_a_removal_gets_the_next_one_leaves_nothing(path, monkeypatch, steps):
    journal, unlink, left = opened(path), Path.unlink, iter(range(steps))

    def stopped(file, **options):
        if next(left, None) is None:
            raise KeyboardInterrupt
        unlink(file, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", stopped)
        with pytest.raises(KeyboardInterrupt):
            journal.remove()
    os.close(journal._descriptor)  # as when the process ends
    if path.exists():
        opened(path).remove()
    assert list(path.parent.iterdir()) == []


def test_removing_a_file_that_another_is_about_to_lock_gives_the_other_a_file_of_its_own(path, monkeypatch):
    first, flock, left = opened(path), journal_files.fcntl.flock, []

    def flock_late(descriptor, how):
        if not left:
            left.append(first.remove())  # after the other opened the file and before it locked it
        flock(descriptor, how)

    monkeypatch.setattr(journal_files.fcntl, "flock", flock_late)
    with opened(path) as second:
        assert os.path.samestat(path.stat(), os.fstat(second._descriptor))
        assert second.journal_id != first.journal_id


def test_a_full_disk_is_said_clearly_and_keeps_what_was_there(path, finished, monkeypatch):
    write = os.write
    with opened(path) as journal:
        journal.append(finished("a"), {})
        monkeypatch.setattr(os, "write", lambda descriptor, line: write(descriptor, line[:30]))
        with pytest.raises(ShaberiError, match=r"No space left on device.*finished calls are kept"):
            journal.append(finished("b"), {})
        monkeypatch.undo()
        assert set(journal.calls) == {"a"}
        journal.append(finished("c"), {})
    with opened(path) as journal:
        assert set(journal.calls) == {"a", "c"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_real_write_error_is_a_clear_error(path, finished):
    with opened(path) as journal:
        own, full = os.dup(journal._descriptor), os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, journal._descriptor)
        with pytest.raises(ShaberiError, match="No space left"):
            journal.append(finished("b"), {})
        os.dup2(own, journal._descriptor)
        with pytest.raises(ShaberiError, match="No space left"):  # the device cannot take the torn record back
            journal.append(finished("c"), {})
        os.close(full)
        os.close(own)
        assert len(journal.calls) == 0


def test_a_failed_sync_stops_the_next_append(path, finished, monkeypatch):
    with opened(path) as journal:

        def fail(_descriptor):
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(os, "fdatasync", fail)
        journal.append(finished("a"), {})
        journal._syncer.join(timeout=10)
        with pytest.raises(ShaberiError, match="Input/output error"):
            journal.append(finished("b"), {})
        monkeypatch.undo()


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ShaberiError, match="cannot be opened"):
        FileJournal.open(tmp_path / "file" / "j.jsonl", "m@@t", "answers")


def test_texts_of_finished_calls_are_not_kept_in_memory(path, finished):
    with opened(path) as journal:
        for number in range(100):
            journal.append(finished(str(number), "x" * 10_000), {})
        assert all(isinstance(offset, int) for offset in journal._offsets.values())
        assert journal.calls["99"].content == "x" * 10_000


def test_the_own_journal_is_no_other_one_and_half_a_line_is_none(path, finished):
    with opened(path) as journal:
        journal.append(finished("a"), {})
    assert OtherFiles(path).find(["a"]) == []
    path.write_bytes(path.read_bytes()[:-1])
    assert OtherFiles(path.with_name("m@@b.answers.jsonl")).find(["a"]) == []


def test_without_a_database_its_driver_is_not_imported(tmp_path):
    code = (
        "import sys; from pathlib import Path; from shaberi_dagster.lake.journal.backends import journals_of\n"
        "from shaberi_dagster.lake.journal.locks import exclusive_lock\n"
        "with exclusive_lock(Path(sys.argv[1]), 'import'), journals_of(Path(sys.argv[1])).open('m@@t', 'answers'): pass\n"
        "print('psycopg2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
