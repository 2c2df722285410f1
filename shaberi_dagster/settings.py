"""Folders and settings of an installation: the one place that reads the environment for them."""

import getpass
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.folders import plugin_folders, project_folder
from shaberi_dagster.util.permissions import make_folder

MIRROR_MARK = "_mirror"
"""File in a warehouse that mirrors a store: the store's URI."""
VERSION = "1.0.0"
_STORE = re.compile(r"s3://[a-z0-9][a-z0-9.-]+(/[\w.-]+)*/?")


def database_url(environment: Mapping[str, str] = os.environ) -> str | None:
    """The PostgreSQL database that several hosts share (`SHABERI_DATABASE_URL`); None: journals and locks are files.

    It has a password in it: show `database_label`.
    """
    return environment.get("SHABERI_DATABASE_URL") or None


def database_label(url: str) -> str:
    """A database's URL without user and password, to be shown."""
    try:
        parts = urlsplit(url)
        place = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "unreadable"
    return f"{parts.scheme}://{place}{parts.path}" if parts.scheme and place else "unreadable"


def check_writable(folder: Path, advice: str) -> None:
    """Refuse a folder in which nothing can be made; one that is missing can be made where its parent lets it.

    Args:
        folder: Which one.
        advice: What the user can do.

    Raises:
        ConfigurationError: It cannot be written, or is no folder.
    """
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise ConfigurationError(f"{there} is no folder: {advice}")
    # Not as who started the process, but as who it is now, where the system knows the difference.
    if not os.access(there, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        raise ConfigurationError(f"{there} cannot be written: {advice}")


def warehouse_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of the lake that the environment names, or the one that mirrors its store; nothing is made."""
    place = environment.get("SHABERI_WAREHOUSE") or "warehouse"
    if "://" not in place:
        return Path(place)
    return cache_folder(environment) / place.rstrip("/").removeprefix("s3://").replace("/", "--")


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of what can be fetched again: mirrors of lakes."""
    return Path(environment.get("SHABERI_MIRRORS") or _home() / ".cache" / "shaberi").absolute()


def _home() -> Path:
    """Return the user's home; the working directory for a user without one, as in a container."""
    try:
        return Path.home()
    except RuntimeError:
        return Path.cwd()


def broker_url(environment: Mapping[str, str] = os.environ) -> str | None:
    """The Redis through which the workers of a cluster get their runs (`SHABERI_BROKER_URL`); None: no cluster.

    It may have a password in it: show `database_label`.
    """
    return environment.get("SHABERI_BROKER_URL") or None


def check_cluster(environment: Mapping[str, str] = os.environ) -> None:
    """See that the environment names a cluster.

    Raises:
        ConfigurationError: It does not.
    """
    if database_url(environment) is None or broker_url(environment) is None:
        raise ConfigurationError(
            "this needs a cluster: set SHABERI_DATABASE_URL and SHABERI_BROKER_URL (`shaberi cluster` starts one)"
        )


@dataclass(frozen=True)
class Settings:
    """Folders of one installation.

    Attributes:
        warehouse: The lake, a folder or s3://bucket/path (`SHABERI_WAREHOUSE`, default `warehouse/` where you are).
            Of one on object storage this is the folder that mirrors it.
        mirrors: Where such folders are (`SHABERI_MIRRORS`, default `~/.cache/shaberi`).
        dagster_home: Dagster's instance (`DAGSTER_HOME`, default `.dagster/` beside the warehouse).
        datasets: A folder with question files (`SHABERI_DATASETS`), None for the starter sets.
        results: What is exported of each run, as files (`SHABERI_RESULTS`, default `results/` beside the warehouse).
        run_specs: Folder watched by the sensor for RunSpec YAML files (`SHABERI_RUN_SPECS`).
        prompts: Jinja templates (`SHABERI_PROMPTS`, default the project's own); what it lacks is taken from the others.
        prices: A YAML file with own prices (`SHABERI_PRICES`), which win over list prices; None for list prices only.
        embedded_model: GGUF file of the embedded model (`SHABERI_EMBEDDED_MODEL`, default the one that is installed).
        models: Weights that `shaberi doctor --install-model` fetched (`XDG_DATA_HOME`, default `~/.local/share`).
        sql: The views and queries.
        plugins: The user's own benchmarks, passes, … (`SHABERI_PLUGINS`, default `plugins/` in the working directory).
        user: Who makes or imports runs, for `created_by` (`SHABERI_USER`, default the login name).
    """

    warehouse: Path
    dagster_home: Path
    datasets: Path | None
    results: Path
    run_specs: Path
    prompts: Path
    prices: Path | None
    sql: Path
    user: str | None = None
    mirrors: Path = Path("mirrors")
    embedded_model: Path | None = None
    models: Path = Path("models")
    plugins: tuple[Path, ...] = ()

    @property
    def prompt_folders(self) -> tuple[Path, ...]:
        """Folders of templates, the first over the second and so on: the user's, those of plugins, the project's."""
        user, project = self.prompts, project_folder("prompts")
        return (*(() if user == project else (user,)), *(folder / "prompts" for folder in self.plugins), project)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """The settings that the environment asks for, with absolute paths.

        Raises:
            ConfigurationError: The warehouse is neither a folder nor on object storage.
        """
        warehouse, mirrors = warehouse_folder(environment).absolute(), cache_folder(environment)
        beside = warehouse.parent
        if "://" in (place := environment.get("SHABERI_WAREHOUSE") or ""):
            _make_mirror(place, warehouse)
            beside = Path.cwd()
        datasets, prices = environment.get("SHABERI_DATASETS"), environment.get("SHABERI_PRICES")
        if prices and not Path(prices).is_file():
            raise ConfigurationError(f"price file {prices} is not there: SHABERI_PRICES names it")
        return cls(
            warehouse=warehouse,
            dagster_home=Path(environment.get("DAGSTER_HOME") or beside / ".dagster").absolute(),
            datasets=Path(datasets).absolute() if datasets else None,
            results=Path(environment.get("SHABERI_RESULTS") or beside / "results").absolute(),
            run_specs=Path(environment.get("SHABERI_RUN_SPECS") or beside / "runspecs").absolute(),
            prompts=Path(environment.get("SHABERI_PROMPTS") or project_folder("prompts")).absolute(),
            prices=Path(prices).absolute() if prices else None,
            sql=project_folder("sql"),
            user=environment.get("SHABERI_USER") or _login_name(),
            models=Path(environment.get("XDG_DATA_HOME") or _home() / ".local" / "share") / "shaberi" / "models",
            embedded_model=Path(model).absolute() if (model := environment.get("SHABERI_EMBEDDED_MODEL")) else None,
            plugins=plugin_folders(environment),
            mirrors=mirrors,
        )


def _make_mirror(store: str, folder: Path) -> None:
    """Make the folder of this machine that mirrors a store, unless it is there."""
    if not _STORE.fullmatch(store):
        raise ConfigurationError(f"warehouse {store} is neither a folder nor s3://bucket/path: set SHABERI_WAREHOUSE")
    if not (folder / MIRROR_MARK).is_file():
        make_folder(folder.parent)
        make_folder(folder)
        (folder / MIRROR_MARK).write_text(f"{store.rstrip('/')}\n", encoding="utf-8")


def _login_name() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container whose user has no name
        return None
