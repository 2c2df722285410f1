import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shaberi_dagster.tasks.benchmarks.files import read_rows
from shaberi_dagster.util.errors import QuestionFileError

pytestmark = pytest.mark.unit


def test_only_a_newline_ends_a_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes('{"a": "x\u2028y\u0085z"}\r\n\n{"a": 2}'.encode())
    assert list(read_rows(path)) == [(1, {"a": "x\u2028y\u0085z"}), (3, {"a": 2})]


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n')
    assert list(read_rows(path)) == [(1, {"a": 1})]


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b" \n"])
def test_a_json_file_may_be_an_array_of_rows(tmp_path, before):
    path = tmp_path / "a.json"
    path.write_bytes(before + b'[\n{"a": 1},\n\n{"a": {"z": 1, "b": 0}}]')
    assert [(number, list(row["a"]) if number == 2 else row["a"]) for number, row in read_rows(path)] == [
        (1, 1),
        (2, ["z", "b"]),
    ]


def test_a_json_file_may_have_a_row_a_line(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b'{"a": 1}\n{"a": 2}')
    assert list(read_rows(path)) == [(1, {"a": 1}), (2, {"a": 2})]


@given(text=st.text())
def test_parquet_and_json_lines_keep_a_text_exactly(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("texts")
    frame = pl.DataFrame({"a": [text]})
    frame.write_parquet(folder / "a.parquet")
    frame.write_ndjson(folder / "a.jsonl")
    assert list(read_rows(folder / "a.parquet")) == list(read_rows(folder / "a.jsonl")) == [(1, {"a": text})]


def test_csv_keeps_quoted_newlines_and_reads_all_as_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes('input,id\n"一\r\n二 ""三"", 四",007\n'.encode())
    assert list(read_rows(path)) == [(1, {"input": '一\r\n二 "三", 四', "id": "007"})]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize(("name", "separator"), [("a.csv", ","), ("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", "\t")])
def test_a_table_of_a_spreadsheet_is_read_as_it_was_saved(tmp_path, name, separator, encoding):
    text = separator.join(['"a,;\tb"', "c"]) + "\r\n" + separator.join(['"一、\n二,;\t"', "3"]) + "\r\n"
    (path := tmp_path / name).write_bytes(text.encode(encoding))
    assert list(read_rows(path)) == [(1, {"a,;\tb": "一、\n二,;\t", "c": "3"})]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (["a" * 100] * 99, "has more than 9,000 characters until here"),
        (["a" * 300, *["a"] * 99], "is longer than 200 characters"),
        ([["a" * 70] * 4, *[["a"]] * 99], "is longer than 200 characters"),
        (["a" * 999], "has rows that are longer than 200 characters"),
        ([f"{number:0100}" for number in range(99)], "unpacks to more than 9,000 bytes"),
        ([[0] * 9] * 999, "unpacks to more than 9,000 bytes or 900 cells"),
    ],
)
def test_a_small_file_that_unpacks_to_much_is_refused(tmp_path, monkeypatch, values, reason):
    pl.DataFrame({"a": values}).write_parquet(path := tmp_path / "a.parquet", compression="zstd")
    limits = {"MOST_ROW_CHARACTERS": 200, "MOST_CHARACTERS": 9_000, "_MOST_VALUES": 900}
    for name, most in limits.items():
        monkeypatch.setattr(f"shaberi_dagster.tasks.benchmarks.files.{name}", most)
    with pytest.raises(QuestionFileError, match=reason):
        list(read_rows(path))


@pytest.mark.parametrize(
    ("name", "content", "line", "reason"),
    [
        ("a.jsonl", b'{"a": 1}\n{"a": \n', 2, "is not JSON"),
        ("a.jsonl", b'{"a": 1}\n{"a": "\xff"}\n', 2, "is not UTF-8 at byte 8"),
        ("a.jsonl", b'{"a": "\\ud800"}\n', 1, "is not JSON"),
        ("a.jsonl", b'{"a": NaN}\n', 1, "is not JSON"),
        ("a.jsonl", b"[1]\n", 1, "is an array, not an object"),
        ("a.jsonl", b'"a"\n', 1, "is a string, not an object"),
        ("a.jsonl", b"null\n", 1, "is null, not an object"),
        ("a.jsonl", b"7\n", 1, "is a number, not an object"),
        ("a.json", b'[{"a": 1}, 5]', 2, "is a number, not an object"),
        ("a.json", b'[{"a": 1},\n{"a": ]', 2, "is not JSON"),
        ("a.json", b'[{"a": "\xff"}]', 1, "is not JSON"),
        ("a.parquet", b"PAR?", None, "is not a readable parquet file"),
        ("a.csv", b"a,b\n1,2,3\n", None, "is not a readable csv file"),
        ("a.csv", b"a,b\n1,\xff\n", 2, "is not UTF-8"),
        ("a.txt", b"a", None, "must be one of .jsonl"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_line_and_reason(tmp_path, name, content, line, reason):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(QuestionFileError) as caught:
        list(read_rows(path))
    assert (caught.value.path, caught.value.line) == (path, line)
    assert caught.value.reason.startswith(reason)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(QuestionFileError, match=r"a\.jsonl: cannot be read: No such file"):
        list(read_rows(tmp_path / "a.jsonl"))
