"""Announcements of a final answer: in a tag, as JSON, after `Answer:`, under a heading."""

import json
import re
from collections.abc import Iterator

_EMPHASIS = re.compile(r"(?<![\w)])\*\*(?=\S)|(?<=\S)\*\*(?![\w(])|`{1,3}|^\s*(?:#{1,6}|>)\s+", re.MULTILINE)
_TAG = re.compile(r"<(final_?answer|answer|result)>\s*(.{1,2000}?)\s*</\1>", re.IGNORECASE | re.DOTALL)
_KEYS = ("final_answer", "finalAnswer", "answer", "result")
_FENCE = re.compile(r"```(?:\w*\n)?(.{1,2000}?)```", re.DOTALL)
_LEAD_IN = r"(?:^|(?<=[.!?。:]\s)|(?<=。))[^\d$\\=\n.:]{0,80}?"
_NOUN = (
    rf"(?:{_LEAD_IN}(?i:\b(?:answers?|final result|correct (?:result|value|solution|number|expression))\b"
    r"|答え|解答|回答|正解|答案|最終結果|正しく(?=は))"
    r"|^[^\w\n]{0,20}(?:(?i:result|solution|ans)(?=[*_ ]{0,4}:)|A(?=\s?:)))"
)
_MARKER = re.compile(
    rf"{_NOUN}(?:\s+(?i:to|for|of|in|as|here)\b[^.:=\n,$]{{0,60}}?)?[ \t*_】\]]{{0,9}}"
    r"(?:(?i:\b(?:is|are|was|equals|(?:would|must|should|will) be"
    r"|(?:comes|works|turns) out (?:to be|to|as|at)|amounts to)\b)|[:=]|[-–—](?=\s)|→|は|(?<=】)|(?<=\])|为|是)"
    r"[ \t*_:]{0,9}"
    r"(?:(?i:therefore|thus|simply|then|clearly|exactly|equal to|given by|approximately|about)\b[ ,:]{0,3}){0,4}",
    re.MULTILINE,
)
_CONCLUDING = re.compile(
    r"^[^\w\n]{0,20}"
    r"(?:(?i:thus|therefore|hence|so|finally|consequently|altogether|in (?:conclusion|total|summary)|it is|it's)\b"
    r"|よって|したがって|従って|ゆえに|つまり)[ ,、:]*"
    r"(?:(?i:we (?:get|have|find|obtain|conclude|see)|it is|it follows)\b[ ,:]*)?"
    r"(?:(?i:that)\b[ ,:]*)?\s*(?P<said>(?:\$\$|\\\[)[^\n]*(?:\n[^\n]+){0,3}|[^\n]+)\Z",
    re.MULTILINE,
)
_HEADING = re.compile(
    r"^[^\w\n]{0,20}(?:\d{1,3}[.)]? {0,3})?[^\w\n]{0,9}"
    r"(?:(?i:(?:the |my |our )?(?:(?:final|correct|best) )?answers?|(?:the )?final result)"
    r"|(?:最終的な|最終)?(?:答え|解答|回答|正解|結果))[ \t:】\])*_]{0,20}$",
    re.MULTILINE,
)
_REVERSED = re.compile(
    r"^(?P<said>[^\n]{1,400}?),? (?:is|are) (?:(?:therefore|thus|then|indeed),? )?(?:the|our|my) "
    r"(?:(?:final|correct|right|required) )*(?:answer|solution)\b",
    re.MULTILINE | re.IGNORECASE,
)
_ROW = re.compile(
    r"^\|[^\w|\n]{0,9}(?:(?i:(?:final )?(?:answer|result))|答え|解答|回答|正解)[^\w|\n]{0,9}"
    r"\|(?P<said>[^|\n]+)\|[ \t]*$",
    re.MULTILINE,
)
_NOT_THIS = re.compile(
    r"(?:not|n't|no|neither|wrong|incorrect|correct|right|in the|as follows|given|found)\b", re.IGNORECASE
)
_TAKEN_BACK = re.compile(
    r"(?:^|(?<=[.!?。…\n])\s{0,3})[^\w\n]{0,9}(?:(?:oh|hmm|but|no),? )?"
    r"(?:wait|no[,.]? (?=(?:wait|actually|that|it|i|sorry|hmm)\b)"
    r"|no, (?=[-$]?\d)|actually[ ,]+(?=(?:no|i|it|that|the answer)\b)|actually,|correction|scratch that|sorry|oops"
    r"|on (?:second thought|reflection)|(?:that|this) (?:is|was) (?:wrong|incorrect|not right)"
    r"|i (?:made|was) (?:an? )?(?:error|mistake|mistaken|wrong)|i mean|訂正|いや|間違え|すみません|失礼|申し訳)",
    re.IGNORECASE,
)
_CONFIRMED = re.compile(
    r"\b(?:yes|correct|right|holds|confirm\w*|verif\w+|matches|consistent|same|fine)\b|正しい", re.IGNORECASE
)
_BEFORE_A_CORRECTION = re.compile(r"(?:[ ,.:;!–—]|-(?![\d$.]))*")
CHECKS = re.compile(r"\b(?:verif\w+|check\w*)\b|検算|確認", re.IGNORECASE)
_MOST_PLACES = 20
_UNDERLINE = re.compile(r"^[-=]{3,}[ \t]*\n")
_OPENS = re.compile(r"^\s*(?:\$\$|\\\[|\\begin\{(?:align|equation|gather)\*?\})\s*$")
_CLOSES = re.compile(r"(?:\$\$|\\\]|\\end\{(?:align|equation|gather)\*?\})\s*[.。]?\s*$")


def plain(text: str) -> str:
    """The text without bold, code marks, headings and quotation marks; `2**3` keeps its stars."""
    return _EMPHASIS.sub("", text)


def wrapped(text: str) -> list[str]:
    """List what an answer puts into `<answer>` tags or into a JSON object as its answer, the last one first."""
    value = _in_json(text)
    return [value] if value is not None else [match[2] for match in reversed(list(_TAG.finditer(text)))]


def announcements(text: str) -> Iterator[str]:
    """List what an answer announces as final, the last announcement first.

    Args:
        text: The answer, from `readable`.

    Yields:
        What follows an announcement on its line, or the paragraph under it; one line of text with its LaTeX. What is
        taken back afterwards is not among them.
    """
    yield from wrapped(text)
    text = plain(text)
    places: list[tuple[int, str | None]] = [
        (match.end(), None) for pattern in (_MARKER, _HEADING) for match in pattern.finditer(text)
    ]
    places += [(match.end(), match["said"]) for pattern in (_REVERSED, _ROW) for match in pattern.finditer(text)]
    if (last := _CONCLUDING.search(text, max(len(text) - 600, 0))) and not CHECKS.search(text[-600:]):
        places.append((last.end(), last["said"]))
    for at, stated in sorted(places, key=lambda place: place[0], reverse=True)[:_MOST_PLACES]:
        passage = _following(text, at) if stated is None else stated
        if passage and not _NOT_THIS.match(passage) and not taken_back(text[at:]):
            yield passage


def taken_back(text: str) -> bool:
    """Return whether a text after an answer takes it back: `Wait, no`, and no confirmation after it."""
    found = _TAKEN_BACK.search(text)
    return bool(found and not _CONFIRMED.search(text, found.end()))


def in_force(text: str) -> str:
    """Return the part of an answer after it last took something back, if that says something; else all of it."""
    *_, last = (None, *_TAKEN_BACK.finditer(text))
    if last is None or _CONFIRMED.search(text, last.end()) or not re.search(r"\w", text[last.end() :]):
        return text
    return _BEFORE_A_CORRECTION.sub("", text[last.end() :], count=1)


def _following(text: str, at: int) -> str:
    line, _, rest = text[at:].partition("\n")
    if line.strip(" *_:\t"):
        if not _OPENS.match(line):
            return line.strip(" *_:\t")
        rest = f"{line}\n{rest}"
    lines = [entry.strip() for entry in _UNDERLINE.sub("", rest.lstrip("\n ")).split("\n")[:40]]
    if lines and _OPENS.match(lines[0]):
        end = next((index for index, entry in enumerate(lines[1:], 1) if _CLOSES.search(entry)), 0)
        return " ".join(lines[: end + 1])
    paragraph = lines[: lines.index("")] if "" in lines else lines
    return " ".join(paragraph[:4]).strip(" *_")


def _in_json(text: str) -> str | None:
    """The answer in a reply that is a JSON object, with or without a fence."""
    fenced = _FENCE.search(text)
    body = (fenced[1] if fenced else text).strip()
    if not (body.startswith("{") and body.endswith("}") and '"' in body):
        return None
    try:
        found = json.loads(body, strict=False)
    except (ValueError, RecursionError):
        return None
    values = (found.get(key) for key in _KEYS) if isinstance(found, dict) else ()
    return next((str(value) for value in values if isinstance(value, str | int | float)), None)
