"""What `quick-eval` reports: every strategy against the single answer, per benchmark and over all of them.

The numbers come from the SQL views `ensemble_*`; intervals and tests are added here. A failure or an abstention counts
as wrong, and the figure over scored answers stands beside it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Literal

import duckdb
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from shaberi_dagster.benchmarks.registry import get_benchmark
from shaberi_dagster.lake.catalog import run_query
from shaberi_dagster.rendering.text import json_safe, printable, width_of
from shaberi_dagster.runs.spec import SINGLE, BenchmarkSpec, RunSpec
from shaberi_dagster.statistics.intervals import (
    Estimate,
    Interval,
    clustered_mean_interval,
    mean_interval,
    mean_of_estimates,
    paired_mean_interval,
    paired_proportions_interval,
    wilson_interval,
)
from shaberi_dagster.statistics.significance import mcnemar_exact, stratified_mcnemar

FORMAT = "shaberi-quick-eval/1"
POLICY = "A failure or an abstention counts as wrong in accuracy; accuracy_scored leaves both out."
SAMPLES = "samples"
_BAR_WIDTH = 10
_GAP = 2
_NOTHING = "-"


@dataclass(frozen=True)
class StrategyResult:
    """One strategy on one benchmark, or on all questions of several.

    Attributes:
        strategy: Its name; `single` is the answer without a consensus, `samples` are all shared samples.
        n_planned: Answers planned: one per question, of `samples` one per question and sample.
        n_scored: Answers found right or wrong.
        n_failed: Answers without a verdict, since a call failed.
        n_excluded: Answers in which nothing could be read, or that are empty.
        n_correct: Right answers.
        accuracy: n_correct / n_planned.
        interval: Its 95 % interval: Wilson's; of `samples`, of which those of one question belong together, of the
            same form with a standard error over questions.
        accuracy_scored: n_correct / n_scored.
        delta: Accuracy less that of `single`.
        delta_interval: Its 95 % interval, paired by question; None for `single` and `samples`.
        n_gained: Questions that this strategy gets right and `single` does not.
        n_lost: The other way round.
        p_value: McNemar's exact test of the two, two-sided, not adjusted for the number of strategies.
        calls: Calls of the strategy itself, without those of its samples; reused ones are counted.
        prompt_tokens: Tokens sent by these calls; None is unknown.
        completion_tokens: Tokens received.
        cost_usd: What they cost, as far as it is known.
        calls_without_cost: Calls that are not in it: no price is known, or another run has paid.
        seconds: Their duration, waiting included, added up over questions, which are worked on at the same time.
    """

    strategy: str
    n_planned: int
    n_scored: int
    n_failed: int
    n_excluded: int
    n_correct: int
    accuracy: float
    interval: Interval | None
    accuracy_scored: float | None
    delta: float | None
    delta_interval: Interval | None
    n_gained: int | None
    n_lost: int | None
    p_value: float | None
    calls: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    calls_without_cost: int
    seconds: float | None


@dataclass(frozen=True)
class MeanResult:
    """One strategy over benchmarks, each with the same weight.

    Attributes:
        strategy: Its name.
        accuracy: Unweighted mean of the benchmarks' accuracies.
        interval: Its 95 % interval (t); None where a benchmark has fewer than two questions, or nothing differs.
        delta: Mean of the benchmarks' deltas.
        delta_interval: Its 95 % interval, paired by question.
    """

    strategy: str
    accuracy: float
    interval: Interval | None
    delta: float | None
    delta_interval: Interval | None


@dataclass(frozen=True)
class Agreement:
    """Questions whose samples agree that far.

    Attributes:
        agreement: Upper end of the class, of the share of samples that give the most frequent answer; 0: none is read.
        n_questions: Questions in the class.
        n_correct: Those whose most frequent answer is right.
        accuracy: n_correct / n_questions.
        interval: Its 95 % interval (Wilson).
    """

    agreement: float
    n_questions: int
    n_correct: int
    accuracy: float
    interval: Interval | None


@dataclass(frozen=True)
class Oracle:
    """How far choosing among the samples could go.

    Attributes:
        n_questions: Questions planned.
        n_samples: Shared samples of a question.
        n_any_correct: Questions that at least one sample answers right.
        n_all_correct: Questions that all samples answer right.
        accuracy: n_any_correct / n_questions.
        interval: Its 95 % interval (Wilson).
    """

    n_questions: int
    n_samples: int
    n_any_correct: int
    n_all_correct: int
    accuracy: float
    interval: Interval | None


@dataclass(frozen=True)
class Pair:
    """Two strategies, or two models that the samples come from, on the same questions.

    Attributes:
        kind: `strategy` or `member`.
        a: One of them.
        b: The other one.
        n_both: Questions that both get right.
        n_only_a: Questions that only `a` gets right.
        n_only_b: Questions that only `b` gets right.
        n_neither: Questions that neither gets right.
    """

    kind: Literal["strategy", "member"]
    a: str
    b: str
    n_both: int
    n_only_a: int
    n_only_b: int
    n_neither: int


@dataclass(frozen=True)
class BenchmarkReport:
    """One benchmark, or all questions of several.

    Attributes:
        benchmark: Its name; None for all together.
        question_set: Its set; None for all together.
        question_set_sha256: The set's content.
        judge: Who graded: the rule, with the grading model if there is one.
        results: One for each strategy, `single` first, `samples` last.
        oracle: The ceiling; None without samples.
        agreement: From no agreement to full agreement.
        pairs: Of strategies and members.
    """

    benchmark: str | None
    question_set: str | None
    question_set_sha256: str | None
    judge: str | None
    results: tuple[StrategyResult, ...]
    oracle: Oracle | None
    agreement: tuple[Agreement, ...]
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class JudgedResult:
    """One strategy on one benchmark that LLMs judge.

    Attributes:
        benchmark: Its name.
        question_set: Its set.
        judge: Who judged.
        strategy: Its name; `samples` are all samples, the single answer included.
        score: Mean on the reported scale, of the answers with a score; None without any.
        n_planned: Answers planned.
        n_scored: Answers with a score.
        n_failed: Answers without one, since a call failed.
        n_excluded: Answers that are empty.
    """

    benchmark: str
    question_set: str
    judge: str
    strategy: str
    score: float | None
    n_planned: int
    n_scored: int
    n_failed: int
    n_excluded: int


@dataclass(frozen=True)
class QuickReport:
    """What one run says.

    Attributes:
        spec: The run.
        names: Its benchmarks that the report is about.
        status: `complete`, or what its first other benchmark is.
        benchmarks: One for each that rules grade.
        pooled: All their questions together.
        means: Those benchmarks with the same weight each.
        judged: The benchmarks that LLMs judge.
        calls_made: Calls that this command made, by stage.
    """

    spec: RunSpec
    names: tuple[str, ...]
    status: str
    benchmarks: tuple[BenchmarkReport, ...]
    pooled: BenchmarkReport
    means: tuple[MeanResult, ...]
    judged: tuple[JudgedResult, ...]
    calls_made: Mapping[str, int]


# ------------------------------------------------------------------------------------------------ from the lake


def read_report(
    catalog: duckdb.DuckDBPyConnection,
    spec: RunSpec,
    benchmarks: Sequence[str],
    strategies: Sequence[str],
    *,
    status: str,
    calls_made: Mapping[str, int],
) -> QuickReport:
    """The report of a run that was evaluated.

    Args:
        catalog: The public views.
        spec: The run.
        benchmarks: Some of its benchmarks.
        strategies: Some of its strategies; the single answer and the samples are always there.
        status: State of the run on these benchmarks.
        calls_made: Calls that were made for it now, by stage.
    """
    reader = _Reader(catalog, spec, [SINGLE, *strategies])
    graded = [name for name in benchmarks if get_benchmark(name).has_rule]
    reports = [reader.benchmark(name) for name in graded]
    pooled = _pooled(reports, [share for name in graded for share in reader.shares(name)])
    means = tuple(_mean(name.strategy, reports, reader) for name in pooled.results)
    judged = [result for name in benchmarks if name not in graded for result in reader.judged(name)]
    return QuickReport(spec, tuple(benchmarks), status, tuple(reports), pooled, means, tuple(judged), dict(calls_made))


class _Reader:
    """The views, for one run."""

    def __init__(self, catalog: duckdb.DuckDBPyConnection, spec: RunSpec, strategies: Sequence[str]) -> None:
        self._catalog, self._spec, self._strategies = catalog, spec, strategies

    def benchmark(self, name: str) -> BenchmarkReport:
        settings = self._spec.benchmarks[name]
        rows = {row["strategy"]: row for row in self._rows("results", name)}
        shares = self.shares(name)
        oracle = self._rows("oracle", name)
        return BenchmarkReport(
            benchmark=name,
            question_set=settings.question_set,
            question_set_sha256=settings.question_set_sha256,
            judge=next((row["judge"] for row in rows.values()), None),
            results=tuple(_result(rows[one], shares) for one in [*self._strategies, SAMPLES] if one in rows),
            oracle=_oracle(oracle) if oracle else None,
            agreement=_agreement(self._rows("agreement", name)),
            pairs=_pairs(row for row in self._rows("complementarity", name) if self._is_asked_for(row)),
        )

    def judged(self, name: str) -> list[JudgedResult]:
        """What each judge says of each strategy, and of the samples."""
        sql = """
            select benchmark, question_set, judge, coalesce(strategy, $samples) as strategy, score,
                n_planned, n_scored, n_failed, n_excluded
            from leaderboard
            where run_id = $run_id and benchmark = $benchmark and pipeline = 'baseline'
        """
        of_run: dict[str, object] = {"run_id": self._spec.run_id, "benchmark": name, "samples": SAMPLES}
        found = [JudgedResult(*row) for row in run_query(self._catalog, sql, of_run).fetchall()]
        order = [*self._strategies, SAMPLES]
        shown = [one for one in found if one.strategy in order]
        return sorted(shown, key=lambda one: (one.judge, order.index(one.strategy)))

    def shares(self, name: str) -> list[tuple[int, int]]:
        """For each question how many of its shared samples are right, and how many there are."""
        return [(row["n_correct"], row["n_samples"]) for row in self._rows("questions", name)]

    def _is_asked_for(self, row: Mapping[str, Any]) -> bool:
        return row["kind"] == "member" or {row["a"], row["b"]} <= set(self._strategies)

    def _rows(self, view: str, benchmark: str) -> list[dict[str, Any]]:
        sql = f"from ensemble_{view} where run_id = $run_id and benchmark = $benchmark order by all"
        result = run_query(self._catalog, sql, {"run_id": self._spec.run_id, "benchmark": benchmark})
        names = [column[0] for column in result.description or []]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


_COUNTS = ("n_planned", "n_scored", "n_failed", "n_excluded", "n_correct")
_USED = ("prompt_tokens", "completion_tokens", "cost_usd", "seconds")


def _result(row: Mapping[str, Any], shares: Sequence[tuple[int, int]]) -> StrategyResult:
    n, correct = row["n_planned"], row["n_correct"]
    compared = row["strategy"] not in {SINGLE, SAMPLES} and row["n_gained"] is not None
    gained, lost = row["n_gained"] or 0, row["n_lost"] or 0
    return StrategyResult(
        strategy=row["strategy"],
        **{name: row[name] for name in _COUNTS},
        accuracy=correct / n,
        interval=_samples_interval(shares) if row["strategy"] == SAMPLES else wilson_interval(correct, n),
        accuracy_scored=correct / row["n_scored"] if row["n_scored"] else None,
        delta=row["delta"],
        delta_interval=paired_proportions_interval(gained, lost, n) if compared else None,
        n_gained=gained if compared else None,
        n_lost=lost if compared else None,
        p_value=row.get("p_value", mcnemar_exact(gained, lost)) if compared else None,
        calls=row["calls"] or 0,
        calls_without_cost=row["calls_without_cost"] or 0,
        **{name: row[name] for name in _USED},
    )


def _samples_interval(shares: Sequence[tuple[int, int]]) -> Interval | None:
    values = [float(k < correct) for correct, n in shares for k in range(n)]
    questions = [question for question, (_, n) in enumerate(shares) for _ in range(n)]
    estimate = clustered_mean_interval(values, questions, bounds=(0, 1))
    return estimate.interval if estimate else None


def _oracle(rows: Sequence[Mapping[str, Any]]) -> Oracle:
    n, n_any, n_all = (sum(row[name] for row in rows) for name in ("n_questions", "n_any_correct", "n_all_correct"))
    n_samples = max(row["n_samples"] for row in rows)
    return Oracle(n, n_samples, n_any, n_all, n_any / n, wilson_interval(n_any, n))


def _agreement(rows: Iterable[Mapping[str, Any]]) -> tuple[Agreement, ...]:
    counts: dict[float, tuple[int, int]] = {}
    for row in rows:
        n, correct = counts.get(row["agreement"], (0, 0))
        counts[row["agreement"]] = (n + row["n_questions"], correct + row["n_correct"])
    return tuple(
        Agreement(agreement, n, correct, correct / n, wilson_interval(correct, n))
        for agreement, (n, correct) in sorted(counts.items())
    )


def _pairs(rows: Iterable[Mapping[str, Any]]) -> tuple[Pair, ...]:
    names = ("n_both", "n_only_a", "n_only_b", "n_neither")
    counts: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        sums = counts.setdefault((row["kind"], row["a"], row["b"]), [0] * len(names))
        counts[row["kind"], row["a"], row["b"]] = [one + row[name] for one, name in zip(sums, names, strict=True)]
    return tuple(Pair(*key, *values) for key, values in counts.items())


def _pooled(reports: Sequence[BenchmarkReport], shares: Sequence[tuple[int, int]]) -> BenchmarkReport:
    """All questions together, each with the same weight."""
    by_strategy: dict[str, list[StrategyResult]] = {}
    for report in reports:
        for result in report.results:
            by_strategy.setdefault(result.strategy, []).append(result)
    single = by_strategy.get(SINGLE, [])
    accuracy = sum(one.n_correct for one in single) / sum(one.n_planned for one in single) if single else None
    oracles = [asdict(one.oracle) for one in reports if one.oracle]
    return BenchmarkReport(
        benchmark=None,
        question_set=None,
        question_set_sha256=None,
        judge=None,
        results=tuple(_result(_summed(results, accuracy), shares) for results in by_strategy.values()),
        oracle=_oracle(oracles) if oracles else None,
        agreement=_agreement(asdict(one) for report in reports for one in report.agreement),
        pairs=_pairs(asdict(one) for report in reports for one in report.pairs),
    )


def _summed(results: Sequence[StrategyResult], single: float | None) -> dict[str, Any]:
    sums: dict[str, Any] = {name: sum(getattr(one, name) for one in results) for name in (*_COUNTS, "calls")}
    pairs = [(one.n_gained, one.n_lost) for one in results if one.n_gained is not None and one.n_lost is not None]
    compared = len(pairs) == len(results)
    return sums | {
        "strategy": results[0].strategy,
        "delta": None if single is None else sums["n_correct"] / sums["n_planned"] - single,
        "n_gained": sum(gained for gained, _ in pairs) if compared else None,
        "n_lost": sum(lost for _, lost in pairs) if compared else None,
        "p_value": stratified_mcnemar(pairs) if compared else None,
        "calls_without_cost": sum(one.calls_without_cost for one in results),
        **{name: _sum_of_known([getattr(one, name) for one in results]) for name in _USED},
    }


def _sum_of_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _mean(strategy: str, reports: Sequence[BenchmarkReport], reader: _Reader) -> MeanResult:
    own = [(report, one) for report in reports for one in report.results if one.strategy == strategy]
    if strategy == SAMPLES:
        estimates = [
            mean_interval([correct / n for correct, n in reader.shares(report.benchmark or "")]) for report, _ in own
        ]
    else:
        estimates = [mean_interval(_zeros_and_ones(one.n_correct, one.n_planned)) for _, one in own]
    deltas = [_delta_estimate(one) for _, one in own]
    known = [one.delta for _, one in own if one.delta is not None]
    return MeanResult(
        strategy=strategy,
        accuracy=fmean(one.accuracy for _, one in own),
        interval=_mean_interval(estimates, (0, 1)),
        delta=fmean(known) if len(known) == len(own) else None,
        delta_interval=_mean_interval(deltas, (-1, 1)),
    )


def _mean_interval(estimates: Sequence[Estimate | None], bounds: tuple[float, float]) -> Interval | None:
    known = [one for one in estimates if one is not None]
    if len(known) < len(estimates) or not any(one.standard_error for one in known):
        return None
    interval = mean_of_estimates(known).interval
    return Interval(max(interval.lower, bounds[0]), min(interval.upper, bounds[1]))


def _delta_estimate(result: StrategyResult) -> Estimate | None:
    """From what is gained and lost: which questions they are makes no difference."""
    if result.n_gained is None or result.n_lost is None:
        return None
    return paired_mean_interval(
        _zeros_and_ones(result.n_gained, result.n_planned), _zeros_and_ones(result.n_lost, result.n_planned)[::-1]
    )


def _zeros_and_ones(ones: int, n: int) -> list[float]:
    return [1.0] * ones + [0.0] * (n - ones)


# ------------------------------------------------------------------------------------------------ JSON


def as_document(report: QuickReport, gate: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Everything as plain data; `docs/schemas/quick-eval.schema.json` says what it is.

    Args:
        report: The report.
        gate: What the regression gate found; None when it was not asked.
    """
    spec = report.spec
    graders = _graders(report)
    return {
        "format": FORMAT,
        "run_id": spec.run_id,
        "model": spec.model,
        "run_tag": spec.run_tag,
        "status": report.status,
        "policy": POLICY,
        "settings": {
            "ensemble": len(_settings(report).shared),
            "members": [member.model for member in spec.members or (spec.itself,)],
            "single": _settings(report).single,
            "consensus_model": (spec.consensus or spec.itself).model,
            "judge_model": graders[0] if graders else None,
            "base_url": spec.endpoint.base_url,
        },
        "calls_made": dict(report.calls_made),
        "benchmarks": [_benchmark_document(spec, one) for one in report.benchmarks],
        "overall": {
            "benchmarks": [one.benchmark for one in report.benchmarks],
            "pooled": _facts_document(report.pooled),
            "mean_of_benchmarks": [asdict(one) for one in report.means],
        },
        "judged": [asdict(one) for one in report.judged],
        "gate": dict(gate) if gate is not None else None,
    }


def _settings(report: QuickReport) -> BenchmarkSpec:
    """How the samples of its benchmarks were made; a run may have others that were made otherwise."""
    return report.spec.benchmarks[report.names[0]]


def _graders(report: QuickReport) -> list[str]:
    """Who decides what rules cannot tell."""
    names = dict.fromkeys(
        name for one in report.benchmarks for name in report.spec.benchmarks[one.benchmark or ""].judges
    )
    return list(dict.fromkeys(judge.name for name in names if (judge := report.spec.judge(name))))


def as_json(document: Mapping[str, Any]) -> str:
    """The document as text that steers no terminal."""
    return json_safe(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)) + "\n"


def _benchmark_document(spec: RunSpec, report: BenchmarkReport) -> dict[str, Any]:
    assert report.benchmark is not None  # noqa: S101 - only all together have no name
    settings = spec.benchmarks[report.benchmark]
    return {
        "benchmark": report.benchmark,
        "question_set": report.question_set,
        "question_set_sha256": report.question_set_sha256,
        "n_questions": spec.n_questions(report.benchmark),
        "sample": settings.sample.model_dump() if settings.sample else None,
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
        "prompt_hash": settings.prompt_hash,
        "judge": report.judge,
        **_facts_document(report),
    }


def _facts_document(report: BenchmarkReport) -> dict[str, Any]:
    return {
        "results": [asdict(one) for one in report.results],
        "oracle": asdict(report.oracle) if report.oracle else None,
        "agreement": [asdict(one) for one in report.agreement],
        "complementarity": [asdict(one) for one in report.pairs],
    }


# ------------------------------------------------------------------------------------------------ tables


def write_report(report: QuickReport, console: Console) -> None:
    """Print the report as tables."""
    for part in _parts(report):
        console.print(part, crop=False, soft_wrap=isinstance(part, Text))


def _parts(report: QuickReport) -> Iterator[RenderableType]:
    spec, settings = report.spec, _settings(report)
    members = ", ".join(dict.fromkeys(member.model for member in spec.members or (spec.itself,)))
    yield _line(f"{spec.model} ({spec.run_tag})", "bold")
    yield _line(
        f"{len(settings.shared)} shared samples of {members}; the single answer is "
        f"{'a sample of its own' if settings.single == 'own' else 'the first of them'}; "
        f"consensus by {(spec.consensus or spec.itself).model}"
    )
    if report.benchmarks:
        yield from _graded_parts(report)
    if report.judged:
        yield Text()
        yield _line("Judged by LLMs: mean score on the reported scale; failures and empty answers are left out.")
        yield Text()
        yield _judged_table(report.judged)
    yield Text()
    graded_sets = [one.question_set or "" for one in report.benchmarks]
    sets = dict.fromkeys([*graded_sets, *(one.question_set for one in report.judged)])
    yield _line(f"Question sets: {', '.join(sets)}", "dim")
    made = ", ".join(f"{n:,} {stage}" for stage, n in report.calls_made.items() if n)
    yield _line(f"Calls made now: {made or 'none'}; everything else was there.", "dim")


def _judged_table(results: Sequence[JudgedResult]) -> Table:
    titles = ("benchmark", "judge", "strategy", "score", "scored", "failed", "excluded")
    rows = [
        (
            *(one.benchmark, one.judge, one.strategy, _NOTHING if one.score is None else f"{one.score:.2f}"),
            *(f"{one.n_scored}/{one.n_planned}", str(one.n_failed), str(one.n_excluded)),
        )
        for one in results
    ]
    return _table(titles, rows, left={0, 1, 2})


def _graded_parts(report: QuickReport) -> Iterator[RenderableType]:
    graders = _graders(report)
    by_whom = f", and by {', '.join(graders)} what they cannot tell" if graders else " alone"
    yield _line(f"Graded by rules{by_whom}.")
    yield _line("A failure or an abstention counts as wrong in the accuracy; the column scored leaves both out.")
    yield Text()
    yield _results_table(report)
    if len(report.benchmarks) > 1:
        yield _line(
            f"pooled: over the questions of all {len(report.benchmarks)} benchmarks. "
            "mean: of the benchmarks, each with the same weight.",
            "dim",
        )
    yield _line(
        "+/-: against single, with the questions gained and lost, a paired 95 % interval, and p of McNemar's exact "
        "test. Calls, tokens, seconds and cost per question, of the strategy alone: those of its samples come on top.",
        "dim",
    )
    yield Text()
    yield _line("Oracle: at least one shared sample is right", "bold")
    yield _oracle_table(report)
    if report.pooled.agreement:
        yield Text()
        yield _line("Agreement: the most frequent answer of the samples, by the share that gives it", "bold")
        yield _agreement_table(report.pooled)
    for kind, title in (("strategy", "Strategies"), ("member", "Members")):
        pairs = [one for one in report.pooled.pairs if one.kind == kind]
        if pairs:
            yield Text()
            yield _line(f"{title} in pairs: questions that both, one, or neither gets right", "bold")
            yield _pairs_table(pairs)


_RESULT_TITLES = (
    *("benchmark", "strategy", "accuracy", "", "95 % CI", "right", "scored", "failed", "excluded"),
    *("+/-", "95 % CI", "gained", "lost", "p", "calls", "tokens", "s", "US$"),
)


def _results_table(report: QuickReport) -> Table:
    rows: list[tuple[str, ...]] = []
    for one in (*report.benchmarks, *([report.pooled] if len(report.benchmarks) > 1 else [])):
        n_questions = one.oracle.n_questions if one.oracle else None
        for number, result in enumerate(one.results):
            rows.append((one.benchmark or "pooled" if not number else "", *_result_cells(result, n_questions)))
    if len(report.benchmarks) > 1:
        for number, mean in enumerate(report.means):
            cells = [mean.strategy, _percent(mean.accuracy), _bar(mean.accuracy), _range(mean.interval)]
            delta = [_signed(mean.delta), _range(mean.delta_interval, signed=True)]
            shown = delta if mean.strategy != SINGLE else ["", ""]
            rows.append(("mean" if not number else "", *cells, *[""] * 4, *shown, *[""] * 7))
    return _table(_RESULT_TITLES, rows, left={0, 1, 3})


def _result_cells(one: StrategyResult, n_questions: int | None) -> tuple[str, ...]:
    per = n_questions or one.n_planned
    tokens = _sum_of_known([one.prompt_tokens, one.completion_tokens])
    compared = one.strategy != SINGLE
    return (
        one.strategy,
        _percent(one.accuracy),
        _bar(one.accuracy),
        _range(one.interval),
        f"{one.n_correct}/{one.n_planned}",
        _percent(one.accuracy_scored),
        str(one.n_failed),
        str(one.n_excluded),
        _signed(one.delta) if compared else "",
        _range(one.delta_interval, signed=True) if compared else "",
        "" if one.n_gained is None else str(one.n_gained),
        "" if one.n_lost is None else str(one.n_lost),
        "" if one.p_value is None else f"{one.p_value:.3f}",
        f"{one.calls / per:.1f}",
        _NOTHING if tokens is None else f"{tokens / per:,.0f}",
        _NOTHING if one.seconds is None else f"{one.seconds / per:.1f}",
        _NOTHING if one.cost_usd is None else f"{one.cost_usd / per:.2g}{'+' if one.calls_without_cost else ''}",
    )


def _oracle_table(report: QuickReport) -> Table:
    parts = [*report.benchmarks, *([report.pooled] if len(report.benchmarks) > 1 else [])]
    titles = ("benchmark", "oracle", "", "95 % CI", "any right", "all right", "questions", "samples")
    rows = [
        (
            *(part.benchmark or "pooled", _percent(one.accuracy), _bar(one.accuracy), _range(one.interval)),
            *map(str, (one.n_any_correct, one.n_all_correct, one.n_questions, one.n_samples)),
        )
        for part in parts
        if (one := part.oracle)
    ]
    return _table(titles, rows, left={0, 2})


def _agreement_table(report: BenchmarkReport) -> Table:
    titles = ("agreement", "accuracy", "", "95 % CI", "right", "questions")
    rows = [
        (
            *(f"up to {one.agreement:.0%}" if one.agreement else "none read", _percent(one.accuracy)),
            *(_bar(one.accuracy), _range(one.interval), str(one.n_correct), str(one.n_questions)),
        )
        for one in report.agreement
    ]
    return _table(titles, rows, left={0, 2})


def _pairs_table(pairs: Sequence[Pair]) -> Table:
    rows = [
        (one.a, one.b, *map(str, (one.n_both, one.n_only_a, one.n_only_b, one.n_neither)))
        for one in sorted(pairs, key=lambda one: (SINGLE not in {one.a, one.b}, one.a, one.b))
    ]
    return _table(("A", "B", "both", "only A", "only B", "neither"), rows, left={0, 1})


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], left: set[int]) -> Table:
    """A number is never cut: the table is as wide as it needs to be."""
    lines = [[printable(cell) for cell in line] for line in (titles, *rows)]
    widths = [max(map(width_of, column)) for column in zip(*lines, strict=True)]
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, width=sum(widths) + _GAP * (len(widths) - 1))
    for index, (title, width) in enumerate(zip(titles, widths, strict=True)):
        table.add_column(
            Text(title, style="bold"), width=width, justify="left" if index in left else "right", no_wrap=True
        )
    for line in lines[1:]:
        table.add_row(*map(Text, line))
    return table


def _line(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style)


def _percent(value: float | None) -> str:
    return _NOTHING if value is None else f"{100 * value:.1f} %"


def _signed(value: float | None) -> str:
    return _NOTHING if value is None else f"{100 * value:+.1f}"


def _range(interval: Interval | None, *, signed: bool = False) -> str:
    if interval is None:
        return _NOTHING
    form = "+.1f" if signed else ".1f"
    return f"{100 * interval.lower:{form}} to {100 * interval.upper:{form}}"


def _bar(share: float) -> str:
    """In ASCII: block characters are two columns wide in Japanese terminals."""
    return ("#" * round(share * _BAR_WIDTH)).ljust(_BAR_WIDTH, ".")
