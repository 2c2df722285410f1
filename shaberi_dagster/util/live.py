"""Progress on a terminal: one live line per stage and benchmark, and one of all together."""

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import UnsupportedOperation
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from shaberi_dagster.util.progress import LogReporter, Overall, Reporter, StageProgress, duration, time_left
from shaberi_dagster.util.streams import outliving
from shaberi_dagster.util.text import printable, truncate, width_of

_REFRESHES_PER_SECOND = 8
_NUMBERS = ("done", "failed", "calls/s", "limit", "ETA", "tokens")
_DROPPED_FIRST = ("limit", "calls/s", "tokens")  # where the terminal is too narrow for the names
_LONGEST_STAGE = len("judgements mt_bench")
_GAP = 2
_NARROWEST_BAR, _WIDEST_BAR = 6, 32  # the bar gets what the names leave, and goes first
_ROWS_KEPT_FREE = 4  # header, the line about hidden rows, that of all together, and one for what is printed beside
_UNKNOWN = "-"
_THOUSANDS_FROM, _MILLIONS_FROM = 10_000, 999_950


def reporter_for(stream: TextIO) -> Reporter:
    """Return a live display if the stream is a terminal that can show one, else plain lines.

    Both write to where the stream leads now: Dagster points the descriptor to a file of its own while it works.

    Args:
        stream: Where progress goes; stderr, so that stdout stays the command's result.
    """
    console = Console(file=_kept(stream))
    if console.file.isatty() and not console.is_dumb_terminal:
        return LiveReporter(console)
    return LogReporter(lambda line: print(printable(line), file=console.file, flush=True))


def _kept(stream: TextIO) -> TextIO:
    """Return the same file or terminal by a descriptor of its own; the stream itself if it has none."""
    try:
        descriptor = os.dup(stream.fileno())
    except UnsupportedOperation:
        return stream
    return outliving(descriptor, stream)


class LiveReporter:
    """Redraws all lines a few times a second from their counters, however often they change.

    The thread of the display reads the counters, so `changed` may be called from any thread and only notes which
    lines exist and when they ended.

    Args:
        console: The terminal.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._overall = Overall()
        self._ended: dict[int, float] = {}

    def watching(self) -> AbstractContextManager[object]:
        """Show lines until the context ends; they stay on the terminal then, also after Ctrl-C."""
        return nullcontext() if self._live else self._showing()

    @contextmanager
    def _showing(self) -> Iterator[None]:
        self._live = Live(
            console=self._console,
            get_renderable=self._display,
            refresh_per_second=_REFRESHES_PER_SECOND,
            redirect_stdout=False,  # stdout may be a pipe or a file; only stderr shares the terminal with us
        )
        try:
            with self._live:
                yield
        finally:
            self._live = None
            self._overall, self._ended = Overall(), {}

    def expect(self, items: int) -> None:
        """Also show all lines together."""
        self._overall.expected = items

    def changed(self, line: StageProgress) -> None:
        """Note that the line exists or has ended; costs a microsecond."""
        key = id(line)
        self._overall.add(line)
        if line.done < line.total:
            self._ended.pop(key, None)
        elif key not in self._ended:
            self._ended[key] = time.monotonic()

    def note(self, text: str) -> None:
        """Print the sentence above the live lines."""
        self._console.print(Text(printable(text)))

    def _display(self) -> Group:
        overall = [Text(truncate(str(self._overall), self._console.width))] if self._overall.expected else []
        return Group(self._table(), *overall)

    def _table(self) -> Table:
        lines = list(self._overall.lines)
        live = self._live is not None and self._live.is_started  # else it is the last frame, which may scroll
        hidden = _hidden(lines, self._console.height - _ROWS_KEPT_FREE) if live else set()
        rows = [_numbers(line, self._ended.get(id(line))) for line in lines]
        widths = {title: max(len(title), *(len(row[title]) for row in rows), 0) for title in _NUMBERS}
        room = self._console.width - sum(widths.values()) - _GAP * len(widths)
        for title in _DROPPED_FIRST:
            if room < _LONGEST_STAGE:
                room += widths.pop(title) + _GAP
        longest = max((width_of(_name(line)) for line in lines), default=0)
        bar = min(room - longest - _GAP, _WIDEST_BAR)
        names = room if bar < _NARROWEST_BAR else room - bar - _GAP
        table = Table(
            box=None,
            pad_edge=False,
            padding=(0, _GAP, 0, 0),
            header_style="dim",
            show_header=bool(lines),
        )
        table.add_column("stage", width=names, no_wrap=True)
        if bar >= _NARROWEST_BAR:
            table.add_column(width=bar)
        for title, width in widths.items():
            table.add_column(title, width=width, justify="right", no_wrap=True)
        if hidden:
            table.add_row(Text(truncate(f"({len(hidden)} finished)", names), style="dim"))
        for line, row in zip(lines, rows, strict=True):
            if id(line) not in hidden:
                bars = [_bar(line, bar)] if bar >= _NARROWEST_BAR else []
                cells = (Text(row[title], style=_style(title, line)) for title in widths)
                table.add_row(Text(_short_name(line, names)), *bars, *cells)
        return table


def _hidden(lines: list[StageProgress], room: int) -> set[int]:
    """Find the oldest finished lines, as many as do not fit."""
    finished = [id(line) for line in lines if line.done >= line.total]
    return set(finished[: max(len(lines) - room, 0)])


def _name(line: StageProgress) -> str:
    return printable(" ".join(part for part in (line.stage, line.benchmark, line.label) if part))


def _short_name(line: StageProgress, width: int) -> str:
    """Write the name in `width` columns; a label loses its beginning, since names of models differ at the end."""
    name, label = _name(line), printable(line.label)
    if width_of(name) <= width or not label:
        return truncate(name, width)
    start = name.removesuffix(label)
    room = width - width_of(start) - 1
    if room <= 0:
        return truncate(start.rstrip(), width)
    while width_of(label) > room:
        label = label[1:]
    return f"{start}…{label}"


def _bar(line: StageProgress, width: int) -> ProgressBar:
    return ProgressBar(total=max(line.total, 1), completed=line.done if line.total else 1, width=width)


def _numbers(line: StageProgress, ended: float | None) -> dict[str, str]:
    elapsed = max((ended or time.monotonic()) - line.started, 1e-9)
    return {
        "done": f"{line.done}/{line.total}",
        "failed": str(line.failed),
        "calls/s": f"{line.calls / elapsed:.1f}" if line.calls else _UNKNOWN,
        "limit": str(line.limit) if line.limit else _UNKNOWN,
        "ETA": _eta(line, elapsed),
        "tokens": _count(line.prompt_tokens + line.completion_tokens) if line.calls else _UNKNOWN,
    }


def _style(title: str, line: StageProgress) -> str:
    if title != "failed":
        return ""
    return "bold red" if line.failed else "dim"


def _eta(line: StageProgress, elapsed: float) -> str:
    """Write the time left; the time taken when all is done."""
    left = time_left([line], line.total, elapsed)
    if left is None:
        return _UNKNOWN
    return duration(left) if left else f"in {duration(elapsed)}"


def _count(number: int) -> str:
    """Write a number exactly up to 9,999, then with three digits or more: `62.2k`, `1.23M`."""
    if number < _THOUSANDS_FROM:
        return f"{number:,}"
    return f"{number / 1e3:.1f}k" if number < _MILLIONS_FROM else f"{number / 1e6:.2f}M"
