"""The result of a regression gate, as it is shown."""

from dataclasses import replace
from typing import Any

from shaberi_dagster.reports.figures import counted, percent, percent_ends, points
from shaberi_dagster.reports.gate import MOST_FAILED, GateReport
from shaberi_dagster.reports.report import NOTHING, Block, Heading, Result, Row, Sentences, Table, number, text
from shaberi_dagster.show.data import plain
from shaberi_dagster.statistics.gates import GateTest

_DERIVED = ("result", "passed", "verdict", "comparable", "reasons", "doubts", "lifts")
_OF_TALLY = (
    *("baseline_accuracy", "current_accuracy", "delta"),
    *("baseline_scored_accuracy", "current_scored_accuracy"),
)
_OF_TEST = ("p_value", "adjusted_p_value", "level", "minimum_detectable_effect", "regressed")


def gate_result(report: GateReport) -> Result:
    """Say what a gate found: tests, lifts, warnings, how the tests are made, and at the end the result.

    Its document is `gate` in the one of `quick-eval`.
    """
    tests = [_row(test) for test in report.tests]
    said: list[Block] = [
        Heading(
            f"Regression gate {report.gate}",
            f"{report.run_id} against baseline {report.baseline} ({report.baseline_run_id})",
        ),
        replace(TESTS, bold=[place for place, test in enumerate(tests) if test["regressed"]]).of(tests),
        *([_LIFTS.of(report.lifts)] if report.lifts else []),
        Sentences([f"{warning}." for warning in report.further_warnings], "warning"),
        Sentences(_notes(report), "note"),
        Sentences([f"Result: {report.verdict}."]),
    ]
    derived = {name: getattr(report, name) for name in _DERIVED}
    document = derived | vars(report) | {"most_failed": MOST_FAILED, "tests": tests}
    for name in ("totals", "unlike"):
        del document[name]
    return Result(said, tests, plain(document))


def _row(test: GateTest) -> dict[str, Any]:
    of_tally = {name: getattr(test.tally, name) for name in _OF_TALLY}
    return {**vars(test.tally), **of_tally, **{name: getattr(test, name) for name in _OF_TEST}}


def _n(row: Row) -> str:
    return str(row["n_current"]) if row["n_current"] == row["n_baseline"] else f"{row['n_baseline']}/{row['n_current']}"


def _scored_only(row: Row) -> str:
    return f"{percent(row['baseline_scored_accuracy'])} {percent(row['current_scored_accuracy'])}"


def _adjusted(row: Row) -> str:
    return "too few" if row["adjusted_p_value"] is None else f"{row['adjusted_p_value']:.4f}{'*' * row['regressed']}"


def _detectable(row: Row) -> str:
    drop = row["minimum_detectable_effect"]
    return NOTHING if drop is None else points(-drop)


TESTS = Table(
    [
        text("strategy"),
        text("dataset", "benchmark", null="all"),
        number("n", _n),
        number("before", lambda row: percent_ends(row["baseline_accuracy"], row["baseline_scored_accuracy"])),
        number("now", lambda row: percent_ends(row["current_accuracy"], row["current_scored_accuracy"])),
        number("change", lambda row: points(row["delta"])),
        number("scored only", _scored_only, optional=True),
        number(
            "lost/won",
            lambda row: NOTHING if row["losses"] is None else f"{row['losses']}/{row['gains']}",
            where=lambda rows: any(row["losses"] is not None for row in rows),
        ),
        number("p", "p_value", form="{:.4f}", optional=True),
        number("Holm p", _adjusted),
        number(("detect-", "able"), _detectable),
    ]
)
"""The tests of gates, of the rows of their documents."""


_LIFTS = Table(
    [
        text("lift over single", "strategy"),
        number("before", lambda lift: points(lift["baseline"])),
        number("now", lambda lift: points(lift["current"])),
        number("change", lambda lift: points(lift["change"])),
    ]
)


def _notes(report: GateReport) -> list[str]:
    family = sum(test.adjusted_p_value is not None for test in report.tests)
    tests = (
        "McNemar's exact test over the same questions, pooled over datasets and on each"
        if report.gate == "paired"
        else "Fisher's exact test, as if all questions were different"
    )
    notes = [
        f"{tests}; one-sided: worse. {family} tests together at level {report.significance:g} (Holm); * regressed.",
        f"Compared: {report.n_compared} of {report.n_questions} questions of the baseline.",
        "An undecided answer is wrong at the lower end, and left out at the upper one.",
        "detectable: the drop that this test would see 8 times of 10, if as many questions change by chance.",
    ]
    if report.failures and not report.too_many_failed:
        notes.insert(2, f"{report.failures.capitalize()}.")
    if report.n_undecided:
        notes.append(
            f"{counted(report.n_undecided, 'question')} undecided on a side: a result has to be the same without them."
        )
    if any(test.adjusted_p_value is None for test in report.tests):
        notes.append("too few: so few questions differ that the test could not fail, even if all of them were lost.")
    return notes
