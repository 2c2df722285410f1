"""The Python files of a checkout, parsed and never run."""

import ast
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any


class Sources:
    """The Python files of a checkout.

    Args:
        files: Texts by path.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        self.texts, self.trees, self.unreadable = files, dict[str, ast.Module](), dict[str, str]()
        self.steps = 0
        self.stored: dict[int, frozenset[str]] = {}
        self.only_tells: dict[int, bool] = {}
        self.requests: dict[str, dict[str, Any]] = {}
        for path, text in sorted(files.items(), key=lambda item: (item[0].count("/"), item[0])):
            try:
                self.trees[path] = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                line = getattr(error, "lineno", None)
                self.unreadable[path] = f"{path}{f':{line}' if line else ''}: does not parse"

    def path_of(self, name: str, importer: str, level: int) -> str | None:
        """Return the path of a module that a file imports; None when it is another package's."""
        folder = PurePosixPath(importer).parent
        for _ in range(level - 1):
            folder = folder.parent
        inner = name.replace(".", "/")
        starts = [folder] if level else [folder, PurePosixPath()]
        for start in starts:
            for tail in (f"{inner}.py", f"{inner}/__init__.py") if inner else ("__init__.py",):
                path = str(start / tail)
                if path in self.texts:
                    return path
        return None

    def segment(self, path: str, node: ast.AST) -> str:
        """Return the text of a node."""
        return ast.get_source_segment(self.texts[path], node) or ""
