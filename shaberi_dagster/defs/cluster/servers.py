"""Servers of other projects that a cluster needs: PostgreSQL, Redis and, for a lake of its own, an S3 server."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from shaberi_dagster.defs.cluster.folder import BUCKET
from shaberi_dagster.defs.cluster.processes import ClusterProcess
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.journal.postgres import connect
from shaberi_dagster.util.ports import listens

_SERVERS = "/usr/lib/postgresql"


def servers_of(folder: Path, settings: Mapping[str, str]) -> list[ClusterProcess]:
    """The servers of a cluster, in the order in which they start; a new cluster's database is made.

    Args:
        folder: Where they keep their files.
        settings: Where each listens, see `environment_of`; a store is only among them if the lake is in one of its own.

    Raises:
        ConfigurationError: One of them is not installed, or cannot make its files.
    """
    servers = [_postgres(folder / "postgres", settings), _redis(folder / "redis", settings)]
    return [*servers, _store(folder, settings)] if "AWS_ENDPOINT_URL" in settings else servers


def _postgres(home: Path, settings: Mapping[str, str]) -> ClusterProcess:
    url = settings["SHABERI_DATABASE_URL"]
    programs, user = _postgres_programs(), "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
    if not home.exists():
        _make_database(programs, home, url, user)
    options = [
        f"port={_port(url)}",
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",  # their paths may be 107 bytes long, and nobody needs them
        "max_connections=300",
    ]
    command = [
        str(programs / "postgres"),
        "-D",
        str(home / "data"),
        *(word for option in options for word in ("-c", option)),
    ]
    return ClusterProcess(
        name="postgres",
        command=command,
        environment=os.environ | settings,
        log=home / "log",
        user=user,
        stop=signal.SIGINT,
        answers=lambda: _answers_query(url),
    )


def _redis(home: Path, settings: Mapping[str, str]) -> ClusterProcess:
    home.mkdir(exist_ok=True)
    port = _port(settings["SHABERI_BROKER_URL"])
    program = str(_program("redis-server", "redis-server"))
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(home), "--appendonly", "yes"]
    return ClusterProcess("redis", command, os.environ | settings, home / "log", answers=lambda: listens(port))


def _store(folder: Path, settings: Mapping[str, str]) -> ClusterProcess:
    if find_spec("localbucket") is None:
        raise ConfigurationError("`shaberi cluster` needs the extra `cluster`: pip install 'shaberi-dagster[cluster]'")
    (folder / "store" / BUCKET).mkdir(parents=True, exist_ok=True)
    port = _port(settings["AWS_ENDPOINT_URL"])
    command = [sys.executable, "-m", "localbucket", str(folder / "store"), "--port", str(port)]
    return ClusterProcess("store", command, os.environ | settings, folder / "store.log", answers=lambda: listens(port))


def _make_database(programs: Path, home: Path, url: str, user: str | None) -> None:
    home.mkdir(mode=0o700)
    password = home / "password"
    password.touch(mode=0o600)
    password.write_text(url.partition("://shaberi:")[2].partition("@")[0], encoding="utf-8")
    if user:
        for path in (home, password):
            shutil.chown(path, user, user)
    made = subprocess.run(  # noqa: S603
        [
            *(programs / "initdb", f"--pgdata={home / 'data'}", "--username=shaberi", f"--pwfile={password}"),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"),
        ],
        user=user,
        group=user,
        extra_groups=[] if user else None,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    password.unlink()
    if made.returncode:
        shutil.rmtree(home)
        said = " ".join(made.stderr.split())
        raise ConfigurationError(f"PostgreSQL cannot make a database in {home}: {said}; name another --folder")


def _postgres_programs() -> Path:
    """The folder of PostgreSQL's programs; Debian keeps them out of the PATH."""
    found = sorted(Path(_SERVERS).glob("*/bin/initdb"), key=lambda path: path.parts[-3].zfill(9))
    return found[-1].parent if found else _program("initdb", "postgresql").parent


def _program(name: str, package: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise ConfigurationError(f"{name} is not installed: install your system's package {package}")
    return Path(found).resolve().with_name(name)


def _answers_query(url: str) -> bool:
    try:
        connect(url).close()
    except ConfigurationError:
        return False
    return True


def _port(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])
