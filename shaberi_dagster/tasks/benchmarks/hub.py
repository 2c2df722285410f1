"""Data files of a dataset on the Hugging Face hub, at one commit."""

import math
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from threading import Thread

from huggingface_hub import constants, get_session, metadata_load, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils.tqdm import disable_progress_bars
from pydantic import BaseModel, TypeAdapter
from yaml import YAMLError

from shaberi_dagster.tasks.benchmarks.registry import HubSource
from shaberi_dagster.util.errors import ConfigurationError, HubAwayError
from shaberi_dagster.util.permissions import user_umask

DATA_SUFFIXES = (".parquet", ".jsonl", ".json", ".csv")
_ALTERNATIVE = "or give the questions as files with --questions PATH or SHABERI_DATASETS"
_TRY_SECONDS, _REMEMBERED_SECONDS = 4.0, 60.0
_NO_ANSWER = "the hub does not answer"
_tries: dict[str | None, tuple[float, bool]] = {}
"""For each address when it was tried last, and whether it answered."""
# What the hub itself does not take for data.
_NOT_DATA = frozenset({"config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json"})
# The hub's own words for splits (datasets, `data_files.py`); a file that names none belongs to `train`.
_SPLIT_WORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}


@dataclass(frozen=True)
class HubFiles:
    """The data files of one split, in order, on the local disk.

    Attributes:
        paths: Files in the hub client's cache.
        revision: The commit sha they belong to.
    """

    paths: tuple[Path, ...]
    revision: str


def download(
    source: HubSource, *, revision: str | None = None, endpoint: str | None = None, cache: Path | None = None
) -> HubFiles:
    """Fetch the split's data files; what is in the hub client's cache already is used when the hub is away.

    That it is away is found out in one try of a few seconds for all datasets.

    Args:
        source: Repository, configuration and split.
        revision: Commit, tag or branch; None takes the source's pinned one, else the default branch.
        endpoint: The hub's address; None follows the client's own setting (`HF_ENDPOINT`).
        cache: The client's cache folder; None follows its own setting (`HF_HOME`).

    Raises:
        HubAwayError: The hub does not answer, and the client's cache has no such dataset.
        ConfigurationError: The repository is missing, private or gated, or has no file of the split.
    """
    disable_progress_bars()  # small files; the terminal's live lines are ours
    away = _reason_not_to_ask(source.repository, endpoint)
    try:
        with user_umask():  # the client's cache is that of all programs
            folder = snapshot_download(
                source.repository,
                repo_type="dataset",
                revision=revision or source.revision,
                allow_patterns=["README.md", *(f"*{suffix}" for suffix in DATA_SUFFIXES)],
                endpoint=endpoint,
                cache_dir=cache,
                local_files_only=away is not None,
            )
    except LocalEntryNotFoundError as error:
        raise HubAwayError([source.repository], away or _NO_ANSWER) from error
    except Exception as error:
        # Whatever the client raises (OSError, ValueError, its HTTP library's own) means the same to a user.
        raise ConfigurationError(_explain(source.repository, revision or source.revision, error)) from error
    snapshot = Path(folder)
    names, configurations = _data_files(snapshot), _configurations(snapshot / "README.md")
    splits = [split for split in (source.split, source.other_split) if split]
    found = (_split_files(names, configurations, replace(source, split=split)) for split in splits)
    chosen = next(filter(None, found), None)
    if not chosen:
        raise ConfigurationError(
            f"hub dataset {source.repository} has no {'/'.join(DATA_SUFFIXES)} file of split {source.split!r} "
            f"at {snapshot.name}: name another revision, {_ALTERNATIVE}"
        )
    return HubFiles(tuple(snapshot / name for name in chosen), revision=snapshot.name)


def _reason_not_to_ask(repository: str, endpoint: str | None) -> str | None:
    """Try once whether the hub answers at all, and remember that for a while.

    Its client tries for half a minute with each dataset, and waits for ever where a server accepts and says nothing.
    """
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    tried, answers = _tries.get(endpoint, (-math.inf, False))
    if time.monotonic() - tried > _REMEMBERED_SECONDS:
        found: list[bool] = []
        # In a thread, as looking up a name takes as long as the system wants.
        thread = Thread(target=lambda: found.append(_answers(repository, endpoint)), daemon=True)
        thread.start()
        thread.join(_TRY_SECONDS)
        answers = found == [True]
        _tries[endpoint] = time.monotonic(), answers
    return None if answers else _NO_ANSWER


def _answers(repository: str, endpoint: str | None) -> bool:
    address = f"{endpoint or constants.ENDPOINT}/api/datasets/{repository}/revision/{constants.DEFAULT_REVISION}"
    try:
        status = get_session().head(address, timeout=_TRY_SECONDS).status_code
    except Exception:  # noqa: BLE001  (each means that there is no answer)
        return False
    return status < HTTPStatus.INTERNAL_SERVER_ERROR


def _explain(repository: str, revision: str | None, error: Exception) -> str:
    page = f"https://huggingface.co/datasets/{repository}"
    if isinstance(error, GatedRepoError):
        reason = f"is gated: accept its terms at {page} and set HF_TOKEN"
    elif isinstance(error, RepositoryNotFoundError):
        reason = "does not exist or is private: check the name, set HF_TOKEN"
    elif isinstance(error, RevisionNotFoundError):
        reason = f"has no revision {revision!r}: name another"
    else:
        first_line = (str(error).splitlines() or [""])[0]
        reason = f"cannot be fetched ({first_line or type(error).__name__}): go online"
    return f"hub dataset {repository} {reason}, {_ALTERNATIVE}"


class _DataFiles(BaseModel):
    split: str = "train"
    path: str | list[str]


class _Configuration(BaseModel):
    """An entry of a dataset card's `configs`."""

    config_name: str = "default"
    default: bool = False
    data_files: str | list[str | _DataFiles] = []

    def patterns(self, split: str) -> list[str]:
        """Glob patterns of the split's files."""
        entries = [self.data_files] if isinstance(self.data_files, str) else self.data_files
        files = [_DataFiles(path=entry) if isinstance(entry, str) else entry for entry in entries]
        paths = [file.path for file in files if file.split == split]
        return [pattern for path in paths for pattern in ([path] if isinstance(path, str) else path)]


def _configurations(card: Path) -> list[_Configuration]:
    """The configurations that a dataset card declares; none when the card is missing or cannot be read."""
    try:
        metadata = metadata_load(card) or {}
        return TypeAdapter(list[_Configuration]).validate_python(metadata.get("configs", []))
    except (OSError, ValueError, YAMLError):
        return []  # a broken card must not hide files that can be found by name


def _split_files(names: Sequence[str], configurations: Sequence[_Configuration], source: HubSource) -> list[str]:
    """The split's files: as the card declares them, else by the names the hub itself goes by."""
    wanted = source.config or "default"
    declared = [entry for entry in configurations if entry.config_name == wanted]
    if not declared and source.config is None:
        declared = [entry for entry in configurations if entry.default] or list(configurations[:1])
    patterns = [pattern for entry in declared for pattern in entry.patterns(source.split)]
    if patterns:
        return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if source.config:  # a folder, where the card does not say
        names = [name for name in names if source.config in PurePosixPath(name).parts] or names
    named = [name for name in names if _names_split(name, source.split)]
    if named or source.split != "train":
        return named
    return [name for name in names if not any(_names_split(name, split) for split in _SPLIT_WORDS)]


def _data_files(snapshot: Path) -> list[str]:
    """List the data files of the most common format: a second format repeats the same data."""
    names = sorted(
        path.relative_to(snapshot).as_posix()
        for path in snapshot.rglob("*")
        if path.suffix in DATA_SUFFIXES and path.name not in _NOT_DATA
    )
    counts = Counter(PurePosixPath(name).suffix for name in names)
    suffix = max(DATA_SUFFIXES, key=counts.__getitem__)
    return [name for name in names if name.endswith(suffix)]


def _names_split(name: str, split: str) -> bool:
    words = set(re.split(r"[^a-z]+", PurePosixPath(name).with_suffix("").as_posix().lower()))
    return bool(words & set(_SPLIT_WORDS.get(split, (split,))))
