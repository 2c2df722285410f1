"""Free memory goes back to the system, where the libraries' allocators would keep it.

An evaluation needs little at any moment, but each of its libraries has an allocator of its own that keeps what it once
had, in parts for each thread.
"""

import ctypes
import os
import sys

_SOON = {
    # Polars: not at once, or each of many small reads asks the system for the same again.
    "_RJEM_MALLOC_CONF": "narenas:2,dirty_decay_ms:20,muzzy_decay_ms:0",
    "DUCKDB_JE_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0",
    "MIMALLOC_PURGE_DELAY": "0",  # Arrow
}
_ARENA_MAX = -8  # the number of this option of glibc's mallopt, as in malloc.h


def keep_little() -> None:
    """Let this process, and those that it starts, keep little free memory; only of use before libraries are loaded."""
    for name, value in _SOON.items():
        os.environ.setdefault(name, value)
    if libc := _glibc():
        libc.mallopt(_ARENA_MAX, 2)


def give_back() -> None:
    """Give free memory back to the system now, which takes a few milliseconds."""
    if arrow := sys.modules.get("pyarrow"):
        arrow.default_memory_pool().release_unused()
    if libc := _glibc():
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    """The C library of this process; None where it is another one."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
