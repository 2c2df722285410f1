"""Parameters of calls, from the option to the body that a server receives."""

from typing import Any

import pytest

from shaberi_dagster.llm.endpoints import (
    asked_parameter,
    check_parameters,
    not_sent,
    request_body,
    request_headers,
    resolve_endpoint,
)
from shaberi_dagster.llm.parameters import check_judges_named, read_of_judge, read_settings, sent, with_system_prompt
from shaberi_dagster.llm.request import ChatRequest
from shaberi_dagster.llm.types import Message, Sampling
from shaberi_dagster.util.errors import ConfigurationError

pytestmark = pytest.mark.unit


def _request(model: str, base_url: str | None = None, **parameters: Any) -> ChatRequest:
    endpoint = resolve_endpoint(model, base_url)
    return ChatRequest(endpoint, model, (Message("user", "問"),), Sampling(0.2, 9, parameters=sent(parameters)))


def test_values_are_json_or_else_text() -> None:
    assert read_settings(["top_k=20", 'stop=["\\n"]', "reasoning_effort=low", "a= b=c", "min_p=null"], "--param") == {
        "top_k": 20,
        "stop": ["\n"],
        "reasoning_effort": "low",
        "a": " b=c",
        "min_p": None,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("top_k", "--param top_k: write it as KEY=VALUE, such as top_k=20"),
        ("=1", "--param =1: write it as KEY=VALUE, such as top_k=20"),
        ("temperature=1", "--param temperature: use --temperature"),
        ("messages=[]", "--param messages: the project sets it itself"),
        ("model=null", "--param model: the project sets it itself"),
    ],
)
def test_what_is_no_parameter_of_this_option_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_settings([text], "--param")
    assert str(refused.value) == said


def test_a_setting_is_of_one_judge_whose_name_may_have_colons_or_of_all() -> None:
    texts = ["seed=1", "llama3:8b:min_p=0.1", "gpt-5.1:reasoning_effort=low"]

    assert read_of_judge(["frequency_penalty=0.5"], "any") == {"frequency_penalty": 0.5}
    assert read_of_judge(texts, "llama3:8b") == {"seed": 1, "min_p": 0.1}
    assert read_of_judge(texts, "gpt-5.1") == {"seed": 1, "reasoning_effort": "low"}
    check_judges_named(texts, ["llama3:8b", "gpt-5.1"])
    with pytest.raises(ConfigurationError, match=r"no judge llama3:8b judges here; there are gpt-5\.1"):
        check_judges_named(texts, ["gpt-5.1"])


def test_a_system_prompt_replaces_the_systems_own() -> None:
    messages = (Message("system", "old"), Message("user", "問"))

    assert with_system_prompt(messages, {"system_prompt": "new"}) == (Message("system", "new"), Message("user", "問"))
    assert with_system_prompt(messages, {"system_prompt": ""}) == (Message("user", "問"),)
    assert with_system_prompt(messages, {"seed": 1}) is messages


def test_without_parameters_no_hash_moves_and_with_them_it_is_another() -> None:
    plain, seeded = _request("m", "http://localhost:1/v1"), _request("m", "http://localhost:1/v1", seed=1)

    assert plain.sampling == Sampling(0.2, 9)
    assert plain.request_hash == "937d0fc3745c53d91f257975ff106f8e100d31fc6f73285c5cabef4b98f6e782"
    assert seeded.request_hash != plain.request_hash
    assert _request("m", "http://localhost:1/v1", system_prompt="x").request_hash == plain.request_hash


@pytest.mark.parametrize(
    ("model", "base_url", "asked", "expected", "left_out"),
    [
        ("m", "http://localhost:1/v1", {"min_p": 0.1, "seed": 3}, {"min_p": 0.1, "seed": 3}, []),
        (
            "m",
            "http://localhost:1/v1",
            {"thinking": "off", "chat_template_kwargs": {"x": 1}},
            {"chat_template_kwargs": {"enable_thinking": False, "x": 1}},
            [],
        ),
        ("m", "http://localhost:1/v1", {"extra_body": {"a": {"b": 1}}}, {"a": {"b": 1}}, []),
        ("gpt-5.1", None, {"reasoning_effort": "low"}, {"reasoning_effort": "low"}, ["temperature"]),
        ("gpt-4.1", None, {"thinking": "on"}, {}, ["thinking"]),
        ("gemini-2.5-flash", None, {"thinking": "off"}, {"reasoning_effort": "none"}, []),
    ],
)
def test_a_body_has_what_its_server_takes_and_the_rest_is_told(
    model: str, base_url: str | None, asked: dict[str, Any], expected: dict[str, Any], left_out: list[str]
) -> None:
    request = _request(model, base_url, **asked)
    body = request_body(request)

    usual = {"model", "messages", "temperature", "max_tokens", "max_completion_tokens"}
    assert {name: value for name, value in body.items() if name not in usual} == expected
    assert not_sent(request.endpoint, model, request.sampling) == left_out


def test_null_drops_a_parameter() -> None:
    assert "temperature" not in request_body(_request("m", "http://localhost:1/v1", temperature=None))


def test_headers_are_sent_apart_and_hold_no_secrets() -> None:
    request = _request("m", "http://localhost:1/v1", extra_headers={"X-Title": "evaluation"})

    assert request_headers(request) == {"X-Title": "evaluation"}
    assert "extra_headers" not in request_body(request)
    for name in ("Authorization", "x-api-key", "Cookie"):
        with pytest.raises(ConfigurationError, match="may hold a secret, which is never stored"):
            check_parameters(request.endpoint, "m", Sampling(0.2, 9, parameters=sent({"extra_headers": {name: "x"}})))
    with pytest.raises(ConfigurationError, match="extra_body must map"):
        check_parameters(request.endpoint, "m", Sampling(0.2, 9, parameters=sent({"extra_body": [1]})))


@pytest.mark.parametrize(
    ("model", "base_url", "asked", "field", "parameter"),
    [
        ("m", "http://localhost:1/v1", {"top_p": 0.9}, "top_p", "top_p"),
        ("m", "http://localhost:1/v1", {"thinking": "off"}, "chat_template_kwargs.enable_thinking", "thinking"),
        ("m", "http://localhost:1/v1", {"extra_body": {"ignore_eos": True}}, "ignore_eos", "extra_body"),
        ("m", "http://localhost:1/v1", {"seed": 1}, "stream", "stream"),
        ("gpt-4.1", None, {"seed": 1}, "max_completion_tokens", "max_tokens"),
        ("mistral:m", None, {"seed": 1}, "random_seed", "seed"),
        ("openai_responses:gpt-4.1", None, {"reasoning_effort": "low"}, "reasoning.effort", "reasoning_effort"),
        ("openai_responses:gpt-4.1", None, {}, "max_output_tokens", "max_tokens"),
        ("claude-opus-4-1", None, {"reasoning_effort": "low"}, "output_config.effort", "reasoning_effort"),
    ],
)
def test_a_field_that_a_server_refuses_is_told_by_the_parameter_that_put_it_there(
    model: str, base_url: str | None, asked: dict[str, Any], field: str, parameter: str
) -> None:
    assert asked_parameter(_request(model, base_url, **asked), field) == parameter
