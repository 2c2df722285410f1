"""Scores of runs with all that is said of them: statistics over runs, judges, rankings, replies, tokens."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS, Benchmark
from shaberi_dagster.reports.report import Row
from shaberi_dagster.reports.scores import RunMean, ScoreRow, benchmark_order, grouped

if TYPE_CHECKING:
    import polars as pl

    from shaberi_dagster.reports.ensemble import StrategyScore
    from shaberi_dagster.reports.standings import Ranking

_RANKING_COLUMNS = (
    *("rank", "model", "tag", "n_runs", "mean", "mean_upper", "ci_questions_lower", "ci_questions_upper"),
    *("n_planned", "n_scored", "n_failed", "n_undecided", "n_excluded", "against_best", "difference"),
    *("difference_lower", "difference_upper", "n_common_questions", "why_withheld"),
)
MOST_RUNS = 200
"""With more runs there are intervals and ties of ranked lines only, and no leniencies and agreements: these would take
seconds."""


@dataclass(frozen=True)
class ScoreReport:
    """The scores of some runs with all that is printed of them.

    Attributes:
        policy: The null policy of all rows.
        pipeline: The pass pipeline of all rows.
        rows: One per run, judge and benchmark.
        tokens: The rows of `sql/reports/cost.sql`, one per run, stage and benchmark.
        statistics: Aggregates over repeated runs, `overall` for each run's mean over benchmarks: rows of
            `run_statistics.sql`. margin_of_error is half the width of the 95 % interval of the mean between runs, which
            says how stable it is; the interval over questions is of all runs' samples; n_shared of the n_replies are
            the reply to another one's call, which no spread between runs comes from. Empty when none were asked for.
        judge_pairs: Agreement of the judges, when there are several: rows of `judge_pairs.sql`.
        unfinished: Benchmarks of runs that are not complete: rows of `unfinished.sql`, with state (`partial`,
            `running`, or `error: ` and why) and, of the part that failed, who (`answers` or `judge NAME`; empty when
            nothing is there), n_planned, n_failed and classes: the count of each class of failure.
        replies: Fate of the replies, by run, judge and benchmark: rows of `ledger.sql`; empty for very many runs.
        over: The source of other questions: questions, or categories where there are ten or more.
        remarks: Further facts, one sentence each.
        left_out: Runs whose rows cannot be read, one sentence each.
        reused: Whose replies runs use, one sentence each.
        benchmarks: The known benchmarks, gone ones of plugins included.
        rankings: One line for each model and base tag, among those that compare.
        not_ranked: Runs that have less than those: model, tag, why, and score, the mean of what they have.
        strategies: Each strategy of runs that have some, by each judge, without passes; empty for very many runs.
    """

    policy: str
    pipeline: str
    rows: Sequence[ScoreRow]
    tokens: Sequence[Row] = ()
    statistics: Sequence[Row] = ()
    judge_pairs: Sequence[Row] = ()
    unfinished: Sequence[Row] = ()
    replies: Sequence[Row] = ()
    over: str = "questions"
    remarks: Sequence[str] = ()
    left_out: Sequence[str] = ()
    reused: Sequence[str] = ()
    benchmarks: Mapping[str, Benchmark] = field(default_factory=lambda: ALL_BENCHMARKS)
    rankings: "Sequence[Ranking]" = ()
    not_ranked: Sequence[Row] = ()
    strategies: "Sequence[StrategyScore]" = ()

    @cached_property
    def is_large(self) -> bool:
        """True if there are more than `MOST_RUNS` runs."""
        return len({row.run_id for row in self.rows}) > MOST_RUNS

    @cached_property
    def groups(self) -> list[list[RunMean]]:
        """The means, together with those of runs that were asked the same; those that were asked most come first.

        Within a group the best is first, those without a score are last.
        """
        order = benchmark_order()
        means = [
            RunMean(*key, tuple(sorted(rows, key=lambda row: order(row.benchmark))))
            for key, rows in grouped(self.rows, lambda row: (row.model, row.run_tag, row.judge))
        ]
        groups = [group for _, group in grouped(means, lambda mean: mean.asked)]
        groups.sort(key=lambda group: max(sum(row.n_planned for row in mean.rows) for mean in group), reverse=True)
        return [
            sorted(group, key=lambda mean: -math.inf if mean.score is None else mean.score, reverse=True)
            for group in groups
        ]

    @property
    def means(self) -> list[RunMean]:
        """The means of each run and judge, group by group."""
        return [mean for group in self.groups for mean in group]

    @property
    def ranking_frame(self) -> "pl.DataFrame":
        """A row for each model and base tag: ranking, rank, model, tag, n_runs, mean, lower, upper and counts.

        `ranking` says over which judges and question sets the mean is: only rows with the same compare. How a line is
        beside the best: against_best, the difference with its interval over n_common questions, why_withheld.
        """
        import polars as pl

        renamed = {"ci_questions_lower": "lower", "ci_questions_upper": "upper", "n_common_questions": "n_common"}
        rows = [
            {"ranking": f"{', '.join(ranking.judges)} on {', '.join(ranking.asked)}"}
            | {renamed.get(name, name): row[name] for name in _RANKING_COLUMNS}
            for ranking in self.rankings
            for row in ranking.rows
        ]
        # A lake of one model has nothing to compare: its columns are empty, and of the same types.
        types: dict[str, pl.DataType] = dict.fromkeys(("against_best", "why_withheld"), pl.String())
        types |= dict.fromkeys(("lower", "upper", "difference", "difference_lower", "difference_upper"), pl.Float64())
        types |= dict.fromkeys(("rank", "n_common"), pl.Int64())
        return pl.DataFrame(rows, schema_overrides=types if rows else None, infer_schema_length=None)

    @property
    def frame(self) -> "pl.DataFrame":
        """A row for each run, judge and benchmark: the fields of `ScoreRow`, lower and upper end of the interval."""
        import polars as pl

        rows = [
            row.columns() | {"lower": ends and ends.interval.lower, "upper": ends and ends.interval.upper}
            for row in self.rows
            for ends in [row.over_questions]
        ]
        return pl.DataFrame(rows, infer_schema_length=None)
