"""Texts that break off: the last line stops inside a sentence, a word or an entry of a list.

Only the end is read, and how the text ends its other lines: a line without a mark is an end where others have none
either, and none where they all do. A text that was cut where a sentence ends cannot be told from a complete one.
"""

import re

_END_READ = 200  # characters of the last line that are looked at
_LOOP_TAIL = 12  # last letters; where they stood before, others followed
_CLAUSES_LEAST = 25  # characters; a shorter line with a comma may be a closing phrase
_FRAGMENT_LEAST = 8  # characters; a shorter one may be a word that was asked for
_LATIN_WORDS_LEAST = 8  # words; a shorter line without a full stop may be a name or an entry
_PHRASE_WORDS = 3  # words; a shorter one may end with a word such as "in"
_RUN_ON_WORDS = 40  # words without any full stop never come to an end
_SENTENCES_LEAST = 3  # sentences of a text of whole sentences
_LONG = 1500  # characters; shorter answers often end with a line that is not like the others
_MARK_EACH = 120  # characters, or fewer, for each mark of a text that ends its sentences
_LINE_LEAST = 15  # characters; a shorter line may be a label
_HEADING_MOST = 60  # characters; a longer one is a sentence

HEADING = re.compile(r"^(?P<marks>#{1,6})[ \t]++\S")
_MARKUP = " *_`"
_BARE_MARKER = re.compile(r"\s*+(?:[0-9]{1,3}[.．)）]?|[-−–*+]|#{1,6})\s*+")
_ENTRY = re.compile(
    r"[ \t　]*+(?:[-*+•・–—−－◦▪●○■□◆◇※][ \t　]*+|[(（]?(?:\d{1,3}|[A-Za-z])[.)．）、:：]|[①-⑳]|\d\ufe0f?\u20e3)(?!\*)"
)
_LABELLED = re.compile(r"[^:：。、]{1,30}[:：]")
_COLON = re.compile("[:：]")
_PAIRS = (("「", "」"), ("『", "』"), ("（", "）"), ("(", ")"), ("“", "”"), ("[", "]"), ("【", "】"))
_OPEN_END = re.compile(r"(?:[、，,:：・「『（(]|[、，][\"“]|\d-|\]\([^)\s]*+)\Z")
_CLOSING_PHRASE = re.compile(r"(?:regards|sincerely|thanks|truly|yours|敬具|草々)[、，,]\Z", re.IGNORECASE)
_AFTER_COMMA = re.compile(r"、\w{1,2}\Z")
_PARTICLE_END = re.compile(r"(?:[をがはへ]|[^もこそ]の|[^ひこも]と|[^なまし]に)\Z")
_SENTENCE_END = re.compile(
    r"(?:です|ます|した|ません|でしょう|ましょう|だろう|よう|ください|下さい|である|だ|だった|ない|する|れる|ある|なる"
    r"|せよ|こと|もの|など|等|よ|ね|か|さ|(?<!よう)な|わ|ぞ|吧|呢|吗|啊|哦)\Z"
)
_MARK = re.compile(r"[。．.!?！？]")
_FULL_STOP = re.compile(r"[。！？!?]|(?<=[a-z])\.(?=\s|\Z)")
_WORD_END = re.compile(r"\w\Z")
_LETTER = re.compile(r"[^\W\d_]")
_JAPANESE = re.compile("[\u3041-\u30ff\u4e00-\u9fff]")
_WORD = re.compile(r"[A-Za-z]+")
_NUMBER_OR_LETTER = re.compile(r"\w+")
_FUNCTION_WORDS = frozenset(
    {"a", "an", "and", "are", "as", "at", "because", "by", "for", "from", "in", "is", "of", "on", "or", "that"}
    | {"the", "their", "to", "was", "were", "which", "with"}
)


def breaks_off(line: str, text: str) -> bool:
    """Return whether a text breaks off.

    Args:
        line: Its last line.
        text: All of it, without blanks at the end.
    """
    if _BARE_MARKER.fullmatch(line) or _is_bare_heading(line):
        return True
    end = line.rstrip(_MARKUP)[-_END_READ:]
    if _OPEN_END.search(end):
        return not _CLOSING_PHRASE.search(end)
    if not _WORD_END.search(end):
        return False
    return _is_cut_loop(text) or not (_SENTENCE_END.search(end) or _may_be_whole(line, text))


def _may_be_whole(line: str, text: str) -> bool:
    """Return whether a line that ends unlike sentences do, with a word or number, can be a name or an entry."""
    is_open = line.count("**") % 2 or any(line.count(opening) > line.count(closing) for opening, closing in _PAIRS)
    if is_open or _AFTER_COMMA.search(line.rstrip(_MARKUP)[-_END_READ:]):
        return False
    return not (_is_fragment(line, text) or _lacks_the_mark_of_others(line, text))


def _is_bare_heading(line: str) -> bool:
    """A heading that says nothing itself, such as `### 2. Costs`, but not `### Answer: 12`."""
    if not HEADING.match(line) or len(line) > _HEADING_MOST:
        return False
    label, *said = _COLON.split(line.rstrip(_MARKUP), maxsplit=1)
    return not any(part.strip(_MARKUP) for part in said) and bool(_WORD_END.search(label.rstrip(f"{_MARKUP})）")))


def _is_cut_loop(text: str) -> bool:
    """Return whether the last letters stood there before, with another letter after them."""
    tail = text[-_LOOP_TAIL:]
    before = text.rfind(tail, 0, len(text) - 1)
    return before >= 0 and tail[-1].isalpha() and text[before + len(tail)].isalpha()


def _is_fragment(line: str, text: str) -> bool:
    """Return whether a line's last sentence is no whole one, in a text that has whole sentences."""
    stops = [stop.end() for stop in _FULL_STOP.finditer(line)]
    fragment = line[stops[-1] if stops else 0 :].strip(_MARKUP)
    is_entry = bool(_entry_kind(line) or _LABELLED.match(line))
    if not _JAPANESE.search(fragment):
        words = _WORD.findall(fragment)
        if len(words) >= _RUN_ON_WORDS or (len(words) >= _PHRASE_WORDS and words[-1].lower() in _FUNCTION_WORDS):
            return True
        return len(words) >= _LATIN_WORDS_LEAST and words[-1].islower() and not is_entry
    if _PARTICLE_END.search(fragment) and len(fragment) >= _FRAGMENT_LEAST:
        return True
    if text.count("。") < _SENTENCES_LEAST:
        return False
    has_clauses = len(fragment) >= _CLAUSES_LEAST and ("、" in fragment or "，" in fragment)
    return (bool(stops) and not is_entry) or (has_clauses and (bool(stops) or not is_entry))


def _lacks_the_mark_of_others(line: str, text: str) -> bool:
    """Return whether a long text ends its sentences and the lines that are like this one with a mark."""
    if len(text) < _LONG or len(_MARK.findall(text)) * _MARK_EACH < len(text) or not _LETTER.search(line):
        return False
    if len(line) >= _MARK_EACH and not _MARK.search(line):
        return False
    kind = _entry_kind(line)
    if not kind and (_LABELLED.match(line) or line.startswith(">")):
        return False
    others = [other for other in text.split("\n")[:-1] if other.strip(_MARKUP) and not HEADING.match(other)]
    alike = [other for other in others if _entry_kind(other) == kind]
    if not (kind and alike):  # short lines may be labels
        alike = [other for other in (others if kind else alike) if len(other) >= _LINE_LEAST]
    marked = [not _WORD_END.search(other.rstrip(_MARKUP)) for other in alike]
    return 2 * sum(marked) > len(marked) and marked[-1]


def _entry_kind(line: str) -> str:
    """The mark that makes a line an entry of a list, with its indentation, the same for any number; "" for prose."""
    entry = _ENTRY.match(line)
    return _NUMBER_OR_LETTER.sub("0", entry[0]) if entry else ""
