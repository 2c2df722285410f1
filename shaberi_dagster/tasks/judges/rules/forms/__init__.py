"""The table of forms: named patterns of how replies commit to an answer, take it back, or say that they have none."""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cached_property, lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from shaberi_dagster.plugins.discovery import PluginFile, PluginRegistry, read_yaml

_FOLDER = Path("tasks/judges/rules/forms")
_OWN = ("english", "japanese", "languages", "notation")
_EASTERN = frozenset({"ja", "zh", "ko"})
_EASTERN_SIGN = re.compile("[぀-ヿ一-鿿가-힣]")
_NAMED_PART = re.compile(r"\{([a-z_]{2,})\}")


class Role(StrEnum):
    """Meaning of the text that a form matches; `docs/design/grading.md` shows each in a sentence."""

    CUT = "cut"
    WHOLE = "whole"
    MARKER = "marker"
    HINT = "hint"
    REVERSED = "reversed"
    CONCLUDES = "concludes"
    BEFORE = "before"
    FOLLOWS = "follows"
    EXPLAINS = "explains"
    BLOCKS = "blocks"
    DENIES = "denies"
    TAKES_BACK = "takes_back"
    CONFIRMS = "confirms"
    DOUBTS = "doubts"
    UNCLEAR = "unclear"
    ASIDE = "aside"
    STATES = "states"
    REMARK = "remark"
    OPENS = "opens"


class Form(BaseModel):
    """A named form.

    Attributes:
        name: As verdicts name it.
        role: What it says.
        pattern: A regular expression; `{word}` stands for one of the file's `words`.
        languages: ISO 639-1 codes; empty if it is of all.
        rules: The rules that know it; empty if all do.
        right: Replies that it reads, with what they say, each for one rule.
        wrong: Replies that look like it and say no answer.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    role: Role
    pattern: str
    languages: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    right: Mapping[str, str] = Field(default_factory=dict)
    wrong: tuple[str, ...] = ()

    __hash__ = object.__hash__  # all of them are hashed for each reply

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """Return the pattern, ready for use."""
        return re.compile(self.pattern, re.MULTILINE | re.IGNORECASE)


class FormFile(BaseModel):
    """A file of forms.

    Attributes:
        words: Parts of patterns by name.
        forms: The table.
    """

    model_config = ConfigDict(extra="forbid")

    words: Mapping[str, str] = Field(default_factory=dict)
    forms: tuple[Form, ...]

    @model_validator(mode="after")
    def _complete(self) -> "FormFile":
        known = dict(self.words)
        for name, pattern in known.items():
            known[name] = _filled(pattern, known)
        self.forms = tuple(form.model_copy(update={"pattern": _filled(form.pattern, known)}) for form in self.forms)
        for form in self.forms:
            try:
                re.compile(form.pattern)
            except re.error as error:
                raise ValueError(f"the pattern of {form.name} is no regular expression: {error}") from error
        return self


def _filled(pattern: str, words: Mapping[str, str]) -> str:
    return _NAMED_PART.sub(lambda part: f"(?:{words[part[1]]})" if part[1] in words else part[0], pattern)


def _read(file: PluginFile) -> tuple[Form, ...]:
    return read_yaml(file, FormFile.model_validate).forms


FORMS = PluginRegistry("form", "forms", ".yaml", {name: _FOLDER / f"{name}.yaml" for name in _OWN}, read=_read)
"""The files of forms, the project's and those of plugin folders."""


def forms_of(rule: str, reply: str) -> Mapping[Role, tuple[Form, ...]]:
    """Return the forms that a rule knows and a reply can have, by role.

    Args:
        rule: The rule's name.
        reply: Without a sign of an East Asian script it has no form of those languages alone.

    Raises:
        PluginError: A file of a plugin folder cannot be used.
    """
    is_eastern = not reply.isascii() and _EASTERN_SIGN.search(reply) is not None
    return _by_role(tuple(form for name in _names() for form in FORMS.use(name)), rule, is_eastern)


def added_forms_sha256() -> list[str]:
    """Return the hashes of the files of plugin folders: whatever is graded with them is kept apart."""
    return sorted(file.sha256 for file in FORMS.added if file.sha256)


def _names() -> Iterator[str]:
    yield from _OWN
    yield from (file.name for file in FORMS.added)


@lru_cache(maxsize=64)
def _by_role(forms: tuple[Form, ...], rule: str, is_eastern: bool) -> Mapping[Role, tuple[Form, ...]]:
    known = [form for form in forms if not form.rules or rule.removeprefix("rule:") in form.rules]
    known = [form for form in known if is_eastern or not form.languages or set(form.languages) - _EASTERN]
    return {role: tuple(form for form in known if form.role is role) for role in Role}
