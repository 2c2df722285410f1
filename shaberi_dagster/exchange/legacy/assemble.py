"""The lines of legacy files as rows of the lake's tables, once it is known of which run each file is.

Nothing is lost on the way: each line is found by its (run_id, source_sha256, source_line) as an answer, a judgement or
a repeat of one.
"""

from datetime import datetime

import polars as pl

from shaberi_dagster.exchange.importing import SAMPLE, ImportedRows
from shaberi_dagster.exchange.legacy.grouping import judged_texts
from shaberi_dagster.exchange.legacy.judges import legacy_judge
from shaberi_dagster.exchange.legacy.lines import CONTENT, Lines
from shaberi_dagster.exchange.legacy.tree import display_name
from shaberi_dagster.lake.schemas import ANSWERS, JUDGEMENTS, LEGACY_REPEATS, Table
from shaberi_dagster.llm.thinking import MARKS, answer_state, split_thinking
from shaberi_dagster.stages.scores import scales
from shaberi_dagster.util.identity import sha256_text

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

PLACED = pl.Schema(
    dict.fromkeys((*CONTENT, "source", "run_id", "run_tag", "benchmark", "question_set"), pl.String())
    | dict.fromkeys(("generation", "rank"), pl.Int64())
)
"""Of which run a file's rows of a benchmark are: content, source, run_id, run_tag, benchmark, question_set (the run's),
generation (which of the source's runs of the model), rank (order of the files, the first one stands)."""

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
    """One row for each sample with the text that was judged, or would be, and what became of it."""
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
    """Whether there is anything to read, for each row of `final`; null where there is no text."""
    doubtful = known.filter(~pl.col("text").str.contains(r"[\p{Han}\p{Hiragana}\p{Katakana}A-Za-z0-9]"))
    states = {text_hash: answer_state(text) for text_hash, text in doubtful.iter_rows()}
    hashes = final["answer_hash"]
    if not states:
        return pl.select(pl.when(hashes.is_not_null()).then(pl.lit("text"))).to_series()
    return hashes.replace_strict(
        states, default=pl.select(pl.when(hashes.is_not_null()).then(pl.lit("text"))).to_series()
    )


def _links(judgements: pl.DataFrame, stored: pl.DataFrame, texts: pl.DataFrame) -> pl.Series:
    """What each judged text is to the stored answers (`answer_link`): to that of its run, else to any of its tree."""
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
    """Whether integers stand among floats: a file once written with nulls has floats only."""
    score = pl.col("recorded_score")
    number = score.str.contains(r"^-?\d")
    whole = score.str.contains(_INTEGER)
    return judged.group_by("judge", "model", "sha256", "benchmark").agg(
        is_backfilled=whole.any() & (number & ~whole).any() & ~(score == "null").any()
    )


def _judges(names: pl.Series) -> pl.DataFrame:
    """judge, and what is known of it."""
    known = [legacy_judge(name) for name in names.unique()]
    rows = [
        {
            "judge": one.judge,
            "judge_model": one.model,
            "judge_config_hash": one.config_hash,
            "judge_prompt_version": one.prompt_version,
            "judge_prompt_version_source": one.prompt_version_source,
        }
        for one in known
    ]
    names_of = ("judge", "judge_model", "judge_config_hash", "judge_prompt_version", "judge_prompt_version_source")
    return pl.DataFrame(rows, schema=dict.fromkeys(names_of, pl.String))


def _status() -> pl.Expr:
    return pl.when(pl.col("error_class").is_null()).then(pl.lit("ok")).otherwise(pl.lit("error")).alias("status")


def _one_line(text: pl.Expr) -> pl.Expr:
    start = text.str.slice(0, 2 * _MESSAGE_LENGTH)
    return start.str.replace_all(r"\s+", " ").str.strip_chars().str.slice(0, _MESSAGE_LENGTH)


def _conform(rows: pl.DataFrame, table: Table, imported_at: datetime, **more: pl.Expr) -> pl.DataFrame:
    """The rows with all columns of a table."""
    frame = rows.with_columns(source_sha256="sha256", source_line="line", created_at=pl.lit(imported_at), **more)
    return frame.select(
        (pl.col(name) if name in frame.columns else pl.lit(None).alias(name)).cast(type_)
        for name, type_ in table.schema.items()
    )
