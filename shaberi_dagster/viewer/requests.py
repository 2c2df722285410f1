"""What a file with pages of the viewer is to have; light, so that help and usage errors are quick."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from shaberi_dagster.reports.requests import Judges, Pipeline, Sources, Tags
from shaberi_dagster.runs.option import InGroup, Option

N_QUESTIONS = 5


@dataclass(frozen=True)
class FileRequest:
    """What a file about the whole lake is to have.

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
        Field(description="Compare this model, or MODEL@@TAG; default: the best two"),
        Option("with --html", ("--model",), metavar="MODEL", repeated=True, known="models"),
    ] = ()
    tags: Annotated[Tags, InGroup("with --html")] = ()
    sources: Annotated[Sources, InGroup("with --html")] = ()
    judges: Annotated[Judges, InGroup("with --html")] = ()
    pipeline: Annotated[Pipeline, InGroup("with --html")] = ""
    n_questions: Annotated[
        int,
        Field(ge=0, le=100, description="Of how many questions, those that differ most, answers are in"),
        Option("with --html", ("--questions",), metavar="N"),
    ] = N_QUESTIONS
