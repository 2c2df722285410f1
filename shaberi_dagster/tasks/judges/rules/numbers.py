"""Numbers as people write them: separators of several languages, scales, powers of ten, words, Kanji."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from shaberi_dagster.tasks.judges.rules.numerals import in_digits

RELATIVE_TOLERANCE = Fraction(1, 10**6)
"""Two numbers within this share of the greater are the same: rounding in the last printed digits."""

_LONGEST = 60
_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS = {word: value for value, word in enumerate(_SMALL.split())}
_WORDS |= {word: 10 * tens for tens, word in enumerate(_TENS.split(), 2)}
NUMBER_WORDS = {word: str(value) for word, value in _WORDS.items()}
"""Digits of the numbers that are one word, `zero` to `ninety`."""
_FACTORS = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_PARTS = {
    word: value
    for value, word in enumerate(
        ["half", "third", "quarter", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"], 2
    )
}
_PARTS |= {"halve": 2, "fourth": 4}
_PART = rf"(?:{'|'.join(_PARTS)})s?\b"
_WORD = rf"(?:{'|'.join(sorted((*_WORDS, *_FACTORS), key=len, reverse=True))})\b(?![\s-]+{_PART})"
_SHARE = rf"(an?(?=\s+(?:half|quarter)\b)|one|two|three|four|five|six|seven|eight|nine)[\s-]+({_PART})"
_IN_WORDS = re.compile(
    rf"(?:\b(?P<sign>minus|negative)\s+)?\b(?:(?P<halved>half\s+an?\s+)?(?:a\s+(?=dozen|hundred|thousand))?"
    rf"(?P<whole>{_WORD}(?:(?:[\s-]+|\s+and\s+){_WORD})*)(?:\s+and\s+{_SHARE})?|{_SHARE})",
    re.IGNORECASE,
)
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
SHARES = {"½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅛": "1/8"}
SHARES |= {"⅜": "3/8", "⅝": "5/8", "⅞": "7/8", "⅙": "1/6", "⅚": "5/6", "⅖": "2/5", "⅗": "3/5", "⅘": "4/5"}
_SCALES = {
    **dict.fromkeys(("thousand", "k", "K", "mil", "mille", "mila", "tausend", "тысяч", "тысячи", "ribu"), 10**3),
    **dict.fromkeys(("million", "millions", "M", "Mio", "Millionen", "millones", "millón", "milhões"), 10**6),
    **dict.fromkeys(("миллион", "миллиона", "миллионов", "milioni", "juta", "triệu"), 10**6),
    **dict.fromkeys(("billion", "billions", "bn", "B", "Milliarden", "milliards", "miliardi", "bilhões"), 10**9),
    **dict.fromkeys(("trillion", "trillions"), 10**12),
    "dozen": 12, "hundred": 100,
}  # fmt: skip
_MYRIADS = {"十": 10, "百": 100, "백": 100, "千": 1000, "천": 1000, "兆": 10**12}
_MYRIADS |= dict.fromkeys("万萬만", 10**4) | dict.fromkeys("億亿억", 10**8)
_PLACES = "十百千천백"
_LATEX_TEXT = re.compile(r"\\(?:text|mathrm|mathbf|mbox|textbf|bf|rm)\s*\{([^{}]*)\}")
_LATEX_FRACTION = re.compile(r"(?<!\d)(\d{1,20})?\s*\\[dt]?frac\s*\{?\s*(\d+)\s*\}?\s*\{?\s*(\d+)\s*\}?")
_DECIMAL = r"\d+(?:\.\d+)?"


@dataclass(frozen=True)
class Number:
    """A number in a text.

    Attributes:
        value: Its exact value.
        start: Where it begins, its sign and currency included.
        end: Where it ends.
    """

    value: Fraction
    start: int
    end: int


def shown(value: Fraction) -> str:
    """Return a number as one writes it: `5`, `0.25`, `1/3`."""
    if value.denominator == 1:
        return str(value.numerator)
    if 10**12 % value.denominator == 0:
        return f"{float(value):.12f}".rstrip("0").rstrip(".")
    return str(value)


def _separated(found: re.Match[str], *, comma: bool) -> str:
    """Digits with the separators of their language as Python writes them; unchanged if they are no number."""
    digits = re.sub(r"(?<=\d)[ '’](?=\d{3})", "", found[0])
    if re.fullmatch(r"\d+,\d{3}", digits) and comma:
        return digits.replace(",", ".")
    if re.fullmatch(r"\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?", digits):
        return digits.replace(",", "")
    thousands = r"\d{1,3}(?:\.\d{3})+" if comma else r"\d{1,3}(?:\.\d{3}){2,}"
    if re.fullmatch(rf"\d{{1,3}}(?:\.\d{{3}})+,\d+|{thousands}|\d+,\d+", digits):
        return digits.replace(".", "").replace(",", ".")
    return digits


def _in_myriads(found: re.Match[str]) -> str:
    """`3億5千万` and `1만 2천` as digits."""
    total = below = Fraction(0)
    for digits, place, myriad in re.findall(
        rf"({_DECIMAL})\s?([{_PLACES}]?)((?![{_PLACES}])[{''.join(_MYRIADS)}]?)", found[0]
    ):
        below += Fraction(digits) * _MYRIADS.get(place, 1)
        if myriad:
            total, below = total + below * _MYRIADS[myriad], Fraction(0)
    return shown(total + below)


def _raised(found: re.Match[str]) -> str:
    return f"^{found[0].translate(_RAISED)}"


def _scaled(found: re.Match[str]) -> str:
    return shown(Fraction(found[1]) * _SCALES[found[2] or found[3]])


def _to_the_power(found: re.Match[str]) -> str:
    return shown(Fraction(found[1]) * Fraction(10) ** int(found[2] or found[3]))


_TIMES_TEN = r"\s?(?:\\times|\\cdot|×|·|\*|x)\s?10\s?(?:\^|\*\*)\s?[{(]?"
_MYRIAD = rf"{_DECIMAL}\s?(?:[{_PLACES}]?[万億兆萬亿만억]|[{_PLACES}])"
_STEPS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"<<[^<>\n]*>>", ""),
    (r"\\(?:left|right|displaystyle|boxed)\b|\\[,!;: ]|~|\\q?quad\b|\*\*|`", ""),
    (r"\\([$%€£])", r"\1"),
    (f"[{''.join(SHARES)}]", lambda found: f" {SHARES[found[0]]}"),
    (r"[⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+", _raised),
    (r"[−–▲△](?=\s?[\d$€£¥.])", "-"),
    (r"(?<![\d.,])(\d+)([か-ヶ一-鿿]{1,3}?)(?<!時)半(?![一-鿿\d])", r"\1.5\2"),
    (rf"({_DECIMAL})(?:[eE]([-+]?\d{{1,3}})\b|{_TIMES_TEN}([-+]?\d{{1,3}})[)}}]?)", _to_the_power),
    (rf"(?:{_MYRIAD}\s?)+(?:\d+[{_PLACES}]?)?", lambda found: _in_myriads(found) + " " * found[0].endswith(" ")),
    (rf"({_DECIMAL})(?:(k|K|M|bn|B)|\s?({'|'.join(_SCALES)}))(?![^\W\d_])", _scaled),
)  # fmt: skip
_ENDLESS = re.compile(rf"[\d.,]{{{_LONGEST + 1},}}")
"""More digits than a number has that is read; what follows would take long over them."""
_COMPILED = [(re.compile(pattern), replacement) for pattern, replacement in _STEPS]
_DIGITS = re.compile(r"(?<![\d.,])\d{1,3}(?:[ '’]\d{3})+(?![\d])(?:[.,]\d+)?|\d[\d.,]*\d")
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.,^])(?P<sign>[-+]\s?)?(?:(?:US|A|C|R|HK|NT)?[$€£¥₩₹₽]\s?)?(?P<minus>-)?"
    rf"(?:(?P<mixed>\d+)\s+(?:and\s+)?(?=\d+/\d))?(?P<above>{_DECIMAL}|\.\d+)(?:\s?/\s?(?P<below>{_DECIMAL}))?"
    r"(?![\d_]|[.,]\d)"
)


@lru_cache(maxsize=256)
def in_plain_digits(text: str, *, comma: bool = False) -> str:
    """Return a text whose numbers are written as in Python, fractions as `3/4` or `1 1/2`.

    Args:
        text: Prose, LaTeX or both.
        comma: Its language writes decimals with a comma, so that `1.234` is a thousand.
    """
    text = _ENDLESS.sub("#", text)
    text = _LATEX_TEXT.sub(r" \1 ", text.replace("{,}", ","))
    text = _LATEX_FRACTION.sub(lambda found: f"{found[1] + ' ' if found[1] else ''}{found[2]}/{found[3]}", text)
    text = _DIGITS.sub(lambda found: _separated(found, comma=comma), in_digits(text))
    for pattern, replacement in _COMPILED:
        text = pattern.sub(replacement, text)
    return text


def numbers_in(text: str) -> list[Number]:
    """Return the numbers of a text from `in_plain_digits`."""
    found = []
    for match in _NUMBER.finditer(text):
        if len(match[0]) > _LONGEST:
            continue
        below = Fraction(match["below"] or 1)
        if below:
            value = int(match["mixed"] or 0) + Fraction(match["above"]) / below
            negative = "-" in (match["sign"] or "") + (match["minus"] or "")
            found.append(Number(-value if negative else value, match.start(), match.end()))
    return found


def words_as_digits(text: str) -> str:
    """Return a text with its English number words as digits: `twenty-one`, `half a dozen`, `three quarters`."""
    return _IN_WORDS.sub(_counted, text)


def _counted(found: re.Match[str]) -> str:
    total = group = 0
    for word in re.findall(r"[a-z]+", (found["whole"] or "").lower()):
        if word in _WORDS:
            group += _WORDS[word]
        elif word in {"dozen", "hundred"}:
            group = (group or 1) * _FACTORS[word]
        elif word in _FACTORS:
            total, group = total + (group or 1) * _FACTORS[word], 0
    value = Fraction(total + group, 2 if found["halved"] else 1)
    if part := (found[5] or found[7] or "").lower():
        value += Fraction(_WORDS.get((found[4] or found[6]).lower(), 1), _PARTS[part.removesuffix("s")])
    return shown(-value if found["sign"] else value)


def parse_number(text: str) -> Fraction | None:
    r"""Return the number that a text is, its unit aside; the last one of several.

    Args:
        text: Like `$1,234.50`, `3/4`, `1 1/2`, `25%` (25), `5 million`, `3万` or `\frac{3}{4}`.

    Returns:
        Its exact value; None if there is no number in the text.
    """
    numbers = numbers_in(in_plain_digits(text))
    return numbers[-1].value if numbers else None


def parse_exact(text: str) -> Fraction | None:
    """Return the number that the whole text is, without a unit; None if there is anything else in it."""
    plain = in_plain_digits(text).strip()
    numbers = numbers_in(plain)
    whole = len(numbers) == 1 and numbers[0].start == 0 and numbers[0].end == len(plain)
    return numbers[0].value if whole else None
