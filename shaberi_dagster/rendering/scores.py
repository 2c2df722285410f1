"""Scores of runs, as they are shown."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

from shaberi_dagster.benchmarks.registry import Benchmark
from shaberi_dagster.rendering.document import (
    Block,
    Cell,
    Column,
    ColumnOf,
    Document,
    Heading,
    Sentences,
    Table,
    number,
    table_of,
    text,
)
from shaberi_dagster.rendering.figures import NOTHING, counted, decimals, interval, is_number, signed
from shaberi_dagster.rendering.terminal import table_width
from shaberi_dagster.reports.reading import POLICIES
from shaberi_dagster.reports.scores import (
    MEAN_OF,
    OVERALL,
    JudgeMean,
    JudgePair,
    Replies,
    RunMean,
    RunStatistic,
    ScoreReport,
    ScoreRow,
    TokenRow,
    Unfinished,
    benchmark_order,
    grouped,
    less,
)
from shaberi_dagster.statistics.intervals import Estimate

_UNKNOWN = "unknown"
_MOST_UNFINISHED = 10
_MOST_TOKEN_LINES = 40
_FEWEST_FOR_A_MARGIN = 3  # the quantile for two runs is 12.7: ±9 of scores that are a point apart
_QUESTIONS = ("95 % CI", "over")
_AGAINST_BEST: Mapping[str, Cell] = {"best": "best", "tied": ("no difference", "shown"), "below": "below"}
_LENIENCY = ("adjusted", "for", "leniency")
_PAIRS_TITLE = "Agreement of these judges on all answers of the lake that both scored"
_TOKENS = ("prompt_tokens", "completion_tokens")
_RARE_TOKENS = ("cached_tokens", "reasoning_tokens")


@dataclass(frozen=True)
class ScoreDocument(Document):
    """Scores with their denominators: several runs are one row each with a column per benchmark.

    Where that does not fit, for a single run, and in a document without a width, each benchmark is a row.
    """

    csv_columns = (
        *("row", "run_id", "model", "run_tag", "judge", "benchmark", "question_set", "pipeline", "null_policy"),
        *("score", "ci_questions_lower", "ci_questions_upper", "n_questions", "baseline_score", "change"),
        *("leniency", "adjusted_score", "sd_questions", "n_planned", "n_scored", "n_failed", "n_excluded"),
        *("judge_prompt_hash", "judge_config_hash", "pipeline_hash"),
        *("n_benchmarks", "against_best", "p_value", "n_compared_runs", "n_common_questions"),
        *("n_runs", "sd_runs", "margin_of_error", "minimum", "maximum", "values"),
        *("other_judge", "pearson", "spearman", "exact_share", "mean_difference"),
        *("state", "text"),
        *("stage", "calls", *_TOKENS, *_RARE_TOKENS),
        *("calls_without_usage", "cost_usd", "calls_without_price", "price_sources", "first_day", "last_day"),
        *("n_out_of_scale", "n_asked", "n_categories", "over_categories", "n_answers", "n_replies", "n_shared"),
        *("n_refused", "n_filtered", "n_truncated", "n_empty", "n_retried", "legacy", "zero", "strict"),
    )

    report: ScoreReport

    def blocks(self, width: int | None) -> Iterator[Block]:
        """Statistics over runs, scores, judges, what the numbers are, what became of the replies, and tokens."""
        report = self.report
        yield from self._statistics(several=width is None)
        if not report.rows:
            yield Sentences(["No scores."])
        for group in report.groups:
            yield from self._group(group, width)
        yield from self._judges()
        yield Sentences(list(self._notes()), "note")
        if report.replies:
            yield Heading("Replies, and what missing scores would change")
            yield _replies_table(report.replies)
        if report.tokens:
            yield _token_table(report.tokens, whole=width is None)

    # --- scores ---

    def _group(self, means: Sequence[RunMean], width: int | None) -> Iterator[Block]:
        """Runs that were asked the same."""
        runs = grouped(means, lambda mean: (mean.model, mean.run_tag))
        if len(self.report.groups) > 1:
            yield Heading(f"Asked {'; '.join(means[0].asked)}")
        if width is None:
            columns = [_model(), _tag("run tag"), *self._details()]
            yield _with_bold_means(columns, [(mean, row) for mean in means for row in (*mean.rows, None)])
            return
        grid = self._grid(means)
        if len({(row.model, row.run_tag) for row in self.report.rows}) > 1 and table_width(grid) <= width:
            yield grid
            return
        for (model, run_tag), own in runs:
            yield Heading(model, run_tag)
            yield _with_bold_means(self._details(), [(mean, row) for mean in own for row in (*mean.rows, None)])

    def _grid(self, means: Sequence[RunMean]) -> Table:
        keys = dict.fromkeys(
            _column_key(row)
            for row in sorted(
                (row for mean in means for row in mean.rows), key=lambda row: (benchmark_order(row), row.question_set)
            )
        )
        last = means[-1]

        def of_benchmark(key: tuple[str, ...]) -> Callable[[RunMean], Cell]:
            return lambda mean: (
                tuple(line for row in mean.rows if _column_key(row) == key for line in _lines(row)) or (NOTHING,)
            )

        def name(mean: RunMean) -> Cell:
            lines = (mean.model, mean.run_tag, f"judge {mean.judge}")
            return lines if mean is last else (*lines, "")  # a blank line between runs

        columns = [
            text("model, tag, judge", name, folds=True),
            *(number(key, of_benchmark(key)) for key in keys),
            number("mean", _mean_lines, style="bold"),
            *([number(("against", "best"), _against_best)] if self.report.ties else []),
            number("failed", lambda mean: str(mean.n_failed)),
        ]
        return table_of(means, columns)

    def _details(self) -> list[ColumnOf]:
        """Columns of a benchmark's row, or of the mean's, which has None in its place."""
        rows, ties = self.report.rows, self.report.ties

        def either(of_row: Callable[[ScoreRow], Cell], of_mean: Callable[[RunMean], Cell]) -> Callable[[Any], Cell]:
            return lambda line: of_mean(line[0]) if line[1] is None else of_row(line[1])

        columns = [
            text("question set", either(_question_set, lambda mean: mean.label)),
            text("judge", either(lambda row: row.judge, lambda mean: mean.judge), folds=True),
            number("score", either(lambda row: decimals(row.score), lambda mean: decimals(mean.mean))),
        ]
        # Either of them says how questions differ; narrow terminals have no room for both.
        if any(row.over_questions for row in rows):
            title = (*_QUESTIONS, self.report.over)
            columns.append(number(title, either(lambda row: _ends(row.over_questions), _mean_ends)))
        else:
            columns.append(
                number(("sd over", "questions"), either(lambda row: decimals(row.sd_questions), lambda _: ""))
            )
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
                )
            )
        columns += [
            number("scored", either(lambda row: f"{row.n_scored}/{row.n_planned}", _scored)),
            number("failed", either(lambda row: str(row.n_failed), lambda mean: str(mean.n_failed))),
            number(
                "excluded",
                either(lambda row: str(row.n_excluded), lambda mean: str(sum(row.n_excluded for row in mean.rows))),
            ),
        ]
        if any(row.n_out_of_scale for row in rows):
            out = either(lambda row: str(row.n_out_of_scale), lambda mean: str(mean.n_out_of_scale))
            columns.append(number(("out of", "scale"), out))
        if ties:
            columns.append(number(("against", "best"), either(lambda _: "", _against_best)))
        return columns

    # --- statistics over runs ---

    def _statistics(self, *, several: bool) -> Iterator[Block]:
        """A line for each benchmark and overall, judge by judge; all runs in one table, or a table for each."""
        statistics = self.report.statistics
        columns = [
            text("benchmark", lambda row: row.benchmark),
            text("judge", lambda row: row.judge, folds=True),
            number("mean", lambda row: decimals(row.mean)),
            number(("sd", "between", "runs"), lambda row: decimals(row.sd)),
            number(("95 % CI", "between", "runs"), _margin),
            *(
                [number((*_QUESTIONS, self.report.over), lambda row: _ends(row.over_questions))]
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

    # --- judges ---

    def _judges(self) -> Iterator[Block]:
        report = self.report
        place = {row.question_set: benchmark_order(row) for row in report.rows}
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
                number(_LENIENCY, lambda one: decimals(one.adjusted_score)),
                number("scored", lambda one: f"{one.n_scored}/{one.n_planned}"),
                number("failed", lambda one: str(one.n_failed)),
                number("excluded", lambda one: str(one.n_excluded)),
            ]
            yield table_of([one for one in means if one.benchmark == OVERALL], columns)
        if report.judge_pairs:
            yield Heading(_PAIRS_TITLE)
            yield _pairs_table(report.judge_pairs)

    # --- notes ---

    def _notes(self) -> Iterator[str]:
        """What the numbers are, what does not compare, and what is not finished."""
        report = self.report
        present = {row.benchmark for row in report.rows} | {row.benchmark for row in report.statistics}
        scales = [_scale(one) for name, one in report.benchmarks.items() if name in present]
        yield f"Null policy {report.policy}: {POLICIES[report.policy]}."
        yield f"Pass pipeline: {report.pipeline}."
        if scales:
            yield f"Scales: {'; '.join(scales)}."
        yield "Means over benchmarks are unweighted."
        yield from self._uncertainty_notes()
        yield from report.remarks
        if outside := sum(row.n_out_of_scale for row in report.rows):
            yield f"{counted(outside, 'score')} outside of the scale: they count as they are."
        sets = {_column_key(row) for row in report.rows}
        mixed = sorted(name for name in present if sum(key[0] == name for key in sets) > 1)
        if mixed:
            yield f"Scores over different question sets are not comparable: {', '.join(mixed)}."
        yield from _unfinished_notes(report.unfinished)

    def _uncertainty_notes(self) -> Iterator[str]:
        report = self.report
        if any(row.over_questions for row in report.rows):
            yield (
                f"95 % CI over {report.over} (a–b): how general a score is, samples of a question as one, "
                "within the scale."
            )
        if report.over == "questions":
            wider = [row for row in report.rows if row.over_categories]
            for name, rows in grouped(wider, lambda row: row.benchmark):
                ratio = median(row.over_categories or 1 for row in rows)
                yield (
                    f"{name} has {rows[0].n_categories} categories: if they are a sample as well, the interval is "
                    f"{decimals(ratio)} times as wide{' in the median' if len(rows) > 1 else ''} (--over categories)."
                )
        if any(_margin(row) != NOTHING for row in report.statistics):
            yield "95 % CI between runs (±): how stable a score is when the same is asked again."
        if any(row.baseline_score is not None for row in report.rows):
            yield "Signed numbers are the change from baseline, the scores without passes."
        if report.ties:
            yield (
                "Against best: below where a difference from the judge's best run is shown; where none is, they need "
                "not be equal. Paired t test of the mean over benchmarks on common questions, Holm's adjustment for "
                "all pairs, level 0.05."
            )
        if any(row.leniency is not None for row in report.rows):
            yield (
                "Adjusted for leniency: less what the judge gives beyond the other judges of the same answers, by "
                "least squares; over all judges of a run, so that runs with different judges compare."
            )

    # --- for programs ---

    def data(self) -> Mapping[str, Any]:
        """One document with everything that the table has, in full; what is not known is null."""
        report = self.report
        return {
            "policy": report.policy,
            "pipeline": report.pipeline,
            "rows": [_row(row) for row in report.rows],
            "means": [_mean(mean) for mean in report.means],
            "statistics": [_statistic(row) for row in report.statistics],
            "judge_means": [asdict(one) for one in report.judge_means],
            "judge_pairs": [asdict(one) for one in report.judge_pairs],
            "unfinished": [asdict(one) for one in report.unfinished],
            "tokens": [asdict(row) for row in report.tokens],
            "remarks": list(report.remarks),
            "over": report.over,
            "replies": [asdict(one) for one in report.replies],
        }

    def records(self) -> Iterator[Mapping[str, Any]]:
        """Lines of which `row` says what they are.

        `score`; `mean` over benchmarks; `statistic` over runs (then `run_tag` is the base tag); `judge_mean` over
        judges (`judge` names them); `judge_pair`; `unfinished`; `remark`; `tokens`; `replies`.
        """
        report = self.report
        chosen = {"pipeline": report.pipeline, "null_policy": report.policy}
        for row in report.rows:
            yield {"row": "score"} | _row(row)
        for mean in report.means:
            cells = _mean(mean) | chosen | {"benchmark": OVERALL, "question_set": "; ".join(mean.asked)}
            renamed = {"mean": "score", "baseline_mean": "baseline_score", "adjusted_mean": "adjusted_score"}
            yield {"row": "mean"} | {renamed.get(name, name): value for name, value in cells.items()}
        for statistic in report.statistics:
            cells = _statistic(statistic) | chosen
            cells |= {"run_tag": cells.pop("base_tag"), "score": cells.pop("mean"), "sd_runs": cells.pop("sd")}
            yield {"row": "statistic"} | cells | {"values": " ".join(map(repr, statistic.values))}
        for one in report.judge_means:
            named = {"judge": ", ".join(one.judges), "question_set": ", ".join(one.question_sets)}
            yield {"row": "judge_mean"} | asdict(one) | chosen | named
        for pair in report.judge_pairs:
            named = {"judge": pair.judge_a, "other_judge": pair.judge_b}
            yield {"row": "judge_pair", **named, "n_scored": pair.n} | asdict(pair)
        for part in report.unfinished:
            yield {"row": "unfinished"} | asdict(part) | {"text": str(part)}
        for remark in report.remarks:
            yield {"row": "remark", "text": remark}
        for tokens in report.tokens:
            yield {"row": "tokens"} | asdict(tokens) | {"price_sources": ", ".join(tokens.price_sources)}
        for replies in report.replies:
            yield {"row": "replies"} | asdict(replies)


def _model(**options: Any) -> ColumnOf:
    return text("model", lambda one: _named(one).model, **options)


def _tag(title: str, field: str = "run_tag") -> ColumnOf:
    return text(title, lambda one: getattr(_named(one), field))


def _named(one: Any) -> Any:
    """What has a model: a row itself, or the mean of a line with its row."""
    return one[0] if isinstance(one, tuple) else one


# --- cells of scores -------------------------------------------------------------------------------------------------


def _with_bold_means(columns: Sequence[ColumnOf], lines: Sequence[tuple[RunMean, ScoreRow | None]]) -> Table:
    return table_of(lines, columns, bold=[index for index, (_, row) in enumerate(lines) if row is None])


def _lines(row: ScoreRow) -> list[str]:
    """Score, interval, change and counts, one below the other."""
    known = [cell for cell in (_ends(row.over_questions), signed(row.change)) if cell != NOTHING]
    counts = {"failed": row.n_failed, "excluded": row.n_excluded, "out of scale": row.n_out_of_scale}
    said = [f"{n} {what}" for what, n in counts.items() if n]
    return [decimals(row.score), *known, f"{row.n_scored}/{row.n_planned}", *said]


def _mean_lines(mean: RunMean) -> Cell:
    known = [cell for cell in (_mean_ends(mean), _mean_change(mean)) if cell != NOTHING]
    return (decimals(mean.mean), *known, mean.label)


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


def _column_key(row: ScoreRow) -> tuple[str, ...]:
    """Benchmark, version of its question set without the benchmark's name, and how many were asked if not all."""
    asked = () if row.n_asked is None else (f"{row.n_asked} asked",)
    return row.benchmark, row.question_set.removeprefix(row.benchmark), *asked


# --- statistics, judges, replies -------------------------------------------------------------------------------------


def _in_order(rows: Sequence[RunStatistic]) -> list[RunStatistic]:
    return [row for _, own in grouped(rows, lambda row: row.judge) for row in sorted(own, key=benchmark_order)]


def _statistics_table(
    columns: Sequence[ColumnOf], rows: Sequence[RunStatistic], every: Sequence[RunStatistic]
) -> Table:
    """The means of benchmarks say of how many; below is what of the spread is none."""
    table = table_of(rows, columns, bold=[index for index, row in enumerate(rows) if row.benchmark == OVERALL])
    benchmarks = [_of_benchmarks(row, every) for row in rows]
    named = [Column(one.title, benchmarks, left=True) if one.title == "benchmark" else one for one in table.columns]
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


def _margin(row: RunStatistic) -> str:
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


def _replies_table(replies: Sequence[Replies]) -> Table:
    """A line for each run and judge: counts over benchmarks, and how far their mean moves under other null policies."""
    runs = [own for _, own in grouped(replies, lambda one: (one.run_id, one.judge))]

    def total(name: str) -> Callable[[Sequence[Replies]], Cell]:
        return lambda own: f"{sum(getattr(one, name) for one in own):,}"

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
        *(number(name, total(f"n_{name}")) for name in names),
        number(("out of", "scale"), total("n_out_of_scale")),
        number("retried", total("n_retried")),
        number(("mean", "under", "zero"), moved("zero")),
        number(("mean", "under", "strict"), moved("strict")),
    ]
    return table_of(runs, columns)


# --- tokens ----------------------------------------------------------------------------------------------------------


def _token_table(tokens: Sequence[TokenRow], *, whole: bool) -> Table:
    """A line for each run, stage and benchmark; where that would be too many, for each run and stage; and the total."""
    by_benchmark = whole or len(tokens) <= _MOST_TOKEN_LINES
    several = len({(row.model, row.run_tag) for row in tokens}) > 1
    lines = grouped(tokens, lambda row: (row.model, row.run_tag, row.stage, row.benchmark if by_benchmark else ""))
    groups = [*(rows for _, rows in lines), list(tokens)]
    last = len(groups) - 1

    def name(of_first: Callable[[TokenRow], str], total: str = "") -> Callable[[list[TokenRow]], Cell]:
        return lambda rows: total if rows is groups[last] else of_first(rows[0])

    def known(field: str) -> Callable[[list[TokenRow]], Cell]:
        def cell(rows: list[TokenRow]) -> Cell:
            unknown = sum(row.calls_without_usage for row in rows)
            return _sum_of([getattr(row, field) for row in rows], unknown, "{:,.0f}")

        return cell

    def cost(rows: list[TokenRow]) -> Cell:
        return _sum_of([row.cost_usd for row in rows], sum(row.calls_without_price for row in rows), "{:,.4f}")

    # Few endpoints tell these; a call without them is no call without usage.
    rare = [field for field in _RARE_TOKENS if any(getattr(row, field) for row in tokens)]
    columns = [
        *([text("run", name(lambda row: f"{row.model} {row.run_tag}", "total"), folds=True)] if several else []),
        text("stage", name(lambda row: row.stage, "" if several else "total")),
        *([text("benchmark", name(lambda row: row.benchmark))] if by_benchmark else []),
        number("calls", lambda rows: f"{sum(row.calls for row in rows):,}"),
        *(number(field.replace("_", " "), known(field)) for field in (*_TOKENS, *rare)),
        number("cost in USD", cost),
    ]
    return table_of(groups, columns, bold=[last], notes=[_price_note(tokens)])


def _sum_of(values: Sequence[float | None], n_unknown: int, form: str) -> str:
    """The sum of what is known, and whether something is not."""
    known = [value for value in values if is_number(value)]
    if not known:
        return _UNKNOWN if n_unknown else NOTHING
    return form.format(math.fsum(known)) + (f" + {_UNKNOWN}" if n_unknown else "")


def _price_note(tokens: Sequence[TokenRow]) -> str:
    """Where the prices are from, of which dates they are, and how many calls are not in the sum."""
    sources = sorted({source for row in tokens for source in row.price_sources})
    first, last = min(row.first_day for row in tokens), max(row.last_day for row in tokens)
    dates = first if first == last else f"{first} to {last}"
    unknown = sum(row.calls_without_price for row in tokens)
    note = f"Prices: {', '.join(sources)}, at each call's date" if sources else "Prices: none is known"
    note += f" ({dates})" if dates else ""
    if unknown:
        note += f"; {unknown:,} call{'s' if unknown > 1 else ''} of unknown price or tokens are not in the sum"
    return f"{note}."


# --- sentences -------------------------------------------------------------------------------------------------------


def _unfinished_notes(unfinished: Sequence[Unfinished]) -> list[str]:
    """A line for each run that has something that is not complete."""
    runs = grouped(unfinished, lambda one: (one.model, one.run_tag))
    lines = []
    for (model, run_tag), own in runs[:_MOST_UNFINISHED]:
        parts = []
        for (benchmark, state), ones in grouped(own, lambda one: (one.benchmark, one.state)):
            failures = "; ".join(filter(None, map(str, ones)))
            parts.append(f"{benchmark} {state}: {failures}" if failures else f"{benchmark} {state}")
        lines.append(f"Not complete: {model} {run_tag}: {'. '.join(parts)}.")
    if len(runs) > _MOST_UNFINISHED:
        lines.append(f"Not complete: {len(runs) - _MOST_UNFINISHED} more runs; `shaberi sql failures` tells why.")
    return lines


def _scale(benchmark: Benchmark) -> str:
    scale = f"{benchmark.name} {benchmark.scale_minimum}-{benchmark.scale_maximum}"
    factor = benchmark.reported_multiplier
    return f"{scale}, reported ×{factor:g}" if factor != 1 else scale


# --- plain data ------------------------------------------------------------------------------------------------------


def _row(row: ScoreRow) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(row).items() if name != "over_questions"}
    return (
        fields | _questions_interval(row.over_questions) | {"adjusted_score": row.adjusted_score, "change": row.change}
    )


def _mean(mean: RunMean) -> dict[str, Any]:
    names = {"model": mean.model, "run_tag": mean.run_tag, "judge": mean.judge}
    what = {"asked": list(mean.asked), "n_out_of_scale": mean.n_out_of_scale}
    numbers = {"mean": mean.mean, "n_benchmarks": mean.n_benchmarks, "baseline_mean": mean.baseline_mean}
    tie = mean.tie
    against = {
        "adjusted_mean": mean.adjusted_mean,
        "against_best": tie and tie.against_best,
        "p_value": tie and tie.p_value,
        "n_compared_runs": tie and tie.n_runs,
        "n_common_questions": tie and tie.n_common,
    }
    return names | numbers | _questions_interval(mean.over_questions) | against | what


def _statistic(row: RunStatistic) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(row).items() if name != "over_questions"}
    return fields | _questions_interval(row.over_questions)


def _questions_interval(estimate: Estimate | None) -> dict[str, Any]:
    """The 95 % interval over questions, and over how many questions it is."""
    return {
        "ci_questions_lower": estimate and estimate.interval.lower,
        "ci_questions_upper": estimate and estimate.interval.upper,
        "n_questions": estimate and estimate.n,
    }
