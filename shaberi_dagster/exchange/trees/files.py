"""The files of legacy trees: what each of them is by its place, and what earlier imports know of it (`legacy_files`).

`…/model_answers/{dataset}/{model}.json` holds answers, `…/judgements/judge_{judge}/{dataset}/{model}.json` judgements;
both may be compressed (`.json.gz`). Everything else is listed as `unknown` with a reason and is never opened.
"""

import fnmatch
import gzip
import hashlib
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Literal, cast

import polars as pl

from shaberi_dagster.lake.schemas import LEGACY_FILES
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import check_model_name

Kind = Literal["answers", "judgements", "unknown"]

_SUFFIXES = (".json", ".json.gz")
_JUDGE_PREFIX = "judge_"
_ANSWERS_DEPTH = 2  # model_answers/{dataset}/{model}.json
_JUDGEMENTS_DEPTH = 3  # judgements/{judge}/{dataset}/{model}.json
_NOT_READ = frozenset({".git"})
CONTENT = ("model", "kind", "judge", "sha256")
"""Columns that tell contents apart; `judge` is null for answers."""
VERSION_CONTROL = "version control, not read"
"""The reason of what is left out on purpose."""


UNREADABLE = (OSError, EOFError, zlib.error)
"""Errors that reading a file can raise."""


DATASETS: Mapping[str, tuple[str, str]] = {
    "elyza__ELYZA-tasks-100": ("elyza", "elyza@100"),
    "lightblue__tengu_bench": ("tengu", "tengu@120"),
    "shisa-ai__ja-mt-bench-1shot": ("mt_bench", "mt_bench@60"),
    "yuzuai__rakuda-questions": ("rakuda", "rakuda@40"),
    "lightblue__japanes-mt-bench-oneshot": ("mt_bench", "mt_bench@80"),
}
"""Benchmark and question set that a dataset folder is meant to hold.

The benchmark is that of its questions, wherever the text of a question does not say otherwise; the set is that of its
complete files.
"""


KnownFiles = Mapping[tuple[str, int, int], str]
"""The hashes of files as their bytes were last read, by path, size and time."""


@dataclass(frozen=True)
class LegacyFile:
    r"""A file of a tree.

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
        modified_ns: When it was last written, in nanoseconds since 1970.
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
    modified_ns: int | None = None
    sha256: str | None = None

    @property
    def content(self) -> tuple[str | None, str, str | None, str | None]:
        """Files that agree in it say the same, wherever they lie: model, kind, judge and bytes."""
        return self.model, self.kind, self.judge, self.sha256

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


def opened(file: LegacyFile) -> BinaryIO:
    """The file for reading the bytes of its lines.

    Raises:
        OSError: It cannot be opened.
    """
    if file.location.suffix == ".gz":
        return cast("BinaryIO", gzip.open(file.location))
    return file.location.open("rb")


def scan(
    root: Path, source: str, known: KnownFiles = MappingProxyType({}), *, most_entries: int = 1_000_000
) -> Iterator[LegacyFile]:
    """List the files of a tree in the order of their paths, with the sha256 of those that are to be read.

    A file that has the size and the time of a known one is taken to be that one, without being opened.
    Symbolic links are listed and not followed, so loops are harmless and nothing outside of the tree is read.

    Args:
        root: The tree's folder.
        source: The name it is known by.
        known: Files that were read before.
        most_entries: A tree with more files than that is refused.

    Raises:
        ConfigurationError: There is no such folder, or it has more than `most_entries` files.
    """
    if not root.is_dir():
        raise ConfigurationError(f"legacy tree {root} is not a folder")
    files = list(islice(_walk(root, source), most_entries + 1))
    if len(files) > most_entries:
        raise ConfigurationError(f"legacy tree {root} has more than {most_entries:,} files: name the tree itself")
    with ThreadPoolExecutor() as threads:  # hashing does not hold the interpreter
        yield from threads.map(lambda file: file if file.reason else _with_hash(file, known), files)


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
                    yield _unknown(root, source, location, VERSION_CONTROL)
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
        model=_model_of(parts[-1]),
        size=status.st_size,
        modified_ns=status.st_mtime_ns,
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
    if not parts[-1].endswith(_SUFFIXES):
        return f"not a {' or '.join(_SUFFIXES)} file"
    objection = _objection(_model_of(parts[-1]), "model") or (_objection(judge, "judge") if judge is not None else None)
    return objection or (kind, judge)


@lru_cache(maxsize=10_000)  # a model has dozens of files
def _objection(name: str, what: str) -> str | None:
    """Say why a model or judge cannot have a name; None if it can."""
    try:
        check_model_name(name, what)
    except ConfigurationError as error:
        return str(error)
    return None


def _model_of(name: str) -> str:
    return name.removesuffix(".gz").removesuffix(".json")


def _with_hash(file: LegacyFile, known: KnownFiles) -> LegacyFile:
    try:
        sha256 = known.get((file.path, file.size or 0, file.modified_ns or 0))
        if sha256 is None:
            with file.location.open("rb") as stream:
                sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        return replace(file, sha256=sha256)
    except OSError as error:
        return replace(file, reason=f"cannot be read: {error.strerror or error}")


def _unknown(root: Path, source: str, location: Path, reason: str) -> LegacyFile:
    return LegacyFile(source, _printable(location.relative_to(root)), location, "unknown", reason)


def _printable(path: Path) -> str:
    return os.fsencode(path.as_posix()).decode(errors="backslashreplace")


READ = ("imported", "duplicate")
"""States of files whose lines are in the lake."""
_FACTS = ("source", "path", "root", "sha256", "size", "modified_ns", "kind", "dataset", "judge", "model")
_COUNTS = ("lines", "blank", "quarantined", "imported", "repeated")
_DATASET_ORDER = {name: place for place, name in enumerate(DATASETS)}


@dataclass(frozen=True)
class Listing:
    """The files of some trees beside those that earlier imports have read.

    Attributes:
        found: What the trees have now.
        stored: Rows of `legacy_files` from before.
    """

    found: Sequence[LegacyFile]
    stored: pl.DataFrame

    @cached_property
    def _read(self) -> pl.DataFrame:
        """Files that earlier imports have read."""
        return self.stored.filter(pl.col("status").is_in(READ))

    @cached_property
    def current(self) -> pl.DataFrame:
        """The files whose lines count, in the order of precedence: those that were found, and others of before.

        Columns: those of `_FACTS`, and `status`: `imported`, or `duplicate` for the bytes of another one of its tree.
        """
        found = facts_of(file for file in self.found if file.reason is None)
        others = self._read.select(_FACTS).join(found, on=["source", "path"], how="anti")
        order = pl.col("dataset").replace_strict(_DATASET_ORDER, default=len(_DATASET_ORDER))
        return (
            pl.concat([found, others])
            .sort("source", order, "path", maintain_order=True)
            .with_columns(
                status=pl.when(pl.struct("source", *CONTENT).is_first_distinct())
                .then(pl.lit("imported"))
                .otherwise(pl.lit("duplicate"))
            )
        )

    @cached_property
    def new(self) -> pl.DataFrame:
        """The current files that no import has read."""
        return self.current.join(self._read, on=["source", "path", "sha256"], how="anti")

    @cached_property
    def replaced(self) -> pl.DataFrame:
        """Files that have other bytes than those that were imported: `_FACTS` of before, and `new_sha256`."""
        now = self.current.select("source", "path", new_sha256="sha256")
        both = self._read.select(_FACTS).join(now, on=["source", "path"])
        return both.filter(pl.col("sha256") != pl.col("new_sha256"))

    def to_read(self) -> dict[str, list[LegacyFile]]:
        """For each model with something new one file of each content that no import has read."""
        known = self.stored.filter(status="imported").select(CONTENT)
        unread = set(self.new.join(known, on=[*CONTENT], how="anti", nulls_equal=True).select(CONTENT).iter_rows())
        files: dict[str, list[LegacyFile]] = {model: [] for model in sorted(self.new["model"].unique())}
        for file in self.found:
            if file.reason is None and file.content in unread:
                unread.remove(file.content)
                files[file.model or ""].append(file)
        return files


def find_files(trees: Mapping[str, Path], pattern: str, stored: pl.DataFrame) -> list[LegacyFile]:
    """The files of trees, in the order of precedence.

    Args:
        trees: Folders by the names they are known by.
        pattern: Only files of models whose names match it, and what is of no model.
        stored: Rows of `legacy_files`: what did not change since is not read.

    Raises:
        ConfigurationError: A folder does not exist or is far too large.
    """
    known: dict[str, dict[tuple[str, int, int], str]] = {name: {} for name in trees}
    columns = ["source", "sha256", "path", "size", "modified_ns"]
    read = stored.filter(pl.col("status").is_in(READ), pl.col("modified_ns").is_not_null())
    for source, sha256, *state in read.filter(pl.col("source").is_in(list(trees))).select(columns).iter_rows():
        known[source][tuple(state)] = sha256
    found = [file for name, root in trees.items() for file in scan(root, name, known[name])]
    found.sort(key=lambda file: _DATASET_ORDER.get(file.dataset or "", len(_DATASET_ORDER)))
    return [file for file in found if file.model is None or fnmatch.fnmatchcase(file.model, pattern)]


def facts_of(files: Iterable[LegacyFile]) -> pl.DataFrame:
    """Make rows of `legacy_files` with what the places of files tell."""
    rows = [[getattr(file, name) for name in _FACTS] for file in files]
    return pl.DataFrame(rows, schema={name: LEGACY_FILES.schema[name] for name in _FACTS}, orient="row")


def read_file_rows(current: pl.DataFrame, contents: pl.DataFrame, counts: pl.DataFrame) -> pl.DataFrame:
    """Make the rows of `legacy_files` for files that were read.

    Args:
        current: As of `Listing.current`.
        contents: What became of their lines when they were read (`CONTENTS`).
        counts: source, content, imported, repeated: what became of their rows.
    """
    keys = ["source", *CONTENT]
    main = current.filter(status="imported").select(*keys, duplicate_of=pl.format("{}:{}", "source", "path"))
    is_main = pl.col("status") == "imported"
    rows = (
        current.join(contents, on=[*CONTENT], how="left", nulls_equal=True)
        .join(counts, on=keys, how="left", nulls_equal=True)
        .join(main, on=keys, nulls_equal=True)
        .with_columns(pl.col("imported", "repeated").fill_null(0))
        .with_columns(
            pl.when(is_main).then(pl.col(name)).alias(name)
            for name in (*_COUNTS, "benchmark", "question_set", "row_columns", "column_lines", "reason")
        )
        .with_columns(
            duplicate_of=pl.when(~is_main).then("duplicate_of"),
            status=pl.when(pl.col("reason").is_not_null()).then(pl.lit("unreadable")).otherwise("status"),
        )
    )
    return rows.match_to_schema(LEGACY_FILES.schema, missing_columns="insert", extra_columns="ignore")


def unread_file_rows(files: Iterable[LegacyFile], current: pl.DataFrame) -> pl.DataFrame:
    """Make the rows of `legacy_files` for what is not read, with the reasons, unless it was read before."""
    left_out = [file for file in files if file.reason is not None]
    rows = facts_of(left_out).with_columns(
        reason=pl.Series([file.reason for file in left_out], dtype=pl.String),
        status=pl.when(kind="unknown").then(pl.lit("unknown")).otherwise(pl.lit("unreadable")),
    )
    unread = rows.join(current, on=["source", "path"], how="anti")
    return unread.match_to_schema(LEGACY_FILES.schema, missing_columns="insert", extra_columns="ignore")


def updated(stored: pl.DataFrame, rows: pl.DataFrame, tag: str, now: datetime) -> pl.DataFrame:
    """`legacy_files` with what is said of some files now; bytes of before that were read are `replaced`."""
    keys = ["source", "path", "sha256"]
    earlier = stored.select(*keys, first="imported_at").unique(keys)
    fresh = rows.join(earlier, on=keys, how="left", nulls_equal=True, maintain_order="left").with_columns(
        import_tag=pl.lit(tag), imported_at=pl.coalesce("first", pl.lit(now))
    )
    said_anew = stored.join(rows, on=keys, how="anti", nulls_equal=True)
    elsewhere = said_anew.join(rows, on=["source", "path"], how="anti")
    replaced = said_anew.join(rows, on=["source", "path"], how="semi").filter(
        pl.col("status").is_in((*READ, "replaced"))
    )
    return pl.concat([elsewhere, replaced.with_columns(status=pl.lit("replaced")), fresh.select(stored.columns)])
