"""A comparison of two models or runs, as it is shown."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from shaberi_dagster.reports.comparison import ComparisonReport, Section, Side
from shaberi_dagster.reports.figures import (
    both_ends,
    counted,
    decimals,
    interval_of,
    p_value,
    signed,
    signed_interval,
    whole_percent,
)
from shaberi_dagster.reports.report import Block, Column, Heading, Result, Row, Sentences, Table, number, table_of, text
from shaberi_dagster.reports.requests import BASELINE, POLICIES
from shaberi_dagster.reports.scores import is_apart
from shaberi_dagster.statistics.comparison import OVERALL

_BAR_WIDTH = 25
_MORE = "--notes: the benchmarks of each judge, which scores count, and how the numbers are made."


def comparison_result(report: ComparisonReport, *, brief: bool = False) -> Result:
    """Show a comparison: its result in plain words, a table for each judge, and notes on the numbers.

    Args:
        report: The comparison.
        brief: With a line for each judge and without notes, for a terminal.
    """
    notes, warnings = list(_notes(report)), [f"{warning}." for warning in report.warnings]
    said: list[Block] = [
        Sentences([report.caveat] if report.caveat else [], "warning"),
        *(Heading(side_title(side)) for side in (report.a, report.b)),
        *(_briefly(report) if brief else (block for section in report.sections for block in _section(section))),
        Sentences(list(_dashes(report)), "note"),
        Sentences(warnings, "warning"),
        Sentences([*_audits(report), _MORE, _next_step(report)] if brief else notes, "note"),
    ]
    document = {
        "a": _side_fields(report.a),
        "b": _side_fields(report.b),
        "comparable": report.comparable,
        "reasons": report.reasons,
        "caveat": report.caveat,
        "null_policy": report.request.null_policy,
        "pipeline": report.request.pipeline,
        "over": report.request.over,
        "comparisons": [vars(section) for section in report.sections],
        "shared_replies": {
            name: {"n_replies": n, "n_shared": n_shared} for name, (n, n_shared) in report.shared_replies.items()
        },
        "warnings": [*report.reasons, *report.warnings],
        "notes": notes,
    }
    return Result(said, list(_records(report)), document)


def _records(report: ComparisonReport) -> Iterator[Row]:
    """Make a line for each judge and benchmark; `judge` is empty for the mean over `n_judges` judges."""
    named = {
        "model_a": report.a.model,
        "tags_a": " ".join(report.a.run_tags),
        "model_b": report.b.model,
        "tags_b": " ".join(report.b.run_tags),
        "null_policy": report.request.null_policy,
        "pipeline": report.request.pipeline,
        "caveat": report.caveat,
    }
    for section in report.sections:
        judge = section.judges[0] if len(section.judges) == 1 else ""
        for row in section.rows:
            counts = {"judge_questions": ", ".join(f"{name} {n}" for name, n in row["judge_questions"].items())}
            yield {"judge": judge, "n_judges": len(section.judges), **row, **counts, **named}


def _section(section: Section) -> Iterator[Block]:
    yield Heading(section_title(section))
    yield Sentences([verdict(section)], "verdict")
    yield _table(section.rows)
    yield Sentences(list(_details(section)))


def _table(rows: Sequence[Row], *first: Column) -> Table:
    known = filter(None, map(interval_of, rows))
    reach = max((max(abs(ends.lower), abs(ends.upper)) for ends in known), default=0.0)
    return table_of(rows, [*(first or _FIRST), *_COLUMNS, text("", partial(_bar, reach=reach), optional=True)])


def _briefly(report: ComparisonReport) -> Iterator[Block]:
    """Show the benchmarks of the first section, and of each judge the last line."""
    first, *others = report.sections
    passes = "" if report.request.pipeline == BASELINE else f"passes {report.request.pipeline} · "
    yield Heading(section_title(first), f"{passes}{report.request.null_policy} nulls")
    yield Sentences([verdict(first)], "verdict")
    yield _table(first.rows)
    yield Sentences(list(_withheld(first)))
    if others:
        yield Heading("judge by judge", "over all benchmarks, each for itself")
        yield _table([{**section.rows[-1], "judge": section.judges[0]} for section in others], text("judge"))


def _next_step(report: ComparisonReport) -> str:
    models = " ".join(f"--model {shlex.quote(side.model)}" for side in (report.a, report.b))
    return f"Where A loses: inspect-output {models}, or in a browser: shaberi view."


def _notes(report: ComparisonReport) -> Iterator[str]:
    """Explain the numbers, a sentence each."""
    request, sections = report.request, report.sections
    policy = f"Null policy {request.null_policy}: {POLICIES[request.null_policy]}."
    yield f"A - B is on the reported scale, over common questions (n). {policy} Pass pipeline: {request.pipeline}."
    levels = {row["confidence"] for section in sections for row in section.rows}
    wider = f", {100 * max(levels):.4g} % where Holm's adjustment needs it," if len(levels) > 1 else ""
    yield (
        f"CI: 95 %{wider} over {request.over}, of the paired sign-flip test, two-sided, as p is: it leaves out 0 "
        "where a difference is shown. Holm p: adjusted for all benchmarks."
    )
    yield "This tests the named pair alone; for the best of many the ranking counts, which adjusts for all pairs."
    yield "MDE: the difference that would be seen with probability 0.8 at level 0.05."
    yield (
        "Equal within a margin: two one-sided tests show that the difference is no larger. "
        "No difference shown says nothing of the kind."
    )
    yield "Overall is the unweighted mean of the benchmarks."
    if any(len(section.judges) > 1 for section in sections):
        yield (
            "The mean of judges is, on each question, over those that scored both sides. The judges are fixed: "
            "intervals say nothing about other judges."
        )
    for row in sections[0].rows:
        if row["over_categories"] and request.over == "questions":
            yield (
                f"{row['question_set']} has {row['n_categories']} categories: if they are a sample as well, the "
                f"interval is {row['over_categories']:.2f} times as wide (--over categories)."
            )
    for benchmark, (n, n_shared) in report.shared_replies.items():
        yield (
            f"{n_shared:,} of the {n:,} replies (answers and judgements) of {benchmark} are the reply to another "
            "one's call: paid for once, they are no evidence of their own."
        )
    yield from _audits(report)


def _audits(report: ComparisonReport) -> Iterator[str]:
    for sentence in report.audits:
        yield f"{sentence}; errors alike on both sides make a difference smaller, and intervals leave them out."


def side_title(side: Side) -> str:
    """Name a side with its runs."""
    several = f"  (mean of {len(side.run_tags)} runs)" if len(side.run_tags) > 1 else ""
    return f"{side.name} = {side.model}  {', '.join(side.run_tags)}{several}"


def section_title(section: Section) -> str:
    """Name the judges of a section."""
    if len(section.judges) == 1:
        return f"judge {section.judges[0]}"
    return f"mean of {len(section.judges)} judges: {', '.join(section.judges)}"


def _adjusted(row: Row) -> str:
    return p_value(row["adjusted_p_value"]) if row["question_set"] != OVERALL else ""


def row_verdict(row: Row) -> str:
    """Say in a few words what A is on one benchmark."""
    within = f"within {row['margin']:g}" if row["equal"] else ""
    if row["verdict"] == "tied":
        return f"equal {within}" if within else "no difference shown"
    if row["verdict"] == "too few":
        return "too few questions"
    if row["verdict"] == "withheld":
        return "no verdict"
    return f"{row['verdict']}, {within}" if within else str(row["verdict"])


def _undecided(row: Row) -> str:
    return whole_percent((row["n_undecided_a"] + row["n_undecided_b"]) / (row["n_samples_a"] + row["n_samples_b"]))


_FIRST = [text("question set")]
_COLUMNS = [
    number("n", form="{}"),
    number("A", lambda row: both_ends(row["mean_a"], row["mean_upper_a"])),
    number("B", lambda row: both_ends(row["mean_b"], row["mean_upper_b"])),
    number("A - B", "difference", form="{:+.2f}"),
    number("CI", lambda row: signed_interval(interval_of(row))),
    number("p", lambda row: p_value(row["p_value"])),
    number("Holm p", _adjusted, where=lambda rows: any(map(_adjusted, rows))),
    number("MDE", "minimum_detectable_effect", form="{:.2f}"),
    number(
        ("unde-", "cided"),
        _undecided,
        where=lambda rows: any(row["n_undecided_a"] + row["n_undecided_b"] for row in rows),
    ),
    text("A is", row_verdict, folds=True, narrowest=13),
]


def _dashes(report: ComparisonReport) -> Iterator[str]:
    """Say why intervals and detectable differences are not known, where some are not."""
    rows = [row for section in report.sections for row in section.rows]
    if any(row["lower"] is None for row in rows):
        yield "CI -: all scores are equal, or there are too few questions for the test."
    if any(row["minimum_detectable_effect"] is None for row in rows):
        yield "MDE -: all differences are equal, or only one that is larger than the scale would be seen."


def verdict(section: Section) -> str:
    """Say in plain words what the last row of a section shows."""
    row = section.rows[-1]
    where = _where(row)
    questions = counted(row["n"], "question")
    if row["verdict"] in {"better", "worse"}:
        small = f": less than {row['margin']:g}" if row["equal"] else ""
        return f"A is {row['verdict']} {where}, by {abs(row['difference']):.2f} over {questions}{small}."
    if row["verdict"] == "withheld":
        return f"No verdict {where}: A - B is {signed(row['difference'])} over {questions}."
    if row["verdict"] == "too few":
        return f"Too few {where}: {questions} cannot show a difference."
    return _no_difference(row, where, questions)


def _no_difference(row: Row, where: str, questions: str) -> str:
    if row["equal"]:
        return f"A and B are equal {where} within {row['margin']:g}, over {questions}."
    if interval_of(row) is None:
        return f"No difference {where}: the scores of all {questions} are the same."
    if (least := row["minimum_detectable_effect"]) is None:
        return f"No difference shown {where}: {questions} cannot tell what was missed."
    missed = f"a difference below {decimals(least)} could easily have been missed"
    return f"No difference shown {where}: {missed} with {questions}."


def _where(row: Row) -> str:
    return "overall" if row["question_set"] == OVERALL else f"on {row['question_set']}"


def _withheld(section: Section) -> Iterator[str]:
    for row in section.rows:
        if row["why_withheld"]:
            yield f"No verdict {_where(row)}: {row['why_withheld']}."


def _details(section: Section) -> Iterator[str]:
    """Say for each benchmark why there is no verdict, which scores count and which do not."""
    yield from _withheld(section)
    for row in section.rows:
        name, of_means = row["question_set"], row["own_mean_a"] - row["own_mean_b"]
        if is_apart(row["difference"], of_means):
            yield (
                f"{'Overall' if name == OVERALL else name}: A - B is over what both have; the means of all that each "
                f"has are {decimals(row['own_mean_a'])} and {decimals(row['own_mean_b'])} ({signed(of_means)})."
            )
        if name == OVERALL:
            continue
        if left_out := _counts(
            {
                "only A has": row["only_a"],
                "only B has": row["only_b"],
                "without a score of A": row["without_score_a"],
                "without a score of B": row["without_score_b"],
            }
        ):
            yield f"Left out of {name}: {left_out}."
        if outside := _counts({"of A": row["out_of_scale_a"], "of B": row["out_of_scale_b"]}):
            yield f"Scores outside of the scale of {name}, which count as they are: {outside}."
        if len(section.judges) > 1 and set(row["judge_questions"].values()) != {row["n"]}:
            parts = ", ".join(f"{judge} {n}" for judge, n in row["judge_questions"].items())
            yield f"Questions of {name} with both scores, of {row['n']}: {parts}."


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {label}" for label, count in counts.items() if count)


def _bar(row: Row, reach: float) -> str:
    """Draw the interval around zero, in ASCII: box characters are two columns wide in Japanese terminals."""
    ends = interval_of(row)
    if not ends or not reach:
        return ""
    lower, middle, upper = (_place(value, reach) for value in (ends.lower, row["difference"], ends.upper))
    bar = ["-" if lower <= place <= upper else " " for place in range(_BAR_WIDTH)]
    bar[_place(0, reach)] = "|"
    bar[middle] = "o"
    return "".join(bar)


def _place(value: float, reach: float) -> int:
    return round((value / reach + 1) / 2 * (_BAR_WIDTH - 1))


def _side_fields(side: Side) -> dict[str, object]:
    return {"model": side.model, "run_tags": list(side.run_tags), "run_ids": list(side.run_ids)}
