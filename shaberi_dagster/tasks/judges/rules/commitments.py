"""The grammar of commitments: does a reply commit to one answer, and is all of that commitment understood?

A reply is read in the order in which a careful person reads it. What it invents after that (questions) is cut off.
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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from shaberi_dagster.tasks.judges.rules.base import GradedQuestion, Grader, Verdict
from shaberi_dagster.tasks.judges.rules.forms import Form, Role, forms_of
from shaberi_dagster.tasks.judges.rules.patterns import patterns
from shaberi_dagster.tasks.judges.rules.text import ReadableReply, readable, squeezed
from shaberi_dagster.tasks.judges.rules.words import MOST_SPARE, asked_clause, repeats, stems

_PATTERNS = patterns("commitments")

_REASONS = {True: "equals the reference", False: "differs from the reference", None: "cannot be compared"}
_LONGEST_ANSWER = 600
_MOST_ENDS = 60
_MOST_BOXES = 20
_FILLING = " \t\n*_:：$\"'“”「」『』`"
_AROUND = _FILLING.replace("$", "") + ",，、…"
_AFTER_A_MARKER = (Role.FOLLOWS, Role.EXPLAINS)
_SPARE_WORDS = 2
_SPARE = 3
_MOST_REMARKS = 3
WORKS = ("last_line", "last_equation", "stated")
"""Forms of answers that no word announces or concludes: the end of a work, if it is complete."""
_STATEMENTS = ("restated", "emphasised", "drawn", "computed", "stated", "last_equation")
_CONTEXT = 8
_WORKED = 2
_Restated = Callable[[str, GradedQuestion], str | None]


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
        chooses: Whether an answer is one of several things that are offered.
    """

    reads_last_lines: ClassVar[bool] = True
    chooses: ClassVar[bool] = False

    def prepared(self, reply: ReadableReply, item: GradedQuestion) -> ReadableReply:  # noqa: ARG002
        """Return a reply with its values in the spelling that `read` knows."""
        return reply

    @abstractmethod
    def read(self, passage: str, item: GradedQuestion) -> str | None:
        """Return the answer that a passage is, which has nothing else in it; None otherwise."""

    @abstractmethod
    def mentions(self, passage: str, item: GradedQuestion) -> bool:
        """Return whether a passage has anything in it that could be an answer."""

    def restated(self, sentence: str, item: GradedQuestion) -> str | None:  # noqa: ARG002
        """Return the answer that a sentence gives in the words of the question; None if it says anything else."""
        return None

    def chosen(self, sentence: str, item: GradedQuestion) -> str | None:  # noqa: ARG002
        """Return the answer that a sentence chooses of those offered, wherever it stands."""
        return None

    def is_final(self, said: str, item: GradedQuestion) -> bool:  # noqa: ARG002
        """Return whether what nothing announces can be an answer, not a step towards one."""
        return True

    def is_asked(self, sentence: str, item: GradedQuestion, place: str) -> bool:  # noqa: ARG002
        """Return whether an equation is of what is asked for; places: `whole_reply`, `last_line`, `concludes`."""
        return True

    def is_new(self, said: str, item: GradedQuestion) -> bool:  # noqa: ARG002
        """Return whether an answer is not one of the things that the question gives."""
        return True

    def computed(self, said: str, above: str, item: GradedQuestion) -> bool:  # noqa: ARG002
        """Return whether a result above is the answer."""
        return False

    def is_complete(self, said: str, work: str, item: GradedQuestion) -> bool:  # noqa: ARG002
        """Return whether a work that ends with an answer leaves nothing to do."""
        return True

    def repeated(self, said: str, rest: str, item: GradedQuestion) -> bool:  # noqa: ARG002
        """Return whether the text below an answer ends with the same answer."""
        return False

    def extract(self, answer: str, item: GradedQuestion) -> str | None:
        """Return the answer that a reply commits to; None if it commits to none that is understood."""
        found = self.find(answer, item)
        return None if found is None else found.said

    def find(self, answer: str, item: GradedQuestion) -> Commitment | None:
        """Return the commitment of a reply with its form; None without one."""
        return _Reading(self, answer, item).commitment()

    def grade(self, answer: str, item: GradedQuestion) -> Verdict:
        """Return right, wrong or an abstention, with the form that licensed it and its span in the reply."""
        found = self.find(answer, item)
        if found is None or found.said is None:
            return Verdict(None, None, "no commitment to an answer that is understood")
        correct = self.correct(found.said, item)
        return Verdict(correct, found.said, _REASONS[correct], found.form, found.span)

    def correct(self, said: str, item: GradedQuestion) -> bool | None:
        """Return whether an answer is the reference; None if that takes a reader."""
        return self.same(said, item.reference)


class _Reading:
    """One reply while it is read; places are those of its text without boxes."""

    def __init__(self, kind: AnswerKind, answer: str, item: GradedQuestion) -> None:
        self._kind, self._item, self._forms = kind, item, forms_of(kind.name, answer)
        self._bold = [found.span(1) for found in _PATTERNS.bold.finditer(answer)]
        self._boxed = self._without_inventions(kind.prepared(readable(answer), item))
        boxes = _boxes(self._boxed.text)
        self._reply = self._boxed.keep(_unboxed(boxes, len(self._boxed.text))) if boxes else self._boxed
        self._text = self._reply.text

    def commitment(self) -> Commitment | None:
        """Return what the reply commits to."""
        choices = self._choices() if self._kind.chooses else ()
        announced = _innermost((*self._in_boxes(), *self._announcements(), *choices))
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
        return self._stored(last) if all(self._kind.same(answer, last.said) for answer in in_force) else None

    def _stored(self, found: "_Found") -> Commitment:
        return Commitment(found.said, found.form, self._reply.span(found.start, found.end))

    def _without_inventions(self, reply: ReadableReply) -> ReadableReply:
        """Return the reply up to the next question, which models go on to invent."""
        for form in self._forms[Role.CUT]:
            for found in form.compiled.finditer(reply.text):
                if reply.text[: found.start()].strip(_FILLING + "#->"):
                    reply = reply.keep([(0, found.start())])
                    break
        return reply

    # What is announced -----------------------------------------------------------------------------------------------

    def _in_boxes(self) -> Iterator["_Found"]:
        """Return the boxes; several that one sentence joins are one list."""
        text, boxes = self._boxed.text, _boxes(self._boxed.text)
        while boxes:
            start, end, contents = boxes[0][0], boxes[0][1], [boxes.pop(0)[2].strip()]
            while boxes and _PATTERNS.joined_boxes.fullmatch(text[end : boxes[0][0]]):
                end = boxes[0][1]
                contents.append(boxes.pop(0)[2].strip())
            if contents[-1] and not self._blocked(text[_sentence_start(text, start) : _sentence_end(text, end)]):
                places = (self._reply.index(place) for place in self._boxed.span(start, end))
                yield _Found(self._used_up(", ".join(dict.fromkeys(contents)))[0], "box", *places)

    def _announcements(self) -> Iterator["_Found"]:
        text = self._text
        for form, found in self._matches(Role.WHOLE):
            yield _Found(self._used_up(_unquoted(found["said"]))[0], form.name, *found.span())
        for form, found in (*self._matches(Role.MARKER), *self._matches(Role.HINT)):
            first = _sentence_start(text, found.end())
            if self._is(Role.BLOCKS, text[first : found.end()]):
                continue
            start, end = self._following(found.end())
            said, length = self._used_up(text[start:end])
            asks = text[start:end].rstrip(" *").endswith(("?", "？"))
            if said is None and form.role is Role.MARKER and not (asks or self._blocked(text[start:end])):
                last = not self._kind.mentions(text[end:], self._item)
                stated = self._statement(start, end, spare=MOST_SPARE) if last else None
                said = stated[0] if stated else self._one_in_bold(start, end)
            if said is not None or (form.role is Role.MARKER and self._kind.mentions(text[start:end], self._item)):
                yield _Found(said, form.name, max(first, found.start()), start + length)
        for form, found in self._matches(Role.REVERSED):
            start = _sentence_start(text, found.start())
            rest = text[found.end() : _line_end(text, found.end())]
            if self._blocked(text[start : found.end()]) or not self._may_follow(rest, _AFTER_A_MARKER):
                continue
            for place in (
                start,
                *(start + comma.end() for comma in _PATTERNS.commas.finditer(text[start : found.start()])),
            ):
                if (said := self._read(text[place : found.start()])) is not None:
                    yield _Found(said, form.name, place, found.end())
                    break

    def _choices(self) -> Iterator["_Found"]:
        """Return the sentences that choose one of the things offered."""
        for line in _PATTERNS.line.finditer(self._text):
            for first, end in self._split(*line.span()) if line[0].strip() else ():
                sentence = self._text[first:end].rstrip(" *_\"')")
                marked = _PATTERNS.list_mark.match(sentence)
                start = first + marked.end() if marked else first
                if sentence.endswith(("?", "？")) or self._is_listed(start) or self._is(Role.BLOCKS, sentence):
                    continue
                joins = [found.end() for found in _PATTERNS.clause_starts.finditer(self._text, start, end)]
                for place in (start, *joins):
                    said, length = self._used_up(self._text[place:end], _AFTER_A_MARKER, self._kind.chosen)
                    if said is not None:
                        yield _Found(said, "chosen", place, place + length)
                        break

    def _one_in_bold(self, start: int, end: int) -> str | None:
        """Return the one thing in bold in an announced passage, among words of the question."""
        found = self._emphasised(start, end, announced=True)
        return None if found is None else found.said

    def _following(self, start: int) -> tuple[int, int]:
        """Return the passage after a marker: the rest of its line, or the next line where nothing is left of it."""
        end = _line_end(self._text, start)
        several = _PATTERNS.plural.search(self._text, max(start - 40, 0), end)
        while not self._text[start:end].strip(_FILLING + "#>-=*") and end < len(self._text):
            start, end = end + 1, _line_end(self._text, end + 1)
            if bullet := _PATTERNS.bullet.match(self._text, start):
                start = bullet.end()
                while _PATTERNS.bullet.match(self._text, end + 1):
                    end = _line_end(self._text, end + 1)
        if self._text[start:end].rstrip(" *").endswith((":", "：")):
            while end < len(self._text) and self._text[start:end].rstrip(" *").endswith((":", "：")):
                end = _line_end(self._text, end + 1)
        if several and start > several.end() - 1:
            end = next((found.start() for found in re.compile(r"\n\s*\n").finditer(self._text, end)), len(self._text))
        return start, end

    # What is stated at the end ---------------------------------------------------------------------------------------

    def _last_statement(self, beginning: int) -> Commitment | None:
        """Return what the reply ends with saying, after a place, where nothing is announced."""
        sentences = list(self._sentences(beginning))
        if not sentences:
            return None
        found = self._last_line(beginning) or (
            self._first_sentence(sentences) if len(sentences) > 1 or not self._kind.reads_last_lines else None
        )
        remarks = 0
        for start, end in reversed(sentences if found is None else []):
            sentence = self._text[start:end]
            if end == sentences[-1][1] and _PATTERNS.has_words.search(sentence) and _PATTERNS.cut_off.search(sentence):
                break
            if self._is(Role.ASIDE, sentence) or (
                _PATTERNS.bracketed.match(sentence)
                and start
                and (self._text[start - 1] != "\n" or sentence.count(" ") > _SPARE)
            ):
                continue
            if self._kind.mentions(sentence, self._item):
                found = self._stated(start, end, alone="whole_reply" if len(sentences) == 1 else "last_line")
                remarks += 1
                if (
                    found
                    or remarks > _MOST_REMARKS
                    or not self._is(Role.REMARK, sentence)
                    or _PATTERNS.arithmetic.search(_hidden(sentence))
                ):
                    break
            elif _PATTERNS.has_words.search(sentence) and not _PATTERNS.ended.search(sentence):
                break  # it breaks off
        if found and found.form != "first_line" and self._goes_on(found):
            found = None
        # An answer that repeats the question may be one of several that depend on something; others are said outright.
        place = beginning if found and found.form in _STATEMENTS else (found.end if found else 0)
        return None if found is None or self._doubted_after(place, Role.DOUBTS, Role.UNCLEAR) else self._stored(found)

    def _goes_on(self, found: "_Found") -> bool:
        """Return whether the reply ends with a heading, or a work that no word concludes leaves something to do."""
        return self._text.rstrip(" \n*_#-").endswith((":", "：")) or (
            found.form in WORKS and not self._kind.is_complete(found.said or "", self._text[: found.end], self._item)
        )

    def _last_line(self, beginning: int) -> "_Found | None":
        """Return the option that the last line quotes with its letter, whatever the option says."""
        start, end = self._text.rstrip().rfind("\n") + 1, len(self._text.rstrip())
        quoted = _PATTERNS.option_item.match(self._text, start) and not self._is_one_of(_PATTERNS.option_item, start)
        said = self._alone(self._text[start:end]) if quoted and start >= beginning else None
        return None if said is None else _Found(said, "last_line", start, end)

    def _stated(self, start: int, end: int, alone: str) -> "_Found | None":
        start += self._supposes_what_is_asked(self._text[start:end])
        sentence = self._text[start:end]
        if self._blocked(sentence) or sentence.rstrip(" *_\"')").endswith(("?", "？")):
            return None
        is_item = self._is_one_of(_PATTERNS.list_item, start)
        last = alone != "whole_reply"
        if self._is_one_of(_PATTERNS.option_item, start) or (is_item and not self._kind.reads_last_lines):
            return None
        if not is_item and (said := self._alone(sentence, alone)) is not None:
            allowed = not last or (
                self._kind.reads_last_lines and (self._kind.is_new(said, self._item) or self._left_asked(sentence))
            )
            if allowed or not self._kind.reads_last_lines:
                return _Found(said, alone, start, end) if allowed else None
        for form in self._forms[Role.CONCLUDES]:
            for found in reversed(list(form.compiled.finditer(sentence))):
                said, length = self._used_up(sentence[found.end() :], _AFTER_A_MARKER)
                asked = self._kind.is_asked(sentence[found.end() :], self._item, "concludes")
                if said is not None and asked and self._kind.is_final(said, self._item):
                    return _Found(said, form.name, start + found.start(), start + found.end() + length)
        if concluding := self._emphasised(start, end) or self._concluding(start, end):
            return concluding
        said, _ = self._used_up(_PATTERNS.list_mark.sub("", sentence), (Role.FOLLOWS,), self._kind.restated)
        said = said or self._kind.restated(_PATTERNS.list_mark.sub("", sentence), self._item)
        return (
            None if said is None or not self._kind.is_final(said, self._item) else _Found(said, "restated", start, end)
        )

    def _concluding(self, start: int, end: int) -> "_Found | None":
        """Return the value that a sentence states of what was asked, or the result of its equation."""
        drawn = any(form.compiled.match(self._text[start:end]) for form in self._forms[Role.CONCLUDES])
        bold = any(start <= self._reply.index(first) < end for first, _ in self._bold) and self._is_last_paragraph(
            start, end
        )
        if self._is(Role.REMARK, self._text[start:end]):
            return None
        found = self._statement(start, end, spare=_SPARE * drawn, bold=bold) or self._equation(start, end)
        return found and _Found(*found, start, end)

    def _statement(
        self, start: int, end: int, *, spare: int = 0, bold: bool = False, work: str | None = None
    ) -> tuple[str, str] | None:
        """Return the value that a sentence states of a subject that was asked for, with the form.

        Args:
            start: Where the sentence begins.
            end: Where it ends.
            spare: Words that the subject may have besides those of the question; 0 if nothing announces a conclusion.
            bold: Whether something in it is in bold.
            work: Where the value may be computed; what stands above it if not given.
        """
        sentence = _PATTERNS.list_mark.sub("", self._text[start:end])
        work = self._text[:start] if work is None else work
        opening = next(filter(None, (form.compiled.match(_hidden(sentence)) for form in self._forms[Role.OPENS])), None)
        if opening:
            sentence = sentence[opening.end() :]
            if (said := self._alone(sentence)) and (self._kind.is_new(said, self._item) or self._left_asked(sentence)):
                return said, "drawn"
        hidden = _hidden(sentence)
        verbs, only = self._value_places(sentence, hidden)
        for begin in (*verbs, *only):
            for place in _value_ends(hidden, begin):
                said = self._value(sentence, begin, place, is_only=begin in only)
                if said is None:
                    continue
                computed = self._kind.computed(said, work, self._item)
                most = MOST_SPARE * bold or _SPARE if computed else int(work.count("=") >= _WORKED)
                is_drawn = bool(spare)
                if (is_drawn or self._kind.is_new(said, self._item)) and self._is_named(
                    sentence, begin, place, spare=max(spare, most), is_drawn=is_drawn
                ):
                    return said, "drawn" if spare else "computed" if computed else "stated"
        return None

    def _value(self, sentence: str, begin: int, place: int, *, is_only: bool) -> str | None:
        """Return the answer that a part of a sentence is; None if it is one of several, or a step of arithmetic."""
        part, rest = sentence[begin:place], sentence[place:]
        said = None if "..." in part or _PATTERNS.congruence.search(part) else self._read(part)
        before = sentence[:begin]
        is_part = before.count("(") > before.count(")") or (
            _PATTERNS.goes_on.search(part) or sum(map(part.count, "([")) != sum(map(part.count, ")]"))
        )
        if said is None or is_part or not self._kind.is_final(said, self._item):
            return None
        rest = _PATTERNS.because.sub("", re.sub(r"\([^()]*\)", "", rest))
        named = "=" in part and (
            len(_PATTERNS.masked.findall(_hidden(sentence)[begin:place])) > 1
            or (is_only and not self._kind.is_asked(part, self._item, "last_line"))
        )
        reason = sentence[begin - 1] == "=" and _PATTERNS.reason.search(sentence[:begin])
        return None if _PATTERNS.arithmetic.search(rest) or named or reason else said

    def _is_named(self, sentence: str, begin: int, place: int, *, spare: int, is_drawn: bool) -> bool:
        """Return whether a sentence without its value is used up by what was asked for, and what may follow a value."""
        rest = sentence[place:]
        if self._may_follow(rest, _AFTER_A_MARKER):
            rest = ""
        elif not self._may_name(rest):
            return False
        subject = _PATTERNS.joined.split(_PATTERNS.sum_before.sub("", sentence[:begin]))[-1]
        subject = _PATTERNS.maths.sub(" ", subject)
        words = f"{subject} {_PATTERNS.maths.sub(' ', rest)}"
        if "=" in sentence[begin - 1 : place] and not stems(words):
            return False
        asked = stems(words) & stems(asked_clause(self._item.text)) or self._names_asked(sentence[:begin])
        if not is_drawn and not (asked and self._may_name(subject)):
            return False
        unit = stems(_PATTERNS.maths.sub(" ", sentence[begin:place])) & stems(self._item.text)
        return repeats(f"{words} {' '.join(unit)}", self._item.text, spare)

    def _value_places(self, sentence: str, hidden: str) -> tuple[list[int], list[int]]:
        """Return where a value may begin: after each verb, and at the only value that is not the question's."""
        verbs = [verb.end() for form in self._forms[Role.STATES] for verb in form.compiled.finditer(hidden)]
        values = [found.span() for found in _PATTERNS.value.finditer(hidden)]
        read = [(start, self._kind.read(sentence[start:end].strip(" .,;。、"), self._item)) for start, end in values]
        new = [start for start, said in read if said is None or self._kind.is_new(said, self._item)]
        only = [start for start in new if len(new) == 1 and not _PATTERNS.bounds.search(sentence[:start])]
        return sorted(verbs, reverse=True), only

    def _equation(self, start: int, end: int) -> tuple[str, str] | None:
        """Return the last side of an equation that words before it, or in it, say to be what was asked for."""
        sentence, above = self._text[start:end].strip(" .*"), self._text[:start]
        words = _hidden(sentence).rstrip("\0")
        lead, equals, result = sentence.rpartition("=")
        said = None if "\0" in words else self._read(sentence[len(words) :] or result)
        if not equals or said is None or _PATTERNS.reason.search(lead) or not self._kind.is_final(said, self._item):
            return None
        computed, new = self._kind.computed(said, above, self._item), self._kind.is_new(said, self._item)
        before = _PATTERNS.sentence.split(above.rstrip().rpartition("\n")[2])[-1]
        named = next(filter(stems, (_PATTERNS.commands.sub(" ", lead), _PATTERNS.maths.sub(" ", before))), "")
        spare = _SPARE if computed or above.count("=") >= _WORKED else 0
        asked = stems(named) & stems(asked_clause(self._item.text)) and repeats(named, self._item.text, spare)
        if (computed or new) and (asked or (not named and computed and new)):
            return said, "last_equation"
        return None

    def _left_asked(self, equation: str) -> bool:
        """Return whether the left side of an equation is what the question asks for."""
        left, equals, _ = squeezed(equation).partition("=")
        left = re.sub(r"^(?:\$+|\\[\[(]|\*|\()+", "", left)
        asked = squeezed(asked_clause(self._item.text))
        return bool(equals and left) and re.search(rf"(?<![\w\\]){re.escape(left)}(?!\w)", asked) is not None

    def _names_asked(self, subject: str) -> bool:
        """Return whether a subject has an expression that the question has."""
        given = squeezed(self._item.text)
        return any(squeezed(span[0]).strip("$") in given for span in _PATTERNS.maths.finditer(subject))

    def _may_name(self, rest: str) -> bool:
        """Return whether what follows a value may name it: no bound, and no number but those of the question."""
        compared = _PATTERNS.compares.match(rest)
        return (compared is None or compared[1].lower() in asked_clause(self._item.text).lower()) and set(
            _PATTERNS.numeral.findall(rest)
        ) <= set(_PATTERNS.numeral.findall(self._item.text))

    def _supposes_what_is_asked(self, sentence: str) -> int:
        """Return where a sentence continues after a condition that the question makes itself; 0 if it has none."""
        found = _PATTERNS.condition.match(sentence)
        if found is None or stems(found[0]) - stems(self._item.text) - {"if"}:
            return 0
        numbers = set(_PATTERNS.numeral.findall(found[0])) - set(_PATTERNS.numeral.findall(self._item.text))
        return 0 if numbers else found.end()

    def _emphasised(self, start: int, end: int, *, announced: bool = False) -> "_Found | None":
        """Return the one thing in bold in a sentence that is announced, or is the last paragraph of several."""
        if self._kind.reads_last_lines and not announced and not self._is_last_paragraph(start, end):
            return None
        bold = [(self._reply.index(first), self._reply.index(last)) for first, last in self._bold]
        bold = [place for place in bold if start <= place[0] < place[1] <= end]
        bold = [
            (first, last)
            for first, last in bold
            if self._text[first - 4 : first] != "(or " and self._text[last : last + 1] != ":"
        ]
        if len(bold) != 1 or bold[0] == (start, end):
            return None
        first, last = bold[0]
        said = self._read(self._text[first:last])
        rest = f"{self._text[start:first]} {self._text[last:end]}"
        computed = said is not None and self._kind.computed(said, self._text[:start], self._item)
        surrounded = (
            self._may_surround(rest, first - start, MOST_SPARE if computed else _SPARE_WORDS)
            or not self._kind.reads_last_lines
        )
        if said is None or not self._kind.is_final(said, self._item) or not surrounded:
            return None
        return _Found(said, "emphasised", first, last)

    def _may_surround(self, rest: str, place: int, spare: int) -> bool:
        """Return whether the rest of a sentence repeats the question, and bounds nothing where the answer stood."""
        return not _PATTERNS.bounds.search(rest[:place]) and repeats(rest, self._item.text, spare)

    def _is_last_paragraph(self, start: int, end: int) -> bool:
        """Return whether a sentence is a paragraph of its own, at the end of a longer reply."""
        before, after = self._text[:start], self._text[end:]
        return bool(before.strip()) and before.endswith("\n\n") and (not after.strip() or after.startswith("\n"))

    def _first_sentence(self, sentences: list[tuple[int, int]]) -> "_Found | None":
        """Return the answer of the first sentence, above an explanation that has the same, or no other."""
        start, end = sentences[0]
        first, rest = self._text[start:end], self._text[end:].strip()
        if self._is_listed(start) or self._blocked(first) or first.rstrip().endswith(("?", "？")):
            return None
        if not self._kind.reads_last_lines:
            return self._emphasised(start, end)
        said = None if _PATTERNS.result.search(first) else self._alone(first)
        if said is None and not _PATTERNS.result.search(first) and (stated := self._statement(start, end, work=rest)):
            bold = any(start <= self._reply.index(place) < end for place, _ in self._bold)
            stands = bold and self._kind.repeated(stated[0], rest, self._item)
            return _Found(stated[0], "first_line", start, end) if stands else None
        if said is None:
            return None
        explained = any(form.compiled.match(rest.lstrip(_FILLING)) for form in self._forms[Role.ASIDE])
        explained = explained or (self._text[end : end + 1] != "\n" and self._kind.is_new(said, self._item))
        if (
            explained
            or not self._kind.mentions(rest, self._item)
            or (self._kind.is_new(said, self._item) and self._kind.repeated(said, rest, self._item))
        ):
            return _Found(said, "first_line", start, end)
        return None

    def _alone(self, sentence: str, place: str = "last_line") -> str | None:
        said = (
            self._used_up(_PATTERNS.list_mark.sub("", sentence), (Role.FOLLOWS,))[0]
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
        """Return whether a line is one of several items: of a list, or of the options."""
        return self._is_one_of(_PATTERNS.list_item, start) or self._is_one_of(_PATTERNS.option_item, start)

    def _is_one_of(self, item: re.Pattern[str], start: int) -> bool:
        start = self._text.rfind("\n", 0, start) + 1
        return bool(item.match(self._text, start)) and len(item.findall(self._text)) > 1

    def _sentences(self, beginning: int) -> Iterator[tuple[int, int]]:
        """Return the sentences after a place without asides, such as a check, and the paragraphs that they open."""
        aside, last_line = "", len(self._text.rstrip())
        for line in _PATTERNS.line.finditer(self._text):
            words = line[0].strip(_FILLING + "#-=>|")
            if not words or line.end() <= beginning:
                aside = aside if aside == "section" else ""
                continue
            opening = next(filter(None, (form.compiled.match(words) for form in self._forms[Role.ASIDE])), None)
            if opening:
                aside = "paragraph" if words[opening.end() :].strip(_FILLING) else "section"
            elif aside and (
                (line.end() == last_line and self._text[: line.start()].endswith("\n\n"))
                or any(form.compiled.match(words) for form in self._forms[Role.CONCLUDES])
            ):
                aside = ""
            within = bool(aside)
            for start, end in self._split(max(line.start(), beginning), line.end()):
                if not within:
                    yield start, end
                within = within or (start > line.start() and self._is(Role.ASIDE, self._text[start:end]))
            if within and not aside and _PATTERNS.checks.search(line[0].rstrip(" *_")):
                aside = "paragraph"

    def _split(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Return the sentences of a line; none ends within a formula or is a number of a list."""
        maths = [span.span() for span in _PATTERNS.maths.finditer(self._text, first, last)]
        ends = [found.end() for found in _PATTERNS.sentence.finditer(self._text, first, last)]
        for start, end in pairwise([first, *(end for end in ends if not any(a < end < b for a, b in maths)), last]):
            numbering = end < last and _PATTERNS.numbering.fullmatch(self._text, start, end)
            if not numbering and self._text[start:end].strip(_FILLING + "."):
                yield start, end

    # What the grammar consists of ------------------------------------------------------------------------------------

    def _used_up(
        self, passage: str, roles: tuple[Role, ...] = _AFTER_A_MARKER, restated: _Restated | None = None
    ) -> tuple[str | None, int]:
        """Return the answer that uses a passage up, and where it ends; None if there is more in it.

        Args:
            passage: What is announced, or a sentence.
            roles: Which forms may follow the answer; after a marker it may stand among words of the question.
            restated: How the answer is read that has to stand among words of the question.
        """
        ends = {len(passage)} | {
            found.start() for role in roles for form in self._forms[role] for found in form.compiled.finditer(passage)
        }
        maths = [span.span() for span in _PATTERNS.maths.finditer(passage)]
        for end in sorted(ends, reverse=True)[-_MOST_ENDS:]:
            inside = any(first < end < last for first, last in maths) or passage[:end].endswith("\\")
            if end <= _LONGEST_ANSWER and not inside and self._may_follow(passage[end:], roles):
                said = None if restated else self._read(passage[:end])
                if said is None and (restated or Role.EXPLAINS in roles) and not self._blocked(passage[:end]):
                    said = (restated or self._kind.restated)(passage[:end], self._item)
                if said is not None:
                    return said, end
        return None, len(passage)

    def _read(self, passage: str) -> str | None:
        """Return the answer that a passage is, after words that may stand before one."""
        if passage.rstrip(" *").endswith(":") and not (self._kind.chooses or re.search(r"\d", passage)):
            return None
        passage = passage.strip(_AROUND)
        passage = _PATTERNS.list_mark.sub("", passage) if passage[:1] in "→∴✅➡" else passage
        for _ in range(4):
            if passage.endswith(("?", "？")):
                return None
            if (said := self._kind.read(passage.rstrip(" .。,、;!！…").rstrip(_AROUND), self._item)) is not None:
                return said
            before = next(filter(None, (form.compiled.match(passage) for form in self._forms[Role.BEFORE])), None)
            if before is None or not before[0]:
                return None
            passage = passage[before.end() :].strip(_AROUND)
        return None

    def _may_follow(self, rest: str, roles: tuple[Role, ...], depth: int = 6) -> bool:
        """Return whether a text may follow an answer: it is used up by forms that may."""
        rest = rest.lstrip("*_$\"'”」』`").rstrip(" \t*_$\"'”」』`")
        if not rest.strip(" .。!！,、;…✓✅☑\\]"):
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
        """Return whether a sentence only supposes, asks, denies or quotes what it says, and the question does not."""
        question = self._item.text.lower()
        return any(
            sentence[found.start() : found.end() + _CONTEXT].lower() not in question
            and not (role is Role.DENIES and _after(found) in question)
            for role in (Role.BLOCKS, Role.DENIES)
            for form in self._forms[role]
            for found in form.compiled.finditer(sentence)
        )

    def _matches(self, role: Role) -> Iterator[tuple[Form, re.Match[str]]]:
        for form in self._forms[role]:
            for found in form.compiled.finditer(self._text):
                yield form, found

    def _taken_back(self) -> list[int]:
        """Return where something is taken back that is not confirmed after all."""
        confirmed = [found.start() for _, found in self._matches(Role.CONFIRMS)]
        return [
            found.end()
            for _, found in self._matches(Role.TAKES_BACK)
            if not any(place > found.end() for place in confirmed)
        ]

    def _doubted_after(self, place: int, *roles: Role) -> bool:
        return any(found.end() > place for role in roles or (Role.DOUBTS,) for _, found in self._matches(role))


def _after(denial: re.Match[str]) -> str:
    """Return the two words after a denial; what no question has if there are fewer."""
    words = denial.string[denial.end() :].lower().split()[:2]
    return " ".join(words) if len(words) > 1 and len(" ".join(words)) >= _CONTEXT - 2 else "\0"


@dataclass(frozen=True)
class _Found:
    """A commitment while its places are those of the text that is read."""

    said: str | None
    form: str
    start: int
    end: int


def _innermost(announced: Iterable[_Found]) -> list[_Found]:
    """Return in their order; one that is not understood is left out if one that is stands in its passage."""
    found = sorted(announced, key=lambda commitment: (commitment.end, commitment.start))
    understood = [commitment for commitment in found if commitment.said is not None]
    return [
        outer
        for outer in found
        if outer.said is not None
        or not any(outer.start <= inner.start and inner.end <= outer.end for inner in understood)
    ]


def _boxes(text: str) -> list[tuple[int, int, str]]:
    r"""Return start, end and content of each `\boxed{}`, braces matched; an unclosed box does not count."""
    found = []
    for box in list(_PATTERNS.box.finditer(text))[-_MOST_BOXES:]:
        depth = 1
        for end in range(box.end(), min(len(text), box.end() + 1_000)):
            depth += {"{": 1, "}": -1}.get(text[end], 0) if text[end - 1] != "\\" else 0
            if depth == 0:
                found.append((box.start(), end + 1, text[box.end() : end]))
                break
    return found


def _unboxed(boxes: list[tuple[int, int, str]], length: int) -> list[tuple[int, int]]:
    r"""Return the parts of a text that are left where `\boxed{` and its brace are taken away."""
    parts, at = [], 0
    for start, end, content in boxes:
        if start >= at:
            parts += [(at, start), (end - 1 - len(content), end - 1)]
            at = end
    return [*parts, (at, length)]


def _unquoted(said: str) -> str:
    """Return a JSON string's value; any other text as it is."""
    if said.startswith('"'):
        try:
            return str(json.loads(said, strict=False))
        except ValueError:
            return said.strip('"')
    return said


def _sentence_start(text: str, place: int) -> int:
    beginning = max(text.rfind("\n", 0, place) + 1, 0)
    *_, start = (0, *(found.end() for found in _PATTERNS.starts.finditer(text[beginning:place])))
    return beginning + start


def _sentence_end(text: str, place: int) -> int:
    found = _PATTERNS.starts.search(text, place)
    return found.start() if found else len(text)


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end


def _hidden(sentence: str) -> str:
    """Return a sentence whose maths is one sign repeated, so that no word is found in it."""
    hidden = _PATTERNS.maths.sub(lambda span: "\0" * len(span[0]), sentence)
    return _PATTERNS.in_brackets.sub(lambda span: "\1" * len(span[0]), hidden)


def _value_ends(hidden: str, start: int) -> list[int]:
    """Return where the first value after a place may end: after itself, and after each of the next words."""
    found = _PATTERNS.value.search(hidden, start)
    if found is None:
        return []
    ends = [found.end(), *(word.end() for word in re.compile(r"\S+").finditer(hidden, found.end(), found.end() + 40))]
    return ends[4::-1]
