"""Every strategy that was paid for is a line with the same numbers wherever scores are shown, whoever judges."""

import csv
import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any
from zlib import crc32

import jsonschema
import polars as pl
import pytest

import shaberi_dagster as shaberi
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.reports.blocks import decimals
from shaberi_dagster.reports.ensemble import ensemble_result, read_stored_report
from shaberi_dagster.reports.write import as_json
from shaberi_dagster.statistics.significance import sign_flip_intervals
from tests.commands import Finished, lake_of, run
from tests.mock_endpoint import MockEndpoint, running_mock

pytestmark = pytest.mark.integration

N, SIZE = 8, 3
RUN_ID = "m@@five"
STRATEGIES = ("single", "plurality", "standard", "samples")
JUDGES = {"tengu": ("judge-a", "judge-b"), "gsm8k": ("rule:numeric+judge-b",)}
LINES = [(benchmark, judge, name) for benchmark, judges in JUDGES.items() for judge in judges for name in STRATEGIES]
SCHEMA = Path(__file__).resolve().parents[1] / "docs" / "schemas" / "quick-eval.schema.json"


def says(body: dict[str, Any], number: int) -> str:
    """Answers that differ from call to call; judges that give each answer a score; one consensus without a text."""
    prompt = "\n".join(str(message["content"]) for message in body["messages"])
    if body["model"].startswith("judge"):
        return f"FINAL SCORE: {crc32((body['model'] + prompt).encode()) % 11}"
    if body["model"] == "decider" and "Tell of town 0" in prompt:
        return ""
    return f"The answer is {crc32(f'{prompt} {number}'.encode()) % 2}."


def evaluate(folder: Path, mock: MockEndpoint, *more: str) -> Finished:
    """`run-evals` with samples, strategies and two judges on a benchmark of judges and one of rules."""
    at = ("--base-url", mock.base_url, "--judge-base-url", mock.base_url, "--questions", str(folder / "questions"))
    judges = ("--judge-model", "judge-a", "--judge-model", "judge-b", "--consensus-model", "decider")
    several = ("--samples", str(SIZE), "--single", "own", "--strategy", "plurality,standard")
    what = ("--model", "m", "--tag", "five", "--benchmark", "tengu,gsm8k", "--concurrency", "1")
    return run("run-evals", *what, *at, *judges, *several, *more, environment=lake_of(folder))


@dataclass(frozen=True)
class Made:
    """A run, and what its command said as JSON."""

    folder: Path
    as_json: dict[str, Any]

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    def shown(self, command: str, *arguments: str) -> str:
        return run(command, *arguments, environment=lake_of(self.folder)).succeeded().out


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("strategies")
    (folder / "questions").mkdir()
    for name, question in (("tengu", "Tell of town {}"), ("gsm8k", "What is {} modulo 2?")):
        rows = [
            {"question": question.format(k), "reference": str(k % 2), "criteria": "- good: 10", "category": "towns"}
            for k in range(N)
        ]
        (folder / "questions" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with running_mock(script=says) as mock:
        evaluate(folder, mock)
        again = evaluate(folder, mock, "--json")
    return Made(folder, json.loads(again.out))


@pytest.fixture(scope="module")
def expected(made: Made) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The lines, counted from the scores of single answers."""
    scores = Lake(made.warehouse).read("scores", {"run_id": RUN_ID}).filter(pl.col("pipeline") == "baseline")
    lines = {}
    for benchmark, judge, strategy in LINES:
        rows = scores.filter(benchmark=benchmark, judge=judge)
        samples = rows.filter(pl.col("strategy").is_null(), pl.col("sample_index") > 0)
        own = samples if strategy == "samples" else rows.filter(strategy=strategy)
        found = own.drop_nulls("score")
        line = {"score": fmean(found["score"]), "n_scored": found.height, "n_planned": own.height}
        if strategy not in {"single", "samples"}:
            means = dict(samples.group_by("question_id").agg(pl.col("score").mean()).iter_rows())
            pairs = sorted(score - means[key] for key, score in found.select("question_id", "score").iter_rows())
            (interval,) = sign_flip_intervals(pairs, [0.95])
            line |= {"difference": fmean(pairs), "n": len(pairs), "interval": asdict(interval) if interval else None}
        lines[benchmark, judge, strategy] = line
    return lines


def assert_equal(found: list[dict[str, Any]], expected: dict[tuple[str, str, str], dict[str, Any]]) -> None:
    """The lines of a document are those that are expected, all of them and in their order."""
    assert [(one["benchmark"], one["judge"], one["strategy"]) for one in found] == list(expected)
    for one, line in zip(found, expected.values(), strict=True):
        assert (one["n_scored"], one["n_planned"]) == (line["n_scored"], line["n_planned"])
        assert one["score"] == pytest.approx(line["score"])
        assert one["interval"]["lower"] < one["score"] < one["interval"]["upper"]
        if "difference" not in line:
            assert one["against"] is None
            continue
        against = one["against"]
        assert (against["n_questions"], against["difference"]) == (line["n"], pytest.approx(line["difference"]))
        assert against["interval"] == (line["interval"] and pytest.approx(line["interval"]))


def by_benchmark(lines: dict[tuple[str, str, str], dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    return dict(sorted(lines.items(), key=lambda item: item[0][:2]))


def test_samples_are_the_shared_ones_and_a_failed_consensus_is_no_question_of_the_difference(expected) -> None:
    assert {line["n_planned"] for (_, _, name), line in expected.items() if name == "samples"} == {N * SIZE}
    of_judges = {judge: expected["tengu", judge, "standard"] for judge in JUDGES["tengu"]}
    assert {(line["n"], line["n_scored"], line["n_planned"]) for line in of_judges.values()} == {(N - 1, N - 1, N)}
    assert expected["gsm8k", "rule:numeric+judge-b", "standard"]["n"] == N


def test_documents_of_scores_have_a_line_for_each_strategy(made: Made, expected) -> None:
    assert_equal(made.as_json["strategies"], by_benchmark(expected))
    assert_equal(
        json.loads(made.shown("view-scores", "--tag", "five", "--format", "json"))["strategies"], by_benchmark(expected)
    )
    library = shaberi.open_lake(made.warehouse).scores(tags=["five"]).strategies
    assert_equal([asdict(one) for one in library], by_benchmark(expected))
    table = csv.DictReader(
        io.StringIO(made.shown("view-scores", "--tag", "five", "--format", "csv", "--table", "strategies"))
    )
    lines = list(table)
    assert [(row["benchmark"], row["judge"], row["strategy"]) for row in lines] == list(by_benchmark(expected))
    for row, line in zip(lines, by_benchmark(expected).values(), strict=True):
        assert float(row["difference"] or 0) == pytest.approx(line.get("difference", 0))


def test_the_view_has_the_same_lines(made: Made, expected) -> None:
    rows = json.loads(
        made.shown("shaberi", "sql", f"from ensemble_results where run_id = '{RUN_ID}'", "--format", "json")
    )
    assert len(rows) == len(expected)
    for row in rows:
        line = expected[row["benchmark"], row["judge"], row["strategy"]]
        assert (row["n_scored"], row["n_planned"]) == (line["n_scored"], line["n_planned"])
        assert row["score"] == pytest.approx(line["score"])
        if "difference" in line:
            assert (row["n_against_samples"], row["difference"]) == (line["n"], pytest.approx(line["difference"]))
        assert row["calls"] == {"samples": N * SIZE, "plurality": 0}.get(row["strategy"], N)


def comment_on(folder: Path, document: dict[str, Any]) -> str:
    """What is said on a pull request of a job with this document."""
    written = folder / "job.json"
    written.write_text(json.dumps(document))
    return run("shaberi", "report", "--ci", written, environment=lake_of(folder)).out


@pytest.fixture
def document(made: Made) -> dict[str, Any]:
    """What `quick-eval --json` writes of the run."""
    with open_catalog(made.warehouse) as catalog:
        written: dict[str, Any] = json.loads(as_json(ensemble_result(read_stored_report(catalog, RUN_ID)).data()))
    return written


def test_the_ensemble_report_and_the_comment_on_a_pull_request_have_the_judged_lines(
    tmp_path: Path, document, expected
) -> None:
    jsonschema.validate(document, json.loads(SCHEMA.read_bytes()))
    judged = {row: line for row, line in expected.items() if row[0] == "tengu"}
    assert_equal(document["judged"], judged)
    graded = {one["strategy"]: one for one in document["benchmarks"][0]["against"] if one["reference"] == "samples"}
    for name, one in graded.items():
        assert one["difference"] == pytest.approx(expected["gsm8k", "rule:numeric+judge-b", name]["difference"])

    comment = comment_on(tmp_path, document)
    for (benchmark, judge, name), line in judged.items():
        start = f"| `{benchmark}` | `{judge}` | `{name}` | {decimals(line['score'])} | "
        found = next(text for text in comment.splitlines() if text.startswith(start))
        assert f"{line['n_scored']}/{line['n_planned']}" in found
        assert "difference" not in line or f"| {line['difference']:+.2f}" in found
