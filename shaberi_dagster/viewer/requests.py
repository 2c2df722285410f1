"""The request for a file with pages of the viewer; light, so that help and usage errors are quick."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from shaberi_dagster.reports.requests import Judges, Pipeline, Sources, Tags
from shaberi_dagster.runs.option import FLAT, option

N_QUESTIONS = 5


@FLAT
@dataclass(frozen=True)
class FileRequest:
    """A request for a file about the whole lake.

    Attributes:
        models: Two to five to compare question by question, each a model or MODEL@@TAG; none means the best two.
        tags: Only runs with one of these tags or base tags; none means all.
        sources: Only runs imported from these trees; none means all, and the runs of our own.
        judges: Only these judges; none means all.
        pipeline: Passes in order; none means without.
        n_questions: Of how many questions, those that differ most, the answers are in it.
    """

    models: Annotated[
        Sequence[str],
        option(
            "with --html",
            "Compare this model, or MODEL@@TAG; default: the best two",
            name="--model",
            metavar="MODEL",
            known="models",
        ),
    ] = ()
    tags: Annotated[Tags, option("with --html")] = ()
    sources: Annotated[Sources, option("with --html")] = ()
    judges: Annotated[Judges, option("with --html")] = ()
    pipeline: Annotated[Pipeline, option("with --html")] = ""
    n_questions: Annotated[
        int,
        Field(ge=0, le=100),
        option(
            "with --html",
            "Of how many questions, those that differ most, answers are in",
            name="--questions",
            metavar="N",
        ),
    ] = N_QUESTIONS


DEFAULT_FILE = FileRequest()
