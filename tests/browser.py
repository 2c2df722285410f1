"""A real Chromium that does nothing in the background."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from tests.conftest import BROWSER

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def running_browser(*flags: str) -> Iterator[Browser]:
    """A browser that is closed with the context.

    Args:
        flags: More of its command.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=[*_FLAGS, *flags])
        yield browser
        browser.close()
