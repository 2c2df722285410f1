"""Which files a legacy Shaberi tree has, and what each of them is by its place.

`…/model_answers/{dataset}/{model}.json` holds answers, `…/judgements/judge_{judge}/{dataset}/{model}.json` judgements.
Everything else is listed as `unknown` with a reason and is never opened.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.identity import check_model_name

Kind = Literal["answers", "judgements", "unknown"]

_SUFFIX = ".json"
_JUDGE_PREFIX = "judge_"
_ANSWERS_DEPTH = 2  # model_answers/{dataset}/{model}.json
_JUDGEMENTS_DEPTH = 3  # judgements/{judge}/{dataset}/{model}.json
_NOT_READ = frozenset({".git"})


@dataclass(frozen=True)
class LegacyFile:
    r"""One file of a tree.

    Attributes:
        source: Name of the tree.
        path: Its path in the tree with `/`; bytes that are not UTF-8 are shown as `\xNN`.
        location: Where it lies.
        kind: What it is by its place.
        reason: Why it is `unknown`, or why it cannot be read; None for a file to be read.
        dataset: Name of its dataset folder, as written.
        judge: Name of its judge folder without `judge_`; None for answers.
        model: Its name without the final `.json`, as written. It cannot be turned back into the model's own name with
            certainty; see `display_name`.
        size: In bytes.
        sha256: Of its bytes; None when it was not read.
    """

    source: str
    path: str
    location: Path
    kind: Kind
    reason: str | None = None
    dataset: str | None = None
    judge: str | None = None
    model: str | None = None
    size: int | None = None
    sha256: str | None = None

    @property
    def import_key(self) -> tuple[str | None, str, str | None, str | None]:
        """Files that agree in it are one import, wherever they lie: bytes, kind, judge and model."""
        return self.sha256, self.kind, self.judge, self.model

    @property
    def root(self) -> str:
        """The folder of its tree."""
        return _printable(self.location.absolute().parents[self.path.count("/")])


def display_name(model: str) -> str:
    """The likely name of a model by its file: `__` stood for `/`.

    >>> display_name("fireworks_ai__accounts__fireworks__models__llama-v3p1-8b-instruct")
    'fireworks_ai/accounts/fireworks/models/llama-v3p1-8b-instruct'
    """
    return model.replace("__", "/")


def scan(root: Path, source: str, *, most_entries: int = 1_000_000) -> Iterator[LegacyFile]:
    """All files of a tree in the order of their paths, with the sha256 of those that are to be read.

    Symbolic links are listed and not followed, so loops are harmless and nothing outside of the tree is read.

    Args:
        root: The tree's folder.
        source: The name it is known by.
        most_entries: A tree with more files than that is none.

    Raises:
        ConfigurationError: There is no such folder, or it has more than `most_entries` files.
    """
    if not root.is_dir():
        raise ConfigurationError(f"legacy tree {root} is not a folder")
    files = list(islice(_walk(root, source), most_entries + 1))
    if len(files) > most_entries:
        raise ConfigurationError(f"legacy tree {root} has more than {most_entries:,} files: name the tree itself")
    with ThreadPoolExecutor() as threads:  # hashing does not hold the interpreter
        yield from threads.map(lambda file: file if file.reason else _with_hash(file), files)


def _walk(root: Path, source: str) -> Iterator[LegacyFile]:
    pending = [root]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            yield _unknown(root, source, folder, f"folder cannot be read: {error.strerror or error}")
            continue
        below = []
        for entry in entries:
            location = Path(entry.path)
            if entry.is_symlink():
                yield _unknown(root, source, location, "symbolic link, not followed")
            elif entry.is_dir(follow_symlinks=False):
                if entry.name in _NOT_READ:
                    yield _unknown(root, source, location, "version control, not read")
                else:
                    below.append(location)
            else:
                yield _classified(root, source, location, entry)
        pending.extend(reversed(below))


def _classified(root: Path, source: str, location: Path, entry: os.DirEntry[str]) -> LegacyFile:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        return _unknown(root, source, location, f"cannot be read: {error.strerror or error}")
    if not stat.S_ISREG(status.st_mode):
        return _unknown(root, source, location, "not a regular file")
    # With the folders above the root, so that a part of a tree can be read as well.
    parts = _printable(location.absolute()).split("/")
    place = _place(parts)
    if isinstance(place, str):
        return replace(_unknown(root, source, location, place), size=status.st_size)
    kind, judge = place
    return LegacyFile(
        source,
        _printable(location.relative_to(root)),
        location,
        kind,
        dataset=parts[-2],
        judge=judge,
        model=parts[-1].removesuffix(_SUFFIX),
        size=status.st_size,
    )


def _place(parts: list[str]) -> tuple[Kind, str | None] | str:
    """Kind and judge of a file by its path, or the reason why it has none."""
    folders = parts[:-1]
    kind: Kind
    if folders[-_ANSWERS_DEPTH:-1] == ["model_answers"]:
        kind, judge = "answers", None
    elif folders[-_JUDGEMENTS_DEPTH:-2] == ["judgements"]:
        kind, judge = "judgements", folders[-2].removeprefix(_JUDGE_PREFIX)
    else:
        return "not at a place of answers or judgements"
    if not parts[-1].endswith(_SUFFIX):
        return f"not a {_SUFFIX} file"
    try:
        check_model_name(parts[-1].removesuffix(_SUFFIX))
        if judge is not None:
            check_model_name(judge, "judge")
    except ConfigurationError as error:
        return str(error)
    return kind, judge


def _with_hash(file: LegacyFile) -> LegacyFile:
    try:
        return replace(file, sha256=sha256_of_file(file.location))
    except OSError as error:
        return replace(file, reason=f"cannot be read: {error.strerror or error}")


def sha256_of_file(path: Path) -> str:
    """The hex sha256 of a file's bytes.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _unknown(root: Path, source: str, location: Path, reason: str) -> LegacyFile:
    return LegacyFile(source, _printable(location.relative_to(root)), location, "unknown", reason)


def _printable(path: Path) -> str:
    return os.fsencode(path.as_posix()).decode(errors="backslashreplace")
