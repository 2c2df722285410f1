"""A folder of files that are always whole: each is written beside its place and put there at once."""

import contextlib
import fcntl
import filecmp
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedWriter
from pathlib import Path
from typing import BinaryIO

from shaberi_dagster.errors import ShaberiError
from shaberi_dagster.journal.locks import alone_among_hosts
from shaberi_dagster.util.permissions import make_folder

_UNFINISHED = ".part"
_OURS = (".json", ".jsonl", _UNFINISHED)


class Folder:
    """An open folder; from `opened_folder`.

    The names of its folders are made safe by whoever opens it. Links are followed as anywhere else, so that a run can
    be on another disk; only what is deleted is never reached through one.

    Args:
        path: Where it is.
        closing: Closes its files.

    Attributes:
        sizes: The files that `write` has seen to, and their bytes.
        changed: Those of them that were not there, or had another content.
    """

    def __init__(self, path: Path, closing: contextlib.ExitStack) -> None:
        self.path = path
        self._closing = closing
        self.sizes: dict[str, int] = {}
        self.changed: set[str] = set()

    @property
    def is_begun(self) -> bool:
        """Return whether there is anything in it but what a killed writer left."""
        return any(entry.suffix != _UNFINISHED for entry in self.path.iterdir())

    def write(self, path: str, content: Iterable[bytes]) -> None:
        """Put a file in its place at once, unless it has this content.

        Args:
            path: Its folders and name, joined by `/`.
            content: Its bytes, piece by piece: they need not all be in memory.

        Raises:
            OSError: It cannot be written; what was there is there still.
            ShaberiError: A file is in the place of one of its folders.
        """
        place = self.path / path
        _make(place.parent)
        with _unfinished(place.parent) as file:
            file.writelines(content)
            file.flush()
            self.sizes[path] = file.tell()
            # A link's content is somebody else's.
            if not place.is_file() or place.is_symlink() or not filecmp.cmp(file.name, place, shallow=False):
                os.fsync(file.fileno())
                Path(file.name).replace(place)
                self.changed.add(path)

    def scratch(self) -> "Scratch":
        """A file without a name, on the same disk."""
        return Scratch(self._closing.enter_context(tempfile.TemporaryFile(dir=self.path)))

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
            elif path not in self.sizes and entry.name.endswith(_OURS):
                entry.unlink()
                removed += entry.suffix != _UNFINISHED
        return removed


class Scratch:
    """Lines that are on disk until they are wanted; from `Folder.scratch`.

    Args:
        file: An empty file to write and read.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._end = file, 0

    def add(self, line: bytes) -> int:
        """Keep a line, which ends with its only line break.

        Returns:
            Its place.
        """
        place = self._end
        if self._file.tell() != place:
            self._file.seek(place)
        self._end += self._file.write(line)
        return place

    def line(self, place: int) -> bytes:
        """The line at a place."""
        self._file.seek(place)
        return self._file.readline()


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
        closing.enter_context(alone_among_hosts("results", str(path.absolute())))
        yield Folder(path, closing)


def _make(folder: Path, root: Path | None = None) -> None:
    try:
        if root:
            make_folder(root)
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ShaberiError(f"{folder} is a file, or in one: move it away") from None


@contextlib.contextmanager
def _unfinished(folder: Path) -> Iterator[BufferedWriter]:
    """A new file that is gone in the end, unless it has got another name."""
    path = folder / f".{uuid.uuid4().hex}{_UNFINISHED}"
    with path.open("xb") as file:
        try:
            yield file
        finally:
            path.unlink(missing_ok=True)
