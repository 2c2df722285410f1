"""Which answers of a model are one run: those of one tree that were judged together.

A judgement says which text it judged, and that text is not always the stored answer. A *group* is a set of answers
that nothing in it contradicts: one answer for each sample. A judge's files in all benchmarks belong together, so that
each of its averages is the average of one run; the group that they join is one that none of them contradicts.
"""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shaberi_dagster.llm.thinking import split_thinking
from shaberi_dagster.util.identity import sha256_text

# What the legacy suite removed before judging since 2025-06-19: complete blocks only.
_OPENING = re.compile(r"<(?:think|thinking|reason)>", re.IGNORECASE)
_CLOSING = re.compile(r"</(?:think|thinking|reason)>", re.IGNORECASE)

SampleKey = tuple[str, str, int]
"""Benchmark, question id, and which of a file's rows of this question (0 is the first)."""


class Missing:
    """In the place of a hash: there is no such text, where None is the hash of an answer that is null."""


MISSING = Missing()
TextHash = str | None | Missing


class Sample(NamedTuple):
    """One answer of a group.

    Attributes:
        stored: Hash of the text in an answer file.
        judged: Hash of the text that was judged.
    """

    stored: TextHash = MISSING
    judged: TextHash = MISSING

    def with_(self, other: "Sample", forms: "JudgedForms") -> "Sample | None":
        """Both as one answer; None if they contradict each other."""
        if any(one is not MISSING and two is not MISSING and one != two for one, two in zip(self, other, strict=True)):
            return None
        merged = Sample(*(two if one is MISSING else one for one, two in zip(self, other, strict=True)))
        # Most were judged as they are, and need no look at the text.
        agree = MISSING in merged or merged.judged == merged.stored or merged.judged in forms.of(merged.stored)
        return merged if agree else None


class JudgedForms:
    """What can have been judged of stored texts, by their hashes.

    Args:
        text_of: The text of a hash.
    """

    def __init__(self, text_of: Callable[[str], str]) -> None:
        self._text_of = text_of
        self._known: dict[TextHash, frozenset[TextHash]] = {None: frozenset({None, sha256_text("")})}

    def of(self, stored: TextHash) -> frozenset[TextHash]:
        """The hashes of the texts that a judge can have got."""
        if stored not in self._known and isinstance(stored, str):
            text = self._text_of(stored)
            others = judged_texts(text) - {text}
            self._known[stored] = frozenset({stored, *map(sha256_text, others)})
        return self._known[stored]


@dataclass
class Group:
    """Answers that belong together.

    Attributes:
        samples: The answers.
        question_sets: For each benchmark the set that they answer, perhaps in part.
        members: The files' parts in it, in the order in which they were added: content and benchmark of each.
    """

    samples: dict[SampleKey, Sample]
    question_sets: dict[str, str]
    members: list[tuple[Hashable, str]] = field(default_factory=list)

    def take(self, new: "Group", samples: Mapping[SampleKey, Sample], question_sets: Mapping[str, str]) -> None:
        """Become both groups, with these samples and question sets of the other one."""
        self.samples.update(samples)
        self.question_sets.update(question_sets)
        self.members += new.members


@dataclass(frozen=True)
class FilePart:
    """A file's rows of one benchmark.

    Attributes:
        content: Which file.
        judge: Whose judgements; None for answers.
        benchmark: The benchmark.
        group: The answers in it.
    """

    content: Hashable
    judge: str | None
    benchmark: str
    group: Group


def part_of(
    content: Hashable, judge: str | None, benchmark: str, question_set: str, texts: Mapping[tuple[str, int], str | None]
) -> FilePart:
    """A part by the hashes of its texts, which are by question and occurrence."""
    samples = {
        (benchmark, *key): Sample(stored=text) if judge is None else Sample(judged=text) for key, text in texts.items()
    }
    return FilePart(content, judge, benchmark, Group(samples, {benchmark: question_set}, [(content, benchmark)]))


class Grouping:
    """Puts parts together.

    Args:
        questions: The ids of a set's questions by its name.
        forms: What can have been judged.
    """

    def __init__(self, questions: Mapping[str, frozenset[str]], forms: JudgedForms) -> None:
        self._questions, self._forms = questions, forms

    def groups(self, parts: Sequence[FilePart]) -> list[Group]:
        """The runs that one tree's files of one model are.

        Args:
            parts: In the order of precedence; answers first.
        """
        by_judge: dict[str | None, list[Group]] = {}
        for part in parts:
            self._place(part.group, by_judge.setdefault(part.judge, []))
        groups: list[Group] = []
        for of_judge in by_judge.values():
            for group in of_judge:
                self._place(group, groups)
        self._share([part for part in parts if part.judge is None], groups)
        return groups

    def _share(self, stored: Sequence[FilePart], groups: Sequence[Group]) -> None:
        """Let stored answers be of all the groups in which they were judged."""
        for group in groups:
            for part in stored:
                if (
                    part.benchmark in group.question_sets
                    and (part.content, part.benchmark) not in group.members
                    and (merged := self._merged(group, part.group))
                ):
                    group.take(part.group, *merged[1:])

    def _place(self, new: Group, groups: list[Group]) -> None:
        """Add it to the group that it has most in common with, of those that it does not contradict."""
        fitting = [merged for merged in (self._merged(group, new) for group in groups) if merged]
        if not fitting:
            groups.append(Group(dict(new.samples), dict(new.question_sets), list(new.members)))
            return
        group, samples, sets = max(fitting, key=lambda merged: len(merged[0].samples.keys() & new.samples.keys()))
        group.take(new, samples, sets)

    def _merged(self, group: Group, new: Group) -> tuple[Group, dict[SampleKey, Sample], dict[str, str]] | None:
        """The group, and what it would have to take over; None if there is a contradiction."""
        samples = {}
        for key, sample in new.samples.items():
            own = group.samples.get(key)
            if own is not None and own.judged == sample.judged and sample.stored is MISSING:
                continue  # most of them
            merged = own.with_(sample, self._forms) if own else sample
            if merged is None:
                return None
            samples[key] = merged
        sets = {}
        for benchmark, name in new.question_sets.items():
            chosen = self._set_of(benchmark, name, group, new)
            if chosen is None:
                return None
            sets[benchmark] = chosen
        return group, samples, sets

    def _set_of(self, benchmark: str, name: str, group: Group, new: Group) -> str | None:
        """The question set of both; None if neither set has the questions of the other."""
        own = group.question_sets.get(benchmark)
        if own is None or own == name:
            return name
        if _asked(new, benchmark) <= self._questions[own]:
            return own
        return name if _asked(group, benchmark) <= self._questions[name] else None


def _asked(group: Group, benchmark: str) -> set[str]:
    return {question_id for of_benchmark, question_id, _ in group.samples if of_benchmark == benchmark}


def judged_texts(raw: str) -> set[str]:
    """What a judge can have got of a stored text: the text itself, or without thinking.

    >>> sorted(judged_texts("<think>hm</think>yes"))
    ['<think>hm</think>yes', 'yes']
    """
    found = {raw, split_thinking(raw).answer}
    if "<" in raw:
        legacy = _without_blocks(raw)
        found |= {legacy, legacy.strip()}
    return found


def _without_blocks(text: str) -> str:
    kept, position = [], 0
    while (opening := _OPENING.search(text, position)) and (closing := _CLOSING.search(text, opening.end())):
        kept.append(text[position : opening.start()])
        position = closing.end()
    return "".join(kept) + text[position:]
