"""The grader of multiple-choice answers: one letter of those offered."""

import re
from dataclasses import dataclass

from shaberi_dagster.judges.rules.announced import taken_back, wrapped
from shaberi_dagster.judges.rules.base import LETTERS, GradedQuestion, Grader
from shaberi_dagster.judges.rules.text import boxed, breaks_off, own_part, readable, without_markdown

_MOST_OPTIONS = 13
"""As many letters are possible where the options are not known: TruthfulQA has up to 13."""

_LATEX = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mathsf|mathit)\b\s*|[{}$]|\\[()\[\]]|\\(?:left|right)\b")
_OPTION_LINE = re.compile(r"^\s*[(\[]?([A-M])[.):\]]\s*(\S.*)$", re.MULTILINE)

_NOUN = (
    r"(?:(?i:\b(?:answer|option|choice|completion|continuation|ending|letter|response|selection|conclusion|candidate|match|statement|fit|pick|decision)\b)"
    r"|答え|正しいの|解答|回答|正解|選択肢|答案|选项)"
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
    r"(?!\s+(?i:if|only if|when|but|that|about|in|to))"
)
_BEGINS = r"(?:^|[.,;:!?(\[]|\b(?i:option|choice|answer|that|so|and|thus|hence|therefore|while|but|think|believe)\b)"
_CHOOSES = r"(?i:\b(?:choose|chose|choosing|pick|picked|select|selected|go with|going with|opt for|settled? on)\b)"
_MENTIONS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        rf"{_NOUN}[^.\n;?!。]{{0,120}}?(?:\b(?i:is|would be|should be|must be)\b|[:=]|は|为|是){_FILLER}{_LETTER}",
        rf"{_NOUN}\s*(?i:is|は)?\s*[:\-–—]?\s*\n+\s*{_LETTER}",
        r"^[^\w\n]{0,20}(?i:answer|final answer|correct answer)\s*[:\-]?\s*\(?(?P<letter>[A-Ma-m])\)?\.?\s*$",
        rf"^[^\w\n]{{0,20}}(?i:option|choice|選択肢|选项){_LETTER}\W*$",
        rf"(?:答え|解答|回答|正解)[】\]]\s*{_LETTER}",
        rf"{_CHOOSES}{_FILLER}{_LETTER}",
        rf"(?i:\b(?:leaves|leaving)(?: us)?(?: only)?(?: with)?\b){_FILLER}{_LETTER}",
        rf"(?i:\b(?:therefore|thus|hence|so)\b),?(?:\s+(?i:it is|it's))?{_FILLER}{_LETTER}(?=\s*(?:$|[.,!]|it is\b))",
        rf"(?i:\bnot\s+(?:option\s+)?)\(?[A-M]\)?,?\s+(?i:but(?: rather)?(?:\s+option)?){_LETTER}",
        rf"(?i:\bit (?:is|(?:has to|must|should|would|can only) be)\b){_FILLER}{_LETTER}(?=\s*(?:$|[.,!;:]|because\b))",
        rf"{_BEGINS}{_LETTER}{_IS_CORRECT}",
        rf"{_LETTER}\s*(?:が|は|で)\s*(?:最も)?(?:正解|正しい|適切|最適|答え)",
    )
)
_FITS = re.compile(
    rf"(?i:\b(?:option|choice|statement|completion)\b){_LETTER}\s+"
    r"(?i:(?:best |most closely |correctly |accurately |exactly )?"
    r"(?:matches|fits|describes|captures|completes|answers|follows|continues|reflects|represents|states))\b"
)
"""Says that an option is good, but not that no other is: only counts if it is said of one."""
_CORRECTED = re.compile(r"(?<![\w'’])\(?([A-M])\)?(?=[.,!:)]|\s*$|\s*\n)")
_ALSO = re.compile(r"\s*(?:and|or|&|/|,|と|か|または)\s*(?:option\s+)?\(?([A-M])\)?(?![\w'’])")
_PRONOUN_OR_ARTICLE = "AI"
_ENDS_A_LETTER = re.compile(
    r"[\"'”’」』)\]>]|\s*(?:$|[.,:;!?=(\n。、-]|–|—)|\s*(?:because|since|as|due|for|based|given|is|it is|would|and|or)"
    r"\b|\s*[が-んア-ン]"
)
_UNREAL = re.compile(r"\bif\b[^.!?\n]*\Z", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_LETTER_ONLY = re.compile(r"^\W*(?P<letter>[A-Ma-m])(?:\W*| \([^()]*\)\W*)$")

_CROSS = "[✗✘❌×✕]"
_REJECTED = re.compile(
    rf"^[^\w\n]*(?:[(\[]?[A-M](?![A-Za-z0-9])[^\n]*{_CROSS}|{_CROSS}\W*[A-M](?![A-Za-z0-9])[^\n]*?"
    r"|[(\[]?[A-M][.):\]][^\n]*[-–—:(,]\s*(?i:false|incorrect|wrong|not correct|誤り|不正解|間違い|不適切))"
    r"[^\w\n]*$\n?",
    re.MULTILINE,
)
"""A line of a list that crosses an option out, or says that it is wrong."""
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
    version = 4

    def extract(self, answer: str, item: GradedQuestion) -> str | None:
        """The final answer as it is said; None if there is none that is clear."""
        options = offered(item)
        raw = own_part(readable(answer))
        for content in (*reversed(boxed(raw)), *wrapped(raw)):
            letters = _leading_letter(_cleaned(content), options) or _quoted(_cleaned(content), options)
            if letters:
                return _single(letters)
        text = _REJECTED.sub("", _cleaned(raw))
        mentions = [mention for mention in _mentions(text, options) if mention.letters <= options.keys()]
        if mentions:
            return _unless_taken_back(max(mentions, key=lambda mention: mention.position), text, options)
        if breaks_off(text):
            return None
        fitting = frozenset(match["letter"] for match in _FITS.finditer(text)) & options.keys()
        return _single(fitting or _quoted(text, options))

    def canonical(self, extracted: str) -> str:
        """Give all that mean the same one spelling."""
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


def _unless_taken_back(last: _Mention, text: str, options: dict[str, str]) -> str | None:
    """The letter of the last statement, or the one that stands after it was taken back."""
    after = text[last.position + 1 :]
    for option in options.values():
        after = after.replace(option, " ") if option else after
    if not taken_back(after):
        return _single(last.letters)
    instead = [letter for letter in _CORRECTED.findall(after) if letter in options]
    return instead[-1] if instead else None


def _mentions(text: str, options: dict[str, str]) -> list[_Mention]:
    found = []
    for pattern in _MENTIONS:
        for match in pattern.finditer(text):
            letter, end = match["letter"], match.end("letter")
            if "would be" in match[0] and _UNREAL.search(text, 0, match.end()):
                continue
            if letter in _PRONOUN_OR_ARTICLE and not _ENDS_A_LETTER.match(text, end):
                continue
            letters = {letter.upper()}
            while also := _ALSO.match(text, end):
                letters.add(also[1])
                end = also.end()
            found.append(_Mention(match.start("letter"), frozenset(letters)))
    return found + _lines(text, options)


def _lines(text: str, options: dict[str, str]) -> list[_Mention]:
    """A letter alone on the first or last line, or in front of an option's text there."""
    lines = [match for match in re.finditer(r"[^\n]+", text) if match[0].strip()]
    listed = {match[1] for match in _OPTION_LINE.finditer(text)}
    found = []
    for line in {lines[0], lines[-1]} if lines else ():
        alone = _LETTER_ONLY.match(line[0]) or _POINTED_AT.search(line[0])
        leading = _OPTION_LINE.match(line[0]) if len(listed) == 1 else None
        leading = leading if leading and _gives(leading[2], options.get(leading[1], ""), text) else None
        letter = alone["letter"] if alone else leading[1] if leading else None
        if letter:
            found.append(_Mention(line.start(), frozenset(letter.upper())))
    return found


def _gives(said: str, option: str, text: str) -> bool:
    """Return whether the text after a letter is its option, not the beginning of a discussion that was cut."""
    whole = _words(said).startswith(_words(option)) if option else True
    return _words(said) == _words(option) or taken_back(said) or (whole and text.rstrip()[-1:] in ".!?)。*\"'")


def _leading_letter(content: str, options: dict[str, str]) -> frozenset[str]:
    match = re.match(r"\s*(?:(?i:option|answer)\s*:?)?\s*\(?([A-Ma-m])\)?(?=$|[\s.):,])", content)
    return frozenset(match[1].upper()) & options.keys() if match else frozenset()


def _quoted(text: str, options: dict[str, str]) -> frozenset[str]:
    """The options whose whole text stands in the answer's last line, else in the answer; the longest of nested ones."""
    words = {letter: _words(option) for letter, option in options.items() if _words(option).strip()}
    lines = [line for line in text.split("\n") if line.strip()]
    listed = len({match[1] for match in _OPTION_LINE.finditer(text)}) > 1
    for part in (lines[-1:] and not listed and lines[-1], text):
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
