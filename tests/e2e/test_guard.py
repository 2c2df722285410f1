"""The guard before real servers: pages of other sites in a real browser, scripts, a login, and a proxy."""

import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest
from dagster_graphql import DagsterGraphQLClient, DagsterGraphQLClientError
from playwright.sync_api import Browser, BrowserContext, Page, Response, expect

from shaberi_dagster.defs.cluster.parts import command_of
from shaberi_dagster.defs.execution import open_instance
from shaberi_dagster.defs.jobs import register
from shaberi_dagster.runs.spec import RunRequest
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.ports import free_ports
from tests.browser import running_browser
from tests.mock_endpoint import MockEndpoint, running_mock
from tests.running_ui import UiServer, running_ui
from tests.viewer.site import Site, make_lake, served

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.long]

_PROXY = "ui.example.org"
_NAMES = ["other-site.example", "rebound.example", _PROXY, socket.gethostname()]
_LOCATION = "shaberi_dagster.definitions"
_LAUNCH = """mutation { launchRun(executionParams: {runConfigData: "{}", selector: {jobName: "compact",
    repositoryName: "__repository__", repositoryLocationName: "shaberi_dagster.definitions"}}) { __typename } }"""
_RUNS = "query { runsOrError { ... on Runs { results { runId status } } } }"
_VERSION = "query { version }"
_CLICK_MILLISECONDS = 120_000

# Ways of a page to have a browser send something to an address; each is over when the browser is done with it.
_ATTACKS = {
    "an image": "new Promise(done => Object.assign(new Image(), {onload: done, onerror: done, src: address}))",
    "a script": """new Promise(done => document.head.append(
        Object.assign(document.createElement("script"), {onload: done, onerror: done, src: address})))""",
    "a frame": """new Promise(done => document.body.append(
        Object.assign(document.createElement("iframe"), {onload: done, src: address})))""",
    **{
        f"a form of {kind}": f"""new Promise(done => {{
            const frame = Object.assign(document.createElement("iframe"), {{name: "answer"}});
            const form = Object.assign(document.createElement("form"),
                {{method: "POST", enctype: "{kind}", action: address, target: "answer"}});
            form.append(Object.assign(document.createElement("input"), {{name: "query", value: query}}));
            document.body.append(frame, form);
            frame.onload = done;
            form.submit();
        }})"""
        for kind in ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
    },
    "fetch": "fetch(address).then(reply => reply.text())",
    "fetch without CORS": """fetch(address, {method: "POST", mode: "no-cors", credentials: "include",
        headers: {"Content-Type": "text/plain"}, body})""",
    "fetch of JSON without CORS": """fetch(plain, {method: "POST", mode: "no-cors", credentials: "include",
        body: new Blob([body], {type: "text/plain; application/json"})})""",
    "fetch of JSON": """fetch(plain, {method: "POST", headers: {"Content-Type": "application/json"}, body})
        .then(reply => reply.text())""",
    "a beacon": """(navigator.sendBeacon(address, new Blob([body], {type: "text/plain"})),
        new Promise(done => setTimeout(done, 2000)))""",
    "a WebSocket": """new Promise(done => {
        const socket = new WebSocket(plain.replace("http", "ws"), "graphql-ws");
        socket.onopen = () => done("opened");
        socket.onerror = () => done("refused");
    })""",
}
_RUN_ATTACK = """async ([plain, query, attack]) => {
    const address = plain + "?query=" + encodeURIComponent(query), body = JSON.stringify({query});
    try { return String(await eval(attack)) } catch (error) { return "failed" }
}"""


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    """A server on loopback, as by default."""
    with running_ui(tmp_path_factory.mktemp("ui")) as server:
        yield server


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiServer]:
    """A server for other machines, which a proxy has a name for."""
    place = tmp_path_factory.mktemp("remote")
    with running_ui(place, "--host", "0.0.0.0", SHABERI_ALLOWED_HOSTS=_PROXY) as server:
        yield server


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The pages of `shaberi view`."""
    place = tmp_path_factory.mktemp("view")
    settings = Settings.from_environment({"SHABERI_WAREHOUSE": str(place / "warehouse")})
    make_lake(Workspace(settings, environment={}), place / "tree")
    with served(place / "warehouse") as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for which several names are this machine."""
    names = ", ".join(f"MAP {name} 127.0.0.1" for name in _NAMES)
    expect.set_options(timeout=_CLICK_MILLISECONDS)
    with running_browser(f"--host-resolver-rules={names}", "--ignore-certificate-errors") as running:
        yield running


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A fresh profile."""
    context = browser.new_context(reduced_motion="reduce")
    context.set_default_timeout(_CLICK_MILLISECONDS)
    yield context
    context.close()


class _OtherSite(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Another site</title><body>")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def other_port() -> Iterator[int]:
    """The port of a server with pages of somebody else."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _OtherSite) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def _page_of(context: BrowserContext, origin: str, other_port: int, port: int) -> tuple[Page, str]:
    """A page of an origin, and the address of the server on a port as that page has it."""
    page = context.new_page()
    if origin != "rebound":
        page.goto(f"http://{origin}:{other_port}/")
        return page, f"http://127.0.0.1:{port}"
    # The page came from its own server; since then its name points at this machine.
    address = f"http://rebound.example:{port}"
    page.route(f"{address}/start", lambda route: route.fulfill(body="<!doctype html><body>", content_type="text/html"))
    page.goto(f"{address}/start")
    return page, address


@pytest.mark.parametrize("origin", ["127.0.0.1", "localhost", "other-site.example", "rebound"])
@pytest.mark.parametrize("attack", _ATTACKS)
def test_a_page_of_another_site_runs_nothing(
    attack: str, origin: str, ui: UiServer, context: BrowserContext, other_port: int
) -> None:
    page, address = _page_of(context, origin, other_port, ui.port)
    statuses: list[int] = []
    page.on("response", lambda response: statuses.append(response.status))

    result = page.evaluate(_RUN_ATTACK, [f"{address}/graphql", _LAUNCH, _ATTACKS[attack]])

    assert ui.ask(_RUNS)["results"] == []
    assert result != "opened"
    assert "launchRun" not in result
    assert set(statuses) <= {403, 421}


@pytest.mark.parametrize("origin", ["127.0.0.1", "other-site.example"])
def test_a_link_of_another_site_opens_a_page_and_runs_nothing(
    origin: str, ui: UiServer, context: BrowserContext, other_port: int
) -> None:
    page, address = _page_of(context, origin, other_port, ui.port)
    opened = _follow(page, f"{address}/graphql?query={quote(_LAUNCH)}")
    assert opened.status == 405
    page, _ = _page_of(context, origin, other_port, ui.port)  # the first one may still be on its way
    assert _follow(page, f"{address}/runs").status == 200
    assert ui.ask(_RUNS)["results"] == []


def _follow(page: Page, address: str) -> Response:
    """The response to a click on a link."""
    page.evaluate(
        "address => document.body.append(Object.assign(document.createElement('a'), {href: address}))", address
    )
    with page.expect_event("response", lambda response: response.url == address) as response:
        page.evaluate("document.querySelector('a').click()")
    return response.value


@pytest.mark.parametrize("origin", ["127.0.0.1", "localhost", "other-site.example", "rebound"])
@pytest.mark.parametrize("attack", ["an image", "a script", "a frame", "fetch", "fetch of JSON"])
def test_a_page_of_another_site_reads_nothing_of_the_viewer(
    attack: str, origin: str, site: Site, context: BrowserContext, other_port: int
) -> None:
    page, address = _page_of(context, origin, other_port, site.port)
    statuses: list[int] = []
    page.on("response", lambda response: statuses.append(response.status))

    result = page.evaluate(_RUN_ATTACK, [f"{address}/runs", "", _ATTACKS[attack]])

    assert "best" not in result
    assert set(statuses) <= {403, 421}
    assert all("best" not in frame.content() for frame in page.frames)


def test_the_own_pages_run_what_pages_of_others_do_not(ui: UiServer, context: BrowserContext) -> None:
    """The attacks would work: the same requests from the server's own page."""
    page = context.new_page()
    page.goto(f"{ui.url}/server_info")
    query = "query { version }"
    for attack in ("fetch of JSON", "a WebSocket"):
        result = page.evaluate(_RUN_ATTACK, [f"{ui.url}/graphql", query, _ATTACKS[attack]])
        assert result == "opened" or "version" in json.loads(result)["data"]


def test_a_script_needs_the_token(ui: UiServer, remote: UiServer) -> None:
    for server in (ui, remote):
        assert _status(server, {}) == 403
        assert _status(server, {"Authorization": "Bearer 0123456789abcdef"}) == 403
        assert _status(server, {"Authorization": f"Bearer {server.token}"}) == 200
        with pytest.raises(DagsterGraphQLClientError, match="403"):
            DagsterGraphQLClient("127.0.0.1", server.port).get_run_status("none")
        headers = {"Authorization": f"Bearer {server.token}"}
        client = DagsterGraphQLClient("127.0.0.1", server.port, headers=headers)
        with pytest.raises(DagsterGraphQLClientError, match="RunNotFound"):
            client.get_run_status("none")


def _status(server: UiServer, headers: dict[str, str]) -> int:
    """The status that a query by a script gets."""
    body = json.dumps({"query": _VERSION}).encode()
    request = urllib.request.Request(f"{server.url}/graphql", body, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_no_other_port_is_open(ui: UiServer) -> None:
    """Code servers listen on Unix sockets."""
    assert _ports_of_session(ui.process.pid) == {ui.port}


def _ports_of_session(leader: int) -> set[int]:
    """TCP ports on which processes of a session listen."""
    listening = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text(encoding="utf-8").splitlines()[1:]:
            _, local, _, state, *fields = line.split()
            if state == "0A":
                listening[f"socket:[{fields[5]}]"] = int(local.rpartition(":")[2], 16)
    opened = {file for process in _session(leader) for file in _open_files(process)}
    return {port for name, port in listening.items() if name in opened}


def _open_files(process: int) -> set[str]:
    """What the descriptors of a process lead to; a process that ends or closes one meanwhile has no port there."""
    names = set()
    with suppress(FileNotFoundError, ProcessLookupError):
        for descriptor in Path("/proc", str(process), "fd").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                names.add(str(descriptor.readlink()))
    return names


@pytest.mark.timeout(600)
def test_a_browser_logs_in_once_and_the_whole_ui_works(remote: UiServer, context: BrowserContext) -> None:
    assert remote.token not in remote.said()
    page = context.new_page()
    form = page.goto(f"{remote.url}/overview?tab=x")
    assert form is not None
    assert form.status == 403
    assert page.request.get(f"{remote.url}/favicon.png").status == 403
    page.get_by_label("Token").fill("wrong-wrong-wrong-wrong")
    page.get_by_role("button", name="Log in").click()
    page.get_by_label("Token").fill(remote.token)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(lambda url: "token" not in url)
    (cookie,) = [cookie for cookie in context.cookies() if cookie.get("value") == remote.token]
    assert (cookie.get("httpOnly"), cookie.get("sameSite"), cookie.get("path")) == (True, "Strict", "/")
    assert str(remote.port) in cookie["name"]
    with running_mock() as mock:
        _backfill_and_look_on(remote, page, mock)
    for name, status in ((socket.gethostname(), 403), ("other-site.example", 421)):  # a cookie is of its host
        response = page.goto(f"http://{name}:{remote.port}/")
        assert response is not None
        assert response.status == status


def _backfill_and_look_on(server: UiServer, page: Page, mock: MockEndpoint) -> None:
    """Start a backfill in the UI, and see the events of its run arrive over the WebSocket."""
    settings = Settings.from_environment(server.environment)
    for name in ("first", "second"):
        request = RunRequest(
            model=name, base_url=mock.base_url, judge_base_url=mock.base_url, judge_models=["judge"],
            benchmarks=["rakuda"], limit=2,
        )  # fmt: skip
        with open_instance(settings.dagster_home) as instance:
            register(request, Workspace(settings, environment={}), instance)
    frames: list[str] = []
    page.on("websocket", lambda opened: opened.on("framereceived", lambda frame: frames.append(str(frame))))
    page.goto(f"{server.url}/locations/{_LOCATION}/jobs/evaluate")
    page.get_by_role("button", name="Materialize all").click()
    page.get_by_role("button", name="All", exact=True).click()
    page.get_by_role("button", name="Launch backfill").click()
    run, *_ = server.wait_for(lambda: server.ask(_RUNS)["results"])
    assert run["status"] != "SUCCESS"
    page.goto(f"{server.url}/runs/{run['runId']}")
    server.wait_for(lambda: page.wait_for_timeout(200) or any("RunSuccessEvent" in frame for frame in frames))
    expect(page.get_by_text("Success", exact=True).first).to_be_visible()


def test_behind_a_proxy_with_tls_the_ui_works_under_its_name(
    remote: UiServer, context: BrowserContext, tmp_path: Path
) -> None:
    with _tls_proxy(remote.port, tmp_path) as port:
        page = context.new_page()
        page.goto(f"https://{_PROXY}:{port}/runs?token={remote.token}")
        expect(page.get_by_text("Failed", exact=True).or_(page.get_by_text("No runs")).first).to_be_visible()
        own = page.evaluate(_RUN_ATTACK, [f"https://{_PROXY}:{port}/graphql", _VERSION, _ATTACKS["fetch of JSON"]])
        assert "version" in json.loads(own)["data"]
        opened = page.evaluate(_RUN_ATTACK, [f"https://{_PROXY}:{port}/graphql", "", _ATTACKS["a WebSocket"]])
        assert opened == "opened"
        refused = page.goto(f"https://other-site.example:{port}/")
        assert refused is not None
        assert refused.status == 421


@contextmanager
def _tls_proxy(port: int, folder: Path) -> Iterator[int]:
    """The port of a server that decrypts, and passes everything on."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 2"
    command = ["openssl", *options.split(), "-subj", f"/CN={_PROXY}", "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def serve(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, server = listening.accept()[0], socket.create_connection(("127.0.0.1", port))
                threading.Thread(target=pass_on, args=[client, server], daemon=True).start()

    def pass_on(client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), closing(server), tls.wrap_socket(client, server_side=True) as decrypted:
            threading.Thread(target=copy, args=[server, decrypted], daemon=True).start()
            copy(decrypted, server)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=[listening], daemon=True).start()
        yield listening.getsockname()[1]


def test_the_web_part_of_a_cluster_has_the_same_guard(ui: UiServer, context: BrowserContext, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    log = tmp_path / "web.log"
    environment = {name: value for name, value in ui.environment.items() if name != "SHABERI_UI_TOKEN"}
    with log.open("wb") as output:
        web = subprocess.Popen(
            command_of("web", "0.0.0.0", port), env=environment, stderr=output, start_new_session=True
        )
    try:
        ui.wait_for(lambda: "token=" in log.read_text())
        address = log.read_text().split()[4]
        assert _status(UiServer(environment, port, "", log, ui.process), {}) == 403
        page = context.new_page()
        page.goto(address)
        expect(page.get_by_text("Runs", exact=True).first).to_be_visible()
        assert _ports_of_session(web.pid) == {port}
        web.terminate()
        web.wait(60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(web.pid, signal.SIGKILL)
        web.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_ui_with_all_its_processes(number: signal.Signals, tmp_path: Path) -> None:
    with running_ui(tmp_path) as server:
        processes = _session(server.process.pid)
        server.process.send_signal(number)
        assert server.process.wait(60) == 130
        server_log = server.said()
        assert len(processes) > 1
        for _ in range(1_500):  # a code server that missed the word ends 45 to 90 seconds after the last heartbeat
            if not (left := _session(server.process.pid)):
                break
            threading.Event().wait(0.1)
        assert not left
        assert "Traceback" not in server_log


def _session(leader: int) -> list[int]:
    """The processes of a session."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(process.name)) == leader:
                found.append(int(process.name))
    return found
