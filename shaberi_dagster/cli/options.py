"""Options of a command made of what it takes: names, types, ranges, defaults and help are those of the fields."""

import dataclasses
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import annotated_types
import typer
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from typer.core import TyperArgument, TyperCommand, TyperOption

from shaberi_dagster.cli.command import Debug, Version
from shaberi_dagster.cli.completion import completer
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.runs.option import InGroup, Option
from shaberi_dagster.settings import check_writable
from shaberi_dagster.util.names import message_of

MORE_EXAMPLES = "More examples:"
"""Begins the part of an epilog that only the long help shows."""
_SHORT = ("what", "how", "with --html", "budget")
_LONG = (*_SHORT, "advanced", "as the original")
_OF_EVERY_COMMAND = {"debug", "version", "install_completion", "show_completion", "help_all", "help"}
_METAVARS = {int: "N", float: "X", str: "NAME", Path: "FILE"}
_LISTS = ("NAMES", "MODELS")
"""What the help calls lists with commas."""
_HELP_ALL = "shaberi.help_all"
_Files = Callable[[Path, Mapping[str, Any]], Mapping[str, Any]]

Submit = Annotated[
    bool,
    Field(description="Let the workers of a cluster do it, and look on; Ctrl-C only ends looking on"),
    Option("advanced"),
]
OutputFormat = Annotated[
    str, Field(description="How it is printed"), Option("how", ("--format",), metavar="table|json|csv|md")
]
Audit = Annotated[
    float | None,
    Field(gt=0, le=1, description="Then have the judge grade again this share of what rules said"),
    Option("advanced"),
]


def _writable(path: Path | None) -> Path | None:
    """Refuse a file that cannot be written, before anything is read or paid for."""
    if path is not None:
        if path.is_dir():
            raise ValueError(f"{path} is a folder: name a file")
        if path.exists() and not os.access(path, os.W_OK):
            raise ValueError(f"{path} cannot be written")
        check_writable(path.parent, "name another file")
    return path


OutputFile = Annotated[Path | None, AfterValidator(_writable)]
AsJson = Annotated[bool, Field(description="One JSON document on stdout"), Option("how", ("--json",))]


class CommandOptions(BaseModel):
    """Base of what a command can be told beside what it is to make."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # there are many, and one is used

    debug: Annotated[bool, Field(description="Show the traceback of an error"), Option("advanced")] = False


class JsonOptions(CommandOptions):
    """Options of a command that only has to be told how its result is shown."""

    as_json: AsJson = False


class PlannedOptions(CommandOptions):
    """Options of a command that can show what it would take."""

    dry_run: Annotated[bool, Field(description="Show what it may take; ask nobody"), Option("budget")] = False
    output_format: OutputFormat = "table"
    as_json: AsJson = False


def application(
    function: Callable[..., int],
    epilog: str = "",
    *,
    files: _Files | None = None,
    add_completion: bool = True,
) -> typer.Typer:
    """Make the typer app of one command.

    Args:
        function: Returns the exit code. Its parameters are models, see `takes_models`, or typer's own options.
        epilog: Examples, and what else stands below the help.
        files: Reads the file of an option `--config`, and lets the options that are given override it.
        add_completion: With the options that install completion, as a script has them.
    """
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=add_completion)
    if _models_of(function):
        app.command(cls=OptionsCommand, epilog=epilog)(takes_models(function, files))
    else:
        app.command(epilog=epilog)(_with_debug(function))
    return app


def _with_debug(function: Callable[..., int]) -> Any:
    """Give a function of typer's options `--debug` as well, which whoever reports errors looks for."""

    def command(*, debug: bool = False, **values: Any) -> int:
        del debug
        return function(**values)

    signature = inspect.signature(function)
    debug = inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug)
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__signature__ = signature.replace(parameters=[*signature.parameters.values(), debug])  # type: ignore[attr-defined]
    command.__annotations__ = {}
    return command


def _models_of(function: Callable[..., int]) -> dict[str, type[Any]]:
    """Map the parameters of a function that are pydantic models or dataclasses to these."""
    parameters = inspect.signature(function, eval_str=True).parameters
    kinds = {name: parameter.annotation for name, parameter in parameters.items()}
    return {
        name: kind
        for name, kind in kinds.items()
        if isinstance(kind, type) and (issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind))
    }


def takes_models(function: Callable[..., int], files: _Files | None = None) -> Any:
    """The function of a typer command whose options are the fields of the models that this function takes.

    Args:
        function: Its parameters are pydantic models or dataclasses. Fields with an `Option` are options of the command;
            a field is set only if its option is given.
        files: Reads what the file of an option `--config` says, and lets the options that are given override it.

    Returns:
        What `typer.Typer.command` takes, with `OptionsCommand`.
    """
    models = _models_of(function)
    fields = {name: field for model in models.values() for name, field in _fields_of(model).items()}
    options = {name: one for name, field in fields.items() if (one := _option_of(field))}

    def command(context: typer.Context, **values: Any) -> int:
        given: dict[str, Any] = {
            name: _items(value) if _is_list(fields[name]) and not options[name].repeated else value
            for name, value in values.items()
            if name in options and _is_given(context, name)
        }
        if files and "config" in given:
            given = dict(files(given["config"], given))
        return function(**{name: _filled(model, given, context) for name, model in models.items()})

    parameters = [_parameter(name, fields[name], option) for name, option in options.items()]
    for name, flag in (("version", Version), ("help_all", _HelpAll)):
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=flag))
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
    command.__annotations__ = {}
    return command


class OptionsCommand(TyperCommand):
    """A command whose help stands in groups: the main ones on one screen, all of them with `--help-all`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a command line; of an option that is given two values the first one would be lost."""
        single = [one for one in self.params if isinstance(one, TyperOption) and not (one.multiple or one.is_flag)]
        for parameter in () if ctx.resilient_parsing else single:
            given = [arg for arg in pairwise([*args, ""]) if arg[0].partition("=")[0] in parameter.opts]
            if len({name if "=" in name else value for name, value in given}) > 1:
                several = "name several as A,B" if parameter.metavar in _LISTS else "it takes one value"
                raise typer.BadParameter(f"{parameter.opts[0]} is given {len(given)} times: {several}")
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group; the short help only names the options of the others, if there are some."""
        groups: dict[str, list[Any]] = {}
        for parameter in self.params:
            groups.setdefault(getattr(parameter, "rich_help_panel", None) or "advanced", []).append(parameter)
        others = {parameter.name for group in _LONG[len(_SHORT) :] for parameter in groups.get(group, ())}
        whole = ctx.meta.get(_HELP_ALL, False) or others <= _OF_EVERY_COMMAND
        for group in _LONG if whole else _SHORT:
            if group in groups:
                rows = [
                    _long_record(parameter, ctx) if whole else _short_record(parameter, ctx)
                    for parameter in groups[group]
                ]
                with formatter.section(group.capitalize()):
                    formatter.write_dl([row for row in rows if row])
        if not whole:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(
                    f"--help-all explains {len(others)} more options, with more examples and the exit codes."
                )

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples; the short help has only the first."""
        first, _, others = (self.epilog or "").partition(MORE_EXAMPLES)
        text = f"{first.rstrip()}\n{others.lstrip(chr(10))}" if ctx.meta.get(_HELP_ALL) else first
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(inspect.cleandoc(text))

    @staticmethod
    def whole_help(context: Any) -> str:
        """Return the long help, as `--help-all` shows it."""
        context.meta[_HELP_ALL] = True
        text: str = context.get_help()
        return text


def _show_all(context: typer.Context, value: bool) -> None:
    if value:
        typer.echo(OptionsCommand.whole_help(context))
        raise typer.Exit


_HelpAll = Annotated[
    bool, typer.Option("--help-all", is_eager=True, callback=_show_all, help="Show all options, and exit.")
]


def _parameter(name: str, field: FieldInfo, option: Option) -> inspect.Parameter:
    """A field as a parameter of a typer command."""
    kind = _plain_type(field.annotation)
    is_list = _is_list(field)
    names = option.names or (f"--{name.replace('_', '-')}",)
    required = "  [required]" if field.is_required() else ""
    common: dict[str, Any] = {
        "min": _bound(field, annotated_types.Ge),
        "max": _bound(field, annotated_types.Le),
        "rich_help_panel": option.group,
        "autocompletion": completer(option.known) if option.known else None,
    }
    if option.is_argument:
        info = typer.Argument(help=f"{field.description}.", metavar=option.metavar or None, **common)
    else:
        several = "; repeat for several" if option.repeated else ""
        metavar = option.metavar or _metavar(kind, is_list=is_list and not option.repeated)
        info = typer.Option(*names, help=f"{field.description}{several}.{required}", metavar=metavar, **common)
    of_list: Any = list[get_args(kind)[0]] if option.repeated else str  # type: ignore[misc]
    annotation: Any = of_list if is_list else kind
    if option.is_argument and field.is_required():
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[annotation, info])
    default = None if field.is_required() else ",".join(field.default) if is_list and field.default else field.default
    if default in (None, "", (), []):
        annotation, default = annotation | None, None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, info]
    )


def _fields_of(model: type[Any]) -> dict[str, FieldInfo]:
    """The fields of a pydantic model, or of a dataclass, by name."""
    if issubclass(model, BaseModel):
        return dict(model.model_fields)
    hints = get_type_hints(model, include_extras=True)
    return {
        field.name: FieldInfo.from_annotation(hints[field.name])
        if field.default is dataclasses.MISSING
        else FieldInfo.from_annotated_attribute(hints[field.name], field.default)
        for field in dataclasses.fields(model)
    }


def _option_of(field: FieldInfo) -> Option | None:
    option = next((mark for mark in field.metadata if isinstance(mark, Option)), None)
    groups = [mark.group for mark in field.metadata if isinstance(mark, InGroup)]
    return dataclasses.replace(option, group=groups[-1]) if option and groups else option


def _plain_type(annotation: Any) -> Any:
    """The type without `| None`."""
    if get_origin(annotation) is Literal:
        return annotation
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    if type(None) not in get_args(annotation):
        return annotation
    return kinds[0] if len(kinds) == 1 else str  # the model reads the text


def _is_list(field: FieldInfo) -> bool:
    return get_origin(_plain_type(field.annotation)) in {list, tuple, Sequence}


def _metavar(kind: Any, *, is_list: bool) -> str | None:
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    return "NAMES" if is_list else _METAVARS.get(kind, "NAME")


def _bound(field: FieldInfo, kind: type) -> Any:
    """The least value (`Ge`) or the greatest (`Le`) that a field takes; None if there is none."""
    mark: Any = next((mark for mark in field.metadata if isinstance(mark, kind)), None)
    return mark and getattr(mark, kind.__name__.lower())


def _items(text: str) -> list[str]:
    """The items of a comma-separated list."""
    return [item for part in text.split(",") if (item := part.strip())]


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _filled(model: type[Any], given: Mapping[str, Any], context: typer.Context) -> Any:
    """The model with those of the given values that are its own."""
    own = {name: value for name, value in given.items() if name in _fields_of(model)}
    if not issubclass(model, BaseModel):
        return model(**own)
    try:
        return model.model_validate(own)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        option = next(
            (max(parameter.opts, key=len) for parameter in context.command.params if parameter.name == name), name
        )
        hint = f" ({context.command_path} --help lists what there is)"
        text = (
            f"Missing option '{option}'"
            if first["type"] == "missing"
            else f"{option}: {message_of(first)}".removeprefix(": ")
        )
        raise ConfigurationError(text + hint) from error


def _long_record(one: Any, context: Any) -> tuple[str, str] | None:
    """Name and help of an option, or of an argument, which needs no type."""
    record: tuple[str, str] | None = one.get_help_record(context)
    return (record[0].partition(" <")[0], record[1]) if record and isinstance(one, TyperArgument) else record


def _short_record(one: Any, context: Any) -> tuple[str, str] | None:
    """Name and help of an option, on one line if possible."""
    if isinstance(one, TyperArgument):
        return _long_record(one, context)
    name = one.opts[0] if one.is_flag else f"{one.opts[0]} {one.display_type_rich(ctx=context)}"
    default = f"  [{one.default}]" if one.default is not None and one.default is not False else ""
    return name, f"{one.help}{default}"
