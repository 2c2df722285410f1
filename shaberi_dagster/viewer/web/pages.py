"""The pages: what each reads for its address. Numbers come from `reports/`, how they look stands in `templates/`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import combinations
from math import ceil
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_origin, get_type_hints

from cyclopts import Parameter
from pydantic import TypeAdapter, ValidationError

from shaberi_dagster.lake.journal.tally import CostOf
from shaberi_dagster.lake.queries import known_names
from shaberi_dagster.lake.statements import Catalog, fetch, once
from shaberi_dagster.reports.blocks import (
    Report,
    Row,
    Rows,
    Sentences,
    ends_of,
    grouped,
    interval_of,
)
from shaberi_dagster.reports.comparison import (
    ComparisonReport,
    comparison_result,
    names_of,
    row_verdict,
    section_title,
    side_title,
    verdict,
)
from shaberi_dagster.reports.comparison import compare as read_comparison
from shaberi_dagster.reports.decision import decision_result, outcome, read_decision
from shaberi_dagster.reports.declared import REPORTS
from shaberi_dagster.reports.declared.cost import cost_line
from shaberi_dagster.reports.ensemble import (
    QuickReport,
    ensemble_result,
    read_stored_report,
    read_strategy_scores,
    strategy_blocks,
)
from shaberi_dagster.reports.gate import GateReport
from shaberi_dagster.reports.questions import MOST_CHARACTERS, GridRequest, Span, read_question_grid, read_side_by_side
from shaberi_dagster.reports.ranking import remarks_on
from shaberi_dagster.reports.reading import Scales, benchmarks_in, read_costs, read_report, reported_scales
from shaberi_dagster.reports.requests import (
    BASELINE,
    MISSING,
    POLICIES,
    ComparisonRequest,
    ScoreSelection,
    check_choice,
)
from shaberi_dagster.reports.run_progress import read_run
from shaberi_dagster.reports.score_page import best_of_first, statistics_blocks
from shaberi_dagster.reports.scores import read_leaderboard, read_rankings, read_scores
from shaberi_dagster.statistics.intervals import Interval
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.names import did_you_mean
from shaberi_dagster.viewer.web.address import PageAddress, page_url
from shaberi_dagster.viewer.web.templates import Shown
from shaberi_dagster.viewer.web.texts import spans_of
from shaberi_dagster.viewer.web.walk import (
    ROWS,
    Walk,
    list_address,
    opened_from,
    question_url,
    row_name,
    walk_hits,
    walk_list,
    walk_set,
)

T = TypeVar("T")


class Source(NamedTuple):
    """The data that pages read.

    Attributes:
        catalog: The public views, as the lake is now.
        warehouse: The lake's folder.
        cost_of: What calls cost that are in no lake yet.
    """

    catalog: Catalog
    warehouse: Path
    cost_of: CostOf = lambda _: None


Page = Callable[[Source, PageAddress], Shown]
_MOST_LENGTHS = 50_000
_MOST_LINES, _MOST_BEST = 15, 3
"""Models of the first page of a file, and of each of its benchmarks."""
_ENDS = ("lower", "difference", "upper")
_ROOM = 1.05  # in a picture, beyond the widest interval
MOST_SEARCHED = 1_000
"""Characters of a text to search for: of many more each answer takes long, and each link of the page has them."""
_TEXTS = ("answers", "questions", "judgements")
_SEARCH = ("q", "what", "benchmark", "model", "open")
_FLAGS = {
    "loses": ("l", "where A loses"),
    "failed": ("f", "failures"),
    "disagreement": ("D", "judges disagree by ≥ 3"),
    "out-of-scale": ("s", "out of scale"),
    "refused": ("x", "refused"),
}
"""Filters of questions by name: their key and label."""


def best_models(source: Source, address: PageAddress) -> list[str]:
    """The best two of a leaderboard, as other pages are asked for them; none where there are not two."""
    report = read_rankings(source.catalog, _selection(address), top=_MOST_LINES)
    lines = report.rankings[0]["standings"] if report.rankings else ()
    return _best_two(lines) if len(lines) > 1 else []


def _best_two(lines: Rows) -> list[str]:
    """Name the first line and the first one of another model."""
    first, *others = lines
    found = [first, *sorted(others, key=lambda line: line["model"] == first["model"])[:1]]
    return [f"{line['model']}@@{line['tag']}" for line in found]


def _selection(address: PageAddress) -> ScoreSelection:
    return ScoreSelection(
        models=address.many("model"),
        tags=address.many("tag"),
        sources=address.many("source"),
        judges=address.many("judge"),
        question_sets=address.many("set"),
        pipeline=address.one("passes", BASELINE),
        null_policy=address.one("policy", "legacy"),
    )


def leaderboard(source: Source, address: PageAddress) -> Shown:
    """Rank the models that were asked and judged alike."""
    page = address.number("page", 1, least=1)
    board = read_leaderboard(source.catalog, _selection(address), name=address.one("text"), page=page)
    return Shown(
        "leaderboard.html",
        "Leaderboard" if page == 1 else f"Leaderboard, page {page}",
        {
            "board": board,
            "report": board["report"],
            "policies": POLICIES,
            "missing": MISSING[board["report"].policy],
            "scales": reported_scales(board["report"].benchmarks),
            "verdicts": list(best_of_first(board["report"])) if page == 1 else [],
            "remarks": dict.fromkeys(line for ranking in board["shown"] for line in remarks_on(ranking["standings"])),
            "best_two": _best_two,
            "names_of": lambda lines: {f"{line['model']}@@{line['tag']}" for line in lines},
            "choices": _choices(source),
        },
    )


def summary(source: Source, address: PageAddress) -> Shown:
    """Say who is best, with the first ranking, what it is about and what it took: the first page of a file."""
    report = read_leaderboard(source.catalog, _selection(address))["report"]
    verdicts = list(best_of_first(report))
    ranking = report.rankings[0] if report.rankings else {"asked": [], "standings": []}

    def best_on(name: str) -> Rows:
        return sorted(ranking["standings"], key=lambda line: -line["by_benchmark"][name])[:_MOST_BEST]

    ranked = {row["run_id"] for line in ranking["standings"] for row in line["rows"]}
    tokens = read_costs(source.catalog, sorted(ranked))
    return Shown(
        "summary.html",
        verdicts[0] if verdicts else "Scores",
        {
            "report": report,
            "missing": MISSING[report.policy],
            "most": _MOST_LINES,
            "benchmarks": [(name, best_on(name)) for name in ranking["asked"]],
            "tokens": tokens,
            "cost": cost_line(tokens) if tokens else "",
        },
    )


def _choices(source: Source) -> dict[str, list[str]]:
    """List the tags, judges, question sets and passes that have scores."""
    found = grouped(fetch(source.catalog, "score_choices"), lambda row: row["kind"])
    return {kind: [row["name"] for row in rows] for kind, rows in found}


def questions(source: Source, address: PageAddress) -> Shown:
    """Show the questions on which some models differ."""
    request = _grid_request(address)
    grid = read_question_grid(source.catalog, request)
    page, n_pages, shown = _paged(grid["rows"], address)
    first = grid["sides"][0].model if grid["sides"] else "A"
    flags = [_FLAGS[flag][1].replace("A loses", f"{first} loses") for flag in request.flags]
    return Shown(
        "questions.html",
        ", ".join(["Questions of " + " · ".join(side.model for side in grid["sides"]), *flags]),
        {
            "grid": grid,
            "sort": request.sort,
            "scales": _scales(source),
            "shown": shown,
            "page": page,
            "n_pages": n_pages,
            "judges": _choices(source).get("judge", []),
            "open": partial(question_url, opened_from(address, request.sort)),
            "row_name": row_name,
            "flags": _FLAGS,
        },
    )


def question(source: Source, address: PageAddress) -> Shown:
    """Show one question with the answers of some models side by side, and the way to the next one of its list."""
    report = read_side_by_side(
        source.catalog,
        address.one("set"),
        address.number("position", 1, least=1),
        replace(_grid_request(address), text=""),
    )
    return Shown(
        "question.html",
        f"{report['question_set']} question {report['position']}",
        {
            "report": report,
            "scale": _scales(source).get(report["benchmark"]),
            "walk": _walk(source, address, report),
            "flags": _FLAGS,
            "spans": partial(_spans, address.one("q")),
            "most": MOST_CHARACTERS,
            "first": next((answer["answer"] for answer in report["answers"][0] if answer["answer"]), ""),
        },
    )


def _walk(source: Source, address: PageAddress, report: Row) -> Walk:
    """Find the neighbours of a question: in the list that it was opened from, else in its set."""
    if address.one("q"):
        searched = PageAddress("/search", tuple(item for item in address.items if item[0] in _SEARCH))
        run_id = None if address.one("what") == "questions" else address.one("m")
        name = row_name({**report, "run_id": run_id, "judge": address.one("hit")})
        search_url = page_url(searched.path, searched.items)
        return walk_hits(_hits(source, searched), name, _opens_hit(source, searched), search_url)
    if not address.one("sort"):
        kept = {name: address.many(name) for name in ("m", "view", "open")}
        return walk_set(address, report, address.link("/questions", **kept), "all questions")
    back = list_address(address, _default_sort(address))
    return walk_list(address, read_question_grid(source.catalog, _grid_request(back))["rows"], back)


def compare(source: Source, address: PageAddress, rankings: Rows | None = None) -> Shown:
    """Compare each pair of two models, or the best of more with each other one, as they are ranked."""
    models = address.many("m")
    if len(models) < 2:  # noqa: PLR2004
        raise ConfigurationError("choose two models or more to compare")
    if rankings is None and len(models) > 2:  # noqa: PLR2004
        rankings = read_rankings(source.catalog, replace(_selection(address), models=models)).rankings
    pairs = {(a, b): read_comparison(source.catalog, _comparison(a, b, address)) for a, b in combinations(models, 2)}
    return comparison_page(pairs, rankings or ())


def comparison_page(pairs: Mapping[tuple[str, str], ComparisonReport], rankings: Rows = ()) -> Shown:
    """Comparisons by what their two sides are asked for; those of the best of a ranking say what the ranking says."""
    ranked = {pair: _as_ranked(report, rankings) for pair, report in pairs.items()}
    known = {pair: report for pair, report in ranked.items() if report} or pairs
    shown = [
        (a, b, report, names_of(report), _drawn_reach(report), list(comparison_result(report).blocks(None)))
        for (a, b), report in known.items()
    ]
    withheld = any(not report.comparable for report in pairs.values())
    words = {"verdict": verdict, "row_verdict": row_verdict, "section_title": section_title, "side_title": side_title}
    alone = all(report is pairs[pair] for pair, report in known.items())
    return Shown("compare.html", "Comparison", {"pairs": shown, "alone": alone, "withheld": withheld, **words})


def _as_ranked(report: ComparisonReport, rankings: Rows) -> ComparisonReport | None:
    """Give a comparison the result that its ranking has, adjusted for all of its pairs; None of two lower lines."""
    lines = _lines_of(report, rankings)
    places = [line["against_best"] for line in lines]
    if "best" not in places:
        return None if lines else report
    is_a_best = places[0] == "best"
    line = lines[1] if is_a_best else lines[0]
    whole, *by_judge = report.sections
    *rows, overall = whole["rows"]
    if line["difference"] is None or overall["verdict"] == "withheld":
        return report
    ends = interval_of(line, "difference_")
    adjusted = {
        **ends_of(Interval(-ends.upper, -ends.lower) if ends and is_a_best else ends),
        **dict.fromkeys(("p_value", "adjusted_p_value"), line["p_value"]),
        "difference": 0.0 - line["difference"] if is_a_best else line["difference"],
        "verdict": {"below": "better" if is_a_best else "worse"}.get(line["against_best"], line["against_best"]),
        "equal": False,
        "why_withheld": line["why_withheld"],
    }
    return replace(report, sections=[{**whole, "rows": [*rows, {**overall, **adjusted}]}, *by_judge])


def _lines_of(report: ComparisonReport, rankings: Rows) -> Rows:
    """Return the lines of both sides in the ranking that has them; none where no one has."""
    sides = [set(side.run_ids) for side in (report.a, report.b)]
    for ranking in rankings:
        found = [
            line for ids in sides for line in ranking["standings"] if {row["run_id"] for row in line["rows"]} == ids
        ]
        if len(found) == len(sides):
            return found
    return ()


def _drawn_reach(report: ComparisonReport) -> float:
    """Return how far the widest interval of a comparison goes from 0, in margins: all its pictures have one scale."""
    rows = [row for section in report.sections for row in section["rows"]]
    ends = [abs(row[end]) / row["margin"] for row in rows for end in _ENDS if row[end] is not None]
    return max(ends, default=1.0) * _ROOM


def model(source: Source, address: PageAddress) -> Shown:
    """Show the mean of several runs of a tag, all runs of a model, and the change of its scores."""
    name = address.one("model")
    runs = fetch(source.catalog, "model_runs", model=name)
    if not runs:
        known = known_names(source.catalog, "model")
        raise ConfigurationError(
            f"the lake has no scores of model {name!r}; {did_you_mean(name, known, 'there are those of')}"
        )
    groups = grouped(runs, lambda row: (row["judge"], row["pipeline"], row["strategy"]))
    drift = [row for row in fetch(source.catalog, "model_drift", model=name) if row["month"]]
    several = sorted({row["base_tag"] for row in runs if row["run_number"] is not None})
    of_tags = read_scores(source.catalog, ScoreSelection(models=[name], tags=several)) if several else None
    blocks = list(statistics_blocks(of_tags)) if of_tags else []
    return Shown("model.html", name, {"blocks": blocks, "groups": groups, "drift": drift})


def runs(source: Source, address: PageAddress) -> Shown:
    """List all runs, the one that changed last first."""
    return _runs(fetch(source.catalog, "runs", text=address.one("text") or None), address)


def _runs(found: Rows, address: PageAddress) -> Shown:
    page, n_pages, shown = _paged(found, address)
    return Shown("runs.html", "Runs", {"runs": shown, "n": len(found), "page": page, "n_pages": n_pages})


def run(source: Source, address: PageAddress) -> Shown:
    """A run, live while it works; where a base tag is named the list of its runs."""
    name = address.one("run")
    meant = fetch(source.catalog, "runs", models=[name])
    if meant and not fetch(source.catalog, "runs", run_id=name):
        return _runs(meant, address)
    progress = read_run(source.catalog, source.warehouse, name, datetime.now(UTC), source.cost_of)
    run_row = progress["run"]
    strategies = strategy_blocks(read_strategy_scores(source.catalog, [run_row["run_id"]]))
    values = {"progress": progress, "live": progress["live"], "blocks": list(strategies)}
    return Shown("run.html", f"{run_row['model']} {run_row['run_tag']}", values)


def judges(source: Source, address: PageAddress) -> Shown:
    """Show agreement, leniency, length bias and score distribution of judges.

    Of very many judgements length bias is read when it is asked for, as that takes longer than all the rest.
    """
    (overview,) = fetch(source.catalog, "judge_overview")
    facts = overview["facts"]
    with_lengths = address.one("lengths") == "yes" or sum(row["n_judgements"] for row in facts) <= _MOST_LENGTHS
    names = [row["judge"] for row in facts]
    pairs = {(row["judge_a"], row["judge_b"]): row for row in overview["pairs"]}
    shares = overview["shares"]
    scores = sorted({row["score"] for row in shares})
    return Shown(
        "judges.html",
        "Judges",
        {
            "facts": facts,
            "names": names,
            "pairs": pairs | {(b, a): row for (a, b), row in pairs.items()},
            "lengths": {row["judge"]: row["length_correlation"] for row in fetch(source.catalog, "judge_lengths")}
            if with_lengths
            else None,
            "distributions": {
                name: dict.fromkeys(scores, 0.0) | {row["score"]: row["share"] for row in rows}
                for name, rows in grouped(shares, lambda row: row["judge"])
            },
            "most_share": max((row["share"] for row in shares), default=0),
            "drift": grouped(overview["drift"], lambda row: row["judge"]),
        },
    )


def ensemble(source: Source, address: PageAddress) -> Shown:
    """Compare the consensus of several samples with the samples."""
    found = fetch(source.catalog, "ensemble_runs")
    run_id = address.one("run", found[0]["run_id"] if found else "")
    try:
        shown = ensemble_page(read_stored_report(source.catalog, run_id)).values if run_id else {"brief": []}
    except ConfigurationError as error:
        shown = {"brief": [Sentences([str(error)], "warning")]}
    return Shown("ensemble.html", "Ensembles", {"blocks": [], **shown, "runs": found, "run_id": run_id})


def ensemble_page(report: QuickReport, gate: GateReport | None = None) -> Shown:
    """Show the report on the ensemble of one run, and its gate: the answer first, folded all numbers."""
    brief, whole = (ensemble_result(report, gate, notes=notes).blocks(None) for notes in (False, True))
    answer = [block for block in brief if not (isinstance(block, Sentences) and block.kind == "note")]
    return Shown(
        "ensemble.html", "Ensemble", {"runs": [], "run_id": report.run_id, "brief": answer, "blocks": [*whole]}
    )


def decisions(source: Source, address: PageAddress) -> Shown:
    """List all decisions between models, the one that changed last first."""
    found = [{"decision": row, "verdict": outcome(row)} for row in fetch(source.catalog, "decisions")]
    page, n_pages, shown = _paged(found, address)
    return Shown("decisions.html", "Decisions", {"decisions": shown, "page": page, "n_pages": n_pages})


def decision(source: Source, address: PageAddress) -> Shown:
    """A decision with the curve of each pair, live while it is made."""
    report = read_decision(source.catalog, address.one("decision"))
    live = report["decision"]["state"] == "running"
    return Shown(
        "decision.html",
        outcome(report["decision"]),
        {
            "report": report,
            "curves": grouped(report["curve"], itemgetter("a", "b")),
            "blocks": [] if live else list(decision_result(report).blocks(None)),
            "live": live,
        },
    )


def _declared(name: str) -> Page:
    """Make the page of a declared report: its verdict, tables and sentences."""

    def page(source: Source, address: PageAddress) -> Shown:
        report = REPORTS.use(name)
        blocks = read_report(source.catalog, report, _selected(report, address)).blocks(None)
        return Shown("report.html", report.heading, {"blocks": list(blocks)})

    return page


def _selected(report: Report, address: PageAddress) -> Any:
    """Make the selection of a report of an address, whose parameters are called like the options of its command.

    Raises:
        ConfigurationError: A parameter is missing, or has no such value.
    """
    given: dict[str, Any] = {}
    for name, hint in get_type_hints(report.selection, include_extras=True).items():
        kind, option = Parameter.from_annotation(hint)
        parameter = next(iter(option.name or ()), name).removeprefix("--")
        if option.group and (values := address.many(parameter)):
            given[name] = values if get_origin(kind) in {list, tuple, Sequence} else values[-1]
    try:
        selection = TypeAdapter(report.selection).validate_python(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigurationError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return selection


def search(source: Source, address: PageAddress) -> Shown:
    """Find a text, in answers first."""
    text, what = address.one("q"), address.one("what", "answers")
    check_choice("what", what, _TEXTS)
    if len(text) < 2:  # noqa: PLR2004
        raise ConfigurationError("search for two characters or more")
    if len(text) > MOST_SEARCHED:
        raise ConfigurationError(f"search for at most {MOST_SEARCHED:,} characters, not {len(text):,}")
    benchmarks = [row["benchmark"] for row in fetch(source.catalog, "question_sets")]
    values = {"found": _hits(source, address), "texts": _TEXTS, "what": what, "most": ROWS, "row_name": row_name}
    values |= {"open": _opens_hit(source, address), "benchmarks": list(dict.fromkeys(benchmarks))}
    values |= {"scales": _scales(source)}
    return Shown("search.html", f"Search: {text}", values)


def _hits(source: Source, address: PageAddress) -> Rows:
    """Search a text; each question that is opened from the search needs its neighbours among the hits."""
    chosen: dict[str, Any] = {"what": address.one("what", "answers"), "text": address.one("q"), "most": ROWS}
    chosen |= {name: address.one(name) or None for name in ("benchmark", "model")}
    return once(source.catalog, "text_search", chosen, lambda: fetch(source.catalog, "text_search", **chosen))


def _opens_hit(source: Source, address: PageAddress) -> Callable[[Row], str]:
    """Return what makes the address of a hit of a search; one in a question opens it with the two best models."""
    best = best_models(source, PageAddress("/")) if address.one("what") == "questions" else []

    def open_hit(row: Row) -> str:
        return address.to_page(
            "/question",
            set=row["question_set"],
            position=row["position"],
            m=row["run_id"] or best,
            hit=row["judge"],
            view="raw",
            open=sorted({*address.many("open"), *(["judge"] if row["judge"] else [])}),
        )

    return open_hit


def call(source: Source, address: PageAddress) -> Shown:
    """A call, as it was answered."""
    found = fetch(source.catalog, "call", request_hash=address.one("hash"), most=MOST_CHARACTERS)
    if not found:
        raise ConfigurationError("the lake has no such call: it was made elsewhere, or is not committed yet")
    return Shown("call.html", f"Call {address.one('hash')[:12]}", {"calls": found, "most": MOST_CHARACTERS})


def prompt(source: Source, address: PageAddress) -> Shown:
    """The templates of a prompt."""
    found = fetch(source.catalog, "prompts", prompt_hash=address.one("hash"))
    if not found:
        raise ConfigurationError("the lake does not have the text of this prompt: it was made before texts were kept")
    return Shown("prompt.html", f"Prompt {found[0]['label']}", {"templates": found})


PAGES: Mapping[str, Page] = {
    "/": leaderboard,
    "/questions": questions,
    "/question": question,
    "/compare": compare,
    "/model": model,
    "/runs": runs,
    "/run": run,
    "/judges": judges,
    "/ensemble": ensemble,
    "/decisions": decisions,
    "/decision": decision,
    "/search": search,
    "/call": call,
    "/prompt": prompt,
}


def all_pages() -> Mapping[str, Page]:
    """Return all pages by their addresses; a declared report has one unless there is a larger one for it."""
    return {**PAGES, **{f"/{name}": _declared(name) for name in REPORTS if f"/{name}" not in PAGES}}


LIVE = frozenset({"/run"})
"""Pages that change while the lake does not."""


def whole_text(source: Source, address: PageAddress) -> str:
    """A text of which a page has shown the beginning only.

    Raises:
        ConfigurationError: The lake has no such text.
    """
    found = fetch(
        source.catalog,
        "whole_text",
        what=address.one("what"),
        run_id=address.one("run"),
        benchmark=address.one("benchmark"),
        question_id=address.one("question"),
        sample_index=address.number("sample", 0),
        judge=address.one("judge_name"),
    )
    if not found:
        raise ConfigurationError("the lake has no such text")
    return str(found[0]["text"])


def _grid_request(address: PageAddress) -> GridRequest:
    return GridRequest(
        models=address.many("m"),
        judges=address.many("judge"),
        benchmarks=address.many("benchmark"),
        question_sets=address.many("set"),
        categories=address.many("category"),
        pipeline=address.one("passes", BASELINE),
        sort=address.one("sort", _default_sort(address)),
        flags=address.many("flag"),
        text=address.one("text"),
    )


def _default_sort(address: PageAddress) -> str:
    return "difference" if len(address.many("m")) > 1 else "A"


def _paged(rows: Sequence[T], address: PageAddress) -> tuple[int, int, Sequence[T]]:
    """Return the number of the requested page, the number of pages, and its rows."""
    page = address.number("page", 1, least=1)
    return page, max(ceil(len(rows) / ROWS), 1), rows[(page - 1) * ROWS : page * ROWS]


def _comparison(a: str, b: str, address: PageAddress) -> ComparisonRequest:
    return ComparisonRequest(
        a,
        b,
        judges=address.many("judge"),
        pipeline=address.one("passes", BASELINE),
        anyway=bool(address.one("anyway")),
    )


def _scales(source: Source) -> Scales:
    return reported_scales(benchmarks_in(source.catalog))


def _spans(searched: str, answer: Row) -> list[Span]:
    """The passages of an answer to mark: what was searched, what passes found, and what rules read."""
    found = [span for finding in answer["findings"] for span in finding["spans"]]
    read = [judgement["read"] for judgement in answer["judgements"] if judgement["read"]]
    return spans_of(searched, answer["answer"]) + found + read
