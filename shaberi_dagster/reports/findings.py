"""What is looked at to see whether everything is in place."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from shaberi_dagster.reports.report import Result, Sentences


@dataclass(frozen=True)
class CheckResult:
    """One thing that was looked at.

    Attributes:
        what: Its name.
        fine: Whether it is as it must be.
        detail: What was found.
    """

    what: str
    fine: bool
    detail: str


def findings_result(findings: Sequence[CheckResult]) -> Result:
    """Say what was found, a line for each."""
    lines = [f"{'ok  ' if found.fine else 'FAIL'}  {found.what}: {found.detail}" for found in findings]
    return Result([Sentences(lines)], [asdict(found) for found in findings])
