"""Dagster's UI behind our guard: alone (`python -m shaberi_dagster.defs.server HOST PORT`) or with the daemon.

The guard has to wrap the web application, which Dagster has no public name for.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Thread

import uvicorn
from dagster import DagsterInstance
from dagster._cli.proxy_server_manager import ProxyServerManager
from dagster._core.workspace.context import WorkspaceProcessContext, WorkspaceRequestContext
from dagster._core.workspace.load_target import GrpcServerTarget, ModuleTarget, WorkspaceLoadTarget
from dagster._daemon.controller import daemon_controller_from_instance
from dagster_webserver.version import __version__
from dagster_webserver.webserver import DagsterWebserver
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from shaberi_dagster.defs.execution import LOCATION, close_dead_runs, open_instance
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.guard import Access, Guard
from shaberi_dagster.util.permissions import make_folder
from shaberi_dagster.util.ports import listen

_CODE_SERVER_LOG_LEVEL = "WARNING"
_POLL_MILLISECONDS = 2000
_STATEMENT_MILLISECONDS, _POOL_SECONDS, _POOL_OVERFLOW = 15_000, 3600, 20
_LONGEST_END_SECONDS = 5


class _Webserver(DagsterWebserver[WorkspaceProcessContext, WorkspaceRequestContext]):
    async def graphql_http_endpoint(self, request: Request) -> Response:
        """Take GraphQL as a POST of JSON alone; Dagster takes it, mutations included, from the address of a GET too.

        The UI names its query in the address of a POST, which Dagster does not read if the body is JSON.
        """
        if request.method == "GET" and request.scope["query_string"]:
            return PlainTextResponse("send GraphQL as a POST of JSON, not in the address\n", 405, {"Allow": "POST"})
        response: Response = await super().graphql_http_endpoint(request)
        return response


def serve(settings: Settings, host: str, port: int, tell: Callable[[str], object]) -> None:
    """Serve the UI and run Dagster's daemon, both on one code server, until they are stopped.

    Both are in this process: nothing of them is left when it is killed, and they take a third less memory.

    Args:
        settings: Where the lake and Dagster's instance are.
        host: Address on which the UI listens; beyond loopback it needs a login.
        port: Its port.
        tell: Told where the UI is.

    Raises:
        ConfigurationError: It cannot listen there.
        KeyboardInterrupt: It was stopped.
    """
    access = Access.from_environment(host, port)
    with listen(host, port) as listening, ExitStack() as stack:
        with open_instance(settings.dagster_home) as instance:
            close_dead_runs(instance)
        make_folder(settings.run_specs)
        os.environ |= {
            "DAGSTER_HOME": str(settings.dagster_home),
            "SHABERI_WAREHOUSE": str(settings.warehouse),
            "SHABERI_RUN_SPECS": str(settings.run_specs),
            "SHABERI_PLUGINS": os.pathsep.join(map(str, settings.plugins)),
        }
        instance = stack.enter_context(DagsterInstance.get())
        code = stack.enter_context(ProxyServerManager(instance, _definitions(), _CODE_SERVER_LOG_LEVEL))
        (location,) = (spec["grpc_server"] for spec in code.get_code_server_specs())
        target = GrpcServerTarget(location["host"], None, location["socket"], location["location_name"])
        server = stack.enter_context(_server(target, access))
        thread = Thread(target=server.run, args=[[listening]], daemon=True)
        daemon = stack.enter_context(daemon_controller_from_instance(instance, target))
        thread.start()
        stack.callback(thread.join)
        stack.callback(setattr, server, "should_exit", True)
        tell(f"Dagster's UI is on {access.greeting()}")
        daemon.check_daemon_loop()


@contextmanager
def _server(target: WorkspaceLoadTarget, access: Access) -> Iterator[uvicorn.Server]:
    with DagsterInstance.get() as instance:
        instance.optimize_for_webserver(_STATEMENT_MILLISECONDS, _POOL_SECONDS, _POOL_OVERFLOW)
        with WorkspaceProcessContext(
            instance, target, version=__version__, code_server_log_level=_CODE_SERVER_LOG_LEVEL
        ) as context:
            app = Guard(_Webserver(context, live_data_poll_rate=_POLL_MILLISECONDS).create_asgi_app(), access)
            config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=_LONGEST_END_SECONDS)
            yield uvicorn.Server(config)


def _definitions() -> ModuleTarget:
    return ModuleTarget(LOCATION, None, os.getcwd(), None)  # noqa: PTH109  (as Dagster has it)


def main(host: str, port: int) -> None:
    """Serve the UI of the instance in `DAGSTER_HOME`, as a part of a cluster."""
    access = Access.from_environment(host, port)
    open_instance(Settings.from_environment().dagster_home).dispose()
    with listen(host, port) as listening, _server(_definitions(), access) as server:
        print(f"Dagster's UI is on {access.greeting()}", file=sys.stderr, flush=True)  # noqa: T201
        server.run([listening])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
