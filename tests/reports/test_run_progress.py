"""A run that works is seen while it does: what the lake has, and what its journals say."""

import tarfile
from datetime import UTC, datetime, timedelta

import pytest

from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.lake.journal.backends import journals_of
from shaberi_dagster.lake.journal.files import JOURNAL_FOLDER, FileJournal
from shaberi_dagster.lake.journal.records import Call, LimitChange, Usage
from shaberi_dagster.reports.run_progress import read_run
from shaberi_dagster.tasks.judges.spec import JudgeSpec
from shaberi_dagster.util.errors import ConfigurationError
from tests.archives import extract
from tests.kept_lake.contents import ARCHIVE

pytestmark = pytest.mark.integration

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
RUN = "kept-passes@@default"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    with tarfile.open(ARCHIVE) as archive:
        extract(archive, folder)
    return folder / "warehouse"


@pytest.fixture(scope="module")
def progress(warehouse):
    """Reads a run, as its journals say it now; nothing in its lake changes."""
    with open_catalog(warehouse) as catalog:
        yield lambda run_id=RUN, now=NOW, *more: read_run(catalog, warehouse, run_id, now, *more)


def call(number, at=NOW, **values):
    own = {"request_hash": f"{number}", "model": "judge", "base_url": "http://127.0.0.1/v1", "status": "ok"}
    own |= {"error_class": None, "error_message": None, "content": "8", "reasoning": None, "finish_reason": "stop"}
    return Call(**own | {"usage": Usage(10, 2), "attempts": 1, "latency_seconds": 0.5, "created_at": at} | values)


LABELS = {"stage": "judgements", "benchmark": "rakuda", "question_id": "q", "purpose": "judge"}


def test_a_finished_run_has_its_parts_scores_and_failures(progress):
    done, failing = progress(), progress("kept-failing@@default")

    (part,) = done["parts"]
    assert (part["benchmark"], part["state"]) == ("rakuda", "complete")
    assert (
        (part["n_answers"], part["n_planned_answers"]) == (part["n_judgements"], part["n_planned_judgements"]) == (3, 3)
    )
    assert (done["live"], done["calls_per_minute"], done["minutes_left"]) == (False, None, None)
    assert sum(next(iter(done["scores"].values())).values()) == 3
    assert {row["stage"]: row["n"] for row in failing["failures"] if row["status"] == "error"} == {
        "answers": 1,
        "judgements": 1,
        "pass_outputs": 1,
    }
    assert failing["parts"][0]["n_failed_answers"] == 1


def test_calls_are_counted_while_another_process_holds_the_journal(warehouse, progress):
    path = warehouse / JOURNAL_FOLDER / f"{RUN}.judgements.jsonl"
    try:
        with FileJournal.open(path, RUN, "judgements") as journal:
            for number in range(4):
                journal.append(call(number, NOW - timedelta(seconds=10)), LABELS)
            journal.append_limit_change("http://127.0.0.1/v1", LimitChange(NOW, 8, 16, "success"))
            first = progress()
            journal.append(call(9), LABELS)
            journal.append(call(10, status="error", error_class="transient", content=None), LABELS)
            with path.open("ab") as file:
                file.write(b'{"request_hash": "half')
            second = progress()
    finally:
        path.unlink()

    assert (first["live"], first["stages"], first["tokens"], first["calls_per_minute"]) == (
        True,
        {"judgements": 4},
        48,
        2.0,
    )
    assert first["limits"]["http://127.0.0.1/v1"][-1] == 16
    assert (second["stages"], second["failed_calls"], second["calls_per_minute"]) == (
        {"judgements": 5},
        {"transient": 1},
        2.5,
    )
    assert not progress()["live"]


def test_scores_and_cost_of_calls_that_are_on_their_way_count(warehouse, progress):
    path = warehouse / JOURNAL_FOLDER / f"{RUN}.judgements.jsonl"

    def costing(one):
        return 0.25 if one["prompt_tokens"] == 10 else None

    def seen():
        return progress(RUN, NOW, costing)

    before = seen()
    try:
        with FileJournal.open(path, RUN, "judgements") as journal:
            journal.append(call(1, model="judge-a", content="ok.\nFINAL SCORE: 4"), LABELS)
            journal.append(call(2, model="judge-a", content="FINAL SCORE: 7.5"), LABELS)
            journal.append(call(3, model="judge-a", content="hm", usage=Usage(None, None)), LABELS)
            first = seen()
            journal.append(call(4, model="judge-a", content="FINAL SCORE: 4"), LABELS | {"purpose": "fallback"})
            journal.append(call(5, model="judge-a", content="FINAL SCORE: 4"), LABELS | {"purpose": "answer"})
            second = seen()
    finally:
        path.unlink()

    assert before["scores"] == {("judge-a", "rakuda"): {2: 1, 4: 2}}
    assert first["scores"] == {("judge-a", "rakuda"): {2: 1, 4: 3, 7: 1}}
    assert second["scores"] == {("judge-a", "rakuda"): {2: 1, 4: 4, 7: 1}}
    assert (first["cost_usd"] - before["cost_usd"], second["cost_usd"] - before["cost_usd"]) == (0.5, 1.0)
    assert first["calls_without_price"] - before["calls_without_price"] == 1


def test_settings_of_judges_are_read_once_however_many_calls_there_are(warehouse, progress, monkeypatch):
    path = warehouse / JOURNAL_FOLDER / f"{RUN}.judgements.jsonl"
    read = []
    monkeypatch.setattr(
        JudgeSpec, "model_validate", lambda one, own=JudgeSpec.model_validate: read.append(one) or own(one)
    )
    try:
        with FileJournal.open(path, RUN, "judgements") as journal:
            for number in range(9):
                journal.append(call(number, model="judge-a", content="FINAL SCORE: 9"), LABELS)
            scores = progress()["scores"]
    finally:
        path.unlink()

    assert scores["judge-a", "rakuda"][9] == 9
    assert [one["model"] for one in read] == ["judge-a"]


def test_calls_of_another_host_are_counted(warehouse, progress, database, monkeypatch):
    monkeypatch.setenv("SHABERI_DATABASE_URL", database)
    with journals_of(warehouse).open(RUN, "judgements") as journal:
        for number in range(4):
            journal.append(call(number, NOW - timedelta(seconds=10)), LABELS)
        journal.check()
        first = progress()
        journal.append(call(9), LABELS)
        journal.check()
        second = progress()
        journal.remove()
    assert (first["live"], first["stages"], second["stages"]) == (True, {"judgements": 4}, {"judgements": 5})
    assert not progress()["live"]


def test_a_journal_in_the_place_of_another_is_counted_from_its_beginning(warehouse, progress):
    path = warehouse / JOURNAL_FOLDER / f"{RUN}.answers.jsonl"
    try:
        with FileJournal.open(path, RUN, "answers") as journal:
            for number in range(5):
                journal.append(call(number), LABELS | {"purpose": "answer"})
            progress()
        path.unlink()
        with FileJournal.open(path, RUN, "answers") as journal:
            journal.append(call(7), LABELS | {"purpose": "answer"})
            assert progress()["stages"] == {"answers": 1}
    finally:
        path.unlink()


def test_what_a_killed_run_had_paid_for_counts_and_the_rest_takes_as_long_as_calls_took_lately(progress):
    left = progress("kept-killed-answers@@default", datetime(2026, 11, 22, 0, 53, tzinfo=UTC))

    assert [(part["benchmark"], part["n_answers"], part["n_planned_answers"]) for part in left["parts"]] == [
        ("elyza", 2, 2),
        ("rakuda", 1, 3),
    ]
    assert left["calls_per_minute"] == 1.5
    assert left["minutes_left"] == pytest.approx((2 + 5) / 1.5)  # answers and judgements
    judged_twice = progress("kept-killed-rejudging@@default")["parts"][0]
    assert judged_twice["n_judgements"] == judged_twice["n_planned_judgements"]


def test_a_run_that_is_not_there_is_said(progress):
    with pytest.raises(ConfigurationError, match="no run 'none'"):
        progress("none")
