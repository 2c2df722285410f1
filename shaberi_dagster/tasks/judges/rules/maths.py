"""The grader of mathematical answers: numbers, expressions, tuples, sets, intervals, matrices, words, in LaTeX."""

import re

from shaberi_dagster.tasks.judges.rules.base import GradedQuestion
from shaberi_dagster.tasks.judges.rules.commitments import AnswerKind
from shaberi_dagster.tasks.judges.rules.latex import (
    MAX_CHARACTERS,
    UNITS,
    balanced,
    canonical,
    conflicting,
    equation,
    nearly_same,
    raised,
    same_angle,
    same_decimal,
    same_share,
    tidy,
)
from shaberi_dagster.tasks.judges.rules.numbers import parse_exact, shown, words_as_digits
from shaberi_dagster.tasks.judges.rules.numerals import in_digits
from shaberi_dagster.tasks.judges.rules.numeric import is_unit
from shaberi_dagster.tasks.judges.rules.patterns import patterns
from shaberi_dagster.tasks.judges.rules.text import ReadableReply, squeezed
from shaberi_dagster.tasks.judges.rules.words import asked_clause, stems

_PATTERNS = patterns("maths")

_UNIT_AFTER = re.compile(
    rf"\s*((?:(?:square|cubic|sq|cu)\.? )?(?:{'|'.join(map(re.escape, sorted(UNITS, key=len, reverse=True)))})"
    r"(?:\^?[23]|[²³])?)(?!\w)"
)
_GLUED_UNIT = re.compile(r"(-?\d[\d.,/]*)((?:cm|mm|km|m|kg|g)(?:\^[23])?)")
_FUNCTIONS = frozenset(
    re.findall(
        r"\w+",
        "dx dy dt du dr sin cos tan cot sec csc arcsin arccos arctan log ln exp sqrt pi and or infinity inf gcd lcm",
    )
)
_SEVERAL = 2
_SHORTEST_RELATION = 4
_MOST_WORDS = 3


class MathGrader(AnswerKind):
    """A mathematical answer as a whole; of a chain of equations the last side. Compared by meaning."""

    name = "rule:math"
    version = 8

    def prepared(self, reply: ReadableReply, item: GradedQuestion) -> ReadableReply:
        """Return a reply in a language that writes decimals with a comma with points; `(0,8)` stays two numbers."""
        has_commas = _PATTERNS.comma_language.search(f"{item.text}\n{reply.text}") is not None
        return reply.replace(_PATTERNS.decimal_comma, r"\1.\2") if has_commas else reply

    def read(self, passage: str, item: GradedQuestion) -> str | None:
        """Return the one expression, or the list of them, that a passage is, with at most a unit."""
        number = None if re.search(r"\d", passage) else parse_exact(words_as_digits(passage))
        if number is not None and passage.lower() not in item.text.lower():
            return shown(number)
        said = self._read(passage)
        either = said is not None and _PATTERNS.either.search(said) and not _PATTERNS.asks_several.search(item.text)
        return None if said is None or either or _names_nothing(said, item) or _is_the_question(said, item) else said

    @staticmethod
    def _read(passage: str) -> str | None:
        passage = _PATTERNS.currency.sub("", raised(passage))
        passage = _PATTERNS.between.sub(r", ", passage)
        passage = in_digits(_PATTERNS.numbering.sub("", passage)).lstrip(" *_\"'「」").rstrip(" *_\"'「」.。,;:")
        listed, at = [], 0
        while span := _PATTERNS.delimited.match(passage, at):
            listed.append(next(group for group in span.groups() if group is not None).strip())
            joins = _PATTERNS.joins.match(passage, span.end())
            at = joins.end() if joins and _PATTERNS.delimited.match(passage, joins.end()) else span.end()
        if not listed:
            return _expression(passage)
        sides = [_answer_side(expression) for expression in listed]
        rest = _PATTERNS.unit_layout.sub("", passage[at:]).strip(" .。,;")
        if not all(is_expression(side) for side in sides):
            return None
        if unit := _UNIT_AFTER.fullmatch(" " + rest):
            return rf"{', '.join(sides)}\text{{ {unit[1]}}}"
        return ", ".join(sides) if not rest or (len(rest) <= _LONGEST_REST and is_unit(rest)) else None

    def mentions(self, passage: str, item: GradedQuestion) -> bool:
        """Return whether there is anything mathematical in a passage."""
        del item
        return (
            bool(re.search(r"[\d$^=√π∞]|\\[a-zA-Z(\[]|\b[a-zA-Z] ?[-+*/] ?[a-zA-Z]\b", passage))
            or in_digits(words_as_digits(passage)) != passage
        )

    def is_final(self, said: str, item: GradedQuestion) -> bool:
        """Return whether no arithmetic is left in it, and it is no equation of something that no one asked for."""
        if _PATTERNS.comparison.search(said) and not _PATTERNS.asks_comparison.search(item.text):
            return False
        if _PATTERNS.numbers_compared.fullmatch(said) or re.fullmatch(
            r"[a-zA-Z]|\\(?:begin|end)\{\w+\*?\}|\\(?!pi|infty|emptyset|varnothing)[a-zA-Z]+", said
        ):
            return False
        named = (
            all(_PATTERNS.named_value.fullmatch(part.strip()) for part in _PATTERNS.joins.split(said))
            if "=" in said
            else True
        )
        return not _PATTERNS.arithmetic.search(said) and (named or bool(_PATTERNS.asks_equation.search(item.text)))

    def is_asked(self, sentence: str, item: GradedQuestion, place: str) -> bool:
        """Return whether the left side of an equation is in the question, or a name for what is asked for."""
        return (place == "whole_reply" and squeezed(sentence).strip("$.") not in squeezed(item.text)) or _is_asked(
            sentence, item, strict=place == "last_line"
        )

    def is_new(self, said: str, item: GradedQuestion) -> bool:
        """Return whether the question does not have the expression."""
        return _is_new(said, item)

    def computed(self, said: str, above: str, item: GradedQuestion) -> bool:
        """Return whether a side of an equation is the answer."""
        del item
        return (
            re.search(rf"(?:[=≈≥≤]|\\[gl]eq?|is)\W{{0,3}}{re.escape(squeezed(tidy(said)))}(?![\w.^])", squeezed(above))
            is not None
        )

    def is_complete(self, said: str, work: str, item: GradedQuestion) -> bool:
        """Return whether the last equation may be of what is asked for, and its result is one that is computed."""
        if _PATTERNS.unfinished.search(said):
            return False
        line = work.rstrip().rpartition("\n")[2]
        spans = list(_PATTERNS.delimited.finditer(line))
        if not spans or "=" not in spans[-1][0]:
            return True
        content = _last_row(next(group for group in spans[-1].groups() if group is not None))
        left = _PATTERNS.comparison.split(_PATTERNS.equals.split(_PATTERNS.arrow.split(content)[-1])[0])[0]
        left = _PATTERNS.said_within.sub("", left).strip(" *_-:&$")
        named = stems(_PATTERNS.command.sub(" ", _PATTERNS.delimited.sub(" ", line))) & stems(asked_clause(item.text))
        is_computed = not _PATTERNS.symbol.search(_PATTERNS.command.sub(" ", left))
        return bool(named and is_computed) or _may_be_asked(left, said, item)

    def repeated(self, said: str, rest: str, item: GradedQuestion) -> bool:
        """Return whether the rest has the same expression as a result."""
        return self.computed(said, rest, item)

    def canonical(self, extracted: str) -> str:
        """Return one spelling for all that mean the same."""
        return canonical(extracted)

    def correct(self, said: str, item: GradedQuestion) -> bool | None:
        """Return right or wrong; None where words stand against a value, or both may mean the same and may not."""
        if self.same(said, item.reference):
            return True
        if same_share(said, item.reference):
            return True if _PATTERNS.share.search(item.text) else None
        ours, theirs = (self.canonical(text) for text in (said, item.reference))
        is_list = sorted((ours[:1], theirs[:1])) == ["(", "{"] and _members(ours) == _members(theirs)
        is_text = ours.startswith("text:") != theirs.startswith("text:")
        return None if is_list or is_text or nearly_same(said, item.reference) else False

    def same(self, first: str, second: str) -> bool:
        """Return whether two extractions mean the same."""
        first, second = (text if "," in text else re.sub(r"(?<!\\);", ",", text) for text in (first, second))
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
    """Return whether a text is one mathematical expression with at most a unit, or the name of something."""
    if not text or len(text) > MAX_CHARACTERS or not balanced(text) or _PATTERNS.cut.search(text):
        return False
    if len(re.findall(r"[()\[\]]", text)) % 2:
        return False
    if inner := re.fullmatch(r"\\text\w*\s*\{([^{}]*)\}", text):
        text = inner[1].strip()
    if re.fullmatch(r"n/a", text, re.IGNORECASE):
        return False
    if _PATTERNS.none_exists.fullmatch(text):
        return True
    words = _PATTERNS.plain_word.findall(_PATTERNS.command.sub(" ", text))
    if re.search(r"\d|\\[a-zA-Z]|[=^π∞√∅]|\b[a-zA-Z]\s*[-+*/]\s*[a-zA-Z]\b|^-?[a-zA-Z]$", text):
        return all(word in _FUNCTIONS or word.lower() in UNITS or word.isupper() for word in words) and "\n" not in text
    return bool(_PATTERNS.named.fullmatch(text)) and not _PATTERNS.no_name.search(text)


def _expression(passage: str) -> str | None:
    """Return an expression without delimiters, with at most a unit; in words if it is a number."""
    for text in (passage, words_as_digits(passage)):
        if glued := _GLUED_UNIT.fullmatch(text):
            return rf"{glued[1]}\text{{ {glued[2]}}}"
        if is_expression(text):
            side = _answer_side(text)
            return side if is_expression(side) else None
        quantity = re.match(
            r"-?(?:\d[\d,]*(?:\.\d+)?(?:/\d+)?|[\da-zA-Z√π^/{}\\]*[√π\\][\da-zA-Z√π^/{}\\]*)(?=\s|[^\W\d_])", text
        )
        if quantity and is_unit(text[quantity.end() :]) and not re.search(r"\\|[=^]", text[quantity.end() :]):
            return quantity[0]
    return None


def _is_asked(sentence: str, item: GradedQuestion, *, strict: bool) -> bool:
    content = _last_row(
        _PATTERNS.delimited.sub(lambda span: next(group for group in span.groups() if group is not None), sentence)
    )
    left, *others = _PATTERNS.equals.split(_PATTERNS.about.split(_PATTERNS.arrow.split(content)[-1])[0])
    left = _PATTERNS.said_within.sub("", left).strip(" *_-:&$")
    symbols = _PATTERNS.symbol.findall(item.text)
    if strict and others and _PATTERNS.symbol.fullmatch(left) and left not in symbols:
        return False
    if not others or _spelled(left) in squeezed(item.text).replace("{", "").replace("}", ""):
        return (
            len(set(symbols) - set("aei")) < _SEVERAL
            or "," in left
            or not _PATTERNS.symbol.fullmatch(left)
            or _PATTERNS.asked_symbol.findall(asked_clause(item.text))[-1:] == [left]
        )
    if strict:
        return False
    if not symbols:
        return bool(_PATTERNS.name.fullmatch(left))
    return bool(_PATTERNS.quantity.fullmatch(left)) or (left.startswith("(") and "," in left)


def _may_be_asked(left: str, said: str, item: GradedQuestion) -> bool:
    """Return whether the left side of an equation is what is asked for, or names a value that the question does not."""
    if _PATTERNS.symbol.fullmatch(left):
        named = stems(" ".join(re.findall(rf"\${re.escape(left)}\$ (\w+)", item.text)))
        symbols = set(_PATTERNS.symbol.findall(item.text)) - {"a"}
        is_given, clause = left in symbols and len(symbols) > 1, asked_clause(item.text)
        return not is_given or _PATTERNS.asked_symbol.findall(clause)[-1:] == [left] or bool(named & stems(clause))
    spans = (next(filter(None, span.groups())) for span in _PATTERNS.delimited.finditer(item.text))
    if _spelled(left) in {_spelled(span.strip(" .,?")) for span in spans}:
        return True
    is_value = not _PATTERNS.symbol.search(_PATTERNS.text.sub("", _PATTERNS.command.sub(" ", said)))
    name = _PATTERNS.text.sub("", left)
    if not _PATTERNS.symbol.search(name) and not re.search(r"\d", name):
        return is_value
    if not _PATTERNS.delimited.search(item.text) and _spelled(left) in _spelled(item.text):
        return True
    return (
        is_value
        and bool(_PATTERNS.name.fullmatch(squeezed(left)))
        and left[0] not in _PATTERNS.symbol.findall(item.text)
    )


def _is_new(said: str, item: GradedQuestion) -> bool:
    """Return whether an expression is not one of the question's, and has no symbols but those of the question."""
    given = squeezed(item.text)
    exact = parse_exact(said)
    if exact is not None:
        return not re.search(rf"(?<![\d.]){re.escape(squeezed(said))}(?![\d.]|[a-zA-Z](?![a-zA-Z]))", given)
    symbols = set(_PATTERNS.symbol.findall(_PATTERNS.text.sub("", _PATTERNS.command.sub(" ", said)))) - {"i", "e", "C"}
    if re.search(r"[a-z]_\{?\w", said) and not re.search(r"[a-z]_\{?\w", item.text):
        return False
    asked = set(_PATTERNS.symbol.findall(item.text))
    return symbols <= (asked | set("krn") if asked else set()) and squeezed(tidy(said)) not in squeezed(tidy(item.text))


def _is_the_question(said: str, item: GradedQuestion) -> bool:
    """Return whether an expression is the question's own, not worked out, and is not what is asked for as it is."""
    spelled = _spelled(said)
    return (
        _PATTERNS.arithmetic.search(said) is not None
        and spelled in _spelled(item.text)
        and spelled != _spelled(item.reference)
    )


def _spelled(text: str) -> str:
    return squeezed(tidy(text)).replace("{", "").replace("}", "")


def _differ_in_base_only(first: str, second: str) -> bool:
    """Return whether one names the base and the other leaves it out, as an answer may if that base is asked for."""
    based, plain = sorted((first, second), key=lambda spelling: not spelling.startswith("base:"))
    return based.startswith("base:") and based.removeprefix("base:").partition("_")[0] == plain


def _last_row(content: str) -> str:
    """Return the last row of an environment of several, with the row before it where it continues with `=`."""
    if not _PATTERNS.rows.search(content):
        return content
    rows = [
        row.replace("&", " ").strip()
        for row in re.split(r"\\\\(?:\[\w+\])?|\\cr\b", _PATTERNS.environment.sub(" ", content))
    ]
    rows = [row for row in rows if row]
    kept = rows[-1:]
    while len(kept) < len(rows) and kept[0].startswith("="):
        kept.insert(0, rows[-len(kept) - 1])
    return " ".join(kept)


def _answer_side(content: str) -> str:
    """Return the last side of a chain of equations; a relation, like `x + y = 0`, as a whole."""
    is_matrix = "matrix" in content or "array" in content
    content = _PATTERNS.environment.sub(" ", content).strip() if is_matrix else _last_row(content.strip())
    content = _PATTERNS.exception.sub("", _PATTERNS.set_builder.sub(r"\1", content))
    content = _PATTERNS.said_within.sub("", _PATTERNS.about.split(_PATTERNS.arrow.split(content)[-1])[0].strip())
    if "\\begin" in content:
        return content.rpartition("=")[2].strip() if "=" in content else content
    sides = [side.strip() for side in _PATTERNS.equals.split(content)]
    left, right = tidy(sides[0]), tidy(sides[1]) if len(sides) == 2 else ""  # noqa: PLR2004 - both sides
    if right == "0" and len(left) >= _SHORTEST_RELATION:
        return content
    if (
        len(sides) > 1
        and _PATTERNS.symbol.search(sides[-2])
        and not _PATTERNS.name.fullmatch(squeezed(sides[-2]))
        and re.fullmatch(r"\d+\s*\w", sides[-2])
    ):
        return content
    if any("," in side for side in sides[1:-1]) or re.search(r"\b(?:or|and)\b|\\text\{ ?(?:or|and)", content):
        return content
    return sides[-1].removesuffix("\\\\").strip(" ,;&").rstrip(" .,;")


def _members(spelling: str) -> list[str]:
    return sorted(spelling[1:-1].split(","))


def _names_nothing(said: str, item: GradedQuestion) -> bool:
    """Return whether an answer is words that the question neither has nor asks for."""
    words = re.sub(r"\\text\w*\s*\{([^{}]*)\}", r"\1", said).strip()
    if (
        not _PATTERNS.named.fullmatch(words)
        or re.fullmatch(r"[A-Za-z]", words)
        or _PATTERNS.none_exists.fullmatch(words)
    ):
        return False
    return not (_PATTERNS.asks_name.search(item.text) or words.lower() in item.text.lower())
