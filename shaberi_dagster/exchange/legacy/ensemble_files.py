"""Caches of the ensemble-consensus evaluation, read entry by entry so that one malformed part costs only itself.

An *ensemble cache* has N responses of one model to each question, without the question's text. A *baseline cache* has
one judged response to each question, with its text. Both are JSON documents; parts are named by JSON pointers.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from shaberi_dagster.benchmarks.registry import BENCHMARKS
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.exchange.legacy.rows import MOST_RAW_BYTES
from shaberi_dagster.util.identity import check_model_name, check_run_tag

Kind = Literal["ensemble", "baseline", "unknown"]
What = Literal["file", "entry", "response", "verdict"]
MOST_FILES = 100_000
MOST_FILE_BYTES = 1 << 30
"""A larger file is none; the largest one known has a thousandth of it."""

_BENCHMARK = re.compile(r"[a-z0-9][a-z0-9_]{0,63}")
_LIST_SIZE = re.compile(r"_n([1-9]\d{0,5})\.json$")
ModelT = TypeVar("ModelT", bound=BaseModel)


class _Part(BaseModel):
    """A part of a document as it must be; what else stands in it is kept."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow", alias_generator=to_camel)


class ResponsePart(_Part):
    """One response of a model.

    Attributes:
        provider: Who served it.
        model: The model.
        content: Its text; of a failed one what had come until then.
        response_time_ms: In milliseconds; 0 where it failed.
        token_count: Prompt and completion tokens together.
        error: Why it failed; None if it did not.
    """

    provider: str
    model: str
    content: str
    response_time_ms: Annotated[float | None, Field(ge=0)] = None
    token_count: Annotated[int | None, Field(ge=0)] = None
    error: str | None = None


class VerdictPart(_Part):
    """What was said of one response.

    Attributes:
        correct: Whether it was right.
    """

    correct: bool


class _Evaluation(_Part):
    evaluator: str | None = None
    results: dict[str, Any]


class _EnsembleEntry(_Part):
    question_id: Annotated[str, Field(min_length=1)]
    responses: list[Any]


class _Result(_EnsembleEntry):
    prompt: Annotated[str | None, Field(min_length=1)] = None
    ground_truth: str | None = None
    category: str | None = None
    evaluation: _Evaluation | None = None


class _BaselineEntry(_Part):
    question_id: Annotated[str, Field(min_length=1)]
    result: dict[str, Any]


class _Header(_Part):
    model: str
    dataset: str
    ensemble_size: Annotated[int | None, Field(ge=1, le=10_000)] = None
    temperature: Annotated[float | None, Field(ge=0)] = None
    entries: list[Any]


@dataclass(frozen=True)
class UnreadableEntry:
    """A part that cannot be read.

    Attributes:
        what: Of what kind it is.
        entry: The entry that it is or is in, from 0; None for the whole file.
        pointer: Where it stands in the document; "" is all of it.
        reason: What is wrong with it.
        raw: Its JSON, or the beginning of it.
        size: Of its JSON, in bytes.
        sha256: Of its JSON.
    """

    what: What
    entry: int | None
    pointer: str
    reason: str
    raw: str
    size: int
    sha256: str


@dataclass(frozen=True)
class CachedVerdict:
    """What was said of a response, and by whom.

    Attributes:
        correct: Whether the response was right.
        evaluator: Kind of the evaluator.
        fields: What else is said: expected and predicted.
    """

    correct: bool
    evaluator: str | None
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class CachedResponse:
    """One of an entry's responses.

    Attributes:
        index: Which of the entry's responses, from 0.
        part: What it says.
        verdict: What was said of it; None if nothing was.
    """

    index: int
    part: ResponsePart
    verdict: CachedVerdict | None = None


@dataclass(frozen=True)
class CachedQuestion:
    """One question with its responses.

    Attributes:
        index: Which of the file's entries, from 0.
        pointer: Where it stands.
        question_id: The cache's own id: dataset and row.
        prompt: The question's text; None where it is not recorded.
        reference: The right answer, likewise.
        category: Of the question, likewise.
        responses: Those that can be read.
        n_responses: How many there are in all.
        n_verdicts: How many verdicts there are in all.
        fields: What else is said of the question or by consensus.
        value: The entry itself.
    """

    index: int
    pointer: str
    question_id: str
    prompt: str | None
    reference: str | None
    category: str | None
    responses: Sequence[CachedResponse]
    n_responses: int
    n_verdicts: int
    fields: Mapping[str, Any]
    value: Any


@dataclass
class CacheFile:
    """One file and what was found in it.

    Attributes:
        root: The folder that was named, or the file's own.
        path: Its path there.
        sha256: Of its bytes; None when it could not be read.
        size: In bytes.
        kind: What it is.
        reason: Why it is not a cache, or cannot be read; None if it can.
        model: `{provider}:{model}`.
        benchmark: Its dataset.
        run_tag: Tag of the run that it is a part of.
        samples: Responses to each question as planned.
        temperature: Of the responses; None where it is not recorded.
        entries: Those that can be read.
        n_entries: How many there are in all.
        problems: The parts that cannot be read.
        duplicate_of: source:path of a file with the same bytes.
    """

    root: Path
    path: str
    sha256: str | None = None
    size: int | None = None
    kind: Kind = "unknown"
    reason: str | None = None
    model: str = ""
    benchmark: str = ""
    run_tag: str = ""
    samples: int = 1
    temperature: float | None = None
    entries: list[CachedQuestion] = field(default_factory=list)
    n_entries: int = 0
    problems: list[UnreadableEntry] = field(default_factory=list)
    duplicate_of: str | None = None

    def refuse(self, entry: CachedQuestion, reason: str) -> None:
        """Set an entry aside."""
        self.problems.append(_problem(_Place("entry", entry.index, entry.pointer), reason, orjson.dumps(entry.value)))


def find_caches(paths: Iterable[Path]) -> list[tuple[Path, Path]]:
    """The JSON files of folders, and files that are named themselves, each with the folder it was found in.

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
            for each in _below(place):
                found.setdefault(each, place)
                if len(found) > MOST_FILES:
                    raise ConfigurationError(f"{path} has more than {MOST_FILES:,} JSON files: name the caches' folder")
        else:
            raise ConfigurationError(f"ensemble cache {path} is neither a file nor a folder")
    return [(root, place) for place, root in found.items()]


def _below(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent) / name
            if name.endswith(".json") and path.is_file() and not path.is_symlink():
                yield path


def read_cache(root: Path, place: Path) -> CacheFile:
    """Everything that can be read of a file, and what cannot; never raises for what is in it.

    Args:
        root: The folder it was found in.
        place: The file.
    """
    file = CacheFile(root, os.fsencode(place.relative_to(root)).decode(errors="backslashreplace"))
    try:
        file.size = place.stat().st_size
        if file.size > MOST_FILE_BYTES:
            file.reason = f"is larger than {MOST_FILE_BYTES >> 20:,} MiB"
            return file
        content = place.read_bytes()
    except OSError as error:
        file.reason = f"cannot be read: {error.strerror or error}"
        return file
    file.sha256 = hashlib.sha256(content).hexdigest()
    try:
        document = orjson.loads(content)
        orjson.dumps(document)  # goes less deep than reading
    except orjson.JSONDecodeError as error:
        file.reason = f"is not JSON: {error.msg} at character {error.pos + 1}"
    except orjson.JSONEncodeError:
        file.reason = "is nested too deeply"
    if file.reason:
        file.problems.append(_problem(_Place("file", None, ""), file.reason, content))
        return file
    _Reader(file).read(document, place.name)
    return file


class _Place(NamedTuple):
    """Where something stands; see `UnreadableEntry`."""

    what: What
    entry: int | None
    pointer: str

    def at(self, steps: str, what: What | None = None) -> "_Place":
        """A place in this one."""
        return self._replace(pointer=self.pointer + steps, what=what or self.what)


class _Reader:
    """Reads one document into its file."""

    def __init__(self, file: CacheFile) -> None:
        self._file = file

    def read(self, document: Any, name: str) -> None:
        """Take in what the document is."""
        if isinstance(document, dict) and "entries" in document:
            self._read_cache(document)
        elif isinstance(document, list) and (first := next(filter(_is_result, document), None)):
            self._read_list(document, first, name)
        else:
            self._file.reason = "neither an ensemble cache nor a baseline cache"

    def _read_cache(self, document: dict[str, Any]) -> None:
        file = self._file
        header = self._take(_Header, _Place("file", None, ""), document)
        if header is None:
            return
        size, temperature = header.ensemble_size, header.temperature
        tag = "legacy-baseline" if size is None else f"legacy-{size}x-t{temperature or 0:g}"
        if size is not None and temperature is None:
            self._refuse(_Place("file", None, ""), "has an ensembleSize and no temperature", document)
        elif self._is_for(document, header.model, header.dataset, tag):
            file.kind = "baseline" if size is None else "ensemble"
            file.samples, file.temperature = size or 1, temperature
            self._read_entries(
                header.entries, "/entries", self._baseline_entry if size is None else self._ensemble_entry
            )

    def _read_list(self, document: list[Any], first: dict[str, Any], name: str) -> None:
        """An older baseline cache: the results alone, which say the model and the dataset themselves."""
        part = self._take(ResponsePart, _Place("file", None, ""), first["responses"][0])
        if part is None:
            return
        size = _LIST_SIZE.search(name)
        tag = f"legacy-baseline-n{size[1] if size else len(document)}"
        dataset = str(first.get("questionId")).rpartition("-")[0]
        if self._is_for(document, f"{part.provider}:{part.model}", dataset, tag):
            self._file.kind = "baseline"
            self._read_entries(document, "", self._result)

    def _is_for(self, document: Any, model: str, dataset: str, tag: str) -> bool:
        """Whether its rows can have these names."""
        file = self._file
        try:
            file.model, file.run_tag = check_model_name(model), check_run_tag(tag)
        except ConfigurationError as error:
            self._refuse(_Place("file", None, ""), str(error), document)
            return False
        if not _BENCHMARK.fullmatch(dataset) or dataset in BENCHMARKS:
            reason = f"dataset {dataset[:64]!r} is no benchmark of the ensemble evaluation"
            self._refuse(_Place("file", None, ""), reason, document)
            return False
        file.benchmark = dataset
        return True

    def _read_entries(
        self, entries: Sequence[Any], where: str, read: Callable[[_Place, Any, Any], CachedQuestion | None]
    ) -> None:
        file = self._file
        file.n_entries = len(entries)
        first: dict[str, int] = {}
        for index, value in enumerate(entries):
            place = _Place("entry", index, f"{where}/{index}")
            name = value.get("questionId") if isinstance(value, dict) else None
            if isinstance(name, str) and name in first:
                self._refuse(place, f"repeats the question of {where}/{first[name]}", value)
            elif entry := read(place, value, value):
                first[entry.question_id] = index
                file.entries.append(entry)

    def _ensemble_entry(self, place: _Place, value: Any, whole: Any) -> CachedQuestion | None:
        part = self._take(_EnsembleEntry, place, value)
        return None if part is None else self._entry(place, part, None, whole)

    def _baseline_entry(self, place: _Place, value: Any, whole: Any) -> CachedQuestion | None:
        part = self._take(_BaselineEntry, place, value)
        if part is None:
            return None
        if part.result.get("questionId", part.question_id) != part.question_id:
            self._refuse(place, "its result is of another question", value)
            return None
        return self._result(place.at("/result"), {"questionId": part.question_id} | part.result, whole)

    def _result(self, place: _Place, value: Any, whole: Any) -> CachedQuestion | None:
        part = self._take(_Result, place, value)
        return None if part is None else self._entry(place, part, part.evaluation, whole)

    def _entry(self, place: _Place, part: _EnsembleEntry, evaluation: _Evaluation | None, whole: Any) -> CachedQuestion:
        assert place.entry is not None  # noqa: S101  (only a file has none)
        asked = part if isinstance(part, _Result) else _Result(questionId=part.question_id, responses=[])
        return CachedQuestion(
            place.entry,
            place.pointer,
            part.question_id,
            asked.prompt,
            asked.ground_truth,
            asked.category,
            self._responses(place, part.responses, evaluation),
            len(part.responses),
            len(evaluation.results) if evaluation else 0,
            {name: each for name, each in (part.model_extra or {}).items() if each not in ({}, [], None)},
            whole,
        )

    def _responses(self, place: _Place, values: Sequence[Any], evaluation: _Evaluation | None) -> list[CachedResponse]:
        """The responses, each with the verdict under its name: `provider:model`, then `provider:model#2`, …."""
        verdicts = dict(evaluation.results) if evaluation else {}
        seen: Counter[str] = Counter()
        responses = []
        for index, value in enumerate(values):
            part = self._take(ResponsePart, place.at(f"/responses/{index}", "response"), value)
            if part is None:
                continue
            name = f"{part.provider}:{part.model}"
            seen[name] += 1
            key = name if seen[name] == 1 else f"{name}#{seen[name]}"
            verdict = None
            if evaluation and key in verdicts and part.error is None:
                verdict = self._verdict(_place_of_verdict(place, key), verdicts.pop(key), evaluation.evaluator)
            responses.append(CachedResponse(index, part, verdict))
        for key, value in verdicts.items():
            self._refuse(_place_of_verdict(place, key), "is of no response that can be read", value)
        return responses

    def _verdict(self, place: _Place, value: Any, evaluator: str | None) -> CachedVerdict | None:
        part = self._take(VerdictPart, place, value)
        return None if part is None else CachedVerdict(part.correct, evaluator, part.model_extra or {})

    def _take(self, model: type[ModelT], place: _Place, value: Any) -> ModelT | None:
        """The value as it must be; None, and a problem, if it is not."""
        try:
            return model.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            where = "".join(f"/{_escaped(str(step))}" for step in first["loc"])
            self._refuse(place.at(where), first["msg"], value)
            return None

    def _refuse(self, place: _Place, reason: str, value: Any) -> None:
        self._file.problems.append(_problem(place, reason, orjson.dumps(value)))
        if place.what == "file":
            self._file.reason = f"{place.pointer}: {reason}" if place.pointer else reason


def _place_of_verdict(place: _Place, key: str) -> _Place:
    return place.at(f"/evaluation/results/{_escaped(key)}", "verdict")


def _is_result(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("responses"), list) and bool(value["responses"])


def _problem(place: _Place, reason: str, content: bytes) -> UnreadableEntry:
    raw = content[:MOST_RAW_BYTES].decode(errors="replace")
    return UnreadableEntry(*place, reason, raw, len(content), hashlib.sha256(content).hexdigest())


def _escaped(key: str) -> str:
    """A key as a step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
