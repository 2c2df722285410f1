"""The errors a user can meet. Each message is one line that names what to change; that of SQL shows where as well."""

import re
from collections.abc import Sequence

_INTERRUPT = r"KeyboardInterrupt|ExecutionInterruptedError"
_OF_A_LIBRARY = re.compile(rf"^INTERRUPT Error|{_INTERRUPT}")
_OF_PYTHON = re.compile(rf"^Query interrupted$|(^|\s)\w*({_INTERRUPT}):?\s*$")


class ShaberiError(Exception):
    """Base of all errors that are reported without a traceback."""

    exit_code = 2


class ConfigurationError(ShaberiError):
    """A command, setting or file asks for something that cannot be done as it stands."""


class HubAwayError(ConfigurationError):
    """Datasets of the Hugging Face hub can be neither fetched nor taken from its client's cache.

    Args:
        repositories: Which.
        reason: Why the hub is not asked.
    """

    def __init__(self, repositories: Sequence[str], reason: str) -> None:
        several = "s" if len(repositories) > 1 else ""
        super().__init__(
            f"hub dataset{several} {', '.join(repositories)} cannot be fetched ({reason}), and the local cache lacks "
            f"{'them' if several else 'it'}: go online, or give the questions as files with --questions PATH or "
            "SHABERI_DATASETS"
        )
        self.repositories, self.reason = tuple(repositories), reason


class QuestionFileError(ConfigurationError):
    """A question file has a line that is not a question.

    Args:
        path: The file.
        line: 1-based line (or row) number; None when the whole file is at fault.
        reason: What is wrong with it.
    """

    def __init__(self, path: object, line: int | None, reason: str) -> None:
        where = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"question file {where}: {reason}")
        self.path, self.line, self.reason = path, line, reason


class SqlError(ConfigurationError):
    """A statement cannot be run. Below the first line its message has the place in the statement, marked by DuckDB.

    Args:
        error: What DuckDB says.
        source: Where the statement is from.
    """

    def __init__(self, error: Exception, source: str = "SQL") -> None:
        said, line, place = str(error).strip().partition("\nLINE ")
        super().__init__(f"{source}: {' '.join(said.split())}{line}{place}")


class StatementStoppedError(ConfigurationError):
    """A statement took longer than it may.

    Args:
        seconds: What it may take.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the statement was stopped after {seconds:g} s: give it a longer timeout")


class EndpointError(ConfigurationError):
    """An endpoint cannot be reached or refuses us; the message has its URL and never the key."""


class PartitionBusyError(ShaberiError):
    """Another process is working on the same run."""


def is_interrupt(error: BaseException) -> bool:
    """Return whether Ctrl-C, `kill` or a server's end stopped something.

    Libraries that call Python, or are called while it is pressed, make errors of their own of it, or errors of
    Python's. The latter can be anybody's and quote anything, so what they end with counts alone.
    """
    if isinstance(error, Exception):
        words = _OF_PYTHON if type(error).__module__ == "builtins" else _OF_A_LIBRARY
        return not isinstance(error, ShaberiError) and words.search(str(error)) is not None
    return not isinstance(error, GeneratorExit | SystemExit)
