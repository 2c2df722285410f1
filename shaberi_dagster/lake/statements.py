"""SQL that stands in files: statements by name, and the comment at the top that describes one.

A statement of `sql/reports/`, ours and of plugin folders, has all its choices as parameters. The comment of a view or a
named query tells what it shows, and declares parameters: `-- $name: kind`, `-- $name = value`, or
`-- $name: kind = value`.
"""

import re
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from shaberi_dagster.settings import plugin_folders, project_folder

_NAMED_QUERY = re.compile(r"\{(\w+)\}")
_PARAMETER = re.compile(r"\$(\w+)(?=:| =)(?:: ([a-z ]+?))?(?: = (.*))?")


@cache
def statement(name: str) -> str:
    """Read a statement of `sql/reports`; `{name}` in it stands for the named query of `sql/queries`."""
    folders = [project_folder("sql"), *(folder / "sql" for folder in plugin_folders())]
    files = [folder / "reports" / f"{name}.sql" for folder in folders]
    text = next((file for file in files if file.exists()), files[0]).read_text(encoding="utf-8")
    return _NAMED_QUERY.sub(lambda match: _named_query(match[1]), text)


def _named_query(name: str) -> str:
    text = (project_folder("sql") / "queries" / f"{name}.sql").read_text(encoding="utf-8")
    return text.rstrip().removesuffix(";")


def describe_sql(path: Path) -> str:
    """Read the comment at the top of an SQL file, as one line, without the lines that declare parameters."""
    return " ".join(line for line in _header(path) if not _PARAMETER.fullmatch(line))


def default_parameters(path: Path) -> dict[str, str | None]:
    """Read the default values of parameters that the comment at the top declares; `null` is None."""
    return {name: None if value == "null" else value for name, _, value in _parameters(path) if value is not None}


def parameter_kinds(path: Path) -> dict[str, str]:
    """Read the kinds of names that parameters take, as the comment at the top declares them."""
    return {name: kind for name, kind, _ in _parameters(path) if kind is not None}


def _parameters(path: Path) -> list[tuple[Any, ...]]:
    return [match.groups() for line in _header(path) if (match := _PARAMETER.fullmatch(line))]


def _header(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("--").strip() for line in takewhile(lambda line: line.startswith("--"), lines)]
