"""Files of the ensemble evaluation written and taken over: caches of samples, and pooled baselines."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel, ValidationError

from shaberi_dagster.exchange.caches import JUDGE
from shaberi_dagster.lake.baselines import store_baseline
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.reports.gate import POOLED
from shaberi_dagster.reports.requests import RunSelection
from shaberi_dagster.runs.selection import chosen_runs
from shaberi_dagster.runs.spec import SINGLE, RunSpec
from shaberi_dagster.tasks.benchmarks.questions import CACHES
from shaberi_dagster.tasks.benchmarks.registry import BENCHMARKS
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import run_id_of, sha256_json, sha256_text


class _Sum(BaseModel):
    correct: int
    total: int


class _Pooled(BaseModel):
    model: str
    datasets: list[str]
    single: _Sum
    ensemble: dict[str, _Sum] = {}


def import_baseline(file: Path, lake: Lake, name: str, note: str | None = None) -> None:
    """Take a pooled baseline over: for each strategy as many rows as there were questions, so many of them right.

    Raises:
        ConfigurationError: It is no such file, or the name is taken.
    """
    try:
        content = file.read_bytes()
        pooled = _Pooled.model_validate_json(content)
    except (OSError, ValidationError) as error:
        raise ConfigurationError(f"{file} is no pooled baseline: {' '.join(str(error).split())[:200]}") from error
    datasets = ",".join(sorted(pooled.datasets))
    settings = {"model": pooled.model, "datasets": datasets}
    rows = [
        {
            "run_id": run_id_of(pooled.model, file.stem),
            "model": pooled.model,
            "run_tag": file.stem,
            "benchmark": POOLED,
            "question_set": datasets,
            "question_set_sha256": sha256_text(datasets),
            "question_id": str(number),
            "strategy": strategy,
            "judge": JUDGE,
            "correct": number < tally.correct,
            "status": "ok",
            "settings": json.dumps(settings),
            "settings_hash": sha256_json(settings),
        }
        for strategy, tally in {SINGLE: pooled.single, **pooled.ensemble}.items()
        for number in range(tally.total)
    ]
    if not rows:
        raise ConfigurationError(f"{file} has no questions")
    store_baseline(lake, pl.DataFrame(rows), name, note)


def export_caches(lake: Lake, folder: Path, selection: RunSelection) -> list[Path]:
    """Write the samples of runs with several as caches that `import-ensemble` and the original read.

    Raises:
        ConfigurationError: There is no such run, none has several samples, or two would be one file.
    """
    documents: dict[Path, Any] = {}
    for run_id in chosen_runs(lake, selection.models, selection.tags, selection.sources)["run_id"]:
        for name, document in _documents(lake, run_id):
            if folder / name in documents:
                raise ConfigurationError(f"several runs have samples for {name}: choose one with --tag")
            documents[folder / name] = document
    if not documents:
        raise ConfigurationError("none of these runs has several samples of a benchmark of the ensemble evaluation")
    folder.mkdir(parents=True, exist_ok=True)
    for file, document in documents.items():
        file.write_text(json.dumps(document, ensure_ascii=False, indent=2), encoding="utf-8")
    return list(documents)


def _documents(lake: Lake, run_id: str) -> Iterator[tuple[str, Any]]:
    (text,) = lake.read("runs", {"run_id": run_id}, ["spec"])["spec"]
    spec = RunSpec.read(text)
    for benchmark, settings in spec.benchmarks.items():
        is_copy = spec.origin == "own" and settings.source == CACHES
        if is_copy or benchmark in BENCHMARKS or len(settings.shared) < 2:  # noqa: PLR2004
            continue
        keys = {"run_id": run_id, "benchmark": benchmark}
        rows = lake.read("answers", keys).filter(pl.col("sample_index").is_in(settings.shared))
        sets = lake.read("questions", {"benchmark": benchmark, "question_set_sha256": settings.question_set_sha256})
        places = sets.select("question_id", "position", "upstream_id").unique("question_id")
        rows = rows.join(places, on="question_id", how="left").sort("position", "source_line", "sample_index")
        model = spec.model if ":" in spec.model or not spec.endpoint else f"{spec.endpoint.name}:{spec.model}"
        size, temperature = len(settings.shared), settings.temperature or 0
        times = rows["created_at"].dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
        entries: dict[str, list[Any]] = defaultdict(list)
        for row in rows.iter_rows(named=True):
            fields = json.loads(row["legacy_fields"] or "{}")
            question_id = fields.pop("questionId", None) or row["upstream_id"] or f"{benchmark}-{row['position'] - 1}"
            entries[question_id].append(_response(row, fields, model))
        document = {
            "model": model,
            "dataset": benchmark,
            "ensembleSize": size,
            "temperature": temperature,
            "createdAt": times.min(),
            "updatedAt": times.max(),
            "entries": [{"questionId": name, "responses": responses} for name, responses in entries.items()],
        }
        yield f"{re.sub('[/:]', '_', model)}_{benchmark}_{size}x_t{temperature:g}.json", document


def _response(row: Mapping[str, Any], fields: Mapping[str, Any], of: str) -> dict[str, Any]:
    provider, _, model = of.partition(":")
    milliseconds = round(1000.0 * (row["latency_seconds"] or 0), 3)
    tokens = [row[f"answer_{kind}_tokens"] for kind in ("prompt", "completion")]
    response = {
        "provider": provider,
        "model": model,
        "content": (row["raw_answer"] if row["answer"] is None else row["answer"]) or "",
        "responseTimeMs": int(milliseconds) if milliseconds.is_integer() else milliseconds,
        **({} if None in tokens else {"tokenCount": sum(tokens)}),
        **fields,
    }
    return response if row["status"] == "ok" else response | {"error": row["error_message"] or row["error_class"]}
