"""Which address a key may be sent to, and how somebody who would trick us is answered."""

import pytest

from shaberi_dagster.llm.endpoints import (
    api_key,
    check_bound,
    extra_headers,
    key_bindings,
    key_state,
    may_be_sent,
    named_pairs,
    resolve_endpoint,
)
from shaberi_dagster.llm.keys import key_hosts, keys_named
from shaberi_dagster.llm.request import Endpoint
from shaberi_dagster.util.errors import ConfigurationError

pytestmark = pytest.mark.unit

_OPENAI = "https://api.openai.com/v1"


@pytest.mark.parametrize("url", [_OPENAI, "https://API.OPENAI.COM/v1", "HTTPS://api.openai.com:443/v2", _OPENAI + "/"])
def test_the_key_of_our_own_entry_may_be_sent_to_its_address(url):
    assert may_be_sent("OPENAI_API_KEY", url, {})
    assert may_be_sent("OPENAI_ORG_ID", url, {})
    assert not may_be_sent("GEMINI_API_KEY", url, {})
    assert not may_be_sent("AWS_SECRET_ACCESS_KEY", url, {})


@pytest.mark.parametrize(
    "url",
    [
        "http://api.openai.com/v1",
        "http://api.openai.com:443/v1",
        "https://api.openai.com:444/v1",
        "https://api.openai.com./v1",
        "https://api.openai.com.evil.example/v1",
        "https://evil-api.openai.com/v1",
        "https://openai.com/v1",
        "https://api.openai.com@evil.example/v1",
        "https://api.openai.com:443@evil.example/v1",
        "https://user@api.openai.com/v1",
        "https://evil.example/api.openai.com/v1",
        "https://evil.example?@api.openai.com/v1",
        "https://evil.example#@api.openai.com/v1",
        "https://evil.example\\@api.openai.com/v1",
        "https://api.openai.com\\.evil.example/v1",
        "https://api.openai.com\\@evil.example/v1",
        "https://api%2eopenai.com/v1",
        "https://api.openai.com%00.evil.example/v1",
        "https://api.openai.com\x00.evil.example/v1",
        "https://api.openai.com\t.evil.example/v1",
        "\thttps://api.openai.com/v1",
        "https://api.openai.com/v1\n",
        "https://ａpi.openai.com/v1",
        "https://api.openai。com/v1",
        "https://аpi.openai.com/v1",  # the first letter is Cyrillic
        "http\u017f://api.openai.com/v1",  # a long s is an s in capitals
        "https://api.openai.com:٤٤٣/v1",
        "https:/api.openai.com/v1",
        "https:api.openai.com/v1",
        "//api.openai.com/v1",
        "https://[api.openai.com]/v1",
        "ftp://api.openai.com/v1",
        "embedded:",
        "",
    ],
)
def test_no_other_address_gets_it_however_like_it_looks(url):
    assert not may_be_sent("OPENAI_API_KEY", url, {})
    assert not may_be_sent("OPENAI_API_KEY", url, {"SHABERI_KEY_HOSTS": "OPENAI_API_KEY=openai.org"})
    if url != "embedded:":
        with pytest.raises(ConfigurationError) as error:
            check_bound(Endpoint("openai", url, "OPENAI_API_KEY"), {})
        assert str(error.value).isprintable()


@pytest.mark.parametrize(
    ("hosts", "url", "bound"),
    [
        ("A_KEY=h.example", "https://h.example/v1", True),
        ("A_KEY=h.example", "http://h.example:8000/v1", True),
        ("A_KEY=H.Example", "https://h.EXAMPLE/v1", True),
        ("A_KEY=h.example:8000", "http://h.example:8000/v1", True),
        ("A_KEY=h.example:443", "https://h.example/v1", True),
        ("A_KEY=h.example:443", "http://h.example/v1", False),
        ("A_KEY=h.example:8000", "http://h.example:8001/v1", False),
        ("A_KEY=h.example", "https://sub.h.example/v1", False),
        ("A_KEY=h.example", "https://h.example.evil.example/v1", False),
        ("A_KEY=h.example", "https://h.example@evil.example/v1", False),
        ("A_KEY=.example", "https://h.example/v1", False),
        ("A_KEY=[::1]:8000", "http://[::1]:8000/v1", True),
        ("A_KEY=localhost", "http://127.0.0.1/v1", False),
        ("OTHER=h.example", "https://h.example/v1", False),
        (" OTHER = x ; A_KEY = y , h.example ; ", "https://h.example/v1", True),
        ("A_KEY=x;A_KEY=h.example", "https://h.example/v1", True),
        ("", "http://localhost:8000/v1", False),
    ],
)
def test_the_setting_binds_exact_hosts_on_any_port_or_on_one(hosts, url, bound):
    assert may_be_sent("A_KEY", url, {"SHABERI_KEY_HOSTS": hosts}) is bound


@pytest.mark.parametrize(
    "hosts", ["h.example", "A_KEY=", "A_KEY=https://h", "A_KEY=h/v1", "A KEY=h", "=h", "A_KEY=*", "A_KEY=a,,b", "A=u@h"]
)
def test_a_setting_that_cannot_be_read_is_refused_with_its_form_and_not_repeated(hosts):
    with pytest.raises(ConfigurationError) as error:
        key_hosts({"SHABERI_KEY_HOSTS": hosts})
    assert str(error.value) == (
        "SHABERI_KEY_HOSTS must be like VARIABLE=host[:port],host2;VARIABLE2=host, such as "
        '"OPENAI_API_KEY=proxy.example,localhost:8000"'
    )


def test_what_a_person_names_is_bound_within_their_command_and_no_longer():
    endpoint = resolve_endpoint("m", "http://h.example:8000/v1", "MY_KEY")
    environment = {"MY_KEY": "k"}
    with keys_named(named_pairs(("http://h.example:8000/v1/", "MY_KEY"))):
        assert api_key(endpoint, environment) == "k"
        for other in ("http://h.example:8001/v1", "https://h.example:8000/v1", "http://i.example:8000/v1"):
            assert not may_be_sent("MY_KEY", other, environment)
        assert not may_be_sent("SHABERI_API_KEY", "http://h.example:8000/v1", environment)
    with pytest.raises(ConfigurationError, match=r"MY_KEY is not bound to http://h.example:8000: "):
        api_key(endpoint, environment)


def test_an_address_that_is_named_alone_is_bound_to_the_default_variable():
    with keys_named(named_pairs(("http://h.example/v1", None))):
        assert may_be_sent("SHABERI_API_KEY", "http://h.example/v1", {})
        assert not may_be_sent("OPENAI_API_KEY", "http://h.example/v1", {})


def test_a_variable_that_is_named_alone_is_bound_to_providers_that_we_know():
    with keys_named(named_pairs((None, "MY_KEY"))):
        assert may_be_sent("MY_KEY", _OPENAI, {})
        assert not may_be_sent("MY_KEY", "http://h.example/v1", {})


def test_a_refusal_is_one_line_that_says_how_to_allow_it():
    endpoint = Endpoint("custom", "https://evil.example/v1", "OPENAI_API_KEY")
    with pytest.raises(ConfigurationError) as error:
        api_key(endpoint, {"OPENAI_API_KEY": "sk-canary"})
    assert str(error.value) == (
        "OPENAI_API_KEY is not bound to https://evil.example: if the key belongs there, set "
        'SHABERI_KEY_HOSTS="OPENAI_API_KEY=evil.example", or name both in the command '
        "(--base-url … --api-key-variable …; --judge-base-url … --judge-api-key-variable …)"
    )
    allowed = {"OPENAI_API_KEY": "sk-canary", "SHABERI_KEY_HOSTS": "OPENAI_API_KEY=evil.example"}
    assert api_key(endpoint, allowed) == "sk-canary"


@pytest.mark.parametrize(("variable", "url"), [("A\x1b[31mKEY", "http://h/v1"), ("A_KEY", "http://h\x1b[31m\u202e/v1")])
def test_a_refusal_repeats_nothing_that_could_steer_a_terminal(variable, url):
    with pytest.raises(ConfigurationError) as error:
        api_key(Endpoint("custom", url, variable), {variable: "k"})
    assert str(error.value).isprintable()
    assert "\u202e" not in str(error.value)


def test_a_call_without_a_key_is_possible_everywhere():
    endpoint = resolve_endpoint("m", "http://h.example/v1")
    assert api_key(endpoint, {}) is None
    with pytest.raises(ConfigurationError, match=r"SHABERI_API_KEY is not bound to http://h.example: "):
        api_key(endpoint, {"SHABERI_API_KEY": "k"})


def test_a_variable_that_is_not_bound_is_refused_the_same_whether_it_is_set_or_not():
    endpoint = Endpoint("custom", "http://h.example/v1", "AWS_SECRET_ACCESS_KEY")
    for environment in ({}, {"AWS_SECRET_ACCESS_KEY": "k"}):
        with pytest.raises(ConfigurationError, match="AWS_SECRET_ACCESS_KEY is not bound"):
            api_key(endpoint, environment)


def test_headers_of_a_known_entry_go_to_its_address_only_even_if_a_spec_says_otherwise():
    environment = {"OPENAI_ORG_ID": "org-1"}
    with pytest.raises(ConfigurationError, match=r"OPENAI_ORG_ID is not bound to https://evil.example: "):
        extra_headers(Endpoint("openai", "https://evil.example/v1", None), environment)


def test_the_embedded_model_is_sent_no_key_whatever_a_spec_says():
    endpoint = Endpoint("openai", "embedded:", "AWS_SECRET_ACCESS_KEY")
    environment = {"AWS_SECRET_ACCESS_KEY": "k", "OPENAI_ORG_ID": "org-1"}
    assert api_key(endpoint, environment) is None
    assert extra_headers(endpoint, environment) == {}


def test_the_state_of_a_pair_has_no_value_in_it():
    environment = {"A_KEY": "k", "SHABERI_KEY_HOSTS": "A_KEY=h;B_KEY=h"}
    assert key_state("A_KEY", "http://h/v1", environment) == "ok"
    assert key_state("A_KEY", "http://i/v1", environment) == "not bound"
    assert key_state("B_KEY", "http://h/v1", environment) == "not set"


def test_bindings_are_listed_by_variable():
    bindings = key_bindings({"SHABERI_KEY_HOSTS": "OPENAI_API_KEY=proxy.example:8000;MY_KEY=h"})
    assert bindings["OPENAI_API_KEY"] == ["https://api.openai.com", "proxy.example:8000"]
    assert bindings["MY_KEY"] == ["h"]
    assert bindings["SHABERI_API_KEY"] == []
