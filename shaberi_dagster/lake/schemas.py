"""Every table of the lake: its columns with meaning, unit and source, and its physical partitions.

The schemas are one contract for the Delta tables, the SQL views and the column pages in the Dagster UI.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


_DELTAS = 'struct(pass varchar, "version" varchar, delta double, reason varchar)[]'


@dataclass(frozen=True)
class LakeColumn:
    """A column of a table.

    Attributes:
        sql_type: Its type in DuckDB; every column is nullable unless `required`.
        name: Its name in every table, view and file.
        meaning: One line for people.
        unit: Unit or value set, "" where the meaning says it all.
        source: Where the value comes from.
        required: Null is an error.
    """

    sql_type: str
    name: str
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
    """A Delta table.

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
        import polars as pl

        return pl.Schema({column.name: column.type for column in self.columns})

    @cached_property
    def empty(self) -> "pl.LazyFrame":
        """No rows."""
        return self.schema.to_frame(eager=False)


@cache
def _polars_types() -> "Mapping[str, pl.DataType]":
    import polars as pl

    text, integer, number = pl.String(), pl.Int64(), pl.Float64()
    return {
        "varchar": text,
        "bigint": integer,
        "double": number,
        "boolean": pl.Boolean(),
        "timestamp with time zone": pl.Datetime("us", "UTC"),
        "varchar[]": pl.List(text),
        "bigint[]": pl.List(integer),
        "boolean[]": pl.List(pl.Boolean()),
        "double[]": pl.List(number),
        _DELTAS: pl.List(pl.Struct({"pass": text, "version": text, "delta": number, "reason": text})),
    }


_text, _integer, _number = (partial(LakeColumn, sql_type) for sql_type in ("varchar", "bigint", "double"))
_flag, _time = partial(LakeColumn, "boolean"), partial(LakeColumn, "timestamp with time zone")
_texts, _integers, _numbers, _flags = (
    partial(LakeColumn, sql_type) for sql_type in ("varchar[]", "bigint[]", "double[]", "boolean[]")
)


_STATUS = "ok, error, excluded or skipped"
_RUN = (
    _text("run_id", "The run: {model_safe}@@{run_tag}", source="RunSpec", required=True),
    _text("model", "The evaluated model's name", source="RunSpec", required=True),
    _text("run_tag", "The run's tag; {base}-run1 … in a multi-run", source="RunSpec", required=True),
)
_BENCHMARK = _text("benchmark", "The benchmark's name", source="RunSpec", required=True)
_QUESTION_SET = _text("question_set", "The version of the benchmark's questions", source="RunSpec")
_QUESTION_ID = _text("question_id", "sha256 of the exact question text", source="questions", required=True)
_SAMPLE = (
    _BENCHMARK,
    _QUESTION_SET,
    _QUESTION_ID,
    _integer("sample_index", "Which of the run's samples of this question", "0 to N-1", "RunSpec", required=True),
)
_CREATED = _time("created_at", "When the row was made", "UTC", "clock", required=True)
_ANSWER_STATE = _text("answer_state", "What the answer is", "text, empty or whitespace", "answer")
_ANSWER_HASH = _text("answer_hash", "sha256 of the answer text that is judged", source="answers")
_STATUS_COLUMNS = (
    _text("status", "Outcome of the row", _STATUS, "stage", required=True),
    _text("error_class", "Class of the failure or reason of the exclusion; null when ok", source="stage"),
    _text("error_message", "One line about the failure, without secrets", source="endpoint or stage"),
)
_STRATEGY = _text("strategy", "Consensus strategy; null for a plain sample", source="RunSpec")
_JUDGE_PROMPT_HASH = _text("judge_prompt_hash", "sha256 of the judge's templates", source="judgements")
_JUDGE = (
    _STRATEGY,
    _text("judge", "The judge model or rule", source="RunSpec", required=True),
    _text("judge_config_hash", "sha256 of the judge's settings and prompt", source="RunSpec"),
)

_IMPORTED = (
    _text("display_name", "The model's likely name, where the run has another", source="file name"),
    _integer("generation", "Which of the model's imported answers to the benchmark", "from 1", "answer texts"),
    _text(
        "not_recorded",
        "What the system of an imported row never recorded: why other columns are null",
        "settings, tokens, times, finish_reason, judge_output",
        "import",
    ),
    _text("source_sha256", "sha256 of the file that the row was imported from", source="legacy tree"),
    _integer("source_line", "Its line there; the entry of a cache", "from 1", "legacy tree"),
    _text("legacy_fields", "Other columns of the imported row that no column says", "JSON", "legacy tree"),
)
_FILE = (
    _text("import_tag", "Tag under which it was imported", source="import", required=True),
    _text("source", "Name of the tree", source="import", required=True),
    _text("path", "Path in the tree", source="legacy tree", required=True),
)


def _tokens(prefix: str, what: str) -> tuple[LakeColumn, ...]:
    return (
        _integer(f"{prefix}_prompt_tokens", f"Prompt tokens of {what}; null is unknown", "tokens", "provider"),
        _integer(f"{prefix}_completion_tokens", f"Completion tokens of {what}", "tokens", "provider"),
        _integer(f"{prefix}_cached_tokens", f"Prompt tokens of {what} read from a cache", "tokens", "provider"),
        _integer(f"{prefix}_reasoning_tokens", f"Hidden reasoning tokens of {what}", "tokens", "provider"),
    )


QUESTIONS = LakeTable(
    "questions",
    "The question sets, one row per question of each version",
    (
        _BENCHMARK,
        _text("question_set", "Name of the version, by content", source="content", required=True),
        _text("question_set_sha256", "sha256 of the version's content", source="content", required=True),
        _text("question_id", "sha256 of the exact question text", source="content", required=True),
        _integer("position", "Place in the set", "1 to n", "source file", required=True),
        _text("upstream_id", "The source's own id", source="source file"),
        _text("category", "The source's category", source="source file"),
        _text("question", "The question as the model gets it", source="source file", required=True),
        _text("reference", "A reference answer for the judge", source="source file"),
        _text("criteria", "Per-question criteria or rubric for the judge", source="source file"),
        _text("source", "Where the set was loaded from: starter, folder or hub dataset", source="loader"),
        _text("source_revision", "Commit of the hub dataset; null for files", source="hub"),
        _CREATED,
        _texts("options", "Texts of the options A, B, … as shown; null without any", source="loader"),
        _integers("option_order", "For each of them its place in the source", "from 0", "loader"),
        _texts("aliases", "Further right answers", source="source file"),
    ),
    partition_by=("benchmark",),
)

RUNS = LakeTable(
    "runs",
    "One row per run with its frozen RunSpec",
    (
        *_RUN,
        _text("base_tag", "The tag without -runN", source="RunSpec"),
        _integer("run_number", "N of -runN; null for a single run", source="RunSpec"),
        _text("spec", "The RunSpec", "JSON", "RunSpec", required=True),
        _text("spec_hash", "sha256 of the RunSpec", source="RunSpec", required=True),
        _text(
            "status",
            "State of the run; decision: only what decisions asked, no evaluation",
            "running, complete, partial, decision or error",
            "stages",
            required=True,
        ),
        _text("status_by_benchmark", "State and error per benchmark", "JSON", "stages"),
        _time("created_at", "When the spec was first stored", "UTC", "clock", required=True),
        _time("updated_at", "When a stage last changed the run", "UTC", "clock", required=True),
        _time("finished_at", "When the run became complete", "UTC", "clock"),
        _text("git_commit", "Commit of the evaluation code; null outside a checkout", source="git"),
        _flag("git_dirty", "Whether the code had uncommitted changes", source="git"),
        _text("package_version", "Version of shaberi-dagster", source="package"),
        _text("platform", "Python and operating system", source="interpreter"),
        _text(
            "created_by",
            "Who first stored the spec, or imported the run; null is unknown",
            source="SHABERI_USER or login name",
        ),
        _number(
            "max_cost_usd",
            "Budget of its last command, for all its runs; null is no limit",
            "US dollars",
            "--max-cost",
        ),
        _text("import_tag", "Tag under which the run was imported; null for one of our own", source="import"),
        _text("source", "Name of the tree that it was imported from", source="import"),
        _text(
            "superseded_by",
            "The run whose answers took this one's place in its tree; such a run is in no leaderboard",
            "run_id",
            "import",
        ),
        _texts(
            "not_sent",
            "Parameters asked for that calls left out, of judges as judge_NAME; null is unknown",
            source="endpoint",
        ),
        _text(
            "reused_replies",
            "How many rows are replies to calls of other runs, by stage and run; null without any",
            "JSON",
            "calls",
        ),
    ),
)

ANSWERS = LakeTable(
    "answers",
    "One row per sample of a question by a run; failures are rows too",
    (
        *_RUN,
        *_SAMPLE,
        _text("answer", "The text that is judged: thinking split off", source="model"),
        _ANSWER_HASH,
        _ANSWER_STATE,
        _flag("truncated", "Whether the token limit cut the answer", source="finish_reason"),
        _text("thinking", "Thinking split off from the answer or sent beside it", source="model"),
        *_STATUS_COLUMNS,
        _text("finish_reason", "Why the model stopped", "stop, length, …", "provider"),
        *_tokens("answer", "the answer"),
        _number("latency_seconds", "Duration of the successful request", "s", "clock"),
        _text("prompt_hash", "sha256 of the generation templates", source="prompts"),
        _text("request_hash", "The call that made the answer; its raw text is in calls", source="request"),
        _CREATED,
        *_IMPORTED,
        _text(
            "answer_origin",
            "Where an imported answer stood",
            "stored (an answer file) or judgement (only in a judgement)",
            "legacy tree",
        ),
        _text(
            "answer_form",
            "How the judged text was made from the stored one",
            "as_stored, thinking_stripped or null_as_empty",
            "answer texts",
        ),
        _text("raw_answer", "The imported text where the judged one differs", source="legacy tree"),
        _time("answered_at", "When an imported answer was last updated", "UTC", "legacy tree"),
        _text("answer_model", "The model asked; in an ensemble not always the run's", source="RunSpec"),
        _text(
            "answer_ending",
            "How the answer ended; null where that is not known",
            "complete, refused, filtered, truncated or empty",
            "endpoint",
        ),
    ),
    partition_by=("benchmark",),
)

CONSENSUS = LakeTable(
    "consensus",
    "One row per question and strategy: its answer from a run's samples",
    (
        *_RUN,
        _BENCHMARK,
        _QUESTION_SET,
        _QUESTION_ID,
        _text("strategy", "Consensus strategy; single is one answer as it is", source="RunSpec", required=True),
        _integer("strategy_version", "Version of its code", "from 1", "strategy"),
        _text("strategy_file_hash", "sha256 of its file (or its rule's); null: the project's", source="plugin"),
        _text("strategy_prompt_hash", "sha256 of its templates", source="prompts"),
        _text("consensus_model", "The model that it asks", source="RunSpec"),
        _text("candidates_hash", "sha256 of the samples' answer hashes, in order", source="answers"),
        _integer("n_candidates", "Samples with a text", "samples", "answers"),
        _text("answer", "The consensus, as it is graded", source="strategy"),
        _ANSWER_HASH,
        _ANSWER_STATE,
        _integer("winner", "Sample that came first; null where none did, or not alone", "sample_index", "strategy"),
        _text("details", "Ratings, votes, debate; the texts are in calls", "JSON", "strategy"),
        *_STATUS_COLUMNS,
        _integer("calls", "Calls that it took, reused ones included", "calls", "strategy"),
        *_tokens("consensus", "these calls"),
        _number("latency_seconds", "Duration, waiting included; null when no call was made", "s", "clock"),
        _CREATED,
    ),
    partition_by=("benchmark",),
)

JUDGEMENTS = LakeTable(
    "judgements",
    "One row per answer and judge; replaced ones and failures stay as superseded rows",
    (
        *_RUN,
        *_SAMPLE,
        *_JUDGE,
        _text("judge_prompt_hash", "sha256 of the judge's templates", source="prompts"),
        _integer("judge_round", "How often the run was judged again by this judge", "0, 1, …", "RunSpec"),
        _number("score", "The score as given, never clamped", "the benchmark's scale", "judge_output"),
        _flag("out_of_scale", "Whether the score is outside the benchmark's scale", source="score"),
        _text(
            "score_source",
            "How the score was found",
            "final_score, score_tag, legacy_form, bare_number, fallback or recorded (imported without its text)",
            "parser",
        ),
        _text("judge_output", "The judge's whole output", source="judge"),
        _text("fallback_output", "Output of the call that extracted the score", source="judge"),
        *_STATUS_COLUMNS,
        _text("finish_reason", "Why the judge stopped", "stop, length, …", "provider"),
        _ANSWER_HASH,
        *_tokens("judge", "the judgement, fallback included"),
        _number("latency_seconds", "Duration of the successful requests", "s", "clock"),
        _text("request_hash", "The judging call", source="request"),
        _text("fallback_request_hash", "The call that extracted the score", source="request"),
        _CREATED,
        _flag("superseded", "A newer judgement of the same sample by this judge exists", source="stage"),
        _time("superseded_at", "When it was replaced; null while it stands", "UTC", "stage"),
        *_IMPORTED,
        _text("judge_model", "The judging model, where the judge has another name", source="judge folder"),
        _text("judge_prompt_version", "Epoch of the judge's prompt", "P1, P2, P3 or a choice", "inferred"),
        _text("judge_prompt_version_source", "How it is known", "inferred or unknown", "import"),
        _text("recorded_score", "The score exactly as recorded: 9, 9.0, null or an object", "JSON", "file"),
        _number("recovered_score", "The score inside a recorded object", "the benchmark's scale", "file"),
        _flag("backfilled", "Whether the score was filled in later: an integer in a file of floats", source="inferred"),
        _text(
            "answer_link",
            "What the judged text is to the stored answers",
            "stored, stored_stripped, stored_null, differs or no_stored",
            "answer texts",
        ),
        _text("extracted", "What a grader found the answer to say, in one spelling", source="grader"),
        _numbers(
            "sample_scores",
            "Scores of each time that the judge was asked; null where it was asked once",
            "the benchmark's scale",
            "judge_output",
        ),
        _texts("sample_request_hashes", "The judging call of each of these times", source="request"),
    ),
    partition_by=("benchmark", "judge"),
)

PASS_OUTPUTS = LakeTable(
    "pass_outputs",
    "What each pass found in each answer; its deltas are in scores",
    (
        *_RUN,
        *_SAMPLE,
        _STRATEGY,
        _ANSWER_HASH,
        _text("pass", "The pass", source="registry", required=True),
        _text("pass_version", "Version of its code", source="pass", required=True),
        _text("pass_config", "Its settings", "JSON", "RunSpec", required=True),
        _text("pass_config_hash", "sha256 of its name, version and settings", source="pass", required=True),
        _text("pass_prompt_hash", "sha256 of its templates; null when it asks no model", source="prompts"),
        _number("severity", "What it costs; null without a finding", "share of the scale's range", "pass"),
        _text("reason", "What was found, in one line; empty when nothing was", source="pass"),
        _text("details", "Measures by name, and spans [start, end, kind] in code points", "JSON", "pass"),
        _text("pass_output", "The whole output of the model that was asked, if one was", source="model"),
        *_STATUS_COLUMNS,
        *_tokens("pass", "the pass"),
        _text("request_hash", "The call, if one was made", source="request"),
        _CREATED,
    ),
    partition_by=("benchmark",),
)

_PIPELINE_HASH = _text(
    "pipeline_hash", "sha256 of the passes, versions and settings in order; null for baseline", source="passes"
)

SCORES = LakeTable(
    "scores",
    "Scores after the deltas of a pass pipeline; baseline is the empty pipeline",
    (
        *_RUN,
        *_SAMPLE,
        *_JUDGE,
        _ANSWER_HASH,
        _text("status", "Outcome of the judgement", _STATUS, "judgements", required=True),
        _text("error_class", "Why there is no score; null when ok", source="judgements"),
        _text("pipeline", "Passes in order, or baseline", source="RunSpec", required=True),
        _number("baseline_score", "The judge's score", "the benchmark's scale", "judgements"),
        LakeColumn(_DELTAS, "deltas", "What each pass added, in order", "the benchmark's scale", "passes"),
        _number("score", "baseline_score plus the deltas", "the benchmark's scale", "passes"),
        _CREATED,
        _JUDGE_PROMPT_HASH,
        _PIPELINE_HASH,
        _text("call_hash", "The call it rests on: the judge's, or for a rule the answer's", source="calls"),
        _time("judged_at", "When the judgement was made, read again or imported", "UTC", "judgements"),
        _flag("out_of_scale", "Whether the judge's score is outside of the scale", source="judgements"),
    ),
    partition_by=("benchmark", "judge"),
)

METRICS = LakeTable(
    "metrics",
    "Mean scores per run, judge, benchmark, pipeline and null policy",
    (
        *_RUN,
        _text("base_tag", "The tag without -runN", source="runs"),
        _integer("run_number", "N of -runN; null for a single run", source="runs"),
        _BENCHMARK,
        _QUESTION_SET,
        *_JUDGE,
        _text("pipeline", "Passes in order, or baseline", source="scores", required=True),
        _text("null_policy", "What a missing score counts as", "legacy, zero or strict", "sql", required=True),
        _number("score", "Mean score; null when the policy refuses it", "reported scale", "scores"),
        _number("sd_questions", "Standard deviation over questions (ddof 1)", "reported scale", "scores"),
        _integer("n_planned", "Samples planned", "samples", "scores", required=True),
        _integer("n_scored", "Samples with a score", "samples", "scores", required=True),
        _integer("n_failed", "Samples whose answer or judgement failed", "samples", "scores", required=True),
        _integer("n_excluded", "Samples left out for a reason (empty answers)", "samples", "scores", required=True),
        _integer("n_out_of_scale", "Scores outside the scale, counted as given", "samples", "scores"),
        _number("reported_multiplier", "Reported scale / judge's scale", source="benchmark"),
        _CREATED,
        _number("scale_minimum", "Lowest score of the judge's scale", "the benchmark's scale", "benchmark"),
        _JUDGE_PROMPT_HASH,
        _PIPELINE_HASH,
        _number("score_upper", "Mean without what a rule could not decide", "reported scale", "scores"),
        _integer("n_undecided", "Samples that a rule could not decide; wrong in score", "samples", "scores"),
        _texts("question_ids", "The question of each sample that has a row", source="scores"),
        _numbers("question_scores", "The score of each as the policy counts it", "reported scale", "scores"),
        _flags("undecided", "Whether a rule could not decide it; null where it could all", source="scores"),
    ),
    partition_by=("benchmark",),
)

CALLS = LakeTable(
    "calls",
    "One row per finished call: what was received, what it used, how it ended",
    (
        _text("request_hash", "Identity of the request", source="request", required=True),
        _text("run_id", "The run that made the call", source="RunSpec", required=True),
        _text("stage", "The stage that made the call", "answers, judgements, …", "stage", required=True),
        _text("benchmark", "The benchmark it was made for", source="stage"),
        _text("question_id", "The question it was made for", source="stage"),
        _text("purpose", "What the call is within its stage", "answer, judge or fallback", "stage"),
        _text("model", "The model asked", source="request", required=True),
        _text("base_url", "The endpoint asked", source="request", required=True),
        _text("status", "Outcome of the call", "ok or error", "endpoint", required=True),
        _text("error_class", "Class of the failure; null when ok", source="engine"),
        _text("error_message", "One line about the failure, without secrets", source="endpoint"),
        _text("content", "The reply's text exactly as received", source="endpoint"),
        _text("reasoning", "The API's own reasoning text", source="endpoint"),
        _text("finish_reason", "Why the model stopped", "stop, length, …", "endpoint"),
        _integer("prompt_tokens", "Prompt tokens; null is unknown", "tokens", "provider"),
        _integer("completion_tokens", "Completion tokens; null is unknown", "tokens", "provider"),
        _integer("cached_tokens", "Prompt tokens read from a cache", "tokens", "provider"),
        _integer("reasoning_tokens", "Hidden reasoning tokens", "tokens", "provider"),
        _number("cost_usd", "Price at the time of the call; null is unknown", "US dollars", "price list"),
        _integer("attempts", "HTTP requests made for the call", "requests", "engine"),
        _number("latency_seconds", "Duration of the last attempt", "s", "clock"),
        _CREATED,
        _text(
            "price_source",
            "Where the price is from; null without one, or in rows older than this column",
            "genai-prices VERSION, the price file's name and sha256, or embedded",
            "price list",
        ),
        _text("refusal", "What the endpoint marks as a refusal", source="endpoint"),
        _text("tool_calls", "Tools that the model called", "JSON", "endpoint"),
        _text("reply_model", "The model that answered, as the reply names it", source="endpoint"),
        _text("system_fingerprint", "The state of the server, as the reply names it", source="endpoint"),
    ),
    partition_by=("stage",),
)

PRICES = LakeTable(
    "prices",
    "What models cost when the row was made: disjoint ranges, lower bounds in, upper out",
    (
        _text("model", "The model asked", source="calls", required=True),
        _text("base_url", "The endpoint asked", source="calls", required=True),
        _time("valid_from", "From when; null is since ever", "UTC midnight", "price list"),
        _time("valid_to", "Until when; null is until further notice", "UTC midnight", "price list"),
        _integer("day_seconds_from", "From which second of the UTC day", "s", "price list", required=True),
        _integer("day_seconds_to", "Until which second of the UTC day", "s", "price list", required=True),
        _integer("prompt_tokens_from", "From how long a prompt", "tokens", "price list", required=True),
        _integer("prompt_tokens_to", "Until how long a prompt; null is any length", "tokens", "price list"),
        _number(
            "input_usd_per_million",
            "A million prompt tokens that came from no cache",
            "US dollars",
            "price list",
            required=True,
        ),
        _number("output_usd_per_million", "A million completion tokens", "US dollars", "price list", required=True),
        _number(
            "cached_usd_per_million",
            "A million prompt tokens that came from a cache",
            "US dollars",
            "price list",
            required=True,
        ),
        _number("usd_per_call", "The call itself", "US dollars", "price list", required=True),
        _text(
            "source",
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
    "How the number of calls at once to an endpoint moved",
    (
        _text("run_id", "The run whose stage saw the change", source="RunSpec", required=True),
        _text("stage", "The stage that saw it", "answers, judgements, …", "stage", required=True),
        _text("base_url", "The endpoint", source="request", required=True),
        _integer("limit_before", "The limit until then", "calls at once", "limiter", required=True),
        _integer("limit_after", "The limit since", "calls at once", "limiter", required=True),
        _text("cause", "Why it moved", "start, success or rate_limit", "limiter", required=True),
        _CREATED,
    ),
)

LEGACY_FILES = LakeTable(
    "legacy_files",
    "Every imported file and what became of its lines: lines = blank + imported + repeated + quarantined",
    (
        *_FILE,
        _text("root", "Folder of the tree when it was imported", source="import"),
        _text("sha256", "sha256 of its bytes; null when it was not read", source="legacy tree"),
        _integer("size", "Its size", "bytes", "legacy tree"),
        _text(
            "kind",
            "What it is by its place",
            "answers, judgements, ensemble, baseline or unknown",
            "path",
            required=True,
        ),
        _text("dataset", "Its dataset folder", source="path"),
        _text("judge", "Its judge folder without judge_", source="path"),
        _text("model", "Its name without .json", source="path"),
        _text("status", "What became of it", "imported, duplicate, unknown or unreadable", "import", required=True),
        _text("reason", "Why it was not imported", source="import"),
        _text("duplicate_of", "source:path of the same bytes of the same model and judge", source="import"),
        _text("benchmark", "Benchmark of most of its rows", source="question texts"),
        _text("question_set", "Set that those rows are, or are a part of", source="question texts"),
        _text("row_columns", "Number of rows for each list of columns", "JSON", "legacy tree"),
        _integer("lines", "Lines of the file; entries of a cache", "lines", "legacy tree"),
        _integer("blank", "Blank lines", "lines", "legacy tree"),
        _integer("imported", "Rows that became answers or judgements", "lines", "import"),
        _integer("repeated", "Rows that another file had said already", "lines", "import"),
        _integer("quarantined", "Lines that could not become rows", "lines", "import"),
        _time("imported_at", "When it was imported", "UTC", "clock", required=True),
        _text(
            "column_lines",
            "The lines with each list of columns but the most frequent; null where there is one list",
            "JSON",
            "legacy tree",
        ),
        _integer("modified_ns", "When it was last written", "ns since 1970", "legacy tree"),
    ),
)

LEGACY_QUARANTINE = LakeTable(
    "legacy_quarantine",
    "Lines of legacy files that could not become rows",
    (
        *_FILE,
        _text("model", "The file's name without .json", source="path"),
        _text("source_sha256", "sha256 of the file", source="legacy tree"),
        _integer("source_line", "The line", "from 1", "legacy tree"),
        _text("reason", "What is wrong with it", source="import", required=True),
        _text("raw", "The line, or the beginning of a very long one", source="legacy tree"),
        _text("raw_encoding", "Encoding of raw", "utf-8, or base64 where it is not UTF-8", "import"),
        _integer("size", "Length of the line", "bytes", "legacy tree"),
        _text("sha256", "sha256 of the line", source="legacy tree"),
    ),
)

LEGACY_REPEATS = LakeTable(
    "legacy_repeats",
    "Rows of different files that say what another file had said",
    (
        _text("source_sha256", "sha256 of the file", source="legacy tree", required=True),
        _integer("source_line", "The line", "from 1", "legacy tree", required=True),
        _text("run_id", "Run of the row that it repeats", source="import", required=True),
        _text("benchmark", "Its benchmark", source="import", required=True),
        _text("question_id", "Its question", source="import", required=True),
        _integer("sample_index", "Its sample", "from 0", "import", required=True),
        _text("judge", "Its judge; null for an answer", source="import"),
        _text("legacy_fields", "Other columns of the row", "JSON", "legacy tree"),
        _integer("judge_round", "Which of the judge's scores of the sample it repeats", "from 0", "import"),
    ),
)

BASELINES = LakeTable(
    "baselines",
    "What a run got right when it became a named baseline; rows are never changed",
    (
        _text("name", "The baseline", source="shaberi baseline promote", required=True),
        _text("note", "What was said when it was promoted", source="shaberi baseline promote"),
        *_RUN,
        _BENCHMARK,
        _QUESTION_SET,
        _text("question_set_sha256", "sha256 of the version's content", source="RunSpec", required=True),
        _QUESTION_ID,
        _text("strategy", "Consensus strategy; single is one answer as it is", source="scores", required=True),
        _text("judge", "The rule, or the rule with its grading model", source="scores", required=True),
        _text("judge_config_hash", "sha256 of the judge's settings and prompt", source="scores"),
        _flag("correct", "Whether the answer is right; null without a verdict", source="scores"),
        _text("status", "Outcome of the grading", f"{_STATUS}, or missing: no row", "scores", required=True),
        _text("error_class", "Why there is no verdict; null when ok", source="scores"),
        _ANSWER_HASH,
        _text("settings", "How the answers were made: sampling, models, prompts", "JSON", "RunSpec"),
        _text("settings_hash", "sha256 of the settings", source="RunSpec", required=True),
        _CREATED,
    ),
)

PROMPTS = LakeTable(
    "prompts",
    "The texts behind the prompt hashes of other tables: a row per template of a prompt",
    (
        _text(
            "prompt_hash",
            "The prompt's hash in other tables (prompt_hash, judge_prompt_hash, …): sha256 of its sources in order",
            source="prompts",
            required=True,
        ),
        _integer("position", "Place of the template in the prompt", "1 to n", "prompts", required=True),
        _text("template", "The template's name", source="prompts", required=True),
        _text("source", "Its exact text, as Jinja", source="prompts", required=True),
        _text("file", "Where it stood, in the folder of the prompts", source="prompts", required=True),
        _text("variant", "Variant of the prompts; null is the prompts as they are", source="RunSpec"),
        _text(
            "purpose",
            "What it was first used for",
            "generation, judging primary, judging fallback, grading, strategy:NAME or pass:NAME",
            "stage",
            required=True,
        ),
        _text(
            "label",
            "A name for people: tengu-primary v3 is the third text of that name; never given twice",
            source="stage",
            required=True,
        ),
        _CREATED,
    ),
)

_DECISION = _text(
    "decision_id", "The decision: candidates, judges, questions, margin and error", source="request", required=True
)

_LIMITS = (
    _number("margin", "Differences up to it are practically equal", "reported scale", "request"),
    _number("error", "Wrong decisions that are allowed", "share", "request", required=True),
)

DECISIONS = LakeTable(
    "decisions",
    "Which models are better, decided with as few questions as it takes",
    (
        _DECISION,
        _texts("candidates", "What is decided between: MODEL@@TAG, and a strategy", source="request"),
        _texts("run_ids", "For each the partial run with what was asked for it", source="RunSpec"),
        _texts("judges", "Who judges; a question's score is their mean", source="RunSpec"),
        _texts("question_sets", "The questions", source="RunSpec"),
        _integer("n_questions", "Questions that all candidates can be asked", "questions", "RunSpec", required=True),
        *_LIMITS,
        _integer("seed", "Of the order and the audit draws", "a whole number", "request", required=True),
        _text("boundary", "What tells when it is sure", "history or anytime", "calibration", required=True),
        _number("constant", "How far the truth may be away; null where bets decide", "spreads", "calibration"),
        _integer("n_history", "Past models of these judges", "models", "scores", required=True),
        _texts("outside", "Candidates beyond all past models, and in what; bets decide", source="scores"),
        _text("state", "How far it is", "running, decided or undecided", "decision", required=True),
        _texts("best", "The best of them; several are equal within the margin", source="decision"),
        _text("reason", "Why it is undecided", source="decision"),
        _integer("n_asked", "Questions of the order that were needed so far", "questions", "decision"),
        _integer("calls", "Calls made for it", "calls", "calls"),
        _number("cost_usd", "What they cost; null is unknown", "US dollars", "calls"),
        _time("started_at", "When it was first asked for", "UTC", "clock", required=True),
        _time("updated_at", "When its state last changed", "UTC", "clock", required=True),
    ),
)

DECISION_LOOKS = LakeTable(
    "decision_looks",
    "A decision's curve: what was known of each pair after some questions",
    (
        _DECISION,
        _integer("n_asked", "Questions asked", "questions", "decision", required=True),
        _text("a", "One candidate", source="decision", required=True),
        _text("b", "Another one", source="decision", required=True),
        _integer("n_scored", "Of the questions asked, those with a score of both", "questions", "scores"),
        _number("estimate", "A - B over all questions", "reported scale", "decision"),
        _number("lower", "Lower end of its interval", "reported scale", "decision"),
        _number("upper", "Upper end of its interval", "reported scale", "decision"),
        _text("verdict", "What is decided", "A, B, equal or open", "decision", required=True),
        _CREATED,
    ),
)

DECISION_CALIBRATIONS = LakeTable(
    "decision_calibrations",
    "How sure a judge's history has to be, by replay of past models, families held out: a row per class of pairs",
    (
        _texts("judges", "Whose scores; their mean where they are several", source="scores"),
        _texts("question_sets", "The questions", source="questions"),
        _text("history_sha256", "sha256 of the scores and of the replay's method", source="scores", required=True),
        _integer("n_models", "Past models", "models", "scores", required=True),
        _integer("n_families", "Their families, by the first word of their names", "families", "scores"),
        *_LIMITS,
        _number("constant", "How far the truth may be away; null: none keeps the limits", "spreads", "replay"),
        _number("mean_questions", "Questions on average over all pairs", "questions", "replay"),
        _text("class", "What the paired test over all questions says of the pair", "p<0.001, …", "replay"),
        _integer("n_pairs", "Pairs of the class", "pairs", "replay", required=True),
        _number("class_mean_questions", "Questions on average", "questions", "replay"),
        _number("class_median_questions", "Half of the pairs took no more", "questions", "replay"),
        _number("share_wrong", "Decisions that all questions contradict", "share", "replay"),
        _number("share_equal", "Decisions that they are equal within the margin", "share", "replay"),
        _CREATED,
    ),
)

_LINK = _text("link_id", "The link: judges, sample and margin", source="request", required=True)

LINKS = LakeTable(
    "links",
    "How far scores of stored answers moved when their judge judged them again: per benchmark and overall",
    (
        _LINK,
        _text("judge", "Whose imported scores are linked", source="request", required=True),
        _text("linked_judge", "The judge of the new scores", source="request", required=True),
        _text("source", "Name of the tree of the imported scores", source="import", required=True),
        _text("prompt_generation", "Prompts of the imported scores", "J1, J2, J3; null is unknown", "dates"),
        _text("new_generation", "Prompts of the new scores", "J1, J2, J3; null is unknown", "adopted prompt set"),
        _texts("models", "Whose answers were judged again", source="request"),
        _text("benchmark", "The benchmark, or overall: the mean of the benchmarks", source="request", required=True),
        _integer("n_answers", "Answers of the sample", "answers", "request", required=True),
        _integer("n_scored", "Of these with a new score", "answers", "judgements", required=True),
        _number("score_offset", "New - old on average", "reported scale", "judgements"),
        _number(
            "lower", "Lower end of its interval; models and questions are clusters", "reported scale", "judgements"
        ),
        _number("upper", "Upper end", "reported scale", "judgements"),
        _number("standard_error", "Of the offset", "reported scale", "judgements"),
        _number("slope", "Of new on old scores, by orthogonal regression", "new points for an old one", "judgements"),
        _number("slope_lower", "Lower end of its interval", "new points for an old one", "judgements"),
        _number("slope_upper", "Upper end", "new points for an old one", "judgements"),
        _number("spread", "Standard deviation of new - old", "reported scale", "judgements"),
        _number("share_equal", "Answers with the same score", "share", "judgements"),
        _integer("n_repeated", "Answers of these models that the judge scored twice before", "answers", "import"),
        _number("repeat_spread", "The same of its own rounds; null without any", "reported scale", "import"),
        _number("repeat_share_equal", "Likewise", "share", "import"),
        _number("margin", "Offsets below it do not matter", "reported scale", "request", required=True),
        _flag("granted", "Whether the interval lies within the margin", source="judgements", required=True),
        _text("reason", "Why it is not granted, and what it would take", source="judgements"),
        _text("judge_prompt_hash", "Prompt of the new scores; null overall", source="judgements"),
        _text("judge_config_hash", "Settings of the new scores; null overall", source="judgements"),
        _integer("seed", "Of the sample", "a whole number", "request", required=True),
        _CREATED,
    ),
)

LINK_ANSWERS = LakeTable(
    "link_answers",
    "A link's sample: answers drawn at random, stratified by benchmark, with both scores",
    (
        _LINK,
        _text("run_id", "The imported run that the answer is of", source="import", required=True),
        _text("model", "Its model", source="import", required=True),
        _BENCHMARK,
        _QUESTION_ID,
        _ANSWER_HASH,
        _number("inclusion_probability", "With which the answer was drawn", "share", "request", required=True),
        _number("old", "The imported score", "reported scale", "import"),
        _number("new", "The new score; null without one", "reported scale", "judgements"),
    ),
)

AUDITS = LakeTable(
    "audits",
    "Verdicts of rules drawn at random and graded again: a row per draw and per settling",
    (
        *_RUN,
        _BENCHMARK,
        _QUESTION_ID,
        _integer("sample_index", "Which of the run's samples of this question", "0 to N-1", "judgements"),
        _STRATEGY,
        _ANSWER_HASH,
        _text("judge", "The rule whose verdict was drawn", source="judgements", required=True),
        _text("judge_config_hash", "The rule's version, as its judgements name it", source="judgements"),
        _integer("rule_version", "The number of that version; null where a plugin's rule is gone", "1, 2, …", "rule"),
        _text("form", "The form that licensed the verdict; null where none is recorded", source="judgements"),
        _text("rule_verdict", "The verdict of the rule", "right or wrong", "judgements", required=True),
        _number("inclusion_probability", "With which the verdict was drawn", "share", "request", required=True),
        _text("auditor", "The model that graded the answer, or the person", source="request", required=True),
        _flag("by_person", "Whether a person settled it", source="request", required=True),
        _text("audit_prompt_hash", "sha256 of the auditor's prompt; null for a person", source="prompts"),
        _text("verdict", "The auditor's verdict; null where it gave none", "right, wrong or no_answer", "auditor"),
        _text("audit_output", "The model's whole output", source="auditor"),
        *_STATUS_COLUMNS,
        _text("request_hash", "The call that graded it", source="request"),
        _CREATED,
    ),
)

STAGE_TABLES = (ANSWERS, CONSENSUS, JUDGEMENTS, PASS_OUTPUTS, SCORES, METRICS)
"""Tables that the stages of a run fill."""
_ALL = (
    *(QUESTIONS, RUNS, *STAGE_TABLES, CALLS, PRICES, LIMIT_CHANGES),
    *(LEGACY_FILES, LEGACY_QUARANTINE, LEGACY_REPEATS, BASELINES, PROMPTS),
    *(DECISIONS, DECISION_LOOKS, DECISION_CALIBRATIONS, LINKS, LINK_ANSWERS, AUDITS),
)
TABLES: Mapping[str, LakeTable] = {table.name: table for table in _ALL}
