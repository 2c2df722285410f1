"""What the replies of a stage have in common that makes them doubtful."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shaberi_dagster.lake.journal.records import Call, Usage
from shaberi_dagster.llm.noticed import Noticed
from shaberi_dagster.llm.request import ChatRequest, Endpoint
from shaberi_dagster.llm.types import Message, Sampling

pytestmark = pytest.mark.unit

_CALL = Call(
    *("hash", "m", "http://there/v1", "ok", None, None, "An answer.", None, "stop"),
    usage=Usage(),
    attempts=1,
    latency_seconds=0.1,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)


def said(*replies, lengths=()):
    noticed = Noticed()
    for number, reply in enumerate(replies):
        text = "x" * (lengths[number] if lengths else 100)
        request = ChatRequest(Endpoint("custom", "http://there/v1"), "m", (Message("user", text),), Sampling(0.2, 9))
        noticed.count(replace(_CALL, **reply), request)
    return " ".join(noticed)


def tokens(*counts):
    return [{"usage": Usage(count, 9)} for count in counts]


@pytest.mark.parametrize(
    ("replies", "words"),
    [
        ([{"reply_model": "m"}, {"reply_model": "m"}, {"reply_model": "o\x1bther"}], "answered: m (2), other (1)"),
        ([{"system_fingerprint": "a"}, {"system_fingerprint": "b"}], "system_fingerprint changed: a (1), b (1)"),
        ([{"finish_reason": "bored"}, {}], "not known: bored (1)"),
        ([{"content": "x<|im_end|>"}, {}], "taken off the end of 1 of 2"),
        (
            [{"content": "", "reasoning": "Hm", "usage": Usage(1, 812)}, {}],
            "1 of 2 answers are empty, such as: the answer",
        ),
    ],
)
def test_what_is_doubtful_is_said_once(replies, words):
    assert words in said(*replies)
    assert said(*replies).count("m at http://there/v1") == 1


def test_replies_that_are_alike_are_nothing_to_say():
    assert said({"reply_model": "n"}, {"reply_model": "n", "content": "", "finish_reason": "length"}) == ""


@pytest.mark.parametrize(
    ("counts", "lengths", "is_cut"),
    [
        ([2050] * 3, [30_000, 30_010, 30_020], True),  # far more characters than tokens can be
        ([4096] * 3, [8_000, 9_000, 12_000], True),  # the same count for unlike lengths
        ([4096] * 3, [8_000, 8_010, 8_020], False),
        ([900, 1200, 1300], [3_000, 4_000, 4_500], False),
        ([50] * 3, [1_000, 2_000, 3_000], False),  # a server that counts nothing
    ],
)
def test_a_server_that_cuts_prompts_is_known_by_its_counts(counts, lengths, is_cut):
    assert ("cut prompts" in said(*tokens(*counts), lengths=lengths)) is is_cut
