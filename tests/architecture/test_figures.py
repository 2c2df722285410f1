"""The figures that the structure of the package keeps."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture import house
from tests.architecture.limits import LIMITS
from tests.mock_endpoint import running_mock

_ROOT_MODULES = {"__init__", "api", "settings", "definitions"}


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.unit
def test_no_figure_is_above_its_limit(name: str) -> None:
    measure, limit, _ = LIMITS[name]
    assert measure() <= limit


@pytest.mark.unit
def test_few_modules_are_in_no_room() -> None:
    assert {*house.root_modules()} <= _ROOT_MODULES


@pytest.mark.unit
def test_no_module_needs_itself_by_way_of_others() -> None:
    assert house.circles(house.needs_of_modules()) == []
    assert house.circles(house.needs_of_rooms()) == []


@pytest.mark.unit
def test_nothing_changes_how_python_imports_frees_or_collects() -> None:
    tricks = ("__import__", "mallopt", "malloc_trim", "gc.disable")
    sources = {module: path.read_text(encoding="utf-8") for module, path in house.paths().items()}
    assert {(module, trick) for module, source in sources.items() for trick in tricks if trick in source} == set()


@pytest.mark.unit
def test_a_stage_is_named_by_itself_and_by_the_list_of_stages() -> None:
    """A field of that name, which is the key of a mapping, is no stage."""
    naming = {module for module, tree in house.modules().items() if "consensus" in _names_in(tree)}
    assert naming <= {
        "shaberi_dagster.runs.stages",
        "shaberi_dagster.runs.stages.consensus",
        "shaberi_dagster.lake.schemas",
    }


def _names_in(tree: ast.Module) -> set[object]:
    nodes = list(ast.walk(tree))
    keys = {id(key) for node in nodes if isinstance(node, ast.Dict) for key in node.keys}
    keys |= {id(node.slice) for node in nodes if isinstance(node, ast.Subscript)}
    return {node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in keys}


_COUNTING_FRAMES = """
import sys
import httpx2
import shaberi_dagster
from shaberi_dagster.cli.start import run_evals

PACKAGE = shaberi_dagster.__file__.removesuffix("__init__.py")
send = httpx2.AsyncClient.send

def frames(frame):
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            yield f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_code.co_name}"
        frame = frame.f_back

async def counting(client, request, **options):
    # A request without messages only looks for the model.
    if request.url.path.endswith("/chat/completions") and b'"messages":[]' not in request.content:
        httpx2.AsyncClient.send = send
        stacks = [[*frames(frame)][::-1] for frame in sys._current_frames().values()]
        print("FRAMES", *(frame for stack in stacks if len(stack) > 1 for frame in stack), file=sys.stderr)
    return await send(client, request, **options)

httpx2.AsyncClient.send = counting
run_evals()
"""


@pytest.mark.e2e
def test_few_frames_lie_between_a_command_and_its_first_call(tmp_path: Path) -> None:
    """Of both threads: the command's, which waits, and the one that calls. A probe of the model is no call."""
    homes = {"SHABERI_WAREHOUSE": str(tmp_path / "warehouse"), "DAGSTER_HOME": str(tmp_path / "dagster")}
    with running_mock() as mock:
        command = ["--model", "m", "--base-url", mock.base_url, "--benchmark", "rakuda", "--limit", "1"]
        done = subprocess.run(
            [sys.executable, "-c", _COUNTING_FRAMES, *command, "--judge-model", "j", "--judge-base-url", mock.base_url],
            env=os.environ | homes,
            capture_output=True,
            text=True,
            check=True,
        )
    frames = next(line.split()[1:] for line in done.stderr.splitlines() if line.startswith("FRAMES"))
    assert any(frame.startswith("cli/") for frame in frames)
    assert len(frames) <= 16, "\n".join(frames)
