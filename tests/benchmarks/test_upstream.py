"""Rows of the shapes that the datasets have; their texts are made up."""

import pytest

from shaberi_dagster.tasks.benchmarks import upstream
from shaberi_dagster.tasks.benchmarks.choices import Choices
from shaberi_dagster.tasks.benchmarks.upstream import UpstreamRowError

pytestmark = pytest.mark.unit

GPQA = """What is it?
(A) is not at stake here.

(A) one

(B) two
lines

(C) three
(D) four

Say it as \\boxed{A}, \\boxed{B}, \\boxed{C} or \\boxed{D}."""


def right_option(choices: Choices) -> str:
    return choices.options[choices.right]


@pytest.mark.parametrize(
    ("answer", "number"),
    [("so 2 + 3 = <<2+3=5>>5\n#### 5", "5"), ("#### 1,080,000", "1080000"), ("x\n####-3", "-3"), ("#### 2.5 ", "2.5")],
)
def test_gsm8k_has_its_number_after_the_mark(answer, number):
    asked = upstream.gsm8k({"question": "How many?", "answer": answer})
    assert (asked.question, asked.reference) == ("How many?", number)


def test_math500_keeps_its_latex():
    row = {"problem": "Find $x$.", "answer": r"\frac{3}{8}", "subject": "Algebra", "level": 3, "solution": "…"}
    asked = upstream.math500(row)
    assert (asked.question, asked.reference, asked.category) == ("Find $x$.", r"\frac{3}{8}", "Algebra")


def test_math500_with_an_instruction_at_the_end_of_each_problem_is_the_same_problem():
    prompt = "Find $x$.\nPlease reason step by step, and put your final answer within \\boxed{}."
    assert upstream.math500({"prompt": prompt, "answer": "1"}) == upstream.math500(
        {"problem": "Find $x$.", "answer": "1"}
    )


def test_truthfulqa_has_the_same_targets_in_two_forms():
    hub = {"question": "Is it?", "mc1_targets": {"choices": ["No.", "Yes."], "labels": [0, 1]}}
    file = {"question": "Is it?", "mc1_targets": {"No.": 0, "Yes.": 1}}
    assert upstream.truthfulqa(hub) == upstream.truthfulqa(file)
    assert right_option(upstream.truthfulqa(hub).question) == "Yes."


def test_gpqa_has_its_options_in_the_problem():
    asked = upstream.gpqa({"problem": GPQA, "solution": r"\boxed{C}", "domain": "Physics"})
    choices = asked.question
    assert choices.options == ("one", "two\nlines", "three", "four")
    assert (right_option(choices), asked.category) == ("three", "Physics")
    assert choices.text((0, 1, 2, 3)) == GPQA
    assert choices.text((3, 0, 1, 2)) == GPQA.replace(
        "(A) one\n\n(B) two\nlines\n\n(C) three\n(D) four", "(A) four\n\n(B) one\n\n(C) two\nlines\n(D) three"
    )


def test_gpqas_first_source_has_its_options_in_columns():
    wrong = {f"Incorrect Answer {number}": f" {number}\n" for number in (1, 2, 3)}
    row = {"Question": "What?", "Correct Answer": "4\n", "High-level domain": "Physics", "Subdomain": "Optics", **wrong}
    asked = upstream.gpqa(row)
    assert (asked.question.options, right_option(asked.question)) == (("4", "1", "2", "3"), "4")
    assert asked.category == "Physics"
    with pytest.raises(upstream.UpstreamRowError, match="Incorrect Answer 2"):
        upstream.gpqa(row | {"Incorrect Answer 2": None})


def test_gpqa_may_end_with_its_last_option():
    problem = "What?\n(A) 1\n(B) 2\n(C) 3\n(D) 4"
    choices = upstream.gpqa({"problem": problem, "solution": r"\boxed{D}"}).question
    assert choices.options == ("1", "2", "3", "4")
    assert choices.text((0, 1, 2, 3)) == problem


def test_mmlu_pro_names_the_right_option_by_its_letter():
    row = {"question": "Which?", "options": list("klmnopqrst"), "answer": "J", "answer_index": 9, "category": "law"}
    asked = upstream.mmlu_pro(row)
    assert (right_option(asked.question), asked.category) == ("t", "law")


def test_simpleqa_has_its_topic_in_a_dict_as_python_writes_it():
    metadata = "{'topic': \"Women's sports\", 'answer_type': 'Place', 'urls': ['https://a.example/']}"
    asked = upstream.simpleqa({"metadata": metadata, "problem": "Where?", "answer": "Here"})
    assert (asked.question, asked.reference, asked.category) == ("Where?", "Here", "Women's sports")
    assert upstream.simpleqa({"problem": "Where?", "answer": "Here"}).category is None


def test_hle_leaves_out_what_needs_an_image():
    row = {"question": "Why?", "answer": "So", "category": "Math"}
    assert upstream.hle(row | {"image": "data:image/png;base64,AA"}) is None
    for image in ("", None):
        asked = upstream.hle(row | {"image": image})
        assert (asked.question, asked.reference, asked.category) == ("Why?", "So", "Math")


@pytest.mark.parametrize(("labels", "key"), [("ABCD", "C"), ("1234", "3")])
def test_arc_names_the_right_option_by_the_label_of_its_place(labels, key):
    row = {"question": "Which?", "choices": {"text": ["k", "l", "m", "n"], "label": list(labels)}, "answerKey": key}
    assert right_option(upstream.arc(row).question) == "m"


@pytest.mark.parametrize("label", ["2", 2])
def test_hellaswag_asks_for_the_ending_of_a_context(label):
    row = {"ctx": "A man", "endings": ["sits.", "stands.", "flies.", "melts."], "label": label, "activity_label": "x"}
    asked = upstream.hellaswag(row)
    assert asked.question.text((0, 1, 2, 3)).startswith("Complete the following:\n\nA man\n\nOptions:\nA. sits.\nB. ")
    assert (right_option(asked.question), asked.category) == ("flies.", "x")


@pytest.mark.parametrize(("label", "reference"), [(1, "yes"), ("1", "yes"), (0, "no"), ("0", "no")])
def test_hallumix_asks_whether_the_answer_is_a_hallucination(label, reference):
    row = {"documents": ["First.", "Second."], "answer": "Both.", "hallucination_label": label, "src": "qa"}
    asked = upstream.hallumix(row)
    assert "\n\n[Document 1]\nFirst.\n\n[Document 2]\nSecond.\n\n[Answer]\nBoth.\n\n" in asked.question
    assert (asked.reference, asked.category) == (reference, "qa")


MC1 = "'mc1_targets' must have one label for each choice, and the label 1 once"
ARC = "'choices' must have one label for each text, and the 'answerKey' once"


@pytest.mark.parametrize(
    ("reader", "row", "reason"),
    [
        ("gsm8k", {"answer": "#### 1"}, "has no 'question'"),
        ("gsm8k", {"question": "?", "answer": "5"}, "'answer' has no '#### ' with the number"),
        ("gsm8k", {"question": None, "answer": "#### 5"}, "'question' must be text, not NoneType"),
        ("math500", {"problem": " ", "answer": "1"}, "'problem' is empty"),
        ("truthfulqa", {"question": "?"}, "has no 'mc1_targets'"),
        ("truthfulqa", {"question": "?", "mc1_targets": {"a": 0, "b": 0}}, MC1),
        ("truthfulqa", {"question": "?", "mc1_targets": {"choices": ["a", "b"], "labels": [1]}}, MC1),
        ("truthfulqa", {"question": "?", "mc1_targets": {"a": 1}}, "has 1 options; 2 to 26 can be told apart"),
        ("gpqa", {"problem": GPQA, "solution": "C"}, r"'solution' has no \boxed letter"),
        ("gpqa", {"problem": "What?\n(A) 1\n(C) 3\n(D) 4", "solution": r"\boxed{A}"}, "'problem' has no option (B)"),
        ("gpqa", {"problem": "What?\n(A)\n(B) 2\n(C) 3\n(D) 4", "solution": r"\boxed{A}"}, "'problem' has an empty"),
        ("mmlu_pro", {"question": "?", "options": ["a", "b"], "answer": "C"}, "'answer' must be a letter of one of"),
        ("mmlu_pro", {"question": "?", "options": ["a", "b"], "answer": "AB"}, "'answer' must be a letter of one of"),
        ("mmlu_pro", {"question": "?", "options": "ab", "answer": "A"}, "'options' must be a list of texts"),
        ("mmlu_pro", {"question": "?", "options": ["a"] * 27, "answer": "A"}, "has 27 options"),
        ("simpleqa", {"problem": "?", "answer": "a", "metadata": "{'topic': x()}"}, "'metadata' is not a dict"),
        ("simpleqa", {"problem": "?", "answer": "a", "metadata": "(" * 50_000}, "'metadata' is not a dict"),
        ("hle", {"question": "?", "answer": 5}, "'answer' must be text, not int"),
        ("arc", {"question": "?", "answerKey": "A"}, "has no 'choices'"),
        ("arc", {"question": "?", "answerKey": "E", "choices": {"text": ["a", "b"], "label": ["A", "B"]}}, ARC),
        ("arc", {"question": "?", "answerKey": "A", "choices": {"text": ["a", "b"], "label": ["A"]}}, ARC),
        ("hellaswag", {"ctx": "x", "endings": ["a", "b"], "label": ""}, "'label' must be the index of an ending"),
        ("hellaswag", {"ctx": "x", "endings": ["a", "b"], "label": "-1"}, "'label' must be the index of an ending"),
        ("hallumix", {"documents": [], "answer": "a", "hallucination_label": 1}, "'documents' must be a list of texts"),
        (
            "hallumix",
            {"documents": ["a"], "answer": "a", "hallucination_label": 2},
            "'hallucination_label' must be 0 or",
        ),
    ],
)
def test_a_row_of_another_shape_is_refused_with_the_reason(reader, row, reason):
    with pytest.raises(UpstreamRowError) as caught:
        getattr(upstream, reader)(row)
    assert str(caught.value).startswith(reason)
