"""Numbers of Japanese texts as digits: `百二十`, `二分の一`, `三点五`, `マイナス三`."""

import re

_NINE = "一二三四五六七八九"
_DIGITS = {digit: str(value) for value, digit in enumerate("〇" + _NINE)} | {"零": "0"}
_UNITS = {"十": 10, "百": 100, "千": 1000}
_MYRIADS = {"万": 10**4, "億": 10**8, "兆": 10**12}
_SIGNS = "".join((*_DIGITS, *_UNITS, *_MYRIADS))

_SECTION = rf"(?=[{_NINE}十百千])(?:[{_NINE}]?千)?(?:[{_NINE}]?百)?(?:[{_NINE}]?十)?[{_NINE}]?"
_PLACE = f"[{''.join(_DIGITS)}]"
_BY_DIGIT = rf"[{_NINE}]+[〇零]{_PLACE}*"
_BEGINS = rf"(?:(?<![第{_SIGNS}\d])|(?<=\d[万億]))"
_NUMERAL = rf"{_BEGINS}(?:{_BY_DIGIT}|(?:{_SECTION}[兆億万]){{1,3}}(?:{_SECTION})?|{_SECTION}|(?<=は)〇|零)"
_COUNTER = (
    "(?:個|人|本|枚|円|匹|冊|回|台|頭|羽|杯|箱|袋|組|通り|点|度|分|秒|時間|日|週|年|歳|[かヶカ]?月|倍|割|つ"
    "|パーセント|メートル|キロ|センチ|グラム|リットル|ドル)"
)
_FRACTION = re.compile(rf"(?:({_NUMERAL})と)?({_NUMERAL}|(?<![\d.])\d+)分の({_NUMERAL}|\d+)")
_DECIMAL = re.compile(rf"({_NUMERAL})(?:点(?={_PLACE})|・(?={_PLACE}{{2}}))({_PLACE}+)")
_OF_SEVERAL_SIGNS = re.compile(rf"({_NUMERAL})(?<=[{_SIGNS}]{{2}})(?={_COUNTER}|[^一-鿿〇]|\Z)")
_STATED = re.compile(
    rf"(?:(?<=[はが:=】」*$\s])|(?<=マイナス)|\A)(?!十分)({_NUMERAL})"
    rf"(?={_COUNTER}?(?:です|である|だ。|とな|にな|[。.*」$)\n]|\Z))"
)
_MINUS = re.compile(r"マイナス\s?(?=[\d.])")


def in_digits(text: str) -> str:
    """The text with its Kanji numerals as digits, fractions as `1/2` and a minus in words as its sign.

    A numeral of several signs is one wherever a counter or no Kanji follows it. One sign alone, which is part of many
    words (`一部`, `三角形`), is one only where it is all that is stated: `答えは三です`. Ordinals (`第三十回`) and
    names (`五十嵐`) are no numbers.
    """
    if text.isascii():
        return text
    text = _FRACTION.sub(_as_fraction, text)
    text = _DECIMAL.sub(lambda found: f"{_value(found[1])}.{_digits(found[2])}", text)
    for pattern in (_OF_SEVERAL_SIGNS, _STATED):
        text = pattern.sub(lambda found: str(_value(found[1])), text)
    return _MINUS.sub("-", text)


def _as_fraction(found: re.Match[str]) -> str:
    whole, below, above = found.groups()
    return f"{_value(whole)} {_value(above)}/{_value(below)}" if whole else f"{_value(above)}/{_value(below)}"


def _digits(numeral: str) -> str:
    return "".join(_DIGITS[sign] for sign in numeral)


def _value(numeral: str) -> int:
    if numeral.isascii():
        return int(numeral)
    if all(sign in _DIGITS for sign in numeral):
        return int(_digits(numeral))
    total = section = digit = 0
    for sign in numeral:
        if sign in _DIGITS:
            digit = int(_DIGITS[sign])
        elif sign in _UNITS:
            section, digit = section + (digit or 1) * _UNITS[sign], 0
        else:
            total, section, digit = total + (section + digit) * _MYRIADS[sign], 0, 0
    return total + section + digit
