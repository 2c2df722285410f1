"""The grader of answers that are one number."""

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from shaberi_dagster.judges.rules.announced import announcements, in_force, plain
from shaberi_dagster.judges.rules.base import GradedQuestion, Grader
from shaberi_dagster.judges.rules.numerals import in_digits
from shaberi_dagster.judges.rules.statements import statements, states_nothing
from shaberi_dagster.judges.rules.text import boxed, breaks_off, own_part, readable

RELATIVE_TOLERANCE = Fraction(1, 10**6)
"""Two numbers within this share of the greater are the same: rounding in the last printed digits."""

_MAX_CHARACTERS = 60
_MARGIN = 2
"""A number that fits less than this better than another one is not surely the answer."""
_EUROPEAN = (
    r"\d{1,3}(?:[. ]\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}(?![\d.])|\d{1,3}(?: \d{3})+(?![\d.,]*\d| \d)"
    r"|\d+,\d{1,2}(?![\d,])"
)
"""Points or spaces between thousands, a comma before decimals: `1.234,56`, `1.234.567`, `86 400`, `3,5`."""
_PLAIN = _EUROPEAN + r"|(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
_LATEX_FRACTION = re.compile(r"(?<!\d)(\d{1,20})?\s*\\[dt]?frac\s*\{?\s*(\d+)\s*\}?\s*\{?\s*(\d+)\s*\}?")
_NUMBER = re.compile(
    rf"(?<![A-Za-z0-9_.^])(?P<sign>[-+]\s?)?[$€£¥]?\s?(?P<mixed>\d+\s+(?=\d+/\d))?(?P<number>{_PLAIN})"
    r"(?P<exponent>[eE][-+]?\d{1,3})?"
    r"(?:\s?/\s?(?P<below>\d+(?:\.\d+)?))?(?![\d_])\s?(?P<scale>thousand|million|billion|trillion|万|億)?",
)
_SCALE = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "万": 10**4, "億": 10**8}
_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS = {word: value for value, word in enumerate(re.findall(r"\w+", _SMALL))}
_WORDS |= {word: 10 * tens for tens, word in enumerate(re.findall(r"\w+", _TENS), 2)}
NUMBER_WORDS = {word: str(value) for word, value in _WORDS.items()}
"""Digits of the numbers that are one word, `zero` to `ninety`."""
_FACTORS = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_PARTS = "half third quarter fifth sixth seventh eighth ninth tenth"
_DENOMINATORS = {word: value for value, word in enumerate(re.findall(r"\w+", _PARTS), 2)} | {"halve": 2, "fourth": 4}
_PART = rf"(?:{'|'.join(_DENOMINATORS)})s?\b"
_WORD = rf"(?:{'|'.join(sorted((*_WORDS, *_FACTORS), key=len, reverse=True))})\b(?![\s-]+{_PART})"
_FRACTION = rf"(an?(?=\s+(?:half|quarter)\b)|one|two|three|four|five|six|seven|eight|nine)[\s-]+({_PART})"
_WORD_NUMBER = re.compile(
    rf"(?:\b(?P<sign>minus|negative)\s+)?\b(?:(?P<halved>half\s+an?\s+)?"
    rf"(?P<whole>{_WORD}(?:(?:[\s-]+|\s+and\s+){_WORD})*)(?:\s+and\s+{_FRACTION})?|{_FRACTION})",
    re.IGNORECASE,
)

_NUMBER_LINE = re.compile(r"[^\w\n]*[\d][\d.,/ ]*(?<=\d)(?:\W{0,3}[^\W\d]+){0,2}[^\w:]*")
_RESULT = re.compile(r"=\W*$")
_STATING = re.compile(
    r"(?:=\W*(?:\\[a-z]+\W*)?|\b(?:is|are|was|were|has|have|equals|leaves|leaving)\W*)$", re.IGNORECASE
)
_STATED = re.compile(r"\s?[^\W\d]{0,4}?(?:です|である|になる|になります|とな|残)")
_OUT_OF = re.compile(r"\bof (?:the|all|his|her|its|their|my|our|these|those)\s+(?:\w+ )?$", re.IGNORECASE)
_RANGE = re.compile(r"\bbetween\s*$", re.IGNORECASE)
_AND = re.compile(r"\s*(?:[a-z]+ )?and\s*", re.IGNORECASE)
_OR = re.compile(r"\s*(?:or|または|あるいは|か)\s*", re.IGNORECASE)
_BOUND = re.compile(r"\b(?:at least|at most|more than|less than|fewer than|up to|over|under)\s*$", re.IGNORECASE)
_ASKS_FOR_A_BOUND = re.compile(r"least|most|minimum|maximum|fewest|greatest|smallest|largest|need", re.IGNORECASE)
_ROUGH = re.compile(
    r"\b(?:roughly|about|around|approximately|nearly|almost|some)\s*$|(?:約|およそ|ほぼ)\s*$", re.IGNORECASE
)
_SENTENCES = re.compile(r"(?<=[.!?])\s+|。")
_LATEX_SPACE = re.compile(r"\\[,!;: ]|~|\\q?quad\b")
_LATEX_TEXT = re.compile(r"\\(?:text|mathrm|mathbf|mbox|textbf|bf|rm)\s*\{([^{}]*)\}")
_ANNOTATION = re.compile(r"<<[^<>\n]*>>")
_APOSTROPHE = re.compile(r"(?<=\d)['’](?=\d{3}(?!\d))")
_BOLD = re.compile(r"\*\*(.+?)\*\*", re.DOTALL)
_ASIDE = re.compile(r"\([^()]*\)")
_GIVEN = re.compile(
    r"\b(?:when|if|from|than|of the|remaining|every|each|per|after|since|for|within|out of|over|in|at|with)"
    r"\s*(?:the|a|an|its|these|those)?\s*$",
    re.IGNORECASE,
)

_TIME = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_COMPOUND = re.compile(
    r"(\d+)\s*(week|day|hour|minute)s?\s*(?:,|and|,\s*and)?\s*(\d+)\s*(day|hour|minute|second)s?\b", re.IGNORECASE
)
_UNIT = re.compile(
    r"how (?:many|much)(?: more| fewer| less| total)?(?: [a-z]+ly)? ([a-z]+)"
    r"|\bin (?:terms of )?(seconds|minutes|hours|days|weeks|dollars|cents)\b",
    re.IGNORECASE,
)


class NumericGrader(Grader):
    """A rule for answers that are one number: `#### 5`, boxed, or the number of the concluding sentence.

    In the concluding sentence the number in bold, the one in the unit asked for, or the last result of a chain of
    equations counts; a number that stands in the question beside the same word (a product called "Machine 9000",
    "in 7 days") does not. Numbers in trailing parentheses are alternatives of the one before.
    """

    name = "rule:numeric"
    version = 4

    def extract(self, answer: str, item: GradedQuestion) -> str | None:
        """The final answer as it is said; None if there is none that is clear."""
        text = in_force(in_digits(own_part(readable(answer))))
        for explicit in (*reversed(boxed(text)), *reversed(re.findall(r"^#### *(.{1,200})", text, re.MULTILINE))):
            number = pick_number(explicit, item.text)
            if number is not None:
                return number
        for announced in announcements(text):
            for sentence in _SENTENCES.split(announced):
                if number := pick_number(sentence, item.text) or _in_words(sentence):
                    return number
        return self._in_prose(text, item.text)

    def _in_prose(self, text: str, question: str) -> str | None:
        """The number of the sentence that looks most like a conclusion, unless another number may be meant."""
        concluding = next(iter(statements(text, question, lambda part: bool(_numbers(_plain(part))))), None)
        if concluding is None:
            in_words = next(iter(statements(text, question, lambda part: _in_words(part) is not None)), None)
            return None if in_words is None or breaks_off(text) else _in_words(in_words.text)
        if breaks_off(text) or states_nothing(concluding.text):
            return None
        said, above = pick_number(concluding.text, question, surely=True), _above_its_work(text)
        return said if said is None or above is None or self.same(above, said) else None

    def canonical(self, extracted: str) -> str:
        """Give all that mean the same one spelling."""
        value = parse_number(extracted)
        return extracted if value is None else str(value)

    def same(self, first: str, second: str) -> bool:
        """Return whether two extractions mean the same."""
        a, b = parse_number(first), parse_number(second)
        return a is not None and b is not None and abs(a - b) <= RELATIVE_TOLERANCE * max(abs(a), abs(b))


def _above_its_work(text: str) -> str | None:
    """The number that the first line is, with at most a few words, above something else that is said."""
    first, _, rest = plain(text).strip().partition("\n")
    numbers = _numbers(_plain(first))
    alone = len(numbers) == 1 and rest.strip() and _NUMBER_LINE.fullmatch(first.strip("*_ "))
    return shown(numbers[0].value) if alone else None


def _in_words(text: str) -> str | None:
    """The last number that a text has in words: `twenty-one`, `half a dozen`, `three quarters`, `two hundred`."""
    *_, last = (None, *_WORD_NUMBER.finditer(text.lower()))
    if last is None:
        return None
    total = group = 0
    for word in re.findall(r"[a-z]+", last["whole"] or ""):
        if word in _WORDS:
            group += _WORDS[word]
        elif word in {"dozen", "hundred"}:
            group = (group or 1) * _FACTORS[word]
        elif word in _FACTORS:
            total, group = total + (group or 1) * _FACTORS[word], 0
    value = Fraction(total + group, 2 if last["halved"] else 1)
    if part := last[5] or last[7]:
        value += Fraction(_WORDS.get(last[4] or last[6], 1), _DENOMINATORS[part.removesuffix("s")])
    return shown(-value if last["sign"] else value)


def _read(digits: str) -> Fraction:
    """The value of digits with separators as they are written here or there."""
    if re.fullmatch(_EUROPEAN, digits):
        return Fraction(re.sub(r"[. ]", "", digits).replace(",", "."))
    return Fraction(digits.replace(",", ""))


def parse_number(text: str) -> Fraction | None:
    r"""The number that a text is, its unit aside; the last one of several.

    Args:
        text: Like `$1,234.50`, `3/4`, `1 1/2`, `25%` (25), `5 million`, `3万` or `\frac{3}{4}`.

    Returns:
        Its exact value; None if there is no number in the text.
    """
    numbers = _numbers(_plain(text))
    return numbers[-1].value if numbers else None


def parse_exact(text: str) -> Fraction | None:
    """The number that the whole text is, without a unit; None if there is anything else in it."""
    plain = _plain(text).strip()
    numbers = _numbers(plain)
    whole = len(numbers) == 1 and numbers[0].start == 0 and numbers[0].end == len(plain)
    return numbers[0].value if whole else None


def shown(value: Fraction) -> str:
    """A number as one writes it: `5`, `0.25`, `1/3`."""
    if value.denominator == 1:
        return str(value.numerator)
    if 10**12 % value.denominator == 0:
        return f"{float(value):.12f}".rstrip("0").rstrip(".")
    return str(value)


def pick_number(statement: str, question: str, *, surely: bool = False) -> str | None:
    """The number that a concluding statement gives as the answer.

    Args:
        statement: One or two sentences, markdown and LaTeX included.
        question: What was asked, for its unit and for the numbers that are given.
        surely: Nothing announced it, so that another number that fits nearly as well may be the answer, too.

    Returns:
        The number as `shown` writes it; None if there is none, or none surely.
    """
    asked = _UNIT.search(question.lower())
    unit = (asked[1] or asked[2] or "").removesuffix("s") if asked else ""
    main = _ASIDE.sub(" ", statement)
    main = main if _numbers(_plain(main)) else statement
    bold = " ; ".join(text for text in _BOLD.findall(main) if not text.endswith(":") and _numbers(_plain(text)))
    text = _plain(bold or main)
    compound = _COMPOUND.search(text)
    if compound and not re.search(rf"\d\s*{unit or '$'}", text.replace(compound[0], "")):
        return shown(_converted(compound, unit))
    numbers = _numbers(text)
    if not numbers:
        return None
    given = _plain(question)
    *others, (fit, place) = sorted((_fit(number, text, unit, given), at) for at, number in enumerate(numbers))
    best = numbers[place]
    before, after = text[: best.start], text[best.end :]
    if surely and _BOUND.search(before) and not _ASKS_FOR_A_BOUND.search(question):
        return None
    concludes = best is numbers[-1] and (_STATING.search(before) or _STATED.match(after))
    if any(_undecided(text, first, second) for first, second in pairwise(numbers) if best in (first, second)):
        return None
    rivals = (fit - other < _MARGIN and numbers[at].value != best.value for other, at in others)
    return None if surely and not concludes and any(rivals) else shown(best.value)


def _undecided(text: str, first: "_Number", second: "_Number") -> bool:
    """Return whether two numbers are alternatives, or the ends of a range."""
    between = text[first.end : second.start]
    if _RANGE.search(text[: first.start]):
        return _AND.fullmatch(between) is not None
    return _OR.fullmatch(between) is not None and first.value != second.value


def _converted(compound: re.Match[str], unit: str) -> Fraction:
    """`1 hour and 35 minutes` in the unit asked for, else in the smaller of its own."""
    larger, smaller = compound[2].lower(), compound[4].lower()
    seconds = int(compound[1]) * _TIME[larger] + int(compound[3]) * _TIME[smaller]
    return Fraction(seconds, _TIME[unit] if unit in _TIME else _TIME[smaller])


def _fit(number: "_Number", text: str, unit: str, given: str) -> float:
    before, after = text[: number.start][-40:], text[number.end :][:40]
    fit = 0.0
    if unit and re.match(rf"\W*(?:[a-z]+ )?{re.escape(unit)}", after, re.IGNORECASE):
        fit += 2
    if _RESULT.search(before) and not re.search(r"\d", text[number.end :]):
        fit += 3
    previous, following = re.search(r"(\w+)\W*$", before), re.match(r"\W*(\w+)", after)
    named = (
        previous and previous[1][0].isupper() and f"{previous[1]} {text[number.start : number.end].strip()}" in given
    )
    if named or (following and f"{text[number.start : number.end].strip()} {following[1]}" in given):
        fit -= 3
    if _GIVEN.search(before):
        fit -= 1
    if _OUT_OF.search(before):
        fit -= 3
    if _ROUGH.search(before):
        fit -= 3
    if re.match(r"\s*(?:=|[-+*/×÷]\s*[$\d(])", after):
        fit -= 4
    return fit


@dataclass(frozen=True)
class _Number:
    start: int
    end: int
    value: Fraction


def _plain(text: str) -> str:
    """LaTeX and markdown around numbers taken away."""
    text = _LATEX_TEXT.sub(
        r" \1 ", _ANNOTATION.sub("", text).replace("{,}", ",").replace("\\$", "$").replace("\\%", "%")
    )
    text = _LATEX_FRACTION.sub(lambda m: f"{m[1] + ' ' if m[1] else ''}{m[2]}/{m[3]}", _LATEX_SPACE.sub("", text))
    text = re.sub(r"\*\*|\$(?!\s?\d)|\\left|\\right|\\(?:approx|times|div|cdot)", " ", text)
    return _APOSTROPHE.sub("", text).replace("−", "-")


def _numbers(text: str) -> list[_Number]:
    found: list[_Number] = []
    for match in _NUMBER.finditer(text):
        if len(match[0]) > _MAX_CHARACTERS:
            continue
        value = _read(match["number"]) * Fraction(f"1{match['exponent'] or ''}")
        if match["below"]:
            if Fraction(match["below"]) == 0:
                continue
            value /= Fraction(match["below"])
        value = (value + int(match["mixed"] or 0)) * _SCALE.get(match["scale"] or "", 1)
        if found and match["sign"] is None and found[-1].end == match.start() and text[match.start() - 1] in "万億":
            value, start = found[-1].value + value, found.pop().start
        else:
            value, start = -value if (match["sign"] or "").strip() == "-" else value, match.start()
        found.append(_Number(start, match.end(), value))
    return found
