"""What of the lake is exported; light, so that help and usage errors are quick."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from shaberi_dagster.reports.requests import Models, Tags
from shaberi_dagster.runs.option import Option

RESULTS, SHABERI_V1 = "results", "shaberi-v1"
FORMATS = (RESULTS, SHABERI_V1)


@dataclass(frozen=True)
class ExportSelection:
    """What to export.

    Attributes:
        models: Only these, as the lake has them or with `/` for the `__` of imported ones; none means all.
        tags: Only runs with one of these tags; none means all.
        sources: Only files of these imported trees; none means all, and the runs of our own.
    """

    models: Models = ()
    tags: Tags = ()
    sources: Annotated[
        Sequence[str],
        Field(description="shaberi-v1: only this imported tree"),
        Option("what", ("--source",), metavar="TREE", repeated=True),
    ] = ()
