"""Bindings of API keys to addresses: a key is sent only where it belongs.

A pair of an environment variable and an address is bound by one of our own endpoint entries (`llm/endpoints.py`), by
`SHABERI_KEY_HOSTS`, or for one command by the person who names both on the command line. Nothing else binds: no plugin,
no launchpad, no run spec. What a person names travels in this process alone, never through Dagster, where it could be
forged.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from shaberi_dagster.util.errors import ConfigurationError

KEY_HOSTS = "SHABERI_KEY_HOSTS"
_FORM = 'VARIABLE=host[:port],host2;VARIABLE2=host, such as "OPENAI_API_KEY=proxy.example,localhost:8000"'
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The name of an environment variable."""
_KEY = re.compile(r"(?=.*[a-z])(?=.*\d).{20,}|.*[^A-Za-z0-9_].*", re.DOTALL)
_HOST = r"(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::(?P<port>[0-9]{1,5}))?"
# ASCII without user, escapes or backslash: nothing that the HTTP client could read as another host.
_URL = re.compile(rf"(?P<scheme>https?)://{_HOST}(?:/[^\s\\]*)?", re.ASCII | re.IGNORECASE)
_DEFAULT_PORTS = {"http": 80, "https": 443}


def check_variable(variable: str | None) -> str | None:
    """Return the name of a key's variable as it is.

    Raises:
        ValueError: It is not set, and looks like the key itself, which is not repeated.
    """
    if variable and variable not in os.environ and _KEY.fullmatch(variable):
        raise ValueError("give the name of the environment variable that holds the key, not the key")
    return variable


class Address(NamedTuple):
    """The part of a URL that says who is called; equal only if nothing differs."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> "Address | None":
        """Return the address of a plain http(s) URL; None for any other text."""
        found = _URL.fullmatch(url)
        if found is None:
            return None
        scheme, host, port = found["scheme"].lower(), found["host"].lower(), found["port"]
        return cls(scheme, host, int(port) if port else _DEFAULT_PORTS[scheme])

    @property
    def place(self) -> str:
        """The host as `SHABERI_KEY_HOSTS` names it, with its port unless that is the scheme's own."""
        return self.host if self.port == _DEFAULT_PORTS[self.scheme] else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.place}"


Pair = tuple[str, Address]
"""A key's environment variable, and an address that it belongs to."""
_named: ContextVar[frozenset[Pair]] = ContextVar("keys_named", default=frozenset())


@contextmanager
def keys_named(pairs: Iterable[Pair]) -> Iterator[None]:
    """Within this context these pairs are bound: what a person named for the command at work."""
    token = _named.set(frozenset(pairs))
    try:
        yield
    finally:
        _named.reset(token)


def pairs_named() -> frozenset[Pair]:
    """Return the pairs that the person whose command is at work has named."""
    return _named.get()


def key_hosts(environment: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the hosts that `SHABERI_KEY_HOSTS` binds each variable to, as it names them, in lower case.

    Raises:
        ConfigurationError: It cannot be read. Its text is not repeated: somebody may have put a key there.
    """
    hosts: dict[str, list[str]] = {}
    for binding in filter(None, map(str.strip, environment.get(KEY_HOSTS, "").split(";"))):
        variable, _, names = (part.strip() for part in binding.partition("="))
        places = [place.strip().lower() for place in names.split(",")]
        if not VARIABLE.fullmatch(variable) or not all(re.fullmatch(_HOST, place, re.ASCII) for place in places):
            raise ConfigurationError(f"{KEY_HOSTS} must be like {_FORM}")
        hosts.setdefault(variable, []).extend(places)
    return hosts


def how_to_bind(variable: str, base_url: str, *, there: bool = False) -> str:
    """Return the line that refuses an unbound pair and says how to bind it.

    Args:
        variable: The key's environment variable.
        base_url: Where it would be sent.
        there: Whether it is another host that refuses it, to which nothing can be named here.
    """
    if not VARIABLE.fullmatch(variable):
        return f"{variable!a} cannot be the name of a key's environment variable"
    address = Address.of(base_url)
    if address is None:
        return f"{variable} is sent only to plain addresses like http://localhost:8000/v1, other letters as xn--…"
    setting = f'{KEY_HOSTS}="{variable}={address.place}"'
    if there:
        return f"{variable} is not bound to {address}: if the key belongs there, start the worker with {setting}"
    return (
        f"{variable} is not bound to {address}: if the key belongs there, set {setting}, or name both in the "
        "command (--base-url … --api-key-variable …; --judge-base-url … --judge-api-key-variable …)"
    )
