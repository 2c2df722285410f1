"""Where things are. The one place that reads the environment for folders."""

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shaberi_dagster.errors import ConfigurationError

_CHECKOUT = Path(__file__).resolve().parent.parent


def project_folder(name: str) -> Path:
    """A folder of the project (`prompts`, `sql`): beside the package in a checkout, inside it in a wheel."""
    packaged = Path(__file__).resolve().parent / "_project" / name
    return packaged if packaged.is_dir() else _CHECKOUT / name


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


@dataclass(frozen=True)
class Settings:
    """Folders of one installation.

    Attributes:
        warehouse: The lake (`SHABERI_WAREHOUSE`, default `warehouse/` in the working directory).
        dagster_home: Dagster's instance (`DAGSTER_HOME`, default `.dagster/` beside the warehouse).
        datasets: A folder with question files (`SHABERI_DATASETS`), None for the starter sets.
        results: What is exported of each run, as files (`SHABERI_RESULTS`, default `results/` beside the warehouse).
        run_specs: Folder watched by the sensor for RunSpec YAML files (`SHABERI_RUN_SPECS`).
        prompts: The Jinja templates (`SHABERI_PROMPTS`, default the project's own).
        prices: A YAML file with own prices (`SHABERI_PRICES`), which win over list prices; None for list prices only.
        sql: The views and queries.
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

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """The settings that the environment asks for, with absolute paths."""
        warehouse = Path(environment.get("SHABERI_WAREHOUSE") or "warehouse").absolute()
        beside = warehouse.parent
        datasets, prices = environment.get("SHABERI_DATASETS"), environment.get("SHABERI_PRICES")
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
        )


def _login_name() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container whose user has no name
        return None
