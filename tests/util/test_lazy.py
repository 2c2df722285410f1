"""Modules that are loaded at their first use."""

import builtins
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

from shaberi_dagster.util.lazy import fill_later, handed_out, lazily

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
from shaberi_dagster.util.lazy import fill_later, handed_out, lazily
with lazily(__name__):
    from wave import Wave_read as Reader
found = handed_out(globals())
assert "Reader" not in globals() and "wave" not in sys.modules
assert found("Reader").__name__ == "Wave_read"
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
    with pytest.raises(AttributeError, match="module 'of_mine' has no attribute 'nothing'"):
        handed_out({"__name__": "of_mine"})("nothing")


def _library(folder: Path, name: str) -> None:
    """A library whose top imports all of itself, as slow as it is large."""
    large = folder / name / "types" / "large"
    large.mkdir(parents=True)
    (folder / name / "__init__.py").write_text(
        "from . import types\nfrom .types.small import value\n", encoding="utf-8"
    )
    (folder / name / "types" / "__init__.py").write_text(
        "import time\nfrom . import large as large\nfrom .small import value as value\ntime.sleep(0.1)\n",
        encoding="utf-8",
    )
    (folder / name / "types" / "small.py").write_text("value = 7\n", encoding="utf-8")
    (large / "__init__.py").write_text("from .one import One as One\n", encoding="utf-8")
    (large / "one.py").write_text("class One: pass\n", encoding="utf-8")


def test_a_library_without_names_that_nobody_needs_has_them_as_soon_as_somebody_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "all_of_itself"
    _library(tmp_path, name)
    monkeypatch.syspath_prepend(tmp_path)
    fill_later("all_of_itself.types", "all_of_itself.types.large", "all_of_itself.nothing", "no_library.at_all")
    library = import_module(name)
    assert library.value == 7
    assert "all_of_itself.types.large.one" not in sys.modules
    with pytest.raises(AttributeError, match=r"module 'all_of_itself\.types' has no attribute '__wrapped__'"):
        _ = library.types.__wrapped__
    with ThreadPoolExecutor(8) as threads:
        (found,) = set(threads.map(lambda _: library.types.large.One, range(8)))
    assert found is sys.modules["all_of_itself.types.large.one"].One
    assert library.types.value == 7
    with pytest.raises(AttributeError, match=r"module 'all_of_itself\.types' has no attribute 'nothing'"):
        _ = library.types.nothing
    assert import_module(f"{name}.types.large") is library.types.large


def test_a_library_that_was_imported_before_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "imported_before"
    _library(tmp_path, name)
    monkeypatch.syspath_prepend(tmp_path)
    types = import_module(f"{name}.types")
    fill_later("imported_before.types", "imported_before.types.large")
    assert import_module(name).types is types
    assert types.large.One.__name__ == "One"
