"""Names that a shell completes: of benchmarks, strategies, passes, queries, judges, models and runs."""

from collections.abc import Callable, Iterable

from shaberi_dagster.errors import ShaberiError
from shaberi_dagster.runs.option import Known
from shaberi_dagster.settings import Settings


def completer(kind: Known) -> Callable[[str], list[str]]:
    """Return the function that completes a name, or the last of several with commas between them."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        there = set(before.split(","))
        return [f"{before}{comma}{name}" for name in known(kind) if name.startswith(last) and name not in there]

    return complete


def known(kind: Known) -> list[str]:
    """List the names of a kind: those of the lake where runs have them, none where there is no lake."""
    from shaberi_dagster.benchmarks import registry as benchmarks
    from shaberi_dagster.consensus import registry as strategies
    from shaberi_dagster.lake import views
    from shaberi_dagster.llm import embedded
    from shaberi_dagster.passes import registry as passes
    from shaberi_dagster.reports import named_queries

    if kind == "benchmarks":
        return ["all", *benchmarks.ALL_BENCHMARKS]
    if kind == "strategies":
        return list(strategies.STRATEGIES)
    if kind == "passes":
        return list(passes.PASSES)
    if kind == "queries":
        return sorted([*views.VIEWS, *named_queries.QUERIES])
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
