"""Servers of other projects that a cluster needs: PostgreSQL, Redis and, for a lake of its own, an S3 server."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from shaberi_dagster.defs.cluster.folder import BUCKET
from shaberi_dagster.defs.cluster.supervisor import Programs, command_line
from shaberi_dagster.lake.journal.postgres import connect
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.ports import listens

_SERVERS = "/usr/lib/postgresql"


def servers_of(folder: Path, settings: Mapping[str, str]) -> Programs:
    """Return the servers of a cluster; a new cluster's database is made.

    Args:
        folder: Where they keep their files.
        settings: Where each listens, see `environment_of`; a store is only among them if the lake is in one of its own.

    Raises:
        ConfigurationError: One of them is not installed, cannot make its files, or has its port taken.
    """
    if find_spec("supervisor") is None:
        raise ConfigurationError("`shaberi cluster` needs the extra `cluster`: pip install 'shaberi-dagster[cluster]'")
    ports = _ports(settings)
    for name, port in ports.items():
        if listens(port):
            one = f"{name} of the cluster in {folder}"
            raise ConfigurationError(f"another program has port {port} of {one}: stop it or name another --folder")
    servers = {"postgres": _postgres(folder / "postgres", settings), "redis": _redis(folder, ports["redis"])}
    if "store" in ports:
        servers["store"] = _store(folder, ports["store"])
    return servers


def silent_server(settings: Mapping[str, str]) -> str | None:
    """Return a server that does not answer, by name; None when all do.

    Args:
        settings: As those of `servers_of`.
    """
    for name, port in _ports(settings).items():
        if not listens(port):
            return name
    try:
        connect(settings["SHABERI_DATABASE_URL"]).close()
    except ConfigurationError:
        return "postgres"
    return None


def _ports(settings: Mapping[str, str]) -> dict[str, int]:
    variables = {"postgres": "SHABERI_DATABASE_URL", "redis": "SHABERI_BROKER_URL", "store": "AWS_ENDPOINT_URL"}
    return {
        name: urlsplit(settings[variable]).port or 0 for name, variable in variables.items() if variable in settings
    }


def _postgres(home: Path, settings: Mapping[str, str]) -> dict[str, str]:
    # Debian keeps PostgreSQL's programs out of the PATH.
    found = sorted(Path(_SERVERS).glob("*/bin/initdb"), key=lambda path: path.parts[-3].zfill(9))
    programs = found[-1].parent if found else _program("initdb", "postgresql").parent
    user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
    if not home.exists():
        _make_database(programs, home, settings["SHABERI_DATABASE_URL"], user)
    options = {
        "port": _ports(settings)["postgres"],
        "listen_addresses": "127.0.0.1",
        "max_connections": 300,
        "unix_socket_directories": "",  # their paths may be 107 bytes long, and nothing needs them
    }
    command = [str(programs / "postgres"), "-D", "postgres/data"]
    command += [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    return {"command": command_line(command), "stopsignal": "INT", **({"user": user} if user else {})}


def _redis(folder: Path, port: int) -> dict[str, str]:
    (folder / "redis").mkdir(exist_ok=True)
    program = str(_program("redis-server", "redis-server"))
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", "redis", "--appendonly", "yes"]
    return {"command": command_line(command)}


def _store(folder: Path, port: int) -> dict[str, str]:
    (folder / "store" / BUCKET).mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "localbucket", "store", "--port", str(port)]
    return {"command": command_line(command)}


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


def _program(name: str, package: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise ConfigurationError(f"{name} is not installed: install your system's package {package}")
    return Path(found).resolve().with_name(name)
