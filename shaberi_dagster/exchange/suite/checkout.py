"""The suite's files in a checkout, from a folder or from a commit of a git repository; nothing of it is run."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from shaberi_dagster.util.errors import ConfigurationError

FILES = ("evaluation_datasets_config.py", "llm_functions.py", "generate_answers.py", "judge_answers.py")
"""The suite's files that say what is sent and how it is scored."""
_MOST_BYTES, _SECONDS = 1_000_000, 60
_SKIPPED = frozenset({".git", ".venv", "venv", "node_modules", "__pycache__", "site-packages"})
_COMMIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/~^-]*")


@dataclass(frozen=True)
class Checkout:
    """The files of a version of the suite.

    Attributes:
        source: The repository's or the folder's name, without where it is.
        commit: The full hash; None for a folder that is no git repository or was read as it lies there.
        files: Texts of the suite's files by path.
        unreadable: Files that were left out, and why.
    """

    source: str
    commit: str | None
    files: dict[str, str]
    unreadable: tuple[str, ...] = ()


def read_checkout(path: Path, commit: str | None = None) -> Checkout:
    """Read a checkout.

    Args:
        path: A folder. A git repository is read through git, at its HEAD if no commit is named.
        commit: Hash, tag or branch.

    Raises:
        ConfigurationError: There is no such folder or commit, or none of the suite's files.
    """
    if not path.is_dir():
        raise ConfigurationError(f"{path} is not a folder: give a checkout of the old suite")
    if commit is not None and not _COMMIT.fullmatch(commit):
        raise ConfigurationError(f"{commit!r} is not the name of a commit")
    root = _git(path, "rev-parse", "--show-toplevel")
    is_repository = root is not None and Path(root.decode(errors="replace").strip()).resolve() == path.resolve()
    if not is_repository:
        is_bare = _git(path, "rev-parse", "--is-bare-repository")
        is_repository = is_bare is not None and is_bare.strip() == b"true"
    if not is_repository and commit is not None:
        raise ConfigurationError(f"{path} is not a git repository, so it has no commit {commit}")
    contents, found = _committed(path, commit or "HEAD") if is_repository else (_in_folder(path), None)
    if not contents:
        raise ConfigurationError(f"{path} has no {', '.join(FILES)}{f' at {commit}' if commit else ''}")
    files, unreadable = {}, []
    for name, content in contents.items():
        try:
            files[name] = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            unreadable.append(f"{name}: is not UTF-8")
    return Checkout(_name(path, is_repository), found, files, tuple(unreadable))


def _committed(path: Path, commit: str) -> tuple[dict[str, bytes], str]:
    """Return the suite's files of a commit, and its hash."""
    told = _git(path, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    if told is None:
        raise ConfigurationError(f"{path} has no commit {commit}")
    found = told.decode().strip()
    listed = _git(path, "ls-tree", "-r", "-z", "-l", found) or b""
    contents: dict[str, bytes] = {}
    for entry in listed.split(b"\0"):
        about, _, name = entry.partition(b"\t")
        mode, _, blob, size = (*about.split(), b"", b"", b"", b"")[:4]
        wanted = PurePosixPath(name.decode(errors="replace"))
        is_file = mode in {b"100644", b"100755"} and size.isdigit() and int(size) <= _MOST_BYTES
        if is_file and wanted.name in FILES:
            contents[str(wanted)] = _git(path, "cat-file", "blob", blob.decode()) or b""
    return contents, found


def _in_folder(path: Path) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for file in (Path(folder) / name for name in FILES if name in names):
            if file.is_file() and not file.is_symlink() and file.stat().st_size <= _MOST_BYTES:
                contents[file.relative_to(path).as_posix()] = file.read_bytes()
    return contents


def _name(path: Path, is_repository: bool) -> str:
    """Return the repository's name: that of its origin, else of the folder."""
    told = _git(path, "config", "--local", "--get", "remote.origin.url") if is_repository else None
    address = re.split(r"[?#]", told.decode(errors="replace").strip())[0] if told else ""
    last = re.split(r"[/:@]", address.rstrip("/"))[-1].removesuffix(".git")
    return re.sub(r"[^\w.-]", "", last) or path.resolve().name


def _git(path: Path, *arguments: str) -> bytes | None:
    """Return what git says; None where it fails. No hook, pager, filter or helper of the repository is run."""
    options = (
        *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.pager=cat"),
        *("-c", "protocol.allow=never", "-c", "safe.directory=*"),
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {
        **kept,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }
    try:
        done = subprocess.run(  # noqa: S603  (no shell, fixed command)
            ["git", *options, "-C", str(path), "--no-pager", *arguments],  # noqa: S607
            capture_output=True,
            check=False,
            env=environment,
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        return None
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(f"git did not answer for {path} within {_SECONDS} s") from error
    return done.stdout if done.returncode == 0 else None
