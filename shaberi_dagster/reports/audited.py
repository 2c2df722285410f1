"""Audits of rule verdicts beside scores: how often the rules were wrong, and by how much that moves an interval."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from shaberi_dagster.lake.statements import Catalog, fetch
from shaberi_dagster.reports.blocks import Row, Rows, counted
from shaberi_dagster.reports.reading import Scales
from shaberi_dagster.statistics.audits import AuditSums
from shaberi_dagster.statistics.intervals import Estimate
from shaberi_dagster.tasks.benchmarks.registry import RULE

ON_WRITTEN_REPLIES = 7, 449, 0.032
"""Of verdicts on replies that no one tuned on: the wrong ones, all, and the upper end of the exact interval."""
Effect = tuple[float, float, float]
"""A shift of a score on the reported scale, and how far below and above it that may be (95 %)."""
_SUMS = ("weight", "heaviest", "false_rights", "false_wrongs", "unsettled")


def audit_sums(row: Row) -> AuditSums:
    """Return the sums of a row of a report's statement."""
    return AuditSums(row["n_audited"], *(row[name] for name in _SUMS))


def with_rates(row: Row) -> Row:
    """Return a row with the share of wrong verdicts and its interval in the place of sums; None without an audit."""
    rates = dict.fromkeys(("share_wrong", "share_wrong_lower", "share_wrong_upper"))
    if row["n_audited"]:
        sums = audit_sums(row)
        ends = sums.interval
        rates = dict(zip(rates, (sums.share_wrong, ends.lower, ends.upper), strict=True))
    return {name: value for name, value in row.items() if name not in _SUMS} | rates


def rate_cell(row: Row) -> str:
    """Say what an audit found: `1 of 200, at most 2.8%`, and what of it no one has settled."""
    if not row["n_audited"]:
        return "not audited"
    unsettled = f", {row['n_unsettled']} not settled" if row["n_unsettled"] else ""
    return f"{row['n_wrong']} of {row['n_audited']}, at most {row['share_wrong_upper']:.1%}{unsettled}"


def audit_sentence(row: Row) -> str:
    """Say how often the rule of a benchmark is wrong, as it stands beside scores."""
    sums = audit_sums(row)
    unsettled = f"; {counted(row['n_unsettled'], 'disagreement')} not settled" if row["n_unsettled"] else ""
    return (
        f"{row['benchmark']}: rule verdicts wrong: {sums.share_wrong:.1%}, at most {sums.interval.upper:.1%} "
        f"(audit of {row['n_audited']:,} by {', '.join(row['auditors'])}, {row['audited_on']}{unsettled})"
    )


def unaudited_sentence(benchmarks: Sequence[str]) -> str:
    """Say how often rules were wrong elsewhere, where nothing is known of their verdicts in this lake."""
    wrong, n_verdicts, at_most = ON_WRITTEN_REPLIES
    return (
        f"{', '.join(benchmarks)}: rule verdicts not audited; {wrong} of {n_verdicts} were wrong on replies that were "
        f"written to measure rules, at most {at_most:.1%} (`shaberi graders`)"
    )


def rule_sentences(catalog: Catalog, benchmarks: Sequence[str]) -> Iterator[str]:
    """Say how often the rules are wrong that graded these benchmarks."""
    audits = {name: row for (_, name), row in read_audits(catalog).items()}
    yield from (audit_sentence(audits[name]) for name in benchmarks if name in audits)
    if unknown := [name for name in benchmarks if name not in audits]:
        yield unaudited_sentence(unknown)


def read_audits(catalog: Catalog) -> dict[tuple[str, str], Row]:
    """Read what audits of the whole lake found, by rule and benchmark."""
    return {(row["judge"], row["benchmark"]): row for row in fetch(catalog, "audited")}


def with_audits(catalog: Catalog, rows: Rows, scales: Scales) -> list[Row]:
    """Return the rows, those with verdicts of an audited rule with what its errors do to their score.

    Args:
        catalog: The public views.
        rows: Scores.
        scales: Reported scales of the benchmarks.
    """
    audits = read_audits(catalog) if any(row["judge"].startswith(RULE) for row in rows) else {}
    of_rules = {row["run_id"] for row in rows if _rule(row) in audits}
    if not of_rules:
        return list(rows)
    counts = {
        (found["run_id"], found["judge"], found["benchmark"]): found["verdicts"]
        for found in fetch(catalog, "rule_verdicts", run_ids=sorted(of_rules))
    }

    def audited(row: Row) -> Row:
        n_graded = counts.get((row["run_id"], row["judge"], row["benchmark"]))
        n_scored = row["n_scored"] if row["null_policy"] == "legacy" else row["n_planned"]
        if not (n_graded and n_scored and _rule(row) in audits and row["benchmark"] in scales):
            return row
        found = audits[_rule(row)]
        low, high = scales[row["benchmark"]]
        share = min(n_graded / n_scored, 1.0) * (high - low)
        shift, ends = audit_sums(found).shift
        effect = share * shift, share * (shift - ends.lower), share * (ends.upper - shift)
        return {**row, "audit": effect, "audit_sentence": audit_sentence(found)}

    return [audited(row) for row in rows]


def _rule(row: Row) -> tuple[str, str]:
    return row["judge"].partition("+")[0], row["benchmark"]


def mean_audit(rows: Rows) -> Effect | None:
    """Return the effect on the mean of several judges of a benchmark, whose errors may be the same."""
    if not any(row["audit"] for row in rows):
        return None
    shifts, downs, ups = zip(*(row["audit"] or (0.0, 0.0, 0.0) for row in rows), strict=True)
    return fmean(shifts), fmean(downs), fmean(ups)


def corrected(estimate: Estimate | None, audit: Effect | None) -> Estimate | None:
    """Return an estimate without the errors that an audit expects of the rule, and with what is unsure of that."""
    return estimate.moved(*audit) if estimate and audit else estimate
