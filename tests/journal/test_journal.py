"""What every journal does, whether it is a file or in a database."""

import asyncio
import os
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

from shaberi_dagster.lake.journal.backends import journals_of
from shaberi_dagster.lake.journal.records import LimitChange
from shaberi_dagster.util.errors import PartitionBusyError, ShaberiError

pytestmark = pytest.mark.integration
_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture(params=["files", "database"])
def journals(request, tmp_path, monkeypatch):
    if request.param == "database":
        monkeypatch.setenv("SHABERI_DATABASE_URL", request.getfixturevalue("database"))
    return journals_of(tmp_path)


@pytest.fixture
def opened(journals):
    return lambda: journals.open("m@@t", "answers")


def test_a_journal_gives_back_what_was_appended(opened, finished):
    with opened() as journal:
        journal.append(finished("a"), {"benchmark": "elyza", "judge": None})
        assert journal.calls["a"] == finished("a")
    with opened() as journal:
        assert dict(journal.calls) == {"a": finished("a")}
        assert len(journal.calls) == 1
        assert "b" not in journal.calls
        assert journal.calls.get("b") is None


def test_records_are_flat_rows_with_labels(opened, finished):
    with opened() as journal:
        journal.append(finished("a"), {"benchmark": "elyza", "judge": None})
        (record,) = journal.records
    assert (record["request_hash"], record["benchmark"], record["judge"]) == ("a", "elyza", None)
    assert (record["prompt_tokens"], record["reasoning_tokens"]) == (10, 5)
    assert record["created_at"] == _AT


def test_an_error_is_a_record_but_not_a_call_to_reuse(opened, finished):
    with opened() as journal:
        journal.append(finished("a", error_class="transient"), {})
        assert "a" not in journal.calls
        assert [record["error_class"] for record in journal.records] == ["transient"]
    with opened() as journal:
        assert "a" not in journal.calls
        journal.append(finished("a", "later"), {})
        assert journal.calls["a"].content == "later"


def test_of_a_call_that_was_made_again_the_last_one_counts(journals, opened, finished):
    with opened() as journal:
        for content in ("first", "second"):
            journal.append(finished("a", content), {})
        assert journal.calls["a"].content == "second"
    with opened() as journal:
        assert journal.calls["a"].content == "second"
        assert [record["content"] for record in journal.records] == ["first", "second"]
    assert journals.finished_calls("m@@t", "answers")["a"].content == "second"


def test_every_text_comes_back_as_it_was(opened, finished):
    text = "答え \0 \\u0000 \n\r\u2028 % %s 👩‍💻 ' \""
    with opened() as journal:
        journal.append(finished("a", text), {})
    with opened() as journal:
        assert journal.calls["a"].content == text


def test_changes_of_limits_stand_beside_the_calls(opened, finished):
    with opened() as journal:
        journal.append_limit_change("http://one/v1", LimitChange(_AT, 8, 16, "success"))
        journal.append(finished("a"), {})
    with opened() as journal:
        (change,) = journal.limit_changes
        assert (change["base_url"], change["limit_after"], change["created_at"]) == ("http://one/v1", 16, _AT)
        assert [record["request_hash"] for record in journal.records] == ["a"]


def test_the_identity_stays_until_the_journal_is_removed(journals, opened):
    with opened() as journal:
        first = journal.journal_id
    assert (journals.stages("m@@t"), journals.unfinished()) == (["answers"], ["m@@t.answers"])
    with opened() as journal:
        assert journal.journal_id == first
        journal.remove()
    assert (journals.stages("m@@t"), journals.unfinished()) == ([], [])
    with opened() as journal:
        assert journal.journal_id != first


def test_stages_are_of_one_run_even_where_its_name_is_long(journals):
    long, longer = "m" * 300 + "@@t", "m" * 300 + "@@t.judgements"
    with journals.open(long, "answers"), journals.open(longer, "consensus"):
        assert (journals.stages(long), journals.stages(longer)) == (["answers"], ["consensus"])
        assert journals.stages("m@@t") == []


def test_a_second_opening_is_refused_with_who_has_it(opened):
    with opened(), pytest.raises(PartitionBusyError) as error:
        opened()
    assert f"process {os.getpid()} on" in str(error.value)
    assert "answers of run m@@t" in str(error.value)
    assert "not-to-be-written" not in str(error.value)


def test_who_comes_after_it_was_closed_gets_it_at_once(opened):
    for _ in range(20):
        opened().close()


def test_a_closed_journal_takes_nothing_and_closes_again(opened, finished):
    journal = opened()
    journal.close()
    journal.close()
    with pytest.raises(ShaberiError, match="closed"):
        journal.append(finished("a"), {})


def test_a_label_cannot_hide_a_column_of_the_call(opened, finished):
    with opened() as journal, pytest.raises(ValueError, match="status"):
        journal.append(finished("a"), {"status": "ok"})


def test_other_journals_are_followed_while_they_are_written_end_and_begin_anew(journals, opened, finished):
    others, own = journals.others("m@@b", "answers"), journals.others("m@@t", "answers")
    assert others.find(["a"]) == []
    with opened() as journal:
        journal.append(finished("a"), {})
        journal.append(finished("failed", error_class="transient"), {})
        journal.check()
        assert [call for _, call in others.find(["a", "b", "failed"])] == [finished("a")]
        assert own.find(["a"]) == []
        journal.append(finished("b"), {})
        journal.check()
        assert [call for _, call in others.find(["b"])] == [finished("b")]
        journal.remove()
    assert others.find(["a", "b"]) == []
    with opened() as journal:
        journal.append(finished("c"), {})
        journal.check()
        journal.append(finished("d"), {})
        journal.check()
        assert [call for _, call in others.find(["a", "c", "d"])] == [finished("c"), finished("d")]


def test_news_go_on_where_they_ended_and_begin_anew_with_a_new_journal(journals, opened, finished):
    def hashes(news):
        return [record["request_hash"] for record in news.records if "request_hash" in record]

    assert journals.news("m@@t", "answers", None) is None
    with opened() as journal:
        journal.append(finished("a"), {})
        journal.check()
        first = journals.news("m@@t", "answers", None)
        journal.append(finished("b"), {})
        journal.check()
        second = journals.news("m@@t", "answers", first.place)
        nothing = journals.news("m@@t", "answers", second.place)
        journal.remove()
    assert (hashes(first), hashes(second), hashes(nothing)) == (["a"], ["b"], [])
    assert (second.restarted, nothing.restarted) == (False, False)
    with opened() as journal:
        for name in "cdefg":  # longer than the one before, so that only its identity tells
            journal.append(finished(name), {})
        journal.check()
        third = journals.news("m@@t", "answers", second.place)
    assert (third.restarted, hashes(third)) == (True, list("cdefg"))


def test_what_stands_half_a_second_after_a_call_survives_kill_9(tmp_path, opened):
    code = (
        "import os, signal, sys, time; from datetime import UTC, datetime; from pathlib import Path\n"
        "from shaberi_dagster.lake.journal.backends import journals_of\n"
        "from shaberi_dagster.lake.journal.records import Call, Usage\n"
        "journal = journals_of(Path(sys.argv[1])).open('m@@t', 'answers')\n"
        "for i in range(50):\n"
        "    journal.append(Call(str(i), 'm', 'u', 'ok', None, None, 'x' * 9999, None, 'stop', Usage(), 1, 0.1,"
        " datetime.now(UTC)), {})\n"
        "time.sleep(1)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, tmp_path], check=False).returncode == -9
    journal = _as_soon_as_free(opened)
    assert set(journal.calls) == {str(i) for i in range(50)}
    journal.close()


def test_a_claim_is_one_request_s_and_the_next_one_finds_the_call(journals, finished):
    name, other_name = "0" * 64, "f" * 64

    async def work():
        others = journals.others("m@@b", "answers")
        with journals.open("m@@a", "answers") as first, journals.open("m@@b", "answers") as second:
            with first.claims() as own, second.claims() as of_other:
                async with own.of(name):
                    taken = await _is_free(of_other, name, 0.1), await _is_free(of_other, other_name, 0.1)
                    first.append(finished(name), {})
                async with asyncio.timeout(5), of_other.of(name):
                    found = others.find([name])
                async with asyncio.timeout(5), of_other.of(name):  # freed a moment ago, and still its own
                    assert not await _is_free(own, name, 0.1)
            return taken, found

    assert asyncio.run(work()) == ((False, True), [("m@@a", finished(name))])


async def _is_free(claims, request_hash, seconds):
    try:
        async with asyncio.timeout(seconds), claims.of(request_hash):
            return True
    except TimeoutError:
        return False


def _as_soon_as_free(opened):
    until = time.monotonic() + 10
    while True:
        try:
            return opened()
        except PartitionBusyError:  # the server has not noticed yet
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
