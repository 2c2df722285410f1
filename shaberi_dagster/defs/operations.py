"""Operations beside evaluations, as commands start them: imports, reprocessing, decisions, links, audits.

Each is a Dagster job in this process, on the instance that the UI shows; progress goes to stderr.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shaberi_dagster.deciding.audit import prepare as prepare_audit
from shaberi_dagster.deciding.audit_request import AuditRequest
from shaberi_dagster.deciding.candidates import CandidateScores
from shaberi_dagster.deciding.decision import prepare
from shaberi_dagster.deciding.full_evaluations import full_evaluations
from shaberi_dagster.deciding.link import prepare as prepare_link
from shaberi_dagster.deciding.link import read_link
from shaberi_dagster.deciding.link_request import LinkRequest
from shaberi_dagster.deciding.request import DecisionRequest
from shaberi_dagster.defs.running import Evaluation
from shaberi_dagster.exchange.caches import grading_of
from shaberi_dagster.exchange.trees.importing import named_trees
from shaberi_dagster.lake.catalog import check_there, open_catalog
from shaberi_dagster.lake.compaction import surplus_files
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.llm.endpoints import named_pairs
from shaberi_dagster.llm.keys import keys_named
from shaberi_dagster.reports.blocks import Row
from shaberi_dagster.reports.decision import read_decision
from shaberi_dagster.reports.ensemble import QuickReport, read_report
from shaberi_dagster.reports.requests import RunSelection
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.runs.workspace import Workspace, reporting_to
from shaberi_dagster.settings import Settings
from shaberi_dagster.tasks.passes.registry import make_pipeline
from shaberi_dagster.util.live import reporter_for

if TYPE_CHECKING:
    import dagster as dg

_MANY_FILES = 100  # over a thousand small ones a leaderboard takes ten times as long


def import_trees(settings: Settings, trees: Sequence[str], tag: str, models: str) -> None:
    """Import trees of the old Shaberi suite, in one Dagster run.

    Args:
        settings: Where the lake and the instance are.
        trees: `NAME=FOLDER` or `FOLDER`.
        tag: Tag of the runs.
        models: Pattern of file names.

    Raises:
        ConfigurationError: A tree is no folder, or there is nothing to import.
    """
    named = named_trees(trees)
    with reporting_to(reporter_for(sys.stderr)) as reporter:
        # The UI shows folders; a relative one would mean another folder there.
        asked = [f"{name}={folder}" for name, folder in named.items()]
        config = {"trees": asked, "tag": tag, "models": models}
        _run("import_legacy", config, Workspace(settings))
        if (surplus := surplus_files(Lake(settings.warehouse))) >= _MANY_FILES:
            reporter.note(f"the lake has {surplus:,} files more than it needs: `shaberi compact` puts them together")


def import_caches(settings: Settings, paths: Sequence[Path]) -> Mapping[str, Any]:
    """Import response caches of the ensemble-consensus evaluation.

    Args:
        settings: Where the lake and the instance are.
        paths: Files, or folders with files.

    Returns:
        What became of every file, see `ImportReport.document`.

    Raises:
        ConfigurationError: A path does not exist, or there is no cache in it.
    """
    from shaberi_dagster.defs import imports

    with reporting_to(reporter_for(sys.stderr)):
        # The UI shows the paths; a relative one would mean another place there.
        config = {"paths": [str(path.absolute()) for path in paths]}
        (event,) = _run("import_ensemble", config, Workspace(settings)).get_asset_materialization_events()
        report: Any = event.materialization.metadata[imports.REPORT].value
    return dict(report)


def grade_caches(settings: Settings, run_ids: Sequence[str]) -> list[QuickReport]:
    """Grade the samples of imported runs by rules, vote on them, and read what that says; no call is made.

    Args:
        settings: Where the lake is.
        run_ids: Imported runs; those that rules can tell nothing of are left out.
    """
    lake, reports = Lake(settings.warehouse), []
    for request in filter(None, (grading_of(run_id, lake) for run_id in run_ids)):
        evaluation = Evaluation([request], CallOptions(max_tokens_total=0), command="import-ensemble")
        status, strategies = evaluation.run(), request.strategies or ()
        with open_catalog(settings.warehouse) as catalog:
            reports.append(
                read_report(catalog, evaluation.spec, evaluation.benchmarks, strategies, status=status, calls_made={})
            )
    return reports


def reprocess_runs(settings: Settings, passes: Sequence[str], options: Sequence[str], selection: RunSelection) -> None:
    """Parse stored outputs again, apply passes, derive scores and metrics; no call is made.

    Args:
        settings: Where the lake and the instance are.
        passes: One more pipeline; none: those there are.
        options: Settings of the passes, `NAME.SETTING=VALUE`.
        selection: Which runs.

    Raises:
        ConfigurationError: There is no such run or pass.
    """
    make_pipeline(passes, options)  # a wrong name is said before anything is started
    check_there(settings.warehouse)
    with reporting_to(reporter_for(sys.stderr)) as reporter:
        chosen = {name: list(values) for name, values in vars(selection).items()}
        config = {"passes": list(passes), "pass_options": list(options), **chosen}
        counts = _run("reprocess", config, Workspace(settings)).output_for_node("reprocess_runs")
        reporter.note(f"{counts['runs']} runs made again, {counts['imported']} of them imported; no call was made")


def decide(request: DecisionRequest, options: CallOptions) -> tuple[Row, tuple[str, ...]]:
    """Decide which of some models is better.

    Args:
        request: What to decide.
        options: How calls are made.

    Returns:
        What was found; and the commands that ask for the rest of a full evaluation.

    Raises:
        ConfigurationError: What is asked for cannot be decided.
    """
    workspace = Workspace(Settings.from_environment(), options=options)
    keys = named_pairs(
        (request.base_url, request.api_key_variable), (request.judge_base_url, request.judge_api_key_variable)
    )
    with reporting_to(reporter_for(sys.stderr)), keys_named(keys):
        decision = prepare(request, workspace)
        _run("decide", _config(request, options), workspace)
    with open_catalog(workspace.settings.warehouse) as catalog:
        report = read_decision(catalog, decision.decision_id)
    lacking = CandidateScores(decision.candidates, decision.pool, workspace).unevaluated()
    return report, full_evaluations(lacking, decision.pool.names, request)


def link(request: LinkRequest, options: CallOptions) -> list[dict[str, Any]]:
    """Measure a link between imported and new scores of a judge.

    Args:
        request: What to link.
        options: How calls are made.

    Returns:
        Its rows of the table `links`, overall last.

    Raises:
        ConfigurationError: What is asked for cannot be linked.
    """
    workspace = Workspace(Settings.from_environment(), options=options)
    keys = named_pairs((request.judge_base_url, request.judge_api_key_variable))
    with reporting_to(reporter_for(sys.stderr)), keys_named(keys):
        link_id = prepare_link(request, workspace).link_id
        _run("link", _config(request, options), workspace)
    return read_link(link_id, workspace.lake)


def audit(request: AuditRequest, options: CallOptions) -> None:
    """Have verdicts of rules graded again by a model.

    Args:
        request: How many, of what, by whom.
        options: How calls are made.

    Raises:
        ConfigurationError: What is asked for cannot be audited.
    """
    workspace = Workspace(Settings.from_environment(), options=options)
    keys = named_pairs((request.judge_base_url, request.judge_api_key_variable))
    reporter = reporter_for(sys.stderr)
    with reporting_to(reporter), keys_named(keys):
        if prepare_audit(request, workspace).sample.is_empty():
            reporter.note("no rule has given a verdict on these runs: there is nothing to audit")
            return
        _run("audit", _config(request, options), workspace)


def _config(request: AuditRequest | DecisionRequest | LinkRequest, options: CallOptions) -> dict[str, Any]:
    asked = request.model_dump(exclude_none=True), options.model_dump(exclude_none=True, exclude_defaults=True)
    return {name: value for part in asked for name, value in part.items()}


def _run(job: str, config: Mapping[str, Any], workspace: Workspace) -> "dg.ExecuteInProcessResult":
    """Run the job of an operation, and publish what it changed."""
    from shaberi_dagster.defs import code_location, execution

    with execution.open_instance(workspace.settings.dagster_home) as instance, workspace.published_at_the_end():
        execution.close_dead_runs(instance)
        tags = {"shaberi/command": job.replace("_", "-")}
        return code_location.run_operation(job, instance, config, workspace, **tags)
