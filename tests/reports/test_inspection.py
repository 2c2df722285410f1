import re
from collections.abc import Iterator

import duckdb
import pytest

from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.reports.questions import PAGE, Filter, check_filter, read_questions, read_runs, read_texts
from shaberi_dagster.util.errors import ConfigurationError
from tests.inspected import HOSTILE, N_QUESTIONS, made

pytestmark = pytest.mark.integration

BOTH = [{"run_ids": ["alpha@@july"]}, {"run_ids": ["beta@@july"]}]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory) -> Iterator[duckdb.DuckDBPyConnection]:
    with open_catalog(made(tmp_path_factory.mktemp("inspected")).folder) as connection:
        yield connection


def found(catalog, text, runs=BOTH):
    return read_questions(catalog, runs, Filter.parse(text))


def test_runs_have_their_answers_failures_and_scores(catalog):
    first, second = read_runs(catalog, benchmark=None)
    assert tuple(first[name] for name in ("model", "n_answers", "n_failed", "score")) == ("alpha", N_QUESTIONS, 0, 9.0)
    assert second["n_failed"] == 1
    assert [one["model"] for one in read_runs(catalog, models=["beta"], tags=["july"], benchmark="tengu")] == ["beta"]


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"models": ["beta", "alpa"]}, r"^no model 'alpa'; did you mean alpha\?$"),
        ({"tags": ["jul"]}, r"^no tag 'jul'; did you mean july\?$"),
        ({"benchmark": "tengi"}, r"^no benchmark 'tengi'; did you mean tengu\?$"),
    ],
)
def test_runs_of_a_name_that_the_lake_has_not_are_refused_with_those_like_it(chosen, said, catalog):
    with pytest.raises(ConfigurationError, match=said):
        read_runs(catalog, **chosen)


def test_questions_come_page_by_page_and_all_once(catalog):
    page = read_questions(catalog, BOTH, Filter(), limit=PAGE)
    assert (len(page), page[0]["n_questions"]) == (PAGE, N_QUESTIONS)
    assert read_questions(catalog, BOTH, Filter(), offset=PAGE, limit=1)[0]["position"] == PAGE + 1
    assert [one["position"] for one in found(catalog, "")] == list(range(1, N_QUESTIONS + 1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("failed", [3, 5]),
        ("category:敬語 score<2", [10, 90, 100, 180, 190]),
        ("答え12", [12, *range(120, 130)]),
        ("質問230", [230]),
        ("benchmark:elyza", []),
        ("sort:difference score>7 category:敬語", [80, 170]),
        ("sort:score category:敬語", [90, 180, 10, 100, 190, 20, 110, 200, 30, 120, 210]),
        ("答え5 judge:b failed", [5]),
        ("答え5 judge:a failed", []),
        ("loses", []),
    ],
)
def test_a_filter_leaves_what_it_says(text, expected, catalog):
    assert [one["position"] for one in found(catalog, text)][:11] == expected[:11]


def test_scores_are_of_the_judges_that_scored_all_runs_at_this_question(catalog):
    question = found(catalog, "答え5 failed")[0]
    assert question["scores"] == [9.0, 5.0]
    assert found(catalog, "", BOTH[1:])[4]["scores"] == [4.5]


def test_where_the_first_run_is_below_another_it_loses(catalog):
    lost = [one["position"] for one in found(catalog, "loses category:敬語", BOTH[::-1])]
    assert lost == list(range(10, N_QUESTIONS + 1, 10))
    assert 3 not in [one["position"] for one in found(catalog, "loses", BOTH[::-1])]  # beta has no score there
    assert found(catalog, "loses", BOTH[:1]) == []


def test_scores_of_runs_and_how_far_they_are_apart(catalog):
    question = found(catalog, "")[9]
    assert question["scores"] == [9.0, 1.0]
    assert (question["difference"], question["disagreement"]) == (8.0, 0.0)


def test_a_question_has_its_reference_answers_and_judgements(catalog):
    question = found(catalog, "")[6]
    (texts,) = read_texts(catalog, BOTH[::-1], [question])
    assert (texts["stored"]["question"], texts["stored"]["reference"]) == ("質問7：犬は何匹いますか？", "7匹")
    answers = [answer for (run,) in texts["answers"] for answer in run.samples]
    assert [(one["model"], one["answer"]) for one in answers] == [("beta", HOSTILE), ("alpha", HOSTILE)]
    assert [(one["run_id"], one["judge"]) for one in answers[0]["judgements"]] == [
        ("beta@@july", "a"),
        ("beta@@july", "b"),
    ]


def test_each_of_many_questions_has_its_own_answers(catalog):
    read = list(read_texts(catalog, BOTH, found(catalog, "score>3 sort:difference")))
    assert len(read) > PAGE
    positions = [texts["position"] for texts in read]
    assert positions == [one["position"] for one in found(catalog, "score>3 sort:difference")]
    assert [texts["stored"]["position"] for texts in read] == positions
    answers = {texts["position"]: texts["answers"][0][0].samples[0]["answer"] for texts in read}
    assert answers == {position: HOSTILE if position == 7 else f"alphaの答え{position}" for position in answers}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sort:random", "sort: must be one of position"),
        ("score<1.2.3", "score< and score> need a number, not '1.2.3'"),
        ("score<<4", "score< and score> need a number, not '<4'"),
        ("score>", "score< and score> need a number, not ''"),
        ("catgory:敬語", r"'catgory:敬語' chooses nothing; did you mean category:NAME\?"),
        ("category:", r"'category:' chooses nothing; did you mean category:NAME\?"),
    ],
)
def test_a_filter_that_is_none_is_refused(text, message):
    with pytest.raises(ConfigurationError, match=message):
        Filter.parse(text)


def test_words_with_a_colon_are_words():
    assert Filter.parse("https://example.org 時間:3").search == "https://example.org 時間:3"


def test_a_judge_that_nobody_has_is_refused(catalog):
    check_filter(catalog, Filter.parse("judge:a"), BOTH)
    with pytest.raises(ConfigurationError, match="no judge 'nobody'"):
        check_filter(catalog, Filter.parse("judge:nobody"), BOTH)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("fialed", "no question matches --filter 'fialed'; did you mean failed"),
        ("zzz", "no question matches"),
        ("score=5", "did you mean score<N"),
        ("benchmark=elyza", "did you mean benchmark:NAME"),
        ("lang:ja", "chooses nothing"),
    ],
)
def test_a_word_that_leaves_nothing_is_an_error(text, meant, catalog):
    with pytest.raises(ConfigurationError, match=re.escape(meant)):
        check_filter(catalog, Filter.parse(text), BOTH)


def test_a_filter_is_written_as_it_was_read():
    text = "benchmark:elyza judge:gpt category:敬語 sort:score score<5 score>1.5 failed 犬 猫"
    assert str(Filter.parse(text)) == text
