"""What judges took off answers in which a pass finds something, beside what the pass takes off, as Markdown.

A judge's score of an answer with a finding is compared with what it gives the model's clean answers (those in which no
pass finds anything) to questions as hard as this one: the question's mean over clean answers of all models, plus how
far the model's clean answers lie from their questions' means. Shares of the scale. The table of docs/design/passes.md
is its output.

    shaberi import-legacy TREE… && shaberi reprocess --tag legacy --passes repetition,lang_mixing
    python perf/pass_calibration.py warehouse
"""

import argparse
from itertools import pairwise
from pathlib import Path

import polars as pl

from shaberi_dagster.benchmarks.registry import BENCHMARKS
from shaberi_dagster.lake.store import Lake

_MEASURES = {"repetition": "share", "lang_mixing": "mixing_ratio"}
_ENDS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 0.8, 1.0)
_SAMPLE = ["run_id", "benchmark", "question_id", "sample_index"]
_MODEL_LEAST, _QUESTION_LEAST = 10, 5
"""Fewest clean answers of a model and to a question that a comparison rests on."""


def findings(lake: Lake) -> pl.DataFrame:
    """For each answer, pass by pass, the severity (null without a finding) and the measure it comes from."""
    outputs = lake.read(
        "pass_outputs", {"pass": list(_MEASURES), "status": "ok"}, [*_SAMPLE, "pass", "severity", "details"]
    )
    parts = [
        outputs.filter(pl.col("pass") == name).select(
            *_SAMPLE,
            pl.when(pl.col("severity") > 0).then("severity").alias(name),
            pl.col("details").str.json_path_match(f"$.{measure}").cast(pl.Float64).alias(measure),
        )
        for name, measure in _MEASURES.items()
    ]
    return parts[0].join(parts[1], on=_SAMPLE)


def losses(lake: Lake) -> pl.DataFrame:
    """The judgements of the answers, with what each lost against the judge's scores of clean answers (`loss`)."""
    scales = pl.DataFrame(
        [(name, one.scale_minimum, one.scale_maximum) for name, one in BENCHMARKS.items()],
        schema={"benchmark": pl.String, "low": pl.Float64, "high": pl.Float64},
        orient="row",
    )
    columns = [*_SAMPLE, "model", "judge", "answer_hash", "strategy", "baseline_score"]
    scores = lake.read("scores", {"pipeline": "baseline"}, columns).drop_nulls("baseline_score")
    judged = (
        scores.filter(pl.col("strategy").is_null())
        .join(findings(lake), on=_SAMPLE)
        .join(scales, on="benchmark")
        .with_columns(given=(pl.col("baseline_score") - pl.col("low")) / (pl.col("high") - pl.col("low")))
    )
    clean = judged.filter(pl.all_horizontal(pl.col(list(_MEASURES)).is_null()))
    of_question = clean.group_by("judge", "question_id").agg(pl.col("given").mean().alias("usual"), n_clean=pl.len())
    of_model = (
        clean.join(of_question, on=["judge", "question_id"])
        .group_by("judge", "benchmark", "model")
        .agg((pl.col("given") - pl.col("usual")).mean().alias("ahead"), n_own=pl.len())
    )
    return (
        judged.join(of_question, on=["judge", "question_id"])
        .join(of_model, on=["judge", "benchmark", "model"])
        .filter(pl.col("n_clean") >= _QUESTION_LEAST, pl.col("n_own") >= _MODEL_LEAST)
        .with_columns(loss=pl.col("usual") + pl.col("ahead") - pl.col("given"))
    )


def table(judged: pl.DataFrame, name: str) -> str:
    """Lines for the answers in which this pass alone finds something, by its measure."""
    (other,) = _MEASURES.keys() - {name}
    measure = pl.col(_MEASURES[name])
    found = judged.filter(pl.col(name).is_not_null(), pl.col(other).is_null())
    lines = [
        f"| {name}: {_MEASURES[name]} | answers | judgements | judges took | the pass takes |",
        "|---|---|---|---|---|",
    ]
    for low, high in pairwise(_ENDS):
        own = found.filter(measure > low, measure <= high)
        if not own.is_empty():
            counts = f"{own['answer_hash'].n_unique():,} | {own.height:,}"
            took, takes = own.select(pl.col("loss", name).mean()).row(0)
            lines.append(f"| {low:g} to {high:g} | {counts} | {took:.3f} | {takes:.3f} |")
    return "\n".join(lines)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warehouse", type=Path)
    judged = losses(Lake(parser.parse_args().warehouse))
    for name in _MEASURES:
        print(table(judged, name), end="\n\n")  # noqa: T201


if __name__ == "__main__":
    main()
