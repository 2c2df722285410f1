"""What tests do at length has two sizes: a small one, and the full one of `make acceptance`."""

import os

FULL = os.environ.get("SHABERI_ACCEPTANCE") == "1"


def size(small: int, full: int) -> int:
    """The full size when it is asked for."""
    return full if FULL else small
