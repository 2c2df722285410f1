"""The format of a lake: a number in a small file, raised by small steps that bring an older lake up to date.

A lake of an older format is read as it is. The first command that writes takes the steps that it lacks, under a lock:
`Lake` asks for that before each write. Nothing here needs polars or delta-rs, so that readers start quickly.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.journal.locks import alone
from shaberi_dagster.lake.files import swap_in
from shaberi_dagster.lake.mirror import Mirror

if TYPE_CHECKING:
    from shaberi_dagster.lake.store import Lake

FORMAT = 5
"""The format that this program writes. 1: all lakes before there was a number. 2: the table `prompts`,
`judgements.superseded_at` with replaced failures kept, `runs.created_by`. 3: `judge_config_hash` without the address of
the endpoint, the table `judge_configs`, endpoints with earlier addresses in specs. 4: an imported run is of one tree
(`runs.source`), and `runs.superseded_by`. 5: `runs.not_sent`, and in scores what tells pieces of evidence apart
(`call_hash`, `judged_at`) and whether they are outside of their scale."""
FORMAT_NAME = "_format.json"
_FIRST = 1

Step = Callable[["Lake"], object]
"""Brings a lake one format further. It may be killed at any moment and then is taken again, so it only adds what is not
there yet. The lake that it gets may be written although it is an older one."""


def stored_format(folder: Path) -> int | None:
    """The format of the lake in a folder; None when there is none yet.

    Raises:
        ConfigurationError: Its file is broken.
    """
    path = folder / FORMAT_NAME
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return _FIRST if next(folder.glob("*/_delta_log"), None) else None
    try:
        number = json.loads(text)["format"]
    except (ValueError, KeyError, TypeError):
        number = None
    if not isinstance(number, int) or number < _FIRST:
        raise ConfigurationError(
            f'{path} does not tell the lake\'s format: write {{"format": N}} into it; this program knows {FORMAT}'
        )
    return number


def check_format(folder: Path) -> int | None:
    """Refuse a lake that a newer program has written.

    Returns:
        The lake's format; None when there is no lake yet.

    Raises:
        ConfigurationError: Its format is newer than this program, or its file is broken.
    """
    stored = stored_format(folder)
    if stored is not None and stored > FORMAT:
        raise ConfigurationError(
            f"the lake in {folder} has format {stored} and this program knows only {FORMAT}: "
            "update shaberi-dagster, or point SHABERI_WAREHOUSE to another lake"
        )
    return stored


def begin(folder: Path) -> None:
    """Give a new lake its format, before its first table is made."""
    _write_format(folder, FORMAT)


def bring_up_to_date(folder: Path, steps: Mapping[int, Step]) -> list[int]:
    """Take all steps that a lake lacks, each once; of several processes one takes them and the others wait.

    Args:
        folder: The warehouse.
        steps: For each older format what leads from there to the next one.

    Returns:
        The formats that it got, in order; none when another process was faster.

    Raises:
        ConfigurationError: A newer program has written the lake.
    """
    from shaberi_dagster.lake.store import Lake  # noqa: PLC0415  (which needs this module)

    got = []
    with alone(folder, "upgrade"):
        if mirror := Mirror.of(folder):
            mirror.pull()
        first = check_format(folder) or FORMAT
        for number in range(first, FORMAT):
            steps[number](Lake(folder, upgrade=_as_it_is))
            _write_format(folder, number + 1)
            got.append(number + 1)
    return got


def to_format_2(fill_prompts: Step) -> Step:
    """From format 1: `runs.created_by`, `judgements.superseded_at`, and the table `prompts`.

    Args:
        fill_prompts: Records the prompts of old rows as far as today's templates still are theirs.
    """

    def step(lake: "Lake") -> None:
        for table in ("runs", "judgements", "prompts"):
            lake.widen(table)
        fill_prompts(lake)

    return step


def to_format_3(fill_judge_configs: Step) -> Step:
    """From format 2: the table `judge_configs`.

    Args:
        fill_judge_configs: Records the hashes that settings of judges had, as far as they are still the settings.
    """

    def step(lake: "Lake") -> None:
        lake.widen("judge_configs")
        fill_judge_configs(lake)

    return step


def to_format_4(regroup_imports: Step) -> Step:
    """From format 3: `runs.source`, `runs.superseded_by`, and a run for each tree that a model was imported from.

    Args:
        regroup_imports: Puts imported answers together anew; only asked when some are there.
    """

    def step(lake: "Lake") -> None:
        for table in ("runs", "legacy_files", "legacy_repeats"):
            lake.widen(table)
        if not lake.read("legacy_files", {"kind": ["answers", "judgements"]}, ["kind"]).is_empty():
            regroup_imports(lake)

    return step


def to_format_5(fill_scores: Step) -> Step:
    """From format 4: `runs.not_sent`, and `call_hash`, `judged_at` and `out_of_scale` of scores.

    Args:
        fill_scores: Lets scores that are there have them.
    """

    def step(lake: "Lake") -> None:
        for table in ("runs", "scores"):
            lake.widen(table)
        fill_scores(lake)

    return step


def _as_it_is(_: "Lake") -> None:
    """What a step writes to is older than today's."""


def _write_format(folder: Path, number: int) -> None:
    content = (json.dumps({"format": number}) + "\n").encode()
    if mirror := Mirror.of(folder):
        mirror.put(FORMAT_NAME, content)
    else:
        swap_in(folder / FORMAT_NAME, content, durable=True)
