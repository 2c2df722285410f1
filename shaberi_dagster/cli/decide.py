"""`shaberi decide`: which of some models is better, with as few questions as it takes."""

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from shaberi_dagster.cli.command import FINE, INCONCLUSIVE
from shaberi_dagster.cli.options import CommandOptions
from shaberi_dagster.deciding.request import DecisionRequest
from shaberi_dagster.runs.option import Option
from shaberi_dagster.runs.spec import CallOptions

if TYPE_CHECKING:  # what takes polars and NumPy, which other commands need not load
    from shaberi_dagster.deciding.candidates import Contender, Pool
    from shaberi_dagster.runs.workspace import Workspace

DECIDE_EPILOG = """Examples:

\b
  shaberi decide my-model other-model --judge gpt-5.1
  shaberi decide my-model other-model third-model --judge gpt-5.1 --benchmark tengu,elyza --max-cost 2
  shaberi decide my-model my-model@@july --judge gpt-5.1 --dry-run
  shaberi decide my-model --benchmark gsm8k --samples 5 --strategy single --strategy majority

Asked are the questions that the judge's history in this lake finds most telling, in rounds, until the models are told
apart or are equal within the margin; a model whose scores are in the lake is not asked again. It speaks of these
questions; `shaberi compare` speaks of questions of the kind. What was asked is a partial run, which is in no
leaderboard; a full evaluation with the same settings pays only for the rest.

Exit codes: 0 decided, 2 usage or configuration error, 4 not decidable with these questions, 130 interrupted (the same
command goes on)."""

_SAME_OPTIONS = ("samples", "questions", "base_url", "judge_base_url", "api_key_variable", "judge_api_key_variable")
"""What of a request `run-evals` is told in the same words."""


class Decide(CommandOptions):
    """What `shaberi decide` can be told beside the request."""

    dry_run: Annotated[bool, Field(description="Show what it may take; ask nobody"), Option("budget")] = False
    output_format: Annotated[
        str, Field(description="table, json, csv or md"), Option("how", ("--format",), metavar="NAME")
    ] = "table"
    as_json: Annotated[bool, Field(description="One JSON document on stdout"), Option("how", ("--json",))] = False


def decide(request: DecisionRequest, calls: CallOptions, how: Decide) -> int:
    """Decide which of some models is better, with as few questions as it takes."""
    from shaberi_dagster.rendering.document import check_format  # noqa: PLC0415  (help needs none)

    output_format = "json" if how.as_json else how.output_format
    check_format(output_format)
    return _plan(request, calls, output_format) if how.dry_run else _decide(request, calls, output_format)


def _plan(request: DecisionRequest, options: CallOptions, output_format: str) -> int:
    """Show what it may take."""
    from datetime import UTC, datetime  # noqa: PLC0415

    from rich.console import Console  # noqa: PLC0415

    from shaberi_dagster.deciding.decision import prepare  # noqa: PLC0415
    from shaberi_dagster.deciding.expected import expected  # noqa: PLC0415
    from shaberi_dagster.rendering.decision import ExpectedDocument  # noqa: PLC0415
    from shaberi_dagster.rendering.document import write  # noqa: PLC0415
    from shaberi_dagster.runs.workspace import Workspace  # noqa: PLC0415
    from shaberi_dagster.settings import Settings  # noqa: PLC0415

    workspace = Workspace(Settings.from_environment(), options=options)
    decision = prepare(request, workspace)
    found = tuple(expected(decision, workspace, datetime.now(UTC)))
    document = ExpectedDocument(found, decision.decision_id, decision.boundary.name, decision.n_history)
    write(document, output_format, Console())
    return FINE


def _decide(request: DecisionRequest, options: CallOptions, output_format: str) -> int:
    """Decide on the instance that the UI shows, and print what came of it."""
    from rich.console import Console  # noqa: PLC0415

    from shaberi_dagster.deciding.candidates import Scores  # noqa: PLC0415
    from shaberi_dagster.deciding.decision import prepare  # noqa: PLC0415
    from shaberi_dagster.lake.catalog import open_catalog  # noqa: PLC0415
    from shaberi_dagster.publishing import published_at_the_end  # noqa: PLC0415
    from shaberi_dagster.rendering.decision import DecisionDocument  # noqa: PLC0415
    from shaberi_dagster.rendering.document import write  # noqa: PLC0415
    from shaberi_dagster.rendering.live import reporter_for  # noqa: PLC0415
    from shaberi_dagster.reports.decision import read_decision  # noqa: PLC0415
    from shaberi_dagster.runs.workspace import Workspace, reporting_to  # noqa: PLC0415
    from shaberi_dagster.settings import Settings  # noqa: PLC0415

    workspace = Workspace(Settings.from_environment(), options=options)
    with reporting_to(reporter_for(sys.stderr)):
        decision = prepare(request, workspace)  # what is wrong is said before Dagster is loaded
        with published_at_the_end(workspace):
            _run(request, options, workspace)
    with open_catalog(workspace.settings.warehouse) as catalog:
        report = read_decision(catalog, decision.decision_id)
    rest = Scores(decision.candidates, decision.pool, workspace).unevaluated()
    write(DecisionDocument(report, _full_evaluations(rest, decision.pool, request)), output_format, Console())
    return FINE if report.decision["state"] == "decided" else INCONCLUSIVE


def _run(request: DecisionRequest, options: CallOptions, workspace: "Workspace") -> None:
    from shaberi_dagster.definitions import run_job  # noqa: PLC0415
    from shaberi_dagster.defs.execution import close_dead_runs, open_instance  # noqa: PLC0415
    from shaberi_dagster.defs.options import DECISION, DECISION_JOB  # noqa: PLC0415

    instance = open_instance(workspace.settings.dagster_home)
    close_dead_runs(instance)
    asked = (request.model_dump(exclude_none=True), options.model_dump(exclude_none=True, exclude_defaults=True))
    config = {name: value for part in asked for name, value in part.items()}
    run_job(DECISION_JOB, instance, ops={DECISION: {"config": config}}, tags={"shaberi/command": "decide"})


def _full_evaluations(rest: Sequence["Contender"], pool: "Pool", request: DecisionRequest) -> tuple[str, ...]:
    """For each run that lacks scores the command that asks for the rest."""
    specs = {one.spec.run_id: one.spec for one in rest}
    return tuple(
        shlex.join(
            [
                *("run-evals", "--model", spec.model, "--tag", spec.run_tag),
                *("--benchmark", ",".join(pool.names)),
                *_options("--judge-model", request.judge_models or []),
                *_options("--strategy", [",".join(request.strategies)] if request.strategies else []),
                *(
                    part
                    for name in _SAME_OPTIONS
                    if (value := getattr(request, name)) is not None
                    for part in (f"--{name.replace('_', '-')}", str(value))
                ),
            ]
        )
        for spec in specs.values()
    )


def _options(name: str, values: Sequence[str]) -> list[str]:
    return [part for value in values for part in (name, value)]
