"""The sentences of an answer, ordered by how much they look like its conclusion.

The points are not learned: each is one observation about how models end an answer, and they were set by reading the
real responses that the tests run on, of one model family. `docs/design/grading.md` says how well that works elsewhere.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from shaberi_dagster.judges.rules.text import squeezed

_MAX_SENTENCES = 400
_MAX_SENTENCE = 1_500

_MARKER = re.compile(
    r"(?:\b(?:final (?:answer|result)|answer)\b|答え|解答|回答|正解|答案)\**\s*(?:is\b|:|は)",
    re.IGNORECASE,
)
_CONCLUDES = re.compile(
    r"\b(?:therefore|thus|hence|so|in total|altogether|finally|overall|we (?:get|have|find|obtain))\b"
    r"|したがって|従って|よって|ゆえに|つまり|合計|全部で|所以|因此",
    re.IGNORECASE,
)
_CONCLUSION = re.compile(r"\bconclusion\b\W*:|\bin conclusion\b|結論", re.IGNORECASE)
_CHECKS = re.compile(
    r"\b(?:verif\w+|check(?:ing|s)?|confirm\w*|double-check|equality (?:holds|occurs)|is (?:satisfied|correct|valid)"
    r"|holds true|[a-z]+ (?:is|are) (?:achieved|attained|reached)\b(?![^$]*:\s)|occurs (?:when|at)"
    r"|extraneous|invalid|not valid|rejected|for (?:example|instance)|according to the examples?|to see (?:why|this)"
    r"|lhs|rhs|mak(?:e|es|ing) sense)\b|検算|確認",
    re.IGNORECASE,
)
_REPEATS_THE_QUESTION = 0.3
_STEP = re.compile(r"^(?:[*-]\s|\d+\.\s|#|\*\*(?:step )?\d)", re.IGNORECASE)
_REMARK = re.compile(r"^\W*\((?:note|this|or|so|since|because)\b|^\W*note\b|^\*?\([A-Z][^()$]*\)?\W*$", re.IGNORECASE)
_CONDITION = re.compile(r"^\W*(?:when|if|for|note|where|recall|at|alternatively|or)\b", re.IGNORECASE)
_PREMISE = re.compile(r"^\W*(?:since|because|given|using)\b", re.IGNORECASE)
_DISPLAY = re.compile(
    r"\$\$(.{1,2000}?)\$\$|\\\[(.{1,2000}?)\\\]|\\begin\{((?:align|equation|gather)\*?)\}(.{1,2000}?)\\end\{\3\}",
    re.DOTALL,
)
_HEADING = re.compile(r"^\s*(?:#{1,6} .*|\*\*[^*]+\*\*:?|[A-Z][\w ]{2,30}:)\s*$")
_SENTENCE_END = re.compile(r"(?:(?<=[.?])|(?<=[^\\]!)|(?<=[.!?]\$))\**\s+(?=[A-Z(*$\\\d])|(?<=。)")
_WORD = re.compile(r"[a-z]{3,}|[぀-ヿ一-鿿]{2}")
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """the and for what how many much are was were does did will would that this with his her its their them they
        from find value compute answer your express common fraction form determine there have has had all each than
        which who number simplest nearest terms such""",
    )
)
_ASKED_EXPRESSION = re.compile(
    r"\b(?:value of|find|compute|what is|what does|solve for|determine|evaluate|simplify|calculate"
    r"|is the (?:integer|number)|(?:integer|number|integers) (?=\$\w\$ satisf))"
    r"\s*(?:\$+|\\\[|\\\()([^$]{1,80}?)(?:\$|\\\]|\\\))",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"(?<=[.?!])\s+|(?<=[.?!]\$)\s+|(?<=。)")
_FORM_ONLY = re.compile(
    r"\W*(?:express|write|enter|give|round|respond|leave|please|options?|you may|hint)\b", re.IGNORECASE
)
_HOW_MANY = re.compile(r"\bhow many\b|\bnumber of\b", re.IGNORECASE)
_COUNTS = re.compile(r"\bnumber of\b|\bthere (?:is|are)\b", re.IGNORECASE)
_ASKS = re.compile(r"\?|\b(?:find|compute|determine|what|how|evaluate|calculate|simplify|express)\b", re.IGNORECASE)


_STATES_NOTHING = re.compile(
    r"[?？]\W*$|^\W*(?:use|apply|consider|let|suppose|try|first|start)\b(?!.*\b(?:so|thus|therefore|is|are)\b)"
    r"|\b(?:i|we|you|one) (?:cannot|can't|can not|could not|couldn't)\b"
    r"|\bno idea\b|\b(?:don't|do not) know\b|\bnot sure\b"
    r"|\b(?:cannot|can't|can not|impossible to) (?:be )?(?:answer|determine|solve|know|compute|tell|say|help)"
    r"|\b(?:not enough|insufficient) information\b|(?:分かり|わかり|答えられ|でき)ません|不明です"
    r"|\b(?:is|are|was|were) (?:\w+ )?not[\s$\\({*]*(?:-?\d|[dt]?frac|sqrt)|必要があ"
    r"|^\W*if\b[^.]*\b(?:were|had)\b[^.]*\bwould\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Statement:
    """A sentence of an answer that may be its conclusion.

    Attributes:
        text: The sentence, with its markdown.
        weight: How much it looks like the conclusion; only comparable within one answer.
    """

    text: str
    weight: float


def states_nothing(sentence: str) -> bool:
    """Return whether a sentence asks, declines, denies or orders something, so that no value in it is an answer."""
    return bool(_STATES_NOTHING.search(sentence))


def statements(text: str, question: str, holds_answer: Callable[[str], bool]) -> list[Statement]:
    """The sentences of an answer, the one that looks most like its conclusion first.

    A conclusion stands late, follows a marker (`Final Answer:`, `答え`), says therefore, repeats the words of what is
    asked, and has something in bold. What follows a heading like "Verification", and side remarks, count less.

    Args:
        text: The answer, from `readable`.
        question: What was asked.
        holds_answer: Whether a sentence has something in it that could be the answer.

    Returns:
        Each of those sentences with its weight; of equal ones the later first.
    """
    sentences = _sentences(text)
    asked = _asked_words(question)
    symbols = asked_symbols(question)
    counted = bool(_HOW_MANY.search(question))
    found = []
    checking = False
    for index, sentence in enumerate(sentences):
        possible = holds_answer(sentence)
        marked = bool(_MARKER.search(sentence))
        concluding = bool(_CONCLUSION.search(sentence))
        concludes = concluding or bool(_CONCLUDES.search(sentence))
        said = any(f"{symbol}$is" in squeezed(sentence) for symbol in symbols)
        symbol = said or any(f"{symbol}=" in squeezed(sentence) for symbol in symbols)
        checks = bool(_CHECKS.search(sentence))
        overlap = _overlap(asked, sentence)
        if _HEADING.match(sentence.partition("\n")[0]) or (checks and sentence.endswith("?")):
            checking = checks
        elif marked or concludes or said or (overlap > _REPEATS_THE_QUESTION and not checks):
            checking = False
        aside = checks or checking or bool(_REMARK.match(sentence))
        if overlap <= _REPEATS_THE_QUESTION:
            aside = aside or bool(_CONDITION.match(sentence)) or bool(_PREMISE.match(sentence) and "=" not in sentence)
        weight = 2.0 * (index + 1) / len(sentences) + 2.0 * overlap
        weight += sum(
            points
            for points, holds in (
                (7.0, marked),
                (1.5, concludes),
                (1.5, concluding),
                (1.0, "**" in sentence),
                (2.5, symbol),
                (1.5, counted and _COUNTS.search(sentence)),
                (-3.0, aside),
                (-1.5, _STEP.match(sentence)),
            )
            if holds
        )
        if possible:
            found.append((weight, index, sentence, aside))
    last = max((index for _, index, _, aside in found if not aside), default=None)
    ranked = sorted(
        ((weight + 3.5 * (index == last), index, sentence) for weight, index, sentence, _ in found), reverse=True
    )
    return [Statement(sentence, weight) for weight, _, sentence in ranked]


def _sentences(text: str) -> list[str]:
    text = _DISPLAY.sub(lambda shown: f" $${' '.join((shown[1] or shown[2] or shown[4]).split())}$$ ", text)
    sentences: list[str] = []
    joins = False
    for line in (line.strip() for line in text.split("\n")):
        if not line or set(line) <= set("-*_ "):
            continue
        first, *rest = _SENTENCE_END.split(line)
        if sentences and joins:
            sentences[-1] += "\n" + first
        else:
            sentences.append(first)
        sentences += rest
        bare = line.rstrip("* ")
        joins = bare.endswith((":", ",", " is", " are", "=")) or bool(
            _HEADING.match(line) and _MARKER.search(bare + ":")
        )
    return [sentence.strip()[-_MAX_SENTENCE:] for sentence in sentences if sentence.strip()][-_MAX_SENTENCES:]


def asked_clause(question: str) -> str:
    """The last sentence of a question that asks or orders something; else its end."""
    clauses = [part for part in _CLAUSE_END.split(question) if _ASKS.search(part) and not _FORM_ONLY.match(part)]
    return clauses[-1] if clauses else question[-200:]


def _asked_words(question: str) -> frozenset[str]:
    return frozenset(_stems(asked_clause(question)))


def _stems(text: str) -> set[str]:
    return {word[:5] for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS}


def _overlap(asked: frozenset[str], sentence: str) -> float:
    return len(asked & _stems(sentence)) / len(asked) if asked else 0.0


def asked_symbols(question: str) -> list[str]:
    """The expressions whose value is asked for, without spaces: in an answer they stand left of the equals sign."""
    found = [squeezed(expression) for expression in _ASKED_EXPRESSION.findall(asked_clause(question))]
    return [expression.rstrip(".,?") for expression in found if "=" not in expression]
