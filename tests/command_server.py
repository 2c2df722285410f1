"""Commands without the seconds that imports take: this process has made them and forks for each command.

A command so still is a process of its own, with its own environment, working directory, outputs and exit code. Requests
are lines of JSON on stdin: to start a command, which is answered with its process id, to tell its exit code, or to
listen on a socket, by which the programs of `commands.make_programs` start commands with their own outputs.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NoReturn

from tests.migrations import close_databases, open_databases_once, read_migrations_once

_RUNNING = "shaberi_dagster.cli.command"
COMMANDS = {
    "run-evals": "run_evals",
    "view-scores": "view_scores",
    "inspect-output": "inspect_output",
    "quick-eval": "quick_eval",
    "shaberi": "shaberi",
}
_HEAVY = [
    "charset_normalizer",
    "dagster._core.execution.execute_in_process",
    "dagster._core.execution.plan.active",
    "dagster._core.executor.in_process",
    "dagster._core.instance.factory",
    "dagster._core.instance.runs.run_domain",
    "dagster._core.launcher.sync_in_memory_run_launcher",
    "dagster._core.secrets.env_file",
    "dagster._core.secrets.loader",
    "dagster._core.storage.migration",
    "dagster._core.storage.noop_compute_log_manager",
    "dagster._core.storage.root",
    "dagster._core.storage.sqlite_storage",
    "dagster._core.system_config.composite_descent",
    "dagster._daemon.controller",
    "dagster._utils.hosted_user_process",
    "encodings.idna",
    "encodings.unicode_escape",
    "genai_prices.data",
    "httpcore2",
    "linkify_it",
    "numpy.ma",
    "pandas",
    "pyarrow.compute",
    "pyarrow.pandas_compat",
    "rich._emoji_codes",
    "rich._unicode_data.unicode17-0-0",
    "scipy.special",
    "shaberi_dagster.cli.baseline",
    "shaberi_dagster.cli.compact",
    "shaberi_dagster.cli.compare",
    "shaberi_dagster.cli.doctor",
    "shaberi_dagster.cli.evaluation",
    "shaberi_dagster.cli.export",
    "shaberi_dagster.cli.prices",
    "shaberi_dagster.cli.sql",
    "shaberi_dagster.cli.report",
    "shaberi_dagster.cli.reprocess",
    "shaberi_dagster.tasks.consensus.council",
    "shaberi_dagster.tasks.consensus.elo",
    "shaberi_dagster.tasks.consensus.majority",
    "shaberi_dagster.tasks.consensus.standard",
    "shaberi_dagster.definitions",
    "shaberi_dagster.doctor.examination",
    "shaberi_dagster.defs.operations",
    "shaberi_dagster.defs.running",
    "shaberi_dagster.lake.journal.claims",
    "shaberi_dagster.lake.journal.files",
    "shaberi_dagster.tasks.judges.rules.numeric",
    "shaberi_dagster.llm.engine",
    "shaberi_dagster.llm.providers.openai_chat",
    "shaberi_dagster.tasks.passes.lang_mixing",
    "shaberi_dagster.tasks.passes.repetition",
    "shaberi_dagster.reports.comparison",
    "shaberi_dagster.reports.scores",
    "shaberi_dagster.reports.operations",
    "shaberi_dagster.reports.ensemble",
    "shaberi_dagster.reports.sql_rows",
    "shaberi_dagster.reports.score_page",
    "shaberi_dagster.statistics.ties",
    "shaberi_dagster.viewer.html",
    "shaberi_dagster.viewer.web.templates",
    "structlog",
    "tests.stages_alone",
    "upath.implementations.local",
]


def main() -> None:
    """Serve until nobody asks any more."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    read_migrations_once()
    open_databases_once(servers=True)
    modules = {name: importlib.import_module(f"shaberi_dagster.cli.{module}") for name, module in COMMANDS.items()}
    for module in _HEAVY:
        importlib.import_module(module)
    _open_an_instance()
    gc.freeze()  # else each command would look through, and so copy, all that was imported here
    listening: list[socket.socket] = []
    while True:
        ready, _, _ = select.select([sys.stdin, *listening], [], [])
        if listening and listening[0] in ready:
            connection, _ = listening[0].accept()
            if os.fork() == 0:
                _serve(connection, modules)
            connection.close()
            continue
        if not (line := sys.stdin.readline()):
            return
        request = json.loads(line)
        if "listen" in request:
            listening.append(socket.socket(socket.AF_UNIX))
            listening[0].bind(request["listen"])
            listening[0].listen()
            answer = None
        elif "pid" in request:
            ended, status = os.waitpid(request["pid"], 0 if request["wait"] else os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if ended else None
        else:
            answer = os.fork()
            if answer == 0:
                _become(modules[request["command"]], request, _opened(request))
        print(json.dumps(answer), file=answers, flush=True)


def _open_an_instance() -> None:
    """The first one takes Dagster five times as long as any other; and its job is described once."""
    from shaberi_dagster.defs.execution import open_instance
    from shaberi_dagster.defs.jobs import evaluating_job

    with tempfile.TemporaryDirectory() as home:
        open_instance(Path(home)).dispose()
        close_databases()
    evaluating_job().get_job_snapshot_id()


def _serve(connection: socket.socket, modules: dict[str, Any]) -> NoReturn:
    """Run the command that a program asks for, tell it the exit code, and kill the command if the program is killed."""
    message, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    while not message.endswith(b"\n"):
        message += connection.recv(1 << 20)
    request = json.loads(message)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become(modules[request["command"]], request, descriptors)
    end = os.pidfd_open(pid)
    ready, _, _ = select.select([connection, end], [], [])
    if end not in ready:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if end in ready:
        connection.send(b"%d" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _opened(request: dict[str, Any]) -> list[int]:
    """A command's stdin, stdout and stderr."""
    return [
        os.open(request["stdin"], os.O_RDONLY | os.O_NOCTTY),
        os.open(request["out"], os.O_WRONLY),
        os.open(request["err"], os.O_WRONLY | os.O_NOCTTY),
    ]


def _become(module: Any, request: dict[str, Any], descriptors: Sequence[int]) -> NoReturn:
    """Be the command that is asked for, up to its end."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [request["command"], *request["arguments"]]
    os.execv = _become_module  # type: ignore[assignment]
    sys.modules["__main__"].__package__ = None  # as in a script; as a script has it
    code: Any = 1
    try:
        with _stages_alone() if request.get("without_dagster") else nullcontext():
            code = sys.modules[_RUNNING].run_command(module.app)
    except SystemExit as stop:
        code = stop.code
    except BaseException:  # noqa: BLE001  (what the interpreter would show)
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)


def _stages_alone() -> AbstractContextManager[None]:
    from tests.stages_alone import stages_alone

    return stages_alone()


def _become_module(_: str, command: Sequence[str]) -> NoReturn:
    """In the place of `os.execv`: be `python -m MODULE`, with the imports that are made, leading a group as a part does.

    The daemon does without the code location, whose server imports everything once more and which no test here needs.
    """
    program, _, module, *arguments = command
    if module == "shaberi_dagster.defs.daemon":
        arguments = ["run", "--empty-workspace"]
    if program.endswith("dagster-daemon"):
        module, arguments = "dagster._daemon", list(command[1:])
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    os._exit(0)


if __name__ == "__main__":
    main()
