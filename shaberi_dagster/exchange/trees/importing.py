"""Legacy trees into the lake: listed, read, committed in large steps, derived by the SQL of the stages.

An import can be stopped at any moment and continues with the models that are not in the lake yet. The unit is a model:
its rows are all there once `legacy_files` says so, which is written last. What is new of a model is put together with
what the lake has of it; rows are written only where they differ, and never those that an import did not make.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import duckdb
import polars as pl

from shaberi_dagster.exchange.importing import (
    Import,
    ImportedRows,
    imported_benchmark,
    imported_run,
    importing_alone,
    run_rows,
)
from shaberi_dagster.exchange.trees.files import (
    LegacyFile,
    Listing,
    display_name,
    find_files,
    read_file_rows,
    unread_file_rows,
    updated,
)
from shaberi_dagster.exchange.trees.questions import question_sets_in
from shaberi_dagster.exchange.trees.reading import Lines, ReadPart, read_models
from shaberi_dagster.exchange.trees.rows import NOT_RECORDED, assemble, earlier_runs, legacy_judge, stored_lines
from shaberi_dagster.exchange.trees.runs import groups_of, place_groups, tag_of_tree
from shaberi_dagster.exchange.trees.sums import Reconciliation
from shaberi_dagster.exchange.trees.superseding import counts_of, standing, superseding, with_superseded
from shaberi_dagster.lake.connections import connected
from shaberi_dagster.lake.schemas import CONSENSUS, METRICS, SCORES
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.questions import store_question_set, stored_question_set
from shaberi_dagster.runs.spec import ImportedSpec, RunSpec
from shaberi_dagster.runs.stages.imported import OF_TREE
from shaberi_dagster.runs.stages.metrics import with_scales
from shaberi_dagster.runs.stages.scores import derive
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.benchmarks.questions import QuestionSet, known_sets, parts_of
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import check_run_tag, run_id_of
from shaberi_dagster.util.portions import portions

DEFAULT_TAG = "legacy"
_COMMIT_BYTES = 200_000_000  # that are in memory together
_MODELS_AT_ONCE = 40
_MOST_NAMED = 5


@dataclass(frozen=True)
class ImportRequest:
    """Trees to import, and the tag of their runs.

    Attributes:
        trees: Folders by the names they are known by.
        tag: Tag of the import; those of the runs are `{tag}-{tree}`, and `…-gen2`, … for further answers in the same
            tree.
        models: Only the models whose file names match this pattern (`*` any text, `?` any character).
    """

    trees: Mapping[str, Path]
    tag: str = DEFAULT_TAG
    models: str = "*"


@dataclass(frozen=True)
class ImportResult:
    """Outcome of an import.

    Attributes:
        tag: Tag of the runs.
        runs: Rows of `runs` that were made or made again.
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
            raise ConfigurationError(f"trees: no folder {path!r}: name an existing one, as FOLDER or NAME=FOLDER")
        if name in trees:
            raise ConfigurationError(f"two legacy trees have the name {name!r}: give one as NAME=FOLDER")
        trees[name] = Path(path).absolute()
    return trees


def tree_folders(
    names: Sequence[str], given: Mapping[str, Path], lake: Lake, tag: str
) -> tuple[dict[str, Path], list[str]]:
    """Find the folders of trees, as given or of their last import, and say which are lost.

    Raises:
        ConfigurationError: All are.
    """
    imported = lake.read("legacy_files", {"import_tag": tag}).sort("imported_at")
    roots = dict(imported.select("source", "root").iter_rows())
    known = {name: given.get(name) or Path(roots[name]) for name in names if name in given or name in roots}
    folders = {name: folder for name, folder in known.items() if folder.is_dir()}
    gone = {name: f"gone: {known[name]}" if name in known else "not known yet" for name in names if name not in folders}
    lost = [f"the folder of tree {name!r} is {what}, give trees as {name}=FOLDER" for name, what in gone.items()]
    if lost and not folders:
        raise ConfigurationError("; ".join(lost))
    return folders, lost


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
        workspace.lake.widen("legacy_files")  # also if nothing is new: what is there is read as of today's format
        return TreeImport(request, workspace).run()


def reconcile_lake(lake: Lake, tag: str = DEFAULT_TAG) -> Reconciliation:
    """Count what the lake has under an import's tag against what its files had; no texts are read.

    Args:
        lake: Where the rows are.
        tag: Tag of the runs.

    Raises:
        ConfigurationError: Nothing was imported under that tag.
    """
    keys = {"import_tag": tag}
    files = lake.read("legacy_files", keys)
    if files.is_empty():
        raise ConfigurationError(f"nothing was imported under the tag {tag!r}: run shaberi import-legacy PATH first")
    runs = imported_runs(lake, tag).select("run_id", run_source="source", run_model="model")
    line = ["run_id", "source_sha256", "source_line", "benchmark"]
    columns = {
        "answers": [*line, "status", "error_class", "answer_origin"],
        "judgements": [*line, "judge", "status", "error_class", "answer_link", "superseded", "out_of_scale"],
        "legacy_repeats": ["run_id", "source_sha256", "source_line", "judge"],
    }
    rows = ImportedRows(*(lake.read(name, columns=wanted).join(runs, on="run_id") for name, wanted in columns.items()))
    quarantine = lake.read("legacy_quarantine", keys, ["source", "path", "source_line", "reason"])
    return Reconciliation.of_rows(rows, files, quarantine)


@dataclass(frozen=True)
class _Step:
    """Some models, put together: what the lake is to say of them.

    Attributes:
        models: Their names; all their files count, those that the lake has already too.
        runs: Their rows of `runs` of before.
        earlier: The imported rows of these.
        placed: Of which runs the files are now (`PLACED`).
        unmatched: Runs of before whose answers are those of no files any more.
        rows: All rows that an import makes of them.
        sets: The question sets met so far, by name.
        quarantine: The lines that were read just now and cannot become rows.
        current: Their files, as of `Listing.current`.
        said: What is to be said of these in `legacy_files`.
    """

    models: Sequence[str]
    runs: pl.DataFrame
    earlier: ImportedRows
    placed: pl.DataFrame
    unmatched: Sequence[str]
    rows: ImportedRows
    sets: Mapping[str, QuestionSet]
    quarantine: pl.DataFrame
    current: pl.DataFrame
    said: pl.DataFrame


class TreeImport(Import):
    """The import of some trees: their models are read, grouped and committed some hundred megabytes at a time.

    Args:
        request: What to import.
        workspace: Where to write, and whom to tell.
    """

    def __init__(self, request: ImportRequest, workspace: Workspace) -> None:
        super().__init__(request.tag, workspace)
        self._started = time.monotonic()
        self._request = request
        self._runs = imported_runs(self.lake, request.tag)
        self._sets: dict[str, QuestionSet] = {}
        self._to_read: dict[str, list[LegacyFile]] = {}

    @cached_property
    def _listing(self) -> Listing:
        return Listing(find_files(self._request.trees, self._request.models, self.files), self.files)

    def run(self) -> ImportResult:
        """Import what is not there yet, and count what the lake has under this tag of all that was there."""
        self._find()
        unread = [file for files in self._to_read.values() for file in files]
        sets = list(question_sets_in(unread, _stored_sets(self.lake)).sets.values())
        # Parts are committed together: each commit costs every reader.
        blocks = portions(self._read(sets), lambda part: part.size, _COMMIT_BYTES)
        made = [self._commit(self._place(block)) for block in blocks]
        self._write_files(unread_file_rows(self._listing.found, self._listing.current))
        models = {file.model for file in self._listing.found if file.reason is None}
        return ImportResult(
            tag=self.tag,
            runs=pl.concat(made) if made else self._runs.clear(),
            models_read=len(self._to_read),
            models_there=len(models) - len(self._to_read),
            bytes_read=self._size,
            seconds=time.monotonic() - self._started,
            reconciliation=reconcile_lake(self.lake, self.tag),
        )

    def _read(self, sets: Sequence[QuestionSet]) -> Iterator[ReadPart]:
        for part in read_models(self._to_read, sets):
            self.advance(len(part.models), part.read.quarantine.height)
            yield part

    def _find(self) -> None:
        """List the files of the trees, and those of them that no import has read."""
        read = [file for file in self._listing.found if file.reason is None]
        of_trees = {file.source for file in read}
        if without := [str(root) for name, root in self._request.trees.items() if name not in of_trees]:
            of_models = f" of {self._request.models}" if self._request.models != "*" else ""
            raise ConfigurationError(
                f"no legacy files{of_models} in {', '.join(without)}: a tree has "
                "model_answers/DATASET/MODEL.json and judgements/judge_NAME/DATASET/MODEL.json"
            )
        self._to_read = self._listing.to_read()
        self._refuse_other_runs(self._to_read)
        models = {file.model for file in read}
        self.workspace.reporter.note(
            f"{len(models):,} models: {len(models) - len(self._to_read):,} already there, "
            f"{len(self._to_read):,} to read ({self._size / 1e6:,.0f} MB)"
        )
        self._tell_of_changes()
        self.progress.total = len(self._to_read)

    @property
    def _size(self) -> int:
        return sum(file.size or 0 for files in self._to_read.values() for file in files)

    def _refuse_other_runs(self, models: Iterable[str]) -> None:
        tags = [tag_of_tree(self.tag, source) for source in self._request.trees]
        run_ids = [run_id_of(model, tag) for model in models for tag in tags]
        there = set(self.lake.read("runs", {"run_id": run_ids}, ["run_id"])["run_id"]) if run_ids else set()
        if others := sorted(there - set(self._runs["run_id"])):
            raise ConfigurationError(f"run {others[0]} is there and was not imported: give another --tag")

    def _tell_of_changes(self) -> None:
        changed = self._listing.replaced.select(pl.format("{}:{}", "source", "path")).to_series().sort()
        if len(changed):
            self.workspace.reporter.note(
                f"{len(changed):,} files have changed since they were imported, their rows of before are superseded: "
                + ", ".join(changed.head(_MOST_NAMED))
                + (", …" if len(changed) > _MOST_NAMED else "")
            )

    def _place(self, block: Sequence[ReadPart]) -> _Step:
        """Put what was read of some models together with what the lake has of them, and group it by runs."""
        models = [model for part in block for model in part.models]
        of_models = pl.col("model").is_in(models)
        runs = self._runs.filter(of_models)
        earlier = ImportedRows.stored(self.lake, runs["run_id"].to_list())
        read = Lines.together([part.read for part in block])
        lines = Lines.together([read, stored_lines(earlier, self.files.filter(of_models, status="imported"))])
        current = self._listing.current.filter(of_models)
        self._store_questions(questions for part in block for questions in part.sets)
        found = groups_of(lines, current.filter(status="imported"), self._sources, self._questions_of(lines))
        placed, unmatched = place_groups(self.tag, found, earlier_runs(earlier, runs))
        fresh = assemble(lines, placed, self.now)
        return _Step(
            models=models,
            runs=runs,
            earlier=earlier,
            placed=placed,
            unmatched=unmatched,
            rows=with_superseded(fresh, earlier, placed, runs, self.now),
            sets=dict(self._sets),
            quarantine=read.quarantine,
            current=current,
            said=read_file_rows(current, lines.contents, counts_of(fresh, placed)),
        )

    def _commit(self, step: _Step) -> pl.DataFrame:
        """Write a step, what says that it is there last; return the rows of `runs` that were written."""
        rows = replace(step.rows, judgements=self.below_others(step.rows.judgements))
        plan = _plan_of(rows, {name: len(questions.questions) for name, questions in step.sets.items()})
        derived = self._derived(rows, plan)
        superseded = superseding(step.placed, step.unmatched, step.earlier, step.runs, self._listing.replaced)
        made = self._run_rows(step, plan, derived["metrics"], superseded)
        old = set(self._runs["run_id"])
        self.write(
            made,
            rows,
            step.earlier,
            derived={table: frame.filter(~pl.col("run_id").is_in(list(old))) for table, frame in derived.items()},
            again=set(rows.answers["run_id"]) & old,
            emptied=[run_id for run_id in step.unmatched if run_id not in superseded],
        )
        self._write_quarantine(step)
        self._write_files(step.said)
        return made

    @cached_property
    def _sources(self) -> list[str]:
        """The trees in the order in which their runs get names."""
        named = list(self._request.trees)
        # Of those that are not named: first the one that most was imported from.
        others = self.files.filter(~pl.col("source").is_in(named))
        counted = others.group_by("source").agg(files=(pl.col("status") == "imported").sum())
        return [*named, *counted.sort("files", "source", descending=[True, False])["source"]]

    def _store_questions(self, sets: Iterable[QuestionSet]) -> None:
        for questions in sets:
            for stored in (questions, *parts_of(questions)):
                if stored.name not in self._sets:
                    store_question_set(self.lake, stored)
                    self._sets[stored.name] = stored

    def _set(self, benchmark: str, name: str) -> QuestionSet:
        if name not in self._sets:
            found = stored_question_set(self.lake, benchmark, name=name)
            if found is None:
                raise ConfigurationError(f"question set {name} is gone from the lake: import under another --tag")
            self._sets[name] = found
        return self._sets[name]

    def _questions_of(self, lines: Lines) -> dict[str, frozenset[str]]:
        """The ids of the questions of all sets that the lines name."""
        names = lines.lines.select("benchmark", "question_set").unique()
        return {
            name: frozenset(question.question_id for question in self._set(benchmark, name).questions)
            for benchmark, name in names.iter_rows()
        }

    def _run_rows(
        self, step: _Step, plan: pl.DataFrame, metrics: pl.DataFrame, superseded: Mapping[str, str]
    ) -> pl.DataFrame:
        """Make rows of `runs`: of those in `placed`, and of others that are superseded."""
        earlier = {row["run_id"]: row for row in step.runs.iter_rows(named=True)}
        before = {run_id: RunSpec.read(row["spec"]) for run_id, row in earlier.items()}
        stands = standing(step.placed, step.earlier)
        failed = set(metrics.filter(pl.col("n_failed") > 0, null_policy="legacy").select("run_id", "benchmark").rows())
        rows = []
        for spec in _specs(step, plan, before):
            states = {
                name: "complete" if settings.imported_judges and (spec.run_id, name) not in failed else "partial"
                for name, settings in spec.benchmarks.items()
            }
            known = earlier.get(spec.run_id)
            by_others = superseded.get(spec.run_id) or (known or {}).get("superseded_by")
            rows.append(
                self.run_row(spec, states, known, before.get(spec.run_id))
                | {"source": spec.imported.source if spec.imported else None, "import_tag": self.tag}
                | {"superseded_by": None if spec.run_id in stands else by_others}
            )
        made = run_rows(rows)
        others = step.runs.filter(
            pl.col("run_id").is_in(list(superseded)), ~pl.col("run_id").is_in(made["run_id"].implode())
        )
        now = pl.col("run_id").replace_strict(superseded, default=None, return_dtype=pl.String)
        return pl.concat([made, others.with_columns(superseded_by=now, updated_at=pl.lit(self.now))])

    def _derived(self, rows: ImportedRows, plan: pl.DataFrame) -> dict[str, pl.DataFrame]:
        """Derive scores and metrics from rows that are not in the lake yet, by the SQL of every other run."""
        settings = self.workspace.settings
        judges = rows.judgements.select("run_id", "benchmark", "judge").unique()
        if judges.is_empty():
            return {"scores": SCORES.schema.to_frame(), "metrics": METRICS.schema.to_frame()}
        with connected() as connection:
            connection.execute("create schema lake")
            _define(connection, "answers", rows.answers)
            _define(connection, "judgements", rows.judgements)
            _define(connection, CONSENSUS.name, CONSENSUS.schema.to_frame())
            scores = derive("scores", connection, {"run_judges": judges}, settings)
            _define(connection, "scores", scores)
            metrics = derive("metrics", connection, {"plan": with_scales(plan)}, settings)
        return {"scores": scores, "metrics": metrics}

    def _write_quarantine(self, step: _Step) -> None:
        """Tell what could not be read, for each tree that has it."""
        keys = {"import_tag": self.tag, "model": list(step.models)}
        content = ["model", "source_sha256"]
        main = step.current.filter(status="imported").select("source", "path", "model", source_sha256="sha256")
        stored = self.lake.read("legacy_quarantine", keys, step.quarantine.columns)
        lines = pl.concat([step.quarantine, stored]).unique(
            [*content, "source_line"], keep="first", maintain_order=True
        )
        rows = lines.join(main, on=content).with_columns(import_tag=pl.lit(self.tag))
        self.lake.update("legacy_quarantine", rows, keys)

    def _write_files(self, rows: pl.DataFrame) -> None:
        """Tell what became of these files."""
        self.files = updated(self.files, rows, self.tag, self.now)
        self.lake.update("legacy_files", self.files, {"import_tag": self.tag})


def _stored_sets(lake: Lake) -> list[QuestionSet]:
    """The registered sets that the lake has; parts of files are placed by them."""
    found = (stored_question_set(lake, name.partition("@")[0], name=name) for name in known_sets())
    return [questions for questions in found if questions]


def imported_runs(lake: Lake, tag: str) -> pl.DataFrame:
    """The rows of `runs` that imports under this tag have made."""
    return lake.read("runs").filter(OF_TREE, import_tag=tag)


def _plan_of(rows: ImportedRows, sizes: Mapping[str, int]) -> pl.DataFrame:
    """Count what each run has planned.

    A question that a file repeats is one more sample, as in the published means.

    Args:
        rows: Of the runs.
        sizes: Number of questions by question set.

    Returns:
        Columns run_id, base_tag, run_number, benchmark, question_set, n_planned, n_questions.
    """
    return (
        rows.answers.group_by("run_id", "run_tag", "benchmark", "question_set")
        .agg((pl.col("sample_index") > 0).sum().cast(pl.Int64).alias("n_repeated"))
        .with_columns(n_questions=pl.col("question_set").replace_strict(sizes, default=None, return_dtype=pl.Int64))
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


def _specs(step: _Step, plan: pl.DataFrame, before: Mapping[str, RunSpec]) -> list[RunSpec]:
    """Tell what is known of each run, with the judges and passes that were added to it."""
    sources = dict(step.placed.select("run_id", "source").unique().iter_rows())
    planned: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
    columns = ("run_id", "benchmark", "question_set", "n_planned")
    for run_id, *benchmark in plan.sort("run_id", "benchmark").select(columns).iter_rows():
        planned[run_id].append(tuple(benchmark))
    judged: dict[tuple[str, str], list[str]] = defaultdict(list)
    judging = step.rows.judgements.select("run_id", "benchmark", "judge").unique().sort("judge")
    for run_id, benchmark, judge in judging.iter_rows():
        judged[run_id, benchmark].append(judge)
    specs = []
    runs = step.rows.answers.select("run_id", "model", "run_tag", "generation").unique().sort("run_id")
    for run_id, model, run_tag, generation in runs.iter_rows():
        own = before.get(run_id)
        benchmarks = {
            benchmark: imported_benchmark(
                step.sets[name],
                own.benchmarks.get(benchmark) if own else None,
                imported_judges=tuple(judged[run_id, benchmark]),
                imported_samples=n_planned,
            )
            for benchmark, name, n_planned in planned[run_id]
        }
        names = sorted({name for benchmark in benchmarks.values() for name in benchmark.imported_judges})
        imported = ImportedSpec(
            display_name=display_name(model),
            generation=generation,
            source=sources[run_id],
            judges=tuple(map(legacy_judge, names)),
            not_recorded=NOT_RECORDED,
        )
        specs.append(imported_run(model, run_tag, benchmarks, imported, own))
    return specs


def _define(connection: duckdb.DuckDBPyConnection, table: str, frame: pl.DataFrame) -> None:
    """Let `lake.{table}` be the frame's columns that scores and metrics are derived from."""
    slim = frame.select(pl.exclude("answer", "raw_answer", "thinking", "judge_output", "legacy_fields"))
    connection.register(f"{table}_frame", slim)
    connection.execute(f"create view lake.{table} as from {table}_frame")
