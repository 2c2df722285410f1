"""Samples of a question set: the first n of an order that a seed gives all its questions."""

from collections.abc import Iterator
from dataclasses import replace

from shaberi_dagster.tasks.benchmarks.questions import (
    CACHES,
    UNSHUFFLED,
    Question,
    QuestionSet,
    content_sha256,
    set_name_of,
)
from shaberi_dagster.tasks.benchmarks.registry import DEFAULT_SEED, SampleOrder
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import sha256_text

_MASK = 0xFFFFFFFF


def sample_questions(
    question_set: QuestionSet, n: int, seed: int = DEFAULT_SEED, order: SampleOrder = "pinned"
) -> QuestionSet:
    """The first n questions of the seed's order, as a set of their own.

    A larger sample begins with the smaller one. Their positions are those in the sample, so that a run's `--limit` is
    the smaller sample too.

    Args:
        question_set: All questions.
        n: How many, from 1; all there are where there are fewer, which is the set itself.
        seed: Names the order.
        order: `pinned` depends on nothing but the seed and the questions' own texts. `mulberry32` is the original
            ensemble evaluation's, and depends on how many questions the set has and where.

    Raises:
        ConfigurationError: n is not positive.
    """
    if n < 1:
        raise ConfigurationError(f"a sample must have at least 1 question, not {n}")
    if n >= len(question_set.questions):
        return question_set
    ordered = ordered_questions(question_set, seed, order)[:n]
    questions = tuple(replace(question, position=position) for position, question in enumerate(ordered, start=1))
    sha256 = content_sha256(questions)
    name = set_name_of(question_set.benchmark, n, sha256)
    if question_set.name.endswith(UNSHUFFLED):
        name = f"{name}-{UNSHUFFLED}"
    return replace(question_set, name=name, sha256=sha256, questions=questions)


def ordered_questions(
    question_set: QuestionSet, seed: int = DEFAULT_SEED, order: SampleOrder = "pinned"
) -> list[Question]:
    """Put all questions into the seed's order; see `sample_questions`."""
    if order == "pinned":
        return sorted(question_set.questions, key=lambda question: sha256_text(f"{seed}:{question.question_id}"))
    if question_set.source == CACHES and seed == DEFAULT_SEED:
        return list(question_set.questions)
    # Positions without a question are those of repeats, which the original did ask.
    by_position = {question.position: question for question in question_set.questions}
    shuffled = shuffled_indexes(max(by_position), seed)
    return [by_position[index + 1] for index in shuffled if index + 1 in by_position]


def shuffled_indexes(count: int, seed: int = DEFAULT_SEED) -> list[int]:
    """0 to count - 1 as Fisher and Yates shuffle them from the end, with mulberry32's numbers."""
    indexes, numbers = list(range(count)), mulberry32(seed)
    for last in range(count - 1, 0, -1):
        chosen = int(next(numbers) * (last + 1))
        indexes[last], indexes[chosen] = indexes[chosen], indexes[last]
    return indexes


def mulberry32(seed: int) -> Iterator[float]:
    """Numbers from 0 to 1, without 1, of Tommy Ettinger's generator mulberry32 (public domain, 2017).

    Its arithmetic is that of unsigned 32-bit integers.
    """
    state = seed & _MASK
    while True:
        state = (state + 0x6D2B79F5) & _MASK
        mixed = ((state ^ state >> 15) * (state | 1)) & _MASK
        mixed ^= (mixed + (mixed ^ mixed >> 7) * (mixed | 61)) & _MASK
        yield (mixed ^ mixed >> 14) / 2**32
