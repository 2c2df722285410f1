"""A real PostgreSQL for tests: Debian's server, with a data folder and a port of its own."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg2
import pytest

from shaberi_dagster.defs.leases import LOCK
from shaberi_dagster.lake.journal.postgres import connect, try_lock

IN_CI = os.environ.get("CI") == "true"
PASSWORD = "not-to-be-written"
POSTGRES = max(
    Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name), default=Path("/missing")
)
"""The programs of the newest version that is installed."""
_START_SECONDS = 30.0


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server of this test session; tests are skipped where none is installed, but in CI they fail."""
    if not POSTGRES.is_dir():
        reason = "no PostgreSQL in /usr/lib/postgresql"
        pytest.fail(f"CI has {reason}: these tests must run there") if IN_CI else pytest.skip(reason)
    with running_postgres() as url:
        yield url


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """The URL of an empty database."""
    with empty_database(postgres) as url:
        yield url


@contextmanager
def empty_database(postgres: str) -> Iterator[str]:
    """The URL of a database that is dropped with the context."""
    name = f"test_{uuid4().hex}"
    _execute(postgres, f"create database {name}")
    yield urlsplit(postgres)._replace(path=f"/{name}").geturl()
    _execute(postgres, f"drop database {name} with (force)")


@contextmanager
def running_postgres() -> Iterator[str]:
    """A server that keeps nothing when it ends."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))  # its parents are open to the user postgres, unlike tmp_path's
    password = folder / "password"
    password.write_text(PASSWORD)
    # The server refuses to run as root.
    user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    if user:
        shutil.chown(folder, "postgres", "postgres")
        shutil.chown(password, "postgres", "postgres")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    data = folder / "data"
    made = [f"--pgdata={data}", "--username=shaberi", f"--pwfile={password}", "--auth=md5", "--no-sync"]
    settings = [f"port={port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={folder}", "fsync=off"]
    try:
        subprocess.run(
            [POSTGRES / "initdb", *made, "--encoding=UTF8", "--locale=C"],
            check=True,
            capture_output=True,
            cwd=folder,
            **user,
        )
        command = [POSTGRES / "postgres", "-D", data, *(word for setting in settings for word in ("-c", setting))]
        with (
            (folder / "log").open("wb") as log,
            subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **user) as server,
        ):
            try:
                url = f"postgresql://shaberi:{PASSWORD}@127.0.0.1:{port}/postgres"
                _wait_for(url, folder / "log")
                yield url
            finally:
                server.send_signal(signal.SIGQUIT)  # at once, whoever is connected
                server.wait(_START_SECONDS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def end_other_connections(url: str) -> None:
    """Let the server close all connections to a database."""
    others = "datname = current_database() and pid <> pg_backend_pid()"
    _execute(url, f"select pg_terminate_backend(pid, 5000) from pg_stat_activity where {others}")


def _wait_for(url: str, log: Path) -> None:
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            psycopg2.connect(url).close()
        except psycopg2.OperationalError:
            if time.monotonic() > until:
                raise AssertionError(log.read_text()) from None
            time.sleep(0.05)
        else:
            return


def _execute(url: str, statement: str) -> None:
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(statement)
    connection.close()


@contextmanager
def leased(dagster_run_id: str, url: str) -> Iterator[bool]:
    """Within this context a run looks like one that a worker is at work on; yields whether no other one was."""
    with closing(connect(url)) as connection:
        yield try_lock(connection, LOCK, dagster_run_id)
