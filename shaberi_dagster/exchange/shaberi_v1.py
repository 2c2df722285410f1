"""Trees as the old Shaberi suite wrote them, so that its tools keep working and an import can be checked.

`data/model_answers/{dataset}/{model}.json` and `data/judgements/judge_{judge}/{dataset}/{model}.json`, JSON Lines. An
imported file comes out with the rows and columns it had, in their order; a run of our own as the suite would have
written it.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import duckdb
import orjson
import polars as pl

from shaberi_dagster.exchange.importing import SAMPLE, ImportedRows
from shaberi_dagster.exchange.trees.files import CONTENT, DATASETS, display_name
from shaberi_dagster.exchange.trees.questions import fields_by_column
from shaberi_dagster.exchange.trees.rows import stored_lines
from shaberi_dagster.lake.catalog import check_there, connect
from shaberi_dagster.lake.files import swap_in
from shaberi_dagster.lake.statements import fetch, fetch_frame
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.reports.requests import RunSelection
from shaberi_dagster.runs.results.formats import SHABERI_V1
from shaberi_dagster.tasks.benchmarks.registry import Field
from shaberi_dagster.util.errors import ConfigurationError, ShaberiError
from shaberi_dagster.util.identity import check_model_name, safe_name
from shaberi_dagster.util.portions import portions
from shaberi_dagster.util.progress import StageProgress

RECORD_NAME = "export.json"

Row = dict[str, Any]
Kind = Literal["answers", "judgements"]
_ROWS_AT_ONCE = 10_000  # of as many models as have that many; some 50 MB
_MOST_LINES_NAMED = 20
_NO_NAME = "its name cannot be that of a file here"

# The columns of the suite for each field of a question, in their order; the answer and the score follow.
_SPELLINGS: Mapping[str, Mapping[str, Field]] = {
    "elyza": {"Question": "question", "output": "reference", "eval_aspect": "criteria"},
    "tengu": {"Category": "category", "Question": "question", "Answer": "reference", "Criteria": "criteria"},
    "mt_bench": {"id": "upstream_id", "category": "category", "Question": "question"},
    "rakuda": {"category": "category", "question_id": "upstream_id", "Question": "question"},
}
_OWN_COLUMNS = ("Question", "ModelAnswer", "score", "judge_output")


@dataclass(frozen=True)
class Note:
    """Something to know about a file.

    Attributes:
        path: In the exported tree; of what was not written: what it would have been, or is in the lake.
        what: One short sentence; the same one for the same thing in all files.
        rows: How many rows it is about.
        lines: The first of the lines concerned, of the imported file.
    """

    path: str
    what: str
    rows: int = 0
    lines: tuple[int, ...] = ()


@dataclass
class Export:
    """Outcome of an export.

    Attributes:
        output: The folder.
        files: Files written by kind.
        rows: Rows written by kind.
        size: Of all files, in bytes.
        same: Imported files that are not there a second time: what stands at their place has the same rows.
        oddities: In what way rows of a file are not plainly those of the import.
        elsewhere: Files below `sources/` or `tags/`, since another file has their place.
        not_written: What is in the lake and not in the tree, and why.
    """

    output: str
    files: dict[str, int] = field(default_factory=lambda: {"answers": 0, "judgements": 0})
    rows: dict[str, int] = field(default_factory=lambda: {"answers": 0, "judgements": 0})
    size: int = 0
    same: int = 0
    oddities: list[Note] = field(default_factory=list)
    elsewhere: list[Note] = field(default_factory=list)
    not_written: list[Note] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """It as plain values for JSON."""
        return {"format": SHABERI_V1} | asdict(self)


@dataclass(frozen=True)
class _File:
    """A file that may be written.

    Attributes:
        place: Path below `data/`.
        origin: Where it goes when its place is taken: `sources/{name}` or `tags/{tag}`.
        rank: The lowest one gets the place.
        kind: What it has.
        rows: Its rows.
        notes: What is odd about them.
    """

    place: PurePosixPath
    origin: PurePosixPath
    rank: tuple[int, str, int]
    kind: Kind
    rows: list[Row]
    notes: list[Note]


def export(
    lake: Lake,
    output: Path,
    selection: RunSelection | None = None,
    *,
    changed: Callable[[StageProgress], object] = lambda _: None,
) -> Export:
    """Write the tree. Files of an earlier export are replaced, one by one and atomically; others stay.

    Where several files have the same place (trees that contradict each other, runs of one model), the first one gets
    it: imported ones before runs of our own, then by the name of the tree or the tag. The rest is written below
    `sources/{tree}/` or `tags/{run_tag}/`. What decisions asked is in no file: its mean would be taken for that of an
    evaluation.

    Args:
        lake: What to read; one version of it, whatever is committed meanwhile.
        output: The folder: empty, new, or with an earlier export.
        selection: What to export, imported models also with `/` for the `__` of their names; None for everything.
        changed: Told about the progress, in models.

    Returns:
        What was written, and what is to be known about it; also in the folder as `export.json`.

    Raises:
        ConfigurationError: Nothing is selected, or the folder is somebody else's.
        ShaberiError: A file cannot be written.
    """
    selection = selection or RunSelection()
    check_there(lake.folder)
    with connect(lake, "answers", "judgements", "questions", "runs", "legacy_files", "legacy_repeats") as connection:
        source = _Source(connection, selection)
        if not source.sizes:
            raise ConfigurationError(
                'nothing to export; `shaberi sql "select model, run_tag, status from runs"` lists the runs, '
                '`shaberi sql "select distinct source from legacy_files"` the imported trees'
            )
        done = Export(str(output))
        try:
            _claim(output)
            line = StageProgress("export", SHABERI_V1, total=len(source.sizes))
            changed(line)
            for names in source.portions():
                _write_files(source.files_of(names, done), output, done)
                line.done += len(names)
                changed(line)
            swap_in(output / RECORD_NAME, _record("complete", done.document()))
        except OSError as error:
            raise ShaberiError(f"{error.filename or output} cannot be written: {error.strerror or error}") from error
    return done


def _claim(output: Path) -> None:
    """Make the folder ours, unless there is something else in it: an original tree must never be overwritten."""
    output.mkdir(parents=True, exist_ok=True)
    if any(output.iterdir()) and not (output / RECORD_NAME).is_file():
        raise ConfigurationError(f"--output {output} is neither empty nor an earlier export: name another folder")
    swap_in(output / RECORD_NAME, _record("running", {}))


def _record(status: str, document: Mapping[str, Any]) -> bytes:
    values = {"status": status, "written_at": datetime.now(UTC), **document}
    return orjson.dumps(values, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z)


def _write_files(files: Iterable[_File], output: Path, done: Export) -> None:
    """Write the files of some models, those of the same place in the order of their ranks."""
    contents: dict[PurePosixPath, set[bytes]] = defaultdict(set)
    taken: set[PurePosixPath] = set()
    for file in sorted(files, key=lambda file: (file.place, file.rank)):
        content = b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in file.rows)
        digest = hashlib.sha256(content).digest()
        if digest in contents[file.place]:
            done.same += 1
            continue
        contents[file.place].add(digest)
        path = PurePosixPath("data") / file.place
        if path in taken:
            path = file.origin / path
            if path in taken:
                done.not_written.append(Note(str(path), "another file has its place: choose by tag", len(file.rows)))
                continue
            done.elsewhere.append(Note(str(path), "another file has its place", len(file.rows)))
        taken.add(path)
        swap_in(output / path, content)
        done.files[file.kind] += 1
        done.rows[file.kind] += len(file.rows)
        done.size += len(content)
        done.oddities += [replace(note, path=str(path)) for note in file.notes]


class _Source:
    """The selected rows of the lake as files.

    Args:
        connection: Over one version of the tables.
        selection: What to take.

    Attributes:
        sizes: Number of rows by the file name of a model.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, selection: RunSelection) -> None:
        self._connection, self._selection = connection, selection
        self._models: dict[str, set[str]] = defaultdict(set)
        self.sizes: dict[str, int] = defaultdict(int)
        tags, sources, models = list(selection.tags), list(selection.sources), set(selection.models)
        for row in fetch(connection, "v1_models", tags=tags, sources=sources):
            if not models or models & {row["model"], display_name(row["model"])}:
                name = row["model"] if row["imported"] else safe_name(row["model"])
                self._models[name].add(row["model"])
                self.sizes[name] += row["rows"]
        questions = fetch(connection, "question_texts", benchmarks=list(_SPELLINGS))
        self._questions = {_place_of_question(question): question for question in questions}

    def portions(self) -> Iterator[list[str]]:
        """File names of models with about `_ROWS_AT_ONCE` rows at a time."""
        return portions(sorted(self.sizes), self.sizes.__getitem__, _ROWS_AT_ONCE)

    def files_of(self, names: Iterable[str], done: Export) -> list[_File]:
        """The files of some models."""
        models = sorted({model for name in names for model in self._models[name]})
        bounds = {"models": models, "first": models[0], "last": models[-1]}
        answers = fetch_frame(self._connection, "v1_answers", **bounds).to_dicts()
        judgements = fetch_frame(self._connection, "v1_judgements", **bounds).to_dicts()
        own = [] if self._selection.sources else list(self._own(answers, judgements, done))
        return own + list(self._imported(bounds, done))

    def _imported(self, bounds: Mapping[str, Any], done: Export) -> Iterator[_File]:
        """The files of imported trees."""
        every = {name: fetch_frame(self._connection, f"v1_imported_{name}", **bounds) for name in _IMPORTED}
        runs = every.pop("runs")
        files = every.pop("files")
        for (tag,), of_import in files.group_by("import_tag", maintain_order=True):
            own = runs.filter(import_tag=tag)
            rows = ImportedRows(
                *(frame.join(own, on="run_id", how="semi", maintain_order="left") for frame in every.values())
            )
            read = stored_lines(rows, of_import)
            # An import is under way, or was killed.
            for sentence, alone in _without_answers(rows):
                for run_id, number in alone.group_by("run_id").len().sort("run_id").iter_rows():
                    done.not_written.append(Note(run_id, sentence, number))
            known_lines = read.lines.join(read.texts, on="text_hash", how="left", nulls_equal=False).filter(
                pl.col("text").is_not_null() | pl.col("text_hash").is_null()
            )
            lines = {tuple(key): part for key, part in known_lines.group_by(CONTENT, maintain_order=True)}
            # Where several have a content, only one says what it is made of.
            contents = read.contents.select(*CONTENT, *_OF_CONTENT)
            known = (
                of_import.drop(_OF_CONTENT)
                .join(contents, on=[*CONTENT], how="left", nulls_equal=True, maintain_order="left")
                .join(_standing(rows, own), on=_FILE, how="left", nulls_equal=True, maintain_order="left")
            )
            for file in known.iter_rows(named=True):
                if self._selects(file["source"], {tag, *file["tags"]} if file["tags"] else set()):
                    yield from self._imported_file(file, lines.get(tuple(file[name] for name in CONTENT)), done)

    def _selects(self, source: str, tags: set[str]) -> bool:
        chosen = self._selection
        return (not chosen.sources or source in chosen.sources) and (not chosen.tags or bool(tags & set(chosen.tags)))

    def _imported_file(self, file: Row, lines: pl.DataFrame | None, done: Export) -> Iterator[_File]:
        where = f"{file['source']}:{file['path']}"
        if lines is None or not file["tags"]:
            done.not_written.append(Note(where, "has no rows"))
            return
        place = _place(file["judge"], file["dataset"], file["model"])
        if place is None:
            done.not_written.append(Note(where, _NO_NAME, lines.height))
            return
        notes: dict[str, list[int]] = defaultdict(list)
        lines_with = orjson.loads(file["column_lines"] or "{}")
        unusual = {line: names.split(",") for names, numbers in lines_with.items() for line in numbers}
        usual = next(iter(orjson.loads(file["row_columns"] or "{}").keys() - lines_with.keys()), "").split(",")
        written = [
            _as_imported(line, self._question(line), unusual.get(line["line"], usual), notes)
            for line in lines.sort("line").iter_rows(named=True)
        ]
        n_lines = file["lines"] or lines.height
        if missing := sorted(set(range(1, n_lines + 1)) - set(lines["line"])):
            notes[_reason_of(len(missing), file["blank"] or 0, file["quarantined"] or 0)] = missing
        if file["status"] == "unreadable":
            notes["the rest of the file could not be read"] = [n_lines]
        yield _File(
            place,
            PurePosixPath("sources") / safe_name(file["source"]),
            (0, file["source"], file["round"]),
            file["kind"],
            written,
            [Note("", what, len(at), tuple(at[:_MOST_LINES_NAMED])) for what, at in notes.items()],
        )

    def _own(self, answers: Sequence[Row], judgements: Sequence[Row], done: Export) -> Iterator[_File]:
        """The files of runs that were not imported."""
        texts = {_sample(row): row for row in answers}
        groups: dict[tuple[str, str, str, str, str | None], list[Row]] = defaultdict(list)
        for row in (*answers, *judgements):
            if row["generation"] is None and self._selects("", {row["run_tag"]}):
                groups[row["run_id"], row["model"], row["run_tag"], row["benchmark"], row.get("judge")].append(row)
        for (run_id, model, tag, benchmark, judge), rows in groups.items():
            kind: Kind = "answers" if judge is None else "judgements"
            what = f"{run_id} {benchmark}" + (f" {judge}" if judge else "")
            if benchmark not in _SPELLINGS:
                done.not_written.append(Note(what, f"the suite has no benchmark {benchmark}", len(rows)))
                continue
            current = [row for row in rows if judge is None or _is_current(row, texts)]
            if len(current) < len(rows):
                left_out = len(rows) - len(current)
                done.not_written.append(Note(what, "superseded, or of an answer that was replaced", left_out))
            if not current:
                continue
            folder = _folder_of(benchmark, current[0]["question_set"])
            place = _place(judge and safe_name(judge), folder, safe_name(model))
            if place is None:
                done.not_written.append(Note(what, _NO_NAME, len(current)))
                continue
            written = self._own_rows(current, texts, benchmark, judged=judge is not None)
            yield _File(place, PurePosixPath("tags") / safe_name(tag), (1, tag, 0), kind, written, [])

    def _own_rows(
        self, rows: Sequence[Row], texts: Mapping[tuple[Any, ...], Row], benchmark: str, *, judged: bool
    ) -> list[Row]:
        """Rows in the order of the questions; a failed answer is null, never an error's text."""
        asked = [self._question(row) for row in rows]
        placed = sorted(zip(rows, asked, strict=True), key=lambda pair: (pair[1]["position"], pair[0]["sample_index"]))
        columns = [
            name
            for name, field in _SPELLINGS[benchmark].items()
            if field != "upstream_id" or all(question["upstream_id"] is not None for question in asked)
        ]
        scores = [row["score"] for row in rows] if judged else []
        # Like the suite, which had floats in every file with a missing score.
        whole = all(score is not None and float(score).is_integer() for score in scores)
        written = []
        for row, question in placed:
            answer = texts[_sample(row)]
            values = {name: _spelled(question, benchmark, name) for name in columns}
            values["ModelAnswer"] = answer["answer"] if answer["status"] != "error" else None
            if judged:
                values["score"] = int(row["score"]) if whole else row["score"]
                values["judge_output"] = row["judge_output"]
            written.append(values)
        return written

    def _question(self, row: Row) -> Row:
        question = self._questions.get(_place_of_question(row))
        if question is None:
            raise ConfigurationError(
                f"question {row['question_id'][:12]} of {row['run_id']} is not in its set {row['question_set']}"
            )
        return question


def _place_of_question(row: Row) -> tuple[str, str, str]:
    return row["benchmark"], row["question_set"], row["question_id"]


def _without_answers(rows: ImportedRows) -> Iterator[tuple[str, pl.DataFrame]]:
    """Rows whose answer, or whatever they repeat, is not there."""
    sample = ["run_id", *SAMPLE]
    yield "a judgement without its answer", rows.judgements.join(rows.answers, on=sample, how="anti")
    judged = pl.col("judge").is_not_null()
    yield (
        "a row that repeats one that is not there",
        pl.concat(
            [
                rows.repeats.filter(~judged).join(rows.answers, on=sample, how="anti"),
                rows.repeats.filter(judged).join(rows.judgements, on=[*sample, "judge"], how="anti"),
            ]
        ),
    )


def _standing(rows: ImportedRows, runs: pl.DataFrame) -> pl.DataFrame:
    """Find for each file (`_FILE`) the tags of the runs that its rows are in, and their first round."""
    columns = ("run_id", "source_sha256", "judge", "judge_round")
    no_judge = {"judge": pl.lit(None, pl.String), "judge_round": pl.lit(0, pl.Int64)}
    every = [rows.answers.filter(answer_origin="stored").with_columns(**no_judge), rows.judgements, rows.repeats]
    return (
        pl.concat([frame.select(columns) for frame in every])
        .join(runs, on="run_id")
        .group_by("source", "model", "judge", "source_sha256")
        .agg(tags=pl.col("run_tag").unique(), round=pl.col("judge_round").min().fill_null(0))
        .rename({"source_sha256": "sha256"})
    )


def _as_imported(line: Row, question: Row, columns: Sequence[str], notes: dict[str, list[int]]) -> Row:
    """A row with the columns and values that it had in its file.

    Args:
        line: What it says (`LINES`), with its `text`.
        question: Its question.
        columns: Its columns; as names with a comma come out in pieces, they may not be its own.
        notes: Gets its line for everything that is odd about it.
    """
    fields: dict[str, Any] = orjson.loads(line["legacy_fields"] or "{}")
    values = {"Question": question["question"], "ModelAnswer": line["text"]}
    if line["recorded_score"] is not None:
        score, output = orjson.loads(line["recorded_score"]), line["judge_output"]
        if isinstance(score, dict):
            notes["object in place of a score, written as recorded"].append(line["line"])
            output = None if score.get("judge_output") == output else output
        values |= {"score": score, "judge_output": output}
    if not _fits(columns, fields, line["benchmark"], values):
        notes["order of the columns is not known"].append(line["line"])
        columns = [*_SPELLINGS[line["benchmark"]], *fields, *(name for name in _OWN_COLUMNS if name in values)]
    return {
        name: fields[name] if name in fields else values[name] if name in values else
        _spelled(question, line["benchmark"], name)
        for name in columns
    }  # fmt: skip


def _fits(names: Sequence[str], fields: Mapping[str, Any], benchmark: str, values: Mapping[str, Any]) -> bool:
    """Return whether a row can have had these columns: all its fields are there, and each column has a known value."""
    has_output = "judge_output" in names or values.get("judge_output") is None
    return has_output and fields.keys() <= set(names) <= {*fields, *_OWN_COLUMNS, *fields_by_column(benchmark)}


def _spelled(question: Row, benchmark: str, column: str) -> str | int | None:
    """Return the value of a question in a column of the suite, where ids of MT-Bench are numbers."""
    if column == "Question":
        return str(question["question"])
    value: str | None = question[fields_by_column(benchmark)[column]]
    return int(value) if column == "id" and value is not None and value.isdecimal() else value


def _sample(row: Row) -> tuple[Any, ...]:
    return row["run_id"], row["benchmark"], row["question_id"], row["sample_index"]


def _is_current(judgement: Row, texts: Mapping[tuple[Any, ...], Row]) -> bool:
    """Return whether a judgement is in force and of the answer that stands."""
    answer = texts.get(_sample(judgement))
    return not judgement["superseded"] and answer is not None and answer["answer_hash"] == judgement["answer_hash"]


def _folder_of(benchmark: str, question_set: str) -> str:
    """The dataset folder of a question set: its own one, else the benchmark's first."""
    folders = [(of_set != question_set, name) for name, (meant, of_set) in DATASETS.items() if meant == benchmark]
    return min(folders, key=lambda folder: folder[0])[1]


def _place(judge: str | None, dataset: str, model: str) -> PurePosixPath | None:
    """Path below `data/`; None for a name that no file can have: what comes from a lake is not trusted."""
    names = [dataset, model, *([judge] if judge else [])]
    try:
        if any("/" in check_model_name(name) for name in names):
            return None
    except ConfigurationError:
        return None
    folder = PurePosixPath("model_answers") if judge is None else PurePosixPath("judgements") / f"judge_{judge}"
    return folder / dataset / f"{model}.json"


def _reason_of(missing: int, blank: int, quarantined: int) -> str:
    """Say why lines of a file are not there."""
    if missing > blank + quarantined:
        return "line not written: its row is not in the lake"
    return "blank or quarantined line not written" if quarantined else "blank line not written"


_IMPORTED = ("answers", "judgements", "repeats", "runs", "files")
"""Data read of imported trees, by the statements `v1_imported_NAME`."""
_FILE = ["source", "model", "judge", "sha256"]
_OF_CONTENT = ("row_columns", "column_lines", "lines", "blank", "quarantined")
