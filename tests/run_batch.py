"""Answers the lines of a batch file at a server, one after the other, as `vllm run-batch` does: -i IN -o OUT [--url URL]."""

import argparse
import json
import urllib.request
from pathlib import Path


def main() -> None:
    """Write a line of output for each line of input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-i", type=Path, required=True)
    parser.add_argument("-o", type=Path, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--model")
    asked = parser.parse_args()
    with asked.o.open("w", encoding="utf-8") as file:
        for line in asked.i.read_text(encoding="utf-8").splitlines():
            request = json.loads(line)
            call = urllib.request.Request(
                asked.url.removesuffix("/v1") + request["url"],
                json.dumps(request["body"]).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(call) as reply:
                response = {"status_code": reply.status, "request_id": "r", "body": json.load(reply)}
            done = {"id": "b", "custom_id": request["custom_id"], "response": response, "error": None}
            file.write(json.dumps(done) + "\n")


if __name__ == "__main__":
    main()
