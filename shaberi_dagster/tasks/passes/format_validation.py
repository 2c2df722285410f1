"""Answers whose form is not what was asked for, or broken for any question.

What a question demands stands in a YAML file by the question's sha256; a rule is one of the few kinds below. Rules are
lenient: where the form of an answer leaves it open whether a demand is met, it counts as met.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import yaml
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError, model_validator

from shaberi_dagster.plugins.discovery import load_yaml
from shaberi_dagster.tasks.passes.base import Answer, Finding, Pass, PassConfig
from shaberi_dagster.tasks.passes.unfinished import HEADING, breaks_off
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import sha256_json
from shaberi_dagster.util.models import Frozen

RULES_FILE = Path(__file__).with_name("format_rules.yaml")

RuleKind = Literal["json", "items", "characters", "csv", "contains", "choice", "lines", "paragraphs", "quote"]
GenericKind = Literal["truncated", "unfinished", "unclosed_fence", "debris", "next_turn"]
Kind = RuleKind | GenericKind

_MOST_JSON_STARTS = 40
_MOST_SPANS = 50  # of evidence; all are counted
_PARAGRAPH_LEAST = 40  # characters; shorter ones are headings
_UNFINISHED_LEAST = 200  # characters; a shorter answer may be a phrase
_MOST_LAST_TOKENS = 5  # that are looked through at the end
_LAST_TOKEN_READ = 100  # characters

_FENCE = re.compile(
    r"^[ \t>]*+(?:[-*+][ \t]++|[0-9]{1,3}[.)][ \t]++)?(?P<marks>`{3,}+|~{3,}+)(?P<info>[^\n`]*+)$", re.MULTILINE
)
_WHITESPACE = re.compile(r"\s++")
_JSON_START = re.compile(r"[\[{]")
_JSON_LINE = re.compile(r"^[\[{]", re.MULTILINE)
_MARKUP = re.compile(r"[*_`#>\s「【\[]*+")
_QUOTED = re.compile(r"「([^「」]{4,})」")
_NUMBERED = re.compile(
    r"^(?P<indent>[ \t　]*+)(?:#{1,6}[ \t]*+|[-*+・][ \t]++)?(?:\*\*|__)?[^\w\s*_(（【\[]{0,3}+[ \t]*+[(（【\[]?"
    r"(?:第|その)?(?P<word>[^\W\d_]{0,12}?)[ 　]?(?P<number>[0-9０-９]{1,2}|[①-⑳])"
    r"(?:(?<=[①-⑳])|[.)．）:：、】\]]|つ目|\ufe0f?\u20e3|[ 　](?=[^\W\d_「『*]))"
)
_BULLET = re.compile(r"^(?P<indent>[ \t　]*+)(?:[-*+•‣–—][ \t]++|[・●○■□◆◇▼▶★☆✅✔][ \t　]*+)\S")
_BOLD_LINE = re.compile(r"^[ \t]*+\*\*[^*\n]++\*\*[：:]?[ \t]*+$")

_TOKENS = re.compile(
    r"<\|[A-Za-z_]{2,30}\|>|\[/?INST\]|<</?SYS>>|</?(?:start|end)_of_turn>|<(?:bos|eos|pad|unk)>"
    r"|</?(?:think|thinking|reasoning)>|^<s>|<s>\Z|</s>(?=\s*+(?:\Z|<|\n))"
    r"|^[ \t]*+#{2,3}[ \t]*+(?:Assistant|Human|User|Instruction|Response|Input|指示|応答|入力)[ \t]*+[:：]",
    re.MULTILINE,
)
_ROLE_LINE = re.compile(
    r"^[ \t]*+(?:\*\*)?(?:(?:User|USER|Human|Assistant|ASSISTANT)[ \t]*+[:：]|(?:user|assistant|system|model)[ \t]*+$)",
    re.MULTILINE,
)
_LAST_TOKEN = re.compile(rf"(?:{_TOKENS.pattern})\Z", re.MULTILINE)

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class _Counted(Frozen):
    """A demand on a number of things, with at least one bound.

    Attributes:
        exactly: As many, neither more nor less.
        at_least: Not fewer.
        at_most: Not more.
    """

    exactly: int | None = Field(default=None, ge=0)
    at_least: int | None = Field(default=None, ge=0)
    at_most: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _has_a_bound(self) -> "_Counted":
        bounds = (self.exactly, self.at_least, self.at_most)
        if all(bound is None for bound in bounds) or (self.exactly is not None and bounds[1:] != (None, None)):
            raise ValueError("needs exactly, or at_least and/or at_most")
        return self

    def allows(self, count: int) -> bool:
        """Return whether so many are allowed."""
        if self.exactly is not None:
            return count == self.exactly
        return (self.at_least or 0) <= count and (self.at_most is None or count <= self.at_most)


class JsonRule(Frozen):
    """JSON, alone or in a fence or between other text.

    Attributes:
        type: What its value is; None takes anything but a lone string or number.
        length: How many elements it has.
        keys: Keys that must occur in it, at any depth.
        whole: Whether nothing else may stand around it (a fence may).
    """

    kind: Literal["json"]
    type: Literal["array", "object"] | None = None
    length: int | None = Field(default=None, ge=0)
    keys: tuple[str, ...] = ()
    whole: bool = False

    def __call__(self, text: str, _question: str, /) -> bool:
        """Return whether one of its values is of that kind and all keys are there."""
        values = [value for value in _json_values(text, whole=self.whole) if self._fits(value)]
        missing = set(self.keys)
        for value in values:
            missing -= _keys_of(value)
        return bool(values) and not missing

    def _fits(self, value: Any) -> bool:
        if not isinstance(value, (list, dict)) or (self.length is not None and len(value) != self.length):
            return False
        return self.type is None or isinstance(value, list) == (self.type == "array")


class ItemsRule(_Counted):
    """So many things in a list. Met where the answer has no list to count, or one of its lists has as many."""

    kind: Literal["items"]

    def __call__(self, text: str, _question: str, /) -> bool:
        """Return whether one of its lists has as many."""
        counts = _list_lengths(text)
        return not counts or any(self.allows(count) for count in counts)


class CharactersRule(_Counted):
    """A length in characters (code points other than whitespace).

    Attributes:
        tolerance: The share by which a bound may be missed.
    """

    kind: Literal["characters"]
    tolerance: float = Field(default=0.0, ge=0)

    def __call__(self, text: str, _question: str, /) -> bool:
        """Return whether it is as long."""
        count = len(_WHITESPACE.sub("", text))
        low, high = self.exactly or self.at_least or 0, self.exactly or self.at_most
        return low * (1 - self.tolerance) <= count and (high is None or count <= high * (1 + self.tolerance))


class CsvRule(_Counted):
    """Rows of separated values; the bounds are on the rows, a header included.

    Attributes:
        columns: Fewest values a row must have.
        separators: What may stand between values; one of them is used throughout.
    """

    kind: Literal["csv"]
    columns: int = Field(default=2, ge=2)
    separators: tuple[str, ...] = (",", "\t", ";")

    def __call__(self, text: str, _question: str, /) -> bool:
        """Return whether it has as many rows."""
        rows = (
            sum(self.columns - 1 <= line.count(separator) and "。" not in line for line in text.split("\n"))
            for separator in self.separators
        )
        return any(self.allows(count) for count in rows)


class ContainsRule(Frozen):
    """Words or signs that must be in the text, in any case.

    Attributes:
        all: All of them.
        any: One of them.
    """

    kind: Literal["contains"]
    all: tuple[str, ...] = ()
    any: tuple[str, ...] = ()

    def __call__(self, text: str, _question: str, /) -> bool:
        """Return whether they are in it."""
        folded = text.casefold()
        has_all = not [word for word in self.all if word.casefold() not in folded]
        return has_all and (not self.any or bool([word for word in self.any if word.casefold() in folded]))


class ChoiceRule(Frozen):
    """A demand that one of the given choices is named.

    Attributes:
        options: How a choice can be named.
    """

    kind: Literal["choice"]
    options: tuple[str, ...] = Field(min_length=1)

    def __call__(self, text: str, _question: str, /) -> bool:
        """Return whether one is in it."""
        return any(option in text for option in self.options)


class LinesRule(_Counted):
    """So many lines with something on them.

    Attributes:
        starting_with: Count only those that start so, markup aside.
    """

    kind: Literal["lines"]
    starting_with: tuple[str, ...] = ()

    def __call__(self, text: str, _question: str, /) -> bool:
        """Return whether it has as many lines."""
        lines = [_MARKUP.sub("", line, count=1) for line in text.split("\n") if line.strip()]
        return self.allows(sum(line.startswith(self.starting_with or "") for line in lines))


class ParagraphsRule(_Counted):
    """So many paragraphs; headings do not count."""

    kind: Literal["paragraphs"]

    def __call__(self, text: str, _question: str, /) -> bool:
        """Return whether it has as many paragraphs."""
        blocks = re.split(r"\n[ \t　]*\n", text)
        return self.allows(sum(len(block.strip()) >= _PARAGRAPH_LEAST for block in blocks))


class QuoteRule(Frozen):
    """A quotation: the question's last text in corner brackets must be in the answer."""

    kind: Literal["quote"]

    def __call__(self, text: str, question: str, /) -> bool:
        """Return whether the quotation is in it."""
        quoted = _QUOTED.findall(question)
        return not quoted or quoted[-1].rstrip("。") in text


Rule = Annotated[
    JsonRule
    | ItemsRule
    | CharactersRule
    | CsvRule
    | ContainsRule
    | ChoiceRule
    | LinesRule
    | ParagraphsRule
    | QuoteRule,
    Field(discriminator="kind"),
]
"""A demand that a text, given with its question, meets or not, as far as that shows."""


Rules = dict[Sha256, tuple[Rule, ...]]
"""The rules of all questions, by sha256 of the question's text."""
_RULES = TypeAdapter(Rules)


@cache
def read_rules(path: Path) -> Rules:
    """The rules of a YAML file: for each question a list of mappings with `kind` and what the kind needs.

    Raises:
        ConfigurationError: It cannot be read, or one of its rules is not valid.
    """
    try:
        content = load_yaml(path.read_bytes()) or {}
    except OSError as error:
        raise ConfigurationError(f"format rules {path}: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        raise ConfigurationError(f"format rules {path}: is not YAML: {' '.join(str(error).split())}") from error
    try:
        return _RULES.validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "top level"
        raise ConfigurationError(f"format rules {path}: {place}: {first['msg']}") from error


Span = tuple[int, int, Kind]

_DEFAULT_SEVERITIES: Mapping[Kind, float] = {
    "json": 0.3,
    "items": 0.2,
    "characters": 0.2,
    "csv": 0.2,
    "contains": 0.2,
    "choice": 0.2,
    "lines": 0.1,
    "paragraphs": 0.1,
    "quote": 0.1,
    "truncated": 0.2,
    "unfinished": 0.1,
    "unclosed_fence": 0.05,
    "debris": 0.05,
    "next_turn": 0.1,
}


class FormatValidationConfig(PassConfig):
    """Settings of the pass.

    Attributes:
        severities: Severity by kind of violation, over the defaults; 0 shows it and takes nothing.
        most: Highest severity of all violations together.
        rules_file: Another file of rules; None is the one in the package. What counts is what it says, not where it is.
    """

    severities: dict[Kind, Annotated[float, Field(ge=0, le=1)]] = Field(default_factory=dict)
    most: float = Field(default=0.5, ge=0, le=1)
    rules_file: Path | None = None


class FormatValidation(Pass[FormatValidationConfig]):
    """Checks the form of answers.

    Raises:
        ConfigurationError: The file of rules is not one.
    """

    name: ClassVar[str] = "format_validation"
    version: ClassVar[str] = "2"
    config_class: ClassVar[type[PassConfig]] = FormatValidationConfig

    def __init__(self, config: FormatValidationConfig) -> None:
        super().__init__(config)
        self._rules = read_rules(config.rules_file or RULES_FILE)
        self._severities = {**_DEFAULT_SEVERITIES, **config.severities}

    @property
    def config_hash(self) -> str:
        """Identity of the pass: settings and the rules' content."""
        settings = self.config.model_dump(mode="json", exclude={"rules_file"})
        rules = sha256_json(_RULES.dump_python(self._rules, mode="json"))
        return sha256_json({"name": self.name, "config": settings, "rules": rules})

    def examine(self, answer: Answer) -> Finding:
        """Violations of the question's rules and of the generic ones.

        Returns:
            Details: `violations` (count by kind) and `spans` of what can be pointed at. `unfinished` is a guess for
            answers of which it is not known whether they were cut.
        """
        text = answer.text
        if not text.strip():
            return Finding()
        rules = self._rules.get(answer.question_id, ())
        broken: list[Kind] = [rule.kind for rule in rules if not rule(text, answer.question)]
        # A closing line without an opening one looks the same.
        spans = _debris(text, answer.question)
        spans += [(start, inside, "unclosed_fence") for start, inside, end, after in _fences(text) if end == after]
        if answer.truncated:
            broken.append("truncated")
        elif answer.truncated is None:
            spans += _unfinished(text)
        found = Counter([*broken, *(kind for _, _, kind in spans)])
        severity = min(self.config.most, sum(self._severities[kind] for kind in found))
        details: dict[str, Any] = {
            "violations": dict(found),
            "spans": [list(span) for span in sorted(spans)[:_MOST_SPANS]],
        }
        reason = "the form is wrong: " + ", ".join(sorted(found)) if found else ""
        return Finding(round(severity, 4), reason, details)


def _fences(text: str) -> Iterator[tuple[int, int, int, int]]:
    """Fenced code: where its opening line, its content, the end of that and of the closing line are.

    A fence that is not closed continues to the end, and its last two numbers are both the length of the text.
    """
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opening is None:
            opening = fence
        elif fence["marks"].startswith(opening["marks"]) and not _TOKENS.sub("", fence["info"]).strip():
            yield opening.start(), opening.end(), fence.start(), fence.end()
            opening = None
    if opening is not None:
        yield opening.start(), opening.end(), len(text), len(text)


def _outside_fences(text: str) -> str:
    """The text with fenced code blanked, so that places stay the same."""
    parts, reached = [], 0
    for start, _, _, end in _fences(text):
        parts += [text[reached:start], re.sub(r"[^\n]", " ", text[start:end])]
        reached = end
    return "".join([*parts, text[reached:]])


def _debris(text: str, question: str) -> list[Span]:
    """Tokens of chat templates, and turns of a conversation that no one asked for."""
    spans: list[Span] = [
        (*token.span(), "debris") for token in _TOKENS.finditer(text) if token[0].strip() not in question
    ]
    spans += [
        (*role.span(), "next_turn")
        for role in _ROLE_LINE.finditer(_outside_fences(text))
        if role[0].strip(" \t*") not in question
    ]
    return spans


def _unfinished(text: str) -> list[Span]:
    """The last line, if it breaks off; only what can hardly be an end. An open fence says that already."""
    body = _without_last_tokens(text)
    start = body.rfind("\n") + 1
    last = body[start:]
    outside = _outside_fences(body)[start:]
    is_row = last.lstrip().startswith("|") and last.count("|") > 1
    if len(body) < _UNFINISHED_LEAST or outside != last or is_row:
        return []
    return [(start, len(body), "unfinished")] if breaks_off(last, body) else []


def _without_last_tokens(text: str) -> str:
    """Without blanks and tokens of chat templates at the end."""
    body = text.rstrip()
    for _ in range(_MOST_LAST_TOKENS):
        token = _LAST_TOKEN.search(body[-_LAST_TOKEN_READ:])
        if token is None:
            break
        body = body[: len(body) - len(token[0])].rstrip()
    return body


def _json_values(text: str, *, whole: bool) -> Iterator[Any]:
    """The JSON values of a text: of its fences, else of anything that begins like one."""
    fenced = [text[content:end] for _, content, end, _ in _fences(text)]
    if whole:
        candidates = [text]
        if len(fenced) == 1 and not _outside_fences(text).strip():
            candidates = fenced
        yield from (value for candidate in candidates for value in _loaded(candidate))
        return
    yield from (value for candidate in fenced for value in (_loaded(candidate) or _embedded(candidate)))
    yield from _embedded(_outside_fences(text))


def _loaded(text: str) -> list[Any]:
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):  # ValueError is also what a number of too many digits gives
        return []


def _embedded(text: str) -> Iterator[Any]:
    """Values between other text, but not the parts of one that is broken.

    After something that is no value, the next is looked for at the beginning of a line. Only so many are tried, since
    each may read to the end.
    """
    decoder, position, pattern = json.JSONDecoder(), 0, _JSON_START
    for _ in range(_MOST_JSON_STARTS):
        start = pattern.search(text, position)
        if start is None:
            return
        try:
            value, position = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            position, pattern = start.end(), _JSON_LINE
        else:
            pattern = _JSON_START
            yield value


def _keys_of(value: Any) -> set[str]:
    """Keys of all objects in a JSON value."""
    found: set[str] = set()
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, dict):
            found.update(current)
            waiting += current.values()
        elif isinstance(current, list):
            waiting += current
    return found


def _list_lengths(text: str) -> set[int]:
    """Lengths of all lists of any kind, and of tables; a list of one does not count."""
    lines = _outside_fences(text).split("\n")
    return (_numbered_lengths(lines) | _bulleted_lengths(lines) | _table_lengths(lines)) - {0, 1}


def _numbered_lengths(lines: list[str]) -> set[int]:
    """By indentation and word before the number (as in `Step 1`), the numbers that go up from 1."""
    reached: dict[tuple[int, str], int] = {}
    lengths: Counter[tuple[int, str, int]] = Counter()
    lists: Counter[tuple[int, str]] = Counter()
    for line in lines:
        item = _NUMBERED.match(line)
        if item is None:
            continue
        number = int(unicodedata.normalize("NFKC", item["number"]))
        key = (len(item["indent"]), item["word"])
        if number == 1:
            lists[key] += 1
        elif number != reached.get(key, 0) + 1:
            continue
        reached[key] = number
        lengths[*key, lists[key]] = number
    return set(lengths.values())


def _bulleted_lengths(lines: list[str]) -> set[int]:
    """Headings or bold lines of one kind, and bullets of one indentation: between headings, and between other text."""
    lengths: set[int] = set()
    heads: Counter[str] = Counter()
    section: Counter[int] = Counter()
    run: Counter[int] = Counter()
    for line in lines:
        heading = HEADING.match(line)
        if heading or _BOLD_LINE.match(line):
            heads[heading["marks"] if heading else "**"] += 1
            lengths.update(section.values(), run.values())
            section.clear()
            run.clear()
        elif bullet := _BULLET.match(line):
            section[len(bullet["indent"])] += 1
            run[len(bullet["indent"])] += 1
        elif line and not line[0].isspace():
            lengths.update(run.values())
            run.clear()
    return lengths.union(section.values(), run.values(), heads.values())


def _table_lengths(lines: list[str]) -> set[int]:
    """Rows of tables below their rule."""
    lengths: set[int] = set()
    rows = 0
    in_body = False
    for line in (*lines, ""):
        if not line.lstrip().startswith("|"):
            lengths.add(rows)
            rows, in_body = 0, False
        elif in_body:
            rows += 1
        else:
            in_body = not line.strip("|:- \t")
    return lengths
