"""Every table of the lake: its columns with meaning, unit and source, and its physical partitions.

The schemas are one contract for the Delta tables, the SQL views and the column pages in the Dagster UI.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_TEXT, _INT, _FLOAT, _BOOL = "varchar", "bigint", "double", "boolean"
_TEXTS, _INTS = "varchar[]", "bigint[]"
_TIME = "timestamp with time zone"
_DELTAS = 'struct(pass varchar, "version" varchar, delta double, reason varchar)[]'


@dataclass(frozen=True)
class LakeColumn:
    """One column.

    Attributes:
        name: Its name in every table, view and file.
        sql_type: Its type in DuckDB; every column is nullable unless `required`.
        meaning: One line for people.
        unit: Unit or value set, "" where the meaning says it all.
        source: Where the value comes from.
        required: Null is an error.
    """

    name: str
    sql_type: str
    meaning: str
    unit: str = ""
    source: str = ""
    required: bool = False

    @property
    def type(self) -> "pl.DataType":
        """Its type in polars."""
        return _polars_types()[self.sql_type]

    @property
    def description(self) -> str:
        """Meaning, unit and source in one line."""
        unit = f" [{self.unit}]" if self.unit else ""
        source = f" (from {self.source})" if self.source else ""
        return f"{self.meaning}{unit}{source}"


@dataclass(frozen=True)
class LakeTable:
    """One Delta table.

    Attributes:
        name: Folder under the warehouse and name in SQL.
        meaning: One line for people.
        columns: In order.
        partition_by: Few, low-cardinality columns; never the run.
    """

    name: str
    meaning: str
    columns: tuple[LakeColumn, ...]
    partition_by: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Column names, in order."""
        return [column.name for column in self.columns]

    @cached_property
    def schema(self) -> "pl.Schema":
        """Column names and types in polars."""
        import polars as pl  # noqa: PLC0415  (readers start without it)

        return pl.Schema({column.name: column.type for column in self.columns})

    @cached_property
    def empty(self) -> "pl.LazyFrame":
        """No rows."""
        return self.schema.to_frame(eager=False)


@cache
def _polars_types() -> "Mapping[str, pl.DataType]":
    import polars as pl  # noqa: PLC0415  (readers start without it)

    text, integer, number = pl.String(), pl.Int64(), pl.Float64()
    delta = pl.Struct({"pass": text, "version": text, "delta": number, "reason": text})
    simple = {_TEXT: text, _INT: integer, _FLOAT: number, _BOOL: pl.Boolean(), _TIME: pl.Datetime("us", "UTC")}
    return simple | {_TEXTS: pl.List(text), _INTS: pl.List(integer), _DELTAS: pl.List(delta)}


_STATUS = "ok, error, excluded or skipped"
_RUN = (
    LakeColumn("run_id", _TEXT, "The run: {model_safe}@@{run_tag}", source="RunSpec", required=True),
    LakeColumn("model", _TEXT, "The evaluated model's name", source="RunSpec", required=True),
    LakeColumn("run_tag", _TEXT, "The run's tag; {base}-run1 … in a multi-run", source="RunSpec", required=True),
)
_BENCHMARK = LakeColumn("benchmark", _TEXT, "The benchmark's name", source="RunSpec", required=True)
_QUESTION_SET = LakeColumn("question_set", _TEXT, "The version of the benchmark's questions", source="RunSpec")
_QUESTION_ID = LakeColumn("question_id", _TEXT, "sha256 of the exact question text", source="questions", required=True)
_SAMPLE = (
    _BENCHMARK,
    _QUESTION_SET,
    _QUESTION_ID,
    LakeColumn(
        "sample_index", _INT, "Which of the run's samples of this question", "0 to N-1", "RunSpec", required=True
    ),
)
_CREATED = LakeColumn("created_at", _TIME, "When the row was made", "UTC", "clock", required=True)
_ANSWER_STATE = LakeColumn("answer_state", _TEXT, "What the answer is", "text, empty or whitespace", "answer")
_ANSWER_HASH = LakeColumn("answer_hash", _TEXT, "sha256 of the answer text that is judged", source="answers")
_STATUS_COLUMNS = (
    LakeColumn("status", _TEXT, "Outcome of the row", _STATUS, "stage", required=True),
    LakeColumn("error_class", _TEXT, "Class of the failure or reason of the exclusion; null when ok", source="stage"),
    LakeColumn("error_message", _TEXT, "One line about the failure, without secrets", source="endpoint or stage"),
)
_STRATEGY = LakeColumn("strategy", _TEXT, "Consensus strategy; null for a plain sample", source="RunSpec")
_JUDGE_PROMPT_HASH = LakeColumn("judge_prompt_hash", _TEXT, "sha256 of the judge's templates", source="judgements")
_JUDGE = (
    _STRATEGY,
    LakeColumn("judge", _TEXT, "The judge model or rule", source="RunSpec", required=True),
    LakeColumn("judge_config_hash", _TEXT, "sha256 of the judge's settings and prompt", source="RunSpec"),
)

_IMPORTED = (
    LakeColumn("display_name", _TEXT, "The model's likely name, where the run has another", source="file name"),
    LakeColumn("generation", _INT, "Which of the model's imported answers to the benchmark", "from 1", "answer texts"),
    LakeColumn(
        "not_recorded",
        _TEXT,
        "What the system that the row was imported from never recorded: why other columns are null",
        "settings, tokens, times, finish_reason, judge_output",
        "import",
    ),
    LakeColumn("source_sha256", _TEXT, "sha256 of the file that the row was imported from", source="legacy tree"),
    LakeColumn("source_line", _INT, "Its line there; the entry of a cache", "from 1", "legacy tree"),
    LakeColumn("legacy_fields", _TEXT, "Other columns of the imported row that no column says", "JSON", "legacy tree"),
)
_FILE = (
    LakeColumn("import_tag", _TEXT, "Tag under which it was imported", source="import", required=True),
    LakeColumn("source", _TEXT, "Name of the tree", source="import", required=True),
    LakeColumn("path", _TEXT, "Path in the tree", source="legacy tree", required=True),
)


def _tokens(prefix: str, what: str) -> tuple[LakeColumn, ...]:
    return (
        LakeColumn(f"{prefix}_prompt_tokens", _INT, f"Prompt tokens of {what}; null is unknown", "tokens", "provider"),
        LakeColumn(f"{prefix}_completion_tokens", _INT, f"Completion tokens of {what}", "tokens", "provider"),
        LakeColumn(f"{prefix}_cached_tokens", _INT, f"Prompt tokens of {what} read from a cache", "tokens", "provider"),
        LakeColumn(f"{prefix}_reasoning_tokens", _INT, f"Hidden reasoning tokens of {what}", "tokens", "provider"),
    )


QUESTIONS = LakeTable(
    "questions",
    "The question sets, one row per question of each version",
    (
        _BENCHMARK,
        LakeColumn("question_set", _TEXT, "Name of the version, by content", source="content", required=True),
        LakeColumn("question_set_sha256", _TEXT, "sha256 of the version's content", source="content", required=True),
        LakeColumn("question_id", _TEXT, "sha256 of the exact question text", source="content", required=True),
        LakeColumn("position", _INT, "Place in the set", "1 to n", "source file", required=True),
        LakeColumn("upstream_id", _TEXT, "The source's own id", source="source file"),
        LakeColumn("category", _TEXT, "The source's category", source="source file"),
        LakeColumn("question", _TEXT, "The question as the model gets it", source="source file", required=True),
        LakeColumn("reference", _TEXT, "A reference answer for the judge", source="source file"),
        LakeColumn("criteria", _TEXT, "Per-question criteria or rubric for the judge", source="source file"),
        LakeColumn("source", _TEXT, "Where the set was loaded from: starter, folder or hub dataset", source="loader"),
        LakeColumn("source_revision", _TEXT, "Commit of the hub dataset; null for files", source="hub"),
        _CREATED,
        LakeColumn("options", _TEXTS, "Texts of the options A, B, … as shown; null without any", source="loader"),
        LakeColumn("option_order", _INTS, "For each of them its place in the source", "from 0", "loader"),
        LakeColumn("aliases", _TEXTS, "Further right answers", source="source file"),
    ),
    partition_by=("benchmark",),
)

RUNS = LakeTable(
    "runs",
    "One row per run with its frozen RunSpec",
    (
        *_RUN,
        LakeColumn("base_tag", _TEXT, "The tag without -runN", source="RunSpec"),
        LakeColumn("run_number", _INT, "N of -runN; null for a single run", source="RunSpec"),
        LakeColumn("spec", _TEXT, "The RunSpec", "JSON", "RunSpec", required=True),
        LakeColumn("spec_hash", _TEXT, "sha256 of the RunSpec", source="RunSpec", required=True),
        LakeColumn(
            "status",
            _TEXT,
            "State of the run; decision: it has only what decisions asked, and is no evaluation",
            "running, complete, partial, decision or error",
            "stages",
            required=True,
        ),
        LakeColumn("status_by_benchmark", _TEXT, "State and error per benchmark", "JSON", "stages"),
        LakeColumn("created_at", _TIME, "When the spec was first stored", "UTC", "clock", required=True),
        LakeColumn("updated_at", _TIME, "When a stage last changed the run", "UTC", "clock", required=True),
        LakeColumn("finished_at", _TIME, "When the run became complete", "UTC", "clock"),
        LakeColumn("git_commit", _TEXT, "Commit of the evaluation code; null outside a checkout", source="git"),
        LakeColumn("git_dirty", _BOOL, "Whether the code had uncommitted changes", source="git"),
        LakeColumn("package_version", _TEXT, "Version of shaberi-dagster", source="package"),
        LakeColumn("platform", _TEXT, "Python and operating system", source="interpreter"),
        LakeColumn(
            "created_by",
            _TEXT,
            "Who first stored the spec, or imported the run; null is unknown",
            source="SHABERI_USER or login name",
        ),
        LakeColumn(
            "max_cost_usd",
            _FLOAT,
            "What the command that worked on it last may spend on all of its runs; null is no limit",
            "US dollars",
            "--max-cost",
        ),
        LakeColumn(
            "import_tag", _TEXT, "Tag under which the run was imported; null for one of our own", source="import"
        ),
        LakeColumn("source", _TEXT, "Name of the tree that it was imported from", source="import"),
        LakeColumn(
            "superseded_by",
            _TEXT,
            "The run with the answers that took the place of this one's in its tree; such a run is in no leaderboard",
            "run_id",
            "import",
        ),
        LakeColumn(
            "not_sent",
            _TEXTS,
            "Parameters that were asked for and that calls left out, of judges as judge_NAME; null is not known",
            source="endpoint",
        ),
    ),
)

ANSWERS = LakeTable(
    "answers",
    "One row per sample of a question by a run; failures are rows too",
    (
        *_RUN,
        *_SAMPLE,
        LakeColumn("answer", _TEXT, "The text that is judged: thinking split off", source="model"),
        _ANSWER_HASH,
        _ANSWER_STATE,
        LakeColumn("truncated", _BOOL, "Whether the token limit cut the answer", source="finish_reason"),
        LakeColumn("thinking", _TEXT, "Thinking split off from the answer or sent beside it", source="model"),
        *_STATUS_COLUMNS,
        LakeColumn("finish_reason", _TEXT, "Why the model stopped", "stop, length, …", "provider"),
        *_tokens("answer", "the answer"),
        LakeColumn("latency_seconds", _FLOAT, "Duration of the successful request", "s", "clock"),
        LakeColumn("prompt_hash", _TEXT, "sha256 of the generation templates", source="prompts"),
        LakeColumn("request_hash", _TEXT, "The call that made the answer; its raw text is in calls", source="request"),
        _CREATED,
        *_IMPORTED,
        LakeColumn(
            "answer_origin",
            _TEXT,
            "Where an imported answer stood",
            "stored (an answer file) or judgement (only in a judgement)",
            "legacy tree",
        ),
        LakeColumn(
            "answer_form",
            _TEXT,
            "How the judged text was made from the stored one",
            "as_stored, thinking_stripped or null_as_empty",
            "answer texts",
        ),
        LakeColumn("raw_answer", _TEXT, "The imported text where the judged one differs", source="legacy tree"),
        LakeColumn("answered_at", _TIME, "When an imported answer was last updated", "UTC", "legacy tree"),
        LakeColumn("answer_model", _TEXT, "The model asked; in an ensemble not always the run's", source="RunSpec"),
        LakeColumn(
            "answer_ending",
            _TEXT,
            "How the answer ended; null where that is not known",
            "complete, refused, filtered, truncated or empty",
            "endpoint",
        ),
    ),
    partition_by=("benchmark",),
)

CONSENSUS = LakeTable(
    "consensus",
    "One row per question and strategy: the answer that it made of a run's samples",
    (
        *_RUN,
        _BENCHMARK,
        _QUESTION_SET,
        _QUESTION_ID,
        LakeColumn(
            "strategy", _TEXT, "Consensus strategy; single is one answer as it is", source="RunSpec", required=True
        ),
        LakeColumn("strategy_version", _INT, "Version of its code", "from 1", "strategy"),
        LakeColumn(
            "strategy_file_hash", _TEXT, "sha256 of its file (or its rule's); null: the project's", source="plugin"
        ),
        LakeColumn("strategy_prompt_hash", _TEXT, "sha256 of its templates", source="prompts"),
        LakeColumn("consensus_model", _TEXT, "The model that it asks", source="RunSpec"),
        LakeColumn("candidates_hash", _TEXT, "sha256 of the samples' answer hashes, in order", source="answers"),
        LakeColumn("n_candidates", _INT, "Samples with a text", "samples", "answers"),
        LakeColumn("answer", _TEXT, "The consensus, as it is graded", source="strategy"),
        _ANSWER_HASH,
        _ANSWER_STATE,
        LakeColumn(
            "winner", _INT, "Sample that came first; null where none did, or not alone", "sample_index", "strategy"
        ),
        LakeColumn("details", _TEXT, "Ratings, votes, debate; the texts are in calls", "JSON", "strategy"),
        *_STATUS_COLUMNS,
        LakeColumn("calls", _INT, "Calls that it took, reused ones included", "calls", "strategy"),
        *_tokens("consensus", "these calls"),
        LakeColumn("latency_seconds", _FLOAT, "Duration, waiting included; null when no call was made", "s", "clock"),
        _CREATED,
    ),
    partition_by=("benchmark",),
)

JUDGEMENTS = LakeTable(
    "judgements",
    "One row per answer and judge; replaced judgements and failures stay as superseded rows",
    (
        *_RUN,
        *_SAMPLE,
        *_JUDGE,
        LakeColumn("judge_prompt_hash", _TEXT, "sha256 of the judge's templates", source="prompts"),
        LakeColumn("judge_round", _INT, "How often the run was judged anew by this judge", "0, 1, …", "RunSpec"),
        LakeColumn("score", _FLOAT, "The score as given, never clamped", "the benchmark's scale", "judge_output"),
        LakeColumn("out_of_scale", _BOOL, "Whether the score is outside the benchmark's scale", source="score"),
        LakeColumn(
            "score_source",
            _TEXT,
            "How the score was found",
            "final_score, score_tag, legacy_form, bare_number, fallback or recorded (imported without its text)",
            "parser",
        ),
        LakeColumn("judge_output", _TEXT, "The judge's whole output", source="judge"),
        LakeColumn("fallback_output", _TEXT, "Output of the call that extracted the score", source="judge"),
        *_STATUS_COLUMNS,
        LakeColumn("finish_reason", _TEXT, "Why the judge stopped", "stop, length, …", "provider"),
        _ANSWER_HASH,
        *_tokens("judge", "the judgement, fallback included"),
        LakeColumn("latency_seconds", _FLOAT, "Duration of the successful requests", "s", "clock"),
        LakeColumn("request_hash", _TEXT, "The judging call", source="request"),
        LakeColumn("fallback_request_hash", _TEXT, "The call that extracted the score", source="request"),
        _CREATED,
        LakeColumn("superseded", _BOOL, "A newer judgement of the same sample by this judge exists", source="stage"),
        LakeColumn("superseded_at", _TIME, "When it was replaced; null while it stands", "UTC", "stage"),
        *_IMPORTED,
        LakeColumn("judge_model", _TEXT, "The judging model, where the judge has another name", source="judge folder"),
        LakeColumn("judge_prompt_version", _TEXT, "Epoch of the judge's prompt", "P1, P2, P3 or a choice", "inferred"),
        LakeColumn("judge_prompt_version_source", _TEXT, "How it is known", "inferred or unknown", "import"),
        LakeColumn("recorded_score", _TEXT, "The score exactly as recorded: 9, 9.0, null or an object", "JSON", "file"),
        LakeColumn("recovered_score", _FLOAT, "The score inside a recorded object", "the benchmark's scale", "file"),
        LakeColumn(
            "backfilled",
            _BOOL,
            "Whether the score was filled in later: an integer in a file of floats",
            source="inferred",
        ),
        LakeColumn(
            "answer_link",
            _TEXT,
            "What the judged text is to the stored answers",
            "stored, stored_stripped, stored_null, differs or no_stored",
            "answer texts",
        ),
        LakeColumn("extracted", _TEXT, "What a grader found the answer to say, in one spelling", source="grader"),
    ),
    partition_by=("benchmark", "judge"),
)

PASS_OUTPUTS = LakeTable(
    "pass_outputs",
    "What each pass found in each answer; the deltas that came of it are in scores",
    (
        *_RUN,
        *_SAMPLE,
        _STRATEGY,
        _ANSWER_HASH,
        LakeColumn("pass", _TEXT, "The pass", source="registry", required=True),
        LakeColumn("pass_version", _TEXT, "Version of its code", source="pass", required=True),
        LakeColumn("pass_config", _TEXT, "Its settings", "JSON", "RunSpec", required=True),
        LakeColumn("pass_config_hash", _TEXT, "sha256 of its name, version and settings", source="pass", required=True),
        LakeColumn("pass_prompt_hash", _TEXT, "sha256 of its templates; null when it asks no model", source="prompts"),
        LakeColumn("severity", _FLOAT, "What it costs; null without a finding", "share of the scale's range", "pass"),
        LakeColumn("reason", _TEXT, "What was found, in one line; empty when nothing was", source="pass"),
        LakeColumn("details", _TEXT, "Measures by name, and spans [start, end, kind] in code points", "JSON", "pass"),
        LakeColumn("pass_output", _TEXT, "The whole output of the model that was asked, if one was", source="model"),
        *_STATUS_COLUMNS,
        *_tokens("pass", "the pass"),
        LakeColumn("request_hash", _TEXT, "The call, if one was made", source="request"),
        _CREATED,
    ),
    partition_by=("benchmark",),
)

_PIPELINE_HASH = LakeColumn(
    "pipeline_hash", _TEXT, "sha256 of the passes, versions and settings in order; null for baseline", source="passes"
)

SCORES = LakeTable(
    "scores",
    "A judgement's score after the deltas of a pass pipeline; baseline is the empty pipeline",
    (
        *_RUN,
        *_SAMPLE,
        *_JUDGE,
        _ANSWER_HASH,
        LakeColumn("status", _TEXT, "Outcome of the judgement", _STATUS, "judgements", required=True),
        LakeColumn("error_class", _TEXT, "Why there is no score; null when ok", source="judgements"),
        LakeColumn("pipeline", _TEXT, "Passes in order, or baseline", source="RunSpec", required=True),
        LakeColumn("baseline_score", _FLOAT, "The judge's score", "the benchmark's scale", "judgements"),
        LakeColumn(
            "deltas",
            _DELTAS,
            "What each pass added, in order",
            "the benchmark's scale",
            "passes",
        ),
        LakeColumn("score", _FLOAT, "baseline_score plus the deltas", "the benchmark's scale", "passes"),
        _CREATED,
        _JUDGE_PROMPT_HASH,
        _PIPELINE_HASH,
        LakeColumn("call_hash", _TEXT, "The call it rests on: the judge's, or for a rule the answer's", source="calls"),
        LakeColumn("judged_at", _TIME, "When the judgement was made, read again or imported", "UTC", "judgements"),
        LakeColumn("out_of_scale", _BOOL, "Whether the judge's score is outside of the scale", source="judgements"),
    ),
    partition_by=("benchmark", "judge"),
)

METRICS = LakeTable(
    "metrics",
    "The roll-up of scores per run, judge, benchmark, pipeline and null policy",
    (
        *_RUN,
        LakeColumn("base_tag", _TEXT, "The tag without -runN", source="runs"),
        LakeColumn("run_number", _INT, "N of -runN; null for a single run", source="runs"),
        _BENCHMARK,
        _QUESTION_SET,
        *_JUDGE,
        LakeColumn("pipeline", _TEXT, "Passes in order, or baseline", source="scores", required=True),
        LakeColumn(
            "null_policy", _TEXT, "What a missing score counts as", "legacy, zero or strict", "sql", required=True
        ),
        LakeColumn("score", _FLOAT, "Mean score; null when the policy refuses it", "reported scale", "scores"),
        LakeColumn("sd_questions", _FLOAT, "Standard deviation over questions (ddof 1)", "reported scale", "scores"),
        LakeColumn("n_planned", _INT, "Samples planned", "samples", "scores", required=True),
        LakeColumn("n_scored", _INT, "Samples with a score", "samples", "scores", required=True),
        LakeColumn("n_failed", _INT, "Samples whose answer or judgement failed", "samples", "scores", required=True),
        LakeColumn(
            "n_excluded", _INT, "Samples left out for a reason (empty answers)", "samples", "scores", required=True
        ),
        LakeColumn("n_out_of_scale", _INT, "Scores outside the scale, counted as given", "samples", "scores"),
        LakeColumn("reported_multiplier", _FLOAT, "Reported scale / judge's scale", source="benchmark"),
        _CREATED,
        LakeColumn("scale_minimum", _FLOAT, "Lowest score of the judge's scale", "the benchmark's scale", "benchmark"),
        _JUDGE_PROMPT_HASH,
        _PIPELINE_HASH,
    ),
    partition_by=("benchmark",),
)

CALLS = LakeTable(
    "calls",
    "One row per finished call: what was received, what it used, how it ended",
    (
        LakeColumn("request_hash", _TEXT, "Identity of the request", source="request", required=True),
        LakeColumn("run_id", _TEXT, "The run that made the call", source="RunSpec", required=True),
        LakeColumn("stage", _TEXT, "The stage that made the call", "answers, judgements, …", "stage", required=True),
        LakeColumn("benchmark", _TEXT, "The benchmark it was made for", source="stage"),
        LakeColumn("question_id", _TEXT, "The question it was made for", source="stage"),
        LakeColumn("purpose", _TEXT, "What the call is within its stage", "answer, judge or fallback", "stage"),
        LakeColumn("model", _TEXT, "The model asked", source="request", required=True),
        LakeColumn("base_url", _TEXT, "The endpoint asked", source="request", required=True),
        LakeColumn("status", _TEXT, "Outcome of the call", "ok or error", "endpoint", required=True),
        LakeColumn("error_class", _TEXT, "Class of the failure; null when ok", source="engine"),
        LakeColumn("error_message", _TEXT, "One line about the failure, without secrets", source="endpoint"),
        LakeColumn("content", _TEXT, "The reply's text exactly as received", source="endpoint"),
        LakeColumn("reasoning", _TEXT, "The API's own reasoning text", source="endpoint"),
        LakeColumn("finish_reason", _TEXT, "Why the model stopped", "stop, length, …", "endpoint"),
        LakeColumn("prompt_tokens", _INT, "Prompt tokens; null is unknown", "tokens", "provider"),
        LakeColumn("completion_tokens", _INT, "Completion tokens; null is unknown", "tokens", "provider"),
        LakeColumn("cached_tokens", _INT, "Prompt tokens read from a cache", "tokens", "provider"),
        LakeColumn("reasoning_tokens", _INT, "Hidden reasoning tokens", "tokens", "provider"),
        LakeColumn("cost_usd", _FLOAT, "Price at the time of the call; null is unknown", "US dollars", "price list"),
        LakeColumn("attempts", _INT, "HTTP requests made for the call", "requests", "engine"),
        LakeColumn("latency_seconds", _FLOAT, "Duration of the last attempt", "s", "clock"),
        _CREATED,
        LakeColumn(
            "price_source",
            _TEXT,
            "Where the price is from; null without one, or in a row that is older than this column",
            "genai-prices VERSION, the price file's name and sha256, or embedded",
            "price list",
        ),
        LakeColumn("refusal", _TEXT, "What the endpoint marks as a refusal", source="endpoint"),
        LakeColumn("tool_calls", _TEXT, "Tools that the model called", "JSON", "endpoint"),
    ),
    partition_by=("stage",),
)

PRICES = LakeTable(
    "prices",
    "What the called models cost, as it was known when the row was made: disjoint ranges, lower bounds in, upper out",
    (
        LakeColumn("model", _TEXT, "The model asked", source="calls", required=True),
        LakeColumn("base_url", _TEXT, "The endpoint asked", source="calls", required=True),
        LakeColumn("valid_from", _TIME, "From when; null is since ever", "UTC midnight", "price list"),
        LakeColumn("valid_to", _TIME, "Until when; null is until further notice", "UTC midnight", "price list"),
        LakeColumn("day_seconds_from", _INT, "From which second of the UTC day", "s", "price list", required=True),
        LakeColumn("day_seconds_to", _INT, "Until which second of the UTC day", "s", "price list", required=True),
        LakeColumn("prompt_tokens_from", _INT, "From how long a prompt", "tokens", "price list", required=True),
        LakeColumn("prompt_tokens_to", _INT, "Until how long a prompt; null is any length", "tokens", "price list"),
        LakeColumn(
            "input_usd_per_million",
            _FLOAT,
            "A million prompt tokens that came from no cache",
            "US dollars",
            "price list",
            required=True,
        ),
        LakeColumn(
            "output_usd_per_million", _FLOAT, "A million completion tokens", "US dollars", "price list", required=True
        ),
        LakeColumn(
            "cached_usd_per_million",
            _FLOAT,
            "A million prompt tokens that came from a cache",
            "US dollars",
            "price list",
            required=True,
        ),
        LakeColumn("usd_per_call", _FLOAT, "The call itself", "US dollars", "price list", required=True),
        LakeColumn(
            "source",
            _TEXT,
            "Where the price is from",
            "genai-prices VERSION, the price file's name and sha256, or embedded",
            "price list",
            required=True,
        ),
        _CREATED,
    ),
)

LIMIT_CHANGES = LakeTable(
    "limit_changes",
    "How the number of calls that an endpoint is asked at once moved",
    (
        LakeColumn("run_id", _TEXT, "The run whose stage saw the change", source="RunSpec", required=True),
        LakeColumn("stage", _TEXT, "The stage that saw it", "answers, judgements, …", "stage", required=True),
        LakeColumn("base_url", _TEXT, "The endpoint", source="request", required=True),
        LakeColumn("limit_before", _INT, "The limit until then", "calls at once", "limiter", required=True),
        LakeColumn("limit_after", _INT, "The limit since", "calls at once", "limiter", required=True),
        LakeColumn("cause", _TEXT, "Why it moved", "start, success or rate_limit", "limiter", required=True),
        _CREATED,
    ),
)

LEGACY_FILES = LakeTable(
    "legacy_files",
    "Every file of the imported trees and what became of its lines: lines = blank + imported + repeated + quarantined",
    (
        *_FILE,
        LakeColumn("root", _TEXT, "Folder of the tree when it was imported", source="import"),
        LakeColumn("sha256", _TEXT, "sha256 of its bytes; null when it was not read", source="legacy tree"),
        LakeColumn("size", _INT, "Its size", "bytes", "legacy tree"),
        LakeColumn(
            "kind",
            _TEXT,
            "What it is by its place",
            "answers, judgements, ensemble, baseline or unknown",
            "path",
            required=True,
        ),
        LakeColumn("dataset", _TEXT, "Its dataset folder", source="path"),
        LakeColumn("judge", _TEXT, "Its judge folder without judge_", source="path"),
        LakeColumn("model", _TEXT, "Its name without .json", source="path"),
        LakeColumn(
            "status", _TEXT, "What became of it", "imported, duplicate, unknown or unreadable", "import", required=True
        ),
        LakeColumn("reason", _TEXT, "Why it was not imported", source="import"),
        LakeColumn("duplicate_of", _TEXT, "source:path of the same bytes of the same model and judge", source="import"),
        LakeColumn("benchmark", _TEXT, "Benchmark of most of its rows", source="question texts"),
        LakeColumn("question_set", _TEXT, "Set that those rows are, or are a part of", source="question texts"),
        LakeColumn("row_columns", _TEXT, "Number of rows for each list of columns", "JSON", "legacy tree"),
        LakeColumn("lines", _INT, "Lines of the file; entries of a cache", "lines", "legacy tree"),
        LakeColumn("blank", _INT, "Blank lines", "lines", "legacy tree"),
        LakeColumn("imported", _INT, "Rows that became answers or judgements", "lines", "import"),
        LakeColumn("repeated", _INT, "Rows that another file had said already", "lines", "import"),
        LakeColumn("quarantined", _INT, "Lines that could not become rows", "lines", "import"),
        LakeColumn("imported_at", _TIME, "When it was imported", "UTC", "clock", required=True),
        LakeColumn(
            "column_lines",
            _TEXT,
            "The lines with each list of columns but the most frequent one; null where there is only one list",
            "JSON",
            "legacy tree",
        ),
        LakeColumn("modified_ns", _INT, "When it was last written", "ns since 1970", "legacy tree"),
    ),
)

LEGACY_QUARANTINE = LakeTable(
    "legacy_quarantine",
    "Lines of legacy files that could not become rows",
    (
        *_FILE,
        LakeColumn("model", _TEXT, "The file's name without .json", source="path"),
        LakeColumn("source_sha256", _TEXT, "sha256 of the file", source="legacy tree"),
        LakeColumn("source_line", _INT, "The line", "from 1", "legacy tree"),
        LakeColumn("reason", _TEXT, "What is wrong with it", source="import", required=True),
        LakeColumn("raw", _TEXT, "The line, or the beginning of a very long one", source="legacy tree"),
        LakeColumn("raw_encoding", _TEXT, "Encoding of raw", "utf-8, or base64 where it is not UTF-8", "import"),
        LakeColumn("size", _INT, "Length of the line", "bytes", "legacy tree"),
        LakeColumn("sha256", _TEXT, "sha256 of the line", source="legacy tree"),
    ),
)

LEGACY_REPEATS = LakeTable(
    "legacy_repeats",
    "Rows of files that are not the same, but say what another file had said already",
    (
        LakeColumn("source_sha256", _TEXT, "sha256 of the file", source="legacy tree", required=True),
        LakeColumn("source_line", _INT, "The line", "from 1", "legacy tree", required=True),
        LakeColumn("run_id", _TEXT, "Run of the row that it repeats", source="import", required=True),
        LakeColumn("benchmark", _TEXT, "Its benchmark", source="import", required=True),
        LakeColumn("question_id", _TEXT, "Its question", source="import", required=True),
        LakeColumn("sample_index", _INT, "Its sample", "from 0", "import", required=True),
        LakeColumn("judge", _TEXT, "Its judge; null for an answer", source="import"),
        LakeColumn("legacy_fields", _TEXT, "Other columns of the row", "JSON", "legacy tree"),
        LakeColumn("judge_round", _INT, "Which of the judge's scores of the sample it repeats", "from 0", "import"),
    ),
)

BASELINES = LakeTable(
    "baselines",
    "What a run got right when it was promoted to a named baseline; rows are never changed",
    (
        LakeColumn("name", _TEXT, "The baseline", source="shaberi baseline promote", required=True),
        LakeColumn("note", _TEXT, "What was said when it was promoted", source="shaberi baseline promote"),
        *_RUN,
        _BENCHMARK,
        _QUESTION_SET,
        LakeColumn("question_set_sha256", _TEXT, "sha256 of the version's content", source="RunSpec", required=True),
        _QUESTION_ID,
        LakeColumn(
            "strategy", _TEXT, "Consensus strategy; single is one answer as it is", source="scores", required=True
        ),
        LakeColumn("judge", _TEXT, "The rule, or the rule with its grading model", source="scores", required=True),
        LakeColumn("judge_config_hash", _TEXT, "sha256 of the judge's settings and prompt", source="scores"),
        LakeColumn("correct", _BOOL, "Whether the answer is right; null without a verdict", source="scores"),
        LakeColumn(
            "status", _TEXT, "Outcome of the grading", f"{_STATUS}, or missing: no row", "scores", required=True
        ),
        LakeColumn("error_class", _TEXT, "Why there is no verdict; null when ok", source="scores"),
        _ANSWER_HASH,
        LakeColumn("settings", _TEXT, "How the answers were made: sampling, models, prompts", "JSON", "RunSpec"),
        LakeColumn("settings_hash", _TEXT, "sha256 of the settings", source="RunSpec", required=True),
        _CREATED,
    ),
)

PROMPTS = LakeTable(
    "prompts",
    "The texts behind the prompt hashes of all other tables: one row for each template that a prompt is made of",
    (
        LakeColumn(
            "prompt_hash",
            _TEXT,
            "The prompt, as prompt_hash, judge_prompt_hash, … of other tables name it: sha256 of its sources in order",
            source="prompts",
            required=True,
        ),
        LakeColumn("position", _INT, "Place of the template in the prompt", "1 to n", "prompts", required=True),
        LakeColumn("template", _TEXT, "The template's name", source="prompts", required=True),
        LakeColumn("source", _TEXT, "Its exact text, as Jinja", source="prompts", required=True),
        LakeColumn("file", _TEXT, "Where it stood, in the folder of the prompts", source="prompts", required=True),
        LakeColumn(
            "variant", _TEXT, "Variant that the prompt is of; null is the prompts as they are", source="RunSpec"
        ),
        LakeColumn(
            "purpose",
            _TEXT,
            "What it was first used for",
            "generation, judging primary, judging fallback, grading, strategy:NAME or pass:NAME",
            "stage",
            required=True,
        ),
        LakeColumn(
            "label",
            _TEXT,
            "A name for people, such as tengu-primary v3: the third text of that name in this lake; never given anew",
            source="stage",
            required=True,
        ),
        _CREATED,
    ),
)

JUDGE_CONFIGS = LakeTable(
    "judge_configs",
    "Settings of judges by the hash that rows until format 2 have of them: the address of the endpoint was part of it",
    (
        LakeColumn("former_hash", _TEXT, "The hash with the address", source="upgrade", required=True),
        LakeColumn("judge_config_hash", _TEXT, "The hash without it", source="upgrade", required=True),
        _CREATED,
    ),
)

_DECISION = LakeColumn(
    "decision_id",
    _TEXT,
    "The decision: candidates, judges, questions, margin and error",
    source="request",
    required=True,
)

_LIMITS = (
    LakeColumn("margin", _FLOAT, "Differences up to it are practically equal", "reported scale", "request"),
    LakeColumn("error", _FLOAT, "Wrong decisions that are allowed", "share", "request", required=True),
)

DECISIONS = LakeTable(
    "decisions",
    "Which of some models is better on some questions, decided with as few of them as it takes",
    (
        _DECISION,
        LakeColumn("candidates", _TEXTS, "What is decided between: MODEL@@TAG, and a strategy", source="request"),
        LakeColumn("run_ids", _TEXTS, "For each the partial run with what was asked for it", source="RunSpec"),
        LakeColumn("judges", _TEXTS, "Who judges; a question's score is their mean", source="RunSpec"),
        LakeColumn("question_sets", _TEXTS, "The questions", source="RunSpec"),
        LakeColumn(
            "n_questions", _INT, "Questions that all candidates can be asked", "questions", "RunSpec", required=True
        ),
        *_LIMITS,
        LakeColumn("seed", _INT, "Of the order and the audit draws", "a whole number", "request", required=True),
        LakeColumn("boundary", _TEXT, "What tells when it is sure", "history or anytime", "calibration", required=True),
        LakeColumn(
            "constant", _FLOAT, "How far the truth may be away; null where bets decide", "spreads", "calibration"
        ),
        LakeColumn("n_history", _INT, "Past models of these judges", "models", "scores", required=True),
        LakeColumn("outside", _TEXTS, "Candidates beyond all past models, and in what; bets decide", source="scores"),
        LakeColumn("state", _TEXT, "How far it is", "running, decided or undecided", "decision", required=True),
        LakeColumn("best", _TEXTS, "The best of them; several are equal within the margin", source="decision"),
        LakeColumn("reason", _TEXT, "Why it is undecided", source="decision"),
        LakeColumn("n_asked", _INT, "Questions of the order that were needed so far", "questions", "decision"),
        LakeColumn("calls", _INT, "Calls made for it", "calls", "calls"),
        LakeColumn("cost_usd", _FLOAT, "What they cost; null is unknown", "US dollars", "calls"),
        LakeColumn("started_at", _TIME, "When it was first asked for", "UTC", "clock", required=True),
        LakeColumn("updated_at", _TIME, "When its state last changed", "UTC", "clock", required=True),
    ),
)

DECISION_LOOKS = LakeTable(
    "decision_looks",
    "The curve of a decision: what was known of each pair after some questions",
    (
        _DECISION,
        LakeColumn("n_asked", _INT, "Questions asked", "questions", "decision", required=True),
        LakeColumn("a", _TEXT, "One candidate", source="decision", required=True),
        LakeColumn("b", _TEXT, "Another one", source="decision", required=True),
        LakeColumn("n_scored", _INT, "Of the questions asked, those with a score of both", "questions", "scores"),
        LakeColumn("estimate", _FLOAT, "A - B over all questions", "reported scale", "decision"),
        LakeColumn("lower", _FLOAT, "Lower end of its interval", "reported scale", "decision"),
        LakeColumn("upper", _FLOAT, "Upper end of its interval", "reported scale", "decision"),
        LakeColumn("verdict", _TEXT, "What is decided", "A, B, equal or open", "decision", required=True),
        _CREATED,
    ),
)

DECISION_CALIBRATIONS = LakeTable(
    "decision_calibrations",
    "How sure a judge's history has to be, by replay of past models with families held out: one row per class of pairs",
    (
        LakeColumn("judges", _TEXTS, "Whose scores; their mean where they are several", source="scores"),
        LakeColumn("question_sets", _TEXTS, "The questions", source="questions"),
        LakeColumn(
            "history_sha256", _TEXT, "sha256 of the scores and of the replay's method", source="scores", required=True
        ),
        LakeColumn("n_models", _INT, "Past models", "models", "scores", required=True),
        LakeColumn("n_families", _INT, "Their families, by the first word of their names", "families", "scores"),
        *_LIMITS,
        LakeColumn(
            "constant", _FLOAT, "How far the truth may be away; null: none keeps the limits", "spreads", "replay"
        ),
        LakeColumn("mean_questions", _FLOAT, "Questions on average over all pairs", "questions", "replay"),
        LakeColumn("class", _TEXT, "What the paired test over all questions says of the pair", "p<0.001, …", "replay"),
        LakeColumn("n_pairs", _INT, "Pairs of the class", "pairs", "replay", required=True),
        LakeColumn("class_mean_questions", _FLOAT, "Questions on average", "questions", "replay"),
        LakeColumn("class_median_questions", _FLOAT, "Half of the pairs took no more", "questions", "replay"),
        LakeColumn("share_wrong", _FLOAT, "Decisions that all questions contradict", "share", "replay"),
        LakeColumn("share_equal", _FLOAT, "Decisions that they are equal within the margin", "share", "replay"),
        _CREATED,
    ),
)

STAGE_TABLES = (ANSWERS, CONSENSUS, JUDGEMENTS, PASS_OUTPUTS, SCORES, METRICS)
"""What the stages of a run make."""
_ALL = (
    *(QUESTIONS, RUNS, *STAGE_TABLES, CALLS, PRICES, LIMIT_CHANGES),
    *(LEGACY_FILES, LEGACY_QUARANTINE, LEGACY_REPEATS, BASELINES, PROMPTS, JUDGE_CONFIGS),
    *(DECISIONS, DECISION_LOOKS, DECISION_CALIBRATIONS),
)
TABLES: Mapping[str, LakeTable] = {table.name: table for table in _ALL}
