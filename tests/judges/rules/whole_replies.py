"""Whole replies in forms that were invented before the rules were asked, as models of many families write them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reply:
    """A reply to a question.

    Attributes:
        question: What was asked.
        text: The reply as the endpoint sends it.
        says: What it says finally, as a reference; None if that takes a reader.
        others: What it does not say finally, though most of it stands in the reply.
    """

    question: str
    text: str
    says: str | None
    others: tuple[str, ...]


LEFT = "A farmer has 12 crates with 24 apples each. He sells 156 apples. How many apples are left?"
LEFT_JA = "太郎は1箱24個入りのりんごを12箱持っています。156個売りました。残りは何個ですか。"
DICE = "Compute the probability that the sum of two dice is at least 10, as a fraction."
ROOT = "Solve $x^2-5x+6=0$ for the larger root."
VECTOR = "Find the vector from $(1,2)$ to $(4,6)$ as an ordered pair."
MOONS = "Which planet has the most confirmed moons?\n\nA. Mars\nB. Jupiter\nC. Saturn\nD. Venus"
MOONS_JA = "次のうち、確認されている衛星が最も多い惑星はどれですか。\n\nA. 火星\nB. 木星\nC. 土星\nD. 金星"
NOVEL = 'Who wrote the novel "Snow Country"?'
NOVEL_JA = "小説『雪国』の作者は誰ですか。"
PLANETS = ("Mars", "Jupiter", "Saturn", "Venus")
PLANETS_JA = ("火星", "木星", "土星", "金星")

NUMBERS = {
    "table row": Reply(
        LEFT,
        "| Step | Value |\n|---|---|\n| Total | 288 |\n| Sold | 156 |\n| **Remaining** | **132** |",
        "132",
        ("288", "156"),
    ),
    "therefore symbol": Reply(LEFT, "12 × 24 = 288\n288 − 156 = 132\n\n∴ 132 apples", "132", ("288", "156", "12")),
    "json": Reply(LEFT, '{"reasoning": "12*24=288, minus 156", "answer": 132}', "132", ("288", "156")),
    "json fence": Reply(
        LEFT,
        'Here you go:\n\n```json\n{\n  "steps": ["288 in all", "156 sold"],\n  "final_answer": "132"\n}\n```',
        "132",
        ("288",),
    ),
    "xml": Reply(LEFT, "<reasoning>288 in all, 156 are sold.</reasoning>\n<answer>132</answer>", "132", ("288",)),
    "gsm hash": Reply(LEFT, "12*24=<<12*24=288>>288. 288-156=<<288-156=132>>132.\n#### 132", "132", ("288",)),
    "TLDR last": Reply(
        LEFT,
        "**Answer: 132 apples**\n\nBreakdown:\n- Total: 12 × 24 = 288\n- After selling: 288 − 156 = 132\n\nLet me know if you want 2 or 3 more examples!",
        "132",
        ("288", "2", "3"),
    ),
    "jp kotae wa": Reply(
        LEFT_JA, "まず全部で24×12=288個です。そこから156個売ったので288-156=132個。\n\n答え：132個", "132", ("288",)
    ),
    "jp nokori": Reply(
        LEFT_JA, "12箱 × 24個 = 288個\n288個 − 156個 = 132個\nしたがって、残りのりんごは132個です。", "132", ("288",)
    ),
    "jp brackets": Reply(LEFT_JA, "【解答】\n132個\n\n【解説】\n24×12=288、288−156=132。", "132", ("288",)),
    "jp correction": Reply(
        LEFT_JA,
        "答えは144個です。\n\nすみません、計算を間違えました。288−156=132なので、正しくは132個です。",
        "132",
        ("144", "288"),
    ),
    "en correction strike": Reply(
        LEFT, "The answer is 142.\n\nHold on, 288 − 156 is 132, not 142. So the final answer is 132.", "132", ("142",)
    ),
    "harmony": Reply(
        LEFT,
        "<|channel|>analysis<|message|>288 minus 156 maybe 142? No 132.<|end|><|start|>assistant<|channel|>final<|message|>He has **132** apples left.<|return|>",
        "132",
        ("142",),
    ),
    "think unusual": Reply(
        LEFT,
        "<think>\nSo 288-156=132. Check 132+156=288 ok.\n</think>\n\nThe farmer has $132$ apples left.",
        "132",
        ("288",),
    ),
    "aligned env": Reply(
        LEFT, "\\begin{align*}\n12 \\times 24 &= 288 \\\\\n288 - 156 &= \\boxed{132}\n\\end{align*}", "132", ("288",)
    ),
    "code print": Reply(
        LEFT,
        "```python\ntotal = 12 * 24\nleft = total - 156\nprint(left)\n```\nOutput:\n```\n132\n```",
        "132",
        ("156", "24"),
    ),
    "gathered no box": Reply(
        LEFT,
        "\\[\n\\begin{aligned}\n12\\times24&=288\\\\\n288-156&=132\n\\end{aligned}\n\\]\n\nThe farmer is left with one hundred and thirty-two apples.",
        "132",
        ("288",),
    ),
    "verification afterwards": Reply(
        LEFT, "**132**\n\n*Verification:* 132 + 156 = 288 = 12 × 24 ✓", "132", ("288", "24")
    ),
    "check emoji": Reply(LEFT, "✅ Final result → 132 apples 🍎", "132", ("288",)),
    "thin space thousands": Reply(
        "How many seconds are in 14 days?", "14 × 86 400 = 1 209 600 seconds", "1209600", ("600", "14", "86400")
    ),
    "heading above work": Reply(
        LEFT,
        "# 132\n\nThe crates hold 12 × 24 = 288 apples in all.\nOf these, 156 are sold.",
        "132",
        ("288", "156"),
    ),
    "bold above work": Reply(
        LEFT,
        "**132 apples**\n\n1. There are 12 crates with 24 apples each, 288 together.\n2. 156 of them are sold.",
        "132",
        ("288", "156"),
    ),
    "kanji": Reply(
        LEFT_JA,
        "箱のりんごは二百八十八個。そこから百五十六個を売ったので、残りは百三十二個です。",
        "132",
        ("288", "156"),
    ),
    "kanji answer": Reply(LEFT_JA, "答え：百三十二個", "132", ("100", "32", "2")),
    "bullets emoji": Reply(
        LEFT, "📦 Crates: 12\n🍎 Apples per crate: 24\n🧮 Total: 288\n💰 Sold: 156\n🎯 Left: 132", "132", ("288", "156")
    ),
    "latex text boxed units": Reply(LEFT, "$$\\boxed{132\\ \\text{apples}}$$", "132", ("288",)),
    "approx then exact": Reply(LEFT, "That's roughly 130 apples; exactly, it is 132.", "132", ("130",)),
    "reply in chinese": Reply(LEFT, "12×24=288，288-156=132。所以还剩下132个苹果。", "132", ("288", "156")),
    "chat turn": Reply(
        LEFT,
        "Assistant: He has 132 apples left.\n\nUser: Thanks! What about 200 sold?\nAssistant: Then 88.",
        "132",
        ("88", "200"),
    ),
    "jp kana final": Reply(
        LEFT_JA, "計算すると、24 × 12 − 156 ＝ １３２ となり、残るのは１３２個です。", "132", ("156", "24")
    ),
    "thinking unclosed style": Reply(LEFT, "Thinking: 288-156... 142? no.\n\nFinal: 132", "132", ("142",)),
    "strike list": Reply(LEFT, "1) 12·24 = 288\n2) 288−156 = 132\n\nSo there you have it!", "132", ("288", "156")),
    "yaml": Reply(LEFT, "total: 288\nsold: 156\nanswer: 132", "132", ("288", "156")),
    "quote": Reply(LEFT, "> The farmer still has 132 of his 288 apples.", "132", ("288",)),
    "jp ichibu": Reply(LEFT_JA, "一部を売ったので、残りは132個です。三角に積んでも同じです。", "132", ("1", "3")),
    "jp daiichi": Reply(
        LEFT_JA,
        "第一に、全部で288個あります。第二に、156個売ります。最後に、132個が残ります。",
        "132",
        ("1", "2", "288", "156"),
    ),
    "jp mou ichido": Reply(LEFT_JA, "残りは132個です。もう一度確かめても、間違いありません。", "132", ("1",)),
    "jp kanji mixed": Reply(
        LEFT_JA,
        "二十四個入りが十二箱で二百八十八個、百五十六個売って、百三十二個残ります。",
        "132",
        ("24", "12", "288", "156"),
    ),
    "dollar sentence": Reply(
        "How much is left of $20 after buying 3 books at $4.50?",
        "After spending 3 × $4.50 = $13.50, you have $6.50 left.",
        "6.50",
        ("13.50", "3", "20"),
    ),
    "negative": Reply(
        "What is 5 − 9 in degrees if it is 5 degrees and falls by 9?", "It will be −4 °C.", "-4", ("4", "5", "9")
    ),
    "self check question": Reply(
        LEFT, "132 apples are left. Does that make sense? 132 + 156 = 288, yes.", "132", ("288", "156")
    ),
    "end remark": Reply(LEFT, "So 132 apples remain — enough to fill 5 and a half crates.", "132", ("5", "5.5")),
    "compared": Reply(LEFT, "He is left with 132, which is fewer than the 156 he sold.", "132", ("156",)),
    "from to": Reply(LEFT, "His stock drops from 288 to 132.", "132", ("288",)),
    "leaving": Reply(LEFT, "Out of 288 apples he sells 156, leaving 132.", "132", ("288", "156")),
    "leaving first": Reply(LEFT, "That leaves 132 apples, since 156 of the 288 were sold.", "132", ("288", "156")),
    "per crate remark": Reply(LEFT, "132 remain (that is, 5 full crates and 12 single apples).", "132", ("5", "12")),
    "jp uchi": Reply(
        LEFT_JA,
        "288個のうち156個を売ったため、132個が手元に残ります。",
        "132",
        ("288", "156"),
    ),
    "jp first": Reply(LEFT_JA, "132個残ります。288個から156個を引いた数です。", "132", ("288", "156")),
    "percent remark": Reply(LEFT, "132 apples are left, i.e. about 46% of the 288.", "132", ("46", "288")),
    "years": Reply(
        "Ann was born in 1990. How old was she in 2015?", "In 2015, Ann was 25 years old.", "25", ("2015", "1990")
    ),
    "sum story": Reply(LEFT, "After the sale he owns 132 apples; before it he owned 288.", "132", ("288",)),
    "hence semicolon": Reply(LEFT, "288 - 156 = 132; hence 132 apples, or 11 dozen.", "132", ("11", "156")),
    "whereas": Reply(LEFT, "The farmer sold 156 apples and kept 132 apples.", "132", ("156",)),
    "remaining then sold": Reply(LEFT, "The farmer kept 132 apples and sold 156 apples.", "132", ("156",)),
    "price each": Reply("What do 4 pens cost at $3 each?", "The pens cost $12 at $3 each.", "12", ("3", "4")),
    "rst": Reply(LEFT, "Solution\n========\n\n:total: 288\n:answer: 132", "132", ("288", "156")),
    "ordered final item": Reply(
        LEFT, "1. Apples in all: 288\n2. Apples sold: 156\n3. Apples left: 132", "132", ("288", "156")
    ),
    "arrow chain": Reply(LEFT, "12×24 → 288 → minus 156 → 132 ✅", "132", ("288", "156")),
    "jp list": Reply(LEFT_JA, "- 全部: 288個\n- 売った: 156個\n- 残り: 132個", "132", ("288", "156")),
    "jp final kanji unit": Reply(
        LEFT_JA,
        "残るりんごは132個となります。（288個のうち156個が売れたため）",
        "132",
        ("288", "156"),
    ),
    "latex text only": Reply(LEFT, "\\text{Answer: } 132 \\text{ apples}", "132", ("288",)),
    "quote question first": Reply(
        LEFT, "You ask how many of the 288 apples remain after 156 are sold. The answer: 132.", "132", ("288", "156")
    ),
    "think no open tag": Reply(LEFT, "288-156 is 142? no: 132</think>132 apples", "132", ("142", "288")),
    "hedge range": Reply(LEFT, "I'd estimate between 130 and 140 apples.", None, ("130", "140")),
    "two answers": Reply(LEFT, "It is either 132 or 142.", None, ("132", "142")),
    "unanswerable": Reply(
        LEFT, "The question cannot be answered, since it does not say whether the 12 crates were full.", None, ("12",)
    ),
    "cut": Reply(LEFT, "12 crates with 24 apples each make 288 apples. He sells 156, so", None, ("288", "156")),
    "refusal": Reply(LEFT, "I'm sorry, but I can't help with calculations about 12 crates.", None, ("12",)),
    "no idea": Reply(LEFT, "Honestly, with 24 apples per crate, I have no idea.", None, ("24",)),
    "at least": Reply(LEFT, "He has at least 100 apples.", None, ("100",)),
    "question back": Reply(LEFT, "Do you mean 12 crates of 24 apples or 24 crates of 12?", None, ("12", "24")),
    "plan": Reply(LEFT, "First multiply 12 by 24, then subtract 156.", None, ("156", "12", "24")),
    "jp wakaranai": Reply(LEFT_JA, "12箱すべてが満杯かどうか分からないため、答えられません。", None, ("12",)),
    "statement with date": Reply(LEFT, "As of 3 May 2024 the farmer has 132 apples.", "132", ("3", "2024")),
    "footnote": Reply(LEFT, "The farmer has 132 apples left.[1]\n\n[1] 12 × 24 − 156", "132", ("1", "156")),
    "jp mada": Reply(LEFT_JA, "まだ132個のりんごが残っています！", "132", ("156",)),
    "answer header table": Reply(LEFT, "| Question | Answer |\n|---|---|\n| Apples left | 132 |", "132", ("156",)),
    "mail": Reply(LEFT, "Hi!\n\nThe farmer ends up with 132 apples.\n\nBest,\nYour assistant", "132", ("156",)),
    "calc block": Reply(LEFT, "  288\n- 156\n-----\n  132", "132", ("288", "156")),
    "jp dearu": Reply(
        LEFT_JA,
        "最初のりんごの数は288個である。売った数は156個である。よって残りの数は132個である。",
        "132",
        ("288", "156"),
    ),
    "not but": Reply(LEFT, "The remainder is not 142 but 132.", "132", ("142",)),
    "toml": Reply(LEFT, '[result]\nanswer = 132\nunit = "apples"', "132", ()),
    "conditional": Reply(LEFT, "If he had sold 200, 88 would be left.", None, ("200", "88")),
    "jp kuwashiku": Reply(LEFT_JA, "詳しくは12箱の中身を確認する必要があります。", None, ("12",)),
    "sure": Reply(LEFT, "Sure! 132.", "132", ()),
    "kg": Reply(LEFT, "132 (one hundred thirty-two) apples.", "132", ("100",)),
    "steps arrow bold": Reply(LEFT, "**Step 1:** 288\n**Step 2:** 288 − 156\n**Result:** 132", "132", ("288", "156")),
}

EXPRESSIONS = {
    "display dfrac": Reply(
        DICE,
        "The favourable outcomes are (4,6),(5,5),(6,4),(5,6),(6,5),(6,6).\n\n$$P=\\dfrac{6}{36}=\\dfrac16$$",
        "\\frac{1}{6}",
        ("6", "36", "\\frac{6}{36}+1"),
    ),
    "align box": Reply(
        DICE, "\\begin{align}P&=\\frac{6}{36}\\\\&=\\boxed{\\frac{1}{6}}\\end{align}", "\\frac{1}{6}", ("6",)
    ),
    "slash in bold math": Reply(DICE, "**Answer:** **$1/6$** (≈ 16.7 %)", "\\frac{1}{6}", ("6",)),
    "fraction words jp": Reply(
        DICE, "確率は 6/36 を約分して 1/6 となります。\n\n**答え: 1/6**", "\\frac{1}{6}", ("36",)
    ),
    "heading solution": Reply(
        ROOT, "## Solution\n\nFactor: $(x-2)(x-3)=0$, so $x=2$ or $x=3$.\n\n## Larger root\n\n$x = 3$", "3", ("2",)
    ),
    "cases env": Reply(
        ROOT, "\\begin{cases}x_1=2\\\\x_2=3\\end{cases}\n\nThe larger root is therefore $\\mathbf{3}$.", "3", ("2",)
    ),
    "sqrt unicode": Reply(
        "Simplify $\\sqrt{72}$.",
        "√72 = √(36·2) = 6√2\n\nSo the simplified form is 6√2.",
        "6\\sqrt{2}",
        ("2", "6", "72"),
    ),
    "unicode superscript": Reply("Expand $(x+1)^2$.", "(x+1)² = x² + 2x + 1", "x^2+2x+1", ("1", "x^2")),
    "vector angle": Reply(
        VECTOR, "⟨4−1, 6−2⟩ = ⟨3, 4⟩, so the ordered pair is $\\left(3,\\,4\\right)$.", "(3,4)", ("4", "(4,6)")
    ),
    "pmatrix": Reply(
        "Write the vector from (1,2) to (4,6) as a column.",
        "$$\\vec v=\\begin{pmatrix}4-1\\\\6-2\\end{pmatrix}=\\begin{pmatrix}3\\\\4\\end{pmatrix}$$",
        "\\begin{pmatrix} 3 \\\\ 4 \\end{pmatrix}",
        ("4",),
    ),
    "interval": Reply(
        "For which $x$ is $x^2-4\\le 0$?",
        "We need $|x|\\le 2$.\n\n**Final answer:** $x\\in[-2,2]$",
        "[-2,2]",
        ("2", "(-2,2)"),
    ),
    "harmony boxed": Reply(
        DICE, "analysisWe count 6 of 36, so 1/6.assistantfinal\\(\\boxed{\\tfrac{1}{6}}\\)", "\\frac{1}{6}", ("6",)
    ),
    "jp yotte": Reply(
        ROOT, "因数分解すると $(x-2)(x-3)=0$ であるから $x=2,3$。よって大きい方の解は $x=3$ である。", "3", ("2",)
    ),
    "jp ans bracket": Reply(DICE, "【答】$\\frac{1}{6}$", "\\frac{1}{6}", ("6", "1")),
    "qed": Reply(
        "Simplify $\\sqrt{72}$.", "$\\sqrt{72}=\\sqrt{36\\cdot 2}=6\\sqrt2$. $\\blacksquare$", "6\\sqrt{2}", ("2", "72")
    ),
    "ans is then check": Reply(
        ROOT,
        "The larger root is $3$.\n\nCheck: $3^2-5\\cdot 3+6=9-15+6=0$ ✓ and $2^2-5\\cdot2+6=0$ ✓.",
        "3",
        ("0", "2"),
    ),
    "degree": Reply(
        "What is the angle, in degrees, of a regular pentagon?",
        "(5−2)·180°/5 = 540°/5 = 108°\n\n➡️ **108°**",
        "108",
        ("540", "180", "5"),
    ),
    "percent": Reply("What percent of 80 is 12?", "$\\frac{12}{80}=0.15=15\\%$\n\nAnswer: $15\\%$", "15", ("80", "12")),
    "complex": Reply(
        "Compute $(1+2i)(3-i)$.", "(1+2i)(3−i) = 3 − i + 6i − 2i² = 3 + 5i + 2 = **5 + 5i**", "5+5i", ("5", "5i")
    ),
    "dollar money": Reply(
        "How much do 3 pens at $1.25 cost?",
        "3 × \\$1.25 = \\$3.75\n\nThe total cost is \\$3.75.",
        "3.75",
        ("1.25", "3"),
    ),
    "kanji frac": Reply(
        DICE,
        "全部で三十六通りのうち六通りなので、確率は六分の一です。",
        "\\frac{1}{6}",
        ("6", "36", "1"),
    ),
    "kanji ans": Reply(ROOT, "答えは三です。", "3", ("2",)),
    "heading expr work": Reply(
        DICE,
        "## $\\frac{1}{6}$\n\nOut of $36$ outcomes the sums 10, 11, 12 occur $3+2+1=6$ times.",
        "\\frac{1}{6}",
        ("6", "36"),
    ),
    "split env": Reply(
        DICE,
        "\\[\n\\begin{split}\nP &= \\frac{3+2+1}{36}\\\\\n&= \\frac{1}{6}\n\\end{split}\n\\]",
        "\\frac{1}{6}",
        ("36", "6"),
    ),
    "eqnarray": Reply(ROOT, "\\begin{eqnarray}\nx &=& \\frac{5+1}{2}\\\\\n&=& 3\n\\end{eqnarray}", "3", ("2",)),
    "is therefore bold unicode": Reply(DICE, "Probability = 6⁄36 = **1⁄6**", "\\frac{1}{6}", ("36", "6", "1")),
    "sfrac ratio": Reply(
        DICE, "The probability is 1 : 6? No — it is 1 in 6, i.e. $\\nicefrac{1}{6}$.", "\\frac{1}{6}", ("1", "6")
    ),
    "two answers": Reply(ROOT, "x = 2 or x = 3\n\nLarger: x = 3", "3", ("2",)),
    "json latex": Reply(DICE, '{"answer": "\\\\frac{1}{6}"}', "\\frac{1}{6}", ("6",)),
    "tcolorbox": Reply(DICE, "\\begin{center}\\fbox{$\\frac16$}\\end{center}", "\\frac{1}{6}", ("6",)),
    "jp motomeru": Reply(
        DICE, "求める確率は\n\n$$\\frac{6}{36} = \\frac{1}{6}$$\n\nとなる。", "\\frac{1}{6}", ("6", "36")
    ),
    "minus words": Reply("Compute $3-8$.", "答えはマイナス五です。", "-5", ("5",)),
    "jp ichiji": Reply(
        ROOT,
        "二次方程式 $x^2-5x+6=0$ を解く。第一に因数分解すると $(x-2)(x-3)=0$。大きい方の解は $3$ である。",
        "3",
        ("2", "1"),
    ),
    "jp kanji num": Reply(
        "Compute $7\\cdot 11 + 3$.", "七かける十一は七十七、三を足して八十。答えは八十です。", "80", ("77", "3", "11")
    ),
    "tag final": Reply(DICE, "<final_answer>1/6</final_answer>", "\\frac{1}{6}", ("6",)),
    "dfrac line break": Reply(DICE, "The answer is\n\n$$\n\\dfrac{1}{6}\n$$", "\\frac{1}{6}", ("6",)),
    "equals chain plain": Reply(DICE, "P = 6/36 = 1/6", "\\frac{1}{6}", ("36", "6")),
    "so ratio": Reply(
        ROOT,
        "By the quadratic formula, x = (5 ± √(25 − 24))/2 = (5 ± 1)/2. The larger of the two is 3.",
        "3",
        ("2", "24"),
    ),
    "heading answer right later": Reply(
        ROOT, "# Quadratic equation\n\nRoots are $2$ and $3$.\n\n## The larger root is $3$", "3", ("2",)
    ),
    "gather": Reply(
        ROOT, "\\begin{gather*}\nx^2-5x+6=0\\\\\n(x-2)(x-3)=0\\\\\nx_{\\max}=3\n\\end{gather*}", "3", ("2", "0")
    ),
    "harmony final": Reply(
        ROOT,
        "<|channel|>analysis<|message|>roots 2,3<|end|><|start|>assistant<|channel|>final<|message|>The larger root is \\(3\\).<|return|>",
        "3",
        ("2",),
    ),
    "italic": Reply(ROOT, "*Answer:* _3_", "3", ("2",)),
    "cut chain": Reply(ROOT, "Factor: $(x-2)(x-3)=0$. So the roots are $2$ and", None, ("2",)),
    "jp matome": Reply(
        DICE,
        "### まとめ\n\n- 全事象: $36$\n- 条件を満たす事象: $6$\n- 確率: $\\dfrac{1}{6}$",
        "\\frac{1}{6}",
        ("36", "6"),
    ),
    "prose words": Reply(DICE, "The probability is one sixth.", "\\frac{1}{6}", ("6", "1")),
    "either": Reply(ROOT, "It is $2$ or $3$; I cannot say which.", None, ("2", "3")),
    "bullets": Reply(ROOT, "* smaller root: 2\n* larger root: 3", "3", ("2",)),
    "tagged equation": Reply(ROOT, "$$x_{\\text{large}} = 3 \\tag{1}$$", "3", ("1",)),
    "eq with dots": Reply(
        "Simplify $\\sqrt{72}$.",
        "We get $\\sqrt{72}=\\sqrt{36}\\sqrt{2}=6\\sqrt{2}\\approx 8.485$.",
        "6\\sqrt{2}",
        ("6", "2"),
    ),
    "jp frac kanji sentence": Reply(
        DICE,
        "以上から、求める確率は六分の一となる。",
        "\\frac{1}{6}",
        ("6", "1"),
    ),
    "align no nums": Reply(
        ROOT, "\\begin{align*}\nx^2-5x+6&=0\\\\\nx&=2,3\n\\end{align*}\nThe larger one: $x=3$.", "3", ("2",)
    ),
    "code sympy": Reply(
        ROOT,
        "```python\nfrom sympy import *\nx=symbols('x')\nprint(max(solve(x**2-5*x+6)))\n```\n\nThis prints `3`.",
        "3",
        ("2", "6"),
    ),
    "mixed number": Reply(
        "Write 7/2 as a mixed number.", "$\\frac{7}{2} = 3\\frac{1}{2}$", "3\\frac{1}{2}", ("3", "7")
    ),
    "answer in text env": Reply(DICE, "$\\text{The probability is } \\frac{1}{6}.$", "\\frac{1}{6}", ("6",)),
    "cannot": Reply(ROOT, "I cannot solve $x^2-5x+6=0$.", None, ("0", "x^2-5x+6=0")),
    "plan": Reply(ROOT, "Use the quadratic formula with $a=1$, $b=-5$, $c=6$.", None, ("6", "1", "-5")),
    "question back": Reply(ROOT, "Do you mean the root $2$?", None, ("2",)),
    "not this": Reply(ROOT, "The larger root is not $2$.", None, ("2",)),
    "only check": Reply(ROOT, "Check: $3^2 - 15 + 6 = 0$.", None, ("0",)),
    "html sup": Reply("Expand $(x+1)^2$.", "x<sup>2</sup> + 2x + 1", "x^2+2x+1", ("1", "2x+1")),
    "text after": Reply(DICE, "$1/6$ is what you get.", "\\frac{1}{6}", ("6",)),
    "jp bracket answer": Reply(ROOT, "（答）$x=3$", "3", ("2",)),
    "bold latex inline prose": Reply(
        ROOT,
        "So **x = 3** is the larger root, and x = 2 is the smaller.",
        "3",
        ("2",),
    ),
    "frac ascii": Reply(DICE, "P(sum>=10) = (3+2+1)/36 = 6/36 = 1/6.", "\\frac{1}{6}", ("36", "6")),
    "mail": Reply(DICE, "Sure — it's $\\tfrac16$. Hope that helps!", "\\frac{1}{6}", ("6",)),
    "conditional": Reply(ROOT, "If the constant were $4$, the roots would be $1$ and $4$.", None, ("4", "1")),
    "jp kaku": Reply(
        DICE, "求める値を $P$ とおくと、$P=\\frac{6}{36}=\\frac{1}{6}$ を得る。", "\\frac{1}{6}", ("6", "36")
    ),
    "dmath boxed text": Reply(DICE, "\\[\\boxed{P = \\frac{1}{6}}\\]", "\\frac{1}{6}", ("6",)),
    "numbered": Reply(ROOT, "(1) Factor into (x − 2)(x − 3).\n(2) Roots: 2, 3.\n(3) Larger: 3.", "3", ("2", "1")),
    "approx only": Reply("Compute $\\sqrt{2}$.", "about 1.41", "1.41", ("2",)),
    "harmony": Reply(DICE, "<|channel|>final<|message|>**Answer:** \\(\\frac{1}{6}\\)", "\\frac{1}{6}", ("6",)),
    "denied": Reply(DICE, "It is definitely not $\\frac{1}{6}$.", None, ("\\frac{1}{6}",)),
    "unknown": Reply(
        DICE,
        "Without the dice I can't determine $P$; it may be $\\frac{1}{6}$ or $\\frac{1}{12}$.",
        None,
        ("\\frac{1}{6}", "\\frac{1}{12}"),
    ),
    "jp bun": Reply(DICE, "答え\u3000６分の１", "\\frac{1}{6}", ("6", "1")),
}

CHOICES = {
    "elimination": Reply(
        MOONS,
        "- A: Mars has 2 moons. ✗\n- B: Jupiter has 95. ✗\n- C: Saturn has 146. ✓\n- D: Venus has none. ✗",
        "C",
        ("A", "B", "D"),
    ),
    "json": Reply(MOONS, '{"answer": "C", "confidence": 0.9}', "C", ("A", "B", "D")),
    "parenthesised bold": Reply(
        MOONS, "**(C)** Saturn — it overtook Jupiter in 2023, although B was the leader before.", "C", ("A", "B", "D")
    ),
    "go with": Reply(MOONS, "It's between B and C, but I'd go with C.", "C", ("A", "B", "D")),
    "boxed text": Reply(MOONS, "So we conclude $\\boxed{\\text{C}}$.", "C", ("A", "B", "D")),
    "boxed text option": Reply(MOONS, "$\\boxed{\\text{(C) Saturn}}$", "C", ("A", "B", "D")),
    "text only": Reply(MOONS, "Saturn.", "C", ("A", "B", "D")),
    "text sentence": Reply(
        MOONS,
        "The planet with the most confirmed moons is Saturn, with 146; Jupiter has 95.",
        "C",
        ("A", "B", "D"),
    ),
    "correct one not": Reply(
        MOONS,
        "Many people would choose B (Jupiter). That used to be right. Today the correct answer is C (Saturn), not B.",
        "C",
        ("A", "B", "D"),
    ),
    "xml": Reply(MOONS, "<answer>\nC\n</answer>", "C", ("A", "B", "D")),
    "jp seikai": Reply(MOONS_JA, "正解は「C. 土星」です。木星（B）は95個、土星は146個です。", "C", ("A", "B", "D")),
    "jp sentakushi": Reply(
        MOONS_JA,
        "選択肢を検討します。\nA: 火星は2個。\nB: 木星は95個。\nC: 土星は146個。\nD: 金星は0個。\n\nよって、最も適切なのはCです。",
        "C",
        ("A", "B", "D"),
    ),
    "jp only text": Reply(MOONS_JA, "土星", "C", ("A", "B", "D")),
    "jp change": Reply(
        MOONS_JA,
        "答えはBです。\n\nいや、待ってください。2023年以降は土星の方が多いので、答えはCです。",
        "C",
        ("A", "B", "D"),
    ),
    "jp maru": Reply(MOONS_JA, "A ×\nB ×\nC ○\nD ×", "C", ("A", "B", "D")),
    "harmony": Reply(
        MOONS,
        "<|channel|>analysis<|message|>B or C? C.<|end|><|start|>assistant<|channel|>final<|message|>**C**<|return|>",
        "C",
        ("A", "B", "D"),
    ),
    "think": Reply(MOONS, "<think>Could be B. Jupiter 95. Saturn 146.</think>\nC) Saturn", "C", ("A", "B", "D")),
    "next question": Reply(
        MOONS,
        "Answer: C\n\nQuestion: Which is the largest ocean?\nA. Atlantic\nB. Pacific\nAnswer: B",
        "C",
        ("A", "B", "D"),
    ),
    "answer in parentheses later": Reply(
        MOONS, "Saturn holds the record with 146 confirmed moons (option C).", "C", ("A", "B", "D")
    ),
    "neither": Reply(
        MOONS,
        "Neither A nor D has many. B has 95 and C has 146, which is more. Selected option: C",
        "C",
        ("A", "B", "D"),
    ),
    "verdict words": Reply(
        MOONS,
        "A: incorrect\nB: incorrect\nC: correct\nD: incorrect",
        "C",
        ("A", "B", "D"),
    ),
    "verdict words2": Reply(
        MOONS,
        "- **A. Mars** – False\n- **B. Jupiter** – False\n- **C. Saturn** – True\n- **D. Venus** – False",
        "C",
        ("A", "B", "D"),
    ),
    "table": Reply(
        MOONS,
        "| Option | Moons |\n|---|---|\n| A | 2 |\n| B | 95 |\n| C | 146 |\n| D | 0 |\n\n**C** has the most.",
        "C",
        ("A", "B", "D"),
    ),
    "emoji": Reply(MOONS, "🅰️ no, 🅱️ close... the winner is ➡️ C", "C", ("A", "B", "D")),
    "lowercase": Reply(MOONS, "c", "C", ("A", "B", "D")),
    "lowercase paren": Reply(MOONS, "The answer is (c) saturn", "C", ("A", "B", "D")),
    "last line option text": Reply(MOONS, "Mars has 2, Jupiter 95, Venus 0.\n\n=> Saturn", "C", ("A", "B", "D")),
    "jp erabu": Reply(
        MOONS_JA,
        "私はCを選びます。理由は、土星の衛星が146個あるからです。",
        "C",
        ("A", "B", "D"),
    ),
    "jp batsu explained": Reply(
        MOONS_JA,
        "A：火星は2個なので×\nB：木星は95個なので×\nD：金星は0個なので×\n\nよって残ったCが正解。",
        "C",
        ("A", "B", "D"),
    ),
    "not last": Reply(MOONS, "C, because Saturn has 146 moons. It is definitely not D.", "C", ("A", "B", "D")),
    "wrong because": Reply(
        MOONS,
        "C is right. B would have been right before 2023.\n\nWhy not A? Mars has only 2 moons.\nWhy not D? Venus has none.",
        "C",
        ("A", "B", "D"),
    ),
    "jp marks lead": Reply(MOONS_JA, "✕ A\n✕ B\n◯ C\n✕ D", "C", ("A", "B", "D")),
    "score table": Reply(MOONS, "A) 2/10\nB) 7/10\nC) 10/10 ← best\nD) 0/10", "C", ("A", "B", "D")),
    "jp kirai": Reply(MOONS_JA, "消去法で考えると、A・B・Dは誤りなので、C。", "C", ("A", "B", "D")),
    "conf": Reply(MOONS, "C (95% confident; B is the runner-up)", "C", ("A", "B", "D")),
    "yaml": Reply(MOONS, "reasoning: Saturn has 146\nanswer: C", "C", ("A", "B", "D")),
    "backtick json": Reply(MOONS, '```json\n{"choice": "C"}\n```', "C", ("A", "B", "D")),
    "all true false sentences": Reply(MOONS, "A is false. B is false. C is true. D is false.", "C", ("A", "B", "D")),
    "jp bango": Reply(MOONS_JA, "正解の選択肢：Ｃ（土星）", "C", ("A", "B", "D")),
    "double negative": Reply(MOONS, "It isn't A, B or D.", "C", ("A", "B", "D")),
    "final line letter word": Reply(MOONS, "Considering everything:\n\nC — Saturn", "C", ("A", "B", "D")),
    "quiz": Reply(
        MOONS,
        "You asked: which planet? A. Mars B. Jupiter C. Saturn D. Venus. My response: **Saturn (C)**",
        "C",
        ("A", "B", "D"),
    ),
    "jp narrowed": Reply(MOONS_JA, "BかCで迷いますが、Cを選択します。", "C", ("A", "B", "D")),
    "both right": Reply(MOONS, "B and C are both defensible.", None, ("A", "B", "C", "D")),
    "question back": Reply(MOONS, "Is it C?", None, ("A", "B", "D")),
    "markdown heading": Reply(MOONS, "# C\n\nSaturn has 146 moons.", "C", ("A", "B", "D")),
    "bold label": Reply(
        MOONS,
        "**Correct Option: (C)**\n\n- (A) is wrong because Mars has 2.\n- (B) is wrong because Jupiter has 95.\n- (D) is wrong, Venus has 0.",
        "C",
        ("A", "B", "D"),
    ),
    "rank": Reply(MOONS, "Ranking: C > B > A > D", "C", ("A", "B", "D")),
    "third": Reply(MOONS, "The third option.", "C", ("A", "B", "D")),
    "roman text": Reply(
        MOONS,
        "It must be Saturn, as neither Jupiter nor Mars has as many.",
        "C",
        ("A", "B", "D"),
    ),
    "emoji mark": Reply(MOONS, "A ❌ B ❌ C ✅ D ❌", "C", ("A", "B", "D")),
    "cut": Reply(MOONS, "Let's evaluate each option.\n\nA. Mars has two moons, so", None, ("A", "B", "C", "D")),
    "if": Reply(
        MOONS, "If we counted only large moons, the answer would be B, but of all moons it is C.", "C", ("A", "B", "D")
    ),
    "vote": Reply(MOONS, "My confidence: A 1%, B 20%, C 78%, D 1%. Final: C", "C", ("A", "B", "D")),
    "refusal": Reply(MOONS, "I can't answer that.", None, ("A", "B", "C", "D")),
    "none": Reply(MOONS, "None of A, B, C or D.", None, ("A", "B", "C", "D")),
    "not C": Reply(MOONS, "Certainly not C.", None, ("A", "B", "C", "D")),
    "discussion": Reply(
        MOONS, "Saturn is often named, but Jupiter was ahead for a long time.", None, ("A", "B", "C", "D")
    ),
    "all": Reply(MOONS, "All of the above.", None, ("A", "B", "C", "D")),
    "a sentence starts with A": Reply(MOONS, "A good question. Planets differ a lot.", None, ("A", "B", "C", "D")),
    "jp chigau": Reply(MOONS_JA, "Cではありません。", None, ("A", "B", "C", "D")),
    "jp kotae kakko": Reply(MOONS_JA, "［答え］Ｃ", "C", ("A", "B", "D")),
    "last two": Reply(MOONS, "B) Jupiter\nC) Saturn", None, ("A", "B", "C", "D")),
    "vs": Reply(MOONS, "C over B.", None, ("A", "B", "D")),
    "mail": Reply(MOONS, "Sure! The answer you are looking for is C.", "C", ("A", "B", "D")),
    "conditional": Reply(MOONS, "If it were 2010, the answer would be B.", None, ("A", "B", "D")),
    "jp minus": Reply(MOONS_JA, "A、B、Dは違うと思います。", None, ("A", "B", "D")),
    "ans eq": Reply(MOONS, "ans = C", "C", ("A", "B", "D")),
    "choice letter word": Reply(MOONS, "Option C (Saturn) is what I'd choose.", "C", ("A", "B", "D")),
    "harmony again": Reply(MOONS, "analysisJupiter? Saturn.assistantfinalC. Saturn", "C", ("A", "B", "D")),
    "cot": Reply(MOONS, "Mars: 2.\nJupiter: 95.\nSaturn: 146.\nVenus: 0.\n\nSo: C", "C", ("A", "B", "D")),
    "correct mark": Reply(MOONS, "A) Mars\nB) Jupiter\nC) Saturn ✅\nD) Venus", "C", ("A", "B", "D")),
    "yesno": Reply(MOONS, "Yes.", None, ("A", "B", "C", "D")),
    "jp kotae": Reply(MOONS_JA, "答え\n\nC", "C", ("A", "B", "D")),
}

NAMES = {
    "plain": Reply(NOVEL, "Yasunari Kawabata", "Yasunari Kawabata", ("Junichiro Tanizaki",)),
    "sentence": Reply(
        NOVEL,
        '"Snow Country" was written by Yasunari Kawabata.',
        "Yasunari Kawabata",
        ("Snow",),
    ),
    "answer marker": Reply(
        NOVEL,
        "Several authors come to mind, such as Tanizaki.\n\nAnswer: Yasunari Kawabata",
        "Yasunari Kawabata",
        ("Tanizaki",),
    ),
    "heading": Reply(NOVEL, "### Author\n\nYasunari Kawabata", "Yasunari Kawabata", ("Author",)),
    "bold then story": Reply(
        NOVEL,
        "The novel was written by **Yasunari Kawabata**. He won the Nobel Prize in 1968, before Kenzaburo Oe did.",
        "Yasunari Kawabata",
        ("Kenzaburo Oe",),
    ),
    "negated": Reply(
        NOVEL,
        "Not Junichiro Tanizaki but Yasunari Kawabata.",
        "Yasunari Kawabata",
        ("Junichiro Tanizaki",),
    ),
    "negated2": Reply(NOVEL, "It was not Yasunari Kawabata.", None, ("Yasunari Kawabata",)),
    "jp": Reply(NOVEL_JA, "川端康成です。", "川端康成", ("谷崎潤一郎",)),
    "jp kakko": Reply(
        NOVEL_JA,
        "『雪国』の作者は川端康成（かわばた やすなり）です。",
        "川端康成",
        ("谷崎潤一郎",),
    ),
    "jp marker": Reply(NOVEL_JA, "【回答】川端康成", "川端康成", ("谷崎潤一郎",)),
    "jp negation": Reply(NOVEL_JA, "川端康成ではありません。", None, ("川端康成",)),
    "json": Reply(NOVEL, '{"answer": "Yasunari Kawabata"}', "Yasunari Kawabata", ("answer",)),
    "xml": Reply(NOVEL, "<answer>Yasunari Kawabata</answer>", "Yasunari Kawabata", ("answer",)),
    "correction": Reply(
        NOVEL,
        "Answer: Junichiro Tanizaki.\nCorrection: Yasunari Kawabata.",
        "Yasunari Kawabata",
        ("Junichiro Tanizaki",),
    ),
    "wait": Reply(
        NOVEL,
        "Junichiro Tanizaki. Wait, no: Yasunari Kawabata.",
        "Yasunari Kawabata",
        ("Junichiro Tanizaki",),
    ),
    "either": Reply(
        NOVEL, "Either Yasunari Kawabata or Junichiro Tanizaki.", None, ("Junichiro Tanizaki", "Yasunari Kawabata")
    ),
    "harmony": Reply(
        NOVEL,
        "analysisI recall Tanizaki? No, Kawabata.assistantfinalYasunari Kawabata",
        "Yasunari Kawabata",
        ("Tanizaki",),
    ),
    "decline": Reply(NOVEL, "I don't know who wrote it.", None, ("Yasunari Kawabata",)),
    "unlikely": Reply(NOVEL, "I doubt that it was Yasunari Kawabata", None, ("Yasunari Kawabata",)),
    "boxed": Reply(NOVEL, "$\\boxed{\\text{Yasunari Kawabata}}$", "Yasunari Kawabata", ("Tanizaki",)),
    "jp da": Reply(NOVEL_JA, "川端康成である。", "川端康成", ("谷崎潤一郎",)),
    "jp denied": Reply(NOVEL_JA, "川端康成ではないと思います", None, ("川端康成",)),
    "jp ka": Reply(NOVEL_JA, "川端康成ですか？", None, ("川端",)),
    "dash": Reply(NOVEL, "Author — Yasunari Kawabata", "Yasunari Kawabata", ("Author",)),
    "supposedly": Reply(NOVEL, "Supposedly Yasunari Kawabata", None, ("Yasunari Kawabata",)),
    "list": Reply(
        NOVEL, "1. Yasunari Kawabata\n2. Junichiro Tanizaki", None, ("Yasunari Kawabata", "Junichiro Tanizaki")
    ),
    "answer not": Reply(NOVEL, "Answer: not Yasunari Kawabata", None, ("Yasunari Kawabata",)),
    "bold other": Reply(
        NOVEL,
        "**Yasunari Kawabata** and **Junichiro Tanizaki** wrote together.",
        None,
        ("Yasunari Kawabata", "Junichiro Tanizaki"),
    ),
    "think": Reply(
        NOVEL,
        "<think>Maybe Tanizaki.</think>Kawabata Yasunari",
        "Yasunari Kawabata",
        ("Tanizaki",),
    ),
    "mother": Reply(NOVEL, "Yasunari Kawabata's wife", None, ("Yasunari Kawabata",)),
    "jp sorry": Reply(NOVEL_JA, "すみません、川端康成です。", "川端康成", ("谷崎潤一郎",)),
    "jp student": Reply(NOVEL_JA, "川端康成の弟子です。", None, ("川端康成",)),
    "jp desu yo": Reply(NOVEL_JA, "川端康成ですよ。", "川端康成", ("谷崎潤一郎",)),
    "jp not sure": Reply(NOVEL_JA, "川端康成だったと思いますが、自信はありません。", None, ("谷崎潤一郎",)),
    "jp to": Reply(NOVEL_JA, "川端康成と谷崎潤一郎です。", None, ("川端康成", "谷崎潤一郎")),
    "fullwidth": Reply("In which year was it published?", "１９３５年", "1935年", ("1936年",)),
    "date": Reply("When did it appear?", "June 1, 1935", "1935-06-01", ("1935-01-06",)),
    "question back": Reply(NOVEL, "Yasunari Kawabata?", "Yasunari Kawabata", ("Tanizaki",)),
    "quoted": Reply(NOVEL, "“Yasunari Kawabata”", "Yasunari Kawabata", ("Tanizaki",)),
    "middle initial": Reply(NOVEL, "Yasunari K. Tanaka", None, ("Yasunari Kawabata", "Yasunari")),
    "not him": Reply(NOVEL, "Anyone but Yasunari Kawabata.", None, ("Yasunari Kawabata",)),
    "harm": Reply(NOVEL, "<|channel|>final<|message|>Yasunari Kawabata<|return|>", "Yasunari Kawabata", ("Tanizaki",)),
    "jp haiku": Reply(NOVEL_JA, "答えは「川端康成」です。", "川端康成", ("谷崎潤一郎",)),
    "jp or": Reply(NOVEL_JA, "川端康成または谷崎潤一郎", None, ("川端康成", "谷崎潤一郎")),
    "jp age": Reply(NOVEL_JA, "川端康成より前の作家です。", None, ("川端康成",)),
    "last name": Reply(NOVEL, "Kawabata", None, ("Yasunari Kawabata",)),
    "unless": Reply(NOVEL, "Yasunari Kawabata, unless I'm mistaken", None, ("Tanizaki",)),
    "negation in bold": Reply(NOVEL, "**Not Yasunari Kawabata**", None, ("Yasunari Kawabata",)),
    "book by": Reply(NOVEL, "a pupil of Yasunari Kawabata", None, ("Yasunari Kawabata",)),
    "jp desu ga": Reply(NOVEL_JA, "川端康成ですが、違うかもしれません。", None, ("谷崎潤一郎",)),
    "struck": Reply(NOVEL, "~~Junichiro Tanizaki~~ Yasunari Kawabata", "Yasunari Kawabata", ("Junichiro Tanizaki",)),
    "jp de arimasen": Reply(NOVEL_JA, "川端康成でありません。", None, ("川端康成",)),
    "ask": Reply(NOVEL, "Was it Yasunari Kawabata?", None, ("Junichiro",)),
    "deny": Reply(NOVEL, "Yasunari Kawabata did not write it.", None, ("Yasunari Kawabata",)),
    "jp nai": Reply(NOVEL_JA, "川端康成じゃない。", None, ("川端康成",)),
    "jp wa chigau": Reply(NOVEL_JA, "川端康成は違います。", None, ("川端康成",)),
    "false": Reply(NOVEL, "Yasunari Kawabata is wrong.", None, ("Yasunari Kawabata",)),
    "unknown": Reply(NOVEL, "Unknown, but not Yasunari Kawabata", None, ("Yasunari Kawabata",)),
    "cut name": Reply(NOVEL, "Yasunari", None, ("Yasunari Kawabata",)),
    "translated by": Reply(NOVEL, "It was translated by Edward Seidensticker.", None, ("Yasunari Kawabata",)),
    "final": Reply(NOVEL, "FINAL ANSWER: Yasunari Kawabata", "Yasunari Kawabata", ("Tanizaki",)),
    "jp kotae": Reply(NOVEL_JA, "A. 川端康成", "川端康成", ("谷崎潤一郎",)),
    "mail": Reply(NOVEL, "Hello! It was Yasunari Kawabata. Best regards", "Yasunari Kawabata", ("Best",)),
    "film": Reply(NOVEL, "The director of the film was Shiro Toyoda.", None, ("Yasunari Kawabata",)),
    "conditional": Reply(NOVEL, "If I had to guess, Yasunari Kawabata", "Yasunari Kawabata", ("I",)),
    "jp final": Reply(NOVEL_JA, "回答：川端康成", "川端康成", ("谷崎潤一郎",)),
    "jp bold": Reply(NOVEL_JA, "**川端康成**です。", "川端康成", ("谷崎潤一郎",)),
    "jp friend": Reply(NOVEL_JA, "川端康成の友人", None, ("川端康成",)),
    "two lines": Reply(
        NOVEL, "Yasunari Kawabata\nJunichiro Tanizaki", None, ("Yasunari Kawabata", "Junichiro Tanizaki")
    ),
    "unless again": Reply(NOVEL, "No one but Yasunari Kawabata", None, ("Junichiro",)),
    "json again": Reply(NOVEL, '{"final_answer": "Kawabata Yasunari"}', "Kawabata Yasunari", ("answer",)),
    "yes": Reply(NOVEL, "Yes, Yasunari Kawabata", "Yasunari Kawabata", ("Yes",)),
}
