"""Two models or runs over the questions that both were asked, judge by judge."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import fmean
from typing import Any

import duckdb
import polars as pl

from shaberi_dagster.benchmarks.registry import BENCHMARKS, RULE, parse_benchmarks
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.reports.audited import rule_sentences
from shaberi_dagster.reports.figures import counted, signed
from shaberi_dagster.reports.linked import UsedLink, find_links
from shaberi_dagster.reports.named_queries import known_names
from shaberi_dagster.reports.reading import Scales, benchmarks_in, check_passes, reported_scales, scale_rows
from shaberi_dagster.reports.report import Row
from shaberi_dagster.reports.requests import BASELINE, OVER, POLICIES, ComparisonRequest, check_choice
from shaberi_dagster.reports.reuse import reuse_remarks
from shaberi_dagster.reports.score_settings import (
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
from shaberi_dagster.reports.ties import still_shown, unequal_missing
from shaberi_dagster.reports.undecided import cannot_tell
from shaberi_dagster.statistics.comparison import OVERALL, Difference
from shaberi_dagster.statistics.comparison import compare as compare_scores
from shaberi_dagster.statistics.intervals import clustered_mean_interval, within
from shaberi_dagster.util.identity import FURTHER_ANSWERS, NUMBERED
from shaberi_dagster.util.names import check_known, did_you_mean

_MOST_MISSING = 0.1
_STATISTICS = tuple(field.name for field in fields(Difference) if field.name not in {"benchmark", "interval"})
_COUNTS = {"out_of_scale": "out_of_scale", "n_undecided": "undecided", "n_samples": "samples"}
_MARGIN = 0.02  # of the highest score: 0.2 of ten, 2 points of accuracy


@dataclass(frozen=True)
class Side:
    """A side of a comparison.

    Attributes:
        name: A, B, …
        model: Its model.
        run_tags: Its runs, in order of their numbers; several are averaged per question.
        run_ids: Their identities.
    """

    name: str
    model: str
    run_tags: tuple[str, ...]
    run_ids: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """The comparison by one judge, or by the mean of several.

    Attributes:
        judges: One judge; several for their mean, which on each question is over those that scored both sides.
        rows: The benchmarks, and overall at the end if they are several. Each has the fields of `Difference` (its
            benchmark as question_set, its interval as lower and upper) and what counts: questions that only A or only
            B was asked (only_a, only_b), common ones without_score of a side, scores out_of_scale on compared ones
            (they count as they are), judge_questions (on how many of these each judge scored both), n_asked of both,
            n_categories, over_categories (how many times as wide the interval is when categories are sampled, too;
            None below ten), own_mean of each side over all that it has, as a leaderboard shows it, mean_upper of each
            side over what rules decided on both (or None), n_undecided of its n_samples, and why_withheld: why missing
            or undecided scores allow no verdict, or nothing.
    """

    judges: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def is_of_one(self) -> bool:
        """True if it is by one judge."""
        return len(self.judges) == 1


@dataclass(frozen=True)
class ComparisonReport:
    """The differences between A and B.

    Attributes:
        request: What was asked.
        a: One side.
        b: The other.
        sections: The mean of the judges first, if there are several.
        shared_replies: By benchmark, how many replies (answers and judgements) the compared runs rest on, and how many
            of them are the reply to another one's call; only benchmarks that have such.
        warnings: What is not the same on both sides.
        reasons: Why A and B do not compare: their scores were made by other questions, judges or passes.
        audits: How often rules were wrong that graded both.
    """

    request: ComparisonRequest
    a: Side
    b: Side
    sections: tuple[Section, ...]
    shared_replies: Mapping[str, tuple[int, int]]
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
            {"judge": section.judges[0] if len(section.judges) == 1 else None, "benchmark": row["question_set"]}
            | {name: row[name] for name in (*_STATISTICS, "lower", "upper", "why_withheld")}
            | {"caveat": self.caveat}
            for section in self.sections
            for row in section.rows
        ]
        return pl.DataFrame(rows, infer_schema_length=None)


def compare(catalog: duckdb.DuckDBPyConnection, request: ComparisonRequest) -> ComparisonReport:
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
    runs = read_runs(catalog)
    if request.sources:
        check_known("source", request.sources, known_names(catalog, "source"), where="--source")
        runs = [run for run in runs if run["source"] in request.sources]
    a, b = (find_side(runs, name, text, request.tag) for name, text in (("A", request.a), ("B", request.b)))
    if set(a.run_ids) & set(b.run_ids):
        raise ConfigurationError(f"A and B are the same: {a.run_ids[0]}")
    _check_question_sets(catalog, request.question_sets)
    if request.judges:
        check_known("judge", request.judges, known_names(catalog, "judge"), where="--judge")
    scales = reported_scales(benchmarks_in(catalog))
    scores = _paired_scores(catalog, a, b, request, benchmarks=benchmarks)
    sections = _sections(scores, request, scales)
    links: list[UsedLink] = []
    if not sections and (links := find_links(catalog, {"A": a.run_ids, "B": b.run_ids}, request.judges)):
        scores = _paired_scores(catalog, a, b, request, benchmarks=benchmarks, links=links)
        sections = tuple(_across(links, section) for section in _sections(scores, request, scales) if section.is_of_one)
    if not sections:
        check_passes(request.pipeline)
        raise ConfigurationError(_nothing_in_common(catalog, (a, b), request))
    names = set(scores["benchmark_name"].to_list())
    judges = {judge for section in sections for judge in section.judges} - {link.judge for link in links}
    of_rules = pl.col("judge").str.starts_with(RULE)
    reasons, remarks = _unlike(catalog, a, b, benchmarks=names, judges=judges, pipeline=request.pipeline)
    reasons += [*_other_questions(catalog, a, b, sections, request), *(why for link in links for why in link.reasons)]
    remarks = [
        *(link.remark for link in links),
        *remarks,
        *(said.removesuffix(".") for said in reuse_remarks(catalog, [*a.run_ids, *b.run_ids])),
    ]
    if reasons and not request.anyway:
        sections = tuple(map(_without_verdict, sections))
    return ComparisonReport(
        request,
        a,
        b,
        sections,
        _shared_replies(catalog, a, b, names, judges),
        (*remarks, *_left_out(sections), *_missing(sections)),
        tuple(reasons),
        tuple(rule_sentences(catalog, scores.filter(of_rules)["benchmark_name"].unique().sort().to_list())),
    )


# --- what is compared ------------------------------------------------------------------------------------------------


def read_runs(catalog: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """The runs that have scores: run_id, model, run_tag, base_tag, run_number, import_tag, source."""
    return fetch(catalog, "compared_runs")


def find_side(runs: Sequence[Mapping[str, Any]], name: str, text: str, tag: str | None) -> Side:
    """The runs that a model, a run or a base tag stands for.

    Args:
        runs: From `read_runs`.
        name: What to call the side.
        text: A model, MODEL@@TAG or a run id.
        tag: For a model by its name only; None where it has one run. The tag of an import stands for all its trees.

    Raises:
        ConfigurationError: There is no such run, or several could be meant.
    """
    model, _, own_tag = text.rpartition("@@")
    if not any(run["model"] == text for run in runs) and model:
        tag = own_tag
        known = [run for run in runs if model in {run["model"], run["run_id"].rpartition("@@")[0]}]
    else:
        model = text
        known = [run for run in runs if run["model"] == text]
    if not known:
        scored = {run["model"] for run in runs} | {run["run_id"] for run in runs}
        raise ConfigurationError(f"no scores of model {model!r}; {did_you_mean(model, scored, 'there are those of')}")
    tags = ", ".join(sorted({run["run_tag"] for run in known}))
    if tag is None:
        tag, *others = {run["base_tag"] for run in known}
        if others:
            raise ConfigurationError(f"{model} has several runs: name one as {model}@@TAG, or give --tag; tags: {tags}")
    exact = [run for run in known if run["run_tag"] == tag]
    # A run without a number is no part of the multi-run that was made under the same tag.
    of_base = [run for run in known if run["base_tag"] == tag.removesuffix(NUMBERED)]
    numbered = [run for run in of_base if run["run_number"] is not None]
    imported = [run for run in known if run.get("import_tag") == tag]
    # Further answers in the same tree are named by their own tags.
    imported = [run for run in imported if not re.search(FURTHER_ANSWERS, run["run_tag"])] or imported
    if len({run["run_id"] for run in imported}) > 1 and not (exact and tag is own_tag):
        matching = ", ".join(f"{model}@@{run['run_tag']}" for run in imported)
        raise ConfigurationError(
            f"{model} was imported under the tag {tag!r} from several trees: name one of {matching}, or give --source"
        )
    found = exact or imported or numbered
    if not found:
        meant = did_you_mean(tag, tags.split(", "), "tags:")
        raise ConfigurationError(f"{model} has no scored run with tag {tag!r}; {meant}")
    return Side(name, found[0]["model"], tuple(run["run_tag"] for run in found), tuple(run["run_id"] for run in found))


def _paired_scores(
    catalog: duckdb.DuckDBPyConnection,
    a: Side,
    b: Side,
    request: ComparisonRequest,
    *,
    benchmarks: Sequence[str] | None,
    links: Sequence[UsedLink] = (),
) -> pl.DataFrame:
    """Read a row for each judge (null: the mean over judges), question set and question that one of them has."""
    rows = fetch(
        catalog,
        "paired_scores",
        first=list(a.run_ids),
        run_ids=[*a.run_ids, *b.run_ids],
        order=[*BENCHMARKS],
        scales=scale_rows(catalog),
        judges=[*request.judges, *(link.judge for link in links)] if request.judges else None,
        linked_judges=[link.linked_judge for link in links] or [""],
        judged_as=[link.judge for link in links] or [""],
        benchmarks=benchmarks,
        pipeline=request.pipeline,
        null_policy=request.null_policy,
        question_sets=list(request.question_sets),
    )
    names = ("judge", "benchmark", "benchmark_name", "question_id", "category")
    schema: dict[str, pl.DataType] = dict.fromkeys(names, pl.String())
    schema |= dict.fromkeys(("score_a", "score_b", "decided_a", "decided_b"), pl.Float64())
    counts = ("samples", "missing", "undecided", "out_of_scale")
    schema |= dict.fromkeys((f"{name}_{side}" for name in counts for side in "ab"), pl.Int64())
    return pl.DataFrame(rows, schema=schema | {"judges": pl.List(pl.String())})


def _sections(scores: pl.DataFrame, request: ComparisonRequest, scales: Scales) -> tuple[Section, ...]:
    parts = {part["judge"][0]: part for part in scores.partition_by("judge", maintain_order=True)}
    judges = tuple(judge for judge in parts if judge is not None)
    if len(judges) == 1:
        parts.pop(None)
    sections = []
    for judge, part in parts.items():
        of_judges = scores.filter(pl.col("judge").is_in(judges) if judge is None else pl.col("judge") == judge)
        rows = _rows(part, of_judges, request, scales)
        sections += [Section((judge,) if judge is not None else judges, rows)] if rows else []
    return tuple(sections)


def _rows(scores: pl.DataFrame, of_judges: pl.DataFrame, request: ComparisonRequest, scales: Scales) -> tuple[Row, ...]:
    """Compare benchmark by benchmark, at both ends of scores; a verdict that does not hold at both is withheld."""
    lower = _rows_at_one_end(scores, of_judges, request, scales)
    if not of_judges.select(pl.sum("undecided_a", "undecided_b")).sum_horizontal().item():
        return tuple({**row, "mean_upper_a": row["mean_a"], "mean_upper_b": row["mean_b"]} for row in lower)
    decided = _rows_at_one_end(_decided(scores), _decided(of_judges), request, scales)
    upper = {row["question_set"]: row for row in decided}
    return tuple(_at_both_ends(row, upper.get(row["question_set"])) for row in lower)


def _decided(scores: pl.DataFrame) -> pl.DataFrame:
    """Return the scores without what a rule could not decide: such a question leaves both sides."""
    is_undecided = (pl.col(f"score_{side}").is_not_null() & pl.col(f"decided_{side}").is_null() for side in "ab")
    return scores.filter(~pl.any_horizontal(is_undecided)).with_columns(score_a="decided_a", score_b="decided_b")


def _at_both_ends(lower: Row, upper: Row | None) -> Row:
    row = {**lower, **{f"mean_upper_{side}": upper[f"mean_{side}"] if upper else None for side in "ab"}}
    if upper and (upper["verdict"], upper["equal"]) == (lower["verdict"], lower["equal"]):
        return row
    n_undecided, n_samples = (lower[f"{name}_a"] + lower[f"{name}_b"] for name in ("n_undecided", "n_samples"))
    if lower["verdict"] == "withheld" or not n_undecided:
        return row
    why = cannot_tell(n_undecided, n_samples)
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
            _refuse_missing(
                name, [int(count) for count in part.filter(asked_both).select("missing_a", "missing_b").sum().row(0)]
            )
    common = scores.drop_nulls(["score_a", "score_b"])
    if common.is_empty():
        return ()
    if request.over == "categories":
        enough = pl.col("category").n_unique().over("benchmark") >= FEWEST_CATEGORIES
        cluster = pl.when(enough).then(pl.coalesce("category", pl.lit(""))).otherwise("question_id")
        scores, of_judges = (frame.with_columns(cluster=cluster) for frame in (scores, of_judges))
    margins = {
        name: request.margin or _MARGIN * scales.get(part["benchmark_name"][0], (0, 10))[1]
        for name, part in parts.items()
    }
    comparison = compare_scores(scores, margins)
    facts = {
        name: _facts(part, asked_both) | _own_means(of_judges.filter(benchmark=name), request.null_policy)
        for name, part in parts.items()
        if name in {row.benchmark for row in comparison.benchmarks}
    }
    widths = {name: _width(scales.get(part["benchmark_name"][0])) for name, part in parts.items()}
    rows = [_row(one, facts[one.benchmark], widths[one.benchmark]) for one in comparison.benchmarks]
    if comparison.overall:
        rows.append(_row(comparison.overall, _summed(list(facts.values())), fmean(widths[name] for name in facts)))
    if request.null_policy == "legacy":
        both = of_judges.filter(asked_both, pl.col("benchmark").is_in(list(facts)))
        rows = [_with_missing(row, both) for row in rows]
    return tuple(rows)


def _across(links: Sequence[UsedLink], section: Section) -> Section:
    """Return the comparison by a judge of which one side has new scores."""
    (judge,) = section.judges
    link = next((link for link in links if link.judge == judge), None)
    return replace(section, rows=link.applied(section.rows)) if link else section


def _width(scale: tuple[float, float] | None) -> float:
    return scale[1] - scale[0] if scale else math.inf


def _row(difference: Difference, facts: Row, width: float) -> Row:
    statistics = {name: getattr(difference, name) for name in _STATISTICS}
    least = statistics["minimum_detectable_effect"]
    statistics["minimum_detectable_effect"] = least if least is None or least <= width else None
    ends = difference.interval and within(difference.interval, width)
    interval = {"lower": ends and ends.lower, "upper": ends and ends.upper}
    return {"question_set": difference.benchmark} | statistics | interval | dict(facts) | {"why_withheld": ""}


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
    both = both.with_columns(
        (pl.col(f"missing_{side}") / pl.col(f"samples_{side}")).alias(f"share_{side}") for side in "ab"
    )
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


def _without_verdict(section: Section) -> Section:
    return replace(section, rows=tuple(map(_withheld, section.rows)))


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
    ends = [
        estimate.interval.upper - estimate.interval.lower
        for clusters in (common["question_id"], common["category"].fill_null(""))
        if (estimate := clustered_mean_interval(values, clusters.to_list()))
    ]
    return ends[1] / ends[0] if ends[0] else None


def _summed(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up the facts of all benchmarks."""
    judges: dict[str, int] = {}
    for benchmark in facts:
        for judge, n in benchmark["judge_questions"].items():
            judges[judge] = judges.get(judge, 0) + n
    kept = {"judge_questions": judges, "n_categories": 0, "over_categories": None}
    kept |= {name: fmean(benchmark[name] for benchmark in facts) for name in ("own_mean_a", "own_mean_b")}
    return {name: kept[name] if name in kept else sum(benchmark[name] for benchmark in facts) for name in facts[0]}


def _refuse_missing(name: str, missing: Sequence[int]) -> None:
    if any(missing):
        raise ConfigurationError(
            f"strict: on common questions of {name}, {missing[0]} scores of A and {missing[1]} of B are missing; "
            "choose --null-policy legacy or zero, or finish the runs"
        )


# --- what is not the same --------------------------------------------------------------------------------------------


def _check_question_sets(catalog: duckdb.DuckDBPyConnection, question_sets: Sequence[str]) -> None:
    if not question_sets:
        return
    known = {row["question_set"]: row["benchmark"] for row in fetch(catalog, "question_sets")}
    check_known("question set", question_sets, known, where="--question-set")
    chosen = [known[name] for name in question_sets]
    if len(set(chosen)) < len(chosen):
        raise ConfigurationError("--question-set: one set per benchmark")


def _unlike(
    catalog: duckdb.DuckDBPyConnection,
    side_a: Side,
    side_b: Side,
    *,
    benchmarks: Iterable[str],
    judges: Iterable[str],
    pipeline: str,
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
        folded(difference for difference in found if difference.setting.decides is decides) for decides in (True, False)
    )
    sources = {row["source"] for row in fetch(catalog, "run_specs", run_ids=run_ids)}
    if sources != {None}:  # our own judges without a prompt are rules
        unknown = not_recorded(settings, run_ids)
        (reasons if len(sources) > 1 else remarks).extend(unknown)
    return reasons, remarks


def _compared(sections: Sequence[Section]) -> dict[str, set[str]]:
    """The compared question sets of each judge."""
    return {
        section.judges[0]: {row["question_set"] for row in section.rows if row["question_set"] != OVERALL}
        for section in sections
        if len(section.judges) == 1
    }


def _left_out(sections: Sequence[Section]) -> list[str]:
    """Judges that have only a part of the compared question sets of both."""
    compared = _compared(sections)
    everything = set().union(*compared.values())
    return [
        f"judge {judge} has only {', '.join(sorted(sets))} of both"
        for judge, sets in compared.items()
        if sets < everything
    ]


def _other_questions(
    catalog: duckdb.DuckDBPyConnection,
    side_a: Side,
    side_b: Side,
    sections: Sequence[Section],
    request: ComparisonRequest,
) -> list[str]:
    """Benchmarks of which both sides were asked other versions of the questions, or with other reference answers."""
    everything = set().union(*_compared(sections).values())
    cells = _cells(catalog, side_a, side_b, request.pipeline)
    found = []
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


def _missing(sections: Sequence[Section]) -> Iterator[str]:
    """Judges that have no score of both on more than a tenth of the questions that both were asked."""
    for section in sections:
        for row in section.rows:
            name = row["question_set"]
            if len(section.judges) > 1 or name == OVERALL:
                continue
            n = row["n"]
            if n < (1 - _MOST_MISSING) * row["n_asked"]:
                yield f"judge {section.judges[0]} scored both on {n} of {row['n_asked']} questions of {name}"


def _shared_replies(
    catalog: duckdb.DuckDBPyConnection, a: Side, b: Side, benchmarks: Iterable[str], judges: Iterable[str]
) -> dict[str, tuple[int, int]]:
    found = fetch(catalog, "shared_replies", run_ids=[*a.run_ids, *b.run_ids], judges=list(judges))
    return {
        row["benchmark"]: (row["n_replies"], row["n_shared"])
        for row in found
        if row["n_shared"] and row["benchmark"] in benchmarks
    }


def _nothing_in_common(catalog: duckdb.DuckDBPyConnection, sides: Sequence[Side], request: ComparisonRequest) -> str:
    first, second = sides
    cells = _cells(catalog, first, second, request.pipeline)
    said, judges = [], []
    for side in sides:
        own = [row for row in cells if row["is_a"] is (side is first)]
        judges.append({row["judge"] for row in own})
        if not own:
            passes = request.pipeline
            makes = f": `shaberi reprocess --passes {passes}` makes them" if passes != BASELINE else ""
            return f"{side.name} ({side.model}) has no scores under the passes {passes}{makes}"
        asked = {row["question_set"] for row in own}
        said.append(f"{side.name} has {listed(sorted(asked))} by {listed(sorted(judges[-1]))}")
    of_a, of_b = judges
    alike, other = ({judge.partition("+")[0] for judge in alone} for alone in (of_a - of_b, of_b - of_a))
    if both := alike & other:
        hint = f"`shaberi link` measures whether scores of {listed(sorted(both))} with other prompts compare"
    elif of_a & of_b:
        hint = "their questions differ" if request.benchmarks == "all" else f"not both have {request.benchmarks}"
    else:
        hint = "a judge of one that judges the other, too (run-evals --judge-model), would make them compare"
    return f"no question has a score of both by the same judge: {'; '.join(said)}; {hint}"


def _cells(catalog: duckdb.DuckDBPyConnection, side_a: Side, side_b: Side, pipeline: str) -> list[dict[str, Any]]:
    run_ids = [*side_a.run_ids, *side_b.run_ids]
    return fetch(catalog, "scored_sets", first=list(side_a.run_ids), run_ids=run_ids, pipeline=pipeline)
