"""Audits of rule verdicts beside scores: the sentence, and the interval that allows for the rule's errors."""

import pytest

from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.reports.audited import corrected
from shaberi_dagster.reports.ranking import remarks_on
from shaberi_dagster.reports.requests import ScoreSelection
from shaberi_dagster.reports.scores import read_rankings
from shaberi_dagster.statistics.intervals import Estimate, Interval
from tests.deciding.auditing import answering, audited, graded
from tests.example_runs import own_engine, without_results


@pytest.fixture(scope="module", autouse=True)
def engine():
    with own_engine({}), without_results():
        yield


def ranked(workspace):
    with open_catalog(workspace.settings.warehouse) as catalog:
        return read_rankings(catalog, ScoreSelection())


@pytest.mark.integration
def test_a_score_says_how_often_its_rule_is_wrong_and_its_interval_allows_for_it(mock, workspace):
    mock.options.script = answering(lambda number, benchmark: benchmark == "gsm8k" and number % 8 == 0)
    graded(workspace, mock, {"gsm8k": 80, "math500": 20})
    before = ranked(workspace)
    (of_both,) = remarks_on(before.rankings[0]["standings"])
    assert of_both.startswith("gsm8k, math500: rule verdicts not audited; ")

    audited(workspace, mock, 80, benchmarks=["gsm8k"])
    after = ranked(workspace)

    sentence, of_the_other = remarks_on(after.rankings[0]["standings"])
    assert of_the_other.startswith("math500: rule verdicts not audited; ")
    assert sentence.startswith("gsm8k: rule verdicts wrong: 12.5%, at most 21.8% (audit of 80 by auditor, 20")
    assert sentence.endswith("; 10 disagreements not settled); intervals allow for it.")
    estimates, now = ({row["benchmark"]: row["estimate"] for row in report.rows} for report in (before, after))
    first, second = estimates["gsm8k"], now["gsm8k"]
    assert estimates["math500"] == now["math500"], "nobody audited it"
    assert [row["score"] for row in after.rows] == [row["score"] for row in before.rows]
    assert second.value == pytest.approx(first.value + 10 / 80), "all its errors are false wrongs"
    assert second.interval.upper - second.interval.lower > first.interval.upper - first.interval.lower
    (line,), (corrected_line,) = (report.rankings[0]["standings"] for report in (before, after))
    assert corrected_line["mean"] == line["mean"]
    assert corrected_line["estimates"]["overall"].value == pytest.approx(
        line["estimates"]["overall"].value + 10 / 80 / 2
    )
    assert [mean["ci_questions_lower"] for mean in after.means if mean["judge"] == "rule:numeric"] == [
        second.interval.lower
    ]


@pytest.mark.unit
def test_variances_are_added_and_the_scale_ends_the_interval():
    estimate = Estimate(0.9, Interval(0.8, 0.96), 100, 0.03, 99, (0.0, 1.0))
    found = corrected(estimate, (0.05, 0.075, 0.08))
    assert (found.value, found.interval.lower) == pytest.approx((0.95, 0.95 - 0.125))
    assert found.interval.upper == 1
    assert found.standard_error > estimate.standard_error
    assert corrected(estimate, None) is estimate
