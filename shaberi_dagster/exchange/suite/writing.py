"""Writing of an adopted set into a plugin folder."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import yaml

from shaberi_dagster.exchange.suite.checkout import Checkout, read_checkout
from shaberi_dagster.exchange.suite.generation import generation_of
from shaberi_dagster.exchange.suite.prompts import RefusedError
from shaberi_dagster.exchange.suite.reading import read_suite
from shaberi_dagster.plugins.discovery import check_name
from shaberi_dagster.tasks.judges.sets import ADOPTED, FORMAT, AdoptedSet
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.permissions import user_umask

_HEAD = """\
# Adopted by `shaberi adopt`: what this version of the old suite sends and how it scores.
# The prompts are the suite's (see its licence). Anything that is changed here is another judge.
"""
_SHOWN_OF_COMMIT = 7


@dataclass(frozen=True)
class Adoption:
    """A set that was adopted.

    Attributes:
        name: Of the set.
        path: Its file.
        adopted: What is in it.
    """

    name: str
    path: Path
    adopted: AdoptedSet

    @property
    def sentences(self) -> list[str]:
        """Say where it is and what it has."""
        return [str(self.path), f"{self.name}: {self.adopted.description}"]

    @property
    def refusals(self) -> str:
        """Say what was not adopted, a line each; empty where all was."""
        return "\n".join(f"not adopted: {reason}" for reason in self.adopted.refused)


class _Dumper(yaml.CSafeDumper):
    """Texts of several lines as blocks."""


def _text(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)


def adopt(path: Path, commit: str | None, name: str | None, folder: Path, taken: Collection[str]) -> Adoption:
    """Read a checkout and write it as an adopted set.

    Args:
        path: The checkout.
        commit: Which one; None for the HEAD of a repository, else the files as they lie there.
        name: Of the set; None makes it of the repository's name and the commit.
        folder: The plugin folder.
        taken: Names that judges and variants of prompts have.

    Raises:
        ConfigurationError: There is nothing that can be adopted, or the name cannot be used.
    """
    checkout = read_checkout(path, commit)
    try:
        suite = read_suite(checkout.files)
    except RefusedError as error:
        raise ConfigurationError(f"nothing can be adopted: {error}") from error
    suite.refused = [*checkout.unreadable, *suite.refused]
    name = name or _default_name(checkout)
    check_name(name)
    if name in taken:
        raise ConfigurationError(f"{name} is the name of a judge or a variant of prompts: give another --name")
    if not suite.benchmarks:
        reasons = "".join(f"\n  {reason}" for reason in suite.refused)
        raise ConfigurationError(f"nothing can be adopted, no benchmark was read:{reasons}")
    adopted = AdoptedSet(
        format=FORMAT,
        source=checkout.source,
        commit=checkout.commit,
        generation=generation_of(suite),
        refused=tuple(suite.refused),
        benchmarks=suite.benchmarks,
        judging=suite.judging,
        answers=suite.answers,
    )
    file = folder / ADOPTED.folder / f"{name}.yaml"
    values = adopted.model_dump(mode="json", exclude_defaults=True)
    text = _HEAD + yaml.dump(values, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=4096)
    there = file.read_text(encoding="utf-8") if file.exists() else text
    if there != text and "\nformat: " in there:  # what an earlier version wrote is of no use
        raise ConfigurationError(f"{file} is there and differs: give another --name, or delete it")
    with user_umask():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return Adoption(name, file, adopted)


def _default_name(checkout: Checkout) -> str:
    word = re.sub(r"[^a-z0-9]+", "_", checkout.source.lower()).strip("_")
    word = word if word[:1].isalpha() else f"suite_{word}".rstrip("_")
    return f"{word}_{checkout.commit[:_SHOWN_OF_COMMIT]}" if checkout.commit else word
