"""`shaberi schema`: the JSON schema of request files."""

from shaberi_dagster.cli.output import put
from shaberi_dagster.reports.write import as_json
from shaberi_dagster.runs.request_file import request_schema


def schema() -> None:
    """Print the JSON schema of the YAML files that `run-evals --config` takes, for editors."""
    put(as_json(request_schema()))
