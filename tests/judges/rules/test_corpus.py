"""The graders on real answers: how often they agree with a careful reader, and the original's numbers."""

import csv
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from shaberi_dagster.tasks.judges.rules.base import GradedQuestion, Verdict
from shaberi_dagster.tasks.judges.rules.match import MatchGrader
from shaberi_dagster.tasks.judges.rules.numeric import NumericGrader
from shaberi_dagster.tasks.judges.rules.plurality import plurality
from shaberi_dagster.tasks.judges.rules.registry import GRADERS
from tests.judges.rules import original
from tests.sizes import size

pytestmark = [pytest.mark.corpus, pytest.mark.acceptance]

STEP = size(4, 1)
"""Of what is graded at length, every so many."""

RULES = {"gsm8k": "rule:numeric", "math500": "rule:math", "truthfulqa": "rule:mcq", "hellaswag": "rule:mcq"}
DECIDED = {"gsm8k": 492, "math500": 399, "truthfulqa": 497, "hellaswag": 497}
"""Of the reviewed answers, how many the rule decides at least; it decides all but `KNOWN_FAULTS` rightly."""
KNOWN_FAULTS = 0
"""Of 1,989 reviewed answers, none is read wrongly."""
PLURALITY_CORRECT = {"gsm8k": 97, "math500": 98, "truthfulqa": 94, "hellaswag": 93}


@cache
def cases(corpus: Path) -> list[dict]:
    names = ("evaluator_cases.jsonl", "ensemble_responses_unjudged.jsonl")
    return [json.loads(line) for name in names for line in (corpus / "ensemble" / name).open(encoding="utf-8")]


def asked(case: dict) -> GradedQuestion:
    options = re.findall(r"^[A-Z]\. (.*)$", case["prompt"].partition("\n\nOptions:\n")[2], re.MULTILINE)
    return GradedQuestion(case["prompt"], case["ground_truth"], tuple(options))


def place(case: dict) -> tuple[str, int]:
    return case["question_id"], case["response_index"]


def graded(case: dict) -> Verdict:
    return GRADERS[RULES[case["dataset"]]].grade(case["response_text"], asked(case))


@pytest.mark.parametrize("dataset", list(RULES))
def test_verdicts_agree_with_the_reviewed_ones(corpus, dataset):
    reviewed = [case for case in cases(corpus) if case["dataset"] == dataset and case["reviewed_correct"] is not None]
    read = [(case, graded(case).correct) for case in reviewed[::STEP]]
    faults = [place(case) for case, correct in read if correct not in (None, case["reviewed_correct"])]
    assert len(faults) <= KNOWN_FAULTS
    assert sum(correct is not None for _, correct in read) >= (DECIDED[dataset] - 8) // STEP
    assert len(reviewed) >= 489


def test_the_original_s_wrong_math_verdicts_are_put_right(corpus):
    wronged = [
        case
        for case in cases(corpus)
        if case["dataset"] == "math500" and case.get("upstream_correct") is False and case["reviewed_correct"]
    ]
    assert len(wronged) == 28
    assert all(graded(case).correct is not False for case in wronged)


def test_short_texts_are_never_called_right_or_wrong_against_the_original_s_judge(corpus):
    judged = [
        case for case in cases(corpus) if case["dataset"] == "simpleqa" and case.get("upstream_correct") is not None
    ]
    verdicts = [
        (MatchGrader().grade(case["response_text"], asked(case)).correct, case["upstream_correct"]) for case in judged
    ]
    decided = [(own, judge) for own, judge in verdicts if own is not None]
    assert all(own == judge for own, judge in decided)
    assert len(decided) >= 30


def test_published_worked_solutions_are_right(corpus):
    grader = NumericGrader()
    for line in (corpus / "ensemble" / "public" / "gsm8k_test.jsonl").open(encoding="utf-8"):
        row = json.loads(line)
        reference = row["answer"].rpartition("#### ")[2].replace(",", "")
        assert grader.grade(row["answer"], GradedQuestion(row["question"], reference)).correct is True


def test_published_worked_solutions_are_read_without_their_last_line_too(corpus):
    grader, verdicts = NumericGrader(), []
    for line in (corpus / "ensemble" / "public" / "gsm8k_test.jsonl").read_text(encoding="utf-8").splitlines()[::STEP]:
        row = json.loads(line)
        work, _, reference = row["answer"].rpartition("#### ")
        question = GradedQuestion(row["question"], reference.replace(",", ""))
        verdicts.append(grader.grade(work.strip(), question).correct)
    assert verdicts.count(True) / len(verdicts) >= 0.69
    assert verdicts.count(False) / len(verdicts) <= 0.005


def test_each_published_math_answer_equals_itself_in_a_box(corpus):
    grader = GRADERS["rule:math"]
    for line in (corpus / "ensemble" / "public" / "math500_jianzhnie.jsonl").open(encoding="utf-8"):
        row = json.loads(line)
        item = GradedQuestion(row["prompt"], row["answer"])
        assert grader.grade(f"So the answer is $\\boxed{{{row['answer']}}}$.", item).correct is True


@pytest.fixture
def golden(corpus) -> list[dict]:
    with (corpus / "golden" / "majority_vote_per_question.csv").open(encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["dataset"] in RULES]


@pytest.fixture
def responses(corpus) -> dict[str, list[dict]]:
    found = {}
    for path in (corpus / "ensemble" / "caches" / "ensemble").iterdir():
        for entry in json.loads(path.read_text(encoding="utf-8"))["entries"]:
            found[entry["questionId"]] = entry["responses"]
    return found


def test_the_original_s_extractions_and_votes_are_reproduced(golden, responses):
    for row in golden:
        letters = RULES[row["dataset"]] == "rule:mcq"
        texts = ["" if "error" in response else response["content"] for response in responses[row["question_id"]]]
        found = [original.letter(text) if letters else _plain(original.number(text)) for text in texts]
        assert "|".join(answer or "" for answer in found) == row["regex_answers"], row["question_id"]
        vote = plurality(found)
        majority = found[vote.winner] or ""
        truth = row["ground_truth"]
        correct = majority == truth if letters else original.same_number(majority or None, original.number(truth))
        if row["n_ok"] != "0":
            assert (majority, str(vote.votes)) == (row["regex_majority"], row["regex_majority_votes"])
            assert str(int(correct)) == row["regex_majority_correct"], row["question_id"]


def _plain(number: str | None) -> str | None:
    return None if number is None else f"{float(number):.12g}"


def test_plurality_with_our_graders_never_calls_a_checked_majority_wrong(corpus, golden, responses):
    items = {case["question_id"]: asked(case) for case in cases(corpus)}
    assert Counter(row["dataset"] for row in golden if row["checked_majority_correct"] == "1") == PLURALITY_CORRECT
    for row in golden[::STEP]:
        texts = [response["content"] for response in responses[row["question_id"]] if "error" not in response]
        if not texts:
            continue
        grader = GRADERS[RULES[row["dataset"]]]
        item = items[row["question_id"]]
        said = [grader.extract(text, item) for text in texts]
        vote = plurality([None if text is None else grader.canonical(text) for text in said])
        verdict = grader.grade(texts[vote.winner], item)
        assert verdict.correct in (None, row["checked_majority_correct"] == "1"), row["question_id"]
