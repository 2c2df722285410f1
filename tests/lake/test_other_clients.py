"""`catalog.duckdb` opened by the versions of DuckDB that the pages promise."""

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from tests.random_lakes import make_lake

pytestmark = [pytest.mark.integration, pytest.mark.long]

_READER = """
import sys, duckdb
catalog = duckdb.connect(sys.argv[1], read_only=True)
print(duckdb.__version__)
views = "select schema_name, view_name from duckdb_views() where not internal and database_name = current_database()"
for schema, view in catalog.execute(views).fetchall():
    for limit in (0, 1):
        try:
            catalog.execute(f'from "{schema}"."{view}" limit {limit}').fetchall()
        except duckdb.Error as error:
            print(view, limit, str(error).splitlines()[0])
"""


@pytest.mark.parametrize("version", ["1.4", "1.5", "2"])
def test_every_view_of_the_catalog_can_be_asked(version: str, tmp_path: Path) -> None:
    environment = {"SHABERI_WAREHOUSE": str(tmp_path / "lake")}
    workspace = Workspace(Settings.from_environment(environment), environment={})
    assert make_lake(Random(1), workspace, tmp_path / "trees")  # with ensembles, so that no table of runs is empty
    uv, wheel = Path(sys.executable).with_name("uv"), f"duckdb=={version}.*"
    subprocess.run([uv, "pip", "install", "--quiet", "--target", tmp_path / "other", wheel], check=True)

    command = [sys.executable, "-c", _READER, tmp_path / "lake" / "catalog.duckdb"]
    told = subprocess.run(
        command, check=True, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path / "other")}
    ).stdout.splitlines()

    assert told[0].startswith(f"{version}.")
    assert told[1:] == []
