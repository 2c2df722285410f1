"""`shaberi generate-cache`: make the samples of an ensemble beforehand, so that `quick-eval` need not ask for them."""

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.options import AsJson, CommandOptions
from shaberi_dagster.runs.presets import CacheRequest
from shaberi_dagster.runs.spec import CallOptions

EPILOG = """\b
Examples:
  shaberi generate-cache --model gpt-4.1-mini --questions hub --datasets gsm8k,arc
  shaberi generate-cache --model gpt-4.1-mini --ensemble 10            tops up what --ensemble 5 has made

More examples:
  shaberi generate-cache --model my-model --base-url http://localhost:8000/v1 --max-tokens-total 5000000

Only samples are made, one of them as the single answer. The same command again makes what is missing or failed;
quick-eval with the same settings finds all of them.

Exit codes: 0 fine, 2 usage or configuration error, 3 finished with failed samples, 130 interrupted."""


class GenerateCache(CommandOptions):
    """What `shaberi generate-cache` can be told beside the request."""

    as_json: AsJson = False


def generate_cache(request: CacheRequest, calls: CallOptions, how: GenerateCache) -> int:
    """Make the samples of an ensemble that are not stored yet, and nothing else."""
    # Polars and Dagster only when they are needed.
    from shaberi_dagster.cli.evaluation import say_what_failed  # noqa: PLC0415
    from shaberi_dagster.cli.output import say  # noqa: PLC0415
    from shaberi_dagster.defs.running import Evaluation  # noqa: PLC0415
    from shaberi_dagster.reports.samples import samples_of, samples_result  # noqa: PLC0415

    evaluation = Evaluation([request.to_request()], calls, command="generate-cache", stages=["answers"])
    evaluation.run()
    samples = samples_of(evaluation.spec, evaluation.benchmarks, evaluation.workspace.lake)
    say(samples_result(samples), as_json=how.as_json)
    if not any(one.failed for one in samples):
        return FINE
    say_what_failed(evaluation)
    return FAILED_PARTS
