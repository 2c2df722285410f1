"""The declared reports, a file each: of the project here, and of plugin folders in their `reports/`."""

from pathlib import Path

from shaberi_dagster.plugins.discovery import Kind, PluginError, PluginFile, load_module
from shaberi_dagster.reports.report import Report

_OWN = sorted(path for path in Path(__file__).parent.glob("*.py") if path.stem != "__init__")


def _read(file: PluginFile) -> Report:
    for value in vars(load_module(file)).values():
        if isinstance(value, Report) and value.name == file.name:
            return value
    raise PluginError(file.path, None, f'has no Report("{file.name}", …)')


REPORTS = Kind("report", "reports", ".py", {path.stem: path for path in _OWN}, read=_read)
