"""How the mathematical rule and the library math-verify read the same answers: right, wrong, abstained, time.

    python perf/graders.py CORPUS                     ours: the published references in every reply form, real answers
    uv run --with math-verify python perf/graders.py CORPUS --other    the library as well

CORPUS is the folder that `SHABERI_CORPUS` names. math-verify is no dependency of this project; `docs/design/grading.md`
says why. Its time-outs are signals, so it can only be run in a main thread.
"""

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from shaberi_dagster.judges.rules.base import GradedQuestion  # noqa: E402  (found through the line above)
from shaberi_dagster.judges.rules.maths import MathGrader  # noqa: E402
from tests.judges.rules import test_latex  # noqa: E402
from tests.judges.rules.reply_forms import KEPT, SEEN, filled  # noqa: E402
from tests.judges.rules.test_corpus import asked, cases  # noqa: E402

SAY = Console(markup=False, highlight=False, soft_wrap=True).print
Grade = Callable[[str, GradedQuestion], bool | None]
Same = Callable[[str, str], bool]


def library() -> tuple[Grade, Same]:
    """math-verify as a grader and as a comparison; what it cannot parse is an abstention."""
    from math_verify import parse, verify  # noqa: PLC0415

    def grade(answer: str, item: GradedQuestion) -> bool | None:
        said = parse(answer.rpartition("</think>")[2])
        return bool(verify(parse(f"${item.reference}$"), said)) if said else None

    return grade, lambda first, second: bool(verify(parse(f"${first}$"), parse(f"${second}$")))


def report(name: str, corpus: Path, grade: Grade, same: Same) -> None:
    """Print what one of them makes of everything."""
    lines = (corpus / "ensemble" / "public" / "math500_jianzhnie.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    items = [GradedQuestion(re.sub(r"\nPlease reason step.*", "", row["prompt"]), row["answer"]) for row in rows]
    for kind, forms in (("forms seen", SEEN), ("forms kept away", KEPT)):
        for half in (0, 1):
            found = Counter(
                grade(filled(form, item.reference), item) for form in forms.values() for item in items[half::2]
            )
            SAY(f"{name}: {kind}, references {('seen', 'kept away')[half]}: {dict(found)}")
    reviewed = [case for case in cases(corpus) if case["dataset"] == "math500" and case["reviewed_correct"] is not None]
    before = time.process_time()
    found = Counter((grade(case["response_text"], asked(case)), case["reviewed_correct"]) for case in reviewed)
    spent = (time.process_time() - before) / len(reviewed)
    SAY(f"{name}: real answers (verdict, reviewed): {dict(found)}; {1000 * spent:.1f} ms each")
    for wanted, test in (
        (True, test_latex.test_these_mean_the_same),
        (False, test_latex.test_these_mean_different_things),
    ):
        pairs = test.pytestmark[0].args[1]
        failed = [
            pair for first, second in pairs for pair in ((first, second), (second, first)) if same(*pair) != wanted
        ]
        meaning = "the same" if wanted else "different things"
        SAY(f"{name}: pairs that mean {meaning}: {len(failed)} of {2 * len(pairs)} wrong")


def main() -> None:
    """Print the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("corpus", type=Path)
    options.add_argument("--other", action="store_true", help="math-verify as well")
    chosen = options.parse_args()
    ours = MathGrader()
    report("ours", chosen.corpus, lambda answer, item: ours.grade(answer, item).correct, ours.same)
    if chosen.other:
        report("math-verify", chosen.corpus, *library())


if __name__ == "__main__":
    main()
