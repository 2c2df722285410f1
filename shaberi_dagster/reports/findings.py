"""Results of checks of the installation and the lake."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from shaberi_dagster.reports.report import Result, Sentences


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

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
