"""How the report on several samples and their consensus is shown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from shaberi_dagster.reports.ensemble import (
    SAMPLES,
    Against,
    BenchmarkReport,
    MeanResult,
    Oracle,
    Pair,
    QuickReport,
    StrategyResult,
)
from shaberi_dagster.reports.figures import (
    counted,
    p_value,
    percent,
    percent_range,
    points,
    points_range,
)
from shaberi_dagster.reports.gate import GateReport
from shaberi_dagster.reports.report import NOTHING, Block, Document, Heading, Sentences, Table, number, table_of, text
from shaberi_dagster.runs.spec import SINGLE, BenchmarkSpec
from shaberi_dagster.show.gate import gate_result
from shaberi_dagster.show.score_tables import left_out, strategy_blocks

FORMAT = "shaberi-quick-eval/1"
POLICY = "A failure or an abstention counts as wrong in accuracy; accuracy_scored leaves both out."
_POOLED = "pooled"


@dataclass(frozen=True)
class EnsembleDocument(Document):
    """A report, with what a gate found if there is one, in each of the formats.

    Attributes:
        report: The report.
        gate: The gate's.
    """

    report: QuickReport
    gate: GateReport | None = None

    def blocks(self, width: int | None) -> Iterable[Block]:
        """A sentence for each strategy, then the tables that it rests on; at the end the gate."""
        report = self.report
        yield Heading(report.spec.model, report.spec.run_tag)
        if sentences := [
            f"{one.strategy}: {said}." for one in report.pooled.results if (said := gain(report.pooled, one.strategy))
        ]:
            yield Sentences(sentences)
        yield Sentences(list(_about(report)), "note")
        if report.benchmarks:
            yield from _graded(report)
        if report.judged:
            yield from strategy_blocks(report.judged)
        if self.gate:
            yield from gate_result(self.gate).blocks(width)

    def records(self) -> Iterable[Mapping[str, Any]]:
        """One line a benchmark and strategy."""
        for one in self.report.benchmarks:
            for result in one.results:
                yield {"benchmark": one.benchmark, "question_set": one.question_set} | _flat(result)

    def data(self) -> Mapping[str, Any]:
        """Everything; `docs/schemas/quick-eval.schema.json` says what it is."""
        report = self.report
        spec, settings, graders = report.spec, _settings(report), _graders(report)
        return {
            "format": FORMAT,
            "run_id": spec.run_id,
            "model": spec.model,
            "run_tag": spec.run_tag,
            "status": report.status,
            "policy": POLICY,
            "settings": {
                "ensemble": len(settings.shared),
                "members": spec.sampled_models,
                "single": settings.single,
                "consensus_model": spec.consensus_model,
                "judge_model": graders[0] if graders else None,
                "base_url": spec.endpoint.base_url if spec.endpoint else spec.origin,
            },
            "calls_made": dict(report.calls_made),
            "benchmarks": [_benchmark_data(report, one) for one in report.benchmarks],
            "overall": {
                "benchmarks": [one.benchmark for one in report.benchmarks],
                "pooled": _facts_data(report.pooled),
                "mean_of_benchmarks": [asdict(one) for one in report.means],
            },
            "judged": [asdict(one) for one in report.judged],
            "gate": gate_result(self.gate).document if self.gate else None,
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


def _benchmark_data(report: QuickReport, one: BenchmarkReport) -> dict[str, Any]:
    assert one.benchmark is not None  # noqa: S101 - only all together have no name
    settings = report.spec.benchmarks[one.benchmark]
    return {
        "benchmark": one.benchmark,
        "question_set": one.question_set,
        "question_set_sha256": one.question_set_sha256,
        "n_questions": report.spec.n_questions(one.benchmark),
        "sample": settings.sample.model_dump() if settings.sample else None,
        "temperature": None if "temperature" in report.not_sent else settings.temperature,
        "max_tokens": None if "max_tokens" in report.not_sent else settings.max_tokens,
        "prompt_hash": settings.prompt_hash,
        "judge": one.judge,
        **_facts_data(one),
    }


def _facts_data(report: BenchmarkReport) -> dict[str, Any]:
    return {
        "results": [asdict(one) for one in report.results],
        "against": [asdict(one) for one in report.against],
        "members": [asdict(one) for one in report.members],
        "oracle": asdict(report.oracle) if report.oracle else None,
        "agreement": [asdict(one) for one in report.agreement],
        "complementarity": [asdict(one) for one in report.pairs],
    }


def _flat(result: StrategyResult) -> dict[str, Any]:
    """A result with the ends of its intervals in columns of their own."""
    flat: dict[str, Any] = {}
    for name, value in asdict(result).items():
        ends = value if isinstance(value, dict) else None
        flat |= {f"{name}_{end}": bound for end, bound in ends.items()} if ends else {name: value}
    return flat


# --- sentences -------------------------------------------------------------------------------------------------------


def gain(part: Any, strategy: str) -> str | None:
    """What a strategy gains over the samples that it is made of, what it costs, and what would settle it.

    Args:
        part: A `BenchmarkReport`, or what its JSON has.
        strategy: One of its strategies.

    Returns:
        A sentence without the strategy's name and without a full stop; None if there is nothing to compare.
    """
    compared = [one for one in part.against if one.reference == SAMPLES]
    one = next((one for one in compared if one.strategy == strategy), None)
    if one is None:
        return None
    if one.difference is None:
        return "no question has both an answer of it and a sample"
    adjusted = f" adjusted for {len(compared)} strategies" if len(compared) > 1 else ""
    within = f" ({points_range(one.interval)}; p {p_value(one.adjusted_p_value)}{adjusted})"
    if one.why_withheld:
        parts = [f"no verdict: {points(one.difference)} points{within}, but {one.why_withheld}"]
    elif one.n_more == 0:
        found = f"{points(one.difference)} points {'over' if one.difference > 0 else 'against'} the mean of its samples"
        parts = [found + within]
    else:
        parts = [f"no difference to the mean of its samples is shown: {points(one.difference)} points{within}"]
        if one.n_more:
            parts.append(f"about {counted(one.n_more, 'more question')} would settle one of this size")
    return "; ".join([*parts, *_extra(part, strategy), *left_out(one)])


def _extra(part: Any, strategy: str) -> Iterator[str]:
    """What it takes beyond the single answer, with its samples."""
    found = {one.strategy: one for one in part.results}
    if not {strategy, SINGLE, SAMPLES} <= found.keys():
        return
    single, parts, n = found[SINGLE], (found[strategy], found[SAMPLES]), found[SINGLE].n_planned
    extra = f"{(sum(one.calls for one in parts) - single.calls) / n:+.1f} calls"
    costs = [one.cost_usd for one in parts if one.cost_usd is not None]
    if costs and single.cost_usd is not None:
        partly = "+" * any(one.calls_without_cost for one in parts)
        extra += f" and US$ {(sum(costs) - single.cost_usd) / n:+.2g}{partly}"
    yield f"{extra} a question beyond one answer"


def _about(report: QuickReport) -> Iterator[str]:
    spec, settings = report.spec, _settings(report)
    members = ", ".join(dict.fromkeys(spec.sampled_models))
    yield (
        f"{len(settings.shared)} shared samples of {members}; the single answer is "
        f"{'a sample of its own' if settings.single == 'own' else 'the first of them'}; "
        f"consensus by {spec.consensus_model}."
    )
    if report.benchmarks:
        graders = ", ".join(_graders(report))
        yield f"Graded by rules{f', and by {graders} what they cannot tell' if graders else ' alone'}."
    graded_sets = [one.question_set or "" for one in report.benchmarks]
    sets = dict.fromkeys([*graded_sets, *(one.question_set for one in report.judged)])
    yield f"Question sets: {', '.join(sets)}."
    made = ", ".join(f"{n:,} {stage}" for stage, n in report.calls_made.items() if n)
    yield f"Calls made now: {made or 'none'}; everything else was there."


# --- tables ----------------------------------------------------------------------------------------------------------


def _graded(report: QuickReport) -> Iterator[Block]:
    several = len(report.benchmarks) > 1
    parts = [*report.benchmarks, *([report.pooled] if several else [])]
    yield _accuracies(parts, report.means if several else ())
    yield _differences(parts)
    yield _effort(parts)
    if report.pooled.members:
        yield Heading("Members", "by their shared samples; strategies are compared with the best")
        yield _members(parts)
    yield Heading("Oracle", "at least one shared sample is right")
    yield _oracles([(_name(part), part.oracle) for part in parts if part.oracle])
    if report.pooled.agreement:
        yield Heading("Agreement", "the most frequent answer of the samples, by the share that gives it")
        yield _agreement(report.pooled)
    for kind, title in (("strategy", "Strategies in pairs"), ("member", "Members in pairs")):
        if pairs := [one for one in report.pooled.pairs if one.kind == kind]:
            yield Heading(title, "questions that both, one, or neither gets right")
            yield _pairs(pairs)


def _name(part: BenchmarkReport) -> str:
    return part.benchmark or _POOLED


def _against(part: BenchmarkReport, reference: str) -> list[Against]:
    return [one for one in part.against if one.reference == reference]


def _accuracies(parts: Sequence[BenchmarkReport], means: Sequence[MeanResult]) -> Table:
    rows: list[tuple[str, StrategyResult | MeanResult]] = [(_name(part), one) for part in parts for one in part.results]
    rows += [("mean", one) for one in means]
    notes = ["A failure or an abstention counts as wrong in the accuracy; scored only: without both."]
    if means:
        notes.append(
            f"pooled: over the questions of all {len(parts) - 1} benchmarks; mean: of the benchmarks, each with the "
            "same weight."
        )
    unreadable = sum(one.n_unreadable for part in parts if part.benchmark for one in part.results)
    if unreadable:
        notes.append(
            f"{counted(unreadable, 'answer')} of those that failed got a verdict of the grading model that could not "
            "be read."
        )

    def count(name: str) -> Any:
        return lambda row: str(getattr(row[1], name)) if isinstance(row[1], StrategyResult) else ""

    def right(row: tuple[str, StrategyResult | MeanResult]) -> str:
        return f"{row[1].n_correct}/{row[1].n_planned}" if isinstance(row[1], StrategyResult) else ""

    def scored(row: tuple[str, StrategyResult | MeanResult]) -> str:
        return percent(row[1].accuracy_scored) if isinstance(row[1], StrategyResult) else ""

    columns = [
        text("benchmark", lambda row: row[0]),
        text("strategy", lambda row: row[1].strategy),
        number("accuracy", lambda row: percent(row[1].accuracy)),
        number("95 % CI", lambda row: percent_range(row[1].interval)),
        number("right", right),
        number("scored only", scored, optional=True),
        number("failed", count("n_failed")),
        number(("exclu-", "ded"), count("n_excluded")),
    ]
    return table_of(rows, columns, notes=notes)


def _differences(parts: Sequence[BenchmarkReport]) -> Table:
    rows = [(_name(part), one) for part in parts for one in part.against]
    columns = [
        text("benchmark", lambda row: row[0]),
        text("strategy", lambda row: row[1].strategy),
        text("against", lambda row: row[1].reference, folds=True),
        number("n", lambda row: str(row[1].n_questions)),
        number("left out", lambda row: str(row[1].n_only_strategy + row[1].n_only_reference), optional=True),
        number("+/-", lambda row: points(row[1].difference)),
        number("95 % CI", lambda row: points_range(row[1].interval)),
        number("p", lambda row: p_value(row[1].p_value), optional=True),
        number("Holm p", lambda row: p_value(row[1].adjusted_p_value)),
        number(("more", "questions"), _more),
    ]
    levels = len(_against(parts[-1], SAMPLES))
    strategies = "1 strategy" if levels == 1 else f"{levels} strategies"
    notes = [
        "samples: the mean of all shared samples, less noisy than one answer. n: questions to which both have one.",
        f"Sign-flip test and its interval, by question; Holm p: adjusted for {strategies}.",
        "more questions: about how many show a difference of this size 8 times of 10.",
    ]
    if any(part.members for part in parts):
        notes.append("The best member was found by the same questions, which flatters it.")
    return table_of(rows, columns, notes=notes)


def _more(row: tuple[str, Against]) -> str:
    return NOTHING if row[1].n_more is None else f"{row[1].n_more:,}"


def _effort(parts: Sequence[BenchmarkReport]) -> Table:
    rows = [(part, one) for part in parts for one in part.results]

    def per(row: tuple[BenchmarkReport, StrategyResult], value: float | None, form: str) -> str:
        n = row[0].oracle.n_questions if row[0].oracle else row[1].n_planned
        return NOTHING if value is None else f"{value / n:{form}}"

    def tokens(row: tuple[BenchmarkReport, StrategyResult]) -> str:
        known = [one for one in (row[1].prompt_tokens, row[1].completion_tokens) if one is not None]
        return per(row, sum(known) if known else None, ",.0f")

    def cost(row: tuple[BenchmarkReport, StrategyResult]) -> str:
        partly = "+" * bool(row[1].calls_without_cost and row[1].cost_usd is not None)
        return per(row, row[1].cost_usd, ".2g") + partly

    columns = [
        text("per question", lambda row: _name(row[0])),
        text("strategy", lambda row: row[1].strategy),
        number("calls", lambda row: per(row, row[1].calls, ".1f")),
        number("tokens", tokens),
        number("s", lambda row: per(row, row[1].seconds, ".1f")),
        number("US$", cost),
    ]
    return table_of(
        rows, columns, notes=["Of the strategy alone: its samples come on top. +: not all calls have a cost."]
    )


def _members(parts: Sequence[BenchmarkReport]) -> Table:
    rows = [(_name(part), one) for part in parts for one in part.members]
    columns = [
        text("benchmark", lambda row: row[0]),
        text("member", lambda row: row[1].model, folds=True),
        number("accuracy", lambda row: percent(row[1].accuracy)),
        number("95 % CI", lambda row: percent_range(row[1].interval)),
        number("right", lambda row: f"{row[1].n_correct}/{row[1].n_planned}"),
        number("failed", lambda row: str(row[1].n_failed)),
    ]
    return table_of(rows, columns)


def _oracles(rows: Sequence[tuple[str, Oracle]]) -> Table:
    columns = [
        text("benchmark", lambda row: row[0]),
        number("oracle", lambda row: percent(row[1].accuracy)),
        number("95 % CI", lambda row: percent_range(row[1].interval)),
        number("any right", lambda row: str(row[1].n_any_correct)),
        number("all right", lambda row: str(row[1].n_all_correct)),
        number("questions", lambda row: str(row[1].n_questions)),
        number("samples", lambda row: str(row[1].n_samples)),
    ]
    return table_of(rows, columns)


def _agreement(part: BenchmarkReport) -> Table:
    columns = [
        text("agreement", lambda one: f"up to {one.agreement:.0%}" if one.agreement else "none read"),
        number("accuracy", lambda one: percent(one.accuracy)),
        number("95 % CI", lambda one: percent_range(one.interval)),
        number("right", lambda one: str(one.n_correct)),
        number("questions", lambda one: str(one.n_questions)),
    ]
    return table_of(part.agreement, columns)


def _pairs(pairs: Sequence[Pair]) -> Table:
    columns = [
        text("A", lambda one: one.a, folds=True),
        text("B", lambda one: one.b, folds=True),
        *(
            number(title, _count_of(name))
            for title, name in (
                ("both", "n_both"),
                ("only A", "n_only_a"),
                ("only B", "n_only_b"),
                ("neither", "n_neither"),
            )
        ),
    ]
    return table_of(sorted(pairs, key=lambda one: (SINGLE not in {one.a, one.b}, one.a, one.b)), columns)


def _count_of(name: str) -> Any:
    return lambda one: str(getattr(one, name))
