"""The declared reports, a file each: of the project here, and of plugin folders in their `reports/`."""

import ast
from pathlib import Path

from shaberi_dagster.plugins.discovery import PluginError, PluginFile, PluginRegistry, load_module, parse_module
from shaberi_dagster.reports.blocks import Report

_OWN = sorted(path for path in Path(__file__).parent.glob("*.py") if path.stem != "__init__")


def _read(file: PluginFile) -> Report:
    for value in vars(load_module(file)).values():
        if isinstance(value, Report) and value.name == file.name:
            return value
    raise PluginError(file.path, None, f'has no Report("{file.name}", …)')


def title_in(file: PluginFile) -> str:
    """Read the title of a plugin's report without running its file; "" where its text does not tell."""
    try:
        nodes = ast.walk(parse_module(file.path))
    except PluginError:
        return ""
    calls = (node.args for node in nodes if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Report")
    texts = ([getattr(argument, "value", None) for argument in arguments[:2]] for arguments in calls)
    return next((str(title) for name, title in filter(lambda pair: len(pair) > 1, texts) if name == file.name), "")


def titles() -> dict[str, str]:
    """Map the names of all reports to their titles, without running their files."""
    own = [PluginFile(path.stem, path, is_own=True) for path in _OWN]
    return {file.name: title_in(file) for file in [*REPORTS.added, *own]}


REPORTS = PluginRegistry("report", "reports", ".py", {path.stem: path for path in _OWN}, read=_read)
