"""`shaberi schema`: the JSON schema of request files."""

from shaberi_dagster.cli.command import FINE
from shaberi_dagster.cli.output import put
from shaberi_dagster.runs.request_file import request_schema
from shaberi_dagster.show.data import as_json


def schema() -> int:
    """Print the JSON schema of the YAML files that `run-evals --config` takes, for editors that complete them."""
    put(as_json(request_schema()))
    return FINE
