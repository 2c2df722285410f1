"""Question sets: questions identified by their text, sets named by their content."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, TypeAdapter

from shaberi_dagster.plugins.discovery import running
from shaberi_dagster.tasks.benchmarks.choices import Choices
from shaberi_dagster.tasks.benchmarks.files import read_rows, whole_number
from shaberi_dagster.tasks.benchmarks.registry import SUFFIXES, Benchmark, Field
from shaberi_dagster.tasks.benchmarks.upstream import Asked, UpstreamRowError, letter_index, listed, texts
from shaberi_dagster.util.errors import ConfigurationError, QuestionFileError
from shaberi_dagster.util.identity import sha256_json, sha256_text

CACHES = "ensemble cache"
"""Source of sets whose questions came with caches of the ensemble evaluation, in its seeded order."""
_HERE = Path(__file__).parent
_KNOWN_SETS = _HERE / "known_sets.yaml"

UNSHUFFLED = "unshuffled"
"""`{benchmark}@unshuffled` asks for the source's order of options; the names of such sets end with `-unshuffled`."""


@dataclass(frozen=True)
class Question:
    """A question. Texts are exactly as in their source.

    Attributes:
        question_id: sha256 of the exact UTF-8 question text, without normalisation.
        position: 1-based place in its set as the source gives it; an attribute, never the identity.
        upstream_id: The original dataset's own id; None when it has none.
        category: The original dataset's category; None when it has none.
        question: What is asked, with its options.
        reference: A right answer, the letter of one where there are options; None without one.
        criteria: Deduction rules (ELYZA) or a rubric of points (Tengu); None when there are none.
        options: The texts of the options A, B, … as they are shown; None when there are none.
        option_order: For each of them its place among the source's, from 0; None when there are none.
        aliases: Further right answers; None when there are none.
    """

    question_id: str
    position: int
    upstream_id: str | None
    category: str | None
    question: str
    reference: str | None
    criteria: str | None
    options: tuple[str, ...] | None = None
    option_order: tuple[int, ...] | None = None
    aliases: tuple[str, ...] | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Question":
        """The question that a row of the lake's table of questions is."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value := row[name], list) else value for name in cls.__dataclass_fields__
        }
        return cls(**values)


@dataclass(frozen=True)
class QuestionSet:
    """A version of a benchmark's questions.

    Attributes:
        benchmark: The benchmark's name.
        name: `tengu@120` for a registered set, else `tengu@120-1a2b3c4d` with the start of its sha256.
        sha256: Identity: the hash of the ordered (question_id, reference, criteria, category, and aliases if any).
        questions: In the order of their positions.
        source: Where it was loaded from: `starter`, `hub:{repository}` or `folder:{path}`.
        source_revision: The hub commit; None for files.
    """

    benchmark: str
    name: str
    sha256: str
    questions: tuple[Question, ...]
    source: str
    source_revision: str | None = None


class KnownSet(BaseModel, frozen=True):
    """A registered set of `known_sets.yaml`.

    Attributes:
        sha256: Its content hash.
        subset_of: Registered set that it can be cut from; None when it only comes from a source.
        without_positions: Positions of that set which it leaves out.
    """

    sha256: str
    subset_of: str | None = None
    without_positions: frozenset[int] = frozenset()


@cache
def known_sets() -> Mapping[str, KnownSet]:
    """The registered sets by name."""
    data = yaml.safe_load(_KNOWN_SETS.read_text(encoding="utf-8"))
    return TypeAdapter(dict[str, KnownSet]).validate_python(data)


def content_sha256(questions: Iterable[Question]) -> str:
    """The identity of a set: what is asked and graded, in order, wherever it comes from."""
    # Options are in the text, and so in its id. Sets without aliases have the hash from before there were any.
    return sha256_json(
        [
            [row.question_id, row.reference, row.criteria, row.category, *([row.aliases] if row.aliases else [])]
            for row in questions
        ]
    )


def set_name_of(benchmark: str, count: int, sha256: str) -> str:
    """The name of a set: short for registered sets, with a part of its hash for all others."""
    for name, known in known_sets().items():
        if known.sha256 == sha256 and name.startswith(f"{benchmark}@"):
            return name
    return f"{benchmark}@{count}-{sha256[:8]}"


def load_question_set(
    benchmark: Benchmark,
    source: str,
    folder: Path | None = None,
    set_name: str | None = None,
    *,
    revision: str | None = None,
    hub_endpoint: str | None = None,
    hub_cache: Path | None = None,
) -> QuestionSet:
    """Load one version of a benchmark's questions.

    Args:
        benchmark: What is asked.
        source: `starter` (what comes with the benchmark), `hub` (Hugging Face) or `folder`.
        folder: For `folder`: has `{benchmark}.jsonl` (or `.json`, `.parquet`, `.csv`) or one of the benchmark's
            other `files`, and further versions as `{benchmark}_…`, `{benchmark}-…` or `{benchmark}@…`.
        set_name: The version wanted; None takes the source's own (in a folder, the file that is named
            just like the benchmark). `{benchmark}@unshuffled` is that one with its options in the source's order.
        revision: For `hub`: commit, tag or branch; None takes the benchmark's.
        hub_endpoint: The hub's address; None follows the hub client's own setting.
        hub_cache: The hub client's cache folder; None follows its own setting.

    Raises:
        QuestionFileError: A file has a line that is not a question.
        ConfigurationError: There is no such source, set or file, or the hub cannot be read.
    """
    from shaberi_dagster.tasks.benchmarks import hub

    load = partial(_load, benchmark, shuffled=not (set_name or "").endswith(UNSHUFFLED))
    if set_name == f"{benchmark.name}@{UNSHUFFLED}":
        set_name = None
    if source == "starter":
        if benchmark.questions is None:
            raise ConfigurationError(f"{benchmark.name} comes without questions: use --questions hub or a folder")
        loaded = load([benchmark.questions], "starter")
        return _choose({"": loaded}, set_name, "the starter set")
    if source == "hub":
        if benchmark.hub is None:
            raise ConfigurationError(f"benchmark {benchmark.name} has no hub dataset; use --questions PATH")
        files = hub.download(benchmark.hub, revision=revision, endpoint=hub_endpoint, cache=hub_cache)
        loaded = load(files.paths, f"hub:{benchmark.hub.repository}", files.revision)
        return _choose({"": loaded}, set_name, f"hub dataset {benchmark.hub.repository}")
    if source == "folder":
        paths = _files_in(benchmark, folder, all_versions=set_name is not None)
        return _choose(
            {path.name: load([path], f"folder:{path.parent.absolute()}") for path in paths},
            set_name,
            str(folder),
        )
    raise ConfigurationError(f"unknown question source {source!r}; known: starter, hub, folder")


def _files_in(benchmark: Benchmark, folder: Path | None, *, all_versions: bool) -> list[Path]:
    """The benchmark's own file, or all its versions with that file first."""
    if folder is None or not folder.is_dir():
        raise ConfigurationError(f"question folder {folder} is not a folder; set --questions PATH or SHABERI_DATASETS")
    name = benchmark.name
    files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    own = [path for path in files if path.stem in {name, *benchmark.files}]
    if len(own) > 1:
        raise ConfigurationError(f"{folder} has {' and '.join(path.name for path in own)}: keep one, rename the other")
    prefixes = (f"{name}_", f"{name}@", f"{name}-")
    versions = [path for path in files if path.stem.startswith(prefixes) and path not in own]
    found = own + versions if all_versions else own
    if not found:
        hint = f"; it has {', '.join(path.name for path in versions)}: choose one by its set name" if versions else ""
        raise ConfigurationError(f"{folder} has no question file {name}.jsonl (or .parquet, .csv){hint}")
    return found


def _choose(loaded: Mapping[str, QuestionSet], set_name: str | None, where: str) -> QuestionSet:
    """The set of that name among those of each file, cut from a registered larger one where need be."""
    if set_name is None:
        return next(iter(loaded.values()))
    for candidate in loaded.values():
        if candidate.name == set_name:
            return candidate
    known = known_sets().get(set_name)
    for candidate in loaded.values():
        if known is not None and candidate.name == known.subset_of:
            return _cut(candidate, set_name, known)
    available = ", ".join(question_set.name + (f" ({file})" if file else "") for file, question_set in loaded.items())
    raise ConfigurationError(f"{where} has no question set {set_name}; it has {available}")


def parts_of(whole: QuestionSet) -> list[QuestionSet]:
    """The registered sets that are parts of a set."""
    return [_cut(whole, name, known) for name, known in known_sets().items() if known.subset_of == whole.name]


def without_positions(whole: QuestionSet, positions: Collection[int]) -> QuestionSet:
    """Return a set without the questions at some positions, under the name that what remains has."""
    kept = tuple(question for question in whole.questions if question.position not in positions)
    if len(kept) == len(whole.questions):
        return whole
    sha256 = content_sha256(kept)
    name = set_name_of(whole.benchmark, len(kept), sha256)
    return replace(whole, name=name, sha256=sha256, questions=kept)


def _cut(whole: QuestionSet, name: str, known: KnownSet) -> QuestionSet:
    cut = without_positions(whole, known.without_positions)
    if cut.sha256 != known.sha256:
        raise ConfigurationError(f"{name} cut from {whole.name} of {whole.source} differs from the registered one")
    return replace(cut, name=name)


def _load(
    benchmark: Benchmark,
    paths: Iterable[Path],
    source: str,
    revision: str | None = None,
    *,
    shuffled: bool = True,
) -> QuestionSet:
    """Read a set that may lie in several files (shards)."""
    questions: list[Question] = []
    lines: dict[str, str] = {}
    positions: set[int] = set()
    path, position, index = None, 0, -1
    for path in paths:
        for line, values in read_rows(path):
            index += 1
            row = _Row(benchmark, path, line, values)
            asked = row.asked()
            if asked is None:
                continue
            position += 1
            question = row.question(asked, position, index, shuffled=shuffled)
            if question.question_id in lines:
                if row.is_ours:
                    raise QuestionFileError(path, line, f"repeats the question of {lines[question.question_id]}")
                continue  # its position stays empty, so that those of the others are the publisher's
            if question.position in positions:
                raise QuestionFileError(path, line, f"repeats position {question.position}")
            lines[question.question_id] = f"{path.name}:{line}"
            positions.add(question.position)
            questions.append(question)
    if not questions:
        raise QuestionFileError(path, None, "has no question")
    questions.sort(key=lambda question: question.position)
    sha256 = content_sha256(questions)
    name = set_name_of(benchmark.name, len(questions), sha256)
    if not shuffled and any(question.options for question in questions) and not name.endswith(UNSHUFFLED):
        name = f"{name}-{UNSHUFFLED}"
    return QuestionSet(benchmark.name, name, sha256, tuple(questions), source, revision)


@dataclass(frozen=True)
class _Row:
    """A row of a question file on its way to a question."""

    benchmark: Benchmark
    path: Path
    line: int
    values: Mapping[str, Any]

    @property
    def is_ours(self) -> bool:
        """Return whether it has our columns (or names for them), not those of a dataset with a reader of its own."""
        return self.benchmark.read_row is None or "reference" in self.values

    def asked(self) -> Asked | None:
        """Read what the row asks; None when its dataset's reader leaves it out."""
        try:
            read = self.benchmark.read_row
            if read is not None and not self.is_ours:
                with running(read, UpstreamRowError):
                    return read(self.values)
            return self._own()
        except UpstreamRowError as error:
            raise self._error(str(error)) from error

    def _own(self) -> Asked:
        question: str | Choices = self._required("question")
        if self.benchmark.has_options:
            options = texts(self.values, "options")
            question = listed(self._required("question"), options, letter_index(self.values, "reference", len(options)))
        aliases = texts(self.values, "aliases") if self.benchmark.has_rule and self.values.get("aliases") else None
        return Asked(question, self._text("reference"), self._text("category"), aliases)

    def question(self, asked: Asked, default_position: int, index: int, *, shuffled: bool) -> Question:
        """The question that the row asks.

        Args:
            asked: What it asks.
            default_position: Its place among the questions.
            index: Its place among the rows, from 0: its id in caches of the ensemble evaluation.
            shuffled: Whether its options are put in an order of their own.
        """
        text, reference = asked.question, asked.reference
        options: tuple[str, ...] | None = None
        order: tuple[int, ...] | None = None
        if isinstance(text, Choices):
            choices = text
            order = choices.shuffled_order() if shuffled else tuple(range(len(choices.options)))
            options = tuple(choices.options[place] for place in order)
            text, reference = choices.text(order), choices.letter(order)
        return Question(
            question_id=sha256_text(text),
            position=self._position(default_position),
            upstream_id=self._upstream_id() if self.is_ours else f"{self.benchmark.name}-{index}",
            category=asked.category,
            question=text,
            reference=reference,
            criteria=self._text("criteria") if self.is_ours else None,
            options=options,
            option_order=order,
            aliases=asked.aliases,
        )

    def _column(self, field: Field) -> str | None:
        """The column that holds a field: our own name first, then the upstream ones."""
        names = (field, *self.benchmark.columns.get(field, ()))
        return next((name for name in names if name in self.values), None)

    def _text(self, field: Field) -> str | None:
        if field in self.benchmark.required:
            return self._required(field)
        column = self._column(field)
        return None if column is None else self._optional(column)

    def _required(self, field: Field) -> str:
        column = self._column(field)
        if column is None:
            upstream = " or ".join(repr(name) for name in self.benchmark.columns.get(field, ()))
            raise self._error(f"has no {field!r}" + (f" (upstream {upstream})" if upstream else ""))
        value = self._optional(column)
        if value is None:
            raise self._error(f"{column!r} is empty")
        return value

    def _optional(self, column: str) -> str | None:
        """The column's text; blank text is no text, since CSV cannot tell the two apart."""
        value = self.values[column]
        if value is not None and not isinstance(value, str):
            raise self._error(f"{column!r} must be text, not {type(value).__name__}")
        return value if value and value.strip() else None

    def _upstream_id(self) -> str | None:
        column = self._column("upstream_id")
        value = None if column is None else self.values[column]
        if value is None:
            return None
        number = value if isinstance(value, str) else whole_number(value)
        if number is None:
            raise self._error(f"{column!r} must be text or an integer, not {type(value).__name__}")
        return str(number)

    def _position(self, default: int) -> int:
        value = self.values.get("position")
        if value is None:
            return default
        number = whole_number(value)
        if number is None or number < 1:
            raise self._error(f"'position' must be an integer from 1, not {value!r}")
        return number

    def _error(self, reason: str) -> QuestionFileError:
        return QuestionFileError(self.path, self.line, reason)
