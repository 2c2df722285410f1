"""Scores in full: a line for each run, benchmark and judge; statistics over runs; judges; replies."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from shaberi_dagster.reports.figures import (
    counted,
    decimals,
    interval,
    is_number,
    signed,
    signed_interval,
)
from shaberi_dagster.reports.report import NOTHING, Block, Cell, Column, Heading, Table, number, table_of, text
from shaberi_dagster.reports.score_report import ScoreReport
from shaberi_dagster.reports.scores import (
    MEAN_OF,
    OVERALL,
    JudgeMean,
    JudgePair,
    Replies,
    RunMean,
    RunStatistic,
    ScoreRow,
    benchmark_order,
    grouped,
    less,
)
from shaberi_dagster.statistics.intervals import Estimate

if TYPE_CHECKING:
    from shaberi_dagster.reports.ensemble import Against, StrategyScore

_FEWEST_FOR_A_MARGIN = 3  # the quantile for two runs is 12.7: ±9 of scores that are a point apart
_QUESTIONS = ("95 % CI", "over")
_AGAINST_BEST: Mapping[str, Cell] = {
    "best": "best",
    "tied": ("no difference", "shown"),
    "below": "below",
    "withheld": "no verdict",
}
_LENIENCY = ("adjusted", "for", "leniency")
_PAIRS_TITLE = "Agreement of these judges on all answers of the lake that both scored"


def run_blocks(report: ScoreReport, *, several: bool) -> Iterator[Block]:
    """A line for each benchmark and judge with all counts: all runs that were asked the same in one table, or each run.

    Args:
        report: The scores.
        several: One table for all runs.
    """
    for means in report.groups:
        if len(report.groups) > 1 and several:
            yield Heading(f"Asked {'; '.join(means[0].asked)}")
        if several:
            columns = [_model(), _tag("run tag"), *_details(report)]
            yield _with_bold_means(columns, [(mean, row) for mean in means for row in (*mean.rows, None)])
            continue
        for (model, run_tag), own in grouped(means, lambda mean: (mean.model, mean.run_tag)):
            yield Heading(model, run_tag)
            yield _with_bold_means(_details(report), [(mean, row) for mean in own for row in (*mean.rows, None)])


def _details(report: ScoreReport) -> list[Column]:
    """Columns of a benchmark's row, or of the mean's, which has None in its place."""
    rows, ties = report.rows, report.ties

    def either(of_row: Callable[[ScoreRow], Cell], of_mean: Callable[[RunMean], Cell]) -> Callable[[Any], Cell]:
        return lambda line: of_mean(line[0]) if line[1] is None else of_row(line[1])

    columns = [
        text("question set", either(_question_set, lambda mean: mean.label)),
        text("judge", either(lambda row: row.judge, lambda mean: mean.judge), folds=True),
        number("score", either(lambda row: decimals(row.score), lambda mean: decimals(mean.mean))),
    ]
    # Either of them says how questions differ; narrow terminals have no room for both.
    if any(row.over_questions for row in rows):
        title = (*_QUESTIONS, report.over)
        columns.append(number(title, either(lambda row: _ends(row.over_questions), _mean_ends)))
    else:
        columns.append(number(("sd over", "questions"), either(lambda row: decimals(row.sd_questions), lambda _: "")))
    if any(row.baseline_score is not None for row in rows):
        columns += [
            number(
                "baseline",
                either(lambda row: decimals(row.baseline_score), lambda mean: decimals(mean.baseline_mean)),
            ),
            number("change", either(lambda row: signed(row.change), _mean_change)),
        ]
    if any(row.leniency is not None for row in rows):
        columns.append(
            number(
                _LENIENCY,
                either(lambda row: decimals(row.adjusted_score), lambda mean: decimals(mean.adjusted_mean)),
                spare=True,
            )
        )
    columns += [
        number("scored", either(lambda row: f"{row.n_scored}/{row.n_planned}", _scored)),
        number("failed", either(lambda row: str(row.n_failed), lambda mean: str(mean.n_failed)), spare=True),
        number(
            "excluded",
            either(lambda row: str(row.n_excluded), lambda mean: str(sum(row.n_excluded for row in mean.rows))),
            spare=True,
        ),
    ]
    if any(row.n_out_of_scale for row in rows):
        out = either(lambda row: str(row.n_out_of_scale), lambda mean: str(mean.n_out_of_scale))
        columns.append(number(("out of", "scale"), out))
    if ties:
        columns.append(number(("against", "best"), either(lambda _: "", _against_best), spare=True))
    return columns


def statistics_blocks(report: ScoreReport, *, several: bool) -> Iterator[Block]:
    """A line for each benchmark and overall, judge by judge; all runs in one table, or a table for each."""
    statistics = report.statistics
    columns = [
        text("benchmark", lambda row: row.benchmark),
        text("judge", lambda row: row.judge, folds=True),
        number("mean", lambda row: decimals(row.mean)),
        number(("sd", "between", "runs"), lambda row: decimals(row.sd)),
        number(("95 % CI", "between", "runs"), margin),
        *(
            [number((*_QUESTIONS, report.over), lambda row: _ends(row.over_questions))]
            if any(row.over_questions for row in statistics)
            else []
        ),
        number(
            ("range", "over runs"),
            lambda row: f"{decimals(row.minimum)}–{decimals(row.maximum)}" if row.n_runs > 1 else NOTHING,
        ),
        number("runs", lambda row: str(row.n_runs)),
    ]
    groups = grouped(statistics, lambda row: (row.model, row.base_tag))
    lines = {key: _in_order(rows) for key, rows in groups}
    if several and lines:
        every = [row for rows in lines.values() for row in rows]
        yield _statistics_table([_model(), _tag("base tag", "base_tag"), *columns], every, every)
    elif lines:
        for (model, base_tag), rows in lines.items():
            yield Heading(model, base_tag)
            yield _statistics_table(columns, rows, statistics)


def judge_blocks(report: ScoreReport) -> Iterator[Block]:
    """Means over judges, and how far judges agree."""
    order = benchmark_order()
    place = {row.question_set: order(row) for row in report.rows}
    groups = grouped(report.judge_means, lambda one: one.asked)
    for asked, means in groups:
        own = [one for one in means if one.benchmark != OVERALL]
        sets = sorted({one.question_sets[0] for one in own}, key=lambda name: (place[name], name))
        by_run = {(one.model, one.run_tag, one.question_sets[0]): one for one in own}

        yield Heading(_judges_title(own), f"asked {'; '.join(asked)}" if len(groups) > 1 else "")
        columns = [
            _model(folds=True),
            _tag("run tag"),
            *(number(name, partial(_judge_mean, by_run, name)) for name in sets),
            number("mean", lambda one: decimals(one.score)),
            number("of", lambda one: str(len(one.question_sets))),
            number(_LENIENCY, lambda one: decimals(one.adjusted_score), spare=True),
            number("scored", lambda one: f"{one.n_scored}/{one.n_planned}"),
            number("failed", lambda one: str(one.n_failed), spare=True),
            number("excluded", lambda one: str(one.n_excluded), spare=True),
        ]
        yield table_of([one for one in means if one.benchmark == OVERALL], columns)
    if report.judge_pairs:
        yield Heading(_PAIRS_TITLE)
        yield _pairs_table(report.judge_pairs)


def strategy_blocks(strategies: "Sequence[StrategyScore]") -> Iterator[Block]:
    """Lines of each strategy, benchmark by benchmark and judge by judge, with its gain over the samples; run by run."""
    for (model, run_tag), own in grouped(strategies, lambda one: (one.model, one.run_tag)):
        yield Heading("Strategies", f"{model} {run_tag}")
        yield _strategies_table(own)


def _strategies_table(strategies: "Sequence[StrategyScore]") -> Table:
    def against(cell: "Callable[[Against], Cell]") -> "Callable[[StrategyScore], Cell]":
        return lambda one: cell(one.against) if one.against else ""

    def cost(one: "StrategyScore") -> str:
        return NOTHING if one.cost_usd is None else f"{one.cost_usd:.2g}{'+' * bool(one.calls_without_cost)}"

    columns = [
        text("benchmark", lambda one: one.benchmark),
        text("judge", lambda one: one.judge, folds=True),
        text("strategy", lambda one: one.strategy),
        number("score", lambda one: decimals(one.score)),
        number("95 % CI", lambda one: interval(one.interval)),
        number("scored", lambda one: f"{one.n_scored}/{one.n_planned}"),
        number("+/-", against(lambda one: signed(one.difference))),
        number("95 % CI", against(lambda one: signed_interval(one.interval))),
        number("n", against(lambda one: str(one.n_questions))),
        number("calls", lambda one: f"{one.calls:,}", spare=True),
        number("US$", cost, spare=True),
    ]
    notes = [
        "Without passes; of rules the accuracy, in which a failure or an abstention is wrong.",
        "+/-: against the mean of the shared samples, on n questions that both have; interval of a sign-flip test.",
    ]
    for one in strategies:
        doubts = [*left_out(one.against)] if one.against else []
        if one.against and one.against.why_withheld:
            doubts.insert(0, f"no verdict, since {one.against.why_withheld}")
        if doubts:
            notes.append(f"{one.strategy} on {one.benchmark} by {one.judge}: {'; '.join(doubts)}.")
    return table_of(strategies, columns, notes=notes)


def left_out(one: Any) -> Iterator[str]:
    """Say which questions of a comparison with samples count for neither: an answer that failed is no gain."""
    if one.n_only_strategy:
        yield f"{counted(one.n_only_strategy, 'question')} left out, to which the samples have no answer"
    if one.n_only_reference:
        yield f"{counted(one.n_only_reference, 'question')} left out, to which it has no answer"


def _model(**options: Any) -> Column:
    return text("model", lambda one: _named(one).model, **options)


def _tag(title: str, field: str = "run_tag") -> Column:
    return text(title, lambda one: getattr(_named(one), field))


def _named(one: Any) -> Any:
    """What has a model: a row itself, or the mean of a line with its row."""
    return one[0] if isinstance(one, tuple) else one


# --- cells of scores -------------------------------------------------------------------------------------------------


def _with_bold_means(columns: Sequence[Column], lines: Sequence[tuple[RunMean, ScoreRow | None]]) -> Table:
    return table_of(lines, columns, bold=[index for index, (_, row) in enumerate(lines) if row is None])


def _mean_ends(mean: RunMean) -> str:
    return _ends(mean.over_questions)


def _mean_change(mean: RunMean) -> str:
    return signed(less(mean.mean, mean.baseline_mean))


def _ends(estimate: Estimate | None) -> str:
    return interval(estimate.interval if estimate else None)


def _question_set(row: ScoreRow) -> str:
    return row.asked if row.question_set.startswith(row.benchmark) else f"{row.benchmark} ({row.asked})"


def _scored(mean: RunMean) -> str:
    return f"{sum(row.n_scored for row in mean.rows)}/{sum(row.n_planned for row in mean.rows)}"


def _against_best(mean: RunMean) -> Cell:
    return _AGAINST_BEST[mean.tie.against_best] if mean.tie else NOTHING


# --- statistics, judges, replies -------------------------------------------------------------------------------------


def _in_order(rows: Sequence[RunStatistic]) -> list[RunStatistic]:
    return [row for _, own in grouped(rows, lambda row: row.judge) for row in sorted(own, key=benchmark_order())]


def _statistics_table(columns: Sequence[Column], rows: Sequence[RunStatistic], every: Sequence[RunStatistic]) -> Table:
    """The means of benchmarks say of how many; below is what of the spread is none."""
    table = table_of(rows, columns, bold=[index for index, row in enumerate(rows) if row.benchmark == OVERALL])
    benchmarks = [_of_benchmarks(row, every) for row in rows]
    named = [
        Column(one.title, cells=benchmarks, left=True) if one.title == "benchmark" else one for one in table.columns
    ]
    shared = {row.benchmark: row for row in rows if row.n_shared}
    notes = [
        f"{row.n_shared:,} of the {row.n_replies:,} replies (answers and judgements) of {name} are the reply to "
        "another one's call: between them nothing can differ, and the sd is too small."
        for name, row in shared.items()
    ]
    return Table(named, table.bold, notes)


def _of_benchmarks(row: RunStatistic, every: Sequence[RunStatistic]) -> str:
    if row.benchmark != OVERALL:
        return row.benchmark
    same = [one for one in every if (one.model, one.base_tag, one.judge) == (row.model, row.base_tag, row.judge)]
    return f"{MEAN_OF}{len(same) - 1}"


def margin(row: RunStatistic) -> str:
    """Half the width of the interval between runs, where there are enough of them."""
    shown = row.n_runs >= _FEWEST_FOR_A_MARGIN and is_number(row.margin_of_error)
    return f"±{decimals(row.margin_of_error)}" if shown else NOTHING


def _judge_mean(by_run: Mapping[tuple[str, str, str], JudgeMean], question_set: str, one: JudgeMean) -> str:
    found = by_run.get((one.model, one.run_tag, question_set))
    return decimals(found.score if found else None)


def _judges_title(means: Sequence[JudgeMean]) -> str:
    """Over which judges the means are."""
    by_set = dict.fromkeys((one.question_sets[0], ", ".join(one.judges)) for one in means if one.score is not None)
    judges = {names for _, names in by_set}
    if not judges:
        return "Mean over judges: no judge is shared by all compared runs"
    said = judges.pop() if len(judges) == 1 else "; ".join(f"{name} {who}" for name, who in by_set)
    return f"Mean over the judges that all compared runs share: {said}"


def _pairs_table(pairs: Sequence[JudgePair]) -> Table:
    columns = [
        text("judge a", lambda one: one.judge_a, folds=True),
        text("judge b", lambda one: one.judge_b),
        number("answers", lambda one: f"{one.n:,}"),
        number("Pearson", lambda one: decimals(one.pearson)),
        number("Spearman", lambda one: decimals(one.spearman)),
        number("equal", lambda one: f"{one.exact_share:.0%}"),
        number("a - b", lambda one: signed(one.mean_difference)),
    ]
    return table_of(pairs, columns)


def replies_table(replies: Sequence[Replies]) -> Table:
    """A line for each run and judge: counts over benchmarks, and how far their mean moves under other null policies."""
    runs = [own for _, own in grouped(replies, lambda one: (one.run_id, one.judge))]

    def total(title: Cell, name: str) -> Column:
        is_nothing = not any(getattr(one, name) for one in replies)
        return number(title, lambda own: f"{sum(getattr(one, name) for one in own):,}", spare=is_nothing)

    def moved(policy: str) -> Callable[[Sequence[Replies]], Cell]:
        def cell(own: Sequence[Replies]) -> Cell:
            values = [less(getattr(one, policy), one.legacy) for one in own]
            known = [value for value in values if value is not None]
            return signed(math.fsum(known) / len(known)) if known and len(known) == len(values) else "undefined"

        return cell

    several = len({own[0].run_id for own in runs}) > 1
    names = ("answers", "refused", "filtered", "truncated", "empty")
    columns = [
        *([text("run", lambda own: f"{own[0].model} {own[0].run_tag}", folds=True)] if several else []),
        text("judge", lambda own: own[0].judge, folds=True),
        *(total(name, f"n_{name}") for name in names),
        total(("out of", "scale"), "n_out_of_scale"),
        total("retried", "n_retried"),
        number(("mean", "under", "zero"), moved("zero")),
        number(("mean", "under", "strict"), moved("strict")),
    ]
    return table_of(runs, columns)
