"""How fast SQL is over a long history: a lake of random results, and the time of every view and named query on it.

The history is like that of the legacy suite in shape: models judged by some of seven judges, a second run of some
models that one judge has seen, texts as long as real ones. Scores come from a model's ability, a question's difficulty
and a judge's leniency, so that statistics over them mean something; texts are random Japanese words. Rows are written
in one commit for each table and benchmark, then compacted.
"""

import argparse
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

from shaberi_dagster.lake.catalog import open_catalog, run_query, write_catalog
from shaberi_dagster.lake.compaction import compact_lake
from shaberi_dagster.lake.queries import QUERIES
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.lake.store import WRITER, Lake
from shaberi_dagster.lake.views import public_views

_CREATED = datetime(2026, 1, 1, tzinfo=UTC)
_QUESTIONS = {"elyza": 100, "tengu": 120, "mt_bench": 60, "rakuda": 40}
_SCALES = {"elyza": (1, 5, 2.0), "tengu": (0, 10, 1.0), "mt_bench": (1, 10, 1.0), "rakuda": (1, 10, 1.0)}
# The share of models that a judge has judged.
_JUDGES = {
    "open-a": 0.68,
    "open-b": 0.68,
    "open-c": 0.68,
    "closed-a": 0.26,
    "closed-b": 0.30,
    "closed-c": 0.11,
    "closed-c-other-prompt": 0.002,
}
_RUN = ["run_id", "model", "run_tag"]
_SAMPLE = [*_RUN, "benchmark", "question_set", "question_id", "sample_index"]
_ANSWER_LENGTH, _JUDGEMENT_LENGTH = 620, 330  # median characters
_REPLACED_TABLES = ("answers", "judgements", "scores")
_LARGE_FILE = 100 << 20  # what delta-rs compacts to by itself


@dataclass(frozen=True)
class Size:
    """How large the history is.

    Attributes:
        models: Number of models.
        seed: Of everything random.
    """

    models: int
    seed: int


class Texts:
    """Random texts, cut from one long text so that making them costs little."""

    def __init__(self, random: np.random.Generator) -> None:
        letters = list(
            "のにはをたがでてとしれさあるいもなこよりかアイウエオカキクケコンー東西南北大小日本人生学年月国会社時間"
        )
        words = ["".join(random.choice(letters, size)) for size in random.integers(1, 5, 4000)]
        self._pool = "".join(random.choice(words, 3_000_000))
        self._random = random

    def draw(self, count: int, median_length: int) -> list[str]:
        """So many texts of log-normal length."""
        lengths = np.minimum(self._random.lognormal(np.log(median_length), 0.8, count).astype(int) + 1, 20_000)
        starts = self._random.integers(0, len(self._pool) - 20_000, count)
        return [self._pool[start : start + length] for start, length in zip(starts, lengths, strict=True)]


def write_history(folder: Path, size: Size) -> None:
    """Make the lake in an empty folder."""
    lake, random = Lake(folder), np.random.default_rng(size.seed)
    texts = Texts(random)
    runs = _runs(size, random)
    lake.append("runs", runs.drop("ability", "judges"))
    difficulty = {name: random.normal(0, 0.8, count) for name, count in _QUESTIONS.items()}
    leniency = dict(zip(_JUDGES, random.normal(0, 0.6, len(_JUDGES)), strict=True))
    metrics = []
    for benchmark in _QUESTIONS:
        questions = _questions(benchmark, texts, random)
        lake.append("questions", questions)
        answers = _answers(runs, questions, difficulty[benchmark], texts, random)
        lake.append("answers", answers.drop("level", "judges"))
        judgements = _judgements(answers, benchmark, leniency, texts, random)
        lake.append("judgements", judgements)
        scores = _scores(judgements)
        lake.append("scores", scores)
        metrics.append(_metrics(scores, benchmark))
    lake.append("metrics", pl.concat(metrics))
    compact_lake(lake)
    write_catalog(lake)


def _runs(size: Size, random: np.random.Generator) -> pl.DataFrame:
    """Every model once; one in 28 has a second generation of answers."""
    names = [f"vendor-{number % 40}__model-{number:03}-{number % 7}b-instruct" for number in range(size.models)]
    judged = {judge: random.random(size.models) < share for judge, share in _JUDGES.items()}
    judges = [[judge for judge in _JUDGES if judged[judge][number]] or ["closed-b"] for number in range(size.models)]
    first = pl.DataFrame({"model": names, "run_tag": "legacy", "ability": random.normal(6.5, 1.3, size.models)})
    first = first.with_columns(judges=pl.Series(judges))
    second = first.gather_every(28).with_columns(
        run_tag=pl.lit("legacy-gen2"), judges=pl.lit(["closed-a"], dtype=pl.List(pl.String))
    )
    return pl.concat([first, second]).with_columns(
        run_id=pl.format("{}@@{}", "model", "run_tag"),
        base_tag="run_tag",
        spec=pl.lit("{}"),
        spec_hash=pl.lit("0" * 64),
        status=pl.lit("complete"),
        created_at=pl.lit(_CREATED),
        updated_at=pl.lit(_CREATED),
    )


def _questions(benchmark: str, texts: Texts, random: np.random.Generator) -> pl.DataFrame:
    count = _QUESTIONS[benchmark]
    questions = texts.draw(count, 120)
    categories = [f"category {number}" for number in random.integers(0, max(count // 10, 1), count)]
    return pl.DataFrame({"question": questions, "category": categories}).with_columns(
        benchmark=pl.lit(benchmark),
        question_set=pl.lit(f"{benchmark}@{count}"),
        question_set_sha256=pl.lit(_sha256(benchmark)),
        question_id=pl.col("question").map_elements(_sha256, pl.String),
        position=pl.int_range(1, count + 1),
        created_at=pl.lit(_CREATED),
    )


def _answers(
    runs: pl.DataFrame, questions: pl.DataFrame, difficulty: np.ndarray, texts: Texts, random: np.random.Generator
) -> pl.DataFrame:
    """One answer per run and question; `level` is how good it is."""
    frame = runs.select(*_RUN, "ability", "judges").join(
        questions.select("benchmark", "question_set", "question_id").with_columns(difficulty=pl.Series(difficulty)),
        how="cross",
    )
    # Some models are the same under several names.
    own = pl.Series(texts.draw(frame.height, _ANSWER_LENGTH))
    shared = pl.Series(random.random(frame.height) < 0.05)  # noqa: PLR2004
    text = pl.when(shared).then(own.shift(questions.height).fill_null("")).otherwise(own)
    noise = pl.Series(random.normal(0, 1.2, frame.height))
    return frame.with_columns(answer=text, level=pl.col("ability") - pl.col("difficulty") + noise).select(
        *_SAMPLE[:-1],
        "answer",
        "level",
        "judges",
        sample_index=pl.lit(0, dtype=pl.Int64),
        answer_hash=pl.col("answer").map_elements(_sha256, pl.String),
        answer_state=pl.lit("text"),
        status=pl.lit("ok"),
        created_at=pl.lit(_CREATED),
    )


def _judgements(
    answers: pl.DataFrame, benchmark: str, leniency: dict[str, float], texts: Texts, random: np.random.Generator
) -> pl.DataFrame:
    """One judgement per answer and judge of the run; 1 % are without a score."""
    low, high, factor = _SCALES[benchmark]
    frame = answers.select(*_SAMPLE, "answer_hash", "level", judge="judges").explode("judge", empty_as_null=False)
    noise = pl.Series(random.normal(0, 0.9, frame.height))
    missing = pl.Series(random.random(frame.height) < 0.01)  # noqa: PLR2004
    level = pl.col("level") + pl.col("judge").replace_strict(leniency, return_dtype=pl.Float64) + noise
    score = (level / factor).round().clip(low, high)
    return frame.with_columns(
        judge_config_hash=pl.col("judge").map_elements(_sha256, pl.String),
        judge_prompt_hash=pl.lit(_sha256(benchmark)),
        judge_round=pl.lit(0),
        score=pl.when(~missing).then(score),
        out_of_scale=pl.lit(value=False),
        score_source=pl.when(~missing).then(pl.lit("final_score")),
        judge_output=pl.Series(texts.draw(frame.height, _JUDGEMENT_LENGTH)),
        status=pl.when(missing).then(pl.lit("error")).otherwise(pl.lit("ok")),
        error_class=pl.when(missing).then(pl.lit("no_score")),
        finish_reason=pl.lit("stop"),
        created_at=pl.lit(_CREATED),
        superseded=pl.lit(value=False),
    ).drop("level")


def _scores(judgements: pl.DataFrame) -> pl.DataFrame:
    names = [*_SAMPLE, "judge", "judge_config_hash", "answer_hash", "status", "error_class", "score", "created_at"]
    return judgements.select(*names, pipeline=pl.lit("baseline"), baseline_score="score")


def _metrics(scores: pl.DataFrame, benchmark: str) -> pl.DataFrame:
    low, _, factor = _SCALES[benchmark]
    keys = [*_RUN, "benchmark", "question_set", "judge", "judge_config_hash", "pipeline"]
    rows = []
    for policy in ("legacy", "zero", "strict"):
        counted = pl.col("score").fill_null(low) if policy == "zero" else pl.col("score")
        mean = counted.mean() * factor
        complete = pl.col("score").count() == pl.len()
        rows.append(
            scores.group_by(keys, maintain_order=True).agg(
                score=pl.when(complete | pl.lit(policy != "strict")).then(mean),
                sd_questions=counted.std() * factor,
                n_planned=pl.len().cast(pl.Int64),
                n_scored=pl.col("score").count().cast(pl.Int64),
                n_failed=pl.col("score").null_count().cast(pl.Int64),
                n_excluded=pl.lit(0, dtype=pl.Int64),
                question_ids=pl.col("question_id").sort(),
                question_scores=(counted * factor).sort_by("question_id"),
                null_policy=pl.lit(policy),
                reported_multiplier=pl.lit(factor),
                created_at=pl.lit(_CREATED),
            )
        )
    return pl.concat(rows).with_columns(base_tag="run_tag")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def statements(folder: Path) -> Iterator[tuple[str, str, dict[str, object]]]:
    """What is measured: titles, statements and values; all rows and columns of the views, then the named queries."""
    with open_catalog(folder) as connection:
        second = "select model, run_id, judge, benchmark from leaderboard where run_tag = 'legacy-gen2' limit 1"
        model, run_id, judge, benchmark = run_query(connection, second).fetchall()[0]
        other = f"select run_id from leaderboard where judge = '{judge}' and model <> '{model}' limit 1"
        another = run_query(connection, other).fetchall()[0][0]
    macros = {
        "leaderboard_under": "leaderboard_under('zero')",
        "run_statistics_of": "run_statistics_of(3)",
        "cost_at": "cost_at(null)",
        "judge_agreement_of": "judge_agreement_of('score_patterns')",
        "judge_leniency_of": "judge_leniency_of('score_patterns')",
        "evidence_of": "evidence_of('scores')",
        "imported_runs": "imported_runs(null, null)",
        "multi_judge_leaderboard_of": f"multi_judge_leaderboard_of(['{model}'])",
    }
    for view in public_views():
        if view.name not in TABLES and view.kind != "macro":
            yield f"view `{view.name}`", f"from {macros.get(view.name, view.name)}", {}
    values = {"model": model, "models": model, "judge": judge, "benchmark": benchmark, "question": "1"}
    values |= {"judge_a": "open-a", "judge_b": "open-b"}
    values |= {"first": run_id, "second": another}
    for name, query in QUERIES.items():
        given = {parameter: values[parameter] for parameter in query.parameters if parameter not in query.defaults}
        yield f"query `{name}`", query.sql, query.bound(given)
    question = "question_id = (select min(question_id) from questions where benchmark = 'rakuda')"
    yield "one question, all models' texts", f"select model, answer from answers where {question}", {}
    yield "a word in all answers", "select count(*) from answers where contains(answer, '日本人')", {}


def measure(folder: Path, repetitions: int) -> str:
    """A markdown table of milliseconds for each statement, and for whole commands."""
    lines = [f"| statement | rows | ms, first | ms, min / median of {repetitions} |", "|---|--:|--:|--:|"]
    for title, sql, values in statements(folder):
        with open_catalog(folder) as connection:
            times, table = [], None
            for _ in range(repetitions + 1):
                started = time.perf_counter()
                # Not as Python objects: half a million of them cost more than most queries.
                table = run_query(connection, sql, values).to_arrow_table()
                times.append((time.perf_counter() - started) * 1000)
        lines.append(f"| {title} | {table.num_rows if table else 0:,} | {times[0]:.0f} | {_spread(times[1:])} |")
    lines += ["", "| start-up | ms, min / median |", "|---|--:|"]
    opened = [_milliseconds_to_open(folder) for _ in range(repetitions)]
    lines.append(f"| the catalog is opened | {_spread(opened)} |")
    for sql in ("select 1", "from leaderboard limit 20"):
        commands = [_milliseconds_of_command(folder, sql) for _ in range(repetitions)]
        lines.append(f'| `shaberi sql "{sql}"`, the whole process | {_spread(commands)} |')
    return "\n".join(lines)


def plans(folder: Path, names: Sequence[str]) -> str:
    """DuckDB's plan with times of the statements whose title has one of the names."""
    shown = []
    with open_catalog(folder) as connection:
        for title, sql, values in statements(folder):
            if any(name in title for name in names):
                plan = run_query(connection, f"explain analyze {sql}", values).fetchall()
                shown += [title, *(text for _, text in plan)]
    return "\n".join(shown)


def contents(folder: Path) -> str:
    """Rows, files and bytes of each table, one line each."""
    lake, lines = Lake(folder), []
    for name in ("runs", "questions", "answers", "judgements", "scores", "metrics"):
        files = lake.delta(name).file_uris()
        (rows,) = duckdb.execute(f"select count(*) from read_parquet({files})").fetchone() or (0,)
        size = sum(Path(file).stat().st_size for file in files)
        lines.append(f"{name}: {rows:,} rows, {len(files)} files, {size / 1e6:,.1f} MB")
    return "\n".join(lines)


def _milliseconds_to_open(folder: Path) -> float:
    started = time.perf_counter()
    open_catalog(folder).close()
    return (time.perf_counter() - started) * 1000


def _milliseconds_of_command(folder: Path, sql: str) -> float:
    command = [str(Path(sys.executable).with_name("shaberi")), "sql", sql]
    started = time.perf_counter()
    subprocess.run(  # noqa: S603
        command, env=os.environ | {"SHABERI_WAREHOUSE": str(folder)}, stdout=subprocess.DEVNULL, check=True
    )
    return (time.perf_counter() - started) * 1000


def _spread(values: Sequence[float]) -> str:
    return f"{min(values):.0f} / {statistics.median(values):.0f}"


@dataclass
class Replaced:
    """What it took to replace some runs in one table, on average.

    Attributes:
        files: Files written.
        megabytes: Of them.
        seconds: Time.
    """

    files: float = 0
    megabytes: float = 0
    seconds: float = 0


def replace_runs(lake: Lake, table: str, runs: list[str], *, large: bool) -> Replaced:
    """Replace the rows of each run by themselves."""
    cost = Replaced()
    for run in runs:
        if large:  # again: what is written has the new size
            _merge(lake, table)
        rows, before = lake.read(table, {"run_id": run}), set(lake.delta(table).file_uris())
        started = time.perf_counter()
        lake.replace(table, rows, {"run_id": run})
        cost.seconds += (time.perf_counter() - started) / len(runs)
        written = set(lake.delta(table).file_uris()) - before
        cost.files += len(written) / len(runs)
        cost.megabytes += sum(Path(file).stat().st_size for file in written) / 1e6 / len(runs)
    return cost


def _merge(lake: Lake, table: str) -> None:
    """Make files as large as delta-rs does by itself."""
    lake.delta(table).optimize.compact(target_size=_LARGE_FILE, writer_properties=WRITER)


def measure_replacing(lake: Lake, n_runs: int, *, large: bool) -> list[str]:
    """Lines of a markdown table: files of each table, and what replacing a run takes."""
    known = sorted(lake.read("runs", columns=["run_id"])["run_id"])
    runs = [known[len(known) * (number + 1) // (n_runs + 1)] for number in range(n_runs)]
    lines = []
    for table in _REPLACED_TABLES:
        if large:
            _merge(lake, table)
        sizes = [Path(file).stat().st_size / 1e6 for file in lake.delta(table).file_uris()]
        cost = replace_runs(lake, table, runs, large=large)
        stored = f"{sum(sizes):.0f} MB in {len(sizes)}, largest {max(sizes):.0f} MB"
        title = "up to 100 MB" if large else "16 MB, by model"
        lines.append(f"| {title} | `{table}` | {stored} | {cost.megabytes:.1f} | {cost.seconds:.2f} |")
    return lines


def replacing(lake: Lake, n_runs: int) -> str:
    """Measure what is written anew to replace old runs by the same rows: in large files, and in the compacted ones."""
    lines = measure_replacing(lake, n_runs, large=True)
    for table in _REPLACED_TABLES:
        _merge(lake, table)
    started = time.perf_counter()
    compact_lake(lake)
    compacted = f"compacted in {time.perf_counter() - started:.1f} s\n\n"
    lines += measure_replacing(lake, n_runs, large=False)
    heads = ["| files of | table | files | MB written for a run | seconds |", "|---|---|---|--:|--:|"]
    return compacted + "\n".join([*heads, *lines])


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warehouse", type=Path, help="keep the lake here, and use it if it is there already")
    parser.add_argument("--models", type=int, default=560)
    parser.add_argument("--repetitions", type=int, default=5, help="of each statement, after a first one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replace", type=int, metavar="RUNS", help="replace so many runs, one by one, instead")
    parser.add_argument("--plan", nargs="+", default=(), metavar="NAME", help="show DuckDB's plans of these instead")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="Arrow output on a DB-API result")
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.warehouse or Path(scratch) / "warehouse").absolute()
        if not folder.exists():
            started = time.perf_counter()
            write_history(folder, Size(options.models, options.seed))
            print(f"written in {time.perf_counter() - started:.0f} s")  # noqa: T201
        if options.replace:
            print(replacing(Lake(folder), options.replace))  # noqa: T201
            return
        if options.plan:
            print(plans(folder, options.plan))  # noqa: T201
            return
        print(contents(folder) + "\n")  # noqa: T201
        print(measure(folder, options.repetitions))  # noqa: T201


if __name__ == "__main__":
    main()
