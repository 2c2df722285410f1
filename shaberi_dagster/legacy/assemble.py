"""Legacy trees as rows of the lake's tables.

`plan_import` lists what there is, `read_model` reads it model by model, so that memory holds the files of one model at
a time. Nothing is lost on the way: each line of each file that is not a duplicate is found by its (source_sha256,
source_line) as an answer, a judgement, a repeat or a quarantined line, or is blank.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from shaberi_dagster.benchmarks.questions import Question
from shaberi_dagster.benchmarks.registry import BENCHMARKS
from shaberi_dagster.identity import run_id_of, sha256_text
from shaberi_dagster.judges.parse import is_out_of_scale, parse_score
from shaberi_dagster.lake.schemas import ANSWERS, JUDGEMENTS, LEGACY_FILES, LEGACY_QUARANTINE, LEGACY_REPEATS, Table
from shaberi_dagster.legacy.generations import Assigned, Generation, Part, Sample, SampleKey, assign, form_of, part_of
from shaberi_dagster.legacy.judges import LegacyJudge, legacy_judge
from shaberi_dagster.legacy.questions import DATASETS, QuestionIndex, other_fields
from shaberi_dagster.legacy.rows import Blank, Quarantined, Row, read_rows
from shaberi_dagster.legacy.tree import LegacyFile, display_name, scan
from shaberi_dagster.llm.thinking import answer_state, split_thinking

_PERMANENT = "PERMANENT_ERROR with model "
_UNEXPECTED = "UNEXPECTED_ERROR: "
_MESSAGE_LENGTH = 300
NOT_RECORDED = "settings, tokens, times, finish_reason"
_NOT_RECORDED_BY_JUDGES = f"{NOT_RECORDED}, judge_output"
# By generation, judge and sample: the recorded scores with their texts.
_Said = dict[tuple[int, str, SampleKey], list[tuple[str, str | None]]]
# Which stored answers there are for a sample.
_Stored = dict[SampleKey, set[str | None]]
_LINKS = {"as_stored": "stored", "thinking_stripped": "stored_stripped", "null_as_empty": "stored_null"}

_OK: dict[str, Any] = {"status": "ok", "error_class": None, "error_message": None}
_DATASET_ORDER = {name: place for place, name in enumerate(DATASETS)}


@dataclass(frozen=True)
class ImportPlan:
    """What there is to import.

    Attributes:
        models: The files to read by the model's file name, in the order of precedence.
        duplicates: Files with the bytes of another one of the same kind, judge and model, and that one.
        rest: Files that are not read, each with its reason.
    """

    models: Mapping[str, Sequence[LegacyFile]]
    duplicates: Sequence[tuple[LegacyFile, LegacyFile]]
    rest: Sequence[LegacyFile]

    @property
    def files(self) -> Iterator[LegacyFile]:
        """The files to read."""
        for files in self.models.values():
            yield from files


def plan_import(trees: Mapping[str, Path]) -> ImportPlan:
    """List the files of trees and drop what is there twice.

    Args:
        trees: Folders by the names they are known by. Where two trees contradict each other, the first one named
            stands: its answers are generation 1, its judgements are in force.

    Raises:
        ConfigurationError: A folder does not exist or is far too large.
    """
    found = [(place, file) for place, (name, root) in enumerate(trees.items()) for file in scan(root, name)]
    found.sort(key=lambda each: (each[0], _dataset_place(each[1]), each[1].path))
    models: dict[str, list[LegacyFile]] = defaultdict(list)
    first: dict[tuple[str | None, ...], LegacyFile] = {}
    duplicates, rest = [], []
    for _, file in found:
        if file.reason is not None or file.model is None:
            rest.append(file)
        elif file.import_key in first:
            duplicates.append((file, first[file.import_key]))
        else:
            first[file.import_key] = file
            models[file.model].append(file)
    return ImportPlan(dict(sorted(models.items())), duplicates, rest)


def _dataset_place(file: LegacyFile) -> int:
    return _DATASET_ORDER.get(file.dataset or "", len(_DATASET_ORDER))


@dataclass(frozen=True)
class Batch:
    """The rows of one model or several, as frames.

    Attributes:
        answers: Rows of `ANSWERS`.
        judgements: Rows of `JUDGEMENTS`.
        files: Rows of `LEGACY_FILES`.
        quarantine: Rows of `LEGACY_QUARANTINE`.
        repeats: Rows of `LEGACY_REPEATS`.
    """

    answers: pl.DataFrame
    judgements: pl.DataFrame
    files: pl.DataFrame
    quarantine: pl.DataFrame
    repeats: pl.DataFrame


def concatenated(batches: Sequence[Batch]) -> Batch:
    """All rows of some batches, at least one."""
    return Batch(*(pl.concat([getattr(each, name) for each in batches]) for name in Batch.__dataclass_fields__))


def read_model(
    model: str, files: Sequence[LegacyFile], index: QuestionIndex, *, tag: str, imported_at: datetime
) -> Batch:
    """All rows of one model.

    Generation 1 of its answers is the run `tag`, generation N the run `{tag}-genN`: legacy files do not say when or
    with which settings answers were made, only that they are others.

    Args:
        model: Its file name.
        files: Its files in the order of precedence.
        index: The question sets known so far; sets that are met for the first time become known.
        tag: Tag of the runs.
        imported_at: `created_at` of the rows.
    """
    return _Model(model, tag, imported_at, index).batch(files)


@dataclass
class _FileCount:
    """What became of a file's lines."""

    file: LegacyFile
    reason: str | None = None
    parts: list[Part] = field(default_factory=list)
    columns: dict[tuple[str, ...], list[int]] = field(default_factory=lambda: defaultdict(list))
    lines: int = 0
    blank: int = 0
    imported: int = 0
    repeated: int = 0
    quarantined: int = 0

    def row(self) -> dict[str, Any]:
        """The row of `LEGACY_FILES`."""
        main = max(self.parts, key=lambda part: len(part.rows), default=None)
        counts = {name: getattr(self, name) for name in ("lines", "blank", "imported", "repeated", "quarantined")}
        lines = {",".join(names): lines for names, lines in self.columns.items()}
        usual = max(lines, key=lambda names: len(lines[names]), default=None)
        others = {names: lines[names] for names in lines if names != usual}
        return _file_row(self.file) | {
            "status": "unreadable" if self.reason else "imported",
            "reason": self.reason,
            "benchmark": main.benchmark if main else None,
            "question_set": main.question_set.name if main else None,
            "row_columns": orjson.dumps({names: len(each) for names, each in lines.items()}).decode(),
            "column_lines": _json(others),
            **counts,
        }


class _Model:
    """The import of one model."""

    def __init__(self, model: str, tag: str, imported_at: datetime, index: QuestionIndex) -> None:
        self._model, self._tag, self._imported_at, self._index = model, tag, imported_at, index
        self._answers: list[dict[str, Any]] = []
        self._judgements: list[dict[str, Any]] = []
        self._quarantine: list[dict[str, Any]] = []
        self._repeats: list[dict[str, Any]] = []
        self._counts: dict[LegacyFile, _FileCount] = {}
        self._runs: dict[int, tuple[str, str]] = {}

    def batch(self, files: Sequence[LegacyFile]) -> Batch:
        """All rows of the model."""
        parts: dict[str, list[Part]] = defaultdict(list)
        # A stable sort: answers first, everything else as planned.
        for file in sorted(files, key=lambda file: file.kind):
            for part in self._read(file):
                parts[part.benchmark].append(part)
        for of_benchmark in parts.values():
            self._assemble(assign(of_benchmark, self._index))
        same = {
            "model": self._model,
            "display_name": display_name(self._model),
            "created_at": self._imported_at,
        }
        return Batch(
            _frame(self._answers, ANSWERS, **same, not_recorded=NOT_RECORDED),
            _frame(self._judgements, JUDGEMENTS, **same),
            _files_frame([count.row() for count in self._counts.values()], self._tag, self._imported_at),
            _frame(self._quarantine, LEGACY_QUARANTINE),
            _frame(self._repeats, LEGACY_REPEATS),
        )

    def _read(self, file: LegacyFile) -> list[Part]:
        """The rows of a file by benchmark."""
        count = self._counts[file] = _FileCount(file)
        rows: dict[str, list[tuple[Row, Question]]] = defaultdict(list)

        def place(row: Row) -> str | None:
            found = self._index.question_of(row, file.dataset)
            if found is None:
                return f"neither its question nor the folder {file.dataset!r} is of a known benchmark"
            rows[found[0]].append((row, found[1]))
            return None

        try:
            with file.location.open("rb") as stream:
                for line in read_rows(stream, file.kind, objection=place):
                    count.lines += 1
                    if isinstance(line, Blank):
                        count.blank += 1
                    elif isinstance(line, Quarantined):
                        self._set_aside(count, line)
                    else:
                        count.columns[line.columns].append(line.line)
        except OSError as error:
            # What was read before stands; where reading ended is in the reason.
            count.reason = f"cannot be read after line {count.lines}: {error.strerror or error}"
        count.parts = [part_of(file, benchmark, of_it, self._index) for benchmark, of_it in rows.items()]
        return count.parts

    def _set_aside(self, count: _FileCount, line: Quarantined) -> None:
        count.quarantined += 1
        self._quarantine.append(
            {
                "import_tag": self._tag,
                "source": count.file.source,
                "path": count.file.path,
                "model": self._model,
                "source_sha256": count.file.sha256,
                "source_line": line.line,
                "reason": line.reason,
                "raw": line.raw,
                "raw_encoding": line.raw_encoding,
                "size": line.size,
                "sha256": line.sha256,
            }
        )

    def _assemble(self, assigned: Sequence[Assigned]) -> None:
        """Rows of one benchmark, once its generations are complete."""
        stored: _Stored = defaultdict(set)
        for each in assigned:
            for key, sample in each.generation.samples.items():
                if sample.stored:
                    stored[key].add(sample.row.answer)
        said: _Said = defaultdict(list)
        for each in assigned:
            self._answers.extend(self._answer(each, key) for key in each.part.rows if key in each.new)
            if each.part.file.judge is None:
                repeats = [key for key in each.part.rows if key not in each.new]
            else:
                repeats = self._judge(each, legacy_judge(each.part.file.judge), said, stored)
            count = self._counts[each.part.file]
            count.repeated += len(repeats)
            count.imported += len(each.part.rows) - len(repeats)
            self._repeats.extend(self._repeat(each, key) for key in repeats)

    def _judge(self, each: Assigned, judge: LegacyJudge, said: _Said, stored: _Stored) -> list[SampleKey]:
        """Add the rows of a judgement file.

        Args:
            each: The file's part.
            judge: Its judge.
            said: What earlier files said of the same samples; later judgements that differ are superseded.
            stored: What the answer files have.

        Returns:
            The rows that say what had been said.
        """
        backfilled, repeats = _is_backfilled(each.part), []
        for key, row in each.part.rows.items():
            earlier = said[each.generation.number, judge.judge, key]
            content = _recorded(row.score), row.judge_output
            if content in earlier:
                repeats.append(key)
                continue
            self._judgements.append(
                self._judgement(each, key, judge)
                | {
                    "judge_round": len(earlier),
                    "superseded": bool(earlier),
                    "backfilled": backfilled and isinstance(row.score, int),
                    "answer_link": _link(each.generation.samples[key], row, stored[key]),
                }
            )
            earlier.append(content)
        return repeats

    def _run(self, generation: int) -> tuple[str, str]:
        if generation not in self._runs:
            tag = self._tag if generation == 1 else f"{self._tag}-gen{generation}"
            self._runs[generation] = run_id_of(self._model, tag), tag
        return self._runs[generation]

    def _keys(self, generation: Generation, key: SampleKey) -> dict[str, Any]:
        run_id, tag = self._run(generation.number)
        return {
            "run_id": run_id,
            "run_tag": tag,
            "benchmark": generation.benchmark,
            "question_set": generation.question_set.name,
            "question_id": key[0],
            "sample_index": key[1],
        }

    def _source(self, part: Part, key: SampleKey, row: Row) -> dict[str, Any]:
        question = self._index.members_of(part.question_set.name)[key[0]]
        return {
            "source_sha256": part.file.sha256,
            "source_line": row.line,
            "legacy_fields": _json(other_fields(row, part.benchmark, question)),
        }

    def _common(self, each: Assigned, key: SampleKey, row: Row) -> dict[str, Any]:
        return {
            **self._keys(each.generation, key),
            **self._source(each.part, key, row),
            "generation": each.generation.number,
        }

    def _answer(self, each: Assigned, key: SampleKey) -> dict[str, Any]:
        sample = each.generation.samples[key]
        raw = sample.row.answer
        text = sample.judged if sample.is_judged else None if raw is None else split_thinking(raw).answer
        form = "as_stored" if text is None else form_of(raw, text)
        return {
            **self._common(each, key, sample.row),
            "answer": text,
            "answer_hash": None if text is None else sha256_text(text),
            "answer_state": None if text is None else answer_state(text),
            "thinking": split_thinking(raw).thinking if form == "thinking_stripped" and raw else None,
            **_answer_status(raw, text),
            "answer_origin": "stored" if sample.stored else "judgement",
            "answer_form": form,
            "raw_answer": raw if raw != text else None,
            "answered_at": _time(sample.row.fields.get("UpdatedAt")),
        }

    def _judgement(self, each: Assigned, key: SampleKey, judge: LegacyJudge) -> dict[str, Any]:
        row, judged = each.part.rows[key], each.generation.samples[key].judged
        return {
            **self._common(each, key, row),
            "judge": judge.judge,
            "judge_model": judge.model,
            "judge_config_hash": judge.config_hash,
            "judge_prompt_version": judge.prompt_version,
            "judge_prompt_version_source": judge.prompt_version_source,
            "answer_hash": None if judged is None else sha256_text(judged),
            "not_recorded": NOT_RECORDED if row.judge_output is not None else _NOT_RECORDED_BY_JUDGES,
            **_score(row, each.generation.benchmark),
        }

    def _repeat(self, each: Assigned, key: SampleKey) -> dict[str, Any]:
        keys = self._keys(each.generation, key)
        return {
            **{name: keys[name] for name in ("run_id", "benchmark", "question_id", "sample_index")},
            **self._source(each.part, key, each.part.rows[key]),
            "judge": each.part.file.judge,
        }


def _link(sample: Sample, row: Row, stored: Collection[str | None]) -> str:
    """What the judged text is to the stored answers (`answer_link`): to its own generation's, else to any."""
    if not stored:
        return "no_stored"
    forms = {form_of(raw, row.answer) for raw in ({sample.row.answer} if sample.stored else stored)}
    return next((link for form, link in _LINKS.items() if form in forms), "differs")


def _is_backfilled(part: Part) -> bool:
    """Whether integers stand among floats: a file once written with nulls has floats only."""
    types = {type(row.score) for row in part.rows.values()}
    return {int, float} <= types and type(None) not in types


def _answer_status(raw: str | None, text: str | None) -> dict[str, str | None]:
    if raw is None:
        return _failure("no_answer", "the stored answer is null")
    if raw.startswith(_PERMANENT):
        return _failure("permanent", raw)
    if raw.startswith(_UNEXPECTED):
        return _failure("unexpected", raw)
    if (state := answer_state(text or "")) != "text":
        return _failure("empty_answer", f"the answer is {state}")
    return dict(_OK)


def _failure(error_class: str, message: str) -> dict[str, str | None]:
    one_line = " ".join(message[: 2 * _MESSAGE_LENGTH].split())[:_MESSAGE_LENGTH]
    return {"status": "error", "error_class": error_class, "error_message": one_line}


def _score(row: Row, benchmark: str) -> dict[str, Any]:
    """The columns that say what the score is and where it came from.

    An object in place of a score counts as no score, as in the published tables; the number inside is beside it.
    """
    score, output, recovered = row.score, row.judge_output, None
    failure = _failure("no_score", "the recorded score is null")
    if isinstance(score, dict):
        inner = score.get("judge_output")
        output = inner if output is None and isinstance(inner, str) else output
        recovered = _number(score.get("score"))
        score, failure = None, _failure("object_score", "the recorded score is an object")
    columns = {"recorded_score": _recorded(row.score), "recovered_score": recovered, "judge_output": output}
    if score is None:
        return columns | failure | {"score": None, "out_of_scale": None, "score_source": None}
    entry = BENCHMARKS[benchmark]
    return (
        columns
        | _OK
        | {
            "score": float(score),
            "out_of_scale": is_out_of_scale(score, entry.scale_minimum, entry.scale_maximum),
            "score_source": _score_source(float(score), output, row.answer, benchmark),
        }
    )


def _score_source(score: float, output: str | None, answer: str | None, benchmark: str) -> str:
    """Where the score came from: `recorded` when the judge's text is not kept or says another score."""
    if output is None:
        return "recorded"
    parsed = parse_score(
        output,
        legacy_forms=BENCHMARKS[benchmark].judging.legacy_score_forms,
        answer=answer or "",
        finish_reason=None,
        rounding="legacy",
    )
    if parsed is None:
        return "fallback"  # by elimination: the suite's second call read it
    return parsed.source if parsed.score == score else "recorded"


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _recorded(score: Any) -> str:
    return orjson.dumps(score).decode()


def _json(fields: Mapping[str, Any]) -> str | None:
    return orjson.dumps(fields).decode() if fields else None


def _time(value: Any) -> datetime | None:
    """A time with its offset; anything else stays where it is, in `legacy_fields`."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
        return time.astimezone(UTC) if time is not None and time.tzinfo else None
    except (ValueError, OverflowError):
        return None


def unread_files(plan: ImportPlan, *, tag: str, imported_at: datetime) -> pl.DataFrame:
    """Rows of `LEGACY_FILES` for the files whose rows are not read: duplicates, and what is no legacy file."""
    files = [
        _file_row(file) | {"status": "unknown" if file.kind == "unknown" else "unreadable", "reason": file.reason}
        for file in plan.rest
    ]
    files += [
        _file_row(file) | {"status": "duplicate", "duplicate_of": f"{original.source}:{original.path}"}
        for file, original in plan.duplicates
    ]
    return _files_frame(files, tag, imported_at)


def _file_row(file: LegacyFile) -> dict[str, Any]:
    names = ("source", "path", "root", "sha256", "size", "kind", "dataset", "judge", "model")
    return {name: getattr(file, name) for name in names}


def _files_frame(rows: Sequence[dict[str, Any]], tag: str, imported_at: datetime) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=LEGACY_FILES.schema).with_columns(
        import_tag=pl.lit(tag), imported_at=pl.lit(imported_at)
    )


def _frame(rows: Sequence[dict[str, Any]], table: Table, **same: Any) -> pl.DataFrame:
    """The rows, which all have the same keys, with all columns of a table; `same` are values that all rows have."""
    schema = table.schema
    # Keys that rows do not have cost as much as those that they have.
    frame = pl.DataFrame(rows, schema={name: schema[name] for name in rows[0]} if rows else {})
    missing = {name: pl.lit(same.get(name), dtype=type_) for name, type_ in schema.items() if name not in frame.columns}
    return frame.with_columns(**missing).select(list(schema)) if rows else table.schema.to_frame()
