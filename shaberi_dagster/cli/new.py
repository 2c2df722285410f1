"""`shaberi new`: a working example of a benchmark, pass, judge or strategy, to be changed."""

from collections.abc import Collection, Mapping
from typing import Annotated

from shaberi_dagster.cli.output import say
from shaberi_dagster.plugins.new import ExampleKind, write_example
from shaberi_dagster.reports.blocks import Result, Sentences
from shaberi_dagster.runs.option import option
from shaberi_dagster.util.folders import plugin_folders

EPILOG = """Examples:
  shaberi new benchmark trivia      plugins/benchmarks/trivia.yaml, its questions and its judge's prompt
  shaberi doctor                    names what cannot be used, with file and line

The files work as they are. docs/extending.md explains them; prompts, endpoints, views and queries are files as well."""


def new(
    kind: Annotated[ExampleKind, option("what", "What to write an example of: benchmark, pass, judge or strategy")],
    name: Annotated[str, option("what", "Its name: lower-case letters, digits and _")],
    /,
) -> None:
    """Write a working example of a plugin."""
    written = write_example(kind, name, plugin_folders()[0], _taken(kind))
    say(Result([Sentences([str(path) for path in written])]))


def _taken(kind: ExampleKind) -> set[str]:
    """Collect the names of that kind that there are already."""
    from shaberi_dagster.tasks.benchmarks import registry as benchmarks
    from shaberi_dagster.tasks.consensus import registry as strategies
    from shaberi_dagster.tasks.judges.rules import registry as judges
    from shaberi_dagster.tasks.passes import registry as passes

    kinds: Mapping[ExampleKind, Collection[str]] = {
        ExampleKind.BENCHMARK: benchmarks.ALL_BENCHMARKS,
        ExampleKind.PASS: passes.PASSES,
        ExampleKind.JUDGE: judges.GRADERS,
        ExampleKind.STRATEGY: strategies.STRATEGIES,
    }
    return {name.removeprefix("rule:") for name in kinds[kind]}
