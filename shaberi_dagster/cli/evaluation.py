"""What `run-evals` does: plan, check, materialize in this process, show the scores."""

import sys
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import orjson
from rich.console import Console

from shaberi_dagster.benchmarks.registry import parse_benchmarks
from shaberi_dagster.cli.live import reporter_for
from shaberi_dagster.cli.plan import write_plan
from shaberi_dagster.cli.view_scores import Selection, show
from shaberi_dagster.defs.execution import close_dead_runs, open_instance, run_in_process
from shaberi_dagster.defs.jobs import add_partition
from shaberi_dagster.defs.resources import COMMAND_TAG
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.estimate import estimate_calls
from shaberi_dagster.evaluation import check_endpoints
from shaberi_dagster.identity import check_model_name, check_run_tag, run_id_of
from shaberi_dagster.llm.embedded import DEFAULT_MODEL
from shaberi_dagster.outcome import STAGES
from shaberi_dagster.planning import judged_anew, load_run, plan_run, store_run
from shaberi_dagster.runspec import CallOptions, RunRequest, RunSpec
from shaberi_dagster.settings import Settings
from shaberi_dagster.workspace import Workspace, reporting_to


class Evaluation:
    """One `run-evals` command.

    Args:
        requests: One for each run.
        options: How calls are made.
        rejudge: Judge the stored answers anew instead of bringing everything up to date.
    """

    def __init__(self, requests: Sequence[RunRequest], options: CallOptions, *, rejudge: bool) -> None:
        self._workspace = Workspace(Settings.from_environment(), options=options)
        self._command_id = uuid.uuid4().hex
        self._rejudge = rejudge
        self._judges_asked = list(requests[0].judge_models or [])
        self._benchmarks = [one.name for one in parse_benchmarks(",".join(requests[0].benchmarks))]
        self._specs = [self._judged_anew(one) if rejudge else plan_run(one, self._workspace) for one in requests]

    def run(self) -> str:
        """Materialize all runs, one after the other.

        Returns:
            `complete`, or the first other state of a benchmark.
        """
        reporter = reporter_for(sys.stderr)
        workspace = self._workspace
        calls_before = self._n_calls()
        with reporting_to(reporter):
            if any(not self._is_complete(spec) for spec in self._specs):
                stages = self._stages()
                judges = self._judges() or [judge.model for judge in self._specs[0].judges]
                check_endpoints(self._specs[0], workspace, answers="answers" in stages, judges=judges)
            self._announce(reporter.note)
            instance = open_instance(workspace.settings.dagster_home)
            close_dead_runs(instance)
            for spec in self._specs:
                store_run(spec, workspace)
                add_partition(spec, instance)
                run_in_process(
                    spec.run_id,
                    self._benchmarks,
                    instance,
                    stages=self._stages(),
                    judges=self._judges(),
                    options=workspace.options,
                    tags={"shaberi/command": "run-evals", COMMAND_TAG: self._command_id},
                )
        states = [self._state(spec) for spec in self._specs]
        status = next((state for state in states if state != "complete"), "complete")
        if status != "complete":
            reporter.note("some parts failed: `shaberi sql failures` tells why, the same command tries them again")
        elif self._n_calls() == calls_before:
            reporter.note("nothing left to do: no call was made")
        return status

    def show_scores(self, *, as_json: bool) -> None:
        """Print the table of these runs."""
        selection = Selection(
            models=[self._specs[0].model],
            tags=[spec.run_tag for spec in self._specs],
            judges=self._judges_asked,
            runs=len(self._specs) if len(self._specs) > 1 else None,
        )
        show(self._workspace.settings.warehouse, selection, "json" if as_json else "table")

    def show_plan(self, *, as_json: bool) -> None:
        """Print what would be done."""
        estimates = estimate_calls(
            self._specs, self._benchmarks, self._stages(), self._workspace, now=datetime.now(UTC), judges=self._judges()
        )
        # A file or a pipe has no width.
        write_plan(estimates, Console(width=None if sys.stdout.isatty() else 1000), as_json=as_json)

    def _judged_anew(self, request: RunRequest) -> RunSpec:
        """Judges that judged the run before get a new round; a judge that is new to it needs none."""
        run_id = run_id_of(check_model_name(request.model), check_run_tag(request.tag))
        before = load_run(self._workspace.lake, run_id)
        if before is None:
            raise ConfigurationError(f"run {run_id} has no answers to rejudge: leave --rejudge out")
        # No answer is made, so a limited run stays limited.
        spec = plan_run(request.model_copy(update={"limit": request.limit or before.limit}), self._workspace)
        old = {judge.model for judge in before.judges}
        asked = self._judges_asked or [judge.model for judge in spec.judges]
        return judged_anew(spec, [name for name in asked if name in old], self._benchmarks)

    def _stages(self) -> list[str]:
        return [stage for stage in STAGES if stage != "answers" or not self._rejudge]

    def _judges(self) -> list[str]:
        """With --rejudge only the judges asked for are called."""
        return self._judges_asked if self._rejudge else []

    def _is_complete(self, spec: RunSpec) -> bool:
        stored = self._workspace.lake.read("runs", {"run_id": spec.run_id}, ["spec_hash"])["spec_hash"].to_list()
        return stored == [spec.spec_hash] and self._state(spec) == "complete"

    def _n_calls(self) -> int:
        return self._workspace.lake.read("calls", {"run_id": [spec.run_id for spec in self._specs]}, ["status"]).height

    def _state(self, spec: RunSpec) -> str:
        """Of the benchmarks that this command is about; the run may have others."""
        (text,) = self._workspace.lake.read("runs", {"run_id": spec.run_id}, ["status_by_benchmark"]).row(0)
        states: dict[str, str] = orjson.loads(text)
        return next((states[name] for name in self._benchmarks if states[name] != "complete"), "complete")

    def _announce(self, note: Callable[[str], object]) -> None:
        spec = self._specs[0]
        for name in self._benchmarks:
            settings = spec.benchmarks[name]
            note(f"{name}: {settings.question_set} ({settings.n_questions} questions, from {settings.source})")
        if any(judge.model == DEFAULT_MODEL for judge in spec.judges):
            note(
                f"judge {DEFAULT_MODEL} is a tiny model that shows the pipeline at work; its scores mean little. "
                "Name a real one with --judge-model."
            )
