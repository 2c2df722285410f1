"""The cluster in containers, which is not run here: that its files can be read, and ask for what there is."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from shaberi_dagster.defs.cluster.parts import PARTS
from tests.commands import COMMANDS, run

pytestmark = pytest.mark.integration

_PROJECT = Path(__file__).resolve().parent.parent
_TEXT = (_PROJECT / "deploy" / "compose.yaml").read_text(encoding="utf-8")
_HEAD = _TEXT.partition("\nname:")[0]
_SERVICES: dict[str, Any] = yaml.safe_load(_TEXT)["services"]
_IMAGE = (_PROJECT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
_OF_LIBRARIES = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "HF_TOKEN"}
"""Settings that object stores and the hub read by themselves."""


def test_their_heads_say_that_they_are_not_run_here() -> None:
    assert "Not run here" in _HEAD
    assert "shaberi cluster" in _HEAD
    assert "Not built here" in _IMAGE


def test_it_has_all_parts_of_a_cluster_and_what_they_share() -> None:
    assert set(_SERVICES) == {"postgres", "redis", "store", "bucket", *PARTS}
    for part in PARTS:
        assert _SERVICES[part]["command"][:3] == ["shaberi", "cluster", part]
        assert set(_SERVICES[part]["depends_on"]) == {"postgres", "redis", "bucket"}


def test_all_parts_have_the_same_settings_and_no_password_stands_there() -> None:
    settings = [_SERVICES[part]["environment"] for part in PARTS]
    assert settings[0] == settings[1] == settings[2]
    assert {"SHABERI_DATABASE_URL", "SHABERI_BROKER_URL", "SHABERI_WAREHOUSE"} <= settings[0].keys()
    secrets = re.findall(r"(?:PASSWORD|SECRET_ACCESS_KEY|_API_KEY): +(.*?)[,}\n]", _TEXT)
    assert secrets
    assert all("${" in secret for secret in secrets)


def test_its_settings_are_those_that_the_code_reads() -> None:
    files = (path for path in (_PROJECT / "shaberi_dagster").rglob("*") if path.suffix in {".py", ".yaml"})
    read = set(re.findall(r"\b[A-Z_]+\b", " ".join(path.read_text(encoding="utf-8") for path in files)))
    assert _SERVICES["worker"]["environment"].keys() - _OF_LIBRARIES - read == set()


def test_what_must_be_set_is_named_in_its_head() -> None:
    required = set(re.findall(r"\$\{(\w+):\?\}", _TEXT))
    assert required == set(re.findall(r"\b(\w+)=…", _HEAD)) == {"DATABASE_PASSWORD", "STORE_PASSWORD"}


def test_the_bucket_that_is_made_is_that_of_the_lake() -> None:
    settings = _SERVICES["worker"]["environment"]
    bucket = settings["SHABERI_WAREHOUSE"].removeprefix("s3://").partition("/")[0]
    made = "\n".join(_SERVICES["bucket"]["command"])
    assert f"store/{bucket}" in made
    assert settings["AWS_ENDPOINT_URL"] in made


@pytest.mark.parametrize(
    "words",
    [
        *(tuple(_SERVICES[part]["command"]) for part in PARTS),
        *(tuple(line.split()) for line in re.findall(r"run --rm worker (.*)", _HEAD)),
        tuple(re.findall(r'"([^"]+)"', _IMAGE.partition("\nCMD ")[2])),
    ],
    ids=" ".join,
)
def test_each_command_in_them_exists_with_its_options(words: tuple[str, ...]) -> None:
    command, *arguments = words
    assert command in COMMANDS
    assert run(command, *arguments, "--help").succeeded().out.startswith("Usage: ")


def test_what_its_image_is_made_of_is_there() -> None:
    *copied, _ = " ".join(line for line in re.findall(r"^COPY (.*)", _IMAGE, re.MULTILINE)).replace("./", "").split()
    assert {"pyproject.toml", "shaberi_dagster", "requirements.lock"} <= set(copied)
    assert all((_PROJECT / name).exists() for name in copied)
    project = tomllib.loads((_PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    (extra,) = re.findall(r"'\.\[(\w+)\]'", _IMAGE)
    assert extra in project["project"]["optional-dependencies"]
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {*wheel["packages"], *wheel["force-include"], project["project"]["readme"]} <= set(copied)


def test_the_installer_of_its_image_is_the_one_that_is_locked() -> None:
    (script,) = re.findall(r"sed -n '(.*)' requirements\.lock", _IMAGE)
    told = subprocess.run(
        ["sed", "-n", script, "requirements.lock"], cwd=_PROJECT, capture_output=True, text=True, check=True
    ).stdout
    requirement, *hashes = told.replace("\\\n", " ").split()
    assert requirement.startswith("uv==")
    assert hashes
    assert all(one.startswith("--hash=sha256:") for one in hashes)
