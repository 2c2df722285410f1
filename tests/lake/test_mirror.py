"""A lake on object storage: written there, read from each machine's mirror."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable

from shaberi_dagster.lake import mirror
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.lake.compaction import compact_lake
from shaberi_dagster.lake.formats import FORMAT, stored_format
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.lake.writer import RowWriter
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError, ShaberiError
from tests.object_storage import Bucket, running_store
from tests.sizes import size

pytestmark = pytest.mark.integration

_WRITERS, _COMMITS = size(2, 5), size(3, 10)
_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_WRITE = """
import sys
from pathlib import Path
from tests.lake.test_mirror import answers
from shaberi_dagster.lake.store import Lake
lake, writer = Lake(Path(sys.argv[1])), sys.argv[2]
for number in range(int(sys.argv[3])):
    lake.replace("answers", answers(f"{writer}-{number}"), {"run_id": f"{writer}-{number}"})
"""


def answers(run_id: str, text: str = "答え") -> pl.DataFrame:
    own = {"run_id": run_id, "model": "gpt/5 %", "run_tag": "t", "benchmark": "elyza", "status": "ok"}
    rows = [own | {"question_id": f"q{n}", "sample_index": 0, "answer": text, "created_at": _AT} for n in range(3)]
    return pl.DataFrame(rows)


def machine(bucket: Bucket, place: Path) -> Path:
    """The warehouse of a machine that has its mirrors in a place."""
    return Settings.from_environment({"SHABERI_WAREHOUSE": bucket.uri, "SHABERI_MIRRORS": str(place)}).warehouse


def counted(warehouse: Path) -> int:
    """How many answers a reader sees."""
    with open_catalog(warehouse) as catalog:
        ((number,),) = catalog.execute("select count(*) from answers").fetchall()
        return int(number)


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "_FRESH_SECONDS", 0.0)


def test_what_one_machine_writes_another_reads_in_files_and_in_sql(bucket: Bucket, tmp_path: Path) -> None:
    here, there = machine(bucket, tmp_path / "here"), machine(bucket, tmp_path / "there")
    Lake(here).replace("answers", answers("a"), {"run_id": "a"})
    assert Lake(there).read("answers").height == 3
    assert stored_format(there) == FORMAT

    Lake(there).replace("answers", answers("a", "別の答え"), {"run_id": "a"})
    Lake(there).append("answers", answers("b"))

    assert counted(here) == counted(there) == 6
    assert set(Lake(here).read("answers", {"run_id": "a"})["answer"]) == {"別の答え"}
    # Whoever reads the store without us reads the same.
    stored = DeltaTable(f"{bucket.uri}/answers", storage_options={"AWS_ALLOW_HTTP": "true"})
    assert stored.version() == Lake(here).delta("answers").version()
    assert {path.name for path in (bucket.folder / "team/lake").iterdir()} == {"_format.json", "answers"}


def test_rows_that_are_written_while_they_are_made_are_in_the_store_before_a_commit_names_them(
    bucket: Bucket, tmp_path: Path
) -> None:
    here, there = Lake(machine(bucket, tmp_path / "here")), machine(bucket, tmp_path / "there")
    with RowWriter(here, "answers") as writer:
        for row in answers("a").iter_rows(named=True):
            writer.add(row)
        assert Lake(there).read("answers").is_empty()
        writer.commit(transaction="once")
    assert Lake(there).committed("answers", "once")
    assert counted(there) == 3

    replaced = answers("a").select("run_id", "benchmark", "question_id").head(1)
    with RowWriter(here, "answers") as writer:
        writer.add(answers("a", "別の答え").row(0, named=True))
        writer.commit(replaced)
    assert Lake(there).read("answers").sort("question_id")["answer"].to_list() == ["別の答え", "答え", "答え"]


@pytest.mark.long
def test_compaction_in_the_store_reaches_every_mirror_and_old_files_leave_them_after_a_week(
    bucket: Bucket, tmp_path: Path
) -> None:
    here, there = machine(bucket, tmp_path / "here"), machine(bucket, tmp_path / "there")
    for run_id in "abcd":
        Lake(here).append("answers", answers(run_id))
    assert counted(there) == 12
    old = [path for path in there.rglob("*.parquet") if path.parent.name != "_delta_log"]

    counts = compact_lake(Lake(here))["answers"]

    assert counts == {"files_before": 4, "files_after": 1, "files_deleted": 0}
    assert counted(there) == counted(here) == 12
    assert len(Lake(there).files("answers")) == 1
    assert all(path.exists() for path in old)  # for those who have the older catalog open
    for path in old:
        os.utime(path, (0, 0))
    compact_lake(Lake(there))
    assert not any(path.exists() for path in old)
    assert counted(there) == 12
    assert counted(machine(bucket, tmp_path / "new")) == 12  # from the checkpoint


@pytest.mark.long
@pytest.mark.acceptance
def test_commits_of_several_processes_at_once_are_all_kept(bucket: Bucket, tmp_path: Path) -> None:
    Lake(machine(bucket, tmp_path / "first")).widen("answers")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITE, machine(bucket, tmp_path / f"host{number}"), f"w{number}", str(_COMMITS)],
            cwd=Path(__file__).parents[2],
        )
        for number in range(_WRITERS)
    ]
    assert [writer.wait(240) for writer in writers] == [0] * _WRITERS
    lake = Lake(machine(bucket, tmp_path / "first"))
    expected = {f"w{writer}-{number}" for writer in range(_WRITERS) for number in range(_COMMITS)}
    assert set(lake.read("answers")["run_id"]) == expected
    assert lake.read("answers").height == 3 * len(expected)


def test_a_store_that_ignores_conditions_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_store(tmp_path / "store", conditional=False) as bucket:
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        lake = Lake(machine(bucket, tmp_path / "here"))
        with pytest.raises(ConfigurationError, match="ignores If-None-Match"):
            lake.append("answers", answers("a"))
        assert not [path for path in bucket.folder.rglob("*") if path.is_file()]


@pytest.mark.long
def test_a_store_that_fails_now_and_then_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_store(tmp_path / "store", failing=0.05) as bucket:
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        lake = Lake(machine(bucket, tmp_path / "here"))
        for number in range(6):
            lake.append("answers", answers(f"r{number}"))
        assert counted(machine(bucket, tmp_path / "there")) == 18


def test_a_store_that_is_not_there_is_one_line_that_a_worker_is_told_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr(mirror, "_RETRIES", {"max_retries": 0})
    monkeypatch.setattr(mirror, "_on_store_unavailable", [])
    told: list[str] = []
    mirror.on_store_unavailable(told.append)
    place = {"SHABERI_WAREHOUSE": "s3://lakes/x", "SHABERI_MIRRORS": str(tmp_path)}
    with pytest.raises(ShaberiError, match=r"^s3://lakes/x cannot be reached or refuses us: [^\n]+$") as error:
        Lake(Settings.from_environment(place).warehouse)
    assert told == [str(error.value)]
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ShaberiError, match=r"refuses us \(AWS_SECRET_ACCESS_KEY not set\): "):
        Lake(Settings.from_environment(place | {"SHABERI_WAREHOUSE": "s3://lakes/y"}).warehouse)


@pytest.mark.parametrize("place", ["gs://lakes/x", "s3://", "s3://lakes/../x y", "s3://lakes/x?key=secret"])
def test_what_is_no_store_is_refused(place: str) -> None:
    with pytest.raises(ConfigurationError, match="neither a folder nor s3://bucket/path"):
        Settings.from_environment({"SHABERI_WAREHOUSE": place})


def test_keys_are_written_nowhere(bucket: Bucket, tmp_path: Path) -> None:
    here = machine(bucket, tmp_path / "here")
    Lake(here).append("answers", answers("a"))
    assert counted(here) == 3
    written = [path.read_bytes() for folder in (here, bucket.folder) for path in folder.rglob("*") if path.is_file()]
    assert not [content for content in written if b"not-to-be-written" in content]


def test_reading_anew_is_one_round_of_requests(bucket: Bucket, tmp_path: Path) -> None:
    here = machine(bucket, tmp_path / "here")
    Lake(here).append("answers", answers("a"))
    counted(here)
    bucket.requests.clear()
    assert counted(here) == 3
    # The bucket, the small file, and the end of each table's log.
    assert len(bucket.requests) <= 2 + len(list(here.glob("*/_delta_log")))
