"""How long the pages of `shaberi view` take over a lake: what a browser waits for, each made anew three times.

    python perf/view.py path/to/warehouse --word 渋谷

The two models with most judges are compared. At the end the lake as one file: its size, and with --browser how long
Chromium takes to draw it from the disk.

With --pictures FOLDER it takes the pictures of README and docs/viewer.md anew instead, from an imported history of the
old suite (`shaberi import-legacy shisa=path/to/tree lightblue=path/to/other`). They show published runs and questions
of Rakuda (MIT). Pictures with answers are of invented models:
SHABERI_SCREENSHOTS=docs/images pytest tests/e2e/test_view.py -k pictures
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.viewer.html import about_lake, write_html
from shaberi_dagster.viewer.requests import FileRequest
from shaberi_dagster.viewer.web.address import PageAddress, page_url
from shaberi_dagster.viewer.web.pages import Source

_LARGEST = """
select run_id from metrics where null_policy = 'legacy' and pipeline = 'baseline'
group by run_id order by count(distinct benchmark) desc, count(distinct judge) desc, run_id limit 2
"""

_PAIR = "m=unsloth__phi-4@@legacy-shisa&m=ablation-176-a175.finaldpo2-shisa-v2-llama-3.1-8b@@legacy-shisa"
_PICTURES = {
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
    parser.add_argument("--word", default="渋谷")
    parser.add_argument("--browser", help="Path of a Chromium, to draw the file.")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="take pictures instead")
    options = parser.parse_args()
    if options.pictures:
        _take_pictures(options.warehouse, options.pictures, options.browser)
        return
    with closing(open_catalog(options.warehouse)) as catalog:
        models = tuple(("m", run_id) for (run_id,) in catalog.execute(_LARGEST).fetchall())
        ((n,),) = catalog.execute("select count(*) from judgements").fetchall()
        ((question_set, judge),) = catalog.execute(
            "select question_set, judge from metrics group by all order by count(*) desc limit 1"
        ).fetchall()
    print(f"{n:,} judgements")  # noqa: T201
    addresses = {
        "leaderboard": PageAddress("/"),
        "leaderboard of a judge": PageAddress("/", (("judge", judge),)),
        "questions of two models": PageAddress("/questions", models),
        "side by side": PageAddress("/question", (*models, ("set", question_set), ("position", "5"))),
        "comparison": PageAddress("/compare", models),
        "judges": PageAddress("/judges"),
        "runs": PageAddress("/runs"),
        "a word in all answers": PageAddress("/search", (("q", options.word),)),
        "a word in no answer": PageAddress("/search", (("q", "zzzyyyxxx"),)),
    }
    started = time.perf_counter()
    with served(options.warehouse) as url:
        print(f"{'up':<24} {time.perf_counter() - started:.2f} s")  # noqa: T201
        for name, address in addresses.items():
            print(f"{name:<24} {' '.join(_timed(url, address, take) for take in range(3))}")  # noqa: T201
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        print(f"{'one file':<24} {_written(options.warehouse, file)}")  # noqa: T201
        if options.browser:
            print(f"{'drawn':<24} {_drawn(file, options.browser):.2f} s")  # noqa: T201


def _timed(url: str, address: PageAddress, take: int) -> str:
    # The same address would be answered from memory.
    asked = page_url(address.path, [*address.items, ("take", str(take))])
    started = time.perf_counter()
    with urllib.request.urlopen(url + asked.removeprefix("/")) as page:  # noqa: S310
        size = len(page.read())
    return f"{1000 * (time.perf_counter() - started):6,.0f} ms ({size / 1000:,.0f} KB)"


def _written(warehouse: Path, file: Path) -> str:
    started, worked = time.perf_counter(), time.process_time()
    with closing(open_catalog(warehouse)) as catalog:
        source = Source(catalog, warehouse)
        file.write_text(write_html(source, about_lake(source, FileRequest()), datetime.now(UTC)), encoding="utf-8")
    seconds, work = time.perf_counter() - started, time.process_time() - worked
    return f"{file.stat().st_size / 1e6:.2f} MB in {seconds:.1f} s ({work:.1f} s of CPU)"


def _drawn(file: Path, browser: str) -> float:
    """Seconds from the address to the heat map of all scores."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"]).new_page()
        started = time.perf_counter()
        page.goto(file.as_uri())
        page.locator("#scores[data-drawn]").wait_for(state="attached")
        return time.perf_counter() - started


def _take_pictures(warehouse: Path, folder: Path, browser: str | None) -> None:
    from playwright.sync_api import sync_playwright

    with served(warehouse) as url, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        for name, (address, height) in _PICTURES.items():
            page = chromium.new_page(viewport={"width": 1280, "height": height}, color_scheme="light")
            reply = page.goto(url.removesuffix("/") + address)
            if reply is None or not reply.ok:
                sys.exit(f"{address}: {page.inner_text('main')}")
            page.screenshot(path=folder / f"view-{name}.png")


@contextmanager
def served(warehouse: Path) -> Iterator[str]:
    """The address of the viewer, as soon as it says it."""
    command = [str(Path(sys.executable).with_name("shaberi")), "view", "--no-open", "--port", "0"]
    environment = os.environ | {"SHABERI_WAREHOUSE": str(warehouse)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as server:  # noqa: S603
        assert server.stderr is not None  # noqa: S101
        try:
            yield server.stderr.readline().split()[0].decode()
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
