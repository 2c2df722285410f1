"""The statements of `sql/reports/`, ours and of plugin folders: a file each, whose parameters are all its choices."""

import re
from functools import cache

from shaberi_dagster.settings import plugin_folders, project_folder

_NAMED_QUERY = re.compile(r"\{(\w+)\}")


@cache
def statement(name: str) -> str:
    """The text of a statement; `{name}` in it stands for the named query of `sql/queries`."""
    folders = [project_folder("sql"), *(folder / "sql" for folder in plugin_folders())]
    files = [folder / "reports" / f"{name}.sql" for folder in folders]
    text = next((file for file in files if file.exists()), files[0]).read_text(encoding="utf-8")
    return _NAMED_QUERY.sub(lambda match: _named_query(match[1]), text)


def _named_query(name: str) -> str:
    text = (project_folder("sql") / "queries" / f"{name}.sql").read_text(encoding="utf-8")
    return text.rstrip().removesuffix(";")
