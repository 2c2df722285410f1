"""Stored runs that people name."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from shaberi_dagster.lake.store import Lake
from shaberi_dagster.util.identity import NUMBERED
from shaberi_dagster.util.names import check_known


def chosen_runs(lake: Lake, models: Sequence[str], tags: Sequence[str], sources: Sequence[str]) -> pl.DataFrame:
    """Select the runs with these models, tags and trees, by their identity; none of a kind means all.

    Args:
        lake: Where they are.
        models: Only these, or runs as MODEL@@TAG.
        tags: Only with one of these tags, base tags, `TAG-run*`, or tags of their import.
        sources: Only imported from these trees.

    Raises:
        ConfigurationError: The lake has no such model, tag or tree.
    """
    columns = ["run_id", "model", "run_tag", "base_tag", "import_tag", "run_number", "source"]
    chosen = runs = lake.read("runs", columns=columns).sort("run_id")
    for kind, given, names_of in (("model", models, _models), ("tag", tags, _tags), ("source", sources, _sources)):
        if given:
            names = [names_of(row) for row in runs.iter_rows(named=True)]
            check_known(kind, given, set[str]().union(*names))
            matching = [run for run, own in zip(runs["run_id"], names, strict=True) if not own.isdisjoint(given)]
            chosen = chosen.filter(pl.col("run_id").is_in(matching))
    return chosen


def _models(run: Mapping[str, Any]) -> set[str]:
    """Return the names by which a run is chosen: its model, itself, and its model with each of its tags."""
    return {run["model"], run["run_id"], *(f"{run['model']}@@{tag}" for tag in _tags(run))}


def _tags(run: Mapping[str, Any]) -> set[str]:
    numbered = [] if run["run_number"] is None else [f"{run['base_tag']}{NUMBERED}"]
    return {*filter(None, (run["run_tag"], run["base_tag"], run["import_tag"])), *numbered}


def _sources(run: Mapping[str, Any]) -> set[str]:
    return set(filter(None, [run["source"]]))
