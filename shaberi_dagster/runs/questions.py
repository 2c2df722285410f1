"""The question sets of runs: loaded from their source, stored in the lake, found there again."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.spec import RunSpec, SampleSpec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.benchmarks.questions import (
    CACHES,
    Question,
    QuestionSet,
    load_question_set,
    without_positions,
)
from shaberi_dagster.tasks.benchmarks.registry import Benchmark, get_benchmark
from shaberi_dagster.tasks.benchmarks.sampling import sample_questions
from shaberi_dagster.util.errors import ConfigurationError


def load_questions(spec: RunSpec, benchmark: str, workspace: Workspace) -> QuestionSet:
    """Return the exact question set of a run: from the lake, else from where it was first found.

    Raises:
        ConfigurationError: It is in neither place any more, or the texts were never known.
    """
    settings = spec.benchmarks[benchmark]
    if settings.question_texts != "known":
        raise ConfigurationError(
            f"run {spec.run_id} was imported without the texts of its questions of {benchmark}: "
            "import a baseline cache that has them"
        )
    found = stored_question_set(workspace.lake, benchmark, sha256=settings.question_set_sha256)
    if found is None or len(found.questions) != settings.n_questions:  # a file with some of them was lost
        name = None if settings.left_out else settings.sample.of if settings.sample else settings.question_set
        if settings.source == CACHES:
            wholes = list(_imported_sets(workspace.lake, benchmark))
        else:
            wholes = [_load(get_benchmark(benchmark), settings.source, name, settings.source_revision)]
        cut = [without_positions(whole, settings.left_out) for whole in wholes]
        samples = [sampled(part, settings.sample) if settings.sample else part for part in cut]
        found = next((sample for sample in samples if sample.sha256 == settings.question_set_sha256), None)
    if found is None:
        raise ConfigurationError(
            f"question set {settings.question_set} of {spec.run_id} is gone from {settings.source}"
        )
    return found


def _imported_sets(lake: Lake, benchmark: str) -> Iterator[QuestionSet]:
    keys = {"benchmark": benchmark, "source": CACHES}
    for sha256 in lake.read("questions", keys, ["question_set_sha256"])["question_set_sha256"].unique().sort():
        if found := stored_question_set(lake, benchmark, sha256=sha256):
            yield found


def stored_question_set(
    lake: Lake, benchmark: str, *, sha256: str | None = None, name: str | None = None
) -> QuestionSet | None:
    """Find a question set in the lake by its content or its name; None when it is not there."""
    keys = {"benchmark": benchmark} | ({"question_set_sha256": sha256} if sha256 else {"question_set": name or ""})
    rows = lake.read("questions", keys).sort("position")
    if rows.is_empty():
        return None
    first = rows.row(0, named=True)
    return QuestionSet(
        benchmark=benchmark,
        name=first["question_set"],
        sha256=first["question_set_sha256"],
        questions=tuple(Question.from_row(row) for row in rows.iter_rows(named=True)),
        source=first["source"],
        source_revision=first["source_revision"],
    )


def store_question_set(lake: Lake, questions: QuestionSet) -> None:
    """Add the set to the lake unless this content is already there."""
    keys = {"benchmark": questions.benchmark, "question_set_sha256": questions.sha256}
    if len(lake.read("questions", keys, ["position"])) == len(questions.questions):
        return
    frame = pl.DataFrame([vars(question) for question in questions.questions], infer_schema_length=None).with_columns(
        benchmark=pl.lit(questions.benchmark),
        question_set=pl.lit(questions.name),
        question_set_sha256=pl.lit(questions.sha256),
        source=pl.lit(questions.source),
        source_revision=pl.lit(questions.source_revision),
        created_at=pl.lit(datetime.now(UTC)),
    )
    lake.replace("questions", frame, keys)


def load_source(benchmark: Benchmark, source: str | None, set_name: str | None, workspace: Workspace) -> QuestionSet:
    """Load a question set from `starter`, `hub` or a folder; None is the configured folder, else the starter set."""
    if source is None:
        source = str(workspace.settings.datasets) if workspace.settings.datasets else "starter"
    return _load(benchmark, source, set_name)


def _load(benchmark: Benchmark, source: str, set_name: str | None, revision: str | None = None) -> QuestionSet:
    """Load from a source as users name it (`starter`, `hub`, a folder) or as a set records it (`hub:…`, `folder:…`)."""
    kind, _, place = source.partition(":")
    if kind in {"starter", "hub"}:
        return load_question_set(benchmark, kind, set_name=set_name, revision=revision)
    folder = Path(place if kind == "folder" else source)
    if not folder.is_dir():
        raise ConfigurationError(
            f"question source {source!r} must be starter, hub or an existing folder, which has a file "
            f"{benchmark.name}.jsonl, .json, .parquet or .csv"
        )
    return load_question_set(benchmark, "folder", folder, set_name)


def sampled(whole: QuestionSet, sample: SampleSpec) -> QuestionSet:
    """Return the sample of a question set."""
    return sample_questions(whole, sample.size, sample.seed, sample.order)
