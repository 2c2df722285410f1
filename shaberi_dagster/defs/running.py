"""Requests evaluated in this process, as commands and `evaluate()` do it: plan, check, materialize."""

import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import chain
from typing import Any, Literal

import orjson
import polars as pl

from shaberi_dagster.llm.embedded import DEFAULT_MODEL
from shaberi_dagster.llm.endpoints import named_pairs
from shaberi_dagster.llm.keys import keys_named
from shaberi_dagster.reports.requests import ScoreSelection
from shaberi_dagster.reports.scores import reuse_remark
from shaberi_dagster.runs.forecast import NO_CALL, Forecast
from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.planning import benchmarks_of, judged_again, named_judges, plan_run, requests_of
from shaberi_dagster.runs.spec import CallOptions, RunRequest, RunSpec
from shaberi_dagster.runs.stages.answers import Answers
from shaberi_dagster.runs.stages.consensus import ConsensusAnswers
from shaberi_dagster.runs.stages.evaluation import check_endpoints, is_up_to_date
from shaberi_dagster.runs.stages.forecast import forecast
from shaberi_dagster.runs.stages.judgements import Judgements
from shaberi_dagster.runs.stages.metrics import set_status, silent_benchmarks
from shaberi_dagster.runs.stages.ordered import CALLING_NAMES, STAGES, stage_named
from shaberi_dagster.runs.stored import find_run, load_run, parameters_in_words, run_before, store_run
from shaberi_dagster.runs.workspace import Workspace, reporting_to
from shaberi_dagster.settings import Settings, check_cluster
from shaberi_dagster.tasks.benchmarks.registry import get_benchmark
from shaberi_dagster.tasks.judges.own import is_own
from shaberi_dagster.tasks.passes.pipeline import BASELINE
from shaberi_dagster.tasks.prompts.library import judges_alike
from shaberi_dagster.util.errors import ConfigurationError, EndpointError
from shaberi_dagster.util.folders import named_plugin_folders
from shaberi_dagster.util.identity import run_id_of
from shaberi_dagster.util.live import reporter_for
from shaberi_dagster.util.names import did_you_mean
from shaberi_dagster.util.progress import Reporter, failures_in_words
from shaberi_dagster.util.text import printable

_WRONG = "answers that no rule can decide count as wrong (add --judge-model to have them judged)"
_Make = Callable[[str, Mapping[str, Any]], None]
Kind = Literal["evaluate", "rejudge", "passes", "reprocess"]
"""What a command does to one run: of these only `evaluate` calls the model."""


class Evaluation:
    """The runs that some requests stand for; progress goes to stderr.

    Args:
        requests: One for each run, by a person: the keys and addresses that they name are bound to each other. A tag
            can stand for numbered runs.
        options: How calls are made.
        rejudge: Judge the stored answers again instead of bringing everything up to date.
        reprocess: Read the stored outputs again instead, and make no call.
        runs: Number of independent runs, `TAG-run1` to `TAG-runN`; None: those that the tag means.
        command: By whose name Dagster knows it.
        submit: Let the workers of a cluster do it, and look on.
        stages: Only these; None means all that the options leave.

    Attributes:
        specs: The runs.
        workspace: Workspace that it reads and writes.
        benchmarks: Benchmarks that it is about; the runs may have others.
        calls_made: Calls that `run` made, by stage.
        remarks: What is to be known before: that a stored run is larger or becomes larger.

    Raises:
        ConfigurationError: It cannot be planned as asked, or there is no cluster to submit it to.
    """

    def __init__(
        self,
        requests: Sequence[RunRequest],
        options: CallOptions,
        *,
        rejudge: bool = False,
        reprocess: bool = False,
        runs: int | None = None,
        command: str = "run-evals",
        submit: bool = False,
        stages: Sequence[str] | None = None,
    ) -> None:
        if submit:
            check_cluster()
        self.calls_made: dict[str, int] = {}
        self._refusals: list[str] = []
        self.workspace = Workspace(Settings.from_environment(), options=options)
        self._command = command
        self._only = stages
        self._rejudge, self._reprocess, self._submit = rejudge, reprocess, submit
        meant = [requests_of(request, runs, self.workspace.lake) for request in requests]
        requests = [request for found, _ in meant for request in found]
        self.remarks = [remark for _, remarks in meant for remark in remarks]
        self._pipeline = ",".join(requests[0].passes or []) or BASELINE
        self._keys = named_pairs(
            *((request.base_url, request.api_key_variable) for request in requests),
            *((request.judge_base_url, request.judge_api_key_variable) for request in requests),
        )
        pairs = ((request.api_key_variable, request.judge_api_key_variable) for request in requests)
        named = {name for pair in pairs for name in pair if name}
        if unset := sorted(name for name in named if not self.workspace.environment.get(name)):
            raise ConfigurationError(f"set {unset[0]} to the API key, or leave --api-key-variable out")
        if not_there := next((folder for folder in named_plugin_folders() if not folder.is_dir()), None):
            raise ConfigurationError(f"{not_there} is no folder: SHABERI_PLUGINS names those of plugins")
        results = self.workspace.settings.results
        place = next(folder for folder in (results, *results.parents) if folder.exists())
        if not place.is_dir() or not os.access(place, os.W_OK):
            raise ConfigurationError(f"results cannot be written to {results}: name another folder as SHABERI_RESULTS")
        if rejudge or reprocess:
            self._check_stored(requests, "rejudge" if rejudge else "reprocess")
        self._judges_asked = named_judges(requests[0], self.workspace)
        runs_before = [run_before(self.workspace.lake, request.model, request.tag) for request in requests]
        benchmarks = map(benchmarks_of, requests, runs_before)
        self.benchmarks = list(dict.fromkeys(chain.from_iterable(benchmarks)))
        self._kinds: dict[str, Kind] = {}
        self._judges_added: dict[str, list[str]] = {}
        self.specs = list(map(self._planned, requests))
        with suppress(ConfigurationError):  # an endpoint's file may be gone, which is said where it is called
            self.remarks += dict.fromkeys(sentence for spec in self.specs for sentence in parameters_in_words(spec))

    @property
    def spec(self) -> RunSpec:
        """The only run, or the first of several."""
        return self.specs[0]

    def run(self) -> str:
        """Materialize all runs, one after the other.

        Returns:
            `complete`, or the first other state of a benchmark; `partial` where not all stages are asked for.
        """
        reporter, calls_before = reporter_for(sys.stderr), self._n_calls()
        with reporting_to(reporter), keys_named(self._keys):
            if not (self._rejudge or self._reprocess) and all(
                is_up_to_date(spec, self._of(spec), self._stages(spec), self.workspace) for spec in self.specs
            ):
                self._announce()
            else:
                with self.workspace.published_at_the_end():
                    self.workspace.lake.check_writable()
                    lake, checked = self.workspace.lake, self._reprocess or self._submit
                    if not checked and not all(
                        load_run(lake, spec.run_id) == spec and self._state(spec) == "complete" for spec in self.specs
                    ):
                        self._check_calls()
                    self._announce()
                    with self._execution(reporter) as (make, runs):
                        for spec in runs:
                            run_id, ops = spec.run_id, self._ops(spec)
                            try:
                                make(run_id, ops)
                            except EndpointError as error:
                                # It worked when the command began. What is there is scored; the same command does
                                # the rest.
                                reporter.note(str(error))
                                self._refusals.append(str(error))
                                make(run_id, {stage: ops[stage] for stage in ops if stage not in CALLING_NAMES})
                            if self._only is not None:
                                set_status(spec, self.workspace)
                                self.workspace.changed(run_id)
        self.calls_made = dict(self._n_calls() - calls_before)
        for unpriced in self.workspace.budget.unpriced():
            reporter.note(unpriced)
        reused = self.workspace.lake.read("runs", {"run_id": [spec.run_id for spec in self.specs]})
        for run_id, text in reused.select("run_id", "reused_replies").drop_nulls().sort("run_id").iter_rows():
            reporter.note(f"{reuse_remark(run_id, text)} Another --tag with --fresh makes calls of its own.")
        if self._only is not None:
            return "partial"
        status = next((state for state in map(self._state, self.specs) if state != "complete"), "complete")
        if status == "complete" and not (self.calls_made or self._reprocess):
            reporter.note("nothing left to do: no call was made" if self._evaluated else "no call was made")
        return status

    def _check_calls(self) -> None:
        """Find what would stop a run before anything is paid for."""
        workspace = self.workspace
        stages = self._stages()
        answers = self._of(self.spec) if Answers.name in stages and self._n_missing else []
        graders = self._graders() if answers else []  # of stored answers they may have nothing to tell
        judges = self._llm_judges() if Judgements.name in stages else []
        if self.spec.origin == "own":
            plan = RunPlan(self.spec, self._of(self.spec), workspace, self._judges())
            for name in stages:  # a prompt that is missing or broken raises
                list(stage_named(name).prompts(plan))
        check_endpoints(self.spec, workspace, answers=answers, judges=judges, graders=graders, stages=stages)
        checked = {self.spec.model}
        for spec in self._evaluated if answers else ():
            if spec.model not in checked and answers_missing(spec, self._of(spec), workspace):
                checked.add(spec.model)
                check_endpoints(spec, workspace, answers=answers, judges=(), stages=[Answers.name])

    @contextmanager
    def _execution(self, reporter: Reporter) -> "Iterator[tuple[_Make, Iterable[RunSpec]]]":
        """Open the instance that the UI shows.

        Yields:
            What materializes a run, here or by the workers of a cluster; and the runs, each registered when its turn
            comes.
        """
        from shaberi_dagster.defs import execution, jobs, partitions

        workspace, tags = self.workspace, {"shaberi/command": self._command}

        def registered() -> Iterator[RunSpec]:
            for spec in self.specs:
                store_run(spec, workspace)
                partitions.add_partition(spec, instance)
                yield spec

        with execution.open_instance(workspace.settings.dagster_home) as instance:
            execution.close_dead_runs(instance)
            if self._submit:
                from shaberi_dagster.defs import submission  # it needs the extra of clusters

                by_workers = submission.ByWorkers(workspace, instance, **tags)
                for spec in self.specs:  # which are then made side by side
                    by_workers.begin(spec, self._ops(spec))
                yield by_workers, self.specs
            else:
                reporter.expect(sum(map(self._n_items, self.specs)))
                yield partial(jobs.run_in_process, instance=instance, workspace=workspace, tags=tags), registered()

    def _ops(self, spec: RunSpec) -> dict[str, Any]:
        """Return the config of the stages of a run that this command makes."""
        from shaberi_dagster.defs.options import stage_config

        again = {"reprocess": self._reprocess, "reexamine": self._reprocess and self._pipeline == BASELINE}
        options, stages = self.workspace.options, self._stages(spec)
        return stage_config(options, stages, self._of(spec), self._judges(spec), **again)

    @property
    def selection(self) -> ScoreSelection:
        """The scores of these runs."""
        asked = self._judges_asked
        judges = (
            (name for benchmark in self._of(self.spec) for name in self.spec.chosen_judges(benchmark, asked))
            if asked
            else ()
        )
        return ScoreSelection(
            models=list(dict.fromkeys(spec.model for spec in self.specs)),
            tags=[spec.run_tag for spec in self.specs],
            judges=list(dict.fromkeys(judges)),
            pipeline=self._pipeline,
            runs=len(self.specs) if len(self.specs) > 1 else None,
        )

    def failures(self) -> str:
        """Say why not all is complete, in one line."""
        keys = {"run_id": [spec.run_id for spec in self.specs], "benchmark": self.benchmarks}
        reasons = list(self._refusals)
        for stage in (name for name in self._stages() if name in CALLING_NAMES):
            rows = self.workspace.lake.read(stage, keys).filter(status="error")
            if stage == Judgements.name:
                rows = rows.filter(~pl.col("superseded"))
            if rows.height:
                failures = failures_in_words(rows.height, Counter(rows["error_class"].drop_nulls()))
                messages = Counter(rows["error_message"].drop_nulls()).most_common(1)
                reasons.append(f"{stage}: {failures}" + "".join(f", such as {message}" for message, _ in messages))
        reasons += [reason for spec in self.specs if (reason := self._incomplete(spec))]
        silent = silent_benchmarks(self.workspace.lake, keys) if not reasons else ()
        reasons += [f"all answers of {', '.join(silent)} are empty"] if silent else []
        told = printable("; ".join(reasons)) or "some parts failed"
        again = ", the same command tries again" if self._evaluated else ""
        return f"{told}; `shaberi sql failures` tells more{again}"

    def _incomplete(self, spec: RunSpec) -> str:
        """Say what a run lacks that this command does not make, and which one does."""
        if self._kinds[spec.run_id] == "evaluate":
            return ""
        keys, lacking = {"run_id": spec.run_id, "benchmark": self._of(spec)}, list[str]()
        for stage in (Answers, Judgements):
            n_planned = sum(stage.n_rows(spec, name) for name in self._of(spec))
            rows = self.workspace.lake.read(stage.name, keys, ["status", *(["superseded"] if stage.supersedes else [])])
            there = rows.filter(pl.col("status") != "error", *([~pl.col("superseded")] if stage.supersedes else []))
            if there.height < n_planned:
                lacking.append(f"{there.height} of {n_planned} {stage.name}")
        command = shlex.join(["run-evals", "--model", spec.model, "--tag", spec.run_tag])
        return f"run {spec.run_id} has {' and '.join(lacking)}: `{command}` makes the rest" if lacking else ""

    def plan(self) -> list[Forecast]:
        """Forecast the calls that would be made."""
        stages, judges = self._stages(), self._judges()
        now = datetime.now(UTC)
        estimates = forecast(self.specs, self.benchmarks, stages, self.workspace, now=now, judges=judges)
        if not self._reprocess:
            return estimates
        nothing: dict[str, Any] = {
            "calls": 0,
            "calls_most": 0,
            "fallback_calls": 0.0,
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "cost_usd": 0.0,
            "basis": NO_CALL,
            "upper_bound": False,
        }
        return [replace(estimate, **nothing) for estimate in estimates]

    def _planned(self, request: RunRequest) -> RunSpec:
        """Plan a run, and note what this command does to it."""
        before = find_run(self.workspace.lake, request.model, request.tag)
        spec = plan_run(request, self.workspace, is_judged=self._only is None or Judgements.name in self._only)
        kind: Kind = "passes" if self._pipeline in spec.added_pipelines else "evaluate"
        if self._rejudge or self._reprocess:
            kind = "rejudge" if self._rejudge else "reprocess"
        self._kinds[spec.run_id] = kind
        if before and kind != "evaluate":
            _check_answered(before, spec, request, kind, self._of(spec))
        self.remarks += [
            remark for remark in _of_limits(before, spec, request, self._of(spec)) if remark not in self.remarks
        ]
        if before is None or kind not in ("rejudge", "passes"):
            return spec
        old = {judge.name for judge in before.judges}
        old |= {name for settings in before.benchmarks.values() for name in settings.imported_judges}
        if kind == "rejudge":  # judges that judged the run before get a new round; a new one needs none
            asked = self._judges_asked or [judge.name for judge in spec.judges]
            return judged_again(spec, [name for name in asked if name in old], self._of(spec))
        self._judges_added[spec.run_id] = [name for name in self._judges_asked if name not in old]
        return spec

    def _check_stored(self, requests: Sequence[RunRequest], what: str) -> None:
        """Refuse to work on what is stored of a run that is not, before anything else is asked for it."""
        for request in requests:
            run_id, lake = run_id_of(request.model, request.tag), self.workspace.lake
            if find_run(lake, request.model, request.tag) is None:
                tags = lake.read("runs", {"model": request.model}, ["run_tag"])["run_tag"].unique().to_list()
                there = did_you_mean(request.tag, tags, "its tags:") if tags else "the lake has no run of that model"
                raise ConfigurationError(f"run {run_id} has no answers to {what}; {there}")

    def _of(self, spec: RunSpec) -> list[str]:
        """Name the benchmarks of a run that this command is about: the runs of a tag can have different ones."""
        return [name for name in self.benchmarks if name in spec.benchmarks]

    @property
    def _evaluated(self) -> list[RunSpec]:
        return [spec for spec in self.specs if self._kinds[spec.run_id] == "evaluate"]

    def _stages(self, spec: RunSpec | None = None) -> list[str]:
        """Name the stages of a run that this command may change; without one, of any."""
        spec = spec or next(iter(self._evaluated), self.spec)  # the first run of those that most is done to
        kind, left_out = self._kinds[spec.run_id], set[str]()
        if kind != "evaluate" or spec.origin == "imported":
            left_out = {Answers.name}
        if kind != "evaluate":
            left_out |= {ConsensusAnswers.name}
        if kind == "passes" and not self._judges_added[spec.run_id]:
            left_out |= {Judgements.name}
        needed = [stage for stage in STAGES if stage.is_needed(spec, self._of(spec))]
        names = [stage.name for stage in needed if stage.name not in left_out]
        return names if self._only is None else [name for name in self._only if name in names]

    def _n_items(self, spec: RunSpec) -> int:
        """Rows of the stages that make calls; those of passes are not counted before they are made."""
        judges, stages = self._judges(spec), [stage_named(name) for name in self._stages(spec)]
        return sum(stage.n_rows(spec, name, judges) for stage in stages for name in self._of(spec))

    def _judges(self, spec: RunSpec | None = None) -> list[str]:
        """Name the judges that are called, where these are not all of the run's."""
        spec = spec or next(iter(self._evaluated), self.spec)
        return self._judges_asked if self._rejudge else self._judges_added.get(spec.run_id, [])

    @cached_property
    def _n_missing(self) -> int:
        """Answers of all runs that no one had paid for when the command began; without any no endpoint is needed."""
        return sum(answers_missing(spec, self._of(spec), self.workspace) for spec in self._evaluated)

    def _llm_judges(self) -> list[str]:
        """The judges that are asked about everything; those that rules leave something to may not be asked at all."""
        judged = [name for name in self._of(self.spec) if not get_benchmark(name).has_rule]
        return [judge for name in judged for judge in self.spec.chosen_judges(name, self._judges())]

    def _graders(self) -> list[str]:
        """The judges that rules leave something to."""
        if Judgements.name not in self._stages():
            return []
        ruled = [name for name in self._of(self.spec) if get_benchmark(name).has_rule]
        chosen = (self.spec.judge(judge) for name in ruled for judge in self.spec.chosen_judges(name, self._judges()))
        return sorted({judge.name for judge in chosen if judge})

    def _n_calls(self) -> Counter[str]:
        """Calls that are the runs' own, by stage."""
        keys = {"run_id": [spec.run_id for spec in self.specs]}
        return Counter(self.workspace.lake.read("calls", keys, ["stage"])["stage"].to_list())

    def _state(self, spec: RunSpec) -> str:
        """Return the state of the benchmarks that this command is about; the run may have others."""
        (text,) = self.workspace.lake.read("runs", {"run_id": spec.run_id}, ["status_by_benchmark"]).row(0)
        states: dict[str, str] = orjson.loads(text)
        made = (states[name] for name in self._of(spec) if spec.is_made_here(name))
        return next((state for state in made if state != "complete"), "complete")

    def _announce(self) -> None:
        spec, note = self.spec, self.workspace.reporter.note
        for remark in self.remarks:
            note(remark)
        for name in self._of(spec):
            settings = spec.benchmarks[name]
            note(f"{name}: {settings.question_set} ({settings.n_questions} questions, from {settings.source})")
        samples = [spec.benchmarks[name].samples for name in self._of(spec)]
        is_sampled = spec.origin == "own" and max(samples, default=1) > 1
        if is_sampled:
            planned = sum(spec.n_planned(name) for spec in self.specs for name in self._of(spec))
            note(f"samples: {planned - self._n_missing} of {planned} are there or paid for")
        if is_sampled or self.workspace.options.max_cost is not None:
            note(calls_in_words(self.plan(), self.workspace.options.max_cost))
        ruled = [name for name in self._of(spec) if get_benchmark(name).has_rule]
        if ruled and Judgements.name in self._stages():
            graders = ", ".join(self._graders())
            rest = f"what they cannot tell by {graders}" if graders else _WRONG
            note(f"{', '.join(ruled)}: graded by rules; {rest}")
        prompts = self.workspace.prompts
        for judge in spec.judges:
            if judge.prompt and not is_own(judge.prompt) and judge.name in (self._judges() or [judge.name]):
                variant = prompts.variant(judge.prompt)
                alike = [name for name in self._of(spec) if judges_alike(prompts, variant, get_benchmark(name))]
                if alike:
                    note(f"judge {judge.name} gets the same prompt as {judge.model} in {', '.join(alike)}")
        if DEFAULT_MODEL in self._llm_judges():
            note(f"judge {DEFAULT_MODEL} is so small that its scores mean little: name another with --judge-model")


def calls_in_words(estimates: Sequence[Forecast], max_cost: float | None) -> str:
    """Say how many calls a command makes, stage by stage, and what they cost beside what may be spent."""
    counts = []
    for stage in dict.fromkeys(estimate.stage for estimate in estimates):
        own = [estimate for estimate in estimates if estimate.stage == stage]
        least, most = sum(estimate.calls for estimate in own), sum(estimate.calls_most for estimate in own)
        if most:
            counts.append(f"{least:,} {stage}" if most == least else f"{least:,} to {most:,} {stage}")
    costs = [estimate.cost_usd for estimate in estimates if estimate.calls_most]
    known = sum(cost for cost in costs if cost is not None)
    unknown = ", some at unknown prices" if None in costs else ""
    money = "" if max_cost is None else f"; about ${known:.2f}{unknown}, of at most ${max_cost:.2f}"
    return f"calls to make: {', '.join(counts) or 'none'}{money}"


def _check_answered(before: RunSpec, spec: RunSpec, request: RunRequest, kind: Kind, benchmarks: Sequence[str]) -> None:
    """Refuse what takes new answers beside an option that works on stored ones.

    Raises:
        ConfigurationError: It names the command that makes them first.
    """
    new = [name for name in benchmarks if name not in before.benchmarks]
    own = {name: (spec.benchmarks[name], before.benchmarks[name]) for name in benchmarks if name not in new}
    missing = [f"--benchmark {','.join(new)}"] if new else []
    if any(spec.n_planned(name) > before.n_planned(name) for name in own):
        missing.append(f"--limit {request.limit}" if request.limit else f"--samples {request.samples}")
    added = dict.fromkeys(name for now, was in own.values() for name in now.strategies if name not in was.strategies)
    missing += [f"--strategy {','.join(added)}"] if added else []
    if missing:
        command = ["run-evals", "--model", spec.model, "--tag", spec.run_tag]
        raise ConfigurationError(
            f"--{kind} works on stored answers, and run {spec.run_id} has none for {' '.join(missing)}: make them "
            f"first with {shlex.join(command)} {' '.join(missing)}"
        )


def _of_limits(before: RunSpec | None, spec: RunSpec, request: RunRequest, benchmarks: Sequence[str]) -> Iterator[str]:
    """Yield remarks on the limits of a stored run: kept without a word, never lowered."""
    if before is None:
        return
    for limit in dict.fromkeys(spec.benchmarks[name].limit for name in benchmarks if name in before.benchmarks):
        names = [name for name in benchmarks if name in before.benchmarks and spec.benchmarks[name].limit == limit]
        asked = sum(spec.n_questions(name) for name in names)
        whole = sum(spec.benchmarks[name].n_questions for name in names)
        if isinstance(request.limit, int) and (limit is None or limit > request.limit):
            own = f"{spec.model} has {asked} questions of {', '.join(names)}"
            yield f"{own}: --limit {request.limit} changes nothing, a limit only grows"
        elif request.limit is None and asked < whole:
            yield f"{spec.model}: {asked} of {whole} questions, as before; `--limit all` takes the rest"


def answers_missing(spec: RunSpec, benchmarks: Sequence[str], workspace: Workspace) -> int:
    """Count the answers of a run that no one has paid for yet.

    Args:
        spec: The run, planned or stored.
        benchmarks: Some of its benchmarks.
        workspace: Its lake and journals are read.
    """
    estimates = forecast([spec], benchmarks, [Answers.name], workspace, now=datetime.now(UTC))
    return sum(estimate.calls for estimate in estimates)
