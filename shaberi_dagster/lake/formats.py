"""The format of a lake: a number in a small file.

Nothing here needs polars or delta-rs, so that readers start quickly.
"""

import json
from pathlib import Path

from shaberi_dagster.lake.files import swap_in
from shaberi_dagster.lake.log import LOG
from shaberi_dagster.lake.mirror import Mirror
from shaberi_dagster.util.errors import ConfigurationError

FORMAT = 8
"""The format that this program reads and writes. Those below 8 are of before 1.0."""
FORMAT_NAME = "_format.json"
_FIRST, _COPYING = 1, "copying"


def stored_format(folder: Path) -> int | None:
    """Read the format of the lake in a folder; None without one yet.

    Raises:
        ConfigurationError: Its file is broken.
    """
    path = folder / FORMAT_NAME
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return _FIRST if next(folder.glob(f"*/{LOG}"), None) else None
    if (source := _copied_from(text)) is not None:
        raise ConfigurationError(
            f"the lake in {folder} is a copy that was not finished: `shaberi copy-lake {source} {folder}` finishes it"
        )
    try:
        number = json.loads(text)["format"]
    except (ValueError, KeyError, TypeError):
        number = None
    if not isinstance(number, int) or number < _FIRST:
        raise ConfigurationError(
            f'{path} does not tell the lake\'s format: write {{"format": N}} into it; this program knows {FORMAT}'
        )
    return number


def check_format(folder: Path) -> int | None:
    """Refuse a lake of another format, before anything is written.

    Returns:
        The lake's format; None when there is no lake yet.

    Raises:
        ConfigurationError: Its format is another than this program's, or its file is broken.
    """
    stored = stored_format(folder)
    if stored is not None and stored > FORMAT:
        raise ConfigurationError(
            f"the lake in {folder} has format {stored} and this program knows only {FORMAT}: "
            "update shaberi-dagster, or point SHABERI_WAREHOUSE to another lake"
        )
    if stored is not None and stored < FORMAT:
        raise ConfigurationError(
            f"the lake in {folder} was made before 1.0 (format {stored}): export it with the version of the tag "
            "before-1.0 (`shaberi export`), and import that here"
        )
    return stored


def unfinished_copy(folder: Path) -> str | None:
    """Return the source of a copy in a folder that was not finished; None without one."""
    path = folder / FORMAT_NAME
    return _copied_from(path.read_text(encoding="utf-8")) if path.is_file() else None


def _copied_from(text: str) -> str | None:
    try:
        return str(json.loads(text)[_COPYING])
    except (ValueError, KeyError, TypeError):
        return None


def write_format(folder: Path, copied_from: str | None = None) -> None:
    """Give a new lake its format, before its first table is made.

    Args:
        folder: The lake.
        copied_from: What it is a copy of, as long as the copy is not finished; no one takes it for a lake.
    """
    document = {"format": FORMAT} if copied_from is None else {_COPYING: copied_from}
    content = (json.dumps(document) + "\n").encode()
    if mirror := Mirror.of(folder):
        mirror.put(FORMAT_NAME, content)
    else:
        swap_in(folder / FORMAT_NAME, content, durable=True)
