"""`inspect-output` as a user meets it: on a real terminal, and in a pipe."""

import os
import shutil
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from tests.commands import run
from tests.inspected import N_QUESTIONS, made

pytestmark = [pytest.mark.e2e, pytest.mark.long]

_PATIENCE_SECONDS = 60
_HISTORY_JUDGE = "gpt-4-turbo-preview"
_COMMAND = "from shaberi_dagster.cli.start import inspect_output; inspect_output()"


class Tmux:
    """A terminal of 110 columns and 30 rows with the command in it."""

    def __init__(self, socket: Path, *arguments: str) -> None:
        self._tmux = ["tmux", "-S", str(socket)]
        command = [sys.executable, "-c", _COMMAND, *arguments]
        self._run("-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "30", *command)

    def _run(self, *arguments: str) -> str:
        # Neither what C has beside it, nor the size of another terminal.
        environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
        finished = subprocess.run(
            [*self._tmux, *arguments], check=True, capture_output=True, text=True, env=environment
        )
        return finished.stdout

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self._run("send-keys", *keys)

    def wait_for(self, words: str) -> list[str]:
        """The lines of the screen, as soon as these words are there."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while words not in (screen := self._run("capture-pane", "-p")):
            assert time.monotonic() < end, screen
            time.sleep(0.05)
        return screen.splitlines()

    def has_ended(self) -> bool:
        """Whether the command is at its end."""
        return bool(subprocess.run([*self._tmux, "has-session"], capture_output=True, check=False).returncode)

    def close(self) -> None:
        """End it."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = made(tmp_path / "warehouse").folder
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(folder))
    return folder


@pytest.fixture
def terminal(lake: Path, tmp_path: Path) -> Iterator[Callable[..., Tmux]]:
    assert lake.exists()
    opened: list[Tmux] = []

    def open_one(*arguments: str) -> Tmux:
        opened.append(Tmux(tmp_path / "tmux", *arguments))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_from_the_runs_to_two_answers_side_by_side_in_a_real_terminal(terminal: Callable[..., Tmux]) -> None:
    screen = terminal()
    screen.wait_for("space marks")
    screen.press("Space", "j", "Space", "Enter")
    lines = screen.wait_for("質問7")
    scores = [line for line in lines if "tengu@230" in line]
    assert len({_columns(line.partition("質問")[0]) for line in scores}) == 1
    screen.press("j", "j", "j", "j", "j", "j", "Enter")
    lines = screen.wait_for("[/INST]")
    rule = {_columns(line.partition("│")[0]) for line in lines if line.count("│") == 2}
    assert len(rule) == 1  # both columns stand straight, whatever is in them
    assert any("␛[2J␇‹U+202E›" in line for line in lines)
    screen.press("q")
    end = time.monotonic() + _PATIENCE_SECONDS
    while not screen.has_ended():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_pipe_gets_everything_as_text(lake: Path) -> None:
    shown = run("inspect-output", "--model", "beta", environment={"SHABERI_WAREHOUSE": lake}).succeeded().out
    assert shown.count("beta july  ") == N_QUESTIONS
    assert "[/INST] [red]赤[/] ␛[2J␇‹U+202E›[@click=app.quit]x[/]\n二行目\n" in shown
    assert "▸ b  8\n" in shown
    assert "alpha" not in shown
    assert "\x1b" not in shown
    filtered = (
        run("inspect-output", "--filter", "failed", "--plain", environment={"SHABERI_WAREHOUSE": lake}).succeeded().out
    )
    assert "error: transient" in filtered
    assert "▸ b  no score  error no_score" in filtered
    assert filtered.count("質問") == 2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--model", "unheard-of"], "no model 'unheard-of'; the lake has"),
        (["--filter", "sort:x"], "sort: must be one of position, score"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(options: list[str], expected: str, lake: Path) -> None:
    assert expected in run("inspect-output", *options, environment={"SHABERI_WAREHOUSE": lake}).complaint


@pytest.mark.corpus
def test_which_of_three_models_of_the_history_is_best_and_where_it_loses_takes_two_commands(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    workspace = Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": str(warehouse)}), environment={})
    trees = Path(os.environ["SHABERI_CORPUS"]) / "legacy" / "mini"
    import_trees(ImportRequest({name: trees / name for name in ("shisa", "umiyuki", "lightblue")}), workspace)
    best, second, third = "Qwen__Qwen1.5-14B-Chat", "karakuri-ai__karakuri-lm-70b-chat-v0.1", "lightblue__20240422"
    models = [part for name in (best, second, third) for part in ("--model", name)]

    scores = run("view-scores", *models, "--judge", _HISTORY_JUDGE, environment={"SHABERI_WAREHOUSE": warehouse})
    ranked = [line.split()[:2] for line in scores.succeeded().out.splitlines() if line.partition(" ")[0].isdigit()]
    assert [rank for rank, _ in ranked[:3]] == ["1", "1", "3"]
    assert scores.out.startswith(f"{best} ")
    assert "Rank 1: not shown to differ from the best." in scores.out

    options = ["--filter", "benchmark:mt_bench sort:difference", *models[:4]]
    shown = run("inspect-output", *options, environment={"SHABERI_WAREHOUSE": warehouse}).succeeded().out
    first = shown.partition("\n\n")[2]
    assert shown.startswith("mt_bench@80")
    assert first.index(best) < first.index(second)
