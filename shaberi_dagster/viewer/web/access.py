"""Who may read, and what a page may do: checked for every request, before any page is made."""

import hmac
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "shaberi_token"
TOKEN = "token"  # noqa: S105  (the name of the parameter)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a page may load: our own script and style sheet, nothing else."""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Access:
    """Who may read.

    Attributes:
        hosts: Names under which the server is asked; a page of another site that points a name of its own at this
            machine asks under that name.
        token: What a reader must know; None: nothing.
    """

    hosts: frozenset[str]
    token: str | None = None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def hosts_of(host: str) -> frozenset[str]:
    """The names under which a server that listens on an address may be asked; none: all, as nobody can know them."""
    if is_loopback(host):
        return frozenset({*_LOOPBACK_NAMES, _as_host(host)})
    return frozenset()


class Guard:
    """Lets through what only reads, under a known name, by somebody who knows the token.

    Args:
        app: The pages.
        access: Who may read.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refused = self._refusal(scope)
        await (refused or self._app)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        if scope["method"] not in {"GET", "HEAD"}:
            return PlainTextResponse("only GET\n", 405, {"Allow": "GET, HEAD"})
        headers = Headers(scope=scope)
        if self._access.hosts and _name_of(headers.get("host", "")) not in self._access.hosts:
            return PlainTextResponse("not a name of this server\n", 421)
        return self._without_token(scope, headers) if self._access.token else None

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        parameters = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in parameters if name == TOKEN]
        if given and self._is_token(given[0]):
            kept = urlencode([one for one in parameters if one[0] != TOKEN])
            response = RedirectResponse(quote(scope["path"]) + (f"?{kept}" if kept else ""), 303)
            response.set_cookie(COOKIE, given[0], httponly=True, samesite="strict")
            return response
        if any(self._is_token(value) for value in _cookies(headers.getlist("cookie"))):
            return None
        return PlainTextResponse("open the address that `shaberi view` printed: it has the token\n", 403)

    def _is_token(self, value: str) -> bool:
        return hmac.compare_digest(value.encode(), (self._access.token or "").encode())


def _cookies(headers: Iterable[str]) -> list[str]:
    values = []
    for header in headers:
        try:
            values += [one.value for name, one in SimpleCookie(header).items() if name == COOKIE]
        except CookieError:
            continue
    return values


def _name_of(host: str) -> str:
    """The name in a Host header, without the port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def _as_host(address: str) -> str:
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
