r"""One spelling for all LaTeX that means the same: numbers, expressions, tuples, sets, intervals, matrices, equations.

Structure is read here; a single expression is parsed by latex2sympy2-extended and told from others by its value at
fixed points to `DIGITS` digits (identity testing after Schwartz and Zippel), never by `simplify`, whose time has no
bound. Neither signals nor processes are needed, so it works in threads; what could take long is refused before it is
parsed.
"""

import hashlib
import re
from functools import lru_cache
from typing import Any

from shaberi_dagster.tasks.judges.rules.numbers import RELATIVE_TOLERANCE, SHARES, parse_exact
from shaberi_dagster.tasks.judges.rules.text import squeezed

# A second of start-up that only mathematical answers need.

DIGITS = 12
"""Significant digits in which two values have to agree."""

_POINTS = (0, 1, -1)
"""The fixed points; symbols are negative at the last one, so that `\\sqrt{x^2}` is not `x`."""

MAX_CHARACTERS = 400
_MAX_POWER = 2_000
_MAX_DEPTH = 12
_HEAVY = re.compile(
    r"\\(?:sum|prod|int|oint|iint|lim|partial)\b|\\binom(?!\{\d{1,3}\}\{\d{1,3}\})"
    r"|\d{4,}\s*!|[^\w\s]\s*!|\w\s*!\s*!"  # factorials of more than three digits, or of something computed
    r"|\d{60,}|'"
)
_POWER = re.compile(r"[\d)}\]]\s*\^\s*\{?\s*\(?\s*[-+]?(\d+)")

_UNIT_NAMES = """
m meter meters metre metres; cm centimeter centimeters centimetre centimetres; mm millimeter millimeters; km kilometer
kilometers kilometre kilometres; in inch inches; ft foot feet; yd yard yards; mi mile miles; g gram grams; kg kilogram
kilograms; mg milligram milligrams; lb lbs pound pounds; oz ounce ounces; l liter liters litre litres; ml milliliter
milliliters; s sec secs second seconds; min mins minute minutes; h hr hrs hour hours; day days; week weeks;
month months; year years; degree degrees deg; radian radians rad; cent cents; dollar dollars usd; euro euros; yen; mph;
kph; percent; unit units; square; cubic; sq; cu; am a.m; pm p.m"""
UNITS = {name: group.split()[0] for group in _UNIT_NAMES.split(";") for name in group.split()}
"""Names of units and halves of the day, each with the one name for all of the same."""
_NO_DIMENSION = {"square", "cubic", "sq", "cu", "unit", "percent"}
_BASE_NAMES = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_BASES = {name: str(base) for base, name in enumerate(_BASE_NAMES, 2)} | {"sixteen": "16"}

_UNICODE = {
    "π": r"\pi ", "θ": r"\theta ", "∞": r"\infty ", "∪": r"\cup ", "∈": r"\in ", "≤": r"\le ", "≥": r"\ge ",
    "≠": r"\ne ", "≦": r"\le ", "≧": r"\ge ", "⩽": r"\le ", "⩾": r"\ge ",
    "±": r"\pm ", "×": r"\times ", "·": r"\cdot ", "−": "-", "–": "-", "°": r"^\circ ", "ℝ": r"\mathbb{R}",
}  # fmt: skip
_SMALL = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿˣ₀₁₂₃₄₅₆₇₈₉ₙ", "0123456789+-nx0123456789n")
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿˣ]+")
_SHARE = re.compile(f"[{''.join(SHARES)}]")
_LOWERED = re.compile("[₀₁₂₃₄₅₆₇₈₉ₙ]+")
_FUNCTION = re.compile(r"(?<![a-zA-Z\\])(log|ln|sin|cos|tan|exp|arcsin|arccos|arctan)(?=[\s_(\d{^])")
_LOGARITHM_OVER = re.compile(r"\\(ln|log)\s*(\d+(?:\.\d+)?|[a-z])\s*/")
_BRACED_SET = re.compile(r"^\s*\{([^{}]*,[^{}]*)\}\s*$")
_UNICODE_TABLE = str.maketrans(_UNICODE)
_DROPPED = re.compile(
    r"\\(?:left|right|displaystyle|textstyle|bigl?|bigr|Bigl?|Bigr|quad|qquad|limits|,|!|;|:| )(?![a-zA-Z])|\\[,!;: ]|~"
    r"|\^\s*\{?\s*\\circ\s*\}?|\\circ\b|\\degree\b|\\?%|\\\$|[$`]|\*\*|\{,\}(?=\D)"
)
_THOUSANDS = re.compile(r"(?<=\d)(?:,\\!\s*|\{,\}\s*|,(?=(?:\d{3}(?:,|\{,\}))*\d{3}(?![\d,])))(?=\d{3}(?!\d))")
_LATEX_THOUSANDS = re.compile(r"(?<=\d)(?:,\\!|\{,\})\s*(?=\d{3}(?!\d))")
_AND = re.compile(
    r"\\(?:text|mbox|mathrm)\s*\{\s*,?\s*(?:and|or)\s*\}|\s+(?:and|or|et|ou|und|oder)\s+|\\(?:lor|vee)\b|、|または"
)
_UNIT = re.compile(
    r"(?:(?<=[\d}) ])|(?<=\\pi))\s*\\(?:text|mbox|mathrm|textrm)\s*\{[^{}\d]*\^?[23]?\}(?:\s*\^\s*\{?\d\}?)?\s*$"
)
_PLAIN_UNIT = re.compile(r"(?:(?<=[\d}])|(?<=\\pi))\s+(?!pi\b|sqrt\b)[A-Za-z]{2,}[A-Za-z .]*(?:\^\{?\d\}?)?\s*$")
_TEXT = re.compile(r"\\(?:text|textbf|mbox|mathrm|mathbf|textit|boldsymbol|bf|rm)\s*\{([^{}]*)\}")
_WORDS = re.compile(r"[^\W\d_][^\W\d_ '-]{2,}(?:[ '-][^\W\d_]+)*")
_RECURRING = re.compile(r"(?<!\d)(\d*)\.(\d*)\\(?:overline|bar|dot)\s*\{?(\d+)\}?")
_DEGREES_IN_TRIGONOMETRY = re.compile(r"(\d+(?:\.\d+)?)\s*\^\s*\{?\s*\\circ\s*\}?")
_TRIGONOMETRIC = re.compile(r"\\?(?:sin|cos|tan|cot|sec|csc)(?![a-z])")
_ALTERNATIVE = re.compile(r"\\(?:text|mbox|mathrm)\s*\{\s*or\s*\}|\s+or\s+|\\(?:lor|vee)\b")
_FRENCH_INTERVAL = re.compile(r"^\s*([\[\]])([^\[\];]+);([^\[\];]+)([\[\]])\s*$")
_TIME = re.compile(r"\d{1,2}:[0-5]\d")
_PRODUCT = re.compile(r"(?<![A-Za-z\\])[A-Z]{2,}(?![A-Za-z])")
_EMPTY = re.compile(r"\\(?:emptyset|varnothing)\b|^\\\{\s*\\\}$|∅")
_NAMED = re.compile(r"\s*(?P<name>\\?[A-Za-z]+(?:_\{?\w+\}?)?)\s*=(?P<value>[^=]+)")
_BASE = re.compile(r"(-?[0-9A-F]+)\s*_\s*\{?\s*(\d+|\w+)\s*\}?$")
_MATRIX = re.compile(
    r"(?P<factor>[^=&]*?)(?:\\cdot|\\times)?\s*\\begin\{(?P<kind>[pbvBV]?matrix|array)\}(?:\{[^{}]*\})?(?P<body>.*)\\end\{(?P=kind)\}$",
    re.DOTALL,
)
_NAME = r"(?:\\?[A-Za-z]+(?:_\{?\w+\}?)?(?:\([A-Za-z]\))?|\|[A-Z]\||[A-Za-z]'?\([^()]*\))"
_ASSIGNED = re.compile(rf"^\s*{_NAME}\s*(?:=|\\in\b|:)\s*(?=\S)")
_INEQUALITY = re.compile(r"(<|>|\\leq?(?![a-z])|\\geq?(?![a-z])|\\leqslant|\\geqslant|\\lt|\\gt)")
_CAPITAL = re.compile(r"\\[a-zA-Z]+|[A-Z]")
_PERCENT = re.compile(r"%|\bpercent\b")
_LAYOUT = re.compile(r"\\(?:text|mbox|mathrm|textrm)\s*\{")
_OPENING, _CLOSING = "([{", ")]}"
_BARE_EXPONENT = re.compile(r"^(?:\\?\w\s*\^?)*")
_OPENING_EXPONENT = tuple(_OPENING)


def canonical(latex: str) -> str:
    r"""Return one spelling for everything that means the same as this LaTeX or plain text.

    Args:
        latex: An answer like `\frac{1}{2}`, `x = 5`, `(2, \infty)`, `\{1, 2\}`, `52_8`, `15\text{ cm}^2` or
            `\text{east}`.

    Returns:
        The spelling; of something that cannot be read, its text without spaces.
    """
    return _canonical(latex[:MAX_CHARACTERS])


@lru_cache(maxsize=4096)
def _canonical(latex: str) -> str:
    text = tidy(latex)
    word = _TEXT.sub(r"\1", text).strip(" .()")
    if re.fullmatch(r"[A-Z]", word) or (_WORDS.fullmatch(word) and word != "sqrt"):
        return f"text:{word.casefold()}"
    text = _TEXT.sub(r"\1", text).strip()
    if text.count("=") > 1 and len(_split(text, ",")) == 1:
        text = text.rpartition("=")[2]
    return _structure(_ASSIGNED.sub("", text))


def tidy(latex: str) -> str:
    """Return the text without layout, units, currency, degrees, percent signs and thousands separators."""
    text = raised(latex)
    text = _LOWERED.sub(lambda found: f"_{{{found[0].translate(_SMALL)}}}", text)
    text = _BRACED_SET.sub(r"\\{\1\\}", text).translate(_UNICODE_TABLE).replace(r"\\", r"\cr ")
    text = _RECURRING.sub(_fraction, text)
    if _TRIGONOMETRIC.search(text):
        text = _DEGREES_IN_TRIGONOMETRY.sub(r"(\\frac{\1\\pi}{180})", text)
    if _INEQUALITY.search(text):
        text = _ALTERNATIVE.sub(r" \\cup ", text)
    text = (_LATEX_THOUSANDS if re.search(r"[(\[]|\\\{", text) else _THOUSANDS).sub("", text)
    text = _DROPPED.sub(lambda dropped: " " if "quad" in dropped[0] else "", text)
    text = re.sub(r"\\[dtc]frac", r"\\frac", text).strip().rstrip(".;,。").strip()
    text = re.sub(
        r"(?<![a-zA-Z\\])sqrt\s*\(([^()]*)\)",
        r"\\sqrt{\1}",
        re.sub(r"√\s*(?:\(([^()]*)\)|(\w+))", r"\\sqrt{\1\2}", text),
    )
    text = re.sub(r"(?<![a-zA-Z\\])pi(?![a-zA-Z])", r"\\pi ", text)
    text = _LOGARITHM_OVER.sub(r"\\\1(\2)/", _FUNCTION.sub(r"\\\1", text))
    text = re.sub(r"(?<=\d)\s*\*\s*(?=[\d(\\])", r" \\cdot ", text)
    text = _FRENCH_INTERVAL.sub(_as_interval, _AND.sub(",", text))
    return _PLAIN_UNIT.sub("", _UNIT.sub("", text)).strip()


def raised(text: str) -> str:
    """Return the text with the small digits of Unicode as exponents, its fractions in digits."""
    text = _SHARE.sub(lambda found: f" {SHARES[found[0]]}", text)
    return _RAISED.sub(lambda found: re.sub(r"\{(.)\}", r"\1", f"^{{{found[0].translate(_SMALL)}}}"), text)


def _as_interval(french: re.Match[str]) -> str:
    """`]1; 2]` as `(1, 2]`."""
    opening, low, high, closing = french.groups()
    return f"{'(' if opening == ']' else '['}{low},{high}{')' if closing == '[' else ']'}"


def _fraction(recurring: re.Match[str]) -> str:
    """`0.1(6)` as the fraction that it is."""
    before, start, period = recurring.groups()
    whole = int(before + start + period or "0") - int(before + start or "0")
    return rf"\frac{{{whole}}}{{{(10 ** len(period) - 1) * 10 ** len(start)}}}"


def _structure(text: str) -> str:
    text = text.strip()
    if base := _BASE.fullmatch(text):
        named = _BASES.get(base[2], base[2])
        return base[1] if named == "10" else f"base:{base[1]}_{named}"
    if _EMPTY.fullmatch(text):
        return "{}"
    if text == r"\mathbb{R}":
        return "(-oo,oo)"
    if matrix := _MATRIX.fullmatch(text):
        return _matrix(matrix["body"], matrix["factor"].strip())
    unions = _split(text, r"\cup")
    if len(unions) > 1:
        return "|".join(sorted(_structure(part) for part in unions))
    return _group_of_values(text) or _relation(text) or _value(text)


def _group_of_values(text: str) -> str | None:
    """Return a set, a tuple or an interval; None if the text is one value."""
    if text.startswith(r"\{") and text.endswith(r"\}"):
        return _collection(_split(text[2:-2], ","))
    if text.startswith(r"\langle") and text.endswith(r"\rangle"):
        return _sequence(_split(text.removeprefix(r"\langle").removesuffix(r"\rangle"), ","))
    if text[:1] in tuple("([") and text[-1] in ")]" and _is_one_group(text):
        inside = _split(text[1:-1], ";" if ";" in text else ",")
        if len(inside) > 1:
            return _sequence(inside, text[0], text[-1])
    members = _split(text, ",")
    return _collection(members) if len(members) > 1 or r"\pm" in text else None


def _relation(text: str) -> str | None:
    """Return an inequality or an equation; None if the text is neither."""
    if _INEQUALITY.search(text):
        return _interval(text) or squeezed(text)
    return _equation(text) if text.count("=") == 1 else None


def _matrix(body: str, factor: str) -> str:
    cells = [[cell.strip() for cell in row.split("&")] for row in body.split(r"\cr") if row.strip()]
    factor = "-1" if factor == "-" else factor
    rows = [[_structure(rf"({factor})\cdot({cell})" if factor else cell) for cell in row] for row in cells]
    if all(len(row) == 1 for row in rows):
        return f"({','.join(row[0] for row in rows)})"
    return f"matrix:{';'.join(','.join(row) for row in rows)}"


def _sequence(members: list[str], opening: str = "(", closing: str = ")") -> str:
    return f"{opening}{','.join(_structure(member) for member in members)}{closing}"


def _collection(members: list[str]) -> str:
    """Return several values in any order, `±` being two of them."""
    each = [signed for member in members for signed in _signs(_ASSIGNED.sub("", member))]
    return f"{{{','.join(sorted({_structure(member) for member in each if member.strip()}))}}}"


def _signs(member: str) -> list[str]:
    return [member.replace(r"\pm", sign) for sign in "+-"] if r"\pm" in member else [member]


def _interval(text: str) -> str | None:
    r"""`a < x \le b` or `x > a` as an interval."""
    parts = [part.strip() for part in _INEQUALITY.split(text)]
    terms, signs = parts[::2], parts[1::2]
    if len(signs) > 2 or not all(terms):  # noqa: PLR2004 - a chain of three terms at most
        return None
    if len(signs) == 1:
        left, right = terms
        if re.fullmatch(_NAME, right) and not re.fullmatch(_NAME, left):
            left, right, signs = (
                right,
                left,
                [signs[0].translate(str.maketrans("<>", "><"))] if signs[0] in "<>" else [_flipped(signs[0])],
            )
        if not re.fullmatch(_NAME, left):
            return None
        closed = "e" in signs[0]
        above = signs[0] in (">", r"\gt") or signs[0].startswith(r"\g")
        return (
            f"{'[' if closed else '('}{_structure(right)},oo)"
            if above
            else f"(-oo,{_structure(right)}{']' if closed else ')'}"
        )
    low, name, high = terms
    if not re.fullmatch(_NAME, name) or any(sign == ">" or sign.startswith(r"\g") for sign in signs):
        return None
    return f"{'[' if 'e' in signs[0] else '('}{_structure(low)},{_structure(high)}{']' if 'e' in signs[1] else ')'}"


def _flipped(sign: str) -> str:
    return sign.replace("l", "\0").replace("g", "l").replace("\0", "g")


def _equation(text: str) -> str:
    """Return an equation by the zeros of its difference: the values at the fixed points, up to a common factor."""
    left, _, right = text.partition("=")
    values = _values(f"({left})-({right})")
    if values is None or not values[0]:
        return squeezed(text)
    return f"equation:{[_rounded(value / values[0]) for value in values]}"


def _value(text: str) -> str:
    if _TIME.fullmatch(text):
        return f"time:{text.lstrip('0')}"
    if re.fullmatch(r"[+-]?\s*\\infty\s*", text):
        return "-oo" if "-" in text else "oo"
    exact = parse_exact(text)
    if exact is not None:
        return str(exact)
    values = _values(text)
    if values and getattr(values[0], "is_Rational", False):
        return str(values[0])
    return squeezed(text) if values is None else f"value:{[_rounded(value) for value in values]}"


def _values(text: str) -> list[Any] | None:
    """Return the values of an expression where its symbols have fixed values; None if it cannot be read."""
    import latex2sympy2_extended
    import sympy
    from latex2sympy2_extended import latex2sympy2

    if _HEAVY.search(text) or _power(text) > _MAX_POWER or _is_tower(text) or _depth(text) > _MAX_DEPTH:
        return None
    try:
        expression = latex2sympy2_extended.latex2sympy(
            text,
            is_real=False,
            normalization_config=latex2sympy2_extended.NormalizationConfig(malformed_operators=True),
            conversion_config=latex2sympy2.ConversionConfig(lowercase_symbols=False),
        )
        values = []
        for point in _POINTS:
            at = {symbol: _at(symbol.name, point) for symbol in expression.free_symbols}
            value = expression.subs(at).doit()
            value = value if value.is_Rational and not at else value.evalf(30)
            if value.has(sympy.nan, sympy.zoo) or not all(part.is_Number for part in value.as_real_imag()):
                return None
            values.append(value)
            if not at:
                break
    except Exception:  # noqa: BLE001 - the parser raises whatever it likes on text that is no LaTeX
        return None
    return values


def _at(name: str, point: int) -> Any:
    """Return the value of a symbol at one of the fixed points; `i` and `e` are the constants."""
    import sympy

    if name in ("i", "e"):
        return sympy.I if name == "i" else sympy.E
    digest = hashlib.sha256(f"{name}/{point}".encode()).digest()
    value = sympy.Rational(int.from_bytes(digest[:4], "big"), 2**32) + 1
    return value if point >= 0 else -value


def _rounded(value: Any) -> str:
    real, imaginary = value.as_real_imag()
    return f"{_digits(real)}{'' if abs(imaginary) < 10**-DIGITS else f'+{_digits(imaginary)}i'}"


def _digits(value: Any) -> str:
    return "0" if abs(value) < 10**-DIGITS else str(value.evalf(DIGITS))


def _depth(text: str) -> int:
    """Return how deep the brackets are nested, or more than allowed if one stays open."""
    depth = deepest = 0
    for character in text:
        depth += (character in _OPENING) - (character in _CLOSING)
        deepest = max(deepest, depth)
    return deepest if depth == 0 else _MAX_DEPTH + 1


def _power(text: str) -> int:
    product = 1
    for power in _POWER.findall(text):
        product *= max(int(power[:6]), 1)
    return product


def _is_tower(text: str) -> bool:
    """Return whether an exponent has an exponent that may make a number of millions of digits."""
    for start in re.finditer(r"\^\s*", text):
        rest = text[start.end() :]
        exponent = _group(rest) if rest.startswith(_OPENING_EXPONENT) else _BARE_EXPONENT.findall(rest)[0]
        inner = re.findall(r"\^\s*\{?\s*(\w*)", exponent)
        if inner and (len(inner) > 1 or not re.search("[a-z]", exponent) or len(inner[0]) > 1):
            return True
    return False


def _group(text: str) -> str:
    """Return a bracketed group at the beginning of a text, to its end."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character in _OPENING) - (character in _CLOSING)
        if depth == 0:
            return text[: at + 1]
    return text


def _split(text: str, separator: str) -> list[str]:
    """Return the parts between separators that stand in no brackets."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(text):
        if text[at] in _OPENING:
            depth += 1
        elif text[at] in _CLOSING:
            depth -= 1
        elif depth == 0 and text.startswith(separator, at):
            parts.append(text[start:at])
            start = at + len(separator)
        at += 1
    return [*parts, text[start:]]


def _is_one_group(text: str) -> bool:
    """Return if the first bracket closes at the end; which kind of bracket does not matter, for half-open intervals."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character in _OPENING) - (character in _CLOSING)
        if depth == 0:
            return at == len(text) - 1
    return False


def equation(latex: str) -> str | None:
    """Return the spelling of an equation as a whole, its sides moved to one; None otherwise."""
    text = tidy(latex[:MAX_CHARACTERS])
    return _equation(text) if text.count("=") == 1 and not _INEQUALITY.search(text) else None


def balanced(text: str) -> bool:
    """Return whether every brace is closed; brackets need not be, for half-open intervals are written with them."""
    depth = 0
    for brace in re.findall(r"(?<!\\)(?:\\\\)*([{}])", text):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def nearly_same(first: str, second: str) -> bool:
    """Return if both are the same where symbols are positive, factors commute, case is aside, `4:30` is a ratio."""
    lowered = (
        _CAPITAL.sub(lambda found: found[0] if found[0][0] == "\\" else found[0].lower(), text).replace(":", "/")
        for text in (first, second)
    )
    a, b = (re.sub(r", '[^']*'\]", "]", canonical(text)) for text in lowered)
    return a == b


def conflicting(first: str, second: str) -> bool:
    """Return if both name a unit, a half of the day or a variable, or factors in an order, and not the same one."""
    if _PRODUCT.findall(first) != _PRODUCT.findall(second) and squeezed(first) != squeezed(second):
        return True
    ours, theirs = _unit(first), _unit(second)
    if ours and theirs and ours != theirs:
        return True
    a, b = _named_values(first), _named_values(second)
    return bool(a and b and a != b)


def _unit(text: str) -> frozenset[str]:
    """Return the units that a quantity has, under their one name each."""
    text = text.replace("°", r"^\circ")
    if r"\circ" in text or r"\degree" in text:
        return frozenset({"degree"})
    stated = _UNIT.search(text.strip(" .$")) or _PLAIN_UNIT.search(text.strip(" .$"))
    if stated is None:
        return frozenset()
    names = (name.rstrip(".") for name in re.findall(r"[a-z.]+", _LAYOUT.sub(" ", stated[0]).lower()))
    return frozenset(UNITS[name] for name in names if name in UNITS) - _NO_DIMENSION


def _named_values(text: str) -> dict[str, str]:
    """Values by the names of their variables; empty unless each is named, and no two alike."""
    members = [_NAMED.fullmatch(member) for member in _split(tidy(text[:MAX_CHARACTERS]), ",")]
    found = {member["name"]: _structure(member["value"]) for member in members if member}
    return found if len(found) == len(members) else {}


def same_share(first: str, second: str) -> bool:
    """Return whether one is a percentage and the other the same share as a number; `50%` is 0.5 as well as 50."""
    ours, theirs = (_PERCENT.search(text) is not None for text in (first, second))
    if ours == theirs:
        return False
    share, number = (first, second) if ours else (second, first)
    a, b = _first_value(share), _first_value(number)
    return a is not None and b is not None and bool(abs(a - 100 * b) <= RELATIVE_TOLERANCE * max(abs(a), abs(b)))


def same_angle(first: str, second: str) -> bool:
    r"""Return whether one is in degrees and the other the same angle as a multiple of `\pi`."""
    ours, theirs = ("degree" in _unit(text) for text in (first, second))
    if ours == theirs:
        return False
    degrees, radians = (first, second) if ours else (second, first)
    return r"\pi" in tidy(radians) and canonical(rf"({tidy(degrees)})\cdot\pi/180") == canonical(radians)


def same_decimal(first: str, second: str) -> bool:
    """Return whether two values agree to six digits where one is written as a decimal."""
    if not any(re.search(r"\d\.\d", text) for text in (first, second)):
        return False
    a, b = (_first_value(text) for text in (first, second))
    if a is None or b is None:
        return False
    return bool(abs(a - b) <= RELATIVE_TOLERANCE * max(abs(a), abs(b)))


def _first_value(latex: str) -> Any | None:
    values = _values(_ASSIGNED.sub("", tidy(latex[:MAX_CHARACTERS])))
    return values[0] if values else None
