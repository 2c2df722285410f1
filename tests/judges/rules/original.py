r"""The extractors of the original evaluation, with their faults: what its published numbers were made with.

Not for grading: the letter rule reads the "s" of "options" as an answer, and the number rule reads `2` from
`\frac{1}{2}`.
"""

import re

_NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?"
_HASHES = re.compile(rf"####\s*({_NUMBER})")
_ANNOUNCED = re.compile(rf"\b(?:final answer|answer|result)\b(?:\s+is|\s*[:=-])?\s*({_NUMBER})(?!\s*%)", re.IGNORECASE)
_ANY = re.compile(rf"((?>{_NUMBER}))(?!\s*%)")

_EMPHASIS = re.compile(r"(\*\*|__|\*|_)(.+?)\1")
_BOXED = re.compile(r"\\boxed\{([A-Z])\}", re.IGNORECASE)
_NOUN_LETTER = re.compile(r"(?:answer|option|choice)\s*[:-]?\s*([A-Z])\b", re.IGNORECASE)
_IS_LETTER = re.compile(r"the\s+(?:(?:correct|best)\s+)?(?:answer|option)\s+is\s+\(?([A-Z])\)?(?!\w)", re.IGNORECASE)
_LETTER_IS_CORRECT = re.compile(r"(?:option\s+)?\(?\b([A-Z])\)?\s+is\s+correct", re.IGNORECASE)
_CHOSEN = re.compile(r"(?:choose|chose|pick(?:ed)?|select(?:ed)?)\s+(?:option\s+)?\(?([A-Z])\)?(?!\w)", re.IGNORECASE)
_LEADING = re.compile(r"^\s*([A-Z])\.\s+\S", re.IGNORECASE)
_WHOLE = re.compile(r"^\s*\(?([A-Z])\)?\.?\s*$", re.IGNORECASE)


def number(text: str) -> str | None:
    """The original's number: the first after `####`, else the last after "answer" or "result", else the last of all."""
    if match := _HASHES.search(text):
        return match[1].replace(",", "")
    found = _ANNOUNCED.findall(text) or _ANY.findall(text)
    return found[-1].replace(",", "") if found else None


def same_number(first: str | None, second: str | None) -> bool:
    """The original's comparison: both numbers, less than 1e-9 apart."""
    try:
        return first is not None and second is not None and abs(float(first or 0) - float(second or 0)) < 1e-9
    except ValueError:
        return False


def letter(text: str) -> str | None:
    """The original's choice letter: the first of its eight rules that fires, options that exist or not."""
    text = _EMPHASIS.sub(r"\2", text)
    for pattern in (_BOXED, _NOUN_LETTER, _IS_LETTER, _LETTER_IS_CORRECT):
        if match := pattern.search(text):
            return match[1].upper()
    if chosen := _CHOSEN.findall(text):
        return str(chosen[-1]).upper()
    for candidate, pattern in ((text, _LEADING), (text, _WHOLE), (text.strip().rpartition("\n")[2], _WHOLE)):
        if match := pattern.search(candidate):
            return match[1].upper()
    return None
