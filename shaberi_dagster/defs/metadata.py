"""Metadata of results and tables for the Dagster UI."""

import math
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from statistics import fmean
from typing import Any

import dagster as dg
import polars as pl

from shaberi_dagster.defs.execution import key_of
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.stages.base import Stage, StageResult
from shaberi_dagster.tasks.benchmarks.registry import get_benchmark
from shaberi_dagster.util.identity import names_of
from shaberi_dagster.viewer.web.address import DEFAULT_PORT, command_for, page_url

_PREVIEW_CHARACTERS = 120
_BARS, _MOST_BARS = "▁▂▃▄▅▆▇█", 11
_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")  # of sha256 the first 12 digits tell rows apart
_DECIMALS = 3
_NOTHING_TO_DO = "nothing to do in this stage"


@cache
def column_schema(table: str) -> dg.TableSchema:
    """The columns of a table with meaning, unit and source."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=column.name,
                type=str(column.type.base_type()),
                description=column.description,
                constraints=dg.TableColumnConstraints(nullable=not column.required),
            )
            for column in TABLES[table].columns
        ]
    )


def question_sets_metadata(sets: Mapping[str, tuple[str, str, int, str]]) -> dict[str, Any]:
    """Return the metadata of question sets: by benchmark name, sha256, number of questions and source."""
    schema = ["benchmark", "question_set", "sha256", "questions", "source"]
    table = pl.DataFrame([(name, *facts) for name, facts in sets.items()], schema, orient="row")
    return {
        "dagster/row_count": sum(n_questions for _, _, n_questions, _ in sets.values()),
        "question sets": dg.MetadataValue.md(markdown_table(table)),
    }


def with_questions(outcome: StageResult, lake: Lake) -> StageResult:
    """The outcome with the questions' texts, as far as they are in the lake, where its preview has their hashes."""
    preview = outcome.preview
    if "question_id" not in preview.columns or preview.is_empty():
        return outcome
    keys = {"benchmark": outcome.benchmark, "question_id": preview["question_id"].unique().sort().to_list()}
    texts = lake.read("questions", keys, ["question_id", "question"]).unique("question_id")
    named = preview.join(texts, on="question_id", how="left", maintain_order="left")
    question = pl.coalesce("question", "question_id").alias("question_id")
    return replace(
        outcome,
        preview=named.select(question if name == "question_id" else name for name in preview.columns).rename(
            {"question_id": "question"}
        ),
    )


def stage_result(stage: type[Stage], outcomes: Sequence[StageResult]) -> dg.MaterializeResult[None]:
    """The result of a stage's asset, for one run or several that were backfilled together.

    Args:
        stage: The stage.
        outcomes: One for each run and benchmark; none where the stage has nothing to do.
    """
    made = {check.name for outcome in outcomes for check in outcome.checks}
    names = [*stage.checks, *(name for name in stage.graded_checks if name in made)]
    return dg.MaterializeResult(
        asset_key=stage.name,
        metadata=_metadata(outcomes),
        check_results=[_check(stage.name, name, outcomes) for name in names],
    )


def _metadata(outcomes: Sequence[StageResult]) -> Mapping[str, Any]:
    rows = sum(outcome.facts["rows"] for outcome in outcomes)
    metadata: dict[str, Any] = {"dagster/row_count": rows}
    if not any(outcome.facts["rows"] or outcome.facts.get("planned") for outcome in outcomes):
        return metadata | {"note": _NOTHING_TO_DO}
    run_ids = list(dict.fromkeys(outcome.run_id for outcome in outcomes))
    if len(run_ids) > 1:
        facts = [
            {"run": key_of(outcome.run_id), "benchmark": outcome.benchmark}
            | {name: "" if value is None else str(rounded(value)) for name, value in outcome.facts.items()}
            for outcome in outcomes
        ]
        by_run = dg.MetadataValue.md(markdown_table(pl.DataFrame(facts, infer_schema_length=None)))
        return metadata | {"runs": len(run_ids), "facts by run": by_run}
    model, run_tag = names_of(run_ids[0])
    metadata |= {"run": key_of(run_ids[0]), "model": model, "tag": run_tag}
    for outcome in outcomes:
        of = f"{outcome.benchmark}: "
        metadata |= {of + name: rounded(value) for name, value in outcome.facts.items() if value is not None}
        metadata |= {f"{of}scores of {judge}": text for judge, text in score_histograms(outcome).items()}
        if outcome.stage == "metrics":
            named = ["--model", model, "--tag", run_tag, "--benchmark", outcome.benchmark]
            metadata[of + "read the answers"] = shlex.join(["inspect-output", *named])
            page = page_url("/questions", [("m", outcome.run_id), ("benchmark", outcome.benchmark)])
            metadata[of + "in a browser"] = dg.MetadataValue.md(
                f"`{command_for(page)}`, or while it runs [its questions](http://127.0.0.1:{DEFAULT_PORT}{page})"
            )
        if outcome.preview.columns:
            metadata[of + "preview"] = dg.MetadataValue.md(markdown_table(outcome.preview))
    return metadata


def rounded(value: Any) -> Any:
    """A number, or numbers by name, as people read them."""
    if isinstance(value, float):
        return round(value, _DECIMALS)
    return {name: rounded(part) for name, part in value.items()} if isinstance(value, Mapping) else value


def _check(key: str, name: str, outcomes: Sequence[StageResult]) -> dg.AssetCheckResult:
    """The result of a check over all benchmarks and runs; of a failed one it names those that failed."""
    runs = {outcome.run_id for outcome in outcomes}
    found = [
        (f"{key_of(outcome.run_id)} {outcome.benchmark}" if len(runs) > 1 else outcome.benchmark, check)
        for outcome in outcomes
        for check in outcome.checks
        if check.name == name
    ]
    failed = [(place, check) for place, check in found if not check.passed]
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=name,
        passed=not failed,
        severity=dg.AssetCheckSeverity.ERROR if any(c.severe for _, c in failed) else dg.AssetCheckSeverity.WARN,
        description="; ".join(f"{place}: {check.description}" for place, check in failed or found)
        or ("imported" if outcomes else _NOTHING_TO_DO),
    )


def markdown_table(frame: pl.DataFrame) -> str:
    """A markdown table; texts are shortened and cannot break out of their cell."""
    header = f"| {' | '.join(frame.columns)} |\n|{' --- |' * len(frame.columns)}"
    rows = (f"| {' | '.join(_cell(value) for value in row)} |" for row in frame.iter_rows())
    return "\n".join([header, *rows])


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}"
    text = _HASH.sub(r"\1", " ".join(str(value).split()))
    short = text[:_PREVIEW_CHARACTERS] + ("…" if len(text) > _PREVIEW_CHARACTERS else "")
    # Model output is data: neither markdown nor HTML of it may take effect.
    return "".join(f"&#{ord(char)};" if char in "&<>|`*_[]()!\\~#:/" else char for char in short if char.isprintable())


def score_histograms(outcome: StageResult) -> dict[str, str]:
    """By judge a bar for each score from the least to the greatest of the scale, in one line of text; `·`: none.

    A longer scale than from 0 to 10 has a bar for a tenth of it.
    """
    benchmark = get_benchmark(outcome.benchmark)
    given = [score for scores in outcome.scores.values() for score in scores]
    low, high = min([benchmark.scale_minimum, *given]), max([benchmark.scale_maximum, *given])
    places = min(math.ceil(high - low) + 1, _MOST_BARS)
    return {
        judge: f"{low:g} {_bars(scores, low, high, places)} {high:g}, mean {fmean(scores):.2f} (n {len(scores)})"
        for judge, scores in outcome.scores.items()
        if scores
    }


def _bars(scores: Sequence[float], low: float, high: float, places: int) -> str:
    counts = Counter(round((score - low) / (high - low) * (places - 1)) for score in scores)
    most = max(counts.values())
    heights = (math.ceil(counts[place] / most * len(_BARS)) for place in range(places))
    return "".join(_BARS[height - 1] if height else "·" for height in heights)
