"""A request as a YAML file: for `run-evals --config` and the folder of run specs, with its JSON schema for editors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ConfigDict, ValidationError, create_model

from shaberi_dagster.plugins.discovery import load_yaml
from shaberi_dagster.runs.spec import CallOptions, ModelSettings, RunRequest, overridden
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.names import did_you_mean, message_of

_ANY_MODEL = "any"
_SCHEMA_HEAD = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "run-request.schema.json",
    "title": "Run request",
    "description": "What `run-evals --config FILE` evaluates, and each YAML file in the folder of run specs.",
}


def read_request(path: Path) -> tuple[RunRequest, CallOptions]:
    """The request in a YAML file, and how its calls are to be made.

    Raises:
        ConfigurationError: It is not valid; the message names the field.
    """
    return request_from(_read(path))


def read_values(path: Path, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The fields that a YAML file of a request has, overridden by options, which can name the model if it does not.

    Raises:
        ConfigurationError: They are none of a request, or cannot be read; the message names file and field.
    """
    try:
        values = _read(path)
        request_from({"model": _ANY_MODEL} | values)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    return overridden(values, options or {})


def request_from(values: Mapping[str, Any]) -> tuple[RunRequest, CallOptions]:
    """The request that named values make, and how its calls are to be made.

    Raises:
        ConfigurationError: They are none of a request; the message names the first field at fault.
    """
    calls = {name: value for name, value in values.items() if name in CallOptions.model_fields}
    asked = {name: value for name, value in values.items() if name not in calls}
    try:
        return RunRequest.model_validate(asked), CallOptions.model_validate(calls)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the whole file"
        if first["type"] == "extra_forbidden":
            of_request = RunRequest.model_fields | CallOptions.model_fields
            known = of_request if len(first["loc"]) == 1 else ModelSettings.model_fields
            raise ConfigurationError(f"no field {where}; {did_you_mean(str(first['loc'][-1]), known)}") from error
        raise ConfigurationError(f"{where}: {message_of(first)}") from error


def as_yaml(request: RunRequest, calls: CallOptions) -> str:
    """The file that asks for the same; what is so without a word is left out."""
    values = request.model_dump(exclude_defaults=True) | calls.model_dump(exclude_defaults=True)
    text: str = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    return text


def request_schema() -> dict[str, Any]:
    """The JSON schema of these files."""
    fields: dict[str, Any] = {
        name: (field.annotation, field)
        for model in (RunRequest, CallOptions)
        for name, field in model.model_fields.items()
    }
    document = create_model("Run request", __config__=ConfigDict(extra="forbid"), **fields)
    return _SCHEMA_HEAD | {
        name: value for name, value in document.model_json_schema().items() if name not in _SCHEMA_HEAD
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        asked = load_yaml(path.read_bytes())
    except yaml.YAMLError as error:
        said = " ".join(
            str(error).replace('in "<unicode string>", ', "at ").replace('in "<byte string>", ', "at ").split()
        )
        raise ConfigurationError(f"not YAML that can be read: {said}") from error
    if not isinstance(asked, dict):
        raise ConfigurationError("the whole file: it must name fields of a request, such as `model: gpt-5.1`")
    return asked
