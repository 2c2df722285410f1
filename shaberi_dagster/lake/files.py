"""Files that appear at once: nobody sees half of one, and a process that is killed leaves the old one."""

import hashlib
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from shaberi_dagster.settings import cache_folder

_HASH_BYTES = 32
_NO_CACHE = (OSError, RuntimeError)  # the latter says that nobody knows the user's home


def swap_in(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Put a file in its place, in the place of another one if there is one.

    Args:
        path: The file; its folder is made when it is missing.
        content: All of it.
        durable: Whether it must survive the machine, too.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{uuid.uuid4().hex}")
    try:
        with scratch.open("wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def kept(name: str, made_from: str, make: Callable[[], bytes]) -> bytes:
    """Return what takes long to make, from the user's caches if it is there.

    There it stands behind a hash, which tells whether it is whole and made from the same.

    Args:
        name: Of its file.
        made_from: What decides its content.
        make: Makes it.
    """
    with suppress(*_NO_CACHE):
        found = (cache_folder() / name).read_bytes()
        if found.startswith(_hash(made_from, found[_HASH_BYTES:])):
            return found[_HASH_BYTES:]
    made = make()
    with suppress(*_NO_CACHE):
        swap_in(cache_folder() / name, _hash(made_from, made) + made)
    return made


def _hash(made_from: str, content: bytes) -> bytes:
    return hashlib.sha256(made_from.encode() + content).digest()
