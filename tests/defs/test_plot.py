"""The plot of a score distribution."""

import base64
import re
from xml.etree import ElementTree as ET

import dagster as dg
import polars as pl
import pytest

from shaberi_dagster.defs.metadata import materialize_result
from shaberi_dagster.defs.plot import score_distribution
from shaberi_dagster.stages.result import StageResult

pytestmark = pytest.mark.unit

_SVG = "{http://www.w3.org/2000/svg}"


def _outcome(**scores: list[float]) -> StageResult:
    return StageResult("m@@t", "judgements", "elyza", {"rows": 5}, pl.DataFrame({"answer": ["a"]}), scores)


def _picture(**scores: list[float]) -> ET.Element:
    """The picture, which must be well-formed and small."""
    encoded = re.fullmatch(
        r"!\[score distribution\]\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)",
        score_distribution(_outcome(**scores)),
    )[1]
    assert len(encoded) < 15_000
    return ET.fromstring(base64.b64decode(encoded, validate=True))


def _texts(picture: ET.Element) -> list[str]:
    return [text.text for text in picture.iter(f"{_SVG}text")]


def test_each_judges_scores_are_bars_as_high_as_samples_got_them() -> None:
    picture = _picture(strict=[1.0, 2.0, 2.0], mild=[2.0] * 4)

    bars: dict[str, list[float]] = {}
    for box in picture.iter(f"{_SVG}rect"):
        bars.setdefault(box.get("fill"), []).append(float(box.get("height")))
    strict, mild = bars.values()
    assert strict == [35.0, 70.0, 10.0]  # the last is in the legend
    assert mild == [140.0, 10.0]
    assert _texts(picture)[0] == "elyza - m@@t"
    assert {"strict", "mild"} < set(_texts(picture))


def test_scores_that_nobody_got_leave_a_gap_and_counts_are_whole_numbers() -> None:
    _, *texts = _texts(_picture(strict=[1.0, 3.5], mild=[5.0, 5.0]))

    assert texts[:3] == ["0", "1", "2"]
    assert texts[3:9] == ["1", "2", "3", "3.5", "4", "5"]


def test_a_judges_name_cannot_break_out_of_its_text() -> None:
    assert "<b>&'\"</text>" in _texts(_picture(**{"<b>&'\"</text>": [1.0]}))


def test_a_picture_of_many_scores_and_judges_is_small() -> None:
    _picture(**{f"judge-{number}": [score / 2 for score in range(21)] for number in range(5)})


@pytest.mark.parametrize(("scores", "plotted"), [({"strict": [4.0]}, True), ({"strict": []}, False), ({}, False)])
def test_there_is_a_plot_when_there_is_a_score(scores: dict[str, list[float]], plotted: bool) -> None:
    result = materialize_result(dg.AssetKey(["judgements", "elyza"]), [_outcome(**scores)], [])

    assert ("score distribution" in result.metadata) == plotted
