"""Dagster's instance, and runs in this process: as the UI shows them, and canceled when they are interrupted."""

import os
import shutil
import socket
import sqlite3
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy
import yaml

from shaberi_dagster.defs.content import CONTENT_TAG
from shaberi_dagster.lake.files import swap_in
from shaberi_dagster.lake.journal.locks import LOCKS_FOLDER, exclusive_lock
from shaberi_dagster.settings import broker_url, check_writable, database_url
from shaberi_dagster.util.errors import ConfigurationError, PartitionBusyError, ShaberiError, is_interrupt
from shaberi_dagster.util.identity import names_of, run_id_of
from shaberi_dagster.util.permissions import let_group_write, make_folder

INTERRUPTS = (KeyboardInterrupt, dg.DagsterExecutionInterruptedError)
CANCELED = "interrupted; finished calls are in the journal"
LOCK_TAG = "shaberi/lock"
"""Tag of a command's runs, each of which has a lock as long as its process lives: the host."""


@contextmanager
def canceled_when_interrupted(context: dg.OpExecutionContext | dg.AssetExecutionContext) -> Iterator[None]:
    """Within this context Ctrl-C, `kill` and the end of the server cancel the Dagster run.

    Dagster itself takes only the UI's Terminate for a cancellation and calls all other interrupts failures, except
    of runs that go on on another worker when theirs ends: those are left to it. A `ShaberiError` is one line in the UI.
    """
    try:
        yield
    except BaseException as error:
        if isinstance(error, ShaberiError) and CONTENT_TAG not in context.run.tags:  # who submitted it reads the error
            raise dg.Failure(str(error), allow_retries=False) from None
        if not is_interrupt(error):
            raise
        run = context.instance.get_run_by_id(context.run.run_id)
        # The daemon may give a run to another worker; one that a command makes has none.
        is_over = LOCK_TAG in context.run.tags or not context.instance.run_will_resume(context.run.run_id)
        if run and run.status == dg.DagsterRunStatus.STARTED and is_over:
            context.instance.report_run_canceling(run, CANCELED)
        if isinstance(error, INTERRUPTS):
            raise
        raise KeyboardInterrupt from None


_HEAD = """\
# Written once by shaberi; change it as you like.
telemetry: {enabled: false}
nux: {enabled: false}
# A run whose process died is closed (needs the daemon, as in `shaberi ui`).
"""
_MONITORING = "run_monitoring: {enabled: true, poll_interval_seconds: 10}\n"
_POOLS = """\
# How many runs, of all processes, may call one endpoint at the same time.
concurrency: {pools: {default_limit: 4}}
"""
_DATABASE = """\
storage: {postgres: {postgres_url: {env: SHABERI_DATABASE_URL}}}
"""
# A run may wait a day for a worker; one whose worker is gone continues on another.
_CLUSTER = """\
run_monitoring:
  enabled: true
  poll_interval_seconds: 5
  start_timeout_seconds: 86400
  max_resume_run_attempts: 20
run_launcher:
  module: shaberi_dagster.defs.launcher
  class: ClusterRunLauncher
  config: {broker: {env: SHABERI_BROKER_URL}, backend: {env: SHABERI_BROKER_URL}}
# How many runs, of all processes, may call one endpoint at the same time; how many are at work is for the workers.
concurrency: {pools: {default_limit: 4}, runs: {max_concurrent_runs: -1}}
"""
_INSTANCE_CONFIGS = {
    (False, False): _HEAD + _MONITORING + _POOLS,
    (True, False): _HEAD + _MONITORING + _POOLS + _DATABASE,
    (True, True): _HEAD + _CLUSTER + _DATABASE,
}
"""Contents of `dagster.yaml`, by whether there is a database and a broker; a password is only in the environment."""
_COMMANDS_FILE, _SCRATCH = "commands.yaml", ".new-home-"
_OF_COMMANDS = {
    "compute_logs": {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
}
"""Settings for commands: Dagster would copy their output by four more processes, which Ctrl-C ends noisily."""
_STORAGES = ("run_storage", "event_log_storage", "schedule_storage")
"""Attributes of an instance, which make their tables when they are read first."""
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
LOCATION = "shaberi_dagster.definitions"
"""The code location's name in `dagster dev`: that of its module."""
MODEL_TAG, RUN_TAG_TAG, STARTED_BY_TAG = "shaberi/model", "shaberi/run_tag", "shaberi/started_by"
_UNFINISHED = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def open_instance(home: Path) -> dg.DagsterInstance:
    """The persistent instance, made at first use; of several processes one makes it and the others wait.

    It is in SQLite files below the folder, or in the database of `SHABERI_DATABASE_URL`, unless the folder has a
    `dagster.yaml` of the user's own.

    Args:
        home: The folder.

    Raises:
        ConfigurationError: The folder cannot be written, or the database cannot be reached.
    """
    prepare_home(home)
    os.environ["DAGSTER_HOME"] = str(home)
    with exclusive_lock(home, "instance", shared="dagster"):
        if not (home / "history").exists() and database_url() is None:
            _make_databases(home)
        instance = _configured(home, _COMMANDS_FILE)
        for storage in _STORAGES:
            getattr(instance, storage)
        if database_url():  # else each event would take a connection of its own
            instance.optimize_for_webserver(statement_timeout=0, pool_recycle=3600, max_overflow=20)
        return instance


def _make_databases(home: Path) -> None:
    """Make Dagster's SQLite files aside, so that a process that is killed meanwhile leaves nothing half made."""
    for left in home.glob(f"{_SCRATCH}*"):  # by one that was killed
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=home) as scratch:
        Path(scratch, "dagster.yaml").touch()
        with _configured(Path(scratch), "dagster.yaml") as instance:
            for storage in _STORAGES:
                getattr(instance, storage)
        for folder in ("schedules", "history"):  # the second one says that both are there
            if not (home / folder).exists():
                Path(scratch, folder).rename(home / folder)


def _configured(home: Path, file: str) -> dg.DagsterInstance:
    try:
        return dg.DagsterInstance.from_config(str(home), file)
    except Exception as error:  # whatever a file of the user's own can make Dagster raise
        reason = " ".join(str(error).split())
        raise ConfigurationError(
            f"{home / 'dagster.yaml'} is no configuration of Dagster: {reason[:300]}; without the file it is made again"
        ) from error


@sqlalchemy.event.listens_for(sqlalchemy.Engine, "connect")
def _share(opened: Any, _: object) -> None:
    """Let the shared group write into an SQLite file, which SQLite itself never does."""
    if isinstance(opened, sqlite3.Connection):
        for (path,) in opened.execute("select file from pragma_database_list where file <> ''"):
            let_group_write(Path(path))


def prepare_home(home: Path) -> None:
    """Make the folder and its `dagster.yaml`, unless it has one that was changed.

    Raises:
        ConfigurationError: It cannot be written, or there is a broker and no database.
    """
    check_writable(home, "Dagster keeps its runs there; DAGSTER_HOME names another folder")
    make_folder(home)
    path = home / "dagster.yaml"
    config = _INSTANCE_CONFIGS.get((bool(database_url()), bool(broker_url())))
    if config is None:
        raise ConfigurationError("SHABERI_BROKER_URL needs SHABERI_DATABASE_URL as well")
    written = path.read_text(encoding="utf-8") if path.exists() else None
    # A beginning of our text is what a killed process had written of it.
    if written != config and (
        written is None or any(known.startswith(written) for known in _INSTANCE_CONFIGS.values())
    ):
        swap_in(path, config.encode())
        written = config
    commands, path = yaml.safe_dump(_settings(written) | _OF_COMMANDS), home / _COMMANDS_FILE
    if not path.exists() or path.read_text(encoding="utf-8") != commands:
        swap_in(path, commands.encode())


def _settings(text: str) -> dict[str, Any]:
    """The settings of a `dagster.yaml`; Dagster checks each by itself."""
    settings, reason = None, "it has no settings by name"
    try:
        settings = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
    if not isinstance(settings, dict):
        raise ConfigurationError(
            f"dagster.yaml is no configuration of Dagster: {reason[:300]}; without the file it is made again"
        )
    return settings


def key_of(run_id: str) -> str:
    """Return the partition key of a run."""
    return "@@".join(names_of(run_id))


def run_of(key: str) -> str:
    """Return the `run_id` of a partition key."""
    model, _, run_tag = key.partition("@@")
    return run_id_of(model, run_tag)


@contextmanager
def recorded_run(
    instance: dg.DagsterInstance, partition_key: str | None, tags: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Within this context a Dagster run is made here, whose lock says that its process lives.

    Args:
        instance: Where Dagster records it.
        partition_key: Its partition.
        tags: More tags for it.

    Yields:
        Arguments of `execute_in_process`: the instance, the partition, the run's id and its tags.

    Raises:
        KeyboardInterrupt: Interrupted; Dagster has the run as canceled.
    """
    dagster_run_id, home = str(uuid.uuid4()), Path(instance.root_directory)
    # Dagster's Jobs page shows runs of known code locations alone.
    own = {LOCK_TAG: socket.gethostname(), ".dagster/repository": f"__repository__@{LOCATION}"}
    if partition_key and "@@" in partition_key:
        own |= dict(zip((MODEL_TAG, RUN_TAG_TAG), partition_key.split("@@"), strict=True))
    record = {"instance": instance, "partition_key": partition_key, "run_id": dagster_run_id, "tags": {**own, **tags}}
    try:
        with exclusive_lock(home, f"run-{dagster_run_id}", busy=None, shared="dagster"):
            try:
                yield record
            finally:
                _lock_file(home, dagster_run_id).unlink(missing_ok=True)
    except dg.Failure as failure:  # the command says what was behind it
        raise failure.__context__ or failure from None
    except INTERRUPTS:
        # Outside of asset bodies: before the first step, or between two events.
        run = instance.get_run_by_id(dagster_run_id)
        if run and run.status != dg.DagsterRunStatus.CANCELED:
            instance.report_run_canceled(run, CANCELED)
        raise KeyboardInterrupt from None


def close_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Close the runs of commands whose process no longer lives, of this host or, with a database, of any.

    A process killed with -9 cannot say that it ended; its run would look started for ever.

    Returns:
        The closed Dagster run ids.
    """
    home, closed = Path(instance.root_directory), []
    for run in instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED)):
        host = run.tags.get(LOCK_TAG)
        if host is None or (host != socket.gethostname() and database_url() is None):
            continue
        # It had its lock, and has it no longer.
        lock = exclusive_lock(home, f"run-{run.run_id}", busy="at work", shared="dagster")
        with suppress(PartitionBusyError), lock:
            instance.report_run_canceled(run, "the process exited unexpectedly; finished calls are in the journal")
            _lock_file(home, run.run_id).unlink(missing_ok=True)
            closed.append(run.run_id)
    return closed


def _lock_file(home: Path, dagster_run_id: str) -> Path:
    return home / LOCKS_FOLDER / f"run-{dagster_run_id}.lock"
