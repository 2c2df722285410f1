"""The real trees in the lake: the published numbers come out of SQL under the choices that made them."""

import os
import tarfile
import tempfile
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from shaberi_dagster.exchange.trees.importing import ImportRequest, ImportResult, import_trees
from shaberi_dagster.lake.catalog import open_catalog, run_query
from shaberi_dagster.lake.compaction import compact_lake
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.folders import project_folder
from tests.archives import extract

pytestmark = pytest.mark.corpus

TREES = ("shisa", "umiyuki", "lightblue")
CELL = ["source", "judge", "model", "benchmark"]
BENCHMARKS = ["elyza", "tengu", "mt_bench", "rakuda"]
MOST_OF_THE_JSON = 0.06


def imported(roots: Path, warehouse: Path) -> tuple[ImportResult, Workspace]:
    workspace = Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": str(warehouse)}), environment={})
    return import_trees(ImportRequest({name: roots / name for name in TREES}), workspace), workspace


@pytest.fixture(scope="module")
def corpus() -> Path:
    return Path(os.environ["SHABERI_CORPUS"])


@pytest.fixture(scope="module")
def mini(corpus, tmp_path_factory):
    return imported(corpus / "legacy" / "mini", tmp_path_factory.mktemp("mini") / "warehouse")


@pytest.fixture(scope="module")
def subset(corpus, tmp_path_factory):
    """The larger sample, which is unpacked only as long as it is imported."""
    archive = pa.CompressedInputStream(pa.OSFile(str(corpus / "legacy" / "subset.tar.zst")), "zstd")
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=archive, mode="r|") as tar:
        extract(tar, folder)
        return imported(Path(folder), tmp_path_factory.mktemp("subset") / "warehouse")


@pytest.fixture(scope="module")
def over(subset):
    """Asks the named query for the leaderboard with these choices."""
    sql = (project_folder("sql") / "queries" / "leaderboard_over.sql").read_text(encoding="utf-8")
    with open_catalog(subset[1].settings.warehouse) as catalog:

        def asked(question_set=None, policy="legacy", object_scores="none") -> pl.DataFrame:
            values = {"question_set": question_set, "policy": policy, "object_scores": object_scores}
            result = run_query(catalog, sql, values)
            names = [column[0] for column in result.description]
            rows = pl.DataFrame(result.fetchall(), names, orient="row", infer_schema_length=None)
            return rows.join(subset[1].lake.read("runs", columns=["run_id", "source"]), on="run_id")

        yield asked


@pytest.fixture(scope="module")
def golden(corpus) -> pl.DataFrame:
    """The recomputed means."""
    cells = pl.read_csv(corpus / "golden" / "shaberi_recomputed.csv").rename(
        {"repo": "source", "jd": "judge", "bm": "benchmark"}
    )
    return cells.with_columns(multiplier=pl.when(pl.col("benchmark") == "elyza").then(2.0).otherwise(1.0))


def test_every_file_and_line_of_the_samples_is_accounted_for(mini, subset):
    for (result, _), files in ((mini, 101), (subset, 563)):
        assert result.reconciliation.discrepancies() == []
        assert result.reconciliation.quarantine.is_empty()
        assert result.reconciliation.files["files"].sum() == files


def test_importing_the_samples_again_reads_nothing(corpus, mini):
    again, _ = imported(corpus / "legacy" / "mini", mini[1].settings.warehouse)
    assert (again.models_read, again.models_there) == (0, mini[0].models_read)


@pytest.mark.long
def test_the_sample_takes_few_bytes_after_compaction(subset):
    result, workspace = subset
    compact_lake(workspace.lake)
    lake = workspace.lake
    kept = sum(Path(uri).stat().st_size for table in lake.versions() for uri in lake.delta(table).file_uris())
    assert kept < MOST_OF_THE_JSON * result.bytes_read


def test_the_known_sets_and_the_published_part_of_tengu_are_in_the_lake(subset):
    names = set(subset[1].lake.read("questions")["question_set"])
    assert names == {"elyza@100", "tengu@120", "tengu@115", "mt_bench@60", "mt_bench@80", "rakuda@40"}


def test_over_the_runs_own_sets_the_query_is_the_leaderboard(subset, over):
    keys = ["run_id", "judge", "benchmark"]
    for policy in ("legacy", "zero", "strict"):
        metrics = subset[1].lake.read("metrics").filter(null_policy=policy)
        joined = metrics.join(over(policy=policy), on=keys, how="full", suffix="_over")
        assert joined.height == metrics.height == 403
        for name in ("score", "sd_questions", "n_planned", "n_scored", "n_failed", "n_excluded"):
            same = (pl.col(name) - pl.col(f"{name}_over")).abs() < 1e-9
            both_null = pl.col(name).is_null() & pl.col(f"{name}_over").is_null()
            assert joined.filter(~(same.fill_null(value=False) | both_null)).is_empty(), (policy, name)


def test_all_published_cells_with_raw_data_come_out_of_sql(corpus, over):
    published = pl.read_csv(corpus / "golden" / "shaberi_published.csv").filter(
        pl.col("benchmark").is_in(BENCHMARKS), ~pl.col("judge").is_in(["ALL", "EX-GPT4"])
    )
    own = over("tengu@115").filter(source="shisa").select("judge", "benchmark", model_key="model", own="score")
    joined = published.join(own, on=["judge", "model_key", "benchmark"], how="left")
    assert joined.height == 383
    assert joined.filter((pl.col("own") - pl.col("score")).abs() > 1e-9).is_empty()
    # Published, but its judgements were never committed.
    assert set(joined.filter(pl.col("own").is_null())["model"]) == {"meta-llama/Llama-3.1-8B-Instruct"}
    assert joined["own"].null_count() == 4


def test_every_published_average_is_the_average_of_one_run(corpus, over):
    """All of a judge's files are of the same run."""
    published = pl.read_csv(corpus / "golden" / "shaberi_published.csv").filter(
        ~pl.col("judge").is_in(["ALL", "EX-GPT4"]), benchmark="average"
    )
    own = over("tengu@115").filter(source="shisa").group_by("judge", "run_id", model_key="model")
    averages = own.agg(pl.col("score").mean().alias("own"))
    joined = published.join(averages, on=["judge", "model_key"], how="left")
    found = joined.filter((pl.col("own") - pl.col("score")).abs() <= 1e-9)
    assert joined.height == published.height > 90
    assert set(joined.filter(pl.col("own").is_null())["model"]) == {"meta-llama/Llama-3.1-8B-Instruct"}
    assert found.height == published.height - 1


def test_the_whole_published_table_comes_out_of_its_query(corpus, subset):
    """Averages, pooled rows and the average without GPT-4 too."""
    sql = (project_folder("sql") / "queries" / "published_table.sql").read_text(encoding="utf-8")
    with open_catalog(subset[1].settings.warehouse) as catalog:
        values = {"question_set": "tengu@115", "source": "shisa", "tag": "legacy", "not_judges": "oldjudgeprompt"}
        result = run_query(catalog, sql, values)
        own = pl.DataFrame(
            result.fetchall(), [name for name, *_ in result.description], orient="row", infer_schema_length=None
        )
    published = pl.read_csv(corpus / "golden" / "shaberi_published.csv").filter(
        pl.col("benchmark").is_in([*BENCHMARKS, "average"])
    )
    found = own.rename({"model": "model_key", "score": "own"})
    joined = published.join(found, on=["judge", "model_key", "benchmark"], how="left")
    same = ((pl.col("own") - pl.col("score")).abs() <= 1e-9).fill_null(value=False)
    assert joined.height == 675
    assert joined.filter(same).height == 664
    # Some of its judgements were never committed.
    assert set(joined.filter(~same)["model"]) == {"meta-llama/Llama-3.1-8B-Instruct"}


@pytest.mark.parametrize(
    ("column", "choices"),
    [
        ("score", {"question_set": "tengu@115"}),
        ("score_all", {}),
        ("mean_excl_dict", {"question_set": "tengu@115", "object_scores": "recovered"}),
        ("mean_all_dict", {"object_scores": "recovered"}),
    ],
)
def test_recomputed_means_come_out_under_each_choice(golden, over, column, choices):
    joined = golden.join(over(**choices).rename({"score": "own"}), on=CELL, how="left")
    assert joined.height == 383
    assert joined.filter(((pl.col("own") - pl.col(column)).abs() > 1e-9) | pl.col("own").is_null()).is_empty()


@pytest.mark.parametrize(("column", "question_set"), [("mean_zero", "tengu@115"), ("mean_zero_all", None)])
def test_missing_scores_count_as_the_scales_minimum_under_zero(golden, over, column, question_set):
    """The recomputed means count them as 0, and only those that have a row; scores outside of the scale they keep."""
    legacy, zero = over(question_set), over(question_set, policy="zero")
    joined = (
        golden.drop("n_scored")
        .join(zero.rename({"score": "own"}), on=CELL)
        .join(legacy.select(*CELL, "run_id", rows_mean="score", n_rows_scored="n_scored"), on=[*CELL, "run_id"])
    )
    assert joined.height == 383
    outside = joined.filter(pl.col("n_rows_scored") > pl.col("n_scored"))
    assert outside.height == 3
    joined = joined.join(outside, on=CELL, how="anti")
    minimum = pl.when(pl.col("benchmark") == "tengu").then(0.0).otherwise(1.0) * pl.col("multiplier")
    total = pl.col("rows_mean") * pl.col("n_scored")
    n_rows = (total / pl.col(column)).round()
    missing = pl.col("n_planned") - pl.col("n_scored")
    expected = (pl.col(column) * n_rows + missing * minimum) / pl.col("n_planned")
    assert joined.filter((expected - pl.col("own")).abs() > 1e-9).is_empty()


def test_strict_has_a_mean_exactly_where_every_planned_sample_has_a_score(over):
    strict = over("tengu@115", policy="strict").join(over("tengu@115"), on=["run_id", "judge", "benchmark"])
    complete = pl.col("n_scored") == pl.col("n_planned")
    assert strict.filter(complete != pl.col("score").is_not_null()).is_empty()
    assert strict.filter(complete & ((pl.col("score") - pl.col("score_right")).abs() > 1e-12)).is_empty()
    assert 0 < strict.filter(complete).height < 403


def test_the_tables_of_the_other_trees_come_out_of_sql(corpus, over):
    """They keep all 120 Tengu questions."""
    found = over().select(*CELL, own="score")
    for name, precision in (("umiyuki_output", 1e-9), ("lightblue_readme", 0.005001)):
        table = pl.read_csv(corpus / "golden" / f"{name}.csv").filter(pl.col("benchmark").is_in(BENCHMARKS))
        published = table.with_columns(source=pl.lit(name.partition("_")[0]))
        joined = published.join(found, on=CELL, how="left")
        assert joined.height == published.height > 0
        off = (pl.col("own") - pl.col("score")).abs() > precision
        assert joined.filter(off | pl.col("own").is_null()).is_empty(), name
