"""How right a pass is on labelled answers, with sampling weights, by sample and model family, as Markdown.

A label is one JSON object a line: `question_id` and `answer_hash` (sha256), `family` and `sample` (rows of the table),
`weight` (how many answers it stands for), and under the fault's name whether a reader sees it. The answers are those of
the corpus, which `SHABERI_CORPUS` names. The tables of docs/design/passes.md are its output; intervals are of 95 %.

    SHABERI_CORPUS=… python perf/pass_labels.py unfinished tests/passes/unfinished_labels.jsonl
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from shaberi_dagster.passes.base import Answer
from shaberi_dagster.passes.format_validation import FormatValidation, FormatValidationConfig
from shaberi_dagster.passes.lang_mixing import LangMixing, LangMixingConfig
from shaberi_dagster.passes.repetition import Repetition, RepetitionConfig
from tests.passes.labelled import Label, key_of, labels_in, real_answers
from tests.passes.weighted import Share, rates

_FORMAT = FormatValidation(FormatValidationConfig())
_LANGUAGE = LangMixing(LangMixingConfig())
_REPETITION = Repetition(RepetitionConfig())
FAULTS: dict[str, Callable[[Answer], bool]] = {
    "unfinished": lambda answer: "unfinished" in _FORMAT.examine(answer).details["violations"],
    "repetition": lambda answer: _REPETITION.examine(answer).severity > 0,
    "lang_mixing": lambda answer: _LANGUAGE.examine(answer).severity > 0,
}
"""Whether today's rules find the fault, by its name."""

SAY = Console(markup=False, highlight=False, soft_wrap=True).print


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("labels", type=Path)
    options = parser.parse_args()
    labels = labels_in(options.labels)
    found = {key for key, answer in real_answers(labels).items() if FAULTS[options.fault](answer)}

    def is_faulty(label: Label) -> bool:
        return bool(label[options.fault])

    def is_found(label: Label) -> bool:
        return key_of(label) in found

    SAY("| sample | family | answers | right | wrong | missed | precision | recall |")
    SAY("|---|---|---|---|---|---|---|---|")
    for sample in dict.fromkeys(label["sample"] for label in labels):
        of_sample = [label for label in labels if label["sample"] == sample]
        for family in ("all", *sorted({label["family"] for label in of_sample})):
            own = [label for label in of_sample if family in {"all", label["family"]}]
            got = rates(own, is_faulty, is_found)
            shares = [_shown(share) for share in (got.precision, got.recall)]
            cells = [sample, family, got.answers, got.right, got.wrong, got.missed, *shares]
            SAY(f"| {' | '.join(map(str, cells))} |")


def _shown(share: Share | None) -> str:
    if share is None:
        return ""
    return f"{share.value:.3f} ({share.interval.lower:.2f}-{share.interval.upper:.2f})"


if __name__ == "__main__":
    main()
