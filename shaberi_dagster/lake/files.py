"""Files that appear at once: no one sees half of one, and a process that is killed leaves the old one."""

import os
import uuid
from pathlib import Path


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
