"""The upgrade of an older lake, by small steps from each format to the next.

The first command that writes takes the steps that the lake lacks, under a lock: `Lake` asks for that before each write.
"""

from collections.abc import Mapping
from pathlib import Path

from shaberi_dagster.journal.locks import alone
from shaberi_dagster.lake.formats import FORMAT, check_format, write_format
from shaberi_dagster.lake.mirror import Mirror
from shaberi_dagster.lake.store import Lake, Step

_WIDENED = {
    1: ("runs", "judgements", "prompts"),
    2: ("judge_configs",),
    3: ("runs", "legacy_files", "legacy_repeats"),
    4: ("runs", "scores"),
    5: ("metrics",),
    6: ("calls", "metrics", "runs"),
}
"""The tables that are new, or have new columns, in the format after each older one."""


def bring_up_to_date(folder: Path, steps: Mapping[int, Step]) -> list[int]:
    """Take all steps that a lake lacks, each once; of several processes one takes them and the others wait.

    Args:
        folder: The warehouse.
        steps: For each older format what fills the new tables and columns of the next one.

    Returns:
        The formats that it got, in order; none when another process was faster.

    Raises:
        ConfigurationError: A newer program has written the lake.
    """
    got = []
    with alone(folder, "upgrade"):
        if mirror := Mirror.of(folder):
            mirror.pull()
        for number in range(check_format(folder) or FORMAT, FORMAT):
            lake = Lake(folder, upgrade=lambda _: None)  # it may be written although it is an older one
            for table in _WIDENED[number]:
                lake.widen(table)
            steps[number](lake)
            write_format(folder, number + 1)
            got.append(number + 1)
    return got
