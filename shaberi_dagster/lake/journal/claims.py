"""Claims to requests among the processes of a machine: one at a time makes a call."""

import asyncio
import errno
import fcntl
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

from shaberi_dagster.lake.journal.base import pauses
from shaberi_dagster.util.errors import ShaberiError

_FLOCK = "hhqqi0q"  # struct flock: type, whence, start, length, process, padding
_OFFSET_DIGITS = 15  # of the request hash: 60 bits, since an offset in a file has 63
AVAILABLE = hasattr(fcntl, "F_OFD_SETLK")
"""True where the system has locks that belong to an open file; macOS has none that Python knows."""
_TAKEN = {errno.EAGAIN, errno.EACCES}


class FileClaims:
    """Claims to requests; a context manager.

    A claim is a lock on one byte of one empty file, at an offset that the request hash says. The kernel frees it
    with the process, however that ends. It belongs to this object: a second one in the same process waits as well.

    Args:
        path: The file; made when it is missing.

    Raises:
        ShaberiError: It cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise ShaberiError(f"{path} cannot be opened: {error.strerror}") from error

    @asynccontextmanager
    async def of(self, request_hash: str) -> AsyncIterator[None]:
        """Within this context no one else has the claim to the request; waits until it is free."""
        offset = int(request_hash[:_OFFSET_DIGITS], 16)
        for pause in pauses():
            if self._locks(offset):
                break
            await asyncio.sleep(pause)  # a lock that is waited for in the kernel would take a thread
        try:
            yield
        finally:
            self._set(fcntl.F_UNLCK, offset)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def _locks(self, offset: int) -> bool:
        try:
            self._set(fcntl.F_WRLCK, offset)
        except OSError as error:
            if error.errno in _TAKEN:
                return False
            raise
        return True

    def _set(self, kind: int, offset: int) -> None:
        fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, offset, 1, 0))
