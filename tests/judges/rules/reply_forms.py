r"""Forms in which models give a final answer: `<>` stands for the answer, LaTeX without dollar signs.

Rules are written while looking at `SEEN` only; `KEPT` says how they fare on forms that nobody looked at.
"""

import json

WORK = r"First we write down what is given. Then $3 \cdot 4 = 12$ and $12 - 5 = 7$, which we need below."
CHECK = r"Let me check this: substituting back gives $7 + 5 = 12$ and $12 = 3 \cdot 4$, as it should be."

SEEN = {
    "bare": "<>",
    "dollars": "$<>$",
    "brackets": "\\[\n<>\n\\]",
    "bold": "**<>**",
    "code": "`<>`",
    "answer": "Answer: <>",
    "bold answer": "**Answer:** $<>$",
    "heading and next line": "### Final Answer\n\n<>",
    "final answer, bold": "**Final Answer: <>**",
    "sentence": "The answer is <>.",
    "therefore": "Therefore, the final answer is $<>$.",
    "boxed": "\\boxed{<>}",
    "hope": f"{WORK}\n\nFinal Answer: The final answer is $<>$. I hope it is correct.",
    "check afterwards": f"{WORK}\n\nSo the result is **$<>$**.\n\n**Check:** {CHECK}",
    "answer, then check": f"{WORK}\n\nAnswer: <>\n\n{CHECK}",
    "japanese": f"{WORK}\n\nしたがって、答えは $<>$ です。",
    "tag": "<answer><></answer>",
    "thinking": "<think>Perhaps 7? No, 12 it is. The answer is 12.</think>\n\n<>",
    "display": f"{WORK}\n\nThus\n\n$$<>$$",
    "explanation after": "<>\n\nExplanation: we simplify first and then combine the 3 terms.",
    "is the answer": f"{WORK}\n\nSo $<>$ is the answer.",
    "bold dollars": "**$<>$**",
    "therefore, bare": f"{WORK}\n\nTherefore, <>.",
    "equals": f"{WORK}\n\nHence the value we want equals $<>$.",
    "table": f"{WORK}\n\n| quantity | value |\n|---|---|\n| answer | $<>$ |",
    "ans": "ANS: <>",
    "environment": f"{WORK}\n\nThe requested quantity equals\n\n\\begin{{align*}}\n<>\n\\end{{align*}}",
    "comes out": f"1. {WORK}\n2. Therefore the answer comes out as $<>$.",
    "underlined heading": f"{WORK}\n\nAnswer\n------\n$<>$",
    "requested value, bold": f"{WORK}\n\nHence the requested value: **<>**",
    "so answer": f"{WORK}\n\nso answer is <>",
    "end up": f"{WORK}\n\nSo we end up with **$<>$**.",
    "html": f"{WORK}\n\n<b>Answer:</b> $<>$",
}

KEPT = {
    "full stop": "<>.",
    "parentheses": "\\(<>\\)",
    "two dollars": "$$<>$$",
    "bold dollars, stop": "**$<>$.**",
    "fence": "```\n<>\n```",
    "capitals": "FINAL ANSWER: <>",
    "answer, bold": "**Answer: <>**",
    "heading and display": "## Answer\n\n\\[ <> \\]",
    "colon and next line": f"{WORK}\n\n**Final answer:**\n\n$<>$",
    "boxed in display": f"{WORK}\n\n\\[ \\boxed{{<>}} \\]\n\n{CHECK}",
    "sentence, bold": f"{WORK}\n\nThe correct answer is **<>**.",
    "conclude": f"{WORK}\n\nWe conclude that the result is \\( <> \\).",
    "japanese label": f"{WORK}\n\n**答え:** <>",
    "json": json.dumps({"answer": "<>"}),
    "thus": f"{WORK}\n\nThus we get $<>$.",
    "exclamation": "It's $<>$!",
    "steps": f"1. {WORK}\n2. Combine both.\n\n**Answer**\n\n<>",
    "solution": "The solution is $<>$",
    "consensus": "All responses agree. The correct final answer is $<>$.",
    "check, then box": f"{WORK}\n\n{CHECK}\n\nFinal result: $\\boxed{{<>}}$",
    "quote": "> <>",
    "final, next line, dollars": "Final Answer:\n$<>$",
    "so we have": f"{WORK}\n\nSo altogether we have $<>$ in total.",
    "value in words": f"{WORK}\n\nThe required value is therefore **$<>$**.",
    "result, colon": f"{WORK}\n\nResult: <>",
    "it follows": f"{WORK}\n\nIt follows that the final answer is <>",
    "bold sentence": f"{WORK}\n\n**The final answer is $<>$**",
    "dash": "Answer - $<>$",
    "list item": f"- Given: 3 and 4\n- {WORK}\n- **Final answer:** $<>$",
    "japanese, bold": f"{WORK}\n\nよって、求める値は **$<>$** です。",
    "arrow": "Final answer → $<>$",
    "conclusion": f"{WORK}\n\n**Conclusion.** The value is $<>$.",
    "therefore sign": f"{WORK}\n\n∴ $<>$",
    "would be": f"{WORK}\n\nSo my final answer would be: **\\( <> \\)**",
    "simplified": f"{WORK}\n\nAnswer (simplified): $<>$",
    "display lines": f"{WORK}\n\nWhich gives us:\n\n$$\n<>\n$$",
    "submit": f"{WORK}\n\nI will submit $<>$ as my answer.",
    "turns out": f"{WORK}\n\nThe correct answer turns out to be $<>$!",
    "summary": f"{WORK}\n\n### Summary\n\n- Steps: 3\n- Answer: $<>$",
    "yields": f"{WORK}\n\nwhich finally yields\n\n\\[<>\\]\n",
    "in short": f"{WORK}\n\nIn short: $<>$",
    "value found": f"{WORK}\n\nThe value found is $<>$, as required.",
    "final, thus": f"{WORK}\n\nStep 2 gives the same. My final answer is thus $<>$ (exact form).",
}


def filled(form: str, answer: str) -> str:
    """A reply in this form."""
    return form.replace("<>", json.dumps(answer)[1:-1] if form.startswith('{"') else answer)


def _choices(*forms: str) -> dict[str, str]:
    return {form: form for form in forms}


CHOICES_SEEN = _choices(
    "<>", "<>.", "(<>)", "<>)", "**<>**", "`<>`", "Option <>", "<>. {}", "**<>. {}**", "<>) {}", "Answer: <>", "**Answer: <>**",
    "The best match is Option <>.", "Option <> matches the description, the others do not.", "The correct statement is **<>**.",
    "### Answer\n**<>. {}**", "### Final Answer\n\n**<>**", "{other}. No wait, <>.", "The answer is {other}. Wait, that is wrong. It is <>.",
    "We can rule out the others.\n\nThe correct answer is option **<>**: {}.", "Therefore, the answer is (<>).",
    "The single best option letter is <>", "Looking at each:\n- A is wrong.\n- B is wrong.\n\nSo the best choice is <>.",
    "\\boxed{{<>}}", "The final answer is $\\boxed{{\\text{{<>}}}}$", "<answer><></answer>", '{{"answer": "<>"}}',
    "<>\n\nExplanation: it fits best, as the text says.", "答えは<>です。", "正解：<>", "I choose <>.", "It has to be <>, because nothing else fits.",
    "My answer is <>", "{}", "<>\n\nQuestion: Which is heaviest?\nA. stone\nB. wood\nC. iron\nD. paper\nAnswer: {other}",
    "Answer: <>\n\nQ: Which is heaviest?\nA. stone\nB. wood\nC. iron\nD. paper\nA: {other}",
    "My pick: <>", "<> (the others contradict the text)", "After weighing everything, I settle on <>.", "正しいのは<>です。", "So option <> it is.",
)  # fmt: skip

CHOICES_KEPT = _choices(
    "Answer <>", "[<>]", "**Option <>**", "<>: {}", "Choice <>.", "The right option is <>.", "Option <> is the best fit.",
    "Option <> best describes it.", "The most accurate statement is <>.", "The statement that is true is **<>**.",
    "## Answer: <>", "### Correct answer\n<>) {}", "{other}? No, actually <>.", "I first thought {other}, but the answer is <>.",
    "Let's go through them. A says one thing, B another.\n\n**Final answer: <>**", "Hence <> is correct.",
    "The best option letter is **<>**.", "ANSWER: (<>)", "Final Answer: \\boxed{{<>}}", "The answer is therefore <>",
    "<>. {}\n\nThis is because the text says so.", "よって、正解は <> です。", "答え：(<>)", "選択肢<>が正しい。", "I would go with <>.",
    "Among the options, <> is the most plausible.", "<> is the correct answer.", "The correct choice: <>", "the answer is <>",
    "The best completion is **<>**.", "The answer: <>!", "**Final choice → <>**", "Select <>.", "Best match: <>", "Answer: <> is correct, {other} is not.",
    "The answer is **<>. {}**.", "<>\n\n---\n\nQuestion 2: What is lightest?\nA) lead\nB) air\n\nAnswer: {other}",
    "<>\n\nHuman: Which is lightest?\nA. lead\nB. air\nAssistant: {other}",
)  # fmt: skip

CHOICES_UNCLEAR = (
    "A or B", "The answer is either A or C.", "Both A and D are possible.", "The correct answer is", "Let us look at option A. It says that",
    "Option A matches the first part, but option B matches the second part. The best", "None of the options is right.",
    "A. {0}\nB. {1}\nC. {2}\nD. {3}", "I cannot tell which one is right.", "Options A and B can be ruled out.",
    "The answer is not A.", "If A were right, then B would be wrong.",
)  # fmt: skip
"""Replies that say no letter, or more than one: whoever reads a letter in them guesses."""


def chosen(form: str, letter: str, option: str, other: str) -> str:
    """A reply in this form that chooses a letter with its option; `other` is the letter of another one."""
    return form.format(option, other=other).replace("<>", letter)


NUMBERS_SEEN = (
    "<>", "<>.", "A: <>", "Answer - <>", "Answer: <>", "**<>**", "\\boxed{<>}", "#### <>", f"{WORK}\n\nThe answer is <>.",
    "**Answer:** <> lamps", "The answer is {other}. Wait, I forgot one. The answer is <>.", "The answer is {other}. No, wait, that is wrong: it is <>.",
    f"{WORK}\n\nThey carry **<> lamps**.", "答えは<>個です。", f"{WORK}\n\nAnswer: <>\n\n{CHECK}", "<answer><></answer>", '{{"answer": <>}}',
    "Therefore, they carry <> lamps in total.", "<>\n\nQuestion: How many cats are there?\nAnswer: {other}", "Final Answer: <>",
    "### Answer\n\n<>", "<> lamps", "It's <>!", "= <>",
    "{other}. Correction: <>", "The answer is {other}... no, <>.",
)  # fmt: skip

NUMBERS_KEPT = (
    "`<>`", "Answer <>", "Answer = <>", "Final answer: **<>**", "ANSWER: <>", "A. <>", f"{WORK}\n\n**Final Answer:**\n\n<>", "$<>$", "The total is <>.",
    f"{WORK}\n\nSo they carry <> lamps.", "I get {other}. Actually, I made a mistake: it should be <>.", "**A:** <>", "答え：<>", f"{WORK}\n\nよって、<>個です。",
    "So the final answer is **<>**. " + CHECK, "Result: <>", "<> lamps, because they carry them all.", "That makes <> altogether.",
    "Answer: <>\n\nQ: How many cats are there?\nA: {other}", "> <>",
    "Answer: exactly <>", "Total = <>", "→ <>", "Final tally: <>", "I said {other}, but on recounting it is <>.", "~~{other}~~ <>",
    "答えは{other}ではなく<>です。", "Answer: {other}\n\nOops, I miscounted. Answer: <>",
)  # fmt: skip


def numbered(form: str, number: str, other: str) -> str:
    """A reply in this form that gives a number; `other` is another one, which is taken back or not its own."""
    return form.replace("{other}", other).replace("{{", "{").replace("}}", "}").replace("<>", number)


CHOICES_NOT_READ = frozenset({"{other}? No, actually <>.", "Option <> matches the description, the others do not."})
"""Forms that were kept away, and in which no letter is found in some cases; a wrong one never."""
