"""Disks that can be filled to the last byte, or only be read: for commands, which are processes of their own."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


class SmallDisk:
    """A file system of 5 MB."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._ballast = folder, folder / "ballast"

    def fill(self) -> None:
        """Leave no byte free."""
        with self._ballast.open("ab", buffering=0) as ballast, suppress(OSError):
            while True:
                ballast.write(bytes(1024))

    def free(self) -> None:
        """Take out again what filled it."""
        self._ballast.unlink()


@contextmanager
def mounted_small_disk(folder: Path) -> Iterator[SmallDisk]:
    """A small disk at this place; the test is skipped for those who may not mount one."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", folder], check=False)
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def only_to_be_read(folder: Path) -> Iterator[None]:
    """Let no process write into this folder, whoever it belongs to; skipped for those who may not mount."""
    if subprocess.run(["mount", "--bind", folder, folder], check=False).returncode:
        pytest.skip("only root can mount a folder to be read only")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
