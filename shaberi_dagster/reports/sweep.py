"""Settings of a sweep side by side: the score and cost of each, and the cheapest that is not shown to be worse."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.reports.figures import interval, interval_of, signed_interval
from shaberi_dagster.reports.report import (
    Plot,
    Point,
    Result,
    Row,
    Sentences,
    Table,
    known,
    number,
    several,
    table_of,
    text,
)
from shaberi_dagster.reports.requests import ScoreSelection
from shaberi_dagster.reports.score_reading import read_scores
from shaberi_dagster.reports.standings import Ranking, Standing

_NO_WORSE = frozenset({"best", "tied"})
_AMOUNTS = (("USD", "usd", "{:,.4f}"), ("completion tokens", "completion_tokens", "{:,.0f}"))
"""What a setting costs, the first that is known of all: title, name and form."""


@dataclass(frozen=True)
class SweepReport:
    """Runs that differ in a setting, best first.

    Attributes:
        rankings: Runs that compare, each compared with the best.
        costs: The answers of each, by model and tag: completion_tokens (all that were paid for as completion),
            reasoning_tokens (those of them that were thinking), usd (US dollars; None where another run has paid for a
            part) and seconds (mean duration of an answer); None is not known.
    """

    rankings: Sequence[Ranking]
    costs: Mapping[tuple[str, str], Row]


def read_sweep(catalog: duckdb.DuckDBPyConnection, selection: ScoreSelection) -> SweepReport:
    """Read the scores of some runs, and what their answers cost; where none are named, where a model has several.

    Raises:
        ConfigurationError: Nothing is selected.
    """
    report = read_scores(catalog, selection)
    run_ids = {(row.model, row.run_tag): row.run_id for row in report.rows}
    amounts = {row["run_id"]: row for row in fetch(catalog, "answer_amounts", run_ids=[*run_ids.values()])}
    costs = {
        key: _cost([row for row in report.tokens if (row["model"], row["run_tag"]) == key], amounts.get(run_id, {}))
        for key, run_id in run_ids.items()
    }
    rankings = report.rankings
    if not (selection.models or selection.tags or selection.sources):
        rankings = [
            ranking for ranking in rankings if len({line.model for line in ranking.standings}) < len(ranking.ranks)
        ]
    return SweepReport(rankings, costs)


def _cost(calls: Sequence[Row], answers: Row) -> Row:
    paid = [row for row in calls if row["stage"] == "answers"]
    # What another run has paid for is in no sum of this one.
    is_whole = bool(answers) and sum(row["calls"] for row in paid) >= answers["answers"]
    is_known = is_whole and not any(row["calls_without_price"] or row["cost_usd"] is None for row in paid)
    names = ("completion_tokens", "reasoning_tokens", "seconds")
    usd = sum(row["cost_usd"] for row in paid) if is_known else None
    return {**{name: answers.get(name) for name in names}, "usd": usd}


def sweep_result(sweep: SweepReport) -> Result:
    """Show each setting with its score, its difference from the best and its cost; a sentence names the cheapest."""
    tables = [_table(sweep, ranking) for ranking in sweep.rankings]
    said = [*dict.fromkeys(_verdict(sweep, ranking) for ranking in sweep.rankings)]
    if not said:
        said = ["No model has several runs that compare: run-evals --sweep NAME=VALUE,VALUE makes some."]
    document = {
        "rankings": [
            {"settings": _rows(sweep, ranking), "cheapest": _cheapest(sweep, ranking)} for ranking in sweep.rankings
        ]
    }
    rows = [row for table in tables for row in table.rows]
    return Result([Sentences(said, "verdict"), *tables], rows, document)


def _table(sweep: SweepReport, ranking: Ranking) -> Table:
    columns = [
        text("model", cuts="middle", where=several("model")),
        text("tag", folds=True),
        number("score", "mean", form="{:.2f}"),
        number("95 % CI", lambda row: interval(interval_of(row, "ci_questions_"))),
        number("- best", "difference", form="{:+.2f}"),
        number("its CI", lambda row: signed_interval(interval_of(row, "difference_"))),
        number("n", "n_common_questions", form="{}"),
        number("tokens", "completion_tokens", null="unknown"),
        number("thinking", "reasoning_tokens", where=known("reasoning_tokens")),
        number("USD", "usd", form="{:,.4f}", null="unknown"),
        number("s", "seconds", form="{:.2f}"),
    ]
    note = (
        "- best: less the best line, over the n questions that both have; its CI is adjusted for all pairs. tokens, "
        "thinking (part of them) and USD: of all answers; s: of one, on average."
    )
    return table_of(rows := _rows(sweep, ranking), columns, notes=[note], plot=_plot(rows))


def _plot(rows: Sequence[Row]) -> Plot | None:
    """Draw scores against dollars where all are known, else against tokens."""
    for title, name, form in _AMOUNTS:
        if len(rows) > 1 and all(row[name] is not None and row["mean"] is not None for row in rows):
            places = [(row["tag"], row[name], row["mean"], interval_of(row, "ci_questions_")) for row in rows]
            points = [Point(*place, *((ends.lower, ends.upper) if ends else (None, None))) for *place, ends in places]
            return Plot(title, "score", points, form)
    return None


def _rows(sweep: SweepReport, ranking: Ranking) -> list[Row]:
    return [{**row, **sweep.costs[row["model"], row["tag"]]} for row in ranking.rows]


def _cheapest(sweep: SweepReport, ranking: Ranking) -> Row | None:
    """Find the cheapest setting that is not shown to be worse than the best: model, tag, by what and its amount.

    It is by dollars where all are known, else by tokens; None where these are unknown, too.
    """
    chosen = _not_worse(ranking)
    for by, name, _ in _AMOUNTS:
        amounts = [(sweep.costs[line.model, line.tag][name], line) for line in chosen]
        if amounts and all(amount is not None for amount, _ in amounts):
            amount, line = min(amounts, key=lambda pair: pair[0])
            return {"model": line.model, "tag": line.tag, "by": by, "amount": amount}
    return None


def _not_worse(ranking: Ranking) -> list[Standing]:
    return [line for line in ranking.standings if line.tie and line.tie.against_best in _NO_WORSE]


def _verdict(sweep: SweepReport, ranking: Ranking) -> str:
    chosen, cheapest = _not_worse(ranking), _cheapest(sweep, ranking)
    if len(ranking.standings) == 1:
        return f"{ranking.standings[0].tag} compares with no other setting."
    if cheapest is None:
        return "Which setting is cheapest is not known."
    by, value, place = cheapest["by"], cheapest["amount"], (cheapest["model"], cheapest["tag"])
    amount = f"{value:.4f} USD" if by == "USD" else f"{value:,.0f} {by}"
    (tie,) = (line.tie for line in chosen if (line.model, line.tag) == place)
    lower = tie.interval.lower if tie and tie.interval else 0
    reach = f", and may be up to {-lower:.2f} worse" if lower < 0 else ""
    return (
        f"Cheapest setting that is not shown to be worse than the best: {cheapest['tag']} ({amount}{reach}); "
        f"{len(chosen)} of {len(ranking.standings)} are not shown to be worse."
    )
