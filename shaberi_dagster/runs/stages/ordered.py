"""The stages of a run, in the order in which they are made."""

from typing import Any

from shaberi_dagster.runs.stages.answers import Answers
from shaberi_dagster.runs.stages.base import RowStage, Stage
from shaberi_dagster.runs.stages.consensus import ConsensusAnswers
from shaberi_dagster.runs.stages.judgements import Judgements
from shaberi_dagster.runs.stages.metrics import Metrics
from shaberi_dagster.runs.stages.pass_outputs import PassOutputs
from shaberi_dagster.runs.stages.scores import Scores

CALLING_STAGES: tuple[type[RowStage[Any]], ...] = (Answers, ConsensusAnswers, Judgements, PassOutputs)
"""The stages that may make calls."""
STAGES: tuple[type[Stage], ...] = (*CALLING_STAGES, Scores, Metrics)
"""Every stage; what a run has no strategies or passes for, makes no rows."""
STAGE_NAMES = tuple(stage.name for stage in STAGES)
CALLING_NAMES = tuple(stage.name for stage in CALLING_STAGES)


def stage_named(name: str) -> type[Stage]:
    """Return the stage of a name, one of `STAGE_NAMES`."""
    return STAGES[STAGE_NAMES.index(name)]


def calling_stage(name: str) -> type[RowStage[Any]]:
    """Return the stage of a name, one of `CALLING_NAMES`."""
    return CALLING_STAGES[CALLING_NAMES.index(name)]
