"""The hashes that judges' settings had while an address was part of them, for SQL, which cannot work them out."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

import polars as pl
from pydantic import ValidationError

from shaberi_dagster.benchmarks.registry import RULE, get_benchmark
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.judges.rule import config_hash_of, former_config_hashes_of
from shaberi_dagster.judges.rules.registry import GRADERS
from shaberi_dagster.lake.catalog import connect
from shaberi_dagster.lake.schemas import JUDGE_CONFIGS
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.spec import RunSpec

_STORED = """
select distinct run_id, benchmark, judge, judge_prompt_hash, judge_config_hash
from lake.judgements
where judge_prompt_hash is not null
"""


def record_former_configs(lake: Lake) -> None:
    """Fill the table `judge_configs` from the judgements of runs whose settings are still what they were made with."""
    specs = dict(_specs(lake))
    prompts = set(lake.read("prompts", columns=["prompt_hash"])["prompt_hash"])
    with connect(lake, "judgements") as connection:
        stored = connection.sql(_STORED).fetchall()
    found: dict[str, str] = {}
    for run_id, benchmark, judge, prompt_hash, config_hash in stored:
        if run_id in specs:
            hashes = _former_and_present(specs[run_id], benchmark, judge, prompt_hash, prompts)
            found |= {former: present for former, present in hashes if former == config_hash}
    known = set(lake.read(JUDGE_CONFIGS.name)["former_hash"])
    new = [
        {"former_hash": former, "judge_config_hash": present, "created_at": datetime.now(UTC)}
        for former, present in sorted(found.items())
        if former not in known
    ]
    if new:
        lake.append(JUDGE_CONFIGS.name, pl.DataFrame(new))


def _specs(lake: Lake) -> Iterator[tuple[str, RunSpec]]:
    for run_id, text in lake.read("runs", columns=["run_id", "spec"]).iter_rows():
        with suppress(ValidationError):  # imported: its judges never had an address
            yield run_id, RunSpec.read(text)


def _former_and_present(
    spec: RunSpec, benchmark: str, judge: str, prompt_hash: str, prompts: set[str]
) -> Iterator[tuple[str, str]]:
    """Former and present hashes of a judge with its prompt; of the fallback prompt only that it is among `prompts`."""
    model = spec.judge(judge)
    if model is None:
        return
    if judge.startswith(RULE):
        with suppress(ConfigurationError, KeyError):  # a benchmark or rule that is gone
            rule = GRADERS.use(get_benchmark(benchmark).grader)
            for version in range(1, rule.version + 1):
                present = config_hash_of(rule, model, prompt_hash, version)
                for former in former_config_hashes_of(rule, model, prompt_hash, version):
                    yield former, present
        return
    for fallback in prompts:
        present = model.config_hash(prompt_hash, fallback)
        yield from ((former, present) for former in model.former_config_hashes(prompt_hash, fallback))
