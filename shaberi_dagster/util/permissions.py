"""Permissions of what commands make: for its user alone, or for the group that `SHABERI_SHARED_GROUP` names.

The files of a lake and of Dagster are written by libraries, which only the umask of the process tells their mode.
"""

import grp
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from shaberi_dagster.util.errors import ConfigurationError

GROUP_VARIABLE = "SHABERI_SHARED_GROUP"
_ONLY_USER, _ONLY_GROUP, _OTHERS = 0o077, 0o007, 0o005
_user_umasks: list[int] = []
"""The umask before each `private_files` that is entered; the first one is the user's."""


def shared_group(environment: Mapping[str, str] = os.environ) -> int | None:
    """Return the number of the group that shares what is made; None where no one does.

    Raises:
        ConfigurationError: There is no such group, or the user is not in it.
    """
    name = environment.get(GROUP_VARIABLE)
    if not name:
        return None
    try:
        number = grp.getgrnam(name).gr_gid
    except KeyError:
        raise ConfigurationError(f"{GROUP_VARIABLE}: there is no group {name!r}") from None
    if number not in {os.getegid(), *os.getgroups()}:
        raise ConfigurationError(f"{GROUP_VARIABLE}: you are not in the group {name!r}")
    return number


@contextmanager
def private_files(folder: Path) -> Iterator[None]:
    """Within this context, this process and those that it starts make files as the mode of a folder asks for.

    In a new folder they are their user's alone, or the shared group's. One that is there keeps its mode: files in it
    are for those whom it lets in and the user's own umask does, too.

    Args:
        folder: The lake, or the folder of a cluster.

    Raises:
        ConfigurationError: There is no such group, or the user is not in it.
    """
    group = shared_group()
    own = os.umask(_ONLY_USER)
    _user_umasks.append(own)
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # which all users of the program read
    try:
        os.umask(_umask(folder, group, own))
        yield
    finally:
        os.umask(_user_umasks.pop())
        sys.dont_write_bytecode = writes_bytecode


def _umask(folder: Path, group: int | None, own: int) -> int:
    try:
        status = folder.stat()
    except OSError:  # it is going to be made
        return _ONLY_USER if group is None else _ONLY_GROUP
    return _ONLY_GROUP if status.st_gid == group else own | ~status.st_mode & _ONLY_USER


@contextmanager
def user_umask() -> Iterator[None]:
    """Within this context files have the modes of any file of the user's, as those that are asked for by name."""
    before = os.umask(_ONLY_USER)
    os.umask(_user_umasks[0] if _user_umasks else before)
    try:
        yield
    finally:
        os.umask(before)


def make_folder(folder: Path) -> None:
    """Make a folder that only the user can enter, or the shared group as well; one that is there stays as it is.

    Raises:
        OSError: It cannot be made.
        ConfigurationError: There is no such group, or the user is not in it.
    """
    if folder.is_dir():
        return
    with user_umask():  # the folders above are not ours
        folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    if (group := shared_group()) is not None:
        os.chown(folder, -1, group)
        folder.chmod(0o2770)


def let_group_write(file: Path) -> None:
    """Let the shared group write into a file of a library that lets its owner alone, whatever the umask."""
    status = file.stat()
    if status.st_gid == shared_group() and status.st_uid == os.geteuid():
        file.chmod(status.st_mode | 0o060)


def is_open_to_others(folder: Path) -> bool:
    """Return whether users of this machine who are neither its owner nor of its group can look into a folder."""
    return folder.is_dir() and all(
        place.stat().st_mode & (_OTHERS if place == folder else 0o001) for place in (folder, *folder.parents)
    )
