"""Legacy trees into the lake: listed, read, committed in large steps, derived by the SQL of the stages.

An import can be stopped at any moment and goes on with the models that are not in the lake yet. The unit is a model:
its rows are all there once `legacy_files` says so, which is written last. What is new of a model is put together with
what the lake has of it; rows are written only where they differ, and never those that an import did not make.
"""

import gc
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import duckdb
import orjson
import polars as pl

from shaberi_dagster.benchmarks.questions import QuestionSet, known_sets, parts_of
from shaberi_dagster.benchmarks.registry import BENCHMARKS
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.exchange.legacy.assemble import NOT_RECORDED, Batch, assemble
from shaberi_dagster.exchange.legacy.files import Listing, find_files, read_file_rows, unread_file_rows, updated
from shaberi_dagster.exchange.legacy.judges import legacy_judge
from shaberi_dagster.exchange.legacy.lines import SAMPLE, Lines
from shaberi_dagster.exchange.legacy.merging import Change, counts_of, standing, superseding, with_superseded
from shaberi_dagster.exchange.legacy.placing import Placing, groups_of, tag_of_tree
from shaberi_dagster.exchange.legacy.questions import question_sets_in
from shaberi_dagster.exchange.legacy.reading import ReadPart, read_models, without_cycles
from shaberi_dagster.exchange.legacy.reconcile import Reconciliation
from shaberi_dagster.exchange.legacy.stored import earlier_runs, stored_lines, stored_rows
from shaberi_dagster.exchange.legacy.tree import display_name
from shaberi_dagster.journal.locks import alone
from shaberi_dagster.lake.connections import connected
from shaberi_dagster.lake.schemas import CONSENSUS, METRICS, RUNS, SCORES, TABLES
from shaberi_dagster.lake.store import Lake, conform
from shaberi_dagster.lake.upgrades import FORMAT, stored_format
from shaberi_dagster.runs.planning import code_version, store_question_set, stored_question_set
from shaberi_dagster.runs.spec import BenchmarkSpec, ImportedJudge, ImportedSpec, RunSpec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import VERSION
from shaberi_dagster.stages.imported import OF_TREE, REMADE, reprocess_imported
from shaberi_dagster.stages.metrics import with_scales
from shaberi_dagster.stages.scores import derive
from shaberi_dagster.util.identity import check_run_tag, run_id_of
from shaberi_dagster.util.progress import StageProgress

DEFAULT_TAG = "legacy"
STAGE = "import"
_COMMIT_BYTES = 200_000_000  # two such steps are in memory: one is written, the next one put together
_MODELS_AT_ONCE = 40
_MOST_NAMED = 5


@dataclass(frozen=True)
class ImportRequest:
    """What to import.

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


def tree_folders(names: Sequence[str], given: Mapping[str, Path], lake: Lake, tag: str) -> dict[str, Path]:
    """Where trees are: as given, else where they were at their last import.

    Raises:
        ConfigurationError: It is not known, or there is no such folder any more.
    """
    roots = dict(
        lake.read("legacy_files", {"import_tag": tag}).sort("imported_at").select("source", "root").iter_rows()
    )
    folders = {}
    for name in names:
        if name not in given and name not in roots:
            raise ConfigurationError(f"where the legacy tree {name!r} is is not known yet: give trees as {name}=FOLDER")
        folders[name] = given.get(name) or Path(roots[name])
        if not folders[name].is_dir():
            raise ConfigurationError(
                f"legacy tree {name!r} is not in {folders[name]} any more: give trees as {name}=FOLDER"
            )
    return folders


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
        gc.freeze()  # what is loaded by now stays, and is not looked through for garbage again and again
        try:
            workspace.lake.widen("legacy_files")  # also if nothing is new: what is there is read as of today's format
            return _Import(request, workspace).run()
        finally:
            gc.unfreeze()


def reconcile_lake(lake: Lake, tag: str = DEFAULT_TAG) -> Reconciliation:
    """Count what the lake has under an import's tag against what its files had; no texts are read.

    Args:
        lake: Where the rows are.
        tag: Tag of the runs.

    Raises:
        ConfigurationError: Nothing was imported under that tag, or a lake of an older format has other rows.
    """
    stored = stored_format(lake.folder)
    if stored is not None and stored < FORMAT:
        raise ConfigurationError(
            f"the lake in {lake.folder} has format {stored}, whose imports are counted otherwise: "
            f"`shaberi compact` brings it to {FORMAT}"
        )
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
    rows = Batch(*(lake.read(name, columns=wanted).join(runs, on="run_id") for name, wanted in columns.items()))
    quarantine = lake.read("legacy_quarantine", keys, ["source", "path", "source_line", "reason"])
    return Reconciliation.of_rows(rows, files, quarantine)


def regroup_imports(workspace: Workspace) -> None:
    """Give a lake in which an imported run could have answers of several trees a run for each tree; no file is read.

    Args:
        workspace: With the lake as it is.
    """
    files = workspace.lake.read("legacy_files", {"kind": ["answers", "judgements"]}, ["import_tag"])
    for tag in files["import_tag"].unique().sort():
        _Import(ImportRequest({}, tag), workspace).regroup()


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
    earlier: Batch
    placed: pl.DataFrame
    unmatched: Sequence[str]
    rows: Batch
    sets: Mapping[str, QuestionSet]
    quarantine: pl.DataFrame
    current: pl.DataFrame
    said: pl.DataFrame


class _Import:
    """One import at work.

    Args:
        request: What to import.
        workspace: Where to write, and whom to tell.
    """

    def __init__(self, request: ImportRequest, workspace: Workspace) -> None:
        self._request, self._workspace, self._lake = request, workspace, workspace.lake
        self._before = Lake(self._lake.folder)  # to read from while a step is written
        self._now = datetime.now(UTC)
        self._files = self._lake.read("legacy_files", {"import_tag": request.tag})
        self._runs = imported_runs(self._lake, request.tag)
        self._listing = Listing(find_files(request.trees, request.models, self._files), self._files)
        self._sets: dict[str, QuestionSet] = {}
        self._progress = StageProgress(STAGE, request.tag)

    def run(self) -> ImportResult:
        """Import what is not there yet."""
        started, tag, found = time.monotonic(), self._request.tag, self._listing.found
        models = {file.model for file in found if file.reason is None}
        of_trees = {file.source for file in found if file.reason is None}
        if without := [str(root) for name, root in self._request.trees.items() if name not in of_trees]:
            raise ConfigurationError(
                f"no legacy files in {', '.join(without)}: a tree has "
                "model_answers/DATASET/MODEL.json and judgements/judge_NAME/DATASET/MODEL.json"
            )
        to_read = self._listing.to_read()
        self._refuse_other_runs(to_read)
        size = sum(file.size or 0 for files in to_read.values() for file in files)
        self._workspace.reporter.note(
            f"{len(models):,} models: {len(models) - len(to_read):,} already there, "
            f"{len(to_read):,} to read ({size / 1e6:,.0f} MB)"
        )
        self._tell_of_changes()
        self._progress.total = len(to_read)
        unread = [file for files in to_read.values() for file in files]
        sets = list(question_sets_in(unread, _stored_sets(self._lake)).sets.values())
        made = list(self._stored(map(self._put_together, self._steps(read_models(to_read, sets)))))
        self._store_files(unread_file_rows(found, self._listing.current))
        return ImportResult(
            tag=tag,
            runs=pl.concat(made) if made else self._runs.clear(),
            models_read=len(to_read),
            models_there=len(models) - len(to_read),
            bytes_read=size,
            seconds=time.monotonic() - started,
            reconciliation=reconcile_lake(self._lake, tag),
        )

    def regroup(self) -> None:
        """Put together anew what the lake has, without any file."""
        models = self._listing.current["model"].unique().sort().to_list()
        for start in range(0, len(models), _MODELS_AT_ONCE):
            some = models[start : start + _MODELS_AT_ONCE]
            self._store(self._put_together([ReadPart(some, 0, Lines.together([]), [])]))

    def _refuse_other_runs(self, models: Iterable[str]) -> None:
        tags = [tag_of_tree(self._request.tag, source) for source in self._request.trees]
        run_ids = [run_id_of(model, tag) for model in models for tag in tags]
        there = set(self._lake.read("runs", {"run_id": run_ids}, ["run_id"])["run_id"]) if run_ids else set()
        if others := sorted(there - set(self._runs["run_id"])):
            raise ConfigurationError(f"run {others[0]} is there and was not imported: give another --tag")

    def _tell_of_changes(self) -> None:
        changed = self._listing.replaced.select(pl.format("{}:{}", "source", "path")).to_series().sort()
        if len(changed):
            self._workspace.reporter.note(
                f"{len(changed):,} files have changed since they were imported, their rows of before are superseded: "
                + ", ".join(changed.head(_MOST_NAMED))
                + (", …" if len(changed) > _MOST_NAMED else "")
            )

    def _steps(self, parts: Iterable[ReadPart]) -> Iterator[list[ReadPart]]:
        """The parts that are committed together: each commit costs every reader."""
        step: list[ReadPart] = []
        for part in parts:
            step.append(part)
            self._progress.done += len(part.models)
            self._progress.failed += part.read.quarantine.height
            self._workspace.reporter.changed(self._progress)
            if sum(one.size for one in step) >= _COMMIT_BYTES:
                whole, step = [step], []
                yield whole.pop()  # so that it is kept only by who takes it
        if step:
            yield step

    def _stored(self, steps: Iterable[_Step]) -> Iterator[pl.DataFrame]:
        """The rows of `runs` that each step has written, one step being written while the next one is put together."""
        with ThreadPoolExecutor(1) as writer:
            at_work: Future[pl.DataFrame] | None = None
            for step in steps:
                if at_work:
                    yield at_work.result()
                at_work = writer.submit(copy_context().run, self._store, step)  # it reports to whom we do
                del step  # a hundred megabytes
            if at_work:
                yield at_work.result()

    def _put_together(self, parts: Sequence[ReadPart]) -> _Step:
        """What was read just now of some models, with what the lake has of them."""
        models = [model for part in parts for model in part.models]
        of_models = pl.col("model").is_in(models)
        runs = self._runs.filter(of_models)
        earlier = stored_rows(self._before, runs["run_id"].to_list())
        read = Lines.together([part.read for part in parts])
        lines = Lines.together([read, stored_lines(earlier, self._files.filter(of_models, status="imported"))])
        current = self._listing.current.filter(of_models)
        self._store_questions(one for part in parts for one in part.sets)
        placing = Placing(self._request.tag)
        before = earlier_runs(earlier, runs)
        found = groups_of(lines, current.filter(status="imported"), self._sources, self._questions_of(lines))
        with without_cycles():
            for model, groups, forms in found:
                placing.place(model, groups, before.get(model, []), forms)
        placed = placing.placed
        fresh = assemble(lines, placed, self._now)
        return _Step(
            models=models,
            runs=runs,
            earlier=earlier,
            placed=placed,
            unmatched=placing.unmatched,
            rows=with_superseded(fresh, earlier, placed, runs, self._now),
            sets=dict(self._sets),
            quarantine=read.quarantine,
            current=current,
            said=read_file_rows(current, lines.contents, counts_of(fresh, placed)),
        )

    def _store(self, step: _Step) -> pl.DataFrame:
        """Write a step, what says that it is there last.

        Returns:
            The rows of `runs` that were written.
        """
        rows = replace(step.rows, judgements=self._below_others(step.rows.judgements))
        plan = _plan_of(rows, {name: len(one.questions) for name, one in step.sets.items()})
        scores, metrics = self._derived(rows, plan)
        superseded = superseding(step.placed, step.unmatched, step.earlier, step.runs, self._listing.replaced)
        made = self._run_rows(step, plan, metrics, superseded)
        emptied = [run_id for run_id in step.unmatched if run_id not in superseded]
        self._write(made, rows, step.earlier, {"scores": scores, "metrics": metrics}, emptied)
        self._store_quarantine(step)
        self._store_files(step.said)
        return made

    def _below_others(self, imported: pl.DataFrame) -> pl.DataFrame:
        """Imported judgements, superseded where the same judge has judged the sample here since."""
        keys = ["run_id", "judge", *SAMPLE]
        run_ids = imported["run_id"].unique().to_list()
        stored = self._lake.read("judgements", {"run_id": run_ids}, [*keys, "strategy", "source_sha256", "superseded"])
        others = stored.filter(pl.col("source_sha256").is_null(), pl.col("strategy").is_null(), ~pl.col("superseded"))
        below = pl.struct(keys).is_in(others.select(pl.struct(keys)).to_series().implode())
        when = pl.when(below).then(pl.coalesce("superseded_at", pl.lit(self._now))).otherwise("superseded_at")
        return imported.with_columns(superseded=pl.col("superseded") | below, superseded_at=when)

    @cached_property
    def _sources(self) -> list[str]:
        """The trees in the order in which their runs get names."""
        named = list(self._request.trees)
        # Of those that are not named: first the one that most was imported from.
        others = self._files.filter(~pl.col("source").is_in(named))
        counted = others.group_by("source").agg(files=(pl.col("status") == "imported").sum())
        return [*named, *counted.sort("files", "source", descending=[True, False])["source"]]

    def _store_questions(self, sets: Iterable[QuestionSet]) -> None:
        for questions in sets:
            for one in (questions, *parts_of(questions)):
                if one.name not in self._sets:
                    store_question_set(self._lake, one)
                    self._sets[one.name] = one

    def _set(self, benchmark: str, name: str) -> QuestionSet:
        if name not in self._sets:
            found = stored_question_set(self._lake, benchmark, name=name)
            if found is None:
                raise ConfigurationError(f"question set {name} is gone from the lake: import under another --tag")
            self._sets[name] = found
        return self._sets[name]

    def _questions_of(self, lines: Lines) -> dict[str, frozenset[str]]:
        """The ids of the questions of all sets that the lines name."""
        names = lines.lines.select("benchmark", "question_set").unique()
        return {
            name: frozenset(one.question_id for one in self._set(benchmark, name).questions)
            for benchmark, name in names.iter_rows()
        }

    def _run_rows(
        self, step: _Step, plan: pl.DataFrame, metrics: pl.DataFrame, superseded: Mapping[str, str]
    ) -> pl.DataFrame:
        """Rows of `runs`: of those in `placed`, and of others that are superseded."""
        runs = step.runs
        sources = step.placed.select("run_id", "source").unique()
        before = {run_id: RunSpec.read(spec) for run_id, spec in runs.select("run_id", "spec").iter_rows()}
        specs = _specs(step.rows, plan, dict(sources.iter_rows()), step.sets, before)
        made = _spec_rows(specs, metrics, self._now).with_columns(
            created_by=pl.lit(self._workspace.settings.user, dtype=pl.String), import_tag=pl.lit(self._request.tag)
        )
        kept = runs.select("run_id", "created_at", "created_by", "superseded_by", "spec", "spec_hash")
        known = pl.col("created_at_before").is_not_null()
        says_the_same = pl.col("run_id").is_in([one.run_id for one in specs if before.get(one.run_id) == one])
        now = pl.col("run_id").replace_strict(superseded, default=None, return_dtype=pl.String)
        stands = pl.col("run_id").is_in(list(standing(step.placed, step.earlier)))
        made = made.join(kept, on="run_id", how="left", suffix="_before").with_columns(
            *(
                pl.when(known).then(f"{name}_before").otherwise(name).alias(name)
                for name in ("created_at", "created_by")
            ),
            *(
                pl.when(says_the_same).then(f"{name}_before").otherwise(name).alias(name)
                for name in ("spec", "spec_hash")
            ),
            superseded_by=pl.when(~stands).then(pl.coalesce(now, "superseded_by_before")),
        )
        others = runs.filter(
            pl.col("run_id").is_in(list(superseded)), ~pl.col("run_id").is_in(made["run_id"].implode())
        )
        return pl.concat(
            [made.select(runs.columns), others.with_columns(superseded_by=now, updated_at=pl.lit(self._now))]
        )

    def _write(
        self,
        runs: pl.DataFrame,
        rows: Batch,
        earlier: Batch,
        derived: Mapping[str, pl.DataFrame],
        emptied: Sequence[str],
    ) -> None:
        """Bring the lake's rows to these; those of `emptied` runs go.

        Args:
            runs: Their rows of `runs`.
            rows: All rows that an import makes of them.
            earlier: Those that the lake has.
            derived: Their scores and metrics, by table.
            emptied: Runs whose rows are others' now.
        """
        lake, old = self._lake, set(self._runs["run_id"])
        if touched := [*runs["run_id"], *emptied]:
            lake.replace("runs", runs, {"run_id": touched})
        for table, fresh in rows.tables.items():
            of_before = earlier.tables[table]
            gone = of_before.filter(
                pl.col("run_id").is_in(rows.answers["run_id"].unique().implode()) | pl.col("run_id").is_in(emptied)
            )
            change = Change.between(gone, fresh)
            if change.replaced:
                lake.replace(table, change.rows, change.replaced)
            if change.added.height:
                lake.append(table, change.added)
        for table, frame in derived.items():
            if (of_new := frame.filter(~pl.col("run_id").is_in(list(old)))).height:
                lake.append(table, of_new)
        if emptied:
            for table in ("scores", "metrics", "pass_outputs"):
                lake.replace(table, TABLES[table].schema.to_frame(), {"run_id": emptied})
        if again := sorted(set(rows.answers["run_id"]) & old):
            self._derive_anew(again)

    def _derive_anew(self, run_ids: Sequence[str]) -> None:
        """What is derived of runs that the lake had, with whatever others have added to them."""
        for table in ("scores", "metrics"):
            self._drop_unjudged(table, run_ids)
        for stage in REMADE:
            reprocess_imported(stage, run_ids, list(BENCHMARKS), self._workspace)

    def _drop_unjudged(self, table: str, run_ids: Sequence[str]) -> None:
        """Let no scores or metrics be there whose judgements are in another run now."""
        keys = ["run_id", "benchmark", "judge"]
        judged = self._lake.read("judgements", {"run_id": run_ids}, keys).unique()
        stored = self._lake.read(table, {"run_id": run_ids})
        if (gone := stored.join(judged, on=keys, how="anti")).height:
            runs = pl.col("run_id").is_in(gone["run_id"].implode())
            stays = stored.filter(runs).join(judged, on=keys, how="semi")
            self._lake.replace(table, stays, {"run_id": gone["run_id"].unique().to_list()})

    def _derived(self, rows: Batch, plan: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Scores and metrics, by the SQL that derives them for every other run."""
        settings = self._workspace.settings
        judges = rows.judgements.select("run_id", "benchmark", "judge").unique()
        if judges.is_empty():
            return SCORES.schema.to_frame(), METRICS.schema.to_frame()
        with connected() as connection:
            connection.execute("create schema lake")
            _define(connection, "answers", rows.answers)
            _define(connection, "judgements", rows.judgements)
            _define(connection, "consensus", CONSENSUS.schema.to_frame())
            scores = derive("scores", connection, {"run_judges": judges}, settings)
            _define(connection, "scores", scores)
            metrics = derive("metrics", connection, {"plan": with_scales(plan)}, settings)
        return scores, metrics

    def _store_quarantine(self, step: _Step) -> None:
        """Say what could not be read, for each tree that has it."""
        keys = {"import_tag": self._request.tag, "model": list(step.models)}
        before = self._lake.read("legacy_quarantine", keys)
        known = before.rename({"source_sha256": "sha256", "source_line": "line", "sha256": "line_sha256"})
        said = pl.concat(
            [
                step.quarantine,
                known.select(
                    pl.lit(None, pl.String).alias(name) if name in {"kind", "judge"} else name
                    for name in step.quarantine.columns
                ),
            ]
        )
        main = step.current.filter(status="imported").select("source", "path", "model", "sha256")
        rows = (
            said.unique(["model", "sha256", "line"], keep="first", maintain_order=True)
            .drop("kind", "judge")
            .join(main, on=["model", "sha256"])
            .select(
                *("source", "path", "model", "line", "reason", "raw", "raw_encoding", "size"),
                import_tag=pl.lit(self._request.tag),
                source_sha256="sha256",
                source_line="line",
                sha256="line_sha256",
            )
            .drop("line")
        )
        if rows.hash_rows().sort().to_list() != before.select(rows.columns).hash_rows().sort().to_list():
            self._lake.replace("legacy_quarantine", rows, keys)

    def _store_files(self, rows: pl.DataFrame) -> None:
        """Say what became of these files."""
        files = updated(self._files, rows, self._request.tag, self._now)
        if not files.equals(self._files):
            self._files = files
            self._lake.replace("legacy_files", files, {"import_tag": self._request.tag})


def _stored_sets(lake: Lake) -> list[QuestionSet]:
    """The registered sets that the lake has; parts of files are placed by them."""
    found = (stored_question_set(lake, name.partition("@")[0], name=name) for name in known_sets())
    return [questions for questions in found if questions]


def imported_runs(lake: Lake, tag: str) -> pl.DataFrame:
    """The rows of `runs` that imports under this tag have made."""
    # Until there was a run for each tree they did not say it.
    of_before = pl.col("import_tag").is_null() & pl.col("run_tag").str.contains(rf"^{re.escape(tag)}(-gen\d+)?$")
    return lake.read("runs").filter(OF_TREE, of_before | (pl.col("import_tag") == tag))


def _plan_of(rows: Batch, sizes: Mapping[str, int]) -> pl.DataFrame:
    """What each run has planned.

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


def _specs(
    rows: Batch,
    plan: pl.DataFrame,
    sources: Mapping[str, str],
    sets: Mapping[str, QuestionSet],
    before: Mapping[str, RunSpec],
) -> list[RunSpec]:
    """What is known of each run, with the judges and passes that were added to it."""
    planned: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
    columns = ("run_id", "benchmark", "question_set", "n_planned")
    for run_id, *benchmark in plan.sort("run_id", "benchmark").select(columns).iter_rows():
        planned[run_id].append(tuple(benchmark))
    judged: dict[tuple[str, str], list[str]] = defaultdict(list)
    judges = rows.judgements.select("run_id", "benchmark", "judge").unique().sort("judge")
    for run_id, benchmark, judge in judges.iter_rows():
        judged[run_id, benchmark].append(judge)
    specs = []
    runs = rows.answers.select("run_id", "model", "run_tag", "generation").unique().sort("run_id")
    for run_id, model, run_tag, generation in runs.iter_rows():
        own = before.get(run_id)
        benchmarks = {
            benchmark: BenchmarkSpec(
                question_set=name,
                question_set_sha256=sets[name].sha256,
                n_questions=len(sets[name].questions),
                source=sets[name].source,
                source_revision=sets[name].source_revision,
                prompt_hash=None,
                temperature=None,
                max_tokens=None,
                frequency_penalty=None,
                judges=own.benchmarks[benchmark].judges if own and benchmark in own.benchmarks else (),
                imported_judges=tuple(judged[run_id, benchmark]),
                imported_samples=n_planned,
            )
            for benchmark, name, n_planned in planned[run_id]
        }
        names = sorted({name for one in benchmarks.values() for name in one.imported_judges})
        judges_known = (ImportedJudge(**asdict(one), config_hash=one.config_hash) for one in map(legacy_judge, names))
        specs.append(
            RunSpec(
                origin="imported",
                imported=ImportedSpec(
                    display_name=display_name(model),
                    generation=generation,
                    source=sources[run_id],
                    judges=tuple(judges_known),
                    not_recorded=NOT_RECORDED,
                ),
                model=model,
                run_tag=run_tag,
                endpoint=None,
                benchmarks=benchmarks,
                judges=own.judges if own else (),
                passes=own.passes if own else (),
            )
        )
    return specs


def _spec_rows(specs: Sequence[RunSpec], metrics: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """Rows of `runs`: the specs, and whether everything has a score."""
    failed = set(metrics.filter(pl.col("n_failed") > 0, null_policy="legacy").select("run_id", "benchmark").iter_rows())
    rows = []
    for spec in specs:
        states = {
            name: "complete" if one.imported_judges and (spec.run_id, name) not in failed else "partial"
            for name, one in spec.benchmarks.items()
        }
        rows.append(
            {
                "run_id": spec.run_id,
                "model": spec.model,
                "run_tag": spec.run_tag,
                "base_tag": spec.run_tag,
                "source": spec.imported.source if spec.imported else None,
                "spec": spec.model_dump_json(),
                "spec_hash": spec.spec_hash,
                "status": "complete" if set(states.values()) == {"complete"} else "partial",
                "status_by_benchmark": orjson.dumps(states).decode(),
                "created_at": now,
                "updated_at": now,
                "package_version": VERSION,
                **code_version(),
            }
        )
    return conform(RUNS, pl.DataFrame(rows, schema_overrides=RUNS.schema) if rows else RUNS.schema.to_frame())


def _define(connection: duckdb.DuckDBPyConnection, table: str, frame: pl.DataFrame) -> None:
    """Let `lake.{table}` be the frame's columns that scores and metrics are derived from."""
    slim = frame.select(pl.exclude("answer", "raw_answer", "thinking", "judge_output", "legacy_fields"))
    connection.register(f"{table}_frame", slim)
    connection.execute(f"create view lake.{table} as from {table}_frame")


@contextmanager
def importing_alone(warehouse: Path) -> Iterator[None]:
    """Within this context no other process imports.

    Raises:
        ConfigurationError: The lake can only be read.
        PartitionBusyError: Another one does.
    """
    Lake(warehouse).check_writable()
    with alone(warehouse, "legacy_import", "another process is importing: wait for it, or stop it"):
        yield
