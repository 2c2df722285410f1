"""`shaberi decide`: which of some models is better, with as few questions as it takes."""

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from shaberi_dagster.cli.command import FINE, INCONCLUSIVE, Debug

if TYPE_CHECKING:
    from shaberi_dagster.deciding.candidates import DecisionRequest
    from shaberi_dagster.deciding.decision import Decision
    from shaberi_dagster.runs.spec import CallOptions
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


def decide(  # noqa: PLR0917
    candidate: Annotated[list[str], typer.Argument(metavar="A B [C ...]", help="Models, or MODEL@@TAG for runs.")],
    judge: Annotated[
        list[str] | None, typer.Option(help="Judge; repeat for several: a question's score is their mean.")
    ] = None,
    benchmark: Annotated[
        str | None,
        typer.Option("--benchmark", "--benchmarks", help="Benchmarks, comma-separated, or all (default)."),
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Tag of the runs that the partial ones are a part of.")] = None,
    margin: Annotated[
        float | None,
        typer.Option(help="Up to which difference models are equal; default: 0.2 of ten, 2 points of accuracy."),
    ] = None,
    error: Annotated[float, typer.Option(help="Wrong decisions that are allowed, as a share.")] = 0.01,
    max_cost: Annotated[float | None, typer.Option(min=0, help="Ask no further at this many US dollars.")] = None,
    strategy: Annotated[
        list[str] | None, typer.Option(help="Decide between strategies of an ensemble; repeat for several.")
    ] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Answers to each question (default 1).")] = None,
    questions: Annotated[str | None, typer.Option(help="Where questions come from: starter, hub or a folder.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first questions of each benchmark.")] = None,
    base_url: Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint of the models, up to /v1.")] = None,
    judge_base_url: Annotated[str | None, typer.Option(help="Endpoint of the judges, up to /v1.")] = None,
    api_key_variable: Annotated[
        str | None, typer.Option(help="Environment variable with the key for --base-url.")
    ] = None,
    judge_api_key_variable: Annotated[
        str | None, typer.Option(help="Environment variable with the key for --judge-base-url.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Rotates the order of questions; default: follows from the decision.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what the decision may take, and ask nobody.")
    ] = False,
    output_format: Annotated[str, typer.Option("--format", help="table, json, csv or md.")] = "table",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout: --format json.")] = False,
    debug: Debug = False,
) -> int:
    """Decide which of some models is better, with as few questions as it takes."""
    del debug
    # Polars and NumPy, which other commands need not load.
    from pydantic import ValidationError  # noqa: PLC0415

    from shaberi_dagster.deciding.candidates import DecisionRequest  # noqa: PLC0415
    from shaberi_dagster.errors import ConfigurationError  # noqa: PLC0415
    from shaberi_dagster.rendering.document import check_format  # noqa: PLC0415
    from shaberi_dagster.runs.spec import CallOptions  # noqa: PLC0415

    output_format = "json" if as_json else output_format
    check_format(output_format)
    try:
        request = DecisionRequest(
            candidates=candidate,
            tag=tag,
            benchmarks=benchmark.split(",") if benchmark else None,
            judge_models=judge,
            strategies=strategy,
            samples=samples,
            questions=questions,
            limit=limit,
            base_url=base_url,
            judge_base_url=judge_base_url,
            api_key_variable=api_key_variable,
            judge_api_key_variable=judge_api_key_variable,
            margin=margin,
            error=error,
            seed=seed,
        )
    except ValidationError as wrong:
        first = wrong.errors()[0]
        raise ConfigurationError(f"--{str(first['loc'][0]).replace('_', '-')}: {first['msg']}") from None
    options = CallOptions(max_cost=max_cost)
    return _plan(request, options, output_format) if dry_run else _decide(request, options, output_format)


def _plan(request: "DecisionRequest", options: "CallOptions", output_format: str) -> int:
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


def _decide(request: "DecisionRequest", options: "CallOptions", output_format: str) -> int:
    """Decide on the instance that the UI shows, and print what came of it."""
    from rich.console import Console  # noqa: PLC0415

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
    write(DecisionDocument(report, _full_evaluations(decision, request)), output_format, Console())
    return FINE if report.decision["state"] == "decided" else INCONCLUSIVE


def _run(request: "DecisionRequest", options: "CallOptions", workspace: "Workspace") -> None:
    from shaberi_dagster.definitions import run_job  # noqa: PLC0415
    from shaberi_dagster.defs.execution import close_dead_runs, open_instance  # noqa: PLC0415
    from shaberi_dagster.defs.options import DECISION, DECISION_JOB  # noqa: PLC0415

    instance = open_instance(workspace.settings.dagster_home)
    close_dead_runs(instance)
    asked = (request.model_dump(exclude_none=True), options.model_dump(exclude_none=True, exclude_defaults=True))
    config = {name: value for part in asked for name, value in part.items()}
    run_job(DECISION_JOB, instance, ops={DECISION: {"config": config}}, tags={"shaberi/command": "decide"})


def _full_evaluations(decision: "Decision", request: "DecisionRequest") -> tuple[str, ...]:
    """For each model that was asked the command that asks it the rest."""
    specs = {one.spec.run_id: one.spec for one in decision.candidates if one.can_be_asked}
    return tuple(
        shlex.join(
            [
                *("run-evals", "--model", spec.model, "--tag", spec.run_tag),
                *("--benchmark", ",".join(decision.pool.names)),
                *_options("--judge-model", request.judge_models or []),
                *_options("--strategy", [",".join(request.strategies)] if request.strategies else []),
                *(
                    part
                    for name in ("samples", "questions", "base_url", "judge_base_url")
                    if (value := getattr(request, name)) is not None
                    for part in (f"--{name.replace('_', '-')}", str(value))
                ),
            ]
        )
        for spec in specs.values()
    )


def _options(name: str, values: Sequence[str]) -> list[str]:
    return [part for value in values for part in (name, value)]
