"""Rows of question files: JSON Lines, JSON, Parquet and CSV, read without changing a byte of their texts."""

import io
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import orjson
import polars as pl
from pyarrow import parquet as pq

from shaberi_dagster.tasks.benchmarks.registry import SUFFIXES
from shaberi_dagster.util.errors import QuestionFileError

Row = dict[str, Any]
MOST_ROW_CHARACTERS, MOST_CHARACTERS = 16 << 20, 1 << 29
"""Longest texts of a row, and of a file, however small it is packed; the longest ones known have a thousandth."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MOST_VALUES = 1 << 24
_MOST = 2**63 - 1
_SEPARATORS = ",;\t"


def read_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """The rows of a file, each with its 1-based line (JSON Lines) or row number (JSON array, Parquet, CSV).

    Raises:
        QuestionFileError: The file cannot be read, or a line or element is not a JSON object in UTF-8.
    """
    for number, row in rows_and_errors(path):
        if isinstance(row, QuestionFileError):
            raise row
        yield number, row


def rows_and_errors(path: Path) -> Iterator[tuple[int, Row | QuestionFileError]]:
    """The rows of a file as `read_rows`, with the error of a line or element in its place.

    Raises:
        QuestionFileError: The file cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise QuestionFileError(path, None, f"cannot be read: {error.strerror or error}") from error
    if path.suffix == ".json" and content.removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(b"["):
        rows = _json_array(path, content)
    elif path.suffix in {".jsonl", ".json"}:
        rows = _json_lines(path, content)
    elif path.suffix in SUFFIXES:
        rows = enumerate(read_table(path, content).iter_rows(named=True), start=1)
    else:
        raise QuestionFileError(path, None, f"must be one of {', '.join(SUFFIXES)}")
    size = 0
    for number, row in rows:
        length = _length(row)
        size += length
        if size > MOST_CHARACTERS:
            raise QuestionFileError(path, number, f"has more than {MOST_CHARACTERS:,} characters until here")
        too_long = QuestionFileError(path, number, f"is longer than {MOST_ROW_CHARACTERS:,} characters")
        yield number, too_long if length > MOST_ROW_CHARACTERS else row


def _length(value: Any) -> int:
    if isinstance(value, dict | list):
        return sum(map(_length, value.values() if isinstance(value, dict) else value))
    return len(value) if isinstance(value, str) else 0


def _json_lines(path: Path, content: bytes) -> Iterator[tuple[int, Row | QuestionFileError]]:
    # Only \n ends a line: U+2028 and U+0085 may stand raw inside strings, where splitlines() would cut.
    for number, line in enumerate(content.removeprefix(_BYTE_ORDER_MARK).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            line.decode()
            yield number, _object(path, number, orjson.loads(line))
        except UnicodeDecodeError as error:
            yield number, QuestionFileError(path, number, f"is not UTF-8 at byte {error.start + 1}")
        except orjson.JSONDecodeError as error:
            yield number, QuestionFileError(path, number, f"is not JSON: {error.msg} at column {error.colno}")


def _json_array(path: Path, content: bytes) -> Iterator[tuple[int, Row | QuestionFileError]]:
    try:
        rows = orjson.loads(content.removeprefix(_BYTE_ORDER_MARK))
    except orjson.JSONDecodeError as error:
        raise QuestionFileError(path, error.lineno, f"is not JSON: {error.msg} at column {error.colno}") from error
    for number, row in enumerate(rows, start=1):
        yield number, _object(path, number, row)


def _object(path: Path, number: int, row: Any) -> Row | QuestionFileError:
    if not isinstance(row, dict):
        return QuestionFileError(path, number, f"is {json_type(row)}, not an object with a question")
    return row


def read_table(path: Path, content: bytes) -> pl.DataFrame:
    """Read a Parquet or CSV file, as a spreadsheet saves it; all values of CSV are texts.

    Raises:
        QuestionFileError: It cannot be read.
    """
    try:
        if path.suffix == ".parquet":
            return _parquet(path, content)
        text = content.decode("utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig")
        header = re.sub(r'"[^"]*"', "", text).lstrip("\r\n").partition("\n")[0]
        return pl.read_csv(text.encode(), separator=max(_SEPARATORS, key=header.count), infer_schema=False)
    except pl.exceptions.NoDataError:
        return pl.DataFrame()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        remedy = "Excel saves Japanese CSV files as Shift_JIS: save it as CSV UTF-8"
        raise QuestionFileError(path, line, f"is not UTF-8; {remedy}") from error
    except QuestionFileError:
        raise
    except (Exception, pl.exceptions.PanicException) as error:  # of whatever a broken file makes a reader raise
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise QuestionFileError(path, None, f"is not a readable {path.suffix[1:]} file: {reason}") from error


def _parquet(path: Path, content: bytes) -> pl.DataFrame:
    metadata = pq.read_metadata(io.BytesIO(content))
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    n_values = sum(group.column(place).num_values for group in groups for place in range(group.num_columns))
    if any(group.total_byte_size > group.num_rows * MOST_ROW_CHARACTERS for group in groups):
        raise QuestionFileError(path, None, f"has rows that are longer than {MOST_ROW_CHARACTERS:,} characters")
    if sum(group.total_byte_size for group in groups) > MOST_CHARACTERS or n_values > _MOST_VALUES:
        raise QuestionFileError(path, None, f"unpacks to more than {MOST_CHARACTERS:,} bytes or {_MOST_VALUES:,} cells")
    return pl.read_parquet(io.BytesIO(content))


def whole_number(value: object) -> int | None:
    """Read a whole number in any spelling (`1`, `1.0`, `"1"`); None of anything else."""
    with suppress(InvalidOperation):
        number = Decimal(str(value).strip())
        if abs(number) <= _MOST and number == number.to_integral_value():
            return int(number)
    return None


def json_type(value: object) -> str:
    """Name the type that a value has in JSON."""
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null", dict: "an object"}
    return names.get(type(value), "a number")
