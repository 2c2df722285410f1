"""The seam for other tools' logs: a format is one class that reads its files, and `exchange.logs` does everything else.

A file has *entries*: a question with the samples that a model answered and the verdicts on them. An answer in the lake
is never replaced: a file adds the samples that its run has not yet or that have failed, and one that says something
else is set aside.
"""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

from shaberi_dagster.exchange.rejected import Rejected
from shaberi_dagster.lake.journal.records import ErrorClass
from shaberi_dagster.plugins.discovery import running
from shaberi_dagster.tasks.benchmarks.questions import Question, QuestionSet
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import run_id_of

MOST_FILES = 100_000
MOST_FILE_BYTES = 1 << 30
"""A larger file is refused; the largest one known has a thousandth of it."""
Row = dict[str, Any]
Key = tuple[str, str, str]
"""Run, benchmark and the source's id of a question."""


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
    def run_id(self) -> str:
        """The identity of the run."""
        return run_id_of(self.model, self.run_tag)


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
    """An answer to a question.

    Attributes:
        index: Which of the answers, from 0.
        text: Its text; of a failed one what had come until then.
        error: Why it failed; None if it did not.
        error_class: How it failed.
        latency_seconds: How long it took.
        fields: What else is recorded.
        verdicts: What judges said of it.
        columns: Columns of `answers` that are recorded: finish_reason, thinking, answer_prompt_tokens, …
    """

    index: int
    text: str
    error: str | None = None
    error_class: ErrorClass = "transient"
    latency_seconds: float | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    verdicts: Sequence[ImportedVerdict] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """A question with the samples of a run: what is imported, repeated or set aside as a whole.

    Attributes:
        line: Where it stands in its file, from 1.
        part: Of which run and benchmark it is.
        name: The source's own id of the question.
        samples: Those that can be read.
        asked: The question, where it is one of a known set.
        question: Else the question's text; None where it is not recorded.
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
    asked: Question | None = None
    question: str | None = None
    reference: str | None = None
    category: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    value: Any = None
    pointer: str = ""
    n_samples: int | None = None
    n_verdicts: int | None = None

    @property
    def key(self) -> Key:
        """The run, the benchmark and the question that it is about."""
        return self.part.run_id, self.part.benchmark, self.name


@dataclass
class ImportSource:
    """A file, and what was found in it.

    Attributes:
        root: The folder that was named, or the file's own.
        location: Where it lies.
        size: In bytes.
        sha256: Of its bytes; None when it could not be read.
        kind: What it is; `unknown` is not one of the format's files.
        reason: Why it is not read, or cannot be; None if it can.
        part: The run and benchmark that all of it is of; None until it is known.
        entries: Those that can be read.
        n_entries: How many there are in all.
        rejected: The parts that cannot become rows.
        duplicate_of: source:path of a file with the same bytes.
        imported: The entries whose rows are in the lake in the end; None of a file that is not imported.
        repeated: How many of them were in the lake before.
    """

    root: Path
    location: Path
    size: int | None = None
    sha256: str | None = None
    kind: str = "unknown"
    reason: str | None = None
    part: RunPart | None = None
    entries: list[Entry] = field(default_factory=list)
    n_entries: int = 0
    rejected: list[Rejected] = field(default_factory=list)
    duplicate_of: str | None = None
    imported: list[Entry] | None = None
    repeated: int = 0

    @classmethod
    def at(cls, root: Path, location: Path) -> Self:
        """Look at a file without reading it."""
        source = cls(root, location)
        try:
            status = location.stat()
        except OSError as error:
            source.reason = f"cannot be read: {error.strerror or error}"
        else:
            source.size = status.st_size
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
    def parts(self) -> set[RunPart]:
        """The runs and benchmarks that it has entries of."""
        return {part for part in (self.part, *(entry.part for entry in self.entries)) if part}

    @property
    def status(self) -> str:
        """Its status in `legacy_files`."""
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
        name: `import_tag` of its files in `legacy_files`: a file is another one under another name.
        form: What its runs are imported from, in their specs.
        title: `source` of its question sets.
        what: A file of the format, in messages.
        plural: Several of them.
        suffix: How names of its files end.
        not_recorded: What the files do not say of answers.
        not_recorded_by_judges: What they do not say of verdicts.
        known: The known question sets that all entries are of, by benchmark; none where questions are the files' own.
    """

    name: str
    form: ClassVar[Any] = "log"
    title: ClassVar[str]
    what: ClassVar[str]
    plural: ClassVar[str]
    suffix: ClassVar[str] = ".jsonl"
    not_recorded: ClassVar[str] = "settings, tokens, times, finish_reason"
    not_recorded_by_judges: ClassVar[str] = "settings, prompt, tokens, times"
    known: Mapping[str, QuestionSet] = MappingProxyType({})

    @abstractmethod
    def entries(self, source: ImportSource, content: bytes) -> Iterable[Entry | Rejected]:
        """Read a file; its `kind`, and `reason` if it is not one of the format's files, are set on the way."""

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
                below = (file for file in sorted(place.rglob(f"*{self.suffix}")) if not file.is_symlink())
                for file in filter(Path.is_file, below):
                    found.setdefault(file, place)
                    if len(found) > MOST_FILES:
                        files = f"{MOST_FILES:,} {self.suffix.removeprefix('.').upper()} files"
                        raise ConfigurationError(f"{path} has more than {files}: name the {self.plural}' folder")
            else:
                raise ConfigurationError(f"{self.title} {path} is neither a file nor a folder")
        return [ImportSource.at(root, place) for place, root in found.items()]

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
        with running(self):
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
