"""The grammar of commitments: does a reply commit to one answer, and is all of that commitment understood?

A reply is read in the order in which a careful person reads it. What it goes on to invent (other questions) is cut off.
Each box, tag and marker (`Answer:`, `答えは`) announces a passage; the passage has to be used up by an answer and what
may follow one (a unit, politeness, `because …`), else it announces nothing that is understood. The last announcement
counts, if no other one differs from it, or words between them take the other back. Where nothing is announced, the
last statement counts if it is nothing but an answer, or repeats the question's words with the answer in it.
Everything else is an abstention.

What announces, follows, takes back and so on are named forms (`forms/*.yaml`); what an answer looks like is the rule's
own (`AnswerKind`).
"""

import json
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from shaberi_dagster.grading.base import GradedQuestion, Grader, Verdict
from shaberi_dagster.grading.forms import Form, Role, forms_of
from shaberi_dagster.grading.text import Reply, readable
from shaberi_dagster.grading.words import repeats

_REASONS = {True: "equals the reference", False: "differs from the reference", None: "cannot be compared"}
_LONGEST_ANSWER = 600
_MOST_ENDS = 60
_MOST_BOXES = 20
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_JOINED_BOXES = re.compile(r"(?:[\s$,.;]|and|or|\\quad|\\text\{(?: and | or )\}|[a-z]\s*=)*")
_FILLING = " \t\n*_:：$\"'“”「」『』`"
_AROUND = _FILLING.replace("$", "") + ",，、…"
_STARTS = re.compile(r"(?<=[.!?;。！？])\s+|(?<=[。！？])|\n")
_COMMAS = re.compile(r"(?<=[,:;、，：])\s*|\s+[—–-]\s+")
_SENTENCE = re.compile(r"(?<=[.!?])(?<!\\!)[\"')*]*\s+(?=[^\W\da-z]|[\"'(*$\\\d])|(?<=[。！？])")
_LIST_MARK = re.compile(r"^\s*(?:[-*](?=\s)|[•・·✅➡️🎯✔️→⇒∴]+|\(?\d{1,2}[.)](?=\s))\s*")
_RESULT = re.compile("[=＝]")
_LINE = re.compile(r"^.*$", re.MULTILINE)
_NUMBERING = re.compile(r"\s*\(?\d{1,2}[.)]\s*")
_PLURAL = re.compile(r"(?:solutions|answers|roots|values) (?:are|is)?\W*$", re.IGNORECASE)
_LIST_ITEM = re.compile(r"^[ \t]*(?:[-*•・]|\(?\d{1,2}[.)])\s", re.MULTILINE)
_OPTION_ITEM = re.compile(
    r"^[ \t]*(?:[-*•・✕✗×◯○❌✅] ?)?[(（]?[A-M](?:[.):：）、]|\s(?=.*[×✕✗❌○◯⭕✓✅]))", re.MULTILINE
)
_MATHS = re.compile(r"\$\$.+?\$\$|\\\[.+?\\\]|\\\(.+?\\\)|(?<!\\)\$(?:\\\$|[^$\n])+?(?<!\\)\$(?!\d)")
_AFTER_A_MARKER = (Role.FOLLOWS, Role.EXPLAINS)
_CUT_OFF = re.compile(
    r"(?:[,、=+(:：は]|\b(?:so|and|or|but|the|an?|is|are|was|were|has|have|of|to|from|with|by|because|since|which|that"
    r"|then|either|what|for|in|as|must|go|therefore|thus|hence|we|und|der|die|et|le|la|el|de|que|y)|[がをのに]|って|ると)\s*$"
)
_BOLD = re.compile(r"\*\*([^*\n]+?)[.:]?\*\*")
_BOUNDS = re.compile(r"\b(?:than|least|most|between|over|under|not|almost|up to|nearly|or|約)\s*\$?$", re.IGNORECASE)
_SPARE_WORDS = 2
_BRACKETED = re.compile(r"\s*[(（].*(?:[^\W\d_]{2}|[一-鿿]).*[)）][\s.。]*$")
_ENDED = re.compile(r"[.!?。！？…)\]）」』】\"'”*$}✓✅☑️%]\s*$|[^\w\s,、，:：;=+(-]\s*$")
_HAS_WORDS = re.compile(r"[^\W\d_]{2,}\W+[^\W\d_]{2,}|[぀-ヿ一-鿿]{3}")


@dataclass(frozen=True)
class Commitment:
    """The answer that a reply commits to, or announces without being understood.

    Attributes:
        said: The answer as the reply says it; None if it was announced, but is not understood.
        form: The name of the form that licensed it.
        span: Where it stands in the reply.
    """

    said: str | None
    form: str
    span: tuple[int, int]


class AnswerKind(Grader):
    """A rule that reads commitments; what an answer looks like is what its subclasses say.

    Attributes:
        reads_last_lines: Whether a last line or item of a list may be the answer by itself.
    """

    reads_last_lines: ClassVar[bool] = True

    @abstractmethod
    def read(self, passage: str, item: GradedQuestion) -> str | None:
        """The answer that a passage is, which has nothing else in it; None if it has, or is none."""

    @abstractmethod
    def mentions(self, passage: str, item: GradedQuestion) -> bool:
        """Whether a passage has anything in it that could be an answer."""

    def restated(self, sentence: str, item: GradedQuestion) -> str | None:  # noqa: ARG002
        """The answer that a sentence gives in the words of the question; None if it says anything else."""
        return None

    def is_final(self, said: str, item: GradedQuestion) -> bool:  # noqa: ARG002
        """Whether what nothing announces can be an answer, not a step towards one."""
        return True

    def is_asked(self, sentence: str, item: GradedQuestion, place: str) -> bool:  # noqa: ARG002
        """Whether an equation is one of what is asked for; the place is `whole_reply`, `last_line` or `concludes`."""
        return True

    def is_new(self, said: str, item: GradedQuestion) -> bool:  # noqa: ARG002
        """Whether an answer is none of the things that the question gives."""
        return True

    def repeated(self, said: str, rest: str, item: GradedQuestion) -> bool:  # noqa: ARG002
        """Whether the text below an answer ends with the same answer."""
        return False

    def extract(self, answer: str, item: GradedQuestion) -> str | None:
        """The answer that a reply commits to; None if it commits to none that is understood."""
        found = self.find(answer, item)
        return None if found is None else found.said

    def find(self, answer: str, item: GradedQuestion) -> Commitment | None:
        """The commitment of a reply with its form; None if there is none."""
        return _Reading(self, answer, item).commitment()

    def grade(self, answer: str, item: GradedQuestion) -> Verdict:
        """Right, wrong or an abstention, with the form that licensed it and its span in the reply."""
        found = self.find(answer, item)
        if found is None or found.said is None:
            return Verdict(None, None, "no commitment to an answer that is understood")
        correct = self.correct(found.said, item)
        return Verdict(correct, found.said, _REASONS[correct], found.form, found.span)

    def correct(self, said: str, item: GradedQuestion) -> bool | None:
        """Whether an answer is the reference; None if that takes a reader."""
        return self.same(said, item.reference)


class _Reading:
    """One reply while it is read; places are those of its text without boxes."""

    def __init__(self, kind: AnswerKind, answer: str, item: GradedQuestion) -> None:
        self._kind, self._item, self._forms = kind, item, forms_of(kind.name)
        self._bold = [found.span(1) for found in _BOLD.finditer(answer)]
        self._boxed = self._without_inventions(readable(answer))
        boxes = _boxes(self._boxed.text)
        self._reply = self._boxed.keep(_unboxed(boxes, len(self._boxed.text))) if boxes else self._boxed
        self._text = self._reply.text

    def commitment(self) -> Commitment | None:
        """What the reply commits to."""
        announced = _innermost((*self._in_boxes(), *self._announcements()))
        taken_back = self._taken_back()
        if not announced:
            return self._last_statement(max(taken_back, default=0))
        last = announced[-1]
        if later := [place for place in taken_back if place > last.end]:
            return self._last_statement(max(later))
        if last.said is None or self._doubted_after(last.end):
            return None
        before = max((place for place in taken_back if place <= last.start), default=-1)
        in_force = [found.said for found in announced if found.said is not None and found.start >= before]
        return self._stored(last) if all(self._kind.same(said, last.said) for said in in_force) else None

    def _stored(self, found: "_Found") -> Commitment:
        return Commitment(found.said, found.form, self._reply.span(found.start, found.end))

    def _without_inventions(self, reply: Reply) -> Reply:
        """The reply up to the next question, which models go on to invent."""
        for form in self._forms[Role.CUT]:
            for found in form.compiled.finditer(reply.text):
                if reply.text[: found.start()].strip(_FILLING + "#->"):
                    reply = reply.keep([(0, found.start())])
                    break
        return reply

    # What is announced -----------------------------------------------------------------------------------------------

    def _in_boxes(self) -> Iterator["_Found"]:
        """The boxes; several that one sentence joins are one list."""
        text, boxes = self._boxed.text, _boxes(self._boxed.text)
        while boxes:
            start, end, contents = boxes[0][0], boxes[0][1], [boxes.pop(0)[2].strip()]
            while boxes and _JOINED_BOXES.fullmatch(text[end : boxes[0][0]]):
                end = boxes[0][1]
                contents.append(boxes.pop(0)[2].strip())
            if contents[-1] and not self._blocked(text[_sentence_start(text, start) : _sentence_end(text, end)]):
                places = (self._reply.index(place) for place in self._boxed.span(start, end))
                yield _Found(self._used_up(", ".join(dict.fromkeys(contents)))[0], "box", *places)

    def _announcements(self) -> Iterator["_Found"]:
        text = self._text
        for form, found in self._matches(Role.WHOLE):
            yield _Found(self._used_up(_unquoted(found["said"]))[0], form.name, *found.span())
        for form, found in self._matches(Role.MARKER):
            first = _sentence_start(text, found.end())
            if self._is(Role.BLOCKS, text[first : found.end()]):
                continue
            start, end = self._following(found.end())
            said, length = self._used_up(text[start:end])
            if said is not None or self._kind.mentions(text[start:end], self._item):
                yield _Found(said, form.name, max(first, found.start()), start + length)
        for form, found in self._matches(Role.REVERSED):
            start = _sentence_start(text, found.start())
            rest = text[found.end() : _line_end(text, found.end())]
            if self._blocked(text[start : found.end()]) or not self._may_follow(rest, _AFTER_A_MARKER):
                continue
            for place in (start, *(start + comma.end() for comma in _COMMAS.finditer(text[start : found.start()]))):
                if (said := self._read(text[place : found.start()])) is not None:
                    yield _Found(said, form.name, place, found.end())
                    break

    def _following(self, start: int) -> tuple[int, int]:
        """The passage after a marker: the rest of its line, or the next line where nothing is left of it."""
        end = _line_end(self._text, start)
        several = _PLURAL.search(self._text, max(start - 40, 0), end)
        while not self._text[start:end].strip(_FILLING + "#>-=*") and end < len(self._text):
            start, end = end + 1, _line_end(self._text, end + 1)
        if several and start > several.end() - 1:
            end = next((found.start() for found in re.compile(r"\n\s*\n").finditer(self._text, end)), len(self._text))
        return start, end

    # What is stated at the end ---------------------------------------------------------------------------------------

    def _last_statement(self, beginning: int) -> Commitment | None:
        """What the reply ends with saying, after a place, where nothing is announced."""
        sentences = list(self._sentences(beginning))
        if not sentences:
            return None
        found = self._last_line(beginning) or (self._first_sentence(sentences) if len(sentences) > 1 else None)
        for start, end in reversed(sentences if found is None else []):
            sentence = self._text[start:end]
            if end == sentences[-1][1] and _HAS_WORDS.search(sentence) and _CUT_OFF.search(sentence):
                break
            if self._is(Role.ASIDE, sentence) or (
                _BRACKETED.match(sentence) and start and self._text[start - 1] != "\n"
            ):
                continue
            if self._kind.mentions(sentence, self._item):
                found = self._stated(start, end, alone="whole_reply" if len(sentences) == 1 else "last_line")
                break
            if _HAS_WORDS.search(sentence) and not _ENDED.search(sentence):
                break  # it breaks off
        # An answer that repeats the question may be one of several that depend on something; others are said outright.
        place = beginning if found and found.form in ("restated", "emphasised") else (found.end if found else 0)
        return None if found is None or self._doubted_after(place) else self._stored(found)

    def _last_line(self, beginning: int) -> "_Found | None":
        """The option that the last line quotes with its letter, whatever the option says."""
        start, end = self._text.rstrip().rfind("\n") + 1, len(self._text.rstrip())
        quoted = _OPTION_ITEM.match(self._text, start) and not self._is_one_of(_OPTION_ITEM, start)
        said = self._alone(self._text[start:end]) if quoted and start >= beginning else None
        return None if said is None else _Found(said, "last_line", start, end)

    def _stated(self, start: int, end: int, alone: str) -> "_Found | None":
        sentence = self._text[start:end]
        if self._blocked(sentence) or sentence.rstrip(" *_\"')").endswith(("?", "？")):
            return None
        is_item = self._is_one_of(_LIST_ITEM, start)
        last = alone != "whole_reply"
        if self._is_one_of(_OPTION_ITEM, start) or (is_item and not self._kind.reads_last_lines):
            return None
        if not is_item and (said := self._alone(sentence, alone)) is not None:
            allowed = not last or (self._kind.reads_last_lines and self._kind.is_new(said, self._item))
            return _Found(said, alone, start, end) if allowed else None
        for form in self._forms[Role.CONCLUDES]:
            for found in reversed(list(form.compiled.finditer(sentence))):
                said, length = self._used_up(sentence[found.end() :], _AFTER_A_MARKER)
                asked = self._kind.is_asked(sentence[found.end() :], self._item, "concludes")
                if said is not None and asked and self._kind.is_final(said, self._item):
                    return _Found(said, form.name, start + found.start(), start + found.end() + length)
        if emphasised := self._emphasised(start, end):
            return emphasised
        said, _ = self._used_up(_LIST_MARK.sub("", sentence), (Role.FOLLOWS,), only_restated=True)
        said = said or self._kind.restated(_LIST_MARK.sub("", sentence), self._item)
        return (
            None if said is None or not self._kind.is_final(said, self._item) else _Found(said, "restated", start, end)
        )

    def _emphasised(self, start: int, end: int) -> "_Found | None":
        """The one thing in bold in a sentence that is the last paragraph, above which something else stands."""
        if not self._is_last_paragraph(start, end):
            return None
        bold = [(self._reply.index(first), self._reply.index(last)) for first, last in self._bold]
        bold = [place for place in bold if start <= place[0] < place[1] <= end]
        if len(bold) != 1 or bold[0] == (start, end):
            return None
        first, last = bold[0]
        said = self._read(self._text[first:last])
        rest = f"{self._text[start:first]} {self._text[last:end]}"
        if said is None or not self._kind.is_final(said, self._item) or not self._may_surround(rest, first - start):
            return None
        return _Found(said, "emphasised", first, last)

    def _may_surround(self, rest: str, place: int) -> bool:
        """Whether the rest of a sentence repeats the question, and bounds nothing where the answer stood."""
        return not _BOUNDS.search(rest[:place]) and repeats(rest, self._item.text, _SPARE_WORDS)

    def _is_last_paragraph(self, start: int, end: int) -> bool:
        """Whether a sentence is a paragraph of its own, at the end of a longer reply."""
        before, after = self._text[:start], self._text[end:]
        return bool(before.strip()) and before.endswith("\n\n") and (not after.strip() or after.startswith("\n"))

    def _first_sentence(self, sentences: list[tuple[int, int]]) -> "_Found | None":
        """The answer that the first sentence is, above an explanation that ends with the same, or names no other."""
        start, end = sentences[0]
        first, rest = self._text[start:end], self._text[end:].strip()
        if self._is_listed(start) or self._blocked(first) or first.rstrip().endswith(("?", "？")):
            return None
        said = None if _RESULT.search(first) else self._alone(first)
        if said is None:
            return None
        explained = any(form.compiled.match(rest.lstrip(_FILLING)) for form in self._forms[Role.ASIDE])
        explained = explained or (self._text[end : end + 1] != "\n" and self._kind.is_new(said, self._item))
        if explained or not self._kind.mentions(rest, self._item) or self._kind.repeated(said, rest, self._item):
            return _Found(said, "first_line", start, end)
        return None

    def _alone(self, sentence: str, place: str = "last_line") -> str | None:
        said = (
            self._used_up(_LIST_MARK.sub("", sentence), (Role.FOLLOWS,))[0]
            if len(sentence) <= _LONGEST_ANSWER
            else None
        )
        final = (
            said is not None
            and self._kind.is_final(said, self._item)
            and self._kind.is_asked(sentence, self._item, place)
        )
        return said if final else None

    def _is_listed(self, start: int) -> bool:
        """Whether a line is one of several items: of a list, or of the options."""
        return self._is_one_of(_LIST_ITEM, start) or self._is_one_of(_OPTION_ITEM, start)

    def _is_one_of(self, item: re.Pattern[str], start: int) -> bool:
        start = self._text.rfind("\n", 0, start) + 1
        return bool(item.match(self._text, start)) and len(item.findall(self._text)) > 1

    def _sentences(self, beginning: int) -> Iterator[tuple[int, int]]:
        """The sentences after a place, without those of an aside, like a check, and of the paragraph that it opens."""
        aside = ""
        for line in _LINE.finditer(self._text):
            words = line[0].strip(_FILLING + "#-=>|")
            if not words or line.end() <= beginning:
                aside = aside if aside == "section" else ""
                continue
            opening = next(filter(None, (form.compiled.match(words) for form in self._forms[Role.ASIDE])), None)
            if opening:
                aside = "paragraph" if words[opening.end() :].strip(_FILLING) else "section"
            elif aside and any(form.compiled.match(words) for form in self._forms[Role.CONCLUDES]):
                aside = ""
            if not aside:
                first = max(line.start(), beginning)
                places = [
                    first,
                    *(found.end() for found in _SENTENCE.finditer(self._text, first, line.end())),
                    line.end(),
                ]
                for start, end in pairwise(places):
                    if (end == line.end() or not _NUMBERING.fullmatch(self._text, start, end)) and self._text[
                        start:end
                    ].strip(_FILLING + "."):
                        yield start, end
                        if start > first and self._is(Role.ASIDE, self._text[start:end]):
                            break  # what follows in the line belongs to the aside

    # What the grammar consists of ------------------------------------------------------------------------------------

    def _used_up(
        self, passage: str, roles: tuple[Role, ...] = _AFTER_A_MARKER, *, only_restated: bool = False
    ) -> tuple[str | None, int]:
        """The answer that uses a passage up, with what may follow one, and where it ends; None if there is more in it.

        Args:
            passage: What is announced, or a sentence.
            roles: Which forms may follow the answer; after a marker it may stand among words of the question.
            only_restated: Whether it has to stand among words of the question.
        """
        ends = {len(passage)} | {
            found.start() for role in roles for form in self._forms[role] for found in form.compiled.finditer(passage)
        }
        maths = [span.span() for span in _MATHS.finditer(passage)]
        for end in sorted(ends, reverse=True)[-_MOST_ENDS:]:
            inside = any(first < end < last for first, last in maths) or passage[:end].endswith("\\")
            if end <= _LONGEST_ANSWER and not inside and self._may_follow(passage[end:], roles):
                said = None if only_restated else self._read(passage[:end])
                if said is None and (only_restated or Role.EXPLAINS in roles) and not self._blocked(passage[:end]):
                    said = self._kind.restated(passage[:end], self._item)
                if said is not None:
                    return said, end
        return None, len(passage)

    def _read(self, passage: str) -> str | None:
        """The answer that a passage is, after words that may stand before one."""
        passage = passage.strip(_AROUND)
        passage = _LIST_MARK.sub("", passage) if passage[:1] in "→∴✅➡" else passage
        for _ in range(4):
            if passage.endswith(("?", "？")):
                return None
            if (said := self._kind.read(passage.rstrip(" .。,、;!！…"), self._item)) is not None:
                return said
            before = next(filter(None, (form.compiled.match(passage) for form in self._forms[Role.BEFORE])), None)
            if before is None or not before[0]:
                return None
            passage = passage[before.end() :].strip(_AROUND)
        return None

    def _may_follow(self, rest: str, roles: tuple[Role, ...], depth: int = 6) -> bool:
        """Whether a text may follow an answer: it is used up by forms that may."""
        rest = rest.lstrip("*_$\"'”」』`").rstrip(" \t*_$\"'”」』`")
        if not rest.strip(" .。!！,、;…✓✅☑️🙂😊👍🎉🍎\\]"):
            return True
        return depth > 0 and any(
            (found := form.compiled.match(rest))
            and found[0]
            and self._may_follow(rest[found.end() :], roles, depth - 1)
            for role in roles
            for form in self._forms[role]
        )

    def _is(self, role: Role, text: str) -> bool:
        return any(form.compiled.search(text) for form in self._forms[role])

    def _blocked(self, sentence: str) -> bool:
        """Whether a sentence only supposes, asks, denies or quotes what it says."""
        return self._is(Role.BLOCKS, sentence) or self._is(Role.DENIES, sentence)

    def _matches(self, role: Role) -> Iterator[tuple[Form, re.Match[str]]]:
        for form in self._forms[role]:
            for found in form.compiled.finditer(self._text):
                yield form, found

    def _taken_back(self) -> list[int]:
        """Where something is taken back that is not confirmed after all."""
        confirmed = [found.start() for _, found in self._matches(Role.CONFIRMS)]
        return [
            found.end()
            for _, found in self._matches(Role.TAKES_BACK)
            if not any(place > found.end() for place in confirmed)
        ]

    def _doubted_after(self, place: int) -> bool:
        return any(found.end() > place for _, found in self._matches(Role.DOUBTS))


@dataclass(frozen=True)
class _Found:
    """A commitment while its places are those of the text that is read."""

    said: str | None
    form: str
    start: int
    end: int


def _innermost(announced: Iterable[_Found]) -> list[_Found]:
    """In their order; one that is not understood is left out if one that is stands in its passage."""
    found = sorted(announced, key=lambda one: (one.end, one.start))
    understood = [one for one in found if one.said is not None]
    return [
        outer
        for outer in found
        if outer.said is not None
        or not any(outer.start <= inner.start and inner.end <= outer.end for inner in understood)
    ]


def _boxes(text: str) -> list[tuple[int, int, str]]:
    r"""Start, end and content of each `\boxed{}`, braces matched; an unclosed box is none."""
    found = []
    for box in list(_BOX.finditer(text))[-_MOST_BOXES:]:
        depth = 1
        for end in range(box.end(), min(len(text), box.end() + 1_000)):
            depth += {"{": 1, "}": -1}.get(text[end], 0) if text[end - 1] != "\\" else 0
            if depth == 0:
                found.append((box.start(), end + 1, text[box.end() : end]))
                break
    return found


def _unboxed(boxes: list[tuple[int, int, str]], length: int) -> list[tuple[int, int]]:
    r"""The parts of a text that are left where `\boxed{` and its brace are taken away."""
    parts, at = [], 0
    for start, end, content in boxes:
        if start >= at:
            parts += [(at, start), (end - 1 - len(content), end - 1)]
            at = end
    return [*parts, (at, length)]


def _unquoted(said: str) -> str:
    """A JSON string's value; any other text as it is."""
    if said.startswith('"'):
        try:
            return str(json.loads(said, strict=False))
        except ValueError:
            return said.strip('"')
    return said


def _sentence_start(text: str, place: int) -> int:
    beginning = max(text.rfind("\n", 0, place) + 1, 0)
    *_, start = (0, *(found.end() for found in _STARTS.finditer(text[beginning:place])))
    return beginning + start


def _sentence_end(text: str, place: int) -> int:
    found = _STARTS.search(text, place)
    return found.start() if found else len(text)


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end
