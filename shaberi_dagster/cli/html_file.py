"""`--html` of commands: pages of the viewer as one file to send."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import typer

from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.viewer.html import Contents, write_html
from shaberi_dagster.viewer.web.pages import Source


def write_file(target: Path, warehouse: Path, about: Callable[[Source], Contents]) -> None:
    """Write the file, and say on stderr how large it is.

    Args:
        target: Where to; its folder is made.
        warehouse: The lake.
        about: What is in it.

    Raises:
        ConfigurationError: It cannot be about that.
    """
    with open_catalog(warehouse) as catalog:
        source = Source(catalog, warehouse)
        text = write_html(source, about(source), datetime.now(UTC))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    typer.echo(f"{target}: {len(text.encode()) / 1e6:.1f} MB", err=True)
