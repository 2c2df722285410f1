"""The grader of mathematical answers: numbers, expressions, tuples, sets, intervals, matrices, words, in LaTeX."""

import re
from collections import Counter
from dataclasses import dataclass

from shaberi_dagster.judges.rules.announced import CHECKS, announcements, in_force, plain, taken_back
from shaberi_dagster.judges.rules.base import GradedQuestion, Grader, Verdict
from shaberi_dagster.judges.rules.latex import (
    MAX_CHARACTERS,
    UNITS,
    balanced,
    canonical,
    conflicting,
    equation,
    same_angle,
    same_decimal,
    same_share,
    tidy,
)
from shaberi_dagster.judges.rules.numerals import in_digits
from shaberi_dagster.judges.rules.statements import asked_symbols, statements, states_nothing
from shaberi_dagster.judges.rules.text import boxed, breaks_off, own_part, readable, squeezed

_NUMBER = r"-?\$?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:/\d+)?"
_WORD = r"(?<=only )(?:one|two|three|four|five|six)|(?<=exactly )(?:one|two|three|four|five|six)"
_SPAN = re.compile(
    r"\$\$(?P<display>.+?)\$\$|\\\((?P<inline>.+?)\\\)|\$(?P<dollar>[^$\n]+?)\$(?!\d)"
    rf"|(?<![\w.^/\\])(?P<number>{_NUMBER})(?![\w/]|\.\d|,\d|-\w)|(?P<word>{_WORD})|(?P<bold>\*\*[^*\n]+?\*\*)",
    re.DOTALL,
)
_DELIMITED = re.compile(r"\$\$(.+?)\$\$|\\\[(.+?)\\\]|\\\((.+?)\\\)|(?<!\\)\$((?:\\\$|[^$])+?)(?<!\\)\$", re.DOTALL)
_JOINS = re.compile(r"\s*(?:[,;、]|,?\s*(?:and|or|と|または))\s*")
_UNIT_AFTER = re.compile(
    rf"\s+((?:(?:square|cubic|sq|cu)\.? )?(?:{'|'.join(sorted(UNITS, key=len, reverse=True))})"
    r"(?:\^?[23]|[²³])?)(?!\w)"
)
_ENDS = re.compile(r"\s*(?:$|[.。,;!?)]|\(|です|である|と|に|個|人|本|[a-z]+(?:\W|$))")
_LEAD_IN = re.compile(r"(?:so|thus|therefore|hence|then|and|simply)\b[,:]?\s*(?:that\s)?", re.IGNORECASE)
_STATING = re.compile(
    r"(?:\b(?:is|are|equals|be|was)\b|[=:]|は)\s*(?:(?:therefore|thus|simply|exactly|equal to|only)\s)?"
)
_SENTENCE_END = re.compile(r"(?:[.。]|(?<!\\)!)\s|。")
_COUNTED = re.compile(r"(-?\d[\d,]*(?:\.\d+)?)\s*[぀-ヿ一-鿿]{1,4}")
_COPULA = re.compile(r"(?:です|である|とな(?:る|ります))$")
_OPENS_DISPLAY = re.compile(r"\$\$|\\\[")
_EXPLAINS = re.compile(
    r"\W*(?:explanation|reason\w*|because|here|since|justification|work|details|説明|理由)\b", re.IGNORECASE
)
_ASIDE = re.compile(
    r"(?:[.。]|(?<!\\)!)\s|;\s|\n|,?\s+(?:because|since|which|as|so|where|when|if|by|using|for|with|that is|i\.e\.)\s"
    r"|\s\((?=[a-zA-Z]{2})|です|となります"
)
_COMMAND = re.compile(
    r"\\(?:begin|end)\s*\{\w+\}|\\(?:text|mbox|mathrm|textbf|mathbf|operatorname)\s*\{[^{}]*\}|\\[a-zA-Z]+"
)
_PLAIN_WORD = re.compile(r"(?<![a-zA-Z])[a-zA-Z]{2,}|[぀-ヿ一-鿿]+")
_FUNCTIONS = frozenset(
    re.findall(r"\w+", "sin cos tan cot sec csc arcsin arccos arctan log ln exp sqrt pi and or infinity inf")
)
_NAMED = re.compile(r"(?!\w+(?:ed|ing|ly)\b)\(?[A-Za-z][A-Za-z'-]*\)?(?: [A-Za-z][A-Za-z'-]*){0,2}")
_BARE_LATEX = re.compile(r"\\(?:[dt]?frac|sqrt|pi|begin|left|cdot|times|infty)\b|[\w)]\^\{?[\d({-]")
_ONE_ROW = re.compile(r"\\begin\{((?:align|equation|gather)\*?)\}((?:(?!\\\\|&|\\end)[\s\S]){1,2000})\\end\{\1\}")
_INNER_ENVIRONMENT = re.compile(r"\\(begin|end)\{(?:split|gathered|multlined)\}")
_OUTER_ENVIRONMENT = re.compile(r"\\(begin|end)\{(?:eqnarray|multline|flalign)\*?\}")
_NUMBERING = re.compile(r"\\(?:tag\*?|label)\s*\{[^{}]*\}|\\(?:notag|nonumber)\b")
_ALIGNED = re.compile(r"\\begin\{(align|equation|gather)(\*?)\}.+?\\end\{\1\2\}")
_CUT_BEFORE = re.compile(r"(?:[{^_√|]|\\[a-zA-Z]+|[(\[][^()\[\]a-zA-Z]*,)\s*$")
_CUT_AFTER = re.compile(r"\s*(?:[}^_|√!π]|\\[a-zA-Z]+|,[^()\[\]]*[)\]])")
_LIST_MARK = re.compile(r"^\s*(?:#+\s*)?(?:\d+\.|[*-])\s+", re.MULTILINE)
_CURRENCY = re.compile(
    r"(?<!\$)\\?\$(?=\d[\d,.]*(?:[\s.;)*]|$)[^$\n]{0,80}"
    r"(?:\$\d|(?<![\\a-z])[a-z]{3,} [^$\n]{0,80}\$|$|\n)|\d[\d,.]*\*\*)",
    re.MULTILINE,
)
_TEXT = re.compile(r"\\(?:text|mbox|mathrm|textbf|mathbf|operatorname)\s*\{[^{}]*\}")
_LETTERS = re.compile(r"\\(?:text|mbox|mathrm|textbf|operatorname)\s*\{[^{}]*\}")
_PROSE = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{3,}\s+[a-zA-Z]{2,}")
_LABEL = re.compile(r"\\(?:text|mbox|mathrm)\s*\{\s*[a-zA-Z]+ [a-zA-Z]+ [a-zA-Z]+")
_SAID_WITHIN = re.compile(r"^\\(?:text|mbox|mathrm)\s*\{[^{}]*\b(?:is|are|equals|be):?\s*\}\s*")
_ARITHMETIC = re.compile(
    r"\d\s*(?:\\times|\\cdot|\\div|×|\+|-|\*)\s*\d+(?!\s*(?:[a-zA-Z\d.]|\\(?:pi|sqrt|frac|theta)))|\)\s*\("
)
_ARROW = re.compile(r"\\(?:implies|Rightarrow|rightarrow|to|therefore|Longrightarrow)\b|⇒|→|=>")
_ABOUT = re.compile(r"\\approx|≈|\\pmod|\\bmod|\(\\?mod")
_EQUALS = re.compile(r"(?<![<>!\\])=(?!=)|\\equiv\b|≡")
_ENUMERATION = 5
"""A sentence with more expressions than this lists values."""
_FORMS = (
    (re.compile(r"complex number\?|complex number\.$"), re.compile("i")),
    (re.compile(r"matrix\}.*\b(?:compute|find|evaluate)\b", re.IGNORECASE | re.DOTALL), re.compile(r"\\begin|\d")),
    (re.compile(r"common fraction|\bprobability\b", re.IGNORECASE), re.compile(r"frac|/|\d\.\d")),
    (
        re.compile(r"ordered (?:pair|triple)|in the form \$\(|coordinates of|interval notation", re.IGNORECASE),
        re.compile(r"[(\[]"),
    ),
    (re.compile(r"\bhow many\b", re.IGNORECASE), re.compile(r"^[^a-zA-Z,]*$|^\d{1,3}(?:,\d{3})+$|\\text|\\frac")),
    (re.compile(r"(?:in|as an?) base\b|base-\w+ (?:number|representation)", re.IGNORECASE), re.compile("_")),
)
"""What a question's words want to see in its answer."""
_LONG_CHAIN = 3
_IS_SAID = r"\$?\s*(?:is|=|equals)(?:\s*(?:therefore|thus|simply|exactly))?\W*$"
_NUMBER_ONLY = re.compile(_NUMBER)
_POSSIBLE = -1.0
"""A sentence all of whose expressions fit less holds no answer."""
_NEAR_THE_BEST = 6
_MOST_REPEATS = 4
_MOST_BOLD_WORDS = 3
_LONGEST_NAME = 2
_SHORTEST_RELATION = 4
_GIVEN_FORM = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z](?![a-zA-Z])|!|\(")
_IS_ATTAINED = re.compile(r"\s*is (?:achieved|attained|obtained|reached)\b", re.IGNORECASE)
_OF_ANOTHER = re.compile(r"\s*of (?:the|its|all)\b", re.IGNORECASE)
_INEQUALITY = re.compile(r"[<>]|\\[lg]eq?\b")
_UNIT = re.compile(r"how many (?:[a-z]+ly )?(?:more |fewer |different |distinct )?([a-z]{3,})", re.IGNORECASE)
_NAME_ONLY = re.compile(r"(?!\\pi$)(?:\\?[a-zA-Z]{1,2}|\|?\\?[a-zA-Z]+\|?|\\(?:angle|triangle|overline)\W*\w+\W*)")
_WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_GIVEN = re.compile(
    r"\b(?:when|if|for|from|since|where|at|with|than|as|because|substitut\w+|of)\s*(?:the \w+ |\w+ )?$", re.IGNORECASE
)
_STATES = re.compile(
    r"(?:\b(?:is|are|be|equals?|was|get|have|obtain(?:ed)?|only|exactly|so|hence|thus|therefore)|[=:は])"
    r"\s*(?:about |approximately |simply |therefore |exactly |only )*\**\s*$",
    re.IGNORECASE,
)
_SAID = re.compile(r"(?:\bis|\bare|:|は)\s+(?:the |an? )?(\w+)(?: function| shape)?\W*$", re.IGNORECASE)


class MathGrader(Grader):
    r"""A mathematical answer: boxed, announced, alone, or in the concluding sentence; compared by meaning.

    What is announced counts only as a whole: a number that is a part of a longer expression is no answer. Of a chain of
    equations the last side counts. In prose, expressions that are in the question already, and those after "when" or
    "for", are not the answer if the sentence has another.
    """

    name = "rule:math"
    version = 4

    def extract(self, answer: str, item: GradedQuestion) -> str | None:
        """The final answer as it is said; None if there is none that is clear."""
        text = _ONE_ROW.sub(r"$$\2$$", _aligned(in_force(in_digits(own_part(readable(answer))))))
        said = _last_boxes(text) or next(filter(None, map(read, announcements(text))), None)
        if said := said or _alone(text):
            return said
        if breaks_off(text):
            return None
        said = _closing(text)
        if not said and _BARE_LATEX.search(_DELIMITED.sub("$", _ALIGNED.sub("$", text.rpartition("\n")[2]))):
            return None
        said = said or _in_prose(text, item)
        above = _above_its_work(text, item)
        return said if said is None or above is None or self.same(above, said) else None

    def canonical(self, extracted: str) -> str:
        """Give all that mean the same one spelling."""
        return canonical(extracted)

    def grade(self, answer: str, item: GradedQuestion) -> Verdict:
        """Right or wrong; an abstention where words stand against a value, which only a reader can compare."""
        verdict = super().grade(answer, item)
        if verdict.correct is False and verdict.extracted is not None:
            kinds = {self.canonical(text).startswith("text:") for text in (verdict.extracted, item.reference)}
            if len(kinds) > 1:
                return Verdict(None, verdict.extracted, "words where a value is the reference, or the other way")
        return verdict

    def same(self, first: str, second: str) -> bool:
        """Return whether two extractions mean the same."""
        if conflicting(first, second):
            return False
        a, b = canonical(first), canonical(second)
        if a == b or _differ_in_base_only(a, b):
            return True
        if equation(first) == equation(second) is not None:
            return True
        return any(agree(first, second) for agree in (same_decimal, same_share, same_angle))


def _aligned(text: str) -> str:
    """The text with `aligned` and `align` for all environments of several rows, and without numbers of equations."""
    text = _OUTER_ENVIRONMENT.sub(r"\\\1{align*}", _INNER_ENVIRONMENT.sub(r"\\\1{aligned}", text))
    return re.sub(r"&\s*=\s*&", "&=", _NUMBERING.sub("", text))


def _in_prose(text: str, item: GradedQuestion) -> str | None:
    """The expression of the sentence that looks most like a conclusion."""
    asked = _Asked.of(item.text)
    parts: dict[str, list[_Candidate]] = {}

    def holds_answer(sentence: str) -> bool:
        parts[sentence] = _candidates(sentence, asked)
        return any(candidate.fit > _POSSIBLE for candidate in parts[sentence])

    ranked = statements(text, item.text, holds_answer) or statements(text, item.text, lambda part: bool(parts[part]))
    if ranked and states_nothing(ranked[0].text):
        return None
    candidates = [
        (statement.weight + candidate.fit, -rank, candidate.place, candidate.expression)
        for rank, statement in enumerate(ranked)
        for candidate in parts[statement.text]
    ]
    if candidates:
        return _best(candidates, asked)
    named = _SAID.search(text)
    return named[1] if named else None


def _alone(text: str) -> str | None:
    """The expression of an answer that is nothing else, or that has nothing else on its first line."""
    first, _, rest = plain(text).strip().partition("\n")
    if not rest.strip() or (_OPENS_DISPLAY.match(first) and not _DELIMITED.match(first)):
        whole = " ".join(plain(text).split())
        return _directly(whole) if _SENTENCE_END.search(whole) else read(whole)
    if _EXPLAINS.match(rest) and not taken_back(rest) and not ("=" in first and _ARITHMETIC.search(first)):
        return read(first)
    return None


def _above_its_work(text: str, item: GradedQuestion) -> str | None:
    """The expression that the first line is, as a heading or alone, if it is no equation and not of the question."""
    first = plain(text).strip().partition("\n")[0]
    said = None if "=" in first or _NAMED.fullmatch(first.strip("*_ ")) else _directly(first.strip("*_ "))
    number = said and _NUMBER_ONLY.fullmatch(said)
    return said if said and (number or squeezed(said) not in squeezed(item.text)) else None


def _closing(text: str) -> str | None:
    """The one expression of a last paragraph that is one sentence, and no check."""
    last = plain(text.rpartition("\n\n")[2])
    spans = list(_DELIMITED.finditer(last))
    around = _DELIMITED.sub("", last)
    if (
        len(spans) != 1
        or "\n" in around.strip()
        or re.search(r"\d", around)
        or CHECKS.search(around)
        or states_nothing(last)
    ):
        return None
    content = next(group for group in spans[0].groups() if group is not None)
    said = _answer_side(content.strip())
    return said if is_expression(said) and not _NAME_ONLY.fullmatch(said) else None


def read(passage: str) -> str | None:
    """The one expression, or the list of them, that a passage states; None if it states none or several things."""
    passage = passage.strip("*_ \n")
    if said := _directly(passage):
        return said
    hidden = _DELIMITED.sub(lambda span: "\0" * len(span[0]), passage)
    sentence = _SENTENCE_END.split(hidden, maxsplit=1)[0]
    stating = list(_STATING.finditer(sentence))
    verbs = [verb for verb in stating if not verb[0].startswith("=")]  # an equation may be the answer itself
    stated = (_directly(passage[verb.end() : len(sentence)]) for verb in (*verbs[-1:], *stating[-1:]))
    return next(filter(None, stated), None)


def _directly(passage: str) -> str | None:
    """The expression, or the list of them, that a passage begins with; something may be said about it after that."""
    passage = _LEAD_IN.sub("", passage.strip()).strip("「」\"'").strip()
    listed = []
    at = 0
    while span := _DELIMITED.match(passage, at):
        listed.append(next(group for group in span.groups() if group is not None).strip())
        joins = _JOINS.match(passage, span.end())
        at = joins.end() if joins and _DELIMITED.match(passage, joins.end()) else span.end()
    if listed:
        said = ", ".join(_answer_side(expression) for expression in listed)
        rest = passage[at:]
        if unit := _UNIT_AFTER.match(rest):
            return rf"{said}\text{{ {unit[1]}}}"
        return said if _ENDS.match(rest) else None
    for part in (passage, _ASIDE.split(passage, maxsplit=1)[0]):
        expression = _COPULA.sub("", part.rstrip(" .。,;!")).strip()
        if is_expression(expression) and not (
            part != passage and _NAMED.fullmatch(part) and _DELIMITED.search(passage)
        ):
            return _answer_side(expression) or None
    counted = _COUNTED.fullmatch(_COPULA.sub("", passage.rstrip(" 。.")))
    return counted[1] if counted else None


def is_expression(text: str) -> bool:
    """Return whether a text is one mathematical expression with at most a unit, or the name of something."""
    if not text or len(text) > MAX_CHARACTERS or not balanced(text):
        return False
    words = _PLAIN_WORD.findall(_COMMAND.sub(" ", text))
    if re.search(r"\d|\\[a-zA-Z]|[=^π∞√]|\b[a-zA-Z]\s*[-+*/]\s*[a-zA-Z]\b", text):
        return all(word in _FUNCTIONS or word.lower() in UNITS for word in words) and "\n" not in text
    return bool(_NAMED.fullmatch(text))


def _differ_in_base_only(first: str, second: str) -> bool:
    """Return whether one leaves out the base that the other names, as an answer may if the question says the base."""
    based, plain = sorted((first, second), key=lambda spelling: not spelling.startswith("base:"))
    return based.startswith("base:") and based.removeprefix("base:").partition("_")[0] == plain


def _last_boxes(text: str) -> str | None:
    """The last box; several that follow one another within a sentence are one list."""
    contents = [content for content in boxed(text) if content]
    if not contents:
        return None
    tail = text[max(text.rfind("\n", 0, text.rfind("\\boxed")), 0) :]
    together = [content for content in boxed(tail) if content]
    joined = len(together) > 1 and re.fullmatch(
        r"(?:[\s$,.]|and|or|\\quad|\\text\{(?: and | or )\}|[a-z]\s*=)*", _between(tail)
    )
    return ", ".join(together) if joined else contents[-1]


def _between(text: str) -> str:
    """Return the text between the first and the last box."""
    for content in boxed(text):
        text = text.replace("\\boxed{" + content + "}", "\0", 1)
    return text.partition("\0")[2].rpartition("\0")[0].replace("\0", "")


def _best(candidates: list[tuple[float, int, int, str]], asked: "_Asked") -> str:
    """The expression with the greatest weight; to be repeated counts a little."""
    least = max(candidates)[0] - _NEAR_THE_BEST
    near = [text for weight, *_, text in candidates if weight > least and text not in asked.numbers]
    often = Counter(squeezed(expression) for expression in near)

    def weight(candidate: tuple[float, int, int, str]) -> tuple[float, int, int]:
        own, rank, place, expression = candidate
        return own + min(often[squeezed(expression)], _MOST_REPEATS) / 4, rank, place

    return max(candidates, key=weight)[3]


@dataclass(frozen=True)
class _Candidate:
    """An expression of a sentence.

    Attributes:
        fit: How much it looks like the answer that the sentence gives.
        place: Its number among the expressions of the sentence.
        expression: Its LaTeX.
    """

    fit: float
    place: int
    expression: str


@dataclass(frozen=True)
class _Asked:
    """The demands of a question on its answer: its texts, its symbols and the forms that the answer has to have."""

    squeezed: str
    numbers: frozenset[str]
    symbols: frozenset[str]
    wanted: list[str]
    forms: list[re.Pattern[str]]
    modular: bool
    unit: str

    @classmethod
    def of(cls, question: str) -> "_Asked":
        numbers = frozenset(re.findall(r"\d+", question))
        unit = _UNIT.search(question)
        forms = [form for words, form in _FORMS if words.search(question)]
        return cls(
            squeezed(question),
            numbers,
            frozenset(_symbols(question)),
            asked_symbols(question),
            forms,
            "mod" in question,
            unit[1].removesuffix("s") if unit else "",
        )


def _candidates(statement: str, asked: _Asked) -> list[_Candidate]:
    statement = _LIST_MARK.sub("", _CURRENCY.sub("", statement))
    found = []
    for place, match in enumerate(_SPAN.finditer(statement)):
        if match["number"] and _is_fragment(statement[: match.start()], statement[match.end() :]):
            continue
        content, emphasis = _content(match)
        expression = _answer_side(content)
        word = emphasis and len(expression) > _LONGEST_NAME and expression.isalpha()
        if expression and (word or not _is_no_answer(expression)):
            fit = (
                emphasis
                + place / 20
                + _fit(content, expression, statement[: match.start()], statement[match.end() :], asked)
            )
            found.append(_Candidate(fit, place, expression))
    lists = len(found) > _ENUMERATION
    return [_Candidate(found.fit - 3, found.place, found.expression) for found in found] if lists else found


def _is_fragment(before: str, after: str) -> bool:
    """Return whether a number between these is a part of a longer expression that no dollar signs mark."""
    return bool(_CUT_BEFORE.search(before[-60:]) or _CUT_AFTER.match(after[:60]))


def _is_no_answer(expression: str) -> bool:
    name = _NAME_ONLY.fullmatch(expression.strip())
    return bool(name or _LABEL.search(expression) or _PROSE.search(_TEXT.sub("", expression)))


def _fit(content: str, expression: str, before: str, after: str, asked: _Asked) -> float:
    """Rate how much an expression looks like the answer that its sentence gives."""
    before = before[-60:]
    number = _NUMBER_ONLY.fullmatch(expression.strip())
    sides = [squeezed(side) for side in _EQUALS.split(content)[:-1]]
    states = _STATES.search(before)
    computed = _ARITHMETIC.search(expression) and not _symbols(expression)
    points = (
        (1.0, states),
        (-2.0, _GIVEN.search(before)),
        (3.0, any(side in asked.wanted for side in sides)),
        (3.0, any(re.search(re.escape(symbol) + _IS_SAID, _joined(before)) for symbol in asked.wanted)),
        (-1.0, number and expression.strip() in asked.numbers and not states),
        (-2.0, _GIVEN_FORM.search(expression) and squeezed(expression) in asked.squeezed),
        (0.75, sides and _NAME_ONLY.fullmatch(sides[0])),
        (-3.0, _symbols(expression) - asked.symbols),
        (-3.0, computed),
        (-2.0, before.count("(") > before.count(")")),
        (3.0, _IS_ATTAINED.match(after)),
        (-2.0, _OF_ANOTHER.match(after)),
        (-1.5, "$$" in after),
        (2.0, asked.unit and re.match(rf"\s*{asked.unit}", after, re.IGNORECASE)),
        (-3.0, "mod" in content and (not asked.modular or _ARITHMETIC.search(content))),
        (-3.0, _INEQUALITY.search(expression) and not _symbols(expression)),
    )
    unfit = sum(not form.search(tidy(expression)) for form in asked.forms)
    return sum(point for point, holds in points if holds) + min(len(sides), _LONG_CHAIN) / 2 - 2 * unfit


def _joined(text: str) -> str:
    """The text without spaces, except before the verb that states a value."""
    return re.sub(r"\s+(?!is\b|equals\b|therefore\b)", "", text)


def _symbols(latex: str) -> set[str]:
    """The letters that are variables."""
    return set(re.findall(r"(?<![a-zA-Z\\])[a-zA-Z](?![a-zA-Z])", _LETTERS.sub("", latex))) - {"i", "e"}


def _content(match: re.Match[str]) -> tuple[str, float]:
    """Return the content of a span, and how much its emphasis says that it is the answer."""
    if match["bold"]:
        inner = match["bold"][2:-2].strip()
        spans = [span for span in _SPAN.finditer(inner) if not span["bold"]]
        if inner.endswith(":") or (not spans and len(inner.split()) > _MOST_BOLD_WORDS):
            return "", 0
        if len(spans) == 1 and not inner.startswith("$"):
            return _content(spans[0])[0], 2
        return (_content(spans[-1])[0] if spans else inner), 2 if spans else 1
    if match["word"]:
        return str(_WORDS[match["word"]]), 1
    return match["display"] or match["inline"] or match["dollar"] or match["number"], 0


def _answer_side(content: str) -> str:
    """The last side of a chain of equations; an equation that states a relation, like `x + y = 0`, as a whole."""
    content = _SAID_WITHIN.sub("", _ABOUT.split(_ARROW.split(content)[-1])[0].strip())
    content = re.sub(r"\\(?:begin|end)\{(?:align|aligned|equation|gather)\*?\}|&(?==)", "", content).strip()
    if "\\begin" in content:
        return content.rpartition("=")[2].strip() if "=" in content else content
    sides = [side.strip() for side in _EQUALS.split(content)]
    left, right = tidy(sides[0]), tidy(sides[1]) if len(sides) == 2 else ""  # noqa: PLR2004 - both sides
    if right == "0" and len(left) >= _SHORTEST_RELATION:
        return content
    if any("," in side for side in sides[1:-1]):
        return content
    return sides[-1].removesuffix("\\\\").strip(" ,;").rstrip(" .,;")
