"""The passes by name: ours, and those of plugin folders."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson
from pydantic import ValidationError

from shaberi_dagster.plugins.discovery import PluginRegistry, class_in
from shaberi_dagster.tasks.passes.base import Pass
from shaberi_dagster.util.errors import ConfigurationError

_OWN = ("lang_mixing", "repetition", "format_validation", "safety_check")
PASSES: PluginRegistry[type[Pass[Any]]] = PluginRegistry(
    "pass", "passes", ".py", {name: f"tasks/passes/{name}.py" for name in _OWN}, read=class_in(Pass)
)
"""The class of each pass, loaded only when the pass is used."""


def make_pass(name: str, settings: Mapping[str, Any]) -> Pass[Any]:
    """A pass with these settings; what they leave out is as the pass has it.

    Args:
        name: Which pass.
        settings: Its settings.

    Raises:
        ConfigurationError: There is no such pass, or it cannot have these settings.
    """
    chosen = PASSES.use(name)
    try:
        return chosen(chosen.config_class.model_validate(settings))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "settings"
        if first["type"] == "missing":
            examples = chosen.config_class.model_fields[place].examples or ["VALUE"]
            raise ConfigurationError(
                f"pass {name} has no default for {place}: give one with --pass-option {name}.{place}={examples[0]}"
            ) from error
        known = ", ".join(chosen.config_class.model_fields)
        raise ConfigurationError(f"pass {name}: {place}: {first['msg']}; its settings: {known}") from error


def make_pipeline(names: Sequence[str], options: Sequence[str] = ()) -> list[Pass[Any]]:
    """Passes in order.

    Args:
        names: Their names.
        options: Settings, as `NAME.SETTING=VALUE` texts; lists and mappings are JSON, such as `[[0, 0], [1, 1]]`.

    Raises:
        ConfigurationError: A name or a setting is wrong, or a pass is there twice.
    """
    settings: dict[str, dict[str, Any]] = {name: {} for name in names}
    if len(settings) < len(names):
        raise ConfigurationError(f"passes {','.join(names)}: each may be there once")
    for option in options:
        place, equals, value = option.partition("=")
        name, dot, setting = place.partition(".")
        if not equals or not dot or name not in settings:
            raise ConfigurationError(
                f"pass option {option!r} must be NAME.SETTING=VALUE with one of the passes {','.join(names)}"
            )
        settings[name][setting] = _read(value)
    return [make_pass(name, settings[name]) for name in names]


def _read(value: str) -> Any:
    if value.startswith(("[", "{")):
        with suppress(orjson.JSONDecodeError):  # what the setting makes of the text is said as for any other
            return orjson.loads(value)
    return value
