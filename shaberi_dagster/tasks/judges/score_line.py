"""The score in one line of a judge: a line is understood as a whole, or it has no score.

The phrases that hold numbers and are no score are read first, each is replaced by a letter of its kind: sums and
deductions (which must agree with the score), scales, counts of things, shares. Then one number must be left, at the
beginning or the end, and beside it only what may stand beside a score: the end of the line, a copula, a comment.
Further numbers may be corrections: there is no score, unless it is their sum or mean.

Every pattern is bounded, and so is the line: the time is linear.
"""

import re
import unicodedata
from dataclasses import dataclass, field
from functools import cache
from math import isclose
from statistics import fmean

_LONGEST = 2000
_USUAL_MAXIMA = (5, 10, 100)
_LEFT_AS_THEY_ARE = ("<super>", "<sub>", "<fraction>", "<circle>")  # `8²` is not 82
_UNUSUAL = re.compile("[^\n -~、。ぁ-ゖァ-ー一-鿿]")
_REST_OF_MARKUP = re.compile(r"</?score>|\\boxed|[*_`$\"'{}「」『』“”‘’\\]")
_BRACKETS = str.maketrans("[]【】", "()()")

# Text is in small letters by then: capitals stand for what has been read.
_NUMBER = r"(?<![0-9.])[0-9]{1,3}(?:\.[0-9]{1,20})?(?![.,:]?[0-9])"
_MARK = rf"(?:{_NUMBER})(?: ?(?:点|ポイント|(?:points?|pts?)(?![a-z])))?"
_DASH = "[-–—~〜]"
_TERM = rf"[^\W0-9]{{0,12}} ?{_MARK}(?: ?\([^()0-9]{{0,20}}\)| for [a-z ]{{2,20}}[a-z])?"
_SUM = rf"{_TERM}(?: ?[-–+] ?{_TERM}){{1,12}}"
_PLAIN_SUM = re.compile(rf"{_MARK}(?: ?[-–+] ?{_MARK}){{1,12}}")
_DIVIDED = rf"(?:\({_SUM}\)|{_SUM})(?: ?[/÷] ?{_NUMBER})?"
_EQUATION = re.compile(
    rf"(?P<sum>{_DIVIDED}) ?(?:[=→]|->) ?(?P<result>{_NUMBER})|(?P<first>{_NUMBER}) ?= ?(?P<then>{_DIVIDED})"
)
_OPERAND = re.compile(rf"(?P<sign>[-–+]?)[^0-9/÷+–-]*?(?P<divided>[/÷]?) ?(?P<number>{_NUMBER})")
_RANGE = (
    rf"(?<![-–+0-9.])(?<![-–+] )[01] ?点?(?: ?{_DASH} ?| ?から ?| (?:to|through) )"
    rf"(?P<top>{_NUMBER})(?! ?[-–+=]) ?点?(?:まで)?(?:の?{_NUMBER}段階)?(?:評価)?"
)
_SCALE = re.compile(
    rf"(?:on )?(?:a )?(?:scale[: ]{{1,2}})?(?:of |from )?{_RANGE}"
    rf"|(?:満点|最高点?|最大)[はが:= ]{{0,2}}(?P<named>{_NUMBER}) ?点?中?"
    rf"|max(?:imum)?(?: score)?(?: is| of|[:=])? ?(?P<most>{_NUMBER})"
    rf"|(?:(?:out )?of|on a scale of|/) ?(?:a (?:possible|max(?:imum)?|total)(?: of)? )?(?P<behind>{_NUMBER})"
    r" ?(?:点|points?)?(?:満点)?中?"
    rf"|(?:on )?(?:a )?(?P<before>{_NUMBER}) ?"
    r"(?:点?(?:満点中?|中)|段階(?:評価|中)?|点法|[- ]points? (?:scale|max(?:imum)?))"
)
_TAKEN_OFF = r"(?:を|の|分)?(?:の?減点|減|差?し?引|マイナス)[ぁ-ゖ]{0,4}"
_DEDUCTION = re.compile(
    rf"(?:(?P<base>{_NUMBER}) ?点?(?:満点)?から[^0-9()+A-Z]{{0,20}}?)?(?P<off>{_NUMBER}) ?点?{_TAKEN_OFF}"
    rf"|(?:減点|deduct(?:ed|ing)?|lo(?:st|sing)|less|docked|penalty)(?: of|[:は])? ?(?P<named>{_MARK})"
    rf"|(?P<worded>{_NUMBER})(?:[- ]points?)? (?:deduct(?:ed|ion)|off|lost|penalty)"
)
_SIGNED = re.compile(rf"(?<![^ (,、:;])[-–+] ?{_MARK}")
_SHARE = re.compile(rf"{_NUMBER} (?:out )?of (?:the |all )?{_NUMBER} (?!points?)[a-z][a-z-]{{2,20}}")
_COUNT = re.compile(
    rf"(?:第|(?<!\w)[a-z]|#){_NUMBER}|{_NUMBER}(?:つ|か所|[ァ-ヺ一-鿿](?<![点満ポ]))"
    rf"|{_NUMBER}(?!pts?|points?)[a-z][a-z0-9]*"
    rf"|{_NUMBER} (?:[a-z-]{{2,20}} ){{0,2}}(?!points|perhaps|always|besides)[a-z-]{{3,20}}(?<![sui])s(?![a-z])"
    r"|(?<![0-9.])1 (?!point|pt)(?:[a-z-]{2,20} )?[a-z]{4,20}(?= ?(?:$|[),.;]))"
    rf"|{_NUMBER} ?(?:%|パーセント|percent)|(?<![0-9.,])[0-9]{{4,}}(?![.,]?[0-9])"
    rf"|(?:confidence|[確自]信度)[:は= ]{{1,2}}{_NUMBER}|減点は?(?:なし|無し)"
)
_ENGLISH = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_WRITTEN = {word: str(number) for number, word in enumerate(_ENGLISH, 2)}
_WRITTEN |= {numeral: str(number) for number, numeral in enumerate("一二三四五六七八九十", 1)}
_WORD_NUMBER = re.compile(rf"(?<![a-z])(?:{'|'.join(_ENGLISH)})(?![a-z])|[一二三四五六七八九十](?=[点つ])")

_EDGE = r"[^\w<>≤≥≦≧≈≒?%=~〜+–-]"
_TOTAL = r"(?:総?合計点?|総計|計|総合(?:点|評価)?|得点|点数|total|score)[:はが= ]{0,2}"
_BEGINNING = re.compile(rf"(?:{_EDGE}|S)*(?:{_TOTAL})?")
_LEADING = re.compile(
    rf"(?:{_TOTAL}|[SDでのしてめらは、,:;。)→] ?|(?<![a-z])(?:so|is|gives|leaves|thus|therefore|hence) )$"
)
_COPULA = (
    r"(?:です|だ|で(?:ある|した)|(?:に|と)な(?:る|ります|った|りました)|と(?:する|します|した|しました)"
    r"|と評価(?:する|します|した|しました)?|を(?:付け|つけ|与え)(?:る|ます|た|ました)|が(?:妥当|適切)(?:です|だ|である)?)?"
)
_LONE_END = re.compile(rf"(?:{_EDGE}|S)*")
_COMMENT = re.compile(
    rf"[ )]*S?[ )]*{_COPULA}[ )]*(?:[(,、。;:|!SCD]|\.(?: |$)|(?:(?<=[ )])-|[–—]) ?\w"
    rf"|(?:because|due to|for|since|given|with) |{_EDGE}*$)"
)
_NAMES_SCALE = re.compile("[ ()]*S")


class _NotUnderstoodError(Exception):
    pass


def fold(text: str) -> str:
    """Return a text with full-width and other compatible characters as usual ones, and without invisible ones."""
    return _UNUSUAL.sub(lambda match: _folded(match[0]), text.replace("\r\n", "\n").replace("\r", "\n"))


@cache
def _folded(char: str) -> str:
    category = unicodedata.category(char)
    if char == "\t" or category == "Zs":
        return " "
    if category in {"Zl", "Zp"} or char in "\v\f\x85":
        return "\n"
    if category in {"Cf", "Cc"} or "\ufe00" <= char <= "\ufe0f":
        return ""
    if unicodedata.decomposition(char).startswith(_LEFT_AS_THEY_ARE):
        return char
    return "-" if char == "−" else unicodedata.normalize("NFKC", char)


def line_score(line: str, *, lone: bool = False) -> tuple[float, float | None] | None:
    """Read what stands behind the marker in a line.

    Args:
        line: Folded.
        lone: Whether a comment behind the score makes it none.

    Returns:
        The score, not negative, and the maximum that the line names for it; None without a score.
    """
    if len(line) > _LONGEST:
        return None
    try:
        return _Line().read(line, lone=lone)
    except _NotUnderstoodError:
        return None


@dataclass
class _Line:
    """Numbers that have been read out of a line.

    Attributes:
        maxima: Of its scales.
        sums: Results of its sums; each must be the score.
        changes: Its deductions, negative, and additions.
        base: What they are taken from.
    """

    maxima: list[float] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)
    base: float | None = None

    def read(self, line: str, *, lone: bool) -> tuple[float, float | None]:
        """See `line_score`."""
        text = _REST_OF_MARKUP.sub("", line.lower().translate(_BRACKETS))
        text = re.sub(rf"<({_NUMBER})>", r"(\1)", " ".join(text.split()))
        text = re.sub(r"\bminus\b", "-", _WORD_NUMBER.sub(lambda match: _WRITTEN[match[0]], text))
        text = _DEDUCTION.sub(self._deduction, _EQUATION.sub(self._equation, _SHARE.sub("C", text)))
        text = _PLAIN_SUM.sub(self._sum, _SCALE.sub(self._scale, text))
        text = _COUNT.sub("C", _SIGNED.sub(self._deduction, text))
        marks = list(re.finditer(_MARK, text))
        if not marks or re.search(r"\d", re.sub(_MARK, "", text)):
            raise _NotUnderstoodError
        begins = _BEGINNING.fullmatch(text, 0, marks[0].start()) is not None
        mark = marks[0 if begins else -1]
        before, after = text[: mark.start()], text[mark.end() :]
        is_led = begins or (re.search("[SCD]", before) and _LEADING.search(before))
        if not is_led or not (_LONE_END.fullmatch(after) or (not lone and _COMMENT.match(after))):
            raise _NotUnderstoodError
        score = _value(mark[0])
        self._check(score, [_value(other[0]) for other in marks if other is not mark])
        is_of_scale = self.maxima and ("S" in before or _NAMES_SCALE.match(after))
        return score, (self.maxima[0] if is_of_scale else None)

    def _check(self, score: float, others: list[float]) -> None:
        """Refuse a score that something else in the line contradicts."""
        wholes = (self.base,) if self.base is not None else (*_USUAL_MAXIMA, *self.maxima)
        agrees = (
            all(isclose(score, found) for found in self.sums)
            and (not self.changes or any(isclose(score, whole + sum(self.changes)) for whole in wholes))
            and (all(other == score for other in others) or any(isclose(score, of(others)) for of in (sum, fmean)))
        )
        if not agrees:
            raise _NotUnderstoodError

    def _equation(self, match: re.Match[str]) -> str:
        """Put the result in the place of an equation that holds."""
        result = match["result"] or match["first"]
        rounding = 0.51 * 10 ** -len(result.partition(".")[2]) if match["sum"] and "/" in match["sum"] else 0.0
        if not isclose(_result(match["sum"] or match["then"]), float(result), abs_tol=rounding):
            raise _NotUnderstoodError
        return result

    def _deduction(self, match: re.Match[str]) -> str:
        numbers = [float(number) for number in re.findall(_NUMBER, match[0])]
        if len(numbers) > 1:
            self.base = numbers[0]
        self.changes.append(numbers[-1] if "+" in match[0] else -numbers[-1])
        return "D"

    def _scale(self, match: re.Match[str]) -> str:
        self.maxima.append(next(float(top) for top in match.groupdict().values() if top))
        return "S"

    def _sum(self, match: re.Match[str]) -> str:
        self.sums.append(_result(match[0]))
        return "C"


def _value(mark: str) -> float:
    return float(re.findall(_NUMBER, mark)[0])


def _result(text: str) -> float:
    """Return the result of a sum, divided by a number where that stands behind it."""
    total = 0.0
    for operand in _OPERAND.finditer(text):
        number = float(operand["number"])
        if operand["divided"] and number:
            total /= number
        else:
            total += -number if operand["sign"] in {"-", "–"} else number
    return total
