"""Decisions from end to end: two models of which one is 0.5 better, at a mock endpoint, each try on a lake of its own.

Run `python -m perf.decide_tries --tries 100`. Right is the better model; calls are counted by the server.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from tests.deciding.deciding import one_try
from tests.example_runs import own_engine


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    tries = []
    with own_engine({}):
        for seed in range(options.first_seed, options.first_seed + options.tries):
            with tempfile.TemporaryDirectory() as folder:
                tries.append(one_try(Path(folder), seed))
    right = sum(one.is_right for one in tries)
    asked = np.mean([one.n_asked for one in tries])
    calls, requests = (sum(getattr(one, name) for one in tries) for name in ("calls", "requests"))
    print(f"{right} of {len(tries)} right, {asked:.0f} questions on average, {calls} calls, {requests} by the server")  # noqa: T201


if __name__ == "__main__":
    main()
