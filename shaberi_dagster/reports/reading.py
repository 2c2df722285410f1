"""Declared reports as they are read, and the known benchmarks of a lake."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shaberi_dagster.lake.connections import frame_of
from shaberi_dagster.lake.queries import known_names
from shaberi_dagster.lake.statements import Catalog, fetch, parsed_statement, rows_of, run_statement
from shaberi_dagster.plugins.discovery import running
from shaberi_dagster.reports.blocks import Document, Report, Row, Rows, Table
from shaberi_dagster.reports.requests import BASELINE
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import FURTHER_ANSWERS, NUMBERED
from shaberi_dagster.util.names import check_known, did_you_mean

if TYPE_CHECKING:
    import polars as pl

    from shaberi_dagster.tasks.benchmarks import registry


def read_report(catalog: Catalog, report: Report, selection: Any) -> Document:
    """Read a declared report.

    Args:
        catalog: The public views.
        report: Its declaration.
        selection: Of the kind that it asks for.

    Raises:
        ConfigurationError: The lake has no such model, tag, …
    """
    if report.read is not None:
        return report.read(catalog, selection)
    names = [table.name for table in report.tables]
    if len(set(names)) < len(names):
        raise ConfigurationError(f"report {report.name}: two of its tables have one name ({', '.join(names)})")
    found = {table.name: rows_of(_selected(catalog, table, selection)) for table in report.tables}
    for table in report.tables:
        given = found[table.name][0]
        for name in (column.name for column in table.columns if not callable(column.value)):
            if name not in given:
                where = f"sql/reports/{table.sql}.sql"
                raise ConfigurationError(f"{where} has no column {name}; it has {', '.join(given)}")
    _check_parameters(catalog, report, selection)
    columns, _ = found[report.tables[0].name]
    rows: dict[str, Rows] = {name: rows for name, (_, rows) in found.items()}
    for table in report.tables:
        if table.derive and rows[table.name]:
            rows[table.name] = [table.derive(row) for row in rows[table.name]]
            columns = list(rows[report.tables[0].name][0])
    with running(report.verdict or report.result):
        return report.result(rows, columns)


def _check_parameters(catalog: Catalog, report: Report, selection: Any) -> None:
    """Refuse a report that takes a choice and does nothing with it.

    Raises:
        ConfigurationError: It names the field of the selection, and the parameters that there are.
    """
    used = set().union(*(parsed_statement(catalog, table.sql).named_parameters for table in report.tables))
    if unused := [f"${name}" for name in vars(selection) if name not in used]:
        has = ", ".join(f"${name}" for name in sorted(used)) or "no parameter"
        raise ConfigurationError(f"report {report.name}: none of its statements has {unused[0]}; they have {has}")


def report_frame(catalog: Catalog, report: Report, selection: Any) -> "pl.DataFrame":
    """Read the first table of a declared report as a frame."""
    found = _selected(catalog, report.tables[0], selection)
    _check_parameters(catalog, report, selection)
    return frame_of(found)


def _selected(catalog: Catalog, table: Table, selection: Any) -> Catalog:
    """Run the statement of a table; fields of the selection are its parameters, others of them are null."""
    chosen = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(selection).items()}
    check_selected(catalog, chosen)
    names = parsed_statement(catalog, table.sql).named_parameters
    if "prices" in names:
        chosen["prices"] = _current_prices(catalog)
    return run_statement(catalog, table.sql, {name: chosen.get(name) or None for name in names})


_NAMES = {"models": "model or run", "tags": "tag or base tag", "sources": "source", "judges": "judge"}
"""The kind of names that a selection chooses from, by its field."""


def check_selected(catalog: Catalog, selected: Mapping[str, Any]) -> None:
    """Refuse names that the lake does not have.

    Args:
        catalog: The public views.
        selected: The names by the field of a selection.

    Raises:
        ConfigurationError: It names one, and those that are most like it.
    """
    for name, kind in _NAMES.items():
        if names := selected.get(name):
            check_known(kind.partition(" ")[0], names, known_names(catalog, kind, names))


def read_costs(catalog: Catalog, run_ids: Sequence[str]) -> Rows:
    """Tokens and cost of runs by stage and benchmark, at the prices that are known now."""
    return fetch(catalog, "cost", run_ids=run_ids, prices=_current_prices(catalog))


def _current_prices(catalog: Catalog) -> str:
    from shaberi_dagster.runs import known_prices

    return known_prices.price_list(catalog)


def benchmarks_in(catalog: Catalog) -> "Mapping[str, registry.Benchmark]":
    """Return the known benchmarks, and those of plugins that are gone, as the last run of them kept them."""
    from shaberi_dagster.tasks.benchmarks import registry

    rows = fetch(catalog, "runs", with_entries=True)
    if not rows:
        return registry.ALL_BENCHMARKS
    from shaberi_dagster.runs import spec

    specs = [spec.RunSpec.read(row["spec"]) for row in reversed(rows)]
    gone = {
        name: run.benchmark(name)
        for run in specs
        for name, settings in run.benchmarks.items()
        if settings.entry and name not in registry.ALL_BENCHMARKS
    }
    return {**registry.ALL_BENCHMARKS, **gone}


Scales = Mapping[str, tuple[float, float]]
"""The ends of each benchmark's reported scale."""


def reported_scales(benchmarks: "Mapping[str, registry.Benchmark]") -> Scales:
    """Map each benchmark to its (lowest, highest) score on the reported scale."""
    return {
        name: (
            benchmark.scale_minimum * benchmark.reported_multiplier,
            benchmark.scale_maximum * benchmark.reported_multiplier,
        )
        for name, benchmark in benchmarks.items()
    }


def scale_rows(catalog: Catalog) -> list[Row]:
    """Return the scales as statements take them."""
    scales = reported_scales(benchmarks_in(catalog))
    return [{"benchmark": name, "minimum": low, "maximum": high} for name, (low, high) in scales.items()]


def check_passes(pipeline: str) -> None:
    """Refuse a pipeline that found nothing because one of its passes does not exist.

    Raises:
        ConfigurationError: There is no such pass; with those that are most like it.
    """
    from shaberi_dagster.tasks.passes import registry as passes

    for name in () if pipeline == BASELINE else pipeline.split(","):
        passes.PASSES.use(name)


@dataclass(frozen=True)
class Side:
    """A side of a comparison.

    Attributes:
        name: A, B, …
        model: Its model.
        run_tags: Its runs, in order of their numbers; several are averaged per question.
        run_ids: Their identities.
    """

    name: str
    model: str
    run_tags: tuple[str, ...]
    run_ids: tuple[str, ...]


def scored_runs(catalog: Catalog) -> Rows:
    """Read the runs that have scores: rows of `chosen_runs.sql`."""
    return [run for run in fetch(catalog, "chosen_runs") if run["has_scores"]]


def find_side(runs: Sequence[Mapping[str, Any]], name: str, text: str, tag: str | None) -> Side:
    """The runs that a model, a run or a base tag stands for.

    Args:
        runs: From `scored_runs`.
        name: What to call the side.
        text: A model, MODEL@@TAG or a run id.
        tag: For a model by its name only; None where it has one run. The tag of an import stands for all its trees.

    Raises:
        ConfigurationError: There is no such run, or several could be meant.
    """
    model, _, own_tag = text.rpartition("@@")
    if not any(run["model"] == text for run in runs) and model:
        tag = own_tag
        known = [run for run in runs if model in {run["model"], run["run_id"].rpartition("@@")[0]}]
    else:
        model = text
        known = [run for run in runs if run["model"] == text]
    if not known:
        scored = {run["model"] for run in runs} | {run["run_id"] for run in runs}
        raise ConfigurationError(f"no scores of model {model!r}; {did_you_mean(model, scored, 'there are those of')}")
    tags = ", ".join(sorted({run["run_tag"] for run in known}))
    if tag is None:
        tag, *others = {run["base_tag"] for run in known}
        if others:
            raise ConfigurationError(f"{model} has several runs: name one as {model}@@TAG, or give --tag; tags: {tags}")
    exact = [run for run in known if run["run_tag"] == tag]
    # A run without a number is no part of the multi-run that was made under the same tag.
    of_base = [run for run in known if run["base_tag"] == tag.removesuffix(NUMBERED)]
    numbered = [run for run in of_base if run["run_number"] is not None]
    imported = [run for run in known if run.get("import_tag") == tag]
    # Further answers in the same tree are named by their own tags.
    imported = [run for run in imported if not re.search(FURTHER_ANSWERS, run["run_tag"])] or imported
    if len({run["run_id"] for run in imported}) > 1 and not (exact and tag is own_tag):
        matching = ", ".join(f"{model}@@{run['run_tag']}" for run in imported)
        raise ConfigurationError(
            f"{model} was imported under the tag {tag!r} from several trees: name one of {matching}, or give --source"
        )
    found = exact or imported or numbered
    if not found:
        meant = did_you_mean(tag, tags.split(", "), "tags:")
        raise ConfigurationError(f"{model} has no scored run with tag {tag!r}; {meant}")
    return Side(name, found[0]["model"], tuple(run["run_tag"] for run in found), tuple(run["run_id"] for run in found))
