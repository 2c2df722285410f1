"""Take the pictures of README and docs/viewer.md anew, from an imported history of the old suite.

    shaberi import-legacy shisa=path/to/tree lightblue=path/to/other
    python -m perf.pictures path/to/warehouse

They show published runs and questions of Rakuda (MIT). Pictures with answers are of invented models:
SHABERI_SCREENSHOTS=docs/images pytest tests/e2e/test_view.py -k pictures
"""

import argparse
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from perf.view import served

_IMAGES = Path(__file__).parents[1] / "docs" / "images"
_PAIR = "m=unsloth__phi-4@@legacy-shisa&m=ablation-176-a175.finaldpo2-shisa-v2-llama-3.1-8b@@legacy-shisa"
_PAGES = {
    "leaderboard": ("/", 780),
    "questions": (f"/questions?{_PAIR}&set=rakuda@40&flag=loses", 620),
    "compare": (f"/compare?{_PAIR}", 780),
    "judges": ("/judges", 980),
}
"""Address and height by the name of the picture."""


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warehouse", type=Path)
    parser.add_argument("--images", type=Path, default=_IMAGES)
    parser.add_argument("--browser", help="Path of a Chromium.")
    options = parser.parse_args()
    with served(options.warehouse) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.browser, args=["--no-sandbox", "--disable-gpu"])
        for name, (address, height) in _PAGES.items():
            page = browser.new_page(viewport={"width": 1280, "height": height}, color_scheme="light")
            reply = page.goto(url.removesuffix("/") + address)
            if reply is None or not reply.ok:
                sys.exit(f"{address}: {page.inner_text('main')}")
            page.screenshot(path=options.images / f"view-{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
