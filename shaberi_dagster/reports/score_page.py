"""Scores of runs, as they are shown: rankings, all lines in full, sentences, and plain data."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from operator import itemgetter
from statistics import fmean, median, stdev
from typing import Any

from shaberi_dagster.reports.blocks import (
    NO_INTERVAL,
    NOTHING,
    Bar,
    Block,
    Cell,
    Column,
    Document,
    Heading,
    Row,
    Rows,
    Sentences,
    Table,
    between,
    both_ends,
    counted,
    decimals,
    grouped,
    interval_of,
    is_number,
    known,
    listed,
    number,
    several,
    table_of,
    text,
    whole_percent,
)
from shaberi_dagster.reports.declared.cost import TOKENS, cost_line, cost_totals, stage_totals
from shaberi_dagster.reports.ranking import lines_at, remarks_on, standing_data
from shaberi_dagster.reports.requests import DEFAULT_VIEW, MISSING, POLICIES, ScoreView
from shaberi_dagster.reports.rows import (
    COUNTS,
    MEAN_OF,
    OVERALL,
    ROW_COLUMNS,
    benchmark_order,
    categories_sentence,
    interval_columns,
    is_open,
    mean_of,
    shared_sentence,
    subtract_or_none,
    sums_of,
    undecided_sentences,
)
from shaberi_dagster.reports.scores import ScoreReport
from shaberi_dagster.statistics.intervals import Interval
from shaberi_dagster.tasks.benchmarks.registry import Benchmark

_FEWEST_FOR_A_MARGIN = 3  # the quantile for two runs is 12.7: ±9 of scores that are a point apart
_MOST_UNFINISHED, _MOST_NOT_RANKED, _MOST_REUSED, _MOST_NAMED = 10, 10, 3, 3
_BEST, _FAILED = "bold green", "yellow"
_ROOM_FOR_MODELS, _ROOM_FOR_TAGS, _ROOM_FOR_TITLES = 20, 8, 10
"""So many columns of the terminal names get before benchmarks do."""

_UNDECIDED = number(("unde-", "cided"), lambda row: whole_percent(row["n_undecided"] / row["n_planned"]))
_OUT_OF_SCALE = number(("out of", "scale"), "n_out_of_scale", form="{}")


def _share(row: Row) -> str:
    return f"{row['n_scored']}/{row['n_planned']}"


# --- a line for each run, benchmark and judge ------------------------------------------------------------------------


def run_blocks(report: ScoreReport) -> Iterator[Block]:
    """Show a line for each benchmark and judge of each run with all counts, and their mean."""
    columns = _details(report.rows, report.over)
    for (model, run_tag), means in grouped(report.means, itemgetter("model", "run_tag")):
        yield Heading(model, run_tag)
        lines = [line for mean in means for line in (*map(_line, mean["rows"]), _mean_line(mean))]
        yield table_of(lines, columns, bold=[place for place, line in enumerate(lines) if "rows" in line])
    ends = [row["estimate"] for row in report.rows if is_number(row["score"])]
    if 0 < ends.count(None) < len(ends):
        yield Sentences([NO_INTERVAL], "note")


def _line(row: Row) -> Row:
    is_own = row["question_set"].startswith(row["benchmark"])
    label = row["asked"] if is_own else f"{row['benchmark']} ({row['asked']})"
    return {**row, **interval_columns(row["estimate"]), "label": label, "is_open": is_open(row)}


def _mean_line(mean: Row) -> Row:
    return {
        **mean,
        **sums_of(mean["rows"], COUNTS),
        "label": f"{MEAN_OF}{mean['n_benchmarks']}",
        "score": mean["mean"],
        "upper": mean["mean_upper"],
        "baseline_score": mean["baseline_mean"],
        "adjusted_score": mean["adjusted_mean"],
        "change": subtract_or_none(mean["mean"], mean["baseline_mean"]),
        "sd_questions": "",
        "is_open": False,
    }


def _details(rows: Rows, over: str) -> list[Column]:
    """List the columns of a benchmark's row, which are those of the mean as well."""
    has = {name: any(row[name] is not None for row in rows) for name in ("estimate", "baseline_score", "leniency")}
    has |= {name: any(row[name] for row in rows) for name in ("n_undecided", "n_out_of_scale")}
    # Either of the first two says how questions differ; narrow terminals have no room for both.
    columns = [
        (number(("95 % CI", "over", over), ends="ci_questions_", form="score"), has["estimate"]),
        (number(("sd over", "questions"), "sd_questions", form="score"), not has["estimate"]),
        (number("no passes", "baseline_score", form="score"), has["baseline_score"]),
        (number("change", "change", form="difference"), has["baseline_score"]),
        (number(("adjusted", "for", "leniency"), "adjusted_score", form="score", spare=True), has["leniency"]),
        (number("scored", _share), True),
        (number("failed", "n_failed", form="{}", spare=True), True),
        (number("excluded", "n_excluded", form="{}", spare=True), True),
        (_UNDECIDED, has["n_undecided"]),
        (_OUT_OF_SCALE, has["n_out_of_scale"]),
    ]
    return [
        text("question set", "label"),
        text("judge", folds=True),
        number("score", "score", upper="upper", form="score"),
        *(column for column, is_shown in columns if is_shown),
    ]


# --- statistics over runs, judges, strategies, replies ---------------------------------------------------------------


def statistics_blocks(report: ScoreReport) -> Iterator[Block]:
    """Show a line for each benchmark and overall, judge by judge, of each model and base tag."""
    statistics = report.statistics
    columns = [
        text("benchmark", "label"),
        text("judge", folds=True),
        number("mean", "mean", upper="mean_upper", form="score"),
        number(("sd", "between", "runs"), "sd", form="score"),
        number(("95 % CI", "between", "runs"), margin),
        number(("95 % CI", "over", report.over), ends="ci_questions_", form="score", where=known("n_questions")),
        number(("range", "over runs"), _range_over_runs),
        number("runs", "n_runs", form="{}"),
    ]
    for (model, base_tag), rows in grouped(statistics, itemgetter("model", "base_tag")):
        yield Heading(model, base_tag)
        yield _statistics_table(columns, _in_order(rows))
    if any(margin(row) == NOTHING for row in statistics):
        yield Sentences([f"95 % CI between runs -: it takes {_FEWEST_FOR_A_MARGIN} runs or more."], "note")


def _in_order(rows: Rows) -> list[Row]:
    """Sort statistics judge by judge; the means over benchmarks say of how many they are."""
    order = benchmark_order()
    return [
        {**row, "label": f"{MEAN_OF}{len(of_judge) - 1}" if row["benchmark"] == OVERALL else row["benchmark"]}
        for _, of_judge in grouped(rows, itemgetter("judge"))
        for row in sorted(of_judge, key=lambda row: order(row["benchmark"]))
    ]


def _statistics_table(columns: Sequence[Column], rows: Rows) -> Table:
    shared = {row["benchmark"]: row for row in rows if row["n_shared"]}
    notes = [
        f"{shared_sentence(row)}: between them nothing can differ, and the sd is too small." for row in shared.values()
    ]
    bold = [index for index, row in enumerate(rows) if row["benchmark"] == OVERALL]
    return table_of(rows, columns, bold=bold, notes=notes)


def margin(row: Row) -> str:
    """Return half the width of the interval between runs, where there are enough of them."""
    shown = row["n_runs"] >= _FEWEST_FOR_A_MARGIN and is_number(row["margin_of_error"])
    return f"±{decimals(row['margin_of_error'])}" if shown else NOTHING


_PAIRS = Table(
    [
        text("judge a", folds=True),
        text("judge b"),
        number("answers", "n"),
        number("Pearson", "pearson", form="score"),
        number("Spearman", "spearman", form="score"),
        number("equal", "exact_share", form="{:.0%}"),
        number("a - b", "mean_difference", form="difference"),
    ]
)


def replies_table(replies: Rows) -> Table:
    """Show counts over benchmarks for each run and judge, and the change of their mean under other null policies."""
    counts = ("answers", "refused", "filtered", "truncated", "empty", "out_of_scale", "retried")
    titles: dict[str, Cell] = {f"n_{name}": name for name in counts}
    titles["n_out_of_scale"] = ("out of", "scale")
    runs = [
        {
            "run": f"{rows[0]['model']} {rows[0]['run_tag']}",
            "judge": rows[0]["judge"],
            **sums_of(rows, [*titles]),
            **{policy: mean_of([subtract_or_none(row[policy], row["legacy"]) for row in rows]) for policy in _MOVED},
        }
        for _, rows in grouped(replies, itemgetter("run_id", "judge"))
    ]
    columns = [
        text("run", where=several("run"), folds=True),
        text("judge", folds=True),
        *(number(title, name, spare=not any(row[name] for row in replies)) for name, title in titles.items()),
        *(number(("mean", "under", policy), policy, form="difference", null="undefined") for policy in _MOVED),
    ]
    return table_of(runs, columns)


_MOVED = ("zero", "strict")


# --- sentences ---


def score_notes(report: ScoreReport) -> Iterator[str]:
    """Write all notes in full, a sentence each."""
    present = {row["benchmark"] for row in (*report.rows, *report.statistics)}
    scales = [_scale(benchmark) for name, benchmark in report.benchmarks.items() if name in present]
    yield f"Null policy {report.policy}: {POLICIES[report.policy]}."
    yield f"Pass pipeline: {report.pipeline}."
    if scales:
        yield f"Scales: {'; '.join(scales)}."
    yield "Means over benchmarks are unweighted."
    yield from _uncertainty_notes(report)
    yield from report.remarks
    yield from report.reused
    yield from undecided_sentences(report.rows)
    if outside := sum(row["n_out_of_scale"] for row in report.rows):
        yield f"{counted(outside, 'score')} outside of the scale: they count as they are."
    sets = {(row["benchmark"], row["asked"]) for row in report.rows}
    mixed = sorted(name for name in present if sum(key[0] == name for key in sets) > 1)
    if mixed:
        yield f"Scores over different question sets are not comparable: {', '.join(mixed)}."
    yield from _unfinished_notes(report.unfinished)


def _uncertainty_notes(report: ScoreReport) -> Iterator[str]:
    if any(row["estimate"] for row in report.rows):
        yield (f"95 % CI over {report.over} (a–b): how general a score is, samples of a question as one.")
    if report.over == "questions":
        wider = [row for row in report.rows if row["over_categories"]]
        for name, rows in grouped(wider, itemgetter("benchmark")):
            ratio = median(row["over_categories"] for row in rows)
            how = " in the median" if len(rows) > 1 else ""
            yield categories_sentence(name, rows[0]["n_categories"], ratio, how)
    if any(margin(row) != NOTHING for row in report.statistics):
        yield "95 % CI between runs (±): how stable a score is when the same is asked again."
    if any(row["leniency"] is not None for row in report.rows):
        yield (
            "Adjusted for leniency: less what a judge gives beyond the others on the same answers (least "
            "squares), so that runs with different judges compare."
        )


def notes_line(report: ScoreReport) -> str:
    """Say how many notes there are beside the scores; empty when there are none."""
    runs = {(part["model"], part["run_tag"]) for part in report.unfinished}
    of_answers = [rows[0] for _, rows in grouped(report.replies, itemgetter("run_id", "benchmark"))]
    lost = {name: sum(row[f"n_{name}"] for row in of_answers) for name in ("refused", "truncated", "empty")}
    said = [
        *([counted(len(report.remarks), "remark")] if report.remarks else []),
        *([f"{counted(len(runs), 'run')} with parts that failed or are missing"] if runs else []),
        *([f"{', '.join(f'{n:,} {name}' for name, n in lost.items() if n)} answers"] if any(lost.values()) else []),
    ]
    return f"Notes: {'; '.join(said)} (--notes)." if said else ""


def _unfinished_notes(unfinished: Rows) -> list[str]:
    """Write a line for each run that has something that is not complete."""
    runs = grouped(unfinished, itemgetter("model", "run_tag"))
    lines = []
    for (model, run_tag), of_run in runs[:_MOST_UNFINISHED]:
        said = []
        for (benchmark, state), parts in grouped(of_run, itemgetter("benchmark", "state")):
            failures = "; ".join(filter(None, map(failure, parts)))
            said.append(f"{benchmark} {state}: {failures}" if failures else f"{benchmark} {state}")
        lines.append(f"Not complete: {model} {run_tag}: {'. '.join(said)}.")
    if len(runs) > _MOST_UNFINISHED:
        lines.append(f"Not complete: {len(runs) - _MOST_UNFINISHED} more runs; `shaberi sql failures` tells why.")
    return lines


def failure(part: Row) -> str:
    """Say how much of a part of an unfinished benchmark failed; empty when nothing of it is there."""
    failed = f"{part['who']}: {part['n_failed']} of {part['n_planned']} failed"
    named = ", ".join(f"{name} {count}" for name, count in sorted(part["classes"].items(), key=lambda item: -item[1]))
    return f"{failed} ({named})" if part["who"] else ""


def _scale(benchmark: Benchmark) -> str:
    scale = f"{benchmark.name} {benchmark.scale_minimum}-{benchmark.scale_maximum}"
    factor = benchmark.reported_multiplier
    return f"{scale}, reported ×{factor:g}" if factor != 1 else scale


# --- rankings ---

_DIFFERENCES = "vs best: over what both have; its CI is adjusted for all pairs."


def standing_blocks(report: ScoreReport, *, by: str, top: int = 0) -> Iterator[Block]:
    """The rankings, and what is in none.

    Args:
        report: The scores.
        by: What has columns of its own: model (then it is benchmarks), or judge.
        top: Lines of the first ranking; 0: all of all.
    """
    for place, ranking in enumerate(report.rankings):
        yield Heading(_title(ranking), _detail(ranking, report))
        shown = ranking["standings"][: lines_at(place, top)]
        yield _table({**ranking, "standings": shown}, by)
        if n_more := len(ranking["standings"]) - len(shown):
            yield Sentences([f"{n_more} more (--top 0)"], "note")
    lines = [line for ranking in report.rankings for line in ranking["standings"]]
    if any(line["against_best"] for line in lines):
        yield Sentences([_DIFFERENCES], "note")
    ends = [line["n_questions"] for line in lines]
    if 0 < ends.count(None) < len(ends) and not report.is_large:
        yield Sentences([NO_INTERVAL], "note")
    if report.not_ranked:
        yield Heading("Not ranked", "fewer benchmarks or judges than others" if report.rankings else "")
        yield Sentences(list(_not_ranked(report.not_ranked)), "note")


def own_table(report: ScoreReport) -> list[Block]:
    """Show the benchmarks of the only line of a ranking, and their mean; nothing where there are several lines."""
    if len(report.rankings) != 1 or len(report.rankings[0]["standings"]) != 1 or report.not_ranked:
        return []
    (ranking,), (line,) = report.rankings, report.rankings[0]["standings"]
    remarks, n_runs = remarks_on([line]), line["n_runs"]
    parts = grouped(line["rows"], itemgetter("benchmark"))
    lines = [_of_benchmark(report, line, name, rows) for name, rows in parts]
    runs = [fmean(scores) for scores in zip(*(of_row["by_run"] for of_row in lines), strict=True)]
    overall = {**line, "benchmark": "Overall", "is_open": False, **_over_runs(runs)}
    columns = [
        text("Benchmark", "benchmark", folds=True),
        number("Mean", "mean", upper="mean_upper", form="score"),
        number("By passes", "change", form="difference", where=known("change")),
        number("Std Dev", "sd", form="score"),
        number("95 % CI", ends="ci_questions_", form="score"),
        number("Range", _range_over_runs),
        number("n/N", _share),
    ]
    and_one = ", and there is one" if n_runs == 1 else ""
    notes = [f"Std Dev and Range are between runs{and_one}. Each run and judge by itself: --by run.", *remarks]
    if line["change"] == 0:
        n_answers = line["n_planned"] // len(ranking["judges"])
        notes = [f"{report.pipeline}: nothing taken off in {counted(n_answers, 'answer')}.", *notes]
    table = table_of([*lines, overall], columns, bold=[len(lines)], notes=notes)
    return [
        Heading(
            f"{line['model']} {line['tag']}{f', {n_runs} runs' * (n_runs > 1)}",
            f"{_title(ranking)} · {_detail({'standings': ()}, report)}",
        ),
        table,
    ]


def _of_benchmark(report: ScoreReport, line: Row, name: str, rows: Rows) -> Row:
    known_benchmark, asked = report.benchmarks.get(name), rows[0]["asked"]
    by_run = grouped((row for row in rows if row["score"] is not None), itemgetter("run_id"))
    scores = [fmean(row["score"] for row in of_run) for _, of_run in by_run]
    return {
        "benchmark": known_benchmark.title if known_benchmark else name,
        "mean": line["by_benchmark"][asked],
        "mean_upper": line["by_benchmark_upper"][asked],
        "is_open": asked in line["open_benchmarks"],
        "change": mean_of([subtract_or_none(row["score"], row["baseline_score"]) for row in rows]),
        **interval_columns(line["estimates"].get(name)),
        **_over_runs(scores),
        **sums_of(rows, COUNTS),
    }


def _over_runs(scores: Sequence[float]) -> Row:
    n_runs = len(scores)
    ends = {"minimum": min(scores), "maximum": max(scores)}
    return {"by_run": scores, "n_runs": n_runs, "sd": stdev(scores) if n_runs > 1 else None, **ends}


def _range_over_runs(row: Row) -> str:
    return between(Interval(row["minimum"], row["maximum"])) if row["n_runs"] > 1 else NOTHING


def best_of_first(report: ScoreReport) -> Iterator[str]:
    """Say who is best in the first ranking, which has most models, and by how much; nothing of a ranking of one.

    Beside the only ranking, who has a higher mean of less and is not ranked is named as well.
    """
    rankings = report.rankings
    lines = rankings[0]["standings"] if rankings else []
    if len(lines) < 2 or lines[0]["rank"] != 1:  # noqa: PLR2004
        return
    first, *names = _names_of(lines)
    others = list(zip(names, lines[1:], strict=True))
    if worse := [f"{name} by {_less(line)}" for name, line in others if line["against_best"] == "below"]:
        said = f"{first} is better than {listed(worse, _MOST_NAMED)}"
    else:
        said = f"{first} has the highest mean, {both_ends(lines[0]['mean'], lines[0]['mean_upper'])}"
    tied = [name for name, line in others if line["against_best"] == "tied"]
    said += f", and is not shown to differ from {listed(tied, _MOST_NAMED)}" if tied else ""
    if len(rankings) > 1:
        yield f"{said} (first of {len(rankings)} rankings)."
    else:
        yield f"{said}."
        higher = [row for row in report.not_ranked if (row["score"] or 0) > lines[0]["mean"]]
        yield from _not_ranked(higher, "Not ranked: ")


def _less(line: Row) -> str:
    """Write by how much a line is below the best."""
    lower, upper = line["difference_lower"], line["difference_upper"]
    interval = "" if lower is None else f" (95 % CI {decimals(-upper)} to {decimals(-lower)})"
    return f"{decimals(-line['difference'])}{interval}"


def _names_of(lines: Rows) -> list[str]:
    """Name the lines of a ranking: models, and the tags of one that is there twice."""
    models = [line["model"] for line in lines]
    return [line["model"] if models.count(line["model"]) == 1 else f"{line['model']} {line['tag']}" for line in lines]


def _title(ranking: Row) -> str:
    judges = ranking["judges"]
    return f"Judge {judges[0]}" if len(judges) == 1 else f"Mean of {len(judges)} judges: {', '.join(judges)}"


def _detail(ranking: Row, report: ScoreReport) -> str:
    tags = {line["tag"] for line in ranking["standings"]}
    said = [f"tag {tag}" for tag in tags if len(tags) == 1]
    passes = "no passes" if report.pipeline == "baseline" else f"passes {report.pipeline}"
    return " · ".join([*said, passes, MISSING[report.policy]])


def _table(ranking: Row, by: str) -> Table:
    """Make the table of a ranking, in which judges or benchmarks have columns."""
    rows: Rows = ranking["standings"]
    what, names = ("judge", ranking["judges"]) if by == "judge" else ("benchmark", ranking["asked"])
    is_whole = all(row["n_scored"] == row["n_planned"] for row in rows)

    def best(row: Row) -> str:
        return _BEST if row["rank"] == 1 and len(rows) > 1 else ""

    columns = [
        number("#", "rank", form="{}", mark=best),
        text("model", cuts="middle", narrowest=_ROOM_FOR_MODELS, mark=best),
        text("tag", cuts="middle", narrowest=_ROOM_FOR_TAGS, where=several("tag")),
        number("mean", "mean", upper="mean_upper", form="score", mark=best),
        number("95 % CI", ends="ci_questions_", form="score", bar=_bar, where=known("n_questions")),
        number("vs best", "difference", form="difference", where=known("against_best")),
        number("its CI", ends="difference_", form="difference", where=known("against_best")),
        number(("by", "passes"), "change", form="difference", where=known("change")),
        *(number(_title_of(name, by), partial(_of, what, name), spare=True) for name in names),
        number("n/N", _share, spare=is_whole),
        number("failed", "n_failed", form="{}", mark=lambda row: _FAILED if row["n_failed"] else "", spare=is_whole),
        number(("unde-", "cided"), lambda row: whole_percent(row["share_undecided"]), where=known("share_undecided")),
        number("excl.", "n_excluded", form="{}", where=known("n_excluded")),
        replace(_OUT_OF_SCALE, where=known("n_out_of_scale")),
        number("n", "n_common_questions", form="{}", spare=True, where=known("against_best")),
        number("runs", "n_runs", form="{}", spare=True, where=lambda rows: any(row["n_runs"] > 1 for row in rows)),
    ]
    is_shared = [row["rank"] for row in rows].count(1) > 1
    notes = ["Rank 1: not shown to differ from the best."] if is_shared else []
    return table_of(rows, columns, notes=[*notes, *remarks_on(rows)])


def _bar(row: Row) -> Bar | None:
    ends, mean = interval_of(row, "ci_questions_"), row["mean"]
    return (min(ends.lower, mean), mean, max(ends.upper, mean)) if ends else None


def _of(by: str, name: str, row: Row) -> str:
    lower, upper = (row[f"by_{by}{end}"].get(name) for end in ("", "_upper"))
    return both_ends(lower, upper, is_open=name in row["open_benchmarks"])


def _title_of(name: str, by: str) -> Cell:
    """Return a judge, or a benchmark with its version below it (no hash), and how many were asked if not all."""
    if by == "judge":
        return tuple(textwrap.wrap(name, _ROOM_FOR_TITLES, break_long_words=False))
    benchmark, _, version = name.partition("@")
    size, _, limited = version.partition(", ")
    return tuple(filter(None, (benchmark, f"@{size.partition('-')[0]}" if size else "", limited)))


def _not_ranked(left_out: Rows, said: str = "") -> Iterator[str]:
    for why, rows in grouped(left_out, itemgetter("why")):
        scores = [f" {decimals(row['score'])}" if is_number(row["score"]) else "" for row in rows]
        names = [f"{row['model']} {row['tag']}{score}" for row, score in zip(rows, scores, strict=True)]
        yield f"{said}{listed(names, _MOST_NOT_RANKED)}: {why}"


# --- plain data ---

_OF_CELLS = (str, int, float, list, type(None))
_KEYS = {"scores": "rows", "judges": "judge_pairs"}
"""Keys of the document whose rows have another name as a table of the CSV file."""


def _row(row: Row) -> dict[str, Any]:
    more = {name: row[name] for name in ("adjusted_score", "change")}
    return {name: row[name] for name in ROW_COLUMNS} | interval_columns(row["estimate"]) | more


# --- the document ---


@dataclass(frozen=True)
class ScoreDocument(Document):
    """Scores with their denominators; Markdown has what a wide terminal has."""

    report: ScoreReport
    view: ScoreView = DEFAULT_VIEW

    def blocks(self, width: int | None) -> Iterator[Block]:
        """The scores, what they are, and what they cost."""
        del width
        blocks = _said_once(self._for_people())
        if not self.view.wide:
            return blocks
        return (
            replace(block, columns=[replace(column, spare=False) for column in block.columns])
            if isinstance(block, Table)
            else block
            for block in blocks
        )

    def _for_people(self) -> Iterator[Block]:
        report, view = self.report, self.view
        if report.left_out:
            yield Sentences(report.left_out, "warning")
        if not report.rows:
            yield Sentences(["No scores."])
        if view.by == "run":
            yield from statistics_blocks(report)
            yield from run_blocks(report)
            yield Sentences(list(undecided_sentences(report.rows)), "note")
            yield from self._strategies()
        elif report.rows:
            yield Sentences(list(best_of_first(report)), "verdict")
            yield from self._ranked()
        if view.by in {"judge", "run"}:
            yield from self._judges()
        yield from self._notes()
        if report.tokens:
            yield from self._costs()

    @property
    def _is_of_one(self) -> bool:
        """Whether it is of a single model and tag."""
        return len({(row["model"], row["base_tag"] or row["run_tag"]) for row in self.report.rows}) == 1

    def _ranked(self) -> Iterator[Block]:
        report, view = self.report, self.view
        own = own_table(report) if self._is_of_one and view.by == "model" else []
        yield from own or standing_blocks(report, by=view.by, top=view.top or 0)
        if self._is_of_one:
            yield from [] if own else (statistics_blocks if report.statistics else run_blocks)(report)
            yield from self._strategies()
        elif report.strategies:
            yield Sentences(["What strategies add to the samples of their runs: --by run, or one --tag."], "note")

    def _costs(self) -> Iterator[Block]:
        tokens, view = self.report.tokens, self.view
        if view.cost:
            yield from cost_totals(tokens)
            yield TOKENS.of(tokens, brief=True)
            has_stages = len({row["benchmark"] for row in tokens}) > 1
        elif not (has_stages := self._is_of_one and view.by == "model"):
            yield Sentences([f"{cost_line(tokens)} --cost has the stages."], "note")
        if has_stages:
            yield Heading("By stage")
            yield stage_totals(tokens)

    def _strategies(self) -> Iterator[Block]:
        if self.report.strategies:
            from shaberi_dagster.reports import ensemble

            yield from ensemble.strategy_blocks(self.report.strategies)

    def _judges(self) -> Iterator[Block]:
        if pairs := self.report.judge_pairs:
            yield Heading("Agreement of these judges on all answers of the lake that both scored")
            yield _PAIRS.of(pairs)

    def _notes(self) -> Iterator[Block]:
        if self.view.notes:
            yield from self._all_notes()
            return
        reused = self.report.reused
        more = [f"{len(reused) - _MOST_REUSED} more runs use replies of other runs."] if reused[_MOST_REUSED:] else []
        line = notes_line(self.report)
        yield Sentences([*reused[:_MOST_REUSED], *more, *([line] if line else [])], "note")

    def _all_notes(self) -> Iterator[Block]:
        yield Sentences(list(score_notes(self.report)), "note")
        if self.report.replies:
            yield Heading("Replies, and what missing scores would change")
            yield replies_table(self.report.replies)

    # --- for programs ---

    def data(self) -> Row:
        """Return a document with everything there is, in full; unknown values are null."""
        report = self.report
        return {
            "policy": report.policy,
            "pipeline": report.pipeline,
            "rows": [_row(row) for row in report.rows],
            "means": [{name: value for name, value in mean.items() if name != "rows"} for mean in report.means],
            "statistics": report.statistics,
            "judge_pairs": report.judge_pairs,
            "unfinished": report.unfinished,
            "tokens": report.tokens,
            "remarks": [*report.left_out, *report.remarks, *report.reused],
            "over": report.over,
            "replies": report.replies,
            "rankings": [
                {**ranking, "standings": [*map(standing_data, lines)], "remarks": remarks_on(lines)}
                for ranking in report.rankings
                for lines in [ranking["standings"]]
            ],
            "not_ranked": report.not_ranked,
            "strategies": [asdict(strategy) for strategy in report.strategies],
        }

    def records(self) -> Iterator[Row]:
        """Return the rows of the table that is chosen, by the names of the document in JSON."""
        table, rows = self.view.table, self.data()[_KEYS.get(self.view.table, self.view.table)]
        if table == "rankings":
            rows = [
                {"judges": one["judges"], **line, **line["by_benchmark"]} for one in rows for line in one["standings"]
            ]
        elif table == "strategies":
            from shaberi_dagster.reports import ensemble

            rows = map(ensemble.strategy_row, self.report.strategies)
        for row in rows if table != "remarks" else [{"remark": remark} for remark in rows]:
            flat = ((name, value) for name, value in row.items() if isinstance(value, _OF_CELLS))
            yield {name: "; ".join(map(str, value)) if isinstance(value, list) else value for name, value in flat}


def _said_once(blocks: Iterable[Block]) -> Iterator[Block]:
    """Leave out sentences that another block has said: several rankings have the same remarks."""
    seen: set[str] = set()

    def new(texts: Sequence[str]) -> list[str]:
        found = [text for text in dict.fromkeys(texts) if text not in seen]
        seen.update(found)
        return found

    for block in blocks:
        if isinstance(block, Sentences):
            if texts := new(block.texts):
                yield replace(block, texts=texts)
        elif isinstance(block, Table):
            yield replace(block, notes=new(block.notes))
        else:
            yield block
