"""Making of a command: its help, how its options are read, and options that several commands have."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from cyclopts import App, ArgumentCollection, Group, Parameter
from pydantic import AfterValidator, Field

from shaberi_dagster.runs.option import GROUPS, NO_OPTION, option
from shaberi_dagster.settings import VERSION, check_writable

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

DEBUG, HELP_ALL = "--debug", "--help-all"
_FEW, _FEW_COMMANDS, _FEW_EXAMPLES = 5, 3, 2
_LONGEST_COMMAND = len("import-ensemble")
_NO_COMMAND = 2
"""Exit code of a group of commands, which only shows its help."""
_LISTS = ("NAMES", "MODELS")
"""What the help calls lists with commas."""
_Config = Callable[[App, tuple[str, ...], ArgumentCollection], None]

Submit = Annotated[
    bool, option("advanced", "Let the workers of a cluster do it, and look on; Ctrl-C only ends looking on")
]
OutputFormat = Annotated[str, option("how", "How it is printed", name="--format", metavar="table|json|csv|md")]
Audit = Annotated[
    float | None, Field(gt=0, le=1), option("advanced", "Then have the judge grade again this share of what rules said")
]
Host = Annotated[
    str, option("how", "Address to listen on; one that other machines reach needs a token, which is printed")
]
DryRun = Annotated[bool, option("budget", "Show what it may take; make no calls")]
AsJson = Annotated[bool, option("how", "One JSON document on stdout", name="--json")]


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


class HelpPage:
    """Help as columns, in groups. The short one says less of an option, and only names most commands.

    Attributes:
        whole: With everything that the short help leaves out.
        n_hidden: Number of options that were left out.
    """

    whole, n_hidden = False, 0

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
        """Print the options or the commands of a group."""
        del options
        n_options, has_commands, width = len(panel.entries), panel.format == "command", _width(console)
        is_long = panel.title == "Advanced" and (has_commands or n_options > _FEW)
        if not self.whole and (is_long or panel.title == "As the original"):
            self.n_hidden += 0 if has_commands else n_options
        elif n_options:
            rows = [*map(_row, panel.entries)]
            if has_commands and not self.whole and n_options > _FEW_COMMANDS:
                rows = [*rows[:_FEW_COMMANDS], ("also", ", ".join(name for name, _ in rows[_FEW_COMMANDS:]))]
            start = max(_LONGEST_COMMAND * has_commands, *(len(label) for label, _ in rows)) + 4
            room = None if self.whole else width - start
            lines = [f"  {label}".ljust(start) + _shortened(text, room) for label, text in rows]
            filled = [fill(line, width, subsequent_indent=" " * start) for line in lines]
            _write(console, f"{panel.title}:", *filled, *([] if has_commands else [""]))

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: Any) -> None:
        """Print how the command is called."""
        del options
        _write(console, f"Usage: {usage}".replace(" COMMAND ", " "))


def _shortened(text: str, room: int | None) -> str:
    """Leave out what is said last of an option, where all of it takes more than a line."""
    while room is not None and len(text) > room and "; " in text:
        text = text.rpartition("; ")[0] + "."
    return text


def _row(entry: "HelpEntry") -> tuple[str, str]:
    """Return the names of an option, and what it does."""
    if entry.choices and entry.metavar == "CHOICE":
        entry = entry.copy(metavar="|".join(entry.choices))
    is_list = any(get_origin(kind) in {list, Sequence} for kind in (entry.type, *get_args(entry.type)))
    several = "; repeat for several" if is_list and not entry.positional_label and entry.metavar not in _LISTS else ""
    text = f"{entry.description.primary_renderable.plain.removesuffix('.')}{several}"
    text += "" if text[-1:] in {"", "?"} else "."
    default = "required" if entry.required else entry.default
    label = entry.positional_label or ", ".join(entry.display_labels_with_metavar)
    return label, f"{text}  [{default}]" if default else text


def _width(console: "Console") -> int:
    return min(max(console.width, 60), 110)


def _write(console: "Console", *lines: str) -> None:
    """Print lines as they are; a terminal breaks those that are longer, as it does with examples."""
    console.print(*lines, sep="\n", markup=False, highlight=False, soft_wrap=True)


class Command(App):
    """A command with examples below its help, which are `EPILOG` of its module."""

    def assemble_argument_collection(self, **options: Any) -> ArgumentCollection:
        """Collect the options; their help is in annotations, for which no source of models need be parsed."""
        return super().assemble_argument_collection(**options | {"parse_docstring": False})

    def help_print(
        self, tokens: Annotated[Any, Parameter(show=False)] = None, *, console: Annotated[Any, NO_OPTION] = None
    ) -> None:
        """Print the help of the command that the tokens name."""
        HELP.n_hidden = 0
        super().help_print(tokens, console=console)
        page = console or self.console
        function = self.parse_commands(tokens)[1][-1].default_command
        epilog = getattr(sys.modules.get(getattr(function, "__module__", "")), "EPILOG", "").strip("\n")
        parts = epilog.split("\n\n") if epilog else []
        if not HELP.whole and (parts or function is None):
            hidden = f" {HELP.n_hidden} more options," if HELP.n_hidden else ""
            _write(page, f"  {HELP_ALL} has{hidden} all details and examples.")
            n_lines = {"Examples:": _FEW_EXAMPLES + 1, "From plugin folders:": None}
            few = [
                (part.split("\n"), n_lines[title]) for part in parts if (title := part.partition("\n")[0]) in n_lines
            ]
            parts = ["\n".join(lines[:n_shown]) for lines, n_shown in few]
        for part in parts:
            _write(page, "", part if "  " in part else fill(part, _width(page)))


HELP = HelpPage()


def application(
    function: Callable[..., int | None] | None, *, name: str = "", config: Sequence[_Config] = ()
) -> Command:
    """Make a command; those below it have the same settings.

    Args:
        function: Returns the exit code, or None for 0; its parameters are the options. None for a group of commands.
        name: Its name; the default is the function's.
        config: Change the words that were given for options before they are read.
    """
    app = Command(
        name=name or getattr(function, "__name__", "").replace("_", "-"),
        default_command=function,
        help_format="plaintext",
        help_formatter=HELP,
        help_flags=("--help", HELP_ALL),
        version=f"shaberi-dagster {VERSION}",
        default_parameter=Parameter(negative=(), show_default=_default),
        result_action="return_value",
        config=(*config, _read_lists),
    )
    app["--help"].group = app["--version"].group = (GROUPS["advanced"],)
    app.command(lambda: None, name=DEBUG, group=GROUPS["advanced"], help="Show the traceback of an error")
    return app


def group(name: str, text: str, commands: Mapping[str, Mapping[str, tuple[str, str]]]) -> Command:
    """Make a command of commands, which are loaded when they are called.

    Args:
        name: Its name.
        text: Help.
        commands: By heading and name the module and attribute of each, and what the list of commands says of it. The
            short list has only the first ones of each heading in full.
    """
    app = application(None, name=name)
    app.help = text
    places = count()
    for heading, under in commands.items():
        panel = Group(heading, sort_key=next(places))
        for command, (path, line) in under.items():
            app.command(path, name=command, help=line, group=panel, sort_key=next(places))
    return app


def call(app: App, words: Sequence[str]) -> int:
    """Run a command with the words of its command line, and return its exit code, which is 0 without one."""
    HELP.whole = HELP_ALL in words
    words = [word for word in words if word != DEBUG]
    code = app(words, exit_on_error=False, print_error=False)
    if app.parse_commands(words)[1][-1].default_command is None:
        return _NO_COMMAND
    return code if isinstance(code, int) else 0


def _default(value: Any) -> str:
    """Show a default in the help; "" is not shown."""
    if value in (None, False, (), []):
        return ""
    return ",".join(value) if isinstance(value, list | tuple) else str(value)


def _read_lists(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Split lists with commas."""
    del app, commands
    for argument in arguments:
        if argument.parameter.allow_repeating is False:
            items = ((token, item.strip()) for token in argument.tokens for item in token.value.split(","))
            argument.tokens = [token.evolve(value=item) for token, item in items if item]
