"""Rows of the ensemble evaluation's datasets, as their publishers have them, read as questions."""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shaberi_dagster.tasks.benchmarks.choices import LETTERS, Choices

Row = Mapping[str, Any]

_GPQA_OPTIONS = ("Correct Answer", *(f"Incorrect Answer {number}" for number in (1, 2, 3)))
_INSTRUCTION = "Respond with the single best option letter."
_GSM8K_ANSWER = re.compile(r"####\s*([-+]?\d[\d,]*(?:\.\d+)?)")
_BOXED_LETTER = re.compile(r"\\boxed\{\s*\(?([A-D])\)?\s*\}")
# One file in circulation has this added to every problem of MATH-500.
_MATH500_INSTRUCTION = "\nPlease reason step by step, and put your final answer within \\boxed{}."
_MOST_METADATA = 100_000  # characters


class UpstreamRowError(ValueError):
    """A row is not as its dataset's rows are; the message says how."""


@dataclass(frozen=True)
class Asked:
    """The content of a row.

    Attributes:
        question: The whole text, or a question with options.
        reference: The right answer; None without one, and for a question with options, which has it itself.
        category: None where the dataset has none.
        aliases: Further right answers.
    """

    question: str | Choices
    reference: str | None = None
    category: str | None = None
    aliases: tuple[str, ...] | None = None


RowReader = Callable[[Row], Asked | None]
"""Reads one row; None for a row that is left out. Raises `UpstreamRowError`."""


def gsm8k(row: Row) -> Asked:
    """The solution's last line is `#### ` and the number, with commas between thousands."""
    answer = _GSM8K_ANSWER.search(text(row, "answer"))
    if answer is None:
        raise UpstreamRowError("'answer' has no '#### ' with the number")
    return Asked(text(row, "question"), answer[1].replace(",", ""))


def math500(row: Row) -> Asked:
    """The answer is LaTeX, and is kept as it is."""
    problem = text(row, "problem" if "problem" in row else "prompt").removesuffix(_MATH500_INSTRUCTION)
    return Asked(problem, text(row, "answer"), optional_text(row, "subject"))


def truthfulqa(row: Row) -> Asked:
    """Read a row with one true target: choices and labels on the hub, a label by choice in the project's own file."""
    targets = row.get("mc1_targets")
    if not isinstance(targets, dict):
        raise UpstreamRowError("has no 'mc1_targets'")
    if "choices" in targets:
        options, labels = texts(targets, "choices"), targets.get("labels")
    else:
        options, labels = texts({"mc1_targets": list(targets)}, "mc1_targets"), list(targets.values())
    if not isinstance(labels, list) or len(labels) != len(options) or labels.count(1) != 1:
        raise UpstreamRowError("'mc1_targets' must have one label for each choice, and the label 1 once")
    return Asked(listed(text(row, "question"), options, labels.index(1)))


def gpqa(row: Row) -> Asked:
    r"""The options stand in the problem, each after its letter (`(A)` to `(D)`), before how to write `\boxed{}`.

    Rows of the first source, Idavidrein/gpqa (gated), have them in columns of their own, the right one first.
    """
    if "Correct Answer" in row:
        options = tuple(text(row, name).strip() for name in _GPQA_OPTIONS)
        return Asked(listed(text(row, "Question"), options, 0), category=optional_text(row, "High-level domain"))
    problem = text(row, "problem")
    right = _BOXED_LETTER.search(text(row, "solution"))
    if right is None:
        raise UpstreamRowError(r"'solution' has no \boxed letter")
    return Asked(_choices_in(problem, LETTERS.index(right[1])), category=optional_text(row, "domain"))


def _choices_in(problem: str, right: int) -> Choices:
    """Take a text apart at the last (D) at the start of a line, the last (C) before it, and so on."""
    starts: list[int] = []
    end = len(problem)
    for letter in "DCBA":
        end = problem.rfind(f"\n({letter})", 0, end)
        if end < 0:
            raise UpstreamRowError(f"'problem' has no option ({letter}) at the start of a line")
        starts.insert(0, end)
    # The last paragraph says how to answer.
    after = problem.rfind("\n\n", starts[-1] + 1)
    ends = [*starts[1:], after if after >= 0 else len(problem)]
    options, around, last = [], [], starts[0]
    for start, end in zip(starts, ends, strict=True):
        marked = problem[start + len("\n(A)") : end]
        option = marked.strip()
        if not option:
            raise UpstreamRowError("'problem' has an empty option")
        begin = start + len("\n(A)") + marked.index(option)
        options.append(option)
        around.append(problem[last:begin])
        last = begin + len(option)
    return Choices(problem[: starts[0]], tuple(options), right, (*around, problem[last:]))


def mmlu_pro(row: Row) -> Asked:
    """4 to 10 options, and the right one's letter."""
    options = texts(row, "options")
    right = letter_index(row, "answer", len(options))
    return Asked(listed(text(row, "question"), options, right), category=optional_text(row, "category"))


def simpleqa(row: Row) -> Asked:
    """The metadata is a dict written by Python; its topic is the category."""
    metadata = optional_text(row, "metadata") or "{}"
    try:
        known = ast.literal_eval(metadata[:_MOST_METADATA])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise UpstreamRowError("'metadata' is not a dict as Python writes it") from None
    return Asked(text(row, "problem"), text(row, "answer"), optional_text(known, "topic"))


def hle(row: Row) -> Asked | None:
    """Questions that need no image."""
    if row.get("image"):
        return None
    return Asked(text(row, "question"), text(row, "answer"), optional_text(row, "category"))


def arc(row: Row) -> Asked:
    """Options are lettered A to E or numbered 1 to 5; the right one is named by that label."""
    choices = row.get("choices")
    if not isinstance(choices, dict):
        raise UpstreamRowError("has no 'choices'")
    labels, options, key = texts(choices, "label"), texts(choices, "text"), text(row, "answerKey")
    if len(labels) != len(options) or labels.count(key) != 1:
        raise UpstreamRowError("'choices' must have one label for each text, and the 'answerKey' once")
    return Asked(listed(text(row, "question"), options, labels.index(key)))


def hellaswag(row: Row) -> Asked:
    """Four endings, of which one continues a context; the label is the right one's index, as text."""
    endings = texts(row, "endings")
    label = row.get("label")
    if str(label) not in map(str, range(len(endings))):
        raise UpstreamRowError(f"'label' must be the index of an ending, not {label!r}")
    stem = f"Complete the following:\n\n{text(row, 'ctx')}"
    return Asked(listed(stem, endings, int(str(label))), category=optional_text(row, "activity_label"))


def hallumix(row: Row) -> Asked:
    """Return whether an answer says what its documents do not: label 1 is a hallucination."""
    documents = row.get("documents")
    if isinstance(documents, str):
        documents = [documents]
    label = row.get("hallucination_label")
    if str(label) not in {"0", "1"}:
        raise UpstreamRowError(f"'hallucination_label' must be 0 or 1, not {label!r}")
    named = enumerate(texts({"documents": documents}, "documents"), start=1)
    task = (
        "Below are documents and an answer that was written from them. The answer is a hallucination if it says "
        "something that the documents do not support."
    )
    question = "\n\n".join(
        [
            task,
            *(f"[Document {number}]\n{document}" for number, document in named),
            f"[Answer]\n{text(row, 'answer')}",
            'Is the answer a hallucination? Reply with only "yes" or "no".',
        ]
    )
    return Asked(question, "yes" if str(label) == "1" else "no", optional_text(row, "src"))


def listed(stem: str, options: tuple[str, ...], right: int) -> Choices:
    """A question whose options are listed below it, with the instruction to answer by letter.

    The layout is the ensemble evaluation's, so that the prompts of its caches are found by their text.

    Args:
        stem: The question.
        options: In the source's order.
        right: Index of the right one.

    Raises:
        UpstreamRowError: There are too few options to choose from, or more than letters.
    """
    if not 1 < len(options) <= len(LETTERS):
        raise UpstreamRowError(f"has {len(options)} options; 2 to {len(LETTERS)} can be told apart by letters")
    before = [f"\n\nOptions:\n{LETTERS[0]}. ", *(f"\n{letter}. " for letter in LETTERS[1 : len(options)])]
    return Choices(stem, options, right, (*before, f"\n\n{_INSTRUCTION}"))


def text(row: Row, name: str) -> str:
    """A column's text.

    Raises:
        UpstreamRowError: There is no such column, or it has no text.
    """
    if name not in row:
        raise UpstreamRowError(f"has no {name!r}")
    value = row[name]
    if not isinstance(value, str):
        raise UpstreamRowError(f"{name!r} must be text, not {type(value).__name__}")
    if not value.strip():
        raise UpstreamRowError(f"{name!r} is empty")
    return value


def optional_text(row: Any, name: str) -> str | None:
    """A column's text, None without one."""
    value = row.get(name) if isinstance(row, dict) else None
    return value if isinstance(value, str) and value.strip() else None


def texts(row: Row, name: str) -> tuple[str, ...]:
    """A column's list of texts.

    Raises:
        UpstreamRowError: There is no such column, or it is no list of texts, or an empty one.
    """
    values = row.get(name)
    if not isinstance(values, list) or not values or not all(isinstance(value, str) for value in values):
        raise UpstreamRowError(f"{name!r} must be a list of texts")
    return tuple(values)


def letter_index(row: Row, name: str, count: int) -> int:
    """The index of the option that a column names by its letter.

    Raises:
        UpstreamRowError: It is not the letter of one of `count` options.
    """
    letter = text(row, name).strip()
    if len(letter) != 1 or letter not in LETTERS[:count]:
        raise UpstreamRowError(f"{name!r} must be a letter of one of the {count} options, not {letter[:20]!r}")
    return LETTERS.index(letter)
