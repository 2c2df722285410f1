"""The real caches: every entry and response, and the published accuracies."""

import os
import shutil
from pathlib import Path

import orjson
import polars as pl
import pytest

from shaberi_dagster.exchange.cache_files import export_caches
from shaberi_dagster.exchange.caches import import_ensemble
from shaberi_dagster.exchange.reporting import ImportReport
from shaberi_dagster.reports.requests import RunSelection
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.identity import sha256_text
from tests.commands import lake_of

pytestmark = pytest.mark.corpus

DATASETS = ("gsm8k", "hellaswag", "math500", "simpleqa", "truthfulqa")
ERRORS = {"gsm8k": 0, "hellaswag": 0, "math500": 11, "simpleqa": 3, "truthfulqa": 0}
JUDGED = {"gsm8k": 100, "hellaswag": 100, "math500": 98, "simpleqa": 98, "truthfulqa": 100}


@pytest.fixture(scope="module")
def caches() -> Path:
    return Path(os.environ["SHABERI_CORPUS"]) / "ensemble" / "caches"


@pytest.fixture(scope="module")
def imported(caches, tmp_path_factory) -> tuple[ImportReport, Workspace]:
    """The import, and where it was made. No test may change it."""
    workspace = workspace_in(tmp_path_factory.mktemp("imported"))
    return import_ensemble([caches], workspace), workspace


def workspace_in(folder: Path) -> Workspace:
    return Workspace(Settings.from_environment(lake_of(folder)), environment={})


@pytest.fixture
def done(imported) -> ImportReport:
    return imported[0]


@pytest.fixture
def workspace(imported) -> Workspace:
    return imported[1]


def test_files_entries_responses_and_rows_add_up(workspace, done):
    assert done.discrepancies() == []
    assert done.quarantine.is_empty()
    read = {file.path.split("/")[-1]: file for file in done.files if file.status == "imported"}
    assert len(read) == 10
    assert [file.path for file in done.files if file.status != "imported"] == ["caches/quick-eval.json"]
    for name in DATASETS:
        ensemble = read[f"google_gemini-3-flash-preview_{name}_5x_t0.7.json"]
        baseline = read[f"google_gemini-3-flash-preview_{name}.json"]
        assert (ensemble.entries_imported, ensemble.responses, ensemble.answers) == (100, 500, 500)
        assert (ensemble.errors, ensemble.verdicts) == (ERRORS[name], 0)
        assert (baseline.entries_imported, baseline.answers, baseline.judgements) == (100, 100, JUDGED[name])
    assert workspace.lake.read("answers", columns=["status"])["status"].value_counts().sort("status").rows() == [
        ("error", sum(ERRORS.values()) + 4),
        ("ok", 3000 - sum(ERRORS.values()) - 4),
    ]


def test_every_response_is_a_sample_of_its_question(workspace, caches, done):
    expected = set()
    for name in DATASETS:
        texts = {
            entry["questionId"]: entry["result"]["prompt"]
            for entry in read(caches / "baselines" / f"google_gemini-3-flash-preview_{name}.json")
        }
        for entry in read(caches / "ensemble" / f"google_gemini-3-flash-preview_{name}_5x_t0.7.json"):
            for index, response in enumerate(entry["responses"]):
                answer = None if "error" in response else response["content"]
                question_id = sha256_text(texts[entry["questionId"]])
                expected.add((name, question_id, index, answer, response.get("tokenCount")))
    frame = workspace.lake.read("answers", {"run_tag": "legacy-5x-t0.7"})
    tokens = frame["legacy_fields"].str.json_path_match("$.tokenCount").cast(pl.Int64)
    rows = frame.select("benchmark", "question_id", "sample_index", "answer", tokens)
    assert set(rows.iter_rows()) == expected
    assert done.questions_without_text == 0


def test_a_baseline_is_the_first_response_of_the_ensemble(workspace, done):
    assert len(done.runs) == 2
    answers = workspace.lake.read(
        "answers", columns=["run_tag", "question_id", "question_set", "sample_index", "answer_hash"]
    )
    keys = ["question_id", "question_set", "answer_hash"]
    single = answers.filter(run_tag="legacy-baseline").select(keys)
    first = answers.filter(run_tag="legacy-5x-t0.7", sample_index=0).select(keys)
    assert single.sort(keys).equals(first.sort(keys))


def test_accuracies_are_those_of_the_verdicts_in_the_files(workspace, caches):
    metrics = workspace.lake.read("metrics", {"null_policy": "legacy"})
    found = {row["benchmark"]: (row["score"], row["n_scored"]) for row in metrics.iter_rows(named=True)}
    for name in DATASETS:
        entries = read(caches / "baselines" / f"google_gemini-3-flash-preview_{name}.json")
        verdicts = [said["correct"] for entry in entries for said in entry["result"]["evaluation"]["results"].values()]
        assert found[name] == (pytest.approx(sum(verdicts) / len(verdicts), abs=1e-12), len(verdicts))
    assert found["math500"][0] == pytest.approx(69 / 98)


def test_a_second_import_changes_nothing(workspace, caches, done, tmp_path):
    shutil.copytree(workspace.settings.warehouse, tmp_path / "warehouse")
    copied = workspace_in(tmp_path)

    again = import_ensemble([caches], copied)

    assert (done.changed, again.changed) == (True, False)
    assert copied.lake.versions() == workspace.lake.versions()


def read(path):
    return orjson.loads(path.read_bytes())["entries"]


def test_caches_are_written_as_they_were_read(workspace, caches, tmp_path):
    written = export_caches(workspace.lake, tmp_path / "out", RunSelection())
    assert {file.name for file in written} == {
        f"google_gemini-3-flash-preview_{name}_5x_t0.7.json" for name in DATASETS
    }
    for file in written:
        before, now = (orjson.loads(path.read_bytes()) for path in (caches / "ensemble" / file.name, file))
        times = {name: now[name] for name in ("createdAt", "updatedAt")}
        assert orjson.dumps(before | times) == orjson.dumps(now)
