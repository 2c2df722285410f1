"""Modules that are loaded at their first use."""

import builtins
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

from shaberi_dagster.util.lazy import handed_out, lazily

with lazily(__name__):
    import wave

    import slow_to_load  # type: ignore[import-not-found]

pytestmark = pytest.mark.unit


def test_of_several_threads_each_finds_the_whole_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_to_load.py").write_text("import time\ntime.sleep(0.2)\nvalue = 7\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(lambda _: slow_to_load.value, range(8))) == {7}


def test_a_name_that_is_not_there_is_an_error_of_that_module() -> None:
    with pytest.raises(AttributeError, match="module 'wave' has no attribute 'nothing'"):
        _ = wave.nothing  # type: ignore[attr-defined]


def test_imports_within_the_context_are_put_off_and_those_after_it_are_not() -> None:
    code = """
import sys
from shaberi_dagster.util.lazy import lazily
with lazily(__name__):
    import wave as sound
    from xml import dom, sax as reader
    from json import tool
assert not {"wave", "xml", "xml.sax", "json.tool"} & sys.modules.keys()
import colorsys
assert "colorsys" in sys.modules
assert sound.open and reader.parse and "xml.dom" not in sys.modules
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_what_other_modules_and_threads_import_meanwhile_is_there_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "at_once.py").write_text("import json\nvalue = json.loads('7')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    eager = builtins.__import__

    with lazily(__name__), ThreadPoolExecutor(1) as other:
        assert other.submit(import_module, "at_once").result().value == 7

    assert builtins.__import__ is eager


def test_an_import_that_fails_within_the_context_leaves_imports_as_they_were() -> None:
    eager = builtins.__import__
    with pytest.raises(ZeroDivisionError), lazily(__name__):
        _ = 1 / 0
    assert builtins.__import__ is eager


def test_a_module_hands_out_what_it_has_put_off() -> None:
    code = """
import sys
from shaberi_dagster.util.lazy import handed_out, lazily
with lazily(__name__):
    from wave import Wave_read as Reader
found = handed_out(globals())
assert "Reader" not in globals() and "wave" not in sys.modules
assert found("Reader").__name__ == "Wave_read"
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
    with pytest.raises(AttributeError, match="module 'of_mine' has no attribute 'nothing'"):
        handed_out({"__name__": "of_mine"})("nothing")
