"""What `view-scores` writes for programs and documents: JSON, CSV and Markdown."""

import csv
import io
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Literal, get_args

from rich.console import Console

from shaberi_dagster.cli.score_report import OVERALL, RunMean, RunStatistic, ScoreReport, ScoreRow, grouped
from shaberi_dagster.cli.score_table import (
    PAIRS_TITLE,
    as_table,
    detail_lines,
    judge_lines,
    judges_title,
    notes,
    pair_lines,
    price_note,
    statistics_lines,
    token_columns,
)
from shaberi_dagster.rendering.markdown import markdown_table
from shaberi_dagster.rendering.text import csv_text, json_safe, markdown_text, printable
from shaberi_dagster.statistics.intervals import Estimate

OutputFormat = Literal["table", "json", "csv", "md"]
OUTPUT_FORMATS: tuple[OutputFormat, ...] = get_args(OutputFormat)


def write_scores(report: ScoreReport, output_format: OutputFormat, console: Console) -> None:
    """Print a report.

    Args:
        report: What to print.
        output_format: `table` for people; `json`: one document; `csv`: one rectangular table; `md`: Markdown.
        console: Where to; its width is the table's.
    """
    if output_format == "table":
        console.print(as_table(report, console.width), crop=False)
    else:
        writers: Mapping[str, Callable[[ScoreReport], str]] = {"json": as_json, "csv": as_csv, "md": as_markdown}
        console.file.write(writers[output_format](report))


def as_json(report: ScoreReport) -> str:
    """One document with everything that the table has, in full; what is not known is null."""
    document = {
        "policy": report.policy,
        "pipeline": report.pipeline,
        "rows": [_row(row) for row in report.rows],
        "means": [_mean(mean) for mean in report.means],
        "statistics": [_statistic(row) for row in report.statistics],
        "judge_means": [asdict(one) for one in report.judge_means],
        "judge_pairs": [asdict(one) for one in report.judge_pairs],
        "unfinished": [asdict(one) for one in report.unfinished],
        "tokens": [asdict(row) for row in report.tokens],
        "remarks": list(report.remarks),
    }
    return json_safe(json.dumps(_finite(document), ensure_ascii=False, indent=2, allow_nan=False)) + "\n"


def _row(row: ScoreRow) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(row).items() if name != "over_questions"}
    return fields | _interval(row.over_questions) | {"adjusted_score": row.adjusted_score, "change": row.change}


def _mean(mean: RunMean) -> dict[str, Any]:
    names = {"model": mean.model, "run_tag": mean.run_tag, "judge": mean.judge}
    numbers = {"mean": mean.mean, "n_benchmarks": mean.n_benchmarks, "baseline_mean": mean.baseline_mean}
    tie = mean.tie
    against = {
        "adjusted_mean": mean.adjusted_mean,
        "against_best": tie and tie.against_best,
        "p_value": tie and tie.p_value,
        "n_compared_runs": tie and tie.n_runs,
        "n_common_questions": tie and tie.n_common,
    }
    return names | numbers | _interval(mean.over_questions) | against


def _statistic(row: RunStatistic) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(row).items() if name != "over_questions"}
    return fields | _interval(row.over_questions)


def _interval(estimate: Estimate | None) -> dict[str, Any]:
    """The 95 % interval over questions, and over how many questions it is."""
    return {
        "ci_questions_lower": estimate and estimate.interval.lower,
        "ci_questions_upper": estimate and estimate.interval.upper,
        "n_questions": estimate and estimate.n,
    }


_CSV_COLUMNS = (
    *("row", "run_id", "model", "run_tag", "judge", "benchmark", "question_set", "pipeline", "null_policy", "score"),
    *("ci_questions_lower", "ci_questions_upper", "n_questions", "baseline_score", "change"),
    *("leniency", "adjusted_score", "sd_questions", "n_planned", "n_scored", "n_failed", "n_excluded"),
    *("judge_prompt_hash", "judge_config_hash", "pipeline_hash"),
    *("n_benchmarks", "against_best", "p_value", "n_compared_runs", "n_common_questions"),
    *("n_runs", "sd_runs", "margin_of_error", "minimum", "maximum", "values"),
    *("other_judge", "pearson", "spearman", "exact_share", "mean_difference"),
    *("state", "text"),
    *("stage", "calls", "prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens"),
    *("calls_without_usage", "cost_usd", "calls_without_price", "price_sources", "first_day", "last_day"),
)


def as_csv(report: ScoreReport) -> str:
    """One table, whose `row` says what a line is.

    `score`; `mean` over benchmarks; `statistic` over runs (then `run_tag` is the base tag); `judge_mean` over judges
    (`judge` names them); `judge_pair`; `unfinished`; `remark`; `tokens`. Texts are made printable, and one that a
    spreadsheet would run as a formula gets a `'` in front, which spreadsheets hide; the names we accept may start with
    `=` or `@`, so `json` is the format to read back.
    """
    chosen = {"pipeline": report.pipeline, "null_policy": report.policy}
    lines: list[dict[str, Any]] = [{"row": "score"} | _row(row) for row in report.rows]
    for mean in report.means:
        cells = _mean(mean) | chosen | {"benchmark": OVERALL}
        renamed = {"mean": "score", "baseline_mean": "baseline_score", "adjusted_mean": "adjusted_score"}
        lines.append({"row": "mean"} | {renamed.get(name, name): value for name, value in cells.items()})
    for statistic in report.statistics:
        cells = _statistic(statistic) | chosen
        cells |= {"run_tag": cells.pop("base_tag"), "score": cells.pop("mean"), "sd_runs": cells.pop("sd")}
        lines.append({"row": "statistic"} | cells | {"values": " ".join(map(repr, statistic.values))})
    for one in report.judge_means:
        cells = asdict(one) | chosen | {"judge": ", ".join(one.judges)}
        cells["question_set"] = ", ".join(one.question_sets)
        lines.append({"row": "judge_mean"} | cells)
    for pair in report.judge_pairs:
        cells = asdict(pair)
        lines.append(
            {"row": "judge_pair", "judge": pair.judge_a, "other_judge": pair.judge_b, "n_scored": pair.n} | cells
        )
    lines += [{"row": "unfinished"} | asdict(part) | {"text": str(part)} for part in report.unfinished]
    lines += [{"row": "remark", "text": remark} for remark in report.remarks]
    lines += [
        {"row": "tokens"} | asdict(row) | {"price_sources": ", ".join(row.price_sources)} for row in report.tokens
    ]
    file = io.StringIO()
    writer = csv.DictWriter(file, _CSV_COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(map(_csv_cells, lines))
    return file.getvalue()


def as_markdown(report: ScoreReport) -> str:
    """The same tables in Markdown, with the notes and the tokens below."""
    parts = []
    if report.statistics:
        titles, _ = statistics_lines(report, [])
        lines = [
            (printable(model), printable(tag), *line)
            for (model, tag), rows in grouped(report.statistics, lambda row: (row.model, row.base_tag))
            for line in statistics_lines(report, rows)[1]
        ]
        parts.append(markdown_table(("model", "base tag", *titles), lines, left=range(4)))
    titles, _ = detail_lines(report, [])
    lines = [
        (printable(mean.model), printable(mean.run_tag), *line)
        for mean in report.means
        for line in detail_lines(report, [mean])[1]
    ]
    parts.append(markdown_table(("model", "run tag", *titles), lines, left=range(4)))
    if report.judge_means:
        parts += [f"{markdown_text(judges_title(report))}\n", markdown_table(*judge_lines(report), left=range(2))]
    if report.judge_pairs:
        parts += [f"{markdown_text(PAIRS_TITLE)}\n", markdown_table(*pair_lines(report), left=range(2))]
    parts.append("\n".join(f"- {markdown_text(note)}" for note in notes(report)) + "\n")
    if report.tokens:
        titles, *lines = zip(*token_columns(report.tokens), strict=True)
        parts.append(markdown_table(titles, lines, left=range(titles.index("calls"))))
        parts.append(f"{markdown_text(price_note(report.tokens))}\n")
    return "\n".join(parts)


def _csv_cells(cells: dict[str, Any]) -> dict[str, Any]:
    return {name: csv_text(value) if isinstance(value, str) else _finite(value) for name, value in cells.items()}


def _finite(value: Any) -> Any:
    """The value with None in the place of numbers that are none."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
