"""Trees of JSON Lines, compared field by field."""

import orjson

from shaberi_dagster.exchange.shaberi_v1 import RECORD_NAME


def rows_in(folder, path):
    lines = (folder / path).read_bytes().split(b"\n")
    return [orjson.loads(line) for line in lines if line.strip()]


def exact(rows):
    """Rows with what equality of dicts does not see: the order of their columns, and 9 or 9.0."""
    return [[(name, type(value), value) for name, value in row.items()] for row in rows]


def files_in(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.json")} - {RECORD_NAME}


def assert_same_trees(original, exported):
    assert files_in(exported) == files_in(original)
    for path in files_in(original):
        assert exact(rows_in(exported, path)) == exact(rows_in(original, path)), path
