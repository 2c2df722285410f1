"""Importers of other tools' logs: a format is one class that reads its files, and the base does everything else.

A file has *entries*: a question with the samples that a model answered and the verdicts on them. What is in the lake is
never replaced: a file adds the entries that its run has not yet, and one that says something else is set aside.
"""

import hashlib
import os
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import orjson
import polars as pl

from shaberi_dagster.benchmarks.questions import Question, QuestionSet, content_sha256, set_name_of
from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.exchange.importing import (
    Import,
    ImportedRows,
    imported_benchmark,
    imported_run,
    importing_alone,
    run_rows,
)
from shaberi_dagster.exchange.rejected import Rejected
from shaberi_dagster.lake.schemas import ANSWERS, JUDGEMENTS, LEGACY_FILES, LEGACY_REPEATS
from shaberi_dagster.llm.thinking import answer_state
from shaberi_dagster.runs.questions import store_question_set
from shaberi_dagster.runs.spec import BenchmarkSpec, ImportedSpec, RunSpec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.util.identity import run_id_of, sha256_json, sha256_text

MOST_FILES = 100_000
MOST_FILE_BYTES = 1 << 30
"""A larger file is none; the largest one known has a thousandth of it."""
_MESSAGE_LENGTH = 300

Row = dict[str, Any]


class RunPart(NamedTuple):
    """A benchmark of a run.

    Attributes:
        model: The model.
        run_tag: Tag of the run.
        benchmark: The benchmark.
        samples: Answers to each question as planned.
        temperature: Of the answers; None where it is not recorded.
    """

    model: str
    run_tag: str
    benchmark: str
    samples: int = 1
    temperature: float | None = None

    @property
    def place(self) -> "_Place":
        """The identity of the run, and the benchmark."""
        return run_id_of(self.model, self.run_tag), self.benchmark


@dataclass(frozen=True)
class ImportedVerdict:
    """A judge's verdict on a sample.

    Attributes:
        judge: The judge.
        score: As recorded.
        settings: What else is known of the judge.
        fields: What else is recorded of the verdict.
        output: The judge's text.
    """

    judge: str
    score: float | bool
    settings: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    output: str | None = None


@dataclass(frozen=True)
class ImportedSample:
    """One answer to a question.

    Attributes:
        index: Which of the answers, from 0.
        text: Its text; of a failed one what had come until then.
        error: Why it failed; None if it did not.
        latency_seconds: How long it took.
        fields: What else is recorded.
        verdicts: What judges said of it.
    """

    index: int
    text: str
    error: str | None = None
    latency_seconds: float | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    verdicts: Sequence[ImportedVerdict] = ()


@dataclass(frozen=True)
class Entry:
    """A question with the samples of a run: what is imported, repeated or set aside as a whole.

    Attributes:
        line: Where it stands in its file, from 1.
        part: Of which run and benchmark it is.
        name: The source's own id of the question.
        samples: Those that can be read.
        question: The question's text; None where it is not recorded.
        reference: The right answer, likewise.
        category: Of the question, likewise.
        fields: What else is recorded.
        value: The entry as it stands in the file.
        pointer: Its place in a document, as a JSON pointer.
        n_samples: Samples in all; None: all can be read.
        n_verdicts: Verdicts in all, likewise.
    """

    line: int
    part: RunPart
    name: str
    samples: Sequence[ImportedSample]
    question: str | None = None
    reference: str | None = None
    category: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    value: Any = None
    pointer: str = ""
    n_samples: int | None = None
    n_verdicts: int | None = None


@dataclass
class ImportSource:
    """A file, and what was found in it.

    Attributes:
        root: The folder that was named, or the file's own.
        location: Where it lies.
        size: In bytes.
        modified_ns: When it was last written, in nanoseconds since 1970.
        sha256: Of its bytes; None when it could not be read.
        kind: What it is; `unknown` is none of the format's files.
        reason: Why it is not read, or cannot be; None if it can.
        part: The run and benchmark that all of it is of; None until it is known.
        entries: Those that can be read.
        n_entries: How many there are in all.
        rejected: The parts that cannot become rows.
        duplicate_of: source:path of a file with the same bytes.
        stored: Its row of `legacy_files`, if it was read before and is not read again.
    """

    root: Path
    location: Path
    size: int | None = None
    modified_ns: int | None = None
    sha256: str | None = None
    kind: str = "unknown"
    reason: str | None = None
    part: RunPart | None = None
    entries: list[Entry] = field(default_factory=list)
    n_entries: int = 0
    rejected: list[Rejected] = field(default_factory=list)
    duplicate_of: str | None = None
    stored: Row | None = None

    @classmethod
    def at(cls, root: Path, location: Path) -> Self:
        """Look at a file without reading it."""
        source = cls(root, location)
        try:
            status = location.stat()
        except OSError as error:
            source.reason = f"cannot be read: {error.strerror or error}"
        else:
            source.size, source.modified_ns = status.st_size, status.st_mtime_ns
            if source.size > MOST_FILE_BYTES:
                source.reason = f"is larger than {MOST_FILE_BYTES >> 20:,} MiB"
        return source

    @property
    def name(self) -> str:
        """The name of its folder, as `source` has it."""
        return self.root.name or "/"

    @property
    def path(self) -> str:
        r"""Its path in the folder; bytes that are not UTF-8 are shown as `\xNN`."""
        return os.fsencode(self.location.relative_to(self.root)).decode(errors="backslashreplace")

    @property
    def status(self) -> str:
        """Its status in `legacy_files`."""
        if self.stored:
            return str(self.stored["status"])
        if self.duplicate_of:
            return "duplicate"
        if self.reason:
            return "unreadable" if self.rejected or self.sha256 is None else "unknown"
        return "imported"

    def reject(self, rejected: Rejected) -> None:
        """Set a part aside; the whole file is not read where all of it is."""
        self.rejected.append(rejected)
        if rejected.what == "file":
            self.reason = rejected.sentence


class Importer(ABC):
    """A format of files: the runs of another tool.

    Attributes:
        name: `import_tag` of its files in `legacy_files`.
        form: What its runs are imported from, in their specs.
        title: `source` of its question sets.
        what: A file of the format, in messages.
        plural: Several of them.
        suffix: How names of its files end.
        not_recorded: What the files do not say of answers.
        not_recorded_by_judges: What they do not say of verdicts.
        reads_again: Read files that are in the lake once more, since they can tell what the lake does not keep.
    """

    name: ClassVar[str]
    form: ClassVar[Any] = "log"
    title: ClassVar[str]
    what: ClassVar[str]
    plural: ClassVar[str]
    suffix: ClassVar[str] = ".jsonl"
    not_recorded: ClassVar[str] = "settings, tokens, times, finish_reason"
    not_recorded_by_judges: ClassVar[str] = "settings, prompt, tokens, times"
    reads_again: ClassVar[bool] = False

    @abstractmethod
    def entries(self, source: ImportSource, content: bytes) -> Iterable[Entry | Rejected]:
        """Read a file; its `kind`, and `reason` if it is none of the format's files, are set on the way."""

    def sources(self, paths: Iterable[Path]) -> list[ImportSource]:
        """Find the files of folders, and files that are named themselves, each with the folder it was found in.

        Symbolic links in folders are not followed.

        Raises:
            ConfigurationError: There is no such file or folder, or far too much in it.
        """
        found: dict[Path, Path] = {}
        for path in paths:
            place = path.absolute()
            if place.is_file():
                found.setdefault(place, place.parent)
            elif place.is_dir():
                for file in self._below(place):
                    found.setdefault(file, place)
                    if len(found) > MOST_FILES:
                        files = f"{MOST_FILES:,} {self.suffix.removeprefix('.').upper()} files"
                        raise ConfigurationError(f"{path} has more than {files}: name the {self.plural}' folder")
            else:
                raise ConfigurationError(f"{self.title} {path} is neither a file nor a folder")
        return [ImportSource.at(root, place) for place, root in found.items()]

    def _below(self, folder: Path) -> Iterator[Path]:
        for parent, folders, names in os.walk(folder):
            folders.sort()
            for name in sorted(names):
                path = Path(parent) / name
                if name.endswith(self.suffix) and path.is_file() and not path.is_symlink():
                    yield path

    def read(self, source: ImportSource) -> None:
        """Read everything that can be read of a file, and what cannot; never raises for what is in it."""
        if source.reason:
            return
        try:
            content = source.location.read_bytes()
        except OSError as error:
            source.reason = f"cannot be read: {error.strerror or error}"
            return
        source.sha256 = hashlib.sha256(content).hexdigest()
        for part in self.entries(source, content):
            if isinstance(part, Rejected):
                source.reject(part)
            else:
                source.entries.append(part)
                source.part = source.part or part.part
        if source.entries and source.kind == "unknown":
            source.kind = self.form
        source.n_entries = source.n_entries or len(source.entries) + len(
            {part.line for part in source.rejected if part.what == "entry"}
        )


class FileCounts(NamedTuple):
    """What became of a file: entries, responses and verdicts, each imported, repeated or quarantined.

    Attributes:
        path: The file.
        kind: What it is.
        status: imported, duplicate, unknown or unreadable.
        reason: Why it was not imported.
        entries: Entries in all.
        entries_imported: Those that became rows.
        entries_repeated: Those whose rows were in the lake.
        entries_quarantined: Those that could not become rows.
        responses: Responses of the imported entries.
        answers: Rows they became.
        errors: How many of those say an error.
        responses_quarantined: Responses that could not become rows.
        verdicts: Verdicts of the imported entries.
        judgements: Rows they became.
        verdicts_quarantined: Verdicts that could not become rows.
    """

    path: str
    kind: str
    status: str
    reason: str | None = None
    entries: int = 0
    entries_imported: int = 0
    entries_repeated: int = 0
    entries_quarantined: int = 0
    responses: int = 0
    answers: int = 0
    errors: int = 0
    responses_quarantined: int = 0
    verdicts: int = 0
    judgements: int = 0
    verdicts_quarantined: int = 0


@dataclass(frozen=True)
class ImportReport:
    """What an import did.

    Attributes:
        files: What became of each file, in the order of their paths.
        runs: The runs that the files are parts of.
        questions_with_text: Questions of these runs whose text is known, over all benchmarks.
        questions_without_text: The others; their ids are made from the source's ids.
        quarantine: Rows of `legacy_quarantine`.
        changed: Whether anything was written.
    """

    files: Sequence[FileCounts]
    runs: Sequence[str]
    questions_with_text: int
    questions_without_text: int
    quarantine: pl.DataFrame
    changed: bool

    @property
    def n_unreadable(self) -> int:
        """How many files could not be read at all."""
        return sum(file.status == "unreadable" for file in self.files)

    def document(self) -> dict[str, Any]:
        """It as plain values for JSON; of what is quarantined where it is and why."""
        return {
            "files": [file._asdict() for file in self.files],
            "runs": list(self.runs),
            "questions_with_text": self.questions_with_text,
            "questions_without_text": self.questions_without_text,
            "quarantine": self.quarantine.select("source", "path", "source_line", "reason").to_dicts(),
            "unreadable_files": self.n_unreadable,
            "discrepancies": self.discrepancies(),
            "changed": self.changed,
        }

    def discrepancies(self) -> list[str]:
        """Sums that do not agree, one sentence each; none is as it must be."""
        found = []
        for file in self.files:
            sums = {
                "entries": (file.entries, file.entries_imported + file.entries_repeated + file.entries_quarantined),
                "responses": (file.responses, file.answers + file.responses_quarantined),
                "verdicts": (file.verdicts, file.judgements + file.verdicts_quarantined),
            }
            found += [
                f"{file.path}: {there:,} {what}, {became:,} accounted for"
                for what, (there, became) in sums.items()
                if there != became
            ]
        return found


def import_logs(
    importer: Importer, paths: Iterable[Path], workspace: Workspace, *, now: datetime | None = None
) -> ImportReport:
    """Bring everything of some files into the lake that is not there yet.

    Args:
        importer: Their format.
        paths: Files, or folders with files.
        workspace: Where to write, and whom to tell.
        now: `created_at` of the rows; None is now.

    Returns:
        What became of every file.

    Raises:
        ConfigurationError: A path does not exist, there is nothing of the format in it, or a run of that name is no
            import of this format.
        PartitionBusyError: Another process is importing.
    """
    with importing_alone(workspace.settings.warehouse):
        return _LogImport(importer, paths, workspace, now).run()


_Place = tuple[str, str]  # run_id and benchmark
_Key = tuple[_Place, str]  # and the source's id of the question


@dataclass
class _Question:
    """One question of a run's benchmark with all its rows.

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
    def content(self) -> Counter[bytes]:
        """What its rows say, wherever and whenever they were read."""
        return Counter(orjson.dumps([row.get(name) for name in _CONTENT]) for row in (*self.answers, *self.judgements))


_CONTENT = (
    *("sample_index", "answer", "raw_answer", "status", "error_message", "latency_seconds"),
    *("judge", "score", "legacy_fields"),
)


@dataclass(frozen=True)
class _Step:
    """Files with all rows of their runs.

    Attributes:
        sources: The files.
        sets: The questions of each benchmark of each run.
        rows: All rows that an import makes of the runs.
        earlier: Those that the lake has.
    """

    sources: Sequence[ImportSource]
    sets: Mapping[_Place, QuestionSet]
    rows: ImportedRows
    earlier: ImportedRows


class _LogImport(Import[list[ImportSource], _Step, ImportReport]):
    """The import of some files of one format."""

    def __init__(self, importer: Importer, paths: Iterable[Path], workspace: Workspace, now: datetime | None) -> None:
        super().__init__(importer.name, workspace, now)
        self._importer, self._paths = importer, paths
        self._versions = self.lake.versions()
        self._sources: list[ImportSource] = []
        self._taken: dict[int, tuple[list[_Key], int]] = {}  # by the id of a source: its questions, and repeated ones
        self._questions: dict[_Place, dict[str, _Question]] = defaultdict(dict)
        self._samples: dict[_Place, int] = {}
        self._temperatures: dict[str, float | None] = {}
        self._specs: dict[str, RunSpec] = {}  # as the lake has them
        self._runs: dict[str, tuple[str, str]] = {}  # model and tag
        self._named: list[str] = []  # the runs of the files

    def find(self) -> None:
        """Find the files, and which of them the lake has as they are."""
        self._sources = self._importer.sources(self._paths)
        known = {(row["source"], row["path"]): row for row in self.files.iter_rows(named=True)}
        for source in self._sources:
            row = known.get((source.name, source.path))
            if row and row["sha256"] and (row["size"], row["modified_ns"]) == (source.size, source.modified_ns):
                source.stored, source.kind, source.reason = row, row["kind"], row["reason"]

    def read(self) -> Iterator[list[ImportSource]]:
        """Read the others, all of them at once: one can tell the text of a question of another."""
        unread = [source for source in self._sources if not source.stored]
        self.progress.total = len(unread)
        for source in unread:
            self._importer.read(source)
            self.advance(1, len(source.rejected))
        if not any(source.kind != "unknown" or source.rejected for source in self._sources):
            folders = ", ".join(sorted({str(source.root) for source in self._sources}))
            raise ConfigurationError(f"no {self._importer.what} in {folders or 'there'}")
        if unread:
            yield unread

    def place(self, block: list[ImportSource]) -> _Step:
        """Put the entries of files together with what the lake has of their runs."""
        readable = _without_duplicates(block)
        parts = {
            part for source in readable for part in (source.part, *(entry.part for entry in source.entries)) if part
        }
        runs = {part.place[0]: (part.model, part.run_tag) for part in parts}
        self._named = sorted(runs)
        earlier = self._recall(runs | self._without_texts({part.benchmark for part in parts}))
        for part in parts:
            self._samples[part.place] = max(part.samples, self._samples.get(part.place, 0))
            self._temperatures.setdefault(part.place[0], part.temperature)
        self._taken = {id(source): self._take(source) for source in readable}
        known = self._known_texts({part.benchmark for part in parts} | {place[1] for place in self._questions})
        sets = {place: self._resolve(place, known) for place in self._questions}
        questions = [question for of_place in self._questions.values() for question in of_place.values()]
        rows = ImportedRows(
            pl.DataFrame([row for question in questions for row in question.answers], ANSWERS.schema),
            pl.DataFrame([row for question in questions for row in question.judgements], JUDGEMENTS.schema),
            LEGACY_REPEATS.schema.to_frame(),
        )
        return _Step(block, sets, rows, earlier)

    def commit(self, step: _Step) -> pl.DataFrame:
        """Write questions, runs, their rows and what became of the files, where they differ from what is there."""
        for place, questions in step.sets.items():
            if all(question.text for question in self._questions[place].values()):
                store_question_set(self.lake, questions)
        made = run_rows(list(self._run_rows(step.sets)))
        if self._runs:
            self._name_consensus(step.sets)
            rows = replace(step.rows, judgements=self.below_others(step.rows.judgements))
            self.write(made, rows, step.earlier, again=self._runs)
        self._write_sources(step.sources)
        return made

    def report(self, made: Sequence[pl.DataFrame]) -> ImportReport:
        """Count what was found in the files against the rows that the lake has now."""
        del made
        stored = [source.stored["sha256"] for source in self._sources if source.stored]
        known = self.lake.read("answers", {"source_sha256": stored}, ["run_id", "model", "run_tag"]).unique()
        self._recall({run_id: (model, tag) for run_id, model, tag in known.iter_rows() if run_id not in self._runs})
        texts = {
            (place[1], question.name): question.text
            for place, questions in self._questions.items()
            for question in questions.values()
        }
        quarantine = self.lake.read("legacy_quarantine", {"import_tag": self.tag})
        return ImportReport(
            self._counts(),
            sorted({*self._named, *known["run_id"]}),
            sum(text is not None for text in texts.values()),
            sum(text is None for text in texts.values()),
            quarantine.join(_paths(self._sources), on=["source", "path"], how="semi").sort(
                "source", "path", "source_line", "reason"
            ),
            self.lake.versions() != self._versions,
        )

    def _without_texts(self, benchmarks: set[str]) -> dict[str, tuple[str, str]]:
        """Find imported runs with questions of these benchmarks whose texts were not known: now they may be."""
        found = {}
        for run_id, text in self.lake.read("runs", columns=["run_id", "spec"]).iter_rows():
            spec = RunSpec.read(text)
            without = any(spec.benchmarks[name].question_texts != "known" for name in benchmarks & set(spec.benchmarks))
            if without and self._is_ours(spec):
                found[run_id] = spec.model, spec.run_tag
        return found

    def _is_ours(self, spec: RunSpec) -> bool:
        return spec.imported is not None and spec.imported.source == self._importer.title

    def _recall(self, runs: Mapping[str, tuple[str, str]]) -> ImportedRows:
        """Take in what the lake has of some runs."""
        self._runs |= runs
        run_ids = sorted(runs)
        for run_id, text in self.lake.read("runs", {"run_id": run_ids}, ["run_id", "spec"]).iter_rows():
            spec = self._specs[run_id] = RunSpec.read(text)
            if not self._is_ours(spec):
                plural = self._importer.plural
                raise ConfigurationError(f"run {run_id} is there and was not imported from {plural}: rename the model")
            for name, benchmark in spec.benchmarks.items():
                self._temperatures[run_id] = benchmark.temperature
                self._samples[run_id, name] = benchmark.samples
        earlier = ImportedRows.stored(self.lake, run_ids)
        answered, judged = _by_question(earlier.answers), _by_question(earlier.judgements)
        texts = self._stored_texts({place[1] for place, _ in answered})
        for (place, name), answers in answered.items():
            first = answers[0]
            order = first["created_at"], first["source_sha256"], first["source_line"]
            text = texts.get((place[1], first["question_id"]))
            self._questions[place][name] = _Question(name, order, text, answers, judged.get((place, name), []))
        return earlier

    def _stored_texts(self, benchmarks: Iterable[str]) -> dict[tuple[str, str], Question]:
        """Read the questions of earlier imports by benchmark and id."""
        rows = self.lake.read("questions", {"source": self._importer.title, "benchmark": sorted(benchmarks)})
        return {(row["benchmark"], row["question_id"]): Question.from_row(row) for row in rows.iter_rows(named=True)}

    def _take(self, source: ImportSource) -> tuple[list[_Key], int]:
        """Add the questions of a file that their runs have not yet.

        Returns:
            Those that are in the lake then, and how many of them were there before.
        """
        there, repeated = [], 0
        for entry in source.entries:
            question = self._rows_of(source, entry)
            earlier = self._questions[entry.part.place].get(entry.name)
            if earlier is None:
                self._questions[entry.part.place][entry.name] = question
            elif earlier.content == question.content:
                repeated += 1
                earlier.text = earlier.text or question.text
            else:
                first = earlier.order
                reason = f"has other responses than entry {first[2]} of {first[1][:12]}, which stands"
                source.reject(Rejected.of(entry.line, reason, orjson.dumps(entry.value), pointer=entry.pointer))
                continue
            there.append((entry.part.place, entry.name))
        return there, repeated

    def _rows_of(self, source: ImportSource, entry: Entry) -> _Question:
        importer, part = self._importer, entry.part
        own: Row = {
            "run_id": part.place[0],
            "model": part.model,
            "run_tag": part.run_tag,
            "benchmark": part.benchmark,
            "created_at": self.now,
            "source_sha256": source.sha256,
            "source_line": entry.line,
        }
        judged = own | {"not_recorded": importer.not_recorded_by_judges}
        text = None
        if entry.question is not None:
            question_id = sha256_text(entry.question)
            text = Question(question_id, 1, entry.name, entry.category, entry.question, entry.reference, None)
        return _Question(
            entry.name,
            (self.now, source.sha256 or "", entry.line),
            text,
            [own | {"not_recorded": importer.not_recorded} | _answer(entry, sample) for sample in entry.samples],
            [judged | _judgement(entry, sample, verdict) for sample in entry.samples for verdict in sample.verdicts],
        )

    def _known_texts(self, benchmarks: set[str]) -> dict[tuple[str, str], Question]:
        """Map benchmark and the source's id to a text, where all that is known agrees."""
        found: dict[tuple[str, str], dict[str, Question]] = defaultdict(dict)
        for (benchmark, question_id), text in self._stored_texts(benchmarks).items():
            found[benchmark, text.upstream_id or ""][question_id] = text
        for (_, benchmark), questions in self._questions.items():
            for question in questions.values():
                if question.text is not None:
                    found[benchmark, question.name].setdefault(question.text.question_id, question.text)
        return {key: next(iter(texts.values())) for key, texts in found.items() if len(texts) == 1}

    def _resolve(self, place: _Place, known: Mapping[tuple[str, str], Question]) -> QuestionSet:
        """Give the rows of a run's benchmark their questions' ids, and their set."""
        benchmark, title = place[1], self._importer.title
        questions = sorted(self._questions[place].values(), key=lambda question: question.order)
        asked = []
        for position, question in enumerate(questions, start=1):
            question.text = question.text or known.get((benchmark, question.name))
            unknown_id = unknown_question_id(title, benchmark, question.name)
            text = question.text or Question(unknown_id, position, question.name, None, "", None, None)
            asked.append(replace(text, position=position, upstream_id=question.name))
        sha256 = content_sha256(asked)
        name = set_name_of(benchmark, len(asked), sha256)
        for question, text in zip(questions, asked, strict=True):
            for row in (*question.answers, *question.judgements):
                row.update(question_id=text.question_id, question_set=name)
        return QuestionSet(benchmark, name, sha256, tuple(asked), title)

    def _name_consensus(self, sets: Mapping[_Place, QuestionSet]) -> None:
        """Let what strategies made here of the samples have the name of the set as it is now."""
        keys = {"run_id": sorted(self._runs)}
        names = pl.DataFrame(
            [(*place, questions.name) for place, questions in sets.items()],
            schema=dict.fromkeys(("run_id", "benchmark", "question_set"), pl.String),
            orient="row",
        )
        made = self.lake.read("consensus", keys)
        self.lake.update("consensus", made.update(names, on=["run_id", "benchmark"]), keys)

    def _run_rows(self, sets: Mapping[_Place, QuestionSet]) -> Iterator[Row]:
        """Make the rows of `runs` that are new or differ."""
        stored = self.lake.read("runs", {"run_id": sorted(self._runs)}).iter_rows(named=True)
        rows = {row["run_id"]: row for row in stored}
        for run_id in self._runs:
            spec, before, earlier = self._spec(run_id, sets), self._specs.get(run_id), rows.get(run_id)
            states = orjson.loads((earlier or {}).get("status_by_benchmark") or "{}")
            # What is judged here has the state that its judges have left it in.
            states |= {name: self._state((run_id, name)) for name in spec.benchmarks if not spec.is_made_here(name)}
            row = self.run_row(spec, states, earlier, before)
            told = ("spec", "status", "status_by_benchmark")
            if not earlier or any(row[name] != earlier[name] for name in told):
                yield row

    def _spec(self, run_id: str, sets: Mapping[_Place, QuestionSet]) -> RunSpec:
        """Tell what is known of a run, with the judges, strategies and passes that were added to it."""
        (model, tag), importer = self._runs[run_id], self._importer
        imported = ImportedSpec(
            form=importer.form,
            display_name=model,
            generation=1,
            source=importer.title,
            judges=(),
            not_recorded=importer.not_recorded,
        )
        benchmarks = {place[1]: self._benchmark(place, sets[place]) for place in sorted(sets) if place[0] == run_id}
        return imported_run(model, tag, benchmarks, imported, self._specs.get(run_id))

    def _benchmark(self, place: _Place, questions: QuestionSet) -> BenchmarkSpec:
        run_id, name = place
        own = self._questions[place].values()
        known = [question.text is not None for question in own]
        return imported_benchmark(
            questions,
            self._specs[run_id].benchmarks.get(name) if run_id in self._specs else None,
            question_texts="known" if all(known) else "some known" if any(known) else "unknown",
            temperature=self._temperatures.get(run_id),
            samples=self._samples[place],
            imported_judges=tuple(sorted({row["judge"] for question in own for row in question.judgements})),
            imported_samples=len(known) * self._samples[place],
        )

    def _state(self, place: _Place) -> str:
        """Tell whether every sample that was planned has a verdict."""
        judged = {
            (question.name, row["sample_index"])
            for question in self._questions[place].values()
            for row in question.judgements
        }
        planned = len(self._questions[place]) * self._samples[place]
        return "complete" if len(judged) == planned else "partial"

    def _write_sources(self, sources: Sequence[ImportSource]) -> None:
        """Tell what became of the files; a file that is there as it was keeps its first row."""
        keys = {"import_tag": self.tag}
        rows = pl.DataFrame([self._file_row(source) for source in sources], LEGACY_FILES.schema)
        fresh = rows.join(self.files, on=["source", "path", "sha256", "status"], how="anti", nulls_equal=True)
        old = self.files.join(fresh, on=["source", "path"], how="anti")
        self.write_facts("legacy_files", pl.concat([old, fresh]), keys)
        parts = [_quarantine_row(source, part) | keys for source in sources for part in source.rejected]
        stored = self.lake.read("legacy_quarantine", keys).join(_paths(sources), on=["source", "path"], how="anti")
        self.write_facts("legacy_quarantine", pl.concat([stored, pl.DataFrame(parts, stored.schema)]), keys)

    def _file_row(self, source: ImportSource) -> Row:
        there, repeated = self._taken.get(id(source), ([], 0))
        sets = [self._questions[place][name].answers[0]["question_set"] for place, name in there[:1]]
        benchmark, model = (source.part.benchmark, source.part.model) if source.part else (None, None)
        return {
            "import_tag": self.tag,
            "source": source.name,
            "path": source.path,
            "root": str(source.root),
            "sha256": source.sha256,
            "size": source.size,
            "modified_ns": None if self._importer.reads_again else source.modified_ns,
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
            "imported": len(there) - repeated,
            "repeated": repeated,
            "quarantined": source.n_entries - len(there) if source.duplicate_of is None else 0,
            "imported_at": self.now,
        }

    def _counts(self) -> list[FileCounts]:
        rows = ImportedRows.stored(self.lake, sorted(self._runs))
        answers, judgements = _by_question(rows.answers), _by_question(rows.judgements)
        return [self._count(source, answers, judgements) for source in self._sources]

    def _count(
        self, source: ImportSource, answers: Mapping[_Key, Sequence[Row]], judgements: Mapping[_Key, Sequence[Row]]
    ) -> FileCounts:
        counts = FileCounts(f"{source.name}/{source.path}", source.kind, source.status, source.reason)
        if (row := source.stored) and source.status == "imported":
            imported = row["imported"] + row["repeated"]
            return counts._replace(
                entries=row["lines"], entries_repeated=imported, entries_quarantined=row["quarantined"]
            )
        if id(source) not in self._taken:
            return counts
        there, repeated = self._taken[id(source)]
        entries = {(entry.part.place, entry.name): entry for entry in source.entries}
        imported = [entries[key] for key in there]
        lines = {entry.line for entry in imported}
        parts = Counter(part.what for part in source.rejected if part.line in lines)
        own = [row for key in there for row in answers.get(key, [])]
        return counts._replace(
            entries=source.n_entries,
            entries_imported=len(there) - repeated,
            entries_repeated=repeated,
            entries_quarantined=len({part.line for part in source.rejected if part.what == "entry"}),
            responses=sum(len(entry.samples) if entry.n_samples is None else entry.n_samples for entry in imported),
            answers=len(own),
            errors=sum(row["status"] == "error" for row in own),
            responses_quarantined=parts["response"],
            verdicts=sum(_n_verdicts(entry) for entry in imported),
            judgements=sum(len(judgements.get(key, [])) for key in there),
            verdicts_quarantined=parts["verdict"],
        )


def unknown_question_id(title: str, benchmark: str, name: str) -> str:
    """Return the id of a question whose text is not known, from the source's own id."""
    return sha256_text(f"{title} {benchmark} {name}")


def _n_verdicts(entry: Entry) -> int:
    return sum(len(sample.verdicts) for sample in entry.samples) if entry.n_verdicts is None else entry.n_verdicts


def _without_duplicates(sources: Sequence[ImportSource]) -> list[ImportSource]:
    """Return the files that can be read, each content once."""
    first: dict[str, ImportSource] = {}
    for source in sources:
        if source.reason is None and source.sha256:
            original = first.setdefault(source.sha256, source)
            if original is not source:
                source.duplicate_of = f"{original.name}:{original.path}"
    return list(first.values())


def _paths(sources: Sequence[ImportSource]) -> pl.DataFrame:
    schema = dict.fromkeys(("source", "path"), pl.String)
    return pl.DataFrame([(source.name, source.path) for source in sources], schema, orient="row")


def _by_question(frame: pl.DataFrame) -> dict[_Key, list[Row]]:
    """Map run and benchmark, and the source's id of a question, to the rows of it."""
    found: dict[_Key, list[Row]] = defaultdict(list)
    for row in frame.iter_rows(named=True):
        name = orjson.loads(row["legacy_fields"])["questionId"]
        found[(row["run_id"], row["benchmark"]), name].append(row)
    return found


def _answer(entry: Entry, sample: ImportedSample) -> Row:
    row: Row = {
        "sample_index": sample.index,
        "legacy_fields": orjson.dumps({"questionId": entry.name, **entry.fields, **sample.fields}).decode(),
    }
    if sample.error is not None:
        message = " ".join(sample.error[: 2 * _MESSAGE_LENGTH].split())[:_MESSAGE_LENGTH]
        failed = {"status": "error", "error_class": "transient", "error_message": message}
        return row | failed | {"raw_answer": sample.text or None}
    return row | {
        "status": "ok",
        "answer": sample.text,
        "answer_hash": sha256_text(sample.text),
        "answer_state": answer_state(sample.text),
        "latency_seconds": sample.latency_seconds,
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


def _quarantine_row(source: ImportSource, part: Rejected) -> Row:
    return {
        "source": source.name,
        "path": source.path,
        "model": source.part.model if source.part else None,
        "source_sha256": source.sha256,
        "source_line": part.line,
        "reason": part.sentence,
        "raw": part.raw,
        "raw_encoding": part.raw_encoding,
        "size": part.size,
        "sha256": part.sha256,
    }
