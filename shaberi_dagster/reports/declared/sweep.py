"""The report on runs that differ in a setting, such as those of a sweep."""

from shaberi_dagster.lake.statements import Catalog
from shaberi_dagster.reports.blocks import Report, Result
from shaberi_dagster.reports.requests import RunSelection, ScoreSelection


def _read(catalog: Catalog, which: RunSelection) -> Result:
    from shaberi_dagster.reports import sweep

    selection = ScoreSelection(models=which.models, tags=which.tags, sources=which.sources)
    return sweep.sweep_result(sweep.read_sweep(catalog, selection))


SWEEP = Report(
    "sweep",
    "Show runs that differ in a setting by score and cost, and name the cheapest that is not shown to be worse.",
    selection=RunSelection,
    read=_read,
    examples=["shaberi sweep --model my-model", "shaberi sweep --model my-model --tag july --format csv"],
    more="`run-evals --sweep` ends with it; its page in `shaberi view` draws score against cost.",
)
