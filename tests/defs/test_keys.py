"""Attempts to have a key sent to a server that it does not belong to, by everything but a person's own command line.

The server is a real one and keeps what it is sent.
"""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

import shaberi_dagster as shaberi
from shaberi_dagster.definitions import defs
from shaberi_dagster.defs.decisions import decisions
from shaberi_dagster.defs.jobs import EVALUATE
from shaberi_dagster.defs.partitions import RUNS_NAME, add_partition
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.defs.sensors import run_spec_folder
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.spec import RunRequest, RunSpec
from shaberi_dagster.runs.stored import store_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.util.errors import ConfigurationError
from tests.commands import run_without_dagster
from tests.example_runs import own_engine
from tests.mock_endpoint import MockEndpoint, running_mock

pytestmark = pytest.mark.integration

_CANARY = "aws-canary-0123456789abcdefghij"


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keys, and an engine that reads them: one that an earlier test of this process began may have none."""
    for name in ("AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "SHABERI_API_KEY"):
        monkeypatch.setenv(name, f"{_CANARY}-{name}")
    with own_engine(os.environ):
        yield


def _asked(mock: MockEndpoint, **more: Any) -> dict[str, Any]:
    place = {"base_url": mock.base_url, "judge_base_url": mock.base_url}
    return {"model": "fresh", "benchmarks": ["elyza"], "judge_models": ["judge"], "limit": 1} | place | more


def _assert_untouched(mock: MockEndpoint) -> None:
    stats = mock.stats()
    assert (stats["requests"], stats.get("model_lists", 0)) == (0, 0)


def _new_run(instance: dg.DagsterInstance, config: dict[str, Any]) -> dg.ExecuteInProcessResult:
    return defs.resolve_job_def("new_run").execute_in_process(
        instance=instance, run_config={"ops": {"evaluate_new_run": {"config": config}}}
    )


@pytest.mark.parametrize("role", ["", "judge_"])
@pytest.mark.parametrize("variable", ["AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", None])
def test_the_launchpad_can_have_no_key_sent_to_a_server_that_it_names(
    role: str, variable: str | None, instance: dg.DagsterInstance, workspace: Workspace, mock: MockEndpoint
) -> None:
    config = _asked(mock) | ({f"{role}api_key_variable": variable} if variable else {})

    with pytest.raises(dg.Failure) as failure:
        _new_run(instance, config)

    _assert_untouched(mock)
    assert failure.value.description is not None
    assert " is not bound to http://127.0.0.1:" in failure.value.description
    assert "SHABERI_KEY_HOSTS=" in failure.value.description
    assert "\n" not in failure.value.description
    assert instance.get_dynamic_partitions(RUNS_NAME) == []
    assert workspace.lake.read("runs").is_empty()


def test_the_launchpad_sends_keys_where_the_setting_says_that_they_belong(
    instance: dg.DagsterInstance, mock: MockEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHABERI_KEY_HOSTS", "AWS_SECRET_ACCESS_KEY=127.0.0.1;SHABERI_API_KEY=127.0.0.1")

    assert _new_run(instance, _asked(mock, api_key_variable="AWS_SECRET_ACCESS_KEY")).success

    sent = {body["model"]: headers["Authorization"] for body, headers in zip(mock.bodies, mock.headers, strict=True)}
    assert sent == {
        "fresh": f"Bearer {_CANARY}-AWS_SECRET_ACCESS_KEY",
        "judge": f"Bearer {_CANARY}-SHABERI_API_KEY",
    }


@pytest.mark.long
def test_the_launchpad_needs_no_binding_for_a_call_without_a_key_nor_for_a_run_that_is_done(
    instance: dg.DagsterInstance, mock: MockEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHABERI_API_KEY")
    assert _new_run(instance, _asked(mock)).success
    assert not any("Authorization" in headers for headers in mock.headers)
    requests = mock.stats()["requests"]

    monkeypatch.setenv("SHABERI_API_KEY", _CANARY)

    assert _new_run(instance, _asked(mock)).success
    assert mock.stats()["requests"] == requests


@pytest.mark.parametrize("variable", ["AWS_SECRET_ACCESS_KEY", None])
def test_a_file_in_the_folder_of_run_specs_can_have_no_key_sent(
    variable: str | None,
    instance: dg.DagsterInstance,
    workspace: Workspace,
    mock: MockEndpoint,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = workspace.settings.run_specs
    folder.mkdir()
    (folder / "evil.yaml").write_text(yaml.safe_dump(_asked(mock, api_key_variable=variable)))

    with dg.build_sensor_context(instance, resources={"workspace": WorkspaceResource()}) as context:
        context._logger = logging.getLogger("sensor")
        (skipped,) = run_spec_folder(context)

    assert isinstance(skipped, dg.SkipReason)
    (told,) = [record.getMessage() for record in caplog.records if record.name == "sensor"]
    assert f"evil.yaml: {variable or 'SHABERI_API_KEY'} is not bound to http://127.0.0.1:" in told
    assert instance.get_dynamic_partitions(RUNS_NAME) == []
    _assert_untouched(mock)


def _forged(mock: MockEndpoint, workspace: Workspace, **request: Any) -> RunSpec:
    """A run in the lake that somebody else put there."""
    spec = plan_run(RunRequest(**_asked(mock, **request)), workspace)
    store_run(spec, workspace)
    return spec


def test_a_stored_run_that_somebody_else_made_has_no_key_sent_by_its_assets(
    instance: dg.DagsterInstance, workspace: Workspace, mock: MockEndpoint
) -> None:
    spec = _forged(mock, workspace, api_key_variable="AWS_SECRET_ACCESS_KEY")
    add_partition(spec, instance)

    result = defs.resolve_job_def(EVALUATE).execute_in_process(
        instance=instance,
        partition_key=spec.run_id,
        raise_on_error=False,
    )

    assert not result.success
    _assert_untouched(mock)


@pytest.mark.parametrize("variable", ["AWS_SECRET_ACCESS_KEY", None])
def test_a_stored_run_that_points_elsewhere_is_not_continued_there_with_a_key(
    variable: str | None, workspace: Workspace, mock: MockEndpoint
) -> None:
    _forged(mock, workspace, api_key_variable=variable)

    refused = run_without_dagster("run-evals", "--model", "fresh")

    expected = f"{variable or 'SHABERI_API_KEY'} is not bound to http://127.0.0.1:"
    assert refused.complaint.startswith(expected)
    _assert_untouched(mock)
    with pytest.raises(ConfigurationError, match=expected):
        shaberi.evaluate("fresh")
    _assert_untouched(mock)


_ENTRY = """
base_url: {base_url}
api_key: {api_key}
key_required: false
models: ["gpt-*"]
"""


@pytest.mark.parametrize(
    ("text", "variable"),
    [
        (_ENTRY.replace("{api_key}", "OPENAI_API_KEY"), "OPENAI_API_KEY"),
        (_ENTRY.replace("{api_key}", "AWS_SECRET_ACCESS_KEY"), "AWS_SECRET_ACCESS_KEY"),
        (_ENTRY.replace("{api_key}", "NO_KEY") + "headers: {X-Hidden: AWS_SECRET_ACCESS_KEY}", "AWS_SECRET_ACCESS_KEY"),
    ],
    ids=["a provider's key", "another key", "a header"],
)
def test_an_endpoint_file_of_a_plugin_folder_can_have_no_key_sent(  # noqa: PLR0917
    text: str,
    variable: str,
    instance: dg.DagsterInstance,
    mock: MockEndpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "handed over" / "endpoints" / "better_gpt.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text.replace("{base_url}", mock.base_url))
    monkeypatch.setenv("SHABERI_PLUGINS", str(file.parent.parent))
    asked = {"model": "gpt-5.1", "benchmarks": ["elyza"], "judge_models": ["gpt-5.1"], "limit": 1}
    expected = f"{variable} is not bound to http://127.0.0.1:"

    with pytest.raises(dg.Failure) as failure:
        _new_run(instance, asked)
    options = ["--benchmark", "elyza", "--limit", "1", "--judge-model", "gpt-5.1"]
    for named in ([], ["--base-url", mock.base_url, "--judge-base-url", mock.base_url]):
        refused = run_without_dagster("run-evals", "--model", "gpt-5.1", *options, *named)
        assert refused.complaint.startswith(expected)

    assert str(failure.value.description).startswith(expected)
    _assert_untouched(mock)
    bound = {"SHABERI_KEY_HOSTS": f"{variable}=127.0.0.1"}
    run_without_dagster("run-evals", "--model", "gpt-5.1", *options, environment=bound).succeeded()
    assert all(f"{_CANARY}-{variable}" in str(headers) for headers in mock.headers)


def test_a_decision_of_the_launchpad_can_have_no_key_sent(
    instance: dg.DagsterInstance, workspace: Workspace, mock: MockEndpoint
) -> None:
    config = _asked(mock, candidates=["one", "two"], api_key_variable="AWS_SECRET_ACCESS_KEY")
    del config["model"]

    with pytest.raises(dg.Failure, match="AWS_SECRET_ACCESS_KEY is not bound to"):
        dg.materialize(
            [decisions],
            instance=instance,
            resources={"workspace": WorkspaceResource()},
            run_config={"ops": {decisions.op.name: {"config": config}}},
        )

    _assert_untouched(mock)
    assert workspace.lake.read("decisions").is_empty()


@pytest.mark.long
def test_what_one_call_of_the_library_names_is_bound_for_that_call_alone(mock: MockEndpoint) -> None:
    named = {"base_url": mock.base_url, "judge_base_url": mock.base_url}
    asked = {"benchmarks": ["elyza"], "judge_models": ["judge"]}

    shaberi.evaluate("here", limit=1, **asked, **named)

    requests = mock.stats()["requests"]
    assert {headers["Authorization"] for headers in mock.headers} == {f"Bearer {_CANARY}-SHABERI_API_KEY"}
    with pytest.raises(ConfigurationError, match="SHABERI_API_KEY is not bound to"):
        shaberi.evaluate("here", limit=2, **asked)
    assert mock.stats()["requests"] == requests
    shaberi.evaluate("here", limit=2, **asked, **named)
    assert mock.stats()["requests"] == requests + 2


@pytest.mark.long
def test_a_run_whose_answers_are_there_is_judged_further_without_the_key_of_its_endpoint(mock: MockEndpoint) -> None:
    asked = ["--model", "m", "--benchmark", "elyza", "--limit", "1"]
    with running_mock() as judge:
        judged = ["--judge-model", "judge", "--judge-base-url", judge.base_url]
        run_without_dagster("run-evals", *asked, "--base-url", mock.base_url, *judged).succeeded()
        calls = mock.stats()["requests"]

        run_without_dagster("run-evals", *asked, *judged, "--judge-model", "other").succeeded()

    run_without_dagster("run-evals", *asked).succeeded()  # nothing to do
    assert mock.stats()["requests"] == calls
