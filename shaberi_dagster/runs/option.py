"""Options of commands: annotations of fields and parameters, and the names that a shell completes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Group, Parameter

from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ShaberiError

if TYPE_CHECKING:
    from cyclopts.completion import CompletionContext

Heading = Literal["what", "how", "budget", "with --html", "advanced", "as the original"]
"""Section of the help that lists an option."""
Known = Literal["benchmarks", "strategies", "passes", "queries", "judges", "models", "runs"]
"""Kinds of names that a shell can complete."""
GROUPS = {
    name: Group(name.capitalize(), sort_key=place)
    for place, name in enumerate(("what", "how", "with --html", "budget", "advanced", "as the original"))
}
FLAT = Parameter(name="*")
"""Marks a class whose fields are options of the commands that take it."""
NO_OPTION = Parameter(parse=False)
"""Marks a field that has no option."""


@dataclass(frozen=True)
class Names:
    """Completes a name of a kind, or the last of several with commas between them."""

    kind: Known

    def __call__(self, context: "CompletionContext") -> list[str]:
        """List the words that the shell offers."""
        before, comma, last = context.incomplete.rpartition(",")
        there = set(before.split(","))
        return [f"{before}{comma}{name}" for name in known(self.kind) if name.startswith(last) and name not in there]


def option(
    heading: Heading,
    text: str = "",
    *,
    name: str | tuple[str, ...] = (),
    metavar: str = "",
    known: Known | None = None,
    commas: bool = False,
    negative: str = "",
) -> Parameter:
    """Make the annotation of an option; its type, range and default are those of the field or parameter.

    Args:
        heading: Where the help lists it.
        text: Help; a field of a pydantic model has its description instead.
        name: Its spellings; without any it is the name with dashes.
        metavar: Shown for the value; the default is NAME for what is known, else by its type.
        known: Kind of names that the shell completes.
        commas: A list is given as A,B; other lists are given by repeating the option.
        negative: Spelling of the option that switches a flag off.
    """
    settings: dict[str, Any] = {"name": name, "help": text, "metavar": metavar, "negative": negative}
    if known:
        settings |= {"completer": Names(known), "metavar": metavar or "NAME"}
    if commas:
        settings |= {"allow_repeating": False, "metavar": metavar or "NAMES"}
    return Parameter(
        group=GROUPS[heading], **{name: value for name, value in settings.items() if value not in ("", ())}
    )


def known(kind: Known) -> list[str]:
    """List the names of a kind: those of the lake where runs have them, none where there is no lake."""
    from shaberi_dagster.lake import queries, views
    from shaberi_dagster.llm import embedded
    from shaberi_dagster.tasks.benchmarks import registry as benchmarks
    from shaberi_dagster.tasks.consensus import registry as strategies
    from shaberi_dagster.tasks.passes import registry as passes

    if kind == "benchmarks":
        return ["all", *benchmarks.ALL_BENCHMARKS]
    if kind == "strategies":
        return list(strategies.STRATEGIES)
    if kind == "passes":
        return list(passes.PASSES)
    if kind == "queries":
        return sorted([*views.VIEWS, *queries.QUERIES])
    default_models = () if kind == "runs" else (embedded.DEFAULT_MODEL,)
    return sorted({*default_models, *_of_lake({"judges": "judge", "models": "model", "runs": "run_tag"}[kind])})


def _of_lake(column: str) -> Iterable[str]:
    from shaberi_dagster.lake import catalog, store

    warehouse = Settings.from_environment().warehouse
    try:
        if not catalog.logged_versions(warehouse):
            return ()
        table = "metrics" if column == "judge" else "runs"
        return [name for name in store.Lake(warehouse).read(table, None, [column])[column].unique() if name]
    except (ShaberiError, OSError):
        return ()  # a shell has no place for what is wrong with it
