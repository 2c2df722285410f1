"""A run from its spec to its metrics: the stages by name, with their effect on the run's state."""

from collections.abc import Sequence
from functools import partial

from shaberi_dagster.deliberation import decide
from shaberi_dagster.errors import ConfigurationError, PartitionBusyError, ShaberiError
from shaberi_dagster.examination import examine
from shaberi_dagster.export.results_tree import refresh_results
from shaberi_dagster.generation.stage import answer
from shaberi_dagster.judging.grade import grade
from shaberi_dagster.judging.stage import judge, reparse
from shaberi_dagster.outcome import Outcome
from shaberi_dagster.planning import load_run
from shaberi_dagster.runspec import RunSpec
from shaberi_dagster.scoring import measure, score, set_status
from shaberi_dagster.workspace import Workspace


def stored_spec(run_id: str, workspace: Workspace) -> RunSpec:
    """The spec of a registered run.

    Raises:
        ConfigurationError: There is no such run.
    """
    spec = load_run(workspace.lake, run_id)
    if spec is None:
        raise ConfigurationError(f"run {run_id} has no RunSpec: start it with run-evals or the job new_run")
    return spec


def materialize(
    stage: str,
    run_id: str,
    benchmarks: Sequence[str],
    workspace: Workspace,
    judges: Sequence[str] = (),
    *,
    reprocess: bool = False,
) -> list[Outcome]:
    """Bring one stage of a run up to date.

    Args:
        stage: One of `outcome.STAGES`.
        run_id: A registered run.
        benchmarks: Which benchmarks; those that the run has not are left out.
        workspace: Where to read and write.
        judges: For `judgements`: only these; none named means all of the run's.
        reprocess: For `judgements`: read the stored outputs again instead of calling judges.

    Returns:
        One outcome per benchmark of the run.
    """
    spec = stored_spec(run_id, workspace)
    own = [name for name in spec.benchmarks if name in benchmarks]
    if not own:
        return []
    stages = {
        "answers": answer,
        "consensus": decide,
        "judgements": grade if spec.ensemble else reparse if reprocess else partial(judge, judges=judges),
        "pass_outputs": examine,
        "scores": score,
        "metrics": measure,
    }
    try:
        outcomes = stages[stage](spec, own, workspace)
    except PartitionBusyError:
        raise  # the run's state is for the other process to tell
    except BaseException as error:
        stopped = str(error) if isinstance(error, ShaberiError) else type(error).__name__
        try:
            set_status(spec, workspace, error=stopped if isinstance(error, Exception) else None)
        except Exception as second:  # noqa: BLE001 - what stopped the stage is what has to be said (a full disk)
            workspace.reporter.note(f"the state of run {run_id} could not be written: {second}")
        refresh_results(run_id, workspace)
        raise
    refresh_results(run_id, workspace, summary=stage == "metrics")
    return outcomes


def check_endpoints(spec: RunSpec, workspace: Workspace, *, answers: bool, judges: Sequence[str]) -> None:
    """Find an endpoint that cannot work before anything is paid for.

    Args:
        spec: The run.
        workspace: Where keys are read from.
        answers: Whether the model's own endpoint is needed.
        judges: The judges that are needed.

    Raises:
        EndpointError: One cannot be reached or refuses us.
        ConfigurationError: A key is missing, or a price that the budget needs.
    """
    needed = {(judge.endpoint, judge.model) for judge in spec.judges if judge.name in judges}
    if answers:
        members = spec.ensemble.members if spec.ensemble else ()
        own = () if spec.ensemble and spec.ensemble.single == "first" else (spec,)
        needed |= {(one.endpoint, one.model) for one in (*members, *own)}
    thread = workspace.engine_thread()
    for endpoint, model in sorted(needed, key=lambda pair: pair[1]):
        workspace.budget.check(model, endpoint.base_url)
        thread.run(thread.engine.check(endpoint.to_endpoint(), model))
