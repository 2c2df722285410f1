"""Modules that are loaded at their first use."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shaberi_dagster.util.lazy import lazy

pytestmark = pytest.mark.unit


def test_a_module_is_loaded_when_one_of_its_names_is_used() -> None:
    code = "import sys; from shaberi_dagster.util.lazy import lazy; wave = lazy('wave'); assert 'wave' not in sys.modules; wave.open; assert 'wave' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_of_several_threads_each_finds_the_whole_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_to_load.py").write_text("import time\ntime.sleep(0.2)\nvalue = 7\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    module = lazy("slow_to_load")

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(lambda _: module.value, range(8))) == {7}


def test_a_name_that_is_not_there_is_an_error_of_that_module() -> None:
    with pytest.raises(AttributeError, match="module 'wave' has no attribute 'nothing'"):
        _ = lazy("wave").nothing
