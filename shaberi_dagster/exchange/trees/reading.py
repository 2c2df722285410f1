"""Files of many models as frames of lines: in parts that fit into memory.

Lines are the one form between the files and the lake's tables. A *content* is the bytes of a file as the file of one
kind, judge and model: it is read once, in however many trees it lies. Texts are apart from the lines, since each
judge's file repeats those of the answers.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
import polars as pl

from shaberi_dagster.exchange.rejected import Rejected
from shaberi_dagster.exchange.trees.files import CONTENT, UNREADABLE, LegacyFile, opened
from shaberi_dagster.exchange.trees.jsonl import Row, read_rows
from shaberi_dagster.exchange.trees.questions import QuestionIndex, other_fields
from shaberi_dagster.lake.schemas import LEGACY_QUARANTINE
from shaberi_dagster.tasks.benchmarks.questions import Question, QuestionSet
from shaberi_dagster.tasks.benchmarks.registry import BENCHMARKS
from shaberi_dagster.tasks.judges.parse import parse_score
from shaberi_dagster.util.identity import sha256_text
from shaberi_dagster.util.portions import portions

_TEXT, _INT = pl.String(), pl.Int64()

LINES = pl.Schema(
    dict.fromkeys((*CONTENT,), _TEXT)
    | {"line": _INT}
    | {"benchmark": _TEXT, "question_set": _TEXT, "question_id": _TEXT, "sample_index": _INT}
    | {
        "text_hash": _TEXT,  # of the answer as it stands in the line; null when it is null
        "recorded_score": _TEXT,  # JSON; null for answers
        "recovered_score": pl.Float64(),
        "score_source": _TEXT,
        "judge_output": _TEXT,
        "answered_at": pl.Datetime("us", "UTC"),
        "legacy_fields": _TEXT,  # JSON: what the question does not say
    }
)
TEXTS = pl.Schema({"text_hash": _TEXT, "text": _TEXT})
CONTENTS = pl.Schema(
    dict.fromkeys((*CONTENT, "benchmark", "question_set", "row_columns", "column_lines", "reason"), _TEXT)
    | dict.fromkeys(("lines", "blank", "quarantined"), _INT)
)
_OF_FILES = ("source", "path", "import_tag")
QUARANTINE = pl.Schema({name: kind for name, kind in LEGACY_QUARANTINE.schema.items() if name not in _OF_FILES})


@dataclass(frozen=True)
class Lines:
    """The lines of some contents.

    Attributes:
        lines: One row for each line that is an answer or a judgement (`LINES`).
        texts: The text of each `text_hash` once (`TEXTS`).
        contents: One row for each content, with what became of its lines (`CONTENTS`).
        quarantine: The lines that say nothing that can be read (`QUARANTINE`).
    """

    lines: pl.DataFrame
    texts: pl.DataFrame
    contents: pl.DataFrame
    quarantine: pl.DataFrame

    @classmethod
    def together(cls, several: Sequence["Lines"]) -> "Lines":
        """The lines of some, of which no two have a content in common."""
        every = {name: [getattr(part, name) for part in several] for name in cls.__dataclass_fields__}
        if not several:
            return cls(LINES.to_frame(), TEXTS.to_frame(), CONTENTS.to_frame(), QUARANTINE.to_frame())
        frames = {name: pl.concat(parts) for name, parts in every.items()}
        return cls(**frames | {"texts": frames["texts"].unique("text_hash", maintain_order=True)})


_PART_BYTES = 24_000_000
_MOST_TIMES_THE_SCALE = 10
_MAXIMA = frozenset({None, 5, 10})  # those that judges of the suite were told


@dataclass(frozen=True)
class ReadPart:
    """Some models, read.

    Attributes:
        models: Their file names.
        size: Of their files, in bytes.
        read: What their lines say.
        sets: The question sets of the rows.
    """

    models: Sequence[str]
    size: int
    read: Lines
    sets: Sequence[QuestionSet]


def read_models(models: Mapping[str, Sequence[LegacyFile]], sets: Sequence[QuestionSet]) -> Iterator[ReadPart]:
    """Read models, in their order.

    Args:
        models: Their files, each content once.
        sets: The question sets known beforehand.
    """
    sizes = {name: sum(file.size or 0 for file in files) for name, files in models.items()}
    for names in portions(models, sizes.__getitem__, _PART_BYTES):
        index = QuestionIndex(sets)
        read = read_files([file for name in names for file in models[name]], index)
        found = set(read.lines["question_set"])
        used = [questions for name, questions in index.sets.items() if name in found]
        yield ReadPart(names, sum(map(sizes.__getitem__, names)), read, used)


def read_files(files: Sequence[LegacyFile], index: QuestionIndex) -> Lines:
    """Read the lines of some files.

    Nothing is lost: each line is a row of `lines`, a row of `quarantine`, or blank.

    Args:
        files: Each content once.
        index: The question sets known so far; sets that are met for the first time become known.
    """
    reader = _Reader(index)
    for file in files:
        reader.read(file)
    return reader.lines()


@dataclass
class _Reader:
    """The lines of files, as columns."""

    index: QuestionIndex
    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in LINES})
    hashes: dict[str, str] = field(default_factory=dict)  # by text
    contents: list[dict[str, Any]] = field(default_factory=list)
    quarantine: list[dict[str, Any]] = field(default_factory=list)

    def lines(self) -> Lines:
        """Return everything that was read."""
        return Lines(
            pl.DataFrame(self.columns, schema=LINES),
            pl.DataFrame({"text_hash": self.hashes.values(), "text": self.hashes.keys()}, schema=TEXTS),
            pl.DataFrame(self.contents, schema=CONTENTS),
            pl.DataFrame(self.quarantine, schema=QUARANTINE),
        )

    def read(self, file: LegacyFile) -> None:
        """Read one file; where that fails, what was read before stands."""
        content = {name: getattr(file, name) for name in CONTENT}
        rows: dict[str, list[tuple[Row, Question]]] = defaultdict(list)
        columns: dict[tuple[str, ...], list[int]] = defaultdict(list)
        lines = blank = quarantined = 0
        reason = None

        def place(row: Row) -> str | None:
            found = self.index.question_of(row, file.dataset)
            if found is None:
                return f"neither its question nor the folder {file.dataset!r} is of a known benchmark"
            if reason := _beyond_scale(row, found[0]):
                return reason
            rows[found[0]].append((row, found[1]))
            return None

        try:
            with opened(file) as stream:
                for line in read_rows(stream, file.kind, objection=place):
                    lines += 1
                    if line is None:
                        blank += 1
                    elif isinstance(line, Rejected):
                        quarantined += 1
                        self.quarantine.append({"model": file.model, "source_sha256": file.sha256} | line.row)
                    else:
                        columns[line.columns].append(line.line)
        except UNREADABLE as error:
            reason = f"cannot be read after line {lines}: {getattr(error, 'strerror', None) or error}"
        sets = {benchmark: self._add(content, benchmark, of_it) for benchmark, of_it in rows.items()}
        main = max(rows, key=lambda benchmark: len(rows[benchmark]), default=None)
        counts = {"lines": lines, "blank": blank, "quarantined": quarantined, "reason": reason}
        own = {"benchmark": main, "question_set": sets.get(main or "")} | _column_facts(columns)
        self.contents.append(content | counts | own)

    def _add(self, content: dict[str, Any], benchmark: str, rows: Sequence[tuple[Row, Question]]) -> str:
        """Add a file's rows of one benchmark.

        Returns:
            The question set that they are, or are a part of.
        """
        questions: dict[str, Question] = {}
        counts: Counter[str] = Counter()
        samples = []
        for _, question in rows:
            questions.setdefault(question.question_id, question)
            samples.append(counts[question.question_id])
            counts[question.question_id] += 1
        known = self.index.set_of(benchmark, list(questions.values()))
        members = self.index.members[known.name]
        same = content | {"benchmark": benchmark, "question_set": known.name}
        own: dict[str, list[Any]] = {name: [value] * len(rows) for name, value in same.items()}
        own["sample_index"] = samples
        own["question_id"] = [question.question_id for _, question in rows]
        own["line"] = [row.line for row, _ in rows]
        for row, _ in rows:
            if row.answer is not None and row.answer not in self.hashes:
                self.hashes[row.answer] = sha256_text(row.answer)
        own["text_hash"] = [None if row.answer is None else self.hashes[row.answer] for row, _ in rows]
        own["answered_at"] = [_time(row.fields.get("UpdatedAt")) for row, _ in rows]
        own["legacy_fields"] = [
            _json(other_fields(row, benchmark, members[question.question_id])) for row, question in rows
        ]
        scores = [_score(row, benchmark) for row, _ in rows] if content["kind"] == "judgements" else None
        for place, name in enumerate(("recorded_score", "recovered_score", "judge_output", "score_source")):
            own[name] = [score[place] for score in scores] if scores else [None] * len(rows)
        for name, values in own.items():
            self.columns[name] += values
        return known.name


def _column_facts(lines_by_columns: Mapping[tuple[str, ...], list[int]]) -> dict[str, str | None]:
    """`row_columns` and `column_lines` of a file."""
    lines = {",".join(names): lines for names, lines in lines_by_columns.items()}
    usual = max(lines, key=lambda names: len(lines[names]), default=None)
    return {
        "row_columns": orjson.dumps({names: len(numbers) for names, numbers in lines.items()}).decode(),
        "column_lines": _json({names: lines[names] for names in lines if names != usual}),
    }


def _score(row: Row, benchmark: str) -> tuple[str, float | None, str | None, str | None]:
    """The score as recorded, the number inside of an object, the judge's text, and where the score came from.

    An object in place of a score counts as no score, as in the published tables; the number inside is beside it.
    """
    score, output = row.score, row.judge_output
    recorded = orjson.dumps(score).decode()
    if isinstance(score, dict):
        inner = score.get("judge_output")
        output = inner if output is None and isinstance(inner, str) else output
        return recorded, _number(score.get("score")), output, None
    if score is None:
        return recorded, None, output, None
    return recorded, None, output, _score_source(float(score), output, row.answer, benchmark)


def _beyond_scale(row: Row, benchmark: str) -> str | None:
    """Say why a score is refused: an average with it would mean nothing. One a little outside of the scale is kept."""
    score = _number(row.score.get("score") if isinstance(row.score, dict) else row.score)
    low, high = BENCHMARKS[benchmark].scale_minimum, BENCHMARKS[benchmark].scale_maximum
    if score is None or abs(score) <= _MOST_TIMES_THE_SCALE * high:
        return None
    return f"its score {score:g} is beyond {_MOST_TIMES_THE_SCALE} times the scale of {benchmark}, {low:g} to {high:g}"


def _score_source(score: float, output: str | None, answer: str | None, benchmark: str) -> str:
    """Tell where the score came from: `recorded` when the judge's text is not kept or says another score."""
    if output is None:
        return "recorded"
    parsed = parse_score(
        output,
        legacy_forms=BENCHMARKS[benchmark].judging.legacy_score_forms,
        answer=answer or "",
        finish_reason=None,
        rounding="legacy",
    )
    if parsed is None or parsed.out_of not in _MAXIMA:
        return "fallback"  # by elimination: the suite's second call read it
    return parsed.source if parsed.score == score else "recorded"


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _json(fields: Mapping[str, Any]) -> str | None:
    return orjson.dumps(fields).decode() if fields else None


def _time(value: Any) -> datetime | None:
    """A time with its offset; anything else stays where it is, in `legacy_fields`."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
        return time.astimezone(UTC) if time is not None and time.tzinfo else None
    except (ValueError, OverflowError):
        return None
