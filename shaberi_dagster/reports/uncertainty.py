"""Facts beside scores: uncertainty, leniency of judges, versions, and unfinished parts."""

from collections.abc import Mapping, Sequence
from operator import attrgetter

import duckdb

from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.reports.audited import corrected
from shaberi_dagster.reports.figures import is_number
from shaberi_dagster.reports.linked import widened
from shaberi_dagster.reports.scores import (
    ScoreRow,
    grouped,
    spanned,
)
from shaberi_dagster.reports.single_scores import FEWEST_CATEGORIES, SingleScores, cell_of

_FEWEST_COMPARED = 2


def with_intervals(single: SingleScores, rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    """Return rows with the interval of each score, and how much wider it is if categories are a sample as well."""
    single.load(rows)
    return [_with_interval(single, row) if single.of([row]) else row for row in rows]


def _with_interval(single: SingleScores, row: ScoreRow) -> ScoreRow:
    n_categories, wider = single.n_categories(row), None
    estimate = widened(single.estimate([row], "questions"), row.link.error if row.link else 0.0)
    upper = corrected(single.estimate([row], decided=True), row.audit) if row.n_undecided else None
    wide = single.estimate([row], "categories") if n_categories >= FEWEST_CATEGORIES else None
    if estimate and wide:
        wider = (wide.interval.upper - wide.interval.lower) / (estimate.interval.upper - estimate.interval.lower)
        estimate = wide if single.over == "categories" else estimate
    return row._replace(
        over_questions=spanned(corrected(estimate, row.audit), upper),
        over_decided=upper,
        n_categories=n_categories,
        over_categories=wider,
    )


# --- judges ----------------------------------------------------------------------------------------------------------


def with_leniency(
    catalog: duckdb.DuckDBPyConnection, rows: Sequence[ScoreRow]
) -> tuple[list[ScoreRow], dict[str, set[tuple[str, ...]]]]:
    """The rows with their judges' leniency.

    Returns:
        The rows, and for each benchmark the sets of judges within which adjusted scores compare.
    """
    run_ids = sorted({row.run_id for row in rows})
    choices = {"pipeline": rows[0].pipeline, "null_policy": rows[0].null_policy}
    found = {
        (row["run_id"], row["judge"], row["benchmark"]): row
        for row in fetch(catalog, "leniency", run_ids=run_ids, **choices)
    }
    connected: dict[str, set[tuple[str, ...]]] = {}
    for row in found.values():
        connected.setdefault(row["benchmark"], set()).add(tuple(row["connected_judges"]))
    leniency = {key: row["leniency"] for key, row in found.items()}
    return [row._replace(leniency=leniency.get(cell_of(row))) for row in rows], connected


def leniency_remarks(connected: Mapping[str, set[tuple[str, ...]]]) -> list[str]:
    """Name the judges within which adjusted scores compare, for each benchmark with several such groups."""
    return [
        f"Adjusted scores of {benchmark} compare only within judges that share answers: "
        f"{' | '.join(sorted(', '.join(judges) for judges in groups))}."
        for benchmark, groups in sorted(connected.items())
        if len(groups) > 1
    ]


# --- what is not the same, and what is not there ---------------------------------------------------------------------

_MOST_NAMES = 3
_UNKNOWN = "not recorded"
_KEPT_APART = "such runs are ranked apart"


def version_remarks(rows: Sequence[ScoreRow]) -> list[str]:
    """Judges that judged the shown runs with different prompts or settings, and passes that had different ones."""
    remarks = []
    for judge, of_judge in grouped(rows, lambda row: row.judge):
        if prompts := _versions(of_judge, "judge_prompt"):
            remarks.append(f"Judge {judge} judged with different prompts: {prompts}; {_KEPT_APART}.")
        elif settings := _versions(of_judge, "judge_config_hash"):
            remarks.append(f"Judge {judge} judged with different settings: {settings}.")
    if passes := _versions(rows, "pipeline_hash"):
        remarks.append(f"The passes {rows[0].pipeline} had different settings or versions: {passes}; {_KEPT_APART}.")
    return remarks


def _versions(rows: Sequence[ScoreRow], name: str) -> str:
    """Name the versions where there are several: `tengu: one of model july, another of model august`."""
    known = [row for row in rows if is_number(row.score)]
    if len(set(map(attrgetter("benchmark", name), known))) == len({row.benchmark for row in known}):
        return ""
    found = []
    for benchmark, of_benchmark in grouped(known, attrgetter("benchmark")):
        by_version = grouped(of_benchmark, lambda row: getattr(row, name) or _UNKNOWN)
        if len(by_version) > 1:
            words = ("one" if number == 0 else "another" for number in range(len(by_version)))
            parts = (
                f"{f'one that is {version}' if version.startswith(_UNKNOWN) else word} of {_names(ones)}"
                for word, (version, ones) in zip(words, by_version, strict=True)
            )
            found.append(f"{benchmark}: {', '.join(parts)}")
    return "; ".join(found)


def _names(rows: Sequence[ScoreRow]) -> str:
    names = list(dict.fromkeys(f"{row.model} {row.run_tag}" for row in rows))
    more = [f"{len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
    return ", ".join([*names[:_MOST_NAMES], *more])
