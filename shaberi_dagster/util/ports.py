"""Ports of this machine: which are free, and which somebody listens on."""

import errno
import socket
from contextlib import ExitStack, closing, suppress

from shaberi_dagster.util.errors import ConfigurationError


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address.

    Args:
        host: The address.
        port: The port; 0: any that is free.

    Raises:
        ConfigurationError: Another program has the port, or the host is not one of this machine.
    """
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigurationError(f"port {port} of {host} is in use: name another one with --port") from error
        reason = str(error.strerror).partition(" (")[0]  # without the address once more
        raise ConfigurationError(f"nothing can listen on port {port} of {host}: {reason}") from error


def check_free(host: str, port: int) -> None:
    """Refuse an address that a server cannot listen on.

    Raises:
        ConfigurationError: Another program has the port, or the host is not one of this machine.
    """
    listen(host, port).close()


def listens(port: int) -> bool:
    """Return whether something of this machine listens there."""
    with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), timeout=1)):
        return True
    return False


def free_ports(number: int) -> list[int]:
    """Find so many different ports on which nothing listens now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for endpoint in sockets:
            endpoint.bind(("127.0.0.1", 0))
        return [endpoint.getsockname()[1] for endpoint in sockets]
