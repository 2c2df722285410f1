"""The corpus of replies that graders are measured on: a half that tunes, one frozen before the grammar, and later ones."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from shaberi_dagster.statistics.intervals import exact_interval as exact_interval
from shaberi_dagster.tasks.judges.rules.base import GradedQuestion
from shaberi_dagster.tasks.judges.rules.registry import GRADERS

FOLDER = Path(__file__).parent
LEVELS = [
    ("tuning", "numeric", 87, 0, 0),
    ("tuning", "math", 50, 0, 0),
    ("tuning", "mcq", 81, 0, 0),
    ("tuning", "match", 16, 0, 0),
    ("tuning", "yes_no", 28, 0, 0),
    ("measuring", "numeric", 76, 1, 1),
    ("measuring", "math", 54, 1, 1),
    ("measuring", "mcq", 74, 1, 0),
    ("measuring", "match", 12, 0, 0),
    ("measuring", "yes_no", 21, 0, 0),
    ("fresh", "numeric", 14, 0, 1),
    ("fresh", "math", 13, 0, 0),
    ("fresh", "mcq", 11, 0, 0),
    ("fresh", "match", 1, 0, 0),
    ("fresh", "yes_no", 3, 0, 0),
    ("blind", "numeric", 56, 0, 0),
    ("blind", "math", 51, 0, 0),
    ("blind", "mcq", 59, 0, 0),
    ("unseen", "numeric", 20, 0, 1),
    ("unseen", "math", 20, 0, 0),
    ("unseen", "mcq", 24, 0, 0),
    ("fourth", "numeric", 33, 0, 0),
    ("fourth", "math", 28, 0, 0),
    ("fourth", "mcq", 38, 0, 0),
]
"""File, rule, replies that are read rightly at least, and wrongly or out of nothing at most."""
_BOXED = re.compile(r"\\boxed|\\fbox|^#### ", re.MULTILINE)
_ANNOUNCED = re.compile(
    r"\banswers?\b|\bans\b|\bfinal\b|答|正解|解答|回答|答案|정답|답[은:]|ответ|antwort|respuesta|réponse|resposta|risposta"
    r"|richtig|correct(?:e|a|o)?\b|lösung|solución|solution\b|<(?:answer|choice|final)>|TL;DR|選択肢",
    re.IGNORECASE,
)


class Outcome(Enum):
    """The result of reading a reply, against what a careful person reads."""

    RIGHT = "right"
    ABSTAINED = "abstained"
    WRONG = "wrong"
    SILENT = "no answer, none read"
    INVENTED = "no answer, but one read"


@dataclass(frozen=True)
class Case:
    """A reply with what it commits to.

    Attributes:
        grader: The rule, without `rule:`.
        language: Of the reply: `en`, `ja`, or another ISO 639-1 code.
        question: What was asked; its reference is what the reply says, so that a right reading is a right answer.
        reply: What is read.
        says: Whether the reply commits to an answer; for match: whether it gives the reference, None if unclear.
    """

    grader: str
    language: str
    question: GradedQuestion
    reply: str
    says: bool | None

    @property
    def form(self) -> str:
        """The way in which the reply gives its answer, told by words that no rule reads."""
        if _BOXED.search(self.reply):
            return "boxed"
        return "announced" if _ANNOUNCED.search(self.reply) else "prose"


def cases(path: Path) -> Iterator[Case]:
    """The cases of a file."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["grader"] == "llm_output":
            continue
        is_match = row["grader"] == "match"
        question = GradedQuestion(
            row["question"],
            row.get("reference") or "" if is_match else row["answer"] or "",
            tuple(map(str, row.get("options") or ())),
            tuple(row.get("aliases") or ()),
        )
        says = row.get("right") if is_match else row["answer"] is not None
        language = row.get("language") or ("ja" if re.search(r"[぀-ヿ一-鿿]", row["question"] + row["reply"]) else "en")
        yield Case(row["grader"], language, question, row["reply"], says)


def outcome(case: Case) -> Outcome:
    """What the rule makes of a case."""
    rule = GRADERS[f"rule:{case.grader}"]
    if case.grader == "match":
        correct = rule.grade(case.reply, case.question).correct
        if not case.says:
            return Outcome.INVENTED if correct else Outcome.SILENT
        return {True: Outcome.RIGHT, None: Outcome.ABSTAINED, False: Outcome.WRONG}[correct]
    if not case.says:
        return Outcome.SILENT if rule.extract(case.reply, case.question) is None else Outcome.INVENTED
    correct = rule.grade(case.reply, case.question).correct
    return {True: Outcome.RIGHT, None: Outcome.ABSTAINED, False: Outcome.WRONG}[correct]


def errors_by_form(files: Iterable[str] = ("measuring", "fresh", "unseen", "fourth")) -> dict[str, tuple[int, int]]:
    """Count, of replies that nobody tuned on, how many each form read, and how many of them wrongly or out of nothing."""
    read, wrong = Counter[str](), Counter[str]()
    for case in (case for file in files for case in cases(FOLDER / f"{file}.jsonl")):
        form, found = GRADERS[f"rule:{case.grader}"].grade(case.reply, case.question).form, outcome(case)
        if form is not None and found not in (Outcome.ABSTAINED, Outcome.SILENT):
            read[form] += 1
            wrong[form] += found in (Outcome.WRONG, Outcome.INVENTED)
    return {form: (read[form], wrong[form]) for form in sorted(read)}
