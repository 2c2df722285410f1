"""Metadata of results and tables for the Dagster UI."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import dagster as dg
import polars as pl

from shaberi_dagster.defs.plot import score_distribution, score_histograms
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.stages.ordered import STAGES
from shaberi_dagster.stages.result import StageResult
from shaberi_dagster.util.identity import names_of
from shaberi_dagster.viewer.web.address import DEFAULT_PORT, command_for, page_url

_PREVIEW_CHARACTERS = 120
_HASH = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")  # of sha256 the first 12 digits tell rows apart
_DECIMALS = 3
_NOT_IN_RUN = "not one of this run's benchmarks"


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


def question_set_metadata(name: str, sha256: str, questions: int, source: str) -> dict[str, Any]:
    """Return the metadata of a question set."""
    return {"dagster/row_count": questions, "question_set": name, "sha256": sha256, "source": source}


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


def materialize_result(
    key: dg.AssetKey, outcomes: Sequence[StageResult], check_names: Sequence[str]
) -> dg.MaterializeResult[None]:
    """The result of one asset: of one run, or of several that were backfilled together.

    Args:
        key: The asset.
        outcomes: Its outcome for each run; none when no run has this benchmark.
        check_names: The checks that the asset has; one that is made on request alone has no result without it.
    """
    made = {check.name for outcome in outcomes for check in outcome.checks}
    on_request = {name for stage in STAGES for name in stage.graded_checks}
    return dg.MaterializeResult(
        asset_key=key,
        metadata=_metadata(outcomes),
        check_results=[_check(key, name, outcomes) for name in check_names if name in made or name not in on_request],
    )


def _metadata(outcomes: Sequence[StageResult]) -> Mapping[str, Any]:
    if not outcomes:
        return {"dagster/row_count": 0, "note": _NOT_IN_RUN}
    rows = sum(outcome.facts["rows"] for outcome in outcomes)
    if len(outcomes) > 1:
        facts = pl.DataFrame([{"run": outcome.run_id} | _flat(outcome.facts) for outcome in outcomes])
        return {
            "dagster/row_count": rows,
            "runs": len(outcomes),
            "facts by run": dg.MetadataValue.md(markdown_table(facts)),
        }
    (outcome,) = outcomes
    known = {name: _rounded(value) for name, value in outcome.facts.items() if value is not None and name != "rows"}
    model, run_tag = names_of(outcome.run_id)
    metadata: dict[str, Any] = {"dagster/row_count": rows, "run": outcome.run_id, "model": model, "tag": run_tag}
    metadata |= known | {f"scores of {judge}": text for judge, text in score_histograms(outcome).items()}
    if outcome.stage == "metrics":
        metadata["read the answers"] = _inspecting(model, run_tag, outcome.benchmark)
        metadata["in a browser"] = dg.MetadataValue.md(_page(outcome))
    if outcome.preview.columns:
        metadata["preview"] = dg.MetadataValue.md(markdown_table(outcome.preview))
    if any(outcome.scores.values()):
        metadata["score distribution"] = dg.MetadataValue.md(score_distribution(outcome))
    return metadata


def _rounded(value: Any) -> Any:
    """A number, or numbers by name, as people read them."""
    if isinstance(value, float):
        return round(value, _DECIMALS)
    return {name: _rounded(part) for name, part in value.items()} if isinstance(value, Mapping) else value


def _inspecting(model: str, run_tag: str, benchmark: str) -> str:
    """The command that shows the answers of a run to a benchmark."""
    return shlex.join(["inspect-output", "--model", model, "--tag", run_tag, "--benchmark", benchmark])


def _page(outcome: StageResult) -> str:
    """The viewer's page of the questions of a run's benchmark, and the command that opens it."""
    page = page_url("/questions", [("m", outcome.run_id), ("benchmark", outcome.benchmark)])
    return f"`{command_for(page)}`, or while it runs [its questions](http://127.0.0.1:{DEFAULT_PORT}{page})"


def _check(key: dg.AssetKey, name: str, outcomes: Sequence[StageResult]) -> dg.AssetCheckResult:
    found = [check for outcome in outcomes for check in outcome.checks if check.name == name]
    failed = [check for check in found if not check.passed]
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=name,
        passed=not failed,
        severity=dg.AssetCheckSeverity.ERROR if any(c.severe for c in failed) else dg.AssetCheckSeverity.WARN,
        description="; ".join(check.description for check in failed or found)
        or ("imported" if outcomes else _NOT_IN_RUN),
    )


def _flat(facts: Mapping[str, Any]) -> dict[str, str]:
    return {name: "" if value is None else str(value) for name, value in facts.items()}


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
