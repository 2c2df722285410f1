"""The real trees: every file and row of the sample, and the published numbers, from the imported rows alone."""

import json
import os
import tarfile
import tempfile
from pathlib import Path

import orjson
import polars as pl
import pyarrow as pa
import pytest

from shaberi_dagster.exchange.trees.files import scan
from tests.archives import extract
from tests.exchange.trees.trees import Imported, import_trees

pytestmark = pytest.mark.corpus

TREES = ("shisa", "umiyuki", "lightblue")
KEYS = ["run_id", "benchmark", "question_id", "sample_index"]
CELL = ["source", "judge", "model", "benchmark"]


@pytest.fixture(scope="module")
def corpus() -> Path:
    return Path(os.environ["SHABERI_CORPUS"])


def roots(folder):
    return {name: folder / name for name in TREES}


@pytest.fixture(scope="module")
def mini(corpus):
    return import_trees(roots(corpus / "legacy" / "mini"))


@pytest.fixture(scope="module")
def subset(corpus):
    """The rows of the larger sample, which is unpacked only as long as it is read."""
    archive = pa.CompressedInputStream(pa.OSFile(str(corpus / "legacy" / "subset.tar.zst")), "zstd")
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=archive, mode="r|") as tar:
        extract(tar, folder)
        yield import_trees(roots(Path(folder)))


@pytest.fixture(scope="module")
def tengu_left_out(corpus) -> list[str]:
    lines = (corpus / "questions" / "tengu.jsonl").read_bytes().splitlines()
    return [row["question_sha256"] for row in map(orjson.loads, lines) if row.get("excluded_upstream")]


def reported(column: str = "score") -> pl.Expr:
    return pl.col(column) * pl.when(pl.col("benchmark") == "elyza").then(2.0).otherwise(1.0)


def published(corpus: Path, name: str, source: str) -> pl.DataFrame:
    """A published table of a tree."""
    table = pl.read_csv(corpus / "golden" / f"{name}.csv", schema_overrides={"score": pl.Float64})
    return table.with_columns(source=pl.lit(source))


def in_force(imported: Imported) -> pl.DataFrame:
    return imported.rows.judgements.filter(~pl.col("superseded")).with_columns(source="run_source")


def test_the_sample_is_complete(mini, subset):
    assert mini.files.height == 101
    assert subset.files.height == 563
    for imported in (mini, subset):
        assert imported.quarantine.is_empty()
        assert set(imported.files["status"]) == {"imported", "duplicate"}


def test_real_rows_are_exactly_those_of_the_files(corpus, mini):
    """Question, answer and score of each line of each file, read by another parser."""
    expected = []
    for name, root in roots(corpus / "legacy" / "mini").items():
        for file in scan(root, name):
            with file.location.open(encoding="utf-8", newline="\n") as lines:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        row = json.loads(line)
                        expected.append(
                            (file.sha256, number, file.kind, row["ModelAnswer"], json.dumps(row.get("score")))
                        )
    raw = pl.when(pl.col("answer_form") == "as_stored").then("answer").otherwise("raw_answer")
    places = ["source_sha256", "source_line"]
    stored = mini.answers.filter(answer_origin="stored").select(*places, answer=raw, score=pl.lit("null"))
    texts = mini.answers.select(*KEYS, "answer_hash", "answer")
    judged = mini.judgements.join(texts, on=[*KEYS, "answer_hash"]).select(*places, "answer", score="recorded_score")
    frames = {"answers": stored, "judgements": judged}
    found = {(kind, *row[:2]): row[2:] for kind, frame in frames.items() for row in frame.iter_rows()}
    assert len(found) == len({row[:3] for row in expected})
    for sha256, number, kind, answer, score in expected:
        text, recorded = found[kind, sha256, number]
        assert text == answer
        assert orjson.loads(recorded) == json.loads(score)
        assert type(orjson.loads(recorded)) is type(json.loads(score))


def test_the_sets_of_the_trees_are_the_published_ones(subset):
    assert set(subset.question_sets) == {
        "elyza@100",
        "tengu@120",
        "tengu@115",
        "mt_bench@60",
        "mt_bench@80",
        "rakuda@40",
    }
    assert set(subset.answers["question_set"]) == {"elyza@100", "tengu@120", "mt_bench@60", "mt_bench@80", "rakuda@40"}


def test_known_oddities_of_the_sample_are_where_they_were(subset):
    files = subset.files.filter(source="shisa")
    lines = {
        (row["model"], row["kind"], row["dataset"]): (row["lines"] - row["blank"], row["question_set"])
        for row in files.filter(status="imported").iter_rows(named=True)
    }
    mt60, mt80, tengu = "shisa-ai__ja-mt-bench-1shot", "lightblue__japanes-mt-bench-oneshot", "lightblue__tengu_bench"
    assert lines["HuggingFaceTB__SmolLM2-360M-Instruct", "answers", tengu] == (108, "tengu@120")
    assert lines["meta-llama__Llama-3.1-8B-Instruct", "answers", tengu] == (115, "tengu@115")
    assert lines["karakuri-ai__karakuri-lm-70b-chat-v0.1", "answers", mt60] == (81, "mt_bench@80")
    assert lines["meta-llama__Llama-2-7b-chat-hf", "judgements", mt60][1] in {"mt_bench@60", "mt_bench@80"}
    assert lines["augmxnt__shisa-7b-v1", "answers", mt80] == (60, "mt_bench@60")
    assert subset.files["blank"].sum() == 1
    repeated = subset.judgements.filter(pl.col("sample_index") > 0)
    assert set(repeated["model"]) == {"karakuri-ai__karakuri-lm-70b-chat-v0.1"}
    assert subset.judgements.filter(error_class="object_score").height == 10
    assert subset.judgements.filter(error_class="object_score")["recovered_score"].null_count() == 3
    classes = dict(subset.answers.filter(status="error").group_by("error_class").len().iter_rows())
    assert classes == {"empty_answer": 187, "no_answer": 38, "permanent": 1, "unexpected": 8}
    assert subset.answers.filter(pl.col("answer").str.contains("\0", literal=True)).height > 0


def test_judgements_are_linked_as_their_texts_say(subset):
    """`differs` is said of a text that is not the stored one, also where the rest of its file has other texts."""
    shisa = in_force(subset).filter(source="shisa")
    other = shisa.filter(pl.col("answer_link") == "differs")
    assert dict(other.group_by("judge").len().iter_rows()) == {
        "gpt-4-turbo-preview": 624,  # of 640 rows: some short answers agree by chance
        "llmjudge-athenev2": 119,  # of 120
        "llmjudge-llama33": 119,
        "llmjudge-tulu405": 119,
    }
    assert set(other["model"]) == {"microsoft__phi-4", "unsloth__phi-4"}
    stripped = shisa.filter(answer_link="stored_stripped")
    assert dict(stripped.group_by("judge").len().iter_rows()) == {"gpt-4.1-2025-04-14": 320}
    assert shisa.filter(answer_link="stored_null").height == 2


@pytest.mark.long
def test_every_judgement_has_its_answer_and_every_sample_one_row(subset):
    assert subset.judgements.join(subset.answers, on=[*KEYS, "answer_hash"], how="anti", nulls_equal=True).is_empty()
    assert not subset.answers.select(pl.struct(KEYS).is_duplicated().any()).item()
    assert not in_force(subset).select(pl.struct([*KEYS, "judge"]).is_duplicated().any()).item()


def test_all_recomputed_means_come_out_under_every_policy(corpus, subset, tengu_left_out):
    golden = pl.read_csv(corpus / "golden" / "shaberi_recomputed.csv").rename(
        {"repo": "source", "jd": "judge", "bm": "benchmark"}
    )
    kept = ~pl.col("question_id").is_in(tengu_left_out)
    rows = in_force(subset).with_columns(
        reported().alias("own_score"),
        (reported().fill_null(0)).alias("own_zero"),
        (reported().fill_null(reported("recovered_score"))).alias("own_object"),
    )
    found = rows.group_by(CELL).agg(
        n_rows=pl.len(),
        n_scored=pl.col("score").count(),
        n_dict=(pl.col("error_class") == "object_score").sum(),
        score=pl.col("own_score").filter(kept).mean(),
        score_all=pl.col("own_score").mean(),
        mean_excl_dict=pl.col("own_object").filter(kept).mean(),
        mean_all_dict=pl.col("own_object").mean(),
        mean_zero=pl.col("own_zero").filter(kept).mean(),
        mean_zero_all=pl.col("own_zero").mean(),
    )
    joined = golden.join(found, on=CELL, how="left", suffix="_found")
    assert joined.height == 383
    for name in found.columns[len(CELL) :]:
        same = (pl.col(name) - pl.col(f"{name}_found")).abs() < 1e-9
        assert joined.filter(same.fill_null(value=False)).height == 383, name


def test_all_published_cells_with_raw_data_come_out(corpus, subset, tengu_left_out):
    published = pl.read_csv(corpus / "golden" / "shaberi_published.csv").filter(
        pl.col("benchmark").is_in(["elyza", "tengu", "mt_bench", "rakuda"]), ~pl.col("judge").is_in(["ALL", "EX-GPT4"])
    )
    found = (
        in_force(subset)
        .filter(source="shisa")
        .filter(~pl.col("question_id").is_in(tengu_left_out))
        .group_by("judge", "benchmark", model_key="model")
        .agg(own=reported().mean())
    )
    joined = published.join(found, on=["judge", "model_key", "benchmark"], how="left")
    missing = joined.filter(pl.col("own").is_null())
    off = joined.filter((pl.col("own") - pl.col("score")).abs() > 1e-9)
    assert off.is_empty()
    assert (joined.height, missing.height) == (383, 4)
    # Published, but its judgements were never committed.
    assert missing.select("judge", "model").unique().rows() == [
        ("gpt-5.1-2025-11-13", "meta-llama/Llama-3.1-8B-Instruct")
    ]


def test_the_means_over_all_judges_come_out_as_pooled_rows(corpus, subset, tengu_left_out):
    published = pl.read_csv(corpus / "golden" / "shaberi_published.csv").filter(
        pl.col("benchmark").is_in(["elyza", "tengu", "mt_bench", "rakuda"]), judge="ALL"
    )
    pooled = in_force(subset).filter(
        pl.col("source") == "shisa",
        ~pl.col("question_id").is_in(tengu_left_out),
        ~pl.col("judge").str.ends_with("oldjudgeprompt"),
    )
    found = pooled.group_by("benchmark", model_key="model").agg(own=reported().mean())
    joined = published.join(found, on=["model_key", "benchmark"], how="left")
    off = joined.filter(((pl.col("own") - pl.col("score")).abs() > 1e-9) | pl.col("own").is_null())
    assert set(off["model"]) == {"meta-llama/Llama-3.1-8B-Instruct"}  # the same missing judgements


def test_the_tables_of_the_other_trees_come_out(corpus, subset):
    """They keep all 120 Tengu questions."""
    found = in_force(subset).group_by(*CELL, "question_set").agg(own=reported().mean())
    umiyuki = published(corpus, "umiyuki_output", "umiyuki").join(found, on=CELL, how="left")
    assert umiyuki.filter(((pl.col("own") - pl.col("score")).abs() > 1e-9) | pl.col("own").is_null()).is_empty()
    lightblue = published(corpus, "lightblue_readme", "lightblue").join(found, on=CELL, how="left")
    cells = lightblue.filter(pl.col("benchmark").is_in(["elyza", "tengu", "mt_bench", "rakuda"]))
    assert cells.height > 0
    assert cells.filter(((pl.col("own") - pl.col("score")).abs() > 0.005001) | pl.col("own").is_null()).is_empty()


def test_the_table_of_categories_comes_out(corpus, subset):
    files = [corpus / "questions" / f"{name}.jsonl" for name in ("tengu", "mt_bench_lb80")]
    rows = [orjson.loads(line) for file in files for line in file.read_bytes().split(b"\n") if line]
    categories = pl.DataFrame(
        [(row["question_sha256"], row["category"]) for row in rows], ["question_id", "category"], orient="row"
    )
    found = in_force(subset).join(categories, on="question_id").group_by(*CELL, "category").agg(own=reported().mean())
    joined = published(corpus, "lightblue_readme_categories", "lightblue").join(
        found, on=[*CELL, "category"], how="left"
    )
    assert joined.height == 93
    assert joined.filter(((pl.col("own") - pl.col("score")).abs() > 0.005001) | pl.col("own").is_null()).is_empty()
