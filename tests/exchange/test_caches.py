"""Caches of the ensemble evaluation as rows of the lake."""

from dataclasses import replace

import orjson
import pytest

from shaberi_dagster.exchange.cache_files import export_caches
from shaberi_dagster.exchange.caches import JUDGE, import_ensemble
from shaberi_dagster.exchange.logs import unknown_question_id
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.lake.views import public_views
from shaberi_dagster.reports.requests import RunSelection, ScoreSelection
from shaberi_dagster.reports.scores import read_scores
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.spec import RunRequest
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import sha256_text
from tests.example_runs import ask, materialized, stored_run, without_results
from tests.exchange.caches import MODEL, TIMEOUT, baseline, ensemble, failed, response, result, write

pytestmark = pytest.mark.integration

_MADE = ("consensus", "judgements", "pass_outputs", "scores", "metrics")
ENSEMBLE_RUN, BASELINE_RUN = "google%3Asmall@@legacy-2x-t0.7", "google%3Asmall@@legacy-baseline"


@pytest.fixture(autouse=True, scope="module")
def results_left_out():
    with without_results():
        yield


@pytest.fixture
def imported(workspace, tmp_path):
    """Imports documents as files, and checks that all sums agree."""

    def of(**documents):
        paths = [write(tmp_path / "caches" / f"{name}.json", document) for name, document in documents.items()]
        done = import_ensemble(paths, workspace)
        assert done.discrepancies() == []
        return done

    return of


def answers(workspace, run_id=ENSEMBLE_RUN):
    return workspace.lake.read("answers", {"run_id": run_id}).sort("benchmark", "source_line", "sample_index")


def judgements(workspace):
    return workspace.lake.read("judgements").sort("source_line", "sample_index")


def counts(done):
    return [(file.entries_imported, file.entries_repeated, file.entries_quarantined) for file in done.files]


def test_responses_are_samples_and_errors_are_failure_rows(workspace, imported):
    imported(cache=ensemble({"gsm8k-7": [response("a"), failed("half of it")]}))

    ok, error = answers(workspace).iter_rows(named=True)
    assert (ok["model"], ok["run_tag"], ok["benchmark"], ok["sample_index"]) == (MODEL, "legacy-2x-t0.7", "gsm8k", 0)
    assert (ok["status"], ok["answer"], ok["answer_hash"], ok["latency_seconds"]) == ("ok", "a", sha256_text("a"), 1.5)
    assert (error["status"], error["error_class"], error["error_message"]) == ("error", "transient", TIMEOUT)
    assert (error["answer"], error["raw_answer"], error["sample_index"]) == (None, "half of it", 1)
    assert error["latency_seconds"] is None


def test_the_recorded_token_count_is_kept_as_the_sum_that_it_is(workspace, imported):
    imported(cache=ensemble({"gsm8k-7": [response(tokenCount=351), failed()]}))

    frame = answers(workspace)
    assert frame.select("answer_prompt_tokens", "answer_completion_tokens").null_count().row(0) == (2, 2)
    assert [orjson.loads(text) for text in frame["legacy_fields"]] == [
        {"questionId": "gsm8k-7", "tokenCount": 351},
        {"questionId": "gsm8k-7"},
    ]
    assert "tokenCount is their sum" in frame["not_recorded"][0]


def test_verdicts_are_judgements_of_an_unknown_judge_linked_by_hash(workspace, imported):
    imported(cache=baseline(result("q-1", response("4")), result("q-2", response("5"), correct=False)))

    right, wrong = judgements(workspace).iter_rows(named=True)
    assert (right["judge"], right["score"], right["recorded_score"], right["score_source"]) == (
        JUDGE,
        1.0,
        "true",
        "recorded",
    )
    assert (wrong["score"], wrong["answer_hash"]) == (0.0, sha256_text("5"))
    assert orjson.loads(wrong["legacy_fields"]) == {
        "questionId": "q-2",
        "evaluator": "numeric",
        "expected": "4",
        "predicted": "5",
    }


def test_accuracies_are_metrics_with_failures_counted(workspace, imported):
    imported(
        cache=baseline(
            result("q-1", response("4")),
            result("q-2", response("5"), correct=False),
            result("q-3", response("4")),
            result("q-4", failed(), correct=None),
        )
    )

    metrics = {row["null_policy"]: row for row in workspace.lake.read("metrics").iter_rows(named=True)}
    legacy = metrics["legacy"]
    assert (legacy["n_planned"], legacy["n_scored"], legacy["n_failed"]) == (4, 3, 1)
    assert legacy["score"] == pytest.approx(2 / 3)
    assert (metrics["zero"]["score"], metrics["strict"]["score"]) == (0.5, None)


def test_question_ids_are_those_of_the_texts_where_a_baseline_has_them(workspace, imported):
    imported(
        ensemble=ensemble({"q-1": [response(), response()], "q-2": [response(), response()]}),
        baseline=baseline(result("q-1", response())),
    )

    ids = dict(answers(workspace).select("source_line", "question_id").iter_rows())
    assert ids == {1: sha256_text("What is q-1?"), 2: unknown_question_id("ensemble cache", "gsm8k", "q-2")}
    questions = workspace.lake.read("questions")
    assert questions.select("question", "reference", "upstream_id", "source").rows() == [
        ("What is q-1?", "4", "q-1", "ensemble cache")
    ]


def test_questions_get_the_ids_of_their_texts_when_a_baseline_comes_later(workspace, imported):
    first = imported(cache=ensemble({"q-1": [response(), response()]}))
    assert (first.questions_with_text, first.questions_without_text) == (0, 1)

    later = imported(base=baseline(result("q-1", response())))

    assert (later.questions_with_text, later.questions_without_text) == (1, 0)
    assert set(answers(workspace)["question_id"]) == {sha256_text("What is q-1?")}
    assert answers(workspace)["question_set"][0] == answers(workspace, BASELINE_RUN)["question_set"][0]
    assert workspace.lake.read("questions").height == 1


def test_two_texts_for_one_id_leave_the_question_of_an_ensemble_open(workspace, imported):
    imported(
        base=baseline(result("gsm8k-1", response())),
        older=[result("gsm8k-1", response(), prompt="Another revision?")],
        cache=ensemble({"gsm8k-1": [response(), response()]}),
    )

    ids = dict(workspace.lake.read("answers").select("run_tag", "question_id").iter_rows())
    assert ids == {
        "legacy-baseline": sha256_text("What is gsm8k-1?"),
        "legacy-baseline-n1": sha256_text("Another revision?"),
        "legacy-2x-t0.7": unknown_question_id("ensemble cache", "gsm8k", "gsm8k-1"),
    }


def test_a_cache_that_has_grown_adds_what_is_new(workspace, imported):
    imported(cache=ensemble({"q-1": [response("a"), response("b")]}))
    old = answers(workspace)

    grown = imported(cache=ensemble({"q-2": [response("c"), response("d")], "q-1": [response("a"), response("b")]}))

    assert counts(grown) == [(1, 1, 0)]
    assert answers(workspace).filter(created_at=old["created_at"][0]).height == 2
    assert sorted(answers(workspace)["answer"]) == ["a", "b", "c", "d"]
    assert set(answers(workspace)["question_set"].str.slice(0, 7)) == {"gsm8k@2"}


def test_a_question_with_other_responses_is_set_aside(workspace, imported):
    imported(cache=ensemble({"q-1": [response("a"), response("b")]}))

    other = imported(other=ensemble({"q-1": [response("a"), response("x")]}))

    assert counts(other) == [(0, 1, 0)]
    assert answers(workspace)["answer"].to_list() == ["a", "b"]
    assert other.quarantine["reason"].to_list() == [
        "/entries/0: has another answer than the one that stands (sample 1)"
    ]


def test_what_failed_or_is_missing_gives_way_to_an_answer_in_either_order(workspace, imported):
    parts = {
        "first": [response("a"), failed()],
        "second": [failed(), response("b")],
        "third": [response("x"), failed()],
    }
    for order in (("first", "second", "third"), ("second", "first", "third")):
        documents = {name: ensemble({"q-1": parts[name]}, model=f"google:{order[0]}") for name in order}
        done = imported(**documents)
        assert [file.responses_quarantined + file.entries_quarantined for file in done.files] == [0, 0, 1]
        run_id = f"google%3A{order[0]}@@legacy-2x-t0.7"
        assert answers(workspace, run_id).sort("sample_index")["answer"].to_list() == ["a", "b"]


def test_samples_of_our_own_run_are_exported_and_imported(workspace, mock, tmp_path):
    asked = ask(mock, model="m", tag="t", benchmarks=["gsm8k"], samples=2, judge_models=[], strategies=["plurality"])
    materialized(stored_run(workspace, asked), workspace, "answers")
    (file,) = export_caches(workspace.lake, tmp_path / "out", RunSelection(models=["m"]))
    (done,) = import_ensemble([file], workspace).files
    assert (done.entries_imported, done.answers, done.errors) == (5, 10, 0)


def test_one_list_is_another_run_under_the_name_of_another_sample(imported):
    document = [result("gsm8k-1", response("a"))]
    done = imported(x_n30=document, x_n50=document)
    assert done.runs == ["google%3Asmall@@legacy-baseline-n30", "google%3Asmall@@legacy-baseline-n50"]


def test_benchmarks_of_one_run_come_from_several_files_and_imports(workspace, imported):
    imported(one=ensemble({"q-1": [response(), response()]}, dataset="gsm8k"))
    imported(two=ensemble({"q-1": [response(), response()]}, dataset="math500"))

    assert set(answers(workspace)["benchmark"]) == {"gsm8k", "math500"}
    (run,) = workspace.lake.read("runs").iter_rows(named=True)
    spec = orjson.loads(run["spec"])
    assert spec["benchmarks"].keys() == {"gsm8k", "math500"}
    assert spec["benchmarks"]["gsm8k"]["imported_samples"] == 2
    assert (spec["benchmarks"]["gsm8k"]["temperature"], run["status"]) == (0.7, "partial")


def test_a_mended_file_leaves_the_quarantine(workspace, imported):
    imported(cache=ensemble({"q-1": [response("a"), response(content=7)]}, ensembleSize=2))

    imported(cache=ensemble({"q-2": [response("a"), response("b")]}, ensembleSize=2))

    assert workspace.lake.read("legacy_quarantine").is_empty()


def test_a_run_that_was_not_imported_is_never_touched(workspace, imported, mock):
    stored_run(workspace, ask(mock, model=MODEL, tag="legacy-2x-t0.7"))

    with pytest.raises(ConfigurationError, match="was not imported from caches"):
        imported(cache=ensemble({"q-1": [response(), response()]}))
    assert workspace.lake.read("answers").is_empty()


@pytest.mark.long
def test_judges_strategies_and_passes_of_an_imported_cache_outlive_an_import_of_more(workspace, imported):
    documents = {
        "cache": ensemble({"q-1": [response("The answer is 4."), response("The answer is 5.")]}),
        "base": baseline(result("q-1", response("4"))),
    }
    imported(**documents)
    asked = RunRequest(model=MODEL, tag="legacy-2x-t0.7", strategies=["plurality"], passes=["repetition"])
    spec = plan_run(asked, workspace)
    assert spec.benchmarks["gsm8k"].judges == ("rule:numeric",)
    materialized(stored_run(workspace, asked), workspace, *_MADE)
    pipelines = {"baseline", "repetition"}
    keys = {"run_id": ENSEMBLE_RUN, "null_policy": "legacy"}
    planned = {(strategy, one): n for strategy, n in ((None, 2), ("single", 1), ("plurality", 1)) for one in pipelines}

    def counts():
        return {
            (row["strategy"], row["pipeline"]): row["n_planned"]
            for row in workspace.lake.read("metrics", keys).to_dicts()
        }

    assert counts() == planned
    kept = workspace.lake.read("judgements", {"judge": "rule:numeric"})
    before = workspace.lake.versions()
    imported(**documents)
    assert workspace.lake.versions() == before
    more = ensemble(
        {"q-1": [response("The answer is 4."), response("The answer is 5.")], "q-2": [response("4"), failed()]}
    )
    imported(cache=more, base=baseline(result("q-1", response("4")), result("q-2", response("4"))))
    assert workspace.lake.read("judgements", {"judge": "rule:numeric"}).equals(kept)
    assert {one: n for one, n in counts().items() if one[0] is None} == {(None, one): 4 for one in pipelines}
    assert plan_run(asked, workspace).passes == spec.passes
    materialized(stored_run(workspace, asked), workspace, *_MADE)
    assert counts() == {key: 2 * n for key, n in planned.items()}


@pytest.mark.parametrize(
    ("tag", "values", "complaint"),
    [
        ("legacy-2x-t0.7", {"strategies": ["majority"]}, "its model cannot be asked for the strategy majority"),
        ("legacy-baseline", {"strategies": ["plurality"]}, "takes 2 or more samples, and one was imported"),
        ("legacy-2x-t0.7", {"temperature": 1.0}, "so temperature cannot be chosen"),
    ],
)
def test_what_an_imported_cache_cannot_be_given_is_said(workspace, imported, tag, values, complaint):
    imported(cache=ensemble({"q-1": [response(), response()]}), base=baseline(result("q-1", response())))
    with pytest.raises(ConfigurationError, match=complaint):
        plan_run(RunRequest(model=MODEL, tag=tag, **values), workspace)


def test_answers_to_questions_whose_texts_are_unknown_cannot_be_judged(workspace, imported):
    imported(cache=ensemble({"q-1": [response(), response()]}))
    asked = RunRequest(model=MODEL, tag="legacy-2x-t0.7")
    with pytest.raises(ConfigurationError, match="was imported without the texts of its questions of gsm8k"):
        materialized(stored_run(workspace, asked), workspace, *_MADE)


def test_benchmarks_that_are_not_registered_break_no_view_and_no_table(workspace, imported):
    imported(cache=ensemble({"q-1": [response("4"), failed()]}), base=baseline(result("q-1", response("4"))))

    with open_catalog(workspace.settings.warehouse) as catalog:
        for view in public_views():
            if view.kind == "view":
                catalog.execute(f"from {view.name}").fetchall()
        for policy in ("legacy", "zero", "strict"):
            (row,) = read_scores(catalog, ScoreSelection(null_policy=policy)).rows
            assert (row["benchmark"], row["judge"], row["score"], row["n_planned"]) == ("gsm8k", JUDGE, 1.0, 1)


def test_an_imported_run_stays_of_whoever_imported_it_first(workspace, imported):
    imported(cache=ensemble({"q-1": [response("a"), response("b")]}))
    first = workspace.lake.read("runs")["created_by"].to_list()
    workspace.settings = replace(workspace.settings, user="another")
    imported(cache=ensemble({"q-2": [response("c"), response("d")], "q-1": [response("a"), response("b")]}))
    assert first == [Settings.from_environment().user]
    assert workspace.lake.read("runs")["created_by"].to_list() == first


def test_the_same_import_again_changes_nothing(workspace, imported):
    documents = {
        "cache": ensemble({"q-1": [response("a"), failed()], "q-2": [response("b"), None]}),
        "base": baseline(result("q-1", response("a")), result("q-2", response("b"), correct=None)),
    }
    first = imported(**documents)
    before = workspace.lake.versions()

    again = imported(**documents)

    assert (first.changed, again.changed) == (True, False)
    assert workspace.lake.versions() == before
    assert counts(again) == [(0, 2, 0), (0, 2, 0)]
    assert again.quarantine.height == 1
    assert workspace.lake.read("legacy_files").sort("path")["imported"].to_list() == [2, 2]
