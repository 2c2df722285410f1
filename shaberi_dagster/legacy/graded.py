"""Imported samples as a run of our own, for rules to grade and strategies without a call to vote on."""

import orjson
import polars as pl

from shaberi_dagster.benchmarks.registry import get_benchmark
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.legacy.ensemble import QUESTION_SOURCE, EnsembleBenchmark, EnsembleRunSpec
from shaberi_dagster.runs.planning import store_run
from shaberi_dagster.runs.spec import SINGLE, BenchmarkSpec, EndpointSpec, RunSpec
from shaberi_dagster.runs.workspace import Workspace

SUFFIX = "-graded"
"""What the tag of such a run has beyond that of the imported one, which stays as it is."""
STAGES = ("consensus", "judgements", "scores", "metrics")
"""What is made of the samples; none of it makes a call."""
_VOTE = "plurality"
_NO_LIMIT = 2**31 - 1
_NOWHERE = EndpointSpec(name="imported", base_url="imported", api_key_variable=None)


def graded_run(run_id: str, workspace: Workspace) -> RunSpec | None:
    """Store the samples of an imported run as those of a run that rules grade and that has the strategy plurality.

    Args:
        run_id: A run that was imported from caches of the ensemble evaluation; the first sample is its single answer.
        workspace: Where to read and write.

    Returns:
        The run, whose `STAGES` are to be materialized; None if the imported one has one response to each question, or
        no benchmark whose questions are known.

    Raises:
        ConfigurationError: There is no such imported run.
    """
    runs = workspace.lake.read("runs", {"run_id": run_id}, ["spec"])
    if runs.is_empty() or orjson.loads(runs["spec"][0]).get("system") != "ensemble":
        raise ConfigurationError(f"run {run_id} was not imported from caches of the ensemble evaluation")
    imported = EnsembleRunSpec.model_validate_json(runs["spec"][0])
    benchmarks = {
        name: _benchmark(name, one, imported.temperature)
        for name, one in imported.benchmarks.items()
        if one.samples > 1 and one.question_texts == "known" and get_benchmark(name).has_rule
    }
    if not benchmarks:
        return None
    spec = RunSpec(
        model=imported.model,
        run_tag=f"{imported.run_tag}{SUFFIX}",
        endpoint=_NOWHERE,
        benchmarks=benchmarks,
        judges=(),
    )
    store_run(spec, workspace)
    answers = workspace.lake.read("answers", {"run_id": run_id, "benchmark": list(benchmarks)})
    own = answers.with_columns(run_id=pl.lit(spec.run_id), run_tag=pl.lit(spec.run_tag))
    workspace.lake.update("answers", own, {"run_id": spec.run_id})
    return spec


def _benchmark(name: str, imported: EnsembleBenchmark, temperature: float | None) -> BenchmarkSpec:
    """What is known of how it was asked; the caches have neither the prompt nor the limit."""
    return BenchmarkSpec(
        question_set=imported.question_set,
        question_set_sha256=imported.question_set_sha256,
        n_questions=imported.n_questions,
        source=QUESTION_SOURCE,
        source_revision=None,
        prompt_hash="not recorded",
        temperature=temperature or 0.0,
        max_tokens=_NO_LIMIT,
        frequency_penalty=0.0,
        samples=imported.samples,
        single="first",
        strategies=(SINGLE, _VOTE),
        judges=(get_benchmark(name).grader,),
    )
