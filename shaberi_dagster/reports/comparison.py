"""Two models or runs over the questions that both were asked, judge by judge; and how their comparison is shown."""

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from statistics import fmean
from typing import Any

import polars as pl

from shaberi_dagster.lake.queries import known_names
from shaberi_dagster.lake.statements import Catalog, fetch, fetch_frame
from shaberi_dagster.reports.audited import rule_sentences
from shaberi_dagster.reports.blocks import (
    Block,
    Column,
    Heading,
    Result,
    Row,
    Rows,
    Sentences,
    Table,
    counted,
    decimals,
    ends_of,
    number,
    p_value,
    signed,
    table_of,
    text,
    whole_percent,
)
from shaberi_dagster.reports.linked import apply_link, find_links, link_reasons, link_remark
from shaberi_dagster.reports.reading import (
    Scales,
    Side,
    benchmarks_in,
    check_passes,
    find_side,
    reported_scales,
    scale_rows,
    scored_runs,
)
from shaberi_dagster.reports.requests import BASELINE, MISSING, OVER, POLICIES, ComparisonRequest, check_choice
from shaberi_dagster.reports.rows import cannot_tell, categories_sentence, differs_after_rounding, shared_sentence
from shaberi_dagster.reports.scores import reuse_remarks
from shaberi_dagster.reports.settings import (
    QUESTIONS,
    changed_questions,
    differences,
    find_differences,
    folded,
    listed,
    not_recorded,
    read_settings,
)
from shaberi_dagster.reports.single_scores import FEWEST_CATEGORIES
from shaberi_dagster.statistics.comparison import OVERALL, Difference
from shaberi_dagster.statistics.comparison import compare as compare_scores
from shaberi_dagster.statistics.intervals import clustered_mean_interval, within
from shaberi_dagster.statistics.missing import still_shown, unequal_missing
from shaberi_dagster.tasks.benchmarks.registry import BENCHMARKS, RULE, parse_benchmarks
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.names import check_known

_MOST_MISSING = 0.1
_STATISTICS = tuple(field.name for field in fields(Difference) if field.name not in {"benchmark", "interval"})
_COUNTS = {"out_of_scale": "out_of_scale", "n_undecided": "undecided", "n_samples": "samples"}
_MARGIN = 0.02  # of the highest score: 0.2 of ten, 2 points of accuracy
_TEN = 10.0  # where the highest score is not known


@dataclass(frozen=True)
class ComparisonReport:
    """The differences between A and B.

    Attributes:
        request: What was asked.
        a: One side.
        b: The other.
        sections: A mapping for each judge, and before them for the mean of several (on each question over those that
            scored both sides): `judges`, and `rows`: the benchmarks, and overall at the end if they are several. Each
            has the fields of `Difference` (its benchmark as question_set, its interval as lower and upper) and what
            counts: questions that only A or only B was asked (only_a, only_b), common ones without_score of a side,
            scores out_of_scale on compared ones (they count as they are), judge_questions (on how many of these each
            judge scored both), n_asked of both, n_categories, over_categories (how many times as wide the interval is
            when categories are sampled, too; None below ten), own_mean of each side over all that it has, as a
            leaderboard shows it, mean_upper of each side over what rules decided on both (or None), n_undecided of its
            n_samples, and why_withheld: why missing or undecided scores allow no verdict, or nothing.
        shared_replies: Of benchmarks that have such: how many replies (answers and judgements) the compared runs rest
            on (n_replies), and how many of them are the reply to another one's call (n_shared).
        warnings: What is not the same on both sides.
        reasons: Why A and B do not compare: their scores were made by other questions, judges or passes.
        audits: How often rules were wrong that graded both.
    """

    request: ComparisonRequest
    a: Side
    b: Side
    sections: Rows
    shared_replies: Rows
    warnings: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    audits: tuple[str, ...] = ()

    @property
    def comparable(self) -> bool:
        """True if both sides were asked and judged alike."""
        return not self.reasons

    @property
    def caveat(self) -> str:
        """The sentence above everything where they were not, also where a verdict is given `anyway`."""
        if self.comparable:
            return ""
        given = "The verdict is given anyway" if self.request.anyway else "No verdict is given (--anyway gives it)"
        return f"A and B were not asked and judged alike: {'; '.join(self.reasons)}. {given}."

    @property
    def frame(self) -> pl.DataFrame:
        """A row per judge (null: their mean) and benchmark: judge, benchmark, the fields of `Difference`, caveats."""
        rows = [
            {"judge": section["judges"][0] if len(section["judges"]) == 1 else None, "benchmark": row["question_set"]}
            | {name: row[name] for name in (*_STATISTICS, "lower", "upper", "why_withheld")}
            | {"caveat": self.caveat}
            for section in self.sections
            for row in section["rows"]
        ]
        return pl.DataFrame(rows, infer_schema_length=None)


def compare(catalog: Catalog, request: ComparisonRequest) -> ComparisonReport:
    """Compare two models or runs, question by question.

    Args:
        catalog: The public views.
        request: What to compare.

    Raises:
        ConfigurationError: There is no such run or several could be meant, runs of one side do not go together, or
            nothing is common to both.
    """
    check_choice("--null-policy", request.null_policy, tuple(POLICIES))
    check_choice("--over", request.over, OVER)
    if request.margin is not None and request.margin <= 0:
        raise ConfigurationError("--margin must be above 0")
    benchmarks = None
    if request.benchmarks != "all":
        benchmarks = [benchmark.name for benchmark in parse_benchmarks(request.benchmarks, benchmarks_in(catalog))]
    runs = scored_runs(catalog)
    if request.sources:
        check_known("source", request.sources, known_names(catalog, "source"), where="--source")
        runs = [run for run in runs if run["source"] in request.sources]
    a, b = (find_side(runs, name, text, request.tag) for name, text in (("A", request.a), ("B", request.b)))
    if set(a.run_ids) & set(b.run_ids):
        raise ConfigurationError(f"A and B are the same: {a.run_ids[0]}")
    sets = {row["question_set"]: row["benchmark"] for row in fetch(catalog, "question_sets")}
    check_known("question set", request.question_sets, sets, where="--question-set")
    if len({sets[name] for name in request.question_sets}) < len(request.question_sets):
        raise ConfigurationError("--question-set: one set per benchmark")
    if request.judges:
        check_known("judge", request.judges, known_names(catalog, "judge"), where="--judge")
    run_ids = [*a.run_ids, *b.run_ids]
    found = fetch(catalog, "scores", models=run_ids, pipeline=request.pipeline, null_policy="legacy")
    cells = [row | {"is_a": row["run_id"] in a.run_ids} for row in found if row["n_scored"]]
    scales = reported_scales(benchmarks_in(catalog))
    scores = _paired_scores(catalog, a, b, request, benchmarks=benchmarks)
    sections = _sections(scores, request, scales)
    links: Rows = ()
    if not sections and (links := find_links(catalog, {"A": a.run_ids, "B": b.run_ids}, request.judges)):
        scores = _paired_scores(catalog, a, b, request, benchmarks=benchmarks, links=links)
        linked = {link["judge"]: link for link in links}
        by_judge = (section for section in _sections(scores, request, scales) if len(section["judges"]) == 1)
        of_links = ((section, linked.get(section["judges"][0])) for section in by_judge)
        sections = [{**part, "rows": apply_link(link, part["rows"])} if link else part for part, link in of_links]
    if not sections:
        check_passes(request.pipeline)
        raise ConfigurationError(_nothing_in_common((a, b), cells, request))
    names = set(scores["benchmark_name"].to_list())
    judges = {judge for section in sections for judge in section["judges"]} - {link["judge"] for link in links}
    of_rules = pl.col("judge").str.starts_with(RULE)
    reasons, remarks = _unlike(catalog, a, b, benchmarks=names, judges=judges, pipeline=request.pipeline)
    reasons += [*_other_questions(catalog, cells, sections), *link_reasons(links)]
    remarks = [
        *map(link_remark, links),
        *remarks,
        *(said.removesuffix(".") for said in reuse_remarks(catalog, run_ids)),
    ]
    if reasons and not request.anyway:
        sections = [{**section, "rows": [*map(_withheld, section["rows"])]} for section in sections]
    replies = fetch(catalog, "shared_replies", run_ids=run_ids, judges=list(judges))
    return ComparisonReport(
        request,
        a,
        b,
        sections,
        [row for row in replies if row["n_shared"] and row["benchmark"] in names],
        (*remarks, *_incomplete(sections)),
        tuple(reasons),
        tuple(rule_sentences(catalog, scores.filter(of_rules)["benchmark_name"].unique().sort().to_list())),
    )


# --- what is compared ------------------------------------------------------------------------------------------------


def _paired_scores(
    catalog: Catalog,
    a: Side,
    b: Side,
    request: ComparisonRequest,
    *,
    benchmarks: Sequence[str] | None,
    links: Rows = (),
) -> pl.DataFrame:
    """Read a row for each judge (null: the mean over judges), question set and question that one of them has."""
    return fetch_frame(
        catalog,
        "paired_scores",
        first=list(a.run_ids),
        run_ids=[*a.run_ids, *b.run_ids],
        order=[*BENCHMARKS],
        scales=scale_rows(catalog),
        judges=[*request.judges, *(link["judge"] for link in links)] if request.judges else None,
        linked_judges=[link["linked_judge"] for link in links] or [""],
        judged_as=[link["judge"] for link in links] or [""],
        benchmarks=benchmarks,
        pipeline=request.pipeline,
        null_policy=request.null_policy,
        question_sets=list(request.question_sets),
    )


def _sections(scores: pl.DataFrame, request: ComparisonRequest, scales: Scales) -> list[Row]:
    parts = {part["judge"][0]: part for part in scores.partition_by("judge", maintain_order=True)}
    judges = [judge for judge in parts if judge is not None]
    if len(judges) == 1:
        parts.pop(None)
    sections: list[Row] = []
    for judge, part in parts.items():
        of_judges = scores.filter(pl.col("judge").is_in(judges) if judge is None else pl.col("judge") == judge)
        rows = _rows(part, of_judges, request, scales)
        sections += [{"judges": judges if judge is None else [judge], "rows": rows}] if rows else []
    return sections


def _rows(scores: pl.DataFrame, of_judges: pl.DataFrame, request: ComparisonRequest, scales: Scales) -> tuple[Row, ...]:
    """Compare benchmark by benchmark, at both ends of scores; a verdict that does not hold at both is withheld."""
    lower = decided = _rows_at_one_end(scores, of_judges, request, scales)
    if of_judges.select(pl.sum("undecided_a", "undecided_b")).sum_horizontal().item():
        decided = _rows_at_one_end(_decided(scores), _decided(of_judges), request, scales)
    upper = {row["question_set"]: row for row in decided}
    return tuple(_at_both_ends(row, upper.get(row["question_set"])) for row in lower)


def _decided(scores: pl.DataFrame) -> pl.DataFrame:
    """Return the scores without what a rule could not decide: such a question leaves both sides."""
    is_undecided = (pl.col(f"score_{side}").is_not_null() & pl.col(f"decided_{side}").is_null() for side in "ab")
    return scores.filter(~pl.any_horizontal(is_undecided)).with_columns(score_a="decided_a", score_b="decided_b")


def _at_both_ends(lower: Row, upper: Row | None) -> Row:
    row = {**lower, **{f"mean_upper_{side}": upper[f"mean_{side}"] if upper else None for side in "ab"}}
    is_same = upper and (upper["verdict"], upper["equal"]) == (lower["verdict"], lower["equal"])
    if is_same or lower["verdict"] == "withheld" or not _both(lower, "n_undecided"):
        return row
    why = cannot_tell(_both(lower, "n_undecided"), _both(lower, "n_samples"))
    if upper:
        why += f"; without them A - B is {signed(upper['difference'])} over {counted(upper['n'], 'question')}"
    return _withheld(row) | {"why_withheld": why}


def _rows_at_one_end(
    scores: pl.DataFrame, of_judges: pl.DataFrame, request: ComparisonRequest, scales: Scales
) -> tuple[Row, ...]:
    """Compare benchmark by benchmark.

    Args:
        scores: Of one judge, or the mean of several.
        of_judges: Those of each judge by itself.
        request: What to compare.
        scales: Of the benchmarks.
    """
    asked_both = pl.col("samples_a").is_not_null() & pl.col("samples_b").is_not_null()
    parts = {part["benchmark"][0]: part for part in scores.partition_by("benchmark", maintain_order=True)}
    if request.null_policy == "strict":
        for name, part in parts.items():
            missing_a, missing_b = part.filter(asked_both).select("missing_a", "missing_b").sum().row(0)
            if missing_a or missing_b:
                raise ConfigurationError(
                    f"strict: on common questions of {name}, {missing_a} scores of A and {missing_b} of B are missing; "
                    "choose --null-policy legacy or zero, or finish the runs"
                )
    common = scores.drop_nulls(["score_a", "score_b"])
    if common.is_empty():
        return ()
    if request.over == "categories":
        enough = pl.col("category").n_unique().over("benchmark") >= FEWEST_CATEGORIES
        cluster = pl.when(enough).then(pl.coalesce("category", pl.lit(""))).otherwise("question_id")
        scores, of_judges = (frame.with_columns(cluster=cluster) for frame in (scores, of_judges))
    ends = {name: scales.get(part["benchmark_name"][0], (-math.inf, _TEN)) for name, part in parts.items()}
    margins = {name: request.margin or _MARGIN * highest for name, (_, highest) in ends.items()}
    comparison = compare_scores(scores, margins)
    facts = {
        name: _facts(part, asked_both) | _own_means(of_judges.filter(benchmark=name), request.null_policy)
        for name, part in parts.items()
        if name in {found.benchmark for found in comparison.benchmarks}
    }
    widths = {name: highest - lowest for name, (lowest, highest) in ends.items()}
    rows = [_row(found, facts[found.benchmark], widths[found.benchmark]) for found in comparison.benchmarks]
    if comparison.overall:
        rows.append(_row(comparison.overall, _summed(list(facts.values())), fmean(widths[name] for name in facts)))
    if request.null_policy == "legacy":
        both = of_judges.filter(asked_both, pl.col("benchmark").is_in(list(facts)))
        rows = [_with_missing(row, both) for row in rows]
    return tuple(rows)


def _row(difference: Difference, facts: Row, width: float) -> Row:
    least = difference.minimum_detectable_effect
    ends = difference.interval and within(difference.interval, width)
    row = {"question_set": difference.benchmark} | {name: getattr(difference, name) for name in _STATISTICS}
    is_seen = least is not None and least <= width and difference.verdict != "too few"
    row |= {"minimum_detectable_effect": least if is_seen else None}
    return {**row, **ends_of(ends), **facts, "why_withheld": ""}


def _own_means(of_judges: pl.DataFrame, null_policy: str) -> dict[str, float]:
    """The mean over judges of the mean of all samples that a side has."""
    means = {}
    for side in "ab":
        score, samples = pl.col(f"score_{side}"), pl.col(f"samples_{side}")
        counted = samples - pl.col(f"missing_{side}") if null_policy == "legacy" else samples
        own = of_judges.drop_nulls(f"score_{side}").group_by("judge").agg((score * counted).sum() / counted.sum())
        means[f"own_mean_{side}"] = fmean(own.sort("judge")[f"score_{side}"])
    return means


def _with_missing(row: Row, both: pl.DataFrame) -> Row:
    """Return the row, without a verdict where the shares of scores that are missing differ between the sides.

    Args:
        row: A benchmark, or all.
        both: The scores that both sides were to get, judge by judge.
    """
    if row["question_set"] != OVERALL:
        both = both.filter(benchmark=row["question_set"])
    shares = {f"share_{side}": pl.col(f"missing_{side}") / pl.col(f"samples_{side}") for side in "ab"}
    both = both.with_columns(**shares)
    missing = both.group_by("benchmark", "question_id").agg(pl.sum("share_a", "share_b"))

    why = unequal_missing(
        missing["share_a"].to_list(),
        missing["share_b"].to_list(),
        n_scores=both.height,
        sides=("A's", "B's"),
        holds=(lambda at_worst: still_shown(both, row["verdict"] == "better", 1 - row["confidence"], at_worst=at_worst))
        if row["verdict"] in {"better", "worse"}
        else None,
    )
    return _withheld(row) | {"why_withheld": why} if why else row


def _withheld(row: Row) -> dict[str, Any]:
    return {**row, "verdict": "withheld", "equal": False}


def _facts(part: pl.DataFrame, asked_both: pl.Expr) -> dict[str, Any]:
    """Count the questions of a benchmark that are compared, and those that are left out."""
    has_a, has_b = pl.col("samples_a").is_not_null(), pl.col("samples_b").is_not_null()
    counts = part.select(
        only_a=(has_a & ~has_b).sum(),
        only_b=(has_b & ~has_a).sum(),
        without_score_a=(asked_both & pl.col("score_a").is_null()).sum(),
        without_score_b=(asked_both & pl.col("score_b").is_null()).sum(),
    ).row(0, named=True)
    common = part.drop_nulls(["score_a", "score_b"])
    judges = common["judges"].explode().drop_nulls().value_counts().sort("judges")
    named = common["category"].drop_nulls()
    return {
        **counts,
        **{
            f"{name}_{side}": int(common[f"{column}_{side}"].sum()) for name, column in _COUNTS.items() for side in "ab"
        },
        "judge_questions": dict(judges.iter_rows()),
        "n_asked": part.filter(asked_both).height,
        "n_categories": named.n_unique(),
        "over_categories": _over_categories(common) if named.n_unique() >= FEWEST_CATEGORIES else None,
    }


def _over_categories(common: pl.DataFrame) -> float | None:
    """Return how many times as wide the interval is when the questions' categories are a sample, too."""
    values = (common["score_a"] - common["score_b"]).to_list()
    clusters = (common["question_id"], common["category"].fill_null(""))
    estimates = [clustered_mean_interval(values, cluster.to_list()) for cluster in clusters]
    of_questions, of_categories = (found.interval.upper - found.interval.lower for found in estimates if found)
    return of_categories / of_questions if of_questions else None


def _summed(facts: Rows) -> dict[str, Any]:
    """Add up the facts of all benchmarks."""
    judges = sum((Counter(benchmark["judge_questions"]) for benchmark in facts), Counter[str]())
    kept = {"judge_questions": dict(judges), "n_categories": 0, "over_categories": None}
    kept |= {name: fmean(benchmark[name] for benchmark in facts) for name in ("own_mean_a", "own_mean_b")}
    return {name: kept[name] if name in kept else sum(benchmark[name] for benchmark in facts) for name in facts[0]}


# --- what is not the same --------------------------------------------------------------------------------------------


def _unlike(
    catalog: Catalog, side_a: Side, side_b: Side, *, benchmarks: Iterable[str], judges: Iterable[str], pipeline: str
) -> tuple[list[str], list[str]]:
    """Find how the scores of both sides were made differently.

    Returns:
        What allows no verdict, and what is remarkable: settings of the answers are part of what is compared.

    Raises:
        ConfigurationError: Those of the runs of one side were.
    """
    run_ids = [*side_a.run_ids, *side_b.run_ids]
    settings = read_settings(catalog, run_ids, benchmarks, judges, pipeline)
    for side in (side_a, side_b):
        if unlike := differences(settings, {tag: [run] for tag, run in zip(side.run_tags, side.run_ids, strict=True)}):
            raise ConfigurationError(
                f"the runs of {side.name} cannot be averaged: {unlike[0]}; name one run as {side.model}@@TAG"
            )
    # Only common questions count.
    found = find_differences(settings, {"A": side_a.run_ids, "B": side_b.run_ids}, ignored=QUESTIONS)
    reasons, remarks = (
        folded(difference for difference in found if difference[0].decides is decides) for decides in (True, False)
    )
    sources = {row["source"] for row in fetch(catalog, "runs", run_ids=run_ids)}
    if sources != {None}:  # our own judges without a prompt are rules
        unknown = not_recorded(settings, run_ids)
        (reasons if len(sources) > 1 else remarks).extend(unknown)
    return reasons, remarks


def _by_judge(sections: Rows) -> dict[str, list[Row]]:
    """Map each judge to its rows of question sets."""
    return {
        section["judges"][0]: [row for row in section["rows"] if row["question_set"] != OVERALL]
        for section in sections
        if len(section["judges"]) == 1
    }


def _compared(sections: Rows) -> set[str]:
    return {row["question_set"] for rows in _by_judge(sections).values() for row in rows}


def _other_questions(catalog: Catalog, cells: Rows, sections: Rows) -> list[str]:
    """Benchmarks of which both sides were asked other versions of the questions, or with other reference answers."""
    everything, found = _compared(sections), []
    asked = {
        side: {(row["benchmark"], row["question_set"]) for row in cells if row["is_a"] is side}
        for side in (True, False)
    }
    for benchmark in sorted({name for name, _ in asked[True]} & {name for name, _ in asked[False]}):
        first, second = ({of_it for name, of_it in asked[side] if name == benchmark} for side in (True, False))
        if not first & second and not (first | second) & everything:
            found.append(
                f"{benchmark}: A was asked {listed(first)}, B {listed(second)}, and is not compared "
                f"(--question-set {min(first | second)} compares the questions that both have of it)"
            )
    versions = [(name, of_a, of_b) for name, of_a in asked[True] for other, of_b in asked[False] if name == other]
    return found + changed_questions(catalog, sorted(versions))


def _incomplete(sections: Rows) -> list[str]:
    """Name judges that have not all compared question sets of both, or of one not nine tenths of its questions."""
    compared, by_judge = _compared(sections), _by_judge(sections)
    return [
        f"judge {judge} has only {', '.join(sorted(row['question_set'] for row in rows))} of both"
        for judge, rows in by_judge.items()
        if len(rows) < len(compared)
    ] + [
        f"judge {judge} scored both on {row['n']} of {row['n_asked']} questions of {row['question_set']}"
        for judge, rows in by_judge.items()
        for row in rows
        if row["n"] < (1 - _MOST_MISSING) * row["n_asked"]
    ]


def _nothing_in_common(sides: Sequence[Side], cells: Rows, request: ComparisonRequest) -> str:
    said, judges = [], []
    for side in sides:
        own = [row for row in cells if row["is_a"] is (side is sides[0])]
        judges.append({row["judge"] for row in own})
        if not own:
            passes = request.pipeline
            makes = f": `shaberi reprocess --passes {passes}` makes them" if passes != BASELINE else ""
            return f"{side.name} ({side.model}) has no scores under the passes {passes}{makes}"
        asked = {row["question_set"] for row in own}
        said.append(f"{side.name} has {listed(asked)} by {listed(judges[-1])}")
    of_a, of_b = judges
    alike, other = ({judge.partition("+")[0] for judge in alone} for alone in (of_a - of_b, of_b - of_a))
    if both := alike & other:
        hint = f"`shaberi link` measures whether scores of {listed(both)} with other prompts compare"
    elif of_a & of_b:
        hint = "their questions differ" if request.benchmarks == "all" else f"not both have {request.benchmarks}"
    else:
        hint = "both need the same judge (run-evals --judge-model), imported runs also a link (shaberi link)"
    return f"no question has a score of both by the same judge: {'; '.join(said)}; {hint}"


_BAR_WIDTH = 25
_MORE = "--notes: each judge's benchmarks, and how the numbers are made."


def comparison_result(report: ComparisonReport, *, brief: bool = False) -> Result:
    """Show a comparison: its result in plain words, a table for each judge, and notes on the numbers.

    Args:
        report: The comparison.
        brief: With a line for each judge and without notes, for a terminal.
    """
    notes, warnings = list(_notes(report)), [f"{warning}." for warning in report.warnings]
    sides, names = (report.a, report.b), names_of(report)
    where, command = _where_one_loses(report)
    whole = (
        block
        for section in report.sections
        for block in _section(names, section, is_first=section is report.sections[0])
    )
    said: list[Block] = [
        Sentences([report.caveat] if report.caveat else [], "warning"),
        Sentences([verdict(names, report.sections[0])], "verdict"),
        *(_briefly(report, names) if brief else whole),
        Sentences([" · ".join(map(side_title, sides)), *_dashes(report)], "note"),
        Sentences(warnings, "warning"),
        Sentences([*_audits(report), _MORE, where] if brief else notes, "note"),
        Sentences([command] if brief else [], "command"),
    ]
    document = {
        **{one.name.lower(): {"model": one.model, "run_tags": one.run_tags, "run_ids": one.run_ids} for one in sides},
        "comparable": report.comparable,
        "reasons": report.reasons,
        "caveat": report.caveat,
        "null_policy": report.request.null_policy,
        "pipeline": report.request.pipeline,
        "over": report.request.over,
        "comparisons": report.sections,
        "shared_replies": {
            row["benchmark"]: {name: row[name] for name in ("n_replies", "n_shared")} for row in report.shared_replies
        },
        "warnings": [*report.reasons, *report.warnings],
        "notes": notes,
    }
    return Result(said, list(_records(report)), document)


def _records(report: ComparisonReport) -> Iterator[Row]:
    """Make a line for each judge and benchmark; `judge` is empty for the mean over `n_judges` judges."""
    named = {
        "model_a": report.a.model,
        "tags_a": " ".join(report.a.run_tags),
        "model_b": report.b.model,
        "tags_b": " ".join(report.b.run_tags),
        "null_policy": report.request.null_policy,
        "pipeline": report.request.pipeline,
        "caveat": report.caveat,
    }
    for section in report.sections:
        judge = section["judges"][0] if len(section["judges"]) == 1 else ""
        for row in section["rows"]:
            counts = {"judge_questions": ", ".join(f"{name} {n}" for name, n in row["judge_questions"].items())}
            yield {"judge": judge, "n_judges": len(section["judges"]), **row, **counts, **named}


def _section(names: Sequence[str], section: Row, detail: str = "", *, is_first: bool = False) -> Iterator[Block]:
    yield Heading(section_title(section), detail)
    if not is_first:
        yield Sentences([verdict(names, section)])
    yield _table(names, section["rows"])
    yield Sentences(list(_reasons_withheld(section) if detail else _details(section)))


def _table(names: Sequence[str], rows: Rows, *first: Column) -> Table:
    reach = max((max(-row["lower"], row["upper"]) for row in rows if row["lower"] is not None), default=0.0)
    better = text("better", partial(row_verdict, names), folds=True, narrowest=13)
    bar = text("", partial(_bar, reach=reach), optional=True)
    return table_of(rows, [*(first or _FIRST), *_COLUMNS[:2], better, *_COLUMNS[2:], bar])


def _briefly(report: ComparisonReport, names: Sequence[str]) -> Iterator[Block]:
    """Show the benchmarks of the first section, and of each judge the last line."""
    first, *others = report.sections
    passes = "no passes" if report.request.pipeline == BASELINE else f"passes {report.request.pipeline}"
    yield from _section(names, first, f"{passes} · {MISSING[report.request.null_policy]}", is_first=True)
    if others:
        yield Heading("judge by judge", "over all benchmarks, each for itself")
        yield _table(names, [{**one["rows"][-1], "judge": one["judges"][0]} for one in others], text("judge"))


def _notes(report: ComparisonReport) -> Iterator[str]:
    """Explain the numbers, a sentence each."""
    request, sections = report.request, report.sections
    policy = f"Null policy {request.null_policy}: {POLICIES[request.null_policy]}."
    yield f"A - B is on the reported scale, over common questions (n). {policy} Pass pipeline: {request.pipeline}."
    levels = {row["confidence"] for section in sections for row in section["rows"]}
    wider = f", {100 * max(levels):.4g} % where Holm's adjustment needs it," if len(levels) > 1 else ""
    yield (
        f"CI and p: 95 %{wider} over {request.over}, of the paired sign-flip test, two-sided. "
        "Holm p: adjusted for all benchmarks."
    )
    yield "A pair is tested alone; a ranking adjusts overall CI and p for all its pairs."
    yield "MDE: the difference that would be seen with probability 0.8 at level 0.05."
    yield "No difference shown does not mean equal; equal within a margin does. Overall: mean of the benchmarks."
    if any(len(section["judges"]) > 1 for section in sections):
        yield "Means are over judges that scored both sides; intervals say nothing about other judges."
    for row in sections[0]["rows"]:
        if row["over_categories"] and request.over == "questions":
            yield categories_sentence(row["question_set"], row["n_categories"], row["over_categories"])
    for row in report.shared_replies:
        yield f"{shared_sentence(row)}: paid for once, they are no evidence of their own."
    yield from _audits(report)


def _where_one_loses(report: ComparisonReport) -> tuple[str, str]:
    """Name the side with the lower mean, and the command that shows where it loses."""
    asked, worse = report.request, (report.sections[0]["rows"][-1]["difference"] or 0) > 0
    named = {
        "model": (asked.b, asked.a) if worse else (asked.a, asked.b),
        "tag": [asked.tag] if asked.tag else [],
        "source": asked.sources,
        "filter": ["loses sort:difference"],
    }
    words = [word for name, values in named.items() for value in values for word in (f"--{name}", value)]
    passes = "" if asked.pipeline == BASELINE else " before passes"
    return f"Where {names_of(report)[worse]} loses{passes}:", shlex.join(["inspect-output", *words])


def _audits(report: ComparisonReport) -> Iterator[str]:
    for sentence in report.audits:
        yield f"{sentence}; errors alike on both sides make a difference smaller, and intervals leave them out."


def side_title(side: Side) -> str:
    """Name a side with its runs."""
    several = f"  (mean of {len(side.run_tags)} runs)" if len(side.run_tags) > 1 else ""
    return f"{side.name} = {side.model}  {', '.join(side.run_tags)}{several}"


def section_title(section: Row) -> str:
    """Name the judges of a section."""
    if len(section["judges"]) == 1:
        return f"judge {section['judges'][0]}"
    return f"mean of {len(section['judges'])} judges: {', '.join(section['judges'])}"


def _both(row: Row, name: str) -> int:
    return int(row[f"{name}_a"] + row[f"{name}_b"])


def names_of(report: ComparisonReport) -> tuple[str, str]:
    """Return what sentences call the sides: their models, with their tags where that is one model."""
    sides = (report.a, report.b)
    if report.a.model != report.b.model:
        return report.a.model, report.b.model
    tags = [one.run_tags[0].rstrip("0123456789") + "*" if one.run_tags[1:] else one.run_tags[0] for one in sides]
    return f"{report.a.model} {tags[0]}", f"{report.b.model} {tags[1]}"


def row_verdict(names: Sequence[str], row: Row) -> str:
    """Say in a few words which side is better on one benchmark."""
    within = f"within {row['margin']:g}" if row["equal"] else ""
    if row["verdict"] in {"better", "worse"}:
        better = names[row["verdict"] == "worse"]
        return f"{better}, {within}" if within else better
    words = {"tied": "no difference shown", "too few": "too few questions", "withheld": "no verdict"}
    return f"equal {within}" if within and row["verdict"] == "tied" else words[row["verdict"]]


_FIRST = [text("question set")]
_COLUMNS = [
    number("A - B", "difference", form="difference"),
    number("CI", ends="", form="difference"),
    number("A", "mean_a", upper="mean_upper_a", form="score"),
    number("B", "mean_b", upper="mean_upper_b", form="score"),
    number("n", form="{}"),
    number("p", "p_value", form="p", spare=True),
    number(
        "Holm p",
        lambda row: p_value(row["adjusted_p_value"]) if row["question_set"] != OVERALL else "",
        where=lambda rows: any(row["question_set"] != OVERALL for row in rows),
        spare=True,
    ),
    number("MDE", "minimum_detectable_effect", form="score", spare=True),
    number(
        ("unde-", "cided"),
        lambda row: whole_percent(_both(row, "n_undecided") / _both(row, "n_samples")),
        where=lambda rows: any(_both(row, "n_undecided") for row in rows),
        spare=True,
    ),
]


def _dashes(report: ComparisonReport) -> Iterator[str]:
    """Say why intervals and detectable differences are not known, where some are not."""
    rows = [row for section in report.sections for row in section["rows"]]
    if any(row["lower"] is None for row in rows):
        yield "CI -: all scores are equal, or there are too few questions for the test."
    if any(row["minimum_detectable_effect"] is None for row in rows):
        yield "MDE -: too few questions, equal differences, or beyond the scale."


def verdict(names: Sequence[str], section: Row) -> str:
    """Say in plain words what the last row of a section shows.

    Args:
        names: Of A and B, from `names_of`.
        section: The rows of some judges.
    """
    row = section["rows"][-1]
    where, questions = _where(row), counted(row["n"], "question")
    if row["verdict"] in {"better", "worse"}:
        sign = 1 if row["verdict"] == "better" else -1
        better, worse = names[::sign]
        ends = sorted((sign * row["lower"], sign * row["upper"]))
        small = f": less than {row['margin']:g}" if row["equal"] else ""
        interval = f"{100 * row['confidence']:.4g} % CI {decimals(ends[0])} to {decimals(ends[1])}"
        by = f"{decimals(abs(row['difference']))} ({interval})"
        return f"{better} is better than {worse} {where}, by {by} over {questions}{small}."
    between_them = f"between {names[0]} and {names[1]} {where}"
    if row["verdict"] == "withheld":
        return f"No verdict {between_them}: the difference is {signed(row['difference'])} over {questions}."
    if row["verdict"] == "too few":
        return f"Too few questions: {questions} cannot show a difference {between_them}."
    return _no_difference(row, names, where, questions)


def _no_difference(row: Row, names: Sequence[str], where: str, questions: str) -> str:
    between_them = f"between {names[0]} and {names[1]} {where}"
    if row["equal"]:
        return f"{names[0]} and {names[1]} are equal {where} within {row['margin']:g}, over {questions}."
    if row["lower"] is None:
        return f"No difference {between_them}: the scores of all {questions} are the same."
    if (least := row["minimum_detectable_effect"]) is None:
        return f"No difference shown {between_them}: {questions} cannot tell what was missed."
    missed = f"a difference below {decimals(least)} could easily have been missed"
    return f"No difference shown {between_them}: {missed} with {questions}."


def _where(row: Row) -> str:
    return "overall" if row["question_set"] == OVERALL else f"on {row['question_set']}"


def _reasons_withheld(section: Row) -> Iterator[str]:
    for row in section["rows"]:
        if row["why_withheld"]:
            yield f"No verdict {_where(row)}: {row['why_withheld']}."


def _details(section: Row) -> Iterator[str]:
    """Say for each benchmark why there is no verdict, which scores count and which do not."""
    yield from _reasons_withheld(section)
    for row in section["rows"]:
        name, of_means = row["question_set"], row["own_mean_a"] - row["own_mean_b"]
        if differs_after_rounding(row["difference"], of_means):
            yield (
                f"{'Overall' if name == OVERALL else name}: A - B is over what both have; the means of all that each "
                f"has are {decimals(row['own_mean_a'])} and {decimals(row['own_mean_b'])} ({signed(of_means)})."
            )
        if name == OVERALL:
            continue
        if left_out := _counts(row, only_="only {} has", without_score_="without a score of {}"):
            yield f"Left out of {name}: {left_out}."
        if outside := _counts(row, out_of_scale_="of {}"):
            yield f"Scores outside of the scale of {name}, which count as they are: {outside}."
        if len(section["judges"]) > 1 and set(row["judge_questions"].values()) != {row["n"]}:
            parts = ", ".join(f"{judge} {n}" for judge, n in row["judge_questions"].items())
            yield f"Questions of {name} with both scores, of {row['n']}: {parts}."


def _counts(row: Row, **labels: str) -> str:
    """Say how many there are of each side by the beginning of a count's name."""
    counts = [(row[f"{name}{side}"], label.format(side.upper())) for name, label in labels.items() for side in "ab"]
    return ", ".join(f"{count} {label}" for count, label in counts if count)


def _bar(row: Row, reach: float) -> str:
    """Draw the interval around zero, in ASCII: box characters are two columns wide in Japanese terminals."""
    if row["lower"] is None or not reach:
        return ""
    values = (row["lower"], row["difference"], row["upper"], 0)
    lower, middle, upper, zero = (round((value / reach + 1) / 2 * (_BAR_WIDTH - 1)) for value in values)
    bar = ["-" if lower <= place <= upper else " " for place in range(_BAR_WIDTH)]
    bar[zero], bar[middle] = "|", "o"
    return "".join(bar)
