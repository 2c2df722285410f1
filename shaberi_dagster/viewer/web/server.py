"""The server of `shaberi view`: a page for each address, made from the lake as it is when somebody asks."""

import sys
import threading
import webbrowser
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from shaberi_dagster.lake.catalog import logged_versions, open_catalog
from shaberi_dagster.lake.connections import within
from shaberi_dagster.lake.damage import damage_behind
from shaberi_dagster.lake.journal.tally import CostOf
from shaberi_dagster.lake.statements import Catalog
from shaberi_dagster.reports.requests import check_choice
from shaberi_dagster.util.errors import ConfigurationError, ShaberiError, StatementStoppedError
from shaberi_dagster.util.guard import READING, Access, Guard
from shaberi_dagster.util.ports import listen
from shaberi_dagster.viewer.web.address import PageAddress
from shaberi_dagster.viewer.web.pages import LIVE, PAGES, Page, Source, all_pages, whole_text
from shaberi_dagster.viewer.web.templates import STATIC, Shown, render

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content security policy: a page loads our own script and style sheet, nothing else."""
_HEADERS = {"Content-Security-Policy": POLICY, "Cache-Control": "no-store"}
_MOST_KEPT = 64
_LONGEST_REQUEST = 1_000_000  # bytes of an address with its headers
_LONGEST_AHEAD_SECONDS = 1.0
_LONGEST_SECONDS = 60.0  # of the statements of a page: who asked may be gone, and others wait


def build_app(pages: "Pages", access: Access) -> Starlette:
    """Build the app of all pages over a lake.

    Args:
        pages: What makes them.
        access: Who may read.
    """
    routes: list[BaseRoute] = [Route(path, partial(pages.answer, page)) for path, page in all_pages().items()]
    routes += [
        Route("/text", pages.whole_text),
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/{path:path}", _nothing_here),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, access=access, methods=READING, headers=_HEADERS)])


def serve(
    warehouse: Path, host: str, port: int, page: str = "/", *, open_browser: bool, cost_of: CostOf = lambda _: None
) -> None:
    """Serve the pages until Ctrl-C; the one to begin with is made before its address is shown.

    Args:
        warehouse: The lake.
        host: Address to listen on; one that other machines reach asks for a token, which is printed.
        port: Port; 0: any that is free.
        page: The page to begin with, as its address has it from the / on.
        open_browser: Whether to open it.
        cost_of: What calls cost that are in no lake yet.

    Raises:
        ConfigurationError: There is no lake or no such page, or the port is taken.
    """
    check_choice("PAGE", page.partition("?")[0], tuple(all_pages()))
    pages = Pages(warehouse, cost_of)
    listening = listen(host, port)
    access = Access.from_environment(host, listening.getsockname()[1])
    url = access.url(page)
    _make_ahead(pages, page)
    print(f"{url}  (Ctrl-C stops)", file=sys.stderr, flush=True)  # noqa: T201
    if open_browser:
        threading.Thread(target=webbrowser.open, args=[url], daemon=True).start()
    app = build_app(pages, access)
    with suppress(KeyboardInterrupt):
        uvicorn.Server(server_config(app)).run([listening])


def server_config(app: Starlette) -> uvicorn.Config:
    """Return how pages are served; what is wrong with a long address is said by its page, not by the protocol."""
    return uvicorn.Config(app, log_level="error", ws="none", http="h11", h11_max_incomplete_event_size=_LONGEST_REQUEST)


def _make_ahead(pages: "Pages", page: str) -> None:
    """Make a page before anybody asks for it, or begin to: of one that takes long no one waits to hear where it is."""
    path, _, query = page.partition("?")
    address = PageAddress(path, tuple(parse_qsl(query, keep_blank_values=True)))

    def make() -> None:
        with suppress(ShaberiError):  # the page says it
            pages.html(all_pages()[path], address)

    ahead = threading.Thread(target=make, daemon=True)
    ahead.start()
    ahead.join(_LONGEST_AHEAD_SECONDS)


class Pages:
    """Pages of a lake; those that were made last are kept for as long as the lake does not change.

    Args:
        warehouse: The lake.
        cost_of: What calls cost that are in no lake yet.
        seconds: What the statements of a page may take.

    Raises:
        ConfigurationError: There is no lake.
    """

    def __init__(self, warehouse: Path, cost_of: CostOf = lambda _: None, *, seconds: float = _LONGEST_SECONDS) -> None:
        self._warehouse, self._cost_of, self._seconds = warehouse, cost_of, seconds
        self._kept: dict[tuple[PageAddress, str], str] = {}
        # One that falls out is closed. That two pages are made at once is rare.
        self._idle: deque[Catalog] = deque([open_catalog(warehouse)], maxlen=2)

    def answer(self, page: Page, request: Request) -> Response:
        """A page, or what is wrong with its address."""
        address = _page_address(request)
        try:
            return HTMLResponse(self.html(page, address))
        except StatementStoppedError:
            told = f"the page was stopped after {self._seconds:g} s: ask for less of the lake"
            return HTMLResponse(_rendered(Shown("message.html", "Not now", {"message": told}), address), 503)
        except ShaberiError as error:
            title, status = ("Not found", 404) if isinstance(error, ConfigurationError) else ("Not now", 503)
            shown = Shown("message.html", title, {"message": str(error)})
        return HTMLResponse(_rendered(shown, address), status)

    def whole_text(self, request: Request) -> Response:
        """A text of which a page has the beginning only."""
        try:
            with self._catalog() as catalog, within(self._seconds, catalog):
                text = whole_text(Source(catalog, self._warehouse), _page_address(request))
        except ShaberiError as error:
            return PlainTextResponse(f"{error}\n", 404)
        return PlainTextResponse(text.encode("utf-8", "replace"))

    def html(self, page: Page, address: PageAddress) -> str:
        """A page."""
        with self._catalog() as catalog, within(self._seconds, catalog):
            key = address, repr(logged_versions(self._warehouse))
            if (kept := self._kept.get(key)) and address.path not in LIVE:
                return kept
            made = _rendered(page(Source(catalog, self._warehouse, self._cost_of), address), address)
        self._kept = dict([*self._kept.items(), (key, made)][-_MOST_KEPT:])
        return made

    @contextmanager
    def _catalog(self) -> Iterator[Catalog]:
        """A connection that no other page has; opening one takes as long as many a page."""
        former = None
        with suppress(IndexError):
            former = self._idle.pop()
        catalog = open_catalog(self._warehouse, former)
        if catalog is not former:
            self._idle.clear()  # they are of the lake as it was
        try:
            yield catalog
        except BaseException as error:
            catalog.close()
            if damage := damage_behind(
                error, self._warehouse, anyway=isinstance(error, Exception) and not isinstance(error, ShaberiError)
            ):
                raise damage from None
            raise
        self._idle.append(catalog)


def _nothing_here(request: Request) -> Response:
    return HTMLResponse(
        _rendered(Shown("message.html", "Not found", {"message": "no such page"}), _page_address(request)), 404
    )


def _rendered(shown: Shown, address: PageAddress) -> str:
    """A page that names the reports, plugins' among them, that nothing else leads to."""
    return render(shown, address, reports=[path for path in all_pages() if path not in PAGES])


def _page_address(request: Request) -> PageAddress:
    return PageAddress(request.url.path, tuple(request.query_params.multi_items()))
