"""The library as docs/library.md shows it, and what it loads."""

import ast
import doctest
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import shaberi_dagster as shaberi
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError
from tests.example_runs import own_engine
from tests.mock_endpoint import running_mock
from tests.stages_alone import stages_alone

pytestmark = pytest.mark.integration

_PAGE = Path(__file__).resolve().parent.parent / "docs" / "library.md"


def _reply(body: dict[str, Any], _: int) -> str:
    """Each model has its own answer, and the judge is pleased with all."""
    return "FINAL SCORE: 4" if body["model"] == "judge" else f"{body['model']}の答え"


@pytest.mark.e2e
def test_the_page_says_what_is_true(settings: Settings) -> None:
    with running_mock(script=_reply) as mock, own_engine({}), stages_alone():
        found = doctest.testfile(str(_PAGE), module_relative=False, globs={"URL": mock.base_url})

        assert found.attempted > 10
        assert found.failed == 0
        before = mock.stats()["requests"]
        again = shaberi.evaluate(
            "model-a", base_url=mock.base_url, judge_models=["judge"], judge_base_url=mock.base_url,
            benchmarks=["elyza", "tengu"], limit=3, max_cost=1.0,
        )  # fmt: skip
        assert mock.stats()["requests"] == before  # nothing is paid for twice
        assert again.means[0]["n_benchmarks"] == 2

    lake = shaberi.open_lake(settings.warehouse)
    with pytest.raises(ConfigurationError, match="no question 99 of elyza"):
        lake.question("elyza", 99)
    with pytest.raises(ConfigurationError, match="did you mean elyza"):
        lake.sql("hardest_questions", benchmark="elyz")
    with pytest.raises(ConfigurationError, match="only one statement that reads"):
        lake.sql("create table x as select 1")
    with pytest.raises(ConfigurationError, match="no scores match"):
        lake.scores(as_of=datetime(2020, 1, 1, tzinfo=UTC))


def test_importing_loads_nothing_and_reading_no_dagster() -> None:
    code = (
        "import sys, shaberi_dagster; assert 'shaberi_dagster.settings' not in sys.modules; shaberi_dagster.open_lake; "
        "import shaberi_dagster.reports.scores, shaberi_dagster.reports.comparison, shaberi_dagster.reports.questions; "
        "sys.exit(bool({'dagster', 'openai'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_cost_can_be_of_the_runs_of_some_trees(settings: Settings) -> None:
    lake, now = Lake(settings.warehouse), datetime.now(UTC)
    for model, tree in (("a", "old"), ("b", "fork"), ("c", None)):
        run = {"run_id": f"{model}@@t", "model": model, "run_tag": "t"}
        state = {"spec": "{}", "spec_hash": "", "status": "complete", "source": tree, "updated_at": now}
        lake.append("runs", pl.DataFrame([run | state | {"base_tag": "t", "created_at": now}]))
        call = {"request_hash": model, "stage": "judgements", "model": "j", "base_url": "http://localhost/v1"}
        call |= {"run_id": run["run_id"], "status": "ok", "prompt_tokens": 10, "created_at": now}
        lake.append("calls", pl.DataFrame([call]))

    reader = shaberi.open_lake(settings.warehouse)
    assert reader.cost(sources=["fork", "old"])["model"].to_list() == ["a", "b"]
    assert reader.cost()["model"].to_list() == ["a", "b", "c"]
    with pytest.raises(ConfigurationError, match="did you mean fork"):
        reader.cost(sources=["fokr"])


@pytest.mark.unit
def test_every_name_that_the_package_hands_out_is_there_and_no_other() -> None:
    tree = ast.parse(Path(shaberi.__file__).read_text(encoding="utf-8"))
    names = {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }

    assert {"__version__", "evaluate", "open_lake", "Pass", "Report"} <= names
    assert all(getattr(shaberi, name) for name in names)
    with pytest.raises(AttributeError, match="module 'shaberi_dagster' has no attribute 'nothing'"):
        _ = shaberi.nothing
