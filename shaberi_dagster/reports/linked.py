"""Comparisons across a link: new scores of a judge beside its imported ones, with the link's uncertainty."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import duckdb

from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.reports.figures import signed_interval
from shaberi_dagster.reports.report import Row
from shaberi_dagster.reports.scores import OVERALL, USUAL, RowLink, ScoreRow, Tie, grouped, moved, with_error
from shaberi_dagster.statistics.intervals import CONFIDENCE, Estimate, Interval

_SEEN = USUAL + NormalDist().inv_cdf(0.8)
"""Standard errors that a detectable difference is wide."""


@dataclass(frozen=True)
class UsedLink:
    """The last link between a judge of imported scores on one side and the same judge with other prompts on the other.

    Attributes:
        judge: Whose scores were imported.
        linked_judge: The judge of the new ones.
        new_side: The side that has the new ones: A or B.
        rows: Its rows of the table `links`, by benchmark; the version of new scores has to be the link's.
    """

    judge: str
    linked_judge: str
    new_side: str
    rows: Mapping[str, Row]

    @property
    def reasons(self) -> list[str]:
        """Say why its scores do not compare; nothing where they do."""
        reason = self.why_refused(OVERALL if OVERALL in self.rows else next(iter(self.rows)))
        return [f"{self.linked_judge} is not linked with {self.judge}: {reason}"] if reason else []

    @property
    def remark(self) -> str:
        """Say what is compared."""
        row = self.rows.get(OVERALL) or next(iter(self.rows.values()))
        about = signed_interval(Interval(row["lower"], row["upper"])) if row["lower"] is not None else "unknown"
        return (
            f"{self.new_side}'s scores are by {self.linked_judge}, linked with {self.judge} (offset {about}): A - B is "
            "without the link's offset, and intervals have its uncertainty"
        )

    def why_refused(self, benchmark: str) -> str:
        """Say why new scores of a benchmark do not compare; empty where they do."""
        row = self.rows.get(benchmark)
        return "it is no part of the link" if row is None else row["reason"] or ""

    def applied(self, rows: Sequence[Row]) -> tuple[Row, ...]:
        """Return rows of a comparison with the link's offset taken off, and its uncertainty in intervals and verdicts.

        Args:
            rows: Of benchmarks, and overall at the end if they are several.
        """
        names = [row["question_set"].partition("@")[0] for row in rows]
        is_other = OVERALL in names and {*names} != self.rows.keys()
        return tuple(
            {**row, "verdict": "withheld", "equal": False, "why_withheld": f"{name} is not linked: {why}"}
            if (why := "its benchmarks are others" if is_other and name == OVERALL else self.why_refused(name))
            else self._applied(row, self.rows[name])
            for name, row in zip(names, rows, strict=True)
        )

    def _applied(self, row: Row, link: Row) -> dict[str, Any]:
        half = _error(link)
        shift = link["score_offset"] * (1 if self.new_side == "B" else -1)
        difference, confidence = row["difference"] + shift, row["confidence"]
        if row["lower"] is None:
            return {**row, "difference": difference, "equal": False}
        reach = NormalDist().inv_cdf((1 + confidence) / 2)
        ends = with_error(row["difference"], Interval(row["lower"], row["upper"]), reach * half, reach * half)
        lower, upper = ends.lower + shift, ends.upper + shift
        error = math.hypot((row["upper"] - row["lower"]) / 2 / reach, half)
        p = 2 * NormalDist().cdf(-abs(difference) / error) if error else float(difference == 0)
        shown = "tied" if lower <= 0 <= upper else "better" if difference > 0 else "worse"
        margin, least = row["margin"], row["minimum_detectable_effect"]
        return {
            **row,
            "difference": difference,
            "lower": lower,
            "upper": upper,
            "p_value": p,
            "adjusted_p_value": min(p * (1 - CONFIDENCE) / (1 - confidence), 1.0),
            "minimum_detectable_effect": least and math.hypot(least, _SEEN * half),
            "verdict": row["verdict"] if row["verdict"] == "withheld" else shown,
            "equal": bool(margin and -margin <= lower and upper <= margin),
        }


def find_links(
    catalog: duckdb.DuckDBPyConnection, run_ids: Mapping[str, Sequence[str]], judges: Iterable[str]
) -> list[UsedLink]:
    """Find the last links between the judges of two sides, granted or not.

    Args:
        catalog: The public views.
        run_ids: The runs of the sides A and B.
        judges: Only of these judges, before or after; none means all.
    """
    every = [run_id for ids in run_ids.values() for run_id in ids]
    trees = {row["run_id"]: row["source"] for row in fetch(catalog, "run_specs", run_ids=every)}
    wanted = set(judges)
    by_pair: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in fetch(catalog, "last_links"):
        if not wanted or wanted & {row["judge"], row["linked_judge"]}:
            by_pair.setdefault((row["judge"], row["source"], row["linked_judge"]), {})[row["benchmark"]] = row
    found = []
    for (judge, source, linked_judge), rows in by_pair.items():
        for old, new in (("A", "B"), ("B", "A")):
            versions = fetch(catalog, "judge_versions", run_ids=list(run_ids[new]), judges=[linked_judge])
            is_imported = {trees.get(run_id) for run_id in run_ids[old]} == {source}
            has_judge = fetch(catalog, "judge_versions", run_ids=list(run_ids[old]), judges=[judge])
            if versions and is_imported and has_judge:
                found.append(UsedLink(judge, linked_judge, new, _of_version(rows, versions)))
    return found


def _of_version(rows: Mapping[str, Row], versions: Sequence[Row]) -> dict[str, Row]:
    """Refuse benchmarks whose new scores were made with other prompts or settings than those of the link."""
    other = {
        version["benchmark"]
        for version in versions
        if (row := rows.get(version["benchmark"]))
        and (version["prompts"], version["settings"]) != (row["judge_prompt_hash"], row["judge_config_hash"])
    }
    reason = "its scores were made with other prompts or settings than the link's"
    names = other | ({OVERALL} if other else set())
    return {name: {**row, "reason": reason} if name in names else row for name, row in rows.items()}


# --- in rankings -----------------------------------------------------------------------------------------------------


def with_links(catalog: duckdb.DuckDBPyConnection, rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """Return the rows, those that a granted link allows to stand among imported ones with it.

    A run is linked as a whole: all benchmarks of the link, with its prompts and settings and without passes.

    Args:
        catalog: The public views.
        rows: Scores; imported ones of the judge have to be among them.
    """
    links: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in fetch(catalog, "last_links"):
        links.setdefault((row["linked_judge"], row["judge"], row["source"]), {})[row["benchmark"]] = row
    prompts = {(row.judge, row.source): row.judge_prompt for row in rows if row.source}
    judged = dict(grouped(rows, lambda row: (row.run_id, row.judge)))
    linked = {}
    for (linked_judge, judge, source), of_link in links.items():
        if (judge, source) in prompts:
            for run_id in {run_id for run_id, name in judged if name == linked_judge and (run_id, judge) not in judged}:
                if _is_whole(judged[run_id, linked_judge], of_link):
                    linked[run_id, linked_judge] = judge, prompts[judge, source], of_link
    return [
        row._replace(link=_row_link(row, *linked[row.run_id, row.judge])) if (row.run_id, row.judge) in linked else row
        for row in rows
    ]


def _is_whole(rows: Sequence[ScoreRow], link: Mapping[str, Row]) -> bool:
    """Return whether a granted link is of all these scores of a run, and of no others."""
    overall = link.get(OVERALL) or next(iter(link.values()))
    return (
        overall["granted"]
        and {row.benchmark for row in rows} == link.keys() - {OVERALL}
        and all(
            (row.judge_prompt_hash, row.judge_config_hash, row.pipeline_hash)
            == (link[row.benchmark]["judge_prompt_hash"], link[row.benchmark]["judge_config_hash"], None)
            for row in rows
        )
    )


def _row_link(row: ScoreRow, judge: str, prompt: str | None, link: Mapping[str, Row]) -> RowLink:
    own, overall = link[row.benchmark], link.get(OVERALL) or link[row.benchmark]
    return RowLink(judge, prompt, own["score_offset"], _error(own), overall["score_offset"], _error(overall))


def _error(link: Row) -> float:
    """Return the standard error of an offset as of a normal estimate with the same interval."""
    return float(link["upper"] - link["lower"]) / 2 / USUAL


def widened(estimate: Estimate | None, error: float) -> Estimate | None:
    """Return an estimate with one more standard error, of a link."""
    return moved(estimate, 0.0, USUAL * error, USUAL * error) if estimate and error else estimate


def across(tie: Tie | None, link: RowLink | None, best: RowLink | None) -> Tie | None:
    """Return how a line is beside the best where one of both is linked: with the link's uncertainty."""
    used = link or best
    if not (tie and tie.interval and used) or tie.difference is None or (link and best):
        return tie
    ends = with_error(tie.difference, tie.interval, *[USUAL * used.mean_error] * 2)
    error = (ends.upper - ends.lower) / 2 / USUAL
    p = max(tie.p_value or 0.0, 2 * NormalDist().cdf(-abs(tie.difference) / error)) if error else tie.p_value
    if not tie.why:
        tie = replace(tie, against_best="tied" if ends.lower <= 0 <= ends.upper else "below")
    return replace(tie, interval=ends, p_value=p)
