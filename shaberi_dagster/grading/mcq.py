"""The grader of multiple-choice answers: one letter of those offered."""

import re
from dataclasses import dataclass

from shaberi_dagster.grading.base import LETTERS, GradedQuestion, Grader
from shaberi_dagster.grading.text import boxed, readable, without_markdown

_MOST_OPTIONS = 13
"""As many letters are possible where the options are not known: TruthfulQA has up to 13."""

_LATEX = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mathsf|mathit)\b\s*|[{}$]|\\[()\[\]]|\\(?:left|right)\b")
_OPTION_LINE = re.compile(r"^\s*[(\[]?([A-M])[.):\]]\s*(\S.*)$", re.MULTILINE)

_NOUN = (
    r"(?:(?i:\b(?:answer|option|choice|completion|continuation|ending|letter|response|selection|conclusion|candidate)\b)"
    r"|答え|解答|回答|正解|選択肢|答案|选项)"
)
_FILLER = (
    r"(?:\s*(?i:the|therefore|thus|clearly|definitely|probably|most likely|likely|indeed|actually|then|correct|best"
    r"|letter|choice|option|answer|选项|選択肢)\b,?){0,6}"
)
_LETTER = (
    r"\s{0,9}[\"'“‘「『(\[<]{0,4}(?<![A-Za-z0-9_])(?P<letter>[A-M]|(?<=\()[a-m](?=\)))"
    r"[\"'”’」』)\]>]{0,4}(?![A-Za-z0-9_'’-])"
)
_IS_CORRECT = (
    r"\s*(?i:is|would be)(?:\s+(?i:clearly|therefore|thus|indeed|likely|probably))?(?:\s+(?i:the|our|my))?"
    r"(?:\s+(?i:single|most|only|final|one))*"
    r"\s+(?i:correct|best|right|true|answer|logical|appropriate|accurate|plausible|suitable)\b"
    r"(?!\s+(?i:if|only if|when|but))"
)
_BEGINS = r"(?:^|[.,;:!?(\[]|\b(?i:option|choice|answer|that|so|and|thus|hence|therefore|while|but|think|believe)\b)"
_MENTIONS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        rf"{_NOUN}[^.\n;?!。]{{0,120}}?(?:\b(?i:is|would be|should be|must be)\b|[:=]|は|为|是){_FILLER}{_LETTER}",
        rf"{_NOUN}\s*(?i:is|は)?\s*[:\-–—]?\s*\n+\s*{_LETTER}",
        r"^\W*(?i:answer|final answer|correct answer)\s*[:\-]?\s*\(?(?P<letter>[A-Ma-m])\)?\.?\s*$",
        rf"^\W*(?i:option|choice|選択肢|选项){_LETTER}\W*$",
        rf"(?:答え|解答|回答|正解)[】\]]\s*{_LETTER}",
        rf"(?i:\b(?:choose|chose|choosing|pick|picked|select|selected|go with|going with|opt for)\b){_FILLER}{_LETTER}",
        rf"(?i:\b(?:leaves|leaving)(?: us)?(?: only)?(?: with)?\b){_FILLER}{_LETTER}",
        rf"(?i:\b(?:therefore|thus|hence|so)\b),?(?:\s+(?i:it is|it's))?{_FILLER}{_LETTER}(?=\s*(?:$|[.,!]))",
        rf"(?i:\bnot\s+(?:option\s+)?)\(?[A-M]\)?,?\s+(?i:but(?: rather)?(?:\s+option)?){_LETTER}",
        rf"{_BEGINS}{_LETTER}{_IS_CORRECT}",
        rf"{_LETTER}\s*(?:が|は|で)\s*(?:最も)?(?:正解|正しい|適切|最適|答え)",
    )
)
_ALSO = re.compile(r"\s*(?:and|or|&|/|,|と|か|または)\s*(?:option\s+)?\(?([A-M])\)?(?![\w'’])")
_PRONOUN_OR_ARTICLE = "AI"
_ENDS_A_LETTER = re.compile(
    r"[\"'”’」』)\]>]|\s*(?:$|[.,:;!?=(\n。、-]|–|—)|\s*(?:because|since|as|due|for|based|given|is|would|and|or)\b"
    r"|\s*[が-んア-ン]"
)
_WORD = re.compile(r"\w+")
_LETTER_ONLY = re.compile(r"^\W*(?P<letter>[A-Ma-m])\W*$")

_POINTED_AT = re.compile(r"(?:=>|→|⇒)\s*\(?(?P<letter>[A-M])\)?\W*$")


@dataclass(frozen=True)
class _Mention:
    position: int
    letters: frozenset[str]


class ChoiceGrader(Grader):
    """A letter: the last explicit statement of an option that was offered.

    Without any letter the option whose text the answer gives counts, if it is one only. Two letters in the last
    statement, as in "A or B", are an abstention.
    """

    name = "rule:mcq"
    version = 1

    def extract(self, answer: str, item: GradedQuestion) -> str | None:
        """The final answer as it is said; None if there is none that is clear."""
        options = offered(item)
        raw = readable(answer)
        for content in reversed(boxed(raw)):
            letters = _leading_letter(_cleaned(content), options) or _quoted(_cleaned(content), options)
            if letters:
                return _single(letters)
        text = _cleaned(raw)
        mentions = [mention for mention in _mentions(text) if mention.letters <= options.keys()]
        if mentions:
            return _single(max(mentions, key=lambda mention: mention.position).letters)
        return _single(_quoted(text, options))

    def canonical(self, extracted: str) -> str:
        """One spelling for all that mean the same."""
        return extracted.strip(" ().").upper()


def offered(item: GradedQuestion) -> dict[str, str]:
    """The options of a question by letter, read from its text if they are nowhere else; empty texts if not there."""
    if item.options:
        return dict(zip(LETTERS, item.options, strict=False))
    listed = dict(_OPTION_LINE.findall(_cleaned(item.text)))
    if len(listed) > 1 and set(listed) == set(LETTERS[: len(listed)]):
        return listed
    return dict.fromkeys(LETTERS[:_MOST_OPTIONS], "")


def _cleaned(text: str) -> str:
    return _LATEX.sub("", without_markdown(text))


def _single(letters: frozenset[str]) -> str | None:
    return next(iter(letters)) if len(letters) == 1 else None


def _mentions(text: str) -> list[_Mention]:
    found = []
    for pattern in _MENTIONS:
        for match in pattern.finditer(text):
            letter, end = match["letter"], match.end("letter")
            if letter in _PRONOUN_OR_ARTICLE and not _ENDS_A_LETTER.match(text, end):
                continue
            letters = {letter.upper()}
            while also := _ALSO.match(text, end):
                letters.add(also[1])
                end = also.end()
            found.append(_Mention(match.start("letter"), frozenset(letters)))
    return found + _lines(text)


def _lines(text: str) -> list[_Mention]:
    """A letter alone on the first or last line, or in front of an option's text there."""
    lines = [match for match in re.finditer(r"[^\n]+", text) if match[0].strip()]
    listed = {match[1] for match in _OPTION_LINE.finditer(text)}
    found = []
    for line in {lines[0], lines[-1]} if lines else ():
        alone = _LETTER_ONLY.match(line[0]) or _POINTED_AT.search(line[0])
        leading = _OPTION_LINE.match(line[0]) if len(listed) == 1 else None
        letter = alone["letter"] if alone else leading[1] if leading else None
        if letter:
            found.append(_Mention(line.start(), frozenset(letter.upper())))
    return found


def _leading_letter(content: str, options: dict[str, str]) -> frozenset[str]:
    match = re.match(r"\s*(?:(?i:option|answer)\s*:?)?\s*\(?([A-Ma-m])\)?(?=$|[\s.):,])", content)
    return frozenset(match[1].upper()) & options.keys() if match else frozenset()


def _quoted(text: str, options: dict[str, str]) -> frozenset[str]:
    """The options whose whole text stands in the answer's last line, else in the answer; the longest of nested ones."""
    words = {letter: _words(option) for letter, option in options.items() if _words(option).strip()}
    lines = [line for line in text.split("\n") if line.strip()]
    for part in (lines[-1:] and lines[-1], text):
        said = _words(part or "")
        inside = {letter: option for letter, option in words.items() if option in said}
        longest = {
            letter
            for letter, option in inside.items()
            if not any(option != other and option in other for other in inside.values())
        }
        if longest:
            return frozenset(longest)
    return frozenset()


def _words(text: str) -> str:
    """The words with one space around each, so that only whole words are found in it."""
    return f" {' '.join(_WORD.findall(text.lower()))} "
