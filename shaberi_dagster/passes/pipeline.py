"""Pipelines: scores after some passes, in order, beside the scores without any."""

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from shaberi_dagster.passes.base import APPLY_KEYS, Pass
from shaberi_dagster.util.identity import sha256_json

BASELINE = "baseline"
_ROW = [*APPLY_KEYS, "judge"]
Passes = Sequence[Pass[Any]]


def pipeline_name(passes: Passes) -> str:
    """As in the column `pipeline`, such as `lang_mixing,repetition`."""
    return ",".join(modifier.name for modifier in passes) or BASELINE


def pipeline_hash(config_hashes: Sequence[str]) -> str:
    """Identify passes, their versions and settings, in order: by the `config_hash` of each."""
    return sha256_json(list(config_hashes))


def distinct_passes(pipelines: Iterable[Passes]) -> list[Pass[Any]]:
    """Every pass with every settings, once."""
    return list({modifier.config_hash: modifier for passes in pipelines for modifier in passes}.values())


def pipeline_scores(
    baseline: pl.DataFrame, findings: pl.DataFrame, pipelines: Sequence[Passes], scales: pl.DataFrame
) -> pl.DataFrame:
    """Scores under each pipeline and each beginning of one; where two have one name, the later one counts.

    Args:
        baseline: Rows of `scores` without passes.
        findings: `APPLY_KEYS`, answer_hash, pass, pass_version, pass_config_hash, severity, reason; only those without
            failure. Those of earlier versions count for answers that today's has not looked at.
        pipelines: Passes in order.
        scales: benchmark, scale_minimum, scale_maximum.

    Returns:
        Rows like `baseline`; `pipeline_hash` is of the versions that looked at the answer. A score without a finding
        of one of the passes is a failure of class `pass_failed`.
    """
    by_name: dict[str, pl.DataFrame] = {}
    for passes in pipelines:
        scored = baseline.with_columns(deltas=pl.lit([], dtype=_DELTAS), looked=pl.lit([], dtype=pl.List(pl.String())))
        for count, modifier in enumerate(passes, start=1):
            scored = _applied(modifier, scored, findings, scales)
            name = pipeline_name(passes[:count])
            by_name[name] = scored.with_columns(
                pipeline=pl.lit(name), pipeline_hash=pl.col("looked").map_batches(_hashes, return_dtype=pl.String())
            ).drop("looked")
    return pl.concat(by_name.values())


def _hashes(looked: pl.Series) -> pl.Series:
    """`pipeline_hash` for the `config_hash` of each pass, in order."""
    joined = looked.list.join(",")
    return joined.replace_strict(
        {hashes: pipeline_hash(hashes.split(",")) for hashes in joined.unique()}, return_dtype=pl.String()
    )


_DELTA = pl.Struct({"pass": pl.String(), "version": pl.String(), "delta": pl.Float64(), "reason": pl.String()})
_DELTAS = pl.List(_DELTA)


def _applied(modifier: Pass[Any], scored: pl.DataFrame, findings: pl.DataFrame, scales: pl.DataFrame) -> pl.DataFrame:
    """The scores after one more pass."""
    own = _findings_of(modifier, findings)
    judgements = scored.select(*_ROW, "score").join(scales, on="benchmark")
    deltas = modifier.apply(own.select(*APPLY_KEYS, "severity", "reason"), judgements)
    added = pl.struct(
        pl.lit(modifier.name).alias("pass"),
        pl.col("pass_version").alias("version"),
        pl.col("delta"),
        pl.col("delta_reason").alias("reason"),
    )
    examined = own.select(*APPLY_KEYS, "answer_hash", "pass_version", "pass_config_hash")
    failed = pl.col("score").is_not_null() & pl.col("pass_config_hash").is_null()
    # Answers without a text have no finding: they go with the others of their run.
    of_run = pl.col("pass_config_hash").fill_null(pl.col("pass_config_hash").max().over("run_id"))
    return (
        scored.join(
            deltas.rename({"reason": "delta_reason"}), on=_ROW, how="left", nulls_equal=True, maintain_order="left"
        )
        .join(examined, on=[*APPLY_KEYS, "answer_hash"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(
            status=pl.when(failed).then(pl.lit("error")).otherwise("status"),
            error_class=pl.when(failed).then(pl.lit("pass_failed")).otherwise("error_class"),
            score=pl.when(~failed).then(pl.col("score") + pl.col("delta").fill_null(0)),
            deltas=pl.when(pl.col("delta").is_not_null())
            .then(pl.concat_list("deltas", added.cast(_DELTA)))
            .otherwise("deltas"),
            looked=pl.concat_list("looked", of_run.fill_null(modifier.config_hash)),
        )
        .select(scored.columns)
    )


def _findings_of(modifier: Pass[Any], findings: pl.DataFrame) -> pl.DataFrame:
    """Select what a pass found with these settings: one row an answer, of the latest version that looked at it."""
    latest_first = {name: rank for rank, name in enumerate((modifier.config_hash, *modifier.older_config_hashes))}
    own = findings.filter(pl.col("pass_config_hash").is_in(list(latest_first)))
    rank = pl.col("pass_config_hash").replace_strict(latest_first, return_dtype=pl.Int64())
    return own.sort(rank, maintain_order=True).unique([*APPLY_KEYS, "answer_hash"], keep="first", maintain_order=True)
