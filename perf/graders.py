"""How the rules and other tools' extractors read the same replies: right, abstained, wrong, and answers out of nothing.

    python perf/graders.py                            the project's own corpus, tuning half and measuring half
    python perf/graders.py --real FOLDER              real replies as well; FOLDER is what SHABERI_CORPUS names
    python perf/graders.py --real FOLDER --other      and what lm-eval and math-verify make of all of them

Only counts are printed, with exact intervals of 95 % (Clopper-Pearson). lm-eval and math-verify are no dependencies of
this project: install them into an environment of their own, with this project, for `--other`. simple-evals is on no
package index and is left out.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.grading import corpus  # noqa: E402  (found through the line above)

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


def _share(count: int, total: int) -> str:
    if not total:
        return "-"
    low, high = corpus.exact_interval(count, total)
    return f"{count / total:.1%} ({low:.1%}-{high:.1%})"


def main() -> None:
    """Print the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--half", choices=("tuning", "measuring"), help="only one half of the project's corpus")
    options.add_argument("--real", type=Path, help="the folder with real replies")
    options.add_argument("--other", action="store_true", help="lm-eval and math-verify as well")
    chosen = options.parse_args()
    for half in (chosen.half,) if chosen.half else ("tuning", "measuring"):
        table(half, corpus.cases(corpus.FOLDER / f"{half}.jsonl"))
    if chosen.real:
        table("adversarial", corpus.cases(chosen.real / "graders" / "replies.jsonl"))


if __name__ == "__main__":
    main()
