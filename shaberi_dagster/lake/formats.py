"""The format of a lake: a number in a small file. A lake of an older format is read as it is.

Nothing here needs polars or delta-rs, so that readers start quickly.
"""

import json
from pathlib import Path

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.files import swap_in
from shaberi_dagster.lake.log import LOG
from shaberi_dagster.lake.mirror import Mirror

FORMAT = 7
"""The format that this program writes. 1: all lakes before there was a number. 2: the table `prompts`,
`judgements.superseded_at` with replaced failures kept, `runs.created_by`. 3: `judge_config_hash` without the address of
the endpoint, the table `judge_configs`, endpoints with earlier addresses in specs. 4: an imported run is of one tree
(`runs.source`), and `runs.superseded_by`. 5: `runs.not_sent`, and in scores what tells pieces of evidence apart
(`call_hash`, `judged_at`) and whether they are outside of their scale. 6: in metrics the single scores that
they are made of (`question_ids`, `question_scores`). 7: `runs.reused_replies`, who answered a call
(`calls.reply_model`), and in metrics both ends of scores by rules (`score_upper`, `n_undecided`)."""
FORMAT_NAME = "_format.json"
_FIRST, _COPYING = 1, "copying"


def stored_format(folder: Path) -> int | None:
    """Read the format of the lake in a folder; None when there is none yet.

    Raises:
        ConfigurationError: Its file is broken.
    """
    path = folder / FORMAT_NAME
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return _FIRST if next(folder.glob(f"*/{LOG}"), None) else None
    if (source := _copied_from(text)) is not None:
        raise ConfigurationError(
            f"the lake in {folder} is a copy that was not finished: `shaberi copy-lake {source} {folder}` finishes it"
        )
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


def unfinished_copy(folder: Path) -> str | None:
    """Return the source of a copy in a folder that was not finished; None where there is none."""
    path = folder / FORMAT_NAME
    return _copied_from(path.read_text(encoding="utf-8")) if path.is_file() else None


def _copied_from(text: str) -> str | None:
    try:
        return str(json.loads(text)[_COPYING])
    except (ValueError, KeyError, TypeError):
        return None


def write_format(folder: Path, number: int = FORMAT, copied_from: str | None = None) -> None:
    """Give a lake its format: a new one before its first table is made, an older one after each step of an upgrade.

    Args:
        folder: The lake.
        number: Its format.
        copied_from: What it is a copy of, as long as the copy is not finished; nobody takes it for a lake.
    """
    document = {"format": number} if copied_from is None else {_COPYING: copied_from}
    content = (json.dumps(document) + "\n").encode()
    if mirror := Mirror.of(folder):
        mirror.put(FORMAT_NAME, content)
    else:
        swap_in(folder / FORMAT_NAME, content, durable=True)
