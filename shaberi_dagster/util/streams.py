"""Stdout and stderr that outlive their reader: what no one reads any more is lost, and the work is still done."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any, TextIO, cast


class _ReaderGoneError(Exception):
    """No one reads stdout any more."""


class _Outliving(io.FileIO):
    """A descriptor that leads nowhere from when its reader (`head`, a pager) has gone."""

    ends_with_reader = False

    def write(self, data: Any) -> int:
        """Write what fits; all of it is gone where no one reads."""
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if self.ends_with_reader:
                raise _ReaderGoneError from None
            return len(data)


def outliving(descriptor: int, like: TextIO, *, closefd: bool = True) -> TextIO:
    """Open a descriptor as a stream that is like another one, outlives its reader, and replaces what it cannot write.

    Args:
        descriptor: Where it leads.
        like: Has its encoding and buffering.
        closefd: Whether the descriptor is closed with it.
    """
    raw = _Outliving(descriptor, "w", closefd=closefd)
    lines = getattr(like, "line_buffering", False)
    buffer = io.BufferedWriter(cast("io.RawIOBase", raw))
    errors = "backslashreplace" if like.errors == "backslashreplace" else "replace"
    return io.TextIOWrapper(buffer, like.encoding, errors, line_buffering=lines)


@contextmanager
def outliving_readers() -> Iterator[None]:
    """Within this context stdout and stderr outlive their readers, so that work is never left undone for one."""
    with ExitStack() as stack:
        for stream, redirect in ((sys.stdout, redirect_stdout), (sys.stderr, redirect_stderr)):
            try:
                own = outliving(stream.fileno(), stream, closefd=False)
            except (AttributeError, io.UnsupportedOperation):
                continue  # closed by who started us, or no file
            stack.enter_context(redirect(own))
            stack.callback(_flush, own)
        yield


def _flush(stream: TextIO) -> None:
    with suppress(OSError):  # that the disk is full was told
        stream.flush()


@contextmanager
def ending_with_reader() -> Iterator[TextIO]:
    """Within this context, which only reads, stdout is written: the context ends when no one reads on."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if not isinstance(raw, _Outliving):
        yield sys.stdout
        return
    raw.ends_with_reader = True
    try:
        yield sys.stdout
        sys.stdout.flush()
    except _ReaderGoneError:
        pass
    finally:
        raw.ends_with_reader = False
