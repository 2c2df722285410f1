import csv
import re

import pytest

from shaberi_dagster.statistics.intervals import wilson_interval
from shaberi_dagster.statistics.significance import fisher_lower_tail, holm, mcnemar_exact
from tests.statistics.published import mcnemar_corrected

pytestmark = pytest.mark.corpus

EXACT = {"rel": 0, "abs": 1e-9}


@pytest.fixture
def golden(corpus):
    def rows(name):
        with (corpus / "golden" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    return rows


def number(text):
    return float(re.sub(r"np\.float64\((.*)\)", r"\1", text))


def numbers(text):
    return [float(part) for part in text.split()]


def test_fishers_lower_tail_is_that_of_the_golden_tables(golden):
    rows = golden("fisher")
    cells = ("baseline_correct", "baseline_wrong", "current_correct", "current_wrong")

    found = [fisher_lower_tail(*(int(row[cell]) for cell in cells)) for row in rows]

    assert len(rows) >= 20
    assert found == pytest.approx([number(row["p_one_sided_lower_tail_scipy"]) for row in rows], **EXACT)


def test_holms_adjustment_is_that_of_the_golden_families(golden):
    rows = golden("holm")
    assert len(rows) >= 10
    for row in rows:
        adjusted = holm(numbers(row["raw_p"]))
        assert adjusted == pytest.approx(numbers(row["holm_adjusted_p_statsmodels"]), **EXACT)
        assert [p <= float(row["alpha"]) for p in adjusted] == [text == "True" for text in row["reject"].split()]


def test_wilsons_intervals_are_those_of_the_exact_formula(golden):
    rows = [row for row in golden("wilson") if int(row["n"])]
    assert len(rows) >= 8
    for row in rows:
        interval = wilson_interval(int(row["k"]), int(row["n"]))
        assert interval.lower == pytest.approx(float(row["lower_exact_z"]), **EXACT)
        assert interval.upper == pytest.approx(float(row["upper_exact_z"]), **EXACT)


def test_mcnemars_tests_are_those_of_the_golden_tables(golden):
    rows = [row for row in golden("mcnemar") if row["p_exact_statsmodels"]]
    assert len(rows) >= 4
    for row in rows:
        pair = int(row["model_only"]), int(row["strategy_only"])
        assert mcnemar_exact(*pair) == pytest.approx(float(row["p_exact_statsmodels"]), **EXACT)
        expected = float(row["chi2_cc_statsmodels"]), float(row["p_cc_statsmodels"])
        assert mcnemar_corrected(*pair) == pytest.approx(expected, **EXACT)


def test_the_published_regression_checks_come_out_the_same(golden):
    rest, families = golden("regression_checks"), []
    while rest:
        size = int(rest[0]["family_size"])
        families.append(rest[:size])
        rest = rest[size:]
    assert len(families) == 26
    failed = 0
    for rows in families:
        tables = [
            tuple(int(row[name]) for name in ("prev_correct", "prev_total", "cur_correct", "cur_total")) for row in rows
        ]
        p = [fisher_lower_tail(a, n - a, c, m - c) for a, n, c, m in tables]
        adjusted = holm(p)
        worse = [
            adjusted_p <= float(row["alpha"]) and c / m < a / n
            for adjusted_p, row, (a, n, c, m) in zip(adjusted, rows, tables, strict=True)
        ]
        failed += any(worse)
        assert p == pytest.approx([float(row["p_raw"]) for row in rows], **EXACT)
        assert adjusted == pytest.approx([float(row["p_holm"]) for row in rows], **EXACT)
        assert [adjusted_p <= float(row["alpha"]) for adjusted_p, row in zip(adjusted, rows, strict=True)] == [
            row["significant"] == "True" for row in rows
        ]
        assert any(worse) != (rows[0]["passed"] == "True")
    assert failed == 2
