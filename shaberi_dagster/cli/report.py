"""`shaberi report`: what several `quick-eval` jobs found, as one Markdown document for a pull request.

The documents come from other jobs, and the names in them from models and endpoints. Such text stands in code spans and
code blocks only, where nothing is markup, a link or a mention.
"""

import html
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from shaberi_dagster.cli.command import FAILED_PARTS, FINE, GATE_FAILED, INCONCLUSIVE, Debug, exit_code
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.rendering.text import markdown_text, printable, truncate
from shaberi_dagster.runs.spec import SINGLE

EPILOG = """Examples:

\b
  shaberi report --ci results/standard.json results/elo.json --output report.md
  shaberi report quick.json                                one document of all strategies
  shaberi report --html report.html --model a --model b    leaderboard, comparison and answers, to send

Each file is what quick-eval wrote with --json or --output. Files of other settings or questions get tables of their
own. A file that is missing or cannot be read is named in the report.

Exit codes: 0 fine, 1 a gate found a regression (only with --ci), 2 usage error, 3 a file is missing or cannot be read,
or a run has failed parts, 4 a gate is inconclusive (only with --ci); where several apply, the first of 2, 1, 3, 4."""

MARKER = "<!-- shaberi-eval-report -->"
"""First line of the document, by which a workflow finds its own comment again."""
LIMIT = 65_536
"""Characters that GitHub takes in a comment."""

_SAMPLES = "samples"
_COMPLETE = "complete"
_ALL_QUESTIONS, _MEAN = "all questions", "mean of datasets"
_NOTHING = "-"
_NAME_WIDTH, _LINE_WIDTH, _MOST_LISTED = 60, 300, 50
_HASH_DIGITS = 12
# For the sentence that says what did not fit.
_RESERVE = 500
# Inside a code span and a table cell two characters still mean something.
_CODE_SUBSTITUTES = str.maketrans({"`": "ˋ", "|": "¦"})

_Count = Annotated[int, Field(ge=0, le=10**12)]
_Amount = Annotated[float, Field(ge=0, le=1e12)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Difference = Annotated[float, Field(ge=-1, le=1)]


class _Part(BaseModel):
    """What is needed of docs/schemas/quick-eval.schema.json, and no number that a table has no room for."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, extra="ignore")


class _Interval(_Part):
    lower: _Difference
    upper: _Difference


class _Mean(_Part):
    strategy: str
    accuracy: _Share
    delta: _Difference | None
    delta_interval: _Interval | None


class _Result(_Mean):
    n_planned: Annotated[_Count, Field(ge=1)]
    n_failed: _Count
    n_excluded: _Count
    n_correct: _Count
    calls: _Count
    prompt_tokens: _Count | None
    completion_tokens: _Count | None
    cost_usd: _Amount | None
    calls_without_cost: _Count
    seconds: _Amount | None

    @property
    def tokens(self) -> float | None:
        """Sent and received."""
        return _sum([self.prompt_tokens, self.completion_tokens])


_Row = TypeVar("_Row", bound=_Mean)


class _Sample(_Part):
    of: str
    size: _Count
    order: str


class _Benchmark(_Part):
    benchmark: str
    question_set: str
    question_set_sha256: str
    n_questions: _Count
    sample: _Sample | None
    temperature: float = Field(ge=0, le=10)
    max_tokens: _Count
    prompt_hash: str
    judge: str | None
    results: tuple[_Result, ...]


class _Against(_Part):
    strategy: str
    reference: str
    n_only_strategy: _Count
    n_only_reference: _Count
    difference: _Difference | None
    interval: _Interval | None
    adjusted_p_value: _Share | None
    n_more: _Count | None


class _Pooled(_Part):
    results: tuple[_Result, ...]
    against: tuple[_Against, ...] = ()


class _Overall(_Part):
    pooled: _Pooled
    mean_of_benchmarks: tuple[_Mean, ...]


class _Settings(_Part):
    ensemble: _Count
    members: tuple[str, ...]
    single: str
    consensus_model: str
    judge_model: str | None
    base_url: str


class _Test(_Part):
    strategy: str
    benchmark: str | None
    n_baseline: _Count
    n_current: _Count
    baseline_accuracy: _Share | None
    current_accuracy: _Share | None
    delta: _Difference | None
    p_value: _Share
    adjusted_p_value: _Share | None
    minimum_detectable_effect: _Share | None
    regressed: bool


class _Gate(_Part):
    gate: str
    significance: _Share
    passed: bool
    result: Literal["passed", "failed", "inconclusive"] = "passed"
    doubts: tuple[str, ...] = ()
    baseline: str
    tests: tuple[_Test, ...]
    warnings: tuple[str, ...]

    @model_validator(mode="before")
    @classmethod
    def _of_before(cls, values: Any) -> Any:
        """Documents of before have `passed` alone."""
        if isinstance(values, dict) and "result" not in values and values.get("passed") is False:
            return values | {"result": "failed"}
        return values


class _Document(_Part):
    format: Literal["shaberi-quick-eval/1"]
    model: str
    run_tag: str
    status: str
    policy: str
    settings: _Settings
    benchmarks: Annotated[tuple[_Benchmark, ...], Field(min_length=1)]
    overall: _Overall
    gate: _Gate | None


@dataclass(frozen=True)
class _Job:
    """A document and the name of its file."""

    name: str
    document: _Document

    @property
    def strategies(self) -> list[str]:
        """Those beyond the single answer."""
        return [one.strategy for one in self.document.overall.pooled.results if one.strategy not in {SINGLE, _SAMPLES}]


@dataclass(frozen=True)
class Report:
    """What was read.

    Attributes:
        jobs: The readable documents.
        problems: Names of the other files, each with what is wrong, in Markdown.
    """

    jobs: tuple[_Job, ...]
    problems: tuple[tuple[str, str], ...]

    def gates(self, result: str) -> list[_Job]:
        """Jobs whose gate has this result."""
        return [job for job in self.jobs if job.document.gate and job.document.gate.result == result]

    @property
    def incomplete(self) -> list[_Job]:
        """Jobs with failed parts."""
        return [job for job in self.jobs if job.document.status != _COMPLETE]


def report(  # noqa: PLR0917
    file: Annotated[
        list[Path] | None, typer.Argument(help="Documents of `quick-eval --json`, one of each job; none with --html.")
    ] = None,
    ci: Annotated[
        bool,
        typer.Option(
            "--ci",
            help="Begin with a hidden marker; end with 1 if a gate found a regression, 4 if one cannot tell.",
        ),
    ] = False,
    output: Annotated[Path | None, typer.Option(help="Write here instead of stdout.")] = None,
    title: Annotated[str, typer.Option(help="Heading of the report.")] = "Consensus against a single answer",
    html_file: Annotated[
        Path | None,
        typer.Option("--html", help="Write leaderboard, comparison and answers of the lake as one HTML file."),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="--html: compare this model, or MODEL@@TAG; repeat. Default: the best two.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="--html: only runs with this tag; repeat for several.")] = None,
    judge: Annotated[list[str] | None, typer.Option(help="--html: only this judge; repeat for several.")] = None,
    passes: Annotated[str | None, typer.Option(help="--html: pass pipeline, e.g. lang_mixing,repetition.")] = None,
    questions: Annotated[
        int, typer.Option(min=0, max=100, help="--html: of how many questions, those that differ most, answers are in.")
    ] = 5,
    debug: Debug = False,
) -> int:
    """Combine the results of several quick-eval jobs in one Markdown document, or show the lake in one HTML file."""
    del debug
    if html_file is not None:
        _write_html(html_file, model or (), tag or (), judge or (), passes, questions)
        return FINE
    if not file:
        raise ConfigurationError("name documents of quick-eval, or a file to write with --html")
    found = read_report(file)
    text = markdown(found, title, marked=ci)
    if output is None:
        sys.stdout.write(text)
    else:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
    codes = [FAILED_PARTS if found.problems or found.incomplete else FINE]
    if ci:
        codes += [GATE_FAILED for _ in found.gates("failed")] + [INCONCLUSIVE for _ in found.gates("inconclusive")]
    return exit_code(*codes)


def _write_html(  # noqa: PLR0917
    target: Path,
    models: Sequence[str],
    tags: Sequence[str],
    judges: Sequence[str],
    passes: str | None,
    n_questions: int,
) -> None:
    # DuckDB, Polars and Jinja, which Markdown does not need.
    from shaberi_dagster.lake.catalog import open_catalog  # noqa: PLC0415
    from shaberi_dagster.settings import Settings  # noqa: PLC0415
    from shaberi_dagster.viewer.html import FileRequest, write_html  # noqa: PLC0415

    warehouse = Settings.from_environment().warehouse
    with open_catalog(warehouse) as catalog:
        request = FileRequest(models, tags, judges, passes, n_questions)
        text = write_html(catalog, warehouse, request, datetime.now(UTC))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    typer.echo(f"{target}: {len(text.encode()) / 1e6:.1f} MB", err=True)


def read_report(paths: Sequence[Path]) -> Report:
    """The documents in the files, in the order of the files.

    Args:
        paths: Where they should be; it is no error when they are not.
    """
    stems = [path.stem for path in paths]
    jobs, problems = [], []
    for path in paths:
        name = path.stem if stems.count(path.stem) == 1 else str(path)
        try:
            jobs.append(_Job(name, _Document.model_validate_json(path.read_bytes())))
        except FileNotFoundError:
            problems.append((name, "gave no result"))
        except OSError as error:
            problems.append((name, f"cannot be read: {_code(str(error.strerror))}"))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            said = f"{place}: {first['msg']}" if place else first["msg"]
            problems.append((name, f"is no document of quick-eval: {_code(said, _LINE_WIDTH)}"))
    return Report(tuple(jobs), tuple(problems))


def markdown(found: Report, title: str, *, marked: bool) -> str:
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


def _sections(found: Report) -> Iterator[tuple[str, str]]:
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
        yield f"accuracies{of}", _accuracies(group)
        yield f"effort{of}", _effort(group)
    gated = [job for job in found.jobs if job.document.gate]
    if gated:
        yield "regression gates", _gates(gated)
    for number, group in enumerate(groups, 1):
        of = f" of group {number}" if len(groups) > 1 else ""
        yield f"question sets{of}", _details(f"Question sets{of}", _question_sets(group[0].document))
    for job in gated:
        heading = f"All tests of <code>{html.escape(printable(truncate(job.name, _NAME_WIDTH)))}</code>"
        yield f"tests of {_code(job.name)}", _details(heading, _tests([job]))


def _summary(found: Report) -> str:
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
    lines += [f"{_code(name)} {problem}." for name, problem in found.problems]
    return _bullets(lines)


def _groups(jobs: Iterable[_Job]) -> list[list[_Job]]:
    """The jobs that evaluated the same thing stand together."""
    groups: dict[tuple[tuple[str, object], ...], list[_Job]] = {}
    for job in jobs:
        groups.setdefault(tuple(_identity(job.document).items()), []).append(job)
    return list(groups.values())


def _identity(document: _Document) -> dict[str, object]:
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
    }
    questions = ("question_set", "question_set_sha256", "n_questions", "sample")
    for one in document.benchmarks:
        identity[f"questions of {one.benchmark}"] = tuple(getattr(one, name) for name in questions)
        identity[f"sampling of {one.benchmark}"] = (one.temperature, one.max_tokens, one.prompt_hash)
        identity[f"judge of {one.benchmark}"] = one.judge
    return identity


def _differences(groups: Sequence[Sequence[_Job]]) -> str:
    first, *others = ({name: (value,) for name, value in _identity(group[0].document).items()} for group in groups)
    names = dict.fromkeys(name for other in others for name in {**first, **other} if first.get(name) != other.get(name))
    return (
        f"**The jobs did not evaluate the same thing**, so they stand in {len(groups)} groups. "
        f"They differ in: {_listed(names)}.\n"
    )


def _gains(group: Sequence[_Job]) -> str:
    """A sentence for each strategy; documents of before have nothing to make it of."""
    from shaberi_dagster.rendering.ensemble import gain  # noqa: PLC0415  (polars only when it is needed)

    found = [(strategy, gain(job.document.overall.pooled, strategy)) for job in group for strategy in job.strategies]
    return _bullets(f"{_code(strategy)}: {said}." for strategy, said in found if said)


def _settings(group: Sequence[_Job]) -> str:
    document = group[0].document
    settings = document.settings
    samples = [one.sample for one in document.benchmarks]
    sizes = dict.fromkeys(f"{one.size} of each, order {one.order}" if one else "all" for one in samples)
    temperatures = ", ".join(f"{value:g}" for value in dict.fromkeys(one.temperature for one in document.benchmarks))
    single = "a sample of its own" if settings.single == "own" else "the first of the shared samples"
    judge = f"rules, and {_code(settings.judge_model)} what they cannot tell" if settings.judge_model else "rules alone"
    members, tags = dict.fromkeys(settings.members), dict.fromkeys(job.document.run_tag for job in group)
    n_questions = sum(one.n_questions for one in document.benchmarks)
    lines = [
        f"Model {_code(document.model)}. Runs: {_listed(tags)}.",
        f"{settings.ensemble} shared samples of {_listed(members)} at temperature {temperatures}; single is {single}.",
        f"Consensus by {_code(settings.consensus_model)}. Graded by {judge}.",
        f"Datasets: {len(document.benchmarks)}; questions: {n_questions:,} ({_listed(sizes)}).",
        f"Policy: {_code(document.policy, _LINE_WIDTH)}",
    ]
    return _bullets(lines)


def _accuracies(group: Sequence[_Job]) -> str:
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
    text += "\nAccuracy (right/planned); below it the difference to `single` in points, with a paired 95 % interval.\n"
    if unlike := _unlike_singles(group):
        text += f"\n`single` is not the same in all jobs, each compares with its own: {unlike}.\n"
    return text


def _unlike_singles(group: Sequence[_Job]) -> str:
    """What the jobs found of the single answer, where it differs: each job grades it for itself."""
    singles = {job.name: [_of(SINGLE, one.results) for one in job.document.benchmarks] for job in group}
    counts = {name: [one and (one.n_correct, one.n_planned) for one in found] for name, found in singles.items()}
    if all(one == counts[group[0].name] for one in counts.values()):
        return ""
    found = {job.name: _of(SINGLE, job.document.overall.pooled.results) for job in group[:_MOST_LISTED]}
    return ", ".join(
        f"{_code(name)} {one.n_correct}/{one.n_planned}" if one else _code(name) for name, one in found.items()
    )


def _effort(group: Sequence[_Job]) -> str:
    """Per question: the single answer, and each strategy with the shared samples that it is made of."""
    pooled = group[0].document.overall.pooled.results
    single = _of(SINGLE, pooled)
    rows = [[_code(SINGLE), *_effort_cells([single], single)]] if single else []
    for job in group:
        results = job.document.overall.pooled.results
        samples, reference = _of(_SAMPLES, results), _of(SINGLE, results)
        rows += [
            [_code(strategy), *_effort_cells([_of(strategy, results), samples], reference)]
            for strategy in job.strategies
        ]
    return (
        _table(["per question", "calls", "tokens", "US$", "seconds", "failed", "no answer"], rows)
        + "\nEach strategy with its shared samples; × is against `single`. Seconds are added up over calls, which are "
        "made at the same time. US$ only as far as it is known to be paid here: + says that calls are not in it.\n"
    )


def _effort_cells(parts: Sequence[_Result | None], single: _Result | None) -> list[str]:
    own = parts[0]
    known = [one for one in parts if one]
    if own is None or single is None or len(known) < len(parts):
        return [_NOTHING] * 6
    n, of_single = own.n_planned, single.n_planned

    def cell(values: Sequence[float | None], reference: float | None, form: str, mark: str = "") -> str:
        total = _sum(values)
        if total is None:
            return _NOTHING
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


def _gates(jobs: Sequence[_Job]) -> str:
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


def _warnings(jobs: Sequence[_Job]) -> str:
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


def _tests(jobs: Sequence[_Job], *, pooled: bool = False) -> str:
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


def _question_sets(document: _Document) -> str:
    rows = [
        [
            _code(one.benchmark),
            _code(one.question_set),
            _code(one.question_set_sha256[:_HASH_DIGITS]),
            f"{one.n_questions:,}",
            f"{one.sample.size:,} of {_code(one.sample.of)}, {_code(one.sample.order)}" if one.sample else "all",
            _code(one.judge) if one.judge else _NOTHING,
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


def _accuracy(one: _Mean | None) -> str:
    if one is None:
        return _NOTHING
    counts = f" ({one.n_correct}/{one.n_planned})" if isinstance(one, _Result) else ""
    return f"{_percent(one.accuracy)}{counts}"


def _compared(one: _Mean | None) -> str:
    if one is None or one.delta is None:
        return _accuracy(one)
    interval = one.delta_interval
    within = f" ({_points(interval.lower)} to {_points(interval.upper)})" if interval else ""
    return f"{_accuracy(one)}<br>{_points(one.delta)}{within}"


def _percent(share: float | None) -> str:
    return _NOTHING if share is None else f"{100 * share:.1f} %"


def _points(difference: float | None) -> str:
    return _NOTHING if difference is None else f"{100 * difference:+.1f}"


def _sum(values: Iterable[float | None]) -> float | None:
    """None if nothing is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
