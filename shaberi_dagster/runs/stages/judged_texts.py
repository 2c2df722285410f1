"""Samples and consensus answers of a run, read as one table: the texts that are judged and examined."""

from collections.abc import Iterator, Sequence

import polars as pl

from shaberi_dagster.lake.store import Keys, Lake
from shaberi_dagster.runs.stages.answers import Answers
from shaberi_dagster.runs.stages.consensus import ConsensusAnswers

KEY = ("benchmark", "question_id", "sample_index", "strategy")
_LACKING = {
    Answers.name: {"strategy": pl.lit(None, dtype=pl.String())},
    ConsensusAnswers.name: {"sample_index": pl.lit(0, dtype=pl.Int64()), "truncated": pl.lit(None, dtype=pl.Boolean())},
}
"""A sample is of no strategy; a consensus is no sample, and whether a limit cut it is not known."""


def read(rows: Lake, keys: Keys, columns: Sequence[str]) -> pl.DataFrame:
    """These columns of all of them, samples first: for columns that are not texts."""
    return pl.concat([_whole(rows.read(table, keys, _own(table, columns)), table, columns) for table in _LACKING])


def blocks(rows: Lake, keys: Keys, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """These columns of some hundred at a time, samples first."""
    for table in _LACKING:
        for block in rows.blocks(table, keys, _own(table, columns)):
            yield _whole(block, table, columns)


def _own(table: str, columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name not in _LACKING[table]]


def _whole(frame: pl.DataFrame, table: str, columns: Sequence[str]) -> pl.DataFrame:
    return frame.with_columns(**_LACKING[table]).select(columns)
