"""Parameters of a run, from its request to the bodies that a server receives."""

from typing import Any

import orjson
import pytest
from aiohttp import web

from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.request_file import request_from
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.util.errors import ConfigurationError
from tests.example_runs import ask, materialized, stored_run
from tests.mock_endpoint import MockEndpoint, running_mock

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine")]


def _asked(mock: MockEndpoint, **more: Any) -> Any:
    place = {"base_url": mock.base_url, "judge_base_url": mock.base_url}
    request, _ = request_from(
        {"model": "m", "benchmarks": ["elyza", "rakuda"], "judge_models": ["j:8b", "k"], "limit": 1} | place | more
    )
    return request


def test_each_call_has_what_was_asked_for_it(workspace: Workspace, mock: MockEndpoint) -> None:
    request = _asked(
        mock,
        top_p=0.9,
        system_prompt="簡潔に",
        parameters={"min_p": 0.1, "extra_body": {"ignore_eos": True}, "extra_headers": {"X-Title": "evaluation"}},
        settings=[
            {"benchmarks": ["rakuda"], "models": ["m*"], "max_tokens": 3000, "reasoning_effort": "low"},
            {"models": ["other*"], "max_tokens": 1},
        ],
        judge_parameters=["seed=5", "j:8b:reasoning_effort=none"],
    )
    materialized(stored_run(workspace, request), workspace, "answers", "judgements")

    usual = {"messages", "temperature", "max_tokens", "frequency_penalty"}
    sent = sorted(
        ({name: value for name, value in body.items() if name not in usual} for body in mock.bodies),
        key=lambda body: orjson.dumps(body, option=orjson.OPT_SORT_KEYS),
    )
    of_all = {"ignore_eos": True, "min_p": 0.1, "model": "m", "top_p": 0.9}
    expected = [
        *[of_all, of_all | {"reasoning_effort": "low"}],
        *[{"model": "j:8b", "reasoning_effort": "none", "seed": 5}] * 2,
        *[{"model": "k", "seed": 5}] * 2,
    ]
    assert sent == sorted(expected, key=lambda body: orjson.dumps(body, option=orjson.OPT_SORT_KEYS))
    answers = [body for body in mock.bodies if body["model"] == "m"]
    assert sorted(body["max_tokens"] for body in answers) == [3000, 6000]
    assert all(body["messages"][0] == {"role": "system", "content": "簡潔に"} for body in answers)
    received = zip(mock.bodies, mock.headers, strict=True)
    titles = [
        {name.lower(): value for name, value in headers.items()}.get("x-title")
        for body, headers in received
        if body in answers
    ]
    assert titles == ["evaluation"] * 2


def test_the_same_request_asks_nobody_and_another_parameter_is_another_run(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    request = _asked(mock, parameters={"min_p": 0.1})
    materialized(stored_run(workspace, request), workspace, "answers", "judgements")
    before = mock.stats()["requests"]

    without_a_word = _asked(mock)
    materialized(stored_run(workspace, without_a_word), workspace, "answers", "judgements")

    assert mock.stats()["requests"] == before
    with pytest.raises(ConfigurationError, match=r"'min_p': 0\.1"):
        plan_run(_asked(mock, parameters={"min_p": 0.2}), workspace)


def test_a_refused_parameter_ends_the_calls_with_the_option_that_leaves_it_out(workspace: Workspace) -> None:
    def refuse(_: dict[str, Any], __: int) -> web.Response:
        error = {"message": "Unsupported parameter: 'top_p'", "code": "unsupported_parameter", "param": "top_p"}
        return web.json_response({"error": error}, status=400)

    with running_mock(script=refuse) as mock:
        request = ask(mock, benchmarks=["rakuda"], top_p=0.9)
        spec = stored_run(workspace, request)
        outcome = materialized(spec, workspace, "answers")["answers"]
        rows = workspace.lake.read("answers", {"run_id": spec.run_id})

    assert "leave it out with --param top_p=null" in rows["error_message"][0]
    assert set(rows["status"]) == {"error"}
    assert outcome
