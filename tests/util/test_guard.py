"""The guard over ASGI: which requests and WebSockets reach the application."""

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.guard import READING, Access, Guard

pytestmark = pytest.mark.unit

_TOKEN = "0123456789abcdef/+="
_OWN = "http://127.0.0.1:3000"
_BEARER = {"Authorization": f"Bearer {_TOKEN}"}
_JSON = {"Content-Type": "application/json"}
_LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]


async def _page(_: Request) -> Response:
    return PlainTextResponse("made")


async def _socket(socket: WebSocket) -> None:
    await socket.accept()
    await socket.close()


def _access(host: str = "127.0.0.1", allowed: str = "") -> Access:
    environment = {"SHABERI_UI_TOKEN": _TOKEN, "SHABERI_ALLOWED_HOSTS": allowed}
    return Access.from_environment(host, 3000, environment)


def _client(access: Access, url: str = _OWN, **options: Any) -> TestClient:
    app = Starlette(
        routes=[Route("/{path:path}", _page, methods=_METHODS), WebSocketRoute("/{path:path}", _socket)],
    )
    return TestClient(Guard(app, access, **options), base_url=url, follow_redirects=False)


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {}, 200),
        ("HEAD", {}, 200),
        ("GET", {"Origin": _OWN}, 200),
        ("GET", {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors"}, 200),
        ("GET", {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 200),
        ("GET", _LINK, 200),
        ("POST", {"Origin": _OWN, **_JSON}, 200),
        ("POST", {"Origin": _OWN, "Content-Type": "application/json; charset=utf-8"}, 200),
        ("POST", {**_BEARER, **_JSON}, 200),
        # Pages of other sites.
        ("GET", {"Origin": "http://evil.example"}, 403),
        ("GET", {"Origin": "null"}, 403),
        ("GET", {"Origin": ""}, 403),
        ("GET", {"Origin": "http://127.0.0.1:8000"}, 403),
        ("GET", {"Origin": "http://localhost:3000"}, 403),
        ("GET", {"Origin": "http://127.0.0.1:3000.evil.example"}, 403),
        ("GET", {"Origin": "http://evil.example/?http://127.0.0.1:3000"}, 403),
        ("GET", {**_LINK, "Sec-Fetch-Dest": "iframe"}, 403),
        ("GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403),
        ("GET", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}, 403),
        ("POST", {**_LINK, **_JSON}, 403),
        ("POST", {"Origin": "http://evil.example", **_JSON}, 403),
        ("POST", {"Origin": "http://evil.example", **_JSON, **_BEARER}, 403),
        ("OPTIONS", {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}, 403),
        # Scripts without the token.
        ("POST", _JSON, 403),
        ("POST", {**_JSON, "Authorization": "Bearer wrong"}, 403),
        ("POST", {**_JSON, "Authorization": f"Basic {_TOKEN}"}, 403),
        ("POST", {**_JSON, "Cookie": f"shaberi_token_3000={_TOKEN}"}, 403),
        # Other bodies and methods.
        ("POST", {"Origin": _OWN}, 415),
        ("POST", {"Origin": _OWN, "Content-Type": "text/plain"}, 415),
        ("POST", {"Origin": _OWN, "Content-Type": "text/plain; application/json"}, 415),
        ("POST", {"Origin": _OWN, "Content-Type": "application/x-www-form-urlencoded"}, 415),
        ("POST", {**_BEARER, "Content-Type": "application/graphql"}, 415),
        *((method, {"Origin": _OWN, **_JSON}, 405) for method in _METHODS[2:]),
    ],
)
def test_on_this_machine_only_same_origin_json_or_the_token_changes_anything(
    method: str, headers: dict[str, str], status: int
) -> None:
    response = _client(_access()).request(method, "/graphql", headers=headers)

    assert response.status_code == status
    assert (response.text == "made") == (status == 200 and method != "HEAD")
    assert "access-control-allow-origin" not in response.headers
    assert response.headers["x-frame-options"] == "DENY"
    assert response.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("headers", "opens"),
    [
        ({"Origin": _OWN}, True),
        (_BEARER, True),
        ({}, False),
        ({"Authorization": "Bearer wrong"}, False),
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "http://localhost:8000"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://evil.example", "Host": "evil.example"}, False),
    ],
)
def test_a_websocket_opens_for_the_own_pages_and_the_token(headers: dict[str, str], opens: bool) -> None:
    client = _client(_access())
    if opens:
        with client.websocket_connect("/graphql", headers={"Host": "127.0.0.1:3000", **headers}):
            return
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("/graphql", headers={"Host": "127.0.0.1:3000", **headers}),
    ):
        pass


@pytest.mark.parametrize(
    ("listens", "allowed", "host", "is_known"),
    [
        ("127.0.0.1", "", "127.0.0.1:3000", True),
        ("127.0.0.1", "", "LOCALHOST:1", True),
        ("127.0.0.1", "", "[::1]:3000", True),
        ("localhost", "", "localhost", True),
        ("127.0.0.1", "", "evil.example:3000", False),
        ("127.0.0.1", "", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "", "localhost.evil.example:3000", False),
        ("127.0.0.1", "", "localhost.", False),
        ("127.0.0.1", "", "192.0.2.1:3000", False),
        ("127.0.0.1", "", "", False),
        ("127.0.0.1", "ui.example, box:81", "ui.example", True),
        ("127.0.0.1", "ui.example, box:81", "box:3000", True),
        ("127.0.0.1", "ui.example", "other.ui.example", False),
        ("0.0.0.0", "", "192.0.2.1:3000", True),
        ("0.0.0.0", "", "[2001:db8::1]:3000", True),
        ("0.0.0.0", "", "localhost:3000", True),
        ("0.0.0.0", "", "evil.example:3000", False),
        ("::", "", "evil.example", False),
        ("::", "Ui.Example", "ui.example:3000", True),
        ("box.example", "", "box.example:3000", True),
        ("box.example", "", "evil.example:3000", False),
    ],
)
def test_a_host_is_a_name_of_this_server(listens: str, allowed: str, host: str, is_known: bool) -> None:
    status = _client(_access(listens, allowed)).get("/", headers={"Host": host, **_BEARER}).status_code

    assert status == (200 if is_known else 421)


def test_beyond_loopback_nothing_is_shown_until_the_token_was_given_once() -> None:
    access = _access("0.0.0.0")
    client = _client(access, "http://192.0.2.1:3000")
    page = {"Accept": "text/html"}

    assert client.get("/style.css").status_code == 403
    form = client.get("/runs", headers=page)
    assert (form.status_code, 'name="token"' in form.text) == (403, True)
    assert client.get("/runs", params={"token": "wrong"}).status_code == 403
    assert client.post("/graphql", headers={"Origin": "http://192.0.2.1:3000", **_JSON}).status_code == 403
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/", headers={"Origin": "http://192.0.2.1:3000"}):
        pass

    opened = client.get("/runs", params={"token": _TOKEN, "text": "a&b"})
    assert (opened.status_code, opened.headers["location"]) == (303, "/runs?text=a%26b")
    assert (
        client.get("http://192.0.2.1:3000//evil.example/", params={"token": _TOKEN}).headers["location"]
        == "/evil.example/"
    )
    cookie = opened.headers["set-cookie"]
    assert cookie.startswith("shaberi_token_3000=")
    assert {"HttpOnly", "Path=/", "SameSite=strict"} == {part.strip() for part in cookie.split(";")[1:]}

    assert client.get("/runs").text == "made"
    assert client.post("/graphql", headers={"Origin": "http://192.0.2.1:3000", **_JSON}).text == "made"
    assert client.post("/graphql", headers=_JSON).status_code == 403
    own = {"Host": "192.0.2.1:3000", "Origin": "http://192.0.2.1:3000", "Cookie": cookie.partition(";")[0]}
    with client.websocket_connect("/", headers=own):
        pass
    client.cookies.clear()
    assert client.get("/runs", headers={"Cookie": f"shaberi_token_8080={_TOKEN}"}).status_code == 403
    assert client.get("/runs", headers=_BEARER).text == "made"


def test_behind_a_proxy_its_origin_is_fine_and_a_login_is_needed() -> None:
    client = _client(_access(allowed="ui.example.org"))
    own = {"Origin": "https://ui.example.org", **_JSON}

    assert client.get("/").status_code == 403
    client.get("/", params={"token": _TOKEN})
    assert client.post("/", headers=own).text == "made"
    assert client.post("/", headers={**own, "Host": "ui.example.org"}).text == "made"
    assert client.post("/", headers={**own, "Origin": "https://ui.example.org:8443"}).status_code == 403


def test_a_reader_has_no_other_method() -> None:
    client = _client(_access(), methods=READING)

    assert client.get("/").text == "made"
    assert client.post("/", headers={"Origin": _OWN, **_JSON}).status_code == 405
    assert client.post("/", headers={**_BEARER, **_JSON}).status_code == 405


@pytest.mark.parametrize(
    "token", ["short", "fifteen-letters", "with spaces and more", "日本語の十六文字より長い合言葉です"]
)
def test_a_token_that_is_short_or_fits_no_header_is_refused(token: str) -> None:
    with pytest.raises(ConfigurationError, match="SHABERI_UI_TOKEN needs 16 or more"):
        Access.from_environment("127.0.0.1", 3000, {"SHABERI_UI_TOKEN": token})


def test_the_address_has_a_token_only_where_a_browser_needs_one_that_nobody_chose() -> None:
    local, remote = (Access.from_environment(host, 3000, {"SHABERI_UI_TOKEN": ""}) for host in ("localhost", "0.0.0.0"))

    assert local.url("/runs?text=x") == "http://localhost:3000/runs?text=x"
    assert remote.url("/runs?text=x") == f"http://127.0.0.1:3000/runs?text=x&token={remote.token}"
    assert local.token != remote.token
    assert _TOKEN not in _access("0.0.0.0").greeting()
    assert _access("::").url() == "http://[::1]:3000/"
