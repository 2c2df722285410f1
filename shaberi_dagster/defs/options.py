"""What the launchpad asks for: pydantic models as Dagster config, and back."""

from collections.abc import Collection, Sequence
from typing import Any

import dagster as dg
import pydantic

from shaberi_dagster.runs.spec import CallOptions

IMPORT, IMPORT_JOB = "legacy_import", "import_legacy"
ENSEMBLE_IMPORT, ENSEMBLE_IMPORT_JOB = "ensemble_import", "import_ensemble"
REPROCESS, REPROCESS_JOB = "reprocess_runs", "reprocess"
DECISION, DECISION_JOB = "decisions", "decide"
ENSEMBLE_REPORT = "report"
"""Metadata of `ensemble_import` with the counts of every file, which the command shows."""


def config_class(name: str, doc: str, *models: type[pydantic.BaseModel]) -> type[dg.Config]:
    """A config class with the fields of the models: the launchpad takes what the command line takes."""
    fields: dict[str, Any] = {
        field_name: (_plain(field.annotation), field)
        for model in models
        for field_name, field in model.model_fields.items()
    }
    return pydantic.create_model(name, __base__=dg.Config, __doc__=doc, **fields)


def part_of(config: dg.Config, model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """The values of the config that belong to the model; what was left out is left out."""
    return {name: value for name, value in config.model_dump(exclude_none=True).items() if name in model.model_fields}


def stage_config(
    options: CallOptions,
    stages: Collection[str],
    judges: Sequence[str] = (),
    *,
    reprocess: bool = False,
    reexamine: bool = False,
) -> dict[str, Any]:
    """The `ops` part of a run config that materializes the stages with these options."""
    calls, again = options.model_dump(exclude_none=True, exclude_defaults=True), {"reprocess": True}
    ops = {
        "answers": {"config": calls},
        "consensus": {"config": calls},
        "judgements": {"config": calls | {"judges": list(judges)} | (again if reprocess else {})},
        "pass_outputs": {"config": calls | (again if reexamine else {})},
    }
    return {stage: config for stage, config in ops.items() if stage in stages}


def _plain(annotation: Any) -> Any:
    """The type as Dagster knows it: it has no literals."""
    text = str(annotation)
    if "Literal" not in text:
        return annotation
    return str | None if "None" in text else str
