"""Passes over imported runs: pass outputs, scores and metrics of many runs at once; no call is made."""

from collections.abc import Sequence
from typing import Any

import orjson
import polars as pl

from shaberi_dagster.benchmarks.registry import BENCHMARKS
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.passes.base import Pass
from shaberi_dagster.passes.pipeline import BASELINE, Passes
from shaberi_dagster.passes.registry import make_pass
from shaberi_dagster.runs.spec import LEGACY_KIND, RunSpec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.stages.metrics import measure_runs, set_status
from shaberi_dagster.stages.pass_outputs import examine_imported
from shaberi_dagster.stages.result import StageResult
from shaberi_dagster.stages.scores import score_runs

STAGES = ("pass_outputs", "scores", "metrics")
"""What can be made anew of an imported run."""
_KIND, _SYSTEM, _ORIGIN = (pl.col("spec").str.json_path_match(f"$.{name}") for name in ("kind", "system", "origin"))
OF_TREE = (_ORIGIN == "imported").fill_null(value=False) | ((_KIND == LEGACY_KIND) & _SYSTEM.is_null())
"""Whether a row of `runs` was imported from a legacy tree."""


def imported_among(run_ids: Sequence[str], lake: Lake) -> list[str]:
    """Those of the runs that were imported from legacy trees."""
    return sorted(set(run_ids) & set(runs_of_trees(lake)["run_id"]))


def runs_of_trees(lake: Lake) -> pl.DataFrame:
    """run_id, model, run_tag, base_tag, run_number and spec of the runs that were imported from legacy trees."""
    runs = lake.read("runs", columns=["run_id", "model", "run_tag", "base_tag", "run_number", "spec"])
    return runs.filter(OF_TREE)


def reprocess_imported(
    stage: str,
    run_ids: Sequence[str],
    benchmarks: Sequence[str],
    workspace: Workspace,
    pipelines: Sequence[Passes] = (),
    *,
    anew: bool = False,
) -> list[StageResult]:
    """Make a stage of imported runs anew.

    Args:
        stage: One of `STAGES`.
        run_ids: The runs; those that were not imported from legacy trees are left out.
        benchmarks: Which of their benchmarks.
        workspace: Where to read and write.
        pipelines: Passes in order, beside those that the runs have already.
        anew: Let today's versions of the passes look at what earlier ones have seen.

    Returns:
        One outcome per run and benchmark.

    Raises:
        ConfigurationError: The stage cannot be made of imported runs.
    """
    if stage not in STAGES:
        raise ConfigurationError(
            f"run {run_ids[0]} was imported and cannot be continued: only its {', '.join(STAGES)} can be made anew"
        )
    runs = runs_of_trees(workspace.lake).filter(pl.col("run_id").is_in(list(run_ids)))
    planned = _planned(runs, benchmarks, workspace.lake)
    everything = _all_pipelines(workspace.lake, planned["run_id"].unique().to_list(), pipelines)
    for name in planned["benchmark"].unique().sort():
        own = planned.filter(benchmark=name)
        judges = own.select("run_id", "benchmark", judge="judges").explode("judge")
        if stage == "pass_outputs":
            examine_imported(own["run_id"].to_list(), [name], everything, workspace, anew=anew)
        if stage == "scores" or (stage == "pass_outputs" and pipelines):
            # Only its scores remember an imported run's pipelines, so new ones are there from the first stage on.
            score_runs(judges, everything, workspace)
        if stage == "metrics":
            measure_runs(own.drop("judges").with_columns(n_questions="n_planned"), workspace)
    if stage == "metrics":
        for spec in map(RunSpec.read, runs["spec"]):
            if spec.judges:
                set_status(spec, workspace)
    nothing = pl.DataFrame()
    return [
        StageResult(run_id, stage, name, {"rows": n_planned, "judges": judges}, nothing)
        for run_id, name, n_planned, judges in planned.select("run_id", "benchmark", "n_planned", "judges").iter_rows()
    ]


def _planned(runs: pl.DataFrame, benchmarks: Sequence[str], lake: Lake) -> pl.DataFrame:
    """run_id, base_tag, run_number, benchmark, n_planned and judges, where there is a judge.

    Those of the import count, and whoever has judged the run since.
    """
    rows: list[dict[str, Any]] = []
    for row in runs.iter_rows(named=True):
        spec = RunSpec.read(row["spec"])
        rows += [
            {
                "run_id": row["run_id"],
                "base_tag": row["base_tag"],
                "run_number": row["run_number"],
                "benchmark": name,
                "n_planned": spec.n_planned(name),
            }
            for name in spec.benchmarks
            if name in benchmarks and name in BENCHMARKS
        ]
    texts = dict.fromkeys(("run_id", "base_tag", "benchmark"), pl.String())
    numbers = dict.fromkeys(("run_number", "n_planned"), pl.Int64())
    planned = pl.DataFrame(rows, schema={**texts, **numbers})
    judged = (
        lake.scan("judgements", {"run_id": runs["run_id"].to_list()}, ["run_id", "benchmark", "judge", "superseded"])
        .filter(~pl.col("superseded"))
        .group_by("run_id", "benchmark")
        .agg(judges=pl.col("judge").unique().sort())
        .collect()
    )
    return planned.join(judged, on=["run_id", "benchmark"], maintain_order="left")


def _all_pipelines(lake: Lake, run_ids: Sequence[str], pipelines: Sequence[Passes]) -> list[Passes]:
    """The longest pipelines that some of the runs have, with the settings that they have now, and these."""
    if not run_ids:
        return list(pipelines)
    known = lake.read("scores", {"run_id": run_ids}, ["pipeline"])["pipeline"].unique().to_list()
    longest = [name for name in known if not any(other.startswith(f"{name},") for other in known) and name != BASELINE]
    columns = ["pass", "pass_config", "pass_version", "created_at"]
    outputs = lake.read("pass_outputs", {"run_id": run_ids}, columns) if longest else pl.DataFrame()
    latest = outputs.sort("created_at").unique("pass", keep="last") if longest else outputs
    configs = {row["pass"]: (row["pass_config"], row["pass_version"]) for row in latest.iter_rows(named=True)}
    asked = [[one.name for one in passes] for passes in pipelines]
    stored = [name.split(",") for name in sorted(longest)]
    return [
        # A pass without any finding (of answers without a text) has left no settings.
        *(
            [_stored_pass(one, *configs.get(one, ("{}", None))) for one in names]
            for names in stored
            if names not in asked
        ),
        *pipelines,
    ]


def _stored_pass(name: str, config: str, version: str | None) -> Pass[Any]:
    return make_pass(name, orjson.loads(config), version)
