"""How the rules and other tools' extractors read the same replies: right, abstained, wrong, and answers out of nothing.

    python perf/graders.py                            the project's own corpus: tuning, measuring and fresh replies
    python perf/graders.py --real FOLDER              real replies as well; FOLDER is what SHABERI_CORPUS names
    python perf/graders.py --real FOLDER --beside PACKAGES    and what lm-eval and math-verify make of all of them

Only counts are printed, with exact intervals of 95 % (Clopper-Pearson). lm-eval and math-verify are no dependencies of
this project: PACKAGES is where they were installed (`uv pip install --target PACKAGES lm-eval math-verify`).
simple-evals is on no package index and is left out.
"""

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from shaberi_dagster.tasks.judges.rules.base import GradedQuestion  # noqa: E402  (found through the line above)
from shaberi_dagster.tasks.judges.rules.registry import GRADERS  # noqa: E402
from tests.judges.rules import corpus, test_corpus  # noqa: E402

SAY = Console(markup=False, highlight=False, soft_wrap=True, width=200).print
CUT = ("gsm8k", "math500")
CUT_AT = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
Read = Callable[[corpus.Case], corpus.Outcome]


def table(name: str, cases: Iterable[corpus.Case], read: Read = corpus.outcome) -> None:
    """Print how cases are read, by grader, language and form."""
    started, count = time.process_time(), 0
    found: Counter[tuple[str, str, str, corpus.Outcome]] = Counter()
    for case in cases:
        outcome, count = read(case), count + 1
        for language in (case.language_group, "all"):
            for form in (case.form, "all"):
                found[case.grader, language, form, outcome] += 1
    spent = 1000 * (time.process_time() - started) / max(count, 1)
    SAY(f"\n{name}: {count} replies, {spent:.1f} ms each")
    SAY(f"{'grader':9}{'language':9}{'form':11}  right  abst.  wrong  wrong, 95 %       no answer, but read as one")
    for grader, language, form in sorted({key[:3] for key in found}):
        right, abstained, wrong, silent, invented = (found[grader, language, form, kind] for kind in corpus.Outcome)
        answered, empty = right + abstained + wrong, silent + invented
        SAY(
            f"{grader:9}{language:9}{form:11}{right:7}{abstained:7}{wrong:7}  {_share(wrong, answered):16} "
            f"{invented} of {empty}: {_share(invented, empty)}"
        )


def library(name: str) -> Read:
    """What lm-eval's filters or math-verify make of a case; what they find nothing in is an abstention."""
    found = TOOLS[name]

    def read(case: corpus.Case) -> corpus.Outcome:
        says = found(case)
        if not case.says:
            return corpus.Outcome.SILENT if says is None else corpus.Outcome.INVENTED
        return {None: corpus.Outcome.ABSTAINED, True: corpus.Outcome.RIGHT, False: corpus.Outcome.WRONG}[says]

    return read


def _by_math_verify(case: corpus.Case) -> bool | None:
    from math_verify import parse, verify

    said = parse(case.reply)
    return bool(verify(parse(f"${case.question.reference or 0}$"), said)) if said else None


def _by_lm_eval(case: corpus.Case) -> bool | None:
    """The flexible extraction of its GSM8K for numbers and MATH, and the one of its MMLU-Pro for letters."""
    from lm_eval.filters.extraction import RegexFilter

    letters = case.grader == "mcq"
    pattern = r"answer is \(?([ABCDEFGHIJ])\)?" if letters else r"(-?[$0-9.,]{2,})|(-?[0-9]+)"
    extract = RegexFilter(pattern, group_select=0 if letters else -1)
    said = extract.apply([[case.reply]], [{}])[0][0]
    if said == "[invalid]":
        return None
    return re.sub(r"[,$]|\.$", "", said) == re.sub(r"[,$]", "", case.question.reference)


TOOLS = {"lm-eval": _by_lm_eval, "math-verify": _by_math_verify}


def _share(count: int, total: int) -> str:
    if not total:
        return "-"
    ends = corpus.exact_interval(count, total)
    return f"{count / total:.1%} ({ends.lower:.1%}-{ends.upper:.1%})"


def main() -> None:
    """Print the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--half",
        choices=("tuning", "measuring", "fresh", "blind", "unseen", "fourth"),
        help="only one file of the project's corpus",
    )
    options.add_argument("--real", type=Path, help="the folder with real replies")
    options.add_argument("--beside", type=Path, help="the folder in which lm-eval and math-verify are installed")
    chosen = options.parse_args()
    tools = ("lm-eval", "math-verify") if chosen.beside else ()
    if chosen.beside:
        sys.path.append(str(chosen.beside))
        SAY(", ".join(f"{tool} {version(tool)}" for tool in tools))
    halves = (chosen.half,) if chosen.half else ("tuning", "measuring", "fresh", "blind", "unseen", "fourth")
    files = {half: corpus.FOLDER / f"{half}.jsonl" for half in halves}
    if chosen.real:
        files["adversarial"] = chosen.real / "graders" / "replies.jsonl"
    for name, path in files.items():
        table(name, corpus.cases(path))
        for tool in tools:
            known = ("numeric", "math") if tool == "math-verify" else ("numeric", "math", "mcq")
            table(f"{name}, {tool}", [case for case in corpus.cases(path) if case.grader in known], library(tool))
    if chosen.real:
        _real(chosen.real, tools)
    SAY("\nby form, of the replies that nobody tuned on (`sql/reports/graders.sql` has this table)")
    for form, (read, wrong) in corpus.errors_by_form().items():
        SAY(f"    ('{form}', {read}, {wrong}, {corpus.exact_interval(wrong, read, 0.9).upper:.3f}),")


def _real(folder: Path, tools: Iterable[str]) -> None:
    """Print how real replies, whole and cut, and published answers are graded."""
    for dataset in test_corpus.RULES:
        reviewed = [case for case in test_corpus.cases(folder) if case["dataset"] == dataset]
        reviewed = [case for case in reviewed if case["reviewed_correct"] is not None]
        for tool in (None, *tools):
            if tool != "math-verify" or dataset in CUT:
                SAY(f"{dataset}, reviewed replies, {tool or 'our rule'}: {_agreement(reviewed, tool)}")
        if dataset in CUT:
            found = [corpus.outcome(case) is corpus.Outcome.INVENTED for case in _cut(reviewed)]
            SAY(f"{dataset}, the same cut at a line, read as an answer: {sum(found)} of {len(found)}")
    rows = [json.loads(line) for line in (folder / "ensemble" / "public" / "math500_jianzhnie.jsonl").open()]
    for form in ("<>", "$<>$", "\\boxed{<>}", "Answer: <>"):
        items = [GradedQuestion(re.sub(r"\nPlease reason step.*", "", row["prompt"]), row["answer"]) for row in rows]
        right = [GRADERS["rule:math"].grade(form.replace("<>", item.reference), item).correct for item in items]
        SAY(f"MATH-500 references as {form}: {dict(Counter(right))}")


def _agreement(reviewed: Iterable[dict[str, Any]], tool: str | None) -> str:
    """Count verdicts that are those of the person who reviewed the replies."""
    found: Counter[str] = Counter()
    for case in reviewed:
        correct = _says(case, tool)
        found["abstain" if correct is None else "agree" if correct is case["reviewed_correct"] else "differ"] += 1
    return ", ".join(f"{kind} {found[kind]}" for kind in ("agree", "abstain", "differ"))


def _says(case: dict[str, Any], tool: str | None) -> bool | None:
    if tool is None:
        return test_corpus.graded(case).correct
    rule = test_corpus.RULES[case["dataset"]].removeprefix("rule:")
    return TOOLS[tool](corpus.Case(rule, "en", test_corpus.asked(case), case["response_text"], says=True))


def _cut(reviewed: Iterable[dict[str, Any]]) -> Iterator[corpus.Case]:
    """Real replies that end at a line after a share of their text, without the reference in what is left."""
    for case in reviewed:
        question, text = test_corpus.asked(case), case["response_text"]
        for share in CUT_AT:
            beginning = text[: int(share * len(text))].rpartition("\n")[0]
            if beginning.strip() and question.reference not in beginning:
                rule = test_corpus.RULES[case["dataset"]].removeprefix("rule:")
                yield corpus.Case(rule, "en", question, beginning, says=False)


if __name__ == "__main__":
    main()
