"""Sentences about scores: what the numbers are, what does not compare, and what is not finished."""

from collections.abc import Iterator, Sequence
from statistics import median

from shaberi_dagster.benchmarks.registry import Benchmark
from shaberi_dagster.reports.figures import counted, decimals
from shaberi_dagster.reports.report import NOTHING, Row
from shaberi_dagster.reports.requests import POLICIES
from shaberi_dagster.reports.score_report import ScoreReport
from shaberi_dagster.reports.scores import grouped, undecided_parts
from shaberi_dagster.reports.undecided import undecided_sentences
from shaberi_dagster.show.score_tables import margin

_MOST_UNFINISHED = 10


def score_notes(report: ScoreReport) -> Iterator[str]:
    """Write all notes in full, a sentence each."""
    present = {row.benchmark for row in report.rows} | {row["benchmark"] for row in report.statistics}
    scales = [_scale(benchmark) for name, benchmark in report.benchmarks.items() if name in present]
    yield f"Null policy {report.policy}: {POLICIES[report.policy]}."
    yield f"Pass pipeline: {report.pipeline}."
    if scales:
        yield f"Scales: {'; '.join(scales)}."
    yield "Means over benchmarks are unweighted."
    yield from _uncertainty_notes(report)
    yield from report.remarks
    yield from report.reused
    yield from undecided_sentences(undecided_parts(report.rows))
    if outside := sum(row.n_out_of_scale for row in report.rows):
        yield f"{counted(outside, 'score')} outside of the scale: they count as they are."
    sets = {(row.benchmark, row.asked) for row in report.rows}
    mixed = sorted(name for name in present if sum(key[0] == name for key in sets) > 1)
    if mixed:
        yield f"Scores over different question sets are not comparable: {', '.join(mixed)}."
    yield from _unfinished_notes(report.unfinished)


def _uncertainty_notes(report: ScoreReport) -> Iterator[str]:
    if any(row.over_questions for row in report.rows):
        yield (
            f"95 % CI over {report.over} (a–b): how general a score is, samples of a question as one, within the scale."
        )
    if report.over == "questions":
        wider = [row for row in report.rows if row.over_categories]
        for name, rows in grouped(wider, lambda row: row.benchmark):
            ratio = median(row.over_categories or 1 for row in rows)
            yield (
                f"{name} has {rows[0].n_categories} categories: if they are a sample as well, the interval is "
                f"{decimals(ratio)} times as wide{' in the median' if len(rows) > 1 else ''} (--over categories)."
            )
    if any(margin(row) != NOTHING for row in report.statistics):
        yield "95 % CI between runs (±): how stable a score is when the same is asked again."
    if any(row.baseline_score is not None for row in report.rows):
        yield "Signed numbers are the change from baseline, the scores without passes."
    if any(row.leniency is not None for row in report.rows):
        yield (
            "Adjusted for leniency: less what the judge gives beyond the other judges of the same answers, by "
            "least squares; over all judges of a run, so that runs with different judges compare."
        )


def notes_line(report: ScoreReport) -> str:
    """Say how many notes there are beside the scores; empty when there are none."""
    runs = {(part["model"], part["run_tag"]) for part in report.unfinished}
    of_answers = [rows[0] for _, rows in grouped(report.replies, lambda row: (row["run_id"], row["benchmark"]))]
    lost = {name: sum(row[f"n_{name}"] for row in of_answers) for name in ("refused", "truncated", "empty")}
    said = [
        *([counted(len(report.remarks), "remark")] if report.remarks else []),
        *([f"{counted(len(runs), 'run')} with parts that failed or are missing"] if runs else []),
        *([f"{', '.join(f'{n:,} {name}' for name, n in lost.items() if n)} answers"] if any(lost.values()) else []),
    ]
    return f"Notes: {'; '.join(said)} (--notes)." if said else ""


def _unfinished_notes(unfinished: Sequence[Row]) -> list[str]:
    """Write a line for each run that has something that is not complete."""
    runs = grouped(unfinished, lambda part: (part["model"], part["run_tag"]))
    lines = []
    for (model, run_tag), of_run in runs[:_MOST_UNFINISHED]:
        said = []
        for (benchmark, state), parts in grouped(of_run, lambda part: (part["benchmark"], part["state"])):
            failures = "; ".join(filter(None, map(failure, parts)))
            said.append(f"{benchmark} {state}: {failures}" if failures else f"{benchmark} {state}")
        lines.append(f"Not complete: {model} {run_tag}: {'. '.join(said)}.")
    if len(runs) > _MOST_UNFINISHED:
        lines.append(f"Not complete: {len(runs) - _MOST_UNFINISHED} more runs; `shaberi sql failures` tells why.")
    return lines


def failure(part: Row) -> str:
    """Say how much of a part of an unfinished benchmark failed; empty when nothing of it is there."""
    failed = f"{part['who']}: {part['n_failed']} of {part['n_planned']} failed"
    named = ", ".join(f"{name} {count}" for name, count in sorted(part["classes"].items(), key=lambda item: -item[1]))
    return f"{failed} ({named})" if part["who"] else ""


def _scale(benchmark: Benchmark) -> str:
    scale = f"{benchmark.name} {benchmark.scale_minimum}-{benchmark.scale_maximum}"
    factor = benchmark.reported_multiplier
    return f"{scale}, reported ×{factor:g}" if factor != 1 else scale
