"""Guard of a program: stops it when the process that started them both has ended, even by `kill -9`.

It runs as `python -m shaberi_dagster.defs.cluster.guard COMMAND …`, and its stdin is a pipe of that process.
"""

import select
import subprocess
import sys

_LOOK_SECONDS = 0.5


def main() -> None:
    """Run the command until it ends or stdin does."""
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL) as program:  # noqa: S603
        while program.poll() is None:
            stdin_has_ended, _, _ = select.select([sys.stdin], [], [], _LOOK_SECONDS)
            if stdin_has_ended:
                program.terminate()
                break


if __name__ == "__main__":
    main()
