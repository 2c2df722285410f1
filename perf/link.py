"""Coverage of a link's interval, and how often the link is granted, in simulated links, as Markdown.

Both rounds of a judge are made of a real one: an answer's score is the stored one in one round, and in the other it
differs as often as scores of the judge did that judged the same 3,200 answers twice (gpt-4.1: 4 % of ELYZA's, 15 % of
Tengu's, 27 % of MT-Bench's, 29 % of Rakuda's). The offset moves some scores of the new round by one step. Models and
questions may also have offsets of their own, which are no part of the truth. The file has the columns judge, model,
benchmark, question_id and score (on the reported scale).
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from shaberi_dagster.statistics.linking import Offset, offsets

CHANGED: Mapping[str, float] = {"elyza": 0.04, "tengu": 0.15, "mt_bench": 0.27, "rakuda": 0.29}
"""Share of scores that a second round changes."""
_STEP: Mapping[str, float] = {"elyza": 2.0, "tengu": 1.0, "mt_bench": 1.0, "rakuda": 1.0}
_TWO_STEPS, _SEED, _MARGIN = 0.15, 20_261_127, 0.2
_FEWEST_QUESTIONS = 300

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Design:
    """A simulated link.

    Attributes:
        offset: The true one.
        n_models: Models.
        n_questions: Questions of each.
        of_models: Standard deviation of the models' own offsets.
        of_questions: Standard deviation of the questions'.
    """

    offset: float
    n_models: int
    n_questions: int
    of_models: float = 0.0
    of_questions: float = 0.0


DESIGNS = [
    *(Design(offset, n_models, 100) for n_models in (8, 5) for offset in (0.0, 0.1, 0.3)),
    *(Design(offset, 8, 100, 0.1, 0.3) for offset in (0.0, 0.3)),
]


def simulated(history: pl.DataFrame, design: Design, generator: np.random.Generator) -> list[Offset]:
    """Return the offsets that a link finds, of models drawn from a history."""
    sizes = history.group_by("model").len().filter(pl.col("len") >= _FEWEST_QUESTIONS)["model"].sort().to_list()
    models = generator.choice(sizes, design.n_models, replace=False).tolist()
    of_models = dict(zip(models, generator.normal(0, design.of_models, len(models)), strict=True))
    of_questions: dict[str, float] = defaultdict(lambda: float(generator.normal(0, design.of_questions)))
    each, parts = design.n_questions // len(CHANGED), []
    chosen = history.filter(pl.col("model").is_in(models)).sort("model", "benchmark", "question_id")
    for (model, benchmark), rows in chosen.partition_by(
        "model", "benchmark", as_dict=True, maintain_order=True
    ).items():
        drawn = rows[np.sort(generator.permutation(rows.height)[:each])]
        own = [of_models[model] + of_questions[question] for question in drawn["question_id"]]
        old, new = rounds(drawn["score"].to_numpy().astype(np.float64), benchmark, design.offset, generator)
        part = drawn.select("benchmark", "model", "question_id").with_columns(old=old, new=new + np.array(own))
        parts.append(part)
    return offsets(pl.concat(parts).sort("benchmark", maintain_order=True))


def rounds(scores: _Floats, benchmark: str, offset: float, generator: np.random.Generator) -> tuple[_Floats, _Floats]:
    """Make two rounds of a judge from one, of which the second is higher by an offset on average."""
    step, n = _STEP[benchmark], len(scores)
    sizes = step * np.where(generator.random(n) < _TWO_STEPS, 2, 1) * generator.choice([-1, 1], n)
    changes = np.where(generator.random(n) < CHANGED[benchmark], sizes, 0)
    in_new = generator.integers(2, size=n) == 1  # neither round is the true one
    return scores + changes * ~in_new, scores + changes * in_new + step * (generator.random(n) < offset / step)


def row(design: Design, found: Sequence[Sequence[Offset]]) -> str:
    """A line of the table: per cent covered and granted, by benchmark."""
    covered, granted, counts = Counter[str](), Counter[str](), Counter[str]()
    for offset in (offset for offsets_of_link in found for offset in offsets_of_link):
        if offset.interval:
            counts[offset.benchmark] += 1
            covered[offset.benchmark] += offset.interval.lower <= design.offset <= offset.interval.upper
            granted[offset.benchmark] += offset.is_granted(_MARGIN)
    slopes = [link[-1].slope_interval for link in found]
    straight = np.mean([bool(slope and slope.lower <= 1 <= slope.upper) for slope in slopes])
    cells = [f"{100 * share[name] / counts[name]:.1f}" for share in (covered, granted) for name in counts]
    about = (design.offset, design.n_models, design.n_questions, design.of_models, design.of_questions)
    return f"| {' | '.join(map(str, about))} | {' | '.join(cells)} | {100 * straight:.1f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("history", type=Path, help="Parquet file of scores")
    parser.add_argument("--judge", default="gpt-4.1-2025-04-14")
    parser.add_argument("--repeats", type=int, default=2000, help="links of each design")
    arguments = parser.parse_args()
    history = pl.read_parquet(arguments.history).filter(judge=arguments.judge)
    names = ["elyza", "mt_bench", "rakuda", "tengu", "overall"]
    titles = ["offset", "models", "questions", "sd of models", "sd of questions"]
    titles += [f"{what} {name}" for what in ("covered", "granted") for name in names] + ["slope 1 covered"]
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")  # noqa: T201
    for design in DESIGNS:
        generator = np.random.default_rng(_SEED)
        print(row(design, [simulated(history, design, generator) for _ in range(arguments.repeats)]), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
