"""What a rule could not decide: two ends of a score, the same on every screen, and no verdict that one of them denies."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.lake.connections import read_frame
from shaberi_dagster.reports.blocks import Row, both_ends, decimals
from shaberi_dagster.reports.ensemble import read_stored_report
from shaberi_dagster.reports.requests import ScoreSelection
from shaberi_dagster.reports.rows import JudgeScores, says_wrong, undecided_sentences
from shaberi_dagster.reports.scores import read_rankings
from shaberi_dagster.reports.ties import ties_at_both_ends
from shaberi_dagster.runs.workspace import Workspace
from tests.ensembles import ask_ensemble, ensemble_stages, question_in, scripted, starter_questions
from tests.example_runs import own_engine, stored_run
from tests.mock_endpoint import running_mock

_SAYS = st.sampled_from([1.0, 0.0, None])  # right, wrong, undecided


def _scores(said: list[float | None]) -> JudgeScores:
    lower = [score or 0.0 for score in said]
    return JudgeScores("gsm8k", "rule:numeric", [*map(str, range(len(said)))], lower, [score is None for score in said])


def _ties(*lines: list[float | None]) -> dict[int, Row]:
    parts = [_scores(line) for line in lines]
    lower = [sum(part.scores) / len(part.scores) for part in parts]
    upper = [sum(part.decided.scores) / max(len(part.decided.scores), 1) for part in parts]
    return ties_at_both_ends(lower, upper, [[part] for part in parts], {"gsm8k": (0.0, 1.0)})


@given(st.lists(st.tuples(_SAYS, _SAYS), min_size=8, max_size=24))
def test_a_verdict_holds_at_both_ends_or_is_withheld_with_the_share(
    pairs: list[tuple[float | None, float | None]],
) -> None:
    first, second = map(list, zip(*pairs, strict=True))
    found = _ties(first, second)
    both = [pair for pair in pairs if None not in pair]
    decided = _ties(*map(list, zip(*both, strict=True))) if len(both) > 1 else {}
    for key, tie in found.items():
        if tie["against_best"] in {"best", "tied", "below"}:
            assert key in decided
            assert (decided[key]["against_best"] == "below") is (tie["against_best"] == "below")
        elif tie["why_withheld"].startswith("cannot tell"):
            n_undecided = sum(score is None for pair in pairs for score in pair)
            assert n_undecided
        if tie["difference_lower"] is not None:
            assert -1 <= tie["difference_lower"] <= tie["difference_upper"] <= 1


def test_an_abstaining_rule_is_not_beaten_by_what_it_left_open() -> None:
    abstaining, deciding = [1.0] * 6 + [None] * 14, [1.0] * 18 + [0.0] * 2
    tie = _ties(abstaining, deciding)[0]
    assert (tie["against_best"], tie["why_withheld"]) == ("withheld", "cannot tell: 35 % undecided")
    assert _ties([0.0] * 14 + [1.0] * 6, deciding)[0]["against_best"] == "below"


@pytest.mark.parametrize(
    ("lower", "upper", "said"),
    [(0.78, 0.96, "0.78–0.96"), (0.78, 0.799, "0.78"), (0.78, 0.8, "0.78–0.80"), (0.5, None, "0.50")],
)
def test_two_ends_are_shown_from_two_hundredths_on(lower: float, upper: float | None, said: str) -> None:
    assert both_ends(lower, upper) == said


def test_it_is_said_what_grades_the_rest_and_which_rule_cannot_say_wrong() -> None:
    def left(benchmark: str, judge: str, n: int) -> Row:
        return {"benchmark": benchmark, "judge": judge, "n_undecided": n}

    said = " ".join(undecided_sentences([left("simpleqa", "rule:match", 3), left("gsm8k", "rule:numeric+m", 1)]))
    assert "--judge-model" in said
    assert "simpleqa: the rule cannot say wrong here." in said
    assert [*undecided_sentences([left("gsm8k", "rule:numeric", 0)])] == []
    assert [says_wrong(name) for name in ("rule:match", "rule:numeric", "rule:match+m", "gone")] == [
        False,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize("value", [3.725, 3.7249999999999996, 3.7250000000000005])
def test_the_order_of_a_sum_is_not_seen_in_its_last_decimal(value: float) -> None:
    assert decimals(value) == "3.73"


@pytest.mark.integration
def test_sql_rankings_and_the_report_of_an_ensemble_say_the_same(workspace: Workspace) -> None:
    shy = {question.question for question in starter_questions("simpleqa")[1:3]}

    def says(body: dict[str, Any]) -> str:
        question = question_in(body, "simpleqa")
        return "Either of them." if question.question in shy else question.reference or ""

    with own_engine({}), running_mock(script=scripted(mock_model=says)) as mock:
        values = {"benchmarks": ["simpleqa"], "samples": 2, "strategies": ["plurality"], "sample": None}
        spec = stored_run(workspace, ask_ensemble(mock, **values))
        ensemble_stages(spec, workspace)
    n = len(starter_questions("simpleqa"))
    with open_catalog(workspace.settings.warehouse) as catalog:
        sql = read_frame(catalog, "from leaderboard_under('strict') where strategy = 'single'").row(0, named=True)
        report = read_stored_report(catalog, spec.run_id)
        ranking = read_rankings(catalog, ScoreSelection()).rankings[0]
    single, line = report.benchmarks[0].results[0], ranking["standings"][0]
    ends = pytest.approx([(n - 2) / n, 1.0])
    assert [sql["score"], sql["score_upper"]] == [single.accuracy, single.accuracy_scored] == ends
    assert [line["mean"], line["mean_upper"]] == ends
    assert (sql["n_undecided"], sql["n_excluded"], single.n_undecided, line["n_excluded"]) == (2, 0, 2, 0)
    assert line["share_undecided"] == pytest.approx(2 / n)
    assert line["open_benchmarks"] == list(ranking["asked"])
    assert line["ci_questions_lower"] < line["mean"] < line["mean_upper"] <= line["ci_questions_upper"]
