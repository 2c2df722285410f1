"""The rows of files as they are now, with those of before whose files are gone: nothing is lost."""

from collections.abc import Sequence
from datetime import datetime

import polars as pl

from shaberi_dagster.exchange.importing import SAMPLE, ImportedRows
from shaberi_dagster.exchange.trees.files import CONTENT

_RUN_SAMPLE = ["run_id", *SAMPLE]


def with_superseded(
    fresh: ImportedRows, earlier: ImportedRows, placed: pl.DataFrame, runs: pl.DataFrame, now: datetime
) -> ImportedRows:
    """The rows of runs with those of before whose files are no longer in their trees: judgements as superseded.

    Args:
        fresh: The rows of the files as they are now.
        earlier: The imported rows that the runs had.
        placed: Of which runs the files are now.
        runs: Rows of `runs` of before.
        now: When rows are superseded.
    """
    sources = runs.select("run_id", run_source="source")
    current = placed.select("source", "model", "sha256").unique()
    now_of = placed.select("run_id", of_model="model").unique()

    def gone(rows: pl.DataFrame) -> pl.DataFrame:
        own = rows.join(now_of, on="run_id").join(sources, on="run_id")
        in_tree = ["run_source", "of_model", "source_sha256"]
        return own.join(current, left_on=in_tree, right_on=current.columns, how="anti").select(rows.columns)

    judged = gone(earlier.judgements).with_columns(
        superseded=pl.lit(value=True), superseded_at=pl.coalesce("superseded_at", pl.lit(now))
    )
    rounds = judged.group_by(*_RUN_SAMPLE, "judge").agg(earlier_rounds=pl.col("judge_round").max() + 1)
    again = fresh.judgements.join(rounds, on=[*_RUN_SAMPLE, "judge"], how="left", maintain_order="left").with_columns(
        judge_round=pl.col("judge_round") + pl.col("earlier_rounds").fill_null(0)
    )
    stored = pl.col("answer_origin") == "stored"
    answers = pl.concat([fresh.answers.filter(stored), gone(earlier.answers), fresh.answers.filter(~stored)])
    return ImportedRows(
        answers.unique(_RUN_SAMPLE, keep="first", maintain_order=True),
        pl.concat([again.drop("earlier_rounds"), judged]),
        fresh.repeats,
    )


def superseding(
    placed: pl.DataFrame, unmatched: Sequence[str], earlier: ImportedRows, runs: pl.DataFrame, replaced: pl.DataFrame
) -> dict[str, str]:
    """The runs whose answers others have taken the place of, with those others.

    Args:
        placed: Of which runs the files are now.
        unmatched: Runs of before whose answers are those of no files any more.
        earlier: The rows that the runs had.
        runs: Their rows of `runs`.
        replaced: Files that have other bytes now, with their `new_sha256`.
    """
    had = _files_of(earlier)
    own = runs.select("run_id", "source", "superseded_by")
    now = placed.select("source", "model", "run_id", new_sha256="sha256").unique()
    had = had.join(own, on="run_id")
    changed = had.join(
        replaced.select("source", "model", "kind", "sha256", "new_sha256"), on=["source", "model", "kind", "sha256"]
    ).join(now, on=["source", "model", "new_sha256"], suffix="_now")
    elsewhere = had.join(
        now, left_on=["source", "model", "sha256"], right_on=["source", "model", "new_sha256"], suffix="_now"
    )
    is_unmatched = pl.col("run_id").is_in(list(unmatched))
    found = pl.concat(
        [
            changed.filter(~pl.col("run_id").is_in(list(standing(placed, earlier))))
            .filter(kind="answers")
            .select("run_id", "run_id_now"),
            changed.filter(is_unmatched).sort("kind").select("run_id", "run_id_now"),
            own.filter(is_unmatched, pl.col("superseded_by").is_not_null()).select(
                "run_id", run_id_now="superseded_by"
            ),
            elsewhere.filter(is_unmatched).sort("run_id_now").select("run_id", "run_id_now"),
        ]
    ).filter(pl.col("run_id") != pl.col("run_id_now"))
    return dict(found.unique("run_id", keep="first", maintain_order=True).iter_rows())


def standing(placed: pl.DataFrame, earlier: ImportedRows) -> set[str]:
    """The runs that have all answer files that they had, or as good ones: no other answers have taken their place."""
    had = _files_of(earlier).filter(kind="answers").select("run_id", "benchmark").unique()
    has = placed.filter(kind="answers").select("run_id", "benchmark").unique()
    return set(placed["run_id"]) - set(had.join(has, on=["run_id", "benchmark"], how="anti")["run_id"])


def _files_of(rows: ImportedRows) -> pl.DataFrame:
    """run_id, model, benchmark, sha256 and kind of the files that rows are of."""
    origin = pl.when(answer_origin="stored").then(pl.lit("answers")).otherwise(pl.lit("judgements"))
    columns = ("run_id", "model", "benchmark")
    answers = rows.answers.select(*columns, sha256="source_sha256", kind=origin)
    judgements = rows.judgements.select(*columns, sha256="source_sha256", kind=pl.lit("judgements"))
    return pl.concat([answers, judgements]).unique()


def counts_of(rows: ImportedRows, placed: pl.DataFrame) -> pl.DataFrame:
    """source, content, imported, repeated: what became of the lines of each file."""
    line = ["source", *CONTENT, "source_line"]
    no_judge = pl.lit(None, pl.String)
    files = placed.select("source", "run_id", *CONTENT).unique()
    kinds = {
        "imported": [rows.answers.filter(answer_origin="stored").with_columns(judge=no_judge), rows.judgements],
        "repeated": [rows.repeats],
    }
    keys = ["run_id", "judge", "source_sha256"]
    counted = [
        pl.concat([frame.select(*keys, "source_line") for frame in frames])
        .join(files, left_on=keys, right_on=["run_id", "judge", "sha256"], nulls_equal=True)
        .rename({"source_sha256": "sha256"})
        .select(*line, is_repeat=pl.lit(value=kind == "repeated"))
        for kind, frames in kinds.items()
    ]
    # A line can be in several runs of its tree.
    once = pl.concat(counted).unique(line, keep="first", maintain_order=True)
    repeated = pl.col("is_repeat").sum().cast(pl.Int64)
    return once.group_by("source", *CONTENT).agg(imported=pl.len().cast(pl.Int64) - repeated, repeated=repeated)
