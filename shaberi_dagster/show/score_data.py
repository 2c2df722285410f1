"""Scores as plain data, for programs."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from shaberi_dagster.reports.score_report import ScoreReport
from shaberi_dagster.reports.scores import OVERALL, RunMean, RunStatistic, ScoreRow, Tie
from shaberi_dagster.reports.standings import Ranking, Standing, remarks_on
from shaberi_dagster.statistics.intervals import Estimate

if TYPE_CHECKING:
    from shaberi_dagster.reports.ensemble import StrategyScore

CSV_COLUMNS = (
    *("row", "run_id", "model", "run_tag", "judge", "benchmark", "question_set", "pipeline", "null_policy"),
    *("score", "ci_questions_lower", "ci_questions_upper", "n_questions", "baseline_score", "change"),
    *("leniency", "adjusted_score", "sd_questions", "n_planned", "n_scored", "n_failed", "n_excluded"),
    *("judge_prompt_hash", "judge_config_hash", "pipeline_hash"),
    *("n_benchmarks", "against_best", "p_value", "n_compared_runs", "n_common_questions"),
    *("n_runs", "sd_runs", "margin_of_error", "minimum", "maximum", "values"),
    *("other_judge", "pearson", "spearman", "exact_share", "mean_difference"),
    *("state", "text"),
    *("stage", "calls", "prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens"),
    *("calls_without_usage", "cost_usd", "calls_without_price", "price_sources", "first_day", "last_day"),
    *("n_out_of_scale", "n_asked", "n_categories", "over_categories", "n_answers", "n_replies", "n_shared"),
    *("n_refused", "n_filtered", "n_truncated", "n_empty", "n_retried", "legacy", "zero", "strict"),
    *("difference", "difference_lower", "difference_upper", "difference_of_means", "why_withheld"),
    "strategy",
)
"""Columns of the CSV file."""


def score_data(report: ScoreReport) -> Mapping[str, Any]:
    """One document with everything there is, in full; what is not known is null."""
    return {
        "policy": report.policy,
        "pipeline": report.pipeline,
        "rows": [_row(row) for row in report.rows],
        "means": [_mean(mean) for mean in report.means],
        "statistics": [_statistic(row) for row in report.statistics],
        "judge_means": [asdict(one) for one in report.judge_means],
        "judge_pairs": [asdict(one) for one in report.judge_pairs],
        "unfinished": [asdict(one) for one in report.unfinished],
        "tokens": list(report.tokens),
        "remarks": list(report.remarks),
        "over": report.over,
        "replies": [asdict(one) for one in report.replies],
        "rankings": [_ranking(ranking) for ranking in report.rankings],
        "not_ranked": [asdict(one) for one in report.not_ranked],
        "strategies": [asdict(one) for one in report.strategies],
    }


def score_records(report: ScoreReport) -> Iterator[Mapping[str, Any]]:
    """Lines of which `row` says what they are.

    `score`; `mean` over benchmarks; `statistic` over runs (then `run_tag` is the base tag); `judge_mean` over
    judges (`judge` names them); `judge_pair`; `unfinished`; `remark`; `tokens`; `replies`;
    `strategy` with its difference from the mean of its samples.
    """
    chosen = {"pipeline": report.pipeline, "null_policy": report.policy}
    for row in report.rows:
        yield {"row": "score"} | _row(row)
    for mean in report.means:
        cells = _mean(mean) | chosen | {"benchmark": OVERALL, "question_set": "; ".join(mean.asked)}
        renamed = {"mean": "score", "baseline_mean": "baseline_score", "adjusted_mean": "adjusted_score"}
        yield {"row": "mean"} | {renamed.get(name, name): value for name, value in cells.items()}
    for statistic in report.statistics:
        cells = _statistic(statistic) | chosen
        cells |= {"run_tag": cells.pop("base_tag"), "score": cells.pop("mean"), "sd_runs": cells.pop("sd")}
        yield {"row": "statistic"} | cells | {"values": " ".join(map(repr, statistic.values))}
    for one in report.judge_means:
        named = {"judge": ", ".join(one.judges), "question_set": ", ".join(one.question_sets)}
        yield {"row": "judge_mean"} | asdict(one) | chosen | named
    for pair in report.judge_pairs:
        named = {"judge": pair.judge_a, "other_judge": pair.judge_b}
        yield {"row": "judge_pair", **named, "n_scored": pair.n} | asdict(pair)
    for part in report.unfinished:
        yield {"row": "unfinished"} | asdict(part) | {"text": str(part)}
    yield from ({"row": "remark", "text": remark} for remark in report.remarks)
    for tokens in report.tokens:
        yield {"row": "tokens", **tokens, "price_sources": ", ".join(tokens["price_sources"])}
    yield from ({"row": "replies"} | asdict(replies) for replies in report.replies)
    yield from ({"row": "strategy"} | _strategy(strategy) for strategy in report.strategies)


def _ranking(ranking: Ranking) -> dict[str, Any]:
    standings = zip(ranking.ranks, ranking.standings, strict=True)
    return {
        "asked": list(ranking.asked),
        "judges": list(ranking.judges),
        "standings": [{"rank": rank} | _standing(one) for rank, one in standings],
        "remarks": remarks_on(ranking.standings),
    }


def _standing(one: Standing) -> dict[str, Any]:
    names = {"model": one.model, "tag": one.tag, "n_runs": one.n_runs, "mean": one.mean}
    means = {"by_benchmark": dict(one.by_benchmark), "by_judge": dict(one.by_judge)}
    names_of_counts = ("n_planned", "n_scored", "n_failed", "n_excluded", "n_out_of_scale")
    counts = {name: getattr(one, name) for name in names_of_counts}
    return names | _questions_interval(one.over_questions) | _beside_best(one.tie) | means | counts


def _row(row: ScoreRow) -> dict[str, Any]:
    fields = {name: value for name, value in row._asdict().items() if name != "over_questions"}
    return (
        fields | _questions_interval(row.over_questions) | {"adjusted_score": row.adjusted_score, "change": row.change}
    )


def _mean(mean: RunMean) -> dict[str, Any]:
    names = {"model": mean.model, "run_tag": mean.run_tag, "judge": mean.judge}
    what = {"asked": list(mean.asked), "n_out_of_scale": mean.n_out_of_scale}
    numbers = {"mean": mean.mean, "n_benchmarks": mean.n_benchmarks, "baseline_mean": mean.baseline_mean}
    adjusted = {"adjusted_mean": mean.adjusted_mean}
    interval = _questions_interval(mean.over_questions)
    return names | numbers | interval | adjusted | _beside_best(mean.tie) | what


def _beside_best(tie: Tie | None) -> dict[str, Any]:
    """The verdict, and the difference from the best over what both have, beside that of the two means."""
    return {
        "against_best": tie and tie.against_best,
        "p_value": tie and tie.p_value,
        "n_compared_runs": tie and tie.n_runs,
        "n_common_questions": tie and tie.n_common,
        "difference": tie and tie.difference,
        "difference_lower": tie and tie.interval and tie.interval.lower,
        "difference_upper": tie and tie.interval and tie.interval.upper,
        "difference_of_means": tie and tie.of_means,
        "why_withheld": tie and tie.why,
    }


def _statistic(row: RunStatistic) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(row).items() if name != "over_questions"}
    return fields | _questions_interval(row.over_questions)


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


def _questions_interval(estimate: Estimate | None) -> dict[str, Any]:
    """The 95 % interval over questions, and over how many questions it is."""
    return {
        "ci_questions_lower": estimate and estimate.interval.lower,
        "ci_questions_upper": estimate and estimate.interval.upper,
        "n_questions": estimate and estimate.n,
    }
