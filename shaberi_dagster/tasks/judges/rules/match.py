"""The graders of short free text: one that may only say right or abstain, and yes or no."""

import re
import unicodedata
from calendar import month_abbr, month_name

from shaberi_dagster.tasks.judges.rules.base import GradedQuestion, Verdict
from shaberi_dagster.tasks.judges.rules.commitments import AnswerKind
from shaberi_dagster.tasks.judges.rules.numbers import NUMBER_WORDS
from shaberi_dagster.tasks.judges.rules.patterns import patterns, vocabulary
from shaberi_dagster.tasks.judges.rules.text import readable

_PATTERNS = patterns("match")

_FILLERS = vocabulary("fillers")
_ARTICLES = frozenset({"the", "a", "an"})
_MONTH_NUMBER = {name.lower(): at for names in (month_name, month_abbr) for at, name in enumerate(names) if name}
_DATES = (
    re.compile(r"\b(?P<month>[a-z]{3,9})\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?,? (?P<year>\d{4})\b"),
    re.compile(r"\b(?P<day>\d{1,2})(?:st|nd|rd|th)?(?: of)? (?P<month>[a-z]{3,9})\.?,? (?P<year>\d{4})\b"),
    re.compile(r"\b(?P<year>\d{4})(?:-|年)(?P<month>\d{1,2})(?:-|月)(?P<day>\d{1,2})(?:\b|日)"),
)


class MatchGrader(AnswerKind):
    """A short text: right if it is the reference or an alias, or says nothing else beside words of the question.

    It never says wrong, because other words may mean the same, unless the answer declines to answer. A reference that
    is in the question already counts only as a whole answer.
    """

    name = "rule:match"
    version = 6
    says_wrong = False
    reads_last_lines = False

    def read(self, passage: str, item: GradedQuestion) -> str | None:
        """Return the passage, if it is the reference or an alias."""
        said = _PATTERNS.layout.sub(r"\1", passage)
        return said if normalised(said) in _wanted(item) and not _is_other_number(said, item) else None

    def mentions(self, passage: str, item: GradedQuestion) -> bool:  # noqa: ARG002
        """Return whether there is anything in a passage; any words may be an answer."""
        return bool(re.search(r"\w", passage))

    def restated(self, sentence: str, item: GradedQuestion) -> str | None:
        """Return the sentence, if it says the reference and else only words of the question."""
        if _is_other_number(sentence, item):
            return None
        said, question = f" {normalised(sentence)} ", f" {normalised(item.text)} "
        known = {normalised(word) for word in re.findall(r"(?<![\w'’])[a-z]+\b", item.text)} | _FILLERS
        for reference in _wanted(item):
            wanted = re.sub(r"^(?:in|on|at|by) ", "", reference)
            before, found, after = said.partition(f" {wanted} ")
            if (
                wanted
                and found
                and f" {wanted} " not in question
                and all(word in known for word in (before + after).split())
            ):
                return sentence
        return None

    def canonical(self, extracted: str) -> str:
        """Return one spelling for all that mean the same."""
        return normalised(extracted)

    def same(self, first: str, second: str) -> bool:  # noqa: ARG002
        """Return True: whatever is read here is the reference."""
        return True

    def grade(self, answer: str, item: GradedQuestion) -> Verdict:
        """Return right, declined (wrong), or an abstention."""
        verdict = super().grade(answer, item)
        said = normalised(answer)
        if (
            verdict.correct is None
            and _PATTERNS.declines.search(readable(answer).text)
            and not any(wanted in said for wanted in _wanted(item))
        ):
            return Verdict(False, None, "declines to answer")
        return verdict


class YesNoGrader(AnswerKind):
    """Yes or no, in several languages."""

    name = "rule:yes_no"
    version = 4

    def read(self, passage: str, item: GradedQuestion) -> str | None:  # noqa: ARG002
        """Return the word that a passage is."""
        return _yes_or_no(_PATTERNS.layout.sub(r"\1", passage).strip(" .。!！「」\"'"))

    def mentions(self, passage: str, item: GradedQuestion) -> bool:  # noqa: ARG002
        """Return whether such a word stands in a passage."""
        return bool(_PATTERNS.yes_or_no.search(passage))

    def canonical(self, extracted: str) -> str:
        """Return one spelling for all that mean the same."""
        return _yes_or_no(extracted.strip(" .")) or extracted


def _yes_or_no(word: str) -> str | None:
    if _PATTERNS.says_yes.fullmatch(word):
        return "yes"
    return "no" if _PATTERNS.says_no.fullmatch(word) else None


def _is_other_number(said: str, item: GradedQuestion) -> bool:
    """Return whether a year is written as no year is: negative, or with a comma."""
    return bool(_PATTERNS.year.search(item.text) and re.search(r"^\W*-\s?\d|\d,\d{3}", said))


def _wanted(item: GradedQuestion) -> set[str]:
    return {normalised(text) for text in (item.reference, *item.aliases)} - {""}


def normalised(text: str) -> str:
    """Return a text without case, width, accents, articles, punctuation; dates and small numbers in one spelling."""
    text = unicodedata.normalize("NFKC", text).lower()
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
