"""The rules by name, ours and those of plugin folders; a benchmark names its own."""

from shaberi_dagster.plugins.discovery import PluginFile, PluginRegistry, class_in
from shaberi_dagster.tasks.judges.rules.base import Grader

_OWN = {
    "rule:numeric": "numeric",
    "rule:mcq": "mcq",
    "rule:math": "maths",
    "rule:match": "match",
    "rule:yes_no": "match",
}


def _read(file: PluginFile) -> Grader:
    return class_in(Grader)(file)()


GRADERS = PluginRegistry(
    "rule",
    "judges",
    ".py",
    {name: f"tasks/judges/rules/{file}.py" for name, file in _OWN.items()},
    read=_read,
    prefix="rule:",
)
"""Each rule, loaded only when it is used."""
