"""From what a user asks for to the frozen RunSpec of a run, checked and stored before its first call."""

import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from shaberi_dagster.benchmarks.questions import Question, QuestionSet, load_question_set
from shaberi_dagster.benchmarks.registry import (
    ALL_BENCHMARKS,
    DEFAULT_SEED,
    RULE,
    Benchmark,
    get_benchmark,
    parse_benchmarks,
)
from shaberi_dagster.benchmarks.sampling import sample_questions
from shaberi_dagster.consensus.registry import STRATEGIES, make_strategies
from shaberi_dagster.errors import ConfigurationError, HubAwayError
from shaberi_dagster.judges.rules.registry import GRADERS
from shaberi_dagster.judges.spec import JudgeSpec, judge_defaults, judge_name, judge_names
from shaberi_dagster.lake.schemas import RUNS, STAGE_TABLES
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.llm.embedded import DEFAULT_MODEL
from shaberi_dagster.llm.endpoints import CUSTOM, default_max_tokens, not_sent, resolve_endpoint
from shaberi_dagster.llm.request import Endpoint
from shaberi_dagster.llm.types import Sampling
from shaberi_dagster.passes.base import Pass
from shaberi_dagster.passes.registry import PASSES, make_pass, make_pipeline
from shaberi_dagster.plugins.discovery import Kind
from shaberi_dagster.prompts.library import PromptLibrary, generation_prompt_hash, judges_alike
from shaberi_dagster.runs.marks import contradictions, widened
from shaberi_dagster.runs.spec import (
    SINGLE,
    BenchmarkSpec,
    ModelSpec,
    PassSpec,
    PluginEntry,
    PluginSpec,
    RunRequest,
    RunSpec,
    SampleSpec,
)
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import VERSION
from shaberi_dagster.util.identity import FURTHER_ANSWERS, check_model_name, check_run_tag, run_id_of
from shaberi_dagster.util.names import check_known

_OF_ANSWERS = (
    *("temperature", "max_tokens", "frequency_penalty", "samples", "sample_models", "single"),
    *("sample", "sample_seed", "limit", "questions", "question_sets"),
)
"""What a request can say of answers and questions."""


def plan_run(request: RunRequest, workspace: Workspace, *, is_judged: bool = True) -> RunSpec:
    """The RunSpec that the request and the stored run (if any) make together.

    Args:
        request: What is asked for; what it leaves out is as in the stored run, else the benchmark's default.
        workspace: Its lake is read, not written.
        is_judged: Whether every benchmark takes somebody who judges it; else only answers are made.

    Raises:
        ConfigurationError: A name, file or endpoint is wrong, or the request contradicts what the run was made with.
            Until a call has succeeded nothing was made with it, and the request counts.
    """
    check_model_name(request.model)
    check_run_tag(request.tag)
    stored = find_run(workspace.lake, request.model, request.tag)
    if stored and stored.is_partial:
        raise ConfigurationError(
            f"run {stored.run_id} has only the questions that `shaberi decide` asked: give another --tag"
        )
    if stored and stored.origin == "imported":
        return _judged_further(request, stored, workspace)
    benchmarks = [_entry(name, stored) for name in benchmarks_of(request, stored)]
    endpoint = _endpoint(request, stored)
    asked_judges = {one.name: _asked_judges(request, stored, one, workspace.prompts) for one in benchmarks}
    if is_judged:
        _check_judged(asked_judges)
    judges = _judges(request, stored, asked_judges, workspace.prompts)
    settings, away = {}, list[HubAwayError]()
    for one in benchmarks:
        try:
            settings[one.name] = _benchmark(request, stored, one, endpoint, workspace).model_copy(
                update={"judges": tuple(judge_names(one.name, list(asked_judges[one.name])))}
            )
        except HubAwayError as error:
            away.append(error)
    if away:  # all that is missing in one message
        raise HubAwayError([name for error in away for name in error.repositories], away[0].reason)
    make_strategies(_strategies(request), workspace.prompts, lambda _: (0, {}))  # says which name is wrong
    own = ModelSpec(model=request.model, endpoint=endpoint)
    members, consensus = _members(request, stored, own), _consensus(request, stored, own)
    asked = RunSpec(
        model=request.model,
        run_tag=request.tag,
        endpoint=endpoint,
        benchmarks=settings,
        judges=judges,
        passes=_passes(request, judges, stored),
        members=() if members == (own,) else members,
        consensus=None if consensus == own else consensus,
        limit=request.limit,
    )
    replaced = stored is None or (differences(stored, asked) and not _has_begun(stored, workspace))
    return _with_plugins(asked if stored is None or replaced else merged(stored, asked), settings)


def _judged_further(request: RunRequest, stored: RunSpec, workspace: Workspace) -> RunSpec:
    """An imported run with more judges, strategies and passes: its answers and questions stay what they are."""
    if other := [name for name in _OF_ANSWERS if getattr(request, name) is not None]:
        raise ConfigurationError(
            f"run {stored.run_id} was imported, so {' and '.join(other)} cannot be chosen: judges, strategies "
            "and passes can be added to it; its model is asked anew under another --tag"
        )
    asked = {
        name: _asked_judges(request, stored, _entry(name, stored), workspace.prompts)
        for name in benchmarks_of(request, stored)
    }
    judges = _judges(request, stored, asked, workspace.prompts)
    benchmarks = {
        name: _judged_and_merged(stored.benchmarks[name], request, name, list(models))
        for name, models in asked.items()
        if models or request.strategies or get_benchmark(name).has_rule
    }
    passes = _passes(request, judges, stored)
    if not (benchmarks or passes or stored.passes):
        raise ConfigurationError(
            f"run {stored.run_id} was imported: name who is to judge it with --judge-model, or passes with --passes"
        )
    consensus = _consensus(request, stored, own=None)
    for one in make_strategies(_strategies(request), workspace.prompts, lambda _: (0, {})):
        if one.templates and consensus is None:
            raise ConfigurationError(
                f"run {stored.run_id} was imported, so its model cannot be asked for the strategy {one.name}: name who "
                "is with --consensus-model"
            )
    added = {"benchmarks": benchmarks, "judges": judges, "passes": passes, "consensus": consensus}
    return _with_plugins(merged(stored, stored.model_copy(update=added)), asked)


def _judged_and_merged(stored: BenchmarkSpec, request: RunRequest, name: str, models: Sequence[str]) -> BenchmarkSpec:
    """A benchmark of an imported run with judges and strategies; its single answer is the first of its samples."""
    strategies = _strategies(request)
    if strategies and stored.samples == 1:
        raise ConfigurationError(f"a consensus on {name} takes 2 or more samples, and one was imported")
    update: dict[str, Any] = {"judges": tuple(judge_names(name, models))}
    if strategies:
        _check_samples(name, [one for one in strategies if one not in stored.strategies], stored.samples)
        update |= {"single": "first", "strategies": (SINGLE, *strategies)}
    return stored.model_copy(update=update)


def _strategies(request: RunRequest) -> list[str]:
    """Those that are asked for; the single answer is there anyway."""
    return [name for name in request.strategies or () if name != SINGLE]


def _entry(name: str, stored: RunSpec | None) -> Benchmark:
    """A benchmark of a request, or of the stored run that it continues."""
    if name not in ALL_BENCHMARKS and stored and name in stored.benchmarks:
        raise _gone(stored.run_id, ALL_BENCHMARKS, name)
    return get_benchmark(name)


def _gone(run_id: str, kind: Kind[Any], name: str) -> ConfigurationError:
    return ConfigurationError(
        f"run {run_id} has the {kind.noun} {name} of a plugin that is not there now, so what is stored can be read and "
        f"nothing made: put its file back into {kind.folder}/ of a plugin folder (SHABERI_PLUGINS)"
    )


def _with_plugins(spec: RunSpec, benchmarks: Iterable[str]) -> RunSpec:
    """The spec with what it uses of plugin folders as it is now; what only other benchmarks use may be gone.

    Raises:
        ConfigurationError: Something that these benchmarks need is gone or broken.
    """
    known = {(one.kind, one.name): one for one in spec.plugins}
    for name in benchmarks:
        grader = get_benchmark(name).grader
        used: list[tuple[Kind[Any], str]] = [
            (ALL_BENCHMARKS, name),
            *([(GRADERS, grader)] if grader.startswith(RULE) else []),
            *((STRATEGIES, one) for one in spec.benchmarks[name].strategies if one != SINGLE),
            *((PASSES, one.name) for pipeline in spec.passes for one in pipeline),
        ]
        for kind, own in used:
            file = kind.file(own)
            if file is None and (kind.noun, own) in known:
                raise _gone(spec.run_id, kind, own)
            thing = kind.use(own)
            # Of code, what was loaded: the file may have been edited since.
            sha256 = file and (getattr(thing, "file_sha256", None) or file.sha256)
            if sha256:
                version = getattr(thing, "version", None)
                known[kind.noun, own] = PluginSpec(
                    kind=kind.noun, name=own, version=None if version is None else str(version), sha256=sha256
                )
    passes = tuple(tuple(map(_with_hash, pipeline)) for pipeline in spec.passes)
    return spec.model_copy(update={"plugins": tuple(known.values()), "passes": passes})


def _with_hash(one: PassSpec) -> PassSpec:
    """A pass with what it is known by, if a plugin has it now."""
    return one.model_copy(update={"config_hash": _made(one).config_hash}) if PASSES.file(one.name) else one


def benchmarks_of(request: RunRequest, stored: RunSpec | None) -> list[str]:
    """The benchmarks that a request is about: where it names none the run's own; `all` of an imported run are its own.

    Raises:
        ConfigurationError: There is no such benchmark, or the imported run has it not.
    """
    if stored and (request.benchmarks is None or (stored.origin == "imported" and request.benchmarks == ["all"])):
        return list(stored.benchmarks)
    asked = [
        one.name for one in parse_benchmarks(",".join(["all"] if request.benchmarks is None else request.benchmarks))
    ]
    if stored and stored.origin == "imported" and (lacking := [one for one in asked if one not in stored.benchmarks]):
        raise ConfigurationError(
            f"run {stored.run_id} was imported without {lacking[0]}: it has {', '.join(stored.benchmarks)}"
        )
    return asked


def _has_begun(spec: RunSpec, workspace: Workspace) -> bool:
    """Whether a call of a run has succeeded, or an answer of it was there already."""
    if workspace.journals.finished_calls(spec.run_id, "answers"):
        return True
    keys = {"run_id": spec.run_id, "status": "ok"}
    return any(workspace.lake.read(table, keys, ["run_id"]).height for table in ("answers", "calls"))


def _moves(stored: RunSpec, planned: RunSpec) -> list[str]:
    """Which endpoints have another address now, in words."""
    before = _addresses(stored)
    return [
        f"run {planned.run_id}: the address of {name} changed from {before[name]} to {address}"
        for name, address in _addresses(planned).items()
        if before.get(name, address) != address
    ]


def _addresses(spec: RunSpec) -> dict[str, str]:
    """Who is asked where."""
    models = [*([spec.itself] if spec.endpoint else []), *spec.members, *([spec.consensus] if spec.consensus else [])]
    passes = [one for pipeline in spec.passes for one in pipeline]
    return {
        **{f"model {one.model}": one.endpoint.base_url for one in models},
        **{f"judge {one.name}": one.endpoint.base_url for one in spec.judges},
        **{f"pass {one.name}": one.endpoint.base_url for one in passes if one.endpoint},
    }


def differences(stored: RunSpec, asked: RunSpec) -> list[str]:
    """Say in words what of a run cannot change once it has begun, and is asked to be otherwise."""
    found = contradictions(stored, asked)
    if any(one.samples > 1 for one in stored.benchmarks.values()):
        found += _other_models("samples of", stored.sampled_models, asked.sampled_models)
    if stored.has_consensus and (stored.consensus or stored.endpoint):  # of an imported run nobody has been asked yet
        found += _other_models("consensus model", [stored.consensus_model], [asked.consensus_model])
    return found


def _other_models(what: str, stored: Sequence[str], asked: Sequence[str]) -> list[str]:
    """Say which models are others, wherever they are served."""
    return [] if stored == asked else [f"{what} {', '.join(stored)}, not {', '.join(asked)}"]


def merged(stored: RunSpec, asked: RunSpec) -> RunSpec:
    """The stored run, widened by what is asked: more benchmarks, other judges, a higher limit.

    Raises:
        ConfigurationError: They differ in something that cannot change; the message names it.
    """
    if unlike := differences(stored, asked):
        raise ConfigurationError(
            f"run {stored.run_id} was made with {'; '.join(unlike)}: give another --tag, or the same settings"
        )
    # Those that are asked for come last: where the beginning of one has another's name, the later one counts.
    again = {_names(pipeline) for pipeline in asked.passes}
    kept = (_moved_along(pipeline, asked.judges) for pipeline in stored.passes if _names(pipeline) not in again)
    return widened(stored, asked).model_copy(update={"passes": (*kept, *asked.passes)})


def named_judges(request: RunRequest, workspace: Workspace) -> list[str]:
    """Names of the judges that the request names, by model or prompt; none when it leaves them to the run.

    A rule that leaves something to one of them is not named by itself.

    Raises:
        ConfigurationError: As for `plan_run`.
    """
    if not request.judge_models and not request.judge_prompt:
        return []
    stored = find_run(workspace.lake, request.model, request.tag)
    benchmarks = map(get_benchmark, benchmarks_of(request, stored))
    return list(
        dict.fromkeys(name for one in benchmarks for name in _asked_judges(request, stored, one, workspace.prompts))
    )


def judged_again(spec: RunSpec, judges: list[str], benchmarks: list[str]) -> RunSpec:
    """The spec with one more judging round for these judges and benchmarks."""

    def raised(judge: JudgeSpec) -> JudgeSpec:
        rounds = judge.rounds | {name: judge.rounds.get(name, 0) + 1 for name in benchmarks}
        return judge.model_copy(update={"rounds": rounds}) if judge.name in judges else judge

    return spec.model_copy(update={"judges": tuple(raised(judge) for judge in spec.judges)})


def add_pipeline(run_id: str, passes: Sequence[str], options: Sequence[str], workspace: Workspace) -> None:
    """Give a registered run one more pipeline; its passes ask where the run's judges are.

    Raises:
        ConfigurationError: There is no such run, or there is no such pass or setting.
    """
    spec = load_run(workspace.lake, run_id)
    if spec is None:
        raise ConfigurationError(f"run {run_id} has no RunSpec: start it with run-evals or the job new_run")
    store_run(with_pipeline(spec, passes, options), workspace)


def with_pipeline(spec: RunSpec, passes: Sequence[str], options: Sequence[str]) -> RunSpec:
    """A stored run's spec with one more pipeline.

    Raises:
        ConfigurationError: There is no such pass or setting.
    """
    request = RunRequest(model=spec.model, passes=list(passes), pass_options=list(options))
    widened = merged(spec, spec.model_copy(update={"passes": _passes(request, spec.judges, spec)}))
    return _with_plugins(widened, [name for name in spec.benchmarks if name in ALL_BENCHMARKS])


def load_run(lake: Lake, run_id: str) -> RunSpec | None:
    """The stored RunSpec of a run, None if there is no such run."""
    specs = lake.read("runs", {"run_id": run_id}, ["spec"])["spec"]
    return RunSpec.read(specs[0]) if len(specs) else None


def find_run(lake: Lake, model: str, tag: str) -> RunSpec | None:
    """The run of a model under a tag, or else the one that was imported under it from whatever tree.

    Args:
        lake: Where it is.
        model: The model.
        tag: Its tag, or the tag of its import.

    Raises:
        ConfigurationError: It was imported from several trees: the message names their runs.
    """
    stored = load_run(lake, run_id_of(check_model_name(model), check_run_tag(tag)))
    if stored is not None:
        return stored
    imported = lake.read("runs", {"model": model, "import_tag": tag}, ["run_id", "run_tag", "superseded_by"])
    imported = imported.filter(pl.col("superseded_by").is_null()).sort("run_tag")
    first = imported.filter(~pl.col("run_tag").str.contains(FURTHER_ANSWERS))
    found = imported if first.is_empty() else first
    if found.height > 1:
        raise ConfigurationError(
            f"{model} was imported under the tag {tag!r} from several trees: "
            f"name one run of them by its tag, {' or '.join(found['run_tag'])}"
        )
    return load_run(lake, found["run_id"][0]) if found.height else None


def chosen_runs(lake: Lake, models: Sequence[str], tags: Sequence[str], sources: Sequence[str]) -> pl.DataFrame:
    """The runs with these models, tags and trees, by their identity; none of a kind means all.

    Args:
        lake: Where they are.
        models: Only these.
        tags: Only with one of these tags, base tags or tags of their import.
        sources: Only imported from these trees.

    Raises:
        ConfigurationError: The lake has no such model, tag or tree.
    """
    names = ["run_tag", "base_tag", "import_tag"]
    runs = lake.read("runs", columns=["run_id", "model", *names, "run_number", "source"]).sort("run_id")
    chosen = runs
    for what, given, columns in (("model", models, ["model"]), ("tag", tags, names), ("source", sources, ["source"])):
        if given:
            check_known(what, given, pl.concat([runs[name] for name in columns]).drop_nulls().unique().to_list())
            chosen = chosen.filter(pl.any_horizontal(pl.col(columns).is_in(list(given))))
    return chosen


def store_run(spec: RunSpec, workspace: Workspace) -> None:
    """Store the spec, the question sets it names and what may be spent, and say which addresses changed.

    Nothing changes when they are already there.
    """
    for name, one in spec.benchmarks.items():
        if one.question_texts == "known":
            store_question_set(workspace.lake, load_questions(spec, name, workspace))
    now = datetime.now(UTC)
    stored = workspace.lake.read("runs", {"run_id": spec.run_id})
    of_now: dict[str, Any] = {"max_cost_usd": workspace.options.max_cost}
    if (names := _not_sent(spec)) is not None:
        of_now["not_sent"] = names
    before = RunSpec.read(stored["spec"][0]) if len(stored) else None
    if before == spec:
        if stored.select(*of_now).row(0, named=True) != of_now:
            columns = (pl.Series(name, [value], RUNS.schema[name]) for name, value in of_now.items())
            workspace.lake.replace("runs", stored.with_columns(*columns), {"run_id": spec.run_id})
        return
    if before:
        if differences(before, spec) and not _has_begun(before, workspace):
            for table in STAGE_TABLES:  # failures of what is not asked any more
                workspace.lake.update(table.name, table.schema.to_frame(), {"run_id": spec.run_id})
        for move in _moves(before, spec):
            workspace.reporter.note(move)
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
        "created_by": stored["created_by"][0] if len(stored) else workspace.settings.user,
        "updated_at": now,
        **of_now,
        "package_version": VERSION,
        "platform": f"Python {platform.python_version()} on {platform.platform()}",
        **code_version(),
        **(stored.select("import_tag", "source", "superseded_by").row(0, named=True) if len(stored) else {}),
    }
    workspace.lake.replace("runs", pl.DataFrame([row], infer_schema_length=None), {"run_id": spec.run_id})


def _not_sent(spec: RunSpec) -> list[str] | None:
    """Name the parameters of answers, and of judges as `judge_NAME`, that are asked for and that calls leave out.

    Where only some of the models, or of the judges, are not sent one, it is `NAME of MODEL`. None is not known.
    """
    answers, judges = dict[str, set[str]](), dict[str, set[str]]()
    try:
        for benchmark, one in spec.benchmarks.items() if spec.origin == "own" else ():
            for asked in (spec.sampled(benchmark, index) for index in range(one.samples)):
                dropped = not_sent(asked.endpoint, asked.model, one.sampling)
                answers.setdefault(asked.model, set()).update(dropped)
        for judge in spec.judges:
            sampling = Sampling(judge.temperature, judge.max_tokens)
            dropped = not_sent(judge.endpoint, judge.model, sampling)
            judges[judge.name] = {f"judge_{name}" for name in dropped}
    except ConfigurationError:  # the endpoint is a plugin's that is gone or broken
        return None
    if not answers and not judges:
        return None
    names: list[str] = []
    for parties in (answers, judges):
        for name in sorted(set[str]().union(*parties.values())):
            without = [party for party, dropped in parties.items() if name in dropped]
            names += [name] if len(without) == len(parties) else [f"{name} of {party}" for party in without]
    return names


def load_questions(spec: RunSpec, benchmark: str, workspace: Workspace) -> QuestionSet:
    """The exact question set of a run: from the lake, else from where it was first found.

    Raises:
        ConfigurationError: It is in neither place any more, or the texts were never known.
    """
    settings = spec.benchmarks[benchmark]
    if settings.question_texts != "known":
        raise ConfigurationError(
            f"run {spec.run_id} was imported without the texts of its questions of {benchmark}, so nobody can judge "
            "its answers: import a baseline cache that has them"
        )
    found = stored_question_set(workspace.lake, benchmark, sha256=settings.question_set_sha256)
    if found is None or len(found.questions) != settings.n_questions:  # a file with some of them was lost
        name = settings.sample.of if settings.sample else settings.question_set
        found = _load(get_benchmark(benchmark), settings.source, name, settings.source_revision)
        found = _sampled(found, settings.sample) if settings.sample else found
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
    first = rows.row(0, named=True)
    return QuestionSet(
        benchmark=benchmark,
        name=first["question_set"],
        sha256=first["question_set_sha256"],
        questions=tuple(Question.from_row(row) for row in rows.iter_rows(named=True)),
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
    root = Path(__file__).resolve().parents[2]
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


def _endpoint(request: RunRequest, stored: RunSpec | None) -> Endpoint:
    return _endpoint_spec(
        request.model, request.base_url, request.api_key_variable, before=stored.endpoint if stored else None
    )


def _endpoint_spec(model: str, base_url: str | None, api_key_variable: str | None, before: Endpoint | None) -> Endpoint:
    if before and base_url is None:
        base_url = before.base_url
    endpoint = resolve_endpoint(model, base_url, api_key_variable)
    if before and endpoint.base_url == before.base_url:
        return replace(before, api_key_variable=api_key_variable or before.api_key_variable)
    return endpoint.moved_from(before) if before else endpoint


def _benchmark(
    request: RunRequest,
    stored: RunSpec | None,
    benchmark: Benchmark,
    endpoint: Endpoint,
    workspace: Workspace,
) -> BenchmarkSpec:
    before = stored.benchmarks.get(benchmark.name) if stored else None
    questions, sample = _question_set(request, stored, benchmark, workspace)
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
        sample=sample,
        entry=PluginEntry.of(benchmark),
        **_samples(request, before, benchmark),
    )


def _samples(request: RunRequest, before: BenchmarkSpec | None, benchmark: Benchmark) -> dict[str, Any]:
    """How many samples there are, and what is made of them."""
    names = request.strategies
    if names is None:
        names = list(before.strategies if before else benchmark.strategies)
    single = request.single or (before.single if before else None) or ("first" if names else None)
    strategies = tuple(dict.fromkeys((SINGLE, *names))) if single else ()
    if request.samples is not None:
        samples = request.samples + (single == "own")
    else:
        samples = before.samples if before else benchmark.samples + (single == "own")
    shared = samples - (single == "own")
    if len(strategies) > 1 and shared < 2:  # noqa: PLR2004  (one is no consensus)
        raise ConfigurationError(f"a consensus on {benchmark.name} takes 2 or more samples: add --samples")
    _check_samples(benchmark.name, [name for name in names if not before or name not in before.strategies], shared)
    return {"samples": samples, "single": single, "strategies": strategies}


def _check_samples(benchmark: str, strategies: Sequence[str], samples: int) -> None:
    """Refuse strategies that would decide nothing, before the samples are paid for."""
    needed = {name: STRATEGIES.use(name).minimum for name in strategies if name != SINGLE}
    if too_many := [name for name, minimum in needed.items() if minimum > samples]:
        most = max(needed.values())
        others = ",".join(name for name in needed if name not in too_many)
        raise ConfigurationError(
            f"{' and '.join(too_many)} on {benchmark} need{'s' if len(too_many) == 1 else ''} {most} samples, not "
            f"{samples}: give {most} or more (quick-eval --ensemble {most}, others --samples {most})"
            + (f", or only --strategy {others}" if others else "")
        )


def _question_set(
    request: RunRequest, stored: RunSpec | None, benchmark: Benchmark, workspace: Workspace
) -> tuple[QuestionSet, SampleSpec | None]:
    names = [name for name in request.question_sets or [] if name.partition("@")[0] == benchmark.name]
    nothing_asked = not names and request.questions is None and workspace.settings.datasets is None
    before = stored.benchmarks.get(benchmark.name) if stored and nothing_asked else None
    if stored and before and _is_sample(request, before):
        return load_questions(stored, benchmark.name, workspace), before.sample
    name = names[0] if names else None
    known = stored_question_set(workspace.lake, benchmark.name, name=name) if name else None
    whole = known or load_source(benchmark, request.questions, name, workspace)
    if request.sample is None or request.sample >= len(whole.questions):
        return whole, None
    seed = DEFAULT_SEED if request.sample_seed is None else request.sample_seed
    sample = SampleSpec(of=whole.name, size=request.sample, order=request.sample_order, seed=seed)
    return _sampled(whole, sample), sample


def _is_sample(request: RunRequest, stored: BenchmarkSpec) -> bool:
    """Whether the stored questions are the sample that is asked for, if one is."""
    if request.sample is None:
        return True
    if stored.sample is None:
        return request.sample >= stored.n_questions
    seed = stored.sample.seed if request.sample_seed is None else request.sample_seed
    return (request.sample, request.sample_order, seed) == (
        stored.sample.size,
        stored.sample.order,
        stored.sample.seed,
    )


def _sampled(whole: QuestionSet, sample: SampleSpec) -> QuestionSet:
    return sample_questions(whole, sample.size, sample.seed, sample.order)


def _asked_judges(
    request: RunRequest, stored: RunSpec | None, benchmark: Benchmark, prompts: PromptLibrary
) -> dict[str, tuple[str, str | None]]:
    """Model and prompt variant of the judges that a request is about, by their names.

    On a benchmark that a rule grades they are those that the rule leaves something to.
    """
    known = {judge.name: (judge.model, judge.prompt) for judge in stored.judges} if stored else {}
    before = stored.benchmarks.get(benchmark.name) if stored else None
    asked: dict[str, tuple[str, str | None]] = {}
    for name in _names_of_judges(request, stored, before, benchmark):
        model, _, variant = name.rpartition("+")
        if name in known:
            model, prompt = known[name]
        elif model and variant in prompts.variants:
            prompt = variant  # taken for a model's name it would be asked with the prompts as they are
        else:
            model, prompt = name, None
        prompt = request.judge_prompt or prompt
        asked[check_model_name(judge_name(model, prompt), "judge")] = (model, prompt)
    return asked


def _names_of_judges(
    request: RunRequest, stored: RunSpec | None, before: BenchmarkSpec | None, benchmark: Benchmark
) -> Sequence[str]:
    """As the request, the stored run or the benchmark has them."""
    if request.judge_models is not None:
        return request.judge_models
    known = [judge.name for name in before.judges if (judge := stored.judge(name))] if stored and before else []
    if benchmark.has_rule:
        return known or ([request.grader_model] if request.grader_model else benchmark.judges)
    if stored and stored.origin == "imported":
        return known
    judging = {name for one in stored.benchmarks.values() for name in one.judges} if stored else set()
    of_others = [judge.name for judge in stored.judges if judge.name in judging] if stored else []
    # The embedded model shows the pipeline at work; what it would say of a real model's answers means nothing.
    return known or benchmark.judges or of_others or ([DEFAULT_MODEL] if request.model == DEFAULT_MODEL else [])


def _check_judged(asked: Mapping[str, Mapping[str, object]]) -> None:
    """See that somebody judges each benchmark."""
    unjudged = [name for name, judges in asked.items() if not judges and not get_benchmark(name).has_rule]
    if unjudged:
        are = "is" if len(unjudged) == 1 else "are"
        raise ConfigurationError(f"{', '.join(unjudged)} {are} judged by an LLM: name one with --judge-model")


def _judges(
    request: RunRequest,
    stored: RunSpec | None,
    asked: Mapping[str, Mapping[str, tuple[str, str | None]]],
    prompts: PromptLibrary,
) -> tuple[JudgeSpec, ...]:
    """The judges that benchmarks ask for, by benchmark and name."""
    before = stored.judges if stored else ()
    if request.judge_prompt and not any(asked.values()):
        raise ConfigurationError("a prompt variant is of a judge: name one with --judge-model")
    all_asked = {name: judge for own in asked.values() for name, judge in own.items()}
    for name, (_, variant) in all_asked.items():
        if variant is None or variant in {judge.prompt for judge in before}:
            continue
        about = [benchmark for benchmark, own in asked.items() if name in own]
        if all(judges_alike(prompts, prompts.variant(variant), get_benchmark(one)) for one in about):
            raise ConfigurationError(
                f"prompt variant {variant!r} changes nothing that a judge of {', '.join(about)} is told"
            )
    return tuple(_judge(request, model, prompt, before) for model, prompt in all_asked.values())


def _judge(request: RunRequest, model: str, prompt: str | None, stored: Sequence[JudgeSpec]) -> JudgeSpec:
    own = next((judge for judge in stored if judge.name == judge_name(model, prompt)), None)
    if own and (own.model, own.prompt) != (model, prompt):
        raise ConfigurationError(f"judge {own.name} of this run is another: give the prompt variant another name")
    # Another prompt is all that a variant's judge differs in, unless more is asked.
    before = own or next((judge for judge in stored if judge.model == model), None)
    asked = {
        "temperature": request.judge_temperature,
        "max_tokens": request.judge_max_tokens,
        "score_rounding": request.score_rounding,
    }
    where = request.judge_base_url, request.judge_api_key_variable
    if model == request.grader_model and request.judge_base_url is None:
        where = request.base_url, request.api_key_variable
    if model == DEFAULT_MODEL:
        where = None, None  # beside judges on a given server it stays embedded
    endpoint = _endpoint_spec(model, *where, before=before.endpoint if before else None)
    defaults = judge_defaults(endpoint)
    known = before.model_dump(include=set(defaults)) if before else {}
    settings = defaults | known | {name: value for name, value in asked.items() if value is not None}
    return JudgeSpec(model=model, prompt=prompt, endpoint=endpoint, rounds=own.rounds if own else {}, **settings)


def _members(request: RunRequest, stored: RunSpec | None, own: ModelSpec) -> tuple[ModelSpec, ...]:
    """Whose samples are shared, in turn."""
    names = request.sample_models
    if names is None:
        names = [one.model for one in stored.members] if stored else []
    return tuple(_served(name, request, stored, own) for name in names)


def _consensus(request: RunRequest, stored: RunSpec | None, own: ModelSpec | None) -> ModelSpec | None:
    """Who makes the strategies' calls."""
    name = request.consensus_model or (stored.consensus.model if stored and stored.consensus else None)
    return _served(name, request, stored, own) if name else None


def _served(model: str, request: RunRequest, stored: RunSpec | None, own: ModelSpec | None) -> ModelSpec:
    """Where another model of a run is: where it was, else where this one is, unless its name says where it is."""
    if own and model == own.model:
        return own
    known = [one for one in (*stored.members, stored.consensus) if one] if stored else []
    before = next((one.endpoint for one in known if one.model == model), None)
    where = (None, None) if model == DEFAULT_MODEL else (request.base_url, request.api_key_variable)
    return ModelSpec(model=check_model_name(model), endpoint=_endpoint_spec(model, *where, before=before))


def _passes(
    request: RunRequest, judges: Sequence[JudgeSpec], stored: RunSpec | None
) -> tuple[tuple[PassSpec, ...], ...]:
    """The pipeline that is asked for, if one is."""
    if not request.passes:
        return ()
    pipeline = make_pipeline(request.passes, request.pass_options or ())
    known = [each for passes in stored.passes for each in passes] if stored else []
    return (tuple(_pass_spec(one, request, judges, known) for one in pipeline),)


def _pass_spec(one: Pass[Any], request: RunRequest, judges: Sequence[JudgeSpec], known: Sequence[PassSpec]) -> PassSpec:
    alike = (each for each in known if each.name == one.name)
    stored = next((each for each in alike if _made(each).config_hash == one.config_hash), None)
    endpoint, config, version = None, one.config.model_dump(mode="json"), one.version
    if stored is not None:  # with the settings of an earlier version it is the same pass
        config, version = stored.config, stored.version
    if one.asks is not None:
        before = stored.endpoint if stored else None
        # A pass asks where the judges are, unless it asks the embedded model.
        judge = next((judge.endpoint for judge in judges if judge.endpoint.name == CUSTOM), None)
        base_url = request.judge_base_url or (judge.base_url if judge else None)
        variable = request.judge_api_key_variable or (judge.api_key_variable if judge else None)
        at_judges = (None, None) if one.asks == DEFAULT_MODEL else (base_url, variable)
        endpoint = _endpoint_spec(one.asks, *at_judges, before=before)
    return PassSpec(name=one.name, config=config, version=version, endpoint=endpoint)


def _made(one: PassSpec) -> Pass[Any]:
    return make_pass(one.name, one.config, one.version)


def _moved_along(pipeline: Sequence[PassSpec], judges: Sequence[JudgeSpec]) -> tuple[PassSpec, ...]:
    """A stored pipeline, whose passes ask where the judges are, also when these have moved."""

    def moved(one: PassSpec) -> PassSpec:
        left = (judge.endpoint for judge in judges if one.endpoint and one.endpoint.base_url in judge.endpoint.earlier)
        there = next(left, None)
        if one.endpoint is None or there is None:
            return one
        return one.model_copy(update={"endpoint": there.moved_from(one.endpoint)})

    return tuple(map(moved, pipeline))


def _names(pipeline: Sequence[PassSpec]) -> tuple[str, ...]:
    return tuple(one.name for one in pipeline)
