"""From what a user asks for to the frozen RunSpec of a run, checked before its first call."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import polars as pl

from shaberi_dagster.lake.store import Lake
from shaberi_dagster.llm.embedded import DEFAULT_MODEL
from shaberi_dagster.llm.endpoints import CUSTOM, check_parameters, default_max_tokens, resolve_endpoint
from shaberi_dagster.llm.parameters import NAMED, as_settings, check_judges_named, read_of_judge, read_settings
from shaberi_dagster.llm.request import Endpoint
from shaberi_dagster.plugins.discovery import PluginRegistry
from shaberi_dagster.runs.imported_samples import imported_samples
from shaberi_dagster.runs.questions import load_questions, load_source, sampled, stored_question_set
from shaberi_dagster.runs.spec import (
    NOBODY,
    SINGLE,
    BenchmarkSpec,
    ModelSettings,
    ModelSpec,
    PassSpec,
    PluginEntry,
    PluginSpec,
    RunRequest,
    RunSpec,
    SampleSpec,
)
from shaberi_dagster.runs.stored import (
    differences,
    find_run,
    has_begun,
    load_run,
    merged,
    named_tags,
    numbered_tags,
    run_before,
    store_run,
    stored_spec,
)
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.benchmarks.questions import CACHES, QuestionSet, known_sets, without_positions
from shaberi_dagster.tasks.benchmarks.registry import (
    ALL_BENCHMARKS,
    DEFAULT_SEED,
    RULE,
    Benchmark,
    get_benchmark,
    parse_benchmarks,
)
from shaberi_dagster.tasks.consensus.registry import STRATEGIES, make_strategies
from shaberi_dagster.tasks.judges.own import JUDGES, is_own
from shaberi_dagster.tasks.judges.rules.registry import GRADERS
from shaberi_dagster.tasks.judges.sets import ADOPTED, AdoptedSet, answer_settings, judge_settings
from shaberi_dagster.tasks.judges.spec import JudgeSpec, judge_defaults, judge_name, judge_names
from shaberi_dagster.tasks.passes.base import Pass
from shaberi_dagster.tasks.passes.registry import PASSES, make_pass, make_pipeline
from shaberi_dagster.tasks.prompts.library import generation_prompt_hash, judges_alike
from shaberi_dagster.util.errors import ConfigurationError, HubAwayError
from shaberi_dagster.util.identity import NUMBERED, check_model_name, check_run_tag, names_of
from shaberi_dagster.util.names import did_you_mean


def with_preset(request: RunRequest, stored: RunSpec | None = None) -> RunRequest:
    """Return a request with what its adopted set says; what the request says itself stays.

    Args:
        request: With or without one.
        stored: The run that it continues; answers of an imported one are not asked for.

    Raises:
        ConfigurationError: There is no such set, or it cannot ask this model or these benchmarks.
    """
    if request.preset is None:
        return request
    found = ADOPTED.use(request.preset)
    judged = bool(request.judge_models or (stored and stored.judges))
    filled: dict[str, Any] = {"benchmarks": _benchmarks(request, found, stored, judged=judged)}
    if judged:
        filled["judge_prompt"] = request.preset
    if stored is None or stored.origin == "own":
        filled |= _answers(request)
    own = {name: value for name, value in filled.items() if getattr(request, name) in (None, ["all"])}
    if request.parameters:
        own["parameters"] = [*filled.get("parameters", ()), *request.parameters]
    return request.model_copy(update=own)


def _benchmarks(request: RunRequest, found: AdoptedSet, stored: RunSpec | None, *, judged: bool) -> list[str]:
    """Return the benchmarks that are asked for; without a word, or with `all`, those that the set can judge."""
    if request.benchmarks in (None, ["all"]):
        is_whole = stored is None or (stored.origin == "own" and request.benchmarks is not None)
        usable = [name for name in found.benchmarks if found.judges(name) or not judged]
        return [name for name in usable if is_whole or (stored and name in stored.benchmarks)]
    names = [benchmark.name for benchmark in parse_benchmarks(",".join(request.benchmarks or ()))]
    if missing := [name for name in names if name not in found.benchmarks]:
        raise found.lacking(request.preset or "", f"has no {', '.join(missing)}")
    return names


def _answers(request: RunRequest) -> dict[str, Any]:
    """Return how answers are asked for."""
    settings = answer_settings(request.preset or "", request.model)
    return {
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
        "frequency_penalty": settings.frequency_penalty,
        "system_prompt": settings.system,
        "parameters": as_settings(settings.parameters),
    }


def adopted_defaults(name: str, model: str, endpoint: Endpoint) -> tuple[dict[str, Any], Endpoint]:
    """Return the settings of a judge of an adopted set for which none were given, and where it is asked.

    A model that the suite asks over OpenAI's Responses interface is asked there.

    Args:
        name: The set.
        model: The judge's model.
        endpoint: Where it is served.
    """
    settings = judge_settings(name, model)
    parameters = dict(settings.parameters)
    if settings.api == "responses" and endpoint.name == "openai":
        endpoint = replace(endpoint, name="openai_responses")
        # Which this project leaves out for models that may refuse it.
        parameters["extra_body"] = {"temperature": settings.temperature}
    usual = judge_defaults(endpoint)
    given = {"temperature": settings.temperature, "max_tokens": settings.max_tokens, "parameters": parameters}
    return usual | {word: value for word, value in given.items() if value is not None}, endpoint


def left_out(request: RunRequest, benchmark: str) -> tuple[int, ...]:
    """Return the positions of the questions of a benchmark that a request's adopted set leaves out."""
    entry = ADOPTED.use(request.preset).benchmarks.get(benchmark) if request.preset else None
    return entry.left_out if entry else ()


_OF_ANSWERS = (
    *("temperature", "max_tokens", "frequency_penalty", "samples", "sample_models", "single"),
    *NAMED,
    "parameters",
    *("sample", "sample_seed", "limit", "questions", "question_sets"),
)
"""Fields of a request about answers and questions."""


_AskedJudge = tuple[str, str | None]
"""The model of a judge that a request is about, and the variant of its prompt, if it gets another than the usual."""
AskedJudges = Mapping[str, Mapping[str, _AskedJudge]]
"""The judges of each benchmark, by their names."""


def plan_run(request: RunRequest, workspace: Workspace, *, is_judged: bool = True) -> RunSpec:
    """Return the RunSpec that the request and the stored run (if any) make together.

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
    stored = run_before(workspace.lake, request.model, request.tag)
    _check_combined(request, stored)
    if stored and stored.is_partial:
        raise ConfigurationError(
            f"run {stored.run_id} has only what `shaberi decide` or `shaberi link` asked: give another --tag"
        )
    planner = _Planner(with_preset(request, stored), stored, workspace)
    if stored and stored.origin == "imported":
        return planner.widened_import(stored)
    spec = planner.spec(is_judged)
    if load_run(workspace.lake, spec.run_id):
        return spec
    # It begins, with the settings of its siblings if it is one of numbered runs: only with what is asked for.
    asked = {name: spec.benchmarks[name] for name in benchmarks_of(request, stored)}
    return spec.model_copy(update={"added_pipelines": (), "benchmarks": asked})


def _check_combined(request: RunRequest, stored: RunSpec | None) -> None:
    """Refuse what would do nothing beside what else is asked for.

    Raises:
        ConfigurationError: There is something.
    """
    if request.pass_options and not request.passes:
        raise ConfigurationError("--pass-option is of passes: name them with --passes")
    stored_samples = [benchmark.samples for benchmark in stored.benchmarks.values()] if stored else []
    has_samples = request.samples or request.strategies or max(stored_samples, default=1) > 1
    for name in ("sample_models", "consensus_model", "single"):
        if getattr(request, name) and not has_samples:
            raise ConfigurationError(f"--{name.replace('_', '-')} needs several samples: add --samples and --strategy")


def requests_of(request: RunRequest, runs: int | None, lake: Lake) -> tuple[list[RunRequest], list[str]]:
    """Return the requests for the runs that a tag means, and remarks that say which.

    Args:
        request: Its tag names a run, numbered runs by their base tag, or these alone as `TAG-run*`.
        runs: How many numbered runs are asked for; None: those that are there.
        lake: Where runs are looked up.

    Raises:
        ConfigurationError: There are no such runs, or one run is asked for beside numbered ones.
    """
    request = _with_tag_apart(request, lake)
    model, tag, base = request.model, request.tag, request.tag.removesuffix(NUMBERED)
    numbered = numbered_tags(lake, model, base)
    names = f"{base}{NUMBERED}" if len(numbered) > 1 else "".join(numbered)
    remarks: list[str] = []
    if runs is None and base == tag and (not numbered or find_run(lake, model, tag)):
        tags = [tag]
        remarks += [f"tag {tag}: the run {tag} is meant; name the numbered runs as {names}"] if numbered else []
    elif runs is None:
        tags = numbered
        remarks += [f"tag {base} means its runs {', '.join(tags)}"] if base == tag else []
        if not tags:
            raise ConfigurationError(f"{model} has no runs {tag}: make some with --tag {base} --runs N")
    elif runs == 1:
        if numbered:
            raise ConfigurationError(
                f"--runs 1 beside the runs {', '.join(numbered)}: leave --runs out, or name one, such as "
                f"--tag {numbered[0]}"
            )
        tags = [base]
    else:
        tags = [f"{base}-run{number}" for number in range(1, runs + 1)]
    return [request.model_copy(update={"tag": name}) for name in tags], remarks


def _with_tag_apart(request: RunRequest, lake: Lake) -> RunRequest:
    """Return the request of a run that its model names as `MODEL@@TAG`, or by the run's identity.

    Raises:
        ConfigurationError: Another tag is given beside it.
    """
    model, separator, tag = request.model.rpartition("@@")
    if not separator:
        return request
    if "tag" in request.model_fields_set and request.tag != tag:
        raise ConfigurationError(
            f"--model {request.model} names the tag {tag}, --tag names {request.tag}: leave one out"
        )
    if not named_tags(lake, model, tag):
        of_run_id, _ = names_of(request.model)
        model = of_run_id if named_tags(lake, of_run_id, tag) else model
    return request.model_copy(update={"model": model, "tag": tag})


def named_judges(request: RunRequest, workspace: Workspace) -> list[str]:
    """Name the judges that the request names, by model or prompt; none when it leaves them to the run.

    A rule that leaves something to one of them is not named by itself.

    Raises:
        ConfigurationError: As for `plan_run`.
    """
    if not request.judge_models and not request.judge_prompt:
        return []
    stored = run_before(workspace.lake, request.model, request.tag)
    planner = _Planner(with_preset(request, stored), stored, workspace)
    benchmarks = map(get_benchmark, benchmarks_of(planner.request, planner.stored))
    return list(dict.fromkeys(name for benchmark in benchmarks for name in planner.asked_judges(benchmark)))


def benchmarks_of(request: RunRequest, stored: RunSpec | None) -> list[str]:
    """Name the benchmarks that a request is about: where it names none, or `all` of an imported run, the run's own.

    Raises:
        ConfigurationError: There is no such benchmark, or the imported run has it not.
    """
    request = with_preset(request, stored)
    if stored and (request.benchmarks is None or (stored.origin == "imported" and request.benchmarks == ["all"])):
        return list(stored.benchmarks)
    names = ",".join(["all"] if request.benchmarks is None else request.benchmarks)
    asked = [benchmark.name for benchmark in parse_benchmarks(names)]
    if stored and stored.origin == "imported":
        for name in asked:
            if name not in stored.benchmarks:
                raise ConfigurationError(
                    f"run {stored.run_id} was imported without {name}: it has {', '.join(stored.benchmarks)}"
                )
    return asked


def judged_again(spec: RunSpec, judges: list[str], benchmarks: list[str]) -> RunSpec:
    """Return the spec with one more judging round for these judges and benchmarks."""

    def raised(judge: JudgeSpec) -> JudgeSpec:
        rounds = judge.rounds | {name: judge.rounds.get(name, 0) + 1 for name in benchmarks}
        return judge.model_copy(update={"rounds": rounds}) if judge.name in judges else judge

    return spec.model_copy(update={"judges": tuple(raised(judge) for judge in spec.judges)})


def add_pipeline(run_id: str, passes: Sequence[str], options: Sequence[str], workspace: Workspace) -> None:
    """Give a registered run one more pipeline; its passes ask where the run's judges are.

    Raises:
        ConfigurationError: There is no such run, or there is no such pass or setting.
    """
    store_run(with_pipeline(stored_spec(run_id, workspace), passes, options), workspace)


def with_pipeline(spec: RunSpec, passes: Sequence[str], options: Sequence[str]) -> RunSpec:
    """Return a stored run's spec with one more pipeline.

    Raises:
        ConfigurationError: There is no such pass or setting.
    """
    request = RunRequest(model=spec.model, passes=list(passes), pass_options=list(options))
    widened = merged(spec, spec.model_copy(update={"passes": _passes(request, spec.judges, spec)}))
    return _with_plugins(widened, [name for name in spec.benchmarks if name in ALL_BENCHMARKS])


@dataclass(frozen=True)
class _Planner:
    """A request, beside the stored run that it continues.

    Attributes:
        request: What is asked for.
        stored: The run as the lake has it; None where it begins.
        workspace: Its lake, prompts and settings are read.
    """

    request: RunRequest
    stored: RunSpec | None
    workspace: Workspace

    def spec(self, is_judged: bool) -> RunSpec:
        """Return the spec of the run."""
        request, stored = self.request, self.stored
        benchmarks = [self.entry(name) for name in benchmarks_of(request, stored)]
        before = stored.endpoint if stored else None
        endpoint = _endpoint(request.model, request.base_url, request.api_key_variable, before)
        asked_judges = {benchmark.name: self.asked_judges(benchmark) for benchmark in benchmarks}
        unnamed = [name for name, judges in asked_judges.items() if not judges]
        unjudged = [name for name in unnamed if not get_benchmark(name).has_rule]
        if is_judged and unjudged:
            are = "is" if len(unjudged) == 1 else "are"
            raise ConfigurationError(f"{', '.join(unjudged)} {are} judged by an LLM: name one with --judge-model")
        judges = self.judges(asked_judges)
        settings, away = {}, list[HubAwayError]()
        for benchmark in benchmarks:
            names = judge_names(benchmark.name, list(asked_judges[benchmark.name]))
            try:
                settings[benchmark.name] = self._benchmark(benchmark, endpoint, tuple(names))
            except HubAwayError as error:
                away.append(error)
        if away:  # all that is missing in one message
            raise HubAwayError([name for error in away for name in error.repositories], away[0].reason)
        # Says which name is wrong.
        make_strategies(self.strategies, self.workspace.prompts, lambda _: (0, {}))
        itself = ModelSpec(model=request.model, endpoint=endpoint)
        members, consensus = self._members(itself), self.consensus(itself)
        asked = RunSpec(
            model=request.model,
            run_tag=request.tag,
            endpoint=endpoint,
            benchmarks=settings,
            judges=judges,
            passes=_passes(request, judges, stored),
            members=() if members == (itself,) else members,
            consensus=None if consensus == itself else consensus,
            shares_samples=request.shares_samples,
        )
        _check_parameters(asked)
        if stored is None or (differences(stored, asked) and not has_begun(stored, self.workspace)):
            return _with_plugins(asked, settings)
        return _with_plugins(merged(stored, asked), settings)

    @cached_property
    def strategies(self) -> list[str]:
        """The strategies that are asked for; the single answer is there anyway."""
        return [name for name in self.request.strategies or () if name != SINGLE]

    def entry(self, name: str) -> Benchmark:
        """Return a benchmark of the request, or of the stored run that it continues."""
        if name not in ALL_BENCHMARKS and self.stored and name in self.stored.benchmarks:
            raise _gone(self.stored.run_id, ALL_BENCHMARKS, name)
        return get_benchmark(name)

    def _before(self, benchmark: Benchmark) -> BenchmarkSpec | None:
        return self.stored.benchmarks.get(benchmark.name) if self.stored else None

    # --- answers -----------------------------------------------------------------------------------------------------

    def _benchmark(self, benchmark: Benchmark, endpoint: Endpoint, judges: tuple[str, ...]) -> BenchmarkSpec:
        before = self._before(benchmark)
        questions, sample, without = self._question_set(benchmark)
        is_stored = before is not None and before.question_set_sha256 == questions.sha256
        is_registered = (sample.of if sample else questions.name) in known_sets()
        defaults = benchmark.generation.sampling
        if (most := default_max_tokens(endpoint)) is not None:
            defaults = replace(defaults, max_tokens=most)

        request = self.request
        of_some = [
            settings
            for settings in request.settings
            if benchmark.name in (settings.benchmarks or [benchmark.name])
            and any(fnmatchcase(request.model, pattern) for pattern in settings.models or ["*"])
        ]
        layers: list[RunRequest | ModelSettings] = [request, *of_some]  # the last one wins

        def setting(name: str) -> Any:
            asked = (value for layer in reversed(layers) if (value := getattr(layer, name)) is not None)
            return next(asked, getattr(before or defaults, name))

        return BenchmarkSpec(
            question_set=questions.name,
            question_set_sha256=questions.sha256,
            n_questions=len(questions.questions),
            source=before.source if before and is_stored else questions.source,
            source_revision=questions.source_revision,
            prompt_hash=generation_prompt_hash(self.workspace.prompts, benchmark),
            **{name: setting(name) for name in ("temperature", "max_tokens", "frequency_penalty")},
            parameters=_parameters(before, layers),
            sample=sample,
            left_out=before.left_out if before and is_stored else () if is_registered else without,
            kept_by=request.preset or (before.kept_by if before else None),
            entry=PluginEntry.of(benchmark),
            judges=judges,
            limit=self._limit(before),
            **self._samples(benchmark),
        )

    def _limit(self, before: BenchmarkSpec | None) -> int | None:
        """Return the limit that is asked for, else the benchmark's own, else that of the run's others."""
        match self.request.limit:
            case int() as limit:
                return limit
            case "all":
                return None
        return before.limit if before else self.stored.limit if self.stored else None

    def _left_out(self, whole: QuestionSet) -> tuple[int, ...]:
        """Return positions that a preset leaves out; of imported samples those of questions that lack some."""
        request = self.request
        if not request.shares_samples or whole.source != CACHES:
            return left_out(request, whole.benchmark)
        rows = imported_samples(self.workspace.lake, {request.model}, whole.benchmark, request.temperature)
        own = rows.filter(pl.col("sample_index") < (request.samples or 1)).group_by("question_id").len()
        there = set(own.filter(pl.col("len") == request.samples)["question_id"])
        lacking = (question.position for question in whole.questions if question.question_id not in there)
        return tuple(lacking) if there else ()

    def _samples(self, benchmark: Benchmark) -> dict[str, Any]:
        """Say how many samples there are, and what is made of them."""
        request, before = self.request, self._before(benchmark)
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

    def _question_set(self, benchmark: Benchmark) -> tuple[QuestionSet, SampleSpec | None, tuple[int, ...]]:
        request, workspace = self.request, self.workspace
        names = [name for name in request.question_sets or [] if name.partition("@")[0] == benchmark.name]
        before = self._before(benchmark) if not names and request.questions is None else None
        datasets = workspace.settings.datasets
        if before and datasets and before.source == f"folder:{datasets.absolute()}":
            before = None  # its file may have been edited
        if self.stored and before and _is_sample(request, before):
            return load_questions(self.stored, benchmark.name, workspace), before.sample, before.left_out
        name = names[0] if names else None
        known = stored_question_set(workspace.lake, benchmark.name, name=name) if name else None
        whole = known or load_source(benchmark, request.questions, name, workspace)
        without = self._left_out(whole)
        whole = without_positions(whole, without)
        if request.sample is None or request.sample >= len(whole.questions):
            return whole, None, without
        seed = DEFAULT_SEED if request.sample_seed is None else request.sample_seed
        sample = SampleSpec(of=whole.name, size=request.sample, order=request.sample_order, seed=seed)
        return sampled(whole, sample), sample, without

    def _members(self, itself: ModelSpec) -> tuple[ModelSpec, ...]:
        """Return the models whose samples are shared, in turn."""
        names = self.request.sample_models
        if names is None:
            names = [member.model for member in self.stored.members] if self.stored else []
        return tuple(self._served(name, itself) for name in names)

    def consensus(self, itself: ModelSpec | None) -> ModelSpec | None:
        """Return the model that makes the strategies' calls."""
        stored = self.stored.consensus if self.stored else None
        name = self.request.consensus_model or (stored.model if stored else None)
        return self._served(name, itself) if name else None

    def _served(self, model: str, itself: ModelSpec | None) -> ModelSpec:
        """Return another model of the run where it was, else where this one is, unless its name says where it is."""
        if itself and model == itself.model:
            return itself
        known = [*self.stored.members, *filter(None, [self.stored.consensus])] if self.stored else []
        before = next((stored.endpoint for stored in known if stored.model == model), None)
        where = (None, None) if model == DEFAULT_MODEL else (self.request.base_url, self.request.api_key_variable)
        return ModelSpec(model=check_model_name(model), endpoint=_endpoint(model, *where, before))

    # --- judges ------------------------------------------------------------------------------------------------------

    def asked_judges(self, benchmark: Benchmark) -> dict[str, _AskedJudge]:
        """Return the judges that the request is about, by their names.

        On a benchmark that a rule grades they are those that the rule leaves something to.
        """
        stored = self.stored.judges if self.stored else ()
        known = {judge.name: (judge.model, judge.prompt) for judge in stored}
        asked: dict[str, _AskedJudge] = {}
        for name in self._judges_named(benchmark):
            if name.casefold() == NOBODY:
                raise ConfigurationError(
                    f"judge {name!r}: leave --judge-model out where rules grade; {NOBODY} is a word of quick-eval alone"
                )
            if "," in name:
                raise ConfigurationError(f"judge {name!r}: name each judge by itself, --judge-model a --judge-model b")
            model, _, variant = name.rpartition("+")
            variants = self.workspace.prompts.variants
            is_variant = model and (variant in variants or is_own(variant))
            if model and not is_variant and name not in known:
                # It may be a model's whole name; one that is almost a variant's would be asked without it.
                near = did_you_mean(variant, [*variants, *JUDGES, *ADOPTED], "none")
                if near.startswith("did"):
                    raise ConfigurationError(
                        f"judge {name!r}: {variant!r} is no prompt variant, adopted set or judge of yours; {near}"
                    )
            asked_model, prompt = known.get(name) or ((model, variant) if is_variant else (name, None))
            judge = asked_model, self.request.judge_prompt or prompt
            asked[check_model_name(judge_name(*judge), "judge")] = judge
        return asked

    def _judges_named(self, benchmark: Benchmark) -> Sequence[str]:
        """Name judges as the request, the stored run or the benchmark has them."""
        request, stored, before = self.request, self.stored, self._before(benchmark)
        if request.judge_models is not None:
            return request.judge_models
        known = [judge.name for name in before.judges if (judge := stored.judge(name))] if stored and before else []
        if benchmark.has_rule:
            return known or ([request.grader_model] if request.grader_model else benchmark.judges)
        if stored and stored.origin == "imported":
            return known
        judging = {name for settings in stored.benchmarks.values() for name in settings.judges} if stored else set()
        of_others = [judge.name for judge in stored.judges if judge.name in judging] if stored else []
        # The embedded model shows the pipeline at work; what it would say of a real model's answers means nothing.
        return known or benchmark.judges or of_others or ([DEFAULT_MODEL] if request.model == DEFAULT_MODEL else [])

    def judges(self, asked: AskedJudges) -> tuple[JudgeSpec, ...]:
        """Return the judges that benchmarks ask for."""
        prompts, before = self.workspace.prompts, self.stored.judges if self.stored else ()
        if self.request.judge_prompt and not any(asked.values()):
            raise ConfigurationError("a prompt variant needs a judge: name one with --judge-model")
        judges = {name: judge for of_benchmark in asked.values() for name, judge in of_benchmark.items()}
        for name, (_, variant) in judges.items():
            if variant is None or is_own(variant) or variant in {judge.prompt for judge in before}:
                continue
            about = [benchmark for benchmark, of_benchmark in asked.items() if name in of_benchmark]
            if all(judges_alike(prompts, prompts.variant(variant), get_benchmark(benchmark)) for benchmark in about):
                raise ConfigurationError(
                    f"prompt variant {variant!r} changes no prompt of a judge of {', '.join(about)}"
                )
        check_judges_named(self.request.judge_parameters or (), judges)
        return tuple(self._judge(*judge, before) for judge in judges.values())

    def _judge(self, model: str, prompt: str | None, stored: Sequence[JudgeSpec]) -> JudgeSpec:
        request = self.request
        itself = next((judge for judge in stored if judge.name == judge_name(model, prompt)), None)
        if itself and (itself.model, itself.prompt) != (model, prompt):
            raise ConfigurationError(
                f"judge {itself.name} of this run is another: give the prompt variant another name"
            )
        # Another prompt is all that a variant's judge differs in, unless more is asked.
        adopted = prompt if prompt and ADOPTED.file(prompt) else None
        alike = None if adopted else next((judge for judge in stored if judge.model == model), None)
        before = itself or alike
        asked = {
            "temperature": request.judge_temperature,
            "max_tokens": request.judge_max_tokens,
            "score_rounding": request.score_rounding,
            "samples": request.judge_samples,
        }
        effort = request.judge_reasoning_effort
        named = {} if effort is None else {"reasoning_effort": effort}
        named |= read_of_judge(request.judge_parameters or (), judge_name(model, prompt))
        where = request.judge_base_url, request.judge_api_key_variable
        if model == request.grader_model and request.judge_base_url is None:
            where = request.base_url, request.api_key_variable
        if model == DEFAULT_MODEL:
            where = None, None  # beside judges on a given server it stays embedded
        endpoint = _endpoint(model, *where, before.endpoint if before else None)
        if adopted and before is None:
            defaults, endpoint = adopted_defaults(adopted, model, endpoint)
        else:
            defaults = judge_defaults(endpoint)
        known = before.model_dump(include=set(defaults)) if before else {}
        settings = defaults | known | {name: value for name, value in asked.items() if value is not None}
        settings["parameters"] |= named
        return JudgeSpec(
            model=model, prompt=prompt, endpoint=endpoint, rounds=itself.rounds if itself else {}, **settings
        )

    # --- imported runs -----------------------------------------------------------------------------------------------

    def widened_import(self, stored: RunSpec) -> RunSpec:
        """Return an imported run with more judges, strategies and passes: its answers and questions stay."""
        if other := [name for name in _OF_ANSWERS if getattr(self.request, name) is not None]:
            raise ConfigurationError(
                f"run {stored.run_id} was imported, so {' and '.join(other)} cannot be chosen: "
                "another --tag calls its model again"
            )
        asked = {name: self.asked_judges(self.entry(name)) for name in benchmarks_of(self.request, stored)}
        judges = self.judges(asked)
        benchmarks = {
            name: self._judged_further(stored.benchmarks[name], name, list(of_benchmark))
            for name, of_benchmark in asked.items()
            if of_benchmark or self.request.strategies or get_benchmark(name).has_rule
        }
        passes = _passes(self.request, judges, stored)
        if not (benchmarks or passes or stored.passes):
            raise ConfigurationError(
                f"run {stored.run_id} was imported: name who is to judge it with --judge-model, or passes with --passes"
            )
        consensus = self.consensus(None)
        for strategy in make_strategies(self.strategies, self.workspace.prompts, lambda _: (0, {})):
            if strategy.templates and consensus is None:
                raise ConfigurationError(
                    f"run {stored.run_id} was imported, so its model cannot be asked for the strategy {strategy.name}: "
                    "name who is with --consensus-model"
                )
        added = {"benchmarks": benchmarks, "judges": judges, "passes": passes, "consensus": consensus}
        return _with_plugins(merged(stored, stored.model_copy(update=added)), asked)

    def _judged_further(self, stored: BenchmarkSpec, name: str, judges: Sequence[str]) -> BenchmarkSpec:
        """Return a benchmark with more judges and strategies; its single answer is the first of its samples."""
        strategies = self.strategies
        if strategies and stored.samples == 1:
            raise ConfigurationError(f"a consensus on {name} takes 2 or more samples, and one was imported")
        update: dict[str, Any] = {"judges": tuple(judge_names(name, judges))}
        if strategies:
            added = [strategy for strategy in strategies if strategy not in stored.strategies]
            _check_samples(name, added, stored.samples)
            update |= {"single": "first", "strategies": (SINGLE, *strategies)}
        return stored.model_copy(update=update)


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


def _is_sample(request: RunRequest, stored: BenchmarkSpec) -> bool:
    """Return whether the stored questions are the sample that is asked for, if one is."""
    if request.sample is None:
        return True
    if stored.sample is None:
        return request.sample >= stored.n_questions
    seed = stored.sample.seed if request.sample_seed is None else request.sample_seed
    asked = request.sample, request.sample_order, seed
    return asked == (stored.sample.size, stored.sample.order, stored.sample.seed)


def _parameters(before: BenchmarkSpec | None, layers: Sequence[RunRequest | ModelSettings]) -> dict[str, Any]:
    """Return the parameters of answers beyond those that every run has.

    Args:
        before: As the run has them.
        layers: Requests for others; the last one wins.
    """
    parameters = dict(before.parameters) if before else {}
    for layer in layers:
        parameters |= {name: value for name in NAMED if (value := getattr(layer, name)) is not None}
        parameters |= read_settings(layer.parameters or (), "--param")
    return parameters


def _check_parameters(spec: RunSpec) -> None:
    """Refuse parameters that a model of the run cannot be asked with."""
    for settings in spec.benchmarks.values():
        for asked in (spec.itself, *spec.members):
            check_parameters(asked.endpoint, asked.model, settings.sampling)
    for judge in spec.judges:
        check_parameters(judge.endpoint, judge.model, judge.sampling)


def _endpoint(model: str, base_url: str | None, api_key_variable: str | None, before: Endpoint | None) -> Endpoint:
    """Return where a model is served: as asked, else as before, else as its name says."""
    if before and base_url is None:
        base_url = before.base_url
    endpoint = resolve_endpoint(model, base_url, api_key_variable)
    if before and endpoint.base_url == before.base_url:
        return replace(before, api_key_variable=api_key_variable or before.api_key_variable)
    return endpoint


def _passes(
    request: RunRequest, judges: Sequence[JudgeSpec], stored: RunSpec | None
) -> tuple[tuple[PassSpec, ...], ...]:
    """Return the pipeline that is asked for, if one is."""
    if not request.passes:
        return ()
    pipeline = make_pipeline(request.passes, request.pass_options or ())
    known = [settings for passes in stored.passes for settings in passes] if stored else []
    return (tuple(_pass_spec(made, request, judges, known) for made in pipeline),)


def _pass_spec(
    asked: Pass[Any], request: RunRequest, judges: Sequence[JudgeSpec], known: Sequence[PassSpec]
) -> PassSpec:
    alike = (stored for stored in known if stored.name == asked.name)
    stored = next((settings for settings in alike if _config_hash(settings) == asked.config_hash), None)
    endpoint = None
    if asked.asks is not None:
        before = stored.endpoint if stored else None
        # A pass asks where the judges are, unless it asks the embedded model.
        judge = next((judge.endpoint for judge in judges if judge.endpoint.name == CUSTOM), None)
        base_url = request.judge_base_url or (judge.base_url if judge else None)
        variable = request.judge_api_key_variable or (judge.api_key_variable if judge else None)
        at_judges = (None, None) if asked.asks == DEFAULT_MODEL else (base_url, variable)
        endpoint = _endpoint(asked.asks, *at_judges, before)
    return PassSpec(name=asked.name, config=asked.config.model_dump(mode="json"), endpoint=endpoint)


def _config_hash(settings: PassSpec) -> str:
    return make_pass(settings.name, settings.config).config_hash


# --- plugins ---------------------------------------------------------------------------------------------------------


def _with_plugins(spec: RunSpec, benchmarks: Iterable[str]) -> RunSpec:
    """Return the spec with what it uses of plugin folders as it is now; what only other benchmarks use may be gone.

    Raises:
        ConfigurationError: Something that these benchmarks need is gone or broken.
    """
    known = {(plugin.kind, plugin.name): plugin for plugin in spec.plugins}
    prompts = {judge.prompt for judge in spec.judges if judge.prompt}
    judges = [
        (kind, name)
        for name in sorted(prompts)
        for kind in (JUDGES, ADOPTED)
        if kind.file(name) or (kind.noun, name) in known
    ]
    for name in benchmarks:
        grader = get_benchmark(name).grader
        used: list[tuple[PluginRegistry[Any], str]] = [
            (ALL_BENCHMARKS, name),
            *([(GRADERS, grader)] if grader.startswith(RULE) else []),
            *((STRATEGIES, strategy) for strategy in spec.benchmarks[name].strategies if strategy != SINGLE),
            *((PASSES, settings.name) for pipeline in spec.passes for settings in pipeline),
            *judges,
            *([(ADOPTED, keeper)] if (keeper := spec.benchmarks[name].kept_by) else []),
        ]
        for kind, plugin in used:
            file = kind.file(plugin)
            if file is None and (kind.noun, plugin) in known:
                raise _gone(spec.run_id, kind, plugin)
            thing = kind.use(plugin)
            # Of code, what was loaded: the file may have been edited since.
            sha256 = file and (getattr(thing, "file_sha256", None) or file.sha256)
            if sha256:
                version = getattr(thing, "version", None)
                known[kind.noun, plugin] = PluginSpec(
                    kind=kind.noun, name=plugin, version=None if version is None else str(version), sha256=sha256
                )
    passes = tuple(tuple(map(_with_hash, pipeline)) for pipeline in spec.passes)
    return spec.model_copy(update={"plugins": tuple(known.values()), "passes": passes})


def _with_hash(settings: PassSpec) -> PassSpec:
    """Return a pass with what it is known by, if a plugin has it now."""
    if not PASSES.file(settings.name):
        return settings
    return settings.model_copy(update={"config_hash": _config_hash(settings)})


def _gone(run_id: str, kind: PluginRegistry[Any], name: str) -> ConfigurationError:
    return ConfigurationError(
        f"run {run_id} has the {kind.noun} {name} of a plugin that is not there now: what is stored can only be read; "
        f"put its file back into {kind.folder}/ of a plugin folder (SHABERI_PLUGINS)"
    )
