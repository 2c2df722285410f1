"""Plan of a link, before anybody is asked: calls, dollars, and the chances that it is granted."""

from collections.abc import Sequence
from datetime import datetime

from shaberi_dagster.deciding.link import Link, expected_calls
from shaberi_dagster.reports.blocks import UNKNOWN, Block, Column, Heading, Result, Row, Sentences, Table, number, text
from shaberi_dagster.runs.forecast import Forecast, sum_if_known
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.statistics.comparison import OVERALL

_FURTHER = 1.5
"""The offset for which the second chance is stated, in margins."""


def link_plan(link: Link, workspace: Workspace, now: datetime) -> Result:
    """Say what a link will take and what it can find; nothing is changed and no model is called.

    Args:
        link: From `prepare`.
        workspace: Where to read.
        now: The date of the prices.
    """
    estimates, beyond = expected_calls(link, workspace, now), _FURTHER * link.request.margin
    equal, apart = link.chances(), link.chances(beyond)
    rows = [
        {
            "benchmark": name,
            "n_answers": link.answers.height if name == OVERALL else link.answers.filter(benchmark=name).height,
            "spread": link.spreads.get(name),
            "chance_at_0": chance,
            "chance_beyond": apart[name],
            **_calls([forecast for forecast in estimates if name in {OVERALL, forecast.benchmark}]),
        }
        for name, chance in equal.items()
    ]
    document = {
        "link_id": link.link_id,
        "judge": link.request.judge,
        "linked_judge": link.judge,
        "source": link.source,
        "models": link.models,
        "margin": link.request.margin,
        "beyond": beyond,
        "seed": link.seed,
        "expected": rows,
    }
    said: list[Block] = [
        Heading("plan; no call is made", f"link {link.link_id}"),
        Sentences(
            [f"{link.judge} judges again what {link.request.judge} judged in {link.source}: {', '.join(link.models)}."]
        ),
        _table(beyond).of(rows),
        Sentences(list(_notes(link)), "note"),
    ]
    return Result(said, rows, document)


def _calls(estimates: Sequence[Forecast]) -> Row:
    return {
        "calls": sum(forecast.calls for forecast in estimates),
        "calls_most": sum(forecast.calls_most for forecast in estimates),
        "cost_usd": sum_if_known(forecast.cost_usd for forecast in estimates if forecast.calls_most),
    }


def _table(beyond: float) -> Table:
    return Table(
        [
            text("benchmark"),
            Column("answers", "n_answers"),
            number("calls"),
            number("at most", "calls_most"),
            number("cost in USD", "cost_usd", form="{:,.4f}", null=UNKNOWN),
            number("spread", form="score"),
            number("granted at offset 0", "chance_at_0", form="{:.0%}"),
            number(f"granted at {beyond:g}", "chance_beyond", form="{:.0%}"),
        ]
    )


def _notes(link: Link) -> list[str]:
    measured = ", ".join(sorted(link.repeated["benchmark"].unique()))
    whose = f"by its own repeated scores on {measured}" if measured else "as gpt-4.1 had it in two rounds"
    granted = f"Granted: the interval of the offset lies within {link.request.margin:g}; the chances hold where models "
    return [
        f"Spread: of new - old by the judge's noise alone, {whose}.",
        "A second call is made where a judgement has no score.",
        granted + "and questions do not differ in how far their scores moved.",
    ]
