"""Legacy trees into the lake: listed, read, committed in large steps, derived by the SQL of the stages.

An import can be stopped at any moment and goes on with the models that are not in the lake yet. The unit is a model:
its rows are all there once `legacy_files` says so, which is written last.
"""

import fcntl
import fnmatch
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import orjson
import polars as pl

from shaberi_dagster import __version__
from shaberi_dagster.benchmarks.questions import QuestionSet, known_sets, parts_of
from shaberi_dagster.errors import ConfigurationError, PartitionBusyError
from shaberi_dagster.identity import check_run_tag, run_id_of
from shaberi_dagster.lake.schemas import CONSENSUS, METRICS, RUNS, SCORES
from shaberi_dagster.lake.store import Lake, conform
from shaberi_dagster.legacy.assemble import NOT_RECORDED, Batch, ImportPlan, concatenated, plan_import, unread_files
from shaberi_dagster.legacy.judges import legacy_judge
from shaberi_dagster.legacy.questions import question_sets_in
from shaberi_dagster.legacy.reading import Part, Reading, read_models
from shaberi_dagster.legacy.reconcile import Reconciliation
from shaberi_dagster.legacy.spec import LegacyBenchmark, LegacyJudgeSpec, LegacyRunSpec
from shaberi_dagster.legacy.tree import LegacyFile, display_name, sha256_of_file
from shaberi_dagster.progress import StageProgress
from shaberi_dagster.runs.planning import LEGACY_KIND, code_version, store_question_set, stored_question_set
from shaberi_dagster.runs.workspace import JOURNAL_FOLDER, Workspace
from shaberi_dagster.stages.metrics import with_scales
from shaberi_dagster.stages.scores import derive

DEFAULT_TAG = "legacy"
STAGE = "import"
_COMMIT_BYTES = 256_000_000


@dataclass(frozen=True)
class ImportRequest:
    """What to import.

    Attributes:
        trees: Folders by the names they are known by; where they contradict each other, the first one stands.
        tag: Tag of the runs: a model's first answers are the run `tag`, others `{tag}-gen2`, ….
        models: Only the models whose file names match this pattern (`*` any text, `?` any character).
    """

    trees: Mapping[str, Path]
    tag: str = DEFAULT_TAG
    models: str = "*"


@dataclass(frozen=True)
class ImportResult:
    """What an import did.

    Attributes:
        tag: Tag of the runs.
        runs: Rows of `runs` that were made or made anew.
        models_read: Models that were read.
        models_there: Models of which everything had been imported before.
        bytes_read: Size of the files that were read.
        seconds: How long it took.
        reconciliation: Of everything that the lake has under this tag.
    """

    tag: str
    runs: pl.DataFrame
    models_read: int
    models_there: int
    bytes_read: int
    seconds: float
    reconciliation: Reconciliation


def named_trees(arguments: Sequence[str]) -> dict[str, Path]:
    """Trees as `NAME=PATH` or `PATH`, which has the name of its folder.

    Raises:
        ConfigurationError: One is no folder, or two have one name.
    """
    trees: dict[str, Path] = {}
    for argument in arguments:
        name, separator, path = argument.partition("=")
        if not separator or Path(argument).is_dir():
            path, name = argument, Path(argument).resolve().name
        if not name.isprintable() or not name or not Path(path).is_dir():
            raise ConfigurationError(f"legacy tree {argument!r} must be an existing folder, or NAME=FOLDER")
        if name in trees:
            raise ConfigurationError(f"two legacy trees have the name {name!r}: give one as NAME=FOLDER")
        trees[name] = Path(path).absolute()
    return trees


def import_trees(request: ImportRequest, workspace: Workspace) -> ImportResult:
    """Bring everything of some trees into the lake that is not there yet.

    Args:
        request: What to import.
        workspace: Where to write, and whom to tell.

    Raises:
        ConfigurationError: There is nothing to import, or a run of that name is no import.
        PartitionBusyError: Another process is importing.
    """
    check_run_tag(request.tag)
    with importing_alone(workspace.settings.warehouse):
        return _Import(request, workspace).run()


def reconcile_lake(lake: Lake, tag: str = DEFAULT_TAG) -> Reconciliation:
    """Count what the lake has under an import's tag against what its files had; no texts are read.

    Raises:
        ConfigurationError: Nothing was imported under that tag.
    """
    files = lake.read("legacy_files", {"import_tag": tag})
    if files.is_empty():
        raise ConfigurationError(f"nothing was imported under the tag {tag!r}: run shaberi import-legacy PATH first")
    run_ids = imported_runs(lake, tag)["run_id"].implode()
    rows = {
        "answers": ["run_id", "benchmark", "status", "error_class", "answer_origin"],
        "judgements": [
            *("run_id", "judge", "benchmark", "status", "error_class"),
            *("answer_link", "superseded", "out_of_scale"),
        ],
        "legacy_repeats": ["run_id"],
    }
    own = {
        name: lake.read(name, columns=columns).filter(pl.col("run_id").is_in(run_ids)) for name, columns in rows.items()
    }
    quarantine = lake.read("legacy_quarantine", {"import_tag": tag}, ["source", "path", "source_line", "reason"])
    return Reconciliation(Batch(own["answers"], own["judgements"], files, quarantine, own["legacy_repeats"]))


class _Import:
    """One import at work."""

    def __init__(self, request: ImportRequest, workspace: Workspace) -> None:
        self._request, self._workspace, self._lake = request, workspace, workspace.lake
        self._now = datetime.now(UTC)
        self._files = self._lake.read("legacy_files", {"import_tag": request.tag})
        self._runs = imported_runs(self._lake, request.tag)
        self._stored_sets: set[str] = set()
        self._progress = StageProgress(STAGE, request.tag)

    def run(self) -> ImportResult:
        """Import what is not there yet."""
        started, tag = time.monotonic(), self._request.tag
        everything = plan_import(self._request.trees)
        plan = _restricted(everything, self._request.models)
        if not plan.models:
            raise ConfigurationError(
                f"no legacy files in {', '.join(map(str, self._request.trees.values()))}: a tree has "
                "model_answers/DATASET/MODEL.json and judgements/judge_NAME/DATASET/MODEL.json"
            )
        to_read, again = self._to_read(plan)
        self._refuse_other_runs(to_read)
        sets = question_sets_in(everything.files, _stored_sets(self._lake)).sets.values()
        size = sum(file.size or 0 for files in to_read.values() for file in files)
        self._workspace.reporter.note(
            f"{len(plan.models):,} models: {len(plan.models) - len(to_read):,} already there, "
            f"{len(to_read):,} to read ({size / 1e6:,.0f} MB)"
        )
        self._progress.total = len(to_read)
        made = [self._commit(parts) for parts in self._steps(read_models(to_read, Reading(list(sets), tag, self._now)))]
        unread = replace(plan, duplicates=[*plan.duplicates, *again])
        self._store_files(unread_files(unread, tag=tag, imported_at=self._now))
        return ImportResult(
            tag=tag,
            runs=pl.concat(made) if made else self._runs.clear(),
            models_read=len(to_read),
            models_there=len(plan.models) - len(to_read),
            bytes_read=size,
            seconds=time.monotonic() - started,
            reconciliation=reconcile_lake(self._lake, tag),
        )

    def _to_read(self, plan: ImportPlan) -> tuple[dict[str, list[LegacyFile]], list[tuple[LegacyFile, LegacyFile]]]:
        """The files of each model with something new: all of them, for only together they say what belongs together.

        Returns:
            The files by model, and those that are not read since their content is another file's, with that one.
        """
        stored: dict[str, list[LegacyFile]] = defaultdict(list)
        for row in self._files.filter(status="imported").iter_rows(named=True):
            stored[row["model"]].append(_stored_file(row))
        asked = {_place(file) for file in [*plan.files, *(file for file, _ in plan.duplicates)]}
        to_read, again = {}, []
        for model, current in plan.models.items():
            earlier = {file.import_key: file for file in stored[model]}
            contents = {_place(file): file.import_key for file in stored[model]}
            if all(
                file.import_key in earlier and contents.get(_place(file), file.import_key) == file.import_key
                for file in current
            ):
                pairs = [(file, earlier[file.import_key]) for file in current]
                again += [(file, original) for file, original in pairs if _place(file) != _place(original)]
                continue
            own = {file.import_key: file for file in current}
            elsewhere = [file for file in stored[model] if _place(file) not in asked]
            again += [(file, own[file.import_key]) for file in elsewhere if file.import_key in own]
            # What was imported first stands.
            to_read[model] = [*map(_still_there, (file for file in elsewhere if file.import_key not in own)), *current]
        return to_read, again

    def _refuse_other_runs(self, models: Iterable[str]) -> None:
        run_ids = [run_id_of(model, self._request.tag) for model in models]
        there = set(self._lake.read("runs", {"run_id": run_ids}, ["run_id"])["run_id"]) if run_ids else set()
        if others := sorted(there - set(self._runs["run_id"])):
            raise ConfigurationError(f"run {others[0]} is there and was not imported: give another --tag")

    def _steps(self, parts: Iterable[Part]) -> Iterator[list[Part]]:
        """The parts that are committed together: each commit costs every reader."""
        step: list[Part] = []
        for part in parts:
            step.append(part)
            self._progress.done += len(part.models)
            self._progress.failed += part.batch.quarantine.height
            self._workspace.reporter.changed(self._progress)
            if sum(one.size for one in step) >= _COMMIT_BYTES:
                yield step
                step = []
        if step:
            yield step

    def _commit(self, parts: Sequence[Part]) -> pl.DataFrame:
        """Write all rows of some models; those of an earlier or interrupted import of them give way.

        Returns:
            Their rows of `runs`.
        """
        lake, tag = self._lake, self._request.tag
        models = [model for part in parts for model in part.models]
        sets = {questions.name: questions for part in parts for questions in part.sets}
        batch = concatenated([part.batch for part in parts])
        plan = _plan_of(batch, sets)
        scores, metrics = self._derived(batch, plan)
        runs = _run_rows(batch, plan, metrics, sets, self._now).with_columns(
            created_by=pl.lit(self._workspace.settings.user, dtype=pl.String)
        )
        for questions in sets.values():
            for one in (questions, *parts_of(questions)):
                if one.name not in self._stored_sets:
                    store_question_set(lake, one)
                    self._stored_sets.add(one.name)
        old = self._runs.filter(pl.col("model").is_in(models))["run_id"].to_list()
        keys = {"run_id": sorted({*old, *runs["run_id"]})}
        frames = {
            "answers": batch.answers,
            "judgements": batch.judgements,
            "scores": scores,
            "metrics": metrics,
            "legacy_repeats": batch.repeats,
        }
        if keys["run_id"]:
            lake.replace("runs", runs, keys)
        for table, frame in frames.items():
            if old:
                lake.replace(table, frame, keys)
            elif not frame.is_empty():
                lake.append(table, frame)
        lake.replace("legacy_quarantine", batch.quarantine, {"import_tag": tag, "model": models})
        self._store_files(batch.files)
        return runs

    def _derived(self, batch: Batch, plan: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Scores and metrics, by the SQL that derives them for every other run."""
        settings = self._workspace.settings
        judges = batch.judgements.select("run_id", "benchmark", "judge").unique()
        if judges.is_empty():
            return pl.DataFrame(schema=SCORES.schema), pl.DataFrame(schema=METRICS.schema)
        with duckdb.connect() as connection:
            connection.execute("create schema lake")
            _define(connection, "answers", batch.answers)
            _define(connection, "judgements", batch.judgements)
            _define(connection, "consensus", pl.DataFrame(schema=CONSENSUS.schema))
            scores = derive("scores", connection, {"run_judges": judges}, settings)
            _define(connection, "scores", scores)
            metrics = derive("metrics", connection, {"plan": with_scales(plan)}, settings)
        return scores, metrics

    def _store_files(self, rows: pl.DataFrame) -> None:
        """Say what became of these files; the last word on a path counts."""
        self._files = pl.concat([self._files, rows]).unique(["source", "path"], keep="last", maintain_order=True)
        self._lake.replace("legacy_files", self._files, {"import_tag": self._request.tag})


def _restricted(plan: ImportPlan, pattern: str) -> ImportPlan:
    """The plan for the models that match."""

    def matches(model: str | None) -> bool:
        return model is None or fnmatch.fnmatchcase(model, pattern)

    return ImportPlan(
        {model: files for model, files in plan.models.items() if matches(model)},
        [pair for pair in plan.duplicates if matches(pair[0].model)],
        [file for file in plan.rest if matches(file.model)],
    )


def _place(file: LegacyFile) -> tuple[str, str]:
    return file.source, file.path


def _stored_file(row: Mapping[str, Any]) -> LegacyFile:
    """A file as `legacy_files` has it."""
    names = ("source", "path", "kind", "dataset", "judge", "model", "size", "sha256")
    return LegacyFile(location=Path(row["root"]) / row["path"], **{name: row[name] for name in names})


def _still_there(file: LegacyFile) -> LegacyFile:
    """The file itself, if it has the bytes that were imported."""
    try:
        same = sha256_of_file(file.location) == file.sha256
    except OSError:
        same = False
    if not same:
        raise ConfigurationError(
            f"model {file.model} was imported from {file.source}:{file.path} as well, and {file.location} is gone or "
            "has changed: name that tree again, or give another --tag"
        )
    return file


def _stored_sets(lake: Lake) -> list[QuestionSet]:
    """The registered sets that the lake has; parts of files are placed by them."""
    found = (stored_question_set(lake, name.partition("@")[0], name=name) for name in known_sets())
    return [questions for questions in found if questions]


def imported_runs(lake: Lake, tag: str) -> pl.DataFrame:
    """The rows of `runs` that imports under this tag have made."""
    own = pl.col("run_tag").str.contains(rf"^{re.escape(tag)}(-gen\d+)?$")
    legacy = pl.col("spec").str.json_path_match("$.kind") == LEGACY_KIND
    return lake.read("runs").filter(own, legacy)


def _plan_of(batch: Batch, sets: Mapping[str, QuestionSet]) -> pl.DataFrame:
    """What each run has planned.

    A question that a file repeats is one more sample, as in the published means.

    Returns:
        Columns run_id, base_tag, run_number, benchmark, question_set, n_planned, n_questions.
    """
    sizes = pl.DataFrame(
        [(name, len(one.questions)) for name, one in sets.items()],
        schema={"question_set": pl.String, "n_questions": pl.Int64},
        orient="row",
    )
    return (
        batch.answers.group_by("run_id", "run_tag", "benchmark", "question_set")
        .agg((pl.col("sample_index") > 0).sum().cast(pl.Int64).alias("n_repeated"))
        .join(sizes, on="question_set")
        .select(
            "run_id",
            pl.col("run_tag").alias("base_tag"),
            pl.lit(None, dtype=pl.Int64).alias("run_number"),
            "benchmark",
            "question_set",
            (pl.col("n_questions") + pl.col("n_repeated")).alias("n_planned"),
            "n_questions",
        )
    )


def _run_rows(
    batch: Batch, plan: pl.DataFrame, metrics: pl.DataFrame, sets: Mapping[str, QuestionSet], now: datetime
) -> pl.DataFrame:
    """The rows of `runs`: what was planned, who judged, and whether everything has a score."""
    judged = metrics.filter(null_policy="legacy").select("run_id", "benchmark", "judge", "n_failed")
    failed: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for run_id, benchmark, judge, n_failed in judged.sort("judge").iter_rows():
        failed[run_id, benchmark][judge] = n_failed
    keys = ["run_id", "model", "run_tag"]
    sources = dict(
        batch.files.filter(status="imported").group_by("model").agg(pl.col("source").unique().sort()).iter_rows()
    )
    runs = batch.answers.group_by(keys).agg(pl.col("generation").first()).sort("run_id")
    rows = []
    for run_id, model, run_tag, generation in runs.iter_rows():
        benchmarks = {
            benchmark: LegacyBenchmark(
                question_set=name,
                question_set_sha256=sets[name].sha256,
                n_questions=len(sets[name].questions),
                n_planned=n_planned,
                judges=tuple(failed[run_id, benchmark]),
            )
            for benchmark, name, n_planned in plan.filter(run_id=run_id)
            .sort("benchmark")
            .select("benchmark", "question_set", "n_planned")
            .iter_rows()
        }
        judges = [legacy_judge(name) for name in sorted({name for one in benchmarks.values() for name in one.judges})]
        spec = LegacyRunSpec(
            model=model,
            run_tag=run_tag,
            display_name=display_name(model),
            generation=generation,
            sources=tuple(sources.get(model, ())),
            benchmarks=benchmarks,
            judges=tuple(LegacyJudgeSpec(**asdict(judge), config_hash=judge.config_hash) for judge in judges),
            not_recorded=NOT_RECORDED,
        )
        states = {
            name: "complete" if one.judges and not any(failed[run_id, name].values()) else "partial"
            for name, one in benchmarks.items()
        }
        rows.append(
            {
                "run_id": run_id,
                "model": model,
                "run_tag": run_tag,
                "base_tag": run_tag,
                "spec": spec.model_dump_json(),
                "spec_hash": spec.spec_hash,
                "status": "complete" if set(states.values()) == {"complete"} else "partial",
                "status_by_benchmark": orjson.dumps(states).decode(),
                "created_at": now,
                "updated_at": now,
                "package_version": __version__,
                **code_version(),
            }
        )
    return conform(RUNS, pl.DataFrame(rows, schema_overrides=RUNS.schema) if rows else pl.DataFrame(schema=RUNS.schema))


def _define(connection: duckdb.DuckDBPyConnection, table: str, frame: pl.DataFrame) -> None:
    """Let `lake.{table}` be the frame's columns that scores and metrics are derived from."""
    slim = frame.select(pl.exclude("answer", "raw_answer", "thinking", "judge_output", "legacy_fields"))
    connection.register(f"{table}_frame", slim)
    connection.execute(f"create view lake.{table} as from {table}_frame")


@contextmanager
def importing_alone(warehouse: Path) -> Iterator[None]:
    """Within this context no other process imports.

    Raises:
        PartitionBusyError: Another one does.
    """
    path = warehouse / JOURNAL_FOLDER / "legacy_import.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PartitionBusyError("another process is importing: wait for it, or stop it") from None
        yield
