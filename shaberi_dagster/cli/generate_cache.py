"""`shaberi generate-cache`: make the samples of an ensemble beforehand, so that `quick-eval` need not ask for them."""

from shaberi_dagster.cli.options import AsJson
from shaberi_dagster.cli.output import say
from shaberi_dagster.runs.presets import CacheRequest
from shaberi_dagster.runs.spec import USUAL_CALLS, CallOptions

EPILOG = """Examples:
  shaberi generate-cache --model gpt-4.1-mini --questions hub --datasets gsm8k,arc
  shaberi generate-cache --model gpt-4.1-mini --ensemble 10            tops up what --ensemble 5 has made

Only samples are made, one of them as the single answer. The same command again makes what is missing or failed;
quick-eval with the same settings finds all of them.

Exit codes: 0 fine, 2 usage or configuration error, 3 finished with failed samples, 130 interrupted."""


def generate_cache(*, request: CacheRequest, calls: CallOptions = USUAL_CALLS, as_json: AsJson = False) -> int:
    """Make the samples of an ensemble that are not stored yet."""
    from shaberi_dagster.cli import evaluation
    from shaberi_dagster.defs import running
    from shaberi_dagster.reports import operations

    asked = request.with_imported(fresh=calls.fresh).to_request()
    made = running.Evaluation([asked], calls, command="generate-cache", stages=["answers"])
    made.run()
    found = operations.samples_of(made.spec, made.benchmarks, made.workspace.lake)
    say(operations.samples_result(found), as_json=as_json)
    return evaluation.end(made, complete=not any(row["failed"] for row in found))
