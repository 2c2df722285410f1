"""Answers that a rule could not decide: wrong at the lower end of a score, left out at its upper end."""

from collections.abc import Iterable, Iterator

from shaberi_dagster.judges.rules.registry import GRADERS
from shaberi_dagster.reports.figures import listed, whole_percent

Undecided = tuple[str, str, int, int]
"""A benchmark and a judge of it, how many answers the judge could not decide, and of how many."""


def says_wrong(judge: str) -> bool:
    """Return whether a judge finds answers wrong; a rule that only knows what is right leaves others undecided."""
    return judge not in GRADERS or GRADERS.use(judge).says_wrong


def cannot_tell(n_undecided: float, n: float) -> str:
    """Say why there is no verdict where both ends of scores give another one."""
    return f"cannot tell: {whole_percent(n_undecided / n if n else 0.0)} undecided"


def undecided_sentences(parts: Iterable[Undecided]) -> Iterator[str]:
    """Say what undecided answers count as, and how to have them graded; nothing where all are decided."""
    found = [part for part in parts if part[2]]
    if not found:
        return
    yield "Undecided answers are wrong at the lower end of a score, and left out at the upper one."
    if alone := sorted({judge for _, judge, *_ in found if judge in GRADERS}):
        command = "run-evals --model MODEL --tag TAG --rejudge --judge-model JUDGE"
        yield f"`{command}` grades what {listed(alone)} left undecided."
    if only_right := sorted({benchmark for benchmark, judge, *_ in found if not says_wrong(judge)}):
        yield f"{', '.join(only_right)}: the rule cannot say wrong here."
