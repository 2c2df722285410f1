"""The folder of a cluster on this machine: who works in it, and with which settings."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.permissions import make_folder
from shaberi_dagster.util.ports import free_ports

BUCKET = "lake"
"""Place of the lake in a cluster's own store."""
SUPERVISOR_LOG = "supervisord.log"
"""Log of supervisord, which has it locked as long as it is at work."""


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other clusters out of the folder within this context.

    Raises:
        ConfigurationError: Another cluster is at work there.
    """
    with (folder / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise ConfigurationError(
                f"a cluster is at work in {folder}: Ctrl-C where it was started, or `kill {lock.read()}`, stops it"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        with (folder / SUPERVISOR_LOG).open("a") as log:
            fcntl.flock(log, fcntl.LOCK_EX)  # until the parts of a cluster that was killed have ended
        yield


def environment_of(folder: Path) -> dict[str, str]:
    """The settings with which commands work on the cluster of a folder; made at first use, as a file for shells.

    Raises:
        ConfigurationError: It is of another lake than `SHABERI_WAREHOUSE` names.
    """
    path, lake = folder / "environment", os.environ.get("SHABERI_WAREHOUSE")
    if lake and "://" not in lake:
        lake = str(Path(lake).absolute())
    if not path.exists():
        make_folder(folder)
        if os.geteuid() == 0:  # whose PostgreSQL is another user
            folder.chmod(folder.stat().st_mode | 0o011)
        made = _made_environment(folder, lake)
        path.touch(mode=0o600)
        path.write_text("".join(f"export {name}='{value}'\n" for name, value in made.items()), encoding="utf-8")
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = (line.removeprefix("export ").partition("=") for line in lines if line.startswith("export "))
    settings = {name: value.strip("'") for name, _, value in pairs}
    own = settings.get("SHABERI_WAREHOUSE", lake)
    if lake and lake != own:
        raise ConfigurationError(f"the cluster in {folder} is of {own}, and SHABERI_WAREHOUSE is {lake}: unset it")
    return settings


def _made_environment(folder: Path, lake: str | None) -> dict[str, str]:
    """Settings of a new cluster: for the lake that is there already, or a new one in a store of its own."""
    password, (database, broker, store) = secrets.token_urlsafe(24), free_ports(3)
    own_store = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{store}",
        "AWS_ACCESS_KEY_ID": "shaberi",
        "AWS_SECRET_ACCESS_KEY": secrets.token_urlsafe(24),
        "AWS_REGION": "us-east-1",
    }
    return {
        "SHABERI_DATABASE_URL": f"postgresql://shaberi:{password}@127.0.0.1:{database}/postgres",
        "SHABERI_BROKER_URL": f"redis://127.0.0.1:{broker}/0",
        "DAGSTER_HOME": str(folder / "dagster"),
        "SHABERI_RESULTS": str(folder / "results"),
        "SHABERI_MIRRORS": str(folder / "mirrors"),
        "SHABERI_WAREHOUSE": lake or f"s3://{BUCKET}/warehouse",
        **({} if lake else own_store),
    }
