"""`shaberi endpoints`: names of endpoints, the list of them, and checks against a server."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from shaberi_dagster.llm.endpoints import ENDPOINTS, request_body, resolve_endpoint, served_name
from shaberi_dagster.llm.prices import PriceList
from shaberi_dagster.llm.request import ChatRequest
from shaberi_dagster.llm.types import Message, Sampling
from shaberi_dagster.util.errors import ConfigurationError
from tests.commands import run, run_anew
from tests.mock_endpoint import completion, running_mock

pytestmark = pytest.mark.integration


def test_a_name_may_stand_before_any_model_of_an_endpoint() -> None:
    endpoint = resolve_endpoint("openrouter:qwen/qwen3-32b:free")
    request = ChatRequest(endpoint, "openrouter:qwen/qwen3-32b:free", (Message("user", "?"),), Sampling(0.2, 9))

    assert (endpoint.name, endpoint.api_key_variable) == ("openrouter", "OPENROUTER_API_KEY")
    assert request_body(request)["model"] == "qwen/qwen3-32b:free"
    assert resolve_endpoint("openai:gpt-4o").name == "openai"
    assert resolve_endpoint("claude-sonnet-4-5").name == "anthropic"
    # The name that a server of one's own has for a model stays as it is.
    assert resolve_endpoint("mistral:7b", "http://localhost:11434/v1").name == "custom"
    assert served_name("mistral:7b", "http://localhost:11434/v1") == "mistral:7b"


def test_what_is_given_by_its_address_goes_where_it_always_went() -> None:
    of_name_only = [entry for entry in ENDPOINTS.values() if entry.by_name_only and entry.base_url]
    assert {resolve_endpoint("m", entry.base_url).name for entry in of_name_only} == {"custom", "openai"}


def test_an_unknown_name_says_which_may_have_been_meant() -> None:
    with pytest.raises(ConfigurationError, match=r"write ENDPOINT:MODEL .*did you mean openai\?"):
        resolve_endpoint("opnai:gpt-4o")


def test_a_price_is_that_of_the_model_at_its_server() -> None:
    address = resolve_endpoint("openai:gpt-4.1").base_url

    assert PriceList().is_price_known("openai:gpt-4.1", address)
    assert not PriceList().is_price_known("openai:gpt-4.1", "http://localhost:1/v1")


def test_the_list_has_keys_by_state_and_never_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-0123456789")

    listed = run("shaberi", "endpoints", "--json").succeeded()

    found = {entry["name"]: entry for entry in json.loads(listed.out)["endpoints"]}
    assert found["anthropic"]["key"] == "ANTHROPIC_API_KEY: ok"
    assert found["openai"]["key"] == "OPENAI_API_KEY: not set"
    assert "temperature 0 to 1" in found["anthropic"]["parameters"]
    assert {name: found[name]["tried"] for name in ("xai", "openai")} == {"xai": "unverified", "openai": ""}
    assert "secret" not in listed.out


def test_a_check_names_what_was_asked_for_where_the_server_has_another_name_for_it() -> None:
    def picky(body: dict[str, Any], _: int) -> Any:
        if "chat_template_kwargs" in body:
            error = {"message": "No", "code": "unsupported_parameter", "param": "chat_template_kwargs"}
            return web.json_response({"error": error}, status=400)
        return completion(body, "OK")

    with running_mock(script=picky) as mock:
        check = ("shaberi", "endpoints", "check", "m", "--base-url", mock.base_url)
        checked = run(*check, "--param", "thinking=off", "--param", "temperature=null", "--json").succeeded()

    document = json.loads(checked.out)
    assert document["status"] == "ok"
    assert document["parameters"] == {"taken": ["max_tokens"], "refused": ["thinking"], "not_sent": []}


def test_a_check_of_a_server_that_is_not_there_fails_in_one_line() -> None:
    checked = run("shaberi", "endpoints", "check", "m", "--base-url", "http://127.0.0.1:9/v1")

    assert checked.code == 3
    assert "did not answer" in checked.out
    assert "taken" not in checked.out
    assert run("shaberi", "endpoints", "check").complaint.startswith("name the model to check")


def test_a_check_is_remembered_and_tells_what_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHABERI_PLUGINS", str(tmp_path))

    def tried() -> str:
        listed = json.loads(run("shaberi", "endpoints", "--json").succeeded().out)
        return str({entry["name"]: entry["tried"] for entry in listed["endpoints"]}["mine"])

    with running_mock(models="llama3") as mock:
        entry = f"base_url: {mock.base_url}\nkey_required: false\nunverified: true\nloaded: /api/ps\n"
        (tmp_path / "endpoints").mkdir()
        (tmp_path / "endpoints" / "mine.yaml").write_text(entry, encoding="utf-8")
        before = tried()
        failed = run("shaberi", "endpoints", "check", "mine:other")
        between = tried()
        checked = run("shaberi", "endpoints", "check", "mine:llama3").succeeded()

    assert (failed.code, before, between) == (3, "unverified", "unverified")
    assert "In its memory: llama3." in checked.out
    assert re.fullmatch(r"checked \d{4}-\d\d-\d\d", tried())


def test_a_thinking_budget_that_leaves_no_room_for_an_answer_is_refused_before_any_call() -> None:
    with running_mock() as mock:
        judge = ("--judge-model", "j", "--judge-base-url", mock.base_url)
        thinking = ("run-evals", "--model", "claude-sonnet-4-5", "--thinking", "on", "--benchmark", "tengu", *judge)
        refused = run(*thinking, "--max-tokens", "2048")
        judged = ("--judge-model", "claude-sonnet-4-5", "--judge-param", "thinking=on", "--judge-max-tokens", "1000")
        judging = run("run-evals", "--model", "m", "--base-url", mock.base_url, *judged)
        assert mock.stats()["requests"] == 0

    for done, limit in ((refused, "2,048"), (judging, "1,000")):
        assert done.code == 2
        assert f"thinking has a budget of 2,048 tokens, and the whole answer at most {limit}" in (done.complaint)


def test_a_sweep_over_models_finds_the_one_that_is_not_there_before_it_begins() -> None:
    with running_mock(models="first judge") as mock:
        place = ("--base-url", mock.base_url, "--judge-base-url", mock.base_url, "--judge-model", "judge")
        swept = run("run-evals", "--model", "first", *place, "--benchmark", "tengu", "--sweep", "model=first,second")
        assert mock.stats()["requests"] == 0

    assert swept.code == 2
    assert "second" in swept.complaint


@pytest.mark.long
def test_azure_is_asked_at_the_address_of_ones_own_resource(tmp_path: Path) -> None:
    asked: dict[str, Any] = {}

    def reply(body: dict[str, Any], _: int) -> str:
        asked.update(body)
        return "OK."

    with running_mock(script=reply) as mock:
        key = {"SHABERI_WAREHOUSE": tmp_path, "AZURE_OPENAI_API_KEY": "azure-secret"}
        without = run_anew("shaberi", "endpoints", "check", "azure:gpt-5-of-ours", environment=key)
        there = {**key, "AZURE_OPENAI_ENDPOINT": mock.base_url.removesuffix("/v1")}
        checked = run_anew("shaberi", "endpoints", "check", "azure:gpt-5-of-ours", environment=there)

    assert without.code == 2
    assert "AZURE_OPENAI_ENDPOINT" in without.complaint
    assert checked.code == 0, checked.err
    assert asked["model"] == "gpt-5-of-ours"
    assert "max_completion_tokens" in asked
