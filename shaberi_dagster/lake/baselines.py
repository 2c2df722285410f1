"""Baselines: verdicts on a run, question by question, kept under a name that is given once, and never changed."""

from datetime import UTC, datetime

import polars as pl

from shaberi_dagster.lake import store
from shaberi_dagster.lake.catalog import write_catalog
from shaberi_dagster.lake.schemas import BASELINES
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import check_run_tag


def store_baseline(lake: store.Lake, verdicts: pl.DataFrame, name: str, note: str | None) -> pl.DataFrame:
    """Store verdicts of a run as the baseline `name`, in one commit.

    Raises:
        ConfigurationError: The name is taken.
    """
    check_name(name)
    noted = {"note": pl.lit(note, dtype=pl.String), "created_at": pl.lit(datetime.now(UTC))}
    own = verdicts.select(column for column in BASELINES.schema if column in verdicts.columns)
    frame = store.conform(BASELINES, own.with_columns(name=pl.lit(name), **noted))
    with lake.exclusive_lock("baselines"):  # two could find the same name free
        if lake.read("baselines", {"name": name}, ["run_id"]).height:
            raise ConfigurationError(f"baseline {name} exists and is never changed: give another name")
        lake.append("baselines", frame)
    write_catalog(lake)
    return frame


def check_name(name: str) -> None:
    """Refuse a name that no file can have.

    Raises:
        ConfigurationError: It says which characters can be in it.
    """
    try:
        check_run_tag(name)
    except ConfigurationError as error:
        raise ConfigurationError(str(error).replace("run tag", "baseline name", 1)) from None
