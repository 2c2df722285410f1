"""The guard before every web server, which sees each request and WebSocket before the application does."""

import hmac
import ipaddress
import os
import re
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from shaberi_dagster.util.errors import ConfigurationError

TOKEN_VARIABLE = "SHABERI_UI_TOKEN"  # noqa: S105  (the name of the variable)
READING = frozenset({"GET", "HEAD"})
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_TOKEN = re.compile(r"[\w.~+/=-]{16,}", re.ASCII)
_PARAMETER = "token"
_VIOLATION = 1008
_SCRIPT = f"without a login a request needs the header Authorization: Bearer <{TOKEN_VARIABLE}>"
_LOGIN = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Log in</title>
<h1>Log in</h1>
<p>The address that the command printed has the token of this server; or it is in SHABERI_UI_TOKEN.</p>
<form><label>Token <input type="password" name="token" autofocus required></label> <button>Log in</button></form>
<p>Another site led you here, and you are logged in? <a href="">Open the page again</a>.</p>
</html>
"""


@dataclass(frozen=True)
class Access:
    """Names under which a server is asked, and the token of those who may ask.

    Attributes:
        host: Address that it listens on.
        port: Its port.
        token: Proof of a script, and the login of a browser.
        names: Names beside those of loopback, without a port.
        origins: Origins beside the server's own, as `name` or `name:port`.
        needs_login: Whether a browser needs the token.
        is_own_token: Whether the user chose the token, so that it need not be printed.
    """

    host: str
    port: int
    token: str
    names: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    needs_login: bool = False
    is_own_token: bool = False

    @classmethod
    def from_environment(cls, host: str, port: int, environment: Mapping[str, str] = os.environ) -> "Access":
        """Take the token from `SHABERI_UI_TOKEN`, or make one, and further names from `SHABERI_ALLOWED_HOSTS`.

        Raises:
            ConfigurationError: The token is too short, or has characters that no header can have.
        """
        token = environment.get(TOKEN_VARIABLE) or ""
        if token and not _TOKEN.fullmatch(token):
            raise ConfigurationError(
                f"{TOKEN_VARIABLE} needs 16 or more letters, digits or -._~+/= (`openssl rand -hex 16` makes one)"
            )
        allowed = environment.get("SHABERI_ALLOWED_HOSTS", "").lower().split(",")
        origins = frozenset(name.strip() for name in allowed if name.strip())
        own = frozenset() if is_loopback(host) else frozenset({_name_of(host), socket.gethostname().lower()})
        return cls(
            host,
            port,
            token or secrets.token_urlsafe(24),
            own | {_name_of(name) for name in origins},
            origins,
            # A proxy may let anybody through.
            needs_login=bool(own or origins),
            is_own_token=bool(token),
        )

    @property
    def cookie(self) -> str:
        """Name of the cookie, as browsers give a host's cookies to all its ports."""
        return f"shaberi_token_{self.port}"

    def url(self, page: str = "/") -> str:
        """Return the address to print: with the token where a browser needs one that the user did not choose."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104
        address = f"http://{f'[{host}]' if ':' in host else host}:{self.port}{page}"
        if not self.needs_login or self.is_own_token:
            return address
        return f"{address}{'&' if '?' in page else '?'}{_PARAMETER}={self.token}"

    def greeting(self) -> str:
        """Return the line that says where the server is and what it asks for."""
        if not self.needs_login:
            return f"{self.url()}  (Ctrl-C stops; scripts need a token: set {TOKEN_VARIABLE})"
        where = f"the one in {TOKEN_VARIABLE}" if self.is_own_token else "as in this address"
        return f"{self.url()}  (Ctrl-C stops; a browser logs in with the token, {where})"

    def is_known(self, authority: str) -> bool:
        """Return whether a Host header names this server; a page elsewhere can point a name at it, but no address."""
        name = _name_of(authority)
        if is_loopback(name) or name in self.names:
            return True
        return not is_loopback(self.host) and _address(name) is not None

    def is_token(self, value: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(value.encode(), self.token.encode())


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address."""
    address = _address(host)
    return address.is_loopback if address else host == "localhost"


class Guard:
    """Middleware that lets through only requests of known names and origins, from any sender.

    Args:
        app: The application.
        access: Names and token.
        methods: HTTP methods that it has.
        headers: More headers of every response.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        methods: frozenset[str] = READING | {"POST"},
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._app, self._access, self._methods = app, access, methods
        self._headers = {**_HEADERS, **(headers or {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        if scope["type"] == "http":
            await (self._refusal(scope) or self._app)(scope, receive, guarded)
        elif scope["type"] == "websocket" and self._refusal(scope):
            await WebSocketClose(_VIOLATION)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the response to what the application must not see."""
        request, method = HTTPConnection(scope), scope.get("method", "GET")
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or not self._access.is_known(hosts[0]):
            return _text("not a name of this server: SHABERI_ALLOWED_HOSTS adds names", 421)
        if self._is_foreign(request, method, hosts[0]):
            return _text("a request of another site", 403)
        if method not in self._methods:
            return PlainTextResponse("no such method here\n", 405, {"Allow": ", ".join(sorted(self._methods))})
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        has_token = scheme.lower() == "bearer" and self._access.is_token(token.strip())
        if not has_token and (refusal := self._without_token(request, method)):
            return refusal
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if method not in READING and media_type != "application/json":
            return _text("only application/json", 415)
        return None

    def _is_foreign(self, request: HTTPConnection, method: str, host: str) -> bool:
        """Return whether a page of another origin makes the request; it may be a link that leads here."""
        known = {host.lower(), *self._access.origins}
        if any(origin.lower().partition("://")[2] not in known for origin in request.headers.getlist("origin")):
            return True
        site, mode, destination = (request.headers.get(f"sec-fetch-{name}") for name in ("site", "mode", "dest"))
        is_link = method in READING and (mode, destination) == ("navigate", "document")
        return site in {"cross-site", "same-site"} and not is_link

    def _without_token(self, request: HTTPConnection, method: str) -> Response | None:
        """Return the response to a browser that logs in, or to a client that shows neither a cookie nor an origin."""
        parameters = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(parameters).get(_PARAMETER, "")
        if method == "GET" and self._access.is_token(given):
            kept = urlencode([(name, value) for name, value in parameters if name != _PARAMETER])
            path = "/" + quote(request.scope["path"]).lstrip("/")
            response = RedirectResponse(path + (f"?{kept}" if kept else ""), 303)
            response.set_cookie(self._access.cookie, given, httponly=True, samesite="strict")
            return response
        if self._access.needs_login and not self._access.is_token(request.cookies.get(self._access.cookie, "")):
            is_page = "text/html" in request.headers.get("accept", "")
            return HTMLResponse(_LOGIN, 403) if is_page else _text(_SCRIPT, 403)
        only_reads = method in READING and request.scope["type"] == "http"
        return None if only_reads or "origin" in request.headers else _text(_SCRIPT, 403)


def _text(message: str, status: int) -> Response:
    return PlainTextResponse(f"{message}\n", status)


def _name_of(authority: str) -> str:
    """Return a host without the port; `::1` of an option is as `[::1]` of a header."""
    if _address(authority) is not None:
        return authority.lower()
    name, colon, port = authority.rpartition(":")
    return (name if colon and port.isdigit() else authority).lower()


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
