"""The plot of a score distribution as an inline picture, small enough to be stored with every event."""

import base64
import math
import struct
import zlib
from collections import Counter

from shaberi_dagster.stages.result import StageResult

_MOST_TICKS = 5


def score_distribution(outcome: StageResult) -> str:
    """Markdown with a PNG inside: how many samples got each score, by judge; there must be a score."""
    import vl_convert  # noqa: PLC0415  (loads a JavaScript engine)

    png = vl_convert.vegalite_to_png(_chart(outcome))
    return f"![score distribution](data:image/png;base64,{base64.b64encode(_packed(png)).decode()})"


def _chart(outcome: StageResult) -> dict[str, object]:
    given = [(judge, score) for judge, scores in outcome.scores.items() for score in scores]
    scores = {score for _, score in given}
    most = max(Counter(given).values())
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": f"{outcome.benchmark} - {outcome.run_id}",
        "width": 360,
        "height": 140,
        "data": {"values": [{"judge": judge, "score": score} for judge, score in given]},
        "mark": "bar",
        "encoding": {
            "x": {
                "field": "score",
                "type": "ordinal",
                "title": "score on the judge's scale",
                # Scores that nobody got leave a gap.
                "scale": {"domain": sorted(scores | set(range(math.floor(min(scores)), math.ceil(max(scores)) + 1)))},
                "axis": {"labelAngle": 0},
            },
            "y": {
                "aggregate": "count",
                "title": "samples",
                "axis": {"values": list(range(0, most + 1, math.ceil(most / _MOST_TICKS))), "format": "d"},
            },
            "color": {"field": "judge", "type": "nominal"},
            "xOffset": {"field": "judge"},
        },
    }


def _packed(png: bytes) -> bytes:
    """The same picture in a quarter of the bytes: the renderer favours speed."""
    header, pixels, start = b"", b"", 8  # after the signature
    while start < len(png):
        (size,) = struct.unpack_from(">I", png, start)
        kind, content = png[start + 4 : start + 8], png[start + 8 : start + 8 + size]
        header += content if kind == b"IHDR" else b""
        pixels += content if kind == b"IDAT" else b""
        start += size + 12
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(zlib.decompress(pixels), 9)), (b"IEND", b""))
    return png[:8] + b"".join(_chunk(kind, content) for kind, content in parts)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
