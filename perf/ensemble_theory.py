"""Whether `quick-eval` measures what is true: single, plurality and oracle of a model of which that is known.

    python perf/ensemble_theory.py                       1,000 questions x 5 samples, right with probability 0.7
    python perf/ensemble_theory.py --p 0.4 --n 7
    python perf/ensemble_theory.py --base-url http://127.0.0.1:8100/v1 --model mock-qa@p_correct:0.7

The endpoint is `tests/mock_endpoint.py` with a script, or any other one that answers a prompt with `[[truth:NUMBER]]`
by `ANSWER: NUMBER` with probability p and else by one of the next 9 numbers, each call independent of all others. Exit
code 1 when a figure's 95 % interval does not have the true value in it, which chance alone does to each 5 times of 100.
"""

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.mock_endpoint import running_mock  # noqa: E402  (found through the line above)

WRONG = 9  # different wrong answers, all equally likely
_MARK = "[[truth:"


def plurality_theory(p: float, n: int, wrong: int = WRONG) -> float:
    """How often the most frequent of n independent answers is right.

    The right answer is given with probability p, each wrong one with (1-p)/wrong. Of equally frequent answers the first
    one stands; given how often each was given all orders are equally likely, so each of k is the first in 1/k of them.
    """
    total = 0.0
    for answers in combinations_with_replacement(range(wrong + 1), n):  # 0 is right
        counts = Counter(answers)
        orders = math.factorial(n) / math.prod(math.factorial(count) for count in counts.values())
        probability = orders * p ** counts[0] * ((1 - p) / wrong) ** (n - counts[0])
        most = max(counts.values())
        if counts[0] == most:
            total += probability / sum(count == most for count in counts.values())
    return total


def scripted(p: float, seed: int) -> Callable[[dict[str, Any], int], str]:
    """A model that is right with probability p, by a hash of the question and of how often it was asked."""
    asked: Counter[str] = Counter()

    def reply(body: dict[str, Any], _: int) -> str:
        prompt = str(body["messages"][-1]["content"])
        truth = int(prompt[prompt.rindex(_MARK) + len(_MARK) :].split("]", 1)[0])
        asked[prompt] += 1
        digest = hashlib.sha256(f"{seed} {prompt} {asked[prompt]}".encode()).digest()
        right = int.from_bytes(digest[:8], "big") < p * 2**64
        return f"ANSWER: {truth if right else truth + 1 + int.from_bytes(digest[8:16], 'big') % WRONG}"

    return reply


@contextmanager
def endpoint(arguments: argparse.Namespace) -> Iterator[str]:
    """The base URL of the model."""
    if arguments.base_url:
        yield arguments.base_url
        return
    with running_mock(script=scripted(arguments.p, arguments.seed)) as mock:
        yield mock.base_url


def measured(arguments: argparse.Namespace, base_url: str) -> tuple[dict[str, Any], float]:
    """What `quick-eval --json` says, and how many seconds it took."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        rows = [
            {
                "question": f"What is {k} plus {arguments.seed}? {_MARK}{k + arguments.seed}]]",
                "reference": str(k + arguments.seed),
            }
            for k in range(1000, 1000 + arguments.questions)
        ]
        (folder / "gsm8k.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        command = [
            *(str(Path(sys.executable).parent / "quick-eval"), "--model", arguments.model, "--base-url", base_url),
            *("--datasets", "gsm8k", "--sample", "all", "--questions", scratch, "--ensemble", str(arguments.n)),
            *("--strategy", "plurality", "--judge-model", "none", "--json"),
        ]
        own = {"SHABERI_WAREHOUSE": str(folder / "warehouse"), "DAGSTER_HOME": str(folder / "dagster")}
        started = time.perf_counter()
        finished = subprocess.run(command, env=os.environ | own, stdout=subprocess.PIPE, check=True)  # noqa: S603
        return json.loads(finished.stdout), time.perf_counter() - started


def main() -> int:
    """Measure, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--n", type=int, default=5, help="samples of each question")
    parser.add_argument("--p", type=float, default=0.7, help="probability of a right answer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="mock-model")
    parser.add_argument("--base-url", help="another endpoint")
    arguments = parser.parse_args()
    with endpoint(arguments) as base_url:
        document, seconds = measured(arguments, base_url)
    p, n = arguments.p, arguments.n
    (benchmark,) = document["benchmarks"]
    found = {one["strategy"]: one for one in benchmark["results"]} | {"oracle": benchmark["oracle"]}
    theory = {"single": p, "samples": p, "plurality": plurality_theory(p, n), "oracle": 1 - (1 - p) ** n}
    table = Table(
        title=f"{arguments.questions} questions x {n} samples, p = {p:g}, seed {arguments.seed}; {seconds:.0f} s"
    )
    for title in ("figure", "true", "measured", "95 % interval", "within"):
        table.add_column(title, justify="left" if title == "figure" else "right")
    missed = 0
    for name, true in theory.items():
        one = found[name]
        low, high = one["interval"]["lower"], one["interval"]["upper"]
        missed += not low <= true <= high
        within = "yes" if low <= true <= high else "NO"
        table.add_row(name, f"{true:.4f}", f"{one['accuracy']:.4f}", f"{low:.4f} to {high:.4f}", within)
    Console().print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
