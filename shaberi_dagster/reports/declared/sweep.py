"""The report on runs that differ in a setting, such as those of a sweep, with the score and cost of each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

from shaberi_dagster.lake.statements import Catalog, fetch
from shaberi_dagster.reports.blocks import (
    Plot,
    Report,
    Result,
    Row,
    Rows,
    Sentences,
    Table,
    grouped,
    known,
    number,
    several,
    text,
)
from shaberi_dagster.reports.ranking import is_first, standing_data
from shaberi_dagster.reports.requests import RunSelection, ScoreSelection
from shaberi_dagster.reports.rows import mean_of
from shaberi_dagster.reports.scores import read_scores

_AMOUNTS = (("USD", "usd", "{:,.4f}"), ("completion tokens", "completion_tokens", "{:,.0f}"))
"""What a setting costs, the first that is known of all: title, name and form."""
_NOTE = (
    "vs best: over the n questions that both have, its CI adjusted for all pairs. tokens (thinking is part of "
    "them), USD: of all answers of a run; s: of one, on average."
)
_SETTINGS = Table(
    [
        text("model", cuts="middle", where=several("model")),
        text("tag", folds=True),
        number("score", "mean", form="score"),
        number("95 % CI", ends="ci_questions_", form="score"),
        number("vs best", "difference", form="difference"),
        number("its CI", ends="difference_", form="difference"),
        number("n", "n_common_questions", form="{}"),
        number("tokens", "completion_tokens", form="{:,.0f}", null="unknown"),
        number("thinking", "reasoning_tokens", form="{:,.0f}", where=known("reasoning_tokens")),
        number("USD", "usd", form="{:,.4f}", null="unknown"),
        number("s", "seconds", form="score"),
    ],
    notes=[_NOTE],
)


def read_sweep(catalog: Catalog, selection: ScoreSelection) -> list[list[Row]]:
    """Read the scores of some runs, and what their answers cost; where no models are named, of those with several.

    Returns:
        The standings of each ranking, with completion_tokens (all that were paid for as completion), reasoning_tokens
        (those of them that were thinking), usd (US dollars; None where another run has paid for a part) and seconds
        (mean duration of an answer); None is not known.

    Raises:
        ConfigurationError: Nothing is selected.
    """
    report = read_scores(catalog, selection)
    run_ids = sorted({row["run_id"] for row in report.rows})
    amounts = {row["run_id"]: row for row in fetch(catalog, "answer_amounts", run_ids=run_ids)}
    calls = dict(grouped(report.tokens, itemgetter("model", "run_tag")))
    rankings = [ranking["standings"] for ranking in report.rankings]
    if not selection.models:
        rankings = [lines for lines in rankings if len({line["model"] for line in lines}) < len(lines)]
    return [[{**standing_data(line), **_cost(line["rows"], calls, amounts)} for line in lines] for lines in rankings]


def _cost(rows: Rows, calls: Mapping[tuple[str, str], Rows], amounts: Mapping[str, Row]) -> Row:
    """Return what the answers of a line cost; of several runs the mean, None where it is not known of one."""
    runs = {(row["model"], row["run_tag"]): row["run_id"] for row in rows}
    costs = [_cost_of_run(calls.get(key, ()), amounts.get(run_id, {})) for key, run_id in runs.items()]
    return costs[0] if len(costs) == 1 else {name: mean_of([cost[name] for cost in costs]) for name in costs[0]}


def _cost_of_run(calls: Rows, answers: Row) -> Row:
    paid = [row for row in calls if row["stage"] == "answers"]
    # What another run has paid for is in no sum of this one.
    is_whole = bool(answers) and sum(row["calls"] for row in paid) >= answers["answers"]
    is_known = is_whole and not any(row["calls_without_price"] or row["cost_usd"] is None for row in paid)
    names = ("completion_tokens", "reasoning_tokens", "seconds")
    usd = sum(row["cost_usd"] for row in paid) if is_known else None
    return {**{name: answers.get(name) for name in names}, "usd": usd}


def sweep_result(rankings: Sequence[Rows]) -> Result:
    """Show each setting with its score, its difference from the best and its cost; a sentence names the cheapest."""
    found = [(rows, _cheapest(rows)) for rows in rankings]
    said = [*dict.fromkeys(_verdict(rows, cheapest) for rows, cheapest in found)]
    if not said:
        said = ["No model has several runs that compare: run-evals --sweep NAME=VALUE,VALUE makes some."]
    tables = [replace(_SETTINGS, plot=_plot(rows)).of(rows) for rows in rankings]
    document = {"rankings": [{"settings": rows, "cheapest": cheapest} for rows, cheapest in found]}
    return Result([Sentences(said, "verdict"), *tables], [row for rows in rankings for row in rows], document)


def _plot(rows: Rows) -> Plot | None:
    """Draw scores against dollars where all are known, else against tokens."""
    for title, name, form in _AMOUNTS:
        if len(rows) > 1 and all(row[name] is not None and row["mean"] is not None for row in rows):
            ends = {"lower": "ci_questions_lower", "upper": "ci_questions_upper"}
            places = {"x": name, "y": "mean", **ends}
            points = [{"label": _label(row, rows)} | {place: row[of] for place, of in places.items()} for row in rows]
            return Plot(title, "score", points, form)
    return None


def _cheapest(rows: Rows) -> Row | None:
    """Find the cheapest setting that is not shown to be worse than the best: model, tag, by what and its amount.

    It is by dollars where all are known, else by tokens; None where these are unknown, too.
    """
    chosen = [row for row in rows if is_first(row)]
    for by, name, _ in _AMOUNTS:
        if chosen and all(row[name] is not None for row in chosen):
            row = min(chosen, key=itemgetter(name))
            return {"model": row["model"], "tag": row["tag"], "by": by, "amount": row[name]}
    return None


def _label(row: Row, rows: Rows) -> str:
    return row["tag"] if len({line["model"] for line in rows}) == 1 else f"{row['model']} {row['tag']}"


def _verdict(rows: Rows, cheapest: Row | None) -> str:
    if len(rows) == 1:
        return f"{_label(rows[0], rows)} compares with no other setting."
    if cheapest is None:
        return "Which setting is cheapest is not known."
    by, value = cheapest["by"], cheapest["amount"]
    amount = f"{value:.4f} USD" if by == "USD" else f"{value:,.0f} {by}"
    (row,) = (row for row in rows if (row["model"], row["tag"]) == (cheapest["model"], cheapest["tag"]))
    lower = row["difference_lower"] or 0
    reach = f", and may be up to {-lower:.2f} worse" if lower < 0 else ""
    return (
        f"Cheapest setting that is not shown to be worse than the best: {_label(row, rows)} ({amount}{reach}); "
        f"{sum(map(is_first, rows))} of {len(rows)} are not shown to be worse."
    )


SWEEP = Report(
    "sweep",
    "Show runs that differ in a setting by score and cost, and name the cheapest good one.",
    selection=RunSelection,
    read=lambda catalog, which: sweep_result(
        read_sweep(catalog, ScoreSelection(models=which.models, tags=which.tags, sources=which.sources))
    ),
    examples=["shaberi sweep --model my-model", "shaberi sweep --model my-model --tag july --format csv"],
    more="`run-evals --sweep` ends with it; its page in `shaberi view` draws score against cost.",
)
