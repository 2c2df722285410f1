"""What a shell completes names with: of benchmarks, strategies, passes, queries, judges, models and runs."""

from collections.abc import Callable, Iterable

from shaberi_dagster.errors import ShaberiError
from shaberi_dagster.runs.option import Known
from shaberi_dagster.settings import Settings


def completer(kind: Known) -> Callable[[str], list[str]]:
    """What typer asks for completions of a name, or of the last of several with commas between them."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        there = set(before.split(","))
        return [f"{before}{comma}{name}" for name in known(kind) if name.startswith(last) and name not in there]

    return complete


def known(kind: Known) -> list[str]:
    """The names of a kind that there are: those of the lake where runs have them, none where there is no lake."""
    # Each imports what it needs: completion has to be quick.
    if kind == "benchmarks":
        from shaberi_dagster.benchmarks.registry import ALL_BENCHMARKS  # noqa: PLC0415

        return ["all", *ALL_BENCHMARKS]
    if kind == "strategies":
        from shaberi_dagster.consensus.registry import STRATEGIES  # noqa: PLC0415

        return list(STRATEGIES)
    if kind == "passes":
        from shaberi_dagster.passes.registry import PASSES  # noqa: PLC0415

        return list(PASSES)
    if kind == "queries":
        from shaberi_dagster.lake.views import VIEWS  # noqa: PLC0415
        from shaberi_dagster.reports.named_queries import QUERIES  # noqa: PLC0415

        return sorted([*VIEWS, *QUERIES])
    return sorted({*_embedded(kind), *_of_lake({"judges": "judge", "models": "model", "runs": "run_tag"}[kind])})


def _embedded(kind: Known) -> Iterable[str]:
    from shaberi_dagster.llm.embedded import DEFAULT_MODEL  # noqa: PLC0415

    return () if kind == "runs" else (DEFAULT_MODEL,)


def _of_lake(column: str) -> Iterable[str]:
    from shaberi_dagster.lake.catalog import logged_versions  # noqa: PLC0415
    from shaberi_dagster.lake.store import Lake  # noqa: PLC0415

    warehouse = Settings.from_environment().warehouse
    try:
        if not logged_versions(warehouse):
            return ()
        table = "metrics" if column == "judge" else "runs"
        return [name for name in Lake(warehouse).read(table, None, [column])[column].unique() if name]
    except (ShaberiError, OSError):
        return ()  # a shell has no place for what is wrong with it
