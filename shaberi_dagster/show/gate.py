"""How the result of a regression gate is shown."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from shaberi_dagster.reports.figures import percent, points
from shaberi_dagster.reports.gate import MOST_FAILED, GateReport, Lift
from shaberi_dagster.reports.report import NOTHING, Block, Heading, Result, Sentences, Table, number, table_of, text
from shaberi_dagster.statistics.gates import GateTest

_ALL = "all"


def gate_result(report: GateReport) -> Result:
    """Say what a gate found: tests, lifts, warnings, how the tests are made, and at the end the result.

    Its document is `gate` in the one of `quick-eval`.
    """
    against = f"{report.run_id} against baseline {report.baseline} ({report.baseline_run_id})"
    said: list[Block] = [
        Heading(f"Regression gate {report.gate}", against),
        _tests(report),
        *([_lifts(report.lifts)] if report.lifts else []),
        Sentences([f"{warning}." for warning in report.warnings], "warning"),
        Sentences(_notes(report), "note"),
        Sentences([f"Result: {report.verdict}."]),
    ]
    of_report = ("gate", "significance", "result", "passed", "verdict", "run_id", "model")
    of_baseline = ("baseline", "baseline_run_id", "baseline_model")
    counts = ("could_fail", "n_questions", "n_compared", "n_answers", "n_reused", "n_questions_current")
    failed = ("n_failed_baseline", "n_failed_current", "failures_count")
    tests = [_test_data(test) for test in report.tests]
    document = {name: getattr(report, name) for name in (*of_report, *of_baseline, *counts, *failed)} | {
        "most_failed": MOST_FAILED,
        "doubts": list(report.doubts),
        "comparable": report.comparable,
        "reasons": list(report.reasons),
        "unlike_rules": list(report.unlike_rules),
        "failed_datasets": list(report.failed_datasets),
        "tests": tests,
        "lifts": [asdict(lift) | {"change": lift.change} for lift in report.lifts],
        "warnings": list(report.warnings),
    }
    return Result(said, tests, document)


def _test_data(test: GateTest) -> dict[str, Any]:
    one = test.tally
    return asdict(one) | {
        "baseline_accuracy": one.baseline_accuracy,
        "current_accuracy": one.current_accuracy,
        "delta": one.delta,
        "baseline_scored_accuracy": one.baseline_scored_accuracy,
        "current_scored_accuracy": one.current_scored_accuracy,
        "p_value": test.p_value,
        "adjusted_p_value": test.adjusted_p_value,
        "level": test.level,
        "minimum_detectable_effect": test.minimum_detectable_effect,
        "regressed": test.regressed,
    }


def _tests(report: GateReport) -> Table:
    paired = report.gate == "paired"
    columns = [
        text("strategy", lambda test: test.tally.strategy),
        text("dataset", lambda test: test.tally.benchmark or _ALL),
        number("n", _n),
        number("before", lambda test: percent(test.tally.baseline_accuracy)),
        number("now", lambda test: percent(test.tally.current_accuracy)),
        number("change", lambda test: points(test.tally.delta)),
        number("scored only", _scored_only, optional=True),
        *([number("lost/won", lambda test: f"{test.tally.losses}/{test.tally.gains}")] if paired else []),
        number("p", lambda test: f"{test.p_value:.4f}", optional=True),
        number("Holm p", _adjusted),
        number(("detect-", "able"), _detectable),
    ]
    bold = [place for place, test in enumerate(report.tests) if test.regressed]
    return table_of(report.tests, columns, bold=bold)


def _n(test: GateTest) -> str:
    one = test.tally
    return str(one.n_current) if one.n_current == one.n_baseline else f"{one.n_baseline}/{one.n_current}"


def _scored_only(test: GateTest) -> str:
    return f"{percent(test.tally.baseline_scored_accuracy)} {percent(test.tally.current_scored_accuracy)}"


def _adjusted(test: GateTest) -> str:
    if test.adjusted_p_value is None:
        return "too few"
    return f"{test.adjusted_p_value:.4f}{'*' * test.regressed}"


def _detectable(test: GateTest) -> str:
    drop = test.minimum_detectable_effect
    return NOTHING if drop is None else points(-drop)


def _lifts(lifts: Iterable[Lift]) -> Table:
    columns = [
        text("lift over single", lambda lift: lift.strategy),
        number("before", lambda lift: points(lift.baseline)),
        number("now", lambda lift: points(lift.current)),
        number("change", lambda lift: points(lift.change)),
    ]
    return table_of(list(lifts), columns)


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
        "An answer without a verdict counts as wrong; scored only: baseline and now without such answers.",
        "detectable: the drop that this test would see 8 times of 10, if as many questions change by chance.",
    ]
    if report.failures and not report.too_many_failed:
        notes.insert(2, f"{report.failures.capitalize()}.")
    if any(test.adjusted_p_value is None for test in report.tests):
        notes.append("too few: so few questions differ that the test could not fail, even if all of them were lost.")
    return notes
