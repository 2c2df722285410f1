"""History of a pool of questions: scores of other models by the same judges, and how sure they make one."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import polars as pl

from shaberi_dagster.deciding.candidates import Pool
from shaberi_dagster.lake.catalog import connect
from shaberi_dagster.lake.connections import read_frame
from shaberi_dagster.lake.schemas import DECISION_CALIBRATIONS
from shaberi_dagster.lake.statements import statement
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.statistics.calibration import (
    CLASSES,
    METHOD,
    Calibration,
    ClassResult,
    calibrate,
    family_of,
)
from shaberi_dagster.statistics.sequential import Floats
from shaberi_dagster.tasks.passes.pipeline import BASELINE
from shaberi_dagster.util.errors import ConfigurationError

_MOST_MISSING = 0.125
"""Share of the questions that the scores of a past model may lack."""
_LEAST_MEAN = 0.4
"""Share of the highest score: models below it fail in ways of their own. Where rules judge, none is left out."""
_SEED = 20_261_122
_BEYOND = 0.25
"""Distance beyond the most extreme past model from which a candidate is outside of the history."""


@dataclass(frozen=True)
class Past:
    """Scores of past models.

    Attributes:
        models: Their names.
        scores: Models × questions on the reported scale; NaN is no score.
    """

    models: tuple[str, ...]
    scores: Floats

    @classmethod
    def none(cls, pool: Pool) -> "Past":
        """Return the past of no model."""
        return cls((), np.empty((0, len(pool.questions))))

    def without(self, models: Collection[str]) -> "Past":
        """Return the past of the other models."""
        kept = [row for row, name in enumerate(self.models) if name not in models]
        return Past(tuple(self.models[row] for row in kept), self.scores[kept])

    @property
    def sha256(self) -> str:
        """Identity of the scores, their models' names, and the method by which they are replayed."""
        content = hashlib.sha256("\n".join([f"method {METHOD}", *self.models]).encode())
        content.update(np.ascontiguousarray(self.scores).tobytes())
        return content.hexdigest()


def past_scores(pool: Pool, lake: Lake) -> Past:
    """Read the scores of whole evaluations by the pool's judges, each piece of evidence once; the mean of a model's.

    Args:
        pool: The questions and their judges; another judge's scores are never used.
        lake: Where scores are.
    """
    with connect(lake) as catalog:
        rows = read_frame(catalog, statement("past_scores"), {"benchmarks": pool.names, "judges": pool.panel})
    models = rows["model"].unique().sort().to_list()
    scores = pool.matrix(rows, models)
    scored = ~np.isnan(scores)
    means = np.where(scored, scores, 0.0).sum(axis=1) / np.maximum(scored.sum(axis=1), 1)
    enough = scored.mean(axis=1) >= 1 - _MOST_MISSING
    kept = np.flatnonzero(enough & (pool.is_ruled | (means >= _LEAST_MEAN * pool.highest)))
    return Past(tuple(models[row] for row in kept), scores[kept])


def calibrated(pool: Pool, past: Past, margin: float, error: float, workspace: Workspace) -> Calibration | None:
    """Find how sure the pool's judges have to be: as it was found before for the same scores, else by a new replay.

    Args:
        pool: The questions and their judges.
        past: Of the pool.
        margin: Differences up to it are practically equal.
        error: Wrong decisions that are allowed.
        workspace: Where calibrations are kept.

    Returns:
        None where there is too little history.
    """
    digest = past.sha256
    stored = workspace.lake.read("decision_calibrations", {"history_sha256": digest})
    stored = stored.filter(margin=margin, error=error)
    if stored.height:
        return _stored(stored)
    rng = np.random.default_rng(_SEED)
    families = [family_of(model) for model in past.models]
    found = calibrate(past.scores, families, pool.benchmarks, pool.weights, margin=margin, error=error, rng=rng)
    if found:
        workspace.lake.append("decision_calibrations", _rows(found, pool, digest))
    return found


def outside(past: Floats, scores: Floats) -> list[str]:
    """Say in what a candidate lies beyond all past models on the questions that it has scores on.

    Args:
        past: Shape (models, questions); NaN is no score.
        scores: Of the candidate, shape (questions,); NaN is no score, or not asked yet.
    """
    asked = ~np.isnan(scores)
    everyone, usual = np.vstack([scores, past])[:, asked], np.nanmean(past[:, asked], axis=0)
    levels = np.nanmean(everyone - usual, axis=1)
    residuals = everyone - usual - levels[:, None]
    centred = everyone - np.nanmean(everyone, axis=1)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):  # equal scores of all questions follow no order
        agreement = np.nanmean(centred * (usual - usual.mean()), axis=1) / np.nanstd(everyone, axis=1)
    facts = {
        "lower scores": -levels,
        "higher scores": levels,
        "a wider spread": np.nanstd(residuals, axis=1),
        "a less usual order of difficulty": -agreement,
    }
    return [name for name, (candidate, *others) in facts.items() if candidate > _limit(others)]


def _limit(values: Sequence[float]) -> float:
    """Return the largest value, and `_BEYOND` of its distance from the middle."""
    largest = float(np.nanmax(values))
    return largest + _BEYOND * (largest - float(np.nanmedian(values)))


def judged_pool(judge: str, benchmarks: Sequence[str], lake: Lake) -> Pool:
    """Find the questions of which a judge has scored most models, of each benchmark the set that most were asked.

    Args:
        judge: The judge.
        benchmarks: Of these; those that it has not judged are left out.
        lake: Where scores are.

    Raises:
        ConfigurationError: It has judged none of them.
    """
    columns = ["model", "benchmark", "question_set", "question_id", "strategy", "judge", "pipeline"]
    rows = lake.read("scores", {"judge": judge, "benchmark": list(benchmarks)}, columns)
    rows = rows.filter(pl.col("pipeline") == BASELINE, pl.col("strategy").is_null())
    sets = (
        rows.group_by("benchmark", "question_set")
        .agg(n=pl.col("model").n_unique())
        .sort("benchmark", "n", "question_set")
        .unique("benchmark", keep="last")
    )
    if sets.is_empty():
        raise ConfigurationError(f"{judge} has judged none of {', '.join(benchmarks)}")
    chosen = rows.join(sets, on=["benchmark", "question_set"], how="semi")
    questions = chosen.select("benchmark", "question_id").unique().sort(pl.all())
    names = sets["benchmark"].sort().to_list()
    return Pool.of(tuple(questions.iter_rows()), tuple(sets["question_set"].sort()), dict.fromkeys(names, (judge,)))


def _rows(found: Calibration, pool: Pool, digest: str) -> pl.DataFrame:
    about = {
        "judges": pool.panel,
        "question_sets": list(pool.question_sets),
        "history_sha256": digest,
        "created_at": datetime.now(UTC),
        **{name: getattr(found, name) for name in _OF_CALIBRATION},
    }
    rows = [about | {column: getattr(result, name) for name, column in _OF_CLASS.items()} for result in found.classes]
    return pl.DataFrame(rows, schema={name: DECISION_CALIBRATIONS.schema[name] for name in rows[0]})


_OF_CLASS = {
    "name": "class",
    "n_pairs": "n_pairs",
    "mean_questions": "class_mean_questions",
    "median_questions": "class_median_questions",
    "share_wrong": "share_wrong",
    "share_equal": "share_equal",
}
_OF_CALIBRATION = ("constant", "error", "margin", "n_models", "n_families", "mean_questions")


def _stored(rows: pl.DataFrame) -> Calibration:
    rows = rows.sort("created_at").unique("class", keep="last")
    rows = rows.sort(pl.col("class").replace_strict({name: place for place, name in enumerate(CLASSES)}))
    classes = tuple(
        ClassResult(**{name: row[column] for name, column in _OF_CLASS.items()}) for row in rows.iter_rows(named=True)
    )
    return Calibration(classes=classes, **{name: rows[name][0] for name in _OF_CALIBRATION})
