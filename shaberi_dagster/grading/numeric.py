"""The grader of answers that are one number."""

import re
from fractions import Fraction

from shaberi_dagster.grading.base import GradedQuestion
from shaberi_dagster.grading.commitments import AnswerKind
from shaberi_dagster.grading.numbers import (
    RELATIVE_TOLERANCE,
    Number,
    in_plain_digits,
    numbers_in,
    parse_number,
    shown,
    words_as_digits,
)
from shaberi_dagster.grading.words import asked_clause, repeats, stems

_LONGEST_UNIT = 40
_MOST_WORDS = 4
_DELIMITERS = re.compile(r"\\[()\[\]]|\$\$|\$(?![\d.-])|(?<=[\d}%])\$|\\(?:approx|therefore)\b")
_EQUALS = re.compile(r"(?<![<>!≤≥])=+|≈|＝")
_ALTERNATIVES = re.compile(
    r"\b(?:or|and|not|if|between|to)\b|または|あるいは|もしくは|[、;]|か(?=\d)|~|〜", re.IGNORECASE
)
_NO_UNIT = re.compile(
    r"\b(?:or|and|not|plus|minus|times|divided|to|more|less|fewer|greater|than|if|when|unless|but|is|are|was|were|wrong"
    r"|incorrect|vs|versus|through|until|between|either|maybe|perhaps|possibly|least|most|over|under|above|below|up"
    r"|x|y|z|n|i|k|p|q|pi|sqrt|squared|cubed|factorial|options?|ways? off|parts?|steps?|oder|ou|o|und|et|e|must|should"
    r"|can|will|would|has|have|had|be|been|do|does|did|he|she|they|we|it|its|you|there|this|that|these|the|a|an|which|who"
    r"|because|since|so|then|as|given)\b"
    r"|または|以上|以下|未満|超|より|から|まで|くらい|ぐらい|ほど|程度|前後|弱$|強$|ない|ませ|違|誤|[〜~か?？!=<>^*×÷√π:]|分の",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r"\([^()]*\)")
_LABEL = re.compile(r"[^\W\d_]{2,}")
_UNIT = re.compile(r"(?:[\s°%/·.'’\-$€£¥₩₹()（）「」]|[^\W\d_])*")
_POWER = re.compile(r"\^\{?-?[23]\}?|[²³]|\^\{?\\circ\}?|\\circ|\\degree|\\%|\\text|\\,")
_LEADING = re.compile(r"[\s:：=$({\[「]*(?:[A-Za-zＡ-Ｚ]{1,3}(?=[$€£¥]))?")
_ARITHMETIC = re.compile(
    r"(?:[\d.,$€£¥%()+\-–×x*/÷·=\s{}^<>]|\\times|\\cdot|\\div"
    r"|(?<=[\d) ])(?:km|m|cm|kg|g|h|L|ml|s|min|°|mph)?[²³]?(?![^\W\d_])"
    r"|(?<=\d)\s?[一-鿿ァ-ヶー]{1,3}(?=\s?[+\-−×*/÷=)]))+$"
)
_TIME = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_COMPOUND = re.compile(
    r"(\d+)\s*(week|day|hour|minute)s?\s*(?:,|and|,\s*and)?\s*(\d+)\s*(day|hour|minute|second)s?\b", re.IGNORECASE
)
_ASKED_UNIT = re.compile(
    r"how (?:many|much)(?: more| fewer| less| total)?(?: [a-z]+ly)? ([a-z]+)"
    r"|\bin (?:terms of )?(seconds|minutes|hours|days|weeks|dollars|cents)\b",
    re.IGNORECASE,
)
_DECIMAL_COMMA = re.compile(
    r"\b(?:wie ?viele?|wieviel|welche[rs]?|cuánt\w+|cuál\w*|combien|quell?e?s?|quant[oaie]s?|quanti|qual|сколько"
    r"|каков\w*|чему|ile|hoeveel|berapa|kaç|berechne|calcul(?:e|ez|er|a|ar)|convert(?:e|ir)|koliko|hur många)\b",
    re.IGNORECASE,
)


class NumericGrader(AnswerKind):
    """One number with its unit; its value counts."""

    name = "rule:numeric"
    version = 5

    def read(self, passage: str, item: GradedQuestion) -> str | None:
        """The number that a passage is, with at most a unit."""
        text = _plain(passage, item)
        sides = _EQUALS.split(text)
        if any(_ALTERNATIVES.search(side) or len(_LABEL.findall(side)) > _MOST_WORDS for side in sides[:-1]):
            return None
        sides = sides[: 1 if "≈" in text and "=" not in text and numbers_in(sides[0]) else len(sides)]
        in_words = not numbers_in(text)
        return self._number(words_as_digits(text) if in_words else sides[-1], item)

    def _number(self, text: str, item: GradedQuestion) -> str | None:
        if compound := _COMPOUND.fullmatch(text.strip(" .")):
            return shown(_converted(compound, item))
        numbers = numbers_in(text)
        if not numbers or not _LEADING.fullmatch(text[: numbers[0].start]):
            return None
        if len(numbers) > 1 or not is_unit(text[numbers[0].end :]):
            return None
        return shown(numbers[0].value)

    def mentions(self, passage: str, item: GradedQuestion) -> bool:
        """Whether there is a number in a passage."""
        return bool(re.search(r"\d", passage) or numbers_in(words_as_digits(_plain(passage, item))))

    def restated(self, sentence: str, item: GradedQuestion) -> str | None:
        """The one number of a sentence that the question does not have, among words that it has."""
        text = _COMPOUND.sub(lambda found: shown(_converted(found, item)), _plain(sentence, item))
        outside = _BRACKETS.sub(" ", text)
        text = outside if numbers_in(outside) else text
        if _ALTERNATIVES.search(re.sub(r"\band\b|\bto\b|[、;]", "", text)):
            return None
        before, equals, after = text.rpartition("=")
        text = f"{_ARITHMETIC.sub(' ', before)} {after}" if equals else text
        given = {number.value for number in numbers_in(in_plain_digits(item.text))}
        numbers = numbers_in(text) or numbers_in(text := words_as_digits(text))
        new = [number for number in numbers if number.value not in given]
        if len(new) != 1 or (equals and new[0].start < text.rfind(after.strip()[:5])):
            return None
        rest = _without(text, new[0])
        return shown(new[0].value) if rest is not None and repeats(rest, item.text) else None

    def is_asked(self, sentence: str, item: GradedQuestion, place: str) -> bool:
        """Whether a result of arithmetic has a unit that is asked for."""
        before, equals, after = _plain(sentence, item).rpartition("=")
        return (
            place == "concludes"
            or not equals
            or not re.search(r"\d", before)
            or bool(stems(after) & stems(asked_clause(item.text)))
        )

    def is_new(self, said: str, item: GradedQuestion) -> bool:
        """Whether the question does not have the number."""
        return parse_number(said) not in {number.value for number in numbers_in(_plain(item.text, item))}

    def repeated(self, said: str, rest: str, item: GradedQuestion) -> bool:
        """Whether the last number of the rest is the same, or it says the number after a sign of equality."""
        value = parse_number(said)
        numbers = numbers_in(_plain(rest, item))
        results = {
            number.value for number in numbers if re.search(r"(?:=|is|で)\W*$", _plain(rest, item)[: number.start])
        }
        return bool(numbers) and (numbers[-1].value == value or value in results)

    def canonical(self, extracted: str) -> str:
        """One spelling for all that mean the same."""
        value = parse_number(extracted)
        return extracted if value is None else shown(value)

    def same(self, first: str, second: str) -> bool:
        """Whether two extractions mean the same."""
        a, b = parse_number(first), parse_number(second)
        return a is not None and b is not None and abs(a - b) <= RELATIVE_TOLERANCE * max(abs(a), abs(b))


def is_unit(text: str) -> bool:
    """Whether what follows a number is at most its unit: a few words that are no operator, no bound and no denial."""
    text = _POWER.sub("", text).strip(" .。,、;")
    words = re.findall(r"[^\W\d_]+", text)
    return (
        len(text) <= _LONGEST_UNIT
        and len(words) <= _MOST_WORDS
        and bool(_UNIT.fullmatch(text))
        and not _NO_UNIT.search(text)
    )


def _plain(text: str, item: GradedQuestion) -> str:
    comma = _DECIMAL_COMMA.search(item.text) is not None
    return in_plain_digits(_DELIMITERS.sub(" ", text), comma=comma)


def _without(text: str, number: Number) -> str | None:
    """A sentence without its answer; None if a sign before or after makes it a part of an expression or a bound."""
    before, after = text[: number.start], text[number.end :]
    if re.search(
        r"(?:[+×*/÷^<>≤≥~〜]|\b(?:than|least|most|between|over|under|not|almost|over|up to|nearly))\s*\$?$", before
    ) or re.match(r"\s*(?:[+×*/÷^=<>~〜]|or\b|以上|以下|未満|くらい|ぐらい|程度|より|から|か[^ら]?\d)", after):
        return None
    return f"{before} {after}"


def _converted(compound: re.Match[str], item: GradedQuestion) -> Fraction:
    """`1 hour and 35 minutes` in the unit asked for, else in the smaller of its own."""
    asked = _ASKED_UNIT.search(asked_clause(item.text).lower())
    unit = (asked[1] or asked[2] or "").removesuffix("s") if asked else ""
    larger, smaller = compound[2].lower(), compound[4].lower()
    seconds = int(compound[1]) * _TIME[larger] + int(compound[3]) * _TIME[smaller]
    return Fraction(seconds, _TIME[unit] if unit in _TIME else _TIME[smaller])
