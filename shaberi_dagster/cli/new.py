"""`shaberi new`: a working example of a benchmark, pass, judge or strategy, to be changed."""

import re
from collections.abc import Iterable
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

import shaberi_dagster
from shaberi_dagster.cli.command import FINE, Debug
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.plugins import NAME
from shaberi_dagster.settings import plugin_folders

EPILOG = """Examples:

\b
  shaberi new benchmark trivia      plugins/benchmarks/trivia.yaml, its questions and its judge's prompt
  shaberi new pass politeness       plugins/passes/politeness.py
  shaberi doctor                    names what cannot be used, with file and line

The files work as they are. docs/extending.md explains them; prompts, endpoints, views and queries are files as well."""

_EXAMPLE = Path(shaberi_dagster.__file__).parent / "example"
_WORD = re.compile(r"example", re.IGNORECASE)


class ExampleKind(StrEnum):
    """What there is an example of."""

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

_REGISTRIES = {
    ExampleKind.BENCHMARK: ("benchmarks.registry", "ALL_BENCHMARKS"),
    ExampleKind.PASS: ("passes.registry", "PASSES"),
    ExampleKind.JUDGE: ("grading.registry", "GRADERS"),
    ExampleKind.STRATEGY: ("consensus.registry", "STRATEGIES"),
}


def new(
    kind: Annotated[ExampleKind, typer.Argument(help="What to write an example of.")],
    name: Annotated[str, typer.Argument(help="Its name: lower-case letters, digits and _.")],
    debug: Debug = False,
) -> int:
    """Write a working example of something of your own into the first plugin folder."""
    del debug
    if not NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} cannot be a name: it takes a lower-case letter, then letters, digits and _")
    if name in _known(kind):
        raise ConfigurationError(f"there is a {kind} {name} already: give another name")
    folder = plugin_folders()[0]
    texts = {
        folder / file.replace("example", name): _renamed((_EXAMPLE / file).read_text(encoding="utf-8"), name)
        for file in _FILES[kind]
    }
    if there := [path for path in texts if path.exists()]:
        raise ConfigurationError(f"{there[0]} is there already: give another name")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        typer.echo(path)
    return FINE


def _known(kind: ExampleKind) -> set[str]:
    """The names that are taken."""
    module, registry = _REGISTRIES[kind]
    names: Iterable[str] = getattr(import_module(f"shaberi_dagster.{module}"), registry)
    return {name.removeprefix("rule:") for name in names}


def _renamed(text: str, name: str) -> str:
    """With `example` as the name, and `ExampleKind` as that of a class or a title."""
    title = "".join(word.capitalize() for word in name.split("_"))
    return _WORD.sub(lambda word: title if word[0][0].isupper() else name, text)
