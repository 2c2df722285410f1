"""Caches of the ensemble-consensus evaluation, read entry by entry so that one malformed part costs only itself.

An *ensemble cache* has N responses of one model to each question, without the question's text. A *baseline cache* has
one judged response to each question, with its text. Both are JSON documents; parts are named by JSON pointers. A cache
is a part of a run: model and tag come from the file, its dataset is the benchmark, and N responses are N samples.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from shaberi_dagster.exchange.importer import (
    Entry,
    ImportedSample,
    ImportedVerdict,
    Importer,
    ImportSource,
    RunPart,
)
from shaberi_dagster.exchange.logs import import_logs
from shaberi_dagster.exchange.rejected import Rejected
from shaberi_dagster.exchange.reporting import ImportReport
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.spec import RunRequest
from shaberi_dagster.runs.stored import load_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.benchmarks.questions import CACHES
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS, BENCHMARKS
from shaberi_dagster.tasks.consensus.plurality import Plurality
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import check_model_name, check_run_tag

JUDGE = "legacy:unknown"
"""Judge of the verdicts: the caches do not say who gave them."""
_BENCHMARK = re.compile(r"[a-z0-9][a-z0-9_]{0,63}")
_LIST_SIZE = re.compile(r"_n([1-9]\d{0,5})\.json$")
ModelT = TypeVar("ModelT", bound=BaseModel)


class Caches(Importer):
    """Ensemble and baseline caches."""

    name, form, title, what, plural = "ensemble", "caches", CACHES, "ensemble or baseline cache", "caches"
    suffix = ".json"
    not_recorded = (
        "prompt and completion tokens (tokenCount is their sum), finish_reason, prompt, settings but temperature"
    )
    not_recorded_by_judges = "judge, prompt, judge_output, tokens, times"

    def entries(self, source: ImportSource, content: bytes) -> Iterator[Entry | Rejected]:
        """Read a document and take it for what it is."""
        try:
            document = orjson.loads(content)
            orjson.dumps(document)  # goes less deep than reading
        except orjson.JSONDecodeError as error:
            yield Rejected.of(None, f"is not JSON: {error.msg} at character {error.pos + 1}", content, what="file")
        except orjson.JSONEncodeError:
            yield Rejected.of(None, "is nested too deeply", content, what="file")
        else:
            yield from _Document(source).entries(document)


def import_ensemble(paths: Iterable[Path], workspace: Workspace) -> ImportReport:
    """Bring everything of some caches into the lake that is not there yet; see `import_logs`."""
    return import_logs(Caches(), paths, workspace)


def grading_of(run_id: str, lake: Lake) -> RunRequest | None:
    """Return what grades the samples of an imported run by rules and lets them vote, without a call.

    Args:
        run_id: A run that was imported from caches.
        lake: Where it is.

    Returns:
        The request; None if the run has one response to each question, or no benchmark whose questions are known.
    """
    spec = load_run(lake, run_id)
    if spec is None:
        return None
    names = [
        name
        for name, benchmark in spec.benchmarks.items()
        if benchmark.samples > 1 and benchmark.question_texts == "known" and ALL_BENCHMARKS[name].has_rule
    ]
    request = RunRequest(model=spec.model, tag=spec.run_tag, benchmarks=names, strategies=[Plurality.name])
    return request if names else None


class _Part(BaseModel):
    """A part of a document as it must be; what else stands in it is kept."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow", alias_generator=to_camel)


class _Response(_Part):
    """A response of a model.

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


class _Verdict(_Part):
    """A verdict on a response.

    Attributes:
        correct: Whether it was right.
    """

    correct: bool


class _Evaluation(_Part):
    evaluator: str | None = None
    results: dict[str, Any]


class _Result(_Part):
    question_id: Annotated[str, Field(min_length=1)]
    responses: list[Any]
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


class _Place(NamedTuple):
    """A place in a document; see `Rejected`."""

    what: str
    line: int | None
    pointer: str

    def at(self, steps: str, what: str | None = None) -> "_Place":
        """A place in this one."""
        return self._replace(pointer=self.pointer + steps, what=what or self.what)


_FILE = _Place("file", None, "")


class _Document:
    """A document of one file.

    Args:
        source: The file, which learns what it is.
    """

    def __init__(self, source: ImportSource) -> None:
        self._source = source
        self._rejected: list[Rejected] = []
        self._part = RunPart("", "", "")

    def entries(self, document: Any) -> Iterator[Entry | Rejected]:
        """Read the entries, and what cannot be read of them."""
        if isinstance(document, dict) and "entries" in document:
            yield from self._in_cache(document)
        elif isinstance(document, list) and (first := next(filter(_is_result, document), None)):
            yield from self._in_list(document, first)
        else:
            self._source.reason = "neither an ensemble cache nor a baseline cache"
        yield from self._rejected

    def _in_cache(self, document: dict[str, Any]) -> Iterable[Entry]:
        header = self._take(_Header, _FILE, document)
        if header is None:
            return []
        size, temperature = header.ensemble_size, header.temperature
        tag = "legacy-baseline" if size is None else f"legacy-{size}x-t{temperature or 0:g}"
        if size is not None and temperature is None:
            self._reject(_FILE, "has an ensembleSize and no temperature", document)
            return []
        if not self._is_for(document, RunPart(header.model, tag, header.dataset, size or 1, temperature)):
            return []
        self._source.kind = "baseline" if size is None else "ensemble"
        return self._each(header.entries, "/entries", self._baseline_entry if size is None else self._result)

    def _in_list(self, document: list[Any], first: dict[str, Any]) -> Iterable[Entry]:
        """An older baseline cache: the results alone, which say the model and the dataset themselves."""
        response = self._take(_Response, _FILE, first["responses"][0])
        if response is None:
            return []
        size = _LIST_SIZE.search(self._source.location.name)
        tag = f"legacy-baseline-n{size[1] if size else len(document)}"
        dataset = str(first.get("questionId")).rpartition("-")[0]
        if not self._is_for(document, RunPart(f"{response.provider}:{response.model}", tag, dataset)):
            return []
        self._source.kind = "baseline"
        return self._each(document, "", self._result)

    def _is_for(self, document: Any, part: RunPart) -> bool:
        """Let all entries be of this part, if its rows can have these names."""
        try:
            check_model_name(part.model)
            check_run_tag(part.run_tag)
        except ConfigurationError as error:
            self._reject(_FILE, str(error), document)
            return False
        if not _BENCHMARK.fullmatch(part.benchmark) or part.benchmark in BENCHMARKS:
            reason = f"dataset {part.benchmark[:64]!r} is no benchmark of the ensemble evaluation"
            self._reject(_FILE, reason, document)
            return False
        self._source.part = self._part = part
        return True

    def _each(
        self, entries: Sequence[Any], where: str, read: Callable[[_Place, Any, Any], Entry | None]
    ) -> Iterator[Entry]:
        self._source.n_entries = len(entries)
        first: dict[str, int] = {}
        for index, value in enumerate(entries):
            place = _Place("entry", index + 1, f"{where}/{index}")
            name = value.get("questionId") if isinstance(value, dict) else None
            if isinstance(name, str) and name in first:
                self._reject(place, f"repeats the question of {where}/{first[name]}", value)
            elif entry := read(place, value, value):
                first[entry.name] = index
                yield entry

    def _baseline_entry(self, place: _Place, value: Any, whole: Any) -> Entry | None:
        part = self._take(_BaselineEntry, place, value)
        if part is None:
            return None
        if part.result.get("questionId", part.question_id) != part.question_id:
            self._reject(place, "its result is of another question", value)
            return None
        return self._result(place.at("/result"), {"questionId": part.question_id} | part.result, whole)

    def _result(self, place: _Place, value: Any, whole: Any) -> Entry | None:
        part = self._take(_Result, place, value)
        if part is None:
            return None
        return Entry(
            line=place.line or 0,
            part=self._part,
            name=part.question_id,
            samples=self._samples(place, part.responses, part.evaluation),
            question=part.prompt,
            reference=part.ground_truth,
            category=part.category,
            fields={name: value for name, value in (part.model_extra or {}).items() if value not in ({}, [], None)},
            value=whole,
            pointer=place.pointer,
            n_samples=len(part.responses),
            n_verdicts=len(part.evaluation.results) if part.evaluation else 0,
        )

    def _samples(self, place: _Place, values: Sequence[Any], evaluation: _Evaluation | None) -> list[ImportedSample]:
        """The responses, each with the verdict under its name: `provider:model`, then `provider:model#2`, …."""
        verdicts = dict(evaluation.results) if evaluation else {}
        seen: Counter[str] = Counter()
        samples = []
        for index, value in enumerate(values):
            part = self._take(_Response, place.at(f"/responses/{index}", "response"), value)
            if part is None:
                continue
            name = f"{part.provider}:{part.model}"
            seen[name] += 1
            key = name if seen[name] == 1 else f"{name}#{seen[name]}"
            found = []
            if evaluation and key in verdicts and part.error is None:
                found = self._verdicts(_place_of_verdict(place, key), verdicts.pop(key), evaluation.evaluator)
            seconds = None if part.response_time_ms is None else part.response_time_ms / 1000
            fields = self._fields(part)
            samples.append(
                ImportedSample(index, part.content, part.error, latency_seconds=seconds, fields=fields, verdicts=found)
            )
        for key, value in verdicts.items():
            self._reject(_place_of_verdict(place, key), "is of no response that can be read", value)
        return samples

    def _fields(self, part: _Response) -> Mapping[str, Any]:
        fields = dict(part.model_extra or {})
        if part.token_count is not None:
            fields["tokenCount"] = part.token_count
        if f"{part.provider}:{part.model}" != self._part.model:
            fields |= {"provider": part.provider, "model": part.model}
        return fields

    def _verdicts(self, place: _Place, value: Any, evaluator: str | None) -> list[ImportedVerdict]:
        part = self._take(_Verdict, place, value)
        return [ImportedVerdict(JUDGE, part.correct, {"evaluator": evaluator}, part.model_extra or {})] if part else []

    def _take(self, model: type[ModelT], place: _Place, value: Any) -> ModelT | None:
        """The value as it must be; None, and it is rejected, if it is not."""
        try:
            return model.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            where = "".join(f"/{_escaped(str(step))}" for step in first["loc"])
            self._reject(place.at(where), first["msg"], value)
            return None

    def _reject(self, place: _Place, reason: str, value: Any) -> None:
        what, line, pointer = place
        self._rejected.append(Rejected.of(line, reason, orjson.dumps(value), what=what, pointer=pointer))


def _place_of_verdict(place: _Place, key: str) -> _Place:
    return place.at(f"/evaluation/results/{_escaped(key)}", "verdict")


def _is_result(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("responses"), list) and bool(value["responses"])


def _escaped(key: str) -> str:
    """A key as a step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
