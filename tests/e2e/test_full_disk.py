"""What a command says when the disk is full, and that it loses nothing that was paid for."""

from pathlib import Path
from typing import Any

import pytest

from tests.commands import run, run_without_dagster
from tests.disks import mounted_small_disk
from tests.mock_endpoint import MockEndpoint, Scripted, content_for

pytestmark = pytest.mark.e2e


@pytest.mark.long
@pytest.mark.parametrize("calls", [3, 12], ids=["while answers are made", "while they are judged"])
def test_a_full_disk_is_one_line_and_no_reply_is_lost(calls: int, mock: MockEndpoint, tmp_path: Path) -> None:
    with mounted_small_disk(tmp_path / "small") as disk:

        def script(body: dict[str, Any], number: int) -> Scripted:
            if number == calls:
                disk.fill()
            return content_for(body)

        mock.options.script, mock.options.latency = script, 0.05
        place = {"SHABERI_WAREHOUSE": disk.folder / "warehouse", "DAGSTER_HOME": tmp_path / "dagster"}
        place["SHABERI_RESULTS"] = tmp_path / "results"
        arguments = [
            *("--model", "m", "--base-url", mock.base_url, "--judge-model", "j", "--judge-base-url", mock.base_url),
            *("--benchmark", "elyza,tengu", "--concurrency", "4"),
        ]
        full = run("run-evals", *arguments, environment=place)
        last = full.err.splitlines()[-1]
        assert (full.code, last.startswith("error: ")) == (2, True), full.err
        assert "No space left on device" in last
        assert "finished calls are kept" in last
        assert all(word not in full.err for word in ("panicked", "os error", "Traceback", "Generic", "Rust"))
        asked = mock.stats()["requests"]

        disk.free()
        mock.options.script = None
        run_without_dagster("run-evals", *arguments, environment=place).succeeded()
        assert mock.stats()["requests"] == 20, f"{asked} were made when the disk was full"
