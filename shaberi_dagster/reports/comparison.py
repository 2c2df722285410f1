"""Two models or runs over the questions that both were asked, judge by judge."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import duckdb
import polars as pl

from shaberi_dagster.benchmarks.registry import BENCHMARKS, parse_benchmarks
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.reports.named_queries import known_names
from shaberi_dagster.reports.reading import Scales, benchmarks_in, check_passes, fetch, reported_scales
from shaberi_dagster.reports.requests import OVER, POLICIES, ComparisonRequest, check_choice
from shaberi_dagster.reports.sameness import (
    QUESTIONS,
    changed_questions,
    differences,
    find_differences,
    folded,
    listed,
    not_recorded,
    read_settings,
)
from shaberi_dagster.reports.uncertainty import FEWEST_CATEGORIES, unequal_missing
from shaberi_dagster.statistics.comparison import OVERALL, Difference
from shaberi_dagster.statistics.comparison import compare as compare_scores
from shaberi_dagster.statistics.intervals import clustered_mean_interval
from shaberi_dagster.util.identity import FURTHER_ANSWERS
from shaberi_dagster.util.names import check_known, did_you_mean

_MOST_MISSING = 0.1
_MARGIN = 0.02  # of the highest score: 0.2 of ten, 2 points of accuracy


@dataclass(frozen=True)
class Side:
    """What stands on one side of a comparison.

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
class ComparisonRow:
    """One benchmark, or the mean of them.

    Attributes:
        difference: The statistics.
        only_a: Questions that only A was asked, or judged on.
        only_b: Questions that only B was.
        without_score_a: Questions of both that have no score of A.
        without_score_b: Questions of both that have no score of B.
        out_of_scale_a: Scores of A on the compared questions that are outside of the scale; they count as they are.
        out_of_scale_b: Those of B.
        judge_questions: On how many of the compared questions each judge scored both.
        n_asked: Questions that both were asked.
        n_categories: Categories of the compared questions; 0 where they have none.
        over_categories: How many times as wide the interval is when categories are sampled, too; None below ten.
        own_mean_a: The mean of A by these judges over all that it has, as a leaderboard shows it.
        own_mean_b: That of B.
        why_withheld: Why what is missing allows no verdict; empty where it does.
    """

    difference: Difference
    only_a: int
    only_b: int
    without_score_a: int
    without_score_b: int
    out_of_scale_a: int
    out_of_scale_b: int
    judge_questions: Mapping[str, int]
    n_asked: int
    n_categories: int
    over_categories: float | None
    own_mean_a: float
    own_mean_b: float
    why_withheld: str = ""

    @property
    def of_means(self) -> float:
        """The difference of the two means, each over all that its side has."""
        return self.own_mean_a - self.own_mean_b


@dataclass(frozen=True)
class Section:
    """The comparison by one judge, or by the mean of several.

    Attributes:
        judges: One judge; several for their mean, which on each question is over those that scored both sides.
        rows: The benchmarks, and overall at the end if they are several.
    """

    judges: tuple[str, ...]
    rows: tuple[ComparisonRow, ...]


@dataclass(frozen=True)
class ComparisonReport:
    """How A and B differ.

    Attributes:
        request: What was asked.
        a: One side.
        b: The other.
        sections: The mean of the judges first, if there are several.
        shared_replies: By benchmark, how many replies (answers and judgements) the compared runs rest on, and how many
            of them are the reply to another one's call; only benchmarks that have such.
        warnings: What is not the same on both sides.
        reasons: Why A and B do not compare: their scores were made by other questions, judges or passes.
    """

    request: ComparisonRequest
    a: Side
    b: Side
    sections: tuple[Section, ...]
    shared_replies: Mapping[str, tuple[int, int]]
    warnings: tuple[str, ...]
    reasons: tuple[str, ...] = ()

    @property
    def comparable(self) -> bool:
        """Whether both sides were asked and judged alike."""
        return not self.reasons

    @property
    def caveat(self) -> str:
        """What stands before everything where they were not, a verdict that is given `anyway` included."""
        if self.comparable:
            return ""
        given = "The verdict is given anyway" if self.request.anyway else "No verdict is given (--anyway gives it)"
        return f"A and B were not asked and judged alike: {'; '.join(self.reasons)}. {given}."

    @property
    def frame(self) -> pl.DataFrame:
        """One row per judge (null: their mean) and benchmark: judge, benchmark, the fields of `Difference`, caveats."""
        rows = [
            {"judge": section.judges[0] if len(section.judges) == 1 else None}
            | {name: value for name, value in vars(row.difference).items() if name != "interval"}
            | {"lower": one and one.lower, "upper": one and one.upper}
            | {"why_withheld": row.why_withheld, "caveat": self.caveat}
            for section in self.sections
            for row in section.rows
            for one in [row.difference.interval]
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
        benchmarks = [one.name for one in parse_benchmarks(request.benchmarks, benchmarks_in(catalog))]
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
    scores = _paired_scores(catalog, a, b, request, benchmarks=benchmarks, scales=scales)
    sections = _sections(scores, request, scales)
    if not sections:
        check_passes(request.pipeline)
        raise ConfigurationError(_nothing_in_common(catalog, a, b, request.pipeline))
    names = set(scores["benchmark_name"].to_list())
    judges = {judge for section in sections for judge in section.judges}
    reasons, remarks = _unlike(catalog, a, b, benchmarks=names, judges=judges, pipeline=request.pipeline)
    reasons += _other_questions(catalog, a, b, sections, request)
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
    exact = [run for run in known if run["run_tag"] == tag]
    # A run without a number is no part of the multi-run that was made under the same tag.
    numbered = [run for run in known if run["base_tag"] == tag and run["run_number"] is not None]
    if tag is None:
        bases = {run["base_tag"] for run in known}
        if len(bases) > 1:
            raise ConfigurationError(f"{model} has several runs: name one as {model}@@TAG, or give --tag; tags: {tags}")
        numbered = [run for run in known if run["run_number"] is not None]
        exact = known
    imported = [run for run in known if tag is not None and run.get("import_tag") == tag]
    # Further answers in the same tree are named by their own tags.
    imported = [run for run in imported if not re.search(FURTHER_ANSWERS, run["run_tag"])] or imported
    if len({run["run_id"] for run in imported}) > 1 and not (exact and tag is own_tag):
        matching = ", ".join(f"{model}@@{run['run_tag']}" for run in imported)
        raise ConfigurationError(
            f"{model} was imported under the tag {tag!r} from several trees: name one of {matching}, or give --source"
        )
    found = numbered or exact or imported
    if not found:
        meant = did_you_mean(tag or "", tags.split(", "), "tags:")
        raise ConfigurationError(f"{model} has no scored run with tag {tag!r}; {meant}")
    return Side(name, found[0]["model"], tuple(run["run_tag"] for run in found), tuple(run["run_id"] for run in found))


def _paired_scores(
    catalog: duckdb.DuckDBPyConnection,
    a: Side,
    b: Side,
    request: ComparisonRequest,
    *,
    benchmarks: Sequence[str] | None,
    scales: Scales,
) -> pl.DataFrame:
    """One row per judge (null: the mean over judges), question set and question that one of them has."""
    rows = fetch(
        catalog,
        "paired_scores",
        first=list(a.run_ids),
        run_ids=[*a.run_ids, *b.run_ids],
        order=[*BENCHMARKS],
        scales=[{"benchmark": name, "minimum": low, "maximum": high} for name, (low, high) in scales.items()],
        judges=list(request.judges) or None,
        benchmarks=benchmarks,
        pipeline=request.pipeline,
        null_policy=request.null_policy,
        question_sets=list(request.question_sets),
    )
    names = ("judge", "benchmark", "benchmark_name", "question_id", "category")
    schema: dict[str, pl.DataType] = dict.fromkeys(names, pl.String())
    schema |= dict.fromkeys(("score_a", "score_b"), pl.Float64())
    counts = ("samples", "missing", "out_of_scale")
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


def _rows(
    scores: pl.DataFrame, of_judges: pl.DataFrame, request: ComparisonRequest, scales: Scales
) -> tuple[ComparisonRow, ...]:
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
    rows = [ComparisonRow(row, **facts[row.benchmark]) for row in comparison.benchmarks]
    if comparison.overall:
        rows.append(ComparisonRow(comparison.overall, **_summed(list(facts.values()))))
    if request.null_policy == "legacy":
        both = of_judges.filter(asked_both, pl.col("benchmark").is_in(list(facts)))
        rows = [_with_missing(row, both) for row in rows]
    return tuple(rows)


def _own_means(of_judges: pl.DataFrame, null_policy: str) -> dict[str, float]:
    """The mean over judges of the mean of all samples that a side has."""
    means = {}
    for side in "ab":
        score, samples = pl.col(f"score_{side}"), pl.col(f"samples_{side}")
        counted = samples - pl.col(f"missing_{side}") if null_policy == "legacy" else samples
        own = of_judges.drop_nulls(f"score_{side}").group_by("judge").agg((score * counted).sum() / counted.sum())
        means[f"own_mean_{side}"] = fmean(own.sort("judge")[f"score_{side}"])
    return means


def _with_missing(row: ComparisonRow, both: pl.DataFrame) -> ComparisonRow:
    """The row without a verdict where the shares of scores that are missing differ between the sides.

    Args:
        row: A benchmark, or all.
        both: The scores that both sides were to get, judge by judge.
    """
    if row.difference.benchmark != OVERALL:
        both = both.filter(benchmark=row.difference.benchmark)
    shares = [(pl.col(f"missing_{side}") / pl.col(f"samples_{side}")).sum().alias(side) for side in "ab"]
    missing = both.group_by("benchmark", "question_id").agg(shares)
    why = unequal_missing(
        missing["a"].to_list(),
        missing["b"].to_list(),
        n_scores=both.height,
        sides=("A's", "B's"),
        holds=(lambda at_worst: _holds(row.difference, both, at_worst=at_worst))
        if row.difference.verdict in {"better", "worse"}
        else None,
    )
    return replace(row, difference=_withheld(row.difference), why_withheld=why) if why else row


def _holds(difference: Difference, both: pl.DataFrame, *, at_worst: bool) -> bool:
    """Return whether a difference is shown even if missing scores are bad for it.

    Args:
        difference: What is shown of scores that are there.
        both: The scores that both sides were to get, judge by judge.
        at_worst: Missing scores are the worst for it that the judge gave on the benchmark; else a standard deviation
            from the mean of those that it gave this side there.
    """
    seen = [f(f"score_{side}").over("benchmark", "judge") for f in (pl.min, pl.max) for side in "ab"]
    ends = pl.min_horizontal(seen[:2]), pl.max_horizontal(seen[2:])
    filled = []
    for side, end in zip("ab", ends if difference.verdict == "better" else ends[::-1], strict=True):
        score, share = pl.col(f"score_{side}"), pl.col(f"missing_{side}") / pl.col(f"samples_{side}")
        spread = score.std(ddof=0) if (difference.verdict == "better") == (side == "b") else -score.std(ddof=0)
        bad = end if at_worst else (score.mean() + spread).over("benchmark", "judge").clip(*ends).fill_null(end)
        filled.append((score.fill_null(0) * (1 - share) + bad * share).alias(f"score_{side}"))
    cluster = [pl.first("cluster")] if "cluster" in both.columns else []
    known = both.filter(pl.col("score_a").is_not_null() | pl.col("score_b").is_not_null()).with_columns(filled)
    questions = known.group_by("benchmark", "question_id", maintain_order=True)
    found = compare_scores(questions.agg(pl.mean("score_a", "score_b"), *cluster)).rows[-1]
    same_side = (found.difference > 0) == (difference.verdict == "better")
    return same_side and found.p_value <= 1 - difference.confidence


def _without_verdict(section: Section) -> Section:
    return replace(section, rows=tuple(replace(row, difference=_withheld(row.difference)) for row in section.rows))


def _withheld(difference: Difference) -> Difference:
    return replace(difference, verdict="withheld", equal=False)


def _facts(part: pl.DataFrame, asked_both: pl.Expr) -> dict[str, Any]:
    """What of a benchmark counts, and what does not."""
    has_a, has_b = pl.col("samples_a").is_not_null(), pl.col("samples_b").is_not_null()
    counts = part.select(
        only_a=(has_a & ~has_b).sum(),
        only_b=(has_b & ~has_a).sum(),
        without_score_a=(asked_both & pl.col("score_a").is_null()).sum(),
        without_score_b=(asked_both & pl.col("score_b").is_null()).sum(),
        n_asked=asked_both.sum(),
    ).row(0, named=True)
    common = part.drop_nulls(["score_a", "score_b"])
    judges = common["judges"].explode().drop_nulls().value_counts().sort("judges")
    named = common["category"].drop_nulls()
    return {
        **counts,
        "out_of_scale_a": int(common["out_of_scale_a"].sum()),
        "out_of_scale_b": int(common["out_of_scale_b"].sum()),
        "judge_questions": dict(judges.iter_rows()),
        "n_categories": named.n_unique(),
        "over_categories": _over_categories(common) if named.n_unique() >= FEWEST_CATEGORIES else None,
    }


def _over_categories(common: pl.DataFrame) -> float | None:
    """How many times as wide the interval is when the questions' categories are a sample, too."""
    values = (common["score_a"] - common["score_b"]).to_list()
    ends = [
        one.interval.upper - one.interval.lower
        for clusters in (common["question_id"], common["category"].fill_null(""))
        if (one := clustered_mean_interval(values, clusters.to_list()))
    ]
    return ends[1] / ends[0] if ends[0] else None


def _summed(facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The facts of all benchmarks together."""
    judges: dict[str, int] = {}
    for one in facts:
        for judge, n in one["judge_questions"].items():
            judges[judge] = judges.get(judge, 0) + n
    kept = {"judge_questions": judges, "n_categories": 0, "over_categories": None}
    kept |= {name: fmean(one[name] for one in facts) for name in ("own_mean_a", "own_mean_b")}
    return {name: kept[name] if name in kept else sum(one[name] for one in facts) for name in facts[0]}


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
    reasons, remarks = (folded(one for one in found if one.setting.decides is decides) for decides in (True, False))
    sources = {row["source"] for row in fetch(catalog, "run_specs", run_ids=run_ids)}
    if sources != {None}:  # our own judges without a prompt are rules
        unknown = not_recorded(settings, run_ids)
        (reasons if len(sources) > 1 else remarks).extend(unknown)
    return reasons, remarks


def _compared(sections: Sequence[Section]) -> dict[str, set[str]]:
    """The compared question sets of each judge."""
    return {
        section.judges[0]: {row.difference.benchmark for row in section.rows if row.difference.benchmark != OVERALL}
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
        first, second = ({one for name, one in asked[side] if name == benchmark} for side in (True, False))
        if not first & second and not (first | second) & everything:
            found.append(
                f"{benchmark}: A was asked {listed(first)}, B {listed(second)}, and is not compared "
                f"(--question-set {min(first | second)} compares the questions that both have of it)"
            )
    versions = [(name, one, other) for name, one in asked[True] for of_b, other in asked[False] if name == of_b]
    return found + changed_questions(catalog, sorted(versions))


def _missing(sections: Sequence[Section]) -> Iterator[str]:
    """Judges that have no score of both on more than a tenth of the questions that both were asked."""
    for section in sections:
        for row in section.rows:
            name = row.difference.benchmark
            if len(section.judges) > 1 or name == OVERALL:
                continue
            n = row.difference.n
            if n < (1 - _MOST_MISSING) * row.n_asked:
                yield f"judge {section.judges[0]} scored both on {n} of {row.n_asked} questions of {name}"


def _shared_replies(
    catalog: duckdb.DuckDBPyConnection, a: Side, b: Side, benchmarks: Iterable[str], judges: Iterable[str]
) -> dict[str, tuple[int, int]]:
    found = fetch(catalog, "shared_replies", run_ids=[*a.run_ids, *b.run_ids], judges=list(judges))
    return {
        row["benchmark"]: (row["n_replies"], row["n_shared"])
        for row in found
        if row["n_shared"] and row["benchmark"] in benchmarks
    }


def _nothing_in_common(catalog: duckdb.DuckDBPyConnection, side_a: Side, side_b: Side, pipeline: str) -> str:
    cells = _cells(catalog, side_a, side_b, pipeline)
    said = []
    for side, is_a in ((side_a, True), (side_b, False)):
        had = {f"{row['question_set']} by {row['judge']}" for row in cells if row["is_a"] is is_a}
        said.append(f"{side.name} has {listed(had) or 'no scores'}")
    return f"no question has a score of both by the same judge: {'; '.join(said)} (pipeline {pipeline})"


def _cells(catalog: duckdb.DuckDBPyConnection, side_a: Side, side_b: Side, pipeline: str) -> list[dict[str, Any]]:
    run_ids = [*side_a.run_ids, *side_b.run_ids]
    return fetch(catalog, "scored_sets", first=list(side_a.run_ids), run_ids=run_ids, pipeline=pipeline)
