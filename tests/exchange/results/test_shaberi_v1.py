"""Trees that are imported and exported again, and runs of our own as the old suite would have written them."""

import gzip
import shutil
from datetime import UTC, datetime

import orjson
import polars as pl
import pytest

from shaberi_dagster.deciding.candidates import partial_spec
from shaberi_dagster.exchange.caches import import_ensemble
from shaberi_dagster.exchange.shaberi_v1 import RECORD_NAME, export
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.reports.requests import RunSelection
from shaberi_dagster.runs.stored import store_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError
from tests.commands import lake_of
from tests.example_runs import ask, materialized, own_engine, stored_run, without_results
from tests.exchange.caches import ensemble, response, write
from tests.exchange.results.comparing import assert_same_trees, exact, files_in, rows_in
from tests.exchange.trees.trees import FOLDERS, LegacyTree, columns_of, lines_of, questions_of, rows_of

pytestmark = pytest.mark.integration

MODEL = "org__model"
GPT_4 = "gpt-4-turbo-preview"


@pytest.fixture
def tree(tmp_path):
    return LegacyTree(tmp_path / "tree")


@pytest.fixture
def output(tmp_path):
    return tmp_path / "export"


@pytest.fixture(scope="module")
def one_answer(tmp_path_factory):
    """A tree of one answer, and the lake that has it."""
    folder = tmp_path_factory.mktemp("one_answer")
    tree, own = LegacyTree(folder / "tree"), Workspace(Settings.from_environment(lake_of(folder)), environment={})
    tree.answers("elyza", rows_of("elyza", ["a"]))
    imported(own, tree=tree)
    return tree, own.settings.warehouse


@pytest.fixture
def imported_tree(one_answer, workspace):
    """A tree of one answer, which this test's lake has."""
    tree, warehouse = one_answer
    shutil.copytree(warehouse, workspace.settings.warehouse)
    return tree


def imported(workspace, **trees):
    return import_trees(ImportRequest({name: tree.root for name, tree in trees.items()}), workspace)


def path_of(benchmark, model=MODEL, judge=None):
    folder = f"judgements/judge_{judge}" if judge else "model_answers"
    return f"data/{folder}/{FOLDERS[benchmark]}/{model}.json"


def test_an_imported_tree_comes_out_as_it_was(workspace, tree, output):
    tree.answers("elyza", rows_of("elyza", ["一", "<think>ええと</think>二", None, ""]))
    tree.answers("tengu", [*rows_of("tengu", ["a", "b"]), *rows_of("tengu", ["", "", "c\x00\u2028"], ErrorCount=1)[2:]])
    mt_bench = [{"Category" if name == "category" else name: value for name, value in row.items()}
                for row in rows_of("mt_bench", ["x", "y"])]  # fmt: skip
    tree.answers("mt_bench", mt_bench)
    tree.answers("rakuda", rows_of("rakuda", ["r"], UpdatedAt="2025-08-01T10:00:00+09:00", id=1))
    tree.judgements("elyza", rows_of("elyza", ["一", "二", None, ""], [5, 4.5, None, 1], judge_output="FINAL SCORE: 5"))
    tree.judgements("rakuda", rows_of("rakuda", ["r"], [9.0]), judge="gpt-4.1-2025-04-14")
    imported(workspace, tree=tree)

    done = export(workspace.lake, output)

    assert_same_trees(tree.root, output)
    assert (done.files, done.rows) == ({"answers": 4, "judgements": 2}, {"answers": 10, "judgements": 5})
    assert (done.oddities, done.elsewhere, done.not_written, done.same) == ([], [], [], 0)


def test_a_column_that_only_some_rows_have_is_theirs_alone(workspace, tmp_path, output):
    first, second = LegacyTree(tmp_path / "first"), LegacyTree(tmp_path / "second")
    answers = rows_of("tengu", ["a", "b", "c", "d"])
    answers[1]["note"] = None
    del answers[2]["Category"]
    answers[3] = dict(reversed(answers[3].items()))
    first.answers("tengu", answers)
    judged = rows_of("tengu", ["a", "b", "c"], [1, 2, 3])
    judged[1]["judge_output"] = None
    first.judgements("tengu", judged)
    # Its first row says what the other tree has said, in another line and without the column.
    second.judgements("tengu", [judged[2], rows_of("tengu", ["a", "b"], [1, 2])[1]])
    imported(workspace, first=first, second=second)

    done = export(workspace.lake, output / "first", RunSelection(sources=["first"]))
    export(workspace.lake, output / "second", RunSelection(sources=["second"]))

    for name, tree in (("first", first), ("second", second)):
        for path in files_in(output / name):
            assert exact(rows_in(output / name, path)) == exact(rows_in(tree.root, path))
    assert files_in(output / "first") == {path_of("tengu"), path_of("tengu", judge=GPT_4)}
    assert done.oddities == []


def test_a_compressed_copy_that_says_nothing_new_does_not_hinder_the_export(workspace, tree, output):
    answers = tree.answers("rakuda", rows_of("rakuda", ["r", "s"]))
    answers.with_suffix(".json.gz").write_bytes(gzip.compress(answers.read_bytes() + b"\n"))
    imported(workspace, tree=tree)

    done = export(workspace.lake, output)

    assert exact(rows_in(output, path_of("rakuda"))) == exact(rows_in(tree.root, path_of("rakuda")))
    assert (done.files["answers"], done.same, done.elsewhere) == (1, 1, [])


def test_objects_as_scores_and_blank_lines_are_the_oddities(workspace, tree, output):
    scores = [7, {"score": 8, "judge_output": "FINAL SCORE: 8"}, {"score": None, "judge_output": ""}]
    lines = lines_of(rows_of("rakuda", ["a", "b", "c"], scores)).split(b"\n")
    file = tree.judgements("rakuda", b"\n".join([lines[0], b"", *lines[1:]]))
    imported(workspace, tree=tree)

    done = export(workspace.lake, output)

    assert exact(rows_in(output, path_of("rakuda", judge=GPT_4))) == exact(rows_in(file.parent, file.name))
    assert {(note.what, note.rows, note.lines) for note in done.oddities} == {
        ("object in place of a score, written as recorded", 2, (3, 4)),
        ("blank line not written", 1, (2,)),
    }
    assert {note.path for note in done.oddities} == {path_of("rakuda", judge=GPT_4)}


def test_a_line_in_quarantine_is_said_to_be_missing(workspace, tree, output):
    good = lines_of(rows_of("rakuda", ["a", "b"]))
    tree.answers("rakuda", good + b'{"Question": \n')
    imported(workspace, tree=tree)

    done = export(workspace.lake, output)

    assert len(rows_in(output, path_of("rakuda"))) == 2
    (note,) = done.oddities
    assert (note.what, note.lines) == ("blank or quarantined line not written", (3,))


def test_the_tree_first_by_name_gets_the_place_and_the_other_one_a_folder_of_its_own(workspace, tmp_path, output):
    first, second = LegacyTree(tmp_path / "first"), LegacyTree(tmp_path / "second")
    first.answers("elyza", rows_of("elyza", ["first", "same"]))
    second.answers("elyza", rows_of("elyza", ["second", "same"]))
    for tree, score in ((first, 3), (second, 4)):
        tree.judgements("elyza", rows_of("elyza", ["first", "same"], [score, 5]))
        tree.answers("rakuda", rows_of("rakuda", ["r"]), model="only" if tree is second else MODEL)
    imported(workspace, b=second)
    imported(workspace, a=first)

    done = export(workspace.lake, output)

    taken = {path_of("elyza"), path_of("elyza", judge=GPT_4)}
    assert files_in(output) == files_in(first.root) | {path_of("rakuda", "only")} | {
        f"sources/b/{path}" for path in taken
    }
    for path in taken:
        assert exact(rows_in(output, path)) == exact(rows_in(first.root, path))
        assert exact(rows_in(output / "sources" / "b", path)) == exact(rows_in(second.root, path))
    assert {note.path for note in done.elsewhere} == {f"sources/b/{path}" for path in taken}


def test_one_tree_alone_comes_out_as_it_was_whatever_the_others_say(workspace, tmp_path, output):
    first, second = LegacyTree(tmp_path / "first"), LegacyTree(tmp_path / "second")
    for tree, answer in ((first, "first"), (second, "second")):
        tree.answers("elyza", rows_of("elyza", [answer, "same"]))
        tree.answers("rakuda", rows_of("rakuda", ["same bytes"]))
    # The same rows in other bytes.
    rows = rows_of("tengu", ["same rows"], [5])
    first.judgements("tengu", rows)
    second.judgements("tengu", b" " + lines_of(rows))
    imported(workspace, first=first, second=second)

    export(workspace.lake, output / "all")
    export(workspace.lake, output / "second", RunSelection(sources=["second"]))

    assert_same_trees(second.root, output / "second")
    assert path_of("rakuda") in files_in(output / "all")
    assert f"sources/second/{path_of('rakuda')}" not in files_in(output / "all")
    assert f"sources/second/{path_of('tengu', judge=GPT_4)}" not in files_in(output / "all")


def test_imported_caches_of_the_ensemble_evaluation_are_no_part_of_a_tree(workspace, tmp_path, output):
    import_ensemble([write(tmp_path / "cache.json", ensemble({"gsm8k-1": [response()]}))], workspace)

    done = export(workspace.lake, output)

    assert files_in(output) == set()
    assert {note.what for note in done.not_written} == {"the suite has no benchmark gsm8k"}


def test_only_what_is_asked_for_is_exported(workspace, tree, output):
    tree.answers("elyza", rows_of("elyza", ["a"]), model="org__one")
    tree.answers("elyza", rows_of("elyza", ["b"]), model="org__two")
    tree.judgements("elyza", rows_of("elyza", ["other"], [2]), model="org__two")
    imported(workspace, tree=tree)

    export(workspace.lake, output / "model", RunSelection(models=["org/one"]))
    export(workspace.lake, output / "tag", RunSelection(tags=["legacy-tree-gen2"]))

    assert files_in(output / "model") == {path_of("elyza", "org__one")}
    assert files_in(output / "tag") == {path_of("elyza", "org__two", GPT_4)}


@pytest.mark.parametrize(
    "selection",
    [RunSelection(models=["nobody"]), RunSelection(tags=["never"]), RunSelection(sources=["nowhere"])],
    ids=["model", "tag", "source"],
)
@pytest.mark.usefixtures("imported_tree")
def test_nothing_to_export_is_an_error(workspace, output, selection):
    with pytest.raises(ConfigurationError, match="nothing to export"):
        export(workspace.lake, output, selection)
    assert not output.exists()


def test_an_original_tree_is_never_overwritten(workspace, imported_tree):
    file = imported_tree.root / path_of("elyza")
    before = file.read_bytes()

    with pytest.raises(ConfigurationError, match="neither empty nor an earlier export"):
        export(workspace.lake, imported_tree.root)
    assert file.read_bytes() == before


def test_a_second_export_replaces_the_files_of_the_first(workspace, imported_tree, output):
    export(workspace.lake, output)
    (output / path_of("elyza")).write_bytes(b"half a file")

    export(workspace.lake, output)

    assert_same_trees(imported_tree.root, output)
    record = orjson.loads((output / RECORD_NAME).read_bytes())
    assert (record["status"], record["format"], record["files"]["answers"]) == ("complete", "shaberi-v1", 1)
    assert not [path for path in output.rglob("*") if path.name.startswith(".")]


@pytest.mark.parametrize("name", ["..", "a/../../b", "a\\b", "", "x" * 300])
@pytest.mark.usefixtures("imported_tree")
def test_no_name_in_the_lake_leads_out_of_the_folder(workspace, output, name):
    files = workspace.lake.read("legacy_files").with_columns(dataset=pl.lit(name))
    workspace.lake.replace("legacy_files", files, {"import_tag": "legacy"})

    done = export(workspace.lake, output)

    assert files_in(output) == set()
    assert [(note.what, note.rows) for note in done.not_written] == [("its name cannot be that of a file here", 1)]


def test_a_half_written_import_is_exported_as_far_as_it_goes(workspace, tree, output):
    tree.judgements("elyza", rows_of("elyza", ["a", "b"], [3, 4]))
    tree.answers("elyza", rows_of("elyza", ["a", "b"]))
    tree.answers("elyza", b" " + lines_of(rows_of("elyza", ["a", "b"])), folder="copy")
    imported(workspace, tree=tree)
    lost = questions_of("elyza")[0].question_id
    kept = workspace.lake.read("answers").filter(pl.col("question_id") != lost)
    workspace.lake.replace("answers", kept, {"benchmark": "elyza"})

    done = export(workspace.lake, output)

    assert [row["ModelAnswer"] for row in rows_in(output, path_of("elyza", judge=GPT_4))] == ["b"]
    assert {note.what for note in done.not_written} == {
        "a judgement without its answer",
        "a row that repeats one that is not there",
    }
    assert {note.what for note in done.oddities} == {"line not written: its row is not in the lake"}


def test_a_run_of_our_own_can_be_read_as_a_legacy_tree(workspace, mock, output):
    with own_engine({}), without_results():
        spec = stored_run(workspace, ask(mock, model="org/own", benchmarks=["all"], tag="july"))
        materialized(spec, workspace, "answers", "judgements")
    done = export(workspace.lake, output)

    other = type(workspace)(workspace.settings.__class__.from_environment({"SHABERI_WAREHOUSE": str(output / "lake")}))
    result = import_trees(ImportRequest({"tree": output}), other)

    assert result.reconciliation.discrepancies() == []
    assert other.lake.read("legacy_quarantine").is_empty()
    assert done.files == {"answers": 4, "judgements": 4}
    keys = ["benchmark", "question_id", "sample_index"]
    for table, values in (
        ("answers", ["answer_hash"]),
        ("judgements", ["score", "judge_output", "answer_hash", "judge"]),
    ):
        ours = workspace.lake.read(table, columns=[*keys, *values]).sort(keys)
        theirs = other.lake.read(table, columns=[*keys, *values]).sort(keys)
        assert ours.equals(theirs)
    assert set(other.lake.read("answers")["model"]) == {"org__own"}
    assert not other.lake.read("judgements")["backfilled"].any()


def run_with(workspace, *, tag="july", model="org/own", answers, scores=None, benchmark="elyza", judge="gpt-5.1"):
    """Rows of a run that was never made, of the first questions of the starter set."""
    made = {"run_id": f"{model.replace('/', '__')}@@{tag}", "model": model, "run_tag": tag, "benchmark": benchmark,
            "question_set": "set", "sample_index": 0, "created_at": datetime.now(UTC)}  # fmt: skip
    questions = (
        questions_of(benchmark)[: len(answers)] if benchmark in FOLDERS else questions_of("elyza")[: len(answers)]
    )
    rows = [
        made | {"question_id": question.question_id, "answer": answer, "answer_hash": answer,
                "status": "ok" if answer is not None else "error"}
        for question, answer in zip(questions, answers, strict=True)
    ]  # fmt: skip
    workspace.lake.append("answers", pl.DataFrame(rows, infer_schema_length=None))
    asked = [vars(question) | {"benchmark": benchmark, "question_set": "set", "question_set_sha256": "0" * 64,
                               "source": "test", "created_at": made["created_at"]} for question in questions]  # fmt: skip
    keys = {"benchmark": benchmark, "question_set": "set"}
    workspace.lake.replace("questions", pl.DataFrame(asked, infer_schema_length=None), keys)
    if scores is not None:
        judged = [row | {"answer": None, "judge": judge, "score": score, "superseded": False,
                         "status": "ok" if score is not None else "error"}
                  for row, score in zip(rows, scores, strict=True)]  # fmt: skip
        frame = pl.DataFrame(judged, infer_schema_length=None).drop("answer")
        workspace.lake.append("judgements", frame)
    return rows


def test_a_run_of_our_own_has_the_columns_of_the_suite(workspace, output):
    run_with(workspace, answers=["a", None], scores=[4.0, None])

    export(workspace.lake, output)

    first, second = (columns_of("elyza", question) for question in questions_of("elyza")[:2])
    assert exact(rows_in(output, path_of("elyza", "org__own"))) == exact(
        [first | {"ModelAnswer": "a"}, second | {"ModelAnswer": None}]
    )
    # As in the suite's own files, a missing score makes floats of the others.
    assert exact(rows_in(output, path_of("elyza", "org__own", "gpt-5.1"))) == exact(
        [
            first | {"ModelAnswer": "a", "score": 4.0, "judge_output": None},
            second | {"ModelAnswer": None, "score": None, "judge_output": None},
        ]
    )


def test_runs_of_one_model_are_kept_apart(workspace, output):
    run_with(workspace, tag="july-run1", answers=["one"])
    run_with(workspace, tag="july-run2", answers=["two"])

    export(workspace.lake, output)

    assert rows_in(output, path_of("elyza", "org__own"))[0]["ModelAnswer"] == "one"
    assert rows_in(output / "tags" / "july-run2", path_of("elyza", "org__own"))[0]["ModelAnswer"] == "two"


def test_what_a_decision_asked_is_no_file_of_a_tree(workspace, mock, output):
    mock.options.script = lambda body, _: "FINAL SCORE: 7" if "FINAL SCORE" in str(body) else "答え"
    with own_engine({}), without_results():
        spec = stored_run(workspace, ask(mock, model="org/own", benchmarks=["elyza"]))
        question = questions_of("elyza")[0]
        part = partial_spec(spec, [("elyza", question.question_id)], workspace.lake)
        store_run(part, workspace)
        for run in (part, spec):
            materialized(run, workspace, "answers", "judgements")

    done = export(workspace.lake, output)

    assert done.files == {"answers": 1, "judgements": 1}
    assert len(rows_in(output, path_of("elyza", "org__own"))) == len(questions_of("elyza"))


def test_an_imported_model_and_a_run_of_the_same_name_are_kept_apart(workspace, tree, output):
    tree.answers("elyza", rows_of("elyza", ["imported"]), model="org__own")
    imported(workspace, tree=tree)
    run_with(workspace, answers=["own"])

    export(workspace.lake, output)

    assert rows_in(output, path_of("elyza", "org__own"))[0]["ModelAnswer"] == "imported"
    assert rows_in(output / "tags" / "july", path_of("elyza", "org__own"))[0]["ModelAnswer"] == "own"


def test_a_judgement_of_a_replaced_answer_is_left_out_and_said(workspace, output):
    rows = run_with(workspace, answers=["new", "same"], scores=[3, 4])
    stale = workspace.lake.read("judgements").with_columns(
        answer_hash=pl.when(question_id=rows[0]["question_id"]).then(pl.lit("old")).otherwise("answer_hash")
    )
    workspace.lake.replace("judgements", stale, {"benchmark": "elyza"})

    done = export(workspace.lake, output)

    assert [row["ModelAnswer"] for row in rows_in(output, path_of("elyza", "org__own", "gpt-5.1"))] == ["same"]
    assert [(note.what, note.rows) for note in done.not_written] == [
        ("superseded, or of an answer that was replaced", 1)
    ]
