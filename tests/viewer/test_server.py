"""The server beside its pages: what it makes before it is asked, and which connections to the lake it keeps."""

import gc
import threading
import time
import weakref

import polars as pl
import pytest
import uvicorn

from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.viewer.web import server
from shaberi_dagster.viewer.web.address import PageAddress
from shaberi_dagster.viewer.web.pages import PAGES
from shaberi_dagster.viewer.web.server import Pages, serve
from shaberi_dagster.viewer.web.templates import Shown
from tests.viewer.site import make_lake

pytestmark = pytest.mark.integration

A_PAGE = Shown("message.html", "A page", {"message": "made"})


@pytest.fixture
def lake(workspace: Workspace, tmp_path):
    make_lake(workspace, tmp_path / "tree")
    return workspace.lake


@pytest.mark.long
def test_of_pages_that_were_made_at_once_two_connections_stay_and_none_of_the_lake_as_it_was(lake):
    seen = []
    at_once = threading.Barrier(4, timeout=60)

    def page(source, _):
        seen.append(weakref.ref(source.catalog))
        at_once.wait()
        return A_PAGE

    pages = Pages(lake.folder)
    made = [threading.Thread(target=pages.html, args=(page, PageAddress(f"/{number}"))) for number in range(4)]
    for one in made:
        one.start()
    for one in made:
        one.join()
    gc.collect()
    assert (len(seen), sum(one() is not None for one in seen)) == (4, 2)

    lake.append("runs", lake.read("runs").head(1).with_columns(run_id=pl.lit("m@@new")))
    pages.html(lambda *_: A_PAGE, PageAddress("/"))
    assert [one() for one in seen] == [None] * 4


@pytest.mark.parametrize(("seconds", "said"), [(0, "made, http"), (0.5, "http")], ids=["quick", "slow"])
def test_the_page_to_begin_with_is_made_before_its_address_is_told_unless_it_takes_long(
    seconds, said, lake, monkeypatch
):
    events, is_made = [], threading.Event()

    def page(*_):
        time.sleep(seconds)
        events.append("made")
        is_made.set()
        return A_PAGE

    monkeypatch.setitem(PAGES, "/runs", page)
    monkeypatch.setattr(server, "_LONGEST_AHEAD_SECONDS", 0.1 if seconds else 60)
    monkeypatch.setattr("builtins.print", lambda text, **_: events.append(text.partition(":")[0]))
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_: None)
    serve(lake.folder, "127.0.0.1", 0, "/runs?text=x", open_browser=False)
    assert ", ".join(events) == said
    assert is_made.wait(60)
