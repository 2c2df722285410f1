"""The grader of answers that are one number."""

import re
from fractions import Fraction

from shaberi_dagster.tasks.judges.rules.base import GradedQuestion
from shaberi_dagster.tasks.judges.rules.commitments import AnswerKind
from shaberi_dagster.tasks.judges.rules.numbers import (
    RELATIVE_TOLERANCE,
    Number,
    in_plain_digits,
    numbers_in,
    parse_number,
    shown,
    words_as_digits,
)
from shaberi_dagster.tasks.judges.rules.patterns import patterns
from shaberi_dagster.tasks.judges.rules.words import asked_clause, stems

_PATTERNS = patterns("numeric")

_LONGEST_UNIT = 40
_MOST_WORDS = 4
_TIME = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}


class NumericGrader(AnswerKind):
    """One number with its unit; its value counts."""

    name = "rule:numeric"
    version = 7

    def read(self, passage: str, item: GradedQuestion) -> str | None:
        """Return the number that a passage is, with at most a unit."""
        text = _plain(passage, item)
        sides = _PATTERNS.equals.split(text)
        if any(
            _PATTERNS.alternatives.search(side)
            or len(_PATTERNS.label.findall(side)) > _MOST_WORDS
            or side.count("(") != side.count(")")
            for side in sides[:-1]
        ):
            return None
        sides = sides[: 1 if "≈" in text and "=" not in text and numbers_in(sides[0]) else len(sides)]
        in_words = not numbers_in(text)
        return self._number(words_as_digits(text) if in_words else sides[-1], item)

    def _number(self, text: str, item: GradedQuestion) -> str | None:
        if compound := _PATTERNS.compound.fullmatch(text.strip(" .")):
            return shown(_converted(compound, item))
        numbers = numbers_in(text)
        if not numbers or not _PATTERNS.leading.fullmatch(text[: numbers[0].start]):
            return None
        if len(numbers) > 1 or not is_unit(text[numbers[0].end :]):
            return None
        is_share = _PATTERNS.percent.match(text, numbers[0].end) and _PATTERNS.asked_share.search(
            asked_clause(item.text)
        )
        return shown(numbers[0].value / (100 if is_share else 1))

    def mentions(self, passage: str, item: GradedQuestion) -> bool:
        """Return whether there is a number in a passage."""
        return bool(re.search(r"\d", passage) or numbers_in(words_as_digits(_plain(passage, item))))

    def is_asked(self, sentence: str, item: GradedQuestion, place: str) -> bool:
        """Return whether a result of arithmetic has a unit that is asked for."""
        before, equals, after = _plain(sentence, item).rpartition("=")
        return (
            place == "concludes"
            or not equals
            or (place == "whole_reply" and self.is_complete(after, sentence, item))
            or not re.search(r"\d", before)
            or bool(
                stems(after) & (asked := stems(asked_clause(item.text)))
                and (not stems(before) or stems(before) & asked)
            )
        )

    def is_new(self, said: str, item: GradedQuestion) -> bool:
        """Return whether the question does not have the number."""
        return parse_number(said) not in {number.value for number in numbers_in(_plain(item.text, item))}

    def computed(self, said: str, above: str, item: GradedQuestion) -> bool:
        """Return whether a number after a sign of equality is the answer."""
        value, text = parse_number(said), _plain(above, item)
        return any(
            number.value == value and re.search(r"[=≈]\W*$", text[: number.start]) for number in numbers_in(text)
        )

    def is_complete(self, said: str, work: str, item: GradedQuestion) -> bool:
        """Return whether a work uses all numbers of the question, and all its results but the last."""
        text = _plain(work, item)
        results = _results(text)
        if not results:
            return True
        if _unused(_digits(_plain(item.text, item)), _digits(words_as_digits(text))):
            return False
        last = parse_number(said)
        return all(result.value == last or result.value in _digits(text[result.end :]) for result in results)

    def repeated(self, said: str, rest: str, item: GradedQuestion) -> bool:
        """Return whether the last number of the rest, or its last result, is the same."""
        value, text = parse_number(said), _plain(rest, item)
        numbers = numbers_in(text)
        results = [number for number in numbers if re.search(r"(?:=|is|で)\W*$", text[: number.start][-12:])]
        return any(number.value == value for number in (*numbers[-1:], *results[-1:]))

    def canonical(self, extracted: str) -> str:
        """Return one spelling for all that mean the same."""
        value = parse_number(extracted)
        return extracted if value is None else shown(value)

    def same(self, first: str, second: str) -> bool:
        """Return whether two extractions mean the same."""
        a, b = parse_number(first), parse_number(second)
        return a is not None and b is not None and abs(a - b) <= RELATIVE_TOLERANCE * max(abs(a), abs(b))


def is_unit(text: str) -> bool:
    """Return whether what follows a number is at most its unit: a few words, no operator, bound or denial."""
    text = _PATTERNS.power.sub("", text).strip(" .。,、;")
    words = re.findall(r"[^\W\d_]+", text)
    return (
        len(text) <= _LONGEST_UNIT
        and len(words) <= _MOST_WORDS
        and bool(_PATTERNS.unit.fullmatch(text))
        and not _PATTERNS.no_unit.search(text)
    )


def _digits(text: str) -> set[Fraction]:
    """Return every number in digits, both sides of a fraction by themselves."""
    return {Fraction(digits) for digits in re.findall(r"\d+(?:\.\d+)?|\.\d+", text)}


def _unused(given: set[Fraction], used: set[Fraction]) -> set[Fraction]:
    """Return the numbers of a question that a work does not use, as a share neither."""
    return {number for number in given - used if not {number / 100, 1 + number / 100, 1 - number / 100} & used}


def _results(text: str) -> list[Number]:
    """Return the numbers that stand after a sign of equality, with no arithmetic after them."""
    return [
        number
        for number in numbers_in(text)
        if text[max(number.start - 8, 0) : number.start].rstrip(" $€£¥({[*_").endswith(("=", "≈"))
        and not _PATTERNS.unknown.search(text[max(number.start - 12, 0) : number.start].rstrip(" =≈$("))
        and not re.match(r"[^\W\d_%]*\s?[%]?\s?[-+*/×÷^]\s?[$(\d]", text[number.end :])
    ]


def _plain(text: str, item: GradedQuestion) -> str:
    if "dozen" in asked_clause(item.text):
        text = text.replace("dozen", " ")
    comma = _PATTERNS.decimal_comma.search(item.text) is not None
    return in_plain_digits(_PATTERNS.delimiters.sub(" ", text), comma=comma)


def _converted(compound: re.Match[str], item: GradedQuestion) -> Fraction:
    """`1 hour and 35 minutes` in the unit asked for, else in the smaller of its own."""
    asked = _PATTERNS.asked_unit.search(asked_clause(item.text).lower())
    unit = (asked[1] or asked[2] or "").removesuffix("s") if asked else ""
    larger, smaller = compound[2].lower(), compound[4].lower()
    seconds = int(compound[1]) * _TIME[larger] + int(compound[3]) * _TIME[smaller]
    return Fraction(seconds, _TIME[unit] if unit in _TIME else _TIME[smaller])
