"""What judges took off answers in which a pass finds something, beside what the pass takes off, as Markdown.

A judge's score of an answer with a finding is compared with what it gives the model's clean answers (those in which no
pass finds anything) to questions as hard as this one: the question's mean over clean answers of all models, plus how
far the model's clean answers lie from their questions' means. Shares of the scale. The curves of the passes were drawn
through what was taken of the other families' answers; those of the families in `KEPT` were only looked at afterwards.
The tables of docs/design/passes.md are its output.

    shaberi import-legacy TREE… && shaberi reprocess --tag legacy --passes repetition,lang_mixing
    python perf/pass_calibration.py warehouse
"""

import argparse
import math
import re
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
_JUDGE_LEAST = 5
"""Fewest judgements of one judge in a cell of the table."""
KEPT = re.compile("glm|phi|gemma|gpt-oss|tanuki|karakuri|smol|gemini", re.IGNORECASE)
"""Model families that the curves were not drawn by."""


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
    kept = pl.col("model").str.contains(f"(?i){KEPT.pattern}")
    judges = found["judge"].unique().sort().to_list()
    heads = [f"{name}: {_MEASURES[name]}", "other families: answers, taken", "kept families: answers, taken", *judges]
    lines = [f"| {' | '.join([*heads, 'the pass takes'])} |", "|---" * (len(heads) + 1) + "|"]
    for low, high in pairwise(_ENDS):
        own = found.filter(measure > low, measure <= high)
        cells = [f"{low:g} to {high:g}", _taken(own.filter(~kept)), _taken(own.filter(kept))]
        for judge in judges:
            of_judge = own.filter(judge=judge)["loss"]
            cells.append(f"{of_judge.mean():.2f}" if len(of_judge) >= _JUDGE_LEAST else "")
        lines.append(f"| {' | '.join(cells)} | {own[name].mean() or 0:.3f} |")
    return "\n".join(lines)


def _taken(judged: pl.DataFrame) -> str:
    """How many answers, the mean loss, and its standard error over answers."""
    losses = judged.group_by("answer_hash").agg(pl.col("loss").mean())["loss"]
    if losses.is_empty():
        return "0"
    error = f" ± {losses.std() / math.sqrt(len(losses)):.3f}" if len(losses) > 1 else ""
    return f"{len(losses)}: {losses.mean():.3f}{error}"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warehouse", type=Path)
    judged = losses(Lake(parser.parse_args().warehouse))
    for name in _MEASURES:
        print(table(judged, name), end="\n\n")  # noqa: T201


if __name__ == "__main__":
    main()
