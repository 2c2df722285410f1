"""Strategies against the samples, the single answer and the best member, on verdicts that a test chooses."""

from io import StringIO
from pathlib import Path
from random import Random

import jsonschema
import orjson
import pytest
from rich.console import Console
from statsmodels.stats.multitest import multipletests

from shaberi_dagster.lake.catalog import connect, open_catalog, run_query
from shaberi_dagster.reports.ensemble import ensemble_result, read_report
from shaberi_dagster.reports.write import write
from shaberi_dagster.statistics.significance import mcnemar_exact, sign_flip_test
from tests.judged_ensembles import SIZE, judged_ensemble, right

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = orjson.loads((ROOT / "docs" / "schemas" / "quick-eval.schema.json").read_bytes())
MIXED = [[number % 4 > 0, number % 3 > 0, number % 2 > 0] for number in range(SIZE)]
"""Of each question what three samples are."""


@pytest.fixture
def read(workspace):
    """The report on a run with these verdicts."""

    def read(verdicts, **request):
        spec = judged_ensemble(workspace, verdicts, **request)
        with open_catalog(workspace.settings.warehouse) as catalog:
            return read_report(catalog, spec, list(verdicts), spec.strategies[1:], status="complete", calls_made={})

    return read


def against(report, reference):
    return {one.strategy: one for one in report.overall.pooled.against if one.reference == reference}


def shown(report, width=80):
    out = StringIO()
    write(ensemble_result(report), "table", Console(file=out, width=width))
    return out.getvalue()


def test_means_of_datasets_without_a_wrong_answer_have_intervals_within_the_scale(read):
    all_right = {"single": right(SIZE), "plurality": right(SIZE)}
    report = read({"gsm8k": all_right, "math500": all_right})

    mean = next(one for one in report.overall.mean_of_benchmarks if one.strategy == "plurality")
    assert (mean.accuracy, mean.interval.upper, mean.delta) == (1.0, 1.0, 0.0)
    assert 0.8 < mean.interval.lower < 0.99
    assert -0.2 < mean.delta_interval.lower < 0 < mean.delta_interval.upper < 0.2


def test_a_strategy_is_compared_with_the_mean_of_the_samples_of_each_question(read):
    report = read({"gsm8k": {"single": right(10), "plurality": right(17), "samples": MIXED}})

    shares = [sum(one) / 3 for one in MIXED]
    differences = [one - share for one, share in zip(right(17), shares, strict=True)]
    found = against(report, "samples")["plurality"]
    assert (found.n_questions, found.n_only_strategy, found.n_only_reference) == (SIZE, 0, 0)
    assert found.difference == pytest.approx(sum(differences) / SIZE)
    assert found.p_value == pytest.approx(sign_flip_test(differences).p_value)
    assert found.interval.lower < found.difference < found.interval.upper
    of_single = against(report, "single")["plurality"]
    assert (of_single.difference, of_single.p_value) == (pytest.approx(7 / SIZE), pytest.approx(mcnemar_exact(7, 0)))


def test_the_mean_of_the_samples_is_a_less_noisy_reference_than_one_answer(read):
    random = Random(20260301)
    chances = [random.betavariate(2, 1) for _ in range(200)]
    single, strategy = ([random.random() < chance for chance in chances] for _ in range(2))
    samples = [[random.random() < chance for _ in range(3)] for chance in chances]
    report = read({"gsm8k": {"single": single, "elo": strategy, "samples": samples}})

    widths = {one.reference: one.interval.upper - one.interval.lower for one in report.overall.pooled.against}
    # In theory sqrt((1 + 1/3) / (1 + 1)) = 0.82: a sample's noise is that of the strategy, here an answer like them.
    assert 0.7 < widths["samples"] / widths["single"] < 0.92


def test_a_strategy_that_fails_where_samples_do_not_gets_no_verdict(read):
    report = read({"gsm8k": {"single": right(10), "plurality": [None] * 9 + [True] * 11, "samples": MIXED}})

    found = against(report, "samples")["plurality"]
    assert found.n_only_reference == 9
    assert found.why_withheld.startswith("45.0 % of its and 0.0 % of the other side's answers are missing (p < 0.01)")
    assert "No verdict on plurality: " in " ".join(shown(report).split())


@pytest.mark.long
def test_p_values_are_adjusted_for_the_number_of_strategies(read):
    strategies = {"plurality": right(16), "elo": right(18), "council": right(11), "majority": right(9, first=3)}
    report = read({"gsm8k": {"single": right(10), "samples": MIXED} | strategies})

    for reference in ("samples", "single"):
        found = against(report, reference)
        assert list(found) == list(strategies)
        _, adjusted, *_ = multipletests([one.p_value for one in found.values()], method="holm")
        assert [one.adjusted_p_value for one in found.values()] == pytest.approx(adjusted)
    assert against(report, "single")["elo"].adjusted_p_value > against(report, "single")["elo"].p_value


def test_an_answer_that_is_not_there_is_left_out_and_no_gain_of_the_other_side(read):
    verdicts = {"single": [None] * 5 + [True] * 15, "plurality": right(20), "elo": [None, *right(20)[1:]]}
    report = read({"gsm8k": verdicts | {"samples": [[None] * 3, [True, None, None], *[[True] * 3] * 18]}})

    single, samples = (against(report, name) for name in ("single", "samples"))
    assert (single["plurality"].difference, single["plurality"].n_only_strategy) == (0, 5)
    assert (samples["plurality"].difference, samples["plurality"].n_questions) == (0, 19)
    assert (samples["elo"].n_only_reference, samples["elo"].n_only_strategy) == (0, 0)
    assert (single["elo"].n_questions, single["elo"].n_only_strategy, single["elo"].p_value) == (15, 4, 1)
    plurality = next(one for one in report.overall.pooled.results if one.strategy == "plurality")
    assert (plurality.accuracy, plurality.delta, plurality.n_against_single, plurality.n_gained) == (1, 0, 15, 0)
    text = " ".join(shown(report).split())
    assert "Not shown to differ from the mean of the samples: plurality, elo." in text
    assert "plurality: 1 question left out, to which the samples have no answer." in text


def test_equal_answers_have_an_interval_of_some_width(read):
    report = read({"gsm8k": {"single": right(20), "plurality": right(20), "samples": [[True] * 3] * SIZE}})

    interval = against(report, "samples")["plurality"].interval
    assert -0.25 < interval.lower < 0 < interval.upper < 0.25


def test_members_have_their_own_accuracy_and_strategies_are_compared_with_the_best(read):
    samples = [[True, number < 12, number < 4] for number in range(SIZE)]
    report = read(
        {"gsm8k": {"single": right(10), "plurality": right(15), "samples": samples}},
        sample_models=["good", "fair", "bad"],
    )

    assert [(row["model"], row["n_correct"], row["n_planned"]) for row in report.overall.pooled.members] == [
        ("good", 20, 20),
        ("fair", 12, 20),
        ("bad", 4, 20),
    ]
    best = against(report, "good")["plurality"]
    assert (best.difference, best.p_value) == (-0.25, pytest.approx(mcnemar_exact(0, 5)))
    text = shown(report)
    assert "The best member was found by the same questions, which flatters it." in text
    assert any(line.split()[:3] == ["gsm8k", "fair", "60.0%"] for line in text.splitlines())


def test_one_model_has_no_members(read):
    report = read({"gsm8k": {"single": right(10), "plurality": right(15), "samples": MIXED}})

    assert report.overall.pooled.members == ()
    assert {one.reference for one in report.overall.pooled.against} == {"samples", "single"}


def test_verdicts_that_could_not_be_read_are_counted(read, workspace):
    unread = ["no_score", "no_score", "timeout", *right(17, 17)]
    report = read({"gsm8k": {"single": unread, "plurality": right(20), "samples": MIXED}})

    single = next(one for one in report.overall.pooled.results if one.strategy == "single")
    assert (single.n_failed, single.n_unreadable) == (3, 2)
    assert "2 answers of those that failed: the grading model's verdict could not be read." in " ".join(
        shown(report).split()
    )
    with connect(workspace.lake) as catalog:
        sql = "select n_unreadable from ensemble_results where strategy = 'single'"
        assert run_query(catalog, sql).fetchall() == [(2,)]


def test_the_json_is_what_its_schema_says(read):
    report = read({"gsm8k": {"single": right(10), "plurality": right(20), "samples": MIXED}}, sample_models=["a", "b"])

    data = orjson.loads(orjson.dumps(ensemble_result(report).data()))
    jsonschema.validate(data, SCHEMA)
    members = [one["model"] for one in data["benchmarks"][0]["members"]]
    assert sorted(members) == ["a", "b"]
    assert {one["reference"] for one in data["overall"]["pooled"]["against"]} == {"samples", "single", members[0]}
