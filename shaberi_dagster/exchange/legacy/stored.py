"""What the lake has of legacy files, as the lines that they were imported from: the way back from rows to lines."""

import polars as pl

from shaberi_dagster.exchange.importing import SAMPLE, ImportedRows
from shaberi_dagster.exchange.legacy.grouping import MISSING, Sample, SampleKey
from shaberi_dagster.exchange.legacy.lines import CONTENT, CONTENTS, LINES, QUARANTINE, TEXTS, Lines
from shaberi_dagster.exchange.legacy.placing import EarlierRun
from shaberi_dagster.util.identity import sha256_text

_RUN_SAMPLE = ["run_id", *SAMPLE]


def stored_lines(rows: ImportedRows, files: pl.DataFrame) -> Lines:
    """The lines of the contents that some runs were imported from.

    Args:
        rows: All imported rows of the runs.
        files: The rows of `legacy_files` of their models.
    """
    answers, raw_texts = _with_raw_hash(rows.answers)
    opinion = ["recorded_score", "recovered_score", "score_source", "judge_output"]
    stored = answers.filter(answer_origin="stored").select(
        *_own("answers", "model", "question_set"),
        judge=pl.lit(None, pl.String),
        text_hash="raw_hash",
        answered_at="answered_at",
    )
    judged = rows.judgements.select(
        *_own("judgements", "model", "question_set"), *opinion, "judge", text_hash="answer_hash"
    )
    repeats = rows.repeats.with_columns(pl.col("judge_round").fill_null(0))
    again = repeats.filter(pl.col("judge").is_null()).join(
        answers.select(*_RUN_SAMPLE, "model", "question_set", "answered_at", text_hash="raw_hash"), on=_RUN_SAMPLE
    )
    judged_again = repeats.filter(pl.col("judge").is_not_null()).join(
        rows.judgements.select(
            *_RUN_SAMPLE, "judge", "judge_round", *opinion, "model", "question_set", text_hash="answer_hash"
        ),
        on=[*_RUN_SAMPLE, "judge", "judge_round"],
    )
    frames = [
        stored,
        judged,
        again.select(*_own("answers", "model", "question_set"), "judge", "text_hash", "answered_at"),
        judged_again.select(*_own("judgements", "model", "question_set"), *opinion, "judge", "text_hash"),
    ]
    lines = pl.concat([LINES.to_frame(), *(frame.cast({"line": pl.Int64}) for frame in frames)], how="diagonal")
    contents = files.filter(pl.col("lines").is_not_null()).unique([*CONTENT], keep="first", maintain_order=True)
    own_set = contents.select(*CONTENT, "benchmark", own_set="question_set")
    lines = (
        lines.select(list(LINES))
        .unique([*CONTENT, "line"], keep="first", maintain_order=True)
        # A run's set can be larger than the one of a file in it.
        .join(own_set, on=[*CONTENT, "benchmark"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(question_set=pl.coalesce("own_set", "question_set"))
        .select(list(LINES))
    )
    texts = pl.concat(
        [
            rows.answers.select(text_hash="answer_hash", text="answer"),
            raw_texts,
        ]
    ).filter(pl.col("text_hash").is_not_null())
    return Lines(
        lines,
        texts.unique("text_hash", maintain_order=True).cast(TEXTS),
        contents.select(pl.col(name).cast(type_) for name, type_ in CONTENTS.items()),
        QUARANTINE.to_frame(),
    )


def _own(kind: str, *more: str) -> list[pl.Expr]:
    """What all kinds of rows say of their lines."""
    names = ("benchmark", "question_id", "sample_index", "legacy_fields", *more)
    return [
        pl.lit(kind).alias("kind"),
        pl.col("source_sha256").alias("sha256"),
        pl.col("source_line").alias("line"),
        *(pl.col(name) for name in names),
    ]


def _with_raw_hash(answers: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Answers with `raw_hash`, of the text in their file, and the texts (`TEXTS`) that are not the answers."""
    texts = answers["raw_answer"].drop_nulls().unique().to_list()
    raw = pl.DataFrame({"text_hash": [sha256_text(text) for text in texts], "text": texts}, schema=TEXTS)
    hashes = raw.select(raw_hash="text_hash", raw_answer="text")
    as_stored = pl.col("answer_form") == "as_stored"
    with_hash = answers.join(hashes, on="raw_answer", how="left").with_columns(
        raw_hash=pl.when(as_stored).then("answer_hash").otherwise("raw_hash")
    )
    return with_hash, raw


def earlier_runs(rows: ImportedRows, runs: pl.DataFrame) -> dict[str, list[EarlierRun]]:
    """Runs of the lake by their models.

    Args:
        rows: Their imported rows.
        runs: Their rows of `runs`.
    """
    answers = _with_raw_hash(rows.answers)[0].select("run_id", *SAMPLE, "answer_origin", "raw_hash", "answer_hash")
    samples: dict[str, dict[SampleKey, Sample]] = {run_id: {} for run_id in runs["run_id"]}
    for run_id, benchmark, question_id, sample_index, origin, raw_hash, answer_hash in answers.iter_rows():
        stored = raw_hash if origin == "stored" else MISSING
        samples[run_id][benchmark, question_id, sample_index] = Sample(stored, answer_hash)
    by_model: dict[str, list[EarlierRun]] = {}
    for run_id, model, run_tag, source in (
        runs.sort("run_tag").select("run_id", "model", "run_tag", "source").iter_rows()
    ):
        by_model.setdefault(model, []).append(EarlierRun(run_tag, source, samples[run_id]))
    return by_model
