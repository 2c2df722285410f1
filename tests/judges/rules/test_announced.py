"""Answers that a reply announces, each way once, and replies that look like it and announce none."""

import pytest

from shaberi_dagster.tasks.judges.rules.base import GradedQuestion
from shaberi_dagster.tasks.judges.rules.registry import GRADERS

pytestmark = pytest.mark.unit

GAS = GradedQuestion(
    "Which gas makes up most of Earth's atmosphere?", "B", ("Oxygen", "Nitrogen", "Argon", "Carbon dioxide")
)
MAMMAL = GradedQuestion("次のうち、哺乳類はどれですか。", "B", ("ペンギン", "イルカ", "サメ", "カエル"))
PENCILS = GradedQuestion("Ben has 5 boxes with 24 pencils each. He gives away 37. How many pencils are left?", "83")
ROPE = GradedQuestion("長さ12mのひもを1.5mずつ切ると何本できますか。", "8")
ROOTS = GradedQuestion("Find all real solutions of $|x-2| = 5$.", "-3, 7")
AREA = GradedQuestion("三角形の3辺が3cm、4cm、5cmのとき、面積を求めよ。", "6")

ANNOUNCED = {
    ("mcq", GAS): (
        "I'm going with B, nitrogen.", "Your best choice is B.", "B is your answer.", "Final decision: B", "[ANSWER] B", "A1: B", "👉 B",
        "B seems to be the correct one.", "This makes B the best choice.", "So, I'd answer B.", "<ans>B</ans>", "Key: B", "Your answer: B",
        "A: wrong\nB: correct\nC: wrong\nD: wrong", "It's tempting to say A, but B is correct.", "\\boxed{\\textbf{(B)}\\ \\text{Nitrogen}}",
        "The answer is B. Oxygen is only 21%.\n\nTry a similar question on your own!",
    ),
    ("mcq", MAMMAL): (
        "選択肢の中で正しいのはBです。", "消去法でBが残ります。", "私ならBを選びます。", "AではなくBです。", "Bで間違いありません。", "記号：B", "答え：②",
        "答えはBです。ご不明な点があればお知らせください。", "正解はBです。\n\nAは哺乳類とは言えません。", "正解はBです。Cと間違えないように注意しましょう。",
        "選択肢A：鳥類です。\n選択肢B：哺乳類です。\n選択肢C：魚類です。\n\nよって正解はBです。", "A. ペンギン：不正解\nB. イルカ：正解",
    ),
    ("numeric", PENCILS): (
        "Answer:\n- 83 pencils", "Answer: [83]", "The answer? 83.", "Answer: 83 pencils. Check: 83 + 37 = 120.", 'The answer is "83".',
        "Answer: He has 83 pencils left (120 - 37).", "Answer: 83 pencils, a great many.", "\\boxed{83\\ \\frac{\\text{pencils}}{\\text{box}}}",
        '{"final_answer": {"value": 83}}', "The answer is 83. Please tell me if anything is unclear.",
    ),
    ("numeric", ROPE): ("答えは、8本できます。", "12÷1.5=8 答え8本", "お答え：8本", "答えは12÷1.5=8より、8本です。", "答えは8本です。検算：1.5×8=12"),
    ("math", ROOTS): (
        "Answer:\n- $x = 7$\n- $x = -3$", "$$\\boxed{x = 7 \\quad \\text{or} \\quad x = -3}$$", "\\boxed{x=7 \\lor x=-3}", "答えはx=7またはx=-3です。",
    ),
    ("math", AREA): ("答え 6cm^2", "答えは $6$ $\\mathrm{cm}^2$ です。", "答えは6cm²です。", "Answer: six"),
}  # fmt: skip
NOT_ANNOUNCED = {
    ("mcq", GAS): (
        "It's one of B and C.", "B is correct, but so is A.", "B is a plausible guess.", "B fits less well than it seems.", "Do not select B.",
        "Let us consider option B first.", "The next best answer is B.", "B is also correct.", "Only B remains to be checked.", "N/A (B)",
    ),
    ("mcq", MAMMAL): (
        "Bも正しいですが、Cも正しいです。", "Bが正しいか考えましょう。", "Bを選びたくなります。", "Bは正解の一つです。", "選択肢A：鳥類\n選択肢B：哺乳類",
        "答えはBではなさそうです。",
    ),
    ("numeric", PENCILS): ("Answer: 83 - 3", "The answer? Maybe 83.", "The answer is about half of 84.", "Answer: subtract 37."),
    ("math", AREA): ("Vertex: (3, 4)", "The answer is 6 or 12.", "Answer: divide 12 by 2."),
}  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "question", "reply"), [(*asked, reply) for asked, replies in ANNOUNCED.items() for reply in replies]
)
def test_an_announced_answer_is_read(rule, question, reply):
    assert GRADERS[f"rule:{rule}"].grade(reply, question).correct is True


@pytest.mark.parametrize(
    ("rule", "question", "reply"), [(*asked, reply) for asked, replies in NOT_ANNOUNCED.items() for reply in replies]
)
def test_what_announces_no_answer_is_left_to_a_reader(rule, question, reply):
    assert GRADERS[f"rule:{rule}"].extract(reply, question) is None
