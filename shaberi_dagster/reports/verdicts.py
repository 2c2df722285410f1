"""The verdicts on a run, question by question, and those of a baseline."""

from collections.abc import Mapping
from typing import Any

import duckdb
import orjson
import polars as pl

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.schemas import BASELINES
from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.reports.named_queries import known_names
from shaberi_dagster.runs.spec import SINGLE, RunSpec
from shaberi_dagster.util.identity import sha256_json
from shaberi_dagster.util.names import did_you_mean

_OF_VERDICTS = [
    *("benchmark", "question_set", "question_set_sha256", "question_id", "strategy", "judge", "judge_config_hash"),
    *("correct", "status", "error_class", "answer_hash"),
]
_OF_STRATEGY = ["strategy_version", "strategy_prompt_hash"]


def run_of(catalog: duckdb.DuckDBPyConnection, run_id: str) -> tuple[dict[str, Any], RunSpec]:
    """Read the row and the settings of a run.

    Raises:
        ConfigurationError: There is no such run, or it has no strategies.
    """
    found = fetch(catalog, "run", run_id=run_id)
    if not found:
        known = known_names(catalog, "run")
        raise ConfigurationError(f"no run {run_id!r}; {did_you_mean(run_id, known, 'the lake has')}")
    (run,) = found
    spec = RunSpec.read(run["spec"])
    if not _graded(spec):
        raise ConfigurationError(f"run {run_id} has no strategies whose answers a rule grades, so nothing to compare")
    return run, spec


def _graded(spec: RunSpec) -> list[str]:
    """Find the benchmarks of a run with strategies whose answers a rule grades as right or wrong."""
    return [
        name for name, settings in spec.benchmarks.items() if settings.has_consensus and spec.benchmark(name).has_rule
    ]


def verdicts_of(catalog: duckdb.DuckDBPyConnection, spec: RunSpec, judges: Mapping[str, str]) -> "pl.DataFrame":
    """Read what a run got right: one row per planned question and strategy.

    Args:
        catalog: The public views.
        spec: The run.
        judges: For each dataset the judge whose verdicts are wanted; where the run has none of this judge, or no judge
            is given, those of its grading model, else of its rule.

    Returns:
        Columns of `baselines` from benchmark to answer_hash; reused: whether other runs have paid for all replies
        behind the answer, null where that is not known; settings and settings_hash.
    """
    names = _graded(spec)
    planned = [
        {"benchmark": name, "strategy": strategy} for name in names for strategy in spec.benchmarks[name].strategies
    ]
    own = {name: spec.benchmarks[name].judges for name in names}
    frame = pl.DataFrame(
        fetch(
            catalog,
            "verdicts",
            run_id=spec.run_id,
            benchmarks=names,
            sha256s=[spec.benchmarks[name].question_set_sha256 for name in names],
            n_questions=[spec.n_questions(name) for name in names],
            judges=[judges[name] if judges.get(name) in own[name] else own[name][-1] for name in names],
            planned=planned,
            strategies=list(spec.strategies),
        ),
        schema={name: BASELINES.schema[name] for name in _OF_VERDICTS}
        | {"reused": pl.Boolean(), "strategy_version": pl.Int64(), "strategy_prompt_hash": pl.String()},
    )
    made = frame.group_by("benchmark", "strategy").agg(pl.col(_OF_STRATEGY).drop_nulls().last())
    settings = [_settings(spec, **row) for row in made.iter_rows(named=True)]
    texts = [orjson.dumps(values, option=orjson.OPT_SORT_KEYS).decode() for values in settings]
    hashes = [sha256_json(values) for values in settings]
    made = made.select("benchmark", "strategy", settings=pl.Series(texts), settings_hash=pl.Series(hashes))
    return frame.drop(_OF_STRATEGY).join(made, on=["benchmark", "strategy"], how="left", maintain_order="left")


def _settings(spec: RunSpec, benchmark: str, strategy: str, **of_strategy: Any) -> dict[str, Any]:
    """Return the settings of the answers of a strategy, as far as they can change what these say."""
    one = spec.benchmarks[benchmark]
    sampling = one.model_dump(include={"temperature", "max_tokens", "frequency_penalty", "parameters", "prompt_hash"})
    if strategy == SINGLE:
        return {"model": spec.model} | sampling
    shared = {"models": spec.sampled_models, "samples": len(one.shared)}
    consensus = {"consensus_model": spec.consensus_model}
    return {"model": spec.model} | sampling | shared | consensus | of_strategy


def baseline_of(catalog: duckdb.DuckDBPyConnection, name: str) -> "pl.DataFrame":
    """Read the rows of a baseline.

    Raises:
        ConfigurationError: There is none of that name.
    """
    found = fetch(catalog, "baseline", baseline=name)
    if not found:
        names = [row["name"] for row in baselines(catalog)]
        there = did_you_mean(name, names, "there is") if names else "`shaberi baseline promote` makes one"
        raise ConfigurationError(f"no baseline {name!r}; {there}")
    return pl.DataFrame(found, schema=BASELINES.schema)


def baselines(catalog: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Read the baselines, oldest first: the rows of the view `baseline_list`."""
    return fetch(catalog, "baselines")
