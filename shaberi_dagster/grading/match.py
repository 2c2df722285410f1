"""The graders of short free text: one that may only say right or abstain, and yes or no."""

import re
import unicodedata
from calendar import month_abbr, month_name

from shaberi_dagster.grading.base import GradedQuestion, Verdict
from shaberi_dagster.grading.commitments import AnswerKind
from shaberi_dagster.grading.numbers import NUMBER_WORDS
from shaberi_dagster.grading.text import readable

_DECLINES = re.compile(
    r"\bi (?:do not|don't|don’t) know\b|\bi(?: am|'m|’m) not (?:sure|certain|aware)\b"
    r"|\b(?:cannot|can't|unable to) (?:determine|answer|verify|find|confirm|provide)\b"
    r"|\bno (?:reliable |public |verifiable )?information\b|\bno record of\b"
    r"|分かりません|わかりません|不明です|存じません",
    re.IGNORECASE,
)
_LAYOUT = re.compile(r"\\(?:text|textbf|mathrm|mbox)\s*\{([^{}]*)\}|[$*_`]")
_FILLERS = frozenset(
    re.findall(
        r"\w+",
        """it this that they he she there is was were are be been has had did do does in on at by of to for from with as
        and his her its their called named known name answer year date person place city country""",
    )
)
_YEAR = re.compile(r"\byear\b|\bwhen\b|何年", re.IGNORECASE)
_ARTICLES = frozenset({"the", "a", "an"})
_MONTH_NUMBER = {name.lower(): at for names in (month_name, month_abbr) for at, name in enumerate(names) if name}
_DATES = (
    re.compile(r"\b(?P<month>[a-z]{3,9})\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?,? (?P<year>\d{4})\b"),
    re.compile(r"\b(?P<day>\d{1,2})(?:st|nd|rd|th)?(?: of)? (?P<month>[a-z]{3,9})\.?,? (?P<year>\d{4})\b"),
    re.compile(r"\b(?P<year>\d{4})(?:-|年)(?P<month>\d{1,2})(?:-|月)(?P<day>\d{1,2})(?:\b|日)"),
)
_YES_NO = {
    **dict.fromkeys(
        (
            "yes",
            "true",
            "correct",
            "right",
            "that's correct",
            "正しい",
            "正しいです",
            "そのとおりです",
            "その通りです",
            "はい",
            "そうです",
            "ja",
            "oui",
            "sí",
            "si",
            "sim",
            "是",
            "是的",
            "네",
            "да",
            "yep",
            "yeah",
        ),
        "yes",
    ),
    **dict.fromkeys(
        (
            "no",
            "false",
            "incorrect",
            "wrong",
            "正しくありません",
            "正しくない",
            "誤り",
            "誤りです",
            "いいえ",
            "違います",
            "nein",
            "non",
            "não",
            "不是",
            "否",
            "아니요",
            "нет",
            "nope",
        ),
        "no",
    ),
}
_WORDS = re.compile(rf"(?<![^\W_])(?:{'|'.join(sorted(_YES_NO, key=len, reverse=True))})(?![^\W_])", re.IGNORECASE)


class MatchGrader(AnswerKind):
    """A short text: right if it is the reference or an alias, or says nothing else beside words of the question.

    It never says wrong, because other words may mean the same, unless the answer declines to answer. A reference that
    is in the question already counts only as a whole answer.
    """

    name = "rule:match"
    version = 5
    reads_last_lines = False

    def read(self, passage: str, item: GradedQuestion) -> str | None:
        """The passage, if it is the reference or an alias."""
        said = _LAYOUT.sub(r"\1", passage)
        return said if normalised(said) in _wanted(item) and not _is_other_number(said, item) else None

    def mentions(self, passage: str, item: GradedQuestion) -> bool:  # noqa: ARG002
        """Whether there is anything in a passage; any words may be an answer."""
        return bool(re.search(r"\w", passage))

    def restated(self, sentence: str, item: GradedQuestion) -> str | None:
        """The sentence, if it says the reference and else only words of the question."""
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
        """One spelling for all that mean the same."""
        return normalised(extracted)

    def same(self, first: str, second: str) -> bool:  # noqa: ARG002
        """Whatever is read here is the reference."""
        return True

    def grade(self, answer: str, item: GradedQuestion) -> Verdict:
        """Right, declined (wrong), or an abstention."""
        verdict = super().grade(answer, item)
        said = normalised(answer)
        if (
            verdict.correct is None
            and _DECLINES.search(readable(answer).text)
            and not any(one in said for one in _wanted(item))
        ):
            return Verdict(False, None, "declines to answer")
        return verdict


class YesNoGrader(AnswerKind):
    """Yes or no, in several languages."""

    name = "rule:yes_no"
    version = 2

    def read(self, passage: str, item: GradedQuestion) -> str | None:  # noqa: ARG002
        """The word that a passage is."""
        return _YES_NO.get(_LAYOUT.sub(r"\1", passage).strip(" .。!！「」\"'").lower())

    def mentions(self, passage: str, item: GradedQuestion) -> bool:  # noqa: ARG002
        """Whether such a word stands in a passage."""
        return bool(_WORDS.search(passage))

    def canonical(self, extracted: str) -> str:
        """One spelling for all that mean the same."""
        return _YES_NO.get(extracted.strip(" .").lower(), extracted)


def _is_other_number(said: str, item: GradedQuestion) -> bool:
    """Whether a year is written as no year is: negative, or with a comma."""
    return bool(_YEAR.search(item.text) and re.search(r"^\W*-\s?\d|\d,\d{3}", said))


def _wanted(item: GradedQuestion) -> set[str]:
    return {normalised(text) for text in (item.reference, *item.aliases)} - {""}


def normalised(text: str) -> str:
    """A text without case, width, accents, articles, punctuation, thousands separators; dates, small numbers alike."""
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
