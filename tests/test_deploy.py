"""The cluster in containers, which is not run here: that its file can be read, and starts what there is."""

import re
from pathlib import Path

import pytest
import yaml

from shaberi_dagster.cli.cluster import PARTS

pytestmark = pytest.mark.unit

_FOLDER = Path(__file__).resolve().parent.parent / "deploy"
_TEXT = (_FOLDER / "compose.yaml").read_text(encoding="utf-8")
_SERVICES = yaml.safe_load(_TEXT)["services"]


def test_its_head_says_that_it_is_not_run_here() -> None:
    head = _TEXT.partition("\nname:")[0]
    assert "Not run here" in head
    assert "shaberi cluster" in head


def test_it_has_all_parts_of_a_cluster_and_what_they_share() -> None:
    assert set(_SERVICES) == {"postgres", "redis", "store", *PARTS}
    for part in PARTS:
        assert _SERVICES[part]["command"][:3] == ["shaberi", "cluster", part]
        assert set(_SERVICES[part]["depends_on"]) == {"postgres", "redis", "store"}


def test_all_parts_have_the_same_settings_and_no_password_stands_there() -> None:
    settings = [_SERVICES[part]["environment"] for part in PARTS]
    assert settings[0] == settings[1] == settings[2]
    assert {"SHABERI_DATABASE_URL", "SHABERI_BROKER_URL", "SHABERI_WAREHOUSE"} <= settings[0].keys()
    secrets = re.findall(r"(?:PASSWORD|SECRET_ACCESS_KEY|_API_KEY): +(.*?)[,}\n]", _TEXT)
    assert secrets
    assert all("${" in secret for secret in secrets)


def test_what_its_image_is_made_of_is_there() -> None:
    named = re.findall(r"\b[\w-]+\.lock\b", (_FOLDER / "Dockerfile").read_text(encoding="utf-8"))
    assert named
    assert all((_FOLDER.parent / name).exists() for name in named)
