"""The promotion of a run to a baseline, in the table `baselines`: a row per dataset, strategy and question."""

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import orjson
import polars as pl

from shaberi_dagster.lake import store
from shaberi_dagster.lake.baselines import check_name, store_baseline
from shaberi_dagster.lake.catalog import connect
from shaberi_dagster.lake.queries import known_names
from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.reports.blocks import listed
from shaberi_dagster.reports.gate import run_of, verdicts_of
from shaberi_dagster.reports.requests import RunSelection, runs_chosen
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.names import check_known, did_you_mean


def promote(
    lake: store.Lake, run_id: str, name: str, note: str | None = None, *, allow_partial: bool = False
) -> pl.DataFrame:
    """Make what a run got right the baseline `name`, in one commit.

    Args:
        lake: The lake of the run.
        run_id: A run with consensus strategies.
        name: The name of the baseline; it is given once.
        note: A remark on it.
        allow_partial: Even if a part of the run has failed or is missing; that part counts as wrong.

    Returns:
        The rows.

    Raises:
        ConfigurationError: The name is taken, or there is no such run, or it is not complete.
    """
    check_name(name)
    with connect(lake) as catalog:
        run, spec = run_of(catalog, run_id)
        if run["status"] != "complete" and not allow_partial:
            raise ConfigurationError(
                f"run {run_id} is {run['status']} ({_unfinished(run)}): finish it with the command that began it, "
                "or promote it with --allow-partial"
            )
        verdicts = verdicts_of(catalog, spec, {})
    if not verdicts["correct"].count():
        raise ConfigurationError(f"run {run_id} has no verdicts: there is nothing to promote")
    of_run = {name: pl.lit(getattr(spec, name)) for name in ("run_id", "model", "run_tag")}
    return store_baseline(lake, verdicts.with_columns(**of_run), name, note)


def chosen_runs(
    catalog: duckdb.DuckDBPyConnection, run_id: str | None, model: str | None, tag: str | None
) -> list[str]:
    """Find the run that is meant, by its identity or by its model's name and its tag; a base tag means numbered runs.

    Raises:
        ConfigurationError: None is meant, or runs of several tags could be.
    """
    if (run_id is None) == (model is None):
        raise ConfigurationError("name the run: MODEL@@TAG, or --model MODEL --tag TAG")
    if run_id is not None:
        if tag is not None:
            raise ConfigurationError("--tag goes with --model; a run is MODEL@@TAG")
        if "@@" not in run_id:
            meant = did_you_mean(run_id, known_names(catalog, "run"), "the lake has")
            raise ConfigurationError(f"{run_id!r} is no run: name it as MODEL@@TAG, or give --model; {meant}")
    name = str(run_id or model)
    selection = RunSelection(models=[name], tags=[tag] if tag else ())
    found = fetch(catalog, "chosen_runs", **runs_chosen(selection.models, selection.tags, ()))
    if not found:
        check_known("run" if run_id else "model", [name], known_names(catalog, "run" if run_id else "model or run"))
        raise ConfigurationError(f"{name} has no run{f' with tag {tag!r}' if tag else ''}")
    # A run of generate-cache has samples only.
    found = [run for run in found if run["has_strategies"]] or found
    own_tag = tag or name.rpartition("@@")[2]
    found = [run for run in found if run["run_tag"] == own_tag] or found
    if len({(run["base_tag"], run["run_number"] is None) for run in found}) > 1:
        tags = ", ".join(run["run_tag"] for run in found)
        raise ConfigurationError(f"{name} has several runs: give --tag, one of {tags}")
    return [run["run_id"] for run in found]


def promote_all(
    lake: store.Lake, run_ids: Sequence[str], name: str, note: str | None = None, *, allow_partial: bool = False
) -> list[str]:
    """Make baselines of runs: `name` of one run, of several `name-run1` and so on.

    Returns:
        The names of the baselines.
    """
    names = [name] if len(run_ids) == 1 else [f"{name}-run{number}" for number in range(1, len(run_ids) + 1)]
    for own, run_id in zip(names, run_ids, strict=True):
        promote(lake, run_id, own, note, allow_partial=allow_partial)
    return names


def _unfinished(run: Mapping[str, Any]) -> str:
    states: dict[str, str] = orjson.loads(run["status_by_benchmark"] or "{}")
    return listed([name for name, state in states.items() if state != "complete"]) or "not finished"
