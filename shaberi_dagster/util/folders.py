"""Folders of the project and of plugins."""

import os
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def project_folder(name: str) -> Path:
    """A folder of the project (`prompts`, `sql`): beside the package in a checkout, inside it in a wheel."""
    packaged = _PACKAGE / "_project" / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


def plugin_folders(environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Return the plugin folders: `SHABERI_PLUGINS`, or `plugins/` in the working directory, then installed ones.

    Several are separated as in `PATH`. An installed package has one where its entry point of the group `shaberi` leads
    to.
    """
    own = named_plugin_folders(environment) or [Path("plugins").absolute()]
    return tuple(dict.fromkeys([*own, *_installed_plugins()]))


def named_plugin_folders(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the folders that `SHABERI_PLUGINS` names."""
    named = environment.get("SHABERI_PLUGINS", "").split(os.pathsep)
    return [Path(path).expanduser().absolute() for path in named if path]


@cache
def _installed_plugins() -> tuple[Path, ...]:
    """The folders that entry points name, found without running anything of their packages."""
    from importlib import metadata

    folders = []
    for point in metadata.entry_points(group="shaberi"):
        package, *inner = point.module.split(".")
        spec = find_spec(package)
        folders += [Path(place, *inner) for place in (spec.submodule_search_locations or () if spec else ())]
    return tuple(folders)
