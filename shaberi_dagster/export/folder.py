"""A folder of files that are always whole, and from which no path leads out."""

import contextlib
import fcntl
import os
import stat
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from shaberi_dagster.errors import ShaberiError

_UNFINISHED = ".part"
_OURS = (".json", ".jsonl", _UNFINISHED)
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Folder:
    """An open folder; from `opened_folder`.

    Every file and folder is reached through the descriptor of the one above it and no link is followed, so that
    nothing outside can be read, written or deleted, whatever somebody puts there meanwhile.

    Args:
        path: Where it is, for messages.
        descriptor: The folder itself.
        closing: Closes the descriptors of its folders.

    Attributes:
        sizes: The files that `write` has seen to, and their bytes.
        changed: Those of them that were not there, or had another content.
    """

    def __init__(self, path: Path, descriptor: int, closing: contextlib.ExitStack) -> None:
        self.path = path
        self._closing = closing
        self._descriptors = {"": descriptor}
        self.sizes: dict[str, int] = {}
        self.changed: set[str] = set()

    def names(self) -> list[str]:
        """What is directly in it, but for what a killed writer left."""
        return [entry.name for entry in _entries(self._descriptors[""]) if not entry.name.endswith(_UNFINISHED)]

    def read(self, path: str) -> bytes | None:
        """The content of a file, None when there is no such plain file.

        Args:
            path: Its folders and name, joined by `/`; so in all methods.
        """
        folder, _, name = path.rpartition("/")
        with _opened(self._enter(folder), name) as file:
            return None if file is None else file.read()

    def write(self, path: str, content: Iterable[bytes]) -> None:
        """Put a file in its place at once, unless it has this content.

        Args:
            path: Where.
            content: Its bytes, piece by piece: they need not all be in memory.

        Raises:
            OSError: It cannot be written; what was there is there still.
            ShaberiError: One of its folders is a link or a file.
        """
        folder, _, name = path.rpartition("/")
        parent = self._enter(folder)
        unfinished, file = _unfinished(parent)
        try:
            with file, _opened(parent, name) as there:
                same = there is not None
                for piece in content:
                    file.write(piece)
                    same = same and there is not None and there.read(len(piece)) == piece
                self.sizes[path] = file.tell()
                if same and there is not None and not there.read(1):
                    os.unlink(unfinished, dir_fd=parent)
                    return
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, name, src_dir_fd=parent, dst_dir_fd=parent)
            self.changed.add(path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(unfinished, dir_fd=parent)
            raise

    def scratch(self) -> "Scratch":
        """A file without a name, on the same disk."""
        parent = self._descriptors[""]
        name, file = _unfinished(parent)
        os.unlink(name, dir_fd=parent)
        return Scratch(self._closing.enter_context(file))

    def clear(self, folder: str) -> int:
        """Delete the JSON files of one of its folders that `write` has not seen to, and folders that are empty then.

        Returns:
            How many files were deleted. Files of other kinds, and links to folders, stay.
        """
        removed = 0
        parent = self._enter(folder)
        for entry in _entries(parent):
            path = f"{folder}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                removed += self.clear(path)
                with contextlib.suppress(OSError):  # not empty
                    os.rmdir(entry.name, dir_fd=parent)
            elif path not in self.sizes and entry.name.endswith(_OURS):
                os.unlink(entry.name, dir_fd=parent)
                removed += not entry.name.endswith(_UNFINISHED)
        return removed

    def _enter(self, folder: str) -> int:
        if folder not in self._descriptors:
            above, _, name = folder.rpartition("/")
            descriptor = _made(self._enter(above), name, self.path / folder)
            self._closing.callback(os.close, descriptor)
            self._descriptors[folder] = descriptor
        return self._descriptors[folder]


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
        root: Where to begin; it may be a link.
        names: The folder in it, the folder in that one, …; none of them may be a link.

    Raises:
        OSError: It cannot be made.
        ShaberiError: One of them is a link or a file.
    """
    root.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as closing:
        path, descriptor = root, os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        closing.callback(os.close, descriptor)
        for name in names:
            path /= name
            descriptor = _made(descriptor, name, path)
            closing.callback(os.close, descriptor)
        # Where a file system has no locks, each file is still whole: temporary names are unique.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield Folder(path, descriptor, closing)


def _entries(folder: int) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)


def _made(parent: int, name: str, path: Path) -> int:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
    try:
        return os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    except NotADirectoryError:
        raise ShaberiError(f"{path} is a link or a file: move it away") from None


def _unfinished(parent: int) -> tuple[str, BinaryIO]:
    """A new file, and its name until it has another or none."""
    name = f".{uuid.uuid4().hex}{_UNFINISHED}"
    descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=parent)
    return name, open(descriptor, "w+b")  # noqa: PTH123  (a descriptor)


@contextlib.contextmanager
def _opened(parent: int, name: str) -> Iterator[BinaryIO | None]:
    """A plain file to read; None when there is no such file."""
    # Without O_NONBLOCK a named pipe would wait for its writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=parent)
    except OSError:
        yield None
        return
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        yield None
        return
    with open(descriptor, "rb") as file:  # noqa: PTH123  (a descriptor)
        yield file
