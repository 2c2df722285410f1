"""Imports of other tools' logs into the lake, in whatever format an `Importer` reads them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import orjson
import polars as pl

from shaberi_dagster.exchange.importer import (
    Entry,
    ImportedSample,
    ImportedVerdict,
    Importer,
    ImportSource,
    Key,
    Row,
    RunPart,
)
from shaberi_dagster.exchange.importing import (
    Import,
    ImportedRows,
    imported_benchmark,
    imported_run,
    importing_alone,
    run_rows,
)
from shaberi_dagster.exchange.rejected import Rejected
from shaberi_dagster.exchange.reporting import FileCounts, ImportReport
from shaberi_dagster.lake.schemas import ANSWERS, CONSENSUS, JUDGEMENTS, LEGACY_FILES, LEGACY_REPEATS
from shaberi_dagster.llm.thinking import answer_state
from shaberi_dagster.plugins.discovery import PluginRegistry, class_in
from shaberi_dagster.runs.questions import store_question_set
from shaberi_dagster.runs.spec import BenchmarkSpec, ImportedSpec, RunSpec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.benchmarks.questions import Question, QuestionSet, content_sha256, set_name_of
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import run_id_of, sha256_json, sha256_text

_MESSAGE_LENGTH = 300
IMPORTERS = PluginRegistry("importer", "importers", ".py", {}, read=class_in(Importer))
"""The class of each format that plugin folders read."""


def import_logs(importer: Importer, paths: Iterable[Path], workspace: Workspace) -> ImportReport:
    """Bring everything of some files into the lake that is not there yet.

    Args:
        importer: Their format.
        paths: Files, or folders with files.
        workspace: Where to write, and whom to tell.

    Returns:
        What became of every file.

    Raises:
        ConfigurationError: A path does not exist, there is nothing of the format in it, or a run of that name is no
            import of this format.
        PartitionBusyError: Another process is importing.
    """
    with importing_alone(workspace.settings.warehouse):
        return _LogImport(importer, paths, workspace).run()


@dataclass
class _Question:
    """A question of a run's benchmark with all its rows.

    Attributes:
        name: The source's id.
        order: Where it comes among the questions: when and from which file it was imported, and its line there.
        text: The question itself; None where its text is not known.
        answers: Rows of `answers`.
        judgements: Rows of `judgements`.
    """

    name: str
    order: tuple[datetime, str, int]
    text: Question | None
    answers: list[Row]
    judgements: list[Row]

    @property
    def samples(self) -> dict[int, list[Row]]:
        """The rows of each sample."""
        found = defaultdict(list)
        for row in (*self.answers, *self.judgements):
            found[row["sample_index"]].append(row)
        return found

    def take(self, other: "_Question") -> tuple[bool, list[int]]:
        """Take the samples of another file that are missing or have failed here.

        Returns:
            Whether there were any, and the samples that have an answer here and another one there.
        """
        own, taken, unlike = self.samples, False, list[int]()
        for index, rows in other.samples.items():
            if index not in own or (_is_answered(rows) and not _is_answered(own[index])):
                own[index], taken = rows, True
            elif _is_answered(rows) and _content(rows) != _content(own[index]):
                unlike.append(index)
        rows = [row for _, of_sample in sorted(own.items()) for row in of_sample]
        self.answers = [row for row in rows if "judge" not in row]
        self.judgements = [row for row in rows if "judge" in row]
        return taken, unlike


def _is_answered(rows: Sequence[Row]) -> bool:
    return any(row["status"] == "ok" for row in rows)


def _content(rows: Sequence[Row]) -> Counter[bytes]:
    """Return the values of rows, wherever and whenever they were read."""
    return Counter(orjson.dumps([row.get(name) for name in _CONTENT]) for row in rows)


_CONTENT = (
    *("sample_index", "answer", "raw_answer", "status", "error_message", "latency_seconds"),
    *("judge", "score", "legacy_fields"),
)


@dataclass
class _Benchmark:
    """A benchmark of a run.

    Attributes:
        samples: Answers to each question as planned.
        questions: Its questions, by the source's ids.
        asked: Its questions as a set; made by `resolve`.
    """

    samples: int = 1
    questions: dict[str, _Question] = field(default_factory=dict)
    asked: QuestionSet = field(init=False)

    @property
    def known(self) -> list[bool]:
        """For each question true where its text is known."""
        return [question.text is not None for question in self.questions.values()]

    @property
    def state(self) -> str:
        """Its state: complete when every sample that was planned has a verdict."""
        rows = [{row["sample_index"] for row in question.judgements} for question in self.questions.values()]
        return "complete" if sum(map(len, rows)) == len(self.questions) * self.samples else "partial"

    def resolve(self, name: str, title: str, known: QuestionSet | None = None) -> None:
        """Give its rows the ids of their questions, and the set that these are.

        Args:
            name: The benchmark.
            title: What its questions come from.
            known: The set that all of them are of, if there is one.
        """
        if known is not None:
            own = tuple(question for question in known.questions if question.question_id in self.questions)
            sha256 = content_sha256(own)
            self.asked = replace(known, name=set_name_of(name, len(own), sha256), sha256=sha256, questions=own)
            ids = {question: question for question in self.questions}
        else:
            asked = []
            for position, question in enumerate(sorted(self.questions.values(), key=lambda one: one.order), start=1):
                unknown_id = unknown_question_id(title, name, question.name)
                text = question.text or Question(unknown_id, position, question.name, None, "", None, None)
                asked.append(replace(text, position=position, upstream_id=question.name))
            sha256 = content_sha256(asked)
            self.asked = QuestionSet(name, set_name_of(name, len(asked), sha256), sha256, tuple(asked), title)
            ids = {str(text.upstream_id): text.question_id for text in asked}
        for question in self.questions.values():
            for row in (*question.answers, *question.judgements):
                row.update(question_id=ids[question.name], question_set=self.asked.name)

    def spec(self, before: BenchmarkSpec | None, temperature: float | None) -> BenchmarkSpec:
        """Tell what is known of it, with what was added to it here.

        Args:
            before: What the lake knows of it.
            temperature: Of the answers.
        """
        judges = {row["judge"] for question in self.questions.values() for row in question.judgements}
        return imported_benchmark(
            self.asked,
            before,
            question_texts="known" if all(self.known) else "some known" if any(self.known) else "unknown",
            temperature=temperature,
            samples=self.samples,
            imported_judges=tuple(sorted(judges)),
            imported_samples=len(self.questions) * self.samples,
        )


@dataclass
class _Run:
    """A run that files are parts of, or whose questions they may tell the texts of.

    Attributes:
        model: The model.
        run_tag: The tag.
        temperature: Of the answers; None where it is not known.
        row: Its row of `runs`; None of a run that the lake has not.
        spec: What that row says.
        benchmarks: Its benchmarks.
    """

    model: str
    run_tag: str
    temperature: float | None = None
    row: Row | None = None
    spec: RunSpec | None = None
    benchmarks: dict[str, _Benchmark] = field(default_factory=lambda: defaultdict(_Benchmark))


class _LogImport(Import):
    """The import of some files of one format."""

    def __init__(self, importer: Importer, paths: Iterable[Path], workspace: Workspace) -> None:
        super().__init__(importer.name, workspace)
        self._importer, self._paths = importer, list(paths)
        self._versions = self.lake.versions()
        self._sources: list[ImportSource] = []
        self._runs: dict[str, _Run] = {}
        self._named: set[str] = set()  # those that files are parts of

    def run(self) -> ImportReport:
        """Import what is not there yet."""
        self._read()
        self._commit(*self._place())
        return self._report()

    def _read(self) -> None:
        """Read all files at once: one can tell the text of a question of another."""
        self._sources = self._importer.sources(self._paths)
        self.progress.total = len(self._sources)
        for source in self._sources:
            self._importer.read(source)
            self.advance(1, len(source.rejected))
        if not any(source.kind != "unknown" or source.rejected for source in self._sources):
            kind = f"{self._importer.suffix.removeprefix('.').upper()} files".strip()
            places = f"{', '.join(map(str, self._paths))}, among {len(self._sources)} {kind}"
            raise ConfigurationError(f"no {self._importer.what} in {places}")

    def _place(self) -> tuple[ImportedRows, ImportedRows]:
        """Put the entries of files together with what the lake has of their runs.

        Returns:
            All rows that an import makes of the runs, and those of them that the lake has.
        """
        readable = _without_duplicates(self._sources)
        parts = {part for source in readable for part in source.parts}
        runs = {part.run_id: _Run(part.model, part.run_tag) for part in parts}
        self._named = set(runs)
        earlier = self._recall(self._without_texts({part.benchmark for part in parts}) | runs)
        for part in parts:
            run = self._runs[part.run_id]
            run.benchmarks[part.benchmark].samples = max(part.samples, run.benchmarks[part.benchmark].samples)
            if run.spec is None and run.temperature is None:
                run.temperature = part.temperature
        for source in readable:
            self._take(source)
        self._resolve({part.benchmark for part in parts} | {name for _, name, _ in self._benchmarks()})
        questions = [question for *_, benchmark in self._benchmarks() for question in benchmark.questions.values()]
        rows = ImportedRows(
            pl.DataFrame([row for question in questions for row in question.answers], ANSWERS.schema),
            pl.DataFrame([row for question in questions for row in question.judgements], JUDGEMENTS.schema),
            LEGACY_REPEATS.schema.to_frame(),
        )
        return rows, earlier

    def _commit(self, rows: ImportedRows, earlier: ImportedRows) -> None:
        """Write questions, runs, their rows and what became of the files, where they differ from what is there."""
        for *_, benchmark in self._benchmarks():
            if all(benchmark.known):
                store_question_set(self.lake, benchmark.asked)
        made = run_rows(list(self._run_rows()))
        if self._runs:
            self._name_consensus()
            rows = replace(rows, judgements=self.below_others(rows.judgements))
            self.write(made, rows, earlier, again=self._runs)
        self._write_sources()

    def _report(self) -> ImportReport:
        """Count what was found in the files against the rows that the lake has now."""
        texts: dict[tuple[str, str], bool] = defaultdict(bool)
        for _, name, benchmark in self._benchmarks():
            for question in benchmark.questions.values():
                texts[name, question.name] |= question.text is not None
        quarantine = self.lake.read("legacy_quarantine", {"import_tag": self.tag})
        rows = ImportedRows.stored(self.lake, sorted(self._runs))
        answers, judgements = _by_question(rows.answers), _by_question(rows.judgements)
        return ImportReport(
            [_count(source, answers, judgements) for source in self._sources],
            sorted(self._named),
            sum(texts.values()),
            len(texts) - sum(texts.values()),
            quarantine.join(_paths(self._sources), on=["source", "path"], how="semi").sort(
                "source", "path", "source_line", "reason"
            ),
            self.lake.versions() != self._versions,
        )

    def _benchmarks(self) -> list[tuple[_Run, str, _Benchmark]]:
        """List the benchmarks of which there are questions, with their runs and names."""
        return [
            (run, name, benchmark)
            for run in self._runs.values()
            for name, benchmark in sorted(run.benchmarks.items())
            if benchmark.questions
        ]

    def _without_texts(self, benchmarks: set[str]) -> dict[str, _Run]:
        """Find imported runs with questions of these benchmarks whose texts were not known: now they may be."""
        found = {}
        for run_id, text in self.lake.read("runs", columns=["run_id", "spec"]).iter_rows():
            spec = RunSpec.read(text)
            without = any(spec.benchmarks[name].question_texts != "known" for name in benchmarks & set(spec.benchmarks))
            if without and self._is_ours(spec):
                found[run_id] = _Run(spec.model, spec.run_tag)
        return found

    def _is_ours(self, spec: RunSpec) -> bool:
        return spec.imported is not None and spec.imported.source == self._importer.title

    def _recall(self, runs: Mapping[str, _Run]) -> ImportedRows:
        """Take in some runs with what the lake has of them."""
        self._runs |= runs
        run_ids = sorted(runs)
        for row in self.lake.read("runs", {"run_id": run_ids}).iter_rows(named=True):
            run, spec = runs[row["run_id"]], RunSpec.read(row["spec"])
            if not self._is_ours(spec):
                plural = self._importer.plural
                raise ConfigurationError(
                    f"run {row['run_id']} is there and was not imported from {plural}: rename the model"
                )
            run.row, run.spec = row, spec
            for name, benchmark in spec.benchmarks.items():
                run.temperature = benchmark.temperature
                run.benchmarks[name].samples = benchmark.samples
        earlier = ImportedRows.stored(self.lake, run_ids)
        answered, judged = _by_question(earlier.answers), _by_question(earlier.judgements)
        texts = self._stored_texts({key[1] for key in answered})
        for key, answers in answered.items():
            run_id, of_benchmark, name = key
            first = answers[0]
            order = first["created_at"], first["source_sha256"], first["source_line"]
            text = texts.get((of_benchmark, first["question_id"]))
            question = _Question(name, order, text, answers, judged.get(key, []))
            runs[run_id].benchmarks[of_benchmark].questions[name] = question
        return earlier

    def _stored_texts(self, benchmarks: Iterable[str]) -> dict[tuple[str, str], Question]:
        """Read the questions of earlier imports by benchmark and id."""
        own = {} if self._importer.known else {"source": self._importer.title}
        rows = self.lake.read("questions", {**own, "benchmark": sorted(benchmarks)})
        return {(row["benchmark"], row["question_id"]): Question.from_row(row) for row in rows.iter_rows(named=True)}

    def _take(self, source: ImportSource) -> None:
        """Add the questions of a file that their runs have not yet."""
        source.imported = []
        for entry in source.entries:
            questions = self._runs[entry.part.run_id].benchmarks[entry.part.benchmark].questions
            question = self._question(source, entry)
            earlier = questions.setdefault(entry.name, question)
            if earlier is question:
                source.imported.append(entry)
            else:
                taken, unlike = earlier.take(question)
                kept = [sample for sample in entry.samples if sample.index not in unlike]
                for index in unlike if kept else unlike[:1]:
                    reason = f"has another answer than the one that stands (sample {index})"
                    what, value = "response" if kept else "entry", orjson.dumps(entry.value)
                    source.reject(Rejected.of(entry.line, reason, value, what=what, pointer=entry.pointer))
                if unlike and not kept:
                    continue
                n_samples = len(entry.samples) if entry.n_samples is None else entry.n_samples
                source.imported.append(replace(entry, samples=kept, n_samples=n_samples))
                earlier.text = earlier.text or question.text
                source.repeated += not taken

    def _question(self, source: ImportSource, entry: Entry) -> _Question:
        """Make the rows of an entry; ids of questions and sets are known when all files are read."""
        importer, part = self._importer, entry.part
        own: Row = {
            "run_id": part.run_id,
            "model": part.model,
            "run_tag": part.run_tag,
            "benchmark": part.benchmark,
            "created_at": self.now,
            "source_sha256": source.sha256,
            "source_line": entry.line,
        }
        judged = own | {"not_recorded": importer.not_recorded_by_judges}
        text = entry.asked
        if text is None and entry.question is not None:
            question_id = sha256_text(entry.question)
            text = Question(question_id, 1, entry.name, entry.category, entry.question, entry.reference, None)
        return _Question(
            entry.name,
            (self.now, source.sha256 or "", entry.line),
            text,
            [own | {"not_recorded": importer.not_recorded} | _answer(entry, sample) for sample in entry.samples],
            [judged | _judgement(entry, sample, verdict) for sample in entry.samples for verdict in sample.verdicts],
        )

    def _resolve(self, benchmarks: set[str]) -> None:
        """Give each question its text where all that is known of it agrees, and the rows its id and its set."""
        found: dict[tuple[str, str], dict[str, Question]] = defaultdict(dict)
        for (name, question_id), text in self._stored_texts(benchmarks).items():
            found[name, text.upstream_id or ""][question_id] = text
        for _, name, benchmark in self._benchmarks():
            for question in benchmark.questions.values():
                if question.text is not None:
                    found[name, question.name].setdefault(question.text.question_id, question.text)
        known = {key: next(iter(texts.values())) for key, texts in found.items() if len(texts) == 1}
        for _, name, benchmark in self._benchmarks():
            for question in benchmark.questions.values():
                question.text = question.text or known.get((name, question.name))
            benchmark.resolve(name, self._importer.title, self._importer.known.get(name))

    def _name_consensus(self) -> None:
        """Let what strategies made here of the samples have the name of the set as it is now."""
        keys = {"run_id": sorted(self._runs)}
        names = pl.DataFrame(
            [
                (run_id_of(run.model, run.run_tag), name, benchmark.asked.name)
                for run, name, benchmark in self._benchmarks()
            ],
            schema=dict.fromkeys(("run_id", "benchmark", "question_set"), pl.String),
            orient="row",
        )
        made = self.lake.read(CONSENSUS.name, keys)
        self.lake.update(CONSENSUS.name, made.update(names, on=["run_id", "benchmark"]), keys)

    def _run_rows(self) -> Iterator[Row]:
        """Make the rows of `runs` that are new or differ."""
        for run in self._runs.values():
            spec = self._spec(run)
            states = orjson.loads((run.row or {}).get("status_by_benchmark") or "{}")
            # What is judged here has the state that its judges have left it in.
            states |= {name: run.benchmarks[name].state for name in spec.benchmarks if not spec.is_made_here(name)}
            row = self.run_row(spec, states, run.row, run.spec)
            told = ("spec", "status", "status_by_benchmark")
            if not run.row or any(row[name] != run.row[name] for name in told):
                yield row

    def _spec(self, run: _Run) -> RunSpec:
        """Tell what is known of a run, with the judges, strategies and passes that were added to it."""
        importer = self._importer
        imported = ImportedSpec(
            form=importer.form,
            display_name=run.model,
            generation=1,
            source=importer.title,
            judges=(),
            not_recorded=importer.not_recorded,
        )
        benchmarks = {
            name: benchmark.spec(run.spec.benchmarks.get(name) if run.spec else None, run.temperature)
            for name, benchmark in sorted(run.benchmarks.items())
            if benchmark.questions
        }
        return imported_run(run.model, run.run_tag, benchmarks, imported, run.spec)

    def _write_sources(self) -> None:
        """Tell what became of the files; a file that is there as it was keeps its first row."""
        keys = {"import_tag": self.tag}
        rows = pl.DataFrame([self._file_row(source) for source in self._sources], LEGACY_FILES.schema)
        same = ["source", "path", "sha256", "status", "benchmark"]
        fresh = rows.join(self.files, on=same, how="anti", nulls_equal=True)
        old = self.files.join(fresh, on=["source", "path"], how="anti")
        self.lake.update("legacy_files", pl.concat([old, fresh]), keys)
        parts = [
            {
                **keys,
                "source": source.name,
                "path": source.path,
                "model": source.part.model if source.part else None,
                "source_sha256": source.sha256,
                **part.row,
            }
            for source in self._sources
            for part in source.rejected
        ]
        stored = self.lake.read("legacy_quarantine", keys).join(
            _paths(self._sources), on=["source", "path"], how="anti"
        )
        self.lake.update("legacy_quarantine", pl.concat([stored, pl.DataFrame(parts, stored.schema)]), keys)

    def _file_row(self, source: ImportSource) -> Row:
        there = source.imported or []
        sets = [self._runs[entry.part.run_id].benchmarks[entry.part.benchmark].asked.name for entry in there[:1]]
        benchmark, model = (source.part.benchmark, source.part.model) if source.part else (None, None)
        return {
            "import_tag": self.tag,
            "source": source.name,
            "path": source.path,
            "root": str(source.root),
            "sha256": source.sha256,
            "size": source.size,
            "modified_ns": None,
            "kind": source.kind,
            "dataset": benchmark,
            "model": model,
            "status": source.status,
            "reason": source.reason,
            "duplicate_of": source.duplicate_of,
            "benchmark": benchmark,
            "question_set": next(iter(sets), None),
            "lines": source.n_entries,
            "blank": 0,
            "imported": len(there) - source.repeated,
            "repeated": source.repeated,
            "quarantined": source.n_entries - len(there) if source.duplicate_of is None else 0,
            "imported_at": self.now,
        }


def _count(
    source: ImportSource, answers: Mapping[Key, Sequence[Row]], judgements: Mapping[Key, Sequence[Row]]
) -> FileCounts:
    counts = FileCounts(f"{source.name}/{source.path}", source.kind, source.status, source.reason)
    if source.imported is None:
        return counts
    lines = {entry.line for entry in source.imported}
    parts = Counter(part.what for part in source.rejected if part.line in lines)
    own = [row for entry in source.imported for row in _rows_of(entry, answers, entry.samples)]
    judged = [(entry, [sample for sample in entry.samples if sample.verdicts]) for entry in source.imported]
    return counts._replace(
        entries=source.n_entries,
        entries_imported=len(source.imported) - source.repeated,
        entries_repeated=source.repeated,
        entries_quarantined=len({part.line for part in source.rejected if part.what == "entry"}),
        responses=sum(len(entry.samples) if entry.n_samples is None else entry.n_samples for entry in source.imported),
        answers=len(own),
        errors=sum(row["status"] == "error" for row in own),
        responses_quarantined=parts["response"],
        verdicts=sum(
            sum(len(sample.verdicts) for sample in entry.samples) if entry.n_verdicts is None else entry.n_verdicts
            for entry in source.imported
        ),
        judgements=sum(len(_rows_of(entry, judgements, samples)) for entry, samples in judged),
        verdicts_quarantined=parts["verdict"],
    )


def _rows_of(entry: Entry, rows: Mapping[Key, Sequence[Row]], samples: Sequence[ImportedSample]) -> list[Row]:
    indexes = {sample.index for sample in samples}
    return [row for row in rows.get(entry.key, []) if row["sample_index"] in indexes]


def unknown_question_id(title: str, benchmark: str, name: str) -> str:
    """Return the id of a question whose text is not known, from the source's own id."""
    return sha256_text(f"{title} {benchmark} {name}")


def _without_duplicates(sources: Sequence[ImportSource]) -> list[ImportSource]:
    """Return the files that can be read, each content once."""
    first: dict[tuple[str, RunPart | None], ImportSource] = {}
    for source in sources:
        if source.reason is None and source.sha256:
            original = first.setdefault((source.sha256, source.part), source)
            if original is not source:
                source.duplicate_of = f"{original.name}:{original.path}"
    return list(first.values())


def _paths(sources: Sequence[ImportSource]) -> pl.DataFrame:
    schema = dict.fromkeys(("source", "path"), pl.String)
    return pl.DataFrame([(source.name, source.path) for source in sources], schema, orient="row")


def _by_question(frame: pl.DataFrame) -> dict[Key, list[Row]]:
    found: dict[Key, list[Row]] = defaultdict(list)
    for row in frame.iter_rows(named=True):
        found[row["run_id"], row["benchmark"], orjson.loads(row["legacy_fields"])["questionId"]].append(row)
    return found


def _answer(entry: Entry, sample: ImportedSample) -> Row:
    row: Row = {
        "sample_index": sample.index,
        "legacy_fields": orjson.dumps({"questionId": entry.name, **entry.fields, **sample.fields}).decode(),
    }
    if sample.error is not None:
        message = " ".join(sample.error[: 2 * _MESSAGE_LENGTH].split())[:_MESSAGE_LENGTH]
        failed = {"status": "error", "error_class": sample.error_class, "error_message": message}
        return row | failed | {"raw_answer": sample.text or None}
    return row | {
        "status": "ok",
        "answer": sample.text,
        "answer_hash": sha256_text(sample.text),
        "answer_state": answer_state(sample.text),
        "latency_seconds": sample.latency_seconds,
        **sample.columns,
    }


def _judgement(entry: Entry, sample: ImportedSample, verdict: ImportedVerdict) -> Row:
    fields = {"questionId": entry.name, **verdict.settings, **verdict.fields}
    known = ALL_BENCHMARKS.get(entry.part.benchmark)
    return {
        "sample_index": sample.index,
        "judge": verdict.judge,
        "judge_config_hash": sha256_json({"legacy": verdict.judge, **verdict.settings}),
        "judge_round": 0,
        "judge_prompt_version_source": "unknown",
        "judge_output": verdict.output,
        "score": float(verdict.score),
        "recorded_score": orjson.dumps(verdict.score).decode(),
        "score_source": "recorded",
        "out_of_scale": known is not None and not known.scale_minimum <= verdict.score <= known.scale_maximum,
        "status": "ok",
        "answer_hash": sha256_text(sample.text),
        "answer_link": "stored",
        "superseded": False,
        "legacy_fields": orjson.dumps(fields).decode(),
    }
