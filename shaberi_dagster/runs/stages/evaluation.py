"""A run from its spec to its metrics: the stages by name, with their effect on the run's state."""

from collections.abc import Sequence
from itertools import dropwhile

import orjson

from shaberi_dagster.lake.damage import damage_behind
from shaberi_dagster.llm.endpoints import EMBEDDED_URL, api_key, check_bound
from shaberi_dagster.llm.request import Endpoint
from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.prompts_used import new_prompts, record_prompts
from shaberi_dagster.runs.results.results_tree import is_exported
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stages.base import StageResult
from shaberi_dagster.runs.stages.consensus import ConsensusAnswers
from shaberi_dagster.runs.stages.forecast import Foreseen
from shaberi_dagster.runs.stages.imported import reprocess_imported
from shaberi_dagster.runs.stages.metrics import Metrics, set_status
from shaberi_dagster.runs.stages.ordered import CALLING_NAMES, calling_stage, stage_named
from shaberi_dagster.runs.stages.pass_outputs import PassOutputs
from shaberi_dagster.runs.stored import stored_spec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.util.errors import PartitionBusyError, ShaberiError, is_interrupt


def materialize(
    stage: str,
    run_id: str,
    benchmarks: Sequence[str],
    workspace: Workspace,
    judges: Sequence[str] = (),
    *,
    reprocess: bool = False,
) -> list[StageResult]:
    """Bring one stage of a run up to date.

    Args:
        stage: One of `stages.ordered.STAGE_NAMES`.
        run_id: A registered run.
        benchmarks: Which benchmarks; those that the run has not are left out.
        workspace: Where to read and write.
        judges: Only these of the run's judges are asked; none named means all.
        reprocess: Make its rows again of what is stored: judges' outputs are read again, today's versions of passes
            look at what earlier ones have seen.

    Returns:
        One result per benchmark of the run.
    """
    spec, made = stored_spec(run_id, workspace), stage_named(stage)
    own = [name for name in spec.benchmarks if name in benchmarks]
    if not own or (spec.is_partial and not made.makes_calls):
        return []
    if spec.origin == "imported" and not made.continues_imported:
        return reprocess_imported(stage, [run_id], own, workspace)
    plan = RunPlan(spec, own, workspace, judges)
    workspace.begin(run_id)
    try:
        record_prompts(workspace.lake, made.prompts(plan))
        results = made(plan).remake() if reprocess else made(plan).materialize()
    except PartitionBusyError:
        raise  # the run's state is for the other process to tell
    except BaseException as raised:
        error = damage_behind(raised, workspace.settings.warehouse) or raised
        stopped = str(error) if isinstance(error, ShaberiError) else type(error).__name__
        try:
            set_status(spec, workspace, error=None if is_interrupt(error) else stopped)
        except Exception as second:  # noqa: BLE001 - what stopped the stage is what has to be said (a full disk)
            workspace.reporter.note(f"the state of run {run_id} could not be written: {second}")
        workspace.changed(run_id)
        if error is raised:
            raise
        raise error from None
    workspace.changed(run_id, tells=made.makes_calls)
    return results


def is_up_to_date(spec: RunSpec, benchmarks: Sequence[str], stages: Sequence[str], workspace: Workspace) -> bool:
    """Return whether `materialize` would change nothing: no call, row, state of the run, or file of its results.

    Scores and metrics take no call, so they are derived to find out, from a lake that cannot be written.

    Args:
        spec: The run as it is planned.
        benchmarks: Some of its benchmarks.
        stages: Which stages; with `metrics` the benchmarks must be complete too.
        workspace: Where to read; nothing is written and no model is called.
    """
    lake = workspace.lake
    rows = lake.read("runs", {"run_id": spec.run_id}, ["spec", "status_by_benchmark"]).rows()
    if not rows or RunSpec.read(rows[0][0]) != spec:
        return False
    states = orjson.loads(rows[0][1] or "{}")
    if Metrics.name in stages and any(states.get(name) != "complete" for name in benchmarks if spec.is_made_here(name)):
        return False
    # A journal is of an attempt that was interrupted, or of one at work.
    is_journaled = not set(stages).isdisjoint(workspace.journals.stages(spec.run_id))
    if is_journaled or not is_exported(lake, spec.run_id, workspace.settings.results):
        return False
    try:
        plan = RunPlan(spec, benchmarks, workspace)
        asked = [stage_named(name) for name in stages if spec.origin == "own" or stage_named(name).continues_imported]
        used = (prompt for stage in asked for prompt in stage.prompts(plan))
        calling = [calling_stage(name)(plan) for name in stages if name in CALLING_NAMES]
        if new_prompts(lake, used) or not all(stage.survey().is_done for stage in calling):
            return False
        unwritten = Workspace(workspace.settings, workspace.environment)
        unwritten.lake = Foreseen(workspace)
        for name in (name for name in stages if name not in CALLING_NAMES):
            if spec.origin == "imported":
                reprocess_imported(name, [spec.run_id], benchmarks, unwritten)
            else:
                stage_named(name)(RunPlan(spec, benchmarks, unwritten)).materialize()
    except ShaberiError:
        return False  # something would be written, or is wrong, which the stage itself says
    return True


def _is_done(stage: str, spec: RunSpec, benchmarks: Sequence[str], workspace: Workspace) -> bool:
    return calling_stage(stage)(RunPlan(spec, benchmarks, workspace)).survey().is_done


def endpoints_to_call(
    spec: RunSpec, workspace: Workspace, stages: Sequence[str] = CALLING_NAMES, judges: Sequence[str] = ()
) -> list[Endpoint]:
    """Return the endpoints of the first stage that is not done and of those after it, each once.

    Args:
        spec: The run, planned or stored.
        workspace: Where it is read.
        stages: Only these.
        judges: Only these; none named means all of the run's.
    """

    def is_done(stage: str) -> bool:
        try:
            return _is_done(stage, spec, list(spec.benchmarks), workspace)
        except ShaberiError:
            return False

    left = dropwhile(is_done, (stage for stage in CALLING_NAMES if stage in stages))
    called = (pair for stage in left for pair in stage_named(stage).model_endpoints(spec, judges))
    return list(dict.fromkeys(endpoint for endpoint, _ in called))


def check_keys(spec: RunSpec, workspace: Workspace) -> None:
    """Refuse a run that would send a key where it does not belong, before anything of it is stored.

    Raises:
        ConfigurationError: It would.
    """
    for endpoint in endpoints_to_call(spec, workspace):
        check_bound(endpoint, workspace.environment)


def check_endpoints(
    spec: RunSpec,
    workspace: Workspace,
    *,
    answers: Sequence[str],
    judges: Sequence[str],
    graders: Sequence[str] = (),
    stages: Sequence[str] = CALLING_NAMES,
) -> None:
    """Find an endpoint that cannot work, or lacks its model, before anything is paid for.

    A missing key is found before a model is loaded.

    Args:
        spec: The run.
        workspace: Where keys are read from.
        answers: The benchmarks whose answers may have to be made.
        judges: The judges that are needed.
        graders: Judges that may be needed; an embedded one is not started for that.
        stages: The stages that are asked for; models of strategies and passes may be needed unless these are done.

    Raises:
        EndpointError: One cannot be reached, refuses us, or has no such model.
        ConfigurationError: A key is missing, or a price that the budget needs.
    """
    needed = {(judge.endpoint, judge.model) for judge in spec.judges if judge.name in judges}
    for name in answers:
        samples = (spec.sampled(name, index) for index in range(spec.benchmarks[name].samples))
        needed |= {(model.endpoint, model.model) for model in samples}
    possible = {(judge.endpoint, judge.model) for judge in spec.judges if judge.name in graders}
    for stage in (ConsensusAnswers, PassOutputs):
        called = stage.model_endpoints(spec) if stage.name in stages else ()
        if called and (answers or not _is_done(stage.name, spec, list(spec.benchmarks), workspace)):
            possible |= set(called)
    for endpoint in sorted({endpoint for endpoint, _ in needed | possible}, key=str):
        api_key(endpoint, workspace.environment)  # also refuses one that does not belong there
    thread = workspace.engine_thread()
    workspace.budget.check({(model, endpoint.base_url) for endpoint, model in needed | possible})
    for endpoint, model in sorted(needed | possible, key=lambda pair: (pair[1], str(pair[0]))):
        if (endpoint, model) not in needed and endpoint.base_url == EMBEDDED_URL:
            continue
        thread.run(thread.engine.check(endpoint, model))
