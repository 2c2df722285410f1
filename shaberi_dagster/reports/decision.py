"""A decision between models as it is stored and shown: its outcome, its curve, and its cost."""

from collections.abc import Iterator, Sequence

from shaberi_dagster.lake.statements import Catalog, fetch
from shaberi_dagster.reports.blocks import (
    Block,
    Column,
    Heading,
    Result,
    Row,
    Rows,
    Sentences,
    Table,
    counted,
    decimals,
    number,
    text,
)
from shaberi_dagster.statistics.calibration import error_of_pair
from shaberi_dagster.util.errors import ConfigurationError


def outcome(own: Row) -> str:
    """Say what came of a decision, a row of the table `decisions`."""
    state, best = own["state"], own["best"]
    if state != "decided":
        return "not decidable with these questions" if state == "undecided" else "not decided yet"
    if len(best) > 1:
        return f"{' and '.join(best)} are equal within the margin"
    return f"{best[0]} is {'better' if len(own['candidates']) == 2 else 'the best'}"  # noqa: PLR2004


def _saved(own: Row) -> Row:
    """Count the questions that were not needed, and what they would have taken at the cost of those that were.

    Returns:
        questions_saved, calls_saved and cost_saved_usd; None is unknown.
    """
    n_saved = int(own["n_questions"] - (own["n_asked"] or 0))
    share = n_saved / own["n_asked"] if own["n_asked"] and own["calls"] else None
    return {
        "questions_saved": n_saved,
        "calls_saved": None if share is None else round(own["calls"] * share),
        "cost_saved_usd": None if share is None or own["cost_usd"] is None else own["cost_usd"] * share,
    }


def read_decision(catalog: Catalog, decision_id: str) -> Row:
    """Read a stored decision.

    Returns:
        decision: its row of the table `decisions`; curve: the looks in order, of the candidates `a` and `b` the
        questions asked (`n_asked`) and those with a score of both (`n_scored`), the `estimate` of A - B over all
        questions with the ends of its interval, null without a question, and the `verdict` A, B, equal or open;
        calibration: a row per class of pairs, of the table `decision_calibrations`, none without enough history.

    Raises:
        ConfigurationError: There is no decision with this identity.
    """
    rows = fetch(catalog, "decisions", decision_id=decision_id)
    if not rows:
        raise ConfigurationError(f'no decision {decision_id}; `shaberi sql "from decisions"` lists what there is')
    own = rows[0]
    curve = own.pop("curve")
    about = {name: own[name] for name in ("judges", "question_sets", "margin")}
    about["error"] = error_of_pair(own["error"], len(own["candidates"]))
    return {"decision": own, "curve": curve, "calibration": fetch(catalog, "decision_calibration", **about)}


def decision_result(report: Row, full: Sequence[str] = (), *, notes: bool = True) -> Result:
    """Say what a decision came to: the result first; then each pair, what it took, and how sure it is.

    Args:
        report: From `read_decision`.
        full: The commands that evaluate the candidates in full.
        notes: With how the decision was made.
    """
    own, curve, saved = report["decision"], report["curve"], _saved(report["decision"])
    last_looks = list({(look["a"], look["b"]): look for look in curve}.values())
    outside = [
        f"Outside of the history: {beyond} than all {own['n_history']} past models on the same questions. "
        "Bets decide its pairs."
        for beyond in own.get("outside") or ()
    ]
    every_note = list(_notes(own))
    rest = ["In full, paying only for the rest:"] if full else []
    said: list[Block] = [
        Heading(f"{outcome(own)}{_by_how_much(last_looks)}", f"decision {own['decision_id']}"),
        Sentences([f"{own['reason']}."] if own["reason"] else [], "warning"),
        _PAIRS.of([{**look, "n_questions": own["n_questions"]} for look in last_looks]),
        Sentences(outside, "warning"),
        Sentences([*_sentences(own, saved), *rest]),
        Sentences(full, "command"),
        *([_REPLAYED.of(report["calibration"])] if report["calibration"] and notes else []),
        Sentences(every_note if notes else every_note[:1], "note"),
    ]
    document = {
        **own,
        "verdict": outcome(own),
        **saved,
        "pairs": last_looks,
        "curve": curve,
        "calibration": report["calibration"],
        "full_evaluation": list(full),
        "notes": [*outside, *every_note],
    }
    return Result(said, [{"decision_id": own["decision_id"], **look} for look in curve], document)


def _by_how_much(last_looks: Rows) -> str:
    """Name the lower one of the only pair, and say by how much."""
    lower = {"A": "b", "B": "a"}.get(last_looks[0]["verdict"]) if len(last_looks) == 1 else None
    return f" than {last_looks[0][lower]} by {decimals(abs(last_looks[0]['estimate']))}" if lower else ""


def _in_words(look: Row) -> str:
    if look["verdict"] in {"A", "B"}:
        return f"{look[look['verdict'].lower()]} is better"
    return "open" if look["verdict"] == "open" else "equal within the margin"


_PAIRS = Table(
    [
        text("A", "a"),
        text("B", "b"),
        number("asked", lambda look: f"{look['n_asked']} of {look['n_questions']}"),
        number("A - B", "estimate", form="difference"),
        number("interval", ends="", form="difference"),
        text("decided", _in_words, folds=True),
    ]
)
_REPLAYED = Table(
    [
        Column("replayed pairs", "class"),
        Column("n", "n_pairs"),
        number("questions", "class_mean_questions", form="score"),
        number("wrong", "share_wrong", form="{:.1%}"),
        number("equal", "share_equal", form="{:.1%}"),
    ]
)


def _sentences(own: Row, saved: Row) -> Iterator[str]:
    cost = "cost unknown" if own["cost_usd"] is None else f"${own['cost_usd']:.4f}"
    yield (
        f"{counted(own['n_asked'] or 0, 'question')} of {own['n_questions']:,} were needed, with "
        f"{counted(own['calls'] or 0, 'call')} ({cost})."
    )
    if n_saved := saved["questions_saved"]:
        calls, usd = saved["calls_saved"], saved["cost_saved_usd"]
        about = f"about {calls:,} calls" if calls is not None else "their calls"
        dollars = f" (${usd:.4f})" if usd is not None else ""
        yield f"Not asked: {counted(n_saved, 'question')}, which saved {about}{dollars}."


def _notes(own: Row) -> Iterator[str]:
    judges = " + ".join(own["judges"])
    yield (
        f"About these questions ({', '.join(own['question_sets'])}), judged by {judges}; `shaberi compare` "
        "is about similar ones."
    )
    yield f"Every benchmark has equal weight. Equal: the whole interval is within {own['margin']:g}."
    yield f"Allowed error: {own['error']:g}, shared out over all pairs."
    if own["boundary"] == "history":
        yield (
            f"Boundary: the history of {own['n_history']} models by {judges}, calibrated by replay with families "
            f"held out: the truth may be {own['constant']:.2f} spreads away."
        )
    else:
        yield (
            f"Boundary: bets that are valid however often one looks; the history of "
            f"{own['n_history']} models by {judges} is too small to calibrate a bolder one."
        )
    yield "What was asked is a partial run: it is in no leaderboard, and a full evaluation pays only for the rest."
