"""Reports that are printed again while nothing has changed that decides them."""

import os
import re
import shutil
import sys
import sysconfig
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from shaberi_dagster.lake.files import kept, states_of
from shaberi_dagster.settings import MIRROR_MARK, plugin_folders, project_folder
from shaberi_dagster.util.lazy import lazily

with lazily(__name__):  # what is printed again needs none of it
    from rich import console as rich

    from shaberi_dagster.show import formats

if TYPE_CHECKING:
    from shaberi_dagster.reports.report import Document

# Of addresses and keys nothing depends that is shown.
_SETTING = re.compile(r"SHABERI_(?!.*(KEY|URL))|COLUMNS|LINES|TERM|COLORTERM|NO_COLOR|FORCE_COLOR|TTY_|LC_|LANG")
# Readers write the catalog anew, and processes that are at work their journals and locks.
_BESIDE_TABLES = re.compile(r"/(\.catalog-|catalog\.duckdb|_journal/|_locks/|__pycache__/)")
_MOST_KEPT = 8
"""Reports of a command that are kept: each has the place that a hash of its question gives it."""


class _Printed(StringIO):
    """A text that is drawn for stdout, whose encoding may lack the lines of tables."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return sys.stdout.encoding or "utf-8"


def show_once(
    name: str, warehouse: Path, question: object, make: Callable[[], "Document"], output_format: str = "table"
) -> None:
    """Print a report; the last few of a command are kept in the user's caches, and printed again where asked for.

    Args:
        name: Of the command, with which the names of the files begin.
        warehouse: The lake.
        question: All that was asked; its `repr` tells it from others.
        make: Reads the report from the lake.
        output_format: As for `output.show`.
    """

    def printed() -> bytes:
        own, text = rich.Console(), _Printed()
        looks: Any = {"force_terminal": own.is_terminal, "color_system": own.color_system, "no_color": own.no_color}
        console = rich.Console(file=text, width=own.width, height=own.height, **looks)
        formats.write(make(), output_format, console)
        return text.getvalue().encode()

    if (warehouse / MIRROR_MARK).exists():  # it does not know what the store has by now
        text = printed()
    else:
        asked = repr((question, output_format))
        slot = crc32(asked.encode()) % _MOST_KEPT
        text = kept(f"{name}-{slot}", repr((asked, _surroundings(warehouse))), printed)
    sys.stdout.write(text.decode())


def _surroundings(warehouse: Path) -> list[Any]:
    """The lake, the terminal, the settings, plugins, and this program, as they are now."""
    settings = {name: value for name, value in os.environ.items() if _SETTING.match(name)}
    folders = [warehouse, Path(__file__).parents[1], project_folder("sql"), *plugin_folders()]
    return [
        sorted(settings.items()),
        (sys.stdout.isatty(), sys.stdout.encoding, shutil.get_terminal_size()),
        (sys.version, [Path(sysconfig.get_path(name)).stat().st_mtime_ns for name in ("purelib", "platlib")]),
        [state for folder in folders for state in states_of(folder) if not _BESIDE_TABLES.search(state[0])],
    ]
