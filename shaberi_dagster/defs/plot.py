"""Score distributions: a line of text for each judge, and an inline picture small enough to be stored with an event."""

import base64
import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from xml.sax.saxutils import escape

from shaberi_dagster.benchmarks.registry import get_benchmark
from shaberi_dagster.stages.result import StageResult

_WIDTH, _HEIGHT = 360, 140  # of the area with the bars, in pixels
_LEFT, _TOP, _BELOW, _LINE = 50, 30, 40, 16
_MOST_TICKS = 5
_BARS, _MOST_BARS = "▁▂▃▄▅▆▇█", 11
_COLORS = ("#4c78a8", "#f58518", "#e45756", "#72b7b2", "#54a24b", "#eeca3b", "#b279a2", "#ff9da6", "#9d755d", "#bab0ac")


def score_histograms(outcome: StageResult) -> dict[str, str]:
    """By judge a bar for each score from the least to the greatest of the scale, in one line of text; `·` is nobody.

    A longer scale than from 0 to 10 has a bar for a tenth of it.
    """
    benchmark = get_benchmark(outcome.benchmark)
    given = [score for scores in outcome.scores.values() for score in scores]
    low, high = min([benchmark.scale_minimum, *given]), max([benchmark.scale_maximum, *given])
    places = min(math.ceil(high - low) + 1, _MOST_BARS)
    return {
        judge: f"{low:g} {_bars(scores, low, high, places)} {high:g}, mean {fmean(scores):.2f} of {len(scores)}"
        for judge, scores in outcome.scores.items()
        if scores
    }


def _bars(scores: Sequence[float], low: float, high: float, places: int) -> str:
    counts = Counter(round((score - low) / (high - low) * (places - 1)) for score in scores)
    most = max(counts.values())
    heights = (math.ceil(counts[place] / most * len(_BARS)) for place in range(places))
    return "".join(_BARS[height - 1] if height else "·" for height in heights)


def score_distribution(outcome: StageResult) -> str:
    """Markdown with an SVG inside: how many samples got each score, by judge; there must be a score."""
    return f"![score distribution](data:image/svg+xml;base64,{base64.b64encode(_picture(outcome).encode()).decode()})"


def _picture(outcome: StageResult) -> str:
    counts = {judge: Counter(scores) for judge, scores in outcome.scores.items() if scores}
    given = {score for count in counts.values() for score in count}
    # Scores that nobody got leave a gap.
    scores = sorted(given | set(range(math.floor(min(given)), math.ceil(max(given)) + 1)))
    most = max(max(count.values()) for count in counts.values())
    place, unit = _WIDTH / len(scores), _HEIGHT / most
    bar = 0.8 * place / len(counts)
    parts = [_text(_LEFT, 18, f"{outcome.benchmark} - {outcome.run_id}", "start", 'font-weight="bold"')]
    for n_samples in range(0, most + 1, math.ceil(most / _MOST_TICKS)):
        y = _TOP + _HEIGHT - n_samples * unit
        parts += [
            f'<path d="M{_LEFT} {y:.1f}h{_WIDTH}" stroke="#ddd"/>',
            _text(_LEFT - 6, y + 4, f"{n_samples}", "end"),
        ]
    for number, score in enumerate(scores):
        parts.append(_text(_LEFT + (number + 0.5) * place, _TOP + _HEIGHT + 14, f"{score:g}"))
    for number, (judge, count) in enumerate(counts.items()):
        color = _COLORS[number % len(_COLORS)]
        for score, n_samples in sorted(count.items()):
            x = _LEFT + (scores.index(score) + 0.1) * place + number * bar
            parts.append(_box(x, _TOP + _HEIGHT - n_samples * unit, bar, n_samples * unit, color))
        y = _TOP + number * _LINE
        parts += [_box(_LEFT + _WIDTH + 12, y, 10, 10, color), _text(_LEFT + _WIDTH + 28, y + 9, judge, "start")]
    parts.append(_text(_LEFT + _WIDTH / 2, _TOP + _HEIGHT + 32, "score on the judge's scale"))
    parts.append(_text(-_TOP - _HEIGHT / 2, 14, "samples", more='transform="rotate(-90)"'))
    width = _LEFT + _WIDTH + 40 + 7 * max(map(len, counts))
    height = _TOP + max(_HEIGHT + _BELOW, len(counts) * _LINE)
    size = f'width="{width}" height="{height}" style="background:white" font-family="sans-serif" font-size="11"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>'


def _box(x: float, y: float, width: float, height: float, color: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"/>'


def _text(x: float, y: float, text: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'
