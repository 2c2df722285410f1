"""The pages of the viewer as one file to send: what they show is in it, and it loads nothing from anywhere."""

import base64
import hashlib
import html
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import duckdb
import pyarrow.parquet as pq
from markupsafe import Markup

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.reports.question_grid import MOST_SIDES
from shaberi_dagster.reports.reading import fetch_frame
from shaberi_dagster.viewer.web.ask import Ask, address
from shaberi_dagster.viewer.web.pages import PAGES, Source, best_models
from shaberi_dagster.viewer.web.templates import STATIC, Shown, render

_SCRIPTS = ("vendor/hyparquet.min.js", "viewer.js", "heatmap.js")
_ADDRESS = re.compile(r' (href|action|formaction)="(/[^"]*)"')


@dataclass(frozen=True)
class FileRequest:
    """What the file is about.

    Attributes:
        models: Two to five to compare question by question, each a model or MODEL@@TAG; none means the best two.
        tags: Only runs with one of these tags or base tags; none means all.
        judges: Only these judges; none means all.
        pipeline: Passes in order; none means without.
        n_questions: Of how many questions, those that differ most, the answers are in it.
    """

    models: Sequence[str] = ()
    tags: Sequence[str] = ()
    judges: Sequence[str] = ()
    pipeline: str | None = None
    n_questions: int = 5


def write_html(catalog: duckdb.DuckDBPyConnection, warehouse: Path, request: FileRequest, now: datetime) -> str:
    """The file: leaderboard, comparison, questions, the answers to some of them, and all scores as Parquet.

    Args:
        catalog: The public views.
        warehouse: The lake.
        request: What it is about.
        now: When it is made.

    Raises:
        ConfigurationError: Nothing is selected, or there is no such model.
    """
    if len(request.models) == 1 or len(request.models) > MOST_SIDES:
        raise ConfigurationError(f"name two to {MOST_SIDES} models to compare, or none for the best two")
    source = Source(catalog, warehouse)
    common = [("judge", one) for one in request.judges] + [("passes", request.pipeline or "")]
    asks = [Ask("/", (*common, *(("tag", one) for one in request.tags)))]
    models = list(request.models) or best_models(source, asks[0])
    shown = [PAGES["/"](source, asks[0])]
    if models:
        chosen = Ask("/questions", (*common, *(("m", one) for one in models)))
        asks += [chosen, _asked(chosen.link("/compare", m=models))]
        shown += [PAGES[ask.path](source, ask) for ask in asks[1:]]
        grid = shown[1].values
        asks += [_asked(grid["open"](row)) for row in grid["shown"][: request.n_questions]]
        shown += [PAGES[ask.path](source, ask) for ask in asks[3:]]
    return _file(catalog, asks, shown, request, now)


def _file(
    catalog: duckdb.DuckDBPyConnection,
    asks: Sequence[Ask],
    shown: Sequence[Shown],
    request: FileRequest,
    now: datetime,
) -> str:
    places = {_key(address(ask.path, ask.items)): f"page-{number}" for number, ask in enumerate(asks)}
    sections = [
        _linked(render(page, ask, "section.html", place=place), places)
        for page, ask, place in zip(shown, asks, places.values(), strict=True)
    ]
    scores = fetch_frame(catalog, "score_lists", tags=list(request.tags) or None).to_arrow()
    parquet = io.BytesIO()
    pq.write_table(scores, parquet, compression="snappy", write_statistics=False)
    style = (STATIC / "viewer.css").read_text(encoding="utf-8")
    scripts = [(STATIC / name).read_text(encoding="utf-8") for name in _SCRIPTS]
    values = {
        "policy": f"default-src 'none'; style-src {_hash(style)}; script-src {' '.join(map(_hash, scripts))}; "
        "form-action 'none'; base-uri 'none'",
        "style": Markup(style),  # noqa: S704  (our own)
        "scripts": [Markup(script) for script in scripts],  # noqa: S704
        "parquet": base64.b64encode(parquet.getvalue()).decode(),
        "contents": [(place, page.title) for page, place in zip(shown, places.values(), strict=True)],
        "sections": [Markup(section) for section in sections],  # noqa: S704  (escaped by its template)
        "made": f"{now:%Y-%m-%d %H:%M} UTC",
        "n_runs": scores.group_by(["model", "run_tag"]).aggregate([]).num_rows,
    }
    return render(Shown("file.html", "Shaberi report", values), asks[0])


def _linked(section: str, places: Mapping[tuple[str, tuple[tuple[str, str], ...]], str]) -> str:
    """A section whose links lead to other sections; what is not in the file is no link."""

    def linked(match: re.Match[str]) -> str:
        place = places.get(_key(html.unescape(match[2])))
        return f' href="#{place}"' if place and match[1] == "href" else ""

    return _ADDRESS.sub(linked, section)


def _key(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """What an address asks for, in whatever order."""
    ask = _asked(text)
    return ask.path, tuple(sorted(ask.items))


def _asked(text: str) -> Ask:
    parts = urlsplit(text)
    return Ask(parts.path, tuple(parse_qsl(parts.query)))


def _hash(text: str) -> str:
    """How a policy allows an inline script or style sheet."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
