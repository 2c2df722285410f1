"""The pages of the viewer as one file to send: what they show is in it, and it loads nothing from anywhere."""

import base64
import hashlib
import html
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pyarrow.parquet as pq
from markupsafe import Markup

from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.lake.statements import fetch_frame
from shaberi_dagster.reports.blocks import Table, megabytes
from shaberi_dagster.reports.comparison import ComparisonReport
from shaberi_dagster.reports.ensemble import QuickReport
from shaberi_dagster.reports.gate import GateReport
from shaberi_dagster.reports.questions import MOST_SIDES, read_sides
from shaberi_dagster.reports.reading import Side, scale_rows, scored_runs
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.permissions import user_umask
from shaberi_dagster.viewer.requests import N_QUESTIONS, FileRequest
from shaberi_dagster.viewer.web.address import PageAddress, page_url
from shaberi_dagster.viewer.web.pages import (
    PAGES,
    Source,
    all_pages,
    best_models,
    compare,
    comparison_page,
    ensemble_page,
    summary,
)
from shaberi_dagster.viewer.web.templates import STATIC, Shown, render

_SCRIPTS = ("vendor/hyparquet.min.js", "viewer.js", "heatmap.js")
_ADDRESS = re.compile(r' (href|action|formaction)="(/[^"]*)"')


@dataclass(frozen=True)
class Contents:
    """The contents of a file.

    Attributes:
        pages: Its pages by their addresses.
        n_questions: Of how many questions, those that come first on its page of questions, the answers follow.
        tags: Scores of all runs with these tags are in it; none means all.
        sources: Likewise, for imported trees.
        run_ids: Scores of these runs are in it; none means all.
    """

    pages: Mapping[PageAddress, Shown]
    n_questions: int
    tags: Sequence[str] = ()
    sources: Sequence[str] = ()
    run_ids: Sequence[str] = ()


def about_lake(source: Source, request: FileRequest) -> Contents:
    """Leaderboard, questions and comparison of some models.

    Args:
        source: The lake.
        request: What it is to have.

    Raises:
        ConfigurationError: There is no such model; one cannot be compared, and more than five are not side by side.
    """
    if request.models:
        read_sides(source.catalog, request.models[:MOST_SIDES])  # says which of them is not there
    if len(request.models) == 1 or len(request.models) > MOST_SIDES:
        raise ConfigurationError(f"name two to {MOST_SIDES} models to compare, or none for the best two")
    common = [("judge", judge) for judge in request.judges] + [("passes", request.pipeline)]
    of_runs = (*(("tag", tag) for tag in request.tags), *(("source", source) for source in request.sources))
    leaderboard = PageAddress("/", (*common, *of_runs))
    models = list(request.models) or best_models(source, leaderboard)
    chosen = (*common, *(("m", model) for model in models))
    first = PAGES[leaderboard.path](source, leaderboard)
    others = range(2, first.values["board"]["n_pages"] + 1)
    addresses = [PageAddress("/", (*leaderboard.items, ("page", str(page)))) for page in others]
    addresses += [PageAddress("/questions", chosen)] if models else []
    pages = {PageAddress("/summary", leaderboard.items): summary(source, leaderboard), leaderboard: first}
    pages |= {address: PAGES[address.path](source, address) for address in addresses}
    if models:
        comparison = PageAddress("/compare", chosen)
        pages[comparison] = compare(source, comparison, first.values["report"].rankings)
    if request.tags:
        sweep = PageAddress("/sweep", of_runs)
        page = all_pages()[sweep.path](source, sweep)
        if any(isinstance(block, Table) and block.plot for block in page.values["blocks"]):
            pages[sweep] = page
    return Contents(pages, request.n_questions, tags=request.tags, sources=request.sources)


def about_comparison(source: Source, report: ComparisonReport) -> Contents:
    """A comparison, and the questions of both.

    Args:
        source: The lake.
        report: The comparison.
    """
    asked, sides = report.request, (report.a, report.b)
    a, b = (_named(side, given, asked.tag) for side, given in zip(sides, (asked.a, asked.b), strict=True))
    benchmarks = [] if asked.benchmarks == "all" else asked.benchmarks.split(",")
    how = [("judge", judge) for judge in asked.judges] + [("benchmark", name.strip()) for name in benchmarks]
    chosen = (("m", a), ("m", b), *how, ("passes", asked.pipeline))
    grid = PageAddress("/questions", chosen)
    pages = {PageAddress("/compare", chosen): comparison_page({(a, b): report}), grid: PAGES[grid.path](source, grid)}
    return Contents(pages, N_QUESTIONS, run_ids=[run_id for side in sides for run_id in side.run_ids])


def about_ensemble(source: Source, report: QuickReport, gate: GateReport | None) -> Contents:
    """Collect the report on an ensemble, its gate if there is one, and its questions beside those of the baseline.

    Args:
        source: The lake.
        report: The ensemble.
        gate: The gate.
    """
    run_id = report.run_id
    scored = {row["run_id"] for row in scored_runs(source.catalog)}
    wanted = dict.fromkeys([*([gate.baseline_run_id] if gate else []), run_id])
    run_ids = [candidate for candidate in wanted if candidate in scored]
    pages = {PageAddress("/ensemble", (("run", run_id),)): ensemble_page(report, gate)}
    if run_ids:
        grid = PageAddress("/questions", tuple(("m", scored_id) for scored_id in run_ids))
        pages[grid] = PAGES[grid.path](source, grid)
    return Contents(pages, N_QUESTIONS, run_ids=[*run_ids, run_id])


def write_html(source: Source, contents: Contents, now: datetime) -> str:
    """The file: its pages, the answers to some questions, and all scores as Parquet.

    Args:
        source: The lake.
        contents: What it has.
        now: When it is made.
    """
    pages = dict(contents.pages)
    for grid in [page.values for address, page in contents.pages.items() if address.path == "/questions"]:
        answers = [_page_address(grid["open"](row)) for row in grid["shown"][: contents.n_questions]]
        pages |= {address: PAGES[address.path](source, address) for address in answers}
    places = {_key(page_url(address.path, address.items)): f"page-{number}" for number, address in enumerate(pages)}
    sections = [
        _linked(render(page, address, "section.html", place=place), places)
        for (address, page), place in zip(pages.items(), places.values(), strict=True)
    ]
    chosen = {
        "tags": list(contents.tags) or None,
        "sources": list(contents.sources) or None,
        "run_ids": list(contents.run_ids) or None,
        "scales": scale_rows(source.catalog),
    }
    scores = fetch_frame(source.catalog, "score_lists", **chosen).to_arrow()
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
        "contents": [
            (place, "Summary" if address.path == "/summary" else page.title)
            for (address, page), place in zip(pages.items(), places.values(), strict=True)
            if address.path != "/question" and not address.one("page")
        ],
        # Escaped by their templates.
        "sections": [(page.title, Markup(one)) for page, one in zip(pages.values(), sections, strict=True)],  # noqa: S704
        "made": f"{now:%Y-%m-%d %H:%M} UTC",
    }
    first, page = next(iter(pages.items()))
    return render(Shown("file.html", page.title, values), first)


def _linked(section: str, places: Mapping[tuple[str, tuple[tuple[str, str], ...]], str]) -> str:
    """A section whose links lead to other sections; what is not in the file is no link."""

    def linked(match: re.Match[str]) -> str:
        place = places.get(_key(html.unescape(match[2])))
        return f' href="#{place}"' if place and match[1] == "href" else ""

    return _ADDRESS.sub(linked, section)


def _key(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Make a key of an address, whatever the order of its parameters; a comparison is found by its models alone."""
    address = _page_address(text)
    return address.path, tuple(
        sorted(
            item for item in address.items if item != ("page", "1") and (address.path != "/compare" or item[0] == "m")
        )
    )


def _page_address(text: str) -> PageAddress:
    parts = urlsplit(text)
    return PageAddress(parts.path, tuple(parse_qsl(parts.query)))


def _named(side: Side, given: str, tag: str | None) -> str:
    """A side as pages are asked for it: a run, or what several runs were named by."""
    if len(side.run_ids) == 1:
        return side.run_ids[0]
    return f"{given}@@{tag}" if tag and given == side.model else given


def _hash(text: str) -> str:
    """Return the source by which a policy allows an inline script or style sheet."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def write_file(target: Path, warehouse: Path, about: Callable[[Source], Contents]) -> str:
    """Write the file of some pages.

    Args:
        target: Where to; its folder is made.
        warehouse: The lake.
        about: What is in it.

    Returns:
        A line that says how large it is.

    Raises:
        ConfigurationError: It cannot be about that, or the file cannot be written.
    """
    with open_catalog(warehouse) as catalog:
        source = Source(catalog, warehouse)
        text = write_html(source, about(source), datetime.now(UTC))
    where = str(target) if target.parent.exists() else f"{target} (in a new folder)"
    try:
        with user_umask():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{target} cannot be written: {error.strerror}") from error
    return f"{where}: {megabytes(len(text.encode()))}"
