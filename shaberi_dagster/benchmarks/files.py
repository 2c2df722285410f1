"""Rows of question files: JSON Lines, JSON, Parquet and CSV, read without changing a byte of their texts."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from shaberi_dagster.benchmarks.registry import SUFFIXES
from shaberi_dagster.errors import QuestionFileError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file, each with its 1-based line (JSON Lines) or row number (JSON array, Parquet, CSV).

    Raises:
        QuestionFileError: The file cannot be read, or a line or element is not a JSON object in UTF-8.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise QuestionFileError(path, None, f"cannot be read: {error.strerror or error}") from error
    if path.suffix == ".json" and content.removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(b"["):
        yield from _json_array(path, content)
    elif path.suffix in {".jsonl", ".json"}:
        yield from _json_lines(path, content)
    elif path.suffix in {".parquet", ".csv"}:
        yield from enumerate(_table(path, content).iter_rows(named=True), start=1)
    else:
        raise QuestionFileError(path, None, f"is none of {', '.join(SUFFIXES)}")


def _json_lines(path: Path, content: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    # Only \n ends a line: U+2028 and U+0085 may stand raw inside strings, where splitlines() would cut.
    for number, line in enumerate(content.removeprefix(_BYTE_ORDER_MARK).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            line.decode()
            row = orjson.loads(line)
        except UnicodeDecodeError as error:
            raise QuestionFileError(path, number, f"is not UTF-8 at byte {error.start + 1}") from error
        except orjson.JSONDecodeError as error:
            raise QuestionFileError(path, number, f"is not JSON: {error.msg} at column {error.colno}") from error
        yield number, _object(path, number, row)


def _json_array(path: Path, content: bytes) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        rows = orjson.loads(content.removeprefix(_BYTE_ORDER_MARK))
    except orjson.JSONDecodeError as error:
        raise QuestionFileError(path, error.lineno, f"is not JSON: {error.msg} at column {error.colno}") from error
    for number, row in enumerate(rows, start=1):
        yield number, _object(path, number, row)


def _object(path: Path, number: int, row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise QuestionFileError(path, number, f"is {_json_type(row)}, not an object with a question")
    return row


def _table(path: Path, content: bytes) -> pl.DataFrame:
    try:
        if path.suffix == ".parquet":
            return pl.read_parquet(io.BytesIO(content))
        content.decode()
        return pl.read_csv(io.BytesIO(content), infer_schema=False)
    except pl.exceptions.NoDataError:
        return pl.DataFrame()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise QuestionFileError(path, line, "is not UTF-8") from error
    except pl.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        raise QuestionFileError(path, None, f"is not a readable {path.suffix[1:]} file: {reason}") from error


def _json_type(value: object) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
