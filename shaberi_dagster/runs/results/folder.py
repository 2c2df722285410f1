"""A folder of files that are always whole: each is written beside its place and put there at once."""

import contextlib
import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from shaberi_dagster.lake.files import swap_in
from shaberi_dagster.lake.journal.locks import exclusive_lock_among_hosts
from shaberi_dagster.util.errors import ShaberiError
from shaberi_dagster.util.permissions import make_folder

_OURS = (".json", ".jsonl")
_UNFINISHED = re.compile(r"\.[0-9a-f]{32}")  # see `swap_in`


class Folder:
    """An open folder; from `opened_folder`.

    The names of its folders are made safe by its opener. Links are followed as anywhere else, so that a run can
    be on another disk; only what is deleted is never reached through one.

    Args:
        path: Where it is.

    Attributes:
        sizes: The files that `write` has seen to, and their bytes.
        changed: Those of them that were not there, or had another content.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sizes: dict[str, int] = {}
        self.changed: set[str] = set()

    @property
    def is_begun(self) -> bool:
        """Return whether there is anything in it but what a killed writer left."""
        return not all(_UNFINISHED.fullmatch(entry.name) for entry in self.path.iterdir())

    def write(self, path: str, content: Iterable[bytes]) -> None:
        """Put a file in its place at once, unless it has this content.

        Args:
            path: Its folders and name, joined by `/`.
            content: Its bytes, in pieces.

        Raises:
            OSError: It cannot be written; what was there is there still.
            ShaberiError: A file is in the place of one of its folders.
        """
        place = self.path / path
        _make(place.parent)
        whole = b"".join(content)
        self.sizes[path] = len(whole)
        # A link's content is somebody else's.
        if not place.is_file() or place.is_symlink() or place.read_bytes() != whole:
            swap_in(place, whole, durable=True)
            self.changed.add(path)

    def clear(self, folder: str) -> int:
        """Delete the JSON files of one of its folders that `write` has not seen to, and folders that are empty then.

        Returns:
            How many files were deleted. Files of other kinds, and links to folders, stay.
        """
        _make(self.path / folder)
        removed = 0
        for entry in sorted((self.path / folder).iterdir()):
            path = f"{folder}/{entry.name}"
            if entry.is_dir():
                if not entry.is_symlink():
                    removed += self.clear(path)
                    with contextlib.suppress(OSError):  # not empty
                        entry.rmdir()
            elif _UNFINISHED.fullmatch(entry.name):
                entry.unlink()
            elif path not in self.sizes and entry.suffix in _OURS:
                entry.unlink()
                removed += 1
        return removed


@contextlib.contextmanager
def opened_folder(root: Path, names: Sequence[str]) -> Iterator[Folder]:
    """A folder below `root`, made if it is missing; other writers of the same one wait until this one is done.

    Args:
        root: Where to begin.
        names: The folder in it, the folder in that one, …; none of them leads out of it.

    Raises:
        OSError: It cannot be made.
        ShaberiError: A file is in its place.
    """
    path = root.joinpath(*names)
    _make(path, root)
    with contextlib.ExitStack() as closing:
        descriptor = os.open(path, os.O_RDONLY)
        closing.callback(os.close, descriptor)
        # Where a file system has no locks, each file is still whole: temporary names are unique.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        closing.enter_context(exclusive_lock_among_hosts("results", str(path.absolute())))
        yield Folder(path)


def _make(folder: Path, root: Path | None = None) -> None:
    try:
        if root:
            make_folder(root)
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ShaberiError(f"{folder} is a file, or in one: move it away") from None
