"""Ensemble and baseline caches: what is read of them, and what is set aside with a pointer and a reason."""

import hashlib
import os

import orjson
import pytest

from shaberi_dagster.exchange.caches import Caches
from shaberi_dagster.exchange.importer import ImportSource, RunPart
from shaberi_dagster.util.errors import ConfigurationError
from tests.exchange.caches import MODEL, TIMEOUT, baseline, ensemble, failed, response, result, write

pytestmark = pytest.mark.unit


@pytest.fixture
def read(tmp_path):
    def of(document, name="cache.json"):
        return source(tmp_path, write(tmp_path / name, document))

    return of


def source(root, location):
    file = ImportSource.at(root, location)
    Caches().read(file)
    return file


def problems(file):
    return [(part.what, part.line and part.line - 1, part.pointer) for part in file.rejected]


def test_an_ensemble_cache_has_all_responses_of_each_question(read):
    file = read(ensemble({"gsm8k-1": [response("a"), failed("half")], "gsm8k-2": [response("b"), response("c")]}))

    assert (file.kind, file.part) == ("ensemble", RunPart(MODEL, "legacy-2x-t0.7", "gsm8k", 2, 0.7))
    assert (file.n_entries, file.rejected) == (2, [])
    first, second = file.entries
    assert (first.name, first.question, first.n_samples) == ("gsm8k-1", None, 2)
    assert [(sample.index, sample.text, sample.error) for sample in first.samples] == [
        (0, "a", None),
        (1, "half", TIMEOUT),
    ]
    assert [sample.fields for sample in second.samples] == [{"tokenCount": 42}, {"tokenCount": 42}]


def test_a_baseline_cache_has_the_question_and_a_verdict(read):
    file = read(baseline(result("gsm8k-1", response("4")), result("gsm8k-2", response("5"), correct=False)))

    assert (file.kind, file.part) == ("baseline", RunPart(MODEL, "legacy-baseline", "gsm8k"))
    first, second = file.entries
    assert (first.question, first.reference, first.category, first.fields) == ("What is gsm8k-1?", "4", None, {})
    assert [entry.samples[0].verdicts[0].score for entry in (first, second)] == [True, False]
    assert first.samples[0].verdicts[0].settings == {"evaluator": "numeric"}
    assert first.samples[0].verdicts[0].fields == {"expected": "4", "predicted": "4"}


def test_an_older_baseline_cache_is_a_list_of_results(read):
    results = [result("mmlu_pro-1", response("A")), result("mmlu_pro-2", response("B"))]

    file = read(results, "google_small_mmlu_pro_n30.json")

    assert (file.kind, file.part) == ("baseline", RunPart(MODEL, "legacy-baseline-n30", "mmlu_pro"))
    assert [entry.name for entry in file.entries] == ["mmlu_pro-1", "mmlu_pro-2"]
    assert read(results, "renamed.json").part.run_tag == "legacy-baseline-n2"


def test_instances_of_one_model_have_verdicts_of_their_own(read):
    responses = [response("4"), response("5"), response("6", model="other")]
    names = (MODEL, f"{MODEL}#2", "google:other")
    said = {name: {"correct": correct} for name, correct in zip(names, (True, False, True), strict=True)}
    file = read(baseline(result("q-1", response(), responses=responses, evaluation={"results": said})))

    assert [sample.verdicts[0].score for sample in file.entries[0].samples] == [True, False, True]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b'{"model": "google:small", "entries": [', "is not JSON: unexpected end of data"),
        (b"\xff\xfe", "is not JSON"),
        (b'{"entries":' + b"[" * 400 + b"]" * 400 + b"}", "is nested too deeply"),
        (ensemble({"q-1": [response()]}, model=7), "/model: Input should be a valid string"),
        (ensemble({"q-1": [response()]}, ensembleSize="5"), "/ensembleSize: Input should be a valid integer"),
        (ensemble({"q-1": [response()]}, temperature=None), "has an ensembleSize and no temperature"),
        (ensemble({"q-1": [response()]}, entries={}), "/entries: Input should be a valid list"),
        (ensemble({"q-1": [response()]}, dataset="../up"), "dataset '../up' is no benchmark"),
        (ensemble({"q-1": [response()]}, dataset="tengu"), "dataset 'tengu' is no benchmark"),
        (ensemble({"q-1": [response()]}, model="a/../b"), "must not have '.', '..'"),
        ([{"questionId": "q-1", "responses": [{"provider": 1}]}], "/provider: Input should be a valid string"),
        ([result("1", response())], "dataset '' is no benchmark"),
    ],
)
def test_a_file_that_is_no_cache_says_why(read, document, reason):
    file = read(document)

    assert reason in file.reason
    assert file.entries == []
    assert problems(file)[0][:2] == ("file", None)


@pytest.mark.parametrize("document", [{"single": {}}, [], [1, 2], "text", None, 7, [{"id": "x", "prompt": "y"}]])
def test_other_json_files_are_unknown_and_no_problem(read, document):
    file = read(document)

    assert (file.kind, file.reason) == ("unknown", "neither an ensemble cache nor a baseline cache")
    assert file.rejected == []


@pytest.mark.parametrize(
    ("entry", "pointer"),
    [
        (None, "/entries/1"),
        ({"responses": []}, "/entries/1/questionId"),
        ({"questionId": "", "responses": []}, "/entries/1/questionId"),
        ({"questionId": "q-2", "responses": {}}, "/entries/1/responses"),
        ({"questionId": "q-1", "responses": [response("other")]}, "/entries/1"),
    ],
    ids=["null", "no id", "empty id", "no list", "repeated"],
)
def test_a_malformed_entry_costs_only_itself(read, entry, pointer):
    document = ensemble({"q-1": [response("a")], "q-3": [response("b")]})
    document["entries"].insert(1, entry)

    file = read(document)

    assert [entry.name for entry in file.entries] == ["q-1", "q-3"]
    assert problems(file) == [("entry", 1, pointer)]
    assert (file.n_entries, file.reason) == (3, None)
    assert orjson.loads(file.rejected[0].raw) == entry


def test_a_malformed_response_costs_only_itself_and_the_others_keep_their_index(read):
    wrong = [response(content=None), response(tokenCount="many"), response(responseTimeMs=-1), 7]
    file = read(ensemble({"q-1": [*wrong, response("good")]}))

    (entry,) = file.entries
    assert [(sample.index, sample.text) for sample in entry.samples] == [(4, "good")]
    assert entry.n_samples == 5
    assert problems(file) == [
        ("response", 0, "/entries/0/responses/0/content"),
        ("response", 0, "/entries/0/responses/1/tokenCount"),
        ("response", 0, "/entries/0/responses/2/responseTimeMs"),
        ("response", 0, "/entries/0/responses/3"),
    ]


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({MODEL: {"correct": "yes"}}, f"/entries/0/result/evaluation/results/{MODEL}/correct"),
        ({MODEL: {"correct": True}, "a/b~c": {"correct": True}}, "/entries/0/result/evaluation/results/a~1b~0c"),
    ],
    ids=["mistyped", "of nobody"],
)
def test_a_malformed_verdict_costs_only_itself(read, said, pointer):
    file = read(baseline(result("q-1", response(), evaluation={"evaluator": "mcq", "results": said})))

    assert problems(file) == [("verdict", 0, pointer)]
    assert len(file.entries[0].samples) == 1


def test_a_verdict_on_an_error_is_set_aside(read):
    file = read(baseline(result("q-1", failed())))

    assert [part.reason for part in file.rejected] == ["is of no response that can be read"]
    assert file.entries[0].samples[0].verdicts == []


def test_a_result_of_another_question_is_set_aside(read):
    document = baseline(result("q-1", response()))
    document["entries"][0]["questionId"] = "q-2"

    assert problems(read(document)) == [("entry", 0, "/entries/0")]


def test_a_file_that_cannot_be_read_says_so(tmp_path):
    file = source(tmp_path, tmp_path / "gone.json")

    assert (file.reason, file.sha256) == ("cannot be read: No such file or directory", None)


def test_json_files_are_found_in_folders_and_by_name_each_once(tmp_path):
    first = write(tmp_path / "a" / "b" / "first.json", {})
    second = write(tmp_path / "second.json", {})
    write(tmp_path / "a" / "other.txt", b"")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "a" / "link.json").symlink_to(second)

    found = Caches().sources([tmp_path / "a", first, second])
    assert [(file.root, file.location) for file in found] == [(tmp_path / "a", first), (tmp_path, second)]
    with pytest.raises(ConfigurationError, match="neither a file nor a folder"):
        Caches().sources([tmp_path / "gone"])


def test_a_name_that_is_not_utf_8_is_shown_in_ascii(tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9.json")
    write(path, ensemble({"q-1": [response()]}))

    file = source(tmp_path, path)

    assert file.path == "caf\\xe9.json"
    assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
