"""Scores of runs with all that is said of them: statistics over runs, judges, rankings, replies, tokens."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS, Benchmark
from shaberi_dagster.reports.scores import (
    JudgeMean,
    JudgePair,
    Replies,
    RunMean,
    RunStatistic,
    ScoreRow,
    Tie,
    Unfinished,
    benchmark_order,
    grouped,
)

if TYPE_CHECKING:
    import polars as pl

    from shaberi_dagster.reports.ensemble import StrategyScore
    from shaberi_dagster.reports.standings import NotRanked, Ranking

MOST_RUNS = 200
"""With more runs there are no intervals of each run, ties, leniencies and agreements, which would take seconds."""


@dataclass(frozen=True)
class ScoreReport:
    """Everything that is printed.

    Attributes:
        policy: The null policy of all rows.
        pipeline: The pass pipeline of all rows.
        rows: One per run, judge and benchmark.
        tokens: The rows of `sql/reports/cost.sql`, one per run, stage and benchmark.
        statistics: Aggregates over repeated runs; empty when none were asked for.
        judge_means: Means over judges, when there are several.
        judge_pairs: How far these judges agree.
        unfinished: What of the runs is not complete.
        replies: What became of the replies, by run, judge and benchmark; empty for very many runs.
        over: What else could have been asked: other questions, or other categories, where there are ten or more.
        ties: By model, run tag and judge.
        remarks: What else is to be known, one sentence each.
        benchmarks: What is known of benchmarks, gone ones of plugins included.
        rankings: One line for each model and base tag, among those that compare.
        not_ranked: What has less than those.
        strategies: Each strategy of runs that have some, by each judge, without passes; empty for very many runs.
    """

    policy: str
    pipeline: str
    rows: Sequence[ScoreRow]
    tokens: Sequence[Mapping[str, Any]] = ()
    statistics: Sequence[RunStatistic] = ()
    judge_means: Sequence[JudgeMean] = ()
    judge_pairs: Sequence[JudgePair] = ()
    unfinished: Sequence[Unfinished] = ()
    replies: Sequence[Replies] = ()
    over: str = "questions"
    ties: Mapping[tuple[str, str, str], Tie] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    benchmarks: Mapping[str, Benchmark] = field(default_factory=lambda: ALL_BENCHMARKS)
    rankings: "Sequence[Ranking]" = ()
    not_ranked: "Sequence[NotRanked]" = ()
    strategies: "Sequence[StrategyScore]" = ()

    @cached_property
    def is_large(self) -> bool:
        """Whether there are more than `MOST_RUNS` runs."""
        return len({row.run_id for row in self.rows}) > MOST_RUNS

    @cached_property
    def groups(self) -> list[list[RunMean]]:
        """The means, together with those of runs that were asked the same; those that were asked most come first.

        Within a group the best is first, those without a score are last.
        """
        order = benchmark_order()
        means = [
            RunMean(*key, tuple(sorted(rows, key=order)), self.ties.get(key))
            for key, rows in grouped(self.rows, lambda row: (row.model, row.run_tag, row.judge))
        ]
        groups = [group for _, group in grouped(means, lambda mean: mean.asked)]
        groups.sort(key=lambda group: max(sum(row.n_planned for row in mean.rows) for mean in group), reverse=True)
        return [
            sorted(group, key=lambda one: -math.inf if one.mean is None else one.mean, reverse=True) for group in groups
        ]

    @property
    def means(self) -> list[RunMean]:
        """One per run and judge, group by group."""
        return [mean for group in self.groups for mean in group]

    @property
    def ranking_frame(self) -> "pl.DataFrame":
        """One row per model and base tag: ranking, rank, model, tag, n_runs, mean, lower, upper and counts.

        `ranking` says over which judges and question sets the mean is: only rows with the same compare. How a line is
        beside the best: against_best, the difference with its interval over n_common questions, why_withheld.
        """
        import polars as pl  # noqa: PLC0415  (only for those who want it)

        counts = ("n_planned", "n_scored", "n_failed", "n_excluded")
        rows = [
            {"ranking": f"{', '.join(ranking.judges)} on {', '.join(ranking.asked)}", "rank": rank}
            | {name: getattr(one, name) for name in ("model", "tag", "n_runs", "mean")}
            | {"lower": ends and ends.interval.lower, "upper": ends and ends.interval.upper}
            | {name: getattr(one, name) for name in counts}
            | {"against_best": tie and tie.against_best, "difference": tie and tie.difference}
            | {"difference_lower": against and against.lower, "difference_upper": against and against.upper}
            | {"n_common": tie and tie.n_common, "why_withheld": tie and tie.why}
            for ranking in self.rankings
            for rank, one in zip(ranking.ranks, ranking.standings, strict=True)
            for ends, tie in [(one.over_questions, one.tie)]
            for against in [tie and tie.interval]
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    @property
    def frame(self) -> "pl.DataFrame":
        """One row per run, judge and benchmark: the fields of `ScoreRow`, and `lower` and `upper` of the interval."""
        import polars as pl  # noqa: PLC0415  (only for those who want it)

        rows = [
            {name: value for name, value in row._asdict().items() if name != "over_questions"}
            | {"lower": one and one.interval.lower, "upper": one and one.interval.upper}
            for row in self.rows
            for one in [row.over_questions]
        ]
        return pl.DataFrame(rows, infer_schema_length=None)
