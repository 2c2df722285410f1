"""Identity by content: hashes, and names that are safe as folders and partition keys."""

import hashlib
import re
import string
import unicodedata
from typing import Any
from urllib.parse import unquote

import orjson

from shaberi_dagster.util.errors import ConfigurationError

_SAFE = frozenset(string.ascii_letters + string.digits + "._-")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
RUN_NUMBER = re.compile(r"(?P<base>.+)-run(?P<number>[1-9]\d*)")
"""Tag of a numbered run."""
NUMBERED = "-run*"
"""End of a tag that means all numbered runs of its base tag."""
PARTIAL_TAG = "decide-"
"""Beginning of the tag of the part of a run that decisions asked."""
FURTHER_ANSWERS = r"-gen\d+$"
"""End of the tags of runs with further imported answers of a model in the same tree."""
_MAX_NAME = 200  # of the safe name; a file system takes 255 bytes


def sha256_text(text: str) -> str:
    """The hex sha256 of the exact UTF-8 text (no normalisation)."""
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_json(value: Any) -> str:
    """The hex sha256 of a JSON value, independent of the order of its keys."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def safe_name(name: str) -> str:
    """A name as one folder name, such that two names never share a folder.

    `/` becomes `__`; every other character outside `[A-Za-z0-9._-]` is percent-encoded, and so are
    the characters that would make the result ambiguous or special: `_` next to another `_` or to a `/`,
    and a leading dot.

    >>> safe_name("meta-llama/Llama-3.1-8B")
    'meta-llama__Llama-3.1-8B'
    >>> safe_name("a__b"), safe_name("..")
    ('a%5F%5Fb', '%2E.')
    """
    parts = []
    for index, char in enumerate(name):
        if char == "/":
            parts.append("__")
        elif char == "_" and ({"_", "/"} & {name[index - 1 : index], name[index + 1 : index + 2]}):
            parts.append("%5F")
        elif char == "." and index == 0:
            parts.append("%2E")
        elif char in _SAFE:
            parts.append(char)
        else:
            parts.extend(f"%{byte:02X}" for byte in char.encode())
    return "".join(parts)


def run_id_of(model: str, run_tag: str) -> str:
    """The identity of a run: names that are safe as folders."""
    return f"{safe_name(model)}@@{run_tag}"


def names_of(run_id: str) -> tuple[str, str]:
    """The model and the run tag of an identity.

    >>> names_of("meta-llama__Llama%5F%5F3@@july")
    ('meta-llama/Llama__3', 'july')
    """
    model, _, run_tag = run_id.partition("@@")
    return unquote(model.replace("__", "/")), run_tag


def check_model_name(name: str, what: str = "model") -> str:
    """The name itself, if it can name a model or judge.

    Raises:
        ConfigurationError: It is empty, too long, has control characters or `@@`, or `.`/`..` path segments.
    """
    if "@@" in name:
        raise ConfigurationError(f"{what} name {name[:80]!r} must not have '@@': give the tag with --tag")
    if name != name.strip() or any(unicodedata.category(c)[0] == "C" for c in name):
        raise ConfigurationError(f"{what} name {name!r} has control characters or outer spaces")
    if not name or len(safe_name(name)) > _MAX_NAME:
        raise ConfigurationError(f"{what} name {name[:40]!r} must have 1 to {_MAX_NAME} characters as a folder's name")
    if "\\" in name or any(part in {".", ".."} for part in name.split("/")):
        raise ConfigurationError(f"{what} name {name!r} must not have '.', '..' or '\\' as a path would")
    return name


def check_run_tag(tag: str) -> str:
    """The tag itself, if it can name a run.

    Raises:
        ConfigurationError: It is not 1-100 characters of `[A-Za-z0-9._+-]` starting with a letter or digit.
    """
    if not _TAG.fullmatch(tag):
        raise ConfigurationError(
            f"run tag {tag!r} must be 1 to 100 characters of A-Z a-z 0-9 . _ + - and start with a letter or digit"
        )
    return tag
