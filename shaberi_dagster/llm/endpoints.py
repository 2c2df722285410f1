"""What is known about endpoints: where a model's name leads and what it is sent. The data is `endpoints.yaml`."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import yaml
from pydantic import BaseModel, ConfigDict, Field

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.llm.embedded import check_embedded_model
from shaberi_dagster.llm.types import ChatRequest, Endpoint, ScoreLine

EMBEDDED_URL = "embedded:"
CUSTOM = "custom"
"""Name of an endpoint that the table does not know: the user gave its address."""
_EMBEDDED = "embedded"


class _Rule(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    models: tuple[str, ...]
    max_tokens: str | None = None
    drop: frozenset[str] = frozenset()
    last_line: str | None = None
    json_schema: bool = False


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str | None = None
    api_key: str | None = None
    key_required: bool = True
    headers: dict[str, str] = Field(default_factory=dict)
    models: tuple[str, ...] = ()
    not_models: tuple[str, ...] = ()
    default_max_tokens: int | None = None
    rules: tuple[_Rule, ...] = ()

    def serves(self, model: str) -> bool:
        return _matches(model, self.models) and not _matches(model, self.not_models)


@cache
def _table() -> dict[str, _Entry]:
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return {name: _Entry.model_validate(entry) for name, entry in yaml.safe_load(text).items()}


def resolve_endpoint(model: str, base_url: str | None = None, api_key_variable: str | None = None) -> Endpoint:
    """The endpoint that serves a model.

    Args:
        model: The model's name, such as `gpt-5.1`, `gemini-2.5-flash` or `embedded/smollm2-135m`.
        base_url: Address of an OpenAI-compatible server up to and including `/v1`; it wins over the name.
        api_key_variable: Environment variable with the key; by default the one of the endpoint's entry.

    Raises:
        ConfigurationError: No entry of the table matches the model and there is no base URL, the base URL is no
            plain http(s) address, or the embedded model does not exist.
    """
    if base_url is None:
        name = next((name for name, entry in _table().items() if entry.serves(model)), None)
        if name is None:
            raise ConfigurationError(
                f"no known endpoint serves model {model!r}: give --base-url (for a judge --judge-base-url) with the "
                "address of an OpenAI-compatible server, such as http://localhost:8000/v1"
            )
        if name == _EMBEDDED:
            check_embedded_model(model)
        base_url = _table()[name].base_url or ""
    else:
        base_url = _checked_url(base_url)
        name = endpoint_name(base_url)
    return Endpoint(name, base_url, api_key_variable or _table()[name].api_key)


def endpoint_name(base_url: str) -> str:
    """The table's entry for an address."""
    return next((name for name, entry in _table().items() if entry.base_url == base_url), CUSTOM)


def _checked_url(base_url: str) -> str:
    url = base_url.strip().rstrip("/")
    if url == EMBEDDED_URL:
        return url
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise ConfigurationError("the base URL cannot be read: give one such as http://localhost:8000/v1") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("the base URL must not contain a user or key: name the key's variable instead")
    if parts.query or parts.fragment:
        raise ConfigurationError("the base URL must end with its path: it has '?' or '#'")
    if not usable or any(char.isspace() for char in url):
        raise ConfigurationError(f"base URL {url!r} must be like http://localhost:8000/v1")
    return url


def api_key(endpoint: Endpoint, environment: Mapping[str, str]) -> str | None:
    """The key that an endpoint is called with, None when none is sent.

    Raises:
        ConfigurationError: The variable with the key is not set (and the endpoint's entry, or the user by naming
            the variable, says that a key is needed), or its value cannot be sent as a header.
    """
    variable = endpoint.api_key_variable
    if variable is None:
        return None
    key = environment.get(variable, "").strip()
    if not key:
        entry = _table()[endpoint.name]
        if variable != entry.api_key or entry.key_required:
            raise ConfigurationError(f"set {variable} to the API key for {endpoint.base_url}")
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError(f"the value of {variable} is no API key: it has spaces or unusual characters")
    return key


def extra_headers(endpoint: Endpoint, environment: Mapping[str, str]) -> dict[str, str]:
    """Headers of the endpoint's entry (organisation, project) that the environment has values for."""
    wanted = _table()[endpoint.name].headers
    return {header: environment[variable] for header, variable in wanted.items() if environment.get(variable)}


def request_body(request: ChatRequest) -> dict[str, Any]:
    """The JSON body of the call, with the parameters that its endpoint and model take."""
    rule = _rule(request.endpoint.name, request.model)
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
        rule.max_tokens or "max_tokens": sampling.max_tokens,
    }
    if sampling.temperature is not None and "temperature" not in rule.drop:
        body["temperature"] = sampling.temperature
    if sampling.frequency_penalty and "frequency_penalty" not in rule.drop:
        body["frequency_penalty"] = sampling.frequency_penalty
    if sampling.last_line is not None and rule.last_line is not None:
        body[rule.last_line] = _grammar(sampling.last_line)
    if sampling.json_schema is not None and rule.json_schema:
        schema = {"name": "reply", "strict": True, "schema": orjson.loads(sampling.json_schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


@cache
def _rule(endpoint: str, model: str) -> _Rule:
    """All rules that match, as one."""
    rules = [rule for rule in _table()[endpoint].rules if _matches(model, rule.models)]
    return _Rule(
        models=(model,),
        max_tokens=next((rule.max_tokens for rule in reversed(rules) if rule.max_tokens), None),
        drop=frozenset().union(*(rule.drop for rule in rules)),
        last_line=next((rule.last_line for rule in reversed(rules) if rule.last_line), None),
        json_schema=any(rule.json_schema for rule in rules),
    )


@cache
def _grammar(last_line: ScoreLine) -> str:
    """GBNF: one short line, then the score line and nothing after it."""
    literal = orjson.dumps(last_line.prefix).decode()
    numbers = " | ".join(f'"{number}"' for number in range(last_line.low, last_line.high + 1))
    return f'root ::= line {literal} ({numbers})\nline ::= [^\\n]{{1,30}} "\\n"\n'


def _matches(model: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(model, pattern) for pattern in patterns)


def default_max_tokens(endpoint: Endpoint) -> int | None:
    """Most completion tokens of a call to this endpoint by default; None leaves it to the benchmark."""
    return _table()[endpoint.name].default_max_tokens


def api_key_variables() -> tuple[str, ...]:
    """The environment variables of the table that hold keys."""
    return tuple(entry.api_key for entry in _table().values() if entry.api_key)
