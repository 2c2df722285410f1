import io
import os
import pty
import select
import subprocess
import sys
import time

import pytest
from rich.cells import cell_len
from rich.console import Console

from shaberi_dagster.util import live
from shaberi_dagster.util.live import LiveReporter, reporter_for
from shaberi_dagster.util.progress import LogReporter, StageProgress

pytestmark = pytest.mark.unit

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


def terminal(width=100, height=25):
    return Console(file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None)


def shown(lines, width=100):
    """What the display draws for the lines, as a terminal would show it."""
    console = terminal(width)
    reporter = LiveReporter(console)
    for line in lines:
        reporter.changed(line)
    console.print(reporter._table())
    return console.file.getvalue().splitlines()


def progress(stage="answers", benchmark="elyza", **counters):
    return StageProgress(stage, benchmark, **{"total": 100, "started": time.monotonic() - 10, **counters})


def test_a_line_shows_all_its_counters():
    line = progress(done=40, failed=3, calls=40, prompt_tokens=9_000, completion_tokens=53_200, limit=37)
    header, row = shown([line])
    assert header.split() == ["stage", "done", "failed", "calls/s", "limit", "ETA", "tokens"]
    cells = row.split()
    assert cells[:2] == ["answers", "elyza"]
    assert cells[-6:] == ["40/100", "3", "4.0", "37", "0:10", "62.2k"]
    assert "━" in cells[2]


def test_what_is_not_known_yet_is_a_dash():
    assert shown([progress()])[1].split()[-6:] == ["0/100", "0", "-", "-", "-", "-"]
    assert shown([progress(done=30, reused=30)])[1].split()[-2:] == ["-", "-"]


def test_a_finished_line_stops_its_clock():
    line = progress(done=100, calls=100)
    reporter = LiveReporter(terminal())
    reporter.changed(line)
    before = live._numbers(line, reporter._ended[id(line)])
    time.sleep(0.05)
    assert live._numbers(line, reporter._ended[id(line)]) == before
    assert before["ETA"] == "in 0:10"


@pytest.mark.parametrize("width", [30, 60, 80, 100, 160])
def test_lines_fit_the_terminal_and_name_their_benchmark(width):
    lines = [
        progress("judgements", "mt_bench", label=label, done=320, total=1200, calls=9, prompt_tokens=10**9, limit=60)
        for label in ("日本語の裁判官-甲", "日本語の裁判官-乙")
    ]
    rows = shown(lines, width)
    assert all(cell_len(row) <= width for row in rows)
    assert len(set(rows)) == len(rows) or width < 80
    assert all("320/1200" in row for row in rows[1:])
    if width >= 60:
        assert all("judgements mt_bench" in row for row in rows[1:])


def test_names_cannot_steer_the_terminal():
    rows = shown([progress(label="[bold]x\x1b[2J")])
    assert "[bold]x␛[2J" in rows[1]


def test_finished_lines_leave_room_for_active_ones():
    console = terminal(height=8)
    reporter = LiveReporter(console)
    with reporter.watching():
        lines = [progress(benchmark=f"b{n}", total=1, done=n < 8) for n in range(10)]
        for line in lines:
            reporter.changed(line)
        table = reporter._table()
        with console.capture() as capture:
            console.print(table)
        assert "(6 finished)" in capture.get()
        assert "b8" in capture.get()
        assert "b0 " not in capture.get()
    assert "b0 " in console.file.getvalue().rpartition("stage")[2]  # the last frame has all


def test_lines_stay_and_the_cursor_returns_when_the_work_is_interrupted():
    console = terminal()
    reporter = LiveReporter(console)

    def work():
        with reporter.watching():
            reporter.changed(progress(done=40))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    text = console.file.getvalue()
    assert text.count(HIDE_CURSOR) == text.count(SHOW_CURSOR) == 1
    assert text.rindex("40/100") < text.rindex(SHOW_CURSOR)


def test_a_reporter_can_watch_twice_and_inside_itself():
    console = terminal()
    reporter = LiveReporter(console)
    with reporter.watching():
        reporter.changed(progress(done=41))
    with reporter.watching():
        reporter.changed(progress(done=42))
        with reporter.watching():
            pass
        assert reporter._table().row_count == 1
    last = console.file.getvalue().rpartition("stage")[2]
    assert "42/100" in last
    assert "41/100" not in last


def test_notes_are_printed_as_plain_text():
    console = terminal()
    reporter = LiveReporter(console)
    with reporter.watching():
        reporter.note("[red]続き: run-evals\x07")
    assert "[red]続き: run-evals␇" in console.file.getvalue()


def test_many_changes_cause_few_refreshes(monkeypatch):
    drawn = []
    table = LiveReporter._table
    monkeypatch.setattr(LiveReporter, "_table", lambda self: drawn.append(1) or table(self))
    reporter, line, started = LiveReporter(terminal()), progress(total=10**9), time.monotonic()
    with reporter.watching():
        for _ in range(100_000):
            line.done += 1
            reporter.changed(line)
    assert len(drawn) <= 3 + 10 * (time.monotonic() - started)


def test_a_stream_that_is_no_terminal_gets_plain_lines():
    stream = io.StringIO()
    reporter = reporter_for(stream)
    assert isinstance(reporter, LogReporter)
    with reporter.watching():
        reporter.note("続き\x1b")
        reporter.changed(progress(done=100))
    assert stream.getvalue().splitlines() == ["続き␛", "answers elyza 100/100, 0 failed"]


SCRIPT = """
import sys, time
from shaberi_dagster.util.live import reporter_for
from shaberi_dagster.util.progress import StageProgress
reporter = reporter_for(sys.stderr)
with reporter.watching():
    line = StageProgress("answers", "elyza", total=3)
    reporter.changed(line)
    for _ in range(3):
        line.done += 1
        reporter.changed(line)
    print("to stdout", flush=True)
    print("to stderr", file=sys.stderr, flush=True)
"""


def test_on_a_real_terminal_the_display_is_live_on_stderr_only():
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "25"}
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=slave, stdin=slave, env=environment
    ) as process:
        os.close(slave)
        screen = b""
        while select.select([master], [], [], 60)[0]:
            try:
                chunk = os.read(master, 65536)
            except OSError:  # the other side is closed
                break
            if not chunk:
                break
            screen += chunk
        assert process.stdout.read() == b"to stdout\n"
    os.close(master)
    text = screen.decode()
    assert process.returncode == 0
    assert text.index(HIDE_CURSOR) < text.index("to stderr") < text.rindex("3/3") < text.rindex(SHOW_CURSOR)
