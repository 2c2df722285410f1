"""Imported samples of a model, which `quick-eval` and `generate-cache` take as stored answers, without a call."""

from collections.abc import Collection, Iterator

import polars as pl

from shaberi_dagster.lake.schemas import ANSWERS
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.spec import BenchmarkSpec, RunSpec

_SAMPLE = ["model", "question_id", "sample_index"]


def imported_benchmarks(
    lake: Lake, models: Collection[str], temperature: float | None
) -> Iterator[tuple[str, str, BenchmarkSpec]]:
    """Yield run, name and settings of imported benchmarks whose questions are known, those of fewer samples first."""
    runs = lake.read("runs", {"model": sorted(models)}, ["spec"])["spec"]
    found = [
        (settings.samples, spec.run_id, name, settings)
        for spec in map(RunSpec.read, runs)
        for name, settings in spec.benchmarks.items()
        if spec.imported and settings.question_texts == "known" and settings.temperature == temperature
    ]
    yield from (entry[1:] for entry in sorted(found, key=lambda entry: entry[:3]))


def imported_samples(lake: Lake, models: Collection[str], benchmark: str, temperature: float | None) -> pl.DataFrame:
    """Read the imported answers of models to a benchmark at a temperature: rows of `answers`, one for each sample."""
    runs = [run for run, name, _ in imported_benchmarks(lake, models, temperature) if name == benchmark]
    if not runs:
        return ANSWERS.schema.to_frame()
    rows = lake.read("answers", {"run_id": runs, "benchmark": benchmark, "status": "ok"})
    rows = rows.sort(pl.col("run_id").cast(pl.Enum(runs)))
    return rows.filter(pl.col("source_sha256").is_not_null()).unique(_SAMPLE, keep="first")
