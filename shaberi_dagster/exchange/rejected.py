"""Parts of sources that cannot become rows; light, since processes that only read need no more."""

import base64
import codecs
import hashlib
from dataclasses import dataclass
from typing import Any, Literal, Self

MOST_RAW_BYTES = 1 << 20
"""Characters kept of a part that cannot become a row."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A part of a source that cannot become a row.

    Attributes:
        line: The line or entry that it is or is in, from 1; None for the whole source.
        reason: What is wrong with it.
        raw: Its beginning (at most `MOST_RAW_BYTES`).
        size: In bytes.
        sha256: Of all its bytes.
        raw_encoding: `utf-8`, or `base64` where the bytes are not UTF-8.
        what: Of what kind it is.
        pointer: Its place in a document, as a JSON pointer.
    """

    line: int | None
    reason: str
    raw: str
    size: int
    sha256: str
    raw_encoding: Literal["utf-8", "base64"] = "utf-8"
    what: Literal["file", "entry", "response", "verdict"] = "entry"
    pointer: str = ""

    @classmethod
    def of(
        cls,
        line: int | None,
        reason: str,
        content: bytes,
        size: int | None = None,
        sha256: str | None = None,
        **place: Any,
    ) -> Self:
        """Reject these bytes.

        Args:
            line: See the class.
            reason: Likewise.
            content: All bytes, or as many as are kept.
            size: Number of all bytes; None: `content` has all of them.
            sha256: Of all bytes, likewise.
            place: `what` and `pointer`.
        """
        size = len(content) if size is None else size
        sha256 = sha256 or hashlib.sha256(content).hexdigest()
        kept = content[:MOST_RAW_BYTES]
        try:  # a cut may have split a character
            raw = codecs.getincrementaldecoder("utf-8")().decode(kept, final=len(kept) == size)
        except UnicodeDecodeError:
            return cls(line, reason, base64.b64encode(kept).decode(), size, sha256, "base64", **place)
        return cls(line, reason, raw, size, sha256, **place)

    @property
    def row(self) -> dict[str, Any]:
        """The columns of `legacy_quarantine` that tell of the part, whatever file it is in."""
        return {
            "source_line": self.line,
            "reason": self.sentence,
            "raw": self.raw,
            "raw_encoding": self.raw_encoding,
            "size": self.size,
            "sha256": self.sha256,
        }

    @property
    def sentence(self) -> str:
        """The reason, with its place in a document."""
        return f"{self.pointer}: {self.reason}" if self.pointer else self.reason
