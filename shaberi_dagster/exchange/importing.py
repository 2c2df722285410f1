"""Imports into the lake: sources are listed, read, placed in runs and committed, whatever format they have.

An import can be stopped at any moment and continues with what is not in the lake yet: `legacy_files` is written last.
Rows are written only where they differ from those of the lake, and never those that an import did not make.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import orjson
import polars as pl

from shaberi_dagster.lake.journal.locks import exclusive_lock
from shaberi_dagster.lake.schemas import ANSWERS, JUDGEMENTS, LEGACY_REPEATS, RUNS, TABLES
from shaberi_dagster.lake.store import Lake, conform
from shaberi_dagster.runs.spec import BenchmarkSpec, ImportedSpec, RunSpec
from shaberi_dagster.runs.stages.imported import REMADE, reprocess_imported
from shaberi_dagster.runs.stored import code_version
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import VERSION
from shaberi_dagster.tasks.benchmarks.questions import QuestionSet
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.util.progress import StageProgress

SAMPLE = ("benchmark", "question_id", "sample_index")
"""The columns that tell the answers of a run apart."""
STAGE = "import"

_ROW = ["run_id", "source_sha256", "source_line"]
_TELLING = {
    *(*SAMPLE, *_ROW, "judge", "question_set", "generation", "answer_hash", "answer_form", "answer_origin"),
    *("answer_link", "judge_round", "superseded"),
}


@dataclass(frozen=True)
class ImportedRows:
    """Rows that imports make of some runs.

    Attributes:
        answers: Rows of `ANSWERS`.
        judgements: Rows of `JUDGEMENTS`.
        repeats: Rows of `LEGACY_REPEATS`.
    """

    answers: pl.DataFrame
    judgements: pl.DataFrame
    repeats: pl.DataFrame

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The frames by the names of their tables."""
        return {"answers": self.answers, "judgements": self.judgements, "legacy_repeats": self.repeats}

    @classmethod
    def stored(cls, lake: Lake, run_ids: Sequence[str]) -> Self:
        """Read the rows of runs that an import made; those that others have added are not among them."""
        if not run_ids:
            return cls(ANSWERS.schema.to_frame(), JUDGEMENTS.schema.to_frame(), LEGACY_REPEATS.schema.to_frame())
        own = pl.col("source_sha256").is_not_null()
        bounds = pl.col("run_id").is_between(pl.lit(min(run_ids)), pl.lit(max(run_ids)))  # files have statistics of it
        keys = {"run_id": list(run_ids)}
        tables = ("answers", "judgements", "legacy_repeats")
        return cls(*(lake.scan(table, keys).filter(bounds, own).collect() for table in tables))


class Import:
    """An import at work; a format lists its sources, reads them, places their rows in runs, and writes these.

    Args:
        tag: `import_tag` of its files in `legacy_files`.
        workspace: Where to write, and whom to tell.

    Attributes:
        now: `created_at` of new rows.
    """

    def __init__(self, tag: str, workspace: Workspace) -> None:
        self.tag, self.workspace, self.lake = tag, workspace, workspace.lake
        self.now = datetime.now(UTC)
        self.files = self.lake.read("legacy_files", {"import_tag": tag})
        self.progress = StageProgress(STAGE, tag)

    def advance(self, sources: int, rejected: int) -> None:
        """Tell of progress: more sources have been read, and some of their parts can become no rows."""
        self.progress.done += sources
        self.progress.failed += rejected
        self.workspace.reporter.changed(self.progress)

    def run_row(
        self, spec: RunSpec, states: Mapping[str, str], earlier: Mapping[str, Any] | None, before: RunSpec | None
    ) -> dict[str, Any]:
        """Return the row of `runs` of an imported run.

        Args:
            spec: What is known of it now.
            states: The state of each benchmark.
            earlier: Its row in the lake.
            before: What that row says of it.
        """
        kept = earlier or {"created_at": self.now, "created_by": self.workspace.settings.user}
        same = earlier if spec == before else None
        return {
            "run_id": spec.run_id,
            "model": spec.model,
            "run_tag": spec.run_tag,
            "base_tag": spec.base_tag,
            "spec": same["spec"] if same else spec.model_dump_json(),
            "spec_hash": same["spec_hash"] if same else spec.spec_hash,
            "status": "complete" if set(states.values()) == {"complete"} else "partial",
            "status_by_benchmark": orjson.dumps(states).decode(),
            "created_at": kept["created_at"],
            "created_by": kept["created_by"],
            "updated_at": self.now,
            "package_version": VERSION,
            **code_version(),
        }

    def write(
        self,
        runs: pl.DataFrame,
        rows: ImportedRows,
        earlier: ImportedRows,
        *,
        derived: Mapping[str, pl.DataFrame] | None = None,
        again: Iterable[str] = (),
        emptied: Sequence[str] = (),
    ) -> None:
        """Bring the lake's rows to these, and derive from them what takes no call.

        Args:
            runs: Rows of `runs` that are new or differ.
            rows: All rows that an import makes of these runs.
            earlier: Those that the lake has.
            derived: New scores and metrics, by table.
            again: Runs whose scores and metrics are derived from what is in the lake.
            emptied: Runs whose rows are others' now.
        """
        if touched := [*runs["run_id"], *emptied]:
            self.lake.replace("runs", runs, {"run_id": touched})
        replaced = pl.col("run_id").is_in([*rows.answers["run_id"].unique(), *emptied])
        for table, fresh in rows.tables.items():
            self._write_changes(table, earlier.tables[table].filter(replaced), fresh)
        for table, frame in (derived or {}).items():
            if frame.height:
                self.lake.append(table, frame)
        if emptied:
            for table in ("scores", "metrics", "pass_outputs"):
                self.lake.replace(table, TABLES[table].schema.to_frame(), {"run_id": emptied})
        if run_ids := sorted(again):
            for table in ("scores", "metrics"):
                self._drop_unjudged(table, run_ids)
            for stage in REMADE:
                reprocess_imported(stage, run_ids, list(ALL_BENCHMARKS), self.workspace)

    def below_others(self, imported: pl.DataFrame) -> pl.DataFrame:
        """Supersede imported judgements where the same judge has judged the sample here since."""
        keys = ["run_id", "judge", *SAMPLE]
        run_ids = imported["run_id"].unique().to_list()
        stored = self.lake.read("judgements", {"run_id": run_ids}, [*keys, "strategy", "source_sha256", "superseded"])
        others = stored.filter(pl.col("source_sha256").is_null(), pl.col("strategy").is_null(), ~pl.col("superseded"))
        below = pl.struct(keys).is_in(others.select(pl.struct(keys)).to_series().implode())
        when = pl.when(below).then(pl.coalesce("superseded_at", pl.lit(self.now))).otherwise("superseded_at")
        return imported.with_columns(superseded=pl.col("superseded") | below, superseded_at=when)

    def _write_changes(self, table: str, before: pl.DataFrame, now: pl.DataFrame) -> None:
        """Replace the files' rows that differ, by the run and the file; add those that are new."""
        by = [name for name in now.columns if name in _TELLING]
        gone = before.join(now, on=by, how="anti", nulls_equal=True)
        new = now.join(before, on=by, how="anti", nulls_equal=True)
        if gone.height:
            keys = {name: gone[name].unique().sort().to_list() for name in _ROW[:2]}
            hit = pl.all_horizontal(pl.col(name).is_in(values) for name, values in keys.items())
            stays = before.join(gone, on=by, how="anti", nulls_equal=True)
            self.lake.replace(table, pl.concat([stays.filter(hit), new.filter(hit)]), keys)
            new = new.filter(~hit)
        if new.height:
            self.lake.append(table, new)

    def _drop_unjudged(self, table: str, run_ids: Sequence[str]) -> None:
        """Let no scores or metrics be there whose judgements are in another run now."""
        keys = ["run_id", "benchmark", "judge"]
        judged = self.lake.read("judgements", {"run_id": run_ids}, keys).unique()
        stored = self.lake.read(table, {"run_id": run_ids})
        if (gone := stored.join(judged, on=keys, how="anti")).height:
            runs = pl.col("run_id").is_in(gone["run_id"].implode())
            stays = stored.filter(runs).join(judged, on=keys, how="semi")
            self.lake.replace(table, stays, {"run_id": gone["run_id"].unique().to_list()})


def run_rows(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return rows of `runs` as a frame with all its columns."""
    if not rows:
        return RUNS.schema.to_frame()
    return conform(RUNS, pl.DataFrame(rows, schema_overrides=RUNS.schema, infer_schema_length=None))


def imported_run(
    model: str, run_tag: str, benchmarks: Mapping[str, BenchmarkSpec], imported: ImportedSpec, before: RunSpec | None
) -> RunSpec:
    """Return what is known of an imported run, with the judges, strategies and passes that were added to it."""
    known = {"model": model, "run_tag": run_tag, "endpoint": None, "benchmarks": benchmarks, "imported": imported}
    return before.model_copy(update=known) if before else RunSpec(origin="imported", judges=(), **known)


def imported_benchmark(questions: QuestionSet, before: BenchmarkSpec | None, **known: Any) -> BenchmarkSpec:
    """Return what is known of a benchmark of an imported run, with the judges and strategies that were added to it.

    Args:
        questions: Its questions.
        before: What was known of it.
        known: Further fields.
    """
    known |= {
        "question_set": questions.name,
        "question_set_sha256": questions.sha256,
        "n_questions": len(questions.questions),
        "source": questions.source,
        "source_revision": questions.source_revision,
    }
    unknown = dict.fromkeys(("prompt_hash", "temperature", "max_tokens", "frequency_penalty"))
    return before.model_copy(update=known) if before else BenchmarkSpec(**{**unknown, **known})


@contextmanager
def importing_alone(warehouse: Path) -> Iterator[None]:
    """Within this context no other process imports.

    Raises:
        ConfigurationError: The lake can only be read.
        PartitionBusyError: Another process imports.
    """
    Lake(warehouse).check_writable()
    with exclusive_lock(warehouse, "legacy_import", "another process is importing: wait for it, or stop it"):
        yield
