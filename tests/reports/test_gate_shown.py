"""The result of a gate, as text and as JSON."""

from io import StringIO

import pytest
from rich.console import Console

from shaberi_dagster.reports.gate import GateReport, gate_result
from shaberi_dagster.reports.write import as_json, write
from shaberi_dagster.statistics.gates import Tally, could_fail, paired_gate, pool

pytestmark = pytest.mark.unit

N = 20


def report(losses: int, *warnings: str, n: int = N, n_reused: int = 0, **failed: int) -> GateReport:
    """Of two strategies on two datasets; `single` lost so many questions of the first."""
    tallies = [
        Tally(strategy, name, n, n, n - 2, n - 2 - lost, n, n, losses=lost, gains=0)
        for strategy in ("single", "plurality")
        for name, lost in (("gsm8k", losses if strategy == "single" else 0), ("truthfulqa", 0))
    ]
    return GateReport(
        gate="paired",
        significance=0.1,
        run_id="m@@now",
        model="m",
        baseline="main",
        baseline_run_id="m@@old",
        baseline_model="m",
        tests=paired_gate(tallies),
        totals=tuple(pool(tallies)),
        warnings=warnings,
        could_fail=could_fail(paired_gate, tallies),
        n_questions=2 * n,
        n_compared=2 * n,
        n_answers=4 * n,
        n_reused=n_reused,
        n_questions_current=2 * n,
        **failed,
    )


def shown(of: GateReport, width: int = 200) -> str:
    out = StringIO()
    write(gate_result(of), "table", Console(file=out, width=width))
    return out.getvalue()


def test_an_inconclusive_gate_says_why_and_is_no_pass() -> None:
    few = report(0, n=3, n_reused=12)

    assert few.result == "inconclusive"
    assert " ".join(shown(few, 80).split()).startswith(
        "Gate INCONCLUSIVE: not shown to be worse than baseline main, but there are so few questions that no test "
        "could have failed; every compared answer is older than this run: other runs have paid for all replies."
    )


def test_few_failed_calls_are_named_with_what_is_left_and_many_allow_no_verdict() -> None:
    few, many = (report(0, n_failed_baseline=count, n_failed_current=1) for count in (2, 3))

    assert "Calls failed on 2 of 40 questions of the baseline and 1 of 40 of this run: compared are the 40" in shown(
        few
    )
    assert few.result == "passed"
    assert " ".join(shown(many).split()).startswith(
        "Gate INCONCLUSIVE: no verdict against baseline main: calls failed on 3 of 40 questions of the baseline and "
        "1 of 40 of this run: compared are the 40 that both answered (at most 5% of a side may fail)."
    )
    counts = ("n_failed_baseline", "n_failed_current", "n_questions_current", "failures_count", "most_failed")
    assert [gate_result(many).data()[name] for name in counts] == [3, 1, 40, False, 0.05]


def test_the_json_has_the_result_with_what_it_rests_on() -> None:
    data = gate_result(report(12, "temperature changed")).data()

    assert as_json(data)
    assert (data["result"], data["passed"], data["gate"], data["significance"]) == ("failed", False, "paired", 0.1)
    assert (data["n_questions"], data["n_compared"], data["n_answers"], data["n_reused"]) == (40, 40, 80, 0)
    assert (data["could_fail"], data["doubts"], data["warnings"]) == (True, [], ["temperature changed"])
    row = data["tests"][0]
    assert (row["strategy"], row["benchmark"], row["losses"], row["gains"]) == ("single", None, 12, 0)
    assert row["minimum_detectable_effect"] > 0
    assert [lift["change"] for lift in data["lifts"]] == [pytest.approx(0.3)]
