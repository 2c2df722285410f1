"""The real client against a hub on loopback."""

import csv
import io
import json
import socket
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import polars as pl
import pytest

from shaberi_dagster.tasks.benchmarks.questions import QuestionSet, load_question_set
from shaberi_dagster.tasks.benchmarks.registry import BENCHMARKS, ENSEMBLE_BENCHMARKS, get_benchmark
from shaberi_dagster.util.errors import ConfigurationError, HubAwayError, QuestionFileError
from tests.commands import run_anew

pytestmark = pytest.mark.integration

ELYZA, MT_BENCH = get_benchmark("elyza"), get_benchmark("mt_bench")


def local_set(folder: Path, rows: list[dict]) -> QuestionSet:
    (folder / "elyza.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return load_question_set(ELYZA, "folder", folder)


def load(hub, cache, benchmark=ELYZA, **options):
    return load_question_set(benchmark, "hub", hub_endpoint=hub.endpoint, hub_cache=cache, **options)


def test_each_benchmark_loads_from_the_files_its_dataset_has(hub, tmp_path):
    text = io.StringIO()
    csv.writer(text).writerows([["input", "output", "eval_aspect"], ["一\n行", "答", "観点"]])
    hub.commit("elyza/ELYZA-tasks-100", {"test.csv": text.getvalue().encode(), "README.md": b"---\nlicense: x\n---"})
    parquet = io.BytesIO()
    pl.DataFrame({"Category": ["日本"], "Question": ["二"], "Answer": [None], "Criteria": ["可"]}).write_parquet(
        parquet
    )
    card = b"---\nconfigs:\n- config_name: default\n  data_files:\n  - split: test\n    path: data/part-*\n---\n"
    hub.commit("lightblue/tengu_bench", {"README.md": card, "data/part-0.parquet": parquet.getvalue()})
    line = json.dumps({"id": 11, "category": "writing", "Question": "三"}).encode()
    hub.commit(
        "shisa-ai/ja-mt-bench-1shot",
        {"data/train-00000-of-00001.jsonl": line, "data/test-00000-of-00001.jsonl": b"not this"},
    )
    rakuda = json.dumps({"text": "四", "category": "地理", "question_id": "uid"}).encode()
    hub.commit("yuzuai/rakuda-questions", {"questions.jsonl": rakuda, "dataset_infos.json": b"{}"})
    loaded = {name: load(hub, tmp_path, benchmark) for name, benchmark in BENCHMARKS.items()}
    texts = {name: [each.question for each in each_set.questions] for name, each_set in loaded.items()}
    assert texts == {"elyza": ["一\n行"], "tengu": ["二"], "mt_bench": ["三"], "rakuda": ["四"]}


def test_each_dataset_of_the_ensemble_evaluation_loads_from_the_files_it_has(hub, tmp_path):
    def parquet(row: dict) -> bytes:
        file = io.BytesIO()
        pl.DataFrame([row]).write_parquet(file)
        return file.getvalue()

    def card(config: str, split: str, path: str) -> bytes:
        files = f"configs:\n- config_name: {config}\n  data_files:\n  - split: {split}\n    path: {path}\n"
        return f"---\n{files}---\n".encode()

    options, wrong = ["p", "q"], parquet({"wrong": 1})
    gpqa = {"problem": "4\n(A) p\n(B) q\n(C) r\n(D) s", "solution": "\\boxed{B}", "domain": "Physics"}
    arc = {"id": "x", "question": "8", "choices": {"text": options, "label": ["1", "2"]}, "answerKey": "2"}
    metadata = "{'topic': 'Art', 'urls': []}"
    hub.commit(
        "openai/gsm8k",
        {
            "README.md": card("main", "test", "main/test-*"),
            "main/test-00000-of-00001.parquet": parquet({"question": "1", "answer": "#### 5"}),
            "main/train-00000-of-00001.parquet": wrong,
            "socratic/test-00000-of-00001.parquet": wrong,
        },
    )
    hub.commit("HuggingFaceH4/MATH-500", {"test.jsonl": json.dumps({"problem": "2", "answer": "$x$"}).encode()})
    hub.commit(
        "truthfulqa/truthful_qa",
        {
            "README.md": card("multiple_choice", "validation", "multiple_choice/validation-*"),
            "multiple_choice/validation-00000-of-00001.parquet": parquet(
                {"question": "3", "mc1_targets": {"choices": options, "labels": [1, 0]}}
            ),
            "generation/validation-00000-of-00001.parquet": wrong,
        },
    )
    hub.commit("hendrydong/gpqa_diamond_mc", {"data/test-00000-of-00001.parquet": parquet(gpqa)})
    hub.commit(
        "TIGER-Lab/MMLU-Pro",
        {
            "data/test-00000-of-00001.parquet": parquet(
                {"question": "5", "options": options, "answer": "B", "category": "law"}
            ),
            "data/validation-00000-of-00001.parquet": wrong,
        },
    )
    text = io.StringIO()
    csv.writer(text).writerows([["metadata", "problem", "answer"], [metadata, "6", "a"]])
    hub.commit("basicv8vc/SimpleQA", {"simple_qa_test_set.csv": text.getvalue().encode()})
    hub.commit(
        "cais/hle",
        {
            "data/test-00000-of-00001.parquet": parquet(
                {"question": "7", "answer": "a", "image": "", "category": "Math"}
            )
        },
    )
    hub.commit(
        "allenai/ai2_arc",
        {"ARC-Challenge/test-0.parquet": parquet(arc), "ARC-Easy/test-0.parquet": wrong},
    )
    hellaswag = {"ctx": "9", "endings": options, "label": "1", "activity_label": "x"}
    hub.commit(
        "Rowan/hellaswag",
        {"data/validation-0.parquet": parquet(hellaswag), "data/test-0.parquet": wrong},
    )
    hallumix = {"documents": ["10"], "answer": "a", "hallucination_label": 1, "src": "qa"}
    hub.commit("quotientai/HalluMix", {"data/train-00000-of-00001.parquet": parquet(hallumix)})
    loaded = {name: load(hub, tmp_path, benchmark) for name, benchmark in ENSEMBLE_BENCHMARKS.items()}
    right = {
        name: one.options["ABCD".index(one.reference)] if one.options else one.reference
        for name, (one,) in ((name, each.questions) for name, each in loaded.items())
    }
    assert right == {
        "gsm8k": "5",
        "math500": "$x$",
        "truthfulqa": "p",
        "gpqa": "q",
        "mmlu_pro": "q",
        "simpleqa": "a",
        "hle": "a",
        "arc": "q",
        "hellaswag": "q",
        "hallumix": "yes",
    }
    assert {each.questions[0].upstream_id for each in loaded.values()} == {f"{name}-0" for name in loaded}


def test_the_test_split_comes_before_the_other_one(hub, tmp_path):
    row = {"documents": ["x"], "answer": "a", "hallucination_label": 0}
    test, train = (json.dumps(row | {"answer": answer}).encode() for answer in ("test", "train"))
    hub.commit("quotientai/HalluMix", {"data/train.jsonl": train, "data/test.jsonl": test})
    question = load(hub, tmp_path, get_benchmark("hallumix")).questions[0]
    assert "[Answer]\ntest\n" in question.question


def test_the_resolved_commit_is_recorded_and_the_content_names_the_set(hub, tmp_path):
    line = json.dumps({"input": "問", "output": "答", "eval_aspect": "観点"}).encode()
    sha = hub.commit("elyza/ELYZA-tasks-100", {"test.jsonl": line})
    loaded = load(hub, tmp_path / "cache")
    assert (loaded.source, loaded.source_revision) == ("hub:elyza/ELYZA-tasks-100", sha)
    local = local_set(tmp_path, [{"question": "問", "reference": "答", "criteria": "観点"}])
    assert (loaded.sha256, loaded.name) == (local.sha256, local.name)


def test_a_pinned_commit_stays_and_main_moves(hub, tmp_path):
    first, second = (
        hub.commit(
            "elyza/ELYZA-tasks-100",
            {"test.jsonl": json.dumps({"input": text, "output": "答", "eval_aspect": "観点"}).encode()},
        )
        for text in ("旧", "新")
    )
    pinned, latest = load(hub, tmp_path, revision=first), load(hub, tmp_path)
    assert (pinned.source_revision, pinned.questions[0].question) == (first, "旧")
    assert (latest.source_revision, latest.questions[0].question) == (second, "新")


def test_shards_are_one_set_in_their_order(hub, tmp_path):
    shard = [json.dumps({"Question": text, "category": "stem"}).encode() for text in ("一", "二")]
    hub.commit(
        "shisa-ai/ja-mt-bench-1shot",
        {"train-00001-of-00002.jsonl": shard[1], "train-00000-of-00002.jsonl": shard[0]},
    )
    loaded = load(hub, tmp_path, MT_BENCH)
    assert [(each.position, each.question) for each in loaded.questions] == [(1, "一"), (2, "二")]


def test_what_was_fetched_once_is_there_when_the_hub_is_away(hub, tmp_path):
    line = json.dumps({"input": "問", "output": "答", "eval_aspect": "観点"}).encode()
    hub.commit("elyza/ELYZA-tasks-100", {"test.jsonl": line})
    fetched = load(hub, tmp_path)
    offline = load_question_set(ELYZA, "hub", hub_endpoint="http://127.0.0.1:9", hub_cache=tmp_path)
    assert offline == fetched


@pytest.mark.parametrize(
    ("gated", "revision", "reason"),
    [
        (True, None, "is gated: accept its terms at .*/datasets/elyza/ELYZA-tasks-100 and set HF_TOKEN"),
        (False, "f" * 40, "has no revision 'f{40}'"),
        (None, None, "does not exist or is private"),
        (False, None, "has no .parquet/.jsonl/.json/.csv file of split 'test'"),
    ],
    ids=["gated", "no revision", "no repository", "no file"],
)
def test_a_dataset_that_cannot_be_had_says_why_and_what_else_to_do(hub, tmp_path, gated, revision, reason):
    if gated is not None:
        hub.commit("elyza/ELYZA-tasks-100", {"README.md": b"# none", "train.jsonl": b"{}"})
    if gated:
        hub.gated.add("elyza/ELYZA-tasks-100")
    with pytest.raises(ConfigurationError, match=reason) as caught:
        load(hub, tmp_path, revision=revision)
    assert "SHABERI_DATASETS" in str(caught.value)


@pytest.mark.parametrize("card", [b"---\nconfigs: 5\n---\n", b"---\n: [\n---\n", b"---\n- a\n---\n", b"\xff"])
def test_a_broken_dataset_card_does_not_hide_the_files(hub, tmp_path, card):
    line = json.dumps({"input": "問", "output": "答", "eval_aspect": "観点"}).encode()
    hub.commit("elyza/ELYZA-tasks-100", {"README.md": card, "test.jsonl": line})
    assert load(hub, tmp_path).questions[0].question == "問"


def test_a_malformed_file_of_the_hub_is_named_with_its_line(hub, tmp_path):
    hub.commit("elyza/ELYZA-tasks-100", {"test.jsonl": b'{"input": "a"}\n'})
    with pytest.raises(QuestionFileError, match=r"test\.jsonl:1: has no 'reference' \(upstream 'output'\)"):
        load(hub, tmp_path)


def commit_all(hub):
    for benchmark in BENCHMARKS.values():
        columns = {field: benchmark.columns.get(field, (field,))[0] for field in {"question", *benchmark.required}}
        row = {column: f"{field} of {benchmark.name}" for field, column in columns.items()}
        hub.commit(
            benchmark.hub.repository, {f"{benchmark.hub.split}.jsonl": json.dumps(row | {"category": "x"}).encode()}
        )


def plan_all(cache, endpoint, **environment):
    """Plan all four benchmarks on questions of the hub, in a process of its own; seconds it took, and how it ended."""
    started = time.monotonic()
    done = run_anew(
        *("run-evals", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--judge-model", "gpt-5.1"),
        *("--questions", "hub", "--dry-run"),
        environment={"HF_ENDPOINT": endpoint, "HF_HOME": cache, **environment},
    )
    return time.monotonic() - started, done


@contextmanager
def hanging():
    """A server that accepts whoever connects, and never says anything; and who has connected."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connected = []

        def accept():
            with suppress(OSError):
                while True:
                    connected.append(server.accept()[0])

        Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", connected
        server.shutdown(socket.SHUT_RDWR)
        for connection in connected:
            connection.close()


@pytest.mark.long
@pytest.mark.e2e
def test_a_hub_that_hangs_is_tried_once_and_sets_of_the_cache_are_used(hub, tmp_path):
    commit_all(hub)
    usual, online = plan_all(tmp_path, hub.endpoint)
    online.succeeded()
    with hanging() as (endpoint, connected):
        seconds, offline = plan_all(tmp_path, endpoint)
    assert offline.succeeded().out == online.out
    assert len(connected) == 1
    assert seconds < usual + 15


@pytest.mark.e2e
@pytest.mark.parametrize("offline", [{}, {"HF_HUB_OFFLINE": "1"}], ids=["no such host", "told to be offline"])
def test_a_hub_that_is_away_is_one_line_that_names_all_sets_that_are_missing(tmp_path, offline):
    _, refused = plan_all(tmp_path, "http://hub.invalid", **offline)
    names = ", ".join(benchmark.hub.repository for benchmark in BENCHMARKS.values())
    reason = "HF_HUB_OFFLINE is set" if offline else "the hub does not answer"
    assert refused.complaint == (
        f"hub datasets {names} cannot be fetched ({reason}), and the local cache lacks them: go online, or give the "
        "questions as files with --questions PATH or SHABERI_DATASETS"
    )


@pytest.mark.long
def test_only_sets_that_the_cache_lacks_are_named(hub, tmp_path):
    line = json.dumps({"input": "問", "output": "答", "eval_aspect": "観点"}).encode()
    hub.commit("elyza/ELYZA-tasks-100", {"test.jsonl": line})
    load(hub, tmp_path)
    with hanging() as (endpoint, connected):
        assert load_question_set(ELYZA, "hub", hub_endpoint=endpoint, hub_cache=tmp_path).questions
        with pytest.raises(HubAwayError) as caught:
            load_question_set(MT_BENCH, "hub", hub_endpoint=endpoint, hub_cache=tmp_path)
    assert caught.value.repositories == ("shisa-ai/ja-mt-bench-1shot",)
    assert len(connected) == 1


def test_a_hub_that_answers_is_tried_once_for_all_sets(hub, tmp_path):
    commit_all(hub)
    for benchmark in BENCHMARKS.values():
        load(hub, tmp_path, benchmark)
    assert len([request for request in hub.requests if "/revision/" in request]) == 1 + len(BENCHMARKS)
