"""A comparison of two models or runs, as it is shown."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from shaberi_dagster.reports.comparison import ComparisonReport, ComparisonRow, Section, Side
from shaberi_dagster.reports.figures import counted, decimals, p_value, signed, signed_interval
from shaberi_dagster.reports.report import Block, Document, Heading, Sentences, number, table_of, text
from shaberi_dagster.reports.requests import POLICIES
from shaberi_dagster.reports.scores import is_apart
from shaberi_dagster.statistics.comparison import OVERALL

_BAR_WIDTH = 25


@dataclass(frozen=True)
class ComparisonDocument(Document):
    """How A and B differ: a table for each judge, with what it says in plain words."""

    report: ComparisonReport

    def blocks(self, width: int | None) -> Iterator[Block]:  # noqa: ARG002
        """A table for each judge, what it says, and what the numbers are."""
        if self.report.caveat:
            yield Sentences([self.report.caveat], "warning")
        for side in (self.report.a, self.report.b):
            yield Heading(_side(side))
        for section in self.report.sections:
            yield Heading(_title(section))
            ends = [abs(end) for row in section.rows for end in _ends(row)]
            reach = max(ends, default=0.0)
            columns = [
                text("question set", lambda row: row.difference.benchmark),
                number("n", lambda row: str(row.difference.n)),
                number("A", lambda row: decimals(row.difference.mean_a)),
                number("B", lambda row: decimals(row.difference.mean_b)),
                number("A - B", lambda row: signed(row.difference.difference)),
                number("CI", lambda row: signed_interval(row.difference.interval)),
                number("p", lambda row: p_value(row.difference.p_value)),
                number("Holm p", _adjusted),
                number("MDE", lambda row: decimals(row.difference.minimum_detectable_effect)),
                text("A is", _verdict, folds=True, narrowest=13),
                text("", partial(_bar, reach=reach), optional=True),
            ]
            yield table_of(section.rows, columns)
            yield Sentences(list(_sentences(section)))
        if self.report.warnings:
            yield Sentences([f"{warning}." for warning in self.report.warnings], "warning")
        yield Sentences(list(self._notes()), "note")

    def _notes(self) -> Iterator[str]:
        request, sections = self.report.request, self.report.sections
        policy = f"Null policy {request.null_policy}: {POLICIES[request.null_policy]}."
        yield f"A - B is on the reported scale, over common questions (n). {policy} Pass pipeline: {request.pipeline}."
        levels = {row.difference.confidence for one in sections for row in one.rows}
        wider = f", {100 * max(levels):.4g} % where Holm's adjustment needs it," if len(levels) > 1 else ""
        yield (
            f"CI: 95 %{wider} over {request.over}, of the paired sign-flip test, two-sided, as p is: it leaves out 0 "
            "where a difference is shown. Holm p: adjusted for all benchmarks."
        )
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
            if row.over_categories and request.over == "questions":
                yield (
                    f"{row.difference.benchmark} has {row.n_categories} categories: if they are a sample as well, the "
                    f"interval is {row.over_categories:.2f} times as wide (--over categories)."
                )
        for benchmark, (n, n_shared) in self.report.shared_replies.items():
            yield (
                f"{n_shared:,} of the {n:,} replies (answers and judgements) of {benchmark} are the reply to another "
                "one's call: paid for once, they are no evidence of their own."
            )

    def data(self) -> Mapping[str, Any]:
        """One document; what is not defined is null."""
        report = self.report
        return {
            "a": _side_fields(report.a),
            "b": _side_fields(report.b),
            "comparable": report.comparable,
            "reasons": list(report.reasons),
            "caveat": report.caveat,
            "null_policy": report.request.null_policy,
            "pipeline": report.request.pipeline,
            "over": report.request.over,
            "comparisons": [
                {"judges": list(section.judges), "rows": [_fields(row) for row in section.rows]}
                for section in report.sections
            ],
            "shared_replies": {
                name: {"n_replies": n, "n_shared": n_shared} for name, (n, n_shared) in report.shared_replies.items()
            },
            "warnings": [*report.reasons, *report.warnings],
            "notes": list(self._notes()),
        }

    def records(self) -> Iterator[Mapping[str, Any]]:
        """A line for each judge and benchmark; `judge` is empty for the mean over `n_judges` judges."""
        report = self.report
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
                fields = _fields(row)
                fields["judge_questions"] = ", ".join(f"{name} {n}" for name, n in row.judge_questions.items())
                yield {"judge": judge, "n_judges": len(section.judges)} | fields | named


def _side(side: Side) -> str:
    several = f"  (mean of {len(side.run_tags)} runs)" if len(side.run_tags) > 1 else ""
    return f"{side.name} = {side.model}  {', '.join(side.run_tags)}{several}"


def _title(section: Section) -> str:
    if len(section.judges) == 1:
        return f"judge {section.judges[0]}"
    return f"mean of {len(section.judges)} judges: {', '.join(section.judges)}"


def _adjusted(row: ComparisonRow) -> str:
    return p_value(row.difference.adjusted_p_value) if row.difference.benchmark != OVERALL else ""


def _verdict(row: ComparisonRow) -> str:
    one = row.difference
    within = f"within {one.margin:g}" if one.equal else ""
    if one.verdict == "tied":
        return f"equal {within}" if within else "no difference shown"
    if one.verdict == "too few":
        return "too few questions"
    if one.verdict == "withheld":
        return "no verdict"
    return f"{one.verdict}, {within}" if within else one.verdict


def _sentences(section: Section) -> Iterator[str]:
    """What the numbers say, in plain words; the last row is what the section is about."""
    row = section.rows[-1]
    one = row.difference
    where = "overall" if one.benchmark == OVERALL else f"on {one.benchmark}"
    questions = counted(one.n, "question")
    if one.verdict in {"better", "worse"}:
        small = f": less than {one.margin:g}" if one.equal else ""
        yield f"A is {one.verdict} {where}, by {abs(one.difference):.2f} over {questions}{small}."
    elif one.verdict == "withheld":
        yield f"No verdict {where}: A - B is {signed(one.difference)} over {questions}."
    elif one.verdict == "too few":
        yield f"Too few {where}: {questions} cannot show a difference."
    elif one.minimum_detectable_effect is None:
        yield f"No difference {where}: the scores of all {questions} are the same."
    elif one.equal:
        yield f"A and B are equal {where} within {one.margin:g}, over {questions}."
    else:
        missed = (
            f"a difference below {one.minimum_detectable_effect:.2f} could easily have been missed with {questions}"
        )
        yield f"No difference shown {where}: {missed}."
    yield from _details(section)


def _details(section: Section) -> Iterator[str]:
    """What of each benchmark counts and what does not."""
    for row in section.rows:
        name = row.difference.benchmark
        if row.why_withheld:
            yield f"No verdict {'overall' if name == OVERALL else f'on {name}'}: {row.why_withheld}."
        if is_apart(row.difference.difference, row.of_means):
            yield (
                f"{'Overall' if name == OVERALL else name}: A - B is over what both have; the means of all that each "
                f"has are {decimals(row.own_mean_a)} and {decimals(row.own_mean_b)} ({signed(row.of_means)})."
            )
        if name == OVERALL:
            continue
        if left_out := _counts(
            {
                "only A has": row.only_a,
                "only B has": row.only_b,
                "without a score of A": row.without_score_a,
                "without a score of B": row.without_score_b,
            }
        ):
            yield f"Left out of {name}: {left_out}."
        if outside := _counts({"of A": row.out_of_scale_a, "of B": row.out_of_scale_b}):
            yield f"Scores outside of the scale of {name}, which count as they are: {outside}."
        if len(section.judges) > 1 and set(row.judge_questions.values()) != {row.difference.n}:
            parts = ", ".join(f"{judge} {n}" for judge, n in row.judge_questions.items())
            yield f"Questions of {name} with both scores, of {row.difference.n}: {parts}."


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def _ends(row: ComparisonRow) -> tuple[float, ...]:
    interval = row.difference.interval
    return (interval.lower, interval.upper) if interval else ()


def _bar(row: ComparisonRow, reach: float) -> str:
    """The interval around zero, in ASCII: box characters are two columns wide in Japanese terminals."""
    ends = _ends(row)
    if not ends or not reach:
        return ""
    lower, middle, upper = (_place(value, reach) for value in (ends[0], row.difference.difference, ends[1]))
    bar = ["-" if lower <= place <= upper else " " for place in range(_BAR_WIDTH)]
    bar[_place(0, reach)] = "|"
    bar[middle] = "o"
    return "".join(bar)


def _place(value: float, reach: float) -> int:
    return round((value / reach + 1) / 2 * (_BAR_WIDTH - 1))


def _side_fields(side: Side) -> dict[str, object]:
    return {"model": side.model, "run_tags": list(side.run_tags), "run_ids": list(side.run_ids)}


def _fields(row: ComparisonRow) -> dict[str, Any]:
    fields = asdict(row.difference)
    interval = fields.pop("interval") or {"lower": None, "upper": None}
    facts = {name: value for name, value in asdict(row).items() if name != "difference"}
    return {"question_set": fields.pop("benchmark"), **fields, **interval, **facts}
