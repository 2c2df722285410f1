"""The folder of run specs: each content of a file is evaluated once, and a bad file disturbs no other."""

import logging
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
import yaml

from shaberi_dagster.defs.partitions import RUNS_NAME
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.defs.sensors import run_spec_folder
from shaberi_dagster.runs.stored import load_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.identity import run_id_of
from tests.example_runs import frozen

pytestmark = pytest.mark.integration

_URL = "http://127.0.0.1:9/v1"
_GOOD = {"model": "model", "tag": "folder", "benchmarks": ["elyza"], "limit": 2, "base_url": _URL}
_GOOD |= {"judge_models": ["judge"], "judge_base_url": _URL}


@pytest.fixture
def put(settings: Settings) -> Callable[[str, object], Path]:
    """Puts a file into the folder; anything but bytes is written as YAML."""
    settings.run_specs.mkdir(parents=True, exist_ok=True)

    def write(name: str, content: object) -> Path:
        path = settings.run_specs / name
        path.write_bytes(content if isinstance(content, bytes) else yaml.safe_dump(content).encode())
        return path

    return write


@pytest.fixture
def tick(
    instance: dg.DagsterInstance, caplog: pytest.LogCaptureFixture
) -> Callable[[], tuple[list[dg.RunRequest], list[str], str | None]]:
    """One evaluation of the sensor as the daemon does it: its requests, its log, and why it skipped."""

    def evaluate() -> tuple[list[dg.RunRequest], list[str], str | None]:
        caplog.clear()
        with dg.build_sensor_context(instance, resources={"workspace": WorkspaceResource()}) as context:
            context._logger = logging.getLogger("sensor")
            yielded = list(run_spec_folder(context))
        requests = [item for item in yielded if isinstance(item, dg.RunRequest)]
        for request in requests:
            instance.create_run_for_job(_some_job, tags={"dagster/run_key": request.run_key})
        skipped = next((item.skip_message for item in yielded if isinstance(item, dg.SkipReason)), None)
        return requests, [record.getMessage() for record in caplog.records], skipped

    return evaluate


def test_a_file_is_registered_and_requested_once(put, tick, instance: dg.DagsterInstance, workspace: Workspace) -> None:
    put("july.yaml", _GOOD)

    (request,), log, _ = tick()

    run_id = run_id_of("model", "folder")
    assert request.partition_key == run_id
    assert instance.get_dynamic_partitions(RUNS_NAME) == [run_id]
    assert load_run(workspace.lake, run_id).limit == 2
    assert log == []
    assert tick() == (
        [],
        [],
        f"nothing new among 1 YAML files in {workspace.settings.run_specs}; errors would be in the log",
    )


def test_a_file_with_changed_content_is_requested_again(put, tick, workspace: Workspace) -> None:
    put("july.yml", _GOOD)
    (first,), _, _ = tick()

    put("july.yml", _GOOD | {"limit": 4, "benchmarks": ["elyza", "rakuda"]})
    (second,), _, _ = tick()

    assert second.run_key != first.run_key
    assert second.partition_key == first.partition_key
    assert load_run(workspace.lake, first.partition_key).limit == 4
    assert tick()[0] == []


def test_two_files_are_two_requests_in_order_of_their_names(put, tick) -> None:
    put("b.yaml", _GOOD | {"tag": "second"})
    put("a.yaml", _GOOD | {"tag": "first"})

    requests, _, _ = tick()

    assert [request.partition_key for request in requests] == [run_id_of("model", tag) for tag in ("first", "second")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"tag": "no-model"}, "model: Field required"),
        (_GOOD | {"temprature": 0.5}, "no field temprature; did you mean temperature"),
        (_GOOD | {"tag": "../../escape"}, "../../escape"),
        (_GOOD | {"questions": "no-such-folder"}, "no-such-folder"),
        (b"", "the whole file: "),
        (b"model: [unclosed", "not YAML that can be read: "),
        (b"model: !!python/object/apply:os.getcwd []", "not YAML that can be read: "),
    ],
)
def test_a_malformed_file_is_logged_with_its_name_and_field_and_stops_no_other(
    content: object, reason: str, put, tick, instance: dg.DagsterInstance
) -> None:
    bad = put("a-bad.yaml", content)
    put("b-good.yaml", _GOOD)

    requests, (line,), _ = tick()

    assert [request.partition_key for request in requests] == [run_id_of("model", "folder")]
    assert line.startswith(f"{bad}: ")
    assert reason in line
    assert "\n" not in line
    assert instance.get_dynamic_partitions(RUNS_NAME) == [run_id_of("model", "folder")]


def test_a_file_that_contradicts_its_run_is_logged_and_the_run_stays_as_it_is(put, tick, workspace: Workspace) -> None:
    put("july.yaml", _GOOD)
    tick()
    frozen(load_run(workspace.lake, run_id_of("model", "folder")), workspace)
    put("july.yaml", _GOOD | {"temperature": 1.5})

    requests, (line,), _ = tick()

    assert requests == []
    assert "temperature" in line
    assert load_run(workspace.lake, run_id_of("model", "folder")).benchmarks["elyza"].temperature != 1.5


def test_what_is_no_readable_file_is_logged_and_stops_no_other(put, tick, settings: Settings) -> None:
    put("good.yaml", _GOOD)
    (settings.run_specs / "folder.yaml").mkdir()
    (settings.run_specs / "dangling.yaml").symlink_to(settings.run_specs / "gone")
    put("notes.txt", b"not meant for the sensor")

    requests, log, _ = tick()

    assert len(requests) == 1
    assert sorted(Path(line.split(": ")[0]).name for line in log) == ["dangling.yaml", "folder.yaml"]


def test_without_a_folder_there_is_nothing_to_do(tick, settings: Settings) -> None:
    assert not settings.run_specs.exists()
    assert tick() == ([], [], f"nothing new among 0 YAML files in {settings.run_specs}; errors would be in the log")


@dg.job
def _some_job() -> None:
    pass
