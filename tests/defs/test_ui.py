"""What `shaberi ui` refuses before it starts a server."""

import socket

import pytest

from shaberi_dagster.defs import server
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.ports import check_free

pytestmark = pytest.mark.integration


def test_a_port_in_use_is_named_before_anything_is_started(settings, monkeypatch) -> None:
    monkeypatch.setattr(server, "open_instance", lambda _: pytest.fail("Dagster was started"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refusal = rf"^port {port} of 127.0.0.1 is in use: name another one with --port$"
        with pytest.raises(ConfigurationError, match=refusal):
            server.serve(settings, "127.0.0.1", port, pytest.fail)


def test_a_free_port_and_one_that_was_in_use_until_now_are_fine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = other.accept()
            accepted.close()  # which leaves the port in TIME_WAIT
            client.recv(1)
    check_free("127.0.0.1", port)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"nothing can listen on port 3000 of 192\.0\.2\.1"):
        check_free("192.0.2.1", 3000)
