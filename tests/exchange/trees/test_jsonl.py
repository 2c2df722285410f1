import base64
import io
import json
from hashlib import sha256

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shaberi_dagster.exchange.rejected import MOST_RAW_BYTES, Rejected
from shaberi_dagster.exchange.trees.jsonl import Row, read_rows

pytestmark = pytest.mark.unit

ANSWER = {"Question": "問い", "ModelAnswer": "答え"}
JUDGEMENT = ANSWER | {"score": 7}


def read(content, kind="answers", **options):
    return list(read_rows(io.BytesIO(content), kind, **options))


def one(values, kind="judgements"):
    (row,) = read(orjson.dumps(values) + b"\n", kind)
    return row


def reason_of(content, kind="judgements"):
    (line,) = read(content, kind)
    assert isinstance(line, Rejected)
    assert line.raw.encode() == content
    return line.reason


@pytest.mark.parametrize(
    "line",
    [
        json.dumps(ANSWER, separators=(",", ":")),
        json.dumps(ANSWER, separators=(",", ":"), ensure_ascii=False),
        json.dumps(ANSWER, ensure_ascii=False),
        json.dumps(ANSWER) + "\r",
        "\ufeff" + json.dumps(ANSWER),
        ' {"Question" :"問い" , "ModelAnswer" : "答え"} ',
    ],
)
def test_every_serialisation_gives_the_same_row(line):
    (row,) = read(line.encode())
    assert (row.line, row.question, row.answer) == (1, "問い", "答え")
    assert row.columns == ("Question", "ModelAnswer")


@pytest.mark.parametrize(
    "character", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\x00", "\r", "\ufffd", "\ue000", "\ufeff"]
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_no_character_splits_or_changes_a_line(character, ascii_only):
    text = f"前{character}後"
    content = json.dumps({"Question": text, "ModelAnswer": text}, ensure_ascii=ascii_only).encode() + b"\n"
    (row,) = read(content * 1)
    assert (row.question, row.answer) == (text, text)


def test_blank_lines_are_counted_and_the_last_line_may_lack_its_end():
    line = orjson.dumps(ANSWER)
    found = read(line + b"\n\n \t\r\n" + line)
    assert [type(each) for each in found] == [Row, type(None), type(None), Row]
    assert [each and each.line for each in found] == [1, None, None, 4]


@pytest.mark.parametrize("score", [7, 7.0, 0, 12, -1, 5.8, None, {"score": 3, "judge_output": "text"}])
def test_scores_keep_their_type(score):
    row = one(ANSWER | {"score": score})
    assert row.score == score
    assert type(row.score) is type(score)


def test_other_columns_are_kept():
    row = one(JUDGEMENT | {"judge_output": "理由", "id": 3, "UpdatedAt": None, "list": [{"a": 1}]})
    assert row.judge_output == "理由"
    assert row.fields == {"id": 3, "UpdatedAt": None, "list": [{"a": 1}]}


def test_a_score_in_an_answer_file_is_one_of_the_other_columns():
    row = one(ANSWER | {"score": "high"}, "answers")
    assert (row.score, row.fields) == (None, {"score": "high"})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"Question": "a", "ModelAns', "is not JSON"),
        (b"<<<<<<< HEAD", "is not JSON"),
        (b"[1]", "is an array, not an object"),
        (b"null", "is null, not an object"),
        (b"3", "is a number, not an object"),
        (b'{"ModelAnswer":"a","score":1}', "has no 'Question'"),
        (b'{"Question":"a","score":1}', "has no 'ModelAnswer'"),
        (b'{"Question":"a","ModelAnswer":"a"}', "has no 'score'"),
        (b'{"Question":null,"ModelAnswer":"a","score":1}', "'Question' is null"),
        (b'{"Question":"a","ModelAnswer":["a"],"score":1}', "'ModelAnswer' is an array"),
        (b'{"Question":"a","ModelAnswer":"a","score":"8"}', "'score' is a string"),
        (b'{"Question":"a","ModelAnswer":"a","score":true}', "'score' is a boolean"),
        (b'{"Question":"a","ModelAnswer":"a","score":[8]}', "'score' is an array"),
        (b'{"Question":"a","ModelAnswer":"a","score":NaN}', "is not JSON"),
        (b'{"Question":"a","ModelAnswer":"a","score":1e999}', "is not JSON"),
        (b'{"Question":"a","ModelAnswer":"a","score":1,"judge_output":5}', "'judge_output' is a number"),
        (b'{"Question":"a","ModelAnswer":"\\ud800","score":1}', "is not JSON"),
        (b'{"Question":"a","ModelAnswer":"a","score":1,"score":2}', "repeats the key 'score'"),
        (b'{"Question":"a","ModelAnswer":"a","score":1,"score" :2}', "repeats the key 'score'"),
        (b'{"Question":"a","ModelAnswer":"a","score":1,"score"\t:2}', "repeats the key 'score'"),
        (b'{"Question" :"a","ModelAnswer":"\\":","score":1,"score":2}', "repeats the key 'score'"),
        (b'{"Question":"a","ModelAnswer":"a","score":{"score":1,"score":2}}', "repeats the key 'score'"),
        (b'{"Question":"a","ModelAnswer":"a","score":1,"x":' + b"[" * 300 + b"]" * 300 + b"}", "nested too deeply"),
        (b'{"Question":"a","ModelAnswer":"a","score":1,"x":' + b"[" * 3000 + b"]" * 3000 + b"}", "is not JSON"),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_a_row_is_set_aside_with_its_reason(line, reason):
    assert reason in reason_of(line)


def test_one_bad_line_costs_only_itself():
    good = orjson.dumps(JUDGEMENT)
    found = read(b"\n".join([good, b"{", good]) + b"\n", "judgements")
    assert [type(each) for each in found] == [Row, Rejected, Row]


def test_bytes_that_are_not_utf8_are_kept_as_base64():
    content = b'{"Question":"\xff\xfe"}'
    (line,) = read(content)
    assert line.raw_encoding == "base64"
    assert base64.b64decode(line.raw) == content
    assert line.sha256 == sha256(content).hexdigest()


def test_a_line_over_the_limit_is_set_aside_without_being_held():
    long = b'{"Question":"' + "長".encode() * 2_000_000 + b'"}'
    good = orjson.dumps(ANSWER)
    found = read(good + b"\n" + long + b"\n" + good, most_line_bytes=5_000_000)
    assert [type(each) for each in found] == [Row, Rejected, Row]
    line = found[1]
    assert line.reason == "is longer than 5,000,000 bytes"
    assert (line.size, line.sha256) == (len(long), sha256(long).hexdigest())
    assert MOST_RAW_BYTES - 4 < len(line.raw.encode()) <= MOST_RAW_BYTES
    assert line.raw.endswith("長")


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize(("extra", "taken"), [(0, True), (1, False)])
def test_the_limit_itself_is_allowed(end, extra, taken):
    line = orjson.dumps(ANSWER)
    (found,) = read(line + b" " * extra + end, most_line_bytes=len(line))
    assert isinstance(found, Row) is taken


def test_a_row_can_be_objected_to():
    line = orjson.dumps(ANSWER)
    (found,) = read(line + b"\n", objection=lambda row: f"no place for {row.question}")
    assert (found.reason, found.raw) == ("no place for 問い", line.decode())


def n_lines(content):
    return content.count(b"\n") + (not content.endswith(b"\n") and content != b"")


@given(st.binary(max_size=400), st.integers(1, 100))
def test_any_bytes_give_one_result_a_line(content, most_line_bytes):
    found = read(content, "judgements", most_line_bytes=most_line_bytes)
    assert [each and each.line for each in found] == [each and place for place, each in enumerate(found, start=1)]
    assert len(found) == n_lines(content)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.dictionaries(st.sampled_from([*JUDGEMENT, "judge_output", "x"]), VALUES), max_size=5), st.booleans())
def test_any_objects_are_rows_with_their_values_or_set_aside(objects, ascii_only):
    lines = [json.dumps(each, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass") for each in objects]
    found = read(b"\n".join(lines), "judgements")
    assert len(found) == len(objects)
    for line, values, each in zip(lines, objects, found, strict=True):
        if isinstance(each, Row):
            assert (each.question, each.answer) == (values["Question"], values["ModelAnswer"])
            assert each.score == values["score"]
            assert set(each.columns) == set(values)
        else:
            assert each.sha256 == sha256(line).hexdigest()


@given(st.data())
def test_a_damaged_file_loses_no_line(data):
    content = bytearray(b"".join(orjson.dumps(JUDGEMENT | {"n": n}) + b"\n" for n in range(4)))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(start, min(len(content), start + 60)))
        content[start:end] = data.draw(st.binary(max_size=8))
    found = read(bytes(content), "judgements")
    assert len(found) == n_lines(bytes(content))
