"""Scores in full: a line for each run, benchmark and judge; statistics over runs; judges; replies."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from shaberi_dagster.reports.figures import (
    NO_INTERVAL,
    both_ends,
    counted,
    decimals,
    interval,
    interval_of,
    is_number,
    signed,
    signed_interval,
    whole_percent,
)
from shaberi_dagster.reports.report import (
    NOTHING,
    Block,
    Cell,
    Column,
    Heading,
    Row,
    Sentences,
    Table,
    known,
    number,
    table_of,
    text,
)
from shaberi_dagster.reports.score_report import ScoreReport
from shaberi_dagster.reports.scores import MEAN_OF, OVERALL, RunMean, ScoreRow, benchmark_order, grouped, less

if TYPE_CHECKING:
    from shaberi_dagster.reports.ensemble import Against, StrategyScore

_FEWEST_FOR_A_MARGIN = 3  # the quantile for two runs is 12.7: ±9 of scores that are a point apart
_DECIMALS = "{:.2f}"
_QUESTIONS = ("95 % CI", "over")
_LENIENCY = ("adjusted", "for", "leniency")
_PAIRS_TITLE = "Agreement of these judges on all answers of the lake that both scored"


def run_blocks(report: ScoreReport, *, several: bool) -> Iterator[Block]:
    """Show a line for each benchmark and judge with all counts, and their mean.

    Args:
        report: The scores.
        several: One table for all runs that were asked the same, not a table for each run.
    """
    for means in report.groups:
        if len(report.groups) > 1 and several:
            yield Heading(f"Asked {'; '.join(means[0].asked)}")
        if several:
            names = [text("model", lambda line: line.model), text("run tag", lambda line: line.run_tag)]
            yield _with_bold_means([*names, *_details(report)], means)
            continue
        for (model, run_tag), of_run in grouped(means, lambda mean: (mean.model, mean.run_tag)):
            yield Heading(model, run_tag)
            yield _with_bold_means(_details(report), of_run)
    ends = [row.over_questions for row in report.rows if is_number(row.score)]
    if 0 < ends.count(None) < len(ends):
        yield Sentences([NO_INTERVAL], "note")


def _with_bold_means(columns: Sequence[Column], means: Sequence[RunMean]) -> Table:
    lines = [*chain.from_iterable((*mean.rows, mean) for mean in means)]
    return table_of(lines, columns, bold=[index for index, line in enumerate(lines) if isinstance(line, RunMean)])


def _details(report: ScoreReport) -> list[Column]:
    """List the columns of a benchmark's row, which are those of the mean as well."""
    rows = report.rows
    columns = [
        text("question set", _question_set),
        text("judge", lambda line: line.judge, folds=True),
        number("score", _score),
    ]
    # Either of them says how questions differ; narrow terminals have no room for both.
    if any(row.over_questions for row in rows):
        columns.append(number((*_QUESTIONS, report.over), _ends))
    else:
        columns.append(
            number(
                ("sd over", "questions"), lambda line: "" if isinstance(line, RunMean) else decimals(line.sd_questions)
            )
        )
    if any(row.baseline_score is not None for row in rows):
        columns += [
            number("baseline", lambda line: decimals(line.baseline_score)),
            number("change", lambda line: signed(line.change)),
        ]
    if any(row.leniency is not None for row in rows):
        columns.append(number(_LENIENCY, lambda line: decimals(line.adjusted_score), spare=True))
    columns += [
        number("scored", lambda line: f"{line.n_scored}/{line.n_planned}"),
        number("failed", lambda line: str(line.n_failed), spare=True),
        number("excluded", lambda line: str(line.n_excluded), spare=True),
    ]
    if any(row.n_undecided for row in rows):
        columns.append(number(("unde-", "cided"), lambda line: whole_percent(line.n_undecided / line.n_planned)))
    if any(row.n_out_of_scale for row in rows):
        columns.append(number(("out of", "scale"), lambda line: str(line.n_out_of_scale)))
    return columns


def _question_set(line: ScoreRow | RunMean) -> str:
    if isinstance(line, RunMean):
        return line.label
    return line.asked if line.question_set.startswith(line.benchmark) else f"{line.benchmark} ({line.asked})"


def _score(line: ScoreRow | RunMean) -> str:
    return both_ends(line.score, line.upper, is_open=isinstance(line, ScoreRow) and line.is_open)


def _ends(line: ScoreRow | RunMean) -> str:
    return interval(line.over_questions.interval if line.over_questions else None)


def statistics_blocks(report: ScoreReport, *, several: bool) -> Iterator[Block]:
    """Show a line for each benchmark and overall, judge by judge; all runs in one table, or a table for each."""
    statistics = report.statistics
    columns = [
        text("benchmark", "label"),
        text("judge", folds=True),
        number("mean", lambda row: both_ends(row["mean"], row["mean_upper"])),
        number(("sd", "between", "runs"), "sd", form=_DECIMALS),
        number(("95 % CI", "between", "runs"), margin),
        number(
            (*_QUESTIONS, report.over),
            lambda row: interval(interval_of(row, "ci_questions_")),
            where=known("n_questions"),
        ),
        number(
            ("range", "over runs"),
            lambda row: f"{decimals(row['minimum'])}–{decimals(row['maximum'])}" if row["n_runs"] > 1 else NOTHING,
        ),
        number("runs", "n_runs", form="{}"),
    ]
    groups = {key: _in_order(rows) for key, rows in grouped(statistics, lambda row: (row["model"], row["base_tag"]))}
    if several and groups:
        names = [text("model"), text("base tag")]
        yield _statistics_table([*names, *columns], [row for rows in groups.values() for row in rows])
        return
    for (model, base_tag), rows in groups.items():
        yield Heading(model, base_tag)
        yield _statistics_table(columns, rows)
    if any(margin(row) == NOTHING for row in statistics):
        yield Sentences([f"95 % CI between runs -: it takes {_FEWEST_FOR_A_MARGIN} runs or more."], "note")


def _in_order(rows: Sequence[Row]) -> list[Row]:
    """Sort statistics judge by judge; the means over benchmarks say of how many they are."""
    order = benchmark_order()
    return [
        {**row, "label": f"{MEAN_OF}{len(of_judge) - 1}" if row["benchmark"] == OVERALL else row["benchmark"]}
        for _, of_judge in grouped(rows, lambda row: row["judge"])
        for row in sorted(of_judge, key=lambda row: order(row["benchmark"]))
    ]


def _statistics_table(columns: Sequence[Column], rows: Sequence[Row]) -> Table:
    shared = {row["benchmark"]: row for row in rows if row["n_shared"]}
    notes = [
        f"{row['n_shared']:,} of the {row['n_replies']:,} replies (answers and judgements) of {name} are the reply to "
        "another one's call: between them nothing can differ, and the sd is too small."
        for name, row in shared.items()
    ]
    bold = [index for index, row in enumerate(rows) if row["benchmark"] == OVERALL]
    return table_of(rows, columns, bold=bold, notes=notes)


def margin(row: Row) -> str:
    """Return half the width of the interval between runs, where there are enough of them."""
    shown = row["n_runs"] >= _FEWEST_FOR_A_MARGIN and is_number(row["margin_of_error"])
    return f"±{decimals(row['margin_of_error'])}" if shown else NOTHING


def judge_blocks(report: ScoreReport) -> Iterator[Block]:
    """Show the agreement of judges."""
    if report.judge_pairs:
        yield Heading(_PAIRS_TITLE)
        yield _PAIRS.of(report.judge_pairs)


_PAIRS = Table(
    [
        text("judge a", folds=True),
        text("judge b"),
        number("answers", "n"),
        number("Pearson", "pearson", form=_DECIMALS),
        number("Spearman", "spearman", form=_DECIMALS),
        number("equal", "exact_share", form="{:.0%}"),
        number("a - b", "mean_difference", form="{:+.2f}"),
    ]
)


def strategy_blocks(strategies: "Sequence[StrategyScore]") -> Iterator[Block]:
    """Show the strategies of each run, benchmark by benchmark and judge by judge, with their gain over the samples."""
    for (model, run_tag), of_run in grouped(strategies, lambda strategy: (strategy.model, strategy.run_tag)):
        yield Heading("Strategies", f"{model} {run_tag}")
        table = strategies_table(of_run)
        notes = [
            f"{score.strategy} on {score.benchmark} by {score.judge}: {'; '.join(found)}."
            for score in of_run
            if (found := doubts(score))
        ]
        yield replace(table, notes=[*table.notes, *notes])


def strategies_table(strategies: "Sequence[StrategyScore]") -> Table:
    """Show a line for each strategy, benchmark and judge, with its gain over the samples."""

    def against(cell: "Callable[[Against], Cell]") -> "Callable[[StrategyScore], Cell]":
        return lambda strategy: cell(strategy.against) if strategy.against else ""

    def cost(strategy: "StrategyScore") -> str:
        return (
            NOTHING
            if strategy.cost_usd is None
            else f"{strategy.cost_usd:.2g}{'+' * bool(strategy.calls_without_cost)}"
        )

    columns = [
        text("benchmark", lambda strategy: strategy.benchmark),
        text("judge", lambda strategy: strategy.judge, folds=True),
        text("strategy", lambda strategy: strategy.strategy),
        number("score", lambda strategy: both_ends(strategy.score, strategy.score_upper)),
        number("95 % CI", lambda strategy: interval(strategy.interval)),
        number("scored", lambda strategy: f"{strategy.n_scored}/{strategy.n_planned}"),
        number("+/-", against(lambda difference: signed(difference.difference))),
        number("95 % CI", against(lambda difference: signed_interval(difference.interval))),
        number("n", against(lambda difference: str(difference.n_questions))),
        number("calls", lambda strategy: NOTHING if strategy.calls is None else f"{strategy.calls:,}", spare=True),
        number("US$", cost, spare=True),
    ]
    notes = [
        "Without passes.",
        "+/-: against the mean of the shared samples, on n questions that both have; interval of a sign-flip test.",
    ]
    return table_of(strategies, columns, notes=notes)


def doubts(strategy: "StrategyScore") -> list[str]:
    """Say why there is no verdict on a strategy, and which questions its comparison with the samples leaves out."""
    against = strategy.against
    if against is None:
        return []
    why = [f"no verdict, since {against.why_withheld}"] if against.why_withheld else []
    return [*why, *left_out(against)]


def left_out(against: Any) -> Iterator[str]:
    """Say which questions of a comparison with samples count for neither: an answer that failed is no gain."""
    if against.n_only_strategy:
        yield f"{counted(against.n_only_strategy, 'question')} left out, to which the samples have no answer"
    if against.n_only_reference:
        yield f"{counted(against.n_only_reference, 'question')} left out, to which it has no answer"


def replies_table(replies: Sequence[Row]) -> Table:
    """Show counts over benchmarks for each run and judge, and the change of their mean under other null policies."""
    runs = [of_run for _, of_run in grouped(replies, lambda row: (row["run_id"], row["judge"]))]

    def total(title: Cell, name: str) -> Column:
        is_nothing = not any(row[name] for row in replies)
        return number(title, lambda rows: f"{sum(row[name] for row in rows):,}", spare=is_nothing)

    def moved(policy: str) -> Callable[[Sequence[Row]], Cell]:
        def cell(rows: Sequence[Row]) -> Cell:
            values = [less(row[policy], row["legacy"]) for row in rows]
            known_values = [value for value in values if value is not None]
            if not known_values or len(known_values) < len(values):
                return "undefined"
            return signed(math.fsum(known_values) / len(known_values))

        return cell

    several = len({rows[0]["run_id"] for rows in runs}) > 1
    names = ("answers", "refused", "filtered", "truncated", "empty")
    columns = [
        *([text("run", lambda rows: f"{rows[0]['model']} {rows[0]['run_tag']}", folds=True)] if several else []),
        text("judge", lambda rows: rows[0]["judge"], folds=True),
        *(total(name, f"n_{name}") for name in names),
        total(("out of", "scale"), "n_out_of_scale"),
        total("retried", "n_retried"),
        number(("mean", "under", "zero"), moved("zero")),
        number(("mean", "under", "strict"), moved("strict")),
    ]
    return table_of(runs, columns)
