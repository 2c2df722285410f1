"""A test that published numbers were made with, and that nothing here uses."""

import math


def mcnemar_corrected(only_first: int, only_second: int) -> tuple[float, float]:
    """McNemar's chi-squared test with the continuity correction of Edwards (1948), as older reports have it.

    Returns:
        (|b - c| - 1)² / (b + c), and p of its square root; 0 and 1 without discordant questions.
    """
    n = only_first + only_second
    if not n:
        return 0.0, 1.0
    chi_squared = (abs(only_first - only_second) - 1) ** 2 / n
    return chi_squared, math.erfc(math.sqrt(chi_squared / 2))
