"""`run-evals`: evaluate a model, from questions to scores."""

import atexit
import contextlib
import gc
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from shaberi_dagster.cli.command import FAILED_PARTS, FINE, INTERRUPTED, Debug, run_command, with_plugins
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.runs.spec import CallOptions, RunRequest

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_EPILOG = """Examples:

\b
  run-evals --model embedded/smollm2-135m
  run-evals --model gpt-4.1-mini --judge-model gpt-5.1 --tag july
  run-evals --model my-model --base-url http://localhost:8000/v1 --judge-model gpt-5.1 --judge-model gemini-3-pro
  run-evals --model my-model --tag july --rejudge --judge-model gpt-5.1
  run-evals --model my-model --tag july --rejudge --judge-model gpt-5.1 --judge-prompt strict
  run-evals --model imported__model --tag legacy --judge-model gpt-5.1
  run-evals --model my-model --tag july --passes lang_mixing,repetition
  run-evals --model my-model --tag july --reprocess
  run-evals --model my-model --benchmark elyza,tengu --limit 10 --questions hub
  run-evals --model my-model --benchmark tengu --samples 5 --strategy plurality,council --judge-model gpt-5.1
  run-evals --model my-model --benchmark tengu,gsm8k --sample 30 --judge-model gpt-5.1
  run-evals --model gpt-4.1-mini --judge-model gpt-5.1 --dry-run
  run-evals --model gpt-4.1-mini --judge-model gpt-5.1 --max-cost 5

Exit codes: 0 fine, 2 usage or configuration error, 3 finished with failed parts, 130 interrupted."""


@app.command(epilog=with_plugins(_EPILOG))
def run_evals(  # noqa: PLR0917
    model: Annotated[str, typer.Option(help="Model to evaluate, e.g. gpt-5.1 or embedded/smollm2-135m.")],
    benchmark: Annotated[
        str | None, typer.Option(help="Benchmarks, comma-separated, or all. Default: the run's own, else all.")
    ] = None,
    tag: Annotated[str, typer.Option(help="Run tag; the same tag continues the same run.")] = "default",
    runs: Annotated[int, typer.Option(min=1, help="Independent runs, tagged TAG-run1 ... TAG-runN.")] = 1,
    judge_model: Annotated[
        list[str] | None,
        typer.Option(help="Judge; repeat for several. Default: the run's own; the embedded model judges itself."),
    ] = None,
    judge_prompt: Annotated[
        str | None, typer.Option(help="Variant of the judge prompt: a judge of its own, named MODEL+VARIANT.")
    ] = None,
    passes: Annotated[str | None, typer.Option(help="Score-modifying passes, comma-separated, in order.")] = None,
    pass_option: Annotated[
        list[str] | None, typer.Option(help="NAME.SETTING=VALUE for one of the passes; repeat for several.")
    ] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Answers to each question (default 1).")] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy", "--strategies", help="Strategies that make a consensus of the samples, comma-separated."
        ),
    ] = None,
    rejudge: Annotated[
        bool, typer.Option("--rejudge", help="Judge the stored answers anew; ask the model nothing.")
    ] = False,
    reprocess: Annotated[
        bool, typer.Option("--reprocess", help="Parse stored outputs again, apply passes, derive scores; call nobody.")
    ] = False,
    base_url: Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint of the model, up to /v1.")] = None,
    judge_base_url: Annotated[str | None, typer.Option(help="Endpoint of the judges, up to /v1.")] = None,
    api_key_variable: Annotated[
        str | None, typer.Option(help="Environment variable with the key for --base-url.")
    ] = None,
    judge_api_key_variable: Annotated[
        str | None, typer.Option(help="Environment variable with the key for --judge-base-url.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, max=2, help="Of answers (default 0.2; where rules grade 0.7).")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Of an answer (default 6000).")] = None,
    frequency_penalty: Annotated[
        float | None, typer.Option("--frequency-penalty", "-fp", min=-2, max=2, help="Of answers (default 0).")
    ] = None,
    judge_max_tokens: Annotated[int | None, typer.Option(min=1, help="Of a judgement (default 4096).")] = None,
    score_rounding: Annotated[
        str | None, typer.Option(help="none keeps decimals (default); legacy rounds half to even.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Only a seeded sample of so many questions of each benchmark.")
    ] = None,
    sample_seed: Annotated[
        int | None, typer.Option(min=0, help="Which sample (default 42); another seed is another question set.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N questions of each benchmark.")] = None,
    questions: Annotated[
        str | None, typer.Option(help="starter, hub, or a folder. Default: SHABERI_DATASETS, else starter.")
    ] = None,
    question_set: Annotated[
        list[str] | None, typer.Option(help="A version other than the default, e.g. mt_bench@80; repeat for several.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Calls at once to each endpoint. Default: the limiter finds out.")
    ] = None,
    limiter: Annotated[
        str, typer.Option(help="adaptive finds what the server takes; aimd adds one and halves.")
    ] = "adaptive",
    initial_concurrency: Annotated[int, typer.Option(min=1, help="Where the limiter begins.")] = 40,
    min_concurrency: Annotated[int, typer.Option(min=1, help="The limiter goes no lower.")] = 1,
    max_concurrency: Annotated[int, typer.Option(min=1, help="The limiter goes no higher.")] = 60,
    limiter_cooldown: Annotated[float, typer.Option(min=0, help="Seconds between two changes of aimd.")] = 2.0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Do not use the replies that other runs have paid for.")
    ] = False,
    max_cost: Annotated[
        float | None, typer.Option(min=0, help="Make no further call when this many US dollars are spent.")
    ] = None,
    max_tokens_total: Annotated[
        int | None, typer.Option(min=0, help="Make no further call when this many tokens are sent and received.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan and the calls it needs; make none.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout; progress on stderr.")] = False,
    debug: Debug = False,
) -> int:
    """Evaluate a model: answers, judgements, scores, metrics. What is there already is never paid for again."""
    del debug
    if rejudge and reprocess:
        raise ConfigurationError("--rejudge asks judges and --reprocess asks nobody: leave one out")
    request = RunRequest(
        model=model,
        tag=tag,
        benchmarks=None if benchmark is None else benchmark.split(","),
        samples=samples,
        strategies=[name.strip() for name in strategy.split(",")] if strategy else None,
        sample=sample,
        sample_seed=sample_seed,
        judge_models=judge_model or None,
        judge_prompt=judge_prompt,
        passes=passes.split(",") if passes else None,
        pass_options=pass_option,
        base_url=base_url,
        judge_base_url=judge_base_url,
        api_key_variable=api_key_variable,
        judge_api_key_variable=judge_api_key_variable,
        temperature=temperature,
        max_tokens=max_tokens,
        frequency_penalty=frequency_penalty,
        judge_max_tokens=judge_max_tokens,
        score_rounding=_one_of("--score-rounding", score_rounding, "none", "legacy"),
        limit=limit,
        questions=questions,
        question_sets=question_set or None,
    )
    options = CallOptions(
        concurrency=concurrency,
        limiter=_one_of("--limiter", limiter, "adaptive", "aimd"),
        initial_concurrency=initial_concurrency,
        min_concurrency=min_concurrency,
        max_concurrency=max_concurrency,
        limiter_cooldown=limiter_cooldown,
        fresh=fresh,
        max_cost=max_cost,
        max_tokens_total=0 if reprocess else max_tokens_total,
    )
    # Only now, so that --help and usage errors are quick. Imports leave no garbage, so none is looked for among them.
    gc.disable()
    from shaberi_dagster.cli.evaluation import Evaluation  # noqa: PLC0415

    gc.freeze()
    gc.enable()

    tags = [tag] if runs == 1 else [f"{tag}-run{number}" for number in range(1, runs + 1)]
    evaluation = Evaluation(
        [request.model_copy(update={"tag": each}) for each in tags], options, rejudge=rejudge, reprocess=reprocess
    )
    if dry_run:
        evaluation.show_plan(as_json=json)
        return FINE
    try:
        status = evaluation.run()
    except KeyboardInterrupt:
        again = " ".join([Path(sys.argv[0]).name, *map(shlex.quote, sys.argv[1:])])
        _say(f"\ninterrupted; finished calls are saved. Go on with:\n  {again}")
        return INTERRUPTED
    evaluation.show_scores(as_json=json)
    if status == "complete":
        return FINE
    evaluation.say_what_failed()
    return FAILED_PARTS


def _one_of(option: str, value: str | None, *values: str) -> Any:
    if value is not None and value not in values:
        raise ConfigurationError(f"{option} must be {' or '.join(values)}, not {value!r}")
    return value


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201


def main() -> None:
    """Entry point."""
    try:
        run_command(app)
    except SystemExit as stop:
        if not isinstance(stop.code, int):
            raise
        _end(stop.code)


def _end(code: int) -> NoReturn:
    """End the process without freeing each object by itself, which takes Python more than half a second."""
    atexit._run_exitfuncs()  # noqa: SLF001  (as multiprocessing does before it ends a process)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
