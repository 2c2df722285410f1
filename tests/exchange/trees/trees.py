"""Legacy trees made for tests: the project's own starter questions in the columns of the old files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from shaberi_dagster.exchange.importing import ImportedRows
from shaberi_dagster.exchange.trees.files import Listing, find_files, read_file_rows, unread_file_rows
from shaberi_dagster.exchange.trees.questions import question_sets_in
from shaberi_dagster.exchange.trees.reading import read_files
from shaberi_dagster.exchange.trees.rows import assemble
from shaberi_dagster.exchange.trees.runs import groups_of, place_groups
from shaberi_dagster.exchange.trees.sums import Reconciliation
from shaberi_dagster.exchange.trees.superseding import counts_of
from shaberi_dagster.lake.schemas import LEGACY_FILES
from shaberi_dagster.tasks.benchmarks.questions import Question, load_question_set
from shaberi_dagster.tasks.benchmarks.registry import get_benchmark

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
        self,
        benchmark: str,
        content: Rows | bytes,
        judge: str = "gpt-4-turbo-preview",
        model: str = "org__model",
        folder: str = "",
    ) -> Path:
        return self._write(f"data/judgements/judge_{judge}/{folder or FOLDERS[benchmark]}/{model}.json", content)

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
    rows: ImportedRows

    def status_of(self, path: str, source: str = "tree") -> str:
        return self.files.filter(pl.col("path").str.ends_with(path), source=source)["status"].item()


def import_trees(trees: Mapping[str, Path] | LegacyTree) -> Imported:
    """All rows of some trees; the sums agree and no line is missing."""
    roots = {"tree": trees.root} if isinstance(trees, LegacyTree) else trees
    imported = rows_in(roots)
    assert imported.reconciliation.discrepancies() == []
    assert_every_line_is_somewhere(imported)
    return imported


def rows_in(roots: Mapping[str, Path]) -> Imported:
    """All rows of some trees, without a lake."""
    nothing = LEGACY_FILES.schema.to_frame()
    listing = Listing(find_files(roots, "*", nothing), nothing)
    files = [file for of_model in listing.to_read().values() for file in of_model]
    index = question_sets_in(files)
    read = read_files(files, index)
    questions = {name: frozenset(index.members[name]) for name in index.sets}
    main = listing.current.filter(status="imported")
    placed, _ = place_groups("legacy", groups_of(read, main, list(roots), questions), {})
    batch = assemble(read, placed, NOON)
    runs = placed.select("run_id", run_source="source", run_model="model").unique()
    unread = unread_file_rows(listing.found, listing.current)
    rows = pl.concat([read_file_rows(listing.current, read.contents, counts_of(batch, placed)), unread])
    columns = main.select("source", "path", "kind", "judge", "model", source_sha256="sha256")
    quarantine = read.quarantine.join(columns, on=["model", "source_sha256"])
    of_runs = ImportedRows(*(frame.join(runs, on="run_id", maintain_order="left") for frame in batch.tables.values()))
    counted = Reconciliation.of_rows(of_runs, rows, quarantine)
    return Imported(
        batch.answers, batch.judgements, rows, quarantine, batch.repeats, counted, list(index.sets), of_runs
    )


def assert_every_line_is_somewhere(imported: Imported) -> None:
    """Each line that is not blank is in exactly one of the tables, in whatever runs."""
    places = ["source_sha256", "source_line", "judge"]
    nobody = pl.lit(None, pl.String).alias("judge")
    parts = {
        "answers": imported.answers.filter(answer_origin="stored").select(*places[:2], nobody),
        "judgements": imported.judgements.select(places),
        "repeats": imported.repeats.select(places),
        "quarantine": imported.quarantine.select(places),
    }
    found = pl.concat([frame.unique() for frame in parts.values()])
    counted = found.group_by("source_sha256", "judge").agg(rows=pl.len(), lines=pl.col("source_line").n_unique())
    read = (
        imported.files.filter(pl.col("lines") > pl.col("blank"), status="imported")
        .select(pl.col("sha256").alias("source_sha256"), "judge", "model", expected=pl.col("lines") - pl.col("blank"))
        .unique()
        .group_by("source_sha256", "judge")
        .agg(pl.col("expected").first())
    )
    joined = read.join(counted, on=["source_sha256", "judge"], how="full", coalesce=True, nulls_equal=True)
    assert joined.filter(pl.col("lines").ne_missing(pl.col("expected"))).is_empty()
