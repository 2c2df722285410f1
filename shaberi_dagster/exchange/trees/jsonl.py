r"""Rows of a legacy file: JSON Lines, read line by line so that one bad line costs only itself.

Only `\n` ends a line: U+2028 and U+0085 stand raw inside strings. Every line of a file comes out as exactly one of
`Row`, `Rejected` or None, which is a line of blanks only.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import orjson

from shaberi_dagster.exchange.rejected import Rejected
from shaberi_dagster.exchange.trees.files import Kind
from shaberi_dagster.tasks.benchmarks.files import json_type

MOST_LINE_BYTES = 16 << 20
"""Longest line that is parsed; the longest one known has a thousandth of it."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CHUNK = 1 << 20
_BLANKS = b" \t\r\n"
_TOO_DEEP = "is nested too deeply"
_NESTED = frozenset({dict, list})
_KEY_END = re.compile(rb'"[ \t\r]*:')


@dataclass(slots=True)
class Row:
    """An answer or judgement as its line has it.

    Attributes:
        line: 1-based.
        question: The exact question text.
        answer: The answer; None when it is null.
        score: As parsed: an int, a float, None or a dict; None for answers.
        judge_output: The judge's text where the file kept it.
        fields: All other columns.
        columns: Names of all columns in their order.
    """

    line: int
    question: str
    answer: str | None
    score: float | dict[str, Any] | None
    judge_output: str | None
    fields: dict[str, Any]
    columns: tuple[str, ...]


def read_rows(
    stream: BinaryIO,
    kind: Kind,
    *,
    objection: Callable[[Row], str | None] = lambda _: None,
    most_line_bytes: int = MOST_LINE_BYTES,
) -> Iterator[Row | Rejected | None]:
    """The lines of a file, in order; memory is bounded by the longest line that is parsed.

    Args:
        stream: The file, opened for reading bytes.
        kind: `answers` or `judgements`: a judgement must have a `score`.
        objection: Why a row cannot be taken; None if it can.
        most_line_bytes: A longer line is quarantined without being held.

    Raises:
        OSError: The file cannot be read any further.
    """
    number = 0
    while content := stream.readline(most_line_bytes + 1):
        number += 1
        if len(content) > most_line_bytes and not content.endswith(b"\n"):
            yield _overlong(stream, number, content, most_line_bytes)
            continue
        content = content.removesuffix(b"\n")
        # A mark at the start of a file is an encoding's signature, not content.
        text = (content.removeprefix(_BYTE_ORDER_MARK) if number == 1 else content).strip(_BLANKS)
        if not text:
            yield None
            continue
        parsed = _parse(text, number, kind)
        reason = objection(parsed) if isinstance(parsed, Row) else parsed
        if isinstance(parsed, Row) and reason is None:
            yield parsed
        else:
            yield Rejected.of(number, reason or "", content)


def _overlong(stream: BinaryIO, number: int, start: bytes, most: int) -> Rejected:
    """Read on to the end of the line without holding it."""
    digest, size = hashlib.sha256(start), len(start)
    while chunk := stream.readline(_CHUNK):
        content = chunk.removesuffix(b"\n")
        digest.update(content)
        size += len(content)
        if len(content) < len(chunk):
            break
    return Rejected.of(number, f"is longer than {most:,} bytes", start, size, digest.hexdigest())


def _parse(content: bytes, number: int, kind: Kind) -> Row | str:
    """The line's row, or what is wrong with it."""
    try:
        values = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        return f"is not JSON: {error.msg} at character {error.pos + 1}"
    if not isinstance(values, dict):
        return f"is {json_type(values)}, not an object"
    judged = kind == "judgements"
    if problem := _lossy(content, values) or _mistyped(values, _JUDGEMENT_TYPES if judged else _ANSWER_TYPES):
        return problem
    columns = tuple(values)
    return Row(
        number,
        values.pop("Question"),
        values.pop("ModelAnswer"),
        values.pop("score") if judged else None,
        values.pop("judge_output", None) if judged else None,
        values,
        columns,
    )


# As orjson makes them: a boolean is no number here.
_ANSWER_TYPES: dict[str, tuple[type, ...]] = {"Question": (str,), "ModelAnswer": (str, type(None))}
_JUDGEMENT_TYPES = _ANSWER_TYPES | {"score": (int, float, dict, type(None)), "judge_output": (str, type(None))}


def _mistyped(values: dict[str, Any], types: dict[str, tuple[type, ...]]) -> str | None:
    for name, allowed in types.items():
        if name not in values:
            if name != "judge_output":
                return f"has no {name!r}"
        elif type(values[name]) not in allowed:
            return f"{name!r} is {json_type(values[name])}"
    return None


def _lossy(content: bytes, values: dict[str, Any]) -> str | None:
    """Say what of a line is lost in its parsed values; None if nothing is."""
    if not _NESTED.isdisjoint(map(type, values.values())):
        try:
            orjson.dumps(values)  # writing goes less deep than reading
        except orjson.JSONEncodeError:
            return _TOO_DEEP
    # Strings and inner objects can have what looks like the end of a key: then it needs a closer look.
    if len(_KEY_END.findall(content)) == len(values):
        return None
    repeated: list[str] = []

    def note_repeated(pairs: list[tuple[str, Any]]) -> None:
        seen = set[str]()
        for key, _ in pairs:
            if key in seen:
                repeated.append(key)
            seen.add(key)

    try:
        json.loads(content, object_pairs_hook=note_repeated)
    except RecursionError:
        return _TOO_DEEP
    except ValueError as error:  # the stricter of two readers that disagree: digits of a huge number
        return f"is not readable JSON: {error}"
    return f"repeats the key {repeated[0]!r}" if repeated else None
