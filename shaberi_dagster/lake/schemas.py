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
class Column:
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
class Table:
    """One Delta table.

    Attributes:
        name: Folder under the warehouse and name in SQL.
        meaning: One line for people.
        columns: In order.
        partition_by: Few, low-cardinality columns; never the run.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
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
    Column("run_id", _TEXT, "The run: {model_safe}@@{run_tag}", source="RunSpec", required=True),
    Column("model", _TEXT, "The evaluated model's name", source="RunSpec", required=True),
    Column("run_tag", _TEXT, "The run's tag; {base}-run1 … in a multi-run", source="RunSpec", required=True),
)
_BENCHMARK = Column("benchmark", _TEXT, "The benchmark's name", source="RunSpec", required=True)
_QUESTION_SET = Column("question_set", _TEXT, "The version of the benchmark's questions", source="RunSpec")
_QUESTION_ID = Column("question_id", _TEXT, "sha256 of the exact question text", source="questions", required=True)
_SAMPLE = (
    _BENCHMARK,
    _QUESTION_SET,
    _QUESTION_ID,
    Column("sample_index", _INT, "Which of the run's samples of this question", "0 to N-1", "RunSpec", required=True),
)
_CREATED = Column("created_at", _TIME, "When the row was made", "UTC", "clock", required=True)
_ANSWER_STATE = Column("answer_state", _TEXT, "What the answer is", "text, empty or whitespace", "answer")
_ANSWER_HASH = Column("answer_hash", _TEXT, "sha256 of the answer text that is judged", source="answers")
_STATUS_COLUMNS = (
    Column("status", _TEXT, "Outcome of the row", _STATUS, "stage", required=True),
    Column("error_class", _TEXT, "Class of the failure or reason of the exclusion; null when ok", source="stage"),
    Column("error_message", _TEXT, "One line about the failure, without secrets", source="endpoint or stage"),
)
_STRATEGY = Column("strategy", _TEXT, "Consensus strategy; null for a plain sample", source="RunSpec")
_JUDGE_PROMPT_HASH = Column("judge_prompt_hash", _TEXT, "sha256 of the judge's templates", source="judgements")
_JUDGE = (
    _STRATEGY,
    Column("judge", _TEXT, "The judge model or rule", source="RunSpec", required=True),
    Column("judge_config_hash", _TEXT, "sha256 of the judge's settings and prompt", source="RunSpec"),
)

_IMPORTED = (
    Column("display_name", _TEXT, "The model's likely name, where the run has another", source="file name"),
    Column("generation", _INT, "Which of the model's imported answers to the benchmark", "from 1", "answer texts"),
    Column(
        "not_recorded",
        _TEXT,
        "What the system that the row was imported from never recorded: why other columns are null",
        "settings, tokens, times, finish_reason, judge_output",
        "import",
    ),
    Column("source_sha256", _TEXT, "sha256 of the file that the row was imported from", source="legacy tree"),
    Column("source_line", _INT, "Its line there; the entry of a cache", "from 1", "legacy tree"),
    Column("legacy_fields", _TEXT, "Other columns of the imported row that no column says", "JSON", "legacy tree"),
)
_FILE = (
    Column("import_tag", _TEXT, "Tag under which it was imported", source="import", required=True),
    Column("source", _TEXT, "Name of the tree", source="import", required=True),
    Column("path", _TEXT, "Path in the tree", source="legacy tree", required=True),
)


def _tokens(prefix: str, what: str) -> tuple[Column, ...]:
    return (
        Column(f"{prefix}_prompt_tokens", _INT, f"Prompt tokens of {what}; null is unknown", "tokens", "provider"),
        Column(f"{prefix}_completion_tokens", _INT, f"Completion tokens of {what}", "tokens", "provider"),
        Column(f"{prefix}_cached_tokens", _INT, f"Prompt tokens of {what} read from a cache", "tokens", "provider"),
        Column(f"{prefix}_reasoning_tokens", _INT, f"Hidden reasoning tokens of {what}", "tokens", "provider"),
    )


QUESTIONS = Table(
    "questions",
    "The question sets, one row per question of each version",
    (
        _BENCHMARK,
        Column("question_set", _TEXT, "Name of the version, by content", source="content", required=True),
        Column("question_set_sha256", _TEXT, "sha256 of the version's content", source="content", required=True),
        Column("question_id", _TEXT, "sha256 of the exact question text", source="content", required=True),
        Column("position", _INT, "Place in the set", "1 to n", "source file", required=True),
        Column("upstream_id", _TEXT, "The source's own id", source="source file"),
        Column("category", _TEXT, "The source's category", source="source file"),
        Column("question", _TEXT, "The question as the model gets it", source="source file", required=True),
        Column("reference", _TEXT, "A reference answer for the judge", source="source file"),
        Column("criteria", _TEXT, "Per-question criteria or rubric for the judge", source="source file"),
        Column("source", _TEXT, "Where the set was loaded from: starter, folder or hub dataset", source="loader"),
        Column("source_revision", _TEXT, "Commit of the hub dataset; null for files", source="hub"),
        _CREATED,
        Column("options", _TEXTS, "Texts of the options A, B, … as shown; null without any", source="loader"),
        Column("option_order", _INTS, "For each of them its place in the source", "from 0", "loader"),
        Column("aliases", _TEXTS, "Further right answers", source="source file"),
    ),
    partition_by=("benchmark",),
)

RUNS = Table(
    "runs",
    "One row per run with its frozen RunSpec",
    (
        *_RUN,
        Column("base_tag", _TEXT, "The tag without -runN", source="RunSpec"),
        Column("run_number", _INT, "N of -runN; null for a single run", source="RunSpec"),
        Column("spec", _TEXT, "The RunSpec", "JSON", "RunSpec", required=True),
        Column("spec_hash", _TEXT, "sha256 of the RunSpec", source="RunSpec", required=True),
        Column(
            "status",
            _TEXT,
            "State of the run; decision: it has only what decisions asked, and is no evaluation",
            "running, complete, partial, decision or error",
            "stages",
            required=True,
        ),
        Column("status_by_benchmark", _TEXT, "State and error per benchmark", "JSON", "stages"),
        Column("created_at", _TIME, "When the spec was first stored", "UTC", "clock", required=True),
        Column("updated_at", _TIME, "When a stage last changed the run", "UTC", "clock", required=True),
        Column("finished_at", _TIME, "When the run became complete", "UTC", "clock"),
        Column("git_commit", _TEXT, "Commit of the evaluation code; null outside a checkout", source="git"),
        Column("git_dirty", _BOOL, "Whether the code had uncommitted changes", source="git"),
        Column("package_version", _TEXT, "Version of shaberi-dagster", source="package"),
        Column("platform", _TEXT, "Python and operating system", source="interpreter"),
        Column(
            "created_by",
            _TEXT,
            "Who first stored the spec, or imported the run; null is unknown",
            source="SHABERI_USER or login name",
        ),
        Column(
            "max_cost_usd",
            _FLOAT,
            "What the command that worked on it last may spend on all of its runs; null is no limit",
            "US dollars",
            "--max-cost",
        ),
        Column("import_tag", _TEXT, "Tag under which the run was imported; null for one of our own", source="import"),
        Column("source", _TEXT, "Name of the tree that it was imported from", source="import"),
        Column(
            "superseded_by",
            _TEXT,
            "The run with the answers that took the place of this one's in its tree; such a run is in no leaderboard",
            "run_id",
            "import",
        ),
        Column(
            "not_sent",
            _TEXTS,
            "Parameters that were asked for and that calls left out, of judges as judge_NAME; null is not known",
            source="endpoint",
        ),
    ),
)

ANSWERS = Table(
    "answers",
    "One row per sample of a question by a run; failures are rows too",
    (
        *_RUN,
        *_SAMPLE,
        Column("answer", _TEXT, "The text that is judged: thinking split off", source="model"),
        _ANSWER_HASH,
        _ANSWER_STATE,
        Column("truncated", _BOOL, "Whether the token limit cut the answer", source="finish_reason"),
        Column("thinking", _TEXT, "Thinking split off from the answer or sent beside it", source="model"),
        *_STATUS_COLUMNS,
        Column("finish_reason", _TEXT, "Why the model stopped", "stop, length, …", "provider"),
        *_tokens("answer", "the answer"),
        Column("latency_seconds", _FLOAT, "Duration of the successful request", "s", "clock"),
        Column("prompt_hash", _TEXT, "sha256 of the generation templates", source="prompts"),
        Column("request_hash", _TEXT, "The call that made the answer; its raw text is in calls", source="request"),
        _CREATED,
        *_IMPORTED,
        Column(
            "answer_origin",
            _TEXT,
            "Where an imported answer stood",
            "stored (an answer file) or judgement (only in a judgement)",
            "legacy tree",
        ),
        Column(
            "answer_form",
            _TEXT,
            "How the judged text was made from the stored one",
            "as_stored, thinking_stripped or null_as_empty",
            "answer texts",
        ),
        Column("raw_answer", _TEXT, "The imported text where the judged one differs", source="legacy tree"),
        Column("answered_at", _TIME, "When an imported answer was last updated", "UTC", "legacy tree"),
        Column("answer_model", _TEXT, "The model asked; in an ensemble not always the run's", source="RunSpec"),
        Column(
            "answer_ending",
            _TEXT,
            "How the answer ended; null where that is not known",
            "complete, refused, filtered, truncated or empty",
            "endpoint",
        ),
    ),
    partition_by=("benchmark",),
)

CONSENSUS = Table(
    "consensus",
    "One row per question and strategy: the answer that it made of a run's samples",
    (
        *_RUN,
        _BENCHMARK,
        _QUESTION_SET,
        _QUESTION_ID,
        Column("strategy", _TEXT, "Consensus strategy; single is one answer as it is", source="RunSpec", required=True),
        Column("strategy_version", _INT, "Version of its code", "from 1", "strategy"),
        Column("strategy_file_hash", _TEXT, "sha256 of its file (or its rule's); null: the project's", source="plugin"),
        Column("strategy_prompt_hash", _TEXT, "sha256 of its templates", source="prompts"),
        Column("consensus_model", _TEXT, "The model that it asks", source="RunSpec"),
        Column("candidates_hash", _TEXT, "sha256 of the samples' answer hashes, in order", source="answers"),
        Column("n_candidates", _INT, "Samples with a text", "samples", "answers"),
        Column("answer", _TEXT, "The consensus, as it is graded", source="strategy"),
        _ANSWER_HASH,
        _ANSWER_STATE,
        Column("winner", _INT, "Sample that came first; null where none did, or not alone", "sample_index", "strategy"),
        Column("details", _TEXT, "Ratings, votes, debate; the texts are in calls", "JSON", "strategy"),
        *_STATUS_COLUMNS,
        Column("calls", _INT, "Calls that it took, reused ones included", "calls", "strategy"),
        *_tokens("consensus", "these calls"),
        Column("latency_seconds", _FLOAT, "Duration, waiting included; null when no call was made", "s", "clock"),
        _CREATED,
    ),
    partition_by=("benchmark",),
)

JUDGEMENTS = Table(
    "judgements",
    "One row per answer and judge; replaced judgements and failures stay as superseded rows",
    (
        *_RUN,
        *_SAMPLE,
        *_JUDGE,
        Column("judge_prompt_hash", _TEXT, "sha256 of the judge's templates", source="prompts"),
        Column("judge_round", _INT, "How often the run was judged anew by this judge", "0, 1, …", "RunSpec"),
        Column("score", _FLOAT, "The score as given, never clamped", "the benchmark's scale", "judge_output"),
        Column("out_of_scale", _BOOL, "Whether the score is outside the benchmark's scale", source="score"),
        Column(
            "score_source",
            _TEXT,
            "How the score was found",
            "final_score, score_tag, legacy_form, bare_number, fallback or recorded (imported without its text)",
            "parser",
        ),
        Column("judge_output", _TEXT, "The judge's whole output", source="judge"),
        Column("fallback_output", _TEXT, "Output of the call that extracted the score", source="judge"),
        *_STATUS_COLUMNS,
        Column("finish_reason", _TEXT, "Why the judge stopped", "stop, length, …", "provider"),
        _ANSWER_HASH,
        *_tokens("judge", "the judgement, fallback included"),
        Column("latency_seconds", _FLOAT, "Duration of the successful requests", "s", "clock"),
        Column("request_hash", _TEXT, "The judging call", source="request"),
        Column("fallback_request_hash", _TEXT, "The call that extracted the score", source="request"),
        _CREATED,
        Column("superseded", _BOOL, "A newer judgement of the same sample by this judge exists", source="stage"),
        Column("superseded_at", _TIME, "When it was replaced; null while it stands", "UTC", "stage"),
        *_IMPORTED,
        Column("judge_model", _TEXT, "The judging model, where the judge has another name", source="judge folder"),
        Column("judge_prompt_version", _TEXT, "Epoch of the judge's prompt", "P1, P2, P3 or a choice", "inferred"),
        Column("judge_prompt_version_source", _TEXT, "How it is known", "inferred or unknown", "import"),
        Column("recorded_score", _TEXT, "The score exactly as recorded: 9, 9.0, null or an object", "JSON", "file"),
        Column("recovered_score", _FLOAT, "The score inside a recorded object", "the benchmark's scale", "file"),
        Column(
            "backfilled",
            _BOOL,
            "Whether the score was filled in later: an integer in a file of floats",
            source="inferred",
        ),
        Column(
            "answer_link",
            _TEXT,
            "What the judged text is to the stored answers",
            "stored, stored_stripped, stored_null, differs or no_stored",
            "answer texts",
        ),
        Column("extracted", _TEXT, "What a grader found the answer to say, in one spelling", source="grader"),
    ),
    partition_by=("benchmark", "judge"),
)

PASS_OUTPUTS = Table(
    "pass_outputs",
    "What each pass found in each answer; the deltas that came of it are in scores",
    (
        *_RUN,
        *_SAMPLE,
        _STRATEGY,
        _ANSWER_HASH,
        Column("pass", _TEXT, "The pass", source="registry", required=True),
        Column("pass_version", _TEXT, "Version of its code", source="pass", required=True),
        Column("pass_config", _TEXT, "Its settings", "JSON", "RunSpec", required=True),
        Column("pass_config_hash", _TEXT, "sha256 of its name, version and settings", source="pass", required=True),
        Column("pass_prompt_hash", _TEXT, "sha256 of its templates; null when it asks no model", source="prompts"),
        Column("severity", _FLOAT, "What it costs; null without a finding", "share of the scale's range", "pass"),
        Column("reason", _TEXT, "What was found, in one line; empty when nothing was", source="pass"),
        Column("details", _TEXT, "Measures by name, and spans [start, end, kind] in code points", "JSON", "pass"),
        Column("pass_output", _TEXT, "The whole output of the model that was asked, if one was", source="model"),
        *_STATUS_COLUMNS,
        *_tokens("pass", "the pass"),
        Column("request_hash", _TEXT, "The call, if one was made", source="request"),
        _CREATED,
    ),
    partition_by=("benchmark",),
)

_PIPELINE_HASH = Column(
    "pipeline_hash", _TEXT, "sha256 of the passes, versions and settings in order; null for baseline", source="passes"
)

SCORES = Table(
    "scores",
    "A judgement's score after the deltas of a pass pipeline; baseline is the empty pipeline",
    (
        *_RUN,
        *_SAMPLE,
        *_JUDGE,
        _ANSWER_HASH,
        Column("status", _TEXT, "Outcome of the judgement", _STATUS, "judgements", required=True),
        Column("error_class", _TEXT, "Why there is no score; null when ok", source="judgements"),
        Column("pipeline", _TEXT, "Passes in order, or baseline", source="RunSpec", required=True),
        Column("baseline_score", _FLOAT, "The judge's score", "the benchmark's scale", "judgements"),
        Column(
            "deltas",
            _DELTAS,
            "What each pass added, in order",
            "the benchmark's scale",
            "passes",
        ),
        Column("score", _FLOAT, "baseline_score plus the deltas", "the benchmark's scale", "passes"),
        _CREATED,
        _JUDGE_PROMPT_HASH,
        _PIPELINE_HASH,
        Column("call_hash", _TEXT, "The call it rests on: the judge's, or for a rule the answer's", source="calls"),
        Column("judged_at", _TIME, "When the judgement was made, read again or imported", "UTC", "judgements"),
        Column("out_of_scale", _BOOL, "Whether the judge's score is outside of the scale", source="judgements"),
    ),
    partition_by=("benchmark", "judge"),
)

METRICS = Table(
    "metrics",
    "The roll-up of scores per run, judge, benchmark, pipeline and null policy",
    (
        *_RUN,
        Column("base_tag", _TEXT, "The tag without -runN", source="runs"),
        Column("run_number", _INT, "N of -runN; null for a single run", source="runs"),
        _BENCHMARK,
        _QUESTION_SET,
        *_JUDGE,
        Column("pipeline", _TEXT, "Passes in order, or baseline", source="scores", required=True),
        Column("null_policy", _TEXT, "What a missing score counts as", "legacy, zero or strict", "sql", required=True),
        Column("score", _FLOAT, "Mean score; null when the policy refuses it", "reported scale", "scores"),
        Column("sd_questions", _FLOAT, "Standard deviation over questions (ddof 1)", "reported scale", "scores"),
        Column("n_planned", _INT, "Samples planned", "samples", "scores", required=True),
        Column("n_scored", _INT, "Samples with a score", "samples", "scores", required=True),
        Column("n_failed", _INT, "Samples whose answer or judgement failed", "samples", "scores", required=True),
        Column("n_excluded", _INT, "Samples left out for a reason (empty answers)", "samples", "scores", required=True),
        Column("n_out_of_scale", _INT, "Scores outside the scale, counted as given", "samples", "scores"),
        Column("reported_multiplier", _FLOAT, "Reported scale / judge's scale", source="benchmark"),
        _CREATED,
        Column("scale_minimum", _FLOAT, "Lowest score of the judge's scale", "the benchmark's scale", "benchmark"),
        _JUDGE_PROMPT_HASH,
        _PIPELINE_HASH,
    ),
    partition_by=("benchmark",),
)

CALLS = Table(
    "calls",
    "One row per finished call: what was received, what it used, how it ended",
    (
        Column("request_hash", _TEXT, "Identity of the request", source="request", required=True),
        Column("run_id", _TEXT, "The run that made the call", source="RunSpec", required=True),
        Column("stage", _TEXT, "The stage that made the call", "answers, judgements, …", "stage", required=True),
        Column("benchmark", _TEXT, "The benchmark it was made for", source="stage"),
        Column("question_id", _TEXT, "The question it was made for", source="stage"),
        Column("purpose", _TEXT, "What the call is within its stage", "answer, judge or fallback", "stage"),
        Column("model", _TEXT, "The model asked", source="request", required=True),
        Column("base_url", _TEXT, "The endpoint asked", source="request", required=True),
        Column("status", _TEXT, "Outcome of the call", "ok or error", "endpoint", required=True),
        Column("error_class", _TEXT, "Class of the failure; null when ok", source="engine"),
        Column("error_message", _TEXT, "One line about the failure, without secrets", source="endpoint"),
        Column("content", _TEXT, "The reply's text exactly as received", source="endpoint"),
        Column("reasoning", _TEXT, "The API's own reasoning text", source="endpoint"),
        Column("finish_reason", _TEXT, "Why the model stopped", "stop, length, …", "endpoint"),
        Column("prompt_tokens", _INT, "Prompt tokens; null is unknown", "tokens", "provider"),
        Column("completion_tokens", _INT, "Completion tokens; null is unknown", "tokens", "provider"),
        Column("cached_tokens", _INT, "Prompt tokens read from a cache", "tokens", "provider"),
        Column("reasoning_tokens", _INT, "Hidden reasoning tokens", "tokens", "provider"),
        Column("cost_usd", _FLOAT, "Price at the time of the call; null is unknown", "US dollars", "price list"),
        Column("attempts", _INT, "HTTP requests made for the call", "requests", "engine"),
        Column("latency_seconds", _FLOAT, "Duration of the last attempt", "s", "clock"),
        _CREATED,
        Column(
            "price_source",
            _TEXT,
            "Where the price is from; null without one, or in a row that is older than this column",
            "genai-prices VERSION, the price file's name and sha256, or embedded",
            "price list",
        ),
        Column("refusal", _TEXT, "What the endpoint marks as a refusal", source="endpoint"),
        Column("tool_calls", _TEXT, "Tools that the model called", "JSON", "endpoint"),
    ),
    partition_by=("stage",),
)

PRICES = Table(
    "prices",
    "What the called models cost, as it was known when the row was made: disjoint ranges, lower bounds in, upper out",
    (
        Column("model", _TEXT, "The model asked", source="calls", required=True),
        Column("base_url", _TEXT, "The endpoint asked", source="calls", required=True),
        Column("valid_from", _TIME, "From when; null is since ever", "UTC midnight", "price list"),
        Column("valid_to", _TIME, "Until when; null is until further notice", "UTC midnight", "price list"),
        Column("day_seconds_from", _INT, "From which second of the UTC day", "s", "price list", required=True),
        Column("day_seconds_to", _INT, "Until which second of the UTC day", "s", "price list", required=True),
        Column("prompt_tokens_from", _INT, "From how long a prompt", "tokens", "price list", required=True),
        Column("prompt_tokens_to", _INT, "Until how long a prompt; null is any length", "tokens", "price list"),
        Column(
            "input_usd_per_million",
            _FLOAT,
            "A million prompt tokens that came from no cache",
            "US dollars",
            "price list",
            required=True,
        ),
        Column(
            "output_usd_per_million", _FLOAT, "A million completion tokens", "US dollars", "price list", required=True
        ),
        Column(
            "cached_usd_per_million",
            _FLOAT,
            "A million prompt tokens that came from a cache",
            "US dollars",
            "price list",
            required=True,
        ),
        Column("usd_per_call", _FLOAT, "The call itself", "US dollars", "price list", required=True),
        Column(
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

LIMIT_CHANGES = Table(
    "limit_changes",
    "How the number of calls that an endpoint is asked at once moved",
    (
        Column("run_id", _TEXT, "The run whose stage saw the change", source="RunSpec", required=True),
        Column("stage", _TEXT, "The stage that saw it", "answers, judgements, …", "stage", required=True),
        Column("base_url", _TEXT, "The endpoint", source="request", required=True),
        Column("limit_before", _INT, "The limit until then", "calls at once", "limiter", required=True),
        Column("limit_after", _INT, "The limit since", "calls at once", "limiter", required=True),
        Column("cause", _TEXT, "Why it moved", "start, success or rate_limit", "limiter", required=True),
        _CREATED,
    ),
)

LEGACY_FILES = Table(
    "legacy_files",
    "Every file of the imported trees and what became of its lines: lines = blank + imported + repeated + quarantined",
    (
        *_FILE,
        Column("root", _TEXT, "Folder of the tree when it was imported", source="import"),
        Column("sha256", _TEXT, "sha256 of its bytes; null when it was not read", source="legacy tree"),
        Column("size", _INT, "Its size", "bytes", "legacy tree"),
        Column(
            "kind",
            _TEXT,
            "What it is by its place",
            "answers, judgements, ensemble, baseline or unknown",
            "path",
            required=True,
        ),
        Column("dataset", _TEXT, "Its dataset folder", source="path"),
        Column("judge", _TEXT, "Its judge folder without judge_", source="path"),
        Column("model", _TEXT, "Its name without .json", source="path"),
        Column(
            "status", _TEXT, "What became of it", "imported, duplicate, unknown or unreadable", "import", required=True
        ),
        Column("reason", _TEXT, "Why it was not imported", source="import"),
        Column("duplicate_of", _TEXT, "source:path of the same bytes of the same model and judge", source="import"),
        Column("benchmark", _TEXT, "Benchmark of most of its rows", source="question texts"),
        Column("question_set", _TEXT, "Set that those rows are, or are a part of", source="question texts"),
        Column("row_columns", _TEXT, "Number of rows for each list of columns", "JSON", "legacy tree"),
        Column("lines", _INT, "Lines of the file; entries of a cache", "lines", "legacy tree"),
        Column("blank", _INT, "Blank lines", "lines", "legacy tree"),
        Column("imported", _INT, "Rows that became answers or judgements", "lines", "import"),
        Column("repeated", _INT, "Rows that another file had said already", "lines", "import"),
        Column("quarantined", _INT, "Lines that could not become rows", "lines", "import"),
        Column("imported_at", _TIME, "When it was imported", "UTC", "clock", required=True),
        Column(
            "column_lines",
            _TEXT,
            "The lines with each list of columns but the most frequent one; null where there is only one list",
            "JSON",
            "legacy tree",
        ),
        Column("modified_ns", _INT, "When it was last written", "ns since 1970", "legacy tree"),
    ),
)

LEGACY_QUARANTINE = Table(
    "legacy_quarantine",
    "Lines of legacy files that could not become rows",
    (
        *_FILE,
        Column("model", _TEXT, "The file's name without .json", source="path"),
        Column("source_sha256", _TEXT, "sha256 of the file", source="legacy tree"),
        Column("source_line", _INT, "The line", "from 1", "legacy tree"),
        Column("reason", _TEXT, "What is wrong with it", source="import", required=True),
        Column("raw", _TEXT, "The line, or the beginning of a very long one", source="legacy tree"),
        Column("raw_encoding", _TEXT, "Encoding of raw", "utf-8, or base64 where it is not UTF-8", "import"),
        Column("size", _INT, "Length of the line", "bytes", "legacy tree"),
        Column("sha256", _TEXT, "sha256 of the line", source="legacy tree"),
    ),
)

LEGACY_REPEATS = Table(
    "legacy_repeats",
    "Rows of files that are not the same, but say what another file had said already",
    (
        Column("source_sha256", _TEXT, "sha256 of the file", source="legacy tree", required=True),
        Column("source_line", _INT, "The line", "from 1", "legacy tree", required=True),
        Column("run_id", _TEXT, "Run of the row that it repeats", source="import", required=True),
        Column("benchmark", _TEXT, "Its benchmark", source="import", required=True),
        Column("question_id", _TEXT, "Its question", source="import", required=True),
        Column("sample_index", _INT, "Its sample", "from 0", "import", required=True),
        Column("judge", _TEXT, "Its judge; null for an answer", source="import"),
        Column("legacy_fields", _TEXT, "Other columns of the row", "JSON", "legacy tree"),
        Column("judge_round", _INT, "Which of the judge's scores of the sample it repeats", "from 0", "import"),
    ),
)

BASELINES = Table(
    "baselines",
    "What a run got right when it was promoted to a named baseline; rows are never changed",
    (
        Column("name", _TEXT, "The baseline", source="shaberi baseline promote", required=True),
        Column("note", _TEXT, "What was said when it was promoted", source="shaberi baseline promote"),
        *_RUN,
        _BENCHMARK,
        _QUESTION_SET,
        Column("question_set_sha256", _TEXT, "sha256 of the version's content", source="RunSpec", required=True),
        _QUESTION_ID,
        Column("strategy", _TEXT, "Consensus strategy; single is one answer as it is", source="scores", required=True),
        Column("judge", _TEXT, "The rule, or the rule with its grading model", source="scores", required=True),
        Column("judge_config_hash", _TEXT, "sha256 of the judge's settings and prompt", source="scores"),
        Column("correct", _BOOL, "Whether the answer is right; null without a verdict", source="scores"),
        Column("status", _TEXT, "Outcome of the grading", f"{_STATUS}, or missing: no row", "scores", required=True),
        Column("error_class", _TEXT, "Why there is no verdict; null when ok", source="scores"),
        _ANSWER_HASH,
        Column("settings", _TEXT, "How the answers were made: sampling, models, prompts", "JSON", "RunSpec"),
        Column("settings_hash", _TEXT, "sha256 of the settings", source="RunSpec", required=True),
        _CREATED,
    ),
)

PROMPTS = Table(
    "prompts",
    "The texts behind the prompt hashes of all other tables: one row for each template that a prompt is made of",
    (
        Column(
            "prompt_hash",
            _TEXT,
            "The prompt, as prompt_hash, judge_prompt_hash, … of other tables name it: sha256 of its sources in order",
            source="prompts",
            required=True,
        ),
        Column("position", _INT, "Place of the template in the prompt", "1 to n", "prompts", required=True),
        Column("template", _TEXT, "The template's name", source="prompts", required=True),
        Column("source", _TEXT, "Its exact text, as Jinja", source="prompts", required=True),
        Column("file", _TEXT, "Where it stood, in the folder of the prompts", source="prompts", required=True),
        Column("variant", _TEXT, "Variant that the prompt is of; null is the prompts as they are", source="RunSpec"),
        Column(
            "purpose",
            _TEXT,
            "What it was first used for",
            "generation, judging primary, judging fallback, grading, strategy:NAME or pass:NAME",
            "stage",
            required=True,
        ),
        Column(
            "label",
            _TEXT,
            "A name for people, such as tengu-primary v3: the third text of that name in this lake; never given anew",
            source="stage",
            required=True,
        ),
        _CREATED,
    ),
)

JUDGE_CONFIGS = Table(
    "judge_configs",
    "Settings of judges by the hash that rows until format 2 have of them: the address of the endpoint was part of it",
    (
        Column("former_hash", _TEXT, "The hash with the address", source="upgrade", required=True),
        Column("judge_config_hash", _TEXT, "The hash without it", source="upgrade", required=True),
        _CREATED,
    ),
)

_DECISION = Column(
    "decision_id",
    _TEXT,
    "The decision: candidates, judges, questions, margin and error",
    source="request",
    required=True,
)

_LIMITS = (
    Column("margin", _FLOAT, "Differences up to it are practically equal", "reported scale", "request"),
    Column("error", _FLOAT, "Wrong decisions that are allowed", "share", "request", required=True),
)

DECISIONS = Table(
    "decisions",
    "Which of some models is better on some questions, decided with as few of them as it takes",
    (
        _DECISION,
        Column("candidates", _TEXTS, "What is decided between: MODEL@@TAG, and a strategy", source="request"),
        Column("run_ids", _TEXTS, "For each the partial run with what was asked for it", source="RunSpec"),
        Column("judges", _TEXTS, "Who judges; a question's score is their mean", source="RunSpec"),
        Column("question_sets", _TEXTS, "The questions", source="RunSpec"),
        Column(
            "n_questions", _INT, "Questions that all candidates can be asked", "questions", "RunSpec", required=True
        ),
        *_LIMITS,
        Column("seed", _INT, "Of the order and the audit draws", "a whole number", "request", required=True),
        Column("boundary", _TEXT, "What tells when it is sure", "history or anytime", "calibration", required=True),
        Column("constant", _FLOAT, "How far the truth may be away; null where bets decide", "spreads", "calibration"),
        Column("n_history", _INT, "Past models of these judges", "models", "scores", required=True),
        Column("outside", _TEXTS, "Candidates beyond all past models, and in what; bets decide", source="scores"),
        Column("state", _TEXT, "How far it is", "running, decided or undecided", "decision", required=True),
        Column("best", _TEXTS, "The best of them; several are equal within the margin", source="decision"),
        Column("reason", _TEXT, "Why it is undecided", source="decision"),
        Column("n_asked", _INT, "Questions of the order that were needed so far", "questions", "decision"),
        Column("calls", _INT, "Calls made for it", "calls", "calls"),
        Column("cost_usd", _FLOAT, "What they cost; null is unknown", "US dollars", "calls"),
        Column("started_at", _TIME, "When it was first asked for", "UTC", "clock", required=True),
        Column("updated_at", _TIME, "When its state last changed", "UTC", "clock", required=True),
    ),
)

DECISION_LOOKS = Table(
    "decision_looks",
    "The curve of a decision: what was known of each pair after some questions",
    (
        _DECISION,
        Column("n_asked", _INT, "Questions asked", "questions", "decision", required=True),
        Column("a", _TEXT, "One candidate", source="decision", required=True),
        Column("b", _TEXT, "Another one", source="decision", required=True),
        Column("n_scored", _INT, "Of the questions asked, those with a score of both", "questions", "scores"),
        Column("estimate", _FLOAT, "A - B over all questions", "reported scale", "decision"),
        Column("lower", _FLOAT, "Lower end of its interval", "reported scale", "decision"),
        Column("upper", _FLOAT, "Upper end of its interval", "reported scale", "decision"),
        Column("verdict", _TEXT, "What is decided", "A, B, equal or open", "decision", required=True),
        _CREATED,
    ),
)

DECISION_CALIBRATIONS = Table(
    "decision_calibrations",
    "How sure a judge's history has to be, by replay of past models with families held out: one row per class of pairs",
    (
        Column("judges", _TEXTS, "Whose scores; their mean where they are several", source="scores"),
        Column("question_sets", _TEXTS, "The questions", source="questions"),
        Column(
            "history_sha256", _TEXT, "sha256 of the scores and of the replay's method", source="scores", required=True
        ),
        Column("n_models", _INT, "Past models", "models", "scores", required=True),
        Column("n_families", _INT, "Their families, by the first word of their names", "families", "scores"),
        *_LIMITS,
        Column("constant", _FLOAT, "How far the truth may be away; null: none keeps the limits", "spreads", "replay"),
        Column("mean_questions", _FLOAT, "Questions on average over all pairs", "questions", "replay"),
        Column("class", _TEXT, "What the paired test over all questions says of the pair", "p<0.001, …", "replay"),
        Column("n_pairs", _INT, "Pairs of the class", "pairs", "replay", required=True),
        Column("class_mean_questions", _FLOAT, "Questions on average", "questions", "replay"),
        Column("class_median_questions", _FLOAT, "Half of the pairs took no more", "questions", "replay"),
        Column("share_wrong", _FLOAT, "Decisions that all questions contradict", "share", "replay"),
        Column("share_equal", _FLOAT, "Decisions that they are equal within the margin", "share", "replay"),
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
TABLES: Mapping[str, Table] = {table.name: table for table in _ALL}
