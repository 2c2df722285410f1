"""`shaberi generate-cache`: make the samples of an ensemble beforehand, so that `quick-eval` need not ask for them."""

from typing import Annotated

import typer

from shaberi_dagster.benchmarks.registry import DEFAULT_SEED
from shaberi_dagster.cli.command import FAILED_PARTS, FINE, Debug
from shaberi_dagster.cli.quick_eval import (
    BaseUrl,
    Concurrency,
    Datasets,
    Ensemble,
    Fresh,
    KeyVariable,
    MaxCost,
    MaxTokens,
    MaxTokensTotal,
    Order,
    Questions,
    QuestionSet,
    Samples,
    Seed,
    Single,
    Temperature,
    names_of,
    request_of,
)
from shaberi_dagster.runs.spec import CallOptions, RunSpec

EPILOG = """Examples:

\b
  shaberi generate-cache --model gpt-4.1-mini --questions hub --datasets gsm8k,arc
  shaberi generate-cache --model gpt-4.1-mini --ensemble 10            tops up what --ensemble 5 has made
  shaberi generate-cache --model my-model --base-url http://localhost:8000/v1 --max-cost 5

Only samples are made, one of them as the single answer. The same command again makes what is missing or failed;
quick-eval with the same settings finds all of them.

Exit codes: 0 fine, 2 usage or configuration error, 3 finished with failed samples, 130 interrupted."""


def generate_cache(  # noqa: PLR0917
    model: Annotated[str, typer.Option(help="Model to evaluate, e.g. gpt-4.1-mini or embedded/smollm2-135m.")],
    datasets: Datasets = "all",
    sample: Annotated[str, typer.Option(help="Questions of each benchmark, or all.")] = "all",
    ensemble: Ensemble = "5",
    samples: Samples = None,
    temperature: Temperature = 0.7,
    max_tokens: MaxTokens = None,
    single: Single = "own",
    sample_order: Order = "pinned",
    sample_seed: Seed = DEFAULT_SEED,
    base_url: BaseUrl = None,
    api_key_variable: KeyVariable = None,
    tag: Annotated[str | None, typer.Option(help="Run tag. Default: made of the settings.")] = None,
    questions: Questions = None,
    question_set: QuestionSet = None,
    concurrency: Concurrency = None,
    fresh: Fresh = False,
    max_cost: MaxCost = None,
    max_tokens_total: MaxTokensTotal = None,
    debug: Debug = False,
) -> int:
    """Make the samples of an ensemble that are not stored yet, and nothing else."""
    del debug
    request = request_of(
        model=model,
        ensemble=ensemble,
        samples=samples,
        sample=sample,
        sample_seed=sample_seed,
        tag=tag,
        prefix="cache",
        grades=False,
        benchmarks=names_of(datasets),
        strategies=[],
        temperature=temperature,
        max_tokens=max_tokens,
        single=single,
        sample_order=sample_order,
        base_url=base_url,
        api_key_variable=api_key_variable,
        questions=questions,
        question_sets=question_set or None,
    )
    options = CallOptions(concurrency=concurrency, fresh=fresh, max_cost=max_cost, max_tokens_total=max_tokens_total)
    from shaberi_dagster.cli.evaluation import Evaluation  # noqa: PLC0415  (Dagster only when it is needed)

    evaluation = Evaluation([request], options, command="generate-cache", stages=["answers"])
    evaluation.run()
    spec = evaluation.spec
    answers = evaluation.workspace.lake.read(
        "answers", {"run_id": spec.run_id, "benchmark": evaluation.benchmarks}, ["benchmark", "status"]
    )
    complete = True
    for name in evaluation.benchmarks:
        made = answers.filter(benchmark=name, status="ok").height
        complete &= made == spec.n_planned(name)
        typer.echo(_summary(spec, name, made))
    if complete:
        return FINE
    evaluation.say_what_failed()
    return FAILED_PARTS


def _summary(spec: RunSpec, benchmark: str, made: int) -> str:
    planned, n = spec.n_planned(benchmark), spec.n_questions(benchmark)
    failed = f", {planned - made} failed" if made < planned else ""
    return (
        f"{benchmark} ({spec.benchmarks[benchmark].question_set}): {made} of {planned} samples of {n} questions{failed}"
    )
