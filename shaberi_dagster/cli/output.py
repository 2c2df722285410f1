"""Output of commands: results on stdout, all else on stderr."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import IO, Any

from rich.console import Console

from shaberi_dagster.reports.blocks import Document
from shaberi_dagster.reports.write import write
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.permissions import user_umask

_ENDLESS = 100_000
_PATIENCE_SECONDS = 0.7


def show(document: Document, output_format: str = "table") -> None:
    """Print tables, which are as wide as the terminal, or as a log usually is."""
    write(document, output_format, Console())


def say(document: Document, *, as_json: bool = False) -> None:
    """Print sentences, for people or as JSON; a file or a pipe has no width."""
    write(document, "json" if as_json else "table", endless_console())


def endless_console() -> Console:
    """Stdout for texts: a file or a pipe has no width."""
    return Console(width=None if sys.stdout.isatty() else _ENDLESS)


def lines_left(used: int) -> int:
    """Return how many lines a terminal has beside those that are used, at least five; 0 (all) without a terminal."""
    return max(Console().height - used, 5) if sys.stdout.isatty() else 0


def opened(file: Path, mode: str = "w") -> IO[Any]:
    """A file to write, with the mode of any file of the user's.

    Raises:
        ConfigurationError: It cannot be written.
    """
    try:
        with user_umask():
            encoding = "utf-8-sig" if file.suffix == ".csv" else "utf-8"  # without its mark Excel reads no UTF-8
            return file.open(mode) if "b" in mode else file.open(mode, encoding=encoding, newline="")
    except OSError as error:
        raise ConfigurationError(f"--output {file} cannot be written: {error.strerror}") from error


def put(text: str, file: Path | None = None) -> None:
    """Write a text into a file, whose folder is made; None: onto stdout."""
    if file is None:
        sys.stdout.write(text)
    else:
        with user_umask():
            file.parent.mkdir(parents=True, exist_ok=True)
        with opened(file) as target:
            target.write(text)


@contextmanager
def waiting(text: str = "reading the lake") -> Iterator[None]:
    """Say on a terminal what takes longer than people wait for without a word."""
    status = Console(stderr=True).status(text)
    timer = Timer(_PATIENCE_SECONDS, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


def tell(*texts: str) -> None:
    """Say something beside the result, on stderr, a line each."""
    for text in texts:
        print(text, file=sys.stderr, flush=True)  # noqa: T201
