"""Words of a question: what a sentence may repeat that gives the answer in the question's own words."""

from functools import lru_cache

from shaberi_dagster.tasks.judges.rules.patterns import patterns, vocabulary

_PATTERNS = patterns("words")

_STOP, _GENERAL, _GENERIC = vocabulary("stop"), vocabulary("general"), vocabulary("generic")
_STEM = 4
MOST_SPARE = 5
"""With so many words to spare it does not matter what was asked: the answer is announced."""


@lru_cache(maxsize=512)
def asked_clause(question: str) -> str:
    """Return the last sentence of a question that asks or orders something; else its end."""
    question = _PATTERNS.drawing.sub(" ", question)
    parts = [part for part in _PATTERNS.clause_end.split(question) if part and part.strip()]
    clauses = [part for part in parts if _PATTERNS.asks.search(part.strip()) and not _PATTERNS.form_only.match(part)]
    return clauses[-1] if clauses else question[-200:]


def stems(text: str) -> set[str]:
    """Return the beginnings of the words that mean something; Kanji one by one."""
    found: set[str] = set()
    for word in _PATTERNS.word.findall(without_commands(text).lower().replace("%", " percent ")):
        if "一" <= word[0] <= "鿿":
            found.update(word)
        elif word not in _STOP and len(word) > 1:
            found.add(_PATTERNS.ending.sub("", word)[:_STEM])
    return found - _STOP


def without_commands(text: str) -> str:
    """Return the text without the commands of LaTeX."""
    return _PATTERNS.command.sub(" ", text)


def repeats(sentence: str, question: str, spare: int = 0) -> bool:
    """Return whether a sentence says nothing but words of the question, and those that are asked for among them.

    Args:
        sentence: Without the answer in it.
        question: What was asked.
        spare: Words that it may have besides; with any, one word that is asked for is enough.
    """
    clause = asked_clause(question)
    said, asked = stems(sentence), stems(clause)
    unknown = said - stems(question) - _GENERAL
    head = stems(_PATTERNS.head_end.split(_PATTERNS.asking.sub("", clause), maxsplit=1)[0])
    if not spare:
        most_of_it = not asked or len(asked - said) <= (len(asked) - 1) // 2
        return not unknown and (most_of_it or bool(head and head <= said)) and bool(asked & said or not asked)
    head = head or asked
    named = head & said or (asked & said and not unknown) or spare >= MOST_SPARE
    return len(unknown) <= (spare if asked else spare - 1) and bool(
        named or not asked or not said - _GENERAL - _GENERIC
    )
