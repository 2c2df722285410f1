"""Trees as large as the whole history, made of smaller ones: each copy has its own model names and its own answers.

    python perf/legacy_copies.py path/to/trees path/to/copies --copies 12

Copies of a model are `{model}.copyN`, and each of their answers ends with ` [N]`, in the same spelling as before, so
that nothing of one copy is in another.
"""

import argparse
import re
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

_ANSWER = re.compile(rb'("ModelAnswer": ?"(?:[^"\\]|\\.)*)"')


def copy(file: Path, source: Path, target: Path, copies: int) -> int:
    """Write all copies of a file.

    Returns:
        Their size in bytes.
    """
    content = file.read_bytes()
    place = target / file.relative_to(source)
    place.parent.mkdir(parents=True, exist_ok=True)
    size = 0
    for number in range(copies):
        own = _ANSWER.sub(rb'\1 [%d]"' % number, content) if number else content
        name = f"{file.stem}.copy{number}.json" if number else file.name
        size += place.with_name(name).write_bytes(own)
    return size


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--copies", type=int, default=12)
    options = parser.parse_args()
    files = sorted(options.source.rglob("*.json"))
    work = partial(copy, source=options.source, target=options.target, copies=options.copies)
    with ProcessPoolExecutor() as processes:
        size = sum(processes.map(work, files, chunksize=8))
    print(f"{len(files) * options.copies:,} files, {size / 1e6:,.0f} MB")  # noqa: T201


if __name__ == "__main__":
    main()
