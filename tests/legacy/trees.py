"""Legacy trees made for tests: the project's own starter questions in the columns of the old files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from shaberi_dagster.benchmarks.questions import Question, load_question_set
from shaberi_dagster.benchmarks.registry import get_benchmark
from shaberi_dagster.lake.schemas import ANSWERS, JUDGEMENTS, LEGACY_QUARANTINE, LEGACY_REPEATS
from shaberi_dagster.legacy.assemble import Batch, concatenated, plan_import, read_model, unread_files
from shaberi_dagster.legacy.questions import question_sets_in
from shaberi_dagster.legacy.reconcile import Reconciliation

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
FOLDERS = {
    "elyza": "elyza__ELYZA-tasks-100",
    "tengu": "lightblue__tengu_bench",
    "mt_bench": "shisa-ai__ja-mt-bench-1shot",
    "rakuda": "yuzuai__rakuda-questions",
}
Rows = Sequence[dict[str, Any]]


@cache
def questions_of(benchmark: str) -> tuple[Question, ...]:
    return load_question_set(get_benchmark(benchmark), "starter").questions


def columns_of(benchmark: str, question: Question) -> dict[str, Any]:
    """A question as the old files spelled it."""
    match benchmark:
        case "elyza":
            return {
                "Question": question.question,
                "output": question.reference,
                "eval_aspect": question.criteria,
            }
        case "tengu":
            return {
                "Category": question.category,
                "Question": question.question,
                "Answer": question.reference,
                "Criteria": question.criteria,
            }
        case _:
            return {"category": question.category, "Question": question.question}


def rows_of(benchmark: str, answers: Sequence[str | None], scores: Sequence[Any] | None = None, **more: Any) -> Rows:
    """Rows of the first questions with these answers, and with these scores when they are judgements."""
    rows = [
        columns_of(benchmark, question) | {"ModelAnswer": answer} | more
        for question, answer in zip(questions_of(benchmark), answers, strict=False)
    ]
    if scores is not None:
        for row, score in zip(rows, scores, strict=True):
            row["score"] = score
    return rows


def lines_of(rows: Rows) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


@dataclass(frozen=True)
class LegacyTree:
    root: Path

    def answers(self, benchmark: str, content: Rows | bytes, model: str = "org__model", folder: str = "") -> Path:
        return self._write(f"data/model_answers/{folder or FOLDERS[benchmark]}/{model}.json", content)

    def judgements(
        self, benchmark: str, content: Rows | bytes, judge: str = "gpt-4-turbo-preview", model: str = "org__model"
    ) -> Path:
        return self._write(f"data/judgements/judge_{judge}/{FOLDERS[benchmark]}/{model}.json", content)

    def _write(self, path: str, content: Rows | bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else lines_of(content))
        return file


@dataclass(frozen=True)
class Imported:
    answers: pl.DataFrame
    judgements: pl.DataFrame
    files: pl.DataFrame
    quarantine: pl.DataFrame
    repeats: pl.DataFrame
    reconciliation: Reconciliation
    question_sets: list[str]

    def status_of(self, path: str, source: str = "tree") -> str:
        return self.files.filter(pl.col("path").str.ends_with(path), source=source)["status"].item()


def import_trees(trees: Mapping[str, Path] | LegacyTree) -> Imported:
    """All rows of some trees; the sums agree and no line is missing."""
    roots = {"tree": trees.root} if isinstance(trees, LegacyTree) else trees
    rows, question_sets = rows_in(roots)
    counted = Reconciliation(rows)
    assert counted.discrepancies() == []
    imported = Imported(
        rows.answers, rows.judgements, rows.files, rows.quarantine, rows.repeats, counted, question_sets
    )
    assert_every_line_is_somewhere(imported)
    return imported


def rows_in(roots: Mapping[str, Path]) -> tuple[Batch, list[str]]:
    """All rows of some trees, and the names of the question sets that became known."""
    plan = plan_import(roots)
    index = question_sets_in(plan.files)
    unread = unread_files(plan, tag="legacy", imported_at=NOON)
    tables = (ANSWERS, JUDGEMENTS, None, LEGACY_QUARANTINE, LEGACY_REPEATS)
    batches = [Batch(*(table.schema.to_frame() if table else unread for table in tables))]
    batches += [read_model(model, files, index, tag="legacy", imported_at=NOON) for model, files in plan.models.items()]
    return concatenated(batches), list(index.sets)


def assert_every_line_is_somewhere(imported: Imported) -> None:
    """Each line that is not blank is in exactly one frame."""
    places = ["source_sha256", "source_line"]
    parts = (
        imported.answers.filter(answer_origin="stored").select(places),
        imported.judgements.select(places),
        imported.repeats.select(places),
        imported.quarantine.select(places),
    )
    found = pl.concat(parts).group_by(places[:1]).agg(rows=pl.len(), lines=pl.col("source_line").n_unique())
    read = (
        imported.files.filter(pl.col("lines") > pl.col("blank"))
        .group_by(source_sha256="sha256")
        .agg(expected=(pl.col("lines") - pl.col("blank")).sum(), files=pl.len())
    )
    joined = read.join(found, on="source_sha256", how="full", coalesce=True)
    assert joined.filter(pl.col("rows").ne_missing(pl.col("expected"))).is_empty()
    assert joined.filter(pl.col("lines") * pl.col("files") != pl.col("rows")).is_empty()
