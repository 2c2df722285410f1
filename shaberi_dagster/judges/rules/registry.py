"""The rules by name, ours and those of plugin folders; a benchmark names its own."""

from shaberi_dagster.judges.rules.base import Grader
from shaberi_dagster.plugins.discovery import Kind, PluginFile, class_in

_OWN = {
    "rule:numeric": "numeric",
    "rule:mcq": "mcq",
    "rule:math": "maths",
    "rule:match": "match",
    "rule:yes_no": "match",
}


def _read(file: PluginFile) -> Grader:
    return class_in(Grader)(file)()


GRADERS = Kind(
    "rule",
    "judges",
    ".py",
    {name: f"judges/rules/{file}.py" for name, file in _OWN.items()},
    read=_read,
    prefix="rule:",
)
"""Each rule, loaded only when it is used."""
