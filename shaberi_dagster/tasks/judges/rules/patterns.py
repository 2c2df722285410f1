"""The regular expressions of the rules, by module; `patterns.yaml` has each beside a text that it finds."""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

_FILE = Path(__file__).with_name("patterns.yaml")


class Patterns:
    """The patterns of one module, each compiled when it is first used.

    Args:
        table: A name's `pattern`, and `like`, a text that it finds.
    """

    def __init__(self, table: Mapping[str, Mapping[str, str]]) -> None:
        self.table = table

    def __getattr__(self, name: str) -> re.Pattern[str]:
        """Compile a pattern by its name."""
        try:
            compiled = re.compile(self.table[name]["pattern"])
        except KeyError:
            raise AttributeError(name) from None
        setattr(self, name, compiled)
        return compiled


def patterns(module: str) -> Patterns:
    """Read the patterns of a module."""
    return Patterns(tables()[module])


def vocabulary(name: str) -> frozenset[str]:
    """Read a list of words."""
    return frozenset(str(tables()["vocabulary"][name]).split())


@lru_cache(maxsize=1)
def tables() -> Mapping[str, Mapping[str, Any]]:
    """Read the table of every module."""
    tables: Mapping[str, Mapping[str, Any]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return tables
