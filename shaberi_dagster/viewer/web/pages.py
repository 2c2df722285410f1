"""The pages: what each reads for its address. Numbers come from `reports/`, how they look stands in `templates/`."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_type_hints

import duckdb
from pydantic import TypeAdapter, ValidationError

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.reports.comparison import ComparisonReport
from shaberi_dagster.reports.comparison import compare as read_comparison
from shaberi_dagster.reports.decision import DecisionReport, read_decision
from shaberi_dagster.reports.declared import REPORTS
from shaberi_dagster.reports.declared.cost import COST, TOKENS
from shaberi_dagster.reports.ensemble import read_stored_report, read_strategy_scores
from shaberi_dagster.reports.leaderboard import read_leaderboard
from shaberi_dagster.reports.question import ShownAnswer
from shaberi_dagster.reports.question_grid import GridRequest, GridRow, read_question_grid
from shaberi_dagster.reports.reading import fetch, read_report
from shaberi_dagster.reports.report import Report, Sentences
from shaberi_dagster.reports.requests import BASELINE, POLICIES, ComparisonRequest, ScoreSelection, check_choice
from shaberi_dagster.reports.run_progress import CostOf, read_run
from shaberi_dagster.reports.score_reading import read_rankings
from shaberi_dagster.reports.scores import grouped
from shaberi_dagster.reports.side_by_side import MOST_CHARACTERS, read_side_by_side
from shaberi_dagster.reports.standings import remarks_on
from shaberi_dagster.runs.option import Option
from shaberi_dagster.show.comparison import ComparisonDocument
from shaberi_dagster.show.decision import decision_result
from shaberi_dagster.show.ensemble import EnsembleDocument
from shaberi_dagster.show.score_tables import strategy_blocks
from shaberi_dagster.viewer.web.ask import Ask
from shaberi_dagster.viewer.web.templates import Shown

T = TypeVar("T")


class Source(NamedTuple):
    """What pages read.

    Attributes:
        catalog: The public views, as the lake is now.
        warehouse: The lake's folder.
        cost_of: What calls cost that are in no lake yet.
    """

    catalog: duckdb.DuckDBPyConnection
    warehouse: Path
    cost_of: CostOf = lambda _: None


Page = Callable[[Source, Ask], Shown]
_ROWS = 100
_MOST_LENGTHS = 50_000
_TEXTS = ("answers", "questions", "judgements")


def best_models(source: Source, ask: Ask) -> list[str]:
    """The best two of a leaderboard, as other pages are asked for them; none where there are not two."""
    report = read_rankings(source.catalog, _selection(ask))
    standings = report.rankings[0].standings[:2] if report.rankings else ()
    return [f"{one.model}@@{one.tag}" for one in standings] if len(standings) == 2 else []  # noqa: PLR2004


def _selection(ask: Ask) -> ScoreSelection:
    return ScoreSelection(
        models=ask.many("model"),
        tags=ask.many("tag"),
        sources=ask.many("source"),
        judges=ask.many("judge"),
        question_sets=ask.many("set"),
        pipeline=ask.one("passes", BASELINE),
        null_policy=ask.one("policy", "legacy"),
    )


def leaderboard(source: Source, ask: Ask) -> Shown:
    """Who is best among models that were asked and judged alike."""
    page = ask.number("page", 1, least=1)
    board = read_leaderboard(source.catalog, _selection(ask), name=ask.one("text"), page=page)
    return Shown(
        "leaderboard.html",
        "Leaderboard" if page == 1 else f"Leaderboard, page {page}",
        {
            "board": board,
            "report": board.report,
            "policies": POLICIES,
            "remarks_on": remarks_on,
            "choices": {
                name: [row["name"] for row in own]
                for name, own in grouped(fetch(source.catalog, "leaderboard_choices"), lambda row: row["kind"])
            },
        },
    )


def questions(source: Source, ask: Ask) -> Shown:
    """Where some models differ."""
    grid = read_question_grid(source.catalog, _grid_request(ask))
    page, n_pages, shown = _paged(grid.rows, ask)

    def open_question(row: GridRow) -> str:
        return ask.link("/question", set=row.question_set, position=row.position, m=ask.many("m"))

    return Shown(
        "questions.html",
        "Questions of " + " · ".join(side.model for side in grid.sides),
        {
            "grid": grid,
            "shown": shown,
            "page": page,
            "n_pages": n_pages,
            "judges": _judges(source),
            "open": open_question,
        },
    )


def question(source: Source, ask: Ask) -> Shown:
    """One question with the answers of some models side by side."""
    report = read_side_by_side(source.catalog, ask.one("set"), ask.number("position", 1, least=1), _grid_request(ask))
    return Shown(
        "question.html",
        f"{report.question_set} question {report.position}",
        {"report": report, "spans": _spans, "most": MOST_CHARACTERS, "first": _first_answer(report.answers[0])},
    )


def compare(source: Source, ask: Ask) -> Shown:
    """Whether differences between models are real: each pair over the questions that both were asked."""
    models = ask.many("m")
    if len(models) < 2:  # noqa: PLR2004
        raise ConfigurationError("choose two models or more to compare")
    pairs = {(a, b): read_comparison(source.catalog, _comparison(a, b, ask)) for a, b in combinations(models, 2)}
    return comparison_page(pairs)


def comparison_page(pairs: Mapping[tuple[str, str], ComparisonReport]) -> Shown:
    """Comparisons by what their two sides are asked for."""
    shown = [(a, b, list(ComparisonDocument(report).blocks(None))) for (a, b), report in pairs.items()]
    withheld = any(not report.comparable for report in pairs.values())
    return Shown("compare.html", "Comparison", {"pairs": shown, "withheld": withheld})


def model(source: Source, ask: Ask) -> Shown:
    """All runs of a model, and how its scores moved."""
    name = ask.one("model")
    runs = fetch(source.catalog, "model_runs", model=name)
    if not runs:
        raise ConfigurationError(f"the lake has no scores of model {name!r}")
    groups = grouped(runs, lambda row: (row["judge"], row["pipeline"], row["strategy"]))
    drift = [row for row in fetch(source.catalog, "model_drift", model=name) if row["month"]]
    return Shown("model.html", name, {"groups": groups, "drift": drift})


def runs(source: Source, ask: Ask) -> Shown:
    """All runs, the one that changed last first."""
    found = fetch(source.catalog, "run_list", text=ask.one("text") or None, run_id=None)
    page, n_pages, shown = _paged(found, ask)
    return Shown("runs.html", "Runs", {"runs": shown, "n": len(found), "page": page, "n_pages": n_pages})


def run(source: Source, ask: Ask) -> Shown:
    """A run, live while it works."""
    progress = read_run(source.catalog, source.warehouse, ask.one("run"), datetime.now(UTC), source.cost_of)
    run_row = progress.run
    strategies = strategy_blocks(read_strategy_scores(source.catalog, [run_row["run_id"]]))
    values = {"progress": progress, "live": progress.live, "blocks": list(strategies)}
    return Shown("run.html", f"{run_row['model']} {run_row['run_tag']}", values)


def judges(source: Source, ask: Ask) -> Shown:
    """How judges agree, how lenient they are, which scores they give, and whether they like length.

    Of very many judgements length is read when it is asked for, as that takes longer than all the rest.
    """
    (overview,) = fetch(source.catalog, "judge_overview")
    facts = overview["facts"]
    with_lengths = ask.one("lengths") == "yes" or sum(row["n_judgements"] for row in facts) <= _MOST_LENGTHS
    names = [row["judge"] for row in facts]
    pairs = {(row["judge_a"], row["judge_b"]): row for row in overview["pairs"]}
    scores = grouped(fetch(source.catalog, "judge_scores"), lambda row: row["judge"])
    drift = grouped(fetch(source.catalog, "judge_drift"), lambda row: row["judge"])
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
            "scores": {name: {row["score"]: row["n"] for row in own} for name, own in scores},
            "drift": drift,
        },
    )


def ensemble(source: Source, ask: Ask) -> Shown:
    """Whether a consensus of several samples beats them."""
    found = fetch(source.catalog, "ensemble_runs")
    run_id = ask.one("run", found[0]["run_id"] if found else "")
    try:
        blocks = list(EnsembleDocument(read_stored_report(source.catalog, run_id)).blocks(None)) if run_id else []
    except ConfigurationError as error:
        blocks = [Sentences([str(error)], "warning")]
    return Shown("ensemble.html", "Ensembles", {"runs": found, "run_id": run_id, "blocks": blocks})


def ensemble_page(document: EnsembleDocument) -> Shown:
    """What one run says of its ensemble, and a gate of it."""
    values = {"runs": [], "run_id": document.report.spec.run_id, "blocks": list(document.blocks(None))}
    return Shown("ensemble.html", "Ensemble", values)


def decisions(source: Source, ask: Ask) -> Shown:
    """All decisions between models, the one that changed last first."""
    found = [DecisionReport(row, (), ()) for row in fetch(source.catalog, "decision_list")]
    page, n_pages, shown = _paged(found, ask)
    return Shown("decisions.html", "Decisions", {"decisions": shown, "page": page, "n_pages": n_pages})


def decision(source: Source, ask: Ask) -> Shown:
    """A decision with the curve of each pair, live while it is made."""
    report = read_decision(source.catalog, ask.one("decision"))
    live = report.decision["state"] == "running"
    return Shown(
        "decision.html",
        report.verdict,
        {
            "report": report,
            "curves": grouped(report.curve, lambda look: (look.a, look.b)),
            "blocks": [] if live else list(decision_result(report).blocks(None)),
            "live": live,
        },
    )


def cost(source: Source, ask: Ask) -> Shown:
    """What runs cost, stage by stage."""
    rows = list(read_report(source.catalog, COST, _selected(COST, ask)).records())
    runs = grouped(rows, lambda row: (row["model"], row["run_tag"]))
    by_run = [(run, TOKENS.summed(of_run), of_run) for run, of_run in runs]
    return Shown("cost.html", "Cost", {"by_run": by_run, "total": TOKENS.summed(rows)})


def _declared(name: str) -> Page:
    """Make the page of a declared report: its verdict, tables and sentences."""

    def page(source: Source, ask: Ask) -> Shown:
        report = REPORTS.use(name)
        blocks = read_report(source.catalog, report, _selected(report, ask)).blocks(None)
        return Shown("report.html", report.heading, {"blocks": list(blocks)})

    return page


def _selected(report: Report, ask: Ask) -> Any:
    """Make the selection of a report of an address, whose parameters are called like the options of its command.

    Raises:
        ConfigurationError: A parameter is missing, or has no such value.
    """
    given: dict[str, Any] = {}
    for name, hint in get_type_hints(report.selection, include_extras=True).items():
        for option in (mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Option)):
            parameter = option.names[0].removeprefix("--") if option.names else name
            if values := ask.many(parameter):
                given[name] = values if option.repeated else values[-1]
    try:
        selection = TypeAdapter(report.selection).validate_python(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigurationError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return selection


def search(source: Source, ask: Ask) -> Shown:
    """Where a text stands, in answers first."""
    text, what = ask.one("q"), ask.one("what", "answers")
    check_choice("what", what, _TEXTS)
    if len(text) < 2:  # noqa: PLR2004
        raise ConfigurationError("search for two characters or more")
    found = fetch(
        source.catalog,
        "text_search",
        what=what,
        text=text,
        benchmark=ask.one("benchmark") or None,
        model=ask.one("model") or None,
        most=_ROWS,
    )
    benchmarks = [row["benchmark"] for row in fetch(source.catalog, "question_sets")]
    return Shown(
        "search.html",
        f"Search: {text}",
        {"found": found, "texts": _TEXTS, "what": what, "most": _ROWS, "benchmarks": list(dict.fromkeys(benchmarks))},
    )


def call(source: Source, ask: Ask) -> Shown:
    """A call, as it was answered."""
    found = fetch(source.catalog, "call", request_hash=ask.one("hash"), most=MOST_CHARACTERS)
    if not found:
        raise ConfigurationError("the lake has no such call: it was made elsewhere, or is not committed yet")
    return Shown("call.html", f"Call {ask.one('hash')[:12]}", {"calls": found, "most": MOST_CHARACTERS})


def prompt(source: Source, ask: Ask) -> Shown:
    """The templates of a prompt."""
    found = fetch(source.catalog, "prompt", prompt_hash=ask.one("hash"))
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
    "/cost": cost,
    "/search": search,
    "/call": call,
    "/prompt": prompt,
}


def all_pages() -> Mapping[str, Page]:
    """Return all pages by their addresses; a declared report has one unless there is a larger one for it."""
    return {**PAGES, **{f"/{name}": _declared(name) for name in REPORTS if f"/{name}" not in PAGES}}


LIVE = frozenset({"/run"})
"""Pages that change while the lake does not."""


def whole_text(source: Source, ask: Ask) -> str:
    """A text of which a page has shown the beginning only.

    Raises:
        ConfigurationError: The lake has no such text.
    """
    found = fetch(
        source.catalog,
        "whole_text",
        what=ask.one("what"),
        run_id=ask.one("run"),
        benchmark=ask.one("benchmark"),
        question_id=ask.one("question"),
        sample_index=ask.number("sample", 0),
        judge=ask.one("judge_name"),
    )
    if not found:
        raise ConfigurationError("the lake has no such text")
    return str(found[0]["text"])


def _grid_request(ask: Ask) -> GridRequest:
    return GridRequest(
        models=ask.many("m"),
        judges=ask.many("judge"),
        benchmarks=ask.many("benchmark"),
        question_sets=ask.many("set"),
        categories=ask.many("category"),
        pipeline=ask.one("passes", BASELINE),
        sort=ask.one("sort", "difference" if len(ask.many("m")) > 1 else "A"),
        flags=ask.many("flag"),
        text=ask.one("text"),
    )


def _paged(rows: Sequence[T], ask: Ask) -> tuple[int, int, Sequence[T]]:
    """Which page is asked for, of how many, and its rows."""
    page = ask.number("page", 1, least=1)
    return page, max(ceil(len(rows) / _ROWS), 1), rows[(page - 1) * _ROWS : page * _ROWS]


def _comparison(a: str, b: str, ask: Ask) -> ComparisonRequest:
    return ComparisonRequest(
        a, b, judges=ask.many("judge"), pipeline=ask.one("passes", BASELINE), anyway=bool(ask.one("anyway"))
    )


def _judges(source: Source) -> list[str]:
    return [row["judge"] for row in fetch(source.catalog, "judges")]


def _spans(answer: ShownAnswer) -> list[object]:
    return [span for finding in answer.findings for span in finding.spans]


def _first_answer(answers: tuple[ShownAnswer, ...]) -> str:
    return next((answer.answer for answer in answers if answer.answer), "")
