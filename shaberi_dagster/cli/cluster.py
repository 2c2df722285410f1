"""`shaberi cluster`: several workers, and what they share, as processes of this machine; or one part of a cluster."""

import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NoReturn, Self

import typer

from shaberi_dagster.cli import cluster_keeper
from shaberi_dagster.cli.cluster_keeper import end_group
from shaberi_dagster.cli.command import FINE, Debug
from shaberi_dagster.errors import ConfigurationError, ShaberiError
from shaberi_dagster.settings import Settings, check_cluster

EPILOG = """Examples:

\b
  shaberi cluster --workers 4                 PostgreSQL, Redis, an S3 server, Dagster and 4 workers, until Ctrl-C
  . .cluster/environment                      in another shell: commands then work on that cluster
  run-evals --model my-model --runs 8 --submit
  shaberi cluster worker                      one more worker, here or on another host with the same settings

Of PARTs there are worker, daemon and web; each runs on what SHABERI_DATABASE_URL, SHABERI_BROKER_URL and
SHABERI_WAREHOUSE name, and is what containers or services start."""

PARTS = ("worker", "daemon", "web")
_DEFINITIONS = ["-m", "shaberi_dagster.definitions"]
_BUCKET = "lake"
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.5
_SERVERS = "/usr/lib/postgresql"


def cluster(  # noqa: PLR0917
    part: Annotated[str | None, typer.Argument(help="Only this part: worker, daemon or web. Default: all.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="How many workers; each makes one run at a time.")] = 2,
    folder: Annotated[Path, typer.Option(help="Where all of them keep their files.")] = Path(".cluster"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Of Dagster's UI.")] = 3000,
    host: Annotated[str, typer.Option(help="Address on which the UI listens.")] = "127.0.0.1",
    debug: Debug = False,
) -> int:
    """Start a cluster on this machine (Ctrl-C stops it), or one part of a cluster."""
    del debug
    if part in PARTS:
        run_part(part, host, port)
    if part is not None:
        raise ConfigurationError(f"no part {part!r} of a cluster: there are {', '.join(PARTS)}")
    run_all(folder.absolute(), workers, host, port)
    return FINE


def run_part(part: str, host: str, port: int) -> NoReturn:
    """Become a part of the cluster that the environment names.

    Raises:
        ConfigurationError: It names none.
    """
    check_cluster()
    from shaberi_dagster.defs.execution import open_instance  # noqa: PLC0415  (Dagster only when it is needed)

    open_instance(Settings.from_environment().dagster_home).dispose()
    command = command_of(part, host, port)
    os.execv(command[0], command)  # noqa: S606


def command_of(part: str, host: str = "127.0.0.1", port: int = 3000, name: str = "worker") -> list[str]:
    """What runs a part."""
    if part == "worker":
        return [
            *(sys.executable, "-m", "celery", "--app", "shaberi_dagster.defs.worker", "worker"),
            *("--hostname", f"{name}@%h", "--loglevel", "WARNING", "--without-gossip", "--without-mingle"),
        ]
    if part == "daemon":
        return [sys.executable, "-m", "dagster._daemon", "run", *_DEFINITIONS]
    return [sys.executable, "-m", "dagster_webserver", *_DEFINITIONS, "--host", host, "--port", str(port)]


def run_all(folder: Path, workers: int, host: str, port: int) -> None:
    """Run a whole cluster until Ctrl-C; a worker that dies is started anew.

    Args:
        folder: Where its files are; the same one continues the same cluster.
        workers: How many.
        host: Address on which the UI listens.
        port: Its port.

    Raises:
        ConfigurationError: Something that it needs is not installed, or cannot listen.
        ShaberiError: A part other than a worker has ended.
    """
    with running(folder, workers, host, port) as parts:
        say(f"the cluster is up, its UI on http://{host}:{port}; in other shells:\n\n  . {folder / 'environment'}\n")
        with suppress(KeyboardInterrupt):
            while True:
                look_after(parts)
                time.sleep(_LOOK_SECONDS)
        say("stopping; runs at work go on when the cluster is started again")


def say(text: str) -> None:
    """Tell the user on stderr."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


@dataclass
class ClusterProcess:
    """A process of the cluster, with all that it starts: they are one process group.

    Attributes:
        name: What it is called.
        command: What runs it.
        environment: Its own.
        log: Where it writes.
        user: As whom it runs; None for who we are.
        stop: The signal that ends it quickly.
        keeper: Who ends it should we be killed; nobody, where we are not.
        process: Itself, when it is at work.
    """

    name: str
    command: Sequence[str | Path]
    environment: Mapping[str, str]
    log: Path
    user: str | None = None
    stop: signal.Signals = signal.SIGTERM
    keeper: "Keeper | None" = None
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        """Start it in a group of its own, so that Ctrl-C reaches us first, and killing it leaves no child."""
        self._tell_keeper(0)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603
                self.command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self.user,
                group=self.user,
                extra_groups=[] if self.user else None,
                cwd=self.log.parent,
                start_new_session=True,
            )
        self._tell_keeper(self.stop)

    def has_ended(self) -> bool:
        """Whether it is not at work any more."""
        return self.process is None or self.process.poll() is not None

    def end(self) -> None:
        """End it and all its children."""
        if self.process is None:
            return
        end_group(self.process.pid, self.stop, self.has_ended)
        self.process.wait()
        self._tell_keeper(0)

    def _tell_keeper(self, stop: int) -> None:
        if self.keeper and self.process:
            self.keeper.tell(self.process.pid, stop)


class Keeper:
    """A process that ends the parts of this cluster should this process be killed; a context manager.

    Args:
        lock: A file descriptor that is open as long as it lives.
    """

    def __init__(self, lock: int) -> None:
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-IS", cluster_keeper.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[lock],
            start_new_session=True,  # Ctrl-C is for us
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def tell(self, group: int, stop: int) -> None:
        """Tell it of a part at work, or with the signal 0 of one that has ended."""
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.write(f"{group} {stop}\n".encode())
        self._process.stdin.flush()


@contextmanager
def running(folder: Path, workers: int, host: str = "127.0.0.1", port: int = 0) -> Iterator[dict[str, ClusterProcess]]:
    """A cluster at work; with the context all its processes end.

    Args:
        folder: Where its files are.
        workers: How many.
        host: Address on which the UI listens.
        port: Its port; 0 for a cluster without UI.

    Yields:
        Its parts by name: `postgres`, `redis`, `store`, `daemon`, `web`, `worker-1`, ….

    Raises:
        ConfigurationError: Something that it needs is not installed, or does not start; another cluster is in the
            folder.
    """
    from shaberi_dagster.cli.ui import check_free  # noqa: PLC0415

    settings = environment_of(folder)
    environment = os.environ | settings
    with ExitStack() as stack:
        lock = stack.enter_context(alone_in(folder))
        if port:
            check_free(host, port)
        keeper = stack.enter_context(Keeper(lock))
        parts: dict[str, ClusterProcess] = {}

        def start(part: ClusterProcess, is_ready: Callable[[], object] = lambda: True) -> None:
            parts[part.name] = part
            part.keeper = keeper
            stack.callback(part.end)
            part.start()
            _wait_for(part, is_ready)

        _start_servers(folder, settings, environment, start)
        os.environ.update(settings)
        _make_instance(Path(settings["DAGSTER_HOME"]))
        names = ["daemon", *(["web"] if port else []), *(f"worker-{number}" for number in range(1, workers + 1))]
        for name in names:
            command = command_of(name.partition("-")[0], host, port, name)
            # A killed worker is what the cluster is made for: its runs go on when there is another one.
            stop = signal.SIGKILL if name.startswith("worker") else signal.SIGTERM
            start(ClusterProcess(name, command, environment, folder / f"{name}.log", stop=stop))
        yield parts


@contextmanager
def alone_in(folder: Path) -> Iterator[int]:
    """A file descriptor that locks the folder as long as it, or a copy of it, is open.

    Raises:
        ConfigurationError: Another cluster is at work there, or does not come to its end.
    """
    with (folder / "lock").open("a+") as lock:
        until = time.monotonic() + _START_SECONDS
        while not _try_lock(lock.fileno()):
            lock.seek(0)
            owner = int(lock.read() or 0)
            if (owner and _lives(owner)) or time.monotonic() > until:
                raise ConfigurationError(
                    f"a cluster is at work in {folder}: Ctrl-C where it was started, or `kill {owner}`, stops it"
                )
            time.sleep(_LOOK_SECONDS)  # its parts are being ended
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield lock.fileno()


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
    return True


def look_after(parts: Mapping[str, ClusterProcess]) -> None:
    """Start workers anew that have died.

    Raises:
        ShaberiError: Another part has ended.
    """
    for name, part in parts.items():
        if part.has_ended():
            if not name.startswith("worker"):
                raise ShaberiError(f"{name} of the cluster has ended: {_last_line(part.log)}")
            say(f"{name} has ended and is started anew")
            part.start()


def environment_of(folder: Path) -> dict[str, str]:
    """The settings with which commands work on the cluster of a folder; made at first use, as a file for shells.

    Raises:
        ConfigurationError: It is of another lake than `SHABERI_WAREHOUSE` names.
    """
    path, lake = folder / "environment", os.environ.get("SHABERI_WAREHOUSE")
    if lake and "://" not in lake:
        lake = str(Path(lake).absolute())
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = _made_environment(folder, lake)
        path.touch(mode=0o600)
        path.write_text("".join(f"export {name}='{value}'\n" for name, value in made.items()), encoding="utf-8")
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = (line.removeprefix("export ").partition("=") for line in lines if line.startswith("export "))
    settings = {name: value.strip("'") for name, _, value in pairs}
    own = settings.get("SHABERI_WAREHOUSE", lake)
    if lake and lake != own:
        raise ConfigurationError(
            f"the cluster in {folder} is of the lake {own}, SHABERI_WAREHOUSE is {lake}: "
            "unset it, or name another --folder"
        )
    return settings


def _made_environment(folder: Path, lake: str | None) -> dict[str, str]:
    """Settings of a new cluster: for the lake that is there already, or a new one in a store of its own."""
    password, (database, broker, store) = secrets.token_urlsafe(24), _free_ports(3)
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
        "SHABERI_WAREHOUSE": lake or f"s3://{_BUCKET}/warehouse",
        **({} if lake else own_store),
    }


def _start_servers(
    folder: Path,
    settings: Mapping[str, str],
    environment: Mapping[str, str],
    start: Callable[[ClusterProcess, Callable[[], object]], None],
) -> None:
    """PostgreSQL, Redis and, unless the lake is elsewhere, an S3 server."""
    postgres, user = _postgres_programs(), "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
    home, port = folder / "postgres", _port(settings["SHABERI_DATABASE_URL"])
    if not home.exists():
        _make_database(postgres, home, settings["SHABERI_DATABASE_URL"], user)
    options = [f"port={port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={home}", "max_connections=300"]
    command = [str(postgres / "postgres"), "-D", str(home / "data"), *(word for one in options for word in ("-c", one))]
    start(
        ClusterProcess("postgres", command, environment, home / "log", user, signal.SIGINT),
        lambda: _answers_query(settings["SHABERI_DATABASE_URL"]),
    )
    (folder / "redis").mkdir(exist_ok=True)
    port = _port(settings["SHABERI_BROKER_URL"])
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder / "redis"), "--appendonly", "yes"]
    start(
        ClusterProcess(
            "redis", [str(_program("redis-server", "redis-server")), *options], environment, folder / "redis" / "log"
        ),
        lambda: _listens(port),
    )
    if "AWS_ENDPOINT_URL" in settings:
        if find_spec("localbucket") is None:
            raise ConfigurationError("the S3 server localbucket is not installed: install it, or set SHABERI_WAREHOUSE")
        (folder / "store" / _BUCKET).mkdir(parents=True, exist_ok=True)
        at = _port(settings["AWS_ENDPOINT_URL"])
        command = [sys.executable, "-m", "localbucket", str(folder / "store"), "--port", str(at)]
        start(ClusterProcess("store", command, environment, folder / "store.log"), lambda: _listens(at))


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


def _make_instance(home: Path) -> None:
    """Make Dagster's tables before several processes would."""
    from shaberi_dagster.defs.execution import open_instance  # noqa: PLC0415

    open_instance(home).dispose()


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
    from shaberi_dagster.database import connect  # noqa: PLC0415

    try:
        connect(url).close()
    except ConfigurationError:
        return False
    return True


def _listens(port: int) -> bool:
    with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), timeout=1)):
        return True
    return False


def _wait_for(part: ClusterProcess, is_ready: Callable[[], object]) -> None:
    until = time.monotonic() + _START_SECONDS
    while not is_ready():
        if part.has_ended() or time.monotonic() > until:
            raise ConfigurationError(f"{part.name} does not start: {_last_line(part.log)}")
        time.sleep(0.1)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"{lines[-1] if lines else 'it says nothing'} ({log})"


def _port(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
