"""The findings of several `quick-eval` jobs, as they are shown: one Markdown document for a pull request.

The documents come from other jobs, and the names in them from models and endpoints. Such text stands in code spans
only, where nothing is markup, a link or a mention.
"""

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from shaberi_dagster.reports.ensemble import SAMPLES, BenchmarkReport, MeanResult, StrategyResult
from shaberi_dagster.reports.figures import listed, percent_ends, points, points_range
from shaberi_dagster.reports.jobs import JobDocument, JobGate, JobsReport
from shaberi_dagster.reports.report import NOTHING, Cell, Column, Row, Table, number, table_of, text
from shaberi_dagster.runs.spec import SINGLE
from shaberi_dagster.show.ensemble import EFFORT, gain, making
from shaberi_dagster.show.gate import TESTS
from shaberi_dagster.show.markdown import Markdown, code, comment_table
from shaberi_dagster.show.score_tables import doubts, strategies_table
from shaberi_dagster.show.text import markdown_text, printable, truncate

MARKER = "<!-- shaberi-eval-report -->"
"""First line of the document, by which a workflow finds its own comment again."""
LIMIT = 65_536
"""Characters that GitHub takes in a comment."""

_ALL_QUESTIONS = "all questions"
_NAME_WIDTH, _LINE_WIDTH, _MOST_LISTED = 60, 300, 50
_HASH_DIGITS = 12
# For the sentence that says what did not fit.
_RESERVE = 500


def markdown(found: JobsReport, title: str, *, marked: bool) -> str:
    """Return the document, of at most `LIMIT` characters; it names what is left out from the end for want of room.

    Args:
        found: The jobs.
        title: The heading.
        marked: Begin with `MARKER`.
    """
    document = (f"{MARKER}\n" if marked else "") + f"## {markdown_text(truncate(title, _LINE_WIDTH))}\n"
    left_out = []
    for name, section in _sections(found):
        if len(document) + len(section) + 1 <= LIMIT - _RESERVE:
            document += f"\n{section}"
        else:
            left_out.append(name)
    if left_out:
        document += f"\nLeft out, since a comment holds {LIMIT:,} characters: {listed(left_out)}.\n"
    return document


# --- sections --------------------------------------------------------------------------------------------------------


def _sections(found: JobsReport) -> Iterator[tuple[str, str]]:
    """Make the parts of the document in order, each with its name for where it does not fit."""
    yield "summary", _bullets(_summary(found))
    groups = _groups(found.jobs)
    if len(groups) > 1:
        yield "differences", _differences(groups)
    for place, group in enumerate(groups, 1):
        document = group[0]
        of_group = f" of group {place}" if len(groups) > 1 else ""
        if of_group:
            yield f"heading{of_group}", f"### Group {place}: {_listed(job.name for job in group)}\n"
        if gains := _bullets(_gains(group)):
            yield f"gains{of_group}", gains
        yield f"settings{of_group}", _bullets(_settings(group))
        if document.benchmarks:
            yield f"accuracies{of_group}", comment_table(_accuracies(group))
            yield f"effort{of_group}", comment_table(_effort(group))
        if document.judged:
            yield f"scores{of_group}", "\n".join(_judged(group))
    gated = [job for job in found.jobs if job.gate]
    if gated:
        yield "regression gates", _gates(gated)
    for place, group in enumerate(groups, 1):
        of_group = f" of group {place}" if len(groups) > 1 else ""
        sets = comment_table(_QUESTION_SETS.of(group[0].benchmarks))
        yield f"question sets{of_group}", _details(f"Question sets{of_group}", sets)
    for job in gated:
        heading = f"All tests of <code>{html.escape(printable(truncate(job.name, _NAME_WIDTH)))}</code>"
        yield f"tests of {code(job.name)}", _details(heading, comment_table(_tests([job])))


def _summary(found: JobsReport) -> Iterator[str]:
    n_gates = sum(job.gate is not None for job in found.jobs)
    for result in ("failed", "inconclusive"):
        if jobs := found.gates(result):
            names = _listed(job.name for job in jobs)
            yield f"**Regression gate {result.upper()}** in {len(jobs)} of {n_gates}: {names}."
    if passed := found.gates("passed"):
        yield f"**Regression gate PASSED** in {len(passed)} of {len(found.jobs) + len(found.problems)} jobs."
    ungated = [job.name for job in found.jobs if not job.gate]
    if not n_gates:
        yield "Not compared with a baseline."
    elif ungated:
        yield f"Not compared with a baseline: {_listed(ungated)}."
    for job in found.incomplete:
        yield f"{code(job.name)} has failed parts: its run is {code(job.status)}."
    for problem in found.problems:
        detail = f": {code(problem['detail'], _LINE_WIDTH)}" if problem["detail"] else ""
        yield f"{code(problem['name'])} {problem['what']}{detail}."


def _groups(jobs: Iterable[JobDocument]) -> list[list[JobDocument]]:
    """Put jobs together that evaluated the same thing."""
    groups: dict[tuple[tuple[str, object], ...], list[JobDocument]] = {}
    for job in jobs:
        groups.setdefault(tuple(_identity(job).items()), []).append(job)
    return list(groups.values())


def _identity(document: JobDocument) -> dict[str, object]:
    """Return everything in which jobs must be alike to share a table, by the name that the document gives it."""
    settings = document.settings
    identity: dict[str, object] = {
        "model": document.model,
        "samples": settings.ensemble,
        "models of the samples": settings.members,
        "single answer": settings.single,
        "consensus model": settings.consensus_model,
        "judge model": settings.judge_model,
        "endpoint": settings.base_url,
        "datasets": tuple(part.benchmark for part in document.benchmarks),
        "judged datasets": tuple(dict.fromkeys((score.question_set, score.judge) for score in document.judged)),
    }
    for part in document.benchmarks:
        sample = part.sample and (part.sample.of, part.sample.size, part.sample.order)
        questions = (part.question_set, part.question_set_sha256, part.n_questions, sample)
        identity[f"questions of {part.benchmark}"] = questions
        identity[f"sampling of {part.benchmark}"] = (part.temperature, part.max_tokens, part.prompt_hash)
        identity[f"judge of {part.benchmark}"] = part.judge
    return identity


def _differences(groups: Sequence[Sequence[JobDocument]]) -> str:
    first, *others = ({name: (value,) for name, value in _identity(group[0]).items()} for group in groups)
    names = dict.fromkeys(name for other in others for name in {**first, **other} if first.get(name) != other.get(name))
    return (
        f"**The jobs did not evaluate the same thing**, so they stand in {len(groups)} groups. "
        f"They differ in: {_listed(names)}.\n"
    )


def _gains(group: Sequence[JobDocument]) -> Iterator[str]:
    """Say what each strategy gains; documents of before have nothing to make it of."""
    for job in group:
        for strategy in job.strategies:
            if gained := gain(job.overall.pooled, strategy, code):
                yield f"{code(strategy)}: {gained}."


def _settings(group: Sequence[JobDocument]) -> Iterator[str]:
    document = group[0]
    yield f"Model {code(document.model)}. Runs: {_listed(dict.fromkeys(job.run_tag for job in group))}."
    yield from making(document, code)
    yield from (f"{code(sentence, _LINE_WIDTH)}." for sentence in document.audits)
    if parts := document.benchmarks:
        temperatures = dict.fromkeys(part.temperature for part in parts)
        sampling = ["no temperature" if value is None else f"temperature {value:g}" for value in temperatures]
        yield f"Sent for samples: {' and '.join(sampling)}."
        samples = [part.sample for part in parts]
        sizes = dict.fromkeys(f"{sample.size} of each, order {sample.order}" if sample else "all" for sample in samples)
        yield f"Datasets: {len(parts)}; questions: {sum(part.n_questions for part in parts):,} ({_listed(sizes)})."
    yield f"Policy: {code(document.policy, _LINE_WIDTH)}"


def _parts(document: JobDocument) -> list[tuple[str, Sequence[StrategyResult | MeanResult]]]:
    """Name the lines of the table of accuracies, with their results."""
    parts: list[tuple[str, Sequence[StrategyResult | MeanResult]]] = [
        (part.benchmark, part.results) for part in document.benchmarks
    ]
    if len(parts) > 1:
        parts.append((Markdown(f"**{_ALL_QUESTIONS}**"), document.overall.pooled.results))
        parts.append((Markdown("**mean of datasets**"), document.overall.mean_of_benchmarks))
    return parts


def _accuracies(group: Sequence[JobDocument]) -> Table:
    """Show the strategies of the jobs side by side, dataset by dataset."""
    first = _parts(group[0])
    columns = [
        Column("dataset", cells=[name for name, _ in first], left=True),
        Column(code(SINGLE), cells=[_accuracy(_of(SINGLE, results)) for _, results in first]),
    ]
    strategies = [strategy for job in group for strategy in job.strategies]
    for job in group:
        for strategy in job.strategies:
            of_job = f" ({code(job.name)})" if strategies.count(strategy) > 1 else ""
            cells = [_compared(_of(strategy, results)) for _, results in _parts(job)]
            columns.append(Column(Markdown(f"{code(strategy)}{of_job}"), cells=cells))
    note = (
        "Accuracy (right/planned); below it the difference to the single answer in points over the questions to which "
        "both have an answer, with a paired 95 % interval."
    )
    return Table(columns, notes=[note, *_unlike_singles(group)])


def _of(strategy: str, results: Iterable[StrategyResult | MeanResult]) -> StrategyResult | MeanResult | None:
    return next((result for result in results if result.strategy == strategy), None)


def _accuracy(result: StrategyResult | MeanResult | None) -> str:
    if result is None:
        return NOTHING
    counts = f" ({result.n_correct}/{result.n_planned - result.n_failed})" if isinstance(result, StrategyResult) else ""
    return f"{percent_ends(result.accuracy, result.accuracy_scored)}{counts}"


def _compared(result: StrategyResult | MeanResult | None) -> Cell:
    if result is None or result.delta is None:
        return _accuracy(result)
    within = f" ({points_range(result.delta_interval)})" if result.delta_interval else ""
    return _accuracy(result), f"{points(result.delta)}{within}"


def _unlike_singles(group: Sequence[JobDocument]) -> Iterator[Markdown]:
    """Say what the jobs found of the single answer, where it differs: each job grades it for itself."""
    singles = {job.name: [part.result(SINGLE) for part in job.benchmarks] for job in group}
    counts = {name: [found and (found.n_correct, found.n_scored) for found in parts] for name, parts in singles.items()}
    if any(of_job != counts[group[0].name] for of_job in counts.values()):
        found = {job.name: job.overall.pooled.result(SINGLE) for job in group[:_MOST_LISTED]}
        jobs = ", ".join(
            f"{code(name)} {single.n_correct}/{single.n_planned}" if single else code(name)
            for name, single in found.items()
        )
        yield Markdown(f"{code(SINGLE)} is not the same in all jobs, each compares with its own: {jobs}.")


def _effort(group: Sequence[JobDocument]) -> Table:
    """Show what the single answer takes per question, and each strategy with the samples that it is made of."""
    rows = []
    for place, job in enumerate(group):
        pooled = job.overall.pooled
        if (single := pooled.result(SINGLE)) is None or pooled.result(SAMPLES) is None:
            continue
        of_single = pooled.effort(SINGLE)
        if place == 0:
            rows.append({**vars(single), **of_single, "single": {}})
        for strategy in job.strategies:
            effort = pooled.effort(strategy, SAMPLES)
            rows.append({**vars(pooled.result(strategy)), **effort, "single": of_single})
    columns = [
        text("per question", "strategy"),
        *(_with_times(field) for field in ("calls", "tokens", "cost_usd", "seconds")),
        number("failed", "n_failed"),
        number("no answer", "n_excluded"),
    ]
    note = (
        "Each strategy with its shared samples; × is against the single answer. Seconds are added up over calls, which "
        "are made at the same time. US$ only as far as it is known to be paid here: + says that calls are not in it."
    )
    return table_of(rows, columns, notes=[note])


def _with_times(field: str) -> Column:
    """Return a column of the effort that says as well how many times that of the single answer it is."""
    column = EFFORT[field]

    def cell(row: Row) -> str:
        (shown,) = column.of([row]).cells
        reference, partly = row["single"].get(field), field == "cost_usd" and row["partly"]
        times = f" ({row[field] / reference:.1f}×)" if row[field] is not None and reference and not partly else ""
        return f"{shown}{times}"

    return number(column.title, cell)


def _judged(group: Sequence[JobDocument]) -> Iterator[str]:
    """Show the scores of LLM judges job by job, with the paired difference from the mean of the shared samples."""
    for job in group:
        judged = job.judged
        yield f"Judged by LLMs{f' in {code(job.name)}' if len(group) > 1 else ''}:\n"
        yield comment_table(strategies_table(judged))
        for score in judged:
            if found := "; ".join(doubts(score)):
                of_score = f"{code(score.strategy)} on {code(score.benchmark)} by {code(score.judge)}"
                yield _bullets([f"{of_score}: {code(found, _LINE_WIDTH)}."])


def _gates(jobs: Sequence[JobDocument]) -> str:
    gates = [(job.name, gate) for job in jobs if (gate := job.gate)]
    columns = [
        text("job", lambda row: row[0]),
        text("result", lambda row: _result(row[1])),
        text("baseline", lambda row: row[1].baseline),
        text("gate", lambda row: row[1].gate),
        number("level", lambda row: f"{row[1].significance:g}"),
    ]
    levels = sum(gate.significance for _, gate in gates)
    note = (
        "p is one-sided: small when worse. Holm p is adjusted for all tests of a job; too few: the test could not have "
        "failed. Detectable: the drop that the test sees 8 times of 10. "
        f"Of equal runs at most {min(levels, 1):.0%} fail in one of the {len(jobs)} jobs."
    )
    tables = comment_table(table_of(gates, columns)), comment_table(replace(_tests(jobs, pooled=True), notes=[note]))
    warnings = _bullets(_warnings(jobs))
    details = [_details("Warnings of the gate", warnings, opened=True)] if warnings else []
    return "\n".join(["### Regression gate\n", *tables, *details])


def _result(gate: JobGate) -> Markdown:
    if gate.result == "failed":
        worse = [f"{test.strategy} on {test.benchmark or _ALL_QUESTIONS}" for test in gate.tests if test.regressed]
        return Markdown(f"**FAILED**: {_listed(worse)}")
    if gate.result == "inconclusive":
        return Markdown(f"**INCONCLUSIVE**: {code('; '.join(gate.doubts), _LINE_WIDTH)}")
    return Markdown("PASSED")


def _warnings(jobs: Sequence[JobDocument]) -> Iterator[str]:
    """Say each warning once, with the jobs that have it."""
    found: dict[str, list[str]] = {}
    for job in jobs:
        for warning in job.gate.warnings if job.gate else ():
            found.setdefault(warning, []).append(job.name)
    for warning, names in list(found.items())[:_MOST_LISTED]:
        yield f"{_listed(names)}: {code(warning, _LINE_WIDTH)}"
    if len(found) > _MOST_LISTED:
        yield f"and {len(found) - _MOST_LISTED} more"


def _tests(jobs: Sequence[JobDocument], *, pooled: bool = False) -> Table:
    """Show the gates' tests; only those over all datasets and those that failed, if `pooled`."""
    rows = [
        {"job": job.name, **vars(test)}
        for job in jobs
        if job.gate
        for test in job.gate.tests
        if not pooled or test.benchmark is None or test.regressed
    ]
    worse = number("", lambda row: "worse" if row["regressed"] else "")
    return table_of(rows, [text("job"), *TESTS.columns, worse])


def _sample(part: BenchmarkReport) -> str:
    sample = part.sample
    return Markdown(f"{sample.size:,} of {code(sample.of)}, {code(sample.order)}" if sample else "all")


_QUESTION_SETS = Table(
    [
        text("dataset", lambda part: part.benchmark),
        text("question set", lambda part: part.question_set),
        text("sha256", lambda part: part.question_set_sha256[:_HASH_DIGITS]),
        number("questions", lambda part: f"{part.n_questions:,}"),
        text("sample", _sample),
        text("judge", lambda part: part.judge or Markdown(NOTHING)),
    ]
)


# --- text ------------------------------------------------------------------------------------------------------------


def _listed(names: Iterable[str]) -> str:
    return listed(map(code, names), _MOST_LISTED)


def _bullets(lines: Iterable[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


def _details(title: str, content: str, *, opened: bool = False) -> str:
    return f"<details{' open' * opened}><summary>{title}</summary>\n\n{content}\n</details>\n"
