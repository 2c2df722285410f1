"""What stood, and what was asked for, as of 2026-11-21: kept beside today's way for as long as the two are compared."""

from typing import Any

import polars as pl

from shaberi_dagster.grading.registry import GRADERS
from shaberi_dagster.identity import sha256_json
from shaberi_dagster.llm.types import ChatRequest
from shaberi_dagster.prompting import fallback_prompt_hash, judge_prompt_hash
from shaberi_dagster.runs.plan import BenchmarkPlan, RunPlan
from shaberi_dagster.stages.base import Stage


def standing_and_pending(stage: Stage[Any], plan: RunPlan) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The keys of stored rows that stand, and those of planned rows to be made."""
    planned = as_planned(stage, plan)
    stored = stage.workspace.lake.read(stage.name, stage.keys)
    current = stored.filter(~pl.col("superseded")) if stage.supersedes else stored
    key, whole = list(stage.key), [*stage.key, *stage.identity]
    results = current.filter(pl.col("status").is_in(stage.settled))
    standing = results.join(planned, on=whole, how="semi", nulls_equal=True)
    pending = planned.join(standing, on=key, how="anti", nulls_equal=True, maintain_order="left")
    return standing.select(key), pending.select(key)


def as_planned(stage: Stage[Any], plan: RunPlan) -> pl.DataFrame:
    """Key and identity of every row of a stage, with the hashes that it had."""
    planned = stage.planned()
    if stage.name == "answers":
        requests = {
            (item.columns["benchmark"], item.columns["question_id"], item.request.sample_index): item.request
            for item in stage.items(planned)
        }
        keys = planned.select("benchmark", "question_id", "sample_index").iter_rows()
        return planned.with_columns(
            request_hash=pl.Series([request_hash(requests[key]) for key in keys], dtype=pl.String)
        )
    if stage.name == "judgements":
        names = planned.select("benchmark", "judge").iter_rows()
        hashes = [judge_config_hash(plan, plan.benchmarks[benchmark], judge) for benchmark, judge in names]
        return planned.with_columns(judge_config_hash=pl.Series(hashes, dtype=pl.String))
    return planned


def request_hash(request: ChatRequest) -> str:
    """Identity of a call."""
    last_line = request.sampling.last_line
    sampling = vars(request.sampling) | {"last_line": last_line and vars(last_line)}
    if request.sampling.json_schema is None:
        del sampling["json_schema"]
    return sha256_json(
        {
            "base_url": request.endpoint.base_url,
            "model": request.model,
            "messages": [vars(message) for message in request.messages],
            "sampling": sampling,
            "sample_index": request.sample_index,
            "replicate": request.replicate,
        }
    )


def judge_config_hash(plan: RunPlan, one: BenchmarkPlan, judge: str) -> str:
    """Identity of a judge's settings for a benchmark."""
    library, ensemble = plan.workspace.prompts, plan.spec.ensemble
    if ensemble is None:
        (spec,) = (each for each in plan.spec.judges if each.name == judge)
        prompts = library.variant(spec.prompt)
        settings = spec.model_dump(exclude={"rounds": True, "endpoint": {"api_key_variable"}})
        hashes = judge_prompt_hash(prompts, one.benchmark), fallback_prompt_hash(prompts, one.benchmark)
        return sha256_json(settings | {"prompt_hashes": hashes})
    rule = GRADERS[one.benchmark.grader]
    config_hash = sha256_json({"rule": rule.name, "version": rule.version})
    if judge == rule.name:
        return config_hash
    assert ensemble.grader is not None
    identity = ensemble.grader.model_dump(exclude={"endpoint": {"api_key_variable"}})
    prompt = library.prompt_hash(one.benchmark.judging.primary_template)
    return sha256_json({"rule": config_hash, "model": identity, "prompt": prompt})
