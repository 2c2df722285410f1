"""Lines of legacy files as rows of the lake's tables, once it is known of which run each file is, and the way back.

Nothing is lost on the way: each line is found by its (run_id, source_sha256, source_line) as an answer, a judgement or
a repeat of one.

Nothing of the judges' settings stands in the files: settings are those of the suite's code, prompt versions are
inferred from the dates at which judgements were published. P1: from 2024-04, scores as `[点数]`, bare digits or
`評価：[[N]]`. P2: from 2025-02, Tengu and ELYZA in `<score>`. P3: from 2025-11, all end in `FINAL SCORE: x`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import polars as pl

from shaberi_dagster.exchange.importing import SAMPLE, ImportedRows
from shaberi_dagster.exchange.trees.files import CONTENT, display_name
from shaberi_dagster.exchange.trees.reading import CONTENTS, LINES, QUARANTINE, TEXTS, Lines
from shaberi_dagster.exchange.trees.runs import MISSING, EarlierRun, Sample, SampleKey, judged_texts
from shaberi_dagster.lake.schemas import ANSWERS, JUDGEMENTS, LEGACY_REPEATS, LakeTable
from shaberi_dagster.llm.thinking import MARKS, answer_state, split_thinking
from shaberi_dagster.runs.spec import ImportedJudge
from shaberi_dagster.runs.stages.scores import scales
from shaberi_dagster.util.identity import sha256_json, sha256_text

_OLD_PROMPT = "-oldjudgeprompt"


_KNOWN: Mapping[str, tuple[str, str | None]] = {
    "gpt-4-turbo-preview": ("gpt-4-turbo-preview", "P1 or P2"),
    "gpt-4.1-2025-04-14": ("gpt-4.1-2025-04-14", "P2 or P3"),
    "gpt-5.1-2025-11-13": ("gpt-5.1-2025-11-13", "P3"),
    f"gpt-5.1-2025-11-13{_OLD_PROMPT}": ("gpt-5.1-2025-11-13", "P2"),
    "llmjudge-athenev2": ("Athene-V2-Chat", "P2"),
    "llmjudge-llama33": ("Llama-3.3-70B", "P2"),
    "llmjudge-tulu405": ("Llama-3.1-Tulu-3-405B-FP8", "P2"),
}


def legacy_judge(name: str) -> ImportedJudge:
    """Tell what is known of the judge of a folder `judge_{name}`. Another prompt has another folder and name."""
    model, version = _KNOWN.get(name, (name.removesuffix(_OLD_PROMPT) or name, None))
    known: dict[str, Any] = {
        "judge": name,
        "model": model,
        "prompt_version": version,
        "prompt_version_source": "inferred" if version else "unknown",
        "temperature": 0.0 if version else None,
        "max_tokens": 1024 if version else None,
    }
    return ImportedJudge(**known, config_hash=sha256_json({"legacy": known}))


NOT_RECORDED = "settings, tokens, times, finish_reason"
_NOT_RECORDED_BY_JUDGES = f"{NOT_RECORDED}, judge_output"
_PERMANENT = "PERMANENT_ERROR with model "
_UNEXPECTED = "UNEXPECTED_ERROR: "
_MESSAGE_LENGTH = 300
_LINKS = ("stored", "stored_stripped", "stored_null", "differs")  # where several hold, the first
_MESSAGES = {
    "no_answer": "the stored answer is null",
    "no_score": "the recorded score is null",
    "object_score": "the recorded score is an object",
}

_RUN_SAMPLE = ["run_id", *SAMPLE]


def assemble(read: Lines, placed: pl.DataFrame, imported_at: datetime) -> ImportedRows:
    """The rows of some runs.

    Args:
        read: Everything that the files say.
        placed: Of which runs they are (`PLACED`).
        imported_at: `created_at` of the rows.
    """
    lines = _of_runs(read.lines, placed)
    stored = lines.filter(kind="answers")
    judged = lines.filter(kind="judgements")
    first = pl.concat([stored, judged]).unique(_RUN_SAMPLE, keep="first", maintain_order=True)
    answers = _with_texts(first, judged, read.texts)
    opinions = ["judge", "recorded_score", "judge_output"]
    judgements = judged.unique([*_RUN_SAMPLE, *opinions], keep="first", maintain_order=True).with_columns(
        judge_round=pl.int_range(pl.len()).over(*_RUN_SAMPLE, "judge")
    )
    own = ["run_id", "kind", "judge", "sha256", "line"]
    said = pl.concat([first.filter(kind="answers").select(own), judgements.select(own)])
    repeats = lines.join(said, on=own, how="anti", nulls_equal=True).join(
        judgements.select(*_RUN_SAMPLE, *opinions, "judge_round"),
        on=[*_RUN_SAMPLE, *opinions],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    return ImportedRows(
        _conform(answers, ANSWERS, imported_at, not_recorded=pl.lit(NOT_RECORDED)),
        _conform(_judgement_rows(judgements, judged, _links(judgements, stored, read.texts)), JUDGEMENTS, imported_at),
        _conform(repeats, LEGACY_REPEATS, imported_at),
    )


def _of_runs(lines: pl.DataFrame, placed: pl.DataFrame) -> pl.DataFrame:
    """The lines with their runs, those that stand first."""
    models = placed["model"].unique()
    names = pl.DataFrame({"model": models, "display_name": [display_name(model) for model in models]})
    return (
        lines.drop("question_set")
        .join(placed, on=[*CONTENT, "benchmark"], nulls_equal=True)
        .join(names, on="model")
        .sort("model", "benchmark", "generation", "source", "rank", "line")
    )


def _with_texts(rows: pl.DataFrame, judged: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """Make a row of each sample, with the text that was judged, or would be, and its status."""
    split = _split(texts)
    judged_hash = judged.unique(_RUN_SAMPLE).select(*_RUN_SAMPLE, judged_hash="text_hash", is_judged=pl.lit(value=True))
    raw = pl.col("text_hash")
    final = (
        rows.join(judged_hash, on=_RUN_SAMPLE, how="left", maintain_order="left")
        .join(split.select("text_hash", "split_hash", "thinking"), on="text_hash", how="left", maintain_order="left")
        .with_columns(answer_hash=pl.when("is_judged").then("judged_hash").otherwise(pl.coalesce("split_hash", raw)))
        .with_columns(
            answer_form=pl.when(pl.col("answer_hash").is_null() | pl.col("answer_hash").eq_missing(raw))
            .then(pl.lit("as_stored"))
            .when(raw.is_null())
            .then(pl.lit("null_as_empty"))
            .otherwise(pl.lit("thinking_stripped")),
            answer_origin=pl.when(kind="answers").then(pl.lit("stored")).otherwise(pl.lit("judgement")),
        )
    )
    known = pl.concat([texts, split.select(text_hash="split_hash", text="split")]).unique("text_hash")
    changed = pl.col("answer_form") != "as_stored"
    raw_text, text = pl.col("raw_text"), pl.col("answer")
    return (
        final.join(
            known.select(answer_hash="text_hash", answer="text"), on="answer_hash", how="left", maintain_order="left"
        )
        .join(known.rename({"text": "raw_text"}), on="text_hash", how="left", maintain_order="left")
        .with_columns(
            answer_state=_states(known, final),
            thinking=pl.when(answer_form="thinking_stripped").then("thinking"),
            raw_answer=pl.when(changed | text.is_null()).then(raw_text),
        )
        .with_columns(
            error_class=pl.when(raw_text.is_null())
            .then(pl.lit("no_answer"))
            .when(raw_text.str.starts_with(_PERMANENT))
            .then(pl.lit("permanent"))
            .when(raw_text.str.starts_with(_UNEXPECTED))
            .then(pl.lit("unexpected"))
            .when(pl.col("answer_state") != "text")
            .then(pl.lit("empty_answer"))
        )
        .with_columns(
            _status(),
            error_message=pl.when(error_class="empty_answer")
            .then(pl.format("the answer is {}", "answer_state"))
            .when(error_class="no_answer")
            .then(pl.lit(_MESSAGES["no_answer"]))
            .when(pl.col("error_class").is_not_null())
            .then(_one_line(raw_text)),
        )
    )


def _split(texts: pl.DataFrame) -> pl.DataFrame:
    """text_hash, split, split_hash and thinking of the texts of which something is not the answer."""
    rows = []
    marked = texts.filter(pl.col("text").str.contains(MARKS))
    for text_hash, text in marked.iter_rows():
        found = split_thinking(text)
        if found.answer != text:
            rows.append((text_hash, found.answer, sha256_text(found.answer), found.thinking))
    names = ("text_hash", "split", "split_hash", "thinking")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def _states(known: pl.DataFrame, final: pl.DataFrame) -> pl.Series:
    """Return the state of the answer in each row of `final`; null where there is no text."""
    doubtful = known.filter(~pl.col("text").str.contains(r"[\p{Han}\p{Hiragana}\p{Katakana}A-Za-z0-9]"))
    states = {text_hash: answer_state(text) for text_hash, text in doubtful.iter_rows()}
    hashes = final["answer_hash"]
    if not states:
        return pl.select(pl.when(hashes.is_not_null()).then(pl.lit("text"))).to_series()
    return hashes.replace_strict(
        states, default=pl.select(pl.when(hashes.is_not_null()).then(pl.lit("text"))).to_series()
    )


def _links(judgements: pl.DataFrame, stored: pl.DataFrame, texts: pl.DataFrame) -> pl.Series:
    """Relate each judged text to the stored answers (`answer_link`): to that of its run, else to any of its tree."""
    sample = ["source", "model", *SAMPLE]
    raw = stored.select("run_id", *sample, raw_hash="text_hash").unique()
    numbered = judgements.select("run_id", *sample, "text_hash").with_row_index("row")
    own = numbered.join(raw.drop("source", "model"), on=_RUN_SAMPLE)
    others = numbered.join(own, on="row", how="anti").join(raw.drop("run_id"), on=sample)
    same, null = pl.col("raw_hash").eq_missing(pl.col("text_hash")), pl.col("raw_hash").is_null()
    pairs = pl.concat([own, others], how="diagonal")
    made = _judged_forms(texts.join(pairs.filter(~same), left_on="text_hash", right_on="raw_hash", how="semi"))
    places = (
        pairs.join(made, on=["raw_hash", "text_hash"], how="left")
        .with_columns(
            place=pl.when(same)
            .then(_LINKS.index("stored"))
            .when(null & (pl.col("text_hash") == sha256_text("")))
            .then(_LINKS.index("stored_null"))
            .when("is_form")
            .then(_LINKS.index("stored_stripped"))
            .otherwise(_LINKS.index("differs"))
        )
        .group_by("row")
        .agg(pl.col("place").min())
    )
    found = numbered.join(places, on="row", how="left", maintain_order="left")["place"]
    return found.replace_strict(dict(enumerate(_LINKS)), default="no_stored", return_dtype=pl.String)


def _judged_forms(texts: pl.DataFrame) -> pl.DataFrame:
    """raw_hash, text_hash and is_form (true): what else a judge can have got of stored texts."""
    rows = [(raw_hash, sha256_text(form), True) for raw_hash, text in texts.iter_rows() for form in judged_texts(text)]
    schema = {"raw_hash": pl.String, "text_hash": pl.String, "is_form": pl.Boolean}
    return pl.DataFrame(rows, schema=schema, orient="row").unique()


def _judgement_rows(rows: pl.DataFrame, judged: pl.DataFrame, links: pl.Series) -> pl.DataFrame:
    recorded, output = pl.col("recorded_score"), pl.col("judge_output")
    return (
        rows.with_columns(answer_link=links)
        .join(_judges(rows["judge"]), on="judge", maintain_order="left")
        .join(_backfilled(judged), on=["judge", "model", "sha256", "benchmark"], maintain_order="left")
        .join(scales(), on="benchmark", maintain_order="left")
        .with_columns(
            score=recorded.cast(pl.Float64, strict=False),
            superseded=pl.col("judge_round") > 0,
            answer_hash="text_hash",
            # The text inside of an object is not that of the judgement.
            not_recorded=pl.when(output.is_null() | (recorded.str.json_path_match("$.judge_output") == output))
            .then(pl.lit(_NOT_RECORDED_BY_JUDGES))
            .otherwise(pl.lit(NOT_RECORDED)),
            error_class=pl.when(recorded.str.starts_with("{"))
            .then(pl.lit("object_score"))
            .when(recorded == "null")
            .then(pl.lit("no_score")),
            backfilled=pl.col("is_backfilled") & recorded.str.contains(_INTEGER),
        )
        .with_columns(
            _status(),
            error_message=pl.col("error_class").replace_strict(_MESSAGES, default=None, return_dtype=pl.String),
            out_of_scale=~pl.col("score").is_between("scale_minimum", "scale_maximum"),
        )
    )


_INTEGER = r"^-?\d+$"


def _backfilled(judged: pl.DataFrame) -> pl.DataFrame:
    """Find where integers stand among floats: a file once written with nulls has floats only."""
    score = pl.col("recorded_score")
    number = score.str.contains(r"^-?\d")
    whole = score.str.contains(_INTEGER)
    return judged.group_by("judge", "model", "sha256", "benchmark").agg(
        is_backfilled=whole.any() & (number & ~whole).any() & ~(score == "null").any()
    )


def _judges(names: pl.Series) -> pl.DataFrame:
    """Make a row of what is known of each judge."""
    fields = {
        "judge": "judge",
        "judge_model": "model",
        "judge_config_hash": "config_hash",
        "judge_prompt_version": "prompt_version",
        "judge_prompt_version_source": "prompt_version_source",
    }
    judges = [legacy_judge(name) for name in names.unique()]
    columns = {column: [getattr(judge, name) for judge in judges] for column, name in fields.items()}
    return pl.DataFrame(columns, schema=dict.fromkeys(fields, pl.String))


def _status() -> pl.Expr:
    return pl.when(pl.col("error_class").is_null()).then(pl.lit("ok")).otherwise(pl.lit("error")).alias("status")


def _one_line(text: pl.Expr) -> pl.Expr:
    start = text.str.slice(0, 2 * _MESSAGE_LENGTH)
    return start.str.replace_all(r"\s+", " ").str.strip_chars().str.slice(0, _MESSAGE_LENGTH)


def _conform(rows: pl.DataFrame, table: LakeTable, imported_at: datetime, **more: pl.Expr) -> pl.DataFrame:
    """The rows with all columns of a table."""
    frame = rows.with_columns(source_sha256="sha256", source_line="line", created_at=pl.lit(imported_at), **more)
    return frame.match_to_schema(table.schema, missing_columns="insert", extra_columns="ignore")


def stored_lines(rows: ImportedRows, files: pl.DataFrame) -> Lines:
    """The lines of the contents that some runs were imported from.

    Args:
        rows: All imported rows of the runs.
        files: The rows of `legacy_files` of their models.
    """
    answers, raw_texts = _with_raw_hash(rows.answers)
    opinion = ["recorded_score", "recovered_score", "score_source", "judge_output"]
    stored = answers.filter(answer_origin="stored").select(
        *_own("answers"),
        judge=pl.lit(None, pl.String),
        text_hash="raw_hash",
        answered_at="answered_at",
    )
    judged = rows.judgements.select(*_own("judgements"), *opinion, "judge", text_hash="answer_hash")
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
        again.select(*_own("answers"), "judge", "text_hash", "answered_at"),
        judged_again.select(*_own("judgements"), *opinion, "judge", "text_hash"),
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


def _own(kind: str) -> list[pl.Expr]:
    """List the columns that all kinds of rows have of their lines."""
    names = (*SAMPLE, "legacy_fields", "model", "question_set")
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
