"""The graders of short free text: one that may only say right or abstain, and yes or no."""

import re
import unicodedata
from calendar import month_abbr, month_name
from collections.abc import Set as AbstractSet

from shaberi_dagster.judges.rules.announced import announcements, in_force
from shaberi_dagster.judges.rules.base import GradedQuestion, Grader, Verdict
from shaberi_dagster.judges.rules.numeric import NUMBER_WORDS
from shaberi_dagster.judges.rules.text import boxed, own_part, readable, without_markdown

_MAX_WORDS = 40
"""A longer answer says more than one thing; whether the reference in it is its answer needs a reader."""

_DECLINES = re.compile(
    r"\bi (?:do not|don't|don’t) know\b|\bi(?: am|'m|’m) not (?:sure|certain|aware)\b"
    r"|\b(?:cannot|can't|unable to) (?:determine|answer|verify|find|confirm|provide)\b"
    r"|\bno (?:reliable |public |verifiable )?information\b|\bno record of\b"
    r"|分かりません|わかりません|不明です|存じません",
    re.IGNORECASE,
)
_HEDGES = re.compile(
    r"\b(?:not|n't|never|either|or|possibly|perhaps|rather than|instead of"
    r"|unlike|although|however|but)\b|ではな|または|か、",
    re.IGNORECASE,
)
_LAYOUT = re.compile(r"\\(?:text|textbf|mathrm|mbox)\s*\{([^{}]*)\}")
_COPULA = re.compile(r"(?:です|である)[。.]?\s*$")
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
_FILLERS = frozenset(
    re.findall(
        r"\w+",
        """it this that they he she there is was were are be been has had did do does in on at by of to for from with as
        and his her its their called named known name answer year date person place city country""",
    )
)
_ARTICLES = frozenset({"the", "a", "an"})
_MONTH_NUMBER = {name.lower(): at for names in (month_name, month_abbr) for at, name in enumerate(names) if name}
_DATES = (
    re.compile(r"\b(?P<month>[a-z]{3,9})\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?,? (?P<year>\d{4})\b"),
    re.compile(r"\b(?P<day>\d{1,2})(?:st|nd|rd|th)?(?: of)? (?P<month>[a-z]{3,9})\.?,? (?P<year>\d{4})\b"),
    re.compile(r"\b(?P<year>\d{4})(?:-|年)(?P<month>\d{1,2})(?:-|月)(?P<day>\d{1,2})(?:\b|日)"),
)


class MatchGrader(Grader):
    """A short text: right if it equals the reference or an alias, or says nothing else beside words of the question.

    What follows an answer marker is what an answer says, or the only emphasised words of the first line. It never says
    wrong, because other words may mean the same, unless the answer declines to answer; otherwise it abstains. A
    reference that is in the question already counts only as a whole answer.
    """

    name = "rule:match"
    version = 4

    def extract(self, answer: str, item: GradedQuestion) -> str | None:  # noqa: ARG002 - the question is not needed
        """The final answer as it is said; None if there is none that is clear."""
        text = in_force(own_part(readable(answer)))
        boxes = boxed(text)
        if boxes:
            return _LAYOUT.sub(r"\1", boxes[-1])
        for announced in announcements(text):
            return announced.strip()
        lines = [line.strip() for line in without_markdown(text).split("\n") if line.strip()]
        emphasised = _BOLD.findall(text.partition("\n")[0])
        return emphasised[0] if len(emphasised) == 1 else "\n".join(lines) or None

    def canonical(self, extracted: str) -> str:
        """Give all that mean the same one spelling."""
        return normalised(extracted)

    def grade(self, answer: str, item: GradedQuestion) -> Verdict:
        """Right, declined (wrong), or an abstention with what the answer says."""
        extracted = self.extract(answer, item)
        if extracted is None:
            return Verdict(None, None, "no final answer found")
        said = normalised(_COPULA.sub("", extracted))
        for reference in (item.reference, *item.aliases):
            if said == normalised(reference):
                return Verdict(True, extracted, "equals the reference")
        if _DECLINES.search(readable(answer)):
            return Verdict(False, extracted, "declines to answer")
        if len(said.split()) > _MAX_WORDS or _HEDGES.search(extracted):
            return Verdict(None, extracted, "needs a reader")
        question = normalised(item.text)
        of_question = {normalised(word) for word in re.findall(r"(?<![\w'’])[a-z]+\b", item.text)}
        for reference in (item.reference, *item.aliases):
            wanted = re.sub(r"^(?:in|on|at|by) ", "", normalised(reference))
            if f" {wanted} " not in f" {question} " and _says_only(said, wanted, of_question | _FILLERS):
                return Verdict(True, extracted, "says the reference and nothing else")
        return Verdict(None, extracted, "differs in its words")


def _says_only(said: str, wanted: str, known: AbstractSet[str]) -> bool:
    """Return whether a text says the wanted words together, and besides them only known ones."""
    before, found, after = f" {said} ".partition(f" {wanted} ")
    return bool(wanted and found) and all(word in known for word in (before + " " + after).split())


class YesNoGrader(Grader):
    """Yes or no: the first or the last word, or the last one after "answer"; an abstention if these differ."""

    name = "rule:yes_no"
    version = 1

    def extract(self, answer: str, item: GradedQuestion) -> str | None:  # noqa: ARG002 - the question is not needed
        """The final answer as it is said; None if there is none that is clear."""
        text = readable(answer)
        boxes = [_YES_NO[word] for content in boxed(text) if (word := content.strip(" .").lower()) in _YES_NO]
        text = without_markdown(text).lower()
        marked = [_YES_NO[word] for word in _MARKED_YES_NO.findall(text)]
        if boxes or marked:
            return (boxes or marked)[-1]
        ends = {_YES_NO[match[1]] for pattern in (_FIRST, _LAST) if (match := pattern.search(text))}
        return ends.pop() if len(ends) == 1 else None

    def canonical(self, extracted: str) -> str:
        """Give all that mean the same one spelling."""
        return _YES_NO.get(extracted.strip(" .").lower(), extracted)


_YES_NO = {"yes": "yes", "no": "no", "はい": "yes", "いいえ": "no", "true": "yes", "false": "no"}
_WORDS = "yes|no|はい|いいえ|true|false"
_MARKED_YES_NO = re.compile(rf"(?:\banswer\b|\bconclusion\b|答え|回答)\s*(?:is|:|は)?[\s:\"'「]*({_WORDS})(?![a-z])")
_FIRST = re.compile(rf"^\W*({_WORDS})(?=$|[\s.,:;!。、)\"'」-])(?! (?:one|way|evidence|need|doubt|document)\b)")
_LAST = re.compile(rf"(?:^|[\s\"'「(])({_WORDS})\W*$")


def normalised(text: str) -> str:
    """A text without case, width, accents, articles, punctuation, thousands separators; dates, small numbers alike."""
    text = unicodedata.normalize("NFKC", without_markdown(text)).lower()
    for pattern in _DATES:
        text = pattern.sub(_iso, text)
    text = "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    text = unicodedata.normalize("NFC", text)
    text = re.sub(r"(?<=\d),(?=\d{3}\b)|(?<=\w)['’](?=s\b)|(?<=\b\w)\.(?=\w\b|\s|$)", "", text)
    words = re.findall(r"\d+\.\d+|\w+", text.replace("&", " and "))
    return " ".join(NUMBER_WORDS.get(word, word) for word in words if word not in _ARTICLES)


def _iso(match: re.Match[str]) -> str:
    month = _MONTH_NUMBER.get(match["month"]) or (int(match["month"]) if match["month"].isdigit() else None)
    return f"{match['year']}_{month:02}_{int(match['day']):02}" if month else match[0]
