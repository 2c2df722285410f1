"""How right `unfinished` is on labelled answers, with sampling weights, by sample and model family, as Markdown.

Labels are ids of answers of the corpus, which `SHABERI_CORPUS` names. The table of docs/design/passes.md is its output.

    SHABERI_CORPUS=… python perf/pass_labels.py
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from shaberi_dagster.passes.format_validation import FormatValidation, FormatValidationConfig
from tests.passes.test_repetition_corpus import labels_of, real_answers
from tests.passes.weighted import Label, rates


def main() -> None:
    """Print the table."""
    labels = labels_of("unfinished")
    one = FormatValidation(FormatValidationConfig())
    found = {
        key for key, answer in real_answers(labels).items() if "unfinished" in one.examine(answer).details["violations"]
    }

    def is_found(label: Label) -> bool:
        return (label["question_id"], label["answer_hash"]) in found

    print("| sample | family | answers | right | wrong | missed | precision | recall |")  # noqa: T201
    print("|---|---|---|---|---|---|---|---|")  # noqa: T201
    for sample in ("first", "second"):
        of_sample = [label for label in labels if label["sample"] == sample]
        for family in ("all", *sorted({label["family"] for label in of_sample})):
            own = [label for label in of_sample if family in {"all", label["family"]}]
            got = rates(own, lambda label: label["unfinished"], is_found)
            shares = ["" if share is None else f"{share:.3f}" for share in (got.precision, got.recall)]
            cells = [sample, family, got.answers, got.right, got.wrong, got.missed, *shares]
            print(f"| {' | '.join(map(str, cells))} |")  # noqa: T201


if __name__ == "__main__":
    main()
