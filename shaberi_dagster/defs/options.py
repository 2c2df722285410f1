"""Launchpad options: pydantic models as Dagster config, and back."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from types import GenericAlias, NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin

import dagster as dg
import pydantic
from cyclopts import Parameter
from pydantic.fields import FieldInfo

from shaberi_dagster.runs.option import Names, known
from shaberi_dagster.runs.spec import SINGLE, CallOptions
from shaberi_dagster.runs.stages.judgements import Judgements
from shaberi_dagster.runs.stages.ordered import CALLING_NAMES
from shaberi_dagster.runs.stages.pass_outputs import PassOutputs
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.names import message_of

ModelT = TypeVar("ModelT", bound=pydantic.BaseModel)
_CHOICES = {"benchmarks", "strategies", "passes"}
"""Kinds of names that are known when definitions are loaded."""


def config_class(
    name: str, doc: str, *models: type[pydantic.BaseModel], without: Collection[str] = ()
) -> type[dg.Config]:
    """A config class with the fields of the models: the launchpad takes what the command line takes.

    It offers the words of a field that has only some, and refuses others before anything is launched. Ranges are for
    the models to check, who say in one line what is wrong.

    Args:
        name: Its name.
        doc: What it is.
        models: Whose fields it has, in this order.
        without: Fields that it lacks.
    """
    fields: dict[str, Any] = {
        field_name: (_type_of(field_name, field), FieldInfo(default=field.default, description=field.description))
        for model in models
        for field_name, field in model.model_fields.items()
        if field_name not in without
    }
    return pydantic.create_model(name, __base__=dg.Config, __doc__=doc, **fields)


def given(config: dg.Config) -> dict[str, Any]:
    """The values of the config as plain JSON; what was left out is left out."""
    return config.model_dump(mode="json", exclude_none=True, warnings=False)  # defaults are words, not enumerations


def part_of(config: dg.Config, model: type[ModelT]) -> ModelT:
    """Make the model of the given values that belong to it.

    Raises:
        ConfigurationError: One is wrong; the message names its field.
    """
    try:
        return model(**{name: value for name, value in given(config).items() if name in model.model_fields})
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        raise ConfigurationError(f"{'.'.join(map(str, first['loc']))}: {message_of(first)}") from None


def stage_config(
    options: CallOptions,
    stages: Collection[str],
    benchmarks: Sequence[str],
    judges: Sequence[str] = (),
    *,
    reprocess: bool = False,
    reexamine: bool = False,
) -> dict[str, Any]:
    """The `ops` part of a run config that materializes the stages with these options."""
    calls = options.model_dump(exclude_none=True, exclude_defaults=True)
    configs = {stage: {"benchmarks": list(benchmarks)} | (calls if stage in CALLING_NAMES else {}) for stage in stages}
    if Judgements.name in configs:
        configs[Judgements.name] |= {"judges": list(judges), "reprocess": reprocess}
    if PassOutputs.name in configs:
        configs[PassOutputs.name] |= {"reprocess": reexamine}
    return {stage: {"config": config} for stage, config in configs.items()}


def _type_of(name: str, field: FieldInfo) -> Any:
    """The type of a field as Dagster knows it: it takes enumerations where there may be none of it, but no literals."""
    is_optional = NoneType in get_args(field.annotation)
    kind = (
        next(kind for kind in get_args(field.annotation) if kind is not NoneType) if is_optional else field.annotation
    )
    if len(get_args(field.annotation)) > 2:  # noqa: PLR2004  (several kinds: the model reads the text)
        return Any
    if get_origin(kind) is Literal:
        make: Any = StrEnum
        return make(name, list(get_args(kind))) | None
    completers = (mark.completer for mark in field.metadata if isinstance(mark, Parameter))
    named = next((completer.kind for completer in completers if isinstance(completer, Names)), None)
    if kind == list[str] and named in _CHOICES:
        words = [SINGLE, *known(named)] if named == "strategies" else known(named)
        return GenericAlias(list, StrEnum(name, list(words))) | None
    return field.annotation
