"""The transaction log of a Delta table by its files alone: without delta-rs, a look takes less than a millisecond."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LOG = "_delta_log"
_FILE = re.compile(r"(\d{20})\.(json|checkpoint.*\.parquet)")

Actions = Sequence[Mapping[str, Any]]
"""The actions of one entry: what a commit added, removed and says of itself."""


class Log:
    """The log of a table as its folder was when it was looked at.

    Args:
        table: The table's folder.

    Attributes:
        folder: The log's folder, which may be missing.
        entries: The file of each version that has an entry, in order.
        checkpoints: The files of each version that has a checkpoint, in order.
    """

    def __init__(self, table: Path) -> None:
        self.folder = table / LOG
        self.entries: dict[int, Path] = {}
        self.checkpoints: dict[int, list[Path]] = {}
        for path in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
            if match := _FILE.fullmatch(path.name):
                version = int(match[1])
                if match[2] == "json":
                    self.entries[version] = path
                else:
                    self.checkpoints.setdefault(version, []).append(path)

    @property
    def newest(self) -> int:
        """The last version; -1 without one."""
        return max([*self.entries, *self.checkpoints], default=-1)


def entry_path(table: Path, version: int) -> Path:
    """Return the place of a version's entry in a table's folder, whether or not it is there."""
    return table / LOG / f"{version:020}.json"


def has_commits(table: Path) -> bool:
    """Return whether anything was committed to a table: an entry of a host that failed may be empty."""
    try:
        files = os.scandir(table / LOG)
    except (FileNotFoundError, NotADirectoryError):
        return False
    with files:
        return any(is_log_file(file.name) and _has_content(file) for file in files)


def _has_content(file: "os.DirEntry[str]") -> bool:
    try:
        return file.stat().st_size > 0
    except FileNotFoundError:  # an old entry that was deleted just now: there are newer ones
        return False


def is_log_file(name: str) -> bool:
    """Return whether a file of that name in a log's folder is an entry or a checkpoint."""
    return _FILE.fullmatch(name) is not None


def read_actions(entry: Path) -> Actions | None:
    """Read the actions of an entry; None when it is damaged."""
    try:
        return parse_actions(entry.read_bytes()) or None
    except (OSError, ValueError):
        return None


def parse_actions(content: bytes) -> Actions:
    """Parse an entry, which is a line of JSON for each action."""
    return [json.loads(line) for line in content.splitlines()]
