"""The grader of mathematical answers: numbers, expressions, tuples, sets, intervals, matrices, words, in LaTeX."""

import re

from shaberi_dagster.grading.base import GradedQuestion
from shaberi_dagster.grading.commitments import AnswerKind
from shaberi_dagster.grading.latex import (
    MAX_CHARACTERS,
    UNITS,
    balanced,
    canonical,
    conflicting,
    equation,
    nearly_same,
    same_angle,
    same_decimal,
    same_share,
    tidy,
)
from shaberi_dagster.grading.numbers import parse_exact, words_as_digits
from shaberi_dagster.grading.numerals import in_digits
from shaberi_dagster.grading.numeric import is_unit
from shaberi_dagster.grading.text import squeezed
from shaberi_dagster.grading.words import asked_clause, repeats, stems

_DELIMITED = re.compile(r"\$\$(.+?)\$\$|\\\[(.+?)\\\]|\\\((.+?)\\\)|(?<!\\)\$((?:\\\$|[^$])+?)(?<!\\)\$", re.DOTALL)
_JOINS = re.compile(r"\s*(?:[,;、]|,?\s*(?:and|or|et|und|y|と|または))\s*")
_ENVIRONMENT = re.compile(
    r"\\(?:begin|end)\{(?:align|aligned|equation|gather|gathered|split|multlined|eqnarray|multline|flalign|cases)\*?\}"
)
_ROWS = re.compile(
    r"\\begin\{(align|aligned|equation|gather|gathered|split|multlined|eqnarray|multline|flalign|cases)\*?\}"
)
_NUMBERING = re.compile(
    r"\\(?:tag\*?|label)\s*\{[^{}]*\}|\\(?:notag|nonumber|displaystyle|blacksquare|square)\b|\$?\\(?:blacksquare|square)\$?"
)
_UNIT_AFTER = re.compile(
    rf"\s*((?:(?:square|cubic|sq|cu)\.? )?(?:{'|'.join(map(re.escape, sorted(UNITS, key=len, reverse=True)))})"
    r"(?:\^?[23]|[²³])?)(?!\w)"
)
_COMMAND = re.compile(
    r"\\(?:begin|end)\s*\{\w+\}|\\(?:text|mbox|mathrm|textbf|mathbf|operatorname)\s*\{[^{}]*\}|\\[a-zA-Z]+"
)
_PLAIN_WORD = re.compile(r"(?<![^\W\d_])[^\W\d_]{2,}|[぀-ヿ一-鿿가-힣]+")
_FUNCTIONS = frozenset(
    re.findall(r"\w+", "sin cos tan cot sec csc arcsin arccos arctan log ln exp sqrt pi and or infinity inf gcd lcm")
)
_NAMED = re.compile(r"(?!\w+(?:ed|ing|ly)\b)\(?[A-Za-z][A-Za-z'-]*\)?(?: [A-Za-z][A-Za-z'-]*){0,2}")
_NO_NAME = re.compile(
    r"\b(?:not?|none|unknown|n/?a|the|a|an|is|are|it|to|of|in|this|that|here|yes|your|answer|correct|wrong|we|i"
    r"|cannot|can't|determined?|insufficient|information|depends?|ambiguous|varies|placeholder|result|final|unclear|missing|unique"
    r"|value|expression|formula|number|solution|todo|tbd|given|found|obtained|clear|as|following|insert|possible|different|either|neither|both|or|and|thus|so|therefore)\b",
    re.IGNORECASE,
)
_CUT = re.compile(
    r"[?？]|__|^\W*\\?[lc]?dots\W*$|^[.…\s]+$|\\quad$|^\\(?:text|mathrm|square|Box|placeholder|ldots|cdots)\b\W*$|(?<!\\)\$|\\[()\[\]]|\[\s*insert|[,;+*/^=\\-]$|\\left(?!.*\\right)"
)
_NONE_EXISTS = re.compile(r"no (?:real )?solutions?|does not exist|undefined|解なし|infinitely many", re.IGNORECASE)
_SAID_WITHIN = re.compile(r"^\\(?:text|mbox|mathrm)\s*\{[^{}]*(?:\b(?:is|are|equals|be):?|:)\s*\}\s*")
_ARITHMETIC = re.compile(
    r"\d\s*(?:\\times|\\cdot|\\div|×|÷|\*)\s*\d+(?!\s*(?:[a-zA-Z\d.^]|\\(?:pi|sqrt|frac|theta)))|(?<![\w^}])\d+\s*[+-]\s*\d+(?![\w.!^/\\])|(?<![a-zA-Z])i\^2|\.\.\.|…|\\dots|\\ldots|\\int|\\sum|\\lim"
)
_ARROW = re.compile(r"\\(?:implies|Rightarrow|rightarrow|to|therefore|Longrightarrow|iff)\b|⇒|→|=>|(?<=[^<>])\s:\s")
_ABOUT = re.compile(r"\\approx|≈|\\pmod|\\bmod|\(\\?mod|\\quad|~")
_EQUALS = re.compile(r"(?<![<>!\\])=(?!=)|\\equiv\b|≡|＝")
_STATING = re.compile(
    r"(?:\b(?:is|are|equals|be|was|comes to|ist|est|es|è|sont|son)\b|は|が|:|=|是|为)\s*"
    r"(?:(?:therefore|thus|simply|exactly|equal to|only|donc|also)\s)?",
    re.IGNORECASE,
)
_SYMBOL = re.compile(r"(?<![a-zA-Z\\])[a-zA-Z](?![a-zA-Z])")
_TEXT = re.compile(r"\\(?:text|mbox|mathrm|textbf|operatorname)\s*\{[^{}]*\}")
_BRACKETS = re.compile(r"(?<=[\w$}\s])\s\((?![^()]*,[^()a-z]*\))[^()$]*(?:\$[^$]*\$[^()$]*)*\)(?=[\s.,;]|$)")
_COPULA = re.compile(r"(?:です|である|となる|になる|となります|になります)$")
_NUMBER = re.compile(r"(?<![\w.^/\\-])-?\$?\d[\d,]*(?:\.\d+)?(?:/\d+)?(?![\w/]|\.\d|,\d)")
_BOUND = re.compile(
    r"(?:[+×*/÷^<>≤≥~〜=]|\b(?:than|least|most|between|over|under|not|almost|nearly|or|to))\s*$", re.IGNORECASE
)
_NAME = re.compile(r"\\?[a-zA-Z]+(?:_\{?\w+\}?)?(?:\([a-zA-Z0-9]\))?'?|\([a-z], ?[a-z]\)")
_NAMED_VALUE = re.compile(r"\\?[a-zA-Z]+(?:_\{?\w+\}?)?(?:\([a-zA-Z0-9]\))?\s*=[^=]+|\([a-z], ?[a-z]\)\s*=[^=]+")
_NUMBERS_COMPARED = re.compile(r"[^a-zA-Z\\]*(?:[<>≤≥]|\\[lg]eq?\b|\\[lg]t\b)[^a-zA-Z\\]*")
_ASKS_EQUATION = re.compile(
    r"equations? (?:of|for|in|with)|\blines?\b|plane|relation|の方程式|の式|式[をで](?:書|求|答|表)", re.IGNORECASE
)
_SHARE = re.compile(
    r"probab|percent|fraction|ratio|share|proportion|chance|rate|how likely|確率|割合|比|%", re.IGNORECASE
)
_SEVERAL = 2
_QUANTITY = re.compile(r"[A-Z](?:_\{?\w+\}?)?(?:\([^()]*\))?|[A-Z][A-Za-z]+|\\?[a-z]{3,}(?: [a-z]+)?")
_SHORTEST_RELATION = 4
_MOST_WORDS = 3


class MathGrader(AnswerKind):
    """A mathematical answer as a whole; of a chain of equations the last side. Compared by meaning."""

    name = "rule:math"
    version = 5

    def read(self, passage: str, item: GradedQuestion) -> str | None:
        """The one expression, or the list of them, that a passage is, with at most a unit."""
        del item
        passage = in_digits(_NUMBERING.sub("", passage)).lstrip(" *_\"'「」").rstrip(" *_\"'「」.。,;:")
        listed, at = [], 0
        while span := _DELIMITED.match(passage, at):
            listed.append(next(group for group in span.groups() if group is not None).strip())
            joins = _JOINS.match(passage, span.end())
            at = joins.end() if joins and _DELIMITED.match(passage, joins.end()) else span.end()
        if not listed:
            return _expression(passage)
        sides = [_answer_side(expression) for expression in listed]
        rest = passage[at:].strip(" .。,;")
        if not all(is_expression(side) for side in sides):
            return None
        if unit := _UNIT_AFTER.fullmatch(" " + rest):
            return rf"{', '.join(sides)}\text{{ {unit[1]}}}"
        return ", ".join(sides) if not rest or (len(rest) <= _LONGEST_REST and is_unit(rest)) else None

    def mentions(self, passage: str, item: GradedQuestion) -> bool:
        """Whether there is anything mathematical in a passage."""
        del item
        return (
            bool(re.search(r"[\d$^=√π∞]|\\[a-zA-Z(\[]|\b[a-zA-Z] ?[-+*/] ?[a-zA-Z]\b", passage))
            or in_digits(words_as_digits(passage)) != passage
        )

    def restated(self, sentence: str, item: GradedQuestion) -> str | None:
        """The value that a sentence says of what the question asks for, in its words or symbols."""
        outside = _BRACKETS.sub(" ", sentence)
        sentence = (outside if self.mentions(outside, item) else sentence).strip(" .。")
        if chain := _chain(sentence, item):
            return chain
        hidden = _DELIMITED.sub(lambda span: "\0" * len(span[0]), sentence)
        verbs = [verb for verb in _STATING.finditer(hidden) if not verb[0].startswith("=")]
        for verb in reversed(verbs or list(_STATING.finditer(hidden))[:1]):
            subject, predicate = sentence[: verb.start()], sentence[verb.end() :]
            said = self.read(_COPULA.sub("", predicate), item)
            known = said is not None and (_is_new(said, item) or parse_exact(said) is not None)
            if said is not None and (
                (known and repeats(_without_maths(subject), item.text)) or _names_asked(subject, item)
            ):
                return said
        return self._only_new(sentence, hidden, item)

    def _only_new(self, sentence: str, hidden: str, item: GradedQuestion) -> str | None:
        """The one expression of a sentence that the question does not have."""
        places = [span.span() for span in _DELIMITED.finditer(sentence)]
        places += [number.span() for number in _NUMBER.finditer(hidden)]
        read = [(self.read(sentence[start:end], item), start, end) for start, end in places]
        new = [
            (said, start, end)
            for said, start, end in read
            if said is None or (_is_new(said, item) and not _NAME.fullmatch(said))
        ]
        if len(new) != 1 or new[0][0] is None or (len(read) > 1 and "=" in hidden):
            return None
        said, start, end = new[0]
        before, after = sentence[:start], sentence[end:]
        if _BOUND.search(before) or re.match(r"\s*(?:or|to|[+*/^=<>~〜]|以上|以下)", after):
            return None
        return said if repeats(_without_maths(f"{before} {after}"), item.text) else None

    def is_final(self, said: str, item: GradedQuestion) -> bool:
        """Whether no arithmetic is left in it, and it is no equation of something that nobody asked for."""
        if _NUMBERS_COMPARED.fullmatch(said) or re.fullmatch(r"\\?[a-zA-Z]", said):
            return False
        named = all(_NAMED_VALUE.fullmatch(part.strip()) for part in _JOINS.split(said)) if "=" in said else True
        return not _ARITHMETIC.search(said) and (named or bool(_ASKS_EQUATION.search(item.text)))

    def is_asked(self, sentence: str, item: GradedQuestion, place: str) -> bool:
        """Whether the left side of an equation is in the question, or a name of its own for what is asked for."""
        return place == "whole_reply" or _is_asked(sentence, item)

    def is_new(self, said: str, item: GradedQuestion) -> bool:
        """Whether the question does not have the expression."""
        return _is_new(said, item)

    def repeated(self, said: str, rest: str, item: GradedQuestion) -> bool:
        """Whether the rest says the same expression again."""
        del item
        return squeezed(said) in squeezed(rest) if len(said) > 1 else f"={said}" in squeezed(rest)

    def canonical(self, extracted: str) -> str:
        """One spelling for all that mean the same."""
        return canonical(extracted)

    def correct(self, said: str, item: GradedQuestion) -> bool | None:
        """Right or wrong; None where words stand against a value, or both may mean the same and may not."""
        if self.same(said, item.reference):
            return True
        if same_share(said, item.reference):
            return True if _SHARE.search(item.text) else None
        kinds = {self.canonical(text).startswith("text:") for text in (said, item.reference)}
        return None if len(kinds) > 1 or nearly_same(said, item.reference) else False

    def same(self, first: str, second: str) -> bool:
        """Whether two extractions mean the same."""
        if conflicting(first, second):
            return False
        a, b = canonical(first), canonical(second)
        if a == b or _differ_in_base_only(a, b):
            return True
        if equation(first) == equation(second) is not None:
            return True
        return any(agree(first, second) for agree in (same_decimal, same_angle))


_LONGEST_REST = 40


def is_expression(text: str) -> bool:
    """Whether a text is one mathematical expression with at most a unit, or the name of something."""
    if not text or len(text) > MAX_CHARACTERS or not balanced(text) or _CUT.search(text):
        return False
    if inner := re.fullmatch(r"\\text\w*\s*\{([^{}]*)\}", text):
        text = inner[1].strip()
    if re.fullmatch(r"n/a", text, re.IGNORECASE):
        return False
    if _NONE_EXISTS.fullmatch(text):
        return True
    words = _PLAIN_WORD.findall(_COMMAND.sub(" ", text))
    if re.search(r"\d|\\[a-zA-Z]|[=^π∞√∅]|\b[a-zA-Z]\s*[-+*/]\s*[a-zA-Z]\b|^-?[a-zA-Z]$", text):
        return all(word in _FUNCTIONS or word.lower() in UNITS or word.isupper() for word in words) and "\n" not in text
    return bool(_NAMED.fullmatch(text)) and not _NO_NAME.search(text)


def _expression(passage: str) -> str | None:
    """An expression without delimiters, with at most a unit; in words if it is a number."""
    for text in (passage, words_as_digits(passage)):
        if is_expression(text):
            side = _answer_side(text)
            return side if is_expression(side) else None
        quantity = re.match(
            r"-?(?:\d[\d,]*(?:\.\d+)?(?:/\d+)?|[\da-zA-Z√π^/{}\\]*[√π\\][\da-zA-Z√π^/{}\\]*)(?=\s|[^\W\d_])", text
        )
        if quantity and is_unit(text[quantity.end() :]) and not re.search(r"\\|[=^]", text[quantity.end() :]):
            return quantity[0]
    return None


def _chain(sentence: str, item: GradedQuestion) -> str | None:
    """The last side of an equation that begins with what is asked for, or with a name of its own."""
    found = re.search(r"(?:^|[^\w$])((?:\$\$|\\\[|\$|\\\()[^$]+?(?:\$\$|\\\]|\$|\\\)))[\s.。]*$", sentence)
    lead = sentence[: found.start(1)] if found else ""
    text = _DELIMITED.sub(
        lambda span: next(group for group in span.groups() if group is not None), found[1] if found else sentence
    )
    text = _ARROW.split(_last_row(text))[-1].strip(" .。")
    sides = [side.strip(" &") for side in _EQUALS.split(_ABOUT.split(text)[0])]
    said = _answer_side(text)
    if "\\equiv" in text or "≡" in text or _DELIMITED.search(lead):
        return None
    if len(sides) < 2 or not is_expression(said) or _ARITHMETIC.search(said) or "=" in said or not _is_new(said, item):  # noqa: PLR2004
        return None
    if not _is_asked(text, item) or not (
        is_expression(sides[0]) or _NAME.fullmatch(_SAID_WITHIN.sub("", sides[0]).strip())
    ):
        return None
    return said if not lead.strip(" *_-:→") or repeats(lead, item.text, spare=0) else None


def _is_asked(sentence: str, item: GradedQuestion) -> bool:
    content = _last_row(
        _DELIMITED.sub(lambda span: next(group for group in span.groups() if group is not None), sentence)
    )
    left, *others = _EQUALS.split(_ABOUT.split(_ARROW.split(content)[-1])[0])
    left = _SAID_WITHIN.sub("", left).strip(" *_-:&$")
    if not others or _spelled(left) in _spelled(item.text):
        return (
            len(set(_SYMBOL.findall(item.text)) - set("aei")) < _SEVERAL or "," in left or not _SYMBOL.fullmatch(left)
        )
    if not _SYMBOL.search(item.text):
        return bool(_NAME.fullmatch(left))
    return bool(_QUANTITY.fullmatch(left)) or (left.startswith("(") and "," in left)


def _is_new(said: str, item: GradedQuestion) -> bool:
    """Whether an expression is not just one of the question, and has no symbols that the question does not have."""
    given = squeezed(item.text)
    exact = parse_exact(said)
    if exact is not None:
        return not re.search(rf"(?<![\d.]){re.escape(squeezed(said))}(?![\d.])", given)
    symbols = set(_SYMBOL.findall(_TEXT.sub("", _COMMAND.sub(" ", said)))) - {"i", "e", "C"}
    if re.search(r"[a-z]_\{?\w", said) and not re.search(r"[a-z]_\{?\w", item.text):
        return False
    asked = set(_SYMBOL.findall(item.text))
    return (not asked or symbols <= asked | set("krn")) and squeezed(tidy(said)) not in squeezed(tidy(item.text))


def _names_asked(subject: str, item: GradedQuestion) -> bool:
    """Whether a subject is an expression that the question asks for, among words of the question."""
    spans = [next(group for group in span.groups() if group is not None) for span in _DELIMITED.finditer(subject)]
    asked = _spelled(_DELIMITED.sub(lambda span: f"$ {span[0]} $", asked_clause(item.text)))
    named = len(spans) == 1 and _spelled(spans[0]) in asked
    return named and stems(_without_maths(subject)) <= stems(item.text)


def _spelled(text: str) -> str:
    return squeezed(tidy(text)).replace("{", "").replace("}", "")


def _without_maths(text: str) -> str:
    return _COMMAND.sub(" ", _DELIMITED.sub(" ", text))


def _differ_in_base_only(first: str, second: str) -> bool:
    """Whether one names the base and the other leaves it out, as an answer may if the question asks for that base."""
    based, plain = sorted((first, second), key=lambda spelling: not spelling.startswith("base:"))
    return based.startswith("base:") and based.removeprefix("base:").partition("_")[0] == plain


def _last_row(content: str) -> str:
    """The last row of an environment of several, with the row before it where it goes on with `=`."""
    if not _ROWS.search(content):
        return content
    rows = [
        row.replace("&", " ").strip() for row in re.split(r"\\\\(?:\[\w+\])?|\\cr\b", _ENVIRONMENT.sub(" ", content))
    ]
    rows = [row for row in rows if row]
    kept = rows[-1:]
    while len(kept) < len(rows) and kept[0].startswith("="):
        kept.insert(0, rows[-len(kept) - 1])
    return " ".join(kept)


def _answer_side(content: str) -> str:
    """The last side of a chain of equations; an equation that states a relation, like `x + y = 0`, as a whole."""
    is_matrix = "matrix" in content or "array" in content
    content = _ENVIRONMENT.sub(" ", content).strip() if is_matrix else _last_row(content.strip())
    content = _SAID_WITHIN.sub("", _ABOUT.split(_ARROW.split(content)[-1])[0].strip())
    if "\\begin" in content:
        return content.rpartition("=")[2].strip() if "=" in content else content
    sides = [side.strip() for side in _EQUALS.split(content)]
    left, right = tidy(sides[0]), tidy(sides[1]) if len(sides) == 2 else ""  # noqa: PLR2004 - both sides
    if right == "0" and len(left) >= _SHORTEST_RELATION:
        return content
    if (
        len(sides) > 1
        and _SYMBOL.search(sides[-2])
        and not _NAME.fullmatch(squeezed(sides[-2]))
        and re.fullmatch(r"\d+\s*\w", sides[-2])
    ):
        return content
    if any("," in side for side in sides[1:-1]) or re.search(r"\b(?:or|and)\b|\\text\{ ?(?:or|and)", content):
        return content
    return sides[-1].removesuffix("\\\\").strip(" ,;&").rstrip(" .,;")
