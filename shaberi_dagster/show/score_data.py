"""Scores as plain data, for programs."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from shaberi_dagster.reports.score_report import ScoreReport
from shaberi_dagster.reports.scores import OVERALL, RunMean, ScoreRow, interval_columns
from shaberi_dagster.reports.standings import Ranking, remarks_on
from shaberi_dagster.show.score_notes import failure

if TYPE_CHECKING:
    from shaberi_dagster.reports.ensemble import StrategyScore

CSV_COLUMNS = (
    *("row", "run_id", "model", "run_tag", "judge", "benchmark", "question_set", "pipeline", "null_policy"),
    *("score", "ci_questions_lower", "ci_questions_upper", "n_questions", "baseline_score", "change"),
    *("leniency", "adjusted_score", "sd_questions", "n_planned", "n_scored", "n_failed", "n_excluded"),
    *("judge_prompt_hash", "judge_config_hash", "pipeline_hash"),
    *("n_benchmarks", "n_common_questions"),
    *("n_runs", "sd_runs", "margin_of_error", "minimum", "maximum", "values"),
    *("other_judge", "pearson", "spearman", "exact_share", "mean_difference"),
    *("state", "text"),
    *("stage", "calls", "prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens"),
    *("calls_without_usage", "cost_usd", "calls_without_price", "price_sources", "first_day", "last_day"),
    *("n_out_of_scale", "n_asked", "n_categories", "over_categories", "n_answers", "n_replies", "n_shared"),
    *("n_refused", "n_filtered", "n_truncated", "n_empty", "n_retried", "legacy", "zero", "strict"),
    *("difference", "difference_lower", "difference_upper", "why_withheld"),
    *("strategy", "score_upper", "n_undecided"),
)
"""Columns of the CSV file."""


def score_data(report: ScoreReport) -> Mapping[str, Any]:
    """Make a document with everything there is, in full; unknown values are null."""
    return {
        "policy": report.policy,
        "pipeline": report.pipeline,
        "rows": [_row(row) for row in report.rows],
        "means": [_mean(mean) for mean in report.means],
        "statistics": report.statistics,
        "judge_pairs": report.judge_pairs,
        "unfinished": report.unfinished,
        "tokens": report.tokens,
        "remarks": [*report.left_out, *report.remarks, *report.reused],
        "over": report.over,
        "replies": report.replies,
        "rankings": [_ranking(ranking) for ranking in report.rankings],
        "not_ranked": report.not_ranked,
        "strategies": [asdict(strategy) for strategy in report.strategies],
    }


def score_records(report: ScoreReport) -> Iterator[Mapping[str, Any]]:
    """Lines of which `row` says what they are.

    `score`; `mean` over benchmarks; `statistic` over runs (then `run_tag` is the base tag); `judge_pair`;
    `unfinished`; `remark`; `tokens`; `replies`; `strategy` with its difference from the mean of its samples.
    """
    chosen = {"pipeline": report.pipeline, "null_policy": report.policy}
    for row in report.rows:
        yield {"row": "score"} | _row(row)
    for run in report.means:
        cells = _mean(run) | chosen | {"benchmark": OVERALL, "question_set": "; ".join(run.asked)}
        renamed = {
            "mean": "score",
            "mean_upper": "score_upper",
            "baseline_mean": "baseline_score",
            "adjusted_mean": "adjusted_score",
        }
        yield {"row": "mean"} | {renamed.get(name, name): value for name, value in cells.items()}
    for statistic in report.statistics:
        renamed = {"run_tag": statistic["base_tag"], "score": statistic["mean"], "sd_runs": statistic["sd"]}
        renamed["score_upper"] = statistic["mean_upper"]
        values = {"values": " ".join(map(repr, statistic["values"]))}
        yield {"row": "statistic"} | chosen | dict(statistic) | renamed | values
    for pair in report.judge_pairs:
        named = {"judge": pair["judge_a"], "other_judge": pair["judge_b"]}
        yield {"row": "judge_pair", **named, "n_scored": pair["n"]} | dict(pair)
    for part in report.unfinished:
        yield {"row": "unfinished"} | dict(part) | {"text": failure(part)}
    yield from ({"row": "remark", "text": remark} for remark in (*report.left_out, *report.remarks, *report.reused))
    for tokens in report.tokens:
        yield {"row": "tokens", **tokens, "price_sources": ", ".join(tokens["price_sources"])}
    yield from ({"row": "replies"} | dict(replies) for replies in report.replies)
    yield from ({"row": "strategy"} | _strategy(strategy) for strategy in report.strategies)


def _ranking(ranking: Ranking) -> dict[str, Any]:
    names = {"asked": ranking.asked, "judges": ranking.judges}
    return names | {"standings": ranking.rows, "remarks": remarks_on(ranking.standings)}


def _row(row: ScoreRow) -> dict[str, Any]:
    more = {"adjusted_score": row.adjusted_score, "change": row.change}
    return row.columns() | interval_columns(row.over_questions) | more


def _mean(mean: RunMean) -> dict[str, Any]:
    names = {"model": mean.model, "run_tag": mean.run_tag, "judge": mean.judge}
    what = {"asked": list(mean.asked), "n_undecided": mean.n_undecided, "n_out_of_scale": mean.n_out_of_scale}
    numbers = {
        "mean": mean.score,
        "mean_upper": mean.upper,
        "n_benchmarks": mean.n_benchmarks,
        "baseline_mean": mean.baseline_score,
    }
    adjusted = {"adjusted_mean": mean.adjusted_score}
    interval = interval_columns(mean.over_questions)
    return names | numbers | interval | adjusted | what


def _strategy(one: "StrategyScore") -> dict[str, Any]:
    against = one.against
    return {
        **asdict(one),
        "ci_questions_lower": one.interval and one.interval.lower,
        "ci_questions_upper": one.interval and one.interval.upper,
        "difference": against and against.difference,
        "difference_lower": against and against.interval and against.interval.lower,
        "difference_upper": against and against.interval and against.interval.upper,
        "n_common_questions": against and against.n_questions,
        "why_withheld": against and against.why_withheld,
    }
