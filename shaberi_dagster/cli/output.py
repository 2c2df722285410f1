"""What a command says on stdout."""

import sys

from rich.console import Console

from shaberi_dagster.rendering.document import Document, write

_ENDLESS = 1000


def say(document: Document, *, as_json: bool = False) -> None:
    """Print a document, for people or as JSON; a file or a pipe has no width."""
    write(document, "json" if as_json else "table", Console(width=None if sys.stdout.isatty() else _ENDLESS))
