import json
from collections import Counter
from pathlib import Path

import pytest

from shaberi_dagster.tasks.benchmarks.registry import LegacyForm
from shaberi_dagster.tasks.judges.parse import parse_score

pytestmark = pytest.mark.corpus

LEGACY_FORMS: dict[str, tuple[LegacyForm, ...]] = {
    "lightblue__tengu_bench": ("tengu_points",),
    "elyza__ELYZA-tasks-100": ("elyza_number",),
    "shisa-ai__ja-mt-bench-1shot": ("double_brackets",),
    "yuzuai__rakuda-questions": ("rakuda_brackets", "rakuda_mean_of_tenths"),
}


def judge_texts(root: Path):
    """Benchmark folder, judge text, answer and stored score of each legacy row whose judge text was kept."""
    for path in sorted(root.glob("*/data/judgements/*/*/*.json")):
        with path.open(encoding="utf-8", newline="\n") as lines:
            for row in map(json.loads, filter(str.strip, lines)):
                score = row["score"]
                inner = score if isinstance(score, dict) else row
                if inner.get("judge_output") is not None:
                    yield path.parent.name, inner["judge_output"], row["ModelAnswer"] or "", inner["score"]


def test_legacy_judge_texts_give_the_scores_that_were_stored(corpus: Path):
    root = corpus / "legacy" / "mini"
    seen, wrong = Counter(), []
    for benchmark, output, answer, stored in judge_texts(root):
        forms = LEGACY_FORMS[benchmark]
        parsed = parse_score(output, legacy_forms=forms, answer=answer, finish_reason=None, rounding="legacy")
        seen[parsed.source if parsed else None] += 1
        if "FINAL SCORE:" in output:
            assert parsed is not None
            assert parsed.source == "final_score"
        if parsed is not None and parsed.score != stored:
            wrong.append((benchmark, output[-80:], parsed, stored))
    assert wrong == []
    assert seen["final_score"] > 500
    assert seen["legacy_form"] > 0
