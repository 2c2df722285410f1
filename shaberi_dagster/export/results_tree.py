"""The `results/` tree: each run as a folder of JSON and JSON Lines, for tools that do not ask the lake.

    {model_safe}/{run_tag}/manifest.json, artifacts/shaberi/… or artifacts/ensemble/…
    {model_safe}/{base_tag}.summary.json

The schemas of all files are in `docs/schemas`. Nothing of ours reads them.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from shaberi_dagster.errors import ConfigurationError, ShaberiError
from shaberi_dagster.export.folder import Folder, opened_folder
from shaberi_dagster.export.manifest import (
    FORMAT,
    Document,
    Records,
    manifest_of,
    metric_rows,
    pipelines_of,
    read_records,
)
from shaberi_dagster.identity import check_run_tag, safe_name
from shaberi_dagster.lake.catalog import connect, logged_versions
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.llm.thinking import split_thinking
from shaberi_dagster.passes.pipeline import BASELINE
from shaberi_dagster.progress import StageProgress
from shaberi_dagster.statistics.intervals import margin_of_error
from shaberi_dagster.workspace import Workspace

RESULTS = "results"
"""Name of the format."""
MANIFEST = "manifest.json"
MOST_REASONING = 1000
"""Characters of a judge's reasoning in a reading pane."""
CONFIDENCE = 0.95
_ARTIFACTS = "artifacts"
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
    *("calls", *_tokens("consensus"), "latency_seconds", "created_at"),
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


@dataclass(frozen=True)
class RunExport:
    """What became of a run's folder.

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
    """What became of several runs' folders.

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


def export_runs(
    lake: Lake,
    folder: Path,
    *,
    run_ids: Sequence[str] = (),
    models: Sequence[str] = (),
    tags: Sequence[str] = (),
    compact: bool = False,
    environment: Mapping[str, str] = os.environ,
    changed: Callable[[StageProgress], object] = lambda _: None,
) -> ResultsExport:
    """Bring the folders of some runs up to date, and the summaries of the multi-runs that they are part of.

    Args:
        lake: What to read.
        folder: The root of all runs' folders.
        run_ids: Only these runs; none means all. One that is not in the lake is a failure, not an error.
        models: Only these models; none means all.
        tags: Only runs with one of these tags or base tags; none means all.
        compact: As for `export_run`.
        environment: Likewise.
        changed: Told about the progress, in runs.

    Returns:
        What was written, and which runs could not be.

    Raises:
        ConfigurationError: There is no lake, or no run with such a model and tag.
    """
    if not logged_versions(lake.folder):
        raise ConfigurationError(f"no lake in {lake.folder}: run run-evals first, or set SHABERI_WAREHOUSE")
    runs = lake.read("runs", columns=["run_id", "model", "run_tag", "base_tag", "run_number"]).sort("run_id")
    if run_ids:
        runs = runs.filter(pl.col("run_id").is_in(list(run_ids)))
    if models:
        runs = runs.filter(pl.col("model").is_in(list(models)))
    if tags:
        runs = runs.filter(pl.col("run_tag").is_in(list(tags)) | pl.col("base_tag").is_in(list(tags)))
    if runs.is_empty() and not run_ids:
        raise ConfigurationError('no such run; `shaberi sql "select model, run_tag, status from runs"` lists them')
    done, line = ResultsExport(str(folder)), StageProgress("export", RESULTS, total=runs.height)
    done.failed |= dict.fromkeys(sorted(set(run_ids) - set(runs["run_id"])), "it is not in the lake")
    for run_id in runs["run_id"]:
        try:
            done.runs.append(export_run(lake, run_id, folder, compact=compact, environment=environment))
        except (ShaberiError, OSError) as error:
            done.failed[run_id] = str(error)
            line.failed += 1
        line.done += 1
        changed(line)
    multi_runs = runs.filter(pl.col("run_number").is_not_null()).select("model", "base_tag").unique().sort(pl.all())
    for model, base_tag in multi_runs.iter_rows():
        try:
            done.summaries.append(str(export_summary(lake, model, base_tag, folder)))
        except (ShaberiError, OSError) as error:
            done.failed[f"{model} {base_tag}"] = str(error)
    return done


def export_run(
    lake: Lake, run_id: str, folder: Path, *, compact: bool = False, environment: Mapping[str, str] = os.environ
) -> RunExport:
    """Bring the folder of a run up to date.

    Files are replaced one by one and only where their content is another; the manifest comes last. Whoever exports
    the same run at the same time waits.

    Args:
        lake: What to read.
        run_id: The run.
        folder: The root of all runs' folders; made if it is missing.
        compact: Leave the long texts out of the normalized files: `reasoning` stays, with a pointer to the file and
            line that has the whole output.
        environment: Where API keys are read from: the manifest has a part of the key's sha256.

    Raises:
        ConfigurationError: There is no such run, or its folder has files that are not of this run.
        ShaberiError: A link or a file is in the place of one of its folders.
        OSError: A file cannot be written.
    """
    run = lake.read("runs", {"run_id": run_id}, ["model", "run_tag"])
    names = [(safe_name(model), check_run_tag(run_tag)) for model, run_tag in run.iter_rows()]
    if not names:
        raise ConfigurationError(f'no run {run_id} in the lake: `shaberi sql "select run_id from runs"` lists them')
    with opened_folder(folder, names[0]) as own:
        # Read only now: whoever had the folder before may have waited for less.
        records = read_records(lake, run_id)
        manifest = _json(manifest_of(records, environment))
        written = _claim(own, run_id, manifest)
        files = dict(_files(records, compact=compact))
        written += sum(own.write(path, content) for path, content in files.items())
        removed = own.keep_only(_ARTIFACTS, files.keys())
        written += own.write(MANIFEST, manifest)
        size = len(manifest) + sum(map(len, files.values()))
        return RunExport(run_id, str(own.path), records.run["status"], len(files) + 1, written, removed, size)


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
        ShaberiError: A link or a file is in the place of the model's folder.
        OSError: It cannot be written.
    """
    runs = lake.read("runs", {"model": model, "base_tag": base_tag}).sort("run_number", nulls_last=True)
    # A run without a number is no part of the multi-run that was made under the same tag.
    members = runs.filter(pl.col("run_number").is_not_null()) if runs["run_number"].count() else runs
    if members.is_empty():
        return None
    name = f"{check_run_tag(base_tag)}.summary.json"
    with connect(lake) as connection:
        rows = connection.sql(_STATISTICS, params={"model": model, "base_tag": base_tag}).to_arrow_table()
    summary = {
        "format": FORMAT,
        "model": model,
        "base_tag": base_tag,
        "confidence": CONFIDENCE,
        "runs": members.select("run_id", "run_tag", "run_number", "status").to_dicts(),
        "statistics": [_with_interval(row) for row in rows.to_pylist()],
    }
    with opened_folder(folder, [safe_name(model)]) as own:
        own.write(name, _json(summary))
        return own.path / name


def refresh_results(run_id: str, workspace: Workspace, *, summary: bool = True) -> RunExport | None:
    """Bring the results of a run up to date after a stage; what hinders it is told and stops nobody.

    Args:
        run_id: The run.
        workspace: Where the lake and the results are, and whom to tell.
        summary: Whether the summary of its multi-run is brought up to date too; it changes with metrics only.

    Returns:
        What became of its folder; None when it could not be brought up to date.
    """
    try:
        return _refresh(run_id, workspace, summary=summary)
    except Exception as error:  # noqa: BLE001 - the lake has what was paid for; these files can be made again
        reason = f"{error.strerror or error}" if isinstance(error, OSError) else str(error) or type(error).__name__
        workspace.reporter.note(
            f"the results of run {run_id} in {workspace.settings.results} could not be written: {reason}; "
            "`shaberi export` writes them"
        )
        return None


def _refresh(run_id: str, workspace: Workspace, *, summary: bool) -> RunExport:
    folder, lake = workspace.settings.results, workspace.lake
    done = export_run(lake, run_id, folder, environment=workspace.environment)
    columns = ["model", "base_tag", "run_number"]
    for model, base_tag, run_number in lake.read("runs", {"run_id": run_id}, columns).iter_rows():
        if summary and run_number is not None:
            export_summary(lake, model, base_tag, folder)
    return done


def _claim(own: Folder, run_id: str, manifest: bytes) -> int:
    """Make a new folder that of the run, by its manifest; refuse one that is something else.

    Returns:
        How many files were written.
    """
    there = own.read(MANIFEST)
    if there is None and not own.names():
        return int(own.write(MANIFEST, manifest))
    try:
        owner = orjson.loads(there or b"")["run_id"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        owner = None
    if owner != run_id:
        what = "is no results folder" if owner is None else f"has the results of run {owner}"
        raise ConfigurationError(f"{own.path} {what}: move it away, or name another folder")
    return 0


def _files(records: Records, *, compact: bool) -> Iterator[tuple[str, bytes]]:
    """All files of a run but its manifest, by their paths in its folder."""
    root = records.artifacts
    answers, judgements = _answers(records), _judgements(records)
    of_answers = "responses" if records.is_ensemble else "answers"
    yield from _by_file(answers, lambda row: f"{root}/{of_answers}/{safe_name(row['benchmark'])}.jsonl", _ANSWER)
    consensus = [
        row | {"details": orjson.loads(row["details"] or "{}")}
        for row in records.consensus.rename({"answer_hash": "answer_id"}).iter_rows(named=True)
    ]
    yield from _by_file(
        consensus,
        lambda row: f"{root}/consensus/{safe_name(row['strategy'])}/{safe_name(row['benchmark'])}.jsonl",
        _CONSENSUS,
    )
    yield from _by_file(judgements, lambda row: f"{root}/{_judgement_file(row, records)}", _JUDGEMENT)
    yield from _by_file(
        _findings(records),
        lambda row: f"{root}/passes/{safe_name(row['pass'])}/{safe_name(row['benchmark'])}.jsonl",
        _PASS,
    )
    _point(judgements, records, compact=compact)
    texts = {row["answer_id"]: row["answer"] for row in (*answers, *consensus)}
    normalized = {
        "answers": (answers, _NORMALIZED_ANSWER),
        "judgements": (_with_answers(judgements, texts, compact=compact), _NORMALIZED_JUDGEMENT),
        "scores": (_with_answers(_scores(records), texts, compact=compact), _NORMALIZED_SCORE),
    }
    for name, (rows, columns) in normalized.items():
        yield f"{root}/normalized/{name}.jsonl", _lines(rows, columns)
    about = {"format": FORMAT} | {name: records.run[name] for name in _RUN[:3]}
    yield f"{root}/metrics.json", _json(about | {"metrics": metric_rows(records.metrics)})


def _answers(records: Records) -> list[Document]:
    known = records.questions.select("benchmark", "question_id", "question", "category")
    rows = records.answers.rename({"answer_hash": "answer_id"}).join(
        known, on=["benchmark", "question_id"], how="left", maintain_order="left"
    )
    # Of an imported question whose text is not known there is an empty one.
    published = ~pl.col("benchmark").is_in(_UNPUBLISHED) & (pl.col("question") != "")
    return rows.with_columns(question=pl.when(published).then("question")).to_dicts()


def _judgements(records: Records) -> list[Document]:
    rows = records.judgements.rename({"answer_hash": "answer_id"}).with_columns(_judge_model()).to_dicts()
    for row in rows:
        row["reasoning"] = _reasoning(row["judge_output"])
    return rows


def _scores(records: Records) -> list[Document]:
    models = records.judgements.select("judge", _judge_model()).unique("judge")
    rows = records.scores.rename({"answer_hash": "answer_id"}).join(
        models, on="judge", how="left", maintain_order="left"
    )
    return rows.with_columns(_judge_model(), pl.col("deltas").fill_null([])).to_dicts()


def _judge_model() -> pl.Expr:
    """The judging model; it has another name than the judge in some imported trees only."""
    return pl.coalesce("judge_model", "judge").alias("judge_model")


def _reasoning(output: str | None) -> str | None:
    """A judge's text as a reading pane has room for it."""
    if output is None:
        return None
    text = split_thinking(output).answer.strip()
    return text if len(text) <= MOST_REASONING else f"{text[:MOST_REASONING].rstrip()}…"


def _findings(records: Records) -> Iterator[Document]:
    """What each pass found in each answer, once for each judge whose scores it bears on.

    Scores are those of the longest pipeline with the pass: before it, and after it.
    """
    scores: dict[str, dict[tuple[Any, ...], dict[str, Document]]] = {}
    for row in records.scores.iter_rows(named=True):
        scores.setdefault(row["pipeline"], {}).setdefault(_place(row), {})[row["judge"]] = row
    pipelines = pipelines_of(records)
    for row in records.pass_outputs.rename({"answer_hash": "answer_id"}).iter_rows(named=True):
        row["details"] = orjson.loads(row["details"] or "{}")
        one, sha256 = row["pass"], row["pass_config_hash"]
        passes = list(next((names for names in pipelines.values() if names.get(one) == sha256), {one: sha256}))
        before, after = (",".join(passes[: passes.index(one) + own]) for own in (0, 1))
        scored = scores.get(before or BASELINE, {}).get(_place(row), {})
        scored_after = scores.get(after, {}).get(_place(row), {})
        judges: list[str | None] = list(scored) or [None]
        for judge in judges:
            effect = _effect(one, scored.get(judge or ""), scored_after.get(judge or ""))
            yield row | {"judge": judge, "pipeline": after} | effect


def _effect(one: str, before: Document | None, after: Document | None) -> Document:
    """A score before a pass, what the pass added, and the score after it; nulls where there is no such score."""
    new = after["score"] if after else None
    added = sum(delta["delta"] for delta in (after or {}).get("deltas") or [] if delta["pass"] == one)
    return {
        "original_score": before["score"] if before else None,
        "delta": None if new is None else float(added),
        "new_score": new,
    }


def _judgement_file(row: Document, records: Records) -> str:
    benchmark = safe_name(row["benchmark"])
    if records.is_ensemble:
        return f"evaluations/{benchmark}.jsonl"
    return f"judgements/judge_{safe_name(row['judge'])}/{benchmark}.jsonl"


def _point(judgements: Iterable[Document], records: Records, *, compact: bool) -> None:
    """Say of each judgement which file and line has it; a compact one has its whole output only there."""
    lines: dict[str, int] = {}
    for row in judgements:
        file = _judgement_file(row, records)
        lines[file] = lines.get(file, 0) + 1
        row["judge_output_pointer"] = f"{file}#{lines[file]}"
        if compact:
            row["judge_output"] = None


def _with_answers(rows: Iterable[Document], texts: Mapping[str, str], *, compact: bool) -> list[Document]:
    """Rows with the texts that they are about; null for one that was replaced since."""
    return [row | {"answer": None if compact else texts.get(row["answer_id"])} for row in rows]


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["benchmark"], row["question_id"], row["sample_index"], row["strategy"]


def _by_file(
    rows: Iterable[Document], path_of: Callable[[Document], str], columns: Sequence[str]
) -> Iterator[tuple[str, bytes]]:
    files: dict[str, list[Document]] = {}
    for row in rows:
        files.setdefault(path_of(row), []).append(row)
    for path, own in files.items():
        yield path, _lines(own, columns)


def _lines(rows: Iterable[Document], columns: Sequence[str]) -> bytes:
    options = _OPTIONS | orjson.OPT_APPEND_NEWLINE
    return b"".join(orjson.dumps({name: row[name] for name in columns}, option=options) for row in rows)


def _json(document: Document) -> bytes:
    return orjson.dumps(document, option=_OPTIONS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _with_interval(row: Document) -> Document:
    margin = margin_of_error(row["sd"], row["n"])
    interval = None if margin is None else [row["mean"] - margin, row["mean"] + margin]
    return row | {"margin_of_error": margin, "confidence_interval": interval}


_STATISTICS = """
select
    judge, pipeline, strategy, null_policy, benchmark, question_set,
    n_runs as n, mean, sd, minimum as min, maximum as max, values_by_run as values
from run_statistics
where model = $model and base_tag = $base_tag
order by all
"""
