"""Comparisons across a link: new scores of a judge beside its imported ones, with the link's uncertainty."""

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from statistics import NormalDist

from shaberi_dagster.lake.statements import Catalog, fetch
from shaberi_dagster.reports.blocks import Row, Rows, between, ends_of, grouped, interval_of
from shaberi_dagster.reports.rows import OVERALL
from shaberi_dagster.statistics.intervals import CONFIDENCE, ERRORS_OF_HALF, Estimate, Interval

_SEEN = ERRORS_OF_HALF + NormalDist().inv_cdf(0.8)
"""Standard errors that a detectable difference is wide."""


def link_reasons(links: Rows) -> list[str]:
    """Say why the scores of some links do not compare; nothing where they do."""
    reasons = ((link, _overall(link["rows"])["reason"]) for link in links)
    return [f"{link['linked_judge']} is not linked with {link['judge']}: {why}" for link, why in reasons if why]


def link_remark(link: Row) -> str:
    """Say what is compared by a link."""
    ends = interval_of(_overall(link["rows"]))
    about = between(ends, "difference") if ends else "unknown"
    return (
        f"{link['new_side']}'s scores are by {link['linked_judge']}, linked with {link['judge']} (offset {about}): "
        "A - B is without the link's offset, and intervals have its uncertainty"
    )


def apply_link(link: Row, rows: Rows) -> Rows:
    """Return rows of a comparison with a link's offset taken off, and its uncertainty in intervals and verdicts.

    Args:
        link: From `find_links`.
        rows: Of benchmarks, and overall at the end if they are several.
    """
    names = [row["question_set"].partition("@")[0] for row in rows]
    of_link, not_there = link["rows"], {"reason": "it is no part of the link"}
    why = {name: of_link.get(name, not_there)["reason"] for name in names}
    if OVERALL in names and {*names} != of_link.keys():
        why[OVERALL] = "its benchmarks are others"
    sign = 1 if link["new_side"] == "B" else -1
    return tuple(
        {**row, "verdict": "withheld", "equal": False, "why_withheld": f"{name} is not linked: {why[name]}"}
        if why[name]
        else _applied(row, of_link[name], sign)
        for name, row in zip(names, rows, strict=True)
    )


def _applied(row: Row, link: Row, sign: int) -> Row:
    half, shift = _error(link), sign * link["score_offset"]
    difference, confidence = row["difference"] + shift, row["confidence"]
    if row["lower"] is None:
        return {**row, "difference": difference, "equal": False}
    reach = NormalDist().inv_cdf((1 + confidence) / 2)
    ends = Interval(row["lower"], row["upper"]).with_error(row["difference"], reach * half, reach * half)
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


def find_links(catalog: Catalog, run_ids: Mapping[str, Sequence[str]], judges: Iterable[str]) -> Rows:
    """Find the last links between judges of imported scores on one side and the same with other prompts on the other.

    Args:
        catalog: The public views.
        run_ids: The runs of the sides A and B.
        judges: Only of these judges, before or after; none means all.

    Returns:
        Granted or not: judge (whose scores were imported), linked_judge (of the new ones), new_side (A or B, which has
        the new ones), and rows of the table `links` by benchmark, whose version has to be that of the new scores.
    """
    every = [run_id for ids in run_ids.values() for run_id in ids]
    trees = {row["run_id"]: row["source"] for row in fetch(catalog, "runs", run_ids=every)}
    found = []
    for (judge, source, linked_judge), rows in _last_links(catalog, judges):
        for old, new in (("A", "B"), ("B", "A")):
            versions = fetch(catalog, "judge_versions", run_ids=list(run_ids[new]), judges=[linked_judge])
            is_imported = {trees.get(run_id) for run_id in run_ids[old]} == {source}
            has_judge = fetch(catalog, "judge_versions", run_ids=list(run_ids[old]), judges=[judge])
            if versions and is_imported and has_judge:
                link = {"judge": judge, "linked_judge": linked_judge, "new_side": new}
                found.append({**link, "rows": _of_version(rows, versions)})
    return found


def _last_links(catalog: Catalog, judges: Iterable[str] = ()) -> list[tuple[tuple[str, str, str], dict[str, Row]]]:
    """Read the last link of each imported judge, tree and new judge, with its rows by benchmark."""
    rows = fetch(catalog, "links", last=True, judges=list(judges) or None)
    links = sorted(grouped(rows, itemgetter("judge", "source", "linked_judge")), key=itemgetter(0))
    return [(key, {row["benchmark"]: row for row in of_link}) for key, of_link in links]


def _of_version(rows: Mapping[str, Row], versions: Rows) -> dict[str, Row]:
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


def with_links(catalog: Catalog, rows: Rows) -> list[Row]:
    """Return the rows, those that a granted link allows to stand among imported ones with it.

    A run is linked as a whole: all benchmarks of the link, with its prompts and settings and without passes. `link` of
    a row is the judge of the imported scores, the offset (how much higher scores of this benchmark are than those) with
    its standard error, and mean_offset and mean_error of the mean of the benchmarks.

    Args:
        catalog: The public views.
        rows: Scores; imported ones of the judge have to be among them.
    """
    prompts = {(row["judge"], row["source"]): row["judge_prompt"] for row in rows if row["source"]}
    judged = dict(grouped(rows, itemgetter("run_id", "judge")))
    linked: dict[tuple[str, str], tuple[str, str | None, Mapping[str, Row]]] = {}
    for (judge, source, linked_judge), of_link in _last_links(catalog):
        if (judge, source) in prompts:
            for run_id in {run_id for run_id, name in judged if name == linked_judge and (run_id, judge) not in judged}:
                if _is_whole(judged[run_id, linked_judge], of_link):
                    linked[run_id, linked_judge] = judge, prompts[judge, source], of_link
    return [
        _with_link(row, *linked[row["run_id"], row["judge"]]) if (row["run_id"], row["judge"]) in linked else row
        for row in rows
    ]


def _is_whole(rows: Rows, link: Mapping[str, Row]) -> bool:
    """Return whether a granted link is of all these scores of a run, and of no others."""
    made_with = ("judge_prompt_hash", "judge_config_hash")
    return (
        _overall(link)["granted"]
        and {row["benchmark"] for row in rows} == link.keys() - {OVERALL}
        and all(row[name] == link[row["benchmark"]][name] for row in rows for name in made_with)
        and not any(row["pipeline_hash"] for row in rows)
    )


def _with_link(row: Row, judge: str, prompt: str | None, link: Mapping[str, Row]) -> Row:
    own, overall = link[row["benchmark"]], _overall(link)
    used = {"judge": judge, "offset": own["score_offset"], "error": _error(own)}
    used |= {"mean_offset": overall["score_offset"], "mean_error": _error(overall)}
    return {**row, "link": used, "ranked_judge": judge, "ranked_prompt": prompt}


def _overall(link: Mapping[str, Row]) -> Row:
    return link.get(OVERALL) or next(iter(link.values()))


def _error(link: Row) -> float:
    """Return the standard error of an offset as of a normal estimate with the same interval."""
    return float(link["upper"] - link["lower"]) / 2 / ERRORS_OF_HALF


def widened(estimate: Estimate | None, error: float) -> Estimate | None:
    """Return an estimate with one more standard error, of a link."""
    return estimate.moved(0.0, *[ERRORS_OF_HALF * error] * 2) if estimate and error else estimate


def across(tie: Row, link: Row | None, best: Row | None) -> Row:
    """Return how a line is beside the best where one of both is linked: with the link's uncertainty."""
    used, ends = link or best, interval_of(tie, "difference_")
    if not (ends and used) or (link and best):
        return tie
    wider = ends.with_error(tie["difference"], *[ERRORS_OF_HALF * used["mean_error"]] * 2)
    error = (wider.upper - wider.lower) / 2 / ERRORS_OF_HALF
    p = tie["p_value"]
    if error:
        p = max(p or 0.0, 2 * NormalDist().cdf(-abs(tie["difference"]) / error))
    shown = tie["against_best"] if tie["why_withheld"] else "tied" if wider.lower <= 0 <= wider.upper else "below"
    return {**tie, **ends_of(wider, "difference_"), "against_best": shown, "p_value": p}
