import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shaberi_dagster.tasks.consensus.parse import contained_winner, parse_alignments, parse_validity, parse_winner
from tests.sizes import size

pytestmark = pytest.mark.unit

HOSTILE = size(250_000, 1_000_000)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("WINNER: A", "first"),
        ("WINNER: B", "second"),
        ("WINNER: TIE", "tie"),
        ("B is wrong.\nWINNER: A", "first"),
        ("winner: b", "second"),
        ("**WINNER: B**", "second"),
        ("**WINNER:** B", "second"),
        ("**WINNER**: **B**", "second"),
        ("WINNER:A.", "first"),
        ("WINNER:\u3000Ａ", "first"),
        ("ＷＩＮＮＥＲ：Ｂ", "second"),
        ("WINNER: Bです", "second"),
        ("At first I thought WINNER: A, but no.\nWINNER: B", "second"),
        ("WINNER: A\nWINNER: nobody", None),
        ("WINNER: APPLE", None),
        ("WINNER: TIED", None),
        ("WINNER: C", None),
        ("WINNER:", None),
        ("The winner is A", None),
        ("A", None),
        ("", None),
    ],
)
def test_the_verdict_is_a_whole_word_after_the_last_winner_mark(text, verdict):
    assert parse_winner(text, "A", "B") == verdict


@pytest.mark.parametrize(("first", "second"), [("R1", "R10"), ("R10", "R1"), ("m", "m2")])
def test_a_name_that_begins_with_the_other_is_not_taken_for_it(first, second):
    assert parse_winner(f"Winner: {first}", first, second) == "first"
    assert parse_winner(f"Winner: {second}", first, second) == "second"


def test_the_originals_reading_takes_the_second_instance_for_the_first():
    assert contained_winner("Winner: p:m#2", "Winner: p:m", "Winner: p:m#2") == "first"
    assert contained_winner("Winner: p:m#3", "Winner: p:m#2", "Winner: p:m#3") == "second"
    assert contained_winner("Winner: Tie", "Winner: p:m", "Winner: p:m#2") is None


NAMES = ["R1", "R2", "R3"]


def rankings(*items):
    return json.dumps({"rankings": list(items)})


def item(name, alignment):
    return {"id": name, "alignment": alignment}


def test_alignments_come_in_the_order_of_the_output():
    text = rankings(item("R3", 90), item("R1", 90), item("R2", 10))
    assert list((parse_alignments(text, NAMES) or {}).items()) == [("R3", 90.0), ("R1", 90.0), ("R2", 10.0)]


@pytest.mark.parametrize(
    ("alignment", "read"),
    [(-5, 0.0), (150, 100.0), (1e308, 100.0), (10**30, 100.0), ("90", 0.0), (True, 0.0), (None, 0.0), ([1], 0.0)],
)
def test_an_alignment_is_clamped_and_what_is_no_number_is_nought(alignment, read):
    assert parse_alignments(rankings(item("R1", alignment)), NAMES) == {"R1": read}


def test_the_first_mention_counts_and_unknown_names_do_not():
    text = rankings(item("R1", 80), item("R1", 20), item("R9", 99), {"alignment": 5}, item(7, 1), "R2", item("R2", 30))
    assert parse_alignments(text, NAMES) == {"R1": 80.0, "R2": 30.0}


@pytest.mark.parametrize("fence", ["```", "```json", "```json\n"])
def test_a_fenced_block_is_read_when_the_whole_is_no_json(fence):
    text = f"Here you are:\n{fence}{rankings(item('R2', 40))}\n```\nand ```{rankings(item('R1', 40))}```"
    assert parse_alignments(text, NAMES) == {"R2": 40.0}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "R1 is best",
        "[]",
        "null",
        '{"rankings": {}}',
        '{"rankings": []}',
        '{"rankings": [{"id": "R9", "alignment": 1}]}',
        '{"rankings": [{"id": "R1", "alignment": NaN}]}',
        "```json\n{}",
        '{"rankings": [{"id": "R1"',
    ],
)
def test_without_a_valid_item_there_are_no_alignments(text):
    assert parse_alignments(text, NAMES) is None


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ('{"isValid": true, "reasoning": "sound"}', True),
        ('{"isValid": false}', False),
        ('I see.\n```json\n{"isValid": false, "reasoning": "x"}\n```', False),
        ('{"isValid": "true"}', None),
        ('{"isValid": 1}', None),
        ('{"isvalid": true}', None),
        ("[true]", None),
        ("true", None),
        ("It is valid.", None),
        ("", None),
    ],
)
def test_validity_is_a_boolean_in_json_or_unknown(text, valid):
    assert parse_validity(text) is valid


HOSTILE = [
    "WINNER:" * (HOSTILE // 7),
    "WINNER" + " " * HOSTILE,
    "WINNER" + "*" * HOSTILE + ": A",
    "winner " * (HOSTILE // 7),
    "`" * HOSTILE,
    "```" * (HOSTILE // 3),
    "[" * HOSTILE,
    '{"rankings":' * (HOSTILE // 12),
    "9" * HOSTILE,
    "\u3000" * HOSTILE,
    "\ud800 WINNER: C",
]


@pytest.mark.timeout(20)  # seconds; a quadratic pattern takes hours
@pytest.mark.acceptance
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:12]))
def test_a_long_hostile_text_is_read_to_the_end_and_says_nothing(text):
    assert parse_winner(text, "A", "B") is None
    assert parse_alignments(text, NAMES) is None
    assert parse_validity(text) is None


@given(st.text())
def test_any_text_is_read_without_an_error(text):
    assert parse_winner(text, "A", "B") in {"first", "second", "tie", None}
    assert parse_validity(text) in {True, False, None}
    assert set(parse_alignments(text, NAMES) or NAMES) <= set(NAMES)
