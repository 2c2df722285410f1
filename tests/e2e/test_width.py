"""What commands print fits a terminal of 80 columns, with Japanese names of models and judges, and a log of CI."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.commands import Terminal, lake_of, run, run_without_dagster, started
from tests.mock_endpoint import running_mock

pytestmark = [pytest.mark.e2e, pytest.mark.long]

_WIDTH = 80
_MODELS = ("瑞穂研/大規模言語モデル-13B-chat", "瑞穂-7B-指示学習済み")
_JUDGES = ("審判-大規模評価モデル-2026", "judge-b")
_TAG = "july-2026"
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TO_COPY = ("In a browser: ", "inspect-output ")
"""Begin the lines with a command to copy, which is not broken."""


@dataclass(frozen=True)
class Wide:
    """A lake with two models, two judges and passes, which have moved scores.

    Attributes:
        environment: Of commands on it.
        evaluated: What the first model's evaluation showed on a terminal.
        url: An endpoint.
    """

    environment: dict[str, str]
    evaluated: list[str]
    url: str


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wide]:
    """The lake, at whose endpoint one may ask on."""
    environment = lake_of(tmp_path_factory.mktemp("wide")) | {"TERM": "xterm"}
    with running_mock() as mock, pytest.MonkeyPatch.context() as patch:
        _forget_the_size(patch)
        evaluated = _shown(["run-evals", *_evaluation(_MODELS[0], mock.base_url)], environment)
        run_without_dagster("run-evals", *_evaluation(_MODELS[1], mock.base_url), environment=environment).succeeded()
        yield Wide(environment, evaluated, mock.base_url)


@pytest.fixture(autouse=True)
def size_of_the_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other size than that of the terminal is known."""
    _forget_the_size(monkeypatch)


def _forget_the_size(patch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "LINES"):
        patch.delenv(name, raising=False)


def _evaluation(model: str, url: str) -> list[str]:
    judges = [word for judge in _JUDGES for word in ("--judge-model", judge)]
    where = ["--base-url", url, "--judge-base-url", url]
    asked = f"--benchmark elyza,tengu --limit 2 --tag {_TAG} --passes repetition".split()
    return ["--model", model, *asked, *judges, *where]


@pytest.mark.parametrize(
    "command",
    [
        "view-scores --passes repetition",
        "view-scores --passes repetition --by judge --notes --cost",
        "view-scores --passes repetition --by run --notes --cost",
        f"shaberi compare {_MODELS[0]}@@{_TAG} {_MODELS[1]}@@{_TAG}",
        "shaberi cost",
        "shaberi question elyza 1",
        "shaberi prices",
        "shaberi sql failures",
        "shaberi sql leaderboard",
        "shaberi baseline list",
        "shaberi export",
        "shaberi compact",
        "shaberi doctor",
        "shaberi reprocess --passes lang_mixing",
    ],
)
def test_what_a_command_prints_fits_a_terminal_and_a_log(command: str, wide: Wide, tmp_path: Path) -> None:
    own = wide.environment | {"SHABERI_RESULTS": str(tmp_path)}

    assert _too_wide(_shown(command.split(), own)) == []
    if "sql" not in command and command.split()[1] not in {
        "doctor",
        "export",
        "reprocess",
    }:  # whose lines are not broken in a log
        assert _too_wide(run(*command.split(), environment=own).succeeded().out.splitlines()) == []


def test_an_evaluation_and_its_plan_fit_a_terminal(wide: Wide) -> None:
    asked = _evaluation(_MODELS[0], wide.url)
    asked[asked.index(_TAG)] = "august-2026"
    planned = _shown(["run-evals", *asked, "--dry-run"], wide.environment)
    sampled = ["--model", _MODELS[0], "--datasets", "gsm8k", "--sample", "2", "--judge-model", "none"]
    quick = ["quick-eval", *sampled, "--strategy", "majority,plurality", "--base-url", wide.url]
    for lines in (wide.evaluated, planned, _shown(quick, wide.environment)):
        assert len(lines) > 1
        assert _too_wide(lines) == []


def _too_wide(lines: list[str]) -> list[str]:
    return [line for line in lines if cell_len(line) > _WIDTH and not line.startswith(_TO_COPY)]


def _shown(command: list[str], environment: dict[str, str]) -> list[str]:
    """The lines of a command whose output is all on a terminal."""
    terminal = Terminal(_WIDTH)
    alone = started(*command, environment=environment, terminal=terminal, stdout=terminal, without_dagster=True)
    with alone as process:
        finished = process.finished()
    terminal.end()
    assert finished.code in {0, 3}, terminal.text
    return re.split(r"[\r\n]+", _CONTROLS.sub("", terminal.text))
