from datetime import UTC, datetime

import orjson
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shaberi_dagster.exchange.trees.files import scan
from shaberi_dagster.exchange.trees.questions import QuestionIndex
from shaberi_dagster.exchange.trees.reading import read_files
from tests.exchange.trees.trees import NOON, LegacyTree, import_trees, lines_of, rows_of
from tests.sizes import size

pytestmark = pytest.mark.unit

OTHER_FOLDER = "lightblue__japanes-mt-bench-oneshot"


def judged(tree, benchmark, score, answer="答え", **more):
    """The judgement row of one answer with that score."""
    tree.judgements(benchmark, rows_of(benchmark, [answer], [score], **more))
    return import_trees(tree).judgements.row(0, named=True)


def test_names_stay_as_the_file_says(tree):
    tree.answers("elyza", rows_of("elyza", ["答え"]), model="__fsx__a__b.8e6.run2")
    row = import_trees(tree).answers.row(0, named=True)
    assert (row["model"], row["display_name"]) == ("__fsx__a__b.8e6.run2", "/fsx/a/b.8e6.run2")


@pytest.mark.parametrize(
    ("answer", "error_class", "state"),
    [
        ("答え", None, "text"),
        ("", "empty_answer", "empty"),
        (" \n\u3000", "empty_answer", "whitespace"),
        (None, "no_answer", None),
        ("PERMANENT_ERROR with model gpt-5: Error code: 400", "permanent", "text"),
        ("UNEXPECTED_ERROR: Error code: 500\nline", "unexpected", "text"),
        ("説明: UNEXPECTED_ERROR: とは", None, "text"),
    ],
)
def test_failures_among_answers_are_failure_rows_with_their_text(tree, answer, error_class, state):
    tree.answers("elyza", rows_of("elyza", [answer], None, ErrorCount=1))
    row = import_trees(tree).answers.row(0, named=True)
    assert (row["status"], row["error_class"]) == ("error" if error_class else "ok", error_class)
    assert (row["answer"], row["answer_state"]) == (answer, state)
    assert "\n" not in (row["error_message"] or "")
    assert orjson.loads(row["legacy_fields"]) == {"ErrorCount": 1}


def test_the_time_of_an_answer_is_kept(tree):
    tree.answers("elyza", rows_of("elyza", ["答え"], None, UpdatedAt="2025-11-20T13:26:06.725457+09:00"))
    row = import_trees(tree).answers.row(0, named=True)
    assert row["answered_at"] == datetime(2025, 11, 20, 4, 26, 6, 725457, UTC)
    assert row["created_at"] == NOON


@pytest.mark.parametrize("value", [None, "yesterday", "2025-11-20T13:26:06", 5, "0001-01-01T00:00:00+09:00"])
def test_a_time_that_is_none_stays_among_the_other_columns(tree, value):
    tree.answers("elyza", rows_of("elyza", ["答え"], None, UpdatedAt=value))
    row = import_trees(tree).answers.row(0, named=True)
    assert row["answered_at"] is None
    assert orjson.loads(row["legacy_fields"]) == {"UpdatedAt": value}


@pytest.mark.parametrize(
    ("benchmark", "score", "recorded", "outside"),
    [
        ("elyza", 4, "4", False),
        ("elyza", 9.0, "9.0", True),
        ("elyza", 0, "0", True),
        ("tengu", 0, "0", False),
        ("tengu", 11, "11", True),
        ("rakuda", 5.8, "5.8", False),
        ("mt_bench", -1.5, "-1.5", True),
    ],
)
def test_a_score_is_kept_as_given_and_flagged_outside_of_the_scale(tree, benchmark, score, recorded, outside):
    row = judged(tree, benchmark, score)
    assert (row["status"], row["score"], row["recorded_score"]) == ("ok", float(score), recorded)
    assert row["out_of_scale"] is outside
    assert row["score_source"] == "recorded"


def test_a_null_score_is_a_failure(tree):
    row = judged(tree, "rakuda", None)
    assert (row["status"], row["error_class"], row["score"], row["score_source"]) == ("error", "no_score", None, None)
    assert (row["out_of_scale"], row["recorded_score"]) == (None, "null")


@pytest.mark.parametrize(
    ("score", "recovered", "output"),
    [
        ({"score": 6, "judge_output": "理由"}, 6.0, "理由"),
        ({"score": None, "judge_output": "途中"}, None, "途中"),
        ({"score": "6"}, None, None),
        ({"score": True, "judge_output": 5}, None, None),
        ({}, None, None),
    ],
)
def test_an_object_as_score_counts_as_none_and_is_kept_with_what_is_inside(tree, score, recovered, output):
    row = judged(tree, "mt_bench", score)
    assert (row["status"], row["error_class"], row["score"]) == ("error", "object_score", None)
    assert (row["recovered_score"], row["judge_output"]) == (recovered, output)
    assert orjson.loads(row["recorded_score"]) == score


@pytest.mark.parametrize(
    ("output", "score", "source"),
    [
        ("良い\nFINAL SCORE: 8", 8, "final_score"),
        ("良い\nFINAL SCORE: 8.5", 8, "final_score"),
        ("<score>8</score>", 8, "score_tag"),
        ("有用性 7/10、正確性 8/10", 8, "legacy_form"),
        ("途中で切れ", 8, "fallback"),
        ("FINAL SCORE: 3", 8, "recorded"),
        (None, 8, "recorded"),
    ],
)
def test_the_source_of_a_score_is_found_in_the_judges_text(tree, output, score, source):
    row = judged(tree, "rakuda", score, judge_output=output)
    assert (row["score_source"], row["score"], row["judge_output"]) == (source, score, output)


def test_integers_among_floats_were_filled_in_later(tree):
    tree.judgements("rakuda", rows_of("rakuda", ["一", "二", "三"], [9.0, 5, 8.0]), model="filled")
    tree.judgements("rakuda", rows_of("rakuda", ["一", "二", "三"], [9.0, None, 8.0]), model="half")
    tree.judgements("rakuda", rows_of("rakuda", ["一", "二", "三"], [9, 5, 8]), model="integers")
    found = import_trees(tree).judgements
    assert found.filter("backfilled").select("model", "score").rows() == [("filled", 5.0)]


def test_mixed_columns_in_one_file_are_fine(tree):
    rows = rows_of("tengu", ["一", "二", "三"])
    rows[1]["ErrorCount"] = 0
    rows[2] |= {"ErrorType": None, "extra": {"deep": [1]}}
    tree.answers("tengu", rows)
    imported = import_trees(tree)
    fields = [orjson.loads(text) if text else None for text in imported.answers["legacy_fields"]]
    assert fields == [None, {"ErrorCount": 0}, {"ErrorType": None, "extra": {"deep": [1]}}]
    assert sorted(orjson.loads(imported.files["row_columns"].item()).values()) == [1, 1, 1]


def test_the_same_tree_twice_is_a_run_of_each(tree):
    tree.answers("rakuda", rows_of("rakuda", ["一", "二"]))
    tree.judgements("rakuda", rows_of("rakuda", ["一", "二"], [7, 8]))
    once, twice = import_trees(tree), import_trees({"tree": tree.root, "again": tree.root})
    of_runs = ["run_id", "run_tag"]
    for name in ("answers", "judgements"):
        rows = {tag: frame.drop(of_runs) for (tag,), frame in getattr(twice, name).group_by("run_tag")}
        assert set(rows) == {"legacy-tree", "legacy-again"}
        assert rows["legacy-tree"].equals(rows["legacy-again"])
        assert rows["legacy-tree"].equals(getattr(once, name).drop(of_runs))
    assert set(twice.files["status"]) == {"imported"}


def test_the_same_bytes_of_another_model_are_not_the_same_import(tree):
    content = lines_of(rows_of("rakuda", ["一"]))
    tree.answers("rakuda", content, model="a")
    tree.answers("rakuda", content, model="b")
    assert import_trees(tree).answers["model"].to_list() == ["a", "b"]


def test_the_same_bytes_in_two_dataset_folders_are_one_import(tree):
    content = lines_of(rows_of("mt_bench", ["一"]))
    tree.answers("mt_bench", content)
    tree.answers("mt_bench", content, folder=OTHER_FOLDER)
    imported = import_trees(tree)
    assert imported.answers.height == 1
    assert imported.status_of(f"{OTHER_FOLDER}/org__model.json") == "duplicate"


def test_the_same_rows_in_another_folder_of_the_tree_are_repeats(tree):
    rows = rows_of("mt_bench", ["一", "二"], [7, 8])
    tree.judgements("mt_bench", rows)
    tree.judgements("mt_bench", lines_of([row | {"ErrorCount": 0} for row in rows]), folder=OTHER_FOLDER)
    imported = import_trees(tree)
    assert imported.judgements.height == imported.repeats.height == 2
    assert set(imported.repeats["legacy_fields"]) == {'{"ErrorCount":0}'}


def test_other_scores_of_the_same_judge_in_another_folder_are_superseded(tree):
    tree.judgements("mt_bench", rows_of("mt_bench", ["一", "二"], [7, 8]))
    tree.judgements("mt_bench", rows_of("mt_bench", ["一", "二"], [None, 8]), folder=OTHER_FOLDER)
    found = import_trees(tree).judgements
    rows = found.select("score", "superseded", "judge_round").rows()
    assert rows == [(7.0, False, 0), (8.0, False, 0), (None, True, 1)]


def test_rows_say_what_was_never_recorded(tree):
    tree.answers("rakuda", rows_of("rakuda", ["一"]))
    assert judged(tree, "rakuda", 7, "一")["not_recorded"] == "settings, tokens, times, finish_reason, judge_output"
    assert judged(tree, "rakuda", 7, "一", judge_output="7")["not_recorded"] == "settings, tokens, times, finish_reason"
    assert import_trees(tree).answers["not_recorded"].to_list() == ["settings, tokens, times, finish_reason"]


def test_a_file_that_vanishes_is_said(tree):
    file = tree.answers("rakuda", rows_of("rakuda", ["一"]))
    tree.answers("rakuda", rows_of("rakuda", ["一"]), model="stays")
    files = list(scan(tree.root, "tree"))
    file.unlink()
    read = read_files(files, QuestionIndex())
    assert read.contents.select("model", "lines", "reason").rows() == [
        ("org__model", 0, "cannot be read after line 0: No such file or directory"),
        ("stays", 1, None),
    ]
    assert read.lines["model"].to_list() == ["stays"]


def test_binary_files_and_empty_files_are_accounted_for(tree):
    tree.answers("rakuda", bytes(range(256)) * 10, model="binary")
    tree.answers("rakuda", b"", model="empty")
    tree.answers("rakuda", b"\n\n", model="blank")
    imported = import_trees(tree)
    assert imported.answers.is_empty()
    assert imported.quarantine["raw_encoding"].to_list() == ["utf-8", *["base64"] * 10]
    counts = imported.files.select("model", "lines", "blank", "quarantined").sort("model").rows()
    assert counts == [("binary", 11, 0, 11), ("blank", 2, 2, 0), ("empty", 0, 0, 0)]


SCORES = st.none() | st.integers(-3, 12) | st.floats(allow_nan=False, allow_infinity=False) | st.just({"score": 5})
ANSWERS_TEXT = st.sampled_from(
    [None, "", " ", "一", "二", "<think>一</think>二", "<think>", "UNEXPECTED_ERROR: x", "\u2028\u0000"]
)


@pytest.mark.acceptance
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=size(20, 200))
@given(st.data())
def test_no_line_of_any_tree_is_lost(tmp_path_factory, data):
    trees = {}
    for name in ("one", "two"):
        tree = trees[name] = LegacyTree(tmp_path_factory.mktemp(name))
        tree.root.mkdir(exist_ok=True)
        for judge in data.draw(st.lists(st.sampled_from([None, "a", "b"]), max_size=3, unique=True)):
            answers = data.draw(st.lists(ANSWERS_TEXT, max_size=5))
            scores = data.draw(st.lists(SCORES, min_size=len(answers), max_size=len(answers)))
            rows = rows_of("rakuda", answers, None if judge is None else scores)
            rows = [*rows, *data.draw(st.lists(st.sampled_from(rows), max_size=2))] if rows else rows
            content = lines_of(rows)
            if cut := data.draw(st.integers(0, 30)):
                content = content[:-cut]
            if judge is None:
                tree.answers("rakuda", content)
            else:
                tree.judgements("rakuda", content, judge)
    imported = import_trees({name: tree.root for name, tree in trees.items()})
    keys = ["run_id", "benchmark", "question_id", "sample_index"]
    assert not imported.answers.select(pl.struct(keys).is_duplicated().any()).item()
    in_force = imported.judgements.filter(~pl.col("superseded"))
    assert not in_force.select(pl.struct([*keys, "judge"]).is_duplicated().any()).item()
    matched = imported.judgements.join(imported.answers, on=[*keys, "answer_hash"], how="anti", nulls_equal=True)
    assert matched.is_empty()
