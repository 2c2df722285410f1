"""Settings of the libraries' memory allocators: free memory goes back to the system soon.

An evaluation needs little at any moment, but each of its libraries has an allocator of its own that keeps what it once
had, in parts for each thread.
"""

import os

_SOON = {
    # Polars: not at once, or each of many small reads asks the system for the same again.
    "_RJEM_MALLOC_CONF": "narenas:2,dirty_decay_ms:20,muzzy_decay_ms:0",
    "DUCKDB_JE_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0",
    "MIMALLOC_PURGE_DELAY": "0",  # Arrow
    "MALLOC_ARENA_MAX": "2",  # glibc, in processes that this one starts
}


def keep_little() -> None:
    """Let this process, and those that it starts, keep little free memory; only of use before libraries are loaded."""
    for name, value in _SOON.items():
        os.environ.setdefault(name, value)
