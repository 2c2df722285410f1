"""The report on several samples and their consensus, as it is shown."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from shaberi_dagster.reports.blocks import (
    Block,
    Heading,
    Result,
    Row,
    Sentences,
    Table,
    between,
    counted,
    number,
    p_value,
    points,
    text,
    whole_percent,
)
from shaberi_dagster.reports.ensemble import SAMPLES, Against, Findings, QuickReport
from shaberi_dagster.reports.gate import GateReport, gate_result
from shaberi_dagster.reports.rows import says_wrong, undecided_sentences
from shaberi_dagster.reports.score_page import cost_cell, left_out, strategy_blocks
from shaberi_dagster.reports.write import plain
from shaberi_dagster.runs.spec import SINGLE

Name = Callable[[str], str]
"""A way to write names and other texts of unknown origin in a sentence."""
_POOLED, _MEAN = "pooled", "mean"
_UNREAD = (
    "in none of {:,} answers could be read what they answer, so that each counts as wrong: "
    "inspect-output shows them, and --judge-model names a model that grades what rules cannot"
)


def ensemble_result(report: QuickReport, gate: GateReport | None = None) -> Result:
    """Say what each strategy gains, then the tables that this rests on; at the end what a gate found.

    docs/schemas/quick-eval.schema.json describes the document.
    """
    pooled = report.overall.pooled
    gains = ((strategy, gain(pooled, strategy)) for strategy in report.strategies)
    gained = [f"{strategy}: {sentence}." for strategy, sentence in gains if sentence]
    n_undecided = sum(result.n_undecided for result in pooled.results)
    n_scored = sum(result.n_scored for result in pooled.results)
    unread = [_UNREAD.format(n_undecided)] if n_undecided and not n_scored else []
    said: list[Block] = [
        Heading(report.model, report.run_tag),
        Sentences(unread, "warning"),
        Sentences(gained),
        Sentences([*making(report), *(f"{sentence}." for sentence in report.audits), *_contents(report)], "note"),
        *(_graded(report) if report.benchmarks else ()),
        *strategy_blocks(report.judged),
    ]
    if gate is None:
        return Result(said, document=plain(report) | {"gate": None})
    of_gate = gate_result(gate)
    return Result([*said, *of_gate.said], document=plain(report) | {"gate": of_gate.document})


# --- sentences -------------------------------------------------------------------------------------------------------


def gain(findings: Findings, strategy: str, name: Name = str) -> str | None:
    """Say what a strategy gains over the samples that it is made of, what it costs, and what would settle it.

    Returns:
        A sentence without the strategy's name and without a full stop; None if there is nothing to compare.
    """
    compared = [pair for pair in findings.against if pair.reference == SAMPLES]
    against = next((pair for pair in compared if pair.strategy == strategy), None)
    if against is None:
        return None
    if against.difference is None:
        return "no question has both an answer of it and a sample"
    difference, adjusted = f"{points(against.difference)} points", ""
    if len(compared) > 1:
        adjusted = f" adjusted for {len(compared)} strategies"
    within = f" ({between(against.interval, 'points')}; p {p_value(against.adjusted_p_value)}{adjusted})"
    if against.why_withheld:
        parts = [f"no verdict: {difference}{within}, but {name(against.why_withheld)}", *_over_decided(against)]
    elif against.n_more == 0:
        parts = [f"{difference} {'over' if against.difference > 0 else 'against'} the mean of its samples{within}"]
    else:
        parts = [f"no difference to the mean of its samples is shown: {difference}{within}"]
        if against.n_more:
            parts.append(f"about {counted(against.n_more, 'more question')} would settle one of this size")
    return "; ".join([*parts, *_extra(findings, strategy), *left_out(against)])


def _over_decided(against: Against) -> Iterator[str]:
    if against.difference_decided is not None and against.difference_decided != against.difference:
        over = counted(against.n_decided, "question")
        yield f"{points(against.difference_decided)} over the {over} that are decided on both sides"


def _extra(findings: Findings, strategy: str) -> Iterator[str]:
    """Say what a strategy takes beyond the single answer, with its samples."""
    if not {strategy, SINGLE, SAMPLES} <= {result.strategy for result in findings.results}:
        return
    single, all_calls = findings.effort(SINGLE), findings.effort(strategy, SAMPLES)
    extra = f"{all_calls['calls'] - single['calls']:+.1f} calls"
    if all_calls["cost_usd"] is not None and single["cost_usd"] is not None:
        more = "+" if all_calls["calls_without_cost"] else ""
        extra += f" and US$ {all_calls['cost_usd'] - single['cost_usd']:+.2g}{more}"
    yield f"{extra} a question beyond one answer"


def making(report: QuickReport, name: Name = str) -> Iterator[str]:
    """Say how samples, consensus and verdicts were made."""
    settings = report.settings
    members = ", ".join(map(name, dict.fromkeys(settings.members)))
    yield (
        f"{settings.ensemble} shared{' imported' * settings.imported} samples of {members}; the single answer is "
        f"{'a sample of its own' if settings.single == 'own' else 'the first of them'}; "
        f"consensus by {name(settings.consensus_model)}."
    )
    if report.benchmarks:
        graders = ", ".join(map(name, report.graders))
        yield f"Graded by rules{f', and by {graders} what they cannot tell' if graders else ' alone'}."


def _contents(report: QuickReport) -> Iterator[str]:
    sets = [*(part.question_set for part in report.benchmarks), *(score.question_set for score in report.judged)]
    yield f"Question sets: {', '.join(dict.fromkeys(sets))}."
    made = ", ".join(f"{n:,} {stage}" for stage, n in report.calls_made.items() if n)
    yield f"Calls made now: {made or 'none'}; everything else was there."


# --- tables ----------------------------------------------------------------------------------------------------------


_ACCURACY = (
    number("accuracy", upper="accuracy_scored", form="share"),
    number("95 % CI", ends="interval", form="share"),
)


def _right(row: Row) -> str:
    return f"{row['n_correct']}/{row['n_planned'] - row['n_failed']}" if "n_correct" in row else ""


_RIGHT = number("right", _right)
_ACCURACIES = Table(
    [
        text("benchmark"),
        text("strategy"),
        *_ACCURACY,
        _RIGHT,
        number("failed", "n_failed"),
        number(
            ("unde-", "cided"),
            lambda row: whole_percent(row["n_undecided"] / row["n_planned"]) if row["n_planned"] else "",
        ),
    ],
    notes=["Failed calls are left out."],
)
_DIFFERENCES = Table(
    [
        text("benchmark"),
        text("strategy"),
        text("against", "reference", folds=True),
        number("n", "n_questions"),
        number("left out", lambda row: str(row["n_only_strategy"] + row["n_only_reference"]), optional=True),
        number("+/-", "difference", form="points"),
        number("95 % CI", ends="interval", form="points"),
        number("p", "p_value", form="p", optional=True),
        number("Holm p", "adjusted_p_value", form="p"),
        number(("more", "questions"), "n_more"),
    ],
    notes=["samples: the mean of all shared samples, less noisy than one answer. n: questions to which both have one."],
)


EFFORT = {
    "calls": number("calls", form="{:,.1f}"),
    "tokens": number("tokens", form="{:,.0f}"),
    "seconds": number("s", "seconds", form="{:,.1f}"),
    "cost_usd": number("US$", cost_cell),
}
"""The columns of an effort, by its names."""
_EFFORTS = Table(
    [text("per question", "benchmark"), text("strategy"), *EFFORT.values()],
    notes=["Of the strategy alone: its samples come on top. +: not all calls have a cost."],
)
_MEMBERS = Table(
    [text("benchmark"), text("member", "model", folds=True), *_ACCURACY, _RIGHT, number("failed", "n_failed")]
)
_ORACLES = Table(
    [
        text("benchmark"),
        number("oracle", "accuracy", form="share"),
        _ACCURACY[1],
        number("any right", "n_any_correct"),
        number("all right", "n_all_correct"),
        number("questions", "n_questions"),
        number("samples", "n_samples"),
    ]
)
_AGREEMENT = Table(
    [
        text("agreement", lambda row: f"up to {row['agreement']:.0%}" if row["agreement"] else "none read"),
        number("accuracy", form="share"),
        _ACCURACY[1],
        number("right", "n_correct"),
        number("questions", "n_questions"),
    ]
)
_IN_PAIRS = Table(
    [
        text("A", "a", folds=True),
        text("B", "b", folds=True),
        number("both", "n_both"),
        number("only A", "n_only_a"),
        number("only B", "n_only_b"),
        number("neither", "n_neither"),
    ]
)


def _graded(report: QuickReport) -> Iterator[Block]:
    """Show the benchmarks that rules grade, each and all together."""
    pooled = report.overall.pooled
    parts: dict[str, Findings] = {part.benchmark: part for part in report.benchmarks}
    if len(parts) > 1:
        parts[_POOLED] = pooled
    yield _accuracies(report, parts)
    n_strategies = sum(pair.reference == SAMPLES for pair in pooled.against)
    strategies = f"{n_strategies} strateg{'y' if n_strategies == 1 else 'ies'}"
    notes = [
        *_DIFFERENCES.notes,
        f"Sign-flip test and its interval, by question; Holm p: adjusted for {strategies}.",
        "more questions: about how many show a difference of this size 8 times of 10.",
        *(["The best member was found by the same questions, which flatters it."] if pooled.members else []),
    ]
    yield replace(_DIFFERENCES, notes=notes).of(_rows(parts, lambda part: map(vars, part.against)))
    yield _EFFORTS.of(
        _rows(parts, lambda part: ({"strategy": row.strategy, **part.effort(row.strategy)} for row in part.results))
    )
    if pooled.members:
        yield Heading("Members", "by their shared samples; strategies are compared with the best")
        yield _MEMBERS.of(_rows(parts, lambda part: part.members))
    yield Heading("Oracle", "at least one shared sample is right")
    yield _ORACLES.of(_rows(parts, lambda part: [vars(part.oracle)] if part.oracle else []))
    if pooled.agreement:
        yield Heading("Agreement", "the most frequent answer of the samples, by the share that gives it")
        yield _AGREEMENT.of(pooled.agreement)
    for kind, title in (("strategy", "Strategies in pairs"), ("member", "Members in pairs")):
        if pairs := [pair for pair in pooled.complementarity if pair["kind"] == kind]:
            pairs.sort(key=lambda pair: (SINGLE not in {pair["a"], pair["b"]}, pair["a"], pair["b"]))
            yield Heading(title, "questions that both, one, or neither gets right")
            yield _IN_PAIRS.of(pairs)


def _rows(parts: Mapping[str, Findings], rows_of: Callable[[Findings], Iterable[Row]]) -> list[dict[str, Any]]:
    """Make rows of findings, with the benchmark's name."""
    return [{"benchmark": name, **row} for name, part in parts.items() for row in rows_of(part)]


def _accuracies(report: QuickReport, parts: Mapping[str, Findings]) -> Table:
    is_open = {part.benchmark for part in report.benchmarks if part.judge and not says_wrong(part.judge)}
    rows = [
        row | {"is_open": row["benchmark"] in is_open and row["n_undecided"] > 0}
        for row in _rows(parts, lambda part: map(vars, part.results))
    ]
    notes = [*_ACCURACIES.notes]
    if _POOLED in parts:
        counts = dict.fromkeys(("n_failed", "n_undecided", "n_planned"), "")
        rows = [*rows, *({"benchmark": _MEAN} | vars(mean) | counts for mean in report.overall.mean_of_benchmarks)]
        notes.append(
            f"pooled: over the questions of all {len(report.benchmarks)} benchmarks; mean: of the benchmarks, each "
            "with the same weight."
        )
    notes += undecided_sentences(
        {"benchmark": part.benchmark, "judge": part.judge or "", "n_undecided": result.n_undecided}
        for part in report.benchmarks
        for result in part.results
    )
    if unreadable := sum(result.n_unreadable for result in report.overall.pooled.results):
        notes.append(
            f"{counted(unreadable, 'answer')} of those that failed got a verdict of the grading model that could not "
            "be read."
        )
    return replace(_ACCURACIES, notes=notes).of(rows)
