"""Pipelines: scores after some passes, in order, beside the scores without any."""

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from shaberi_dagster.tasks.passes.base import APPLY_KEYS, Pass
from shaberi_dagster.util.identity import sha256_json

BASELINE = "baseline"
_ROW = [*APPLY_KEYS, "judge"]
Passes = Sequence[Pass[Any]]


def pipeline_name(passes: Passes) -> str:
    """Name a pipeline as the column `pipeline` does, such as `lang_mixing,repetition`."""
    return ",".join(modifier.name for modifier in passes) or BASELINE


def pipeline_hash(passes: Iterable[tuple[str, str]]) -> str:
    """Identify passes in order: by the `config_hash` and version of each."""
    return sha256_json([list(one) for one in passes])


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
            failure. What an earlier version found counts until the answer is looked at again.
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
    """`pipeline_hash` for the passes of each score, in order."""
    joined = looked.list.join(",")
    by_text = {text: pipeline_hash(_passes_in(text)) for text in joined.unique()}
    return joined.replace_strict(by_text, return_dtype=pl.String())


def _passes_in(text: str) -> Iterable[tuple[str, str]]:
    """Yield hash and version of each pass of a text such as `HASH@1,HASH@2`."""
    for one in text.split(","):
        config_hash, _, version = one.partition("@")
        yield config_hash, version


_DELTA = pl.Struct({"pass": pl.String(), "version": pl.String(), "delta": pl.Float64(), "reason": pl.String()})
_DELTAS = pl.List(_DELTA)


def _applied(modifier: Pass[Any], scored: pl.DataFrame, findings: pl.DataFrame, scales: pl.DataFrame) -> pl.DataFrame:
    """The scores after one more pass."""
    own = findings.filter(pass_config_hash=modifier.config_hash)
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
    of_run = pl.col("pass_version").fill_null(pl.col("pass_version").max().over("run_id")).fill_null(modifier.version)
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
            looked=pl.concat_list("looked", pl.format("{}@{}", pl.lit(modifier.config_hash), of_run)),
        )
        .select(scored.columns)
    )
