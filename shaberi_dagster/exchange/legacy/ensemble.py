"""Caches of the ensemble-consensus evaluation as rows of the lake's tables.

A cache file is a part of a run: model and tag come from the file, its dataset is the benchmark, its N responses to a
question are N samples. What is in the lake is never replaced: a file adds the questions that its run has not yet.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import polars as pl

from shaberi_dagster.benchmarks.questions import Question, QuestionSet, content_sha256, set_name_of
from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.consensus.plurality import Plurality
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.exchange.legacy.ensemble_files import (
    CachedQuestion,
    CachedResponse,
    CacheFile,
    find_caches,
    read_cache,
)
from shaberi_dagster.exchange.legacy.importing import importing_alone
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.llm.thinking import answer_state
from shaberi_dagster.runs.planning import code_version, load_run, store_question_set
from shaberi_dagster.runs.spec import CACHES, BenchmarkSpec, RunRequest, RunSpec, imported_caches
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import VERSION
from shaberi_dagster.stages.imported import REMADE, reprocess_imported
from shaberi_dagster.util.identity import run_id_of, sha256_json, sha256_text
from shaberi_dagster.util.progress import StageProgress

IMPORT_TAG = "ensemble"
"""`import_tag` of these files in `legacy_files`."""
JUDGE = "legacy:unknown"
"""Judge of the verdicts: the caches do not say who gave them."""
NOT_RECORDED = "prompt and completion tokens (tokenCount is their sum), finish_reason, prompt, settings but temperature"
NOT_RECORDED_BY_JUDGE = "judge, prompt, judge_output, tokens, times"
STAGE = "import"

Row = dict[str, Any]
_Run = tuple[str, str]  # model and tag
_Place = tuple[str, str]  # run_id and benchmark
_MESSAGE_LENGTH = 300


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
class EnsembleImport:
    """What an import did.

    Attributes:
        files: What became of each file, in the order of their paths.
        runs: The runs that the files are parts of.
        questions_with_text: Questions of these runs whose text is known, over all benchmarks.
        questions_without_text: The others; their ids are made from the cache's ids.
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


@dataclass
class _Question:
    """One question of a run's benchmark with all its rows.

    Attributes:
        name: The cache's id.
        order: Where it comes among the questions: when and from which file it was imported, and its place there.
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


def import_ensemble(paths: Iterable[Path], workspace: Workspace, *, now: datetime | None = None) -> EnsembleImport:
    """Bring everything of some caches into the lake that is not there yet.

    Args:
        paths: Files, or folders with files.
        workspace: Where to write, and whom to tell.
        now: `created_at` of the rows; None is now.

    Returns:
        What became of every file.

    Raises:
        ConfigurationError: A path does not exist, there is no cache in it, or a run of that name is no import.
        PartitionBusyError: Another process is importing.
    """
    with importing_alone(workspace.settings.warehouse):
        return _Import(workspace, now or datetime.now(UTC)).run(find_caches(paths))


def grading_of(run_id: str, lake: Lake) -> RunRequest | None:
    """What grades the samples of an imported run by rules and lets them vote, without a call.

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
        for name, one in spec.benchmarks.items()
        if one.samples > 1 and one.question_texts == "known" and ALL_BENCHMARKS[name].has_rule
    ]
    request = RunRequest(model=spec.model, tag=spec.run_tag, benchmarks=names, strategies=[Plurality.name])
    return request if names else None


class _Import:
    """One import at work."""

    def __init__(self, workspace: Workspace, now: datetime) -> None:
        self._workspace, self._lake, self._now = workspace, workspace.lake, now
        self._questions: dict[_Place, dict[str, _Question]] = defaultdict(dict)
        self._samples: dict[_Place, int] = {}
        self._temperatures: dict[str, float | None] = {}
        self._specs: dict[str, RunSpec] = {}  # as the lake has them
        self._runs: dict[str, _Run] = {}
        self._changed = False

    def run(self, places: Sequence[tuple[Path, Path]]) -> EnsembleImport:
        """Import these files."""
        files = self._read(places)
        if not any(file.kind != "unknown" or file.problems for file in files):
            raise ConfigurationError(
                f"no ensemble or baseline cache in {', '.join(sorted({str(file.root) for file in files})) or 'there'}"
            )
        caches = _without_duplicates(files)
        self._runs = {run_id_of(file.model, file.run_tag): (file.model, file.run_tag) for file in caches}
        own_runs = sorted(self._runs)
        self._runs |= self._without_texts({file.benchmark for file in caches})
        self._recall()
        taken = {id(file): self._take(file) for file in caches}
        known = self._known_texts(caches)
        sets = {place: self._resolve(place, known) for place in self._questions}
        self._store_rows(sets)
        self._store_files(files, taken)
        counts = self._counts(files, taken)
        texts = {(place[1], each.name): each.text for place in sets for each in self._questions[place].values()}
        quarantine = self._lake.read("legacy_quarantine", {"import_tag": IMPORT_TAG})
        paths = pl.DataFrame([(_source(file), file.path) for file in files], ["source", "path"], orient="row")
        return EnsembleImport(
            counts,
            own_runs,
            sum(text is not None for text in texts.values()),
            sum(text is None for text in texts.values()),
            quarantine.join(paths, on=["source", "path"], how="semi").sort("source", "path", "source_line", "reason"),
            self._changed,
        )

    def _read(self, places: Sequence[tuple[Path, Path]]) -> list[CacheFile]:
        line = StageProgress(STAGE, IMPORT_TAG, total=len(places))
        files = []
        for root, place in places:
            file = read_cache(root, place)
            files.append(file)
            line.done += 1
            line.failed += len(file.problems)
            self._workspace.reporter.changed(line)
        return files

    def _without_texts(self, benchmarks: set[str]) -> dict[str, _Run]:
        """Imported runs with questions of these benchmarks whose texts were not known: now they may be."""
        found = {}
        for run_id, text in self._lake.read("runs", columns=["run_id", "spec"]).iter_rows():
            spec = RunSpec.read(text)
            if any(spec.benchmarks[name].question_texts != "known" for name in benchmarks & set(spec.benchmarks)):
                found[run_id] = spec.model, spec.run_tag
        return found

    def _recall(self) -> None:
        """Take in what the lake has of these runs."""
        if not self._runs:
            return
        keys = {"run_id": sorted(self._runs)}
        for run_id, text in self._lake.read("runs", keys, ["run_id", "spec"]).iter_rows():
            spec = self._specs[run_id] = RunSpec.read(text)
            if spec.imported is None or spec.imported.form != "caches":
                raise ConfigurationError(f"run {run_id} is there and was not imported from caches: rename the model")
            for name, one in spec.benchmarks.items():
                self._temperatures[run_id] = one.temperature
                self._samples[run_id, name] = one.samples
        rows = {table: _by_question(self._lake.read(table, keys | own)) for table, own in _OWN_ROWS.items()}
        texts = self._stored_texts({place[1] for place, _ in rows["answers"]})
        for (place, name), answers in rows["answers"].items():
            first = answers[0]
            order = first["created_at"], first["source_sha256"], first["source_line"]
            text = texts.get((place[1], first["question_id"]))
            self._questions[place][name] = _Question(
                name, order, text, answers, rows["judgements"].get((place, name), [])
            )

    def _stored_texts(self, benchmarks: Iterable[str]) -> dict[tuple[str, str], Question]:
        """The questions of earlier imports by benchmark and id."""
        rows = self._lake.read("questions", {"source": CACHES, "benchmark": sorted(benchmarks)})
        fields = Question.__dataclass_fields__
        return {
            (row["benchmark"], row["question_id"]): Question(**{name: row[name] for name in fields})
            for row in rows.iter_rows(named=True)
        }

    def _take(self, file: CacheFile) -> tuple[list[str], int]:
        """Add the questions of a file that its run has not yet.

        Returns:
            The cache's ids of those that are in the lake then, and how many of them were there before.
        """
        run_id = run_id_of(file.model, file.run_tag)
        place = run_id, file.benchmark
        self._samples[place] = max(file.samples, self._samples.get(place, 0))
        self._temperatures.setdefault(run_id, file.temperature)
        there, repeated = [], 0
        for entry in file.entries:
            question = self._rows_of(file, run_id, entry)
            earlier = self._questions[place].get(entry.question_id)
            if earlier is None:
                self._questions[place][entry.question_id] = question
            elif earlier.content == question.content:
                repeated += 1
                earlier.text = earlier.text or question.text
            else:
                first = earlier.order
                file.refuse(entry, f"has other responses than entry {first[2]} of {first[1][:12]}, which stands")
                continue
            there.append(entry.question_id)
        return there, repeated

    def _rows_of(self, file: CacheFile, run_id: str, entry: CachedQuestion) -> _Question:
        own: Row = {
            "run_id": run_id,
            "model": file.model,
            "run_tag": file.run_tag,
            "benchmark": file.benchmark,
            "created_at": self._now,
            "source_sha256": file.sha256,
            "source_line": entry.index + 1,
        }
        answers = [own | _answer(file, entry, response) for response in entry.responses]
        judgements = [own | _judgement(entry, response) for response in entry.responses if response.verdict]
        text = None
        if entry.prompt is not None:
            text = Question(
                sha256_text(entry.prompt), 1, entry.question_id, entry.category, entry.prompt, entry.reference, None
            )
        order = self._now, file.sha256 or "", entry.index + 1
        return _Question(entry.question_id, order, text, answers, judgements)

    def _known_texts(self, caches: Sequence[CacheFile]) -> dict[tuple[str, str], Question]:
        """Texts by benchmark and the cache's id, where all that is known agrees."""
        benchmarks = {file.benchmark for file in caches} | {place[1] for place in self._questions}
        found: dict[tuple[str, str], dict[str, Question]] = defaultdict(dict)
        for (benchmark, question_id), text in self._stored_texts(benchmarks).items():
            found[benchmark, text.upstream_id or ""][question_id] = text
        for (_, benchmark), questions in self._questions.items():
            for each in questions.values():
                if each.text is not None:
                    found[benchmark, each.name].setdefault(each.text.question_id, each.text)
        return {key: next(iter(texts.values())) for key, texts in found.items() if len(texts) == 1}

    def _resolve(self, place: _Place, known: Mapping[tuple[str, str], Question]) -> QuestionSet:
        """Give the rows of a run's benchmark their questions' ids, and their set."""
        benchmark = place[1]
        questions = sorted(self._questions[place].values(), key=lambda each: each.order)
        asked = []
        for position, each in enumerate(questions, start=1):
            each.text = each.text or known.get((benchmark, each.name))
            unknown = Question(unknown_question_id(benchmark, each.name), position, each.name, None, "", None, None)
            asked.append(replace(each.text or unknown, position=position, upstream_id=each.name))
        sha256 = content_sha256(asked)
        name = set_name_of(benchmark, len(asked), sha256)
        for each, question in zip(questions, asked, strict=True):
            for row in (*each.answers, *each.judgements):
                row.update(question_id=question.question_id, question_set=name)
        return QuestionSet(benchmark, name, sha256, tuple(asked), CACHES)

    def _store_rows(self, sets: Mapping[_Place, QuestionSet]) -> None:
        """Write questions, answers, judgements and what is derived from them, where they differ from what is there.

        Judges, strategies and passes that were added to a run stay with it.
        """
        for place, questions in sets.items():
            if all(each.text for each in self._questions[place].values()):
                store_question_set(self._lake, questions)
        keys = {"run_id": sorted(self._runs)}
        of_all = [each for questions in self._questions.values() for each in questions.values()]
        frames = {
            "answers": [row for each in of_all for row in each.answers],
            "judgements": [row for each in of_all for row in each.judgements],
        }
        for table, rows in frames.items():
            self._update(table, pl.DataFrame(rows, schema=TABLES[table].schema), keys | _OWN_ROWS[table])
        consensus = self._lake.read("consensus", keys)
        names = pl.DataFrame(
            [(*place, questions.name) for place, questions in sets.items()],
            schema=dict.fromkeys(("run_id", "benchmark", "question_set"), pl.String),
            orient="row",
        )
        self._update("consensus", consensus.update(names, on=["run_id", "benchmark"]), keys)
        self._store_runs(sets)
        before = self._lake.versions()
        for stage in REMADE:
            reprocess_imported(stage, keys["run_id"], list(ALL_BENCHMARKS), self._workspace)
        self._changed |= self._lake.versions() != before

    def _n_planned(self, place: _Place) -> int:
        return len(self._questions[place]) * self._samples[place]

    def _update(self, table: str, frame: pl.DataFrame, keys: Mapping[str, Sequence[str]]) -> None:
        if keys["run_id"]:
            self._changed |= self._lake.update(table, frame, dict(keys))

    def _store_runs(self, sets: Mapping[_Place, QuestionSet]) -> None:
        stored = {
            row["run_id"]: row for row in self._lake.read("runs", {"run_id": sorted(self._runs)}).iter_rows(named=True)
        }
        rows: list[Row] = []
        for run_id in self._runs:
            spec, before = self._spec(run_id, sets), self._specs.get(run_id)
            earlier = stored.get(run_id) or {"created_at": self._now, "created_by": self._workspace.settings.user}
            states = orjson.loads(earlier.get("status_by_benchmark") or "{}")
            # What is judged here has the state that its judges have left it in.
            states |= {name: self._state((run_id, name)) for name in spec.benchmarks if not spec.is_made_here(name)}
            fresh: Row = {
                "status": "complete" if set(states.values()) == {"complete"} else "partial",
                "status_by_benchmark": orjson.dumps(states).decode(),
            }
            if spec == before and all(earlier[name] == value for name, value in fresh.items()):
                continue
            fresh |= {
                "run_id": run_id,
                "model": spec.model,
                "run_tag": spec.run_tag,
                "base_tag": spec.base_tag,
                "spec": spec.model_dump_json(),
                "spec_hash": spec.spec_hash,
                "updated_at": self._now,
                "package_version": VERSION,
            }
            rows.append(fresh | {name: earlier[name] for name in ("created_at", "created_by")} | code_version())
        if rows:
            frame = pl.DataFrame(rows, schema_overrides=TABLES["runs"].schema, infer_schema_length=None)
            self._lake.replace("runs", frame, {"run_id": [row["run_id"] for row in rows]})
            self._changed = True

    def _spec(self, run_id: str, sets: Mapping[_Place, QuestionSet]) -> RunSpec:
        """What is known of a run, with the judges, strategies and passes that were added to it."""
        model, tag = self._runs[run_id]
        own = sorted(place for place in sets if place[0] == run_id)
        benchmarks = {place[1]: self._benchmark(place, sets[place]) for place in own}
        before = self._specs.get(run_id)
        added = {name: getattr(before, name) for name in ("judges", "passes", "consensus", "plugins")} if before else {}
        return RunSpec(
            origin="imported",
            imported=imported_caches(model, NOT_RECORDED),
            model=model,
            run_tag=tag,
            endpoint=None,
            benchmarks=benchmarks,
            **{"judges": ()} | added,
        )

    def _benchmark(self, place: _Place, questions: QuestionSet) -> BenchmarkSpec:
        run_id, name = place
        before = self._specs[run_id].benchmarks.get(name) if run_id in self._specs else None
        known = [each.text is not None for each in self._questions[place].values()]
        return BenchmarkSpec(
            question_set=questions.name,
            question_set_sha256=questions.sha256,
            question_texts="known" if all(known) else "some known" if any(known) else "unknown",
            n_questions=len(known),
            source=CACHES,
            source_revision=None,
            prompt_hash=None,
            temperature=self._temperatures.get(run_id),
            max_tokens=None,
            frequency_penalty=None,
            samples=self._samples[place],
            imported_judges=(JUDGE,) if self._n_judged(place) else (),
            imported_samples=self._n_planned(place),
            **{name: getattr(before, name) for name in ("single", "strategies", "judges")} if before else {},
        )

    def _state(self, place: _Place) -> str:
        return "complete" if self._n_judged(place) == self._n_planned(place) else "partial"

    def _n_judged(self, place: _Place) -> int:
        return sum(len(each.judgements) for each in self._questions[place].values())

    def _store_files(self, files: Sequence[CacheFile], taken: Mapping[int, tuple[list[str], int]]) -> None:
        """Say what became of the files; a file that is there as it was keeps its first row."""
        for table, rows in (
            ("legacy_files", [self._file_row(file, *taken.get(id(file), ([], 0))) for file in files]),
            ("legacy_quarantine", [row for file in files for row in _quarantine_rows(file)]),
        ):
            stored = self._lake.read(table, {"import_tag": IMPORT_TAG})
            fresh = pl.DataFrame(rows, schema=TABLES[table].schema)
            if table == "legacy_files":
                fresh = fresh.join(stored, on=_SAME_FILE, how="anti", nulls_equal=True)
                old = stored.join(fresh, on=["source", "path"], how="anti")
            else:
                paths = pl.DataFrame([(_source(file), file.path) for file in files], ["source", "path"], orient="row")
                old = stored.join(paths, on=["source", "path"], how="anti")
            merged = pl.concat([old, fresh])
            if not merged.hash_rows().sort().equals(stored.hash_rows().sort()):
                self._lake.replace(table, merged, {"import_tag": IMPORT_TAG})
                self._changed = True

    def _file_row(self, file: CacheFile, there: Sequence[str], repeated: int) -> Row:
        sets = {row["question_set"] for name in there[:1] for row in self._question_of(file, name).answers[:1]}
        return {
            "import_tag": IMPORT_TAG,
            "source": _source(file),
            "path": file.path,
            "root": str(file.root),
            "sha256": file.sha256,
            "size": file.size,
            "kind": file.kind,
            "dataset": file.benchmark or None,
            "model": file.model or None,
            "status": _status(file),
            "reason": file.reason,
            "duplicate_of": file.duplicate_of,
            "benchmark": file.benchmark or None,
            "question_set": next(iter(sets), None),
            "lines": file.n_entries,
            "blank": 0,
            "imported": len(there) - repeated,
            "repeated": repeated,
            "quarantined": file.n_entries - len(there) if file.duplicate_of is None else 0,
            "imported_at": self._now,
        }

    def _question_of(self, file: CacheFile, name: str) -> _Question:
        return self._questions[run_id_of(file.model, file.run_tag), file.benchmark][name]

    def _counts(self, files: Sequence[CacheFile], taken: Mapping[int, tuple[list[str], int]]) -> list[FileCounts]:
        """Count what was found in the files against the rows that the lake has now."""
        keys = {"run_id": sorted(self._runs)}
        columns = ["run_id", "benchmark", "legacy_fields", "status"]
        rows = {
            table: _by_question(self._lake.read(table, keys | own, columns)) if self._runs else {}
            for table, own in _OWN_ROWS.items()
        }
        counts = []
        for file in files:
            if id(file) not in taken:
                counts.append(FileCounts(f"{_source(file)}/{file.path}", file.kind, _status(file), file.reason))
                continue
            there, repeated = taken[id(file)]
            place = run_id_of(file.model, file.run_tag), file.benchmark
            entries = {entry.question_id: entry for entry in file.entries}
            indexes = {entries[name].index for name in there}
            said = Counter(problem.what for problem in file.problems if problem.entry in indexes)
            answers = [row for name in there for row in rows["answers"].get((place, name), [])]
            counts.append(
                FileCounts(
                    path=f"{_source(file)}/{file.path}",
                    kind=file.kind,
                    status=_status(file),
                    entries=file.n_entries,
                    entries_imported=len(there) - repeated,
                    entries_repeated=repeated,
                    entries_quarantined=len({p.entry for p in file.problems if p.what == "entry"}),
                    responses=sum(entries[name].n_responses for name in there),
                    answers=len(answers),
                    errors=sum(row["status"] == "error" for row in answers),
                    responses_quarantined=said["response"],
                    verdicts=sum(entries[name].n_verdicts for name in there),
                    judgements=sum(len(rows["judgements"].get((place, name), [])) for name in there),
                    verdicts_quarantined=said["verdict"],
                )
            )
        return counts


_SAME_FILE = ["source", "path", "sha256", "status"]
_OWN_ROWS: Mapping[str, dict[str, list[str]]] = {"answers": {}, "judgements": {"judge": [JUDGE]}}
"""The rows of a run that are an import's; others' are never touched."""


def unknown_question_id(benchmark: str, name: str) -> str:
    """The id of a question whose text is not known, from the cache's own id."""
    return sha256_text(f"{CACHES} {benchmark} {name}")


def _without_duplicates(files: Sequence[CacheFile]) -> list[CacheFile]:
    """The caches that can be read, each content once."""
    first: dict[str, CacheFile] = {}
    for file in files:
        if file.reason is None and file.sha256:
            original = first.setdefault(file.sha256, file)
            if original is not file:
                file.duplicate_of = f"{_source(original)}:{original.path}"
    return list(first.values())


def _source(file: CacheFile) -> str:
    return file.root.name or "/"


def _status(file: CacheFile) -> str:
    if file.duplicate_of:
        return "duplicate"
    if file.reason:
        return "unreadable" if file.problems or file.sha256 is None else "unknown"
    return "imported"


def _by_question(frame: pl.DataFrame) -> dict[tuple[_Place, str], list[Row]]:
    """Rows by run and benchmark, and by the cache's id of their question."""
    found: dict[tuple[_Place, str], list[Row]] = defaultdict(list)
    for row in frame.iter_rows(named=True):
        name = orjson.loads(row["legacy_fields"])["questionId"]
        found[(row["run_id"], row["benchmark"]), name].append(row)
    return found


def _answer(file: CacheFile, entry: CachedQuestion, response: CachedResponse) -> Row:
    part = response.part
    fields: Row = {"questionId": entry.question_id, **entry.fields, **(part.model_extra or {})}
    if part.token_count is not None:
        fields["tokenCount"] = part.token_count
    if f"{part.provider}:{part.model}" != file.model:
        fields |= {"provider": part.provider, "model": part.model}
    row: Row = {
        "sample_index": response.index,
        "not_recorded": NOT_RECORDED,
        "legacy_fields": orjson.dumps(fields).decode(),
    }
    if part.error is not None:
        message = " ".join(part.error[: 2 * _MESSAGE_LENGTH].split())[:_MESSAGE_LENGTH]
        partial = part.content or None
        return row | {
            "status": "error", "error_class": "transient", "error_message": message, "raw_answer": partial
        }  # fmt: skip
    return row | {
        "status": "ok",
        "answer": part.content,
        "answer_hash": sha256_text(part.content),
        "answer_state": answer_state(part.content),
        "latency_seconds": None if part.response_time_ms is None else part.response_time_ms / 1000,
    }


def _judgement(entry: CachedQuestion, response: CachedResponse) -> Row:
    verdict = response.verdict
    assert verdict is not None  # noqa: S101  (the caller has looked)
    fields = {"questionId": entry.question_id, "evaluator": verdict.evaluator, **verdict.fields}
    return {
        "sample_index": response.index,
        "judge": JUDGE,
        "judge_config_hash": sha256_json({"legacy": JUDGE, "evaluator": verdict.evaluator}),
        "judge_round": 0,
        "judge_prompt_version_source": "unknown",
        "score": float(verdict.correct),
        "recorded_score": orjson.dumps(verdict.correct).decode(),
        "score_source": "recorded",
        "out_of_scale": False,
        "status": "ok",
        "answer_hash": sha256_text(response.part.content),
        "answer_link": "stored",
        "superseded": False,
        "not_recorded": NOT_RECORDED_BY_JUDGE,
        "legacy_fields": orjson.dumps(fields).decode(),
    }


def _quarantine_rows(file: CacheFile) -> list[Row]:
    return [
        {
            "import_tag": IMPORT_TAG,
            "source": _source(file),
            "path": file.path,
            "model": file.model or None,
            "source_sha256": file.sha256,
            "source_line": None if problem.entry is None else problem.entry + 1,
            "reason": f"{problem.pointer}: {problem.reason}" if problem.pointer else problem.reason,
            "raw": problem.raw,
            "raw_encoding": "utf-8",
            "size": problem.size,
            "sha256": problem.sha256,
        }
        for problem in file.problems
    ]
