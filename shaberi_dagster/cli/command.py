"""What all commands share: how they start, and how they say what went wrong."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer

from shaberi_dagster.errors import ShaberiError

FINE, GATE_FAILED, USAGE, FAILED_PARTS, INCONCLUSIVE, UNFORESEEN, INTERRUPTED = 0, 1, 2, 3, 4, 70, 130
_ORDER = (UNFORESEEN, INTERRUPTED, USAGE, GATE_FAILED, FAILED_PARTS, INCONCLUSIVE)
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
_DEBUG_FLAG = "--debug"


def exit_code(*codes: int) -> int:
    """Of the exit codes that apply the one that counts: 130, 2, 1, 3, 4, the first of them; else 0."""
    return next((code for code in _ORDER if code in codes), FINE)


def with_plugins(epilog: str) -> str:
    """The text below the help of a command, with what plugin folders add to the names that it takes."""
    from shaberi_dagster.plugins import added_names  # noqa: PLC0415

    added = "".join(f"\n  {kind}: {', '.join(names)}" for kind, names in added_names().items())
    return f"{epilog}\n\n\b\nFrom plugin folders:{added}" if added else epilog


def run_command(app: Callable[..., Any]) -> NoReturn:
    """Run a typer app; errors become one line on stderr and exit code 2, and typer makes Ctrl-C exit code 130."""
    # `kill PID` ends a command as cleanly as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code: Any = FINE
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except ShaberiError as error:
        code = error.exit_code
        _report(error, str(error))
    except BrokenPipeError:
        # The reader of our output (`head`, `less`) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except SystemExit as stop:
        # Typer's answer when that happens in the middle.
        if not isinstance(stop.__context__, BrokenPipeError):
            raise
    except typer.Exit as stop:
        code = stop.exit_code
    except Exception as error:  # noqa: BLE001
        code = _usage_error(error)
    sys.exit(code if isinstance(code, int) else FINE)


def _usage_error(error: Exception) -> int:
    """One line for an option that typer does not take; a command without arguments shows its help."""
    format_message = getattr(error, "format_message", None)
    if callable(format_message):
        text, context = str(format_message()), getattr(error, "ctx", None)
        hint = f" ({context.command_path} --help lists what there is)" if context else ""
        print(text if "\n" in text else f"error: {text.rstrip('.')}{hint}", file=sys.stderr)  # noqa: T201
        return USAGE
    _report(error, f"{type(error).__name__}: {error} (--debug shows where)")
    return UNFORESEEN


def _report(error: Exception, text: str) -> None:
    if _DEBUG_FLAG in sys.argv:
        import traceback  # noqa: PLC0415

        traceback.print_exception(error)
    print(f"error: {' '.join(text.split())}", file=sys.stderr)  # noqa: T201
