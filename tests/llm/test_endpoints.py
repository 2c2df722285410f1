"""Where a model's name leads, and what is sent there."""

import json

import pytest

from shaberi_dagster.llm.endpoints import api_key, extra_headers, request_body, resolve_endpoint
from shaberi_dagster.llm.request import ChatRequest, Endpoint
from shaberi_dagster.llm.types import Message, Sampling, ScoreLine
from shaberi_dagster.util.errors import ConfigurationError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("model", "name", "variable"),
    [
        ("gpt-5.1", "openai", "OPENAI_API_KEY"),
        ("gpt-4o-mini", "openai", "OPENAI_API_KEY"),
        ("chatgpt-4o-latest", "openai", "OPENAI_API_KEY"),
        ("o3-mini", "openai", "OPENAI_API_KEY"),
        ("ft:gpt-4o-mini:us::1", "openai", "OPENAI_API_KEY"),
        ("gemini-2.5-flash", "gemini", "GEMINI_API_KEY"),
        ("embedded/smollm2-135m", "embedded", None),
    ],
)
def test_a_models_name_leads_to_its_endpoint(model, name, variable):
    endpoint = resolve_endpoint(model)
    assert (endpoint.name, endpoint.api_key_variable) == (name, variable)


@pytest.mark.parametrize("model", ["llama-3", "gpt-oss-20b", "openchat/x", "o3x", "meta/gpt-5"])
def test_an_unknown_model_asks_for_a_base_url(model):
    with pytest.raises(ConfigurationError, match="--base-url"):
        resolve_endpoint(model)


def test_an_unknown_embedded_model_names_the_known_ones():
    with pytest.raises(ConfigurationError, match="embedded/smollm2-135m"):
        resolve_endpoint("embedded/other")


def test_a_base_url_wins_over_the_name_and_loses_its_slash():
    endpoint = resolve_endpoint("gpt-5.1", "http://localhost:8000/v1/")
    assert endpoint == Endpoint("custom", "http://localhost:8000/v1", "SHABERI_API_KEY")
    assert resolve_endpoint("anything", "https://api.openai.com/v1/").name == "openai"
    assert resolve_endpoint("m", "http://h/v1", "MY_KEY").api_key_variable == "MY_KEY"


@pytest.mark.parametrize(
    "url",
    ["localhost:8000", "ftp://h/v1", "http://", "", "http://h:99999/v1", "http://h/v1?k=v", "http://h /v1", "/v1"],
)
def test_a_base_url_that_is_no_http_address_is_refused(url):
    with pytest.raises(ConfigurationError, match="base URL"):
        resolve_endpoint("m", url)


def test_a_secret_in_the_base_url_is_refused_and_not_repeated():
    with pytest.raises(ConfigurationError) as error:
        resolve_endpoint("m", "http://me:s3cret@h/v1")
    assert "s3cret" not in str(error.value)


def test_a_required_key_that_is_missing_is_named():
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        api_key(resolve_endpoint("gpt-5.1"), {"OPENAI_API_KEY": " "})


def test_a_named_key_variable_must_be_set():
    with pytest.raises(ConfigurationError, match="set MY_KEY to the API key for http://h/v1"):
        api_key(resolve_endpoint("m", "http://h/v1", "MY_KEY"), {"SHABERI_KEY_HOSTS": "MY_KEY=h"})


def test_a_custom_endpoint_needs_no_key_but_takes_one():
    endpoint = resolve_endpoint("m", "http://h/v1")
    assert api_key(endpoint, {}) is None
    assert api_key(endpoint, {"SHABERI_API_KEY": "k\n", "SHABERI_KEY_HOSTS": "SHABERI_API_KEY=h"}) == "k"


def test_the_embedded_endpoint_gets_no_key():
    assert api_key(resolve_endpoint("embedded/smollm2-135m"), {"SHABERI_API_KEY": "k"}) is None


def test_a_key_that_cannot_be_a_header_is_refused_without_showing_it():
    with pytest.raises(ConfigurationError) as error:
        api_key(resolve_endpoint("gpt-5.1"), {"OPENAI_API_KEY": "sk-a\nb-secret"})
    assert "secret" not in str(error.value)


def test_an_organisation_is_sent_to_openai_only():
    environment = {"OPENAI_ORG_ID": "org-1"}
    assert extra_headers(resolve_endpoint("gpt-5.1"), environment) == {"OpenAI-Organization": "org-1"}
    assert extra_headers(resolve_endpoint("m", "http://h/v1"), environment) == {}


def body_for(model, base_url=None, **sampling):
    values = {"temperature": 0.2, "max_tokens": 50, **sampling}
    endpoint = resolve_endpoint(model, base_url)
    return request_body(ChatRequest(endpoint, model, (Message("user", "問"),), Sampling(**values)))


SENT = {"max_tokens": 50, "temperature": 0.2}


@pytest.mark.parametrize(
    ("model", "base_url", "asked", "sent"),
    [
        ("m", "http://h/v1", {"frequency_penalty": 0.5}, SENT | {"frequency_penalty": 0.5}),
        ("m", "http://h/v1", {"temperature": None}, {"max_tokens": 50}),
        ("m", "http://h/v1", {"temperature": 0.0}, SENT | {"temperature": 0.0}),
        ("gpt-4o", None, {"frequency_penalty": 0.5}, {"max_completion_tokens": 50, "temperature": 0.2}),
        ("gemini-2.5-flash", None, {"frequency_penalty": 0.5}, SENT),
        ("gpt-5.1", None, {}, {"max_completion_tokens": 50}),
        ("gpt-5-mini", None, {}, {"max_completion_tokens": 50}),
        ("o3", None, {}, {"max_completion_tokens": 50}),
        ("o4-mini", None, {}, {"max_completion_tokens": 50}),
    ],
)
def test_an_endpoint_gets_the_parameters_it_takes(model, base_url, asked, sent):
    expected = {"model": model, "messages": [{"role": "user", "content": "問"}], **sent}
    assert body_for(model, base_url, **asked) == expected


def test_only_the_embedded_endpoint_gets_the_last_line_as_a_grammar():
    line = ScoreLine('SCORE "x": ', 1, 3)
    assert "grammar" not in body_for("m", "http://h/v1", last_line=line)
    grammar = body_for("embedded/smollm2-135m", last_line=line)["grammar"]
    assert r'"SCORE \"x\": " ("1" | "2" | "3")' in grammar


@pytest.mark.parametrize(
    ("model", "base_url", "takes"),
    [
        ("gpt-4.1-mini", None, True),
        ("gpt-5.1", None, True),
        ("gemini-2.5-flash", None, True),
        ("embedded/smollm2-135m", None, True),
        ("llama-3", "http://localhost:8000/v1", False),
        ("gpt-4.1-mini", "http://localhost:8000/v1", False),
    ],
)
def test_a_schema_is_sent_only_where_it_is_known_to_be_taken(model, base_url, takes):
    schema = {"type": "object", "properties": {"verdict": {"type": "string"}}}
    expected = {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": schema}}
    asked = body_for(model, base_url, json_schema=json.dumps(schema))
    assert asked.get("response_format") == (expected if takes else None)
    assert "response_format" not in body_for(model, base_url)


def test_the_key_variable_can_be_named():
    assert resolve_endpoint("m", "http://h/v1", "MY_KEY").api_key_variable == "MY_KEY"
