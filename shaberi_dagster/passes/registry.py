"""The passes by name: a new one is a file and an entry here."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.names import did_you_mean
from shaberi_dagster.passes.base import Pass

PASSES: Mapping[str, str] = {
    "lang_mixing": "LangMixing",
    "repetition": "Repetition",
    "format_validation": "FormatValidation",
    "safety_check": "SafetyCheck",
}
"""The class of each pass; its module has the pass's name, and is loaded only when the pass is used."""


def pass_class(name: str) -> type[Pass[Any]]:
    """The class of a pass.

    Raises:
        ConfigurationError: There is no such pass.
    """
    if name not in PASSES:
        raise ConfigurationError(f"unknown pass {name!r}; {did_you_mean(name, PASSES)}")
    found: type[Pass[Any]] = getattr(import_module(f"shaberi_dagster.passes.{name}"), PASSES[name])
    return found


def make_pass(name: str, settings: Mapping[str, Any]) -> Pass[Any]:
    """A pass with these settings; what they leave out is as the pass has it.

    Raises:
        ConfigurationError: There is no such pass, or it cannot have these settings.
    """
    one = pass_class(name)
    try:
        return one(one.config_class.model_validate(settings))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "settings"
        known = ", ".join(one.config_class.model_fields)
        raise ConfigurationError(f"pass {name}: {place}: {first['msg']}; its settings: {known}") from error


def make_pipeline(names: Sequence[str], options: Sequence[str] = ()) -> list[Pass[Any]]:
    """Passes in order.

    Args:
        names: Their names.
        options: Settings, as `NAME.SETTING=VALUE` texts.

    Raises:
        ConfigurationError: A name or a setting is wrong, or a pass is there twice.
    """
    settings: dict[str, dict[str, str]] = {name: {} for name in names}
    if len(settings) < len(names):
        raise ConfigurationError(f"passes {','.join(names)}: each may be there once")
    for option in options:
        place, equals, value = option.partition("=")
        name, dot, setting = place.partition(".")
        if not equals or not dot or name not in settings:
            raise ConfigurationError(
                f"pass option {option!r} must be NAME.SETTING=VALUE with one of the passes {','.join(names)}"
            )
        settings[name][setting] = value
    return [make_pass(name, settings[name]) for name in names]
