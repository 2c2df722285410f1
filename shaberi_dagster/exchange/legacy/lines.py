"""What the lines of legacy files say, as frames: the one form between the files and the lake's tables.

A *content* is the bytes of a file as the file of one kind, judge and model: it is read once, in however many trees it
lies. Texts are apart from the lines, since each judge's file repeats those of the answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

CONTENT = ("model", "kind", "judge", "sha256")
"""What tells contents apart; `judge` is null for answers."""

_TEXT, _INT = pl.String(), pl.Int64()

LINES = pl.Schema(
    dict.fromkeys((*CONTENT,), _TEXT)
    | {"line": _INT}
    | {"benchmark": _TEXT, "question_set": _TEXT, "question_id": _TEXT, "sample_index": _INT}
    | {
        "text_hash": _TEXT,  # of the answer as it stands in the line; null when it is null
        "recorded_score": _TEXT,  # JSON; null for answers
        "recovered_score": pl.Float64(),
        "score_source": _TEXT,
        "judge_output": _TEXT,
        "answered_at": pl.Datetime("us", "UTC"),
        "legacy_fields": _TEXT,  # JSON: what the question does not say
    }
)
TEXTS = pl.Schema({"text_hash": _TEXT, "text": _TEXT})
CONTENTS = pl.Schema(
    dict.fromkeys((*CONTENT, "benchmark", "question_set", "row_columns", "column_lines", "reason"), _TEXT)
    | dict.fromkeys(("lines", "blank", "quarantined"), _INT)
)
QUARANTINE = pl.Schema(
    dict.fromkeys(CONTENT, _TEXT)
    | {"line": _INT, "reason": _TEXT, "raw": _TEXT, "raw_encoding": _TEXT, "size": _INT, "line_sha256": _TEXT}
)


@dataclass(frozen=True)
class Lines:
    """The lines of some contents.

    Attributes:
        lines: One row for each line that is an answer or a judgement (`LINES`).
        texts: The text of each `text_hash` once (`TEXTS`).
        contents: One row for each content, with what became of its lines (`CONTENTS`).
        quarantine: The lines that say nothing that can be read (`QUARANTINE`).
    """

    lines: pl.DataFrame
    texts: pl.DataFrame
    contents: pl.DataFrame
    quarantine: pl.DataFrame

    @classmethod
    def together(cls, several: Sequence["Lines"]) -> "Lines":
        """The lines of some, of which no two have a content in common."""
        every = {name: [getattr(one, name) for one in several] for name in cls.__dataclass_fields__}
        if not several:
            return cls(LINES.to_frame(), TEXTS.to_frame(), CONTENTS.to_frame(), QUARANTINE.to_frame())
        frames = {name: pl.concat(parts) for name, parts in every.items()}
        return cls(**frames | {"texts": frames["texts"].unique("text_hash", maintain_order=True)})
