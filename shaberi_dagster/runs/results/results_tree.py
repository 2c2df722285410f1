"""The `results/` tree: each run as a folder of JSON and JSON Lines, for tools that do not ask the lake.

    {model_safe}/{run_tag}/manifest.json, artifacts/shaberi/… or artifacts/ensemble/…
    {model_safe}/{base_tag}.summary.json

The schemas of all files are in `docs/schemas`. This project never reads them.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson
import polars as pl

from shaberi_dagster.lake.catalog import check_there, connect
from shaberi_dagster.lake.schemas import ANSWERS, CONSENSUS, JUDGEMENTS, PASS_OUTPUTS, SCORES, LakeTable
from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.llm.thinking import split_thinking
from shaberi_dagster.runs.results.folder import Folder, opened_folder
from shaberi_dagster.runs.results.formats import RESULTS
from shaberi_dagster.runs.results.manifest import (
    ENSEMBLE,
    FORMAT,
    RUNNING,
    SUPERSEDED,
    Document,
    Records,
    manifest_of,
    metric_rows,
    pipelines_of,
    question_sets,
    read_records,
    stored_run,
    summary_of,
)
from shaberi_dagster.runs.selection import chosen_runs
from shaberi_dagster.statistics.intervals import margin_of_error
from shaberi_dagster.tasks.passes.pipeline import BASELINE
from shaberi_dagster.util.errors import ConfigurationError, ShaberiError
from shaberi_dagster.util.identity import check_run_tag, safe_name
from shaberi_dagster.util.progress import StageProgress

"""Name of the format."""
MANIFEST, METRICS = "manifest.json", "metrics.json"
MOST_REASONING = 1000
"""Characters of a judge's reasoning in a reading pane."""
CONFIDENCE = 0.95
_ARTIFACTS = "artifacts"
_TOLD = ("run_id", "status", "updated_at")
# Their authors ask that the questions are not published again.
_UNPUBLISHED = frozenset({"gpqa", "hle"})
_OPTIONS = orjson.OPT_UTC_Z

_RUN = ("run_id", "model", "run_tag", "benchmark")
_SAMPLE = ("question_id", "sample_index")
_OUTCOME = ("status", "error_class", "error_message")
_JUDGED = ("judge", "judge_model", "strategy")


def _tokens(prefix: str) -> tuple[str, ...]:
    return tuple(f"{prefix}_{kind}_tokens" for kind in ("prompt", "completion", "cached", "reasoning"))


_ANSWER = (
    *(*_RUN, "question_set", *_SAMPLE, "question", "category", "answer_id", "answer", "answer_state", "truncated"),
    *("thinking", *_OUTCOME, "finish_reason", *_tokens("answer"), "latency_seconds", "prompt_hash", "request_hash"),
    "created_at",
)
_CONSENSUS = (
    *(*_RUN, "question_set", "question_id", "strategy", "strategy_version", "strategy_prompt_hash", "consensus_model"),
    *("candidates_hash", "n_candidates", "answer_id", "answer", "answer_state", "winner", "details", *_OUTCOME),
    *("calls", *_tokens(CONSENSUS.name), "latency_seconds", "created_at"),
)
_JUDGEMENT = (
    *(*_RUN, "question_set", *_SAMPLE, *_JUDGED, "answer_id", "score", "out_of_scale", "score_source", "reasoning"),
    *("judge_output", "fallback_output", *_OUTCOME, "finish_reason", *_tokens("judge"), "latency_seconds"),
    *("judge_config_hash", "judge_prompt_hash", "judge_prompt_version", "judge_round"),
    *("request_hash", "fallback_request_hash", "created_at"),
)
_PASS = (
    *(*_RUN, "question_set", *_SAMPLE, "strategy", "answer_id", "judge", "pass", "pass_version", "pass_config_hash"),
    *("pipeline", "original_score", "delta", "new_score", "severity", "reason", "details", "pass_output", *_OUTCOME),
    *(*_tokens("pass"), "request_hash", "created_at"),
)
_NORMALIZED_ANSWER = (*_RUN, *_SAMPLE, "answer_id", "answer", *_OUTCOME[:2], *_tokens("answer")[:2])
_NORMALIZED_JUDGEMENT = (
    *(*_RUN, *_SAMPLE, "answer_id", "answer", *_JUDGED, "score", "score_source", "reasoning"),
    *("judge_output", "judge_output_pointer", *_OUTCOME[:2], *_tokens("judge")[:2]),
)
_NORMALIZED_SCORE = (
    *(*_RUN, *_SAMPLE, "answer_id", "answer", *_JUDGED, "baseline_score", "pipeline", "pipeline_hash", "deltas"),
    *("score", *_OUTCOME[:2]),
)
_SCORE = tuple(name for name in _NORMALIZED_SCORE if name != "answer")
_ORDER = (
    *("benchmark", "judge", "pass", "pass_config_hash", "pipeline", "strategy"),
    *("position", "question_id", "sample_index"),
)
"""Columns that lines are sorted by, as far as they exist."""

_QUESTION = ["benchmark", "question_id"]
_PLACE = (*_QUESTION, "sample_index", "strategy")


@dataclass(frozen=True)
class RunExport:
    """Outcome of the export of a run.

    Attributes:
        run_id: The run.
        folder: Its folder.
        status: The run's state.
        files: Files there are now, the manifest included.
        written: How many of them were not there, or had another content.
        removed: Files that were deleted, since the run has no such part any more.
        size: Of all files, in bytes.
    """

    run_id: str
    folder: str
    status: str
    files: int
    written: int
    removed: int
    size: int


@dataclass
class ResultsExport:
    """Outcome of the export of several runs.

    Attributes:
        folder: The root.
        runs: Each run's folder.
        summaries: The files about multi-runs.
        failed: Runs that could not be exported, and why.
    """

    folder: str
    runs: list[RunExport] = field(default_factory=list)
    summaries: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def document(self) -> Document:
        """It as plain values for JSON."""
        return {"format": RESULTS} | asdict(self)


def check_place(folder: Path) -> None:
    """Refuse a folder that has something else than results.

    Raises:
        ConfigurationError: It has.
    """
    if folder.is_dir() and any(folder.iterdir()) and not any(folder.glob(f"*/*/{MANIFEST}")):
        raise ConfigurationError(f"--output {folder} is neither empty nor a folder of results: name another one")


def export_runs(
    lake: Lake,
    folder: Path,
    *,
    run_ids: Sequence[str] = (),
    models: Sequence[str] = (),
    tags: Sequence[str] = (),
    sources: Sequence[str] = (),
    compact: bool = False,
    environment: Mapping[str, str] = os.environ,
    changed: Callable[[StageProgress], object] = lambda _: None,
    hindrances: tuple[type[Exception], ...] = (ShaberiError, OSError),
) -> ResultsExport:
    """Bring the folders of some runs up to date, and before that the summaries of the multi-runs of which they are.

    Args:
        lake: What to read.
        folder: The root of all runs' folders.
        run_ids: Only these runs; none means all. One that is not in the lake is a failure, not an error.
        models: Only these models; none means all.
        tags: Only runs with one of these tags, base tags or tags of their import; none means all.
        sources: Only runs imported from these trees; none means all, and the runs of our own.
        compact: As for `export_run`.
        environment: Likewise.
        changed: Told about the progress, in runs.
        hindrances: Errors that stop the export of one run only.

    Returns:
        What was written, and which runs could not be.

    Raises:
        ConfigurationError: There is no lake, or no run with such a model and tag.
    """
    check_there(lake.folder)
    runs = chosen_runs(lake, models, tags, sources)
    if run_ids:
        runs = runs.filter(pl.col("run_id").is_in(list(run_ids)))
    if runs.is_empty() and not run_ids:
        raise ConfigurationError('no such run; `shaberi sql "select model, run_tag, status from runs"` lists them')
    done, line = ResultsExport(str(folder)), StageProgress("export", RESULTS, total=runs.height)
    done.failed |= dict.fromkeys(sorted(set(run_ids) - set(runs["run_id"])), "it is not in the lake")
    multi_runs = runs.filter(pl.col("run_number").is_not_null()).select("model", "base_tag").unique().sort(pl.all())
    for model, base_tag in multi_runs.iter_rows():
        try:
            done.summaries.append(str(export_summary(lake, model, base_tag, folder)))
        except hindrances as error:
            done.failed[f"{model} {base_tag}"] = reason_of(error)
    for run_id in runs["run_id"]:
        try:
            done.runs.append(export_run(lake, run_id, folder, compact=compact, environment=environment))
        except hindrances as error:
            done.failed[run_id] = reason_of(error)
            line.failed += 1
        line.done += 1
        changed(line)
    return done


def reason_of(error: Exception) -> str:
    """Describe an error in one line."""
    known = error.strerror if isinstance(error, OSError) else None
    return known or str(error) or type(error).__name__


def export_run(
    lake: Lake, run_id: str, folder: Path, *, compact: bool = False, environment: Mapping[str, str] = os.environ
) -> RunExport:
    """Bring the folder of a run up to date.

    Files are replaced one by one and only where their content is another; the manifest comes last. A second export
    of the same run waits.

    Args:
        lake: What to read.
        run_id: The run.
        folder: The root of all runs' folders; made if it is missing.
        compact: Leave the long texts out of the normalized files: `reasoning` stays, with a pointer to the file and
            line that has the whole output.
        environment: Where API keys are read from: the manifest has a part of the key's sha256.

    Raises:
        ConfigurationError: There is no such run, or its folder has files that are not of this run.
        ShaberiError: A file is in the place of one of its folders.
        OSError: A file cannot be written.
    """
    with opened_folder(folder, _place_of(lake, run_id)) as own:
        # Read only now: the earlier holder of the folder may have waited for less.
        records = read_records(lake, run_id)
        manifest = manifest_of(records, environment)
        _claim(own, run_id, manifest)
        _Files(own, lake, records, compact=compact).write()
        removed = own.clear(_ARTIFACTS)
        own.write(MANIFEST, [_json(manifest)])
        size = sum(own.sizes.values())
        return RunExport(run_id, str(own.path), manifest["status"], len(own.sizes), len(own.changed), removed, size)


def write_manifest(lake: Lake, run_id: str, folder: Path, *, environment: Mapping[str, str] = os.environ) -> None:
    """Let the manifest of a run alone say how far the lake has it; its status is `running` until `export_run`.

    No text of the run is read. The arguments and errors are those of `export_run`.
    """
    with opened_folder(folder, _place_of(lake, run_id)) as own:
        manifest = manifest_of(read_records(lake, run_id), environment)
        _claim(own, run_id, manifest)
        own.write(MANIFEST, [_json(manifest | {"status": RUNNING})])


def is_exported(lake: Lake, run_id: str, folder: Path) -> bool:
    """Return whether the results of a run are those of its state in the lake, as far as the manifest tells.

    Args:
        lake: What to read.
        run_id: The run.
        folder: The root of all runs' folders.
    """
    row = lake.read("runs", {"run_id": run_id}).row(0, named=True)
    own = folder.joinpath(*_place_of(lake, run_id))
    try:
        manifest = orjson.loads((own / MANIFEST).read_bytes())
        told = orjson.loads(_json({name: row[name] for name in _TOLD}))
        current = manifest["status"] != RUNNING and told == {name: manifest[name] for name in _TOLD}
        folders = {benchmark["artifacts"] for benchmark in manifest["benchmarks"].values()}
        files = [own / folder / METRICS for folder in folders]
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return False
    if row["run_number"] is not None:
        files.append(own.parent / _summary_name(row["base_tag"]))
    return current and all(file.is_file() for file in files)


def export_summary(lake: Lake, model: str, base_tag: str, folder: Path) -> Path | None:
    """Write the statistics over the runs of a multi-run: `{base_tag}.summary.json` beside the folders of its runs.

    Args:
        lake: What to read.
        model: The model.
        base_tag: The runs' tag without `-runN`.
        folder: The root of all runs' folders.

    Returns:
        The file; None when there is no such run.

    Raises:
        ShaberiError: A file is in the place of the model's folder.
        OSError: It cannot be written.
    """
    runs = lake.read("runs", {"model": model, "base_tag": base_tag}).sort("run_number", nulls_last=True)
    # A run without a number is no part of the multi-run that was made under the same tag.
    members = runs.filter(pl.col("run_number").is_not_null()) if runs["run_number"].count() else runs
    if members.is_empty():
        return None
    name = _summary_name(base_tag)
    with connect(lake) as connection:
        statistics = fetch(connection, "summary_statistics", model=model, base_tag=base_tag)
    for row in statistics:
        margin = row["margin_of_error"] = margin_of_error(row["sd"], row["n"])
        ends = [row["mean"] - margin, row["mean"] + margin] if margin is not None else None
        row["confidence_interval"] = ends
    summary = {
        "format": FORMAT,
        "model": model,
        "base_tag": base_tag,
        "confidence": CONFIDENCE,
        "runs": members.select("run_id", "run_tag", "run_number", "status").to_dicts(),
        "statistics": statistics,
    }
    with opened_folder(folder, [safe_name(model)]) as own:
        own.write(name, [_json(summary)])
        return own.path / name


def _place_of(lake: Lake, run_id: str) -> tuple[str, str]:
    """The folder of a run, and the one in it.

    Raises:
        ConfigurationError: There is no such run.
    """
    run = stored_run(lake, run_id)
    return safe_name(run["model"]), check_run_tag(run["run_tag"])


def _summary_name(base_tag: str) -> str:
    return f"{check_run_tag(base_tag)}.summary.json"


def _claim(own: Folder, run_id: str, manifest: Document) -> None:
    """Make a new folder that of the run, by its manifest; refuse one that is something else."""
    if not own.is_begun:
        own.write(MANIFEST, [_json(manifest | {"status": RUNNING})])
        return
    try:
        owner = orjson.loads((own.path / MANIFEST).read_bytes())["run_id"]
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        owner = None
    if owner != run_id:
        what = "is no results folder" if owner is None else f"has the results of run {owner}"
        raise ConfigurationError(f"{own.path} {what}: move it away, or name another folder")


class _Files:
    """The files of a run without its manifest.

    Args:
        own: Where to write.
        lake: What to read.
        records: The run.
        compact: As for `export_run`.
    """

    def __init__(self, own: Folder, lake: Lake, records: Records, *, compact: bool) -> None:
        self._own, self._lake, self._records, self._compact = own, lake, records, compact
        self._keys = {"run_id": records.run["run_id"]}
        text = pl.col("question")
        # Of an imported question whose text is not known there is an empty one.
        is_published = (text != "") & ~pl.col("benchmark").is_in(list(_UNPUBLISHED))
        columns = [*_QUESTION, "position", "category", "question"]
        self._questions = lake.read("questions", question_sets(records.spec), columns).with_columns(
            question=pl.when(is_published).then(text)
        )

    def write(self) -> None:
        """Write them."""
        about = {"format": FORMAT} | {name: self._records.run[name] for name in _RUN[:3]}
        judged = self._rows_of(JUDGEMENTS, _JUDGEMENT)
        names = {row["judge"]: row["judge_model"] or row["judge"] for row in judged.iter_rows(named=True)}
        frames = {
            ANSWERS: self._rows_of(ANSWERS, _ANSWER),
            CONSENSUS: self._rows_of(CONSENSUS, _CONSENSUS),
            JUDGEMENTS: judged.with_columns(
                # It has another name than the judge in some imported trees only.
                judge_model=pl.coalesce("judge_model", "judge"),
                reasoning=pl.Series(list(map(_reasoning, judged["judge_output"])), dtype=pl.String),
            ),
            PASS_OUTPUTS: self._rows_of(PASS_OUTPUTS, _PASS),
            SCORES: self._rows_of(SCORES, _SCORE).with_columns(
                pl.col("deltas").fill_null([]), judge_model=pl.col("judge").replace(names)
            ),
        }
        for folder in sorted(set(self._records.artifacts.values())):
            benchmarks = [name for name, place in self._records.artifacts.items() if place == folder]
            own = pl.col("benchmark").is_in(benchmarks)
            self._write_folder(folder, {table: rows.filter(own) for table, rows in frames.items()})
            metrics = metric_rows(self._records.metrics.filter(own))
            summary = summary_of(self._records, benchmarks)
            self._own.write(f"{folder}/{METRICS}", [_json(about | summary | {"metrics": metrics})])

    def _write_folder(self, folder: str, frames: Mapping[LakeTable, pl.DataFrame]) -> None:
        """Write the files of some benchmarks, but their metrics."""
        answers, judged, judged_by = "answers/{}.jsonl", "judgements/judge_{}/{}.jsonl", ["judge", "benchmark"]
        if folder == ENSEMBLE:
            answers, judged, judged_by = "responses/{}.jsonl", "evaluations/{}.jsonl", ["benchmark"]
        files = (
            (ANSWERS, answers, ["benchmark"], _ANSWER, dict),
            (JUDGEMENTS, judged, judged_by, _JUDGEMENT, dict),
            (CONSENSUS, "consensus/{}/{}.jsonl", ["strategy", "benchmark"], _CONSENSUS, _with_details),
            (PASS_OUTPUTS, "passes/{}/{}.jsonl", ["pass", "benchmark"], _PASS, _with_effect),
        )
        for table, place, by, columns, edit in files:
            for values, rows in frames[table].partition_by(by, maintain_order=True, as_dict=True).items():
                path = f"{folder}/{place.format(*map(safe_name, values))}"
                self._own.write(path, (_line(edit(row), columns) for row in _each(rows)))

        # The text that a row is about, null for one that was replaced since.
        texts = pl.concat(frames[table].select("answer_hash", "answer") for table in (ANSWERS, CONSENSUS))
        texts = (texts.clear() if self._compact else texts).unique("answer_hash")
        judgements, scores = (
            frames[table].join(texts, on="answer_hash", how="left", maintain_order="left")
            for table in (JUDGEMENTS, SCORES)
        )
        if self._compact:
            judgements = judgements.with_columns(judge_output=pl.lit(None, pl.String))
        normalized = {
            "answers": (_each(frames[ANSWERS]), _NORMALIZED_ANSWER),
            "judgements": (_with_pointers(judgements, judged, judged_by), _NORMALIZED_JUDGEMENT),
            "scores": (_each(scores), _NORMALIZED_SCORE),
        }
        for name, (rows_of_all, columns) in normalized.items():
            self._own.write(f"{folder}/normalized/{name}.jsonl", (_line(row, columns) for row in rows_of_all))

    def _rows_of(self, table: LakeTable, columns: Sequence[str]) -> pl.DataFrame:
        """Read the rows of a table that are in force, in the order of the files."""
        order = [name for name in _ORDER if name in (*table.schema, "position")]
        wanted = [name for name in table.schema if name in {*columns, *order, "answer_hash", "superseded"}]
        rows = self._lake.read(table.name, self._keys, wanted)
        if "superseded" in wanted:
            rows = rows.filter(~SUPERSEDED)
        if table is PASS_OUTPUTS:
            rows = self._with_scores(rows)
        questions = self._questions if table is ANSWERS else self._questions.select(*_QUESTION, "position")
        placed = rows.join(questions, on=_QUESTION, how="left", maintain_order="left")
        return placed.sort(order, nulls_last=True, maintain_order=True).with_columns(answer_id="answer_hash")

    def _with_scores(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of `pass_outputs` once for each judge whose scores they bear on, with these scores.

        They are those of the longest pipeline with the pass: before it, and after it.
        """
        pipelines = _pipelines_around(self._records)
        scores = self._lake.scan("scores", self._keys, [*_PLACE, "judge", "pipeline", "score", "deltas"])
        named = [*pipelines["before"], *pipelines["pipeline"]]
        needed = scores.filter(pl.col("pipeline").is_in(named)).collect().sort("judge")
        before_it = needed.select(*_PLACE, "judge", before="pipeline", original_score="score")
        after_it = needed.select(*_PLACE, "judge", "pipeline", "deltas", new_score="score")
        return (
            rows.join(pipelines, on=["pass", "pass_config_hash"], how="left", maintain_order="left")
            .join(before_it, on=[*_PLACE, "before"], how="left", nulls_equal=True, maintain_order="left_right")
            .join(after_it, on=[*_PLACE, "judge", "pipeline"], how="left", nulls_equal=True, maintain_order="left")
        )


def _with_pointers(judgements: pl.DataFrame, place: str, by: Sequence[str]) -> Iterator[Document]:
    """Yield judgements with the file and line that have all of each."""
    lines = Counter[str]()
    for row in _each(judgements):
        file = place.format(*(safe_name(row[name]) for name in by))
        lines[file] += 1
        yield row | {"judge_output_pointer": f"{file}#{lines[file]}"}


def _pipelines_around(records: Records) -> pl.DataFrame:
    """pass, pass_config_hash, before, pipeline: the longest pipeline with each pass, up to it without and with it."""
    pipelines, around = pipelines_of(records), []
    for name, sha256 in records.pass_outputs.select("pass", "pass_config_hash").unique().iter_rows():
        passes = list(next((names for names in pipelines if names.get(name) == sha256), {name: sha256}))
        before, after = (",".join(passes[: passes.index(name) + more]) for more in (0, 1))
        around.append((name, sha256, before or BASELINE, after))
    schema = dict.fromkeys(("pass", "pass_config_hash", "before", "pipeline"), pl.String)
    return pl.DataFrame(around, schema, orient="row")


def _each(rows: pl.DataFrame) -> Iterator[Document]:
    """Its rows; only a few of them are in memory twice."""
    return rows.iter_rows(named=True, buffer_size=16)


def _with_details(row: Document) -> Document:
    return row | {"details": orjson.loads(row["details"] or "{}")}


def _reasoning(output: str | None) -> str | None:
    """A judge's text as a reading pane has room for it."""
    if output is None:
        return None
    text = split_thinking(output).answer.strip()
    return text if len(text) <= MOST_REASONING else f"{text[:MOST_REASONING].rstrip()}…"


def _with_effect(row: Document) -> Document:
    """A finding with what the pass added to a score; null where there is no score after it."""
    added = sum(delta["delta"] for delta in row["deltas"] or [] if delta["pass"] == row["pass"])
    return _with_details(row) | {"delta": None if row["new_score"] is None else float(added)}


def _line(row: Document, columns: Sequence[str]) -> bytes:
    return orjson.dumps({name: row[name] for name in columns}, option=_OPTIONS | orjson.OPT_APPEND_NEWLINE)


def _json(document: Document) -> bytes:
    return orjson.dumps(document, option=_OPTIONS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
