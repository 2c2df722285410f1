"""The settings of other evaluation tools as request files, and the bodies that a server then receives."""

from pathlib import Path
from typing import Any

import pytest

from shaberi_dagster.runs.request_file import read_request
from shaberi_dagster.runs.workspace import Workspace
from tests.example_runs import materialized, stored_run
from tests.mock_endpoint import MockEndpoint

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine")]

_FILES = Path(__file__).parent / "other_tools"


def _sent(name: str, workspace: Workspace, mock: MockEndpoint) -> list[dict[str, Any]]:
    """Each distinct body without its user's message, the answers' first."""
    request, _ = read_request(_FILES / f"{name}.yaml")
    place = {"base_url": mock.base_url, "judge_base_url": mock.base_url, "limit": 1}
    spec = stored_run(workspace, request.model_copy(update=place))
    materialized(spec, workspace, "answers", "judgements")
    bodies = []
    for body in mock.bodies:
        system = [message["content"] for message in body["messages"] if message["role"] == "system"]
        own = {key: value for key, value in body.items() if key != "messages"}
        own |= {"system": system[0]} if system and body["model"] != "judge" else {}
        if own not in bodies:
            bodies.append(own)
    return sorted(bodies, key=lambda body: (body["model"] == "judge", -body["max_tokens"]))


def test_llm_jp_judge(workspace: Workspace, mock: MockEndpoint) -> None:
    of_all = {"model": "my-model", "temperature": 1.0, "top_p": 0.95, "seed": 1234}
    assert _sent("llm_jp_judge", workspace, mock) == [
        of_all | {"max_tokens": 2048, "system": "あなたは誠実で優秀な日本人のアシスタントです。"},
        of_all | {"max_tokens": 1024},
        {"model": "judge", "temperature": 0.0, "max_tokens": 2048, "seed": 1234},
    ]


def test_swallow(workspace: Workspace, mock: MockEndpoint) -> None:
    answers, judge = _sent("swallow", workspace, mock)
    assert answers == {
        "model": "my-reasoning-model",
        "temperature": 0.6,
        "top_p": 0.95,
        "max_tokens": 32768,
        "reasoning_effort": "high",
        "system": "以下の質問に日本語で答えてください。",
    }
    assert judge == {"model": "judge", "temperature": 0.0, "max_tokens": 4096}


def test_nejumi(workspace: Workspace, mock: MockEndpoint) -> None:
    of_all = {"model": "my-thinking-model", "temperature": 0.6, "top_p": 0.95}
    of_all |= {"chat_template_kwargs": {"enable_thinking": True}}
    assert _sent("nejumi", workspace, mock) == [
        of_all | {"max_tokens": 16384},
        of_all | {"max_tokens": 8192},
        {"model": "judge", "temperature": 0.0, "max_tokens": 4096, "reasoning_effort": "high"},
    ]
