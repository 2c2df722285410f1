"""Baselines: the verdicts on a run, question by question, kept under a name.

A baseline has one row per dataset, strategy and question, in the table `baselines`. It is promoted explicitly, has a
name that is given once, and is never changed.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import duckdb
import orjson
import polars as pl

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake import store
from shaberi_dagster.lake.catalog import connect, write_catalog
from shaberi_dagster.lake.schemas import BASELINES
from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.reports.figures import counted, listed, percent
from shaberi_dagster.reports.named_queries import known_names
from shaberi_dagster.reports.report import Column, Result, Sentences, Table, text
from shaberi_dagster.reports.requests import RunSelection, runs_chosen
from shaberi_dagster.reports.verdicts import run_of, verdicts_of
from shaberi_dagster.util.identity import check_run_tag
from shaberi_dagster.util.names import check_known, did_you_mean


def promote(
    lake: "store.Lake", run_id: str, name: str, note: str | None = None, *, allow_partial: bool = False
) -> "pl.DataFrame":
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
    _check_name(name)
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


def store_baseline(lake: "store.Lake", verdicts: "pl.DataFrame", name: str, note: str | None) -> "pl.DataFrame":
    """Store verdicts of a run as the baseline `name`, in one commit.

    Raises:
        ConfigurationError: The name is taken.
    """
    _check_name(name)
    noted = {"note": pl.lit(note, dtype=pl.String), "created_at": pl.lit(datetime.now(UTC))}
    own = verdicts.select(column for column in BASELINES.schema if column in verdicts.columns)
    frame = store.conform(BASELINES, own.with_columns(name=pl.lit(name), **noted))
    with lake.alone("baselines"):  # two could find the same name free
        if lake.read("baselines", {"name": name}, ["run_id"]).height:
            raise ConfigurationError(f"baseline {name} exists and is never changed: give another name")
        lake.append("baselines", frame)
    write_catalog(lake)
    return frame


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
    selection = RunSelection([name], [tag] if tag else ())
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
    lake: "store.Lake", run_ids: Sequence[str], name: str, note: str | None = None, *, allow_partial: bool = False
) -> list[str]:
    """Make baselines of runs: `name` of one run, of several `name-run1` and so on.

    Returns:
        The names of the baselines.
    """
    names = [name] if len(run_ids) == 1 else [f"{name}-run{number}" for number in range(1, len(run_ids) + 1)]
    for own, run_id in zip(names, run_ids, strict=True):
        promote(lake, run_id, own, note, allow_partial=allow_partial)
    return names


def _check_name(name: str) -> None:
    try:
        check_run_tag(name)
    except ConfigurationError as error:
        raise ConfigurationError(str(error).replace("run tag", "baseline name", 1)) from None


def _unfinished(run: Mapping[str, Any]) -> str:
    states: dict[str, str] = orjson.loads(run["status_by_benchmark"] or "{}")
    return listed([name for name, state in states.items() if state != "complete"]) or "not finished"


_LIST = Table(
    [
        Column("name"),
        Column("run", "run_id", folds=True),
        Column("datasets", folds=True),
        Column("questions", "n_questions"),
        text("right", lambda row: ", ".join(f"{name} {percent(share)}" for name, share in row["accuracy"].items())),
        Column("promoted", "promoted_at"),
        Column("note", null="", folds=True),
    ]
)


def list_result(baselines: Sequence[Mapping[str, Any]]) -> Result:
    """List baselines, a line for each.

    Args:
        baselines: From `reports.verdicts.baselines`.
    """
    none = Sentences(["no baselines; `shaberi baseline promote NAME --model MODEL` makes one"])
    return Result([_LIST.of(baselines) if baselines else none], [_plain(row) for row in baselines])


def promotion_result(promoted: Sequence[Mapping[str, Any]]) -> Result:
    """Say what new baselines have; the document of one stands alone."""
    documents = [*map(_plain, promoted)]
    return Result([Sentences([*map(_promoted, promoted)])], document=documents[0] if len(documents) == 1 else documents)


def _promoted(baseline: Mapping[str, Any]) -> str:
    covers = f"{counted(len(baseline['datasets']), 'dataset')}, {counted(baseline['n_questions'], 'question')}"
    strategies = f"{len(baseline['strategies'])} strategies with single"
    return f"baseline {baseline['name']}: {baseline['run_id']}, {covers}, {strategies}"


def _plain(baseline: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**baseline, "promoted_at": str(baseline["promoted_at"])}
