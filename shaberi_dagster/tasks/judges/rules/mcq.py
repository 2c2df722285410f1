"""The grader of multiple-choice answers: one letter of those offered, or the text of one option."""

import re

from shaberi_dagster.tasks.judges.rules.base import LETTERS, GradedQuestion
from shaberi_dagster.tasks.judges.rules.commitments import AnswerKind
from shaberi_dagster.tasks.judges.rules.numbers import parse_number
from shaberi_dagster.tasks.judges.rules.patterns import patterns, vocabulary
from shaberi_dagster.tasks.judges.rules.words import repeats, stems

_PATTERNS = patterns("mcq")

_MOST_OPTIONS = 13
"""As many letters are possible where the options are not known: TruthfulQA has up to 13."""

_ARTICLES = ("the", "a", "an")
_OTHER_LETTERS = "アイウエオ①②③④⑤"
_CHOOSING, _NAMING = vocabulary("choosing"), vocabulary("naming")


class ChoiceGrader(AnswerKind):
    """A letter that was offered, alone or with its option's text; or the text of one option."""

    name = "rule:mcq"
    version = 8
    chooses = True

    def read(self, passage: str, item: GradedQuestion) -> str | None:
        """Return the letter that a passage is, with at most its option; or of the option that it quotes."""
        options = offered(item)
        passage = _PATTERNS.latex.sub("", passage).strip(" .。*_")
        passage = _PATTERNS.other_letter.sub(lambda sign: LETTERS[_OTHER_LETTERS.index(sign[0]) % 5], passage)
        if numbered := _PATTERNS.numbered.fullmatch(passage):
            index = int(numbered[1] or numbered[3]) - 1
            rest = (numbered["rest"] or numbered["last"] or "").removesuffix("です").strip(" ().:。（）")
            if not 0 <= index < len(options) or _by_text(passage, options):
                return None
            return LETTERS[index] if rest in ("", LETTERS[index], options[LETTERS[index]]) else None
        noun = _PATTERNS.noun.match(passage)
        if letter := _by_letter(passage[noun.end() :] if noun else passage, options, alone=noun is None):
            return letter
        return _by_text(passage, options) or _by_text(passage[noun.end() :] if noun else passage, options)

    def mentions(self, passage: str, item: GradedQuestion) -> bool:
        """Return whether a letter or an option's text stands in a passage."""
        options, passage = offered(item), _PATTERNS.latex.sub("", passage)
        if re.search(r"(?:option|choice|選択肢) ?\d|\d番|[①-⑤]", passage, re.IGNORECASE) or re.fullmatch(
            r"\W*[a-m]\W*", passage
        ):
            return True
        return bool(_standing(passage) & options.keys()) or any(
            _within(_words(text), _words(passage)) for text in options.values() if _words(text).strip()
        )

    def restated(self, sentence: str, item: GradedQuestion) -> str | None:
        """Return the one option of a sentence whose other words are the question's, or choose it."""
        named = _only_option(sentence, offered(item))
        if named is None:
            return None
        if _PATTERNS.asks_wrong.search(item.text) and not (
            _PATTERNS.denial.search(sentence) or _PATTERNS.answers.search(sentence)
        ):
            return None
        letter, rest = named
        unnamed = " ".join(word for word in _PATTERNS.rest_word.findall(rest) if word not in _NAMING)
        text = _words(offered(item)[letter])
        by_text = bool(text.strip()) and _within(text, _words(sentence))
        by_text = by_text and (repeats(rest, item.text) or repeats(unnamed, item.text))
        return letter if by_text else self.chosen(sentence, item)

    def chosen(self, sentence: str, item: GradedQuestion) -> str | None:
        """Return the one option of a sentence whose other words choose it, or are the question's or the option's."""
        options, sentence = offered(item), _PATTERNS.instead.sub(_without_other, sentence)
        named = None if _PATTERNS.denial.search(sentence) else _only_option(sentence, options)
        if named is None or (_PATTERNS.asks_wrong.search(item.text) and not _PATTERNS.answers.search(sentence)):
            return None
        letter, rest = named
        said = set(_PATTERNS.rest_word.findall(rest))
        unknown = stems(" ".join(said - _CHOOSING - _NAMING))
        if unknown - stems(item.text.partition("\n")[0]) - stems(options[letter]):
            return None
        outright = letter in _standing(sentence) and not unknown and bool(_PATTERNS.it_is.match(rest))
        return letter if said & _CHOOSING or outright or _PATTERNS.superlative.search(sentence) else None

    def repeated(self, said: str, rest: str, item: GradedQuestion) -> bool:
        """Return whether nothing below chooses another option; the letter above it stands."""
        return len(said) == 1 and item is not None and not re.search(r"\banswer\b|答え|正解", rest, re.IGNORECASE)

    def canonical(self, extracted: str) -> str:
        """Return one spelling for all that mean the same."""
        return extracted.strip(" ().").upper()


def offered(item: GradedQuestion) -> dict[str, str]:
    """Return a question's options by letter, if need be read from its text; empty texts if they are not there."""
    if item.options:
        return dict(zip(LETTERS, item.options, strict=False))
    listed = dict(_PATTERNS.option_line.findall(_PATTERNS.latex.sub("", item.text)))
    if len(listed) > 1 and set(listed) == set(LETTERS[: len(listed)]):
        return listed
    return dict.fromkeys(LETTERS[:_MOST_OPTIONS], "")


def _without_other(other: re.Match[str]) -> str:
    """Return what stands for `A ではなく` and for `間違いありません`."""
    return "です" if "間違" in other[0] else ""


def _standing(text: str) -> set[str]:
    """Return the letters that stand alone in a text; `A` only where it is no article."""
    return {(found[1] or found[2]).upper() for found in _PATTERNS.standing.finditer(_PATTERNS.article.sub(" ", text))}


def _only_option(sentence: str, options: dict[str, str]) -> tuple[str, str] | None:
    """Return the one option that a sentence names, by its letter, its text or both, and the sentence's other words."""
    texts = {letter: _words(text) for letter, text in options.items() if _words(text).strip()}
    said = _words(_PATTERNS.latex.sub("", sentence))
    inside = {letter for letter, text in texts.items() if _within(text, said)}
    inside = {
        letter
        for letter in inside
        if not any(_within(texts[letter], texts[other]) and letter != other for other in inside)
    }
    named = inside | _standing(sentence) - ({"I"} - options.keys())
    if len(named) != 1 or not named <= options.keys():
        return None
    (letter,) = named
    rest = said.replace(texts[letter].strip(), " ") if letter in inside else said
    return letter, re.sub(rf"(?<![a-z]){letter.lower()}(?![a-z])", " ", rest) if letter in _standing(sentence) else rest


def _by_letter(passage: str, options: dict[str, str], *, alone: bool) -> str | None:
    found = _PATTERNS.letter.fullmatch(passage.strip())
    if found is None or (letter := found["letter"].upper()) not in options:
        return None
    rest, option = found["rest"], options[letter]
    if found["letter"].islower() and (rest.strip(" .)") if alone else False) and not found["closed"]:
        return None
    if not rest.strip(" .。)"):
        return letter
    if not (found["closed"] or _PATTERNS.after_letter.match(rest)):
        return None
    said = _words(rest.removeprefix("の"))
    if option and said.strip() and (said == _words(option) or _words(option).startswith(said)):
        return letter
    return (
        letter
        if not option and found["closed"] + rest[:1] not in (" ", "") and _others(rest, options, letter)
        else None
    )


def _others(text: str, options: dict[str, str], letter: str) -> bool:
    """Return whether no other letter stands in a text."""
    return not ({found[1] or found[2].upper() for found in _PATTERNS.standing.finditer(text)} & options.keys()) - {
        letter,
        "A",
    }


def _by_text(passage: str, options: dict[str, str]) -> str | None:
    """Return the one option whose text a passage is, its letter in brackets or not."""
    said = _words(re.sub(r"\((?:option )?[A-M]\)\s*$", "", passage))
    equal = [letter for letter, text in options.items() if text and _words(text) == said]
    if not equal and (value := parse_number(passage)) is not None and re.fullmatch(r"[\d.,$€£¥%\s-]+\w{0,8}", passage):
        equal = [letter for letter, text in options.items() if parse_number(text) == value]
    stated = re.search(r"\((?:option )?([A-M])\)\s*$", passage)
    return equal[0] if len(equal) == 1 and (stated is None or stated[1] == equal[0]) else None


def _within(text: str, said: str) -> bool:
    """Return whether words stand within words; of Japanese and Chinese, signs within signs."""
    return text in said or (bool(re.search(r"[぀-ヿ一-鿿가-힣]", text)) and text.strip() in said)


def _words(text: str) -> str:
    """Return the words without a first article, with a space around each, so that only whole words are found."""
    words = _PATTERNS.word.findall(text.lower())
    return f" {' '.join(words[1:] if words[:1] and words[0] in _ARTICLES and len(words) > 1 else words)} "
