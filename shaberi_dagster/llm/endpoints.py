"""Endpoints by name: where a model's name leads and what it is sent.

Each is a YAML file: ours are in `known_endpoints/`, others in plugin folders, which are asked first. A base URL given
by the user wins: it is the entry with that address, else `custom`.
"""

import os
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Literal
from urllib.parse import urljoin, urlsplit

import orjson
from pydantic import Field

from shaberi_dagster.llm.embedded import check_embedded_model
from shaberi_dagster.llm.keys import VARIABLE, Address, Pair, how_to_bind, key_hosts, pairs_named
from shaberi_dagster.llm.own_prices import SHOWN_OF_SHA256, OwnPrice
from shaberi_dagster.llm.providers.base import Provider
from shaberi_dagster.llm.providers.registry import DEFAULT_PROVIDER, PROVIDERS
from shaberi_dagster.llm.request import ChatRequest, Endpoint
from shaberi_dagster.llm.types import Sampling, ScoreLine
from shaberi_dagster.plugins.discovery import PluginError, PluginFile, PluginRegistry, read_yaml
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.models import Frozen
from shaberi_dagster.util.names import did_you_mean

EMBEDDED_URL = "embedded:"
CUSTOM = "custom"
"""Name of an endpoint that the table does not know: the user gave its address."""
THINKING = "thinking"
"""The switch of thinking, `on` or `off`, which each server has another form of."""
EXTRA_BODY, EXTRA_HEADERS = "extra_body", "extra_headers"
"""Parameters that are fields of the body, and headers, as they are."""
_SECRET_HEADER = re.compile(r"(?i)authorization|cookie|key|token|secret|password")
_TAG = re.compile(r"latest\b|\d+(?:\.\d+)?[bm]\b|v\d", re.IGNORECASE)
"""Begins the tag of a model at Ollama, whose name may be that of an endpoint."""
_CALL_PATH = re.compile(r"/+(?:chat/completions|responses|messages)$")
_EMBEDDED = "embedded"
_OWN = (
    *(_EMBEDDED, "openai", "gemini", "anthropic", "openai_responses", "openrouter", "vllm", "ollama", CUSTOM),
    *("xai", "deepseek", "mistral", "perplexity", "together", "groq", "fireworks", "sglang", "llama_cpp", "lm_studio"),
    "azure",
)


class _Rule(Frozen):
    """Parameters that calls of some models are sent; every rule that matches applies, later ones win.

    Attributes:
        models: Patterns of models' names.
        max_tokens: Name of the parameter that limits completion tokens.
        drop: Parameters that are never sent.
        rename: Other names that parameters have there.
        instead: Parameters that are sent in the place of a value of one: for `thinking` of `on` and of `off`.
        limits: The least and the greatest value of parameters; null is no bound.
        last_line: Name of the parameter that takes a grammar (llama.cpp's GBNF) for the last line.
        json_schema: Whether `response_format` may hold a JSON Schema of the output.
    """

    models: tuple[str, ...]
    max_tokens: str | None = None
    drop: frozenset[str] = frozenset()
    rename: dict[str, str] = Field(default_factory=dict)
    instead: dict[str, dict[str, dict[str, Any]]] = Field(default_factory=dict)
    limits: dict[str, tuple[float | None, float | None]] = Field(default_factory=dict)
    last_line: str | None = None
    json_schema: bool = False

    def sent(self, name: str, value: Any) -> dict[str, Any] | None:
        """Return what stands for a parameter in a call; None when it is left out."""
        if name in self.drop:
            return None
        if isinstance(value, str) and name in (THINKING, *self.instead):
            return self.instead.get(name, {}).get(value, None if name == THINKING else {name: value})
        renamed = self.rename | ({"max_tokens": self.max_tokens} if self.max_tokens else {})
        return {renamed.get(name, name): value}


class _Entry(Frozen):
    """An endpoint of the table.

    Attributes:
        base_url: Address up to what stands for `/v1`; `embedded:` is the in-process server.
        base_url_variable: Environment variable with what the base URL begins with, where each user has an own address.
        provider: The form of its calls.
        api_key: Environment variable with the key.
        key_required: Whether a call without the key is refused.
        headers: Other headers and the environment variables that they are read from, sent when set.
        also: Other names that can stand before a model's, as `google:gemini-2.5-flash` for `gemini:…`.
        models: Patterns of the names of models that it serves.
        not_models: Patterns of names that it does not serve although they match.
        default_max_tokens: Most completion tokens where neither the run nor the user says otherwise.
        rules: Parameters by model.
        prices: What its models cost, where the user's price file does not say otherwise.
        by_name_only: Only `NAME:MODEL` leads here; a user who gives its address goes to `custom`, as ever.
        unverified: No one has tried it: what it says is from the provider's page.
        loaded: Path on the server, not below the base URL, of Ollama's list of the models in its memory.
    """

    base_url: str | None = None
    base_url_variable: str | None = None
    provider: str = DEFAULT_PROVIDER
    api_key: str | None = None
    key_required: bool = True
    headers: dict[str, str] = Field(default_factory=dict)
    also: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    not_models: tuple[str, ...] = ()
    default_max_tokens: int | None = None
    rules: tuple[_Rule, ...] = ()
    prices: tuple[OwnPrice, ...] = ()
    by_name_only: bool = False
    unverified: bool = False
    loaded: str | None = None

    @property
    def is_somewhere(self) -> bool:
        """True if it has an address, or would have with its environment variable."""
        return bool(self.base_url or self.base_url_variable)

    def serves(self, model: str) -> bool:
        return _matches(model, self.models) and not _matches(model, self.not_models)


def _read(file: PluginFile) -> _Entry:
    entry = read_yaml(file, _Entry.model_validate)
    if entry.base_url_variable:
        begin = os.environ.get(entry.base_url_variable, "").strip().rstrip("/")
        entry = entry.model_copy(update={"base_url": _checked_url(f"{begin}{entry.base_url or ''}") if begin else None})
        if not begin:
            return entry
    if file.is_own:
        return entry
    if entry.api_key and not VARIABLE.fullmatch(entry.api_key):
        raise PluginError(file.path, None, "api_key must be the name of an environment variable, never a key")
    try:
        return entry.model_copy(update={"base_url": _checked_url(entry.base_url or "")})
    except ConfigurationError as error:
        raise PluginError(file.path, None, f"base_url: {error}") from error


ENDPOINTS = PluginRegistry(
    "endpoint",
    "endpoints",
    ".yaml",
    {name: f"llm/known_endpoints/{name}.yaml" for name in _OWN},
    read=_read,
)
"""Every endpoint that has a name."""


def _in_order() -> Iterator[tuple[str, _Entry]]:
    """List the entries of plugin folders before ours, which so can have models whose names match our patterns."""
    added = dict.fromkeys(file.name for file in ENDPOINTS.added)
    return ((name, ENDPOINTS[name]) for name in dict.fromkeys([*added, *ENDPOINTS]) if name in ENDPOINTS)


def resolve_endpoint(model: str, base_url: str | None = None, api_key_variable: str | None = None) -> Endpoint:
    """The endpoint that serves a model.

    Args:
        model: The model's name, such as `gpt-5.1`, `embedded/smollm2-135m`, or `openrouter:qwen/qwen3-32b`: behind the
            name of an entry any model of that endpoint.
        base_url: Address of an OpenAI-compatible server up to and including `/v1`; it wins over the name.
        api_key_variable: Environment variable with the key; by default the one of the endpoint's entry.

    Raises:
        ConfigurationError: No entry of the table matches the model and there is no base URL, the base URL is no
            plain http(s) address, or the embedded model does not exist.
    """
    if base_url is None:
        prefix, colon, rest = model.partition(":")
        named = _prefixes().get(prefix) if colon and rest else None  # `llama3:8b` names no endpoint
        name = named or next((name for name, entry in _in_order() if entry.serves(model)), None)
        if name is None:
            if colon and ENDPOINTS.file(prefix):
                ENDPOINTS.use(prefix)  # which says what is wrong with its file
            near = f"; {did_you_mean(prefix, _prefixes(), 'endpoints:')}" if colon else ""
            raise ConfigurationError(
                f"no known endpoint serves model {model!r}: give --base-url (for a judge --judge-base-url), "
                "such as http://localhost:8000/v1, or write ENDPOINT:MODEL "
                f"(`shaberi endpoints` lists them){near}"
            )
        if name == _EMBEDDED:
            check_embedded_model(model)
        entry = ENDPOINTS.use(name)
        if entry.base_url is None and entry.base_url_variable:
            raise ConfigurationError(f"set {entry.base_url_variable} to the address of your {name} resource")
        base_url = entry.base_url or ""
    else:
        base_url = _checked_url(base_url)
        name = endpoint_name(base_url)
    return Endpoint(name, base_url, api_key_variable or ENDPOINTS[name].api_key)


def is_providers(base_url: str) -> bool:
    """Return whether an entry of the endpoint table, but the embedded model's, has this address."""
    return endpoint_name(base_url) not in {CUSTOM, _EMBEDDED}


def loaded_url(base_url: str) -> str | None:
    """Return where a server lists the models in its memory; None where it is not known to."""
    path = next((entry.loaded for _, entry in _in_order() if entry.loaded and entry.base_url == base_url), None)
    return path and urljoin(base_url, path)


def _prefixes() -> dict[str, str]:
    """Map the names that can stand before a model's to their endpoints."""
    named = [(name, entry.also) for name, entry in _in_order() if entry.is_somewhere and name != _EMBEDDED]
    return {other: name for name, also in named for other in also} | {name: name for name, _ in named}


@cache
def served_name(model: str, base_url: str) -> str:
    """Return the name of a model at its server: without that of an endpoint before it (`llama3:8b` has none)."""
    prefix, _, name = model.partition(":")
    entry = ENDPOINTS.get(_prefixes().get(prefix, prefix))
    if not name or entry is None:
        return model
    is_elsewhere = entry.base_url != base_url
    return model if is_elsewhere and (endpoint_name(base_url) == "ollama" or _TAG.match(name)) else name


def endpoint_name(base_url: str) -> str:
    """The table's entry for an address."""
    entries = ((name, entry) for name, entry in _in_order() if not entry.by_name_only)
    return next((name for name, entry in entries if entry.base_url == base_url), CUSTOM)


def _checked_url(base_url: str) -> str:
    """Return an address in its usual form, without the path of calls that people copy with it."""
    url = _CALL_PATH.sub("", base_url.strip().rstrip("/"))
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


@cache
def _own_pairs() -> frozenset[Pair]:
    """Return what our own entries bind; those of plugins, which anybody may have written, bind nothing."""
    entries = [ENDPOINTS[name] for name in _OWN]
    return frozenset(
        (variable, address)
        for entry in entries
        if (address := Address.of(entry.base_url or ""))
        for variable in (entry.api_key, *entry.headers.values())
        if variable
    )


def named_pairs(*places: tuple[str | None, str | None]) -> frozenset[Pair]:
    """Return the pairs that a person binds by naming them.

    Args:
        places: Base URL and key variable as options name them. An address without a variable is bound to that of
            unknown endpoints, a variable without an address to the addresses of our own entries.
    """
    pairs: set[Pair] = set()
    for base_url, variable in places:
        if base_url is not None:
            address, named = Address.of(base_url.strip()), variable or ENDPOINTS[CUSTOM].api_key
            if address and named:
                pairs.add((named, address))
        elif variable is not None:
            pairs |= {(variable, address) for _, address in _own_pairs()}
    return frozenset(pairs)


def may_be_sent(variable: str, base_url: str, environment: Mapping[str, str]) -> bool:
    """Return whether a variable's value may be sent to an address.

    Raises:
        ConfigurationError: `SHABERI_KEY_HOSTS` cannot be read.
    """
    address, hosts = Address.of(base_url), key_hosts(environment).get(variable, ())
    if address is None:
        return False
    is_named = (variable, address) in _own_pairs() | pairs_named()
    return is_named or address.host in hosts or f"{address.host}:{address.port}" in hosts


def key_state(variable: str, base_url: str, environment: Mapping[str, str]) -> Literal["ok", "not bound", "not set"]:
    """Return what an environment says of sending a variable's value to an address.

    Raises:
        ConfigurationError: `SHABERI_KEY_HOSTS` cannot be read.
    """
    if not environment.get(variable, "").strip():
        return "not set"
    return "ok" if may_be_sent(variable, base_url, environment) else "not bound"


def key_variables(endpoint: Endpoint) -> dict[str, bool]:
    """Map each environment variable that calls of an endpoint send to whether they need it."""
    if endpoint.base_url == EMBEDDED_URL:
        return {}
    entry = ENDPOINTS.use(endpoint.name)
    variables = dict.fromkeys(entry.headers.values(), False)
    if variable := endpoint.api_key_variable:
        # Who names another variable than the entry's wants it used.
        variables[variable] = variable != entry.api_key or entry.key_required
    return variables


def check_bound(endpoint: Endpoint, environment: Mapping[str, str]) -> None:
    """Refuse to send a key, or a header of an entry, to an address that it is not bound to.

    Raises:
        ConfigurationError: Calls of the endpoint would do so.
    """
    for variable, is_needed in key_variables(endpoint).items():
        is_sent = is_needed or environment.get(variable)
        if is_sent and not may_be_sent(variable, endpoint.base_url, environment):
            raise ConfigurationError(how_to_bind(variable, endpoint.base_url))


def api_key(endpoint: Endpoint, environment: Mapping[str, str]) -> str | None:
    """The key that an endpoint is called with, None when none is sent.

    Raises:
        ConfigurationError: The variable with the key is not set (and the endpoint's entry, or the user by naming
            the variable, says that a key is needed), its value cannot be sent as a header, or it is not bound to the
            endpoint's address.
    """
    check_bound(endpoint, environment)
    variable = endpoint.api_key_variable
    if variable is None or endpoint.base_url == EMBEDDED_URL:
        return None
    key = environment.get(variable, "").strip()
    if not key:
        if key_variables(endpoint)[variable]:
            raise ConfigurationError(f"set {variable} to the API key for {endpoint.base_url}")
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError(f"the value of {variable} is not an API key: it has spaces or unusual characters")
    return key


def extra_headers(endpoint: Endpoint, environment: Mapping[str, str]) -> dict[str, str]:
    """Headers of the endpoint's entry (organisation, project) that the environment has values for.

    Raises:
        ConfigurationError: One is not bound to the endpoint's address.
    """
    check_bound(endpoint, environment)
    if endpoint.base_url == EMBEDDED_URL:
        return {}
    wanted = ENDPOINTS.use(endpoint.name).headers
    return {header: environment[variable] for header, variable in wanted.items() if environment.get(variable)}


@cache
def provider_of(endpoint: Endpoint) -> Provider:
    """Return the form of an endpoint's calls.

    Raises:
        ConfigurationError: There is no such provider, or its file cannot be used.
    """
    return PROVIDERS.use(ENDPOINTS.use(endpoint.name).provider)()


def request_body(request: ChatRequest) -> dict[str, Any]:
    """The JSON body of the call, with the parameters that its endpoint and model take."""
    rule, sampling = _rule(request.endpoint, request.model), request.sampling
    parameters = _sent(rule, sampling)
    if sampling.last_line is not None and rule.last_line is not None:
        parameters[rule.last_line] = _grammar(sampling.last_line)
    if sampling.json_schema is not None and rule.json_schema:
        schema = {"name": "reply", "strict": True, "schema": orjson.loads(sampling.json_schema)}
        parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
    apart: dict[str, dict[str, Any]] = {name: parameters.pop(name, {}) for name in (EXTRA_HEADERS, EXTRA_BODY)}
    model = served_name(request.model, request.endpoint.base_url)
    body = provider_of(request.endpoint).body(model, request.messages, parameters)
    return body | apart[EXTRA_BODY]


def request_headers(request: ChatRequest) -> dict[str, str]:
    """The headers of the call beyond those of its endpoint."""
    headers: dict[str, str] = _parameters(request.sampling).get(EXTRA_HEADERS, {})
    return headers


def not_sent(endpoint: Endpoint, model: str, sampling: Sampling) -> list[str]:
    """Return the parameters that are asked for and that calls of a model leave out."""
    rule = _rule(endpoint, model)
    left_out = [name for name, value in _parameters(sampling).items() if rule.sent(name, value) is None]
    return [*left_out, *provider_of(endpoint).not_sent(_sent(rule, sampling))]


def changed_parameters(endpoint: Endpoint, model: str, sampling: Sampling) -> list[str]:
    """Say which parameters an endpoint leaves out, and which ones a file of the user sends under another name."""
    rule, file = _rule(endpoint, model), ENDPOINTS.file(endpoint.name)
    names = () if file is None or file.is_own else _parameters(sampling)
    renamed = [
        f"{name} is sent as {', '.join(fields)}"
        for name in names
        if (fields := rule.sent(name, _parameters(sampling)[name])) and name not in fields
    ]
    return [*(f"{name} is not sent" for name in not_sent(endpoint, model, sampling)), *renamed]


def asked_parameter(request: ChatRequest, field: str) -> str:
    """Return the parameter that is asked for and that puts a field into the body: `thinking` for a template's argument.

    Args:
        request: The call.
        field: As the server names it; `reasoning.effort` is within `reasoning`. Returned where no parameter has it.
    """
    rule, provider = _rule(request.endpoint, request.model), provider_of(request.endpoint)
    least = {"max_tokens": 0}  # some forms require it
    without = provider.body(request.model, (), least)
    for name, value in _parameters(request.sampling).items():
        sent = rule.sent(name, value) or {}
        body = provider.body(request.model, (), least | sent) | sent.get(EXTRA_BODY, {})
        if _at(field, body) != _at(field, without):
            return name
    return field


def _at(field: str, body: Any) -> Any:
    """Return the value of a field of a body, None where it has none."""
    for part in field.split("."):
        body = body.get(part) if isinstance(body, dict) else None
    return body


def check_parameters(endpoint: Endpoint, model: str, sampling: Sampling) -> None:
    """Refuse parameters that a model cannot be asked with.

    Raises:
        ConfigurationError: A value is beyond what the endpoint's entry or form allows, or a header may hold a secret.
    """
    asked, rule = _parameters(sampling), _rule(endpoint, model)
    for name, (low, high) in rule.limits.items():
        value = asked.get(name)
        if not isinstance(value, int | float):
            continue
        if (low is not None and value < low) or (high is not None and value > high):
            ends = (("least", low), ("most", high))
            bounds = " and ".join(f"at {end} {bound:g}" for end, bound in ends if bound is not None)
            raise ConfigurationError(f"{name} of {model} at {endpoint.name} is {bounds}, not {value:g}")
    headers = asked.get(EXTRA_HEADERS, {})
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise ConfigurationError(f"{EXTRA_HEADERS} must map names of headers to texts")
    if secret := next(filter(_SECRET_HEADER.search, headers), None):
        raise ConfigurationError(
            f"the header {secret} may hold a secret, which is never stored: "
            "name its environment variable under `headers` in an endpoint file"
        )
    if not isinstance(asked.get(EXTRA_BODY, {}), dict):
        raise ConfigurationError(f"{EXTRA_BODY} must map fields of the request's body to values")
    if objection := provider_of(endpoint).objection(_sent(rule, sampling)):
        raise ConfigurationError(f"{model} at {endpoint.name}: {objection}")


def _sent(rule: _Rule, sampling: Sampling) -> dict[str, Any]:
    """Map the names that a server has for the parameters of a call to their values."""
    sent: dict[str, Any] = {}
    for name, value in _parameters(sampling).items():
        for field, content in (rule.sent(name, value) or {}).items():
            both = isinstance(content, dict) and isinstance(sent.get(field), dict)
            sent[field] = sent[field] | content if both else content
    return sent


def _parameters(sampling: Sampling) -> dict[str, Any]:
    """Map the names of the parameters that are asked for to their values; a penalty of 0 is left out."""
    asked = {
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "frequency_penalty": sampling.frequency_penalty or None,
        **(orjson.loads(sampling.parameters) if sampling.parameters else {}),
    }
    return {name: value for name, value in asked.items() if value is not None}


@cache
def _rule(endpoint: Endpoint, model: str) -> _Rule:
    """Combine all rules that match into one."""
    name = served_name(model, endpoint.base_url)
    rules = [rule for rule in ENDPOINTS.use(endpoint.name).rules if _matches(name, rule.models)]
    maps = ("rename", "instead", "limits")
    merged: dict[str, Any] = {
        name: dict(item for rule in rules for item in getattr(rule, name).items()) for name in maps
    }
    return _Rule(
        models=(model,),
        max_tokens=next((rule.max_tokens for rule in reversed(rules) if rule.max_tokens), None),
        drop=frozenset().union(*(rule.drop for rule in rules)),
        last_line=next((rule.last_line for rule in reversed(rules) if rule.last_line), None),
        json_schema=any(rule.json_schema for rule in rules),
        **merged,
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
    return ENDPOINTS.use(endpoint.name).default_max_tokens


def key_bindings(environment: Mapping[str, str]) -> dict[str, list[str]]:
    """Map the key variables of all endpoints, and those of `SHABERI_KEY_HOSTS`, to where they may be sent.

    Raises:
        ConfigurationError: `SHABERI_KEY_HOSTS` cannot be read.
    """
    hosts = key_hosts(environment)
    own = sorted(_own_pairs())
    variables = dict.fromkeys([*(entry.api_key for _, entry in _in_order() if entry.api_key), *hosts])
    return {
        variable: [*(str(address) for name, address in own if name == variable), *hosts.get(variable, ())]
        for variable in variables
    }


def endpoint_prices() -> list[tuple[OwnPrice, str]]:
    """List the prices in entries of endpoints, each with the name of its source."""
    return [
        (
            price.model_copy(update={"base_url": price.base_url or entry.base_url}),
            f"{file.path.name} {(file.sha256 or '')[:SHOWN_OF_SHA256]}",
        )
        for name, entry in _in_order()
        if (file := ENDPOINTS.file(name))
        for price in entry.prices
    ]
