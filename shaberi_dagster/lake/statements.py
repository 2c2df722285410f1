"""The statements of `sql/reports/`: each file is one, its parameters are all its choices."""

import re
from functools import cache

from shaberi_dagster.settings import project_folder

_NAMED_QUERY = re.compile(r"\{(\w+)\}")


@cache
def statement(name: str) -> str:
    """The text of a statement; `{name}` in it stands for the named query of `sql/queries`."""
    text = (project_folder("sql") / "reports" / f"{name}.sql").read_text(encoding="utf-8")
    return _NAMED_QUERY.sub(lambda match: _named_query(match[1]), text)


def _named_query(name: str) -> str:
    text = (project_folder("sql") / "queries" / f"{name}.sql").read_text(encoding="utf-8")
    return text.rstrip().removesuffix(";")
