"""The findings of several `quick-eval` jobs, read from the documents that they wrote: one Markdown document.

The documents come from other jobs, and the names in them from models and endpoints. Such text stands in code spans
only, where nothing is markup, a link or a mention.
"""

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, TypeAdapter, ValidationError, model_validator

from shaberi_dagster.reports.blocks import (
    NOTHING,
    Cell,
    Column,
    Row,
    Rows,
    Table,
    between,
    both_ends,
    grouped,
    listed,
    number,
    points,
    table_of,
    text,
)
from shaberi_dagster.reports.ensemble import (
    EFFORT,
    SAMPLES,
    Count,
    Difference,
    MeanResult,
    QuickReport,
    Share,
    StrategyResult,
    doubts,
    making,
    strategies_table,
    verdicts,
)
from shaberi_dagster.reports.gate import TESTS
from shaberi_dagster.reports.write import Markdown, code, comment_table
from shaberi_dagster.runs.spec import SINGLE
from shaberi_dagster.util.text import markdown_text, printable, truncate

COMPLETE = "complete"


class JobTest(BaseModel, frozen=True):
    """A test of a gate, see `gate.TESTS`."""

    strategy: str
    benchmark: str | None
    n_baseline: Count
    n_current: Count
    baseline_accuracy: Share | None
    current_accuracy: Share | None
    baseline_scored_accuracy: Share | None = None
    current_scored_accuracy: Share | None = None
    delta: Difference | None
    losses: Count | None = None
    gains: Count | None = None
    p_value: Share
    adjusted_p_value: Share | None
    minimum_detectable_effect: Share | None
    regressed: bool


class JobGate(BaseModel, frozen=True):
    """The result of a job's gate."""

    gate: str
    significance: Share
    passed: bool
    result: Literal["passed", "failed", "inconclusive"] = "passed"
    doubts: tuple[str, ...] = ()
    baseline: str
    tests: tuple[JobTest, ...]
    warnings: tuple[str, ...]

    @model_validator(mode="before")
    @classmethod
    def _of_before(cls, values: Any) -> Any:
        """Documents of before have `passed` alone."""
        if isinstance(values, dict) and "result" not in values and values.get("passed") is False:
            return values | {"result": "failed"}
        return values


@dataclass(frozen=True, kw_only=True)
class JobDocument(QuickReport):
    """The document of one job, as `quick-eval --json` wrote it.

    Attributes:
        gate: The result of its gate; None without a baseline.
        name: Of its file.
    """

    gate: JobGate | None
    name: str = ""

    def __post_init__(self) -> None:
        """Refuse a document of nothing."""
        if not self.benchmarks and not self.judged:
            raise ValueError("it has no benchmark")


_DOCUMENT = TypeAdapter(JobDocument)


def read_jobs(paths: Sequence[Path]) -> tuple[list[JobDocument], list[Row]]:
    """Read the documents in files, in the order of the files.

    Args:
        paths: Where they should be; it is no error when they are not.

    Returns:
        The readable documents, and a row for each other file: its name, what is wrong with it, and the detail that the
        system or the reader says, which can be empty.
    """
    stems = [path.stem for path in paths]
    jobs, problems = list[JobDocument](), list[Row]()
    for path in paths:
        name = path.stem if stems.count(path.stem) == 1 else str(path)
        try:
            jobs.append(replace(_DOCUMENT.validate_json(path.read_bytes()), name=name))
        except FileNotFoundError:
            problems.append({"name": name, "what": "gave no result", "detail": ""})
        except OSError as error:
            problems.append({"name": name, "what": "cannot be read", "detail": str(error.strerror)})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            detail = f"{place}: {first['msg']}" if place else first["msg"]
            problems.append({"name": name, "what": "is no document of quick-eval", "detail": detail})
    return jobs, problems


MARKER = "<!-- shaberi-eval-report -->"
"""First line of the document, by which a workflow finds its own comment again."""
LIMIT = 65_536
"""Characters that GitHub takes in a comment."""

_ALL_QUESTIONS = "all questions"
_NAME_WIDTH, _LINE_WIDTH, _MOST_LISTED = 60, 300, 50
_HASH_DIGITS = 12
# For the sentence that says what did not fit.
_RESERVE = 500


def markdown(jobs: Sequence[JobDocument], problems: Rows, title: str, *, marked: bool) -> str:
    """Return the document, of at most `LIMIT` characters; it names what is left out from the end for want of room.

    Args:
        jobs: The readable documents.
        problems: The other files.
        title: The heading.
        marked: Begin with `MARKER`.
    """
    document = (f"{MARKER}\n" if marked else "") + f"## {markdown_text(truncate(title, _LINE_WIDTH))}\n"
    left_out = []
    for name, section in _sections(jobs, problems):
        if len(document) + len(section) + 1 <= LIMIT - _RESERVE:
            document += f"\n{section}"
        else:
            left_out.append(name)
    if left_out:
        document += f"\nLeft out, since a comment holds {LIMIT:,} characters: {listed(left_out)}.\n"
    return document


# --- sections --------------------------------------------------------------------------------------------------------


def _sections(jobs: Sequence[JobDocument], problems: Rows) -> Iterator[tuple[str, str]]:
    """Make the parts of the document in order, each with its name for where it does not fit."""
    yield "summary", _bullets(_summary(jobs, problems))
    groups = [group for _, group in grouped(jobs, lambda job: tuple(_identity(job).items()))]
    named = {f" of group {place}" if len(groups) > 1 else "": group for place, group in enumerate(groups, 1)}
    if len(groups) > 1:
        yield "differences", _differences(groups)
    for of_group, group in named.items():
        document = group[0]
        if of_group:
            title = of_group.removeprefix(" of ").capitalize()
            yield f"heading{of_group}", f"### {title}: {_listed(job.name for job in group)}\n"
        if gains := _bullets(sentence for job in group for sentence in verdicts(job.overall.pooled, code)):
            yield f"gains{of_group}", gains
        yield f"settings{of_group}", _bullets(_settings(group))
        if document.benchmarks:
            yield f"accuracies{of_group}", comment_table(_accuracies(group))
            yield f"effort{of_group}", comment_table(_effort(group))
        if document.judged:
            yield f"scores{of_group}", "\n".join(_judged(group))
    if gated := [job for job in jobs if job.gate]:
        yield "regression gates", _gates(gated)
    for of_group, group in named.items():
        sets = comment_table(_QUESTION_SETS.of([*map(vars, group[0].benchmarks)]))
        yield f"question sets{of_group}", _details(f"Question sets{of_group}", sets)
    for job in gated:
        heading = f"All tests of <code>{html.escape(printable(truncate(job.name, _NAME_WIDTH)))}</code>"
        yield f"tests of {code(job.name)}", _details(heading, comment_table(_tests([job])))


def _summary(jobs: Sequence[JobDocument], problems: Rows) -> Iterator[str]:
    results = dict(grouped(jobs, lambda job: job.gate and job.gate.result))
    ungated = results.pop(None, [])
    for result in ("failed", "inconclusive"):
        if found := results.get(result):
            names = _listed(job.name for job in found)
            yield f"**Regression gate {result.upper()}** in {len(found)} of {len(jobs) - len(ungated)}: {names}."
    if passed := results.get("passed"):
        yield f"**Regression gate PASSED** in {len(passed)} of {len(jobs) + len(problems)} jobs."
    if not results:
        yield "Not compared with a baseline."
    elif ungated:
        yield f"Not compared with a baseline: {_listed(job.name for job in ungated)}."
    yield from (f"{code(job.name)} has failed parts: its run is {code(job.status)}." for job in incomplete(jobs))
    for problem in problems:
        detail = f": {code(problem['detail'], _LINE_WIDTH)}" if problem["detail"] else ""
        yield f"{code(problem['name'])} {problem['what']}{detail}."


def incomplete(jobs: Iterable[JobDocument]) -> list[JobDocument]:
    """Return the jobs with failed parts."""
    return [job for job in jobs if job.status != COMPLETE]


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
        "Accuracy (right/planned); below it the difference to the single answer in points over questions that both "
        "answered, with a paired 95 % interval."
    )
    return Table(columns, notes=[note, *_unlike_singles(group)])


def _of(strategy: str, results: Iterable[StrategyResult | MeanResult]) -> StrategyResult | MeanResult | None:
    return next((result for result in results if result.strategy == strategy), None)


def _accuracy(result: StrategyResult | MeanResult | None) -> str:
    if result is None:
        return NOTHING
    counts = f" ({result.n_correct}/{result.n_planned - result.n_failed})" if isinstance(result, StrategyResult) else ""
    return f"{both_ends(result.accuracy, result.accuracy_scored, 'share')}{counts}"


def _compared(result: StrategyResult | MeanResult | None) -> Cell:
    if result is None or result.delta is None:
        return _accuracy(result)
    within = f" ({between(result.delta_interval, 'points')})" if result.delta_interval else ""
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
        rows += [{**vars(single), **of_single, "single": {}}] if place == 0 else []
        strategies = [(pooled.result(name), pooled.effort(name, SAMPLES)) for name in job.strategies]
        rows += [{**vars(result), **effort, "single": of_single} for result, effort in strategies]
    columns = [
        text("per question", "strategy"),
        *(_with_times(field) for field in ("calls", "tokens", "cost_usd", "seconds")),
        number("failed", "n_failed"),
        number("no answer", "n_excluded"),
    ]
    note = (
        "Each strategy with its shared samples; × is against the single answer. Seconds: summed over calls that "
        "run at the same time. US$: what was paid here; +: some calls have no price."
    )
    return table_of(rows, columns, notes=[note])


def _with_times(field: str) -> Column:
    """Return a column of the effort that says as well how many times that of the single answer it is."""
    column = EFFORT[field]

    def cell(row: Row) -> str:
        (shown,) = column.of([row]).cells
        reference, partly = row["single"].get(field), field == "cost_usd" and row["calls_without_cost"]
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
    gates = [{"job": job.name, **vars(gate), "result": _result(gate)} for job in jobs if (gate := job.gate)]
    names = ("job", "result", "baseline", "gate")
    columns = [*map(text, names), number("level", "significance", form="{:g}")]
    levels = sum(row["significance"] for row in gates)
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
    worse = [f"{test.strategy} on {test.benchmark or _ALL_QUESTIONS}" for test in gate.tests if test.regressed]
    why = {"failed": _listed(worse), "inconclusive": code("; ".join(gate.doubts), _LINE_WIDTH)}
    return Markdown(f"**{gate.result.upper()}**: {why[gate.result]}" if gate.result in why else "PASSED")


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


def _sample(row: Row) -> str:
    sample = row["sample"]
    return Markdown(f"{sample.size:,} of {code(sample.of)}, {code(sample.order)}" if sample else "all")


_QUESTION_SETS = Table(
    [
        text("dataset", "benchmark"),
        text("question set"),
        text("sha256", lambda row: row["question_set_sha256"][:_HASH_DIGITS]),
        number("questions", "n_questions"),
        text("sample", _sample),
        text("judge", null=Markdown(NOTHING)),
    ]
)


# --- text ------------------------------------------------------------------------------------------------------------


def _listed(names: Iterable[str]) -> str:
    return listed(map(code, names), _MOST_LISTED)


def _bullets(lines: Iterable[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


def _details(title: str, content: str, *, opened: bool = False) -> str:
    return f"<details{' open' * opened}><summary>{title}</summary>\n\n{content}\n</details>\n"
