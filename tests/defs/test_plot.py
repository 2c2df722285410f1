"""The plot of a score distribution."""

import base64
import re
import struct
import zlib

import dagster as dg
import polars as pl
import pytest

from shaberi_dagster.defs.metadata import materialize_result
from shaberi_dagster.defs.plot import _chart, _packed, score_distribution
from shaberi_dagster.stages.result import StageResult

pytestmark = pytest.mark.unit


def _outcome(**scores: list[float]) -> StageResult:
    return StageResult("m@@t", "judgements", "elyza", {"rows": 5}, pl.DataFrame({"answer": ["a"]}), scores)


def test_the_score_distribution_is_a_small_png_inside_markdown() -> None:
    markdown = score_distribution(_outcome(strict=[1.0, 2.0, 2.5], mild=[5.0, 5.0]))

    encoded = re.fullmatch(r"!\[score distribution\]\(data:image/png;base64,([A-Za-z0-9+/=]+)\)", markdown)[1]
    png = base64.b64decode(encoded, validate=True)
    assert png.startswith(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
    width, height = struct.unpack(">II", png[16:24])
    assert width > 360
    assert height > 140
    assert len(png) < 15_000


def test_packing_keeps_the_pixels() -> None:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 4, 1, 8, 0, 0, 0, 0)
    stored = zlib.compress(b"\x00\x01\x02\x03\x04", 0)
    signature, end = b"\x89PNG\r\n\x1a\n", chunk(b"IEND", b"")
    split = chunk(b"pHYs", bytes(9)) + chunk(b"IDAT", stored[:5]) + chunk(b"IDAT", stored[5:])
    loose = signature + chunk(b"IHDR", header) + split + end

    packed = zlib.compress(b"\x00\x01\x02\x03\x04", 9)
    assert _packed(loose) == signature + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + end


def test_scores_that_nobody_got_leave_a_gap_and_counts_are_whole_numbers() -> None:
    encoding = _chart(_outcome(strict=[1.0, 3.5], mild=[5.0, 5.0]))["encoding"]

    assert encoding["x"]["scale"]["domain"] == [1, 2, 3, 3.5, 4, 5]
    assert encoding["y"]["axis"]["values"] == [0, 1, 2]


@pytest.mark.parametrize(("scores", "plotted"), [({"strict": [4.0]}, True), ({"strict": []}, False), ({}, False)])
def test_there_is_a_plot_when_there_is_a_score(scores: dict[str, list[float]], plotted: bool) -> None:
    result = materialize_result(dg.AssetKey(["judgements", "elyza"]), [_outcome(**scores)], [])

    assert ("score distribution" in result.metadata) == plotted
