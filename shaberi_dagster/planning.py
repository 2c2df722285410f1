"""From what a user asks for to the frozen RunSpec of a run, checked and stored before its first call."""

import platform
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal

import orjson
import polars as pl

from shaberi_dagster import __version__
from shaberi_dagster.benchmarks.questions import Question, QuestionSet, load_question_set
from shaberi_dagster.benchmarks.registry import Benchmark, JudgingDefaults, get_benchmark, parse_benchmarks
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.identity import check_model_name, check_run_tag, run_id_of
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.llm.embedded import DEFAULT_MODEL
from shaberi_dagster.llm.endpoints import default_max_tokens, resolve_endpoint
from shaberi_dagster.llm.types import Endpoint
from shaberi_dagster.prompting import generation_prompt_hash
from shaberi_dagster.runspec import BenchmarkSpec, EndpointSpec, JudgeSpec, RunRequest, RunSpec
from shaberi_dagster.workspace import Workspace

LEGACY_KIND: Literal["legacy"] = "legacy"
"""`kind` in the spec of an imported run; a RunSpec has none."""


def plan_run(request: RunRequest, workspace: Workspace) -> RunSpec:
    """The RunSpec that the request and the stored run (if any) make together.

    Args:
        request: What is asked for; what it leaves out is as in the stored run, else the benchmark's default.
        workspace: Its lake is read, not written.

    Raises:
        ConfigurationError: A name, file or endpoint is wrong, or the request contradicts what the run was made with.
    """
    check_model_name(request.model)
    check_run_tag(request.tag)
    benchmarks = parse_benchmarks(",".join(request.benchmarks))
    if request.passes:
        raise ConfigurationError(f"unknown pass {request.passes[0]!r}; no passes are registered")
    stored = load_run(workspace.lake, run_id_of(request.model, request.tag))
    endpoint = _endpoint(request, stored)
    asked = RunSpec(
        model=request.model,
        run_tag=request.tag,
        endpoint=endpoint,
        benchmarks={
            benchmark.name: _benchmark(request, stored, benchmark, endpoint.to_endpoint(), workspace)
            for benchmark in benchmarks
        },
        judges=_judges(request, stored),
        limit=request.limit,
    )
    return merged(stored, asked) if stored else asked


def merged(stored: RunSpec, asked: RunSpec) -> RunSpec:
    """The stored run, widened by what is asked: more benchmarks, other judges, a higher limit.

    Raises:
        ConfigurationError: They differ in something that cannot change; the message names it.
    """
    # Which variable holds the key is no property of the run.
    differences = _differences("", *(one.endpoint.model_dump(exclude={"api_key_variable"}) for one in (stored, asked)))
    for name in stored.benchmarks.keys() & asked.benchmarks.keys():
        differences += _differences(f"{name} ", _identity(stored.benchmarks[name]), _identity(asked.benchmarks[name]))
    if differences:
        raise ConfigurationError(
            f"run {stored.run_id} was made with {'; '.join(differences)}: give another --tag, or the same settings"
        )
    judges = {judge.model: judge for judge in stored.judges} | {judge.model: judge for judge in asked.judges}
    limits = (stored.limit, asked.limit)
    return stored.model_copy(
        update={
            "endpoint": asked.endpoint,
            "benchmarks": asked.benchmarks | stored.benchmarks,
            "judges": tuple(judges.values()),
            "limit": None if None in limits else max(limit for limit in limits if limit is not None),
        }
    )


def judged_anew(spec: RunSpec, judges: list[str], benchmarks: list[str]) -> RunSpec:
    """The spec with one more judging round for these judges and benchmarks."""

    def raised(judge: JudgeSpec) -> JudgeSpec:
        rounds = judge.rounds | {name: judge.rounds.get(name, 0) + 1 for name in benchmarks}
        return judge.model_copy(update={"rounds": rounds}) if judge.model in judges else judge

    return spec.model_copy(update={"judges": tuple(raised(judge) for judge in spec.judges)})


def load_run(lake: Lake, run_id: str) -> RunSpec | None:
    """The stored RunSpec of a run, None if there is no such run.

    Raises:
        ConfigurationError: The run was imported: what made it is not known, so nothing can be added to it.
    """
    specs = lake.read("runs", {"run_id": run_id}, ["spec"])["spec"]
    if not len(specs):
        return None
    if orjson.loads(specs[0]).get("kind") == LEGACY_KIND:
        raise ConfigurationError(f"run {run_id} was imported and cannot be continued: give another --tag")
    return RunSpec.model_validate_json(specs[0])


def store_run(spec: RunSpec, workspace: Workspace) -> None:
    """Store the spec and the question sets it names; nothing changes when they are already there."""
    for name in spec.benchmarks:
        store_question_set(workspace.lake, load_questions(spec, name, workspace))
    now = datetime.now(UTC)
    stored = workspace.lake.read("runs", {"run_id": spec.run_id})
    if len(stored) and stored["spec_hash"][0] == spec.spec_hash:
        return
    row: dict[str, Any] = {
        "run_id": spec.run_id,
        "model": spec.model,
        "run_tag": spec.run_tag,
        "base_tag": spec.base_tag,
        "run_number": spec.run_number,
        "spec": spec.model_dump_json(),
        "spec_hash": spec.spec_hash,
        "status": "running",
        "status_by_benchmark": orjson.dumps(dict.fromkeys(spec.benchmarks, "running")).decode(),
        "created_at": stored["created_at"][0] if len(stored) else now,
        "updated_at": now,
        "package_version": __version__,
        "platform": f"Python {platform.python_version()} on {platform.platform()}",
        **code_version(),
    }
    workspace.lake.replace("runs", pl.DataFrame([row], infer_schema_length=None), {"run_id": spec.run_id})


def load_questions(spec: RunSpec, benchmark: str, workspace: Workspace) -> QuestionSet:
    """The exact question set of a run: from the lake, else from where it was first found.

    Raises:
        ConfigurationError: It is in neither place any more.
    """
    settings = spec.benchmarks[benchmark]
    found = stored_question_set(workspace.lake, benchmark, sha256=settings.question_set_sha256)
    if found is None:
        found = _load(get_benchmark(benchmark), settings.source, settings.question_set, settings.source_revision)
    if found.sha256 != settings.question_set_sha256:
        raise ConfigurationError(
            f"question set {settings.question_set} of {spec.run_id} is gone from {settings.source}"
        )
    return found


def stored_question_set(
    lake: Lake, benchmark: str, *, sha256: str | None = None, name: str | None = None
) -> QuestionSet | None:
    """A question set of the lake by its content or its name, None when it is not there."""
    keys = {"benchmark": benchmark} | ({"question_set_sha256": sha256} if sha256 else {"question_set": name or ""})
    rows = lake.read("questions", keys).sort("position")
    if rows.is_empty():
        return None
    fields = Question.__dataclass_fields__
    first = rows.row(0, named=True)
    return QuestionSet(
        benchmark=benchmark,
        name=first["question_set"],
        sha256=first["question_set_sha256"],
        questions=tuple(Question(**{key: row[key] for key in fields}) for row in rows.iter_rows(named=True)),
        source=first["source"],
        source_revision=first["source_revision"],
    )


def store_question_set(lake: Lake, questions: QuestionSet) -> None:
    """Add the set to the lake unless this content is already there."""
    keys = {"benchmark": questions.benchmark, "question_set_sha256": questions.sha256}
    if len(lake.read("questions", keys, ["position"])) == len(questions.questions):
        return
    frame = pl.DataFrame([vars(question) for question in questions.questions], infer_schema_length=None).with_columns(
        benchmark=pl.lit(questions.benchmark),
        question_set=pl.lit(questions.name),
        question_set_sha256=pl.lit(questions.sha256),
        source=pl.lit(questions.source),
        source_revision=pl.lit(questions.source_revision),
        created_at=pl.lit(datetime.now(UTC)),
    )
    lake.replace("questions", frame, keys)


def load_source(benchmark: Benchmark, source: str | None, set_name: str | None, workspace: Workspace) -> QuestionSet:
    """A question set from `starter`, `hub` or a folder; None is the configured folder, else the starter set."""
    if source is None:
        source = str(workspace.settings.datasets) if workspace.settings.datasets else "starter"
    return _load(benchmark, source, set_name)


@cache
def code_version() -> dict[str, Any]:
    """Commit of this code and whether it is modified; nulls outside a git checkout."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return {"git_commit": None, "git_dirty": None}
    try:
        commit, status = (
            subprocess.run(["git", "-C", root, *command], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603, S607
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.CalledProcessError):
        return {"git_commit": None, "git_dirty": None}
    return {"git_commit": commit, "git_dirty": bool(status)}


def _load(benchmark: Benchmark, source: str, set_name: str | None, revision: str | None = None) -> QuestionSet:
    """Load from a source as users name it (`starter`, `hub`, a folder) or as a set records it (`hub:…`, `folder:…`)."""
    kind, _, place = source.partition(":")
    if kind in {"starter", "hub"}:
        return load_question_set(benchmark, kind, set_name=set_name, revision=revision)
    folder = Path(place if kind == "folder" else source)
    if not folder.is_dir():
        raise ConfigurationError(f"question source {source!r} must be starter, hub or an existing folder")
    return load_question_set(benchmark, "folder", folder, set_name)


def _endpoint(request: RunRequest, stored: RunSpec | None) -> EndpointSpec:
    return _endpoint_spec(
        request.model, request.base_url, request.api_key_variable, before=stored.endpoint if stored else None
    )


def _endpoint_spec(
    model: str, base_url: str | None, api_key_variable: str | None, before: EndpointSpec | None
) -> EndpointSpec:
    if before and base_url is None:
        base_url = before.base_url
    endpoint = resolve_endpoint(model, base_url, api_key_variable)
    if before and endpoint.base_url == before.base_url:
        return before.model_copy(update={"api_key_variable": api_key_variable or before.api_key_variable})
    return EndpointSpec(**vars(endpoint))


def _benchmark(
    request: RunRequest, stored: RunSpec | None, benchmark: Benchmark, endpoint: Endpoint, workspace: Workspace
) -> BenchmarkSpec:
    before = stored.benchmarks.get(benchmark.name) if stored else None
    questions = _question_set(request, stored, benchmark, workspace)
    defaults = benchmark.generation.sampling
    if (most := default_max_tokens(endpoint)) is not None:
        defaults = replace(defaults, max_tokens=most)

    def setting(name: str) -> Any:
        asked = getattr(request, name)
        return asked if asked is not None else getattr(before or defaults, name)

    return BenchmarkSpec(
        question_set=questions.name,
        question_set_sha256=questions.sha256,
        n_questions=len(questions.questions),
        source=before.source if before and before.question_set_sha256 == questions.sha256 else questions.source,
        source_revision=questions.source_revision,
        prompt_hash=generation_prompt_hash(workspace.prompts, benchmark),
        temperature=setting("temperature"),
        max_tokens=setting("max_tokens"),
        frequency_penalty=setting("frequency_penalty"),
    )


def _question_set(
    request: RunRequest, stored: RunSpec | None, benchmark: Benchmark, workspace: Workspace
) -> QuestionSet:
    names = [name for name in request.question_sets or [] if name.partition("@")[0] == benchmark.name]
    nothing_asked = not names and request.questions is None and workspace.settings.datasets is None
    if nothing_asked and stored and benchmark.name in stored.benchmarks:
        return load_questions(stored, benchmark.name, workspace)
    if names and (known := stored_question_set(workspace.lake, benchmark.name, name=names[0])):
        return known
    return load_source(benchmark, request.questions, names[0] if names else None, workspace)


def _judges(request: RunRequest, stored: RunSpec | None) -> tuple[JudgeSpec, ...]:
    before = {judge.model: judge for judge in stored.judges} if stored else {}
    names = list(dict.fromkeys(request.judge_models or before or [DEFAULT_MODEL]))
    return tuple(_judge(request, check_model_name(name, "judge"), before.get(name)) for name in names)


def _judge(request: RunRequest, model: str, before: JudgeSpec | None) -> JudgeSpec:
    asked = {
        "temperature": request.judge_temperature,
        "max_tokens": request.judge_max_tokens,
        "score_rounding": request.score_rounding,
    }
    # An embedded judge beside judges on a given server stays embedded.
    embedded = model == DEFAULT_MODEL
    endpoint = _endpoint_spec(
        model,
        None if embedded else request.judge_base_url,
        None if embedded else request.judge_api_key_variable,
        before=before.endpoint if before else None,
    )
    defaults = {
        "temperature": JudgingDefaults.sampling.temperature,
        "max_tokens": default_max_tokens(endpoint.to_endpoint()) or JudgingDefaults.sampling.max_tokens,
        "score_rounding": "none",
    }
    known = before.model_dump(include=set(defaults)) if before else {}
    settings = defaults | known | {name: value for name, value in asked.items() if value is not None}
    return JudgeSpec(model=model, endpoint=endpoint, rounds=before.rounds if before else {}, **settings)


def _identity(settings: BenchmarkSpec) -> dict[str, Any]:
    return settings.model_dump(exclude={"source", "source_revision", "n_questions"})


def _differences(what: str, stored: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    return [
        f"{what}{name.replace('_', ' ')} {_short(stored[name])}, not {_short(asked[name])}"
        for name in stored
        if stored[name] != asked[name]
    ]


def _short(value: Any) -> str:
    text = str(value)
    return text[:12] if len(text) == 64 else text  # noqa: PLR2004  (a sha256)
