"""What `run-evals` writes at its end, and that it starts no Dagster when there is nothing to do."""

import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from aiohttp import web

from shaberi_dagster.defs.running import Evaluation
from shaberi_dagster.lake.catalog import CATALOG_NAME
from shaberi_dagster.runs.results.results_tree import is_exported
from shaberi_dagster.runs.spec import CallOptions
from tests.example_runs import ask, own_engine
from tests.mock_endpoint import MockEndpoint, content_for
from tests.results_tree import assert_valid_tree

pytestmark = pytest.mark.integration

RUN = "mock-model@@default"
_WITHOUT_DAGSTER = """
import sys
from shaberi_dagster.cli.{command} import app
from shaberi_dagster.cli.options import call
code = call(app, sys.argv[1:])
assert not {{"dagster", "sqlalchemy", "openai"}} & sys.modules.keys()
sys.exit(code)
"""


def evaluation(*requests: Any) -> Evaluation:
    return Evaluation(requests, CallOptions())


def exported(made: Evaluation) -> bool:
    return is_exported(made.workspace.lake, made.spec.run_id, made.workspace.settings.results)


def without_dagster(command: str, *arguments: str) -> str:
    """What a command says on stderr in a process of its own, which must not load Dagster."""
    script = [sys.executable, "-c", _WITHOUT_DAGSTER.format(command=command), *arguments]
    done = subprocess.run(script, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.long
def test_a_command_writes_everything_once_and_with_nothing_to_do_it_writes_nothing_and_loads_no_dagster(
    mock: MockEndpoint, written: Counter[str]
) -> None:
    first = evaluation(ask(mock, passes=["repetition"]))
    assert first.run() == "complete"
    assert written == {"catalog": 1, RUN: 1}
    assert exported(first)
    catalog = first.workspace.settings.warehouse / CATALOG_NAME
    files = {path: path.stat() for path in (catalog, *first.workspace.settings.results.rglob("*"))}
    asked = mock.stats()["requests"]
    urls = ["--base-url", mock.base_url, "--judge-base-url", mock.base_url]
    what = ["--model", "mock-model", "--benchmark", "tengu", "--judge-model", "judge-a", "--passes", "repetition"]

    said = without_dagster("run_evals", *what, *urls)

    assert "nothing left to do: no call was made" in said.splitlines()
    assert mock.stats()["requests"] == asked
    assert {path: path.stat().st_ino for path in files} == {path: stat.st_ino for path, stat in files.items()}


@pytest.mark.long
def test_several_runs_of_a_command_have_one_catalog_and_one_summary(mock: MockEndpoint, written: Counter[str]) -> None:
    evaluation(*(ask(mock, tag=f"july-run{number}", limit=2) for number in (1, 2))).run()

    assert written == {
        "catalog": 1,
        "summary of mock-model july": 1,
        **dict.fromkeys(("mock-model@@july-run1", "mock-model@@july-run2"), 1),
    }


def test_a_command_whose_judge_dies_writes_everything_once(mock: MockEndpoint, written: Counter[str]) -> None:
    refusal = {"error": {"message": "unauthorized"}}
    judged = Counter[str]()

    def script(body: dict[str, Any], _: int) -> Any:
        judged[body["model"]] += 1
        dead = body["model"] == "judge-a" and judged["judge-a"] > 2
        return web.json_response(refusal, status=401) if dead else content_for(body, "")

    mock.options.script = script
    with own_engine({}):
        made = evaluation(ask(mock))
        assert made.run() == "partial"

    assert written == {"catalog": 1, RUN: 1}
    assert exported(made)
    assert assert_valid_tree(made.workspace.settings.results)["answer"] == 5


def test_an_interrupted_command_writes_everything_once(
    mock: MockEndpoint, written: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    made = evaluation(ask(mock))
    with monkeypatch.context() as patch:
        patch.setattr("shaberi_dagster.runs.stages.judgements.Judgements.materialize", interrupted)
        with pytest.raises(KeyboardInterrupt):
            made.run()

    assert written == {"catalog": 1, RUN: 1}
    assert exported(made)
    assert made.workspace.lake.read("runs")["status"].to_list() == ["partial"]
    assert evaluation(ask(mock)).run() == "complete"
