"""Decisions between models replayed on a file of scores: how many questions they take, and how often they are wrong.

Run `python perf/decide.py SCORES --candidates 2 --decisions 300 --seeds 3`. The file has the columns judge, model,
benchmark, question_id and score (on a scale from 0 to 10). For each judge and seed families of models are kept away,
as long as 60 models and six tenths of all are left for the history (a series with a fifth of all models belongs to it
and is not counted); decisions are between models of these families, as `shaberi decide` makes them: the error is shared
out over all pairs, and who is outside of the history is bet on.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from shaberi_dagster.deciding.decision import Boundary, Contest
from shaberi_dagster.statistics.calibration import (
    CLASSES,
    FEWEST_MODELS,
    calibrate,
    error_of_pair,
    family_of,
    paired_p_values,
)
from shaberi_dagster.statistics.sequential import Anytime, Floats, History, looks, mean_differences, question_weights

_MARGIN, _LARGEST, _ROUNDING = 0.2, 10.0, 1e-9
_FEWEST_SCORES, _LEAST_MEAN, _HISTORY_SHARE, _LARGE_SHARE = 280, 4.0, 0.6, 0.2


class Replay(NamedTuple):
    """A decision: of which class its closest pair is, the share of all calls that it took, and how it ended."""

    pair_class: str
    share_asked: float
    is_wrong: bool
    is_decided: bool
    is_outside: bool


def judge_scores(scores: pl.DataFrame, judge: str) -> tuple[list[str], list[str], Floats]:
    """Models with enough of a judge's scores, the benchmark of each question, and scores as models × questions."""
    own = scores.filter(judge=judge)
    means = own.group_by("model").agg(n=pl.len(), mean=pl.col("score").mean())
    enough = means.filter(pl.col("n") >= _FEWEST_SCORES, pl.col("mean") >= _LEAST_MEAN)
    wide = own.join(enough, on="model", how="semi").pivot(
        "model", index=["benchmark", "question_id"], values="score", sort_columns=True
    )
    wide = wide.sort("benchmark", "question_id")
    models = sorted(set(wide.columns) - {"benchmark", "question_id"})
    matrix = wide.select(pl.col(models).cast(pl.Float64)).to_numpy().T
    return models, wide["benchmark"].to_list(), np.clip(matrix, 0.0, _LARGEST)


def families_kept_away(families: Sequence[str], rng: np.random.Generator) -> set[str]:
    """Draw the families that candidates are of; the rest is the history, with every large series of models."""
    small = {family for family in families if families.count(family) <= _LARGE_SHARE * len(families)}
    n_left = sum(family in small for family in families)
    fewest = _HISTORY_SHARE * n_left
    if len(families) >= FEWEST_MODELS:
        fewest = max(fewest, FEWEST_MODELS - (len(families) - n_left))
    away = set()
    for family in rng.permutation(sorted(small)):
        if n_left - families.count(family) >= fewest:
            n_left -= families.count(family)
            away.add(str(family))
    return away


def replays(scores: pl.DataFrame, judge: str, seed: int, options: argparse.Namespace) -> tuple[str, int, list[Replay]]:
    """Make decisions between models of families that the history does not have.

    Returns:
        The boundary, how many models the history has, and the decisions.
    """
    rng = np.random.default_rng(seed)
    models, benchmarks, matrix = judge_scores(scores, judge)
    families = list(map(family_of, models))
    away = np.isin(families, sorted(families_kept_away(families, rng)))
    weights, past = question_weights(benchmarks), matrix[~away]
    error = error_of_pair(options.error, options.candidates)
    if away.sum() < options.candidates or len(past) == 0:
        raise ValueError(
            f"{len(models)} models with enough scores are too few for a history and {options.candidates} others"
        )
    known_families = [family for family, is_away in zip(families, away, strict=True) if not is_away]
    calibration = calibrate(past, known_families, benchmarks, weights, margin=_MARGIN, error=error, rng=rng)
    bets = Anytime(weights, _LARGEST, error)
    history = History.of(past, weights) if calibration and calibration.holds else None
    done = []
    for number in range(options.decisions):
        own = matrix[rng.choice(np.flatnonzero(away), options.candidates, replace=False)]
        order = (history or bets).order(rng)
        boundary = Boundary(weights, _MARGIN, order, history, calibration, bets)
        done.append(_replay(Contest(boundary, past, options.candidates, number), own, weights, benchmarks))
    return "history" if history else "anytime", len(past), done


def _replay(contest: Contest, scores: Floats, weights: Floats, benchmarks: Sequence[str]) -> Replay:
    n_calls, before = 0, 0
    for n_asked in looks(len(weights)):
        n_calls, before = n_calls + (n_asked - before) * len(contest.alive), n_asked
        contest.look(scores, n_asked)
        if contest.is_decided:
            break
    pairs = list(combinations(range(len(scores)), 2))
    first, second = (scores[[pair[side] for pair in pairs]] for side in (0, 1))
    truth = dict(zip(pairs, mean_differences(first, second, weights).tolist(), strict=True))
    wrong = [
        abs(truth[pair]) > _MARGIN + _ROUNDING if verdict == "equal" else (truth[pair] > 0) != (verdict == "A")
        for pair, verdict in contest.verdicts.items()
        if verdict != "open"
    ]
    closest = int(np.searchsorted([0.001, 0.05], paired_p_values(first - second, benchmarks).max(), side="right"))
    return Replay(CLASSES[closest], n_calls / scores.size, any(wrong), contest.is_decided, bool(contest.beyond))


def _rows(name: str, boundary: str, n_history: int, seeds: Sequence[Sequence[Replay]]) -> Iterator[list[str]]:
    """A line for each class, and one for all: means over seeds, with the worst seed in parentheses."""
    for pair_class in (*CLASSES, "all"):
        own = [[one for one in seed if pair_class in {"all", one.pair_class}] for seed in seeds]
        own = [seed for seed in own if seed]
        figures = [
            [100 * np.mean([getattr(one, column) for one in seed]) for seed in own]
            for column in ("share_asked", "is_wrong", "is_decided", "is_outside")
        ]
        if own:
            asked, wrong, decided, outside = figures
            shown = [f"{np.mean(asked):.1f} ({max(asked):.1f})", f"{np.mean(wrong):.2f} ({max(wrong):.2f})"]
            yield [
                *(name, boundary, str(n_history), pair_class, str(sum(map(len, own)))),
                *(*shown, f"{np.mean(decided):.1f}", f"{np.mean(outside):.1f}"),
            ]


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scores", type=Path, help="Parquet file with scores of models.")
    parser.add_argument("--judges", nargs="*", help="Only these.")
    parser.add_argument("--candidates", type=int, default=2, help="Between how many models a decision is.")
    parser.add_argument("--decisions", type=int, default=300, help="Of each judge and seed.")
    parser.add_argument("--seeds", type=int, default=3, help="How often families are drawn.")
    parser.add_argument("--error", type=float, default=0.01, help="Share of decisions that may be wrong.")
    options = parser.parse_args()
    scores = pl.read_parquet(options.scores)
    columns = ("judge", "boundary", "history", "class", "decisions", "calls %", "wrong %", "decided %", "outside %")
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")  # noqa: T201
    for judge in options.judges or sorted(scores["judge"].unique()):
        try:
            found = [replays(scores, judge, seed, options) for seed in range(options.seeds)]
        except ValueError as error:
            print(f"{judge} is left out: {error}", file=sys.stderr)  # noqa: T201
            continue
        boundaries = "/".join(sorted({boundary for boundary, _, _ in found}))
        n_history = round(np.mean([n for _, n, _ in found]))
        for row in _rows(judge, boundaries, n_history, [done for _, _, done in found]):
            print(f"| {' | '.join(row)} |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
