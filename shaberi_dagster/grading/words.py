"""Words of a question: what a sentence may repeat that gives the answer in the question's own words."""

import re
from functools import lru_cache

_ASKS = re.compile(
    r"[?？]|か[。?？]?$|\b(?:find|compute|determine|what|how|evaluate|calculate|simplify|express|solve|convert|name)\b"
    r"|なさい|求め|せよ|ください",
    re.IGNORECASE,
)
_FORM_ONLY = re.compile(
    r"\W*(?:express|write|enter|give|round|respond|leave|please|options?|you may|hint|answer)\b", re.IGNORECASE
)
_CLAUSE_END = re.compile(r"(?<=[.?!])\s+|(?<=[.?!]\$)\s+|(?<=[。？])|\n|(?<=[぀-ヿ一-鿿][、，,])")
_WORD = re.compile(r"[^\W\d_぀-ヿ一-鿿]+|[一-鿿]+|[ァ-ヶー]+")
_STOP = frozenset(
    """the a an and for what how many much is are was were be does did do will would that this with his her its their
    them they from find value compute answer your express common form determine there have has had all each than which
    who number simplest nearest terms such of in to on at by it he she you we i if as or your my our when where why
    itself themselves also now then so therefore thus hence per she's he's ll s t d re ve m can get gets got has make
    makes give gives total altogether exactly only just approximately about around roughly equals equal final finally
    result both more up out after before over under left right first last one still these those into been being not
    combined along together amount overall order should must need needs required rounded about
    der die das und wie viele viel ist sind es hat haben ein eine den dem von zu in im mit für jeder jede
    el la los las de y que cuál cuánto cuántos cuántas es son un una en por del al su se tiene
    le les du et que quel quelle combien est sont un une des en par pour il elle ce cette a
    il lo gli di e che quanto quanti quante è sono uno per con ha ogni o os as quantos quantas um uma são
    求 何 値 答 全部 合計 全体 次 方 等 回 結果 必要 式 計算 数 解 今 際 時""".split()  # noqa: SIM905
)
_GENERAL = frozenset("代金段料額価格最終的合計総残値数答者人個円日分秒時全部") | frozenset(
    """year old doll cent minu hour day week mont mete kilo gram lite mile inch feet foot poun degr piec peop pers time
    unit perc poin euro""".split()  # noqa: SIM905
)
"""Beginnings of words that an answer may have, whatever was asked."""
_STEM = 4
_ENDING = re.compile(r"(?<=[^\W\d_]{3})(?:ing|ed|es|s|d|en|e)$")


@lru_cache(maxsize=512)
def asked_clause(question: str) -> str:
    """The last sentence of a question that asks or orders something; else its end."""
    parts = [part for part in _CLAUSE_END.split(question) if part and part.strip()]
    clauses = [part for part in parts if _ASKS.search(part.strip()) and not _FORM_ONLY.match(part)]
    return clauses[-1] if clauses else question[-200:]


def stems(text: str) -> set[str]:
    """The beginnings of the words that mean something; Kanji one by one."""
    found: set[str] = set()
    for word in _WORD.findall(text.lower().replace("%", " percent ")):
        if "一" <= word[0] <= "鿿":
            found.update(word)
        elif word not in _STOP and len(word) > 1:
            found.add(_ENDING.sub("", word)[:_STEM])
    return found - _STOP


def repeats(sentence: str, question: str, spare: int = 0) -> bool:
    """Whether a sentence says nothing but words of the question, and those that are asked for among them.

    Args:
        sentence: Without the answer in it.
        question: What was asked.
        spare: Words that it may have besides; with any, one word that is asked for is enough.
    """
    said, asked = stems(sentence), stems(asked_clause(question))
    enough = len(asked - said) <= len(asked) // 2 or spare > 0
    return len(said - stems(question) - _GENERAL) <= spare and enough and bool(asked & said)
