"""Counts and findings in a line each."""

import pytest

from shaberi_dagster.reports.findings import CheckResult, findings_result
from shaberi_dagster.reports.report import Document, Sentences
from shaberi_dagster.reports.samples import Samples, samples_result

pytestmark = pytest.mark.unit


def lines_of(document: Document) -> list[str]:
    return [line for block in document.blocks(None) if isinstance(block, Sentences) for line in block.lines]


def test_samples_that_failed_are_said_only_where_there_are_some() -> None:
    samples = [Samples("gsm8k", "gsm8k@2", 2, 12, 12), Samples("arc", "arc@2", 2, 12, 9)]
    assert lines_of(samples_result(samples)) == [
        "gsm8k (gsm8k@2): 12 of 12 samples of 2 questions",
        "arc (arc@2): 9 of 12 samples of 2 questions, 3 failed",
    ]


def test_a_finding_says_first_whether_it_is_fine() -> None:
    findings = [
        CheckResult("prompts", fine=True, detail="40 templates"),
        CheckResult("plugins", fine=False, detail="gone"),
    ]
    assert lines_of(findings_result(findings)) == ["ok    prompts: 40 templates", "FAIL  plugins: gone"]
