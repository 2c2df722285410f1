"""The levels that the rules reached on the corpus: no figure gets worse unseen."""

import hashlib
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from shaberi_dagster.reports.audited import ON_WRITTEN_REPLIES
from tests.judges.rules import corpus
from tests.judges.rules.corpus import Outcome

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[3]
RULES = ("numeric", "math", "mcq", "match", "yes_no")


@cache
def counted(half: str) -> dict[str, Counter[Outcome]]:
    found = {rule: Counter[Outcome]() for rule in RULES}
    for case in corpus.cases(corpus.FOLDER / f"{half}.jsonl"):
        found[case.grader][corpus.outcome(case)] += 1
    return found


def test_the_measuring_half_is_the_one_that_was_frozen():
    text = (corpus.FOLDER / "measuring.jsonl").read_bytes()
    assert hashlib.sha256(text).hexdigest() == (corpus.FOLDER / "measuring.sha256").read_text(encoding="utf-8").strip()


@pytest.mark.parametrize(("half", "rule", "right", "wrong", "invented"), corpus.LEVELS)
def test_as_much_is_read_as_before_and_no_more_of_it_wrongly(half, rule, right, wrong, invented):
    found = counted(half)[rule]
    assert found[Outcome.RIGHT] >= right
    assert found[Outcome.WRONG] <= wrong
    assert found[Outcome.INVENTED] <= invented


@pytest.mark.corpus
def test_nothing_is_read_out_of_the_adversarial_replies_that_have_no_answer(request):
    replies = request.getfixturevalue("corpus") / "graders" / "replies.jsonl"
    outcomes = Counter(corpus.outcome(case) for case in corpus.cases(replies))
    assert (outcomes[Outcome.INVENTED], outcomes[Outcome.WRONG]) == (0, 0)
    assert outcomes[Outcome.RIGHT] >= 98


@pytest.mark.long
def test_scores_without_an_audit_say_what_the_corpus_shows():
    read, wrong = map(sum, zip(*corpus.errors_by_form().values(), strict=True))
    assert (wrong, read, round(corpus.exact_interval(wrong, read).upper, 3)) == ON_WRITTEN_REPLIES


@pytest.mark.long
def test_the_report_of_graders_has_the_errors_that_the_corpus_shows():
    statement = (ROOT / "sql" / "reports" / "graders.sql").read_text(encoding="utf-8")
    stated = re.findall(r"\('(\w+)', (\d+), (\d+), ([\d.]+)\)", statement)
    assert stated == [
        (form, str(read), str(wrong), f"{corpus.exact_interval(wrong, read, 0.9).upper:.3f}")
        for form, (read, wrong) in corpus.errors_by_form().items()
    ]
