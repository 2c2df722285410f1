"""The tutorial, typed by a reader: every command in its order, and what it shows is what comes out."""

import hashlib
import re
import shlex
from pathlib import Path

import pytest

from tests.commands import run_without_dagster
from tests.mock_endpoint import completion, running_mock

pytestmark = [pytest.mark.e2e, pytest.mark.long]

_PAGE = (Path(__file__).resolve().parent.parent / "docs" / "tutorial.md").read_text(encoding="utf-8")
_ADDRESS = "http://localhost:8000/v1"
_STEP = re.compile(r"^```bash\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
_SECONDS = re.compile(r"(?<=unknown )[0-9]+\.[0-9]{2}$")
_SCALE = re.compile("点から([0-9]+)点")
# The worst one, a loop, first.
_ANSWERS = (
    "わかりません。" * 60,
    "はい。",
    "要点だけお答えします。",
    "順を追ってお答えします。",
    "理由と例を挙げてお答えします。",
)


_USAGE = {
    effort: {"prompt_tokens": 50, "completion_tokens": 40 + thought}
    | {"completion_tokens_details": {"reasoning_tokens": thought}}
    for effort, thought in (("low", 100), ("medium", 400), ("high", 1600))
}


def reply(body: dict, _: int) -> str | dict:
    """Checkpoints of a model that gets better, but sometimes loops in the end, one that thinks, and a judge."""
    prompt = body["messages"][-1]["content"]
    if body["model"] == "judge":
        quality = next(place for place, answer in enumerate(_ANSWERS, start=1) if answer in prompt)
        return f"質問に沿っています。\nFINAL SCORE: {int(_SCALE.findall(prompt)[0]) * quality // 5}"
    drawn = int(hashlib.sha256(prompt.encode()).hexdigest(), 16)
    better, loops = 3 + drawn % 2, drawn % 11 == 0
    if body["model"] == "thinker":
        effort = body["reasoning_effort"]
        seldom = int(drawn % 2 or drawn // 2 % 4 == 0)
        thought = {"low": drawn // 3 % 2, "medium": 1 + drawn % 2, "high": 1 + seldom}[effort]
        return completion(body, _ANSWERS[1 + thought]) | {"usage": _USAGE[effort]}
    places = {"step-1000": drawn % 2, "step-2000": better - 1, "step-3000": 0 if loops else better, "step-4000": better}
    return _ANSWERS[places[body["model"]]]


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """Each block of commands, what the page shows of its output, and its output."""
    monkeypatch.chdir(tmp_path)
    steps = []
    with running_mock(script=reply) as mock:
        for commands, expected in _STEP.findall(_PAGE):
            out = ""
            for command in commands.replace("\\\n", "").splitlines():
                program, *arguments = shlex.split(command.replace(_ADDRESS, mock.base_url), comments=True)
                out += run_without_dagster(program, *arguments).succeeded().out.replace(mock.base_url, _ADDRESS)
            steps.append((commands, expected, out))
    return steps


def test_every_command_succeeds_and_shows_what_the_page_shows(shown: list[tuple[str, str, str]]) -> None:
    assert len(shown) > 8
    for commands, expected, out in shown:
        said = iter([_SECONDS.sub("0.02", line.rstrip()) for line in out.splitlines()])
        for line in expected.splitlines():
            assert line in {"", "…"} or line in said, f"{commands}\nshows no line\n{line}\nbut\n{out}"
    results = Path("results")
    assert (results / "step-3000/july/manifest.json").is_file()
    assert Path("scores.csv").read_text(encoding="utf-8").count("step-") > 0
