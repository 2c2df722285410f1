"""Working examples of what people add, written under their own name."""

import re
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path

from shaberi_dagster.plugins.discovery import check_name
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.folders import project_folder
from shaberi_dagster.util.permissions import user_umask

_EXAMPLE = project_folder("docs/example")
_WORD = re.compile(r"example", re.IGNORECASE)


class ExampleKind(StrEnum):
    """Kinds of plugins of which there is an example."""

    BENCHMARK = "benchmark"
    PASS = "pass"  # noqa: S105  (no password)
    JUDGE = "judge"
    STRATEGY = "strategy"


_FILES = {
    ExampleKind.BENCHMARK: [
        "benchmarks/example.yaml",
        "benchmarks/example.jsonl",
        "prompts/judging/example/primary.jinja",
    ],
    ExampleKind.PASS: ["passes/example.py"],
    ExampleKind.JUDGE: ["judges/example.py"],
    ExampleKind.STRATEGY: ["strategies/example.py"],
}


def write_example(kind: ExampleKind, name: str, folder: Path, taken: Collection[str]) -> list[Path]:
    """Write a working example into a plugin folder.

    Args:
        kind: What of.
        name: What it is to be called.
        folder: The plugin folder, which is made.
        taken: Names that others have.

    Returns:
        The files.

    Raises:
        ConfigurationError: It cannot be called so, or a file is there already.
    """
    check_name(name)
    if name in taken:
        raise ConfigurationError(f"there is a {kind} {name} already: give another name")
    texts = {
        folder / file.replace("example", name): _renamed((_EXAMPLE / file).read_text(encoding="utf-8"), name)
        for file in _FILES[kind]
    }
    if there := [path for path in texts if path.exists()]:
        raise ConfigurationError(f"{there[0]} is there already: give another name")
    with user_umask():
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return list(texts)


def _renamed(text: str, name: str) -> str:
    """With `example` as the name, and `ExampleKind` as that of a class or a title."""
    title = "".join(word.capitalize() for word in name.split("_"))
    return _WORD.sub(lambda word: title if word[0][0].isupper() else name, text)
