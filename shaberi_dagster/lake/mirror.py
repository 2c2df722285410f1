"""A lake on object storage, and the folder of this machine that mirrors it.

Delta's files never change once they have their names, so a mirror is a copy by name: of each table first the Parquet
files, then the entries of the log that name them. Whatever reads, polars, delta-rs, DuckDB and the catalog, reads the
mirror as the lake that it is; only commits go to the store. Nothing here needs polars or delta-rs at start, so that
readers start quickly.
"""

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from shaberi_dagster.lake.files import swap_in
from shaberi_dagster.lake.log import LOG, is_log_file, parse_actions
from shaberi_dagster.settings import MIRROR_MARK
from shaberi_dagster.util.errors import ConfigurationError, ShaberiError

if TYPE_CHECKING:
    from obstore import store


_AT_ONCE = 32
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_RETRIES: Any = {"max_retries": 10}
_FRESH_SECONDS = 1.0
"""A mirror that was pulled so lately is not pulled again for reading."""
_KEPT_SECONDS = 7 * 24 * 3600
"""Time for which a file that no table names any more stays, for readers of an older catalog."""


@dataclass(frozen=True)
class Mirror:
    """A store and the folder that mirrors it.

    Attributes:
        folder: The mirror.
        uri: The store, `s3://bucket/path`; keys and address come from the environment (`AWS_ACCESS_KEY_ID`,
            `AWS_SECRET_ACCESS_KEY`, `AWS_ENDPOINT_URL`, `AWS_REGION`) and are written nowhere.
    """

    folder: Path
    uri: str

    @classmethod
    def of(cls, folder: Path) -> "Mirror | None":
        """The mirror in a folder; None when it is a lake itself."""
        try:
            return cls(folder, (folder / MIRROR_MARK).read_text(encoding="utf-8").strip())
        except (FileNotFoundError, NotADirectoryError):
            return None

    @property
    def options(self) -> dict[str, str]:
        """Options that delta-rs needs beside the environment."""
        return {"AWS_ALLOW_HTTP": "true"} if _endpoint().startswith("http://") else {}

    @cached_property
    def _store(self) -> "store.ObjectStore":
        return _connected(self.uri, _endpoint())

    def refresh(self) -> None:
        """Bring the mirror up to date, unless that was done just now.

        Raises:
            ShaberiError: The store cannot be reached.
        """
        if time.monotonic() - _pulled.get(self.folder, -_FRESH_SECONDS) >= _FRESH_SECONDS:
            self.pull()

    def pull(self, *tables: str) -> None:
        """Copy what is new in the store.

        Args:
            tables: Only of these; none named means everything.

        Raises:
            ShaberiError: The store cannot be reached.
        """
        known = tables or sorted(path.parent.name for path in self.folder.glob(f"*/{LOG}"))
        with _reaching(self.uri), ThreadPoolExecutor(_AT_ONCE) as threads:
            there = None if tables else threads.submit(self._listed)
            entries = dict(zip(known, threads.map(self._new_entries, known), strict=True))
            if there is not None:
                folders, files = there.result()
                fresh = sorted(folders - entries.keys())
                entries |= zip(fresh, threads.map(self._new_entries, fresh), strict=True)
                list(threads.map(lambda name: self._copy(name, again=True), files))
            for table, names in entries.items():
                if names:
                    self._take(table, names, threads)
        if not tables:
            _pulled[self.folder] = time.monotonic()

    def push(self, names: Iterable[str]) -> None:
        """Copy files of the mirror to the store, before a commit names them there.

        Args:
            names: Below the folder.

        Raises:
            ShaberiError: The store cannot be reached.
        """
        with _reaching(self.uri), ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(lambda name: self._store.put(name, self.folder / name), names))

    def fetch(self, name: str) -> None:
        """Copy a file of a table from the store once more.

        Args:
            name: Below the folder.

        Raises:
            ShaberiError: The store cannot be reached, or lacks the file.
        """
        with _reaching(self.uri):
            self._copy(name, again=True)

    def fetch_log(self, table: str) -> None:
        """Copy the log of a table from the store once more, with the files that it names.

        Raises:
            ShaberiError: The store cannot be reached.
        """
        log = self.folder / table / LOG
        if log.is_dir():
            shutil.rmtree(log)
        self.pull(table)

    def put(self, name: str, content: bytes) -> None:
        """Write a small file to the store and the mirror."""
        with _reaching(self.uri):
            self._store.put(name, content)
        swap_in(self.folder / name, content)

    def prune(self, active: Iterable[str]) -> None:
        """Delete files that no table names any more and that have been here for a week.

        Args:
            active: Files that are named, below the folder.
        """
        needed = set(active)
        for path in self.folder.glob("*/**/*.parquet"):
            old = time.time() - path.stat().st_mtime > _KEPT_SECONDS
            name = path.relative_to(self.folder).as_posix()
            if old and path.parent.name != LOG and name not in needed and not name.startswith("_"):
                path.unlink(missing_ok=True)

    def is_empty(self) -> bool:
        """Return whether the store has nothing there yet.

        Raises:
            ShaberiError: It cannot be reached.
        """
        with _reaching(self.uri):
            return self._listed() == (set(), [])

    def check_conditions(self) -> None:
        """Make sure that the store keeps two writers from taking the same version.

        Raises:
            ConfigurationError: It ignores `If-None-Match`, so that commits would be lost.
            ShaberiError: It cannot be reached.
        """
        from obstore import exceptions

        name = f"_probe/{uuid.uuid4()}"
        with _reaching(self.uri):
            self._store.put(name, b"first", mode="create")
            try:
                self._store.put(name, b"second", mode="create")
            except exceptions.AlreadyExistsError:
                return
            finally:
                self._store.delete(name)
        raise ConfigurationError(f"{self.uri}: this store ignores If-None-Match, which the lake needs")

    def _listed(self) -> tuple[set[str], list[str]]:
        """The tables' folders and the small files in the store."""
        listed = self._store.list_with_delimiter()
        names = {str(entry["path"]) for entry in listed["objects"]}
        return {prefix for prefix in map(str, listed["common_prefixes"]) if prefix[0] != "_"}, sorted(names)

    def _new_entries(self, table: str) -> list[str]:
        """Names of the log's entries that the mirror has not, in order."""
        folder = f"{table}/{LOG}"
        own = self.folder / folder
        there = [path.name for path in own.iterdir()] if own.is_dir() else []
        last = max(filter(is_log_file, there), default="")
        listed = self._store.list(f"{folder}/", offset=f"{folder}/{last}" if last else None).collect()
        names = (str(entry["path"]).rpartition("/")[2] for entry in listed)
        return sorted(name for name in names if is_log_file(name))

    def _take(self, table: str, names: Sequence[str], threads: ThreadPoolExecutor) -> None:
        """Copy new entries of a log, after the files that they name."""
        contents = dict(zip(names, threads.map(lambda name: self._read(f"{table}/{LOG}/{name}"), names), strict=True))
        if not (self.folder / table / LOG).is_dir():
            files = self._files_of(contents)
        else:
            files = _added(content for name, content in contents.items() if name.endswith(".json"))
        list(threads.map(lambda name: self._copy(f"{table}/{name}"), files))
        for name, content in contents.items():
            swap_in(self.folder / table / LOG / name, content)

    def _files_of(self, contents: Mapping[str, bytes]) -> list[str]:
        """The files that a whole log names in the end."""
        import deltalake

        with tempfile.TemporaryDirectory(prefix=".log-", dir=self.folder) as scratch:
            for name, content in contents.items():
                swap_in(Path(scratch) / LOG / name, content)
            return [unquote(path) for path in deltalake.DeltaTable(scratch).get_add_actions()["path"].to_pylist()]

    def _copy(self, name: str, *, again: bool = False) -> None:
        if again or not (self.folder / name).is_file():
            content = self._read(name)
            swap_in(self.folder / name, content)

    def _read(self, name: str) -> bytes:
        return bytes(self._store.get(name).bytes())


_pulled: dict[Path, float] = {}
_on_store_unavailable: list[Callable[[str], object]] = []


def on_store_unavailable(act: Callable[[str], object]) -> None:
    """Let something be done, before an error is raised, when a store is gone for longer than its client waits.

    Args:
        act: Told what is wrong.
    """
    _on_store_unavailable.append(act)


def store_unavailable(message: str) -> ShaberiError:
    """The error of a store that is gone."""
    for act in _on_store_unavailable:
        act(message)
    return ShaberiError(message)


def _added(entries: Iterable[bytes]) -> list[str]:
    """The files that some entries of a log add, and later ones do not remove."""
    files: dict[str, None] = {}
    for entry in entries:
        for action in parse_actions(entry):
            if "add" in action:
                files[unquote(action["add"]["path"])] = None
            elif "remove" in action:
                files.pop(unquote(action["remove"]["path"]), None)
    return list(files)


def _endpoint() -> str:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


@cache
def _connected(uri: str, endpoint: str) -> "store.ObjectStore":
    from obstore import store

    try:
        from_url = store.from_url
    except ImportError:
        raise ConfigurationError(f"{uri} needs the extra `cluster`: pip install 'shaberi-dagster[cluster]'") from None
    return from_url(
        uri,
        disable_bulk_delete=True,
        client_options={"allow_http": endpoint.startswith("http://")},
        retry_config=_RETRIES,
    )


@contextmanager
def _reaching(uri: str) -> Iterator[None]:
    """Let what the store's client says be one line."""
    from obstore import exceptions

    try:
        yield
    except exceptions.BaseError as error:
        first = str(error).strip().splitlines()[0]
        kind = store_unavailable if isinstance(error, exceptions.GenericError) else ShaberiError
        unset = [name for name in _KEYS if not os.environ.get(name)]
        hint = f" ({' and '.join(unset)} not set)" if unset else ""
        raise kind(f"{uri} cannot be reached or refuses us{hint}: {first[:300]}") from error
