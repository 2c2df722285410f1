"""S3-compatible stores: a real small one, and it with the faults that stores have."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import localbucket

BUCKET = "lakes"


@dataclass(frozen=True)
class Bucket:
    """A store at work, with one bucket.

    Attributes:
        folder: Where the bucket's objects are, as files.
        requests: Method and path of each request, in order.
        environment: What lets a command find it.
    """

    folder: Path
    requests: list[str]
    environment: dict[str, str]

    @property
    def uri(self) -> str:
        """A lake in the bucket."""
        return f"s3://{BUCKET}/team/lake"


@contextmanager
def running_store(folder: Path, *, conditional: bool = True, failing: float = 0.0) -> Iterator[Bucket]:
    """A store on a port of its own.

    Args:
        folder: Where its objects are.
        conditional: Whether it honours `If-None-Match`.
        failing: Share of requests that it answers with 503.
    """
    requests: list[str] = []
    chance = random.Random(7)

    class Handler(localbucket.S3Handler):  # type: ignore[misc]
        data_root = folder

        def parse_request(self) -> bool:
            there: bool = super().parse_request()
            if there:
                requests.append(f"{self.command} {self.path}")
                if not conditional:
                    del self.headers["If-None-Match"]
                if chance.random() < failing:
                    self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
                    return False
            return there

        def log_message(self, *_: Any) -> None:
            pass

    (folder / BUCKET).mkdir(parents=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield Bucket(
            folder / BUCKET,
            requests,
            {
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
                "AWS_ACCESS_KEY_ID": "some-key",
                "AWS_SECRET_ACCESS_KEY": "not-to-be-written",
                "AWS_REGION": "us-east-1",
                "AWS_DISABLE_BULK_DELETE": "true",
            },
        )
    finally:
        server.shutdown()
        server.server_close()
