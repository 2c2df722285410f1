"""How the findings of several `quick-eval` jobs are shown: one Markdown document for a pull request.

The documents come from other jobs, and the names in them from models and endpoints. Such text stands in code spans and
code blocks only, where nothing is markup, a link or a mention.
"""

import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from shaberi_dagster.reports.figures import decimals, signed
from shaberi_dagster.reports.jobs import SAMPLES, Job, JobDocument, JobResult, JobsReport, Mean, ScoreInterval
from shaberi_dagster.reports.report import NOTHING
from shaberi_dagster.runs.spec import SINGLE
from shaberi_dagster.show.ensemble import gain
from shaberi_dagster.show.text import markdown_text, printable, truncate

MARKER = "<!-- shaberi-eval-report -->"
"""First line of the document, by which a workflow finds its own comment again."""
LIMIT = 65_536
"""Characters that GitHub takes in a comment."""

_ALL_QUESTIONS, _MEAN = "all questions", "mean of datasets"
_NAME_WIDTH, _LINE_WIDTH, _MOST_LISTED = 60, 300, 50
_HASH_DIGITS = 12
# For the sentence that says what did not fit.
_RESERVE = 500
# Inside a code span and a table cell two characters still mean something.
_CODE_SUBSTITUTES = str.maketrans({"`": "ˋ", "|": "¦"})

_Row = TypeVar("_Row", bound=Mean)


def markdown(found: JobsReport, title: str, *, marked: bool) -> str:
    """The document, of at most `LIMIT` characters; what does not fit is left out from the end, and said.

    Args:
        found: What was read.
        title: The heading.
        marked: Begin with `MARKER`.
    """
    text = (f"{MARKER}\n" if marked else "") + f"## {markdown_text(truncate(title, _LINE_WIDTH))}\n"
    left_out = []
    for name, section in _sections(found):
        if len(text) + len(section) + 1 <= LIMIT - _RESERVE:
            text += f"\n{section}"
        else:
            left_out.append(name)
    if left_out:
        text += f"\nLeft out, since a comment holds {LIMIT:,} characters: {_several(left_out, 5)}.\n"
    return text


# --- sections --------------------------------------------------------------------------------------------------------


def _sections(found: JobsReport) -> Iterator[tuple[str, str]]:
    """The parts of the document in order, each with what it is called if it does not fit."""
    yield "summary", _summary(found)
    groups = _groups(found.jobs)
    if len(groups) > 1:
        yield "differences", _differences(groups)
    for number, group in enumerate(groups, 1):
        of = f" of group {number}" if len(groups) > 1 else ""
        if of:
            yield f"heading{of}", f"### Group {number}: {_listed(job.name for job in group)}\n"
        if gains := _gains(group):
            yield f"gains{of}", gains
        yield f"settings{of}", _settings(group)
        if group[0].document.benchmarks:
            yield f"accuracies{of}", _accuracies(group)
            yield f"effort{of}", _effort(group)
        if group[0].document.judged:
            yield f"scores{of}", _judged(group)
    gated = [job for job in found.jobs if job.document.gate]
    if gated:
        yield "regression gates", _gates(gated)
    for number, group in enumerate(groups, 1):
        of = f" of group {number}" if len(groups) > 1 else ""
        yield f"question sets{of}", _details(f"Question sets{of}", _question_sets(group[0].document))
    for job in gated:
        heading = f"All tests of <code>{html.escape(printable(truncate(job.name, _NAME_WIDTH)))}</code>"
        yield f"tests of {_code(job.name)}", _details(heading, _tests([job]))


def _summary(found: JobsReport) -> str:
    gates = [job for job in found.jobs if job.document.gate]
    lines = [
        f"**Regression gate {result.upper()}** in {len(jobs)} of {len(gates)}: {_listed(job.name for job in jobs)}."
        for result in ("failed", "inconclusive")
        if (jobs := found.gates(result))
    ]
    if passed := found.gates("passed"):
        lines.append(f"**Regression gate PASSED** in {len(passed)} of {len(found.jobs) + len(found.problems)} jobs.")
    ungated = [job.name for job in found.jobs if not job.document.gate]
    if not gates:
        lines.append("Not compared with a baseline.")
    elif ungated:
        lines.append(f"Not compared with a baseline: {_listed(ungated)}.")
    lines += [
        f"{_code(job.name)} has failed parts: its run is {_code(job.document.status)}." for job in found.incomplete
    ]
    lines += [
        f"{_code(one.name)} {one.what}{f': {_code(one.detail, _LINE_WIDTH)}' if one.detail else ''}."
        for one in found.problems
    ]
    return _bullets(lines)


def _groups(jobs: Iterable[Job]) -> list[list[Job]]:
    """The jobs that evaluated the same thing stand together."""
    groups: dict[tuple[tuple[str, object], ...], list[Job]] = {}
    for job in jobs:
        groups.setdefault(tuple(_identity(job.document).items()), []).append(job)
    return list(groups.values())


def _identity(document: JobDocument) -> dict[str, object]:
    """Everything in which jobs must be alike to share a table, by the name that the report gives it."""
    settings = document.settings
    identity: dict[str, object] = {
        "model": document.model,
        "samples": settings.ensemble,
        "models of the samples": settings.members,
        "single answer": settings.single,
        "consensus model": settings.consensus_model,
        "judge model": settings.judge_model,
        "endpoint": settings.base_url,
        "datasets": tuple(one.benchmark for one in document.benchmarks),
        "judged datasets": tuple(dict.fromkeys((one.question_set, one.judge) for one in document.judged)),
    }
    questions = ("question_set", "question_set_sha256", "n_questions", "sample")
    for one in document.benchmarks:
        identity[f"questions of {one.benchmark}"] = tuple(getattr(one, name) for name in questions)
        identity[f"sampling of {one.benchmark}"] = (one.temperature, one.max_tokens, one.prompt_hash)
        identity[f"judge of {one.benchmark}"] = one.judge
    return identity


def _differences(groups: Sequence[Sequence[Job]]) -> str:
    first, *others = ({name: (value,) for name, value in _identity(group[0].document).items()} for group in groups)
    names = dict.fromkeys(name for other in others for name in {**first, **other} if first.get(name) != other.get(name))
    return (
        f"**The jobs did not evaluate the same thing**, so they stand in {len(groups)} groups. "
        f"They differ in: {_listed(names)}.\n"
    )


def _gains(group: Sequence[Job]) -> str:
    """A sentence for each strategy; documents of before have nothing to make it of."""
    found = [(strategy, gain(job.document.overall.pooled, strategy)) for job in group for strategy in job.strategies]
    return _bullets(f"{_code(strategy)}: {said}." for strategy, said in found if said)


def _settings(group: Sequence[Job]) -> str:
    document = group[0].document
    settings = document.settings
    samples = [one.sample for one in document.benchmarks]
    sizes = dict.fromkeys(f"{one.size} of each, order {one.order}" if one else "all" for one in samples)
    temperatures = dict.fromkeys(one.temperature for one in document.benchmarks)
    sampled = " and ".join("no temperature sent" if one is None else f"temperature {one:g}" for one in temperatures)
    single = "a sample of its own" if settings.single == "own" else "the first of the shared samples"
    judge = f"rules, and {_code(settings.judge_model)} what they cannot tell" if settings.judge_model else "rules alone"
    members, tags = dict.fromkeys(settings.members), dict.fromkeys(job.document.run_tag for job in group)
    n_questions = sum(one.n_questions for one in document.benchmarks)
    lines = [
        f"Model {_code(document.model)}. Runs: {_listed(tags)}.",
        f"{settings.ensemble} shared samples of {_listed(members)}, {sampled}; single is {single}.",
        f"Consensus by {_code(settings.consensus_model)}. Graded by {judge}.",
        f"Datasets: {len(document.benchmarks)}; questions: {n_questions:,} ({_listed(sizes)}).",
        f"Policy: {_code(document.policy, _LINE_WIDTH)}",
    ]
    return _bullets(lines)


def _accuracies(group: Sequence[Job]) -> str:
    columns = [(job, strategy) for job in group for strategy in job.strategies]
    names = [strategy for _, strategy in columns]
    titles = [
        _code(strategy) + (f" ({_code(job.name)})" if names.count(strategy) > 1 else "") for job, strategy in columns
    ]
    rows = []
    benchmarks = group[0].document.benchmarks
    for index, one in enumerate(benchmarks):
        cells = [_accuracy(_of(SINGLE, one.results))]
        cells += [_compared(_of(strategy, job.document.benchmarks[index].results)) for job, strategy in columns]
        rows.append([_code(one.benchmark), *cells])
    if len(benchmarks) > 1:
        pooled, means = group[0].document.overall.pooled.results, group[0].document.overall.mean_of_benchmarks
        overall = [job.document.overall for job, _ in columns]
        rows.append(
            [f"**{_ALL_QUESTIONS}**", _accuracy(_of(SINGLE, pooled))]
            + [_compared(_of(name, one.pooled.results)) for name, one in zip(names, overall, strict=True)]
        )
        rows.append(
            [f"**{_MEAN}**", _accuracy(_of(SINGLE, means))]
            + [_compared(_of(name, one.mean_of_benchmarks)) for name, one in zip(names, overall, strict=True)]
        )
    text = _table(["dataset", _code(SINGLE), *titles], rows)
    text += (
        "\nAccuracy (right/planned); below it the difference to `single` in points over the questions to which both "
        "have an answer, with a paired 95 % interval.\n"
    )
    if unlike := _unlike_singles(group):
        text += f"\n`single` is not the same in all jobs, each compares with its own: {unlike}.\n"
    return text


def _judged(group: Sequence[Job]) -> str:
    """Scores of LLM judges, with the paired difference from the mean of the shared samples."""
    rows = [
        [
            _code(one.benchmark),
            _code(one.judge),
            _code(one.strategy) + (f" ({_code(job.name)})" if len(group) > 1 else ""),
            f"{decimals(one.score)}{_ends(one.interval, decimals)}",
            f"{one.n_scored}/{one.n_planned}",
            f"{signed(one.against.difference)}{_ends(one.against.interval, signed)}" if one.against else "",
            str(one.against.n_questions) if one.against else "",
            str(one.against.n_only_strategy + one.against.n_only_reference) if one.against else "",
            _code(one.against.why_withheld, _LINE_WIDTH) if one.against and one.against.why_withheld else "",
            NOTHING if one.calls is None else f"{one.calls:,}",
        ]
        for job in group
        for one in job.document.judged
    ]
    titles = ["dataset", "judge", "strategy", "score", "scored", "+/-", "n", "left out", "no verdict", "calls"]
    return (
        _table(titles, rows)
        + "\nJudged by LLMs: mean score with its 95 % interval; +/- is against the mean of the shared samples, over "
        "the n questions to which both have an answer.\n"
    )


def _ends(ends: ScoreInterval | None, form: Callable[[float], str]) -> str:
    return f" ({form(ends.lower)} to {form(ends.upper)})" if ends else ""


def _unlike_singles(group: Sequence[Job]) -> str:
    """What the jobs found of the single answer, where it differs: each job grades it for itself."""
    singles = {job.name: [_of(SINGLE, one.results) for one in job.document.benchmarks] for job in group}
    counts = {name: [one and (one.n_correct, one.n_planned) for one in found] for name, found in singles.items()}
    if all(one == counts[group[0].name] for one in counts.values()):
        return ""
    found = {job.name: _of(SINGLE, job.document.overall.pooled.results) for job in group[:_MOST_LISTED]}
    return ", ".join(
        f"{_code(name)} {one.n_correct}/{one.n_planned}" if one else _code(name) for name, one in found.items()
    )


def _effort(group: Sequence[Job]) -> str:
    """Per question: the single answer, and each strategy with the shared samples that it is made of."""
    pooled = group[0].document.overall.pooled.results
    single = _of(SINGLE, pooled)
    rows = [[_code(SINGLE), *_effort_cells([single], single)]] if single else []
    for job in group:
        results = job.document.overall.pooled.results
        samples, reference = _of(SAMPLES, results), _of(SINGLE, results)
        rows += [
            [_code(strategy), *_effort_cells([_of(strategy, results), samples], reference)]
            for strategy in job.strategies
        ]
    return (
        _table(["per question", "calls", "tokens", "US$", "seconds", "failed", "no answer"], rows)
        + "\nEach strategy with its shared samples; × is against `single`. Seconds are added up over calls, which are "
        "made at the same time. US$ only as far as it is known to be paid here: + says that calls are not in it.\n"
    )


def _effort_cells(parts: Sequence[JobResult | None], single: JobResult | None) -> list[str]:
    own = parts[0]
    known = [one for one in parts if one]
    if own is None or single is None or len(known) < len(parts):
        return [NOTHING] * 6
    n, of_single = own.n_planned, single.n_planned

    def cell(values: Sequence[float | None], reference: float | None, form: str, mark: str = "") -> str:
        total = _sum(values)
        if total is None:
            return NOTHING
        times = f" ({total / n / (reference / of_single):.1f}×)" if reference and own is not single and not mark else ""
        return f"{total / n:{form}}{mark}{times}"

    return [
        cell([one.calls for one in known], single.calls, ",.1f"),
        cell([one.tokens for one in known], single.tokens, ",.0f"),
        cell(
            [one.cost_usd for one in known], single.cost_usd, ",.2g", "+" * any(one.calls_without_cost for one in known)
        ),
        cell([one.seconds for one in known], single.seconds, ",.1f"),
        str(own.n_failed),
        str(own.n_excluded),
    ]


def _gates(jobs: Sequence[Job]) -> str:
    rows = []
    for job in jobs:
        gate = job.document.gate
        assert gate is not None  # noqa: S101 - only jobs with a gate come here
        worse = [f"{one.strategy} on {one.benchmark or _ALL_QUESTIONS}" for one in gate.tests if one.regressed]
        said = {
            "passed": "PASSED",
            "failed": f"**FAILED**: {_listed(worse)}",
            "inconclusive": f"**INCONCLUSIVE**: {_code('; '.join(gate.doubts), _LINE_WIDTH)}",
        }[gate.result]
        rows.append([_code(job.name), said, _code(gate.baseline), _code(gate.gate), f"{gate.significance:g}"])
    levels = sum(job.document.gate.significance for job in jobs if job.document.gate)
    text = "### Regression gate\n\n" + _table(["job", "result", "baseline", "gate", "level"], rows)
    text += f"\n{_tests(jobs, pooled=True)}"
    text += (
        "\np is one-sided: small when worse. Holm p is adjusted for all tests of a job; too few: the test could not "
        "have failed. Detectable: the drop that the test sees 8 times of 10. "
        f"Of equal runs at most {min(levels, 1):.0%} fail in one of the {len(jobs)} jobs.\n"
    )
    warnings = _warnings(jobs)
    return text + (f"\n{_details('Warnings of the gate', warnings, opened=True)}" if warnings else "")


def _warnings(jobs: Sequence[Job]) -> str:
    """Each warning once, with the jobs that have it."""
    found: dict[str, list[str]] = {}
    for job in jobs:
        for warning in job.document.gate.warnings if job.document.gate else ():
            found.setdefault(warning, []).append(job.name)
    shown = list(found.items())[:_MOST_LISTED]
    lines = [f"{_listed(names)}: {_code(warning, _LINE_WIDTH)}" for warning, names in shown]
    if len(found) > len(shown):
        lines.append(f"and {len(found) - len(shown)} more")
    return _bullets(lines) if lines else ""


def _tests(jobs: Sequence[Job], *, pooled: bool = False) -> str:
    """The gates' tests; only those over all datasets and those that failed, if `pooled`."""
    rows = [
        [
            _code(job.name),
            _code(test.strategy),
            _code(test.benchmark) if test.benchmark else _ALL_QUESTIONS,
            str(test.n_current) if test.n_current == test.n_baseline else f"{test.n_baseline}/{test.n_current}",
            _percent(test.baseline_accuracy),
            _percent(test.current_accuracy),
            _points(test.delta),
            f"{test.p_value:.4f}",
            "too few" if test.adjusted_p_value is None else f"{test.adjusted_p_value:.4f}",
            _points(None if test.minimum_detectable_effect is None else -test.minimum_detectable_effect),
            "worse" if test.regressed else "",
        ]
        for job in jobs
        if job.document.gate
        for test in job.document.gate.tests
        if not pooled or test.benchmark is None or test.regressed
    ]
    titles = ["job", "strategy", "dataset", "n", "baseline", "now", "change", "p", "Holm p", "detectable", ""]
    return _table(titles, rows)


def _question_sets(document: JobDocument) -> str:
    rows = [
        [
            _code(one.benchmark),
            _code(one.question_set),
            _code(one.question_set_sha256[:_HASH_DIGITS]),
            f"{one.n_questions:,}",
            f"{one.sample.size:,} of {_code(one.sample.of)}, {_code(one.sample.order)}" if one.sample else "all",
            _code(one.judge) if one.judge else NOTHING,
        ]
        for one in document.benchmarks
    ]
    return _table(["dataset", "question set", "sha256", "questions", "sample", "judge"], rows)


# --- text ------------------------------------------------------------------------------------------------------------


def _code(text: str, width: int = _NAME_WIDTH) -> str:
    """A text of unknown origin as a code span on one line, for a table as well."""
    shown = truncate(printable(text.replace("\n", " ")).translate(_CODE_SUBSTITUTES), width).strip()
    return f"`{shown or '?'}`"


def _listed(names: Iterable[str]) -> str:
    return _several([_code(name) for name in names], _MOST_LISTED)


def _several(parts: Sequence[str], most: int) -> str:
    return ", ".join(parts[:most]) + (f" and {len(parts) - most} more" if len(parts) > most else "")


def _bullets(lines: Iterable[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are Markdown already. The first column is on the left."""
    rule = [":--", *["--:"] * (len(titles) - 1)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (titles, rule, *rows))


def _details(title: str, text: str, *, opened: bool = False) -> str:
    return f"<details{' open' * opened}><summary>{title}</summary>\n\n{text}\n</details>\n"


def _of(strategy: str, results: Iterable[_Row]) -> _Row | None:
    return next((one for one in results if one.strategy == strategy), None)


def _accuracy(one: Mean | None) -> str:
    if one is None:
        return NOTHING
    counts = f" ({one.n_correct}/{one.n_planned})" if isinstance(one, JobResult) else ""
    return f"{_percent(one.accuracy)}{counts}"


def _compared(one: Mean | None) -> str:
    if one is None or one.delta is None:
        return _accuracy(one)
    interval = one.delta_interval
    within = f" ({_points(interval.lower)} to {_points(interval.upper)})" if interval else ""
    return f"{_accuracy(one)}<br>{_points(one.delta)}{within}"


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.1f} %"


def _points(difference: float | None) -> str:
    return NOTHING if difference is None else f"{100 * difference:+.1f}"


def _sum(values: Iterable[float | None]) -> float | None:
    """None if nothing is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
