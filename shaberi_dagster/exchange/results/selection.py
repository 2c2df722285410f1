"""Selection of what is exported; light, so that help and usage errors are quick."""

from dataclasses import dataclass

from shaberi_dagster.reports.requests import Models, Sources, Tags

RESULTS, SHABERI_V1, REQUESTS = "results", "shaberi-v1", "requests"
FORMATS = (RESULTS, SHABERI_V1, REQUESTS)


@dataclass(frozen=True)
class ExportSelection:
    """Selection of models, runs and trees to export.

    Attributes:
        models: Only these, as the lake has them or with `/` for the `__` of imported ones; none means all.
        tags: Only runs with one of these tags, or tags of their import; none means all.
        sources: Only these imported trees; none means all, and the runs of our own.
    """

    models: Models = ()
    tags: Tags = ()
    sources: Sources = ()
