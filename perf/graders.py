"""How the rules and other tools' extractors read the same replies: right, abstained, wrong, and answers out of nothing.

    python perf/graders.py                            the project's own corpus: tuning, measuring and fresh replies
    python perf/graders.py --real FOLDER              real replies as well; FOLDER is what SHABERI_CORPUS names
    python perf/graders.py --real FOLDER --other      and what lm-eval and math-verify make of all of them

Only counts are printed, with exact intervals of 95 % (Clopper-Pearson). lm-eval and math-verify are no dependencies of
this project: install them into an environment of their own, with this project, for `--other`. simple-evals is on no
package index and is left out.
"""

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from shaberi_dagster.judges.rules.base import GradedQuestion  # noqa: E402  (found through the line above)
from shaberi_dagster.judges.rules.registry import GRADERS  # noqa: E402
from tests.judges.rules import corpus, test_corpus  # noqa: E402

SAY = Console(markup=False, highlight=False, soft_wrap=True, width=200).print
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
    found = {"lm-eval": _by_lm_eval, "math-verify": _by_math_verify}[name]

    def read(case: corpus.Case) -> corpus.Outcome:
        says = found(case)
        if not case.says:
            return corpus.Outcome.SILENT if says is None else corpus.Outcome.INVENTED
        return {None: corpus.Outcome.ABSTAINED, True: corpus.Outcome.RIGHT, False: corpus.Outcome.WRONG}[says]

    return read


def _by_math_verify(case: corpus.Case) -> bool | None:
    from math_verify import parse, verify  # noqa: PLC0415

    said = parse(case.reply)
    return bool(verify(parse(f"${case.question.reference or 0}$"), said)) if said else None


def _by_lm_eval(case: corpus.Case) -> bool | None:
    """The flexible extraction of its GSM8K for numbers and MATH, and the one of its MMLU-Pro for letters."""
    from lm_eval.filters.extraction import RegexFilter  # noqa: PLC0415

    letters = case.grader == "mcq"
    pattern = r"answer is \(?([ABCDEFGHIJ])\)?" if letters else r"(-?[$0-9.,]{2,})|(-?[0-9]+)"
    extract = RegexFilter(pattern, group_select=0 if letters else -1)
    said = extract.apply([[case.reply]], [{}])[0][0]
    if said == "[invalid]":
        return None
    return re.sub(r"[,$]|\.$", "", said) == re.sub(r"[,$]", "", case.question.reference)


def _share(count: int, total: int) -> str:
    if not total:
        return "-"
    low, high = corpus.exact_interval(count, total)
    return f"{count / total:.1%} ({low:.1%}-{high:.1%})"


def main() -> None:
    """Print the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--half", choices=("tuning", "measuring", "fresh"), help="only one file of the project's corpus"
    )
    options.add_argument("--real", type=Path, help="the folder with real replies")
    options.add_argument("--other", action="store_true", help="lm-eval and math-verify as well")
    chosen = options.parse_args()
    halves = (chosen.half,) if chosen.half else ("tuning", "measuring", "fresh")
    files = {half: corpus.FOLDER / f"{half}.jsonl" for half in halves}
    if chosen.real:
        files["adversarial"] = chosen.real / "graders" / "replies.jsonl"
    for name, path in files.items():
        table(name, corpus.cases(path))
        for other in ("lm-eval", "math-verify") if chosen.other else ():
            known = ("numeric", "math") if other == "math-verify" else ("numeric", "math", "mcq")
            table(f"{name}, {other}", [case for case in corpus.cases(path) if case.grader in known], library(other))
    if chosen.real:
        _real(chosen.real)
    SAY("\nby form, of the replies that nobody tuned on (`sql/reports/graders.sql` has this table)")
    for form, (read, wrong) in corpus.errors_by_form().items():
        SAY(f"    ('{form}', {read}, {wrong}, {corpus.exact_interval(wrong, read, 0.9)[1]:.3f}),")


def _real(folder: Path) -> None:
    """Print how real replies and published answers are graded."""
    for dataset, rule in test_corpus.RULES.items():
        reviewed = [case for case in test_corpus.cases(folder) if case["dataset"] == dataset]
        found: Counter[str] = Counter()
        for case in reviewed:
            if case["reviewed_correct"] is not None:
                correct = GRADERS[rule].grade(case["response_text"], test_corpus.asked(case)).correct
                found["abstained" if correct is None else str(correct is case["reviewed_correct"])] += 1
        SAY(
            f"{dataset}, reviewed replies: agree {found['True']}, abstain {found['abstained']}, differ {found['False']}"
        )
    rows = [json.loads(line) for line in (folder / "ensemble" / "public" / "math500_jianzhnie.jsonl").open()]
    for form in ("<>", "$<>$", "\\boxed{<>}", "Answer: <>"):
        items = [GradedQuestion(re.sub(r"\nPlease reason step.*", "", row["prompt"]), row["answer"]) for row in rows]
        right = [GRADERS["rule:math"].grade(form.replace("<>", item.reference), item).correct for item in items]
        SAY(f"MATH-500 references as {form}: {dict(Counter(right))}")


if __name__ == "__main__":
    main()
