"""Everything that has a name is documented, and docs/reference.md says the same as the code."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.reports.write import as_json
from shaberi_dagster.runs.request_file import read_request, request_schema
from shaberi_dagster.runs.spec import RunRequest
from shaberi_dagster.runs.stages.ordered import STAGES

pytestmark = pytest.mark.integration

_ROOT = Path(__file__).resolve().parent.parent
_VARIABLE = re.compile(r"""\b(?:environ|environment)(?:\.get)?[\[(]\s*["']([A-Z_]+)["']""")


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_reference", _ROOT / "docs" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generator = _generator()


def test_the_page_is_what_its_generator_makes_now() -> None:
    assert generator.TARGET.read_text(encoding="utf-8") == generator.reference(), "stale: run `make docs`"


def test_the_file_that_the_page_shows_is_a_request(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", generator.TARGET.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "july.yaml").write_text(shown, encoding="utf-8")

    request, calls = read_request(tmp_path / "july.yaml")
    assert (request.model, request.benchmarks, calls.max_cost) == ("gpt-4.1-mini", ["elyza", "tengu"], 5)


def test_the_schema_of_requests_is_that_of_the_code_now() -> None:
    assert generator.REQUEST_SCHEMA.read_text(encoding="utf-8") == as_json(request_schema()), "stale: run `make docs`"


@pytest.mark.parametrize(("path", "command"), generator.all_commands().items(), ids=generator.all_commands())
def test_every_command_and_option_says_what_it_does(path: str, command: Any) -> None:
    assert command.name[0] == path.rsplit(maxsplit=1)[-1]
    assert len(command.help) > 20
    if command.default_command:
        options = command.assemble_argument_collection().filter_by(show=True)
        assert [option.name for option in options if not option.parameter.help] == []


@pytest.mark.parametrize(
    "documented",
    ["assets", "views", "queries", "prompts", "environment"],
)
def test_everything_of_a_kind_has_a_description(documented: str) -> None:
    descriptions = getattr(generator, documented)()

    assert len(descriptions) >= 3
    assert [name for name, text in descriptions.items() if len(text) < 8] == []


def test_every_job_and_sensor_has_a_description() -> None:
    assert [name for name, _, text in generator.automation() if len(text) < 20] == []


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_table_and_column_has_a_meaning_and_a_source(table) -> None:
    assert len(table.meaning) > 20
    assert [column.name for column in table.columns if len(column.meaning) < 8] == []
    assert [column.name for column in table.columns if not column.source] == []


def test_every_number_has_a_unit_or_value_set() -> None:
    unitless = {"run_number", "reported_multiplier"}  # an ordinal and a ratio
    numbers = [
        (table.name, column.name)
        for table in TABLES.values()
        for column in table.columns
        if str(column.type) in {"Int64", "Float64"} and not column.unit and column.name not in unitless
    ]
    assert numbers == []


def test_every_check_and_field_of_a_request_has_a_description() -> None:
    checks = {(stage.name, name): text for stage in STAGES for name, text in stage.checks.items()}
    assert [name for name, text in checks.items() if len(text) < 20] == []
    assert [name for name, field in RunRequest.model_fields.items() if len(field.description or "") < 8] == []


def test_every_environment_variable_that_is_read_is_documented() -> None:
    sources = [*(_ROOT / "shaberi_dagster").rglob("*.py"), *(_ROOT / "tests").rglob("*.py")]
    read = {name for path in sources for name in _VARIABLE.findall(path.read_text(encoding="utf-8"))}

    assert {"SHABERI_WAREHOUSE", "DAGSTER_HOME", "SHABERI_CORPUS"} <= read
    assert read - generator.environment().keys() == {"PATH"}


def test_every_exit_code_of_the_commands_is_in_the_page() -> None:
    assert sorted(generator.EXIT_CODES) == [0, 1, 2, 3, 4, 70, 130]
