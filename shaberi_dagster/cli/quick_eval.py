"""`quick-eval`: whether several samples and a consensus of them beat a single answer."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from shaberi_dagster.benchmarks.registry import DEFAULT_SEED, ENSEMBLE_BENCHMARKS
from shaberi_dagster.cli.command import (
    FAILED_PARTS,
    FINE,
    GATE_FAILED,
    INCONCLUSIVE,
    INTERRUPTED,
    Debug,
    exit_code,
    run_command,
    with_plugins,
)
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.identity import sha256_json
from shaberi_dagster.llm.embedded import DEFAULT_MODEL
from shaberi_dagster.runs.spec import CallOptions, RunRequest

if TYPE_CHECKING:  # Dagster and polars cost start-up time that --help and usage errors need not pay
    import duckdb

    from shaberi_dagster.cli.evaluation import Evaluation
    from shaberi_dagster.reports.gate import GateReport

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_DEFAULT_SIZE, _DEFAULT_TEMPERATURE = 5, 0.7
_ALL, _NOBODY = "all", "none"
_OF_GATE = {"passed": FINE, "failed": GATE_FAILED, "inconclusive": INCONCLUSIVE}

_EPILOG = """Examples:

\b
  quick-eval --model embedded/smollm2-135m --datasets gsm8k,arc --sample 2 --strategy standard,plurality
  quick-eval --model gpt-4.1-mini --questions hub
  quick-eval --model gpt-4.1-mini --strategy elo --baseline main --gate paired --json > elo.json
  quick-eval --model my-model --base-url http://localhost:8000/v1 --judge-model none
  quick-eval --model gpt-4.1-mini --ensemble gpt-4.1-mini,gemini-2.5-flash,deepseek-chat

Samples that are stored, from this command or from `shaberi generate-cache`, are not asked for again: only consensus and
grading are left to do. Other settings are another run with a tag of its own.

Exit codes: 0 fine, 1 the gate found a regression, 2 usage or configuration error, 3 finished with failed parts, 4 the
gate is inconclusive, 130 interrupted; where several apply, the first of 130, 2, 1, 3, 4."""

Datasets = Annotated[str, typer.Option("--datasets", "--dataset", help="Benchmarks, comma-separated, or all.")]
Ensemble = Annotated[str, typer.Option(help="Number of samples (2 or more), or the models that they come from.")]
Samples = Annotated[
    int | None, typer.Option(min=2, help="Number of samples where --ensemble names models. Default: one of each.")
]
Single = Annotated[
    Literal["own", "first"], typer.Option(help="The single answer: a sample of its own, or the first of the ensemble.")
]
Order = Annotated[
    Literal["pinned", "mulberry32"], typer.Option(help="How --sample chooses: pinned, or the original's seeded order.")
]
Seed = Annotated[int, typer.Option(min=0, help="Which sample; another seed is another question set.")]
BaseUrl = Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint of the model, up to /v1.")]
KeyVariable = Annotated[str | None, typer.Option(help="Environment variable with the key for --base-url.")]
Temperature = Annotated[float, typer.Option(min=0, max=2, help="Of samples.")]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Of a sample, and of a consensus call (default 6000).")]
Questions = Annotated[
    str | None, typer.Option(help="starter, hub, or a folder. Default: SHABERI_DATASETS, else starter.")
]
QuestionSet = Annotated[
    list[str] | None, typer.Option(help="A version other than the default, e.g. gpqa@unshuffled; repeat for several.")
]
Concurrency = Annotated[
    int | None, typer.Option(min=1, help="Calls at once to each endpoint. Default: the limiter finds out.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Do not use the replies that other runs have paid for.")]
MaxCost = Annotated[float | None, typer.Option(min=0, help="Make no further call when this many US dollars are spent.")]
MaxTokensTotal = Annotated[
    int | None, typer.Option(min=0, help="Make no further call when this many tokens are sent and received.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; progress on stderr.")]


@app.command(epilog=with_plugins(_EPILOG))
def quick_eval(  # noqa: PLR0917
    model: Annotated[str, typer.Option(help="Model to evaluate, e.g. gpt-4.1-mini or embedded/smollm2-135m.")],
    strategy: Annotated[
        str, typer.Option("--strategy", "--strategies", help="Strategies, comma-separated, or all.")
    ] = _ALL,
    datasets: Datasets = _ALL,
    sample: Annotated[str, typer.Option(help="Questions of each benchmark, or all.")] = "30",
    ensemble: Ensemble = str(_DEFAULT_SIZE),
    samples: Samples = None,
    temperature: Temperature = _DEFAULT_TEMPERATURE,
    max_tokens: MaxTokens = None,
    consensus_model: Annotated[
        str | None, typer.Option(help="Makes the strategies' calls. Default: the model.")
    ] = None,
    judge_model: Annotated[
        str | None,
        typer.Option(
            help="Judges what no rule grades, and what the rules cannot tell. Default: the run's own, else nobody; "
            "none: rules alone."
        ),
    ] = None,
    judge_prompt: Annotated[
        str | None, typer.Option(help="Variant of the judge prompt: a judge of its own, named MODEL+VARIANT.")
    ] = None,
    single: Single = "own",
    sample_order: Order = "pinned",
    sample_seed: Seed = DEFAULT_SEED,
    base_url: BaseUrl = None,
    judge_base_url: Annotated[str | None, typer.Option(help="Endpoint of the judge. Default: the model's.")] = None,
    api_key_variable: KeyVariable = None,
    judge_api_key_variable: Annotated[
        str | None, typer.Option(help="Environment variable with the key for --judge-base-url.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Run tag. Default: made of the settings.")] = None,
    questions: Questions = None,
    question_set: QuestionSet = None,
    concurrency: Concurrency = None,
    limiter: Annotated[
        Literal["adaptive", "aimd"],
        typer.Option(help="adaptive finds what the server takes; aimd adds one and halves."),
    ] = "adaptive",
    initial_concurrency: Annotated[int, typer.Option(min=1, help="Where the limiter begins.")] = 40,
    min_concurrency: Annotated[int, typer.Option(min=1, help="The limiter goes no lower.")] = 1,
    max_concurrency: Annotated[int, typer.Option(min=1, help="The limiter goes no higher.")] = 60,
    limiter_cooldown: Annotated[float, typer.Option(min=0, help="Seconds between two changes of aimd.")] = 2.0,
    fresh: Fresh = False,
    max_cost: MaxCost = None,
    max_tokens_total: MaxTokensTotal = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the calls that are needed; make none.")] = False,
    baseline: Annotated[
        str | None, typer.Option(help="Compare with this promoted baseline; worse is exit code 1, no telling 4.")
    ] = None,
    gate: Annotated[
        Literal["paired", "fisher"], typer.Option(help="paired by question; fisher as the original has it.")
    ] = "paired",
    per_dataset: Annotated[
        bool, typer.Option("--per-dataset", help="With fisher: test each benchmark instead of all together.")
    ] = False,
    significance: Annotated[float, typer.Option(help="Level of the gate, above 0 and below 1.")] = 0.10,
    as_json: AsJson = False,
    output: Annotated[Path | None, typer.Option(help="Also write the JSON document here.")] = None,
    debug: Debug = False,
) -> int:
    """Evaluate single answers and consensus strategies on samples that they share."""
    del debug
    checked = _Gate(baseline, gate, significance, per_dataset=per_dataset)
    request = request_of(
        model=model,
        ensemble=ensemble,
        samples=samples,
        sample=sample,
        sample_seed=sample_seed,
        tag=tag,
        prefix="quick",
        benchmarks=names_of(datasets),
        strategies=names_of(strategy),
        temperature=temperature,
        max_tokens=max_tokens,
        consensus_model=consensus_model,
        judge_model=judge_model,
        judge_prompt=judge_prompt,
        single=single,
        sample_order=sample_order,
        base_url=base_url,
        judge_base_url=judge_base_url,
        api_key_variable=api_key_variable,
        judge_api_key_variable=judge_api_key_variable,
        questions=questions,
        question_sets=question_set or None,
    )
    options = CallOptions(
        concurrency=concurrency,
        limiter=limiter,
        initial_concurrency=initial_concurrency,
        min_concurrency=min_concurrency,
        max_concurrency=max_concurrency,
        limiter_cooldown=limiter_cooldown,
        fresh=fresh,
        max_cost=max_cost,
        max_tokens_total=max_tokens_total,
    )
    from shaberi_dagster.cli.evaluation import Evaluation  # noqa: PLC0415  (Dagster only when it is needed)

    evaluation = Evaluation([request], options, command="quick-eval")
    checked.find_baseline(evaluation.workspace.settings.warehouse)
    if dry_run:
        evaluation.show_plan(as_json=as_json)
        return FINE
    try:
        status = evaluation.run()
    except KeyboardInterrupt:
        say_how_to_go_on()
        return INTERRUPTED
    verdict = _show(evaluation, request, status, checked, as_json=as_json, output=output)
    if status != "complete":
        evaluation.say_what_failed()
    of_run = FINE if status == "complete" else FAILED_PARTS
    return exit_code(of_run, _OF_GATE[verdict.result] if verdict else FINE)


class _Gate:
    """The regression gate, if a baseline is named.

    Args:
        baseline: Its name.
        kind: Which tests.
        significance: Their level.
        per_dataset: Whether `fisher` tests the datasets instead of their sums.
    """

    def __init__(
        self, baseline: str | None, kind: Literal["paired", "fisher"], significance: float, *, per_dataset: bool
    ) -> None:
        self._baseline, self._kind, self._significance = baseline, kind, significance
        self._per_dataset = per_dataset
        if not 0 < significance < 1:
            raise ConfigurationError(f"--significance must be above 0 and below 1, not {significance:g}")

    def find_baseline(self, warehouse: Path) -> None:
        """Nothing, if the baseline is there: that it is not should be known before anything is paid for.

        Raises:
            ConfigurationError: There is none of that name.
        """
        if self._baseline is None:
            return
        from shaberi_dagster.lake.catalog import open_catalog, run_query  # noqa: PLC0415  (DuckDB only when needed)

        with open_catalog(warehouse) as catalog:
            names = [name for (name,) in run_query(catalog, "select distinct name from baselines").fetchall()]
        if self._baseline not in names:
            there = f"there are {', '.join(sorted(names))}" if names else "`shaberi baseline promote` makes one"
            raise ConfigurationError(f"no baseline {self._baseline!r}; {there}")

    def check(
        self, catalog: "duckdb.DuckDBPyConnection", run_id: str, strategies: Sequence[str]
    ) -> "GateReport | None":
        """The gate's report on some strategies of a run; None without a baseline.

        Raises:
            ConfigurationError: The run and the baseline have nothing in common.
        """
        if self._baseline is None:
            return None
        from shaberi_dagster.reports.gate import check_regression  # noqa: PLC0415  (SciPy only when it is needed)

        return check_regression(
            catalog,
            run_id,
            self._baseline,
            gate=self._kind,
            significance=self._significance,
            per_dataset=self._per_dataset,
            strategies=strategies,
        )


def _show(
    evaluation: "Evaluation", request: RunRequest, status: str, gate: _Gate, *, as_json: bool, output: Path | None
) -> "GateReport | None":
    """Print the report.

    Returns:
        What the gate found, if there is one.

    Raises:
        ConfigurationError: The gate cannot compare the run with its baseline; the report is printed without it.
    """
    from rich.console import Console  # noqa: PLC0415

    from shaberi_dagster.lake.catalog import open_catalog  # noqa: PLC0415
    from shaberi_dagster.rendering.data import as_json as json_of  # noqa: PLC0415
    from shaberi_dagster.rendering.document import write  # noqa: PLC0415
    from shaberi_dagster.rendering.ensemble import EnsembleDocument  # noqa: PLC0415
    from shaberi_dagster.reports.ensemble import read_report  # noqa: PLC0415

    spec = evaluation.spec
    strategies = request.strategies or []
    verdict, objection = None, None
    with open_catalog(evaluation.workspace.settings.warehouse) as catalog:
        report = read_report(
            catalog, spec, evaluation.benchmarks, strategies, status=status, calls_made=evaluation.calls_made
        )
        try:
            verdict = gate.check(catalog, spec.run_id, strategies)
        except ConfigurationError as error:
            objection = error
    document = EnsembleDocument(report, verdict)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json_of(document.data()), encoding="utf-8")
    write(document, "json" if as_json else "table", Console())
    if objection:
        raise objection
    return verdict


def request_of(
    *,
    model: str,
    ensemble: str,
    samples: int | None,
    sample: str,
    sample_seed: int = DEFAULT_SEED,
    tag: str | None,
    prefix: str,
    benchmarks: list[str],
    strategies: list[str],
    temperature: float,
    questions: str | None,
    grades: bool = True,
    judge_model: str | None = None,
    **others: Any,
) -> RunRequest:
    """The request that the options of a command stand for.

    Args:
        model: The evaluated model.
        ensemble: A number, or models.
        samples: The number where `ensemble` names models.
        sample: A number of questions, or `all`.
        sample_seed: Which of them.
        tag: The run's tag; None makes one of the settings, so that other settings are another run.
        prefix: Its first part.
        benchmarks: Names; `all` are those that rules grade.
        strategies: Names; `all` are the default ones.
        temperature: Of samples.
        questions: Where they are from.
        grades: Whether answers are graded at all.
        judge_model: As the option has it.
        others: Further fields of the request.

    Raises:
        ConfigurationError: An option cannot be understood.
    """
    from shaberi_dagster.consensus.registry import DEFAULT_STRATEGIES  # noqa: PLC0415  (only when it is needed)

    size, models = _ensemble_of(ensemble, samples)
    n = None if sample == _ALL else _count("--sample", sample, least=1, other="a number of questions or all")
    judges = None if judge_model is None else [] if judge_model == _NOBODY else [judge_model]
    if tag is None:
        tag = "-".join([prefix, *([f"n{n}"] if n else []), f"{size}x", f"t{temperature:g}"])
        named = {
            # As if the model graded, which it did without a word until 2026-11: tags stay what they were.
            "grader_model": (judge_model or (_NOBODY if model == DEFAULT_MODEL else model)) if grades else None,
            "ensemble_models": models,
            "sample_seed": None if sample_seed == DEFAULT_SEED else sample_seed,
            "questions": _source(questions),
        }
        if unusual := _unusual(model, others | named):
            tag = f"{tag}-{sha256_json(unusual)[:8]}"
    others["judge_base_url"] = others.get("judge_base_url") or others.get("base_url")
    others["judge_api_key_variable"] = others.get("judge_api_key_variable") or others.get("api_key_variable")
    return RunRequest(
        model=model,
        tag=tag,
        benchmarks=list(ENSEMBLE_BENCHMARKS) if benchmarks == [_ALL] else benchmarks,
        samples=size,
        sample_models=models,
        strategies=list(DEFAULT_STRATEGIES) if strategies == [_ALL] else strategies,
        sample=n,
        sample_seed=sample_seed,
        temperature=temperature,
        questions=questions,
        judge_models=judges,
        **others,
    )


def _unusual(model: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are not as they would be without a word, apart from those that a run can take more of."""
    usual = {"single": "own", "sample_order": "pinned", "consensus_model": model, "grader_model": model}
    free = {"api_key_variable", "judge_api_key_variable"}
    return {
        name: value
        for name, value in settings.items()
        if name not in free and value is not None and value != usual.get(name)
    }


def _source(questions: str | None) -> str | None:
    """Where questions are from, if it is not the starter sets."""
    from shaberi_dagster.settings import Settings  # noqa: PLC0415

    configured = Settings.from_environment().datasets
    source = questions or (str(configured) if configured else "starter")
    return None if source == "starter" else source


def _ensemble_of(text: str, samples: int | None) -> tuple[int, list[str] | None]:
    """How many samples, and of which models if they are not all of the evaluated one."""
    if text.strip().lstrip("+-").isdecimal():
        if samples is not None:
            raise ConfigurationError("--samples goes with --ensemble MODEL,MODEL,…; without models give --ensemble N")
        return _count("--ensemble", text, least=2, other="2 or more samples, or models"), None
    models = names_of(text)
    if not models:
        raise ConfigurationError("--ensemble must be 2 or more samples, or models")
    return samples or (len(models) if len(models) > 1 else _DEFAULT_SIZE), models


def _count(option: str, text: str, *, least: int, other: str) -> int:
    if not text.strip().isdecimal() or int(text) < least:
        raise ConfigurationError(f"{option} must be {other}, not {text!r}")
    return int(text)


def names_of(text: str) -> list[str]:
    """The names of a comma-separated list."""
    return [name for part in text.split(",") if (name := part.strip())]


def say_how_to_go_on(arguments: Sequence[str] = tuple(sys.argv)) -> None:
    """After an interrupt."""
    again = " ".join([Path(arguments[0]).name, *map(shlex.quote, arguments[1:])])
    print(f"\ninterrupted; finished calls are saved. Go on with:\n  {again}", file=sys.stderr)  # noqa: T201


def main() -> None:
    """Entry point."""
    run_command(app)
