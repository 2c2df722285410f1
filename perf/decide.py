"""Decisions between models replayed on score files: how many questions they take, and how often they are wrong.

The files have the columns judge, model, benchmark, question_id and score (on a scale from 0 to 10). Decisions are
between models of `--candidates`; what past models say of the questions, and how sure it has to be, comes from
`--history` alone. A judge with too little history, or one that cannot be calibrated, gets the anytime-valid boundary.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from shaberi_dagster.statistics.calibration import Pairs, calibrate, class_results, family_of
from shaberi_dagster.statistics.sequential import Anytime, Floats, History, looks, question_weights

_MARGIN, _ERROR = 0.2, 0.01
_LARGEST = 10.0
_FEWEST_SCORES, _LEAST_MEAN = 280, 4.0
_MOST_PAIRS = 4_000


def judge_scores(scores: pl.DataFrame, judge: str, questions: pl.DataFrame) -> tuple[list[str], Floats]:
    """Models with enough of a judge's scores, and these as models × questions; NaN is none.

    Args:
        scores: A file.
        judge: Whose.
        questions: benchmark and question_id in the order of the columns.
    """
    own = scores.filter(judge=judge).join(questions, on=["benchmark", "question_id"], how="semi")
    means = own.group_by("model").agg(n=pl.len(), mean=pl.col("score").mean())
    models = means.filter(pl.col("n") >= _FEWEST_SCORES, pl.col("mean") >= _LEAST_MEAN)["model"].sort().to_list()
    by_place = (
        own.filter(pl.col("model").is_in(models))
        .join(questions.with_row_index("place"), on=["benchmark", "question_id"])
        .join(pl.DataFrame({"model": models}, schema={"model": pl.String}).with_row_index("row"), on="model")
    )
    matrix = np.full((len(models), len(questions)), np.nan)
    values = np.clip(by_place["score"].cast(pl.Float64).to_numpy(), 0.0, _LARGEST)
    matrix[by_place["row"].to_numpy(), by_place["place"].to_numpy()] = values
    return models, matrix


def replayed(history: pl.DataFrame, candidates: pl.DataFrame, judge: str, seed: int) -> dict[str, Any]:
    """The document of one judge."""
    questions = history.filter(judge=judge).select("benchmark", "question_id").unique().sort(pl.all())
    benchmarks = questions["benchmark"].to_list()
    past, past_scores = judge_scores(history, judge, questions)
    _, scores = judge_scores(candidates, judge, questions)
    weights, at = question_weights(benchmarks), looks(len(benchmarks))
    rng = np.random.default_rng(seed)
    pairs = Pairs.of(scores, weights, benchmarks, rng, _MOST_PAIRS)
    calibration = calibrate(
        past_scores, list(map(family_of, past)), benchmarks, weights, margin=_MARGIN, error=_ERROR, rng=rng
    )
    if calibration and calibration.constant is not None:
        known = History.of(past_scores, weights)
        curve = known.curve(pairs.scores_a, pairs.scores_b, known.order(rng), at)
        stops = curve.stops(calibration.constant, _MARGIN)
    else:
        anytime = Anytime(weights, _LARGEST, _ERROR)
        stops = anytime.stops(pairs.scores_a, pairs.scores_b, anytime.order(rng), at, _MARGIN)
    asked = np.asarray(at)[stops.looks]
    results = class_results(pairs.classes, asked, stops.signs, pairs.wrong(stops.signs, _MARGIN))
    return {
        "judge": judge,
        "n_history": len(past),
        "boundary": "history" if calibration and calibration.holds else "anytime",
        "classes": [
            {"class" if name == "name" else name: value for name, value in asdict(one).items()} for one in results
        ],
        "mean_questions_all": float(asked.mean()) if len(asked) else None,
    }


def as_markdown(document: dict[str, Any]) -> str:
    """A line for each judge and class."""
    columns = ("class", "n_pairs", "mean_questions", "median_questions", "share_wrong", "share_equal")
    lines = [f"| judge | history | boundary | {' | '.join(columns)} |", "|---" * (3 + len(columns)) + "|"]
    for judge in document["judges"]:
        about = (judge["judge"], judge["n_history"], judge["boundary"])
        lines += [
            f"| {' | '.join(map(_cell, (*about, *(row[name] for name in columns))))} |" for row in judge["classes"]
        ]
    return "\n".join(lines)


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--history", type=Path, required=True, help="Parquet file with the scores of past models.")
    parser.add_argument("--candidates", type=Path, required=True, help="Parquet file with those to decide between.")
    parser.add_argument("--seed", type=int, default=0, help="Of family splits, orders and audit draws.")
    parser.add_argument("--json", action="store_true", help="One JSON document on stdout.")
    options = parser.parse_args()
    history, candidates = pl.read_parquet(options.history), pl.read_parquet(options.candidates)
    judges = sorted(set(history["judge"]) & set(candidates["judge"]))
    document = {"judges": [replayed(history, candidates, judge, options.seed) for judge in judges]}
    print(json.dumps(document, indent=2) if options.json else as_markdown(document))  # noqa: T201


if __name__ == "__main__":
    main()
