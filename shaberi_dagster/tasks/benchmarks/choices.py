"""Options of multiple-choice questions: put in an order of each question's own, and written into its text."""

import re
import string
from dataclasses import dataclass

from shaberi_dagster.util.identity import sha256_json, sha256_text

LETTERS = string.ascii_uppercase
"""Options are lettered in the order in which they are shown."""

_REFERS_BY_PLACE = re.compile(r"\b(?:of|the) above\b", re.IGNORECASE)


@dataclass(frozen=True)
class Choices:
    """A multiple-choice question as its source has it.

    Attributes:
        stem: The question without its options.
        options: In the source's order.
        right: Index of the right one.
        around: The text before each option, without the stem, and the text after the last: one more than options.
    """

    stem: str
    options: tuple[str, ...]
    right: int
    around: tuple[str, ...]

    def shuffled_order(self) -> tuple[int, ...]:
        """Indexes of the options in an order that follows from the question alone.

        Every order is about as likely as any other. Options keep their places where one of them speaks of others
        by place or letter.
        """
        indexes = range(len(self.options))
        if any(self._refers_to_others(option) for option in self.options):
            return tuple(indexes)
        seed = sha256_json([self.stem, self.options])
        return tuple(sorted(indexes, key=lambda index: sha256_text(f"{seed}:{index}")))

    def text(self, order: tuple[int, ...]) -> str:
        """Write what a model is asked, with the options in this order."""
        shown = (self.options[index] for index in order)
        return self.stem + "".join(map("".join, zip(self.around, shown, strict=False))) + self.around[-1]

    def letter(self, order: tuple[int, ...]) -> str:
        """The right option's letter in this order."""
        return LETTERS[order.index(self.right)]

    def _refers_to_others(self, option: str) -> bool:
        """Return whether it is one like `None of the above` or `Both A and C`."""
        letter = f"[A-{LETTERS[len(self.options) - 1]}]"
        by_letter = rf"\b{letter}(?:,|\s?&|\s(?:and|or|nor)) {letter}\b"
        return bool(_REFERS_BY_PLACE.search(option) or re.search(by_letter, option))
