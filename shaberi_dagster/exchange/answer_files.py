"""Answers that were made elsewhere, as files of any tool; and the requests that such a tool needs."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from shaberi_dagster.exchange.importer import Entry, ImportedSample, Importer, ImportSource, RunPart
from shaberi_dagster.exchange.logs import import_logs
from shaberi_dagster.exchange.rejected import Rejected
from shaberi_dagster.exchange.reporting import ImportReport
from shaberi_dagster.llm.client import error_class_of
from shaberi_dagster.llm.endings import without_end_tokens
from shaberi_dagster.llm.endpoints import request_body
from shaberi_dagster.llm.providers.registry import DEFAULT_PROVIDER, PROVIDERS
from shaberi_dagster.llm.reply import MalformedReplyError, ReceivedReply, error_details
from shaberi_dagster.llm.thinking import split_thinking
from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.questions import load_questions, load_source
from shaberi_dagster.runs.spec import RunRequest
from shaberi_dagster.runs.stages.answers import Answers
from shaberi_dagster.runs.stored import find_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.benchmarks.files import rows_and_errors, whole_number
from shaberi_dagster.tasks.benchmarks.questions import Question, QuestionSet
from shaberi_dagster.tasks.benchmarks.registry import parse_benchmarks
from shaberi_dagster.util.errors import QuestionFileError
from shaberi_dagster.util.identity import check_model_name, check_run_tag, run_id_of

_ANSWERS = ("answer", "response", "output", "completion")
_THINKING = ("thinking", "reasoning", "reasoning_content")
_TOKENS = ("prompt_tokens", "completion_tokens")
_PATH = "/v1/chat/completions"
_MOST_SHOWN = 80


class _NoAnswerError(Exception):
    """A row that cannot become an answer, and why."""


@dataclass
class AnswerFiles(Importer):
    """Rows with a question (its text or id) and an answer: CSV, JSON Lines, JSON, Parquet; or a batch's output.

    Attributes:
        model: Whose answers they are.
        run_tag: Tag of the run.
        known: The question sets of the run, by benchmark.
        benchmark: The benchmark of rows that name none.
    """

    title = "answers made elsewhere"
    what = "answers"
    plural = "answer files"
    suffix = ""
    not_recorded = "settings, prompt"

    model: str
    run_tag: str
    known: Mapping[str, QuestionSet] = field(default_factory=dict)
    benchmark: str | None = None

    def __post_init__(self) -> None:
        self.name = f"answers of {run_id_of(self.model, self.run_tag)}"

    def entries(self, source: ImportSource, content: bytes) -> Iterable[Entry | Rejected]:
        """Put the rows of a file together by question; what is no answer to a question of the sets is set aside."""
        found: dict[tuple[str, Question], dict[int, tuple[int, ImportedSample]]] = {}
        rejected: list[Rejected] = []
        try:
            rows = list(rows_and_errors(source.location))
        except QuestionFileError as error:
            return [Rejected.of(error.line, error.reason, content, what="file")]
        for line, row in rows:
            if isinstance(row, QuestionFileError):
                raw = content.splitlines()[line - 1 : line] if source.location.suffix == ".jsonl" else []
                rejected.append(Rejected.of(line, row.reason, b"".join(raw)))
                continue
            reason = None
            try:
                benchmark, question, sample = self._read(row)
                samples = found.setdefault((benchmark, question), {})
                first, earlier = samples.setdefault(sample.index, (line, sample))
                if earlier.error is not None and sample.error is None:
                    samples[sample.index] = line, sample
                elif first != line and sample.error is None:
                    reason = f"answers the question of line {first} again, which stands"
            except (_NoAnswerError, MalformedReplyError) as error:
                reason = str(error)
            except (AttributeError, TypeError, ValueError):
                reason = "is no line of a batch's output"
            if reason:
                rejected.append(Rejected.of(line, reason, orjson.dumps(row, default=str)))
        return [*self._entries(found), *rejected]

    def _entries(
        self, found: Mapping[tuple[str, Question], Mapping[int, tuple[int, ImportedSample]]]
    ) -> Iterator[Entry]:
        most = Counter[str]()
        for (benchmark, _), samples in found.items():
            most[benchmark] = max(most[benchmark], len(samples))
        for (benchmark, question), samples in found.items():
            yield Entry(
                line=min(line for line, _ in samples.values()),
                part=RunPart(self.model, self.run_tag, benchmark, most[benchmark]),
                name=question.question_id,
                samples=[sample for _, (_, sample) in sorted(samples.items())],
                asked=question,
            )

    def _read(self, row: Mapping[str, Any]) -> tuple[str, Question, ImportedSample]:
        if "custom_id" in row:
            return self._read_batch(row)
        if not {"question", "question_id"} & row.keys():
            raise _NoAnswerError(f"has neither question nor question_id, but {', '.join(row)[:_MOST_SHOWN]}")
        benchmark = self._benchmark_of(row.get("benchmark"))
        question = self._question(benchmark, row)
        text = next((value for name in _ANSWERS if (value := row.get(name)) is not None), None)
        if not isinstance(text, str):
            raise _NoAnswerError(f"has no answer: it stands in {', '.join(_ANSWERS)}")
        thinking = next((str(value) for name in _THINKING if (value := row.get(name))), None)
        columns = {f"answer_{name}": count for name in _TOKENS if (count := _count(row, name)) is not None}
        reply = ReceivedReply(text, thinking, str(row["finish_reason"]) if row.get("finish_reason") else None)
        return benchmark, question, _sample(_count(row, "sample_index") or 0, reply, columns)

    def _read_batch(self, row: Mapping[str, Any]) -> tuple[str, Question, ImportedSample]:
        """Read a line of a batch's output, as OpenAI, vLLM and others write it, for a request that was exported."""
        name, _, rest = str(row["custom_id"]).partition("/")
        question_id, _, index = rest.partition("/")
        benchmark = self._benchmark_of(name)
        question = self._question(benchmark, {"question_id": question_id})
        sample = _count({"sample_index": index}, "sample_index") or 0
        response = row.get("response") or {}
        body, status = response.get("body") or {}, response.get("status_code") or 200
        if row.get("error") or body.get("error") or status >= 400:  # noqa: PLR2004
            details = error_details(row if row.get("error") else body)
            kind = error_class_of(details.status or (status if status >= 400 else 500), details)  # noqa: PLR2004
            return benchmark, question, ImportedSample(sample, "", details.message or str(response), kind)
        reply = PROVIDERS.use(DEFAULT_PROVIDER)().reply(body)
        columns = {f"answer_{name}": count for name, count in vars(reply.usage).items() if count is not None}
        return benchmark, question, _sample(sample, reply, columns)

    def _benchmark_of(self, name: object) -> str:
        benchmark = str(name or self.benchmark or "")
        if benchmark not in self.known:
            asked = ", ".join(self.known)
            why = f"is of benchmark {benchmark!r}, not of {asked}" if benchmark else "names no benchmark"
            raise _NoAnswerError(why)
        return benchmark

    def _question(self, benchmark: str, row: Mapping[str, Any]) -> Question:
        """Find the one question that a row names, by its id or its text."""
        asked, names = self.known[benchmark], self._names[benchmark]
        given = {name: row[name] for name in ("question_id", "question") if not _is_missing(row.get(name))}
        exact = {name: value if isinstance(value, str) else None for name, value in given.items()}
        meant = [names.get(exact[name]) or names.get((_folded(value),)) for name, value in given.items()]
        named = [found for found in meant if found]
        found = set.intersection(*named) if named else set()
        if len(found) == 1:
            return found.pop()
        shown = ", ".join(f"{name} {str(value)[:_MOST_SHOWN]!r}" for name, value in given.items())
        if named:
            places = ", ".join(map(str, sorted(question.position for question in set[Question]().union(*named))))
            raise _NoAnswerError(f"{shown} is of several questions of {asked.name}, numbers {places}")
        raise _NoAnswerError(f"is to no question of {asked.name}: {shown or 'names none'}")

    @cached_property
    def _names(self) -> dict[str, dict[Any, set[Question]]]:
        """The questions of each benchmark by what rows may call them exactly, and (a tuple) in one spelling."""
        found: dict[str, dict[Any, set[Question]]] = {name: defaultdict(set) for name in self.known}
        for benchmark, asked in self.known.items():
            for question in asked.questions:
                for name in filter(None, (question.question_id, question.upstream_id, question.question)):
                    found[benchmark][name].add(question)
                    found[benchmark][_folded(name),].add(question)
        return found


def _folded(value: object) -> str:
    """Return a name without what differs between tools: form of numbers, Unicode form, line ends, marks and edges."""
    number = whole_number(value)
    text = unicodedata.normalize("NFKC", str(value)).replace("\ufeff", "")
    return str(number) if number is not None else "\n".join(map(str.strip, text.strip().splitlines()))


def _is_missing(value: object) -> bool:
    return value is None or value == "" or value != value  # noqa: PLR0124  (NaN is what tables have in gaps)


def _count(row: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number that a row has; None where it has none."""
    if _is_missing(value := row.get(name)):
        return None
    count = whole_number(value)
    if count is None or count < 0:
        raise _NoAnswerError(f"{name} {str(value)[:_MOST_SHOWN]!r} is no whole number from 0")
    return count


def _sample(index: int, reply: ReceivedReply, columns: Mapping[str, Any]) -> ImportedSample:
    if reply.finish_reason == "error":
        return ImportedSample(index, "", "the reply ended in an error")
    split = split_thinking(without_end_tokens(reply.content))
    thinking = "\n\n".join(text for text in (reply.reasoning, split.thinking) if text)
    more = {
        "finish_reason": reply.finish_reason,
        "truncated": reply.finish_reason == "length",
        "thinking": thinking or None,
        "raw_answer": reply.content if reply.content != split.answer else None,
    }
    return ImportedSample(index, split.answer, columns={**columns, **more})


@dataclass(frozen=True)
class ImportedAnswers:
    """An import of answers.

    Attributes:
        report: What became of the files.
        run_id: The run.
        missing: Texts of questions without an answer, by question set.
        n_answered: Questions of the run that have an answer.
        n_before: Those that had one before.
    """

    report: ImportReport
    run_id: str
    missing: Mapping[str, Sequence[str]]
    n_answered: int
    n_before: int


def import_answers(
    paths: Sequence[Path],
    workspace: Workspace,
    *,
    model: str,
    tag: str,
    benchmarks: Sequence[str],
    questions: str | None = None,
) -> ImportedAnswers:
    """Bring answers that were made elsewhere into the lake, as a run that can be judged.

    Args:
        paths: Their files.
        workspace: Where to write.
        model: Whose they are.
        tag: Tag of the run.
        benchmarks: What they answer; rows that name no benchmark are of the first one where it is the only one.
        questions: `starter`, `hub` or a folder; None is the configured folder, else the starter set.

    Raises:
        ConfigurationError: A file, benchmark or question set is not there, nothing could be read, or the run was made
            here.
    """
    check_model_name(model)
    check_run_tag(tag)
    chosen = parse_benchmarks(",".join(benchmarks))
    before = find_run(workspace.lake, model, tag)
    known = {name: load_questions(before, name, workspace) for name in before.benchmarks} if before else {}
    asked = {benchmark.name: load_source(benchmark, questions, None, workspace) for benchmark in chosen}
    importer = AnswerFiles(model, tag, {**known, **asked}, chosen[0].name if len(chosen) == 1 else None)
    run_id = run_id_of(model, tag)
    earlier = _answered(workspace, run_id)
    report = import_logs(importer, paths, workspace)
    there = _answered(workspace, run_id)
    missing = {
        questions_of.name: [
            question.question for question in questions_of.questions if (name, question.question_id) not in there
        ]
        for name, questions_of in asked.items()
    }
    return ImportedAnswers(report, run_id, missing, len(there), len(earlier))


def _answered(workspace: Workspace, run_id: str) -> set[tuple[str, str]]:
    """Find the questions of a run that have an answer."""
    keys = {"run_id": run_id, "status": "ok"}
    return set(workspace.lake.read("answers", keys, ["benchmark", "question_id"]).iter_rows())


def requests_of(request: RunRequest, workspace: Workspace) -> Iterator[bytes]:
    """Yield the calls for answers of a run as lines of OpenAI's batch form, which many tools take.

    Raises:
        ConfigurationError: The request cannot be planned.
    """
    spec = plan_run(request, workspace, is_judged=False)
    answers = Answers(RunPlan(spec, list(spec.benchmarks), workspace))
    for item in answers.items(answers.planned()):
        custom_id = "/".join(str(item.columns[name]) for name in ("benchmark", "question_id", "sample_index"))
        if item.request:
            line = {"custom_id": custom_id, "method": "POST", "url": _PATH, "body": request_body(item.request)}
            yield orjson.dumps(line) + b"\n"
